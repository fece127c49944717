"""Our family for periodic grids: a Fourier symbol and gated products between filtered fields.

    f(u) = F^-1[ L(k) F u ]  +  sum_q F^-1[ G_q(k) F[ M(A_1 u, ..., A_P u)_q ] ]

The linear part is integrated exactly by its exponential, the products by an
integrating-factor RK4 scheme with 2/3 dealiasing around each of them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.family import (
    Initialisation,
    OperatorFamily,
    Prepared,
    longest,
    per_operator,
)


class Spectral(OperatorFamily):
    """Operators given by smooth symbols, so that they work at any resolution and box size.

    With `kappa` the wavenumber over `wavenumber_scale`,

        Re L = -(r0^2 + (|kappa| r1)^2 + (|kappa|^2 r2)^2)   never positive: no flow can explode
        Im L = sum_a kappa_a b1_a + kappa_a |kappa|^2 b3_a

    and every coefficient is a constant plus smooth bumps in `log2(1 + |k|)`.

    Arguments:
        channels: physical channels of the field; `L` acts on each by itself.
        ndim: space axes.
        max_step: longest RK4 step of the products, in physical time.
        copies: filtered copies of the field that enter the products (0: a linear operator).
        layers: gated layers `h -> (W h + w)(V h + v)`; one gives quadratic terms, two cubic.
        inverse: give the copies filters like `i k / |k|^2` too (velocity from vorticity).
        bumps: bumps per coefficient of `L`, between wavenumber 0 and `bump_wavenumber`.
        wavenumber_scale: unit of the wavenumber.
    """

    name = "spectral"

    def __init__(
        self,
        channels: int,
        ndim: int,
        max_step: float,
        copies: int = 4,
        layers: int = 1,
        inverse: bool = False,
        bumps: int = 8,
        bump_wavenumber: float = 50.0,
        wavenumber_scale: float = 1.0,
    ) -> None:
        self.channels, self.ndim, self.max_step = channels, ndim, max_step
        self.copies, self.layers, self.inverse = copies, layers, inverse
        self.bumps, self.bump_wavenumber = bumps, bump_wavenumber
        self.wavenumber_scale = wavenumber_scale
        c, d, p = channels, ndim, copies
        self.shapes: dict[str, tuple[int, ...]] = {
            "decay": (3, c, 1 + bumps),
            "turn": (2, d, c, 1 + bumps),
        }
        if copies:
            self.shapes |= {"filter": (p, c, 1 + d * (1 + inverse))}
            for layer in range(layers):
                self.shapes |= {f"gate{layer}": (2, p, p), f"gate{layer}.shift": (2, p)}
            self.shapes |= {"output": (c, p, 1 + d)}
        self.n_parameters = sum(math.prod(shape) for shape in self.shapes.values())

    def config(self) -> dict[str, Any]:
        names = (
            "channels",
            "ndim",
            "max_step",
            "copies",
            "layers",
            "inverse",
            "bumps",
            "bump_wavenumber",
            "wavenumber_scale",
        )
        return {name: getattr(self, name) for name in names}

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        """Start near the identity flow: weak decay, no rotation, products switched off.

        Scales even out what a parameter does: a power of k acts on fields up to k = 10 or so,
        and bumps only correct a law that is mostly a power of k.
        """
        start, scale, bound = [], [], []
        for name, shape in self.shapes.items():
            begin, size = torch.zeros(shape), torch.ones(shape)
            if name in ("decay", "turn"):
                powers = (0.3, 1.0, 0.1) if name == "decay" else (1.0, 0.02)
                size *= torch.tensor(powers).reshape(-1, *[1] * (len(shape) - 1))
                size[..., 1:] *= 0.02
                if name == "decay":
                    begin[..., 0] = 0.1 * size[..., 0]
            elif name == "output":
                size *= 0.02
            elif not name.endswith("shift"):
                begin = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
            start.append(begin.flatten())
            scale.append(size.flatten())
            bound.append(torch.full((begin.numel(),), 20.0))
        return Initialisation(torch.cat(start), torch.cat(scale), torch.cat(bound))

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if not grid.periodic:
            raise OpsplitError(
                f"Spectral operators need periodic axes, the data have {grid.boundary}. "
                'Use family="unet" for walls.'
            )

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        pieces = parameters.split(sizes, dim=1)
        w = {
            name: piece.reshape(-1, *shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }
        dtype, device = parameters.dtype, parameters.device
        kappa = torch.stack(
            torch.broadcast_tensors(
                *(k / self.wavenumber_scale for k in grid.wavenumbers(dtype, device))
            )
        )
        for axis, n in enumerate(grid.shape):
            if n % 2 == 0:
                # The mode at half the sampling rate has no sign, hence no odd derivative.
                kappa = _without_nyquist(kappa, axis, n)
        size2 = sum(k.square() for k in torch.broadcast_tensors(*grid.wavenumbers(dtype, device)))
        size = torch.as_tensor(size2).sqrt()
        basis = self._bump_basis(size)
        size = size / self.wavenumber_scale
        decay = torch.einsum("efcb,b...->efc...", w["decay"], basis)
        turn = torch.einsum("efacb,b...->efac...", w["turn"], basis)
        real = decay[:, 0] ** 2 + (size * decay[:, 1]) ** 2 + (size**2 * decay[:, 2]) ** 2
        imag = (kappa[:, None] * (turn[:, 0] + size**2 * turn[:, 1])).sum(1)
        tensors = {"symbol": torch.complex(-real, imag)}
        if self.copies:
            one = torch.ones_like(size)
            gradient = [1j * k for k in kappa]
            safe = torch.where(size > 0, size, one) ** 2
            inverse = [torch.where(size > 0, g / safe, 0 * g) for g in gradient]
            into = torch.stack([one + 0j, *gradient, *(inverse if self.inverse else [])])
            out = torch.stack([one + 0j, *gradient])
            keep = self._dealias(grid, device)
            tensors["filter"] = torch.einsum("epcb,b...->epc...", w["filter"] + 0j, into) * keep
            tensors["output"] = torch.einsum("ecpb,b...->ecp...", w["output"] + 0j, out) * keep
            tensors |= {name: t for name, t in w.items() if name.startswith("gate")}
        return Prepared(tensors, grid)

    def _bump_basis(self, size: Tensor) -> Tensor:
        """A constant and Gaussians in `log2(1 + |k|)`, `(1 + bumps, *modes)`."""
        if not self.bumps:
            return torch.ones_like(size)[None]
        octave = torch.log2(1 + size)
        centres = torch.linspace(0, math.log2(1 + self.bump_wavenumber), self.bumps).to(octave)
        width = float(centres[1] - centres[0]) if self.bumps > 1 else 1.0
        away = (octave - centres.reshape(-1, *[1] * octave.ndim)) / width
        return torch.cat([torch.ones_like(octave)[None], torch.exp(-0.5 * away**2)])

    @staticmethod
    def _dealias(grid: Grid, device: torch.device) -> Tensor:
        """Keep the lower two thirds of the modes of every axis."""
        keep = torch.ones((), device=device)
        for k, n, h in zip(grid.wavenumbers(device=device), grid.shape, grid.spacing, strict=True):
            keep = keep * (k.abs() <= 2 / 3 * math.pi / h * (1 - 1e-9) + 0 * n)
        return keep

    def evaluations(self, duration: float) -> int:
        return 4 * self._rk_steps(duration) if self.copies else 1

    def workspace(self, grid: Grid, states: int) -> int:
        return states * math.prod(grid.shape) * (12 * self.channels + 8 * self.copies)

    def _rk_steps(self, duration: float) -> int:
        return max(1, math.ceil(duration / self.max_step - 1e-6))

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        axes = tuple(range(-self.ndim, 0))
        space = prepared.grid.shape
        spectrum = torch.fft.rfftn(u, dim=axes)
        symbol = prepared.tensors["symbol"].unsqueeze(1)
        h = per_operator(duration, u)
        if not self.copies:
            return torch.fft.irfftn(torch.exp(symbol * h) * spectrum, s=space, dim=axes)
        steps = self._rk_steps(longest(duration))
        h = h / steps
        half = torch.exp(symbol * (h / 2))
        full = half * half

        def products(spectrum: Tensor) -> Tensor:
            return self._products(prepared, spectrum)

        for _ in range(steps):
            k1 = products(spectrum)
            k2 = products(half * (spectrum + h / 2 * k1))
            k3 = products(half * spectrum + h / 2 * k2)
            k4 = products(full * spectrum + h * half * k3)
            spectrum = full * (spectrum + h / 6 * k1) + h / 6 * (2 * half * (k2 + k3) + k4)
        return torch.fft.irfftn(spectrum, s=space, dim=axes)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        axes = tuple(range(-self.ndim, 0))
        spectrum = torch.fft.rfftn(u, dim=axes)
        total = prepared.tensors["symbol"].unsqueeze(1) * spectrum
        if self.copies:
            total = total + self._products(prepared, spectrum)
        return torch.fft.irfftn(total, s=prepared.grid.shape, dim=axes)

    def _products(self, prepared: Prepared, spectrum: Tensor) -> Tensor:
        """The nonlinear part, from spectrum to spectrum."""
        axes, space = tuple(range(-self.ndim, 0)), prepared.grid.shape
        w = prepared.tensors
        copies = torch.einsum("epc...,ekc...->ekp...", w["filter"], spectrum)
        x = torch.fft.irfftn(copies, s=space, dim=axes)
        for i in range(self.layers):
            if i:
                keep = self._dealias(prepared.grid, x.device)
                x = torch.fft.irfftn(torch.fft.rfftn(x, dim=axes) * keep, s=space, dim=axes)
            gate = torch.einsum("egqp,ekp...->gekq...", w[f"gate{i}"], x)
            shift = w[f"gate{i}.shift"].transpose(0, 1).unsqueeze(2)
            gate = gate + shift[(..., *[None] * self.ndim)]
            x = gate[0] * gate[1]
        return torch.einsum("ecp...,ekp...->ekc...", w["output"], torch.fft.rfftn(x, dim=axes))


def _without_nyquist(kappa: Tensor, axis: int, n: int) -> Tensor:
    kappa = kappa.clone()
    kappa[axis].select(axis, n // 2).zero_()
    return kappa
