"""Mechanisms on a line against exact solutions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.grid import Grid
from opsplit.physics.line import Line

LINE = Line(grid=Grid((64,), (2 * math.pi,)))
X = 2 * math.pi * torch.arange(64, dtype=torch.float64) / 64
TIMES = torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64)


def solved(initial: Tensor, **values: float) -> Tensor:
    """Frames `(time, x)`."""
    own = {k: torch.full((1,), values.get(k, 0.0), dtype=torch.float64) for k in LINE.sizes}
    return LINE.solve(initial[None, None], own, TIMES)[0, :, 0]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.floats(-1, 1), st.floats(-1, 1), st.floats(-0.5, 0.5),
       st.floats(-0.3, 0.3), st.floats(0, 0.1))  # fmt: skip
def test_linear_mechanisms_are_exact(
    k: int, r: float, c: float, D: float, delta: float, kappa: float
) -> None:
    found = solved(torch.sin(k * X), r=r, c=c, D=D, delta=delta, kappa=kappa)
    growth = torch.exp((r - D * k**2 - kappa * k**4) * TIMES)[:, None]
    wave = torch.sin(k * X - (c * k - delta * k**3) * TIMES[:, None])
    torch.testing.assert_close(found, growth * wave, rtol=1e-9, atol=1e-9)


def test_reactions_have_closed_forms() -> None:
    u, t = 0.3 * torch.sin(X) + 0.1, TIMES[:, None]
    torch.testing.assert_close(solved(u, s=0.7), u / (1 - 0.7 * t * u), rtol=1e-7, atol=1e-9)
    cubic = u / (1 + 1.4 * t * u**2).sqrt()
    torch.testing.assert_close(solved(u, q=-0.7), cubic, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "power"), [("a", 1), ("b", 2)])
def test_fluxes_follow_characteristics(name: str, power: int) -> None:
    """`u(x + v(u0) t, t) = u0(x)`, and the mean stays."""
    u0 = 0.4 * torch.sin(X) + 0.2
    found = solved(u0, **{name: 0.8})
    torch.testing.assert_close(found.mean(1), u0.mean().expand(3), rtol=0, atol=1e-12)
    modes = torch.fft.fft(found[-1]) / 64
    k = torch.fft.fftfreq(64, 1 / 64, dtype=torch.float64)
    at = X + 0.8 * u0**power * TIMES[-1]
    there = (modes * torch.exp(1j * k * at[:, None])).sum(1).real
    torch.testing.assert_close(there, u0, rtol=0, atol=1e-7)


def test_the_slope_of_a_squared_slope_is_a_flux() -> None:
    """If `u_t = h u_x^2`, the slope `v = u_x` obeys `v_t = 2 h v v_x`."""
    found = solved(0.3 * torch.sin(X), h=0.5)
    slope = torch.fft.irfft(1j * torch.arange(33) * torch.fft.rfft(found), n=64)
    torch.testing.assert_close(slope, solved(0.3 * torch.cos(X), a=-1.0), rtol=0, atol=1e-9)


def test_terms_are_the_rate() -> None:
    u = 0.3 * torch.sin(X) + 0.2 * torch.cos(2 * X)
    terms = LINE.term_fields(u[None, None])
    for name, term in terms.items():
        own = {k: torch.full((1,), float(k == name), dtype=torch.float64) for k in LINE.sizes}
        near = [LINE.solve(u[None, None], own, torch.tensor([h]))[0, 0, 0] for h in (1e-4, 2e-4)]
        rate = (4 * near[0] - near[1] - 3 * u) / 2e-4
        torch.testing.assert_close(rate, term[0, 0], rtol=1e-4, atol=1e-5)


def test_every_training_dynamics_has_one_mechanism() -> None:
    table = torch.stack(list(LINE.environments().values()), 1)
    assert (table != 0).sum(1).tolist() == [1] * len(table)
    signed = [k for k, term in LINE.terms.items() if term.signed]
    assert len(table) == len(LINE.terms) + len(signed)
    mixed = LINE.sample_coefficients("mix", 200, torch.Generator().manual_seed(0))
    # Negative diffusion never comes without a term that stops it.
    assert bool((mixed["kappa"][mixed["D"] < 0] > 0).all())
