"""The same arrays in other units: the same answers, in those units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplit import OperatorSplitter, Pursuit
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, no_warnings
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.model import load_model
from opsplit.operators import Derivatives, Spectral
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.compatibility import Code
from opsplit.predict.units import Freedom, Units, check_size, choose_units, mean_wavenumber
from opsplit.predict.working_grid import resolved_grid
from opsplit.terms import Term

DT, LENGTH, C, D = 10 / 99, 16.0, 0.5, 0.25
SEARCH = Pursuit(max_parts=2)
TERMS = {"c": Term("-u_x", 1, 1, True), "D": Term("u_xx", 2, 1)}
MODEL = load_model("advection-diffusion", "spectral")


def exact(terms: dict[str, Term] | None = None) -> OperatorDictionary:
    """Exact flows of advection and of diffusion, four each."""
    values = np.array([0.1, 0.3, 0.6, 1.0])
    operators = [{"advection": float(x)} for x in values] + [
        {"diffusion": float(x)} for x in values
    ]
    zero = np.zeros(4)
    known = {"c": np.concatenate([values, zero]), "D": np.concatenate([zero, values])}
    found = OperatorDictionary.analytic(1, 1, operators, known)
    return replace(found, terms=TERMS if terms is None else terms)


def window(frames: int = 12, points: int = 64, c: float = C) -> np.ndarray:
    """The exact solution, in the units of the model."""
    physics = AdvectionDiffusion(Grid((64,), (LENGTH,)))
    initial = physics.initial_fields(1, torch.Generator().manual_seed(3), "A+D")
    mu = {"c": torch.tensor([c]).double(), "D": torch.tensor([D]).double()}
    u = physics.solve(initial, mu, torch.arange(frames).double() * DT)[0]
    return resample(u, (points,)).numpy()


def fitted(u: Any, length: float = 1.0, time: float = 1.0, **more: Any) -> OperatorSplitter:
    used = more.pop("dictionary", None)
    with no_warnings():
        splitter = OperatorSplitter(more.pop("model", MODEL), SEARCH, **more)
        return splitter.fit(u, DT * time, LENGTH * length, dictionary=used or exact())


def relative(splitter: OperatorSplitter, length: float = 1.0, time: float = 1.0) -> list[float]:
    c, d = splitter.coefficients_["c"], splitter.coefficients_["D"]
    return [c * time / length / C - 1, d * time / length**2 / D - 1]


factors = st.floats(-6, 6).map(lambda x: 10**x)


@settings(max_examples=5)
@given(factors, factors, factors)
def test_any_units_give_the_same_relative_errors(
    length: float, time: float, amplitude: float
) -> None:
    u = window()
    plain, other = fitted(u[:9]), fitted(amplitude * u[:9], length, time)
    assert other.status_ == plain.status_ == "explained"
    assert relative(other, length, time) == pytest.approx(relative(plain), abs=1e-4)
    assert max(abs(x) for x in relative(other, length, time)) < 2e-3
    ahead = other.predict(3) / amplitude
    np.testing.assert_allclose(ahead, plain.predict(3), atol=2e-5)
    times = other.forecast(times=[2.5 * DT * time]).times
    assert float(times[0]) == pytest.approx(2.5 * DT * time)


@settings(max_examples=5)
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-100, 100))
def test_powers_of_two_change_no_bit(length: int, time: int, amplitude: int) -> None:
    u = window()
    plain = fitted(u[:9])
    other = fitted(np.ldexp(u[:9], amplitude), 2.0**length, 2.0**time)
    assert other.coefficients_["c"] == np.ldexp(plain.coefficients_["c"], length - time)
    assert other.coefficients_["D"] == np.ldexp(plain.coefficients_["D"], 2 * length - time)
    assert other.fit_error_ == plain.fit_error_
    assert np.array_equal(other.predict(3), np.ldexp(plain.predict(3), amplitude))


def test_a_mean_of_300_changes_nothing_where_no_term_sees_it() -> None:
    u = window()
    plain, shifted = fitted(u[:9]), fitted(u[:9] + 300)
    assert relative(shifted) == pytest.approx(relative(plain), abs=1e-5)
    np.testing.assert_allclose(shifted.predict(3) - 300, plain.predict(3), atol=1e-5)
    single = fitted((u[:9] + 300).astype(np.float32))
    assert max(abs(x) for x in relative(single)) < 0.01


def test_a_direction_is_found_and_printed() -> None:
    u = window(9)[:, :, ::-1]
    left = fitted(u)
    assert relative(left)[0] == pytest.approx(-2, abs=2e-3)
    assert left.equation_.startswith("u_t = 0.5 u_x + 0.25 u_xx")
    assert "c=-" in str(left.search_result_)


@pytest.mark.parametrize("points", [64, 128, 1024, 8192])
def test_results_do_not_depend_on_the_resolution(points: int) -> None:
    """Rates would multiply the rounding of modes without a signal by `k**2`."""
    u = window(12, points)
    # Rounding to single precision is the harder case, and the only one on many points.
    for kind in (np.float32, np.float64) if points <= 1024 else (np.float32,):
        found = fitted(u[:9].astype(kind))
        assert max(abs(x) for x in relative(found)) < 2e-3
        assert found.predict(3).shape == (3, 1, points)
        np.testing.assert_allclose(found.predict(3), u[9:], atol=2e-3)


def test_learned_operators_do_not_depend_on_the_resolution_either() -> None:
    held = MODEL.dictionary.subsample(48, seed=0)
    coarse, fine = (fitted(window(9, n), dictionary=held) for n in (256, 4096))
    for name, value in coarse.coefficients_.items():
        assert fine.coefficients_[name] == pytest.approx(value, rel=1e-3)


def test_units_stay_where_terms_are_unknown_and_that_is_said() -> None:
    blind = exact({"c": Term("-u_x"), "D": Term("u_xx")})
    found = fitted(window(9), length=20.0, dictionary=blind)
    assert (found.units_.length, found.units_.time) == (1.0, 1.0)
    texts = [issue.text for issue in found.issues_ if issue.code is Code.EXTENT]
    assert texts and "Nothing is known about the terms" in texts[0]


def test_what_is_free_follows_from_orders_and_degrees() -> None:
    assert Freedom.of(exact()) == Freedom(True, True, True, True)
    blind = exact({"c": Term("-u_x"), "D": Term("u_xx", 2, 1)})
    assert not Freedom.of(blind).orders
    burgers = exact({"c": Term("-u u_x", 1, 2), "D": Term("u_xx", 2, 1)})
    assert Freedom.of(burgers) == Freedom(True, True, True, False)
    both = replace(exact(), coefficients={"c": np.ones(8), "D": np.ones(8)})
    assert Freedom.of(both) == Freedom(False, True, True, True)
    assert Freedom.of(OperatorDictionary(exact().parts)) == Freedom(False, False, False, False)


def test_coefficients_scale_as_their_terms_say() -> None:
    units = Units(length=3.0, time=5.0, amplitude=7.0)
    assert units.factor(Term("u_xxx", 3, 1)) == pytest.approx(27 / 5)
    assert units.factor(Term("u^3", 0, 3)) == pytest.approx(1 / 49 / 5)
    assert units.factor(None) == pytest.approx(1 / 5)


@pytest.mark.parametrize("shape", [(32,), (16, 24)])
def test_the_wavenumber_of_a_wave(shape: tuple[int, ...]) -> None:
    grid = Grid(shape, (5.0,) * len(shape))
    x = torch.arange(shape[-1]).double() / shape[-1]
    u = (7 + torch.sin(2 * torch.pi * 3 * x)).expand(4, 1, *shape)
    assert mean_wavenumber([u], grid) == pytest.approx(2 * np.pi * 3 / 5)


def test_fields_that_no_unit_brings_into_single_precision_are_refused() -> None:
    check_size(torch.tensor([0.0]))
    for size in (1e-200, 1e39):
        with pytest.raises(OpsplitError, match="single precision"):
            check_size(torch.tensor([size], dtype=torch.float64))


def test_the_finest_modes_come_below_the_limit_of_growth() -> None:
    """Growth is limited, so that diffusion of negative sign is right for long waves only."""
    model = load_model("line")
    right = model.dictionary.right_up_to
    assert 1 < right < torch.pi / model.config.grid.spacing[0]
    grid = Grid((512,), (100.0,))
    x = torch.arange(512).double() * 100 / 512
    u = sum(10.0 ** (-m / 16) * torch.sin(2 * torch.pi * m * x / 100 + m) for m in range(8, 64))
    assert isinstance(u, torch.Tensor)
    frames = [u.expand(4, 1, 512)]
    free = Freedom.of(model.dictionary)
    (units,) = choose_units(frames, grid, 0.4, model.config, free, None)
    assert 2 * torch.pi * 55 / 100 * units.length <= right
    (before,) = choose_units(frames, grid, 0.4, model.config, replace(free, highest=np.inf), None)
    assert 2 * torch.pi * 55 / 100 * before.length > right


def test_operators_are_right_up_to_the_limit_of_their_growth() -> None:
    """`-D k^2` reaches the limit `g` at `k = sqrt(g / D)`, whatever the unit."""
    linear = Derivatives(("x", "lap"), max_growth=9.0)
    for unit in (0.5, 2.0):
        family = Spectral(1, 1, 0.1, linear, None, unit)
        weights = torch.tensor([[3.0, 0.5], [0.0, -0.25]])
        assert family.right_up_to(weights) == pytest.approx(6.0 * unit, abs=0.13 * unit)
        assert family.right_up_to(weights[:1]) == np.inf


@pytest.mark.parametrize("length", [1e24, 1e30])
def test_a_huge_box_has_no_grid_of_its_own(length: float) -> None:
    given, trained = Grid((64,), (length,)), Grid((64,), (1e-6,))
    assert resolved_grid(given, trained, [torch.rand(2, 1, 64)]) is given
