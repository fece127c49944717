"""From what a file says and what the caller says to a `Recording`; guesses are written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opsplit._text import plain
from opsplit.boundary import normal
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.io.axes import in_words, parse_axes
from opsplit.io.parts import Part, gather
from opsplit.io.recording import Changes, Recording
from opsplit.io.rounded import unrounded
from opsplit.trajectories import IMAGINARY, imaginary_share, is_positive, rounded, unmasked

SAME = 1e-6
"""Two ends closer than this share of the field's size are one point."""


@dataclass(frozen=True)
class Flags:
    """What the caller says."""

    axes: str | Sequence[str] | None = None
    channels: str | Sequence[str] | None = None
    dt: float | None = None
    extent: float | Sequence[float] | None = None
    boundary: str | Sequence[str] | None = None
    ndim: int | None = None
    times: Any = None

    @property
    def letters(self) -> str | None:
        return None if self.axes is None else parse_axes(self.axes)

    @property
    def names(self) -> tuple[str, ...] | None:
        if self.channels is None:
            return None
        words = self.channels.split(",") if isinstance(self.channels, str) else self.channels
        names = tuple(word.strip() for word in words)
        if not names or len(set(names)) != len(names) or "" in names:
            raise OpsplitError(f"Channels need different names, got {list(names)}.")
        return names


@dataclass(frozen=True)
class Raw:
    """What a file says."""

    source: str
    format: str
    axes: str
    """Letters of the fields as they are stored, such as `ntxyc`."""
    shape: tuple[int, ...]
    """Lengths of these axes."""
    parts: Callable[[int], tuple[Sequence[Part], int]]
    """Where a trajectory lies: arrays, and its number in them."""
    channels: tuple[str, ...]
    named: bool = True
    """Whether the file names the channels."""
    times: np.ndarray | None = None
    coordinates: Mapping[str, np.ndarray] = field(default_factory=dict)
    extent: tuple[float, ...] | None = None
    boundary: tuple[str, ...] | None = None
    coefficients: Mapping[str, np.ndarray] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    """What the coefficients multiply."""
    said: tuple[str, ...] = ()
    """Sentences of the reader."""
    guessed_axes: bool = False
    look_for_repeats: bool = False
    """Whether the last point may be the first again."""
    layout: str = ""

    def size(self, letter: str) -> int:
        return self.shape[self.axes.index(letter)] if letter in self.axes else 1

    @property
    def space(self) -> dict[str, int]:
        return {a: self.size(a) for a in "xyz" if a in self.axes}


def assemble(raw: Raw, flags: Flags) -> Recording:
    """Check the two against each other and fill in what neither says."""
    where, words = raw.source, in_words(raw.axes, raw.shape)
    said = [f"Read as {words}{', a guess from the lengths' if raw.guessed_axes else ''}."]
    said += raw.said
    alike = [a for a in raw.space if raw.guessed_axes and raw.size(a) == raw.size("t")]
    if alike:
        said.append(
            f"Time and {alike[0]} are equally long: name the axes in their order "
            "(such as axes x,t) if it is the other way round."
        )
    if min(raw.shape) < 1 or raw.size("t") < 2:
        few = "no values" if 0 in raw.shape else "a single frame: dynamics need at least 2 frames"
        raise OpsplitError(f"{where}: Read as {words}, that is {few}.")
    if flags.letters is not None and flags.letters != raw.axes:
        _refuse(where, "axes", ",".join(raw.axes), ",".join(flags.letters))
    if flags.ndim is not None and flags.ndim != len(raw.space):
        _refuse(where, "number of space axes", len(raw.space), flags.ndim)
    guessed: dict[str, str] = {}
    times = _times(raw, flags, said, guessed)
    channels, names = _channels(raw, flags, said)
    limit = 0.0
    raw, falling = _rising(raw, said)

    def fetch_on(space: Mapping[str, int]) -> Callable[[int, slice], np.ndarray]:
        def fetch(trajectory: int, frames: slice) -> np.ndarray:
            parts, number = raw.parts(trajectory)
            begin, stop, step = frames.indices(raw.size("t"))
            held = raw.space if falling else space
            found = gather(parts, number, slice(begin, stop, step), held, names)
            if falling:
                found = np.flip(found, falling)
                for i, n in enumerate(space.values()):
                    found = found.take(range(n), 2 + i)
            return without_imaginary(found, where, limit) if found.dtype.kind == "c" else found

        return fetch

    boundary = _boundary(raw, flags, guessed)
    space = raw.space
    limit = _imaginary(raw, names, said)
    repeats: tuple[str, ...] = ()
    if raw.look_for_repeats and raw.coordinates:
        repeats = _repeated(raw, boundary, fetch_on(space))
        for a in repeats:
            space[a] -= 1
            said.append(
                f"The last of {space[a] + 1} points along {a} is the first again: it is left out."
            )
        # Ends that meet are periodic.
        if repeats:
            guessed.pop("boundary", None)
    extent, origin = _extent(raw, flags, space, guessed)
    try:
        grid = Grid(tuple(space.values()), extent, boundary)
    except OpsplitError as reason:
        raise OpsplitError(f"{where}: {reason}") from None
    coefficients = _printable(where, "coefficients", raw.coefficients)
    return Recording(
        where, raw.format, (raw.size("n"), len(times), len(channels), *grid.shape), times, grid,
        tuple(_printable(where, "channels", dict.fromkeys(channels))), coefficients,
        tuple(map(plain, said)), guessed, fetch_on(space), origin, raw.layout,
        _printable(where, "terms", raw.terms),
        box=flags.extent is not None and raw.extent is None and not raw.coordinates,
        changes=Changes(tuple(map(list(space).index, repeats)), tuple(i - 2 for i in falling)),
    )  # fmt: skip


def _rising(raw: Raw, said: list[str]) -> tuple[Raw, tuple[int, ...]]:
    """The same with coordinates that rise, and the axes of a frame that are turned round for it."""
    falling = {
        a: np.asarray(points).ravel()[::-1]
        for a, points in raw.coordinates.items()
        if a in raw.space and np.size(points) > 1 and bool((np.diff(np.ravel(points)) < 0).all())
    }
    if not falling:
        return raw, ()
    said.append(f"Points along {', '.join(falling)} fall: the axis is turned round.")
    axes = tuple(2 + i for i, a in enumerate(raw.space) if a in falling)
    return replace(raw, coordinates={**raw.coordinates, **falling}), axes


def _printable(where: str, what: str, held: Mapping[str, Any]) -> dict[str, Any]:
    """The same under names that a terminal and a table may show."""
    found = {plain(name, 200): value for name, value in held.items()}
    if len(found) < len(held):
        raise OpsplitError(f"{where}: its {what} have names that cannot be told apart in print.")
    return found


def _refuse(where: str, what: str, held: Any, given: Any) -> None:
    raise OpsplitError(
        f"{where}: the {what} in the file: {held}, as you say: {given}. Leave yours out, or "
        "correct the file."
    )


def _imaginary(raw: Raw, names: Sequence[str], said: list[str]) -> float:
    """The largest imaginary part that is rounding, from a sample of the frames."""
    parts, number = raw.parts(0)
    point = gather(parts, number, slice(0, 1), dict.fromkeys(raw.space, 1), names)
    if point.dtype.kind != "c":
        return 0.0
    step = max(1, raw.size("t") // 8)
    sample = gather(parts, number, slice(0, raw.size("t"), step), raw.space, names)
    share = imaginary_share(sample)
    words = rounded(share, raw.source)
    said.append(f"Numbers are complex: {words}.")
    return IMAGINARY * float(np.nanmax(np.abs(sample), initial=0.0))


def without_imaginary(values: np.ndarray, where: str, limit: float) -> np.ndarray:
    """The real part, if the imaginary part of no value exceeds the limit."""
    if np.nanmax(np.abs(values.imag), initial=0.0) > limit:
        rounded(imaginary_share(values), where)
    return np.ascontiguousarray(values.real)


def _times(raw: Raw, flags: Flags, said: list[str], guessed: dict[str, str]) -> np.ndarray:
    where, count, dt = raw.source, raw.size("t"), flags.dt
    if dt is not None and not is_positive(dt):
        raise OpsplitError(f"dt is the time between frames and must be positive, got {dt!r}.")
    if flags.times is not None and (dt is not None or raw.times is not None):
        _refuse(where, "times", "known already, or given as dt", "times")
    stored = raw.times if flags.times is None else flags.times
    if stored is None:
        if dt is None:
            guessed["dt"] = "Nothing says the time between frames: it is taken as 1 (say dt)."
        return np.arange(count) * (1.0 if dt is None else dt)
    times = unmasked(stored).astype(np.float64).ravel()
    if len(times) == count + 1 and raw.format == "pdebench":
        said.append(f"There are {len(times)} times for {count} frames: the last is left out.")
        times = times[:count]
    if len(times) != count:
        raise OpsplitError(f"{where}: {count} frames need as many times, it has {len(times)}.")
    times = unrounded(times)
    steps = np.diff(times)
    if not (np.isfinite(times).all() and (steps > 0).all()):
        first = int(np.flatnonzero(~(steps > 0))[0]) if len(steps) else 0
        raise OpsplitError(
            f"{where}: times must increase, but frame {first} is at {times[first]:.6g} and "
            f"frame {first + 1} at {times[first + 1]:.6g}."
        )
    step = float(np.median(steps))
    even = np.allclose(steps, step, rtol=1e-2, atol=0)
    if dt is not None and not (even and np.isclose(dt, step, rtol=1e-3, atol=0)):
        _refuse(where, "time between frames", f"{step:.6g}" if even else "irregular", dt)
    with np.errstate(over="ignore"):
        single = np.array_equal(times, times.astype(np.float32))
    if even and single:
        # Times rounded to single precision; their mean step is not.
        times = np.linspace(times[0], times[-1], count)
    if not even:
        said.append(f"Times are irregular: steps from {steps.min():.6g} to {steps.max():.6g}.")
    return times


def _channels(raw: Raw, flags: Flags, said: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The channels' names, and what they are called in the file."""
    given = flags.names
    if given is None:
        return raw.channels, raw.channels
    if raw.named:
        if not set(given) <= set(raw.channels):
            _refuse(raw.source, "channels", ",".join(raw.channels), ",".join(given))
        if given != raw.channels:
            said.append(f"Of the channels {', '.join(raw.channels)}: {', '.join(given)}.")
        return given, given
    if len(given) != len(raw.channels):
        _refuse(raw.source, "number of channels", len(raw.channels), ",".join(given))
    return given, raw.channels


def _boundary(raw: Raw, flags: Flags, guessed: dict[str, str]) -> tuple[str, ...]:
    ndim = len(raw.space)
    words = flags.boundary
    if words is not None and not isinstance(words, str | Sequence):
        raise OpsplitError(f"boundary must be a word such as periodic, got {words!r:.60}.")
    if isinstance(words, str):
        words = words.split(",")
    given = None
    if words is not None:
        given = tuple(normal(str(word)) for word in words) * (ndim if len(words) == 1 else 1)
    if raw.boundary is not None:
        held = tuple(normal(str(word)) for word in raw.boundary)
        if given is not None and given != held:
            _refuse(raw.source, "boundaries", ",".join(held), ",".join(given))
        return held
    if given is None:
        guessed["boundary"] = (
            "Nothing says what the boundaries are: periodic, unless the frames show walls."
        )
    return given or ("periodic",) * ndim


def _extent(
    raw: Raw, flags: Flags, space: Mapping[str, int], guessed: dict[str, str]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Lengths of the axes and their first coordinates."""
    given = None if flags.extent is None else np.ravel(np.asarray(flags.extent, dtype=np.float64))
    if given is not None and (len(given) not in (1, len(space)) or not (given > 0).all()):
        raise OpsplitError(
            f"Each of the {len(space)} space axes needs one positive length, got {flags.extent}."
        )
    asked: list[Any] = [None] * len(space)
    if given is not None:
        asked = np.broadcast_to(given, len(space)).tolist()
    lengths, origin = [], []
    silent = []
    for i, (a, count) in enumerate(space.items()):
        held, begin = (None, 0.0) if raw.extent is None else (raw.extent[i], 0.0)
        points = raw.coordinates.get(a)
        if points is not None:
            spacing, begin = _spacing(raw.source, a, points, raw.size(a))
            held = spacing * count if held is None else held
        if held is not None and asked[i] is not None and not np.isclose(asked[i], held, rtol=1e-3):
            _refuse(raw.source, f"length of {a}", f"{held:.6g}", asked[i])
        if held is None and asked[i] is None:
            silent.append(a)
        lengths.append(float(held if held is not None else asked[i] or count))
        origin.append(begin)
    if silent:
        guessed["extent"] = (
            f"Nothing says how long {', '.join(silent)} is: its points are taken as 1 apart "
            "(say extent)."
        )
    return tuple(lengths), tuple(origin)


def _spacing(where: str, a: str, points: np.ndarray, count: int) -> tuple[float, float]:
    points = unrounded(points)
    if len(points) != count:
        raise OpsplitError(f"{where}: {count} points along {a} have {len(points)} coordinates.")
    spacing = float(points[-1] - points[0]) / max(1, count - 1)
    # Single precision far from zero is coarse.
    rounding = 4 * np.finfo(np.float32).eps * float(np.abs(points).max(initial=0))
    if not spacing > 0 or not np.allclose(np.diff(points), spacing, rtol=1e-2, atol=rounding):
        raise OpsplitError(
            f"{where}: points along {a} are unevenly spaced; resample them on a uniform "
            "rising grid."
        )
    return spacing, float(points[0])


def _repeated(
    raw: Raw, boundary: Sequence[str], fetch: Callable[[int, slice], np.ndarray]
) -> tuple[str, ...]:
    """Axes whose last point is the first again, as `linspace` makes them on a periodic axis."""
    step = max(1, raw.size("t") // 8)
    u = fetch(0, slice(0, raw.size("t"), step)).astype(np.float64)
    u = u[np.isfinite(u).reshape(len(u), -1).all(1)]
    found = []
    for i, (a, word) in enumerate(zip(raw.space, boundary, strict=True)):
        v = np.moveaxis(u, 2 + i, -1)
        if word != "periodic" or a not in raw.coordinates or v.shape[-1] < 4 or not len(u):
            continue
        near = SAME * np.abs(v).max()
        bend = np.abs(np.diff(v, 2, axis=-1)).max()
        seam = np.abs(v[..., 1] - 2 * v[..., 0] + v[..., -2]).max()
        # Ends that agree because nothing happens there, or because they are walls, do not count.
        flat = max(np.abs(v[..., 1] - v[..., 0]).max(), np.abs(v[..., -1] - v[..., -2]).max())
        if np.abs(v[..., 0] - v[..., -1]).max() <= near < flat and seam <= 2 * bend:
            found.append(a)
    return tuple(found)
