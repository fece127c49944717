"""What the ends of an axis are, from the frames alone.

A field continued rightly beyond an end is as smooth there as elsewhere: an odd reflection about a
fixed value, an even one about an insulated end, the other end of a periodic axis. Roughness is the
fourth difference at the end, over the largest between inner points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from opsplit.boundary import DIRICHLET, NEUMANN, PERIODIC, Side, sides
from opsplit.io.recording import Recording
from opsplit.predict.holes import fill
from opsplit.predict.noisy_ends import (
    FOURTH,
    SHARE,
    SURE,
    Guess,
    bends_of,
    best_walls,
    guesses,
    looks_noisy,
)

SMOOTH = 3.0
"""A continuation is smooth up to this roughness."""
CLEARLY = 3.0
"""Walls are taken for granted only if they are so many times smoother than a periodic end."""
NOISY = 0.5
"""Fourth differences of which noise makes more than this share say nothing about ends."""
FRAMES = 8
"""Frames that are looked at."""
FEWEST = 8
"""Fewer points than this say nothing about their ends."""
NEGLIGIBLE = 1e-3
"""A fixed value below this share of the field's size is zero."""
DISTANCES = (0.0, 0.5, 1.0)
"""Spacings between the last point and its wall: on it, in the middle of a cell, beyond it."""


@dataclass(frozen=True)
class End:
    """One end of an axis, and how the field goes on there."""

    side: Side
    distance: float = 0.0
    """Spacings between the last point and the wall."""
    roughness: float = 0.0


@dataclass(frozen=True)
class Ends:
    """Both ends of an axis."""

    left: End
    right: End
    said: bool
    """Whether the data or the caller say what they are."""
    periodic: float
    """Roughness of a periodic continuation."""
    rival: str = ""
    """Other ends that suit frames with noise as well."""

    @property
    def walls(self) -> bool:
        return self.left.side.kind != PERIODIC

    @property
    def roughness(self) -> float:
        return max(self.left.roughness, self.right.roughness)

    @property
    def smooth(self) -> bool:
        """Whether the field fits these ends."""
        return self.roughness <= SMOOTH

    @property
    def words(self) -> str:
        """The boundary of the axis, as a grid holds it."""
        left, right = str(self.left.side), str(self.right.side)
        return left if left == right else f"{left}:{right}"

    @property
    def text(self) -> str:
        """The same for people: six digits of every value."""
        left, right = (
            f"{kind}={value:.6g}" if value else kind
            for kind, value in (self.left.side, self.right.side)
        )
        return left if left == right else f"{left}:{right}"


def ends_of(recording: Recording, by_frames: bool = False) -> list[Ends]:
    """The ends of every axis; where nothing says what they are, the smoothest continuation.

    Arguments:
        by_frames: look at the frames alone, whatever else is said.
    """
    u = frames_for_ends(recording)
    said = "boundary" in recording.known and not by_frames
    return [
        _ends(np.moveaxis(u, 2 + axis, -1), word if said else PERIODIC, said)
        for axis, word in enumerate(recording.grid.boundary)
    ]


def frames_for_ends(recording: Recording) -> np.ndarray:
    """Some whole frames `(time, channel, *space)` of the first trajectory."""
    count = recording.shape[1]
    step = max(1, count // FRAMES)
    u = recording.fetch(0, slice(0, count, step)).astype(np.float64)
    # What fills a hole at an end is a guess of just what is looked for.
    whole = _whole(u)
    return whole if len(whole) else _whole(fill(u)[0])


def _whole(u: np.ndarray) -> np.ndarray:
    found: np.ndarray = u[np.isfinite(u).reshape(len(u), -1).all(1)]
    return found


def _ends(u: np.ndarray, word: str, said: bool) -> Ends:
    """The ends of the last axis of frames `(time, channel, ..., points)`."""
    left, right = sides(word)
    lines = u.reshape(-1, u.shape[-1])
    if not len(lines) or lines.shape[1] < FEWEST:
        return Ends(End(left), End(right), said, 0.0)
    scale = _inner(lines)
    around = _roughness(lines[:, [-3, -2, -1]], lines, scale)
    around = max(around, _roughness(lines[:, [2, 1, 0]], lines[:, ::-1], scale))
    if said and left.kind == PERIODIC:
        return Ends(End(left, 0.0, around), End(right, 0.0, around), True, around)
    if said:
        found = [_best(v, side, scale) for v, side in ((lines, left), (lines[:, ::-1], right))]
        return Ends(found[0], found[1], True, around)
    periodic = Ends(End(left, 0.0, around), End(right, 0.0, around), False, around)
    if looks_noisy(u):
        tried = guesses(lines)
        if not tried:
            return periodic
        if FOURTH * tried[0].noise > NOISY * scale:
            return _by_waves(tried, periodic)
    if around <= SMOOTH:
        return periodic
    kinds = (Side(DIRICHLET), Side(NEUMANN))
    best = [
        min((_best(v, side, scale) for side in kinds), key=lambda end: end.roughness)
        for v in (lines, lines[:, ::-1])
    ]
    walls = Ends(best[0], best[1], False, around)
    return walls if walls.smooth and around > CLEARLY * walls.roughness else periodic


def _by_waves(found: list[Guess], periodic: Ends) -> Ends:
    """The ends of lines with noise."""
    best = best_walls(found)
    around = next(guess for guess in found if not guess.walls)
    made = [End(side, at) for side, at in zip(best.sides, best.distances, strict=True)]
    walls = Ends(made[0], made[1], False, periodic.periodic)
    # What waves leave of rough fields is not as independent as noise.
    sure = max(SURE, SHARE * best.numbers)
    if abs(best.likelihood - around.likelihood) < sure:
        return replace(periodic, rival=walls.text)
    return walls if best.likelihood > around.likelihood else periodic


def _best(lines: np.ndarray, side: Side, scale: float) -> End:
    """The smoothest continuation of this kind beyond the first point."""
    if side.kind not in (DIRICHLET, NEUMANN):
        return End(side)
    # Of several that are perfectly smooth, the one with its last point on the wall.
    return min(_candidates(lines, side, scale), key=lambda end: max(end.roughness, NEGLIGIBLE))


def _candidates(lines: np.ndarray, side: Side, scale: float) -> Iterator[End]:
    size = float(np.abs(lines - lines.mean()).max()) or 1.0
    for distance in DISTANCES:
        first = int(distance == 0.0)
        near = lines[:, first : first + 3]
        if side.kind == NEUMANN:
            # Of a point beyond the last one an even reflection knows nothing.
            if distance < 1:
                yield End(side, distance, _roughness(near[:, ::-1], lines, scale))
            continue
        values = {side.value}
        if not side.value:
            # Nothing says that the value is zero: what the frames say counts as well.
            measured = float(_at_wall(lines, distance).mean())
            values.add(measured if abs(measured) > NEGLIGIBLE * size else 0.0)
        for value in values:
            ghosts = 2 * value - near[:, ::-1]
            own = lines
            if distance == 0.0:
                own = np.concatenate([np.full_like(lines[:, :1], value), lines[:, 1:]], 1)
                missed = float(np.abs(lines[:, 0] - value).max())
            if distance == 1.0:
                ghosts = np.concatenate([ghosts[:, 1:], np.full_like(ghosts[:, :1], value)], 1)
            rough = _roughness(ghosts, own, scale)
            if distance == 0.0:
                # The point on the wall must have its value.
                rough = max(rough, missed / max(scale, NEGLIGIBLE * size) if missed else 0.0)
            yield End(Side(DIRICHLET, value), distance, rough)


def _at_wall(lines: np.ndarray, distance: float) -> np.ndarray:
    """The field at the wall, extrapolated from the nearest three points."""
    weights = {0.0: (1, 0, 0), 0.5: (15 / 8, -10 / 8, 3 / 8), 1.0: (3, -3, 1)}[distance]
    found: np.ndarray = lines[:, :3] @ np.asarray(weights, dtype=np.float64)
    return found


def _inner(lines: np.ndarray) -> float:
    """The largest root mean square of fourth differences between inner points."""
    # Rounding of stored numbers is not roughness.
    return max(_bend(lines), 1e-6 * float(np.abs(lines - lines.mean()).max()), 1e-300)


def _roughness(ghosts: np.ndarray, lines: np.ndarray, scale: float) -> float:
    """Fourth differences across the first point, with three points beyond it, over the usual."""
    across = np.concatenate([ghosts, lines[:, :4]], 1)
    found = _bend(across) / scale
    return found if np.isfinite(found) else float("inf")


def _bend(lines: np.ndarray) -> float:
    """The largest root mean square of fourth differences, whatever the size of the field."""
    largest = max(float(np.abs(bends).max()) for bends in bends_of(lines)) or 1.0
    return largest * max(
        float(np.sqrt(np.square(bends / largest).mean(0)).max()) for bends in bends_of(lines)
    )
