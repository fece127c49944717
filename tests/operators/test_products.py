"""Named derivatives and products: exact on sums of sines, linear in their weights."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, spectrum_of
from opsplit.grid import Grid
from opsplit.operators import Derivatives, OperatorFamily, Products, Spectral
from opsplit.operators.spectral import spectral
from opsplit.operators.spectral.filters import filter_symbol, order_of
from opsplit.operators.spectral.products import parse

LINE = Grid((32,), (2 * math.pi,))
LIKE = torch.zeros(1, dtype=torch.float64)


@given(mode=st.integers(1, 10), unit=st.floats(0.2, 5))
def test_filters_act_on_a_sine_as_their_names_say(mode: int, unit: float) -> None:
    (x,) = LINE.axes()
    k = mode / unit
    sine, cosine = torch.sin(mode * x), torch.cos(mode * x)
    expected = {
        "": sine, "x": k * cosine, "xx": -k * k * sine, "lap": -k * k * sine,
        "lap2": k**4 * sine, "x.lap": -(k**3) * cosine, "abs": k * sine, "half": k**0.5 * sine,
        "px": -cosine / k, "xxx": -(k**3) * cosine,
    }  # fmt: skip
    for name, wanted in expected.items():
        found = field_of(filter_symbol(name, LINE, unit, LIKE) * spectrum_of(sine, 1), (32,))
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12 * (1 + k**4) * 100)


def test_orders_are_numbers_of_derivatives() -> None:
    orders = {"": 0, "x": 1, "xy": 2, "lap": 2, "lap2": 4, "x.lap": 3, "abs.half": 1.5, "px": -1}
    assert {name: order_of(name) for name in orders} == orders
    assert (parse("0*0:x").order, parse("0*0@lap").order, parse("0*1*1").degree) == (1, 2, 3)


@pytest.mark.parametrize(
    "bad", ["w", "lapx", "over", "over1.5", "x..y", "lap.lap.lap.lap.lap", "X"]
)
def test_unknown_filters_are_refused(bad: str) -> None:
    with pytest.raises(OpsplitError, match="Unknown filter"):
        Spectral(linear=Derivatives((bad,)))


@given(added=st.integers(2_000, 10**7))
def test_a_denominator_divides_point_by_point(added: int) -> None:
    (x,) = LINE.axes()
    u, v = torch.sin(3 * x), torch.cos(2 * x) + 1.1
    terms = (f"1:over{added}", f"0*0*1:over{added}", "0*1:over0")
    way = Products(terms, dealias=1.0)
    family = Spectral(2, linear=Derivatives(()), nonlinearity=way)
    weights = torch.zeros(3, 2, 3, dtype=torch.float64)
    weights[range(3), 0, range(3)] = 1
    operators = family.prepare(weights.flatten(1), LINE)
    found = family.rate(operators, torch.stack([u, v]).expand(3, 1, 2, 32))[:, 0, 0]
    below = v + added * 1e-4
    torch.testing.assert_close(found, torch.stack([1 / below, u * u / below, u / v]))
    assert [parse(text).degree for text in terms] == [-1, 1, 0]
    assert all(parse(text).pointwise for text in terms)


@pytest.mark.parametrize(
    "term", ["0*0@over5", "0:x.over5", "0:over5.lap", "0*q", "1", "0:y", "0*0@z", "*".join("0" * 9)]
)
def test_terms_of_other_fields_are_refused(term: str) -> None:
    with pytest.raises(OpsplitError):
        Spectral(nonlinearity=Products((term,)))


def rate(terms: tuple[str, ...], u: torch.Tensor, grid: Grid, channels: int = 1) -> torch.Tensor:
    """The rate of every term in the first channel, `(term, *space)`."""
    family = Spectral(
        channels, grid.ndim, linear=Derivatives(()), nonlinearity=Products(terms, dealias=1.5)
    )
    weights = torch.zeros(len(terms), channels, len(terms), dtype=torch.float64)
    weights[range(len(terms)), 0, range(len(terms))] = 1
    operators = family.prepare(weights.flatten(1), grid)
    return family.rate(operators, u.expand(len(terms), 1, *u.shape))[:, 0, 0]


def test_products_are_those_of_calculus() -> None:
    (x,) = LINE.axes()
    u, v = torch.sin(x) + 0.3, torch.cos(2 * x)
    slope, bend = torch.cos(x), -torch.sin(x)
    terms = ("@", "0*0", "0*0:x", "0*0@x", "0:x*0:x", "0*1", "0*1:x@x", "0*0*1")
    expected = [
        torch.ones(32).double(), u * u, u * slope, 2 * u * slope, slope**2, u * v,
        slope * -2 * torch.sin(2 * x) + u * -4 * v, u * u * v,
    ]  # fmt: skip
    assert bend is not None
    found = rate(terms, torch.stack([u, v]), LINE, channels=2)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9)


def test_rates_are_linear_in_the_weights_and_zeros_cost_nothing() -> None:
    family = Spectral(linear=Derivatives(("lap",), 1.0), nonlinearity=Products(("0*0", "0*0@x")))
    draws = torch.Generator().manual_seed(0)
    u = torch.randn(1, 2, 1, 32, generator=draws, dtype=torch.float64)
    a, b = torch.randn(2, 1, 3, generator=draws, dtype=torch.float64)
    a[:, 0], b[:, 0] = 0.1, 0.2

    def at(w: torch.Tensor) -> torch.Tensor:
        return family.rate(family.prepare(w, LINE), u)

    torch.testing.assert_close(at(a + 2 * b), at(a) + 2 * at(b))
    linear = torch.tensor([[0.1, 0.0, 0.0]], dtype=torch.float64)
    prepared = family.prepare(linear, LINE)
    exact = torch.exp(prepared.tensors["symbol"][:, None] * 0.7) * spectrum_of(u, 1)
    torch.testing.assert_close(family.flow(prepared, u, 0.7), field_of(exact, (32,)))


@given(weight=st.floats(-5, 5), bound=st.floats(0, 3))
def test_growth_never_exceeds_its_bound(weight: float, bound: float) -> None:
    family = Spectral(linear=Derivatives(("", "lap", "lap2"), bound))
    parameters = torch.tensor([[weight, weight, weight]], dtype=torch.float64)
    assert float(family.prepare(parameters, LINE).tensors["symbol"].real.max()) <= bound


def test_pointwise_reactions_are_not_dealiased_and_fluxes_are() -> None:
    """A reaction acts point by point; a flux loses the modes above two thirds."""
    draws = torch.Generator().manual_seed(1)
    u = torch.randn(1, 1, 1, 32, generator=draws, dtype=torch.float64)
    family = Spectral(
        linear=Derivatives(()), nonlinearity=Products(("0*0", "0*0@x"), alias_reactions=True)
    )
    weights = torch.eye(2, dtype=torch.float64)
    found = family.rate(family.prepare(weights, LINE), u.expand(2, 1, 1, 32))
    torch.testing.assert_close(found[0], (u * u)[0])
    assert float(spectrum_of(found[1], 1)[..., 11:].abs().max()) < 1e-9


def test_families_of_terms_survive_json() -> None:
    family = Spectral(
        2, 2, 0.1, Derivatives(("lap", "x.lap"), 2.0), Products(("0*1", "1*0:x"), centre=(1.0, 2.0))
    )
    assert OperatorFamily.from_json(family.to_json()) == family


@pytest.mark.parametrize("per_operator", [False, True])
def test_reactions_in_pieces_are_those_of_all_points(
    per_operator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = Spectral(
        2, 2, 0.1, Derivatives(("",), 1.0), Products(("0*1*1", "@"), alias_reactions=True)
    )
    draw = torch.Generator().manual_seed(0)
    parameters = 0.3 * torch.randn(2, family.n_parameters, generator=draw)
    prepared = family.prepare(parameters, Grid((8, 6), (1.0, 2.0)))
    found = family._local(prepared)
    assert found is not None and bool(found.all())
    u = torch.randn(2, 3, 2, 8, 6, generator=draw)
    h = torch.tensor([0.2, 0.35]) if per_operator else 0.2
    with torch.no_grad():
        whole = family.flow(prepared, u, h)
        monkeypatch.setattr(spectral, "PIECE", 20)
        torch.testing.assert_close(family.flow(prepared, u, h), whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("per_operator", [False, True])
def test_reactions_without_transforms_flow_as_with_them(per_operator: bool) -> None:
    """Point by point or mode by mode: the same steps, up to rounding."""
    terms = ("0*1*1", "@", "0*0@x")
    family = Spectral(
        2, 2, 0.1, Derivatives(("", "lap"), 1.0),
        Products(terms, alias_reactions=True, centre=(0.1, -0.2)),
    )  # fmt: skip
    reaction = [0.3, 0, -0.2, 0, -1.0, 0.5, 0, 1.0, 0, 0]
    spread, flux = list(reaction), list(reaction)
    spread[1], flux[6] = 0.1, 0.7
    parameters = torch.tensor([reaction, spread, flux], dtype=torch.float64)
    prepared = family.prepare(parameters, Grid((8, 6), (1.0, 2.0)))
    found = family._local(prepared)
    assert found is not None and found.tolist() == [True, False, False]
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(3, 2, 2, 8, 6, generator=generator, dtype=torch.float64)
    h = torch.tensor([0.2, 0.1, 0.3], dtype=torch.float64) if per_operator else 0.2
    alone = prepared.take(torch.tensor([0]))
    torch.testing.assert_close(family.rate(prepared, u)[:1], family.rate(alone, u[:1]))
    own = h[:1] if isinstance(h, torch.Tensor) else h
    torch.testing.assert_close(family.flow(alone, u[:1], own), family._flow(alone, own)(u[:1]))
    torch.testing.assert_close(family.flow(prepared, u, h)[:1], family.flow(alone, u[:1], own))
