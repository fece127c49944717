"""The units in which operators see a window, chosen from the window alone.

A field `u = mean + amplitude u'` at `x = length x'` and `t = time t'` obeys the same equation with
other coefficients: that of a term of order `p` and degree `q` is
`length**p * amplitude**(1 - q) / time` times the coefficient of the primed field. So the operators
may act in their own units, and the coefficients of a dictionary are named in those of the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit._tensors import in_pieces
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.fourier import spectrum_of, wavenumbers
from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.operators import OperatorFamily
from opsplit.operators.spectral.constants import blind_channels
from opsplit.terms import Term

LOWEST, HIGHEST = 0.7, 0.25
"""Trained wavenumbers lie between these shares of the lowest and of the highest mode of the
training grid."""
TAIL = 1e-7
"""Modes that hold no more than this share of the energy carry no signal."""
SINGLE = 1e30
"""Fields beyond this size, or below its inverse, do not fit into single precision."""


@dataclass(frozen=True)
class Units:
    """`x = length x'`, `t = time t'`, `u = mean + amplitude u'`; operators see the primed ones."""

    length: float = 1.0
    time: float = 1.0
    amplitude: float = 1.0
    mean: tuple[float, ...] = ()
    """One number per channel, in the model's order (empty: 0)."""

    def factor(self, term: Term | None) -> float:
        """A coefficient in the units of the data, over that in the units of the operators."""
        order = (term.order if term else None) or 0
        degree = term.degree if term else None
        power = 0 if degree is None else 1 - degree
        return self.length**order * self.amplitude**power / self.time

    def named(self, dictionary: OperatorDictionary) -> OperatorDictionary:
        """The same operators, with coefficients in the units of the data."""
        factors = {
            name: self.factor(dictionary.terms.get(name)) for name in dictionary.coefficients
        }
        # Windows of one ensemble have the same units more often than not.
        before: tuple[dict[str, float], OperatorDictionary] | None
        before = dictionary.__dict__.get("_named")
        if before is None or before[0] != factors:
            values = {name: v * factors[name] for name, v in dictionary.coefficients.items()}
            before = (factors, dictionary.renamed(values))
            dictionary.__dict__["_named"] = before
        return before[1]

    def grid(self, given: Grid) -> Grid:
        """The grid as operators see it."""
        return replace(given, extent=tuple(x / self.length for x in given.extent))

    def inside(self, frames: Tensor) -> Tensor:
        """Frames `(time, channel, *space)` as operators see them, in double precision."""
        made = frames.double() - self._mean(frames)
        made /= self.amplitude
        return made

    def outside(self, frames: Tensor) -> Tensor:
        """Frames of operators in the units of the data, in double precision."""
        made = frames.double() * self.amplitude
        made += self._mean(frames)
        return made

    def _mean(self, frames: Tensor) -> Tensor | float:
        if not self.mean:
            return 0.0
        at = torch.tensor(self.mean, dtype=torch.float64, device=frames.device)
        return at.reshape(-1, *[1] * (frames.ndim - 2))


@dataclass(frozen=True)
class Freedom:
    """Which units the terms of a dictionary allow to choose."""

    length: bool
    """Every operator is of one order: its strength takes up the unit of length."""
    orders: bool
    """All orders are known, so that coefficients can be converted."""
    amplitude: bool
    """Every operator is of one known degree."""
    mean: bool
    """No term sees a constant: all are linear derivatives."""
    blind: frozenset[int] = frozenset()
    """Channels whose mean no operator sees, though operators may see that of others."""
    highest: float = math.inf
    """Operators are right up to this wavenumber."""

    @classmethod
    def of(cls, dictionary: OperatorDictionary) -> Freedom:
        """What is known about the terms of all operators."""
        terms = [
            [dictionary.terms.get(name) or Term(name) for name in names]
            for names in dictionary.mechanisms
        ]
        every = [term for group in terms for term in group]
        if not all(terms) or not every:
            # Nothing is known about an operator without coefficients.
            return cls(False, False, False, False)
        orders = all(t.order is not None for t in every)
        degrees = all(t.degree is not None for t in every)
        return cls(
            length=orders and all(len({t.order for t in group}) == 1 for group in terms),
            orders=orders,
            amplitude=degrees and all(len({t.degree for t in group}) == 1 for group in terms),
            mean=all((t.order or 0) > 0 and t.degree == 1 for t in every),
            blind=frozenset.intersection(
                *(blind_channels(part.family, part.parameters) for part in dictionary.parts)
            ),
            highest=dictionary.right_up_to,
        )


def choose_units(
    frames: Sequence[Tensor],
    grid: Grid,
    dt: float,
    config: ModelConfig,
    freedom: Freedom,
    bound: OperatorFamily | None,
) -> list[Units]:
    """Units to try, the likeliest first; all but the first are for operators of several orders.

    The length unit makes the box as long as that of the training data (for operators that are
    bound to a grid: the spacing as wide), times a power of two where the wavenumbers of the fields
    would lie outside those of the training grid. The time unit makes a frame last as long as a
    training frame, the amplitude unit gives the fields the deviation of the training fields.

    Arguments:
        frames: of every trajectory `(time, channel, *space)`, channels as in the model.
        grid: their space.
        dt: the usual time between them.
        freedom: which units may be chosen.
        bound: operators that mean something only at the spacing of the training grid, if any.
    """
    mean: tuple[float, ...] = ()
    if freedom.mean or freedom.blind:
        every = enumerate(_average(frames))
        mean = tuple(m if freedom.mean or c in freedom.blind else 0.0 for c, m in every)
    deviation = _deviation(frames)
    amplitude = 1.0
    if (freedom.amplitude or config.rescale) and deviation > 0:
        amplitude = deviation / config.scale
    base = Units(1.0, dt / config.dt if freedom.orders else 1.0, amplitude, mean)
    if not freedom.orders:
        return [base]
    trained = config.grid
    by_box = _ratio(grid.extent, trained.extent)
    # Where a family needs a multiple of some number of points, the next one keeps all modes.
    multiple = 1 if bound is None else bound.points_multiple
    points = [multiple * math.ceil(n / multiple) for n in grid.shape]
    spacing = [x / n for x, n in zip(grid.extent, points, strict=True)]
    by_spacing = _ratio(spacing, trained.spacing)
    if not freedom.length:
        lengths = dict.fromkeys(_even(x) for x in (by_spacing, by_box, 1.0))
        return [replace(base, length=x) for x in lengths]
    length = _even(by_box if bound is None else by_spacing)
    octaves = _octaves(frames, grid, length, trained, freedom.highest)
    return [replace(base, length=length * 2.0**octaves)]


def check_size(frames: Tensor) -> None:
    """Refuse fields, as operators see them, that single precision cannot hold."""
    largest = max(abs(float(end)) for end in frames.aminmax())
    if largest > SINGLE or 0 < largest < 1 / SINGLE:
        raise OpsplitError(
            f"Fields of the size {largest:.3g} do not fit into single precision, and nothing is "
            "known about the terms of this model that would allow other units; give the data in "
            "units in which they are about 1."
        )


def _average(frames: Sequence[Tensor]) -> list[float]:
    """Mean of every channel; sums of large numbers stay finite."""
    largest = _largest(frames)
    total: Any = 0.0
    count = 0
    for f in frames:
        for piece in in_pieces(f):
            held = (piece.double() / largest).transpose(0, 1).flatten(1)
            total, count = total + held.sum(1).numpy(force=True), count + held.shape[1]
    means: list[float] = (np.asarray(total) / count * largest).tolist()
    return means


def _deviation(frames: Sequence[Tensor]) -> float:
    largest, count = _largest(frames), sum(f.numel() for f in frames)
    each = [piece for f in frames for piece in in_pieces(f)]
    mean = sum(float((piece.double() / largest).sum()) for piece in each) / count
    squares = (float((piece.double() / largest - mean).square_().sum()) for piece in each)
    return math.sqrt(sum(squares) / max(1, count - 1)) * largest


def _largest(frames: Sequence[Tensor]) -> float:
    """The largest absolute value; one where there is none."""
    return max(abs(float(end)) for f in frames for end in f.aminmax()) or 1.0


def _ratio(given: Sequence[float], trained: Sequence[float]) -> float:
    """The usual ratio of the axes; exact where they agree."""
    ratios = [a / b for a, b in zip(given, trained, strict=True)]
    if all(math.isclose(ratio, ratios[0], rel_tol=1e-9) for ratio in ratios):
        return ratios[0]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _even(ratio: float) -> float:
    """Exactly one where rounding alone makes the difference."""
    return 1.0 if math.isclose(ratio, 1.0, rel_tol=1e-9) else ratio


def _octaves(
    frames: Sequence[Tensor], grid: Grid, length: float, trained: Grid, right: float
) -> int:
    """The power of two that brings the fields' wavenumbers into the range of the training grid.

    Where operators are right up to a wavenumber only, also the finest modes with a signal come
    below it, as long as the usual ones stay in the range.
    """
    size, energy = _energy(frames, grid)
    if not float(energy.sum()) > 0:
        return 0
    usual = length * float((energy * size).sum() / energy.sum())
    lowest = LOWEST * 2 * math.pi / max(trained.extent)
    highest = HIGHEST * math.pi / min(trained.spacing)
    if not lowest < highest:
        return 0
    if usual < lowest:
        return math.ceil(math.log2(lowest / usual))
    down = math.log2(usual / highest)
    if math.isfinite(right):
        order = size.flatten().argsort(descending=True)
        beyond = energy.flatten()[order].cumsum(0) > TAIL * energy.sum()
        finest = length * float(size.flatten()[order][int(beyond.nonzero()[0])])
        down = max(down, min(math.log2(finest / right), math.floor(math.log2(usual / lowest))))
    return -max(0, math.ceil(down))


def mean_wavenumber(frames: Sequence[Tensor], grid: Grid) -> float:
    """Mean of `|k|` over the energy of the fields; zero if they are constant in space."""
    size, energy = _energy(frames, grid)
    total = float(energy.sum())
    return float((energy * size).sum()) / total if total > 0 else 0.0


def _energy(frames: Sequence[Tensor], grid: Grid) -> tuple[Tensor, Tensor]:
    """`|k|` of every mode, and the energy that the fields have there; their mean has none."""
    size = torch.stack(torch.broadcast_tensors(*wavenumbers(grid))).square().sum(0).sqrt()
    total = torch.zeros_like(size)
    largest = _largest(frames)
    for f in frames:
        for piece in in_pieces(f):
            modes = spectrum_of(piece.double().cpu() / largest, grid.ndim)
            total += modes.abs().square_().sum((0, 1))
    total[(0,) * grid.ndim] = 0.0
    # The modes of the last axis that are not stored are the conjugates of those that are.
    total[..., 1:] *= 2.0
    return size, total
