"""Our family for periodic grids: a Fourier symbol and gated products between filtered fields.

    f(u) = F^-1[ L(k) F u ]  +  sum_q F^-1[ G_q(k) F[ M(A_1 u, ..., A_P u)_q ] ]

The linear part is integrated exactly by its exponential, the products by an
integrating-factor RK4 scheme with 2/3 dealiasing around each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import fit_modes, mode_shares, wavenumbers
from opsplit.grid import Grid
from opsplit.operators.family import (
    Initialisation,
    OperatorFamily,
    Prepared,
    longest,
    per_operator,
)

ROUNDING = 1e-3
"""How far the corner of an absolute value is rounded, for a gradient everywhere."""
CUT_ORDER = 36
"""The power of a mode's share of the finest one with which a smooth cut damps it."""


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
        copies: filtered copies of the field that enter the products.
        shifts: copies shifted along every axis by neighbouring multiples of `spacing`, for fronts
            that no smooth filter can follow; products are then differenced over one `spacing`.
        products: products per layer (default: as many as copies; none: a linear operator).
        layers: gated layers `h -> (W h + w)(V h + v)`; one gives quadratic terms, two cubic.
        constants: whether the layers have the shifts `w`, `v`; without them `f` is homogeneous.
        absolute: half of the products take the absolute value of one factor (upwinding).
        inverse: give the copies filters like `i k / |k|^2` too (velocity from vorticity).
        dealias: share of the modes of every axis that enter the products; above one, monomials
            are formed on a grid that much finer (1.5 makes products of two exact).
        bumps: bumps per coefficient of `L`, between wavenumber 0 and `bump_wavenumber`.
        wavenumber_scale: unit of the wavenumber.
        spacing: distance of neighbouring `shifts`.
        quiet: square `b1` and `b3`, keeping their sign. An operator that does not turn its waves
            then needs no exact zero, which `kappa^3` would make much of.
        output_scale: how fast the weights of the products are learned.
        derivatives: whether products see and make derivatives; a reaction does neither.
        degree: instead of gated layers, all monomials up to this degree (without `constants`: of
            this degree) of the channels and, if asked for, their derivatives and `inverse`.
        centre: the usual mean of every channel, taken off before (not given: 0).
        spread: the usual size of what the monomials multiply, divided by (not given: 1).
        mixing: rows of a matrix that makes the monomials orthonormal over the usual fields; their
            weights are those of what it makes of them, which can be learned one by one.
        prune: weights of monomials smaller than this are none. An operator without any flows as
            exactly and as cheaply as if it had no monomials.
        cut: how fast flows with products damp the grid's finest mode, which the products would
            fill up; a smooth cut (Hou and Li, 2007) that leaves the lower four fifths alone.
    """

    name = "spectral"

    def __init__(
        self,
        channels: int,
        ndim: int,
        max_step: float,
        copies: int = 4,
        shifts: int = 0,
        products: int | None = None,
        layers: int = 1,
        constants: bool = True,
        absolute: bool = False,
        inverse: bool = False,
        dealias: float = 2 / 3,
        bumps: int = 8,
        bump_wavenumber: float = 50.0,
        wavenumber_scale: float = 1.0,
        spacing: float = 1.0,
        quiet: bool = False,
        output_scale: float = 0.02,
        derivatives: bool = True,
        centre: Sequence[float] = (),
        spread: Sequence[float] = (),
        degree: int = 0,
        mixing: Sequence[float] = (),
        prune: float = 0.0,
        cut: float = 0.0,
    ) -> None:
        self.channels, self.ndim, self.max_step = channels, ndim, max_step
        self.copies, self.shifts, self.layers = copies, shifts, layers
        self.products = copies if products is None else products
        self.constants, self.absolute, self.inverse = constants, absolute, inverse
        self.dealias, self.bumps, self.bump_wavenumber = dealias, bumps, bump_wavenumber
        self.wavenumber_scale, self.spacing, self.quiet = wavenumber_scale, spacing, quiet
        self.output_scale, self.derivatives = output_scale, derivatives
        self.centre, self.spread, self.degree = list(centre), list(spread), degree
        self.mixing, self.prune, self.cut = list(mixing), prune, cut
        if degree:
            # Without layers: what is multiplied is fixed, only its weights are generated.
            self.copies, self.layers = 0, 0
            self.products = len(self._monomials())
        c, d, q = channels, ndim, self.products
        copies = self.copies
        self.shapes: dict[str, tuple[int, ...]] = {
            "decay": (3, c, 1 + bumps),
            "turn": (2, d, c, 1 + bumps),
        }
        if q:
            if copies:
                self.shapes |= {"filter": (copies, c, 1 + d * (derivatives + inverse))}
            width = copies + shifts * d * c
            for layer in range(self.layers):
                self.shapes |= {f"gate{layer}": (2, q, width)}
                if constants:
                    self.shapes |= {f"gate{layer}.shift": (2, q)}
                width = q
            self.shapes |= {"output": (c, q, 1 if degree else 1 + d * derivatives)}
        self.n_parameters = sum(math.prod(shape) for shape in self.shapes.values())

    def config(self) -> dict[str, Any]:
        names = (
            "channels",
            "ndim",
            "max_step",
            "copies",
            "shifts",
            "products",
            "layers",
            "constants",
            "absolute",
            "inverse",
            "dealias",
            "bumps",
            "bump_wavenumber",
            "wavenumber_scale",
            "spacing",
            "quiet",
            "output_scale",
            "derivatives",
            "centre",
            "spread",
            "degree",
            "mixing",
            "prune",
            "cut",
        )
        return {name: getattr(self, name) for name in names}

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        """Start near the identity flow: weak decay, no rotation, products switched off.

        Scales even out what a parameter does: a power of k acts on fields up to k = 10 or so,
        and bumps only correct a law that is mostly a power of k.
        """
        start, scale, bound, variation = [], [], [], []
        for name, shape in self.shapes.items():
            begin, size, differs = torch.zeros(shape), torch.ones(shape), torch.ones(shape)
            if name in ("decay", "turn"):
                powers = (0.3, 1.0, 0.1) if name == "decay" else (1.0, 0.02)
                size *= torch.tensor(powers).reshape(-1, *[1] * (len(shape) - 1))
                size[..., 1:] *= 0.02
                if self.quiet and name == "turn":
                    size = size.sqrt()
                    begin[1, ..., 0] = 0.2 * size[1, ..., 0]
                if name == "decay":
                    begin[..., 0] = 0.1 * size[..., 0]
            elif name == "output":
                size *= self.output_scale
                differs *= 0.3 if self.shifts else 1.0
            elif not name.endswith("shift"):
                # Operators that differ in strength only may share what they multiply.
                differs *= 0.05 if self.shifts else 1.0
                begin = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
            start.append(begin.flatten())
            scale.append(size.flatten())
            bound.append(torch.full((begin.numel(),), 20.0))
            variation.append(differs.flatten())
        return Initialisation(*(torch.cat(x) for x in (start, scale, bound, variation)))

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
                *(k / self.wavenumber_scale for k in wavenumbers(grid, dtype, device))
            )
        )
        for axis, n in enumerate(grid.shape):
            if n % 2 == 0:
                # The mode at half the sampling rate has no sign, hence no odd derivative.
                kappa = _without_nyquist(kappa, axis, n)
        size2 = sum(k.square() for k in torch.broadcast_tensors(*wavenumbers(grid, dtype, device)))
        size = torch.as_tensor(size2).sqrt()
        basis = self._bump_basis(size)
        size = size / self.wavenumber_scale
        decay = torch.einsum("efcb,b...->efc...", w["decay"], basis)
        turn = torch.einsum("efacb,b...->efac...", w["turn"], basis)
        if self.quiet:
            turn = turn * turn.abs()
        real = decay[:, 0] ** 2 + (size * decay[:, 1]) ** 2 + (size**2 * decay[:, 2]) ** 2
        imag = (kappa[:, None] * (turn[:, 0] + size**2 * turn[:, 1])).sum(1)
        tensors = {"symbol": torch.complex(-real, imag)}
        if self.products:
            one = torch.ones_like(size)
            gradient = [1j * k for k in kappa]
            keep = self._dealias(grid, device)
            if self.copies or self.degree:
                safe = torch.where(size > 0, size, one) ** 2
                inverse = [torch.where(size > 0, g / safe, 0 * g) for g in gradient]
                slopes = gradient if self.derivatives else []
                into = torch.stack([one + 0j, *slopes, *(inverse if self.inverse else [])]) * keep
                if self.degree:
                    tensors["bank"] = into.expand(len(parameters), *into.shape)
                else:
                    tensors["filter"] = torch.einsum("epcb,b...->epc...", w["filter"] + 0j, into)
            differences = gradient
            if self.shifts:
                turns = [1j * k * self.spacing for k in wavenumbers(grid, dtype, device)]
                nearby = torch.arange(self.shifts) - (self.shifts - 1) // 2
                shift = [torch.exp(int(j) * turn) * (one + 0j) for turn in turns for j in nearby]
                # Shared by all operators, but repeated, as an operator must be a slice.
                tensors["shift"] = (torch.stack(shift) * keep).expand(
                    len(parameters), -1, *size.shape
                )
                # A flux lives half way between two points: its difference belongs to a point.
                differences = [1 - torch.exp(-turn) * (one + 0j) for turn in turns]
                differences = [g / (self.spacing * self.wavenumber_scale) for g in differences]
            if self.degree:
                tensors["weights"] = self._weights(w["output"][..., 0])
            else:
                tensors["output"] = w["output"]
                made = torch.stack([one + 0j, *(differences if self.derivatives else [])]) * keep
                tensors["slopes"] = made.expand(len(parameters), *made.shape)
            tensors |= {name: t for name, t in w.items() if name.startswith("gate")}
            if self.cut:
                decline = self.cut * mode_shares(grid, device).to(dtype) ** CUT_ORDER
                tensors["cut"] = decline.expand(len(parameters), 1, *decline.shape)
        return Prepared(tensors, grid)

    def _weights(self, generated: Tensor) -> Tensor:
        """Weights of the monomials, `(E, channel, monomial)`."""
        weights = generated
        if self.mixing:
            n = weights.shape[-1]
            weights = weights @ weights.new_tensor(self.mixing).reshape(n, n)
        return weights * (weights.abs() >= self.prune) if self._prunes(weights) else weights

    def _prunes(self, weights: Tensor) -> bool:
        """Small weights stay while they are trained, or they could never grow."""
        return bool(self.prune) and self.degree > 0 and not weights.requires_grad

    def _bump_basis(self, size: Tensor) -> Tensor:
        """A constant and Gaussians in `log2(1 + |k|)`, `(1 + bumps, *modes)`."""
        if not self.bumps:
            return torch.ones_like(size)[None]
        octave = torch.log2(1 + size)
        centres = torch.linspace(0, math.log2(1 + self.bump_wavenumber), self.bumps).to(octave)
        width = float(centres[1] - centres[0]) if self.bumps > 1 else 1.0
        away = (octave - centres.reshape(-1, *[1] * octave.ndim)) / width
        return torch.cat([torch.ones_like(octave)[None], torch.exp(-0.5 * away**2)])

    def _dealias(self, grid: Grid, device: torch.device) -> Tensor:
        """Keep the lower part of the modes of every axis, two thirds of them if not told."""
        keep = torch.ones((), device=device)
        if self.dealias < 1:
            for k, h in zip(wavenumbers(grid, device=device), grid.spacing, strict=True):
                keep = keep * (k.abs() <= self.dealias * math.pi / h * (1 - 1e-9))
        return keep

    def _fine(self, grid: Grid) -> tuple[int, ...]:
        """The grid that monomials are formed on: a finer one if `dealias` is above one."""
        return tuple(
            2 * math.ceil(n * max(1.0, self.dealias) / 2) if self.dealias > 1 else n
            for n in grid.shape
        )

    def evaluations(self, duration: float) -> int:
        return 4 * self._rk_steps(duration) if self.products else 1

    def workspace(self, grid: Grid, states: int) -> int:
        return states * math.prod(grid.shape) * (12 * self.channels + self._width())

    def _monomials(self) -> list[tuple[int, ...]]:
        """The filtered channels in every monomial, each after the one it grows from."""
        factors = self.channels * (1 + self.ndim * (self.derivatives + self.inverse))
        return [
            chosen
            for degree in range(0 if self.constants else self.degree, self.degree + 1)
            for chosen in combinations_with_replacement(range(factors), degree)
        ]

    def factors(self, prepared: Prepared, spectrum: Tensor) -> Tensor:
        """What the monomials multiply, `(E, K, factor, *space)`: every channel, every filter."""
        axes, space = tuple(range(-self.ndim, 0)), self._fine(prepared.grid)
        held = (spectrum[:, :, :, None] * prepared.tensors["bank"][:, None, None]).flatten(2, 3)
        held = fit_modes(held, prepared.grid.shape, space)
        x = torch.fft.irfftn(held, s=space, dim=axes)
        if self.centre:
            # Of all filters only the first, which does nothing, lets a constant pass.
            mean = x.new_zeros(self.channels, x.shape[2] // self.channels)
            mean[:, 0] = x.new_tensor(self.centre)
            x = x - mean.reshape(-1, *[1] * self.ndim)
        if self.spread:
            x = x / x.new_tensor(self.spread).reshape(-1, *[1] * self.ndim)
        return x

    def monomials(self, x: Tensor, used: Tensor | None = None) -> Tensor:
        """Products of factors `(E, K, factor, *space)`, those at the positions `used` or all."""
        known = self._monomials()
        terms = []
        for chosen in known if used is None else [known[i] for i in used.tolist()]:
            factors = [x[:, :, i] for i in chosen]
            terms.append(math.prod(factors[1:], start=factors[0]) if chosen else 0 * x[:, :, 0] + 1)
        return torch.stack(terms, 2)

    def _polynomial(self, prepared: Prepared, spectrum: Tensor) -> Tensor:
        """All monomials with their weights, from spectrum to spectrum."""
        x = self.factors(prepared, spectrum)
        weights, used = prepared.tensors["weights"], None
        if self._prunes(weights):
            used = weights.ne(0).any(0).any(0).nonzero()[:, 0]
            weights = weights[..., used]
        total = torch.einsum("ecp,ekp...->ekc...", weights, self.monomials(x, used))
        made = torch.fft.rfftn(total, dim=tuple(range(-self.ndim, 0)))
        made = fit_modes(made, self._fine(prepared.grid), prepared.grid.shape)
        return made * self._dealias(prepared.grid, total.device)

    def _width(self) -> int:
        """Numbers per point while products are formed."""
        return 4 * (self.copies + self.shifts * self.ndim * self.channels) + 4 * self.products + 8

    def _rk_steps(self, duration: float) -> int:
        return max(1, math.ceil(duration / self.max_step - 1e-6))

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        axes = tuple(range(-self.ndim, 0))
        spectrum = torch.fft.rfftn(u, dim=axes)
        h = per_operator(duration, u)
        active = self._active(prepared)
        if active is None:
            spectrum = self._march(prepared, spectrum, h, duration)
        else:
            spectrum, before = (
                torch.exp(prepared.tensors["symbol"][:, None] * h) * spectrum,
                spectrum,
            )
            if len(active):
                own = h if h.ndim == 0 else h[active]
                spectrum[active] = self._march(prepared.take(active), before[active], own, duration)
        return torch.fft.irfftn(spectrum, s=prepared.grid.shape, dim=axes)

    def _active(self, prepared: Prepared) -> Tensor | None:
        """Positions of the operators that have products (None: all of them)."""
        if not self.products:
            return torch.zeros(0, dtype=torch.long, device=prepared.device)
        if not self.degree or not self._prunes(prepared.tensors["weights"]):
            return None
        found = prepared.tensors["weights"].ne(0).flatten(1).any(1).nonzero()[:, 0]
        return None if len(found) == len(prepared) else found

    def _march(
        self, prepared: Prepared, spectrum: Tensor, h: Tensor, duration: float | Tensor
    ) -> Tensor:
        """Integrating-factor RK4 steps, from spectrum to spectrum."""
        symbol = prepared.tensors["symbol"].unsqueeze(1)
        if self.cut:
            symbol = symbol - prepared.tensors["cut"].unsqueeze(1)
        steps = self._rk_steps(longest(duration))
        h = h / steps
        h2, h6 = h / 2, h / 6
        half = torch.exp(symbol * h2)
        full = half * half
        across = h * half

        def products(spectrum: Tensor) -> Tensor:
            return self._products(prepared, spectrum)

        for _ in range(steps):
            k1 = products(spectrum)
            k2 = products(half * (spectrum + h2 * k1))
            k3 = products(half * spectrum + h2 * k2)
            k4 = products(full * spectrum + across * k3)
            spectrum = full * (spectrum + h6 * k1) + h6 * (2 * half * (k2 + k3) + k4)
        return spectrum

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        axes = tuple(range(-self.ndim, 0))
        spectrum = torch.fft.rfftn(u, dim=axes)
        total = prepared.tensors["symbol"].unsqueeze(1) * spectrum
        active = self._active(prepared)
        if active is None:
            total = total + self._products(prepared, spectrum)
        elif len(active):
            total[active] += self._products(prepared.take(active), spectrum[active])
        return torch.fft.irfftn(total, s=prepared.grid.shape, dim=axes)

    def _products(self, prepared: Prepared, spectrum: Tensor) -> Tensor:
        """The nonlinear part, from spectrum to spectrum."""
        axes, space = tuple(range(-self.ndim, 0)), prepared.grid.shape
        w = prepared.tensors
        if self.degree:
            return self._polynomial(prepared, spectrum)
        fields = []
        if self.copies:
            fields.append(_mix(w["filter"], spectrum))
        if self.shifts:
            moved = w["shift"][:, None, :, None] * spectrum[:, :, None]
            fields.append(moved.flatten(2, 3))
        held = torch.cat(fields, 2) if len(fields) > 1 else fields[0]
        x = torch.fft.irfftn(held, s=space, dim=axes)
        for i in range(self.layers):
            if i and self.dealias < 1:
                keep = self._dealias(prepared.grid, x.device)
                x = torch.fft.irfftn(torch.fft.rfftn(x, dim=axes) * keep, s=space, dim=axes)
            gate = w[f"gate{i}"].flatten(1, 2).unsqueeze(1) @ x.flatten(3)
            if self.constants:
                gate = gate + w[f"gate{i}.shift"].flatten(1, 2)[:, None, :, None]
            first, second = gate.unflatten(3, space).tensor_split(2, dim=2)
            if self.absolute:
                plain, bent = second.tensor_split(2, dim=2)
                rounding = bent.new_full((), ROUNDING**2)
                second = torch.cat([plain, torch.addcmul(rounding, bent, bent).sqrt()], 2)
            x = first * second
        # Summed up before they are transformed: products are many, derivatives few.
        channels, slopes = w["output"].shape[1], w["output"].shape[3]
        weights = w["output"].transpose(2, 3).flatten(1, 2).unsqueeze(1)
        sums = (weights @ x.flatten(3)).unflatten(3, space).unflatten(2, (channels, slopes))
        made: Tensor = (torch.fft.rfftn(sums, dim=axes) * w["slopes"][:, None, None]).sum(3)
        return made


def _mix(weights: Tensor, x: Tensor) -> Tensor:
    """Channels `(E, K, into, *modes)` mixed by weights `(E, out, into, *modes)` of every mode."""
    if weights.shape[2] == 1:
        return weights[:, None, :, 0] * x
    if weights.shape[1] == 1:
        return (weights * x).sum(2, keepdim=True)
    return torch.einsum("eoi...,eki...->eko...", weights, x)


def _without_nyquist(kappa: Tensor, axis: int, n: int) -> Tensor:
    kappa = kappa.clone()
    kappa[axis].select(axis, n // 2).zero_()
    return kappa
