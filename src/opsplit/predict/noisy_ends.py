"""What the ends of an axis are, from frames with noise.

Differences between neighbours are mostly noise there. Instead, every kind of ends has waves of its
own: sines between fixed values, cosines between insulated ends, both on a periodic axis. The right
ones describe the lines of the frames with fewest waves, down to the noise. Generalised
cross-validation counts both: what is left, and how many waves it took.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from opsplit.boundary import DIRICHLET, NEUMANN, PERIODIC, Side

WAVES = 256
"""So many waves of a kind are tried at most."""
LINES = 512
"""Lines that are looked at."""
LONGEST = 8192
"""Points of a line beyond which the waves would fill the memory."""
SURE = 10.0
"""One kind of ends is surer than another if its logarithm of the likelihood is larger by this."""
SHARE = 0.02
"""The same for every number that was looked at."""
EQUAL = 2.0
"""Kinds of ends are as likely as each other if the logarithms differ by less than this."""
VALUE = 5.0
"""Every fixed value that is not zero must raise the logarithm of the likelihood by this."""
RANDOM = 0.5
"""Fourth differences are noise if they change at random in time by more than this share,"""
ALIKE = 0.5
"""and if neighbours are not more alike than this: those of white noise have a correlation of -0.8,
those of a smooth field that moves fast one of nearly 1."""
FOURTH = math.sqrt(70.0)
"""Standard deviation of the fourth difference of white noise."""
STANDARD = 3.0
"""A fixed value is another one if it differs by so many standard errors."""


@dataclass(frozen=True)
class Guess:
    """One kind of ends, and how well the lines suit it."""

    sides: tuple[Side, Side]
    distances: tuple[float, float] = (0.0, 0.0)
    likelihood: float = -math.inf
    """Logarithm, up to a constant."""
    numbers: int = 0
    """So many numbers were looked at."""
    noise: float = math.inf
    """Standard deviation of what is left."""

    @property
    def walls(self) -> bool:
        return self.sides[0].kind != PERIODIC


def looks_noisy(u: np.ndarray) -> bool:
    """Whether fourth differences along the last axis of `(time, ...)` change at random in time and
    from point to point."""
    bends = np.diff(u, 4, axis=-1)
    if len(bends) < 3:
        return False
    largest = float(np.abs(bends).max()) or 1.0
    bends = bends / largest
    change = bends[2:] - 2 * bends[1:-1] + bends[:-2]
    power = np.square(bends).mean()
    random = bool(np.square(change).mean() / 6 > RANDOM**2 * power)
    return random and bool((bends[..., 1:] * bends[..., :-1]).mean() < ALIKE * power)


def guesses(lines: np.ndarray) -> list[Guess]:
    """All kinds of ends of lines `(line, points)`, the likeliest first."""
    some = lines[:: max(1, len(lines) // LINES)]
    size = float(np.abs(some).max()) or 1.0
    found = [_judged(some / size, sides, at) for sides, at in _kinds()]
    scaled = [replace(g, sides=_times(g.sides, size), noise=g.noise * size) for g in found]
    return sorted(scaled, key=lambda guess: -guess.likelihood)


def best_walls(found: list[Guess]) -> Guess:
    """The likeliest walls; of several that are as likely, those at the same distance."""
    walls = [guess for guess in found if guess.walls]
    alike = [g for g in walls if g.likelihood > walls[0].likelihood - EQUAL]
    return min(alike, key=lambda g: (g.distances[0] != g.distances[1], g.distances))


def _kinds() -> Iterator[tuple[tuple[str, str], tuple[float, float]]]:
    yield (PERIODIC, PERIODIC), (0.0, 0.0)
    # Of a point beyond the last one an even reflection knows nothing.
    options = [(DIRICHLET, 0.0), (DIRICHLET, 0.5), (DIRICHLET, 1.0), (NEUMANN, 0.0), (NEUMANN, 0.5)]
    for left, right in product(options, options):
        yield (left[0], right[0]), (left[1], right[1])


def _times(sides: tuple[Side, Side], size: float) -> tuple[Side, Side]:
    left, right = (Side(side.kind, side.value * size) for side in sides)
    return left, right


def _judged(lines: np.ndarray, kinds: tuple[str, str], at: tuple[float, float]) -> Guess:
    count, points = lines.shape
    waves, place = _waves(points, kinds, at)
    values, errors = _values(lines.mean(0), kinds, at)
    size = math.sqrt(float(np.square(lines).mean())) or 1.0
    sides = _sides(kinds, values, errors, 1e-3 * size)
    left, right = (side.value for side in sides)
    if kinds[0] != kinds[1]:
        # Beside an insulated end the fixed value counts.
        left = right = left if kinds[0] == DIRICHLET else right
    rest = lines - (left + (right - left) * place)
    total = np.square(rest).sum(1)
    shares = np.cumsum(np.square(rest @ waves), 1)
    remains = (total[:, None] - shares).clip(min=0).sum(0) / count
    used = np.arange(1, waves.shape[1] + 1)
    score = remains / (1 - used / points) ** 2 / points
    best = int(score.argmin())
    least = max(float(score[best]), 1e-24 * size**2, 1e-300)
    price = VALUE * len({side.value for side in sides if side.value})
    noise = math.sqrt(float(remains[best]) / (points - used[best]))
    likelihood = -0.5 * lines.size * math.log(least) - price
    return Guess(sides, at, likelihood, lines.size, noise)


@lru_cache(maxsize=32)
def _waves(
    points: int, kinds: tuple[str, str], at: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal waves `(points, wave)`, the longest first, and the place of every point between
    the walls, from 0 to 1."""
    count = max(1, min(WAVES, points // 2))
    x = np.arange(points)
    if kinds[0] == PERIODIC:
        place: np.ndarray = x / points
        turns = 2 * np.pi * np.multiply.outer(place, (np.arange(count) + 1) // 2)
        made = np.where(np.arange(count) % 2 == 1, np.sin(turns), np.cos(turns))
    else:
        place = (x + at[0]) / (points - 1 + at[0] + at[1])
        mixed, even = kinds[0] != kinds[1], kinds == (NEUMANN, NEUMANN)
        number = np.arange(count) + (0.5 if mixed else 0.0 if even else 1.0)
        turns = np.pi * np.multiply.outer(place, number)
        made = np.sin(turns) if kinds[0] == DIRICHLET else np.cos(turns)
    return _orthonormal(made), place


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """The same spans, column by column; waves are nearly orthogonal, so that squares will do."""
    found: np.ndarray
    try:
        upper = np.linalg.cholesky(columns.T @ columns).T
        found = np.linalg.solve(upper.T, columns.T).T
    except np.linalg.LinAlgError:
        found = np.linalg.qr(columns)[0]
    return found


def _values(
    mean: np.ndarray, kinds: tuple[str, str], at: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The values at both walls that suit the mean of all lines, and their errors."""
    if DIRICHLET not in kinds:
        return np.zeros(2), np.zeros(2)
    waves, place = _waves(len(mean), kinds, at)
    waves = waves[:, : len(mean) // 4]
    profile = np.stack([1 - place, place], 1) if kinds[0] == kinds[1] else np.ones((len(mean), 1))
    # The line between the values at both walls, beside the longest waves.
    own, rest = (each - waves @ (waves.T @ each) for each in (profile, mean))
    inverse = np.linalg.pinv(own)
    fitted = inverse @ rest
    free = len(mean) - waves.shape[1] - own.shape[1]
    spread = np.linalg.norm(rest - own @ fitted) / math.sqrt(max(1, free))
    errors = spread * np.linalg.norm(inverse, axis=1)
    return np.resize(fitted, 2), np.resize(errors, 2)


def _sides(
    kinds: tuple[str, str], values: np.ndarray, errors: np.ndarray, small: float
) -> tuple[Side, Side]:
    """The ends with values that the lines can tell from zero, and from each other."""
    told = [float(v) if abs(v) > max(STANDARD * e, small) else 0.0
            for v, e in zip(values, errors, strict=True)]  # fmt: skip
    if abs(told[0] - told[1]) <= max(STANDARD * float(np.hypot(*errors)), small):
        told = [sum(told) / 2] * 2
    left, right = (Side(kind, value if kind == DIRICHLET else 0.0)
                   for kind, value in zip(kinds, told, strict=True))  # fmt: skip
    return left, right
