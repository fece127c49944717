"""Test windows: a number always means the same trajectory, kept or not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from opsplit.benchmark import tasks
from opsplit.benchmark.rows import Row
from opsplit.benchmark.run import Cell, Runner, summarise
from opsplit.benchmark.tasks import COLUMNS
from opsplit.commands.benchmark import Benchmark
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.physics import NavierStokes
from opsplit.trajectories import Trajectories

SMALL = NavierStokes(Grid((16, 16), (2 * math.pi,) * 2), fine=16)


def assert_same(one: tuple[Trajectories, ...], other: tuple[Trajectories, ...]) -> None:
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a.data, b.data) and torch.equal(a.times, b.times)
        assert (a.grid, a.channels) == (b.grid, b.channels)
        assert a.coefficients.keys() == b.coefficients.keys()
        assert all(torch.equal(v, b.coefficients[k]) for k, v in a.coefficients.items())


def test_a_kept_window_is_the_one_that_was_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "get_physics", lambda _: SMALL)
    column = tasks.columns("navier-stokes")["NS"]
    fresh = tasks.test_window(column, 3, seed=1)
    assert [len(part.times) for part in fresh] == [tasks.OBSERVED, column.horizon]
    assert_same(tasks.test_window(column, 3, 1, tmp_path / "windows"), fresh)
    assert len(list((tmp_path / "windows").iterdir())) == 1
    # From now on nothing is simulated, and nothing need be.
    with monkeypatch.context() as patch:
        patch.setattr(NavierStokes, "solve", None)
        assert_same(tasks.test_window(column, 3, 1, tmp_path / "windows"), fresh)
    for number, seed in ((4, 1), (3, 2)):
        other = tasks.test_window(column, number, seed, tmp_path / "windows")
        assert not torch.equal(other[0].data, fresh[0].data)


@pytest.mark.parametrize("words", ["combined", "gray-scott, navier-stokes", "all"])
def test_the_option_chooses_what_the_word_chooses(words: str) -> None:
    chosen = Benchmark(names=words).chosen()
    assert Benchmark(physics=words).chosen() == chosen
    names = list(tasks.COLUMNS) if words == "all" else words.split(", ")
    assert chosen == {name: list(tasks.columns(name)) for name in names}


def test_the_benchmark_is_given_once() -> None:
    with pytest.raises(OpsplitError, match="Give the benchmark once: 'combined' or --physics"):
        Benchmark(names="combined", physics="gray-scott").chosen()


def test_a_search_with_other_settings_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("advection-diffusion", "A+D", "pursuit", "spectral", 1)
    first = Runner(tmp_path).record(cell)
    column = COLUMNS["advection-diffusion"]["A+D"]
    other = replace(column, settings={"pursuit": {"max_parts": 1}})
    monkeypatch.setitem(COLUMNS["advection-diffusion"], "A+D", other)
    assert Runner(tmp_path).record(cell, only_measured=True) is None
    second = Runner(tmp_path).record(cell)
    assert first is not None and second is not None
    assert second["fit_error"] > 10 * first["fit_error"]


def test_a_forecast_that_blows_up_scores_one_and_is_counted() -> None:
    errors = [0.5, math.nan, math.inf, 1e4, 2.0]
    rows = [Row(i, e, None, 1, 1.0, None, {}, {}, "") for i, e in enumerate(errors)]
    held = summarise(Cell("combined", "gamma", "direct", "unet", 5), rows)
    assert held["nrmse"] == pytest.approx((0.5 + 3 * 1 + 2) / 5)
    assert (held["diverged"], held["largest"], held["median"]) == (3, 2.0, 1.0)
