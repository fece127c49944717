"""Errors, defined once.

NRMSE here is `||u - v||_2 / ||u||_2` over all predicted frames, channels and points of a
trajectory; a table shows its mean over trajectories. Observed frames never count.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHANGE_FLOOR = 1e-6
"""Changes below this share of the field are rounding of single precision."""


def _ratio(error: Tensor, truth: Tensor, dims: tuple[int, ...]) -> Tensor:
    def size(x: Tensor) -> Tensor:
        return x.square().sum(dims).sqrt()

    return size(error) / size(truth).clamp_min(torch.finfo(truth.dtype).tiny)


def nrmse(predicted: Tensor, truth: Tensor) -> Tensor:
    """Space-time error per trajectory of `(trajectory, time, channel, *space)`."""
    return _ratio(predicted - truth, truth, tuple(range(1, truth.ndim)))


def nrmse_per_frame(predicted: Tensor, truth: Tensor) -> Tensor:
    """Error of every frame, `(trajectory, time)`."""
    return _ratio(predicted - truth, truth, tuple(range(2, truth.ndim)))


def nrmse_per_channel(predicted: Tensor, truth: Tensor) -> Tensor:
    """Space-time error of every channel, `(trajectory, channel)`."""
    return _ratio(predicted - truth, truth, (1, *range(3, truth.ndim)))


def vrmse(predicted: Tensor, truth: Tensor, epsilon: float = 1e-7) -> Tensor:
    """The Well's variance-scaled error, `(trajectory,)`: mean over frames and channels.

    Per frame and channel `sqrt(<(u - v)^2> / (<(u - <u>)^2> + epsilon))`, means over space.
    """
    dims = tuple(range(3, truth.ndim))
    variance = truth.var(dims, correction=0)
    mean_square = (predicted - truth).square().mean(dims)
    return (mean_square / (variance + epsilon)).sqrt().mean((1, 2))


def relative_error(predicted: Tensor, target: Tensor) -> Tensor:
    """`||p - t|| / ||t||` of every state `(E, K, channel, *space)`, over channels and space."""
    gap = (predicted - target).flatten(2).norm(dim=2)
    return gap / target.flatten(2).norm(dim=2).clamp_min(1e-12)


def change_error(predicted: Tensor, target: Tensor, state: Tensor) -> Tensor:
    """`||p - t|| / ||t - s||` of every state `s` `(E, K, channel, *space)`: the error of a step
    relative to its change, which never counts as smaller than rounding."""
    gap = (predicted - target).flatten(2).norm(dim=2)
    change = (target - state).flatten(2).norm(dim=2)
    return gap / (change + CHANGE_FLOOR * target.flatten(2).norm(dim=2)).clamp_min(1e-30)


def channel_error(predicted: Tensor, target: Tensor, floor: float = 0.03) -> Tensor:
    """The relative error of every channel by itself, then the mean over channels; `(E, K)`.

    The norm of a channel has the share `floor` of the norm of the whole field added to it (as the
    root of a sum of squares), so that a channel close to zero does not dominate.
    """
    gap = (predicted - target).flatten(3).norm(dim=3)
    size = target.flatten(3).norm(dim=3)
    whole = size.norm(dim=2, keepdim=True)
    return (gap / (size.square() + (floor * whole).square()).sqrt().clamp_min(1e-12)).mean(2)
