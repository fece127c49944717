"""`opsplit.describe`: what data hold and which bundled models can take them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opsplit._tensors import public
from opsplit.errors import OpsplitError, no_warnings
from opsplit.hypernetwork.config import ModelConfig
from opsplit.io.assemble import Flags
from opsplit.io.recording import Recording
from opsplit.io.survey import Survey, survey
from opsplit.model import bundled, load_config, locate
from opsplit.predict.auto_model import Ranked
from opsplit.predict.compatibility import Code, Issue, compatibility
from opsplit.predict.door import observe, open_as
from opsplit.predict.ends import ends_of
from opsplit.search import Pursuit

SEAM = 3.0
"""Ends whose jump is so many times the largest between neighbours are not neighbours."""
WINDOW = 16
"""Models are fitted to so many frames."""
SECONDS = 20.0
"""No further model is tried after so long."""


@dataclass(frozen=True)
class Fits:
    """Whether one model can take the data."""

    model: str
    """`name (family)`"""
    issues: tuple[Issue, ...]
    ranked: Ranked | None = None
    """How much of the change it explains, if it was tried."""

    @property
    def fits(self) -> bool:
        return not any(issue.blocks for issue in self.issues)

    def __str__(self) -> str:
        said = " ".join(issue.text for issue in self.issues if issue.blocks or self.fits)
        word = "fits in shape" if self.fits else "does not fit"
        if self.fits and self.ranked is not None and self.ranked.unexplained is not None:
            word = self.ranked.explains
        return f"{self.model} {word}{': ' if said else ''}{said}"

    def without(self, code: Code) -> Fits:
        """The same as if nothing spoke of this."""
        return replace(self, issues=tuple(i for i in self.issues if i.code != code))

    def to_json(self) -> dict[str, Any]:
        known = {"fits": self.fits, "issues": [issue.to_json() for issue in self.issues]}
        return known if self.ranked is None else {**known, "tried": self.ranked.to_json()}


@dataclass(frozen=True)
class Description:
    """What data hold, what was guessed, and which models fit.

    Examples:
        >>> import numpy, opsplit
        >>> found = opsplit.describe(numpy.random.rand(8, 32), dt=0.1, extent=16)
        >>> [fits.model for fits in found.models if fits.fits][0]
        'advection-diffusion (spectral)'
    """

    recording: Recording
    seen: Survey
    models: tuple[Fits, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        recording, seen, grid = self.recording, self.seen, self.recording.grid
        names = ["trajectory", "time", "channel", *"xyz"]
        return {
            "source": recording.source,
            "format": recording.format + (f" ({recording.layout})" if recording.layout else ""),
            "shape": dict(zip(names, recording.shape, strict=False)),
            "understood": list(recording.understood),
            "known": sorted(recording.known),
            "times": _times(recording),
            "grid": {**grid.to_json(), "spacing": list(grid.spacing)},
            "boundary": _boundaries(recording, seen),
            "channels": {
                name: {
                    "min": _number(seen.low[i]),
                    "max": _number(seen.high[i]),
                    "mean": _number(seen.mean[i]),
                    "std": _number(seen.std[i]),
                    "nans": int(seen.nans[i]),
                }
                for i, name in enumerate(recording.channels)
            },
            "frames read": seen.frames,
            "frames": seen.total,
            "missing frames": len(seen.missing),
            "coefficients": {
                k: {"min": float(v.min()), "max": float(v.max())}
                for k, v in recording.coefficients.items()
            },
            "models": {one.model: one.to_json() for one in self.models},
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self.to_json(), self.models))


@public
def describe(
    data: Any,
    *,
    axes: str | Sequence[str] | None = None,
    channels: str | Sequence[str] | None = None,
    dt: float | None = None,
    extent: float | Sequence[float] | None = None,
    boundary: str | Sequence[str] | None = None,
    ndim: int | None = None,
    explain: bool = False,
) -> Description:
    """Say what data hold: shape, times, grid, channels, ranges, and which bundled models fit.

    Arguments:
        data: whatever `OperatorSplitter.fit` takes: a path, an array, `Trajectories`, xarray data.
        axes, channels, dt, extent, boundary, ndim: as in `opsplit.read`.
        explain: fit the models to the last frames of the first trajectory, and say how much of the
            change each explains; else a model fits in shape or does not.

    Returns:
        A `Description`: print it, or take `.to_json()`.

    Raises:
        OpsplitError: if the data cannot be read.

    Examples:
        >>> import numpy, opsplit
        >>> print(opsplit.describe(numpy.random.rand(8, 32), dt=0.1, extent=16))  # doctest: +SKIP
    """
    flags = Flags(axes, channels, dt, extent, boundary, ndim)
    recording = open_as(data, flags)
    seen = survey(recording)
    ranking = {one.title: one for one in _tried(recording)} if explain else {}
    models = []
    for name, config in bundled_configs().items():
        try:
            reading = observe(data, config, flags)
        except OpsplitError:
            # The model cannot even read them; why it does not fit the data as they are says more.
            reading = recording
        models.append(Fits(name, tuple(compatibility(config, reading)), ranking.get(name)))
    return Description(recording, seen, tuple(models))


def _tried(recording: Recording) -> tuple[Ranked, ...]:
    """The models, fitted to the last frames of the first trajectory; none where they cannot be."""
    from opsplit.predict.estimator import OperatorSplitter

    window = recording.part([0], slice(max(0, recording.shape[1] - WINDOW), None))
    with no_warnings(), suppress(OpsplitError):
        return OperatorSplitter(search=Pursuit(max_seconds=SECONDS)).fit(window).ranking_
    return ()


def bundled_configs() -> dict[str, ModelConfig]:
    """Configurations of the bundled models, without their weights."""
    return {
        f"{name} ({family})": load_config(locate(name, family))
        for name, families in bundled().items()
        for family in families
    }


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return float(value) if abs(value) < float("inf") else None


def _times(recording: Recording) -> dict[str, Any]:
    steps = np.diff(recording.times)
    missing = gaps(recording)
    return {
        "first": float(recording.times[0]),
        "last": float(recording.times[-1]),
        "dt": recording.dt,
        "known": "dt" in recording.known,
        "regular": recording.uniform,
        "steps": [float(steps.min()), float(steps.max())],
        "gaps": [{"after frame": i, "missing": count} for i, count in missing],
    }


def gaps(recording: Recording) -> list[tuple[int, int]]:
    """Frames after which whole steps are missing, and how many."""
    ratio = np.diff(recording.times) / recording.dt
    whole = np.round(ratio)
    found = np.flatnonzero((whole >= 2) & (abs(ratio - whole) < 0.05 * whole))
    return [(int(i), int(whole[i]) - 1) for i in found]


def _boundaries(recording: Recording, seen: Survey) -> dict[str, str]:
    out = {}
    each = zip("xyz", recording.grid.boundary, seen.seam, ends_of(recording), strict=False)
    for axis, word, jump, ends in each:
        measured = f"the jump across the ends is {jump:.3g} of the largest between neighbours"
        if "boundary" in recording.known:
            out[axis] = f"{word} (stored or given); {measured}"
        elif ends.walls:
            out[axis] = f"{ends.words} (a guess: the frames go on smoothly beyond such ends)"
        else:
            guess = "periodic" if jump <= SEAM else "not periodic"
            out[axis] = f"{guess} (a guess: {measured})"
    return out


def _lines(r: dict[str, Any], models: Sequence[Fits]) -> list[str]:
    times, grid = r["times"], r["grid"]
    lines = [
        f"{r['source']}: {r['format']}",
        "  shape: " + ", ".join(f"{k} {n}" for k, n in r["shape"].items()),
        *(f"  {sentence}" for sentence in r["understood"]),
        f"  times: {times['first']:.6g} to {times['last']:.6g}, dt {times['dt']:.6g}"
        + ("" if times["known"] else " (a guess)")
        + ("" if times["regular"] else f", irregular: {_range(times['steps'])}"),
    ]
    lines += [
        f"  gap: {g['missing']} missing after frame {g['after frame']}" for g in times["gaps"]
    ]
    both = zip("xyz", grid["shape"], grid["extent"], grid["spacing"], strict=False)
    for axis, points, extent, spacing in both:
        sizes = (
            f"length {extent:.6g}, spacing {spacing:.6g}" if "extent" in r["known"] else "length ?"
        )
        lines.append(f"  {axis}: {points} points, {sizes}")
        lines.append(f"    boundary {r['boundary'][axis]}")
    part = "" if r["frames read"] == r["frames"] else f"from {r['frames read']} of "
    lines.append(f"  channels ({part}{r['frames']} frames, {r['missing frames']} missing):")
    for name, held in r["channels"].items():
        shown = [f"{k} {_short(held[k])}" for k in ("min", "max", "mean", "std")]
        lines.append(f"    {name}: {', '.join(shown)}, {held['nans']} NaN or infinite")
    for name, held in r["coefficients"].items():
        lines.append(f"  coefficient {name}: {_range([held['min'], held['max']])}")
    # What keeps every model from fitting is said once.
    lines.append(
        "  models:" if times["known"] else "  models, once the time between frames is said:"
    )
    lines += [f"    {one.without(Code.DT_UNKNOWN)}" for one in models]
    return lines


def _short(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _range(ends: list[float]) -> str:
    return f"{ends[0]:.6g}" if ends[0] == ends[1] else f"{ends[0]:.6g} to {ends[1]:.6g}"
