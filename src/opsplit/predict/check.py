"""`opsplit.check`: whether data are what they seem, with numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from opsplit._tensors import public
from opsplit._text import percent
from opsplit.boundary import PERIODIC
from opsplit.errors import OpsplitError, no_warnings
from opsplit.io.assemble import Flags
from opsplit.io.recording import Recording
from opsplit.io.survey import Survey, survey
from opsplit.model import Model, bundled, load_config, load_model, locate
from opsplit.predict.compatibility import compatibility, refuse
from opsplit.predict.describe import SEAM, gaps
from opsplit.predict.door import open_as
from opsplit.predict.ends import ends_of
from opsplit.predict.estimator import OperatorSplitter

WINDOW = 16
"""Frames of a window that is fitted."""
UNRESOLVED = 0.01
"""Share of the energy in the upper third of the modes of a field that is hardly resolved."""
LEAP = 1.6
"""A step of two frames changes the field twice as much as those beside it."""
STEPS_MB = 256.0
NEGLIGIBLE = 1e-3
"""A difference below this share of a coefficient is no fault, however narrow its interval is."""
TOLERANCE = 0.1
"""Share of a coefficient's size by which an uncalibrated model may miss it."""
LEVEL = 0.99
"""Probability of the intervals of a calibrated one."""


class Mark(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True)
class Finding:
    """One check and how it ended.

    Examples:
        >>> import numpy, opsplit
        >>> found = opsplit.check(numpy.random.rand(8, 32), dt=0.1, extent=16)
        >>> found[0].check
        'constant dt'
    """

    check: str
    verdict: Mark
    words: str

    def __str__(self) -> str:
        return f"{self.verdict.value:8} {self.check}: {self.words}"

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@public
def check(
    data: Any,
    model: str | None = None,
    device: str = "cpu",
    *,
    axes: str | Sequence[str] | None = None,
    channels: str | Sequence[str] | None = None,
    dt: float | None = None,
    extent: float | Sequence[float] | None = None,
    boundary: str | Sequence[str] | None = None,
) -> list[Finding]:
    """Look for faults in data: times, holes, ends, resolution, means, and wrong coefficients.

    Where coefficients are stored that a bundled model knows, some windows are fitted and the
    identified coefficients are compared with the stored ones.

    Arguments:
        data: whatever `OperatorSplitter.fit` takes: a path, an array, `Trajectories`, xarray data.
        model: the model that knows the coefficients (default: found by their names).
        axes, channels, dt, extent, boundary: as in `opsplit.read`.

    Returns:
        One `Finding` per check, in a fixed order.

    Raises:
        OpsplitError: if the data cannot be read.

    Examples:
        >>> import numpy, opsplit
        >>> for finding in opsplit.check(numpy.random.rand(8, 32), dt=0.1, extent=16):
        ...     print(finding)  # doctest: +SKIP
    """
    recording = open_as(data, Flags(axes, channels, dt, extent, boundary))
    seen = survey(recording)
    return [
        _steps(recording), _finite(recording, seen), _missing(recording, seen),
        _leaps(recording), *_ends(recording, seen), _spectrum(seen),
        *_means(recording, seen), *_audit(recording, model, device),
    ]  # fmt: skip


def _audit(recording: Recording, given: str | None, device: str) -> list[Finding]:
    """Stored coefficients against identified ones."""
    what = "coefficients"
    name = given or _knows(recording)
    if name is None:
        stored = ", ".join(recording.coefficients)
        why = f"no bundled model knows all of {stored}" if stored else "none are stored"
        return [Finding(what, Mark.OK, f"not compared: {why}.")]
    model = load_model(name)
    names = [k for k in model.config.coefficients if k in recording.coefficients]
    if not names:
        known = ", ".join(model.config.coefficients)
        raise OpsplitError(f"{recording.source} stores no coefficient of {name} ({known}).")
    if not recording.uniform or "dt" not in recording.known:
        return [Finding(what, Mark.WARNING, "not compared: that needs a known, constant dt.")]
    refuse(compatibility(model.config, recording), recording.source)
    return _compare(recording, model, names, device)


def _steps(recording: Recording) -> Finding:
    steps, dt = np.diff(recording.times), recording.dt
    if "dt" not in recording.known:
        return Finding(
            "constant dt", Mark.WARNING, "nothing says the time between frames; add --dt (or dt=)."
        )
    off = float(np.abs(steps / dt - 1).max())
    if recording.uniform:
        return Finding("constant dt", Mark.OK, f"{dt:.6g} within {off:.1e}.")
    return Finding(
        "constant dt", Mark.WARNING,
        f"steps go from {steps.min():.6g} to {steps.max():.6g}, their median is {dt:.6g}.",
    )  # fmt: skip


def _finite(recording: Recording, seen: Survey) -> Finding:
    of = f"in {seen.frames} frames" if seen.whole else f"in a sample of {seen.frames} frames"
    if not seen.bad:
        return Finding("finite", Mark.OK, f"no NaN or infinite value {of}.")
    named = zip(recording.channels, seen.nans, strict=True)
    counts = ", ".join(f"{name} {count}" for name, count in named if count)
    trajectory, frame = seen.bad[0]
    return Finding(
        "finite", Mark.FAULT,
        f"NaN or infinite values {of} ({counts}), the first in frame {frame} of trajectory "
        f"{trajectory}.",
    )  # fmt: skip


def _missing(recording: Recording, seen: Survey) -> Finding:
    found = gaps(recording)
    words = []
    if found:
        at, count = found[0][0], sum(n for _, n in found)
        words.append(f"the times leave out {count} frame(s), the first after frame {at}")
    if seen.missing:
        trajectory, frame = seen.missing[0]
        words.append(
            f"{len(seen.missing)} frame(s) are all NaN, the first is frame {frame} of trajectory "
            f"{trajectory}"
        )
    if len(seen.missing) == seen.frames:
        return Finding("missing frames", Mark.FAULT, "every frame is NaN.")
    return Finding(
        "missing frames", Mark.WARNING if words else Mark.OK, f"{'; '.join(words) or 'none'}."
    )


def _leaps(recording: Recording) -> Finding:
    """Steps that change the field much more or less than the steps beside them."""
    count = min(recording.shape[1], max(8, int(STEPS_MB / recording.frame_mb / 2)))
    u = recording.fetch(0, slice(0, count)).astype(np.float64)
    # Per unit of time, so that irregular times do not count as leaps.
    with np.errstate(all="ignore"):
        rate = np.sqrt(np.square(np.diff(u, axis=0)).reshape(count - 1, -1).mean(1))
    rate /= np.diff(recording.times[:count])
    found = _outliers(rate)
    if not found:
        return Finding("steady steps", Mark.OK, f"{count - 1} steps of trajectory 0 follow evenly.")
    at, ratio = found[0]
    kind = "frames repeat" if ratio < 0.5 else "a frame may be missing there"
    return Finding(
        "steady steps", Mark.WARNING,
        f"{len(found)} step(s) of trajectory 0 stand out; from frame {at} to {at + 1} the field "
        f"changes {ratio:.2g} times as much as beside: {kind}.",
    )  # fmt: skip


def _outliers(rate: np.ndarray) -> list[tuple[int, float]]:
    found = []
    for i in range(2, len(rate) - 2):
        beside = rate[[i - 2, i - 1, i + 1, i + 2]]
        low, high = float(beside.min()), float(beside.max())
        # Where the neighbours themselves differ, the field is just unsteady.
        if np.isfinite(rate[i - 2 : i + 3]).all() and 0 < high < 1.3 * low:
            ratio = float(rate[i] / np.median(beside))
            if not 1e-6 < ratio < LEAP:
                found.append((i, ratio))
    return found


def _ends(recording: Recording, seen: Survey) -> list[Finding]:
    """What is said about the ends of the axes, against what the frames show."""
    out = []
    each = zip(
        "xyz", recording.grid.boundary, seen.seam, ends_of(recording), ends_of(recording, True),
        strict=False,
    )  # fmt: skip
    for axis, word, jump, ends, shown in each:
        words = f"the ends of {axis} differ by {jump:.3g} of the largest step between neighbours"
        name, known = f"boundary of {axis}", "boundary" in recording.known
        like = f"the frames look like {shown.words} ends; say --boundary {shown.words}"
        if word != PERIODIC and ends.smooth:
            out.append(Finding(name, Mark.OK, f"{word}; {words}."))
        elif word != PERIODIC:
            rough = f"at a wall the frames are {ends.roughness:.2g} times as rough as inside"
            out.append(Finding(name, Mark.WARNING, f"said to be {word}, but {rough}."))
        elif jump > SEAM and known:
            out.append(Finding(name, Mark.FAULT, f"said to be periodic, but {words}."))
        elif shown.walls:
            said = "said to be periodic, but" if known else "not periodic:"
            out.append(Finding(name, Mark.WARNING, f"{said} {like}."))
        elif jump > SEAM:
            out.append(Finding(name, Mark.WARNING, f"not periodic: {words}; say --boundary."))
        else:
            out.append(Finding(name, Mark.OK, f"periodic: {words}."))
    return out


def _spectrum(seen: Survey) -> Finding:
    share = float(seen.upper.max())
    words = f"{percent(share)} % of the energy lies in the upper third of the modes"
    if share <= UNRESOLVED:
        return Finding("resolved spectrum", Mark.OK, f"{words}.")
    return Finding("resolved spectrum", Mark.WARNING, f"{words}: noise, fronts or too few points.")


def _means(recording: Recording, seen: Survey) -> list[Finding]:
    out = []
    for name, drift in zip(recording.channels, seen.drift.tolist(), strict=True):
        if not math.isfinite(drift):
            continue
        kept = "conserved" if drift < 1e-3 else "not conserved"
        words = f"{kept}: its mean moves by {drift:.2g} of its deviation."
        out.append(Finding(f"mean of {name}", Mark.OK, words))
    return out


def _knows(recording: Recording) -> str | None:
    """The bundled model that fits and whose coefficients are all stored."""
    for name, families in bundled().items():
        config = load_config(
            locate(name, families[0] if "spectral" not in families else "spectral")
        )
        stored = recording.coefficients.keys() >= set(config.coefficients)
        if stored and not any(issue.blocks for issue in compatibility(config, recording)):
            return name
    return None


def _compare(recording: Recording, model: Model, names: list[str], device: str) -> list[Finding]:
    """Fit windows of a few trajectories; a coefficient is at fault if no window agrees with it.

    A calibrated model may miss by its 99 % interval, another by 10 % of the coefficient or of the
    typical one in the dictionary: a small coefficient beside large ones is known no better. How
    well an uncalibrated model identifies was never measured, so what it says is only a warning.
    """
    n, count = recording.shape[:2]
    length = min(WINDOW, count)
    starts = sorted({0, (count - length) // 2})
    fits: dict[int, list[OperatorSplitter]] = {}
    for number in np.unique(np.linspace(0, n - 1, min(n, 3)).round().astype(int)).tolist():
        for start in starts:
            try:
                frames = recording.frames(number, slice(start, start + length))
            except OpsplitError:
                continue
            if not np.isfinite(frames).all():
                continue
            window = recording.part([number], slice(start, start + length))
            with no_warnings():
                fit = OperatorSplitter(model, device=device).fit(window)
            fits.setdefault(number, []).append(fit)
    used = {i: [fit for fit in held if fit.verdict_.trusted] for i, held in fits.items()}
    used = {i: held for i, held in used.items() if held}
    if not used:
        why = "the model explains none of the windows" if fits else "no window is whole"
        return [Finding("coefficients", Mark.WARNING, f"not compared: {why}.")]
    out = []
    # A term that the model does not know is absorbed by those that it knows.
    others = [k for k, v in recording.coefficients.items() if k not in names and v.any()]
    unsure = f" The model does not know {', '.join(others)}." if others else ""
    if model.calibration is None:
        unsure += " The model is not calibrated (`opsplit calibrate`): it may be the one who errs."
    for name in names:
        typical = _typical(model, name)
        stored = recording.coefficients[name]
        rows = []
        for number, held in used.items():
            told = float(stored[number])
            each = []
            for fit in held:
                value = fit.coefficients_.get(name, 0.0)
                may = TOLERANCE * max(abs(told), typical, 1e-9)
                if name in fit.coefficient_intervals_:
                    low, high = fit.intervals(LEVEL)[name]
                    may = max((high - low) / 2, NEGLIGIBLE * abs(told))
                each.append((abs(value - told) / may, value, may))
            rows.append((*min(each), told, number))
        ratio, value, may, told, number = max(rows)
        words = (
            f"stored {told:.5g}, identified {value:.5g} in trajectory {number} "
            f"(tolerance {may:.2g})"
        )
        if ratio <= 1:
            out.append(Finding(f"coefficient {name}", Mark.OK, f"{words}."))
        else:
            said = f"{words}: the data do not obey it.{unsure}"
            out.append(Finding(f"coefficient {name}", Mark.WARNING if unsure else Mark.FAULT, said))
    return out


def _typical(model: Model, name: str) -> float:
    """The median size of a coefficient over the operators of the dictionary that have it."""
    sizes = np.abs(model.dictionary.coefficients[name])
    return float(np.median(sizes[sizes > 0])) if (sizes > 0).any() else 0.0
