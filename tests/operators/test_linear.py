"""Exact flows of known linear terms against closed forms."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import Linear, OperatorFamily

LINE = Grid((32,), (16.0,))
PLANE = Grid((24, 16), (6.0, 9.0))


def wave(grid: Grid, modes: tuple[int, ...], turn: float = 0.0) -> tuple[list[float], Tensor]:
    """Wavenumbers and `sin(k . x + turn)`."""
    k = [2 * math.pi * m / length for m, length in zip(modes, grid.extent, strict=True)]
    axes = torch.meshgrid(*grid.axes(), indexing="ij")
    return k, torch.sin(sum(a * x for a, x in zip(k, axes, strict=True)) + turn)


@given(
    r=st.floats(-1, 1),
    c=st.floats(-2, 2),
    D=st.floats(0, 1),
    g=st.floats(-0.2, 0.2),
    mode=st.integers(1, 8),
    t=st.floats(0, 2),
)
def test_on_a_line_every_term_does_to_a_sine_what_calculus_says(
    r: float, c: float, D: float, g: float, mode: int, t: float
) -> None:
    family = Linear(1, 1)
    (k,), u = wave(LINE, (mode,))
    theta = family.parameters(reaction=r, advection=c, diffusion=D, dispersion=g)
    found = family.flow(family.prepare(theta, LINE), u[None, None, None], t)[0, 0, 0]
    _, turned = wave(LINE, (mode,), -c * k * t + g * k**3 * t)
    torch.testing.assert_close(found, math.exp((r - D * k**2) * t) * turned, rtol=0, atol=1e-10)


@given(
    c=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
    D=st.floats(0, 1),
    g=st.tuples(st.floats(-0.1, 0.1), st.floats(-0.1, 0.1)),
    modes=st.tuples(st.integers(-5, 5), st.integers(1, 5)),
    t=st.floats(0, 2),
)
def test_in_the_plane_every_term_does_to_a_plane_wave_what_calculus_says(
    c: tuple[float, float],
    D: float,
    g: tuple[float, float],
    modes: tuple[int, int],
    t: float,
) -> None:
    family = Linear(1, 2)
    k, u = wave(PLANE, modes)
    k2 = k[0] ** 2 + k[1] ** 2
    theta = family.parameters(advection=c, diffusion=D, dispersion=g)
    found = family.flow(family.prepare(theta, PLANE), u[None, None, None], t)[0, 0, 0]
    turn = sum((g[a] * k2 - c[a]) * k[a] for a in range(2)) * t
    expected = math.exp(-D * k2 * t) * wave(PLANE, modes, turn)[1]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_many_operators_channels_and_durations_equal_one_by_one() -> None:
    family = Linear(2, 2)
    theta = torch.cat(
        [family.parameters(diffusion=0.3), family.parameters(advection=(1.0, -0.5), reaction=0.2)]
    )
    u = torch.randn(
        2, 3, 2, *PLANE.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    durations = torch.tensor([0.4, 1.1], dtype=torch.float64)
    together = family.flow(family.prepare(theta, PLANE), u, durations)
    one = Linear(1, 2)
    for e in range(2):
        for k in range(3):
            for c in range(2):
                alone = one.flow(
                    one.prepare(theta[e : e + 1], PLANE),
                    u[e, k, c][None, None, None],
                    float(durations[e]),
                )
                torch.testing.assert_close(together[e, k, c], alone[0, 0, 0])


def test_a_strength_is_a_duration() -> None:
    """The flow of `2 f` over `t` is the flow of `f` over `2 t`."""
    family = Linear(1, 1)
    theta = family.parameters(advection=0.7, diffusion=0.2)
    u = torch.randn(1, 1, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    strong = family.flow(family.prepare(2 * theta, LINE), u, 0.3)
    torch.testing.assert_close(strong, family.flow(family.prepare(theta, LINE), u, 0.6))


def test_single_precision_stays_single() -> None:
    family = Linear(1, 1)
    u = torch.randn(1, 1, 1, 32, generator=torch.Generator().manual_seed(0))
    assert family.flow(family.prepare(family.parameters(diffusion=1.0), LINE), u, 0.1).dtype == (
        torch.float32
    )


def test_diffusion_backwards_and_walls_are_refused() -> None:
    family = Linear(1, 1)
    with pytest.raises(OpsplitError, match=r"Negative diffusion -0.1 has no forward flow"):
        family.parameters(diffusion=-0.1)
    for word in ("zero", "reflect"):
        with pytest.raises(OpsplitError, match="need periodic axes"):
            family.prepare(family.parameters(diffusion=1.0), Grid((32,), (1.0,), word))
    with pytest.raises(OpsplitError, match="act on 1-D fields, the data are 2-D"):
        family.prepare(family.parameters(diffusion=1.0), PLANE)


@given(c=st.floats(-2, 2), D=st.floats(0, 1), mode=st.integers(1, 8))
def test_a_rate_is_the_right_hand_side(c: float, D: float, mode: int) -> None:
    family = Linear(1, 1)
    (k,), u = wave(LINE, (mode,))
    prepared = family.prepare(family.parameters(advection=c, diffusion=D), LINE)
    slope = wave(LINE, (mode,), math.pi / 2)[1] * k
    expected = -c * slope - D * k**2 * u
    torch.testing.assert_close(
        family.rate(prepared, u[None, None, None])[0, 0, 0], expected, rtol=0, atol=1e-10
    )


def test_any_duration_is_one_exact_step() -> None:
    family = Linear(2, 3)
    assert family.max_step is None
    assert (family.steps(1e6), family.evaluations(1e6)) == (1, 1)
    assert OperatorFamily.from_json(json.loads(json.dumps(family.to_json()))) == family
    begin = family.initialisation(torch.Generator())
    assert len(begin) == family.n_parameters == 8
