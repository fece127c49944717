"""The operator family of a training, with the units that its data ask for."""

from __future__ import annotations

from typing import Any

import torch

from opsplit.operators import Spectral
from opsplit.pretrain.sources import Facts, FreshSource, StoredSource
from opsplit.trajectories import Trajectories


def fitted_operator(
    family: str, given: dict[str, Any], facts: Facts, source: FreshSource | StoredSource
) -> dict[str, Any]:
    """Arguments of a family, completed by what follows from grid, frames and fields."""
    operator, grid = dict(given), facts.grid
    operator["max_step"] = facts.dt * 1.001 / operator.pop("steps", 1)
    if family == "unet":
        operator["boundary"] = list(grid.boundary)
        if operator.pop("standardise", False) and isinstance(source, StoredSource):
            operator |= _standard(source.data, facts.scale)
        return operator
    operator["spacing"] = min(grid.spacing)
    operator["bump_wavenumber"] = max(
        3.1416 * n / length for n, length in zip(grid.shape, grid.extent, strict=True)
    )
    if isinstance(source, StoredSource) and "degree" in operator:
        operator |= _usual_sizes(operator, source.data, facts.scale)
    return operator


def _standard(data: Trajectories, scale: float) -> dict[str, Any]:
    """Mean and deviation of every channel, and how fast it usually changes."""
    fields = data.data[::2, ::4].float().transpose(0, 2).flatten(1) / scale
    change = data.data[::2].float().diff(dim=1)[:, ::4].transpose(0, 2).flatten(1) / scale
    return {
        "centre": fields.mean(1).tolist(),
        "spread": fields.std(1).tolist(),
        "pace": (change.square().mean(1).sqrt() / data.dt).tolist(),
    }


def _usual_sizes(operator: dict[str, Any], data: Trajectories, scale: float) -> dict[str, Any]:
    """Mean and size of what a polynomial is made of, on some of the data."""
    channels, grid = data.data.shape[2], data.grid
    draws = torch.Generator().manual_seed(0)
    some = data.data.flatten(0, 1)[
        torch.randint(data.data.shape[0] * data.data.shape[1], (64,), generator=draws)
    ]
    states = some.float()[None] / scale
    sizes: dict[str, Any] = {}
    if operator.get("constants", True):
        sizes["centre"] = states.mean((0, 1, *range(3, states.ndim))).tolist()
    family = Spectral(channels=channels, ndim=grid.ndim, **(operator | sizes))
    prepared = family.prepare(torch.zeros(1, family.n_parameters), grid)
    spectrum = torch.fft.rfftn(states, dim=tuple(range(-grid.ndim, 0)))
    factors = family.factors(prepared, spectrum)
    sizes["spread"] = factors.square().mean((0, 1, *range(3, states.ndim))).sqrt().tolist()
    family = Spectral(channels=channels, ndim=grid.ndim, **(operator | sizes))
    terms = family.monomials(family.factors(prepared, spectrum)).transpose(0, 2).flatten(1).double()
    gram = terms @ terms.T / terms.shape[1]
    # Orthonormal on these states; a hair of the identity for monomials that are nearly the same.
    gram += 1e-9 * torch.eye(len(gram)).double() * gram.diagonal().mean()
    sizes["mixing"] = torch.linalg.inv(torch.linalg.cholesky(gram)).flatten().tolist()
    return sizes
