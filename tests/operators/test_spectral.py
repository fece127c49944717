"""Our family for periodic grids: orders, resolution, batches, filter and fitted settings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from building import BOX, FLUX, LINE, burgers, by_hand, noise, parameters
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import (
    Examples,
    FluxStencil,
    GatedProducts,
    Nonlinearity,
    OperatorFamily,
    Polynomial,
    Spectral,
    Symbol,
)

GRIDS = {1: LINE, 2: Grid((12, 16), (5.0, 5.0)), 3: BOX}
PARTS: dict[str, Nonlinearity | None] = {
    "linear": None,
    "gated": GatedProducts(3),
    "flux": FLUX,
    "polynomial": Polynomial(2, derivatives=True),
}
each = pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)


def family(
    nonlinearity: Nonlinearity | None, ndim: int = 1, channels: int = 1, max_step: float = 10.0
) -> Spectral:
    return Spectral(channels, ndim, max_step, nonlinearity=nonlinearity)


# Time


def test_half_flows_compose_to_the_order_of_the_integrator(
    smooth: Callable[..., Tensor], fitted_order: Callable[..., float]
) -> None:
    net = family(GatedProducts(1))
    prepared = net.prepare(burgers(net, 2.0, c=0.5, D=0.1), LINE)
    u, steps = smooth(LINE, (1, 1, 1)), (0.2, 0.1, 0.05)
    gaps = []
    for h in steps:
        halves = net.flow(prepared, net.flow(prepared, u, h / 2), h / 2)
        gaps.append(float((halves - net.flow(prepared, u, h)).norm()))
    assert fitted_order(steps, gaps) == pytest.approx(5, abs=0.5)  # one step of order four


def test_a_flow_with_products_is_of_fourth_order_in_its_step(
    smooth: Callable[..., Tensor], fitted_order: Callable[..., float]
) -> None:
    counts = (8, 16, 32)
    theta = burgers(family(GatedProducts(1)), 2.0, c=0.5, D=0.1)

    def after_one(steps: int) -> Tensor:
        net = family(GatedProducts(1), max_step=1 / steps)
        assert net.evaluations(1.0) == 4 * steps
        return net.flow(net.prepare(theta, LINE), smooth(LINE, (1, 1, 1)), 1.0)

    best = after_one(128)
    errors = [float((after_one(n) - best).norm()) for n in counts]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(4, abs=0.5)


@each
def test_without_a_longest_step_every_flow_is_one_step(part: Nonlinearity | None) -> None:
    net = Spectral(nonlinearity=part)
    assert net.steps(1e6) == 1
    assert net.evaluations(1e6) == (1 if part is None else 4)


def test_the_stiff_linear_part_is_exact_beside_products(smooth: Callable[..., Tensor]) -> None:
    """Diffusion over a step of 100 stability limits of an explicit scheme, and a weak product."""
    net = family(GatedProducts(1))
    (x,) = LINE.axes()
    u = torch.cos(2 * math.pi * 3 / 16 * x)[None, None, None]
    prepared = net.prepare(burgers(net, 0.0, D=20.0), LINE)
    decay = math.exp(-20.0 * (2 * math.pi * 3 / 16) ** 2 * 0.5)
    torch.testing.assert_close(net.flow(prepared, u, 0.5), decay * u, rtol=0, atol=1e-12)


# Grids


@pytest.mark.parametrize("part", [None, GatedProducts(3), Polynomial(2, derivatives=True)])
@pytest.mark.parametrize("ndim", [1, 2])
def test_an_operator_is_the_same_at_every_resolution(
    smooth: Callable[..., Tensor], part: Nonlinearity | None, ndim: int
) -> None:
    net = family(part, ndim, max_step=0.05)
    theta = parameters(net, 2, seed=1, size=0.3)
    coarse, fine = (
        Grid((n,) * ndim, (16.0,) * ndim) for n in ((128, 256) if ndim == 1 else (48, 96))
    )
    # In the plane the coarse grid keeps few modes: room for the products of the products of one.
    low, high = (
        net.flow(net.prepare(theta, g), smooth(g, (2, 1, 1), modes=3 if ndim == 1 else 1), 0.05)
        for g in (coarse, fine)
    )
    every_other = (..., *(slice(None, None, 2),) * ndim)
    torch.testing.assert_close(high[every_other], low, rtol=0, atol=1e-10)


@each
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_batch_of_operators_equals_each_alone(
    smooth: Callable[..., Tensor], ndim: int, part: Nonlinearity | None
) -> None:
    net, grid = family(part, ndim, channels=2), GRIDS[ndim]
    theta, u = parameters(net, 3), smooth(grid, (3, 2, 2), modes=2, size=0.3)
    durations = torch.tensor([0.1, 0.0, 0.3], dtype=torch.float64)
    together = net.flow(net.prepare(theta, grid), u, durations)
    assert together.shape == u.shape and together.dtype == torch.float64
    for e, h in enumerate(durations.tolist()):
        for k in range(2):
            alone = net.flow(net.prepare(theta[e : e + 1], grid), u[e : e + 1, k : k + 1], h)
            torch.testing.assert_close(together[e, k], alone[0, 0], rtol=0, atol=1e-12)
    torch.testing.assert_close(together[1], u[1], rtol=0, atol=1e-12)
    assert float((together[2] - u[2]).abs().max()) > 1e-5


@each
def test_a_shift_by_any_number_of_cells_commutes_with_the_flow(part: Nonlinearity | None) -> None:
    net = family(part)
    prepared, u = net.prepare(parameters(net, 1), LINE), noise(1, 1, 1, 32)
    for cells in (1, 7):
        shifted = net.flow(prepared, u.roll(cells, -1), 0.1)
        torch.testing.assert_close(shifted, net.flow(prepared, u, 0.1).roll(cells, -1))


@each
def test_single_precision_agrees_with_double(part: Nonlinearity | None) -> None:
    net, u = family(part), noise(1, 1, 1, 32)
    theta = parameters(net, 1)
    rough = net.flow(net.prepare(theta.float(), LINE), u.float(), 0.1)
    assert rough.dtype == torch.float32
    fine = net.flow(net.prepare(theta, LINE), u, 0.1)
    torch.testing.assert_close(rough.double(), fine, rtol=0, atol=1e-4)


@each
def test_prepared_operators_are_on_the_device_of_their_parameters(
    part: Nonlinearity | None,
) -> None:
    net = Spectral(linear=Symbol(0), nonlinearity=part, filter_rate=1.0)
    prepared = net.prepare(torch.zeros(2, net.n_parameters, device="meta"), LINE)
    assert prepared.device.type == "meta"
    assert {t.device.type for t in prepared.tensors.values()} == {"meta"}


@each
def test_the_start_is_close_to_standing_still(
    part: Nonlinearity | None, smooth: Callable[..., Tensor]
) -> None:
    net, u = family(part), smooth(LINE, (1, 1, 1))
    begin = net.initialisation(torch.Generator().manual_seed(0))
    moved = net.flow(net.prepare(begin.start[None].double(), LINE), u, 0.1) - u
    assert 0 < float(moved.norm()) < 0.05 * float(u.norm())


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (Grid((32,), (1.0,), "zero"), "need periodic axes.*continues fields beyond walls"),
        (Grid((32, 32), (1.0, 1.0)), "act on 1-D fields, the data are 2-D"),
    ],
)
def test_a_grid_it_cannot_act_on_is_refused_with_the_reason(grid: Grid, sentence: str) -> None:
    net = family(None)
    with pytest.raises(OpsplitError, match=sentence):
        net.prepare(torch.zeros(1, net.n_parameters), grid)


# The filter


def test_a_filter_damps_the_finest_modes_of_flows_with_products_and_no_others() -> None:
    grid = Grid((16, 16), (2 * math.pi, 2 * math.pi))
    euler = Polynomial(2, lower_degrees=False, derivatives=True, inverse=True)
    net = replace(family(euler, 2), filter_rate=50.0)
    theta = torch.zeros(2, net.n_parameters, dtype=torch.float64)
    # Of two velocities across the wave, which has none.
    theta[0, -1] = 0.06
    x = grid.axes()[0]
    for mode, left in ((2, 1.0), (8, math.exp(-50.0 * 0.1))):
        u = torch.cos(mode * x)[:, None].expand(16, 16)[None, None, None].expand(2, 1, 1, 16, 16)
        after = net.flow(net.prepare(theta, grid), u.contiguous(), 0.1)
        share = (after * u).sum((1, 2, 3, 4)) / (u * u).sum((1, 2, 3, 4))
        torch.testing.assert_close(share, torch.tensor([left, 1.0], dtype=torch.float64))


def test_the_lower_four_fifths_of_the_modes_feel_no_filter() -> None:
    grid, share = Grid((128,), (1.0,)), torch.arange(65) / 64
    net = replace(family(GatedProducts(1)), filter_rate=1.0)
    damping = net.prepare(by_hand(net), grid).tensors["damping"][0, 0]
    assert float(damping[share < 0.8].max()) < 1e-3
    assert float(damping[-1]) == 1.0


# Settings


@each
def test_settings_are_stored_and_read_again(part: Nonlinearity | None) -> None:
    net = Spectral(3, 2, 0.1, Symbol(3, 7.0, True), part, 2.0, 5.0)
    text = json.dumps(net.to_json())
    assert OperatorFamily.from_json(json.loads(text)) == net
    sizes = {name: math.prod(shape) for name, shape in net.shapes().items()}
    assert sum(sizes.values()) == net.n_parameters


def test_missing_settings_are_taken_from_the_training_data() -> None:
    grid = Grid((32, 64), (4.0, 4.0))
    u = noise(3, 2, 32, 64)
    made = Spectral(nonlinearity=FluxStencil()).fitted(Examples(u, u, grid, 0.2))
    assert (made.channels, made.ndim) == (2, 2)
    assert made.max_step == pytest.approx(0.2002)
    assert made.linear.highest_wavenumber == pytest.approx(math.pi / (4 / 64))
    assert made.nonlinearity == FluxStencil(spacing=4 / 64)
    # What was given stays.
    given = Spectral(max_step=0.01, linear=Symbol(highest_wavenumber=3.0))
    kept = given.fitted(Examples(u, u, grid, 0.2))
    assert (kept.max_step, kept.linear.highest_wavenumber) == (0.01, 3.0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"channels": 0}, r"channels must lie in 1..64, got 0"),
        ({"ndim": 4}, r"ndim must lie in 1..3, got 4"),
        ({"max_step": -0.1}, r"max_step must lie in"),
        ({"linear": None}, r"linear must be a \w+, got None"),
        ({"linear": GatedProducts()}, "linear must be a .*, got GatedProducts"),
        ({"nonlinearity": Symbol()}, "nonlinearity must be a Nonlinearity"),
        ({"nonlinearity": "polynomial"}, "nonlinearity must be a Nonlinearity"),
        ({"filter_rate": math.inf}, "filter_rate must lie in"),
        ({"wavenumber_unit": math.nan}, "wavenumber_unit must be a number"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        Spectral(**wrong)  # type: ignore[arg-type]


def test_settings_of_other_parts_cannot_be_written_together() -> None:
    """What a flux, a polynomial or gated products are made of has no place beside them."""
    for wrong in ({"copies": 2}, {"degree": 2}, {"points": 4}, {"prune": 0.1}, {"layers": 2}):
        with pytest.raises(TypeError):
            Spectral(**wrong)  # type: ignore[arg-type]
        with pytest.raises(OpsplitError, match="has no setting"):
            OperatorFamily.from_json({"kind": "spectral", **wrong})
    for part in (GatedProducts(), FluxStencil(), Polynomial()):
        others = {"gated-products", "flux-stencil", "polynomial"} - {part.kind}
        held = part.to_json()
        for other in others:
            with pytest.raises(OpsplitError, match="has no setting"):
                Nonlinearity.from_json({**held, "kind": other})
