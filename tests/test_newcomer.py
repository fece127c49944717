"""What somebody types who has read no documentation: one sentence for every mistake."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import opsplit
from opsplit import Grid, OperatorSplitter, OpsplitError, Trajectories
from opsplit.errors import NotFittedError
from opsplit.model import Model

U = np.sin(np.arange(64) * 2 * np.pi / 64 - 0.05 * np.arange(6)[:, None]).astype(np.float32)
pytestmark = pytest.mark.filterwarnings("ignore::opsplit.OpsplitWarning")


@pytest.fixture(scope="module")
def fitted(tiny_model: Model) -> OperatorSplitter:
    return OperatorSplitter(tiny_model).fit(U, dt=0.1, extent=16.0)


def fit(**told: Any) -> Any:
    names = OperatorSplitter.PARAMETERS
    made = OperatorSplitter(**{"model": "line"} | {k: v for k, v in told.items() if k in names})
    rest = {k: v for k, v in told.items() if k not in names}
    return made.fit(**{"u": U, "dt": 0.1, "extent": 16.0} | rest)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"dt": "0.1"}, "dt is the time .* got '0.1'"),
        ({"model": 3}, "must be a path, got 3"),
        ({"model": None}, "must be a path, got None"),
        ({"search": 5}, "search must be a name .*pursuit.* got 5"),
        ({"window": "a"}, "window must be a whole number, got 'a'"),
        ({"device": "gpu7"}, "Unknown --device 'gpu7'; choose cpu"),
        ({"memory_mb": "a"}, "memory_mb must be a number"),
        ({"refinement": "x"}, "refinement must be one of auto"),
        ({"boundary": 3}, "boundary must be a word"),
        ({"trajectory": "a"}, "trajectory must be a whole number"),
    ],
)
def test_a_wrong_argument_of_a_fit(told: dict[str, Any], words: str) -> None:
    with pytest.raises(OpsplitError, match=words):
        fit(**told)


ASKED: list[tuple[Callable[[OperatorSplitter], Any], str]] = [
    (lambda s: s.predict(times="a"), "times must be numbers"),
    (lambda s: s.predict(times=3.0), "times must be numbers"),
    (lambda s: s.score("a"), "score needs frames as numbers"),
    (lambda s: s.save("/dev/null/x"), "cannot be a folder"),
    (lambda s: s.load(3), "must be a path, got 3"),
]


@pytest.mark.parametrize(("ask", "words"), ASKED)
def test_a_wrong_question_to_a_fit(
    fitted: OperatorSplitter, ask: Callable[[OperatorSplitter], Any], words: str
) -> None:
    with pytest.raises(OpsplitError, match=words):
        ask(fitted)


MADE: list[tuple[Callable[[], Any], str]] = [
    (lambda: Grid(3, 4), "points and length of every axis"),  # type: ignore[arg-type]
    (lambda: Trajectories(U, None, None), "need tensors and a Grid"),  # type: ignore[arg-type]
    (lambda: opsplit.pretrain(None, "x"), "data must be a path"),  # type: ignore[arg-type]
    (lambda: opsplit.compare("line", None, None), "needs Trajectories"),  # type: ignore[arg-type]
    (lambda: opsplit.get_physics("line").generate("mix", 1.5, 0), "n must be a whole number"),
    (lambda: opsplit.get_physics("line").generate("mix", 0, 0), "n must lie in"),
    (lambda: opsplit.get_physics("line").generate("mix", 1, "a"), "seed must be a whole number"),
]


@pytest.mark.parametrize(("make", "words"), MADE)
def test_a_wrong_argument_of_something_else(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(OpsplitError, match=words):
        make()


def test_what_a_fit_leaves_is_missing_before_it() -> None:
    s = OperatorSplitter()
    with pytest.raises(NotFittedError, match=r"no equation_ before a fit: call fit"):
        s.equation_  # noqa: B018
    assert not hasattr(s, "verdict_")
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        s.colour  # noqa: B018


def test_one_of_several_trajectories() -> None:
    data = torch.arange(3.0).reshape(3, 1, 1, 1).expand(3, 2, 1, 8).clone()
    held = Trajectories(data, torch.arange(2.0), Grid((8,), (1.0,)), coefficients={
        "D": torch.arange(3.0)})  # fmt: skip
    chosen: list[tuple[Any, list[int]]] = [
        (1, [1]), (-1, [2]), (np.int64(2), [2]), (slice(1, 3), [1, 2]), ([0, 2], [0, 2]), ([], []),
        (torch.tensor([2, 0]), [2, 0]), (torch.tensor([False, True, True]), [1, 2]),
        (np.array([True, False, True]), [0, 2]), ([True, False, False], [0]),
    ]  # fmt: skip
    for index, wanted in chosen:
        assert held[index].data[:, 0, 0, 0].tolist() == wanted
        assert held[index].coefficients["D"].tolist() == wanted
    assert [float(one.data.mean()) for one in held] == [0.0, 1.0, 2.0]
    wrong: list[Any] = [3, -4, "a", 1.5, None, math.nan, [0, 3], [True, False]]
    for index in wrong:
        with pytest.raises(OpsplitError, match="There are 3 trajectories, numbered from 0"):
            held[index]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: OperatorSplitter(modle="line"), "'modle'. Did you mean model"),
        (lambda s: s.fit(U, delta_t=0.1), "fit.* no argument 'delta_t'"),
        (lambda s: s.predict(step=3), "no argument 'step'. Did you mean steps"),
        (lambda s: s.plot(axes=None), "no argument 'axes'. Did you mean ax"),
        (lambda s: opsplit.read("u.npy", axis="t,x"), "no argument 'axis'. Did you mean axes"),
        (lambda s: opsplit.describe(U, dx=1), "It takes data, "),
    ],
)
def test_an_argument_that_does_not_exist(
    fitted: OperatorSplitter, call: Callable[[OperatorSplitter], Any], words: str
) -> None:
    with pytest.raises(OpsplitError, match=words):
        call(fitted)
    with pytest.raises(TypeError):
        call(fitted)


def test_everything_that_is_drawn_says_what_axes_are(fitted: OperatorSplitter) -> None:
    dictionary = opsplit.load_model("line").dictionary
    parts = (fitted.forecast(2), fitted.search_result_, fitted.observed_, dictionary)
    for thing in (fitted, *parts):
        with pytest.raises(OpsplitError, match=r"ax must be axes of matplotlib.* got 3"):
            thing.plot(ax=3)  # type: ignore[arg-type]


def test_a_simulation_needs_no_seed() -> None:
    physics = opsplit.get_physics("advection-diffusion")
    assert torch.equal(physics.generate("A+D").data, physics.generate("A+D", 1, seed=0).data)
