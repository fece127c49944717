"""The independent solver behind `benchmarks/any_equation`, and the page that is written by it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "any_equation"
NAMES = [file.stem for file in FOLDER.glob("*.py")]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Modules of the folder, whose plain names are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    yield importlib.import_module
    for name in NAMES:
        if name != "__main__":
            sys.modules.pop(name, None)
    sys.modules.update(before)


def test_the_solver_is_independent_of_the_package() -> None:
    rounds = ("blind.py", "fourth.py", "fifth.py", "sixth.py", "seventh.py")
    for name in ("solver.py", "equations.py", *rounds, "given.py"):
        assert "opsplit" not in (FOLDER / name).read_text()


def test_a_linear_mechanism_is_solved_exactly(module: Callable[[str], ModuleType]) -> None:
    equation = module("equations").EQUATIONS["nagumo"]
    x = np.arange(equation.points) * equation.extent / equation.points
    k = 2 * np.pi * 3 / equation.extent
    found = equation.simulate(
        {"c": np.array([40.0]), "D": np.array([20.0])}, np.sin(k * x)[None, None], 6
    )
    t = 5 * equation.dt
    exact = np.exp(-20 * k**2 * t) * np.sin(k * (x - 40 * t))
    assert abs(found[0, -1, 0] - exact).max() < 1e-12


@pytest.mark.parametrize("name", ["allen-cahn", "kuramoto-sivashinsky", "brusselator"])
def test_the_solver_is_of_fourth_order(name: str, module: Callable[[str], ModuleType]) -> None:
    equation = module("equations").EQUATIONS[name]
    initial = equation.initial(np.random.default_rng(0))[None]
    values = {k: np.array([m.high]) for k, m in equation.mechanisms.items()}
    best = equation.simulate(values, initial, 3, 64)
    errors = [abs(equation.simulate(values, initial, 3, n) - best).max() for n in (4, 8)]
    assert errors[0] / errors[1] > 11


def test_substeps_that_are_left_out_change_nothing(module: Callable[[str], ModuleType]) -> None:
    equation = module("equations").EQUATIONS["fisher-kpp"]
    rng = np.random.default_rng(0)
    initial = np.stack([equation.initial(rng) for _ in range(3)])
    values = {k: np.full(3, m.high) for k, m in equation.mechanisms.items()}
    all_of_them = equation.simulate(values, initial, 10, equation.substeps)
    assert abs(equation.simulate(values, initial, 10) - all_of_them).max() < 1e-7


def test_rates_are_those_of_the_solver(module: Callable[[str], ModuleType]) -> None:
    for equation in module("blind").BLIND.values():
        if equation.ndim > 1:
            continue
        initial = equation.initial(np.random.default_rng(1))[None]
        for name, mechanism in equation.mechanisms.items():
            short = equation.dt * 1e-4 / equation.substeps
            moved = replace(equation, dt=short)
            value = mechanism.low
            frames = moved.simulate({name: np.array([value])}, initial, 3, 1)[0]
            slope = (frames[2] - frames[0]) / (2 * short)
            rate = value * equation.rate(name, frames[1:2])[0]
            assert abs(slope - rate).max() < 1e-3 * abs(rate).max(), (equation.name, name)


def test_shooting_finds_the_coefficients(module: Callable[[str], ModuleType]) -> None:
    pytest.importorskip("scipy")
    equation = module("equations").EQUATIONS["fisher-kpp"]
    given = module("given")
    truth = {"r": np.array([1.7]), "D": np.array([0.3])}
    initial = equation.initial(np.random.default_rng(2))[None]
    window = equation.simulate(truth, initial, 16)[0]
    found = given.shoot(equation, window, given.start(equation, window))
    assert all(abs(found[k] / truth[k][0] - 1) < 1e-5 for k in truth)


def test_the_page_is_written_from_the_stored_rows(
    tmp_path: Path, module: Callable[[str], ModuleType]
) -> None:
    report = module("report")
    page = ROOT / "docs" / "results" / "any-equation.md"
    assert report.text(report.read_rows(tmp_path)) == page.read_text()
