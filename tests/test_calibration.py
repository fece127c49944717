"""Intervals hold what they promise: quantiles, files, bands, and the words for the missing ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.benchmark import calibrate as benchmark
from opsplit.benchmark.calibrate import calibrate, coverage
from opsplit.benchmark.tasks import columns
from opsplit.benchmark.varied import BOX, KINDS, like_usual, shaped_field, varied_window
from opsplit.calibration import FILE, SPREAD, Calibration, coefficient_scale
from opsplit.conformal import DEEPEST, LEVELS, Question, conformal_quantiles, grown, leaves
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, no_warnings
from opsplit.fourier import low_pass
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.identify import equation
from opsplit.search import Beam, Pursuit

Observe = Callable[..., tuple[Tensor, Grid, float]]


Exact = Callable[..., OperatorDictionary]


QUICK = Pursuit(max_parts=2, survivors=3)


KNOWN = Calibration(
    "pursuit",
    64,
    tuple(2 * x for x in LEVELS),
    {"c": tuple(3 * x for x in LEVELS), "D": LEVELS},
    {"command": "opsplit calibrate", "seed": 1},
)


@pytest.fixture(scope="module")
def frames(observe: Observe) -> np.ndarray:
    """A window and what follows, `(time, x)`, float64."""
    return observe(c=0.5, D=0.3, frames=13, points=64)[0][:, 0].numpy()


@pytest.fixture(scope="module")
def precise(tiny_model: Model, exact: Exact) -> Model:
    """A model whose operators are exact."""
    return replace(tiny_model, dictionary=exact([0.2, 0.5, 1.0], [0.1, 0.3, 0.8]))


@pytest.fixture(scope="module")
def calibrated(precise: Model) -> Model:
    return replace(precise, calibration=KNOWN)


@pytest.fixture(scope="module")
def fitted(calibrated: Model, frames: np.ndarray) -> OperatorSplitter:
    return OperatorSplitter(calibrated, QUICK).fit(frames[:8], 10 / 99, 16.0)


# Quantiles


def test_a_calibration_is_stored_beside_the_model(calibrated: Model, tmp_path: Path) -> None:
    KNOWN.save(tmp_path)
    assert Calibration.load(tmp_path) == KNOWN
    assert Model.load(calibrated.save(tmp_path / "model")).calibration == KNOWN


def test_a_model_without_one_has_none(tiny_model: Model, tmp_path: Path) -> None:
    assert Calibration.load(tmp_path) is None
    assert Model.load(tiny_model.save(tmp_path / "model")).calibration is None


def broken(changes: dict[str, Any]) -> str:
    """The file's text with some entries changed; None leaves an entry out."""
    raw = {"levels": LEVELS, "spread": SPREAD, **vars(KNOWN)} | changes
    return json.dumps({k: v for k, v in raw.items() if v is not None})


def question(at: float, below: Any, above: Any) -> dict[str, Any]:
    return {"trait": "noisy", "at": at, "below": below, "above": above}


def nested(depth: int) -> Any:
    return question(0.5, LEVELS, nested(depth - 1)) if depth else LEVELS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        "{}",
        broken({"levels": [0.5]}),
        broken({"levels": None}),
        broken({"forecast": [1.0]}),
        broken({"forecast": 3}),
        broken({"forecast": ["x"] * 99}),
        broken({"coefficients": []}),
        broken({"coefficients": {"c": [1, 2]}}),
        broken({"coefficients": None}),
        broken({"n": "many"}),
        broken({"origin": 5}),
        broken({"strategy": None}),
        broken({"groups": {"c": [1, 2]}}),
        broken({"groups": {"c": {"trait": "noisy", "at": 0.5, "below": LEVELS}}}),
        broken({"groups": {"c": question(math.inf, LEVELS, LEVELS)}}),
        broken({"groups": {"c": nested(2 * DEEPEST + 1)}}),
    ],
)
def test_a_damaged_file_is_one_clear_error(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(OpsplitError, match=FILE):
        Calibration.load(tmp_path)


@pytest.mark.parametrize("spread", [None, SPREAD - 1])
def test_factors_for_spreads_of_before_are_none(spread: int | None, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(broken({"spread": spread}))
    assert Calibration.load(tmp_path) is None


def test_windows_have_factors_by_their_traits(tmp_path: Path) -> None:
    wide = tuple(5 * x for x in LEVELS)
    noisy = Question("noisy", 0.5, LEVELS, wide)
    told = replace(KNOWN, groups={"forecast": noisy, "c": Question("moved", 0.1, noisy, LEVELS)})
    told.save(tmp_path)
    assert Calibration.load(tmp_path) == told
    assert KNOWN.at({"noisy": 1.0}) is KNOWN
    for moved, loud, factor in ((0.0, 0.0, 0.9), (0.0, 1.0, 4.5), (0.2, 1.0, 0.9)):
        here = told.at({"noisy": loud, "moved": moved})
        assert here.forecast_factor(0.9) == pytest.approx(4.5 if loud else 0.9)
        assert here.coefficient_factor("c", 0.9) == pytest.approx(factor)
        assert here.coefficient_factor("D", 0.9) == KNOWN.coefficient_factor("D", 0.9)


def test_a_file_that_is_not_text_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(OpsplitError, match=FILE):
        Calibration.load(tmp_path)


# Intervals of an estimator


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_a_band_holds_its_forecast(calibrated: Model, frames: np.ndarray, kind: Any) -> None:
    given_frames = kind(frames[:8])
    splitter = OperatorSplitter(calibrated, QUICK).fit(given_frames, 10 / 99, 16.0)
    middle, lower, upper = splitter.predict(5, return_interval=0.9)
    for band in (middle, lower, upper):
        assert type(band) is type(given_frames)
        assert band.shape == (5, 1, 64)
        assert band.dtype == given_frames.dtype
    assert (lower <= middle).all() and (middle <= upper).all()
    assert (np.asarray(middle) == np.asarray(splitter.predict(5))).all()


@given(levels=st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)).map(sorted))
def test_bands_nest(fitted: OperatorSplitter, levels: list[float]) -> None:
    (_, low, high), (_, lower, higher) = (fitted.predict(3, return_interval=x) for x in levels)
    assert (lower <= low + 1e-6).all()
    assert (high <= higher + 1e-6).all()


def test_the_half_band_lies_inside_the_nine_tenths_band(fitted: OperatorSplitter) -> None:
    (_, low, high), (_, lower, higher) = (fitted.predict(5, return_interval=x) for x in (0.5, 0.9))
    assert (lower < low).all() and (high < higher).all()


def test_bands_at_given_times_are_those_of_the_steps(fitted: OperatorSplitter) -> None:
    times = [10 / 99 * (i + 1) for i in range(4)]
    for a, b in zip(
        fitted.predict(4, return_interval=0.8),
        fitted.predict(times=times, return_interval=0.8),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_bands_scale_with_the_unit_of_the_field(
    fitted: OperatorSplitter, calibrated: Model, frames: np.ndarray
) -> None:
    # A power of two changes no rounding.
    large = OperatorSplitter(calibrated, QUICK).fit(1024 * frames[:8], 10 / 99, 16.0)
    for big, small in zip(
        large.predict(5, return_interval=0.9), fitted.predict(5, return_interval=0.9), strict=True
    ):
        np.testing.assert_allclose(big, 1024 * small, rtol=1e-4, atol=1e-2)
    for name, interval in fitted.coefficient_intervals_.items():
        assert large.coefficient_intervals_[name] == pytest.approx(interval, rel=1e-4)


def test_coefficients_lie_in_the_middle_of_their_intervals(fitted: OperatorSplitter) -> None:
    assert fitted.coefficient_intervals_ == fitted.intervals(0.9)
    assert fitted.coefficient_intervals_.keys() == {"c", "D"}
    half = fitted.intervals(0.5)
    for name, (low, high) in fitted.coefficient_intervals_.items():
        value = fitted.coefficients_[name]
        assert (low + high) / 2 == pytest.approx(value)
        assert low < half[name][0] < value < half[name][1] < high
        scale = coefficient_scale(value, fitted.search_result_.spread[name])
        assert (high - low) / 2 == pytest.approx(KNOWN.coefficient_factor(name, 0.9) * scale)


def test_a_coefficient_that_was_not_calibrated_has_no_interval(
    calibrated: Model, frames: np.ndarray
) -> None:
    only_c = replace(calibrated, calibration=replace(KNOWN, coefficients={"c": LEVELS}))
    splitter = OperatorSplitter(only_c, QUICK).fit(frames[:8], 10 / 99, 16.0)
    assert splitter.coefficient_intervals_.keys() == {"c"}
    assert splitter.equation_.count("±") == 1
    with pytest.raises(OpsplitError, match="not calibrated for the coefficient 'D'"):
        only_c.calibration.coefficient_factor("D", 0.9)  # type: ignore[union-attr]


def test_an_uncalibrated_model_has_no_intervals(tiny_model: Model, frames: np.ndarray) -> None:
    splitter = OperatorSplitter(tiny_model, QUICK).fit(frames[:8], 10 / 99, 16.0)
    assert splitter.coefficient_intervals_ == {}
    assert "±" not in splitter.equation_
    for call in (lambda: splitter.intervals(0.9), lambda: splitter.predict(3, return_interval=0.9)):
        with pytest.raises(OpsplitError, match=r"need a calibrated model .*opsplit calibrate"):
            call()


def test_another_search_than_the_calibrated_has_no_intervals(
    calibrated: Model, frames: np.ndarray
) -> None:
    splitter = OperatorSplitter(calibrated, Beam(2, 2)).fit(frames[:8], 10 / 99, 16.0)
    assert splitter.coefficient_intervals_ == {}
    assert splitter.predict(3).shape == (3, 1, 64)
    with pytest.raises(OpsplitError, match=r"calibrated for search='pursuit', not for 'beam'"):
        splitter.predict(3, return_interval=0.9)


def test_another_dictionary_than_the_models_has_no_intervals(
    calibrated: Model, frames: np.ndarray, exact: Exact
) -> None:
    splitter = OperatorSplitter(calibrated, QUICK)
    splitter.fit(frames[:8], 10 / 99, 16.0, dictionary=exact([0.2], [0.1]))
    assert splitter.coefficient_intervals_ == {}
    with pytest.raises(OpsplitError, match="its own dictionary"):
        splitter.predict(3, return_interval=0.9)


def test_intervals_before_a_fit_are_refused(calibrated: Model) -> None:
    with pytest.raises(OpsplitError, match="call fit"):
        OperatorSplitter(calibrated).intervals(0.9)
    with pytest.raises(OpsplitError, match="call fit"):
        OperatorSplitter(calibrated).predict(3, return_interval=0.9)


def test_an_impossible_level_is_refused(fitted: OperatorSplitter) -> None:
    with pytest.raises(OpsplitError, match="a probability from"):
        fitted.predict(3, return_interval=90)


# Words


@pytest.mark.parametrize(
    ("intervals", "written"),
    [
        ({}, "u_t = -0.5 u_x + 0.3 u_xx"),
        ({"c": (0.49, 0.51)}, "u_t = -(0.5 ± 0.01) u_x + 0.3 u_xx"),
        ({"D": (0.1, 0.5)}, "u_t = -0.5 u_x + (0.3 ± 0.2) u_xx"),
        (
            {"c": (0.4997, 0.5003), "D": (0.29, 0.31)},
            "u_t = -(0.5 ± 0.0003) u_x + (0.3 ± 0.01) u_xx",
        ),
    ],
)
def test_an_equation_shows_its_intervals(
    intervals: dict[str, tuple[float, float]], written: str
) -> None:
    terms = {"c": "-u_x", "D": "u_xx"}
    assert equation({"c": 0.5, "D": 0.3}, terms, intervals) == written


def test_a_fitted_equation_shows_its_intervals(fitted: OperatorSplitter) -> None:
    assert fitted.equation_.count("±") == 2


# Calibration end to end


def test_intervals_cover_the_trajectories_they_were_calibrated_on(precise: Model) -> None:
    """At least: with so few trajectories the largest score is the factor."""
    seen = calibrate(precise, QUICK, 1, seed=3, origin={"seed": 3})
    assert (seen.strategy, seen.n, seen.origin) == ("pursuit", 3, {"seed": 3})
    assert seen.coefficients.keys() == {"c", "D"}
    # A little room: sums over several threads do not round alike twice.
    wider = replace(
        seen,
        forecast=tuple(1.01 * x for x in seen.forecast),
        coefficients={k: tuple(1.01 * x for x in v) for k, v in seen.coefficients.items()},
    )
    model = replace(precise, calibration=wider)
    held, counts = coverage(model, QUICK, 1, seed=3, level=0.9)
    assert held.keys() == {*columns("advection-diffusion"), "own", "no noise", "all"}
    assert counts["all"]["forecast"] == 3 and counts["A+D"]["c"] == 1
    assert held["A+D"].keys() == {"forecast", "c", "D"}
    for row in held.values():
        assert all(share >= 0.9 for share in row.values())


def test_the_coverage_of_factors_that_are_too_small_is_seen(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scores(*args: Any) -> Any:
        for column, size in (("near", 0.5), ("far", 2.0)):
            yield benchmark.Seen(column, torch.tensor([size, 10.0]), {"c": size})

    monkeypatch.setattr(benchmark, "scores", scores)
    one = (1.0,) * len(LEVELS)
    model = replace(tiny_model, calibration=Calibration("pursuit", 9, one, {"c": one}, {}))
    held, counts = coverage(model, "pursuit", 2, seed=0)
    assert counts["all"] == {"forecast": 2, "c": 2}
    assert held["near"] == {"forecast": 0.5, "c": 1.0}
    assert held["far"] == {"forecast": 0.0, "c": 0.0}
    assert held["all"] == {"forecast": 0.25, "c": 0.5}


def test_only_intervals_that_keep_their_level_are_shown(
    calibrated: Model, frames: np.ndarray
) -> None:
    rows = {"A": {"c": 0.9, "D": 0.7}, "all": {"c": 0.91, "D": 0.9}}
    told = replace(KNOWN, coverage=rows)
    assert told.shown("c") and not told.shown("D") and KNOWN.shown("D")
    assert not replace(KNOWN, coverage={"all": {"c": 1.0}}).shown("c")
    model = replace(calibrated, calibration=told)
    splitter = OperatorSplitter(model, QUICK).fit(frames[:8], 10 / 99, 16.0)
    assert splitter.coefficient_intervals_.keys() == {"c"}
    assert splitter.intervals(0.9).keys() == {"c", "D"}
    assert splitter.has_band_, "bands of forecasts are judged by themselves"
    few = replace(KNOWN, coverage={"A": {"forecast": 0.7, "c": 0.9}})
    again = OperatorSplitter(replace(calibrated, calibration=few), QUICK)
    again.fit(frames[:8], 10 / 99, 16.0)
    assert not again.has_band_ and "c" in again.coefficient_intervals_


def test_few_tests_are_judged_by_what_chance_makes() -> None:
    told = replace(KNOWN, coverage={"A": {"c": 0.8}})
    assert not told.shown("c")
    for count, enough in ((12, True), (20, True), (40, False), (400, False)):
        assert replace(told, tested={"A": {"c": count}, "all": {"c": 99}}).shown("c") is enough
    assert not replace(told, tested={"A": {"c": 12}, "all": {"c": 12}}).shown("c")


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("grid", [Grid((64,), (16.0,)), Grid((32, 24), (6.0, 5.0))])
def test_varied_fields_are_periodic_resolved_and_differ(kind: str, grid: Grid) -> None:
    one, other = (shaped_field(kind, grid, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert one.shape == grid.shape and float((one - other).norm()) > 0.1
    for u in (one, other):
        upper = u - low_pass(u, grid, 0.7)
        assert float(u.std()) > 0 and float(upper.norm() / u.norm()) < 0.05


def test_varied_windows_go_through_kinds_times_and_noise() -> None:
    column = columns("advection-diffusion")["A+D"]
    seen = [varied_window(column, i, seed=4) for i in range(15)]
    assert [kind for _, _, kind in seen[:5]] == list(KINDS)
    steps = {round(observed.dt, 6) for observed, _, _ in seen}
    assert len(steps) == 13 and max(steps) < 2.1 * 10 / 99 < 6 * min(steps)
    boxes = {round(observed.grid.extent[0], 6) for observed, _, _ in seen}
    assert len(boxes) == 13 and max(boxes) <= BOX * 16 and min(boxes) >= 16 / BOX
    plain, noisy = seen[1][0].data[0, 0, 0], seen[11][0].data[0, 0, 0]
    rough = [float((u - low_pass(u, seen[0][0].grid, 0.5)).std()) for u in (plain, noisy)]
    assert rough[1] > 100 * rough[0]


def test_fields_of_a_system_lie_between_two_of_its_states() -> None:
    fields = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(2)).double()
    shape = torch.arange(64.0).reshape(8, 8).double()
    made = like_usual(fields, shape)
    states = fields.flatten(1)
    ends = made.flatten(1)[:, [0, -1]]
    assert torch.equal(ends[0], torch.stack([states[0].min(), states[0].max()]))
    assert all(bool((states == end[:, None]).all(0).any()) for end in ends.T)
    middle = made.flatten(1)[:, 21]
    torch.testing.assert_close(middle, ends[:, 0] * (2 / 3) + ends[:, 1] / 3)


def test_a_trait_that_tells_scores_apart_is_asked_for() -> None:
    """Coverage is right in both groups; a trait that means nothing is not asked for."""
    draw = np.random.default_rng(0)

    def windows(n: int) -> tuple[list[Tensor], list[dict[str, float]]]:
        traits = [{"luck": float(draw.random()), "noisy": float(i % 3 == 0)} for i in range(n)]
        sizes = [abs(draw.normal()) * (5 if t["noisy"] else 1) for t in traits]
        return [torch.tensor([x]) for x in sizes], traits

    scores, traits = windows(300)
    tree = grown(scores, traits)
    assert isinstance(tree, Question) and tree.trait == "noisy"
    assert len(list(leaves(tree))) == 2
    found = Calibration("pursuit", 300, LEVELS, {"c": LEVELS}, {}, groups={"c": tree})
    held: dict[float, list[bool]] = {0.0: [], 1.0: []}
    for score, t in zip(*windows(6000), strict=True):
        held[t["noisy"]].append(float(score) <= found.at(t).coefficient_factor("c", 0.9))
    assert all(0.85 < np.mean(inside) < 0.95 for inside in held.values())
    lucky = [{"luck": t["luck"]} for t in traits]
    assert grown(scores, lucky) == conformal_quantiles(torch.cat(scores), 300)
    assert grown(scores[:60], traits[:60]) == conformal_quantiles(torch.cat(scores[:60]), 60)


def test_coverage_needs_a_calibration(tiny_model: Model) -> None:
    with pytest.raises(OpsplitError, match=r"not calibrated; run `opsplit calibrate`"):
        coverage(tiny_model, QUICK, 1, seed=0)


def test_a_calibration_needs_a_trajectory(tiny_model: Model) -> None:
    with pytest.raises(OpsplitError, match="at least one trajectory"):
        calibrate(tiny_model, QUICK, 0, seed=0, origin={})


def test_a_missing_term_leaves_no_interval(calibrated: Model, frames: np.ndarray) -> None:
    """A source that no operator holds: the others absorb it, and their intervals are wrong."""
    steps, x = np.arange(8)[:, None], np.arange(64)
    pushed = frames[:8] + 0.01 * frames.std() * steps * np.sin(2 * np.pi * 3 * x / 64)
    with no_warnings():
        splitter = OperatorSplitter(calibrated, QUICK).fit(pushed, 10 / 99, 16.0)
    assert splitter.status_ == "partly" and splitter.coefficient_intervals_ == {}
    assert not splitter.has_band_
