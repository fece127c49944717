"""`OperatorSplitter`: what goes in comes out, and what it finds is what is there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.predict.estimator import OperatorSplitter
from opsplit.search import Beam, Uniform

Observe = Callable[..., tuple[Tensor, Grid, float]]
Exact = Callable[..., OperatorDictionary]
DT = 10 / 99
STEPS = 5


@pytest.fixture(scope="module")
def frames(observe: Observe) -> np.ndarray:
    """A window and what follows, `(time, x)`, float64."""
    u, _, _ = observe(c=0.5, D=0.3, frames=8 + STEPS, points=64)
    return u[:, 0].numpy()


@pytest.fixture(scope="module")
def window(frames: np.ndarray) -> np.ndarray:
    return frames[:8]


@pytest.fixture(scope="module")
def make(tiny_model: Model) -> Callable[..., OperatorSplitter]:
    """An estimator with a quick search."""

    def build(**changes: Any) -> OperatorSplitter:
        given_params = {"model": tiny_model, "search": Beam(width=2, max_parts=2)}
        return OperatorSplitter(**(given_params | changes))

    return build


Make = Callable[..., OperatorSplitter]


@pytest.fixture(scope="module")
def fitted(make: Make, window: np.ndarray) -> OperatorSplitter:
    return make().fit(window, DT)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_in_numpy_out(make: Make, window: np.ndarray, dtype: type) -> None:
    out = make().fit(window.astype(dtype), DT).predict(STEPS)
    assert isinstance(out, np.ndarray)
    assert out.dtype == dtype
    assert out.shape == (STEPS, 1, 64)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_torch_in_torch_out(make: Make, window: np.ndarray, dtype: torch.dtype) -> None:
    out = make().fit(torch.from_numpy(window).to(dtype), DT).predict(STEPS)
    assert isinstance(out, Tensor)
    assert out.dtype == dtype
    assert out.shape == (STEPS, 1, 64)


def test_whole_numbers_give_real_forecasts(make: Make, window: np.ndarray) -> None:
    counts = (100 * window).round().astype(np.int32)
    assert make().fit(counts, DT).predict(STEPS).dtype == np.float32
    assert make().fit(torch.from_numpy(counts), DT).predict(STEPS).dtype == torch.float32


def test_kinds_and_shapes_agree(make: Make, window: np.ndarray) -> None:
    expected = make().fit(window, DT).predict(STEPS)
    for same in (window[:, None], window[None, :, None], window[::-1][::-1], window.astype(">f8")):
        assert np.array_equal(make().fit(same, DT).predict(STEPS), expected)
    found = make().fit(torch.from_numpy(window), DT).predict(STEPS)
    assert np.array_equal(found.numpy(), expected)


def test_input_is_left_alone(make: Make, window: np.ndarray) -> None:
    given_window = window.copy()
    given_window.setflags(write=False)
    make().fit(given_window, DT).predict(STEPS)
    assert np.array_equal(given_window, window)


def test_steps_are_multiples_of_dt(make: Make, window: np.ndarray) -> None:
    splitter = make().fit(window, DT)
    forecast = splitter.forecast(STEPS)
    assert forecast.status == "ok"
    assert forecast.times.tolist() == pytest.approx([DT * (i + 1) for i in range(STEPS)])
    by_steps = splitter.predict(STEPS)
    assert np.array_equal(by_steps, splitter.predict(times=forecast.times.tolist()))
    assert np.array_equal(by_steps[:2], splitter.predict(steps=2))


@given(chosen=st.sets(st.integers(1, 6), min_size=1))
def test_any_multiples_of_dt(fitted: OperatorSplitter, chosen: set[int]) -> None:
    every, some = fitted.predict(6), sorted(chosen)
    found = fitted.predict(times=[DT * n for n in some])
    np.testing.assert_allclose(found, every[[n - 1 for n in some]], rtol=1e-4, atol=1e-5)


def test_finds_what_is_there(exact: Exact, make: Make, frames: np.ndarray) -> None:
    known = exact(c=[0.2, 0.5, 0.9], D=[0.1, 0.3])
    splitter = make().fit(frames[:8], DT, dictionary=known)
    assert splitter.coefficients_ == {"c": 0.5, "D": 0.3}
    assert splitter.fit_error_ < 1e-4
    assert splitter.equation_ == "u_t = -0.5 u_x + 0.3 u_xx"
    np.testing.assert_allclose(splitter.predict(STEPS)[:, 0], frames[8:], atol=1e-3)
    assert -1e-3 < splitter.score(frames[8:]) <= 0


@given(stretch=st.floats(0.5, 4), speed=st.floats(0.5, 4))
def test_units_of_space_and_time(
    exact: Exact, make: Make, window: np.ndarray, stretch: float, speed: float
) -> None:
    """On a domain `a` times as long, in `1/b` of the time: c -> a b c and D -> a^2 b D."""
    c, d = 0.5 * stretch * speed, 0.3 * stretch**2 * speed
    known = exact(c=[0.3 * c, c, 3 * c], D=[0.3 * d, d, 3 * d])
    splitter = make().fit(window, DT / speed, extent=16 * stretch, dictionary=known)
    assert splitter.coefficients_ == pytest.approx({"c": c, "D": d})
    assert splitter.fit_error_ < 1e-4


@given(exponent=st.integers(-20, 20))
def test_scaling_by_a_power_of_two_is_exact(
    make: Make, fitted: OperatorSplitter, window: np.ndarray, exponent: int
) -> None:
    scaled = make().fit(window * 2.0**exponent, DT)
    assert scaled.composition_ == fitted.composition_
    assert np.array_equal(scaled.predict(STEPS), fitted.predict(STEPS) * 2.0**exponent)


@given(factor=st.floats(1e-4, 1e4))
def test_scaling_the_data_scales_the_forecast(
    make: Make, fitted: OperatorSplitter, window: np.ndarray, factor: float
) -> None:
    scaled = make().fit(factor * window, DT)
    size = factor * np.abs(window).max()
    gap = np.abs(scaled.predict(STEPS) - factor * fitted.predict(STEPS)).max()
    assert gap < 1e-3 * size
    assert scaled.fit_error_ == pytest.approx(fitted.fit_error_, rel=1e-2)


def test_refit_forgets(make: Make, window: np.ndarray, observe: Observe) -> None:
    other = 7.0 * observe(c=0.9, D=0.05, frames=8, points=48, seed=4)[0]
    fresh = make().fit(other, 2 * DT, extent=5.0)
    again = make().fit(window, DT).fit(other, 2 * DT, extent=5.0)
    assert again.composition_ == fresh.composition_
    assert again.coefficients_ == fresh.coefficients_
    assert torch.equal(again.predict(STEPS), fresh.predict(STEPS))


def test_failed_refit_leaves_the_last_fit(make: Make, window: np.ndarray) -> None:
    splitter = make().fit(window, DT)
    before = splitter.predict(STEPS)
    empty = OperatorDictionary(())
    for bad in (
        {"u": torch.from_numpy(100 * window), "dt": 3 * DT, "dictionary": empty},
        {"u": 100 * window[:1], "dt": DT},
    ):
        with pytest.raises(OpsplitError):
            splitter.fit(**bad)
        assert np.array_equal(splitter.predict(STEPS), before)


def test_window_is_the_last_frames(make: Make, window: np.ndarray) -> None:
    expected = make(window=None).fit(window[-5:], DT)
    noise = window.copy()
    noise[:-5] = np.random.default_rng(0).normal(size=noise[:-5].shape)
    for u, length in ((window, 5), (noise, 5), (window[-5:], 16)):
        found = make(window=length).fit(u, DT)
        assert found.composition_ == expected.composition_
        assert np.array_equal(found.predict(STEPS), expected.predict(STEPS))
    assert make(window=None).fit(noise, DT).fit_error_ > 10 * expected.fit_error_


def test_score_is_minus_the_error(make: Make, frames: np.ndarray) -> None:
    splitter = make().fit(frames[:8], DT)
    truth, found = frames[8:], splitter.predict(STEPS)[:, 0]
    expected = -np.linalg.norm(found - truth) / np.linalg.norm(truth)
    for same in (truth, truth[:, None], torch.from_numpy(truth)):
        assert splitter.score(same) == pytest.approx(expected, rel=1e-4)
    assert splitter.score(found) == 0
    with pytest.raises(OpsplitError, match="shape"):
        splitter.score(truth[:, :32])


def test_search_by_name_or_configured(make: Make, window: np.ndarray) -> None:
    named = make(search="beam").fit(window, DT)
    built = make(search=Beam()).fit(window, DT)
    assert named.composition_ == built.composition_
    assert named.search_result_.strategy == "beam"
    uniform = make(search=Uniform(trials=5)).fit(window, DT)
    assert uniform.search_result_.strategy == "uniform"
    with pytest.raises(OpsplitError, match=r"Unknown search 'greedy'.*beam.*uniform"):
        make(search="greedy").fit(window, DT)


def test_table_holds_the_pick(make: Make, window: np.ndarray) -> None:
    splitter = make().fit(window, DT)
    (picked,) = [row for row in splitter.search_table_ if row["pick"]]
    assert picked["fit_error"] == splitter.fit_error_
    assert picked["c"] == splitter.coefficients_["c"]
    assert picked["composition"] == splitter.composition_.label
    assert picked["parts"] == len(splitter.composition_)


def test_print_shows_table_and_equation(make: Make, window: np.ndarray) -> None:
    splitter = make()
    assert "not fitted" in str(splitter)
    text = str(splitter.fit(window, DT))
    header, *rest = text.splitlines()
    # Coefficients that no composition has are left out.
    there = [k for k in ("c", "D") if any(row[k] for row in splitter.search_table_)]
    assert there and header.split() == ["pick", "parts", "fit_error", *there, "composition"]
    assert any(line.startswith(">>>>") for line in rest)
    assert rest[-2:] == [splitter.equation_, splitter.verdict_.text]
    assert splitter.equation_.startswith("u_t = ")


def test_scikit_learn_manners(make: Make, window: np.ndarray) -> None:
    """The contract of `sklearn.base.clone`: arguments are stored untouched under their names."""
    splitter = make(scheme="lie", window=6)
    names = [*inspect.signature(OperatorSplitter).parameters]
    assert list(splitter.get_params()) == names
    assert splitter.get_params(deep=False) == splitter.get_params()
    clone = OperatorSplitter(**splitter.get_params())
    assert all(getattr(clone, n) is getattr(splitter, n) for n in names)
    splitter.fit(window, DT)
    clone = OperatorSplitter(**splitter.get_params())
    assert "not fitted" in str(clone)
    assert np.array_equal(clone.fit(window, DT).predict(2), splitter.predict(2))
    assert splitter.set_params(window=5, refinement=2) is splitter
    assert (splitter.window, splitter.refinement) == (5, 2)
    with pytest.raises(OpsplitError, match=r"no parameter 'widht'.*window"):
        splitter.set_params(widht=3)
    assert repr(splitter).startswith("OperatorSplitter(model=")
    assert "window=5" in repr(splitter)


@pytest.mark.parametrize("question", ["predict", "forecast"])
def test_not_fitted(make: Make, window: np.ndarray, question: str) -> None:
    with pytest.raises(OpsplitError, match=r"call fit\(u, dt=\.\.\.\) first"):
        getattr(make(), question)(3)
    with pytest.raises(OpsplitError, match=r"call fit\(u, dt=\.\.\.\) first"):
        make().score(window)


def infinite(u: np.ndarray) -> np.ndarray:
    u = u.copy()
    u[3, 7] = np.inf
    return u


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda u: np.stack([u, u], 1), r"1 channel\(s\).*the data have 2"),
        (lambda u: u[:1], "single frame"),
        (infinite, "1 values are infinite, the first in frame 3"),
        (lambda u: u[0], "cannot be read as 1-D fields"),
        (lambda u: u[None, None, None], "single frame"),
        (lambda u: u + 1j, "real numbers"),
        (lambda u: u > 0, "real numbers"),
        (lambda u: u[:, :1], "at least 2 points"),
    ],
)
def test_unusable_frames(
    make: Make, window: np.ndarray, spoil: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    with pytest.raises(OpsplitError, match=words):
        make().fit(spoil(window), DT)


@pytest.mark.parametrize("dt", [0.0, -1.0, float("nan"), float("inf")])
def test_unusable_time_step(make: Make, window: np.ndarray, dt: float) -> None:
    with pytest.raises(OpsplitError, match="dt is the time between frames"):
        make().fit(window, dt)


@pytest.mark.parametrize("extent", [0.0, -2.0, float("nan"), (1.0, 2.0)])
def test_unusable_extent(make: Make, window: np.ndarray, extent: Any) -> None:
    with pytest.raises(OpsplitError, match=r"extent|positive length"):
        make().fit(window, DT, extent=extent)


@pytest.mark.parametrize("length", [1, 0, -3])
def test_too_short_window(make: Make, window: np.ndarray, length: int) -> None:
    with pytest.raises(OpsplitError, match=f"at least 2, got {length}"):
        make(window=length).fit(window, DT)


@pytest.mark.parametrize(
    "how, words",
    [
        ({}, "Say how far"),
        ({"steps": 3, "times": [0.1]}, "Say how far"),
        ({"steps": 0}, "whole number in 1"),
        ({"steps": -2}, "whole number in 1"),
        ({"steps": 2.5}, "whole number"),
        ({"times": []}, "finite numbers"),
        ({"times": [0.1, float("nan")]}, "finite numbers"),
        ({"times": [0.0]}, "must increase"),
        ({"times": [0.2, 0.1]}, "must increase"),
    ],
)
def test_unusable_horizon(fitted: OperatorSplitter, how: dict[str, Any], words: str) -> None:
    with pytest.raises(OpsplitError, match=words):
        fitted.predict(**how)
