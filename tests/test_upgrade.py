"""Directories of format 1, written by hand, against the formulas of the package that wrote them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from format1 import GRID, SCALE, SMALL, STEP, noise, write
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.model import Model
from opsplit.operators import Spectral, UNet
from opsplit.upgrade import upgrade

Rate = Callable[[Tensor, Tensor], Tensor]
"""Parameters and a state `(point,)` to its right-hand side."""


def integrated(rate: Callable[[Tensor], Tensor], u: Tensor, h: float, steps: int) -> Tensor:
    for _ in range(steps):
        k1 = rate(u)
        k2 = rate(u + h / steps / 2 * k1)
        k3 = rate(u + h / steps / 2 * k2)
        k4 = rate(u + h / steps * k3)
        u = u + h / steps / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return u


def state() -> Tensor:
    """A smooth state, in the units of the data."""
    (x,) = GRID.axes()
    return sum(
        (0.4 / k) * torch.sin(2 * math.pi * k * x / 8 + 2.0 * k**2) for k in (1, 2, 3)
    ) + torch.tensor(0.2).double()  # fmt: skip


def moved(dictionary: OperatorDictionary, index: int, u: Tensor, h: float) -> Tensor:
    operators = dictionary.prepare(GRID, u)
    return operators.flow(torch.tensor([index]), u[None, None, None], h)[0, 0, 0]


def check_spectral(folder: Path, rate: Rate, theta: Tensor) -> Model:
    """Rates and flows of all operators, and again after a save and a load."""
    model = upgrade(folder)
    u, h = state(), 0.05
    expected = [SCALE * rate(each, u / SCALE) for each in theta[:3]]
    fine = [
        SCALE * integrated(lambda v, each=each: rate(each, v), u / SCALE, h, 100)
        for each in theta[:3]
    ]
    for dictionary in (model.dictionary, Model.load(model.save(folder / "new")).dictionary):
        for i in range(3):
            own = dictionary.prepare(GRID, u)
            found = own.rates(torch.tensor([i]), u[None, None])[0, 0, 0]
            torch.testing.assert_close(found, expected[i], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(moved(dictionary, i, u, h), fine[i], rtol=0, atol=1e-5)
            assert float((fine[i] - u).abs().max()) > 1e-3
    return model


def wavenumber(share: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """`k`, `k` without the mode at half the sampling rate, and a mask of the lower modes."""
    k = 2 * math.pi * torch.arange(17, dtype=torch.float64) / 8
    return k, torch.where(torch.arange(17) == 16, 0.0, k), torch.arange(17) <= share * 16


def symbol(theta: Tensor, unit: float = 1.0, squared: bool = False) -> Tensor:
    """Three decays and two turns, each a constant and a bump at `k = 0`."""
    k, odd, _ = wavenumber()
    bump = torch.exp(-0.5 * torch.log2(1 + k) ** 2)
    d0, d1, d2, b1, b3 = (a + b * bump for a, b in theta[:10].reshape(5, 2))
    if squared:
        b1, b3 = b1 * b1.abs(), b3 * b3.abs()
    k, odd = k / unit, odd / unit
    return -(d0**2 + (k * d1) ** 2 + (k**2 * d2) ** 2) + 1j * odd * (b1 + k**2 * b3)


def linear_part(theta: Tensor, u: Tensor, unit: float = 1.0, squared: bool = False) -> Tensor:
    return torch.fft.irfft(symbol(theta, unit, squared) * torch.fft.rfft(u), n=32)


def test_gated_products(tmp_path: Path) -> None:
    operator = {"copies": 1, "bumps": 1, "bump_wavenumber": 20.0, "wavenumber_scale": 6.0}
    theta = write(tmp_path, "spectral", operator, 10 + 2 + 2 + 2 + 2)

    def rate(theta: Tensor, u: Tensor) -> Tensor:
        _, odd, keep = wavenumber(2 / 3)
        f0, f1, w, v, ws, vs, o0, o1 = theta[10:]
        h = torch.fft.irfft(keep * (f0 + f1 * 1j * odd / 6) * torch.fft.rfft(u), n=32)
        product = torch.fft.rfft((w * h + ws) * (v * h + vs))
        made = torch.fft.irfft(keep * (o0 + o1 * 1j * odd / 6) * product, n=32)
        return linear_part(theta, u, 6.0) + made

    model = check_spectral(tmp_path, rate, theta)
    assert model.metrics == {"minutes": 3.5}
    assert model.dictionary.coefficients["c"].tolist() == [0.1, 0.2, 0.3]
    assert model.dictionary.provenance == ("a", "b", "c")
    assert set(model.dictionary.max_strengths) == {4.0}


def test_no_products(tmp_path: Path) -> None:
    theta = write(tmp_path, "spectral", {"copies": 0, "bumps": 1, "wavenumber_scale": 6.0}, 10)
    model = check_spectral(tmp_path, lambda t, u: linear_part(t, u, 6.0), theta)
    assert isinstance(model.config.operator, Spectral)
    assert model.config.operator.nonlinearity is None


def test_fluxes(tmp_path: Path) -> None:
    operator = {"copies": 0, "shifts": 2, "products": 2, "constants": False, "absolute": True,
                "dealias": 1.0, "bumps": 1, "quiet": True, "wavenumber_scale": 6.0,
                "spacing": 0.25, "output_scale": 0.1}  # fmt: skip
    theta = write(tmp_path, "spectral", operator, 10 + 8 + 4)

    def rate(theta: Tensor, u: Tensor) -> Tensor:
        first, second = theta[10:18].reshape(2, 2, 2)
        near = torch.stack([u, u.roll(-1)])
        bent = (second[1] @ near).square()
        products = [(first[0] @ near) * (second[0] @ near),
                    (first[1] @ near) * (bent + 1e-6).sqrt()]  # fmt: skip
        total = linear_part(theta, u, 6.0, squared=True)
        for (plain, difference), p in zip(theta[18:].reshape(2, 2), products, strict=True):
            total = total + plain * p + difference * (p - p.roll(1)) / (0.25 * 6)
        return total

    check_spectral(tmp_path, rate, theta)


def test_a_polynomial_whose_small_weights_are_pruned(tmp_path: Path) -> None:
    mixing = (0.3 * noise(3, 3, seed=5)).flatten().tolist()
    operator = {"degree": 2, "derivatives": False, "dealias": 1.0, "bumps": 1, "prune": 0.1,
                "wavenumber_scale": 6.0, "centre": [0.2], "spread": [0.7],
                "mixing": mixing}  # fmt: skip
    theta = write(tmp_path, "spectral", operator, 10 + 3)
    weights = theta[:, 10:] @ torch.tensor(mixing).double().reshape(3, 3)
    assert bool((weights.abs() < 0.1).any() and (weights.abs() >= 0.1).any())

    def rate(theta: Tensor, u: Tensor) -> Tensor:
        own = theta[10:] @ torch.tensor(mixing).double().reshape(3, 3)
        one, first, second = own * (own.abs() >= 0.1)
        x = (u - 0.2) / 0.7
        return linear_part(theta, u, 6.0) + one + first * x + second * x**2

    model = check_spectral(tmp_path, rate, theta)
    kept = model.dictionary.parts[0].parameters()[:, 10:]
    assert torch.equal(kept == 0, weights.abs() < 0.1)


def stages(f: Callable[[Tensor], Tensor], u: Tensor, h: float, shifts: tuple[int, ...]) -> Tensor:
    """One step of the 3/8 rule with every stage on a shifted grid."""
    k: list[Tensor] = []
    for shift, at in zip(
        shifts,
        (lambda: u, lambda: u + h / 3 * k[0], lambda: u + h * (k[1] - k[0] / 3),
         lambda: u + h * (k[0] - k[1] + k[2])),
        strict=True,
    ):  # fmt: skip
        k.append(f(at().roll(shift)).roll(-shift))
    return u + h / 8 * (k[0] + 3 * k[1] + 3 * k[2] + k[3])


def network(net: UNet, theta: Tensor, *fields: Tensor) -> Tensor:
    """The paper's network itself, which the tests of its own file hold to a plain one."""
    prepared = net.prepare(theta[None], GRID)
    return net.rate(prepared, torch.stack(fields)[None, None])[0, 0, 0]


def check_network(folder: Path, step: Callable[[Tensor, Tensor, float], Tensor], theta: Tensor,
                  h: float = STEP) -> Model:  # fmt: skip
    model = upgrade(folder)
    u = state()
    for dictionary in (model.dictionary, Model.load(model.save(folder / "new")).dictionary):
        for i in range(3):
            expected = SCALE * step(theta[i], u / SCALE, h)
            torch.testing.assert_close(moved(dictionary, i, u, h), expected, rtol=0, atol=2e-5)
            assert float((expected - u).abs().max()) > 1e-3
    return model


def test_a_network_with_all_that_was_added_to_it(tmp_path: Path) -> None:
    operator = {"width": 4, "conserve": True, "pace": [4.0], "power": 1.0, "shifted": True,
                "band": 0.5, "calm": 0.125, "boundary": ["periodic"],
                "max_strength": 8.0}  # fmt: skip
    theta = write(tmp_path, "unet", operator, SMALL.n_parameters)

    def step(theta: Tensor, u: Tensor, h: float) -> Tensor:
        def rate(x: Tensor) -> Tensor:
            size = x.square().mean().sqrt()
            made = network(SMALL, theta, x / size)
            return 4.0 * (made - made.mean()) * size

        change = torch.fft.rfft(stages(rate, u, h, (0, 5, 10, 15)) - u)
        change[9:] = 0
        before, after = torch.fft.rfft(u), torch.fft.rfft(u) + change
        grown = (after.abs() > before.abs()) & (torch.arange(17) > 0.125 * 16)
        return torch.fft.irfft(torch.where(grown, after * before.abs() / after.abs(), after), n=32)

    model = check_network(tmp_path, step, theta)
    assert set(model.dictionary.max_strengths) == {8.0}


@pytest.mark.parametrize("normalise", ["all", "coarse"])
def test_a_standardised_network_with_a_learned_power(tmp_path: Path, normalise: str) -> None:
    operator = {"width": 4, "centre": [0.3], "spread": [0.7], "pace": [2.0], "power": "learned",
                "normalise": normalise, "boundary": ["periodic"]}  # fmt: skip
    theta = write(tmp_path, "unet", operator, SMALL.n_parameters + 1)
    net = UNet(1, 1, STEP, width=4, normalise_from=int(normalise == "coarse"))

    def step(theta: Tensor, u: Tensor, h: float) -> Tensor:
        def rate(x: Tensor) -> Tensor:
            size = x.square().mean().sqrt()
            return 2.0 * network(net, theta[:-1], (x / size - 0.3) / 0.7) * size ** theta[-1]

        return stages(rate, u, h, (0, 0, 0, 0))

    check_network(tmp_path, step, theta)


@pytest.mark.parametrize("power", [None, 1.0, "learned"])
def test_a_network_that_sees_the_stream_function(tmp_path: Path, power: float | str | None) -> None:
    """Its second adapter, at the end of its parameters, becomes a column of the first."""
    operator = {"width": 4, "stream": 3.0, "conserve": True, "centre": [0.3], "spread": [0.7],
                "pace": [2.0], "boundary": ["periodic"]}  # fmt: skip
    learned = int(power == "learned")
    if power is not None:
        operator["power"] = power
    theta = write(tmp_path, "unet", operator, SMALL.n_parameters + learned + 4)
    wide = UNet(2, 1, STEP, width=4)

    def joined(theta: Tensor) -> Tensor:
        pieces, place = [], 0
        for name, (shape, _) in SMALL.layers().items():
            held = theta[place : place + math.prod(shape)].reshape(shape)
            place += math.prod(shape)
            if name == "adapter_in":
                held = torch.cat([held, theta[-4:].reshape(4, 1, 1)], 1)
            elif name.startswith("adapter_out"):
                held = torch.cat([held, torch.zeros_like(held)])
            pieces.append(held.flatten())
        return torch.cat(pieces)

    def step(theta: Tensor, u: Tensor, h: float) -> Tensor:
        def rate(x: Tensor) -> Tensor:
            degree = theta[-5] if learned else (power or 0)
            size = x.square().mean().sqrt() if power is not None else torch.ones(()).double()
            x = x / size
            k, _, _ = wavenumber()
            potential = torch.where(k > 0, -torch.fft.rfft(x) / k.clamp_min(1e-9) ** 2, 0)
            slope = 3.0 * torch.fft.irfft(1j * k * potential, n=32)
            made = network(wide, joined(theta), (x - 0.3) / 0.7, slope)
            return 2.0 * (made - made.mean()) * size**degree

        return stages(rate, u, h, (0, 0, 0, 0))

    check_network(tmp_path, step, theta)
