"""All bundled models are tried, ranked by what they leave unexplained."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import opsplit
from opsplit import OperatorSplitter, cli
from opsplit.dictionary import keeping_mean, oriented
from opsplit.errors import OpsplitError, no_warnings
from opsplit.grid import Grid
from opsplit.model import load_model
from opsplit.physics.line import Line
from opsplit.predict.auto_model import (
    ENOUGH,
    TIE,
    Ranked,
    _lifted_last,
    _ranked,
    candidates,
    ranking_table,
    score,
)
from opsplit.predict.compatibility import Code
from opsplit.predict.verdict import Level, Verdict

GRID = Grid((64,), (20.0,))
UNKNOWN = {"r": -0.4, "D": -1.6, "kappa": 0.8, "s": 0.7, "q": -0.6}
"""Five mechanisms that nearly cancel, of an equation that no bundled model is for."""


def frames(**values: float) -> np.ndarray:
    """16 frames `(time, x)`, 0.1 apart."""
    line = Line(grid=GRID, dt=0.1, substeps=40)
    own = {k: torch.full((1,), values.get(k, 0.0), dtype=torch.float64) for k in line.sizes}
    u = line.initial_fields(1, torch.Generator().manual_seed(3))
    return line.solve(u, own, 0.1 * torch.arange(16))[0, :, 0].numpy()


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 5))
def test_the_score_prefers_less_unexplained_and_fewer_parts(a: float, b: float, parts: int) -> None:
    assert (score(a, parts) <= score(b, parts)) or a > b
    assert score(a, parts) < score(a, parts + 1)


def test_an_equation_nobody_trained_for() -> None:
    """Terms that cancel are found together, and the bundled models that fail rank below."""
    u = frames(**UNKNOWN)
    splitter = OperatorSplitter()
    with no_warnings():
        splitter.fit(u, 0.1, GRID.extent)
    assert splitter.status_ == "explained" and splitter.ranking_[0].model == "line"
    found = {k: v for k, v in splitter.coefficients_.items() if v != 0}
    assert found == pytest.approx(UNKNOWN, rel=0.01)
    tried = [one.score for one in splitter.ranking_[1:] if one.score is not None]
    assert tried == sorted(tried) and all(x > splitter.ranking_[0].score for x in tried)
    assert {(one.model, one.family) for one in splitter.ranking_} == set(candidates())
    assert ranking_table(splitter.ranking_).splitlines()[1].startswith("  >> line (spectral)")


def test_a_given_model_is_not_ranked() -> None:
    u = frames(c=0.5, D=0.3)
    with no_warnings():
        auto = OperatorSplitter().fit(u, 0.1, GRID.extent)
        given_one = OperatorSplitter(auto.ranking_[0].model)
        given_one.fit(u, 0.1, GRID.extent)
    assert given_one.ranking_ == () and auto.model == "auto"
    assert auto.coefficients_ == given_one.coefficients_
    np.testing.assert_array_equal(auto.predict(5), given_one.predict(5))


def test_reasons_of_refusal() -> None:
    with pytest.raises(OpsplitError, match="Nothing says the time between frames"):
        OperatorSplitter().fit(frames(D=0.3))
    with pytest.raises(OpsplitError, match="No other bundled model takes these data"):
        OperatorSplitter().fit(np.zeros((16, 3, 16, 16)), 0.1, 1.0)


def test_commands_show_the_ranking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "a.npz", u=frames(c=0.5, D=0.3), dt=0.1, extent=20.0)
    cli.main(["identify", str(tmp_path / "a.npz"), "--json"])
    found = json.loads(capsys.readouterr().out)
    first = found["ranking"][0]["model"]
    assert found["coefficients"]["c"] == pytest.approx(0.5, rel=0.01)
    described = opsplit.describe(tmp_path / "a.npz", explain=True)
    assert f"{first} (spectral) explains 100.000 % of the change" in str(described)
    assert "line (spectral) fits in shape" in str(opsplit.describe(tmp_path / "a.npz"))


def test_operators_that_keep_the_mean() -> None:
    dictionary = load_model("line").dictionary
    frame = torch.from_numpy(frames(D=0.3)[-1:]).float()
    kept = keeping_mean(dictionary, GRID, frame)
    assert len(kept) == len(dictionary) and kept.terms["h"].text == "u_x^2 - mean"
    assert kept.terms["D"].text == dictionary.terms["D"].text
    for i in range(len(kept)):
        part = kept.select([i]).parts[0]
        operator = part.family.prepare(part.parameters().to(frame), GRID)
        rate = part.family.rate(operator, frame[None, None] / part.scale)
        assert abs(float(rate.mean())) <= 2e-4 * float(rate.norm())


def test_operators_of_either_sign_have_no_copies() -> None:
    dictionary = load_model("line").dictionary
    frame = torch.from_numpy(frames(D=0.3)[-1:]).float()
    assert len(oriented(dictionary, GRID, frame)) == len(dictionary)


def test_terms_axis_by_axis() -> None:
    """`D` stays, `D_x` and `D_y` add up to it; reactions have no axis."""
    lifted = load_model("line").dictionary.lift(2, apart=True)
    assert {"D", "D_x", "D_y", "kappa_x", "h_y", "c_x", "r"} <= lifted.coefficients.keys()
    assert not {"r_x", "s_y", "q_x"} & lifted.coefficients.keys()
    grid = Grid((16, 16), (20.0, 20.0))
    u = torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(0))
    rates = {}
    for name in ("D", "D_x", "D_y"):
        one = lifted.where(lambda c, name=name: c[name] > 0)
        rates[name] = one.prepare(grid, u).rates(torch.arange(len(one)), u[None])[0]
    torch.testing.assert_close(rates["D_x"] + rates["D_y"], rates["D"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mean", [0.0, 300.0, 3e5])
def test_a_mean_in_single_precision_does_not_change_the_choice(mean: float) -> None:
    """The rounding of stored numbers is noise: no model profits from a large mean."""
    u = frames(c=0.5, D=0.1) + mean
    with no_warnings():
        found = OperatorSplitter().fit(u.astype(np.float32), 0.1, GRID.extent)
    assert found.status_ != "unexplained" and found.verdict_.skill is not None
    # What rounding leaves of the diffusion is known less well.
    loose = 1e-3 if mean < 1e3 else 0.05
    assert found.coefficients_["c"] == pytest.approx(0.5, rel=loose)
    assert found.coefficients_["D"] == pytest.approx(0.1, rel=loose)


def test_the_same_equations_with_other_operators_are_not_tried() -> None:
    noise = np.random.default_rng(0).standard_normal((16, 64))
    with no_warnings():
        found = OperatorSplitter().fit(noise, 0.1, GRID.extent)
    tried = {(one.model, one.family) for one in found.ranking_ if one.unexplained is not None}
    assert found.status_ == "unexplained" and {family for _, family in tried} == {"spectral"}
    assert "line" in {model for model, _ in tried}


def test_a_constant_field_says_no_coefficient() -> None:
    with no_warnings():
        found = OperatorSplitter().fit(np.full((16, 64), 300.0), 0.1, GRID.extent)
    assert found.verdict_.skill is None and found.coefficient_intervals_ == {}
    assert any(issue.code is Code.STILL for issue in found.issues_)


def test_a_busy_machine_does_not_change_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds an hour gone, and still all models are tried."""
    hours = iter(range(10**9))
    monkeypatch.setattr("opsplit.predict.auto_model.time.perf_counter", lambda: 3600 * next(hours))
    with no_warnings():
        found = OperatorSplitter().fit(frames(**UNKNOWN), 0.1, GRID.extent)
    assert found.status_ == "explained" and found.ranking_[0].model == "line"


def test_noise_does_not_choose_a_poorer_model() -> None:
    """Single steps are mostly noise; the run over the window shows which terms act."""
    poor = Verdict(Level.PARTLY, 0.54, 0.74, noise=0.51)
    good = Verdict(Level.EXPLAINED, 0.50, 0.94, noise=0.51)
    scores = []
    for verdict in (poor, good):
        made: Any = SimpleNamespace(verdict_=verdict, composition_=(0, 0), equation_="")
        scores.append(_ranked(Ranked("a", "spectral"), made).score or 0.0)
    assert scores[0] > scores[1] + TIE
    assert good.leaves_less_than(ENOUGH) and not poor.leaves_less_than(ENOUGH)


def test_lifted_models_come_last_and_the_smallest_first() -> None:
    order = [name for name, family in _lifted_last(list(candidates()), 2) if family == "spectral"]
    assert set(order[:2]) == {"navier-stokes", "gray-scott"}
    assert order[2:] == ["line", "advection-diffusion", "combined"]
    assert _lifted_last(list(candidates()), 1) == list(candidates())


def test_few_operators_come_before_many() -> None:
    """A small dictionary that explains the data spares the larger ones."""
    order = [name for name, family in candidates() if family == "spectral"]
    assert order[0] == "advection-diffusion", "exact flows cost next to nothing"
    assert order.index("line") < order.index("combined")
    u = frames(a=1.0, D=0.2)
    u = u + 0.01 * u.std() * np.random.default_rng(1).standard_normal(u.shape)
    with no_warnings():
        splitter = OperatorSplitter().fit(u, 0.1, GRID.extent)
    tried = {one.model for one in splitter.ranking_ if one.unexplained is not None}
    assert "line" in tried and "combined" not in tried


def test_about_a_large_mean_the_linear_term_is_taken() -> None:
    """There `u u_x` is `300 u_x`, and no frame with noise tells one from the other."""
    rng, x = np.random.default_rng(4), np.arange(64) * 10 / 64
    t = 0.1 * np.arange(16)[:, None]
    u = np.full((16, 64), 300.0)
    for n in (1, 2, 3, 4):
        k = 2 * np.pi * n / 10
        u += np.sin(k * x - (0.3 * k - 0.08 * k**3) * t + n) / n
    u += 0.001 * rng.standard_normal(u.shape)
    with no_warnings():
        splitter = OperatorSplitter().fit(u, 0.1, 10.0)
    assert splitter.status_ == "explained"
    assert abs(splitter.coefficients_["c"] / 0.3 - 1) < 0.02
    assert abs(splitter.coefficients_["delta"] / 0.08 - 1) < 0.02
