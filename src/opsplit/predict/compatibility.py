"""Whether a model fits data: the one answer, as codes for programs and sentences for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from opsplit._tensors import usual_defaults
from opsplit.dictionary import MAX_STRENGTH, OperatorDictionary, lifted_family
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.io.read import read
from opsplit.io.recording import Recording
from opsplit.model import lifted_config
from opsplit.operators import Spectral
from opsplit.predict.units import Freedom
from opsplit.search import Composition, SearchResult
from opsplit.trajectories import Trajectories

FACTOR = 4.0
"""Strengths go up to four, so flows and coefficients up to four times as large are known ground."""
CLOSE = 1.01
"""Spacings whose ratio is smaller than this are equal."""


class Code(StrEnum):
    """What an issue is about."""

    NDIM = "ndim"
    LIFTED = "lifted"
    CHANNEL_COUNT = "channel-count"
    CHANNEL_NAMES = "channel-names"
    CHANNEL_ORDER = "channel-order"
    BOUNDARY = "boundary"
    WALLS = "walls"
    SYMMETRY = "symmetry"
    DT_UNKNOWN = "dt-unknown"
    EXTENT_GUESSED = "extent-guessed"
    SPACING = "spacing"
    EXTENT = "extent"
    DT = "dt"
    AMPLITUDE = "amplitude"
    COEFFICIENT = "coefficient"
    RESAMPLED = "resampled"
    WEAK_OPERATORS = "weak-operators"
    ALIKE = "alike"
    SIGN = "sign"
    UNCERTAIN = "uncertain"
    MEMORY = "memory"
    STILL = "still"
    HOLES = "holes"
    FRONTS = "fronts"


class Severity(StrEnum):
    """Whether a model can be used in spite of an issue."""

    BLOCKS = "blocks"
    NOTE = "note"


UNLIKE = frozenset(
    {
        Code.WALLS,
        Code.EXTENT_GUESSED,
        Code.SPACING,
        Code.EXTENT,
        Code.DT,
        Code.AMPLITUDE,
        Code.COEFFICIENT,
        Code.WEAK_OPERATORS,
        Code.ALIKE,
        Code.STILL,
        Code.FRONTS,
    }
)
"""Issues that make data unlike those a model was calibrated on: intervals no longer hold."""


@dataclass(frozen=True)
class Issue:
    """One reason why a model does not fit data, or what to mind if it does.

    Examples:
        >>> import opsplit
        >>> config = opsplit.load_model("gray-scott").config
        >>> line = opsplit.get_physics("advection-diffusion").generate("A+D", 1, seed=0, frames=4)
        >>> opsplit.compatibility(config, opsplit.read(line))[0].blocks
        True
    """

    code: Code
    severity: Severity
    text: str
    """One sentence, with numbers."""

    @property
    def blocks(self) -> bool:
        """Whether the model cannot be used on these data."""
        return self.severity is Severity.BLOCKS

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@usual_defaults()
def compatibility(config: ModelConfig, data: Recording | Trajectories) -> list[Issue]:
    """All issues between a model and data; the model can be used if none of them blocks.

    Only the configuration of the model is needed, not its weights.

    Returns:
        The issues; an empty list if the data are like those of the training.

    Raises:
        OpsplitError: if the data cannot be read.

    Examples:
        >>> import opsplit
        >>> physics = opsplit.get_physics("advection-diffusion")
        >>> data = opsplit.read(physics.generate("A+D", 1, seed=0, frames=16))
        >>> opsplit.compatibility(opsplit.load_model("advection-diffusion").config, data)
        []
    """
    recording = data if isinstance(data, Recording) else read(data)
    ndim, issues = recording.grid.ndim, []
    if ndim > config.ndim and (family := lifted_family(config.operator, ndim)) is not None:
        issues = [lifted_issue(config, ndim)]
        config = lifted_config(config, ndim, family)
    issues += _refusals(config, recording)
    if not any(issue.blocks for issue in issues):
        issues += _notes(config, recording)
    return issues


def refuse(issues: Sequence[Issue], source: str = "") -> None:
    """Raise the first issue that blocks."""
    for issue in issues:
        if issue.blocks:
            more = " `opsplit describe` names the models that fit." * (issue.code == Code.NDIM)
            raise OpsplitError((f"{source}: {issue}" if source else str(issue)) + more)


def _refusals(config: ModelConfig, recording: Recording) -> list[Issue]:
    found = []

    def say(code: Code, text: str, severity: Severity = Severity.BLOCKS) -> None:
        found.append(Issue(code, severity, text))

    grid = recording.grid
    if "dt" in recording.guessed:
        say(
            Code.DT_UNKNOWN,
            "Nothing says the time between frames; add --dt 0.1 (in Python dt=0.1 or "
            "times=[0, 0.1, 0.25]).",
        )
    if grid.ndim != config.ndim:
        say(
            Code.NDIM,
            f"The model knows {config.ndim}-D fields, these are {grid.ndim}-D.",
        )
    held, known = recording.channels, tuple(config.channels)
    if len(held) != len(known):
        say(
            Code.CHANNEL_COUNT,
            f"The model knows {len(known)} channel(s) ({', '.join(known)}), the data have "
            f"{len(held)} ({', '.join(held)}).",
        )
    elif held != known and set(held) != set(known):
        # A name of the model at the place of another one is a mistake, not another convention.
        moved = [
            name for name, own in zip(held, known, strict=True) if name in known and name != own
        ]
        if moved:
            say(
                Code.CHANNEL_NAMES,
                f"The data have the channels {', '.join(held)}, the model {', '.join(known)}; "
                f"rename them, or choose them with channels {','.join(known)}.",
            )
    walls = tuple(config.grid.boundary)
    same = grid.ndim == config.ndim
    if same and "boundary" in recording.known and tuple(grid.boundary) != walls:
        say(
            Code.BOUNDARY,
            f"The data have the boundaries {', '.join(grid.boundary)}, the model "
            f"{', '.join(walls)}; say boundary {walls[0]} if the data are wrong.",
        )
    return found


def _notes(config: ModelConfig, recording: Recording) -> list[Issue]:
    held, known = recording.channels, tuple(config.channels)
    found = {}
    if set(held) == set(known) and held != known:
        found[Code.CHANNEL_ORDER] = (
            f"The channels {', '.join(held)} enter the model in its own order, "
            f"{', '.join(known)}; the forecast has yours."
        )
    elif held != known and held != unnamed(len(held)):
        found[Code.CHANNEL_NAMES] = (
            f"The channels {', '.join(held)} are taken for the model's {', '.join(known)}, "
            "in this order."
        )
    if "extent" in recording.guessed:
        found[Code.EXTENT_GUESSED] = recording.guessed["extent"]
    return [Issue(code, Severity.NOTE, text) for code, text in found.items()]


def unlike_training(
    config: ModelConfig, grid: Grid, dt: float, size: float, freedom: Freedom
) -> list[Issue]:
    """Notes on data far from those of the training, where no unit brings them nearer.

    Arguments:
        grid: where the operators act.
        dt: time between frames.
        size: standard deviation of the fields. All in the units of the operators.
        freedom: which units could be chosen.
    """
    found, trained = {}, config.grid
    if not freedom.length:
        if not config.operator.grid_bound and not _close(grid.spacing, trained.spacing, FACTOR):
            found[Code.SPACING] = (
                f"The points are {grid.spacing[0]:.4g} apart; the model was trained at a spacing "
                f"of {trained.spacing[0]:.4g}, {ratio(grid.spacing[0], trained.spacing[0])}."
            )
        if not _close(grid.extent, trained.extent, FACTOR):
            found[Code.EXTENT] = (
                f"The box has a length of {grid.extent[0]:.4g}; the model was trained on "
                f"{trained.extent[0]:.4g}, {ratio(grid.extent[0], trained.extent[0])}."
            )
    if not freedom.orders and not _close([dt], [config.dt], FACTOR):
        found[Code.DT] = (
            f"The frames are {dt:.4g} apart; the model was trained on flows of "
            f"{config.dt:.4g}, {ratio(dt, config.dt)}."
        )
    family = config.operator
    linear = isinstance(family, Spectral) and family.nonlinearity is None
    scaled = freedom.amplitude or config.rescale or linear
    if size and not scaled and not _close([size], [config.scale], FACTOR):
        found[Code.AMPLITUDE] = (
            f"The fields have a size of {size:.4g}; those the model was trained on "
            f"{config.scale:.4g}, {ratio(size, config.scale)}."
        )
    why = " Nothing is known about the terms that would allow other units."
    return [Issue(code, Severity.NOTE, text + why) for code, text in found.items()]


def beyond_dictionary(dictionary: OperatorDictionary, found: Composition) -> list[Issue]:
    """Coefficients that lie far beyond those of the operators."""
    issues = []
    for name, value in found.coefficients.items():
        # What a dictionary allows as a strength is known ground.
        sizes = abs(dictionary.coefficients[name]) * dictionary.max_strengths / MAX_STRENGTH
        known = float(sizes.max())
        if abs(value) > FACTOR * known > 0:
            words = (
                f"{name} = {value:.4g} lies far beyond the operators of the dictionary, which "
                f"reach {known:.4g}."
            )
            issues.append(Issue(Code.COEFFICIENT, Severity.NOTE, words))
    return issues


def weak_mechanisms(metrics: Mapping[str, Any]) -> list[str]:
    """Mechanisms whose operators training itself calls weak."""
    structure = metrics.get("structure")
    weak = structure.get("weak", []) if isinstance(structure, Mapping) else []
    return [str(name) for name in weak] if isinstance(weak, Sequence) else []


def weak_parts(metrics: Mapping[str, Any], found: SearchResult) -> list[str]:
    """Weak mechanisms that a composition uses: all coefficients of the mechanism are at work.

    Operators without coefficients are always at work.
    """
    active = {name for name, value in found.identified.items() if value} | {"none"}
    return [name for name in weak_mechanisms(metrics) if active.issuperset(name.split("+"))]


def weak_operators(metrics: Mapping[str, Any]) -> list[Issue]:
    """The note on operators that training itself calls weak."""
    weak = weak_mechanisms(metrics)
    if not weak:
        return []
    words = (
        f"The operators of {', '.join(weak)} are weak: in training they left more than "
        "5 % of the change of a step. Do not trust the coefficients."
    )
    return [Issue(Code.WEAK_OPERATORS, Severity.NOTE, words)]


def mixed_operators(metrics: Mapping[str, Any]) -> list[Issue]:
    """The note on operators of several mechanisms that training could not tell apart."""
    structure = metrics.get("structure")
    mixed = structure.get("mixed", []) if isinstance(structure, Mapping) else []
    if not isinstance(mixed, Sequence) or not mixed:
        return []
    words = (
        f"The operators of {', '.join(map(str, mixed))} hold several mechanisms that always acted "
        "together in training: the coefficients are one choice among several."
    )
    return [Issue(Code.ALIKE, Severity.NOTE, words)]


def lifted_issue(config: ModelConfig, ndim: int) -> Issue:
    """The note on operators that act on fields with more axes than they were trained on."""
    how = (
        "along every axis where they have a direction" if config.ndim == 1
        else "as they are, since they have no direction"
    )  # fmt: skip
    words = (
        f"The operators were trained on {config.ndim}-D fields and act on these {ndim}-D ones "
        f"{how}; nothing is calibrated there."
    )
    return Issue(Code.LIFTED, Severity.NOTE, words)


def symmetry_issue(known: OperatorDictionary, kept: OperatorDictionary) -> list[Issue]:
    """The note on operators that walls do not allow."""
    still = {name for name, v in kept.coefficients.items() if v.any()}
    gone = [name for name, v in known.coefficients.items() if v.any() and name not in still]
    if not gone:
        return []
    words = (
        f"The operators of {', '.join(gone)} do not keep the symmetry of the walls and are left "
        "out: they would push the field through a wall."
    )
    return [Issue(Code.SYMMETRY, Severity.NOTE, words)]


def resampled(given: Grid, used: Grid) -> Issue:
    """The note on fields that operators see on another grid."""
    points, own = ("x".join(map(str, grid.shape)) for grid in (given, used))
    words = (
        f"The fields were resampled from {points} to {own} points, the spacing these operators "
        "were trained at; the forecast is on the grid of the data."
    )
    return Issue(Code.RESAMPLED, Severity.NOTE, words)


def unnamed(count: int) -> tuple[str, ...]:
    """What channels are called that nobody named."""
    return ("u",) if count == 1 else tuple(f"u{i}" for i in range(count))


def ratio(value: float, usual: float) -> str:
    """`3.2 times less`, to be read by people."""
    more = value >= usual
    factor = value / usual if more else usual / max(value, 1e-300)
    return f"{factor:.3g} times {'more' if more else 'less'}"


def _close(these: Sequence[float], those: Sequence[float], factor: float) -> bool:
    return all(1 / factor <= a / b <= factor for a, b in zip(these, those, strict=True))
