"""Test windows: a number always means the same trajectory, kept or not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from opsplit.benchmark import tasks
from opsplit.benchmark.run import Cell, _record, measure, model_mark
from opsplit.benchmark.tasks import COLUMNS
from opsplit.commands.benchmark import Benchmark
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.physics import NavierStokes
from opsplit.progress import Progress
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
    cell, bar = Cell("advection-diffusion", "A+D", "pursuit", "spectral", 1), Progress("", False)
    first = measure(cell, 0, tmp_path, bar)
    column = COLUMNS["advection-diffusion"]["A+D"]
    other = replace(column, settings={"pursuit": {"max_parts": 1}})
    monkeypatch.setitem(COLUMNS["advection-diffusion"], "A+D", other)
    assert measure(cell, 0, tmp_path, bar, only_measured=True) is None
    second = measure(cell, 0, tmp_path, bar)
    assert first is not None and second is not None
    assert second["fit_error"] > 10 * first["fit_error"]
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_rows_are_kept_by_what_a_method_uses_of_a_model(tiny_folder: Path) -> None:
    def marks(model: Model) -> list[str]:
        return [model_mark(tiny_folder, model, method) for method in ("direct", "beam", "pursuit")]

    first = marks(Model.load(tiny_folder))
    assert marks(Model.load(tiny_folder)) == first
    other = Model.load(tiny_folder)
    other.disco.encoder.head.weight.add_(1)
    assert [a == b for a, b in zip(marks(other), first, strict=True)] == [False, True, True]
    other = Model.load(tiny_folder)
    next(other.disco.decoder.parameters()).add_(1)
    assert not set(marks(other)) & set(first)
    other = Model.load(tiny_folder)
    other.config.operator["max_step"] *= 2
    assert not set(marks(other)) & set(first)


def test_a_forecast_that_blows_up_scores_one_and_is_counted() -> None:
    row = {
        "absolute_error": {}, "fit_error": None, "seconds": 1.0, "evaluations": 1,
        "command": "", "seed": 0, "commit": "", "hardware": "",
    }  # fmt: skip
    errors = [0.5, math.nan, math.inf, 1e4, 2.0]
    rows = [row | {"trajectory": i, "nrmse": e} for i, e in enumerate(errors)]
    held = _record(Cell("combined", "gamma", "direct", "unet", 5), rows, None, None)
    assert held["nrmse"] == pytest.approx((0.5 + 3 * 1 + 2) / 5)
    assert (held["diverged"], held["largest"], held["median"]) == (3, 2.0, 1.0)
