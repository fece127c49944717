"""Trajectories of operators with known weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from opsplit.fourier import field_of, spectrum_of
from opsplit.grid import Grid
from opsplit.operators import Derivatives, Products, Spectral
from opsplit.trajectories import Trajectories

LINE = Grid((64,), (7.0,))
VALUES = (0.4, 0.7, 1.0)


def fields(n: int, channels: int, grid: Grid, seed: int, modes: int = 4) -> Tensor:
    """Smooth random fields of size one."""
    draws = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, channels, *grid.shape, generator=draws, dtype=torch.float64)
    spectrum = spectrum_of(noise, grid.ndim)
    index = [torch.fft.fftfreq(m, 1 / m) for m in grid.shape[:-1]]
    index.append(torch.fft.rfftfreq(grid.shape[-1], 1 / grid.shape[-1]))
    mesh = torch.meshgrid(*index, indexing="ij")
    keep = torch.stack(mesh).square().sum(0) <= modes**2
    u = field_of(spectrum * keep, grid.shape)
    return u / u.std(tuple(range(2, u.ndim)), keepdim=True)


def planted(
    mechanisms_: Mapping[str, tuple[Spectral, Tensor]], grid: Grid = LINE, dt: float = 0.02,
    frames: int = 20, per_value: int = 4, seed: int = 0,
) -> Trajectories:  # fmt: skip
    """Trajectories of operators with known weights, three values of every coefficient."""
    data, known = [], {name: [] for name in mechanisms_}
    for number, (name, (family, weights)) in enumerate(mechanisms_.items()):
        fine = replace(family, max_step=dt / 8)
        for i, value in enumerate(VALUES):
            u = fields(per_value, family.channels, grid, seed + 100 * number + i)[None]
            operators = fine.prepare(value * weights.double()[None], grid)
            states = [u]
            for _ in range(frames - 1):
                states.append(fine.flow(operators, states[-1], dt))
            data.append(torch.stack(states, 2)[0].float())
            for other in known:
                known[other] += [value if other == name else 0.0] * per_value
    times = torch.arange(frames).double() * dt
    names = tuple("uvw"[: data[0].shape[2]])
    coefficients = {k: torch.tensor(v).double() for k, v in known.items()}
    return Trajectories(torch.cat(data), times, grid, names, coefficients)


def family(linear: tuple[str, ...], products: tuple[str, ...], **more: int) -> Spectral:
    return Spectral(
        linear=Derivatives(linear, 100.0),
        nonlinearity=Products(products) if products else None,
        **more,  # type: ignore[arg-type]
    )


PLANTED = {
    "diffusion": (family(("lap",), ()), [0.1]),
    "transport": (family(("x",), ()), [-1.0]),
    "growth": (family(("lap", "lap2"), ()), [-0.3, -0.05]),
    "reaction": (family(("",), ("0*0*0",)), [1.0, -1.0]),
    "flux": (family((), ("0*0@x",)), [-0.3]),
    "cubic flux": (family((), ("0*0*0@x",)), [-0.2]),
    "quartic flux": (family((), ("0*0*0*0@x",)), [-0.05]),
    "potential": (family(("px",), ()), [1.0]),
    "slope": (family((), ("0:x*0:x",)), [-0.1]),
    "flux of the slope": (family((), ("0:x*0:x*0:x@x",)), [0.01]),
    "fractional": (family(("abs.half",), ()), [-0.2]),
}
