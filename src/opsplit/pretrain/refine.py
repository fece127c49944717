"""Refine weights through the real flow, by Levenberg-Marquardt on the error of short forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.operators import OperatorFamily
from opsplit.pretrain.limit import Limit

STEP = 1e-4
"""Difference quotients change a weight by this share of its size."""
QUIET = 0.1
"""States that change less than this share of the usual change count less."""
UNSURE = 1.1
"""Squared errors up to so many times those of the noise in the frames are noise."""
CONVERGED = 0.02
"""Iterations end once none lowers the squared error by more than this share."""


@dataclass(frozen=True)
class Pairs:
    """States and what follows them, for every environment, after `duration`."""

    states: Tensor
    """`(E, K, channel, *space)`"""
    targets: Tensor
    duration: float

    def change(self) -> Tensor:
        """Size of the change from state to target, `(E, K)`.

        Never below rounding, nor below a small share of the usual change: states that hardly
        change say little.
        """
        size = (self.targets - self.states).flatten(2).norm(dim=2)
        usual = size.square().mean(1, keepdim=True).sqrt()
        floor = QUIET * usual + 2e-7 * self.targets.flatten(2).norm(dim=2)
        return (size.square() + floor.square()).sqrt() + 1e-300

    def take(self, index: Sequence[int]) -> Pairs:
        """Some of the environments."""
        chosen = list(index)
        return Pairs(self.states[chosen], self.targets[chosen], self.duration)


@torch.no_grad()
def residuals(family: OperatorFamily, parameters: Tensor, pairs: Pairs, grid: Grid) -> Tensor:
    """What flows leave, relative to the change: `(E, K, channel * points)`, at most 1e3."""
    operators = family.prepare(parameters, grid)
    found = family.flow(operators, pairs.states, pairs.duration)
    left = (found - pairs.targets).flatten(2) / pairs.change()[..., None]
    return left.nan_to_num(1e3, 1e3, -1e3).clamp(-1e3, 1e3)


def errors(
    family: OperatorFamily, parameters: Tensor, pairs: Sequence[Pairs], grid: Grid
) -> Tensor:
    """Root mean square over states of the error relative to the change, `(E,)`."""
    each = [residuals(family, parameters, p, grid).square().sum(2) for p in pairs]
    return torch.cat(each, 1).mean(1).sqrt()


@torch.no_grad()
def noise_floor(
    family: OperatorFamily, parameters: Tensor, pairs: Sequence[Pairs], left: Sequence[Pairs],
    grid: Grid,
) -> Tensor:  # fmt: skip
    """The error `(E,)` that noise alone makes, in the states and in what follows them.

    Arguments:
        left: the noise in these pairs.
    """
    operators = family.prepare(parameters, grid)
    each = []
    for p, shake in zip(pairs, left, strict=True):
        moved = family.flow(operators, p.states + shake.states, p.duration)
        moved = moved - family.flow(operators, p.states, p.duration)
        error = (moved.nan_to_num(0.0, 0.0) - shake.targets).flatten(2).square().sum(2)
        each.append(error / p.change().square())
    return torch.cat(each, 1).mean(1).sqrt()


def beyond_noise(error: Tensor, noise: Tensor) -> Tensor:
    """Errors `(E,)` without the part that noise in the frames explains."""
    return (error.square() - UNSURE * noise.square()).clamp_min(0).sqrt()


def refine(
    family: OperatorFamily, parameters: Tensor, free: Tensor, pairs: Sequence[Pairs], grid: Grid,
    limit: Limit | None = None, iterations: int = 6,
) -> Tensor:  # fmt: skip
    """Weights `(E, P)` that forecast the pairs best; only those at the positions `free` change."""
    limit = limit or Limit()
    best = parameters.clone()
    if not len(free):
        return best
    now = [residuals(family, best, p, grid) for p in pairs]
    damping = torch.full((len(best),), 1e-3, dtype=best.dtype)
    size = best[:, free].abs()
    size = torch.maximum(size, 1e-3 * size.amax(1, keepdim=True)).clamp_min(1e-12)
    for _ in range(iterations):
        if limit.over():
            break
        normal, gradient = _normal(family, best, free, size, pairs, now, grid)
        lifted = normal + damping[:, None, None] * torch.diag_embed(
            normal.diagonal(dim1=1, dim2=2).clamp_min(1e-300)
        )
        step = -torch.linalg.lstsq(lifted, gradient[..., None]).solution[..., 0]
        trial = best.clone()
        trial[:, free] += step.nan_to_num(0.0) * size
        new = [residuals(family, trial, p, grid) for p in pairs]
        was, is_now = _total(now), _total(new)
        better = is_now < was
        best[better] = trial[better]
        now = [torch.where(better[:, None, None], n, o) for n, o in zip(new, now, strict=True)]
        damping = torch.where(better, damping * 0.1, damping * 30)
        if bool((is_now > (1 - CONVERGED) * was).all()):
            break
    return best


def necessity(
    family: OperatorFamily, parameters: Tensor, free: Tensor, pairs: Sequence[Pairs], grid: Grid
) -> Tensor:
    """By how much the squared error rises without a weight, relative to what it is, `(m,)`.

    From the quadratic model around the best weights; the largest over environments.
    """
    now = [residuals(family, parameters, p, grid) for p in pairs]
    size = parameters[:, free].abs().clamp_min(1e-12)
    normal, _ = _normal(family, parameters, free, size, pairs, now, grid)
    scale = normal.diagonal(dim1=1, dim2=2).clamp_min(1e-300).sqrt()
    even = normal / scale[:, :, None] / scale[:, None]
    inverse = torch.linalg.pinv(even, hermitian=True, rtol=1e-12)
    spread = inverse.diagonal(dim1=1, dim2=2) / scale.square()
    rise = (parameters[:, free] / size).square() / spread.clamp_min(1e-300)
    return (rise / _total(now).clamp_min(1e-300)[:, None]).amax(0)


def _total(left: Sequence[Tensor]) -> Tensor:
    return torch.stack([x.square().sum((1, 2)) / x.shape[1] for x in left]).sum(0)


def _normal(
    family: OperatorFamily, best: Tensor, free: Tensor, size: Tensor, pairs: Sequence[Pairs],
    now: Sequence[Tensor], grid: Grid,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Normal matrix `(E, m, m)` and gradient `(E, m)` in units of the weights' sizes."""
    e, m = size.shape
    normal, gradient = best.new_zeros(e, m, m), best.new_zeros(e, m)
    for p, left in zip(pairs, now, strict=True):
        columns = []
        for j, place in enumerate(free.tolist()):
            moved = best.clone()
            moved[:, place] += STEP * size[:, j]
            columns.append((residuals(family, moved, p, grid) - left) / STEP)
        jacobian = torch.stack(columns, 1).flatten(2)
        normal += jacobian @ jacobian.transpose(1, 2) / left.shape[1]
        gradient += (jacobian @ left.flatten(1)[..., None])[..., 0] / left.shape[1]
    return normal, gradient
