"""Substeps follow from the error that splitting makes, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.questions import Finer, Split, answered, splitting_errors
from opsplit.predict.substeps import MOST, persistence_error, search_substeps
from opsplit.search import Beam, Composition, Objective, Pursuit, SearchResult, Strategy

LENGTH, POINTS, DT = 16.0, 64, 0.5
SEARCH = Pursuit(max_parts=2)
GRID = Grid((POINTS,), (LENGTH,))
Exact = Callable[..., OperatorDictionary]
Observe = Callable[..., tuple[Tensor, Grid, float]]


def bump() -> Tensor:
    """A smooth field `(channel, x)` of values between zero and one."""
    x = GRID.axes()[0].double()
    return (0.5 + 0.4 * torch.sin(2 * torch.pi * x / LENGTH))[None]


def speed(u: Tensor) -> Tensor:
    """Transport with a speed that depends on the place: it does not commute with growth."""
    k = 2 * torch.pi * torch.fft.rfftfreq(POINTS, LENGTH / POINTS, dtype=u.dtype)
    slope = torch.fft.irfft(1j * k * torch.fft.rfft(u), POINTS)
    return -3.0 * (1 + 0.5 * torch.cos(4 * torch.pi * GRID.axes()[0].to(u) / LENGTH)) * slope


def growth(u: Tensor) -> Tensor:
    """Growth here and decay there; like the transport linear, so that units do not matter."""
    return 2.0 * torch.sin(2 * torch.pi * GRID.axes()[0].to(u) / LENGTH) * u


@pytest.fixture(scope="module")
def stiff() -> OperatorDictionary:
    """Two operators that do not commute, and change a lot within a frame."""
    start = OperatorDictionary.analytic(1, 1, [{"diffusion": 1e-3}], {})
    return start.add(speed).add(growth).select([1, 2])


@pytest.fixture(scope="module")
def window(stiff: OperatorDictionary) -> Tensor:
    """Frames of both operators at once: splitting with substeps that are as good as exact."""
    frames = [bump()]
    still = torch.stack([bump(), bump()])
    fine = Objective(stiff, still, GRID, DT, "fourth", 64)
    for _ in range(5):
        moved = fine.step(torch.tensor([[0, 1]]), frames[-1][None, None], torch.ones(1, 2))
        frames.append(moved[0, 0])
    return torch.stack(frames)


def found(search: Strategy, objective: Objective) -> tuple[SearchResult, Objective]:
    return answered(search_substeps(Finer(objective, objective.refinement)), search)


def test_a_composition_whose_splitting_error_dominates_gets_more_substeps(
    stiff: OperatorDictionary, window: Tensor
) -> None:
    objective = Objective(stiff, window, GRID, DT)
    result, finer = found(SEARCH, objective)
    once = SEARCH.run(objective, None)
    assert 1 < finer.refinement <= MOST
    assert result.pick.fit_error < once.pick.fit_error / 4
    assert sorted(result.pick.operators) == [0, 1]
    # Strengths are nearer to one, what the data were made with.
    assert max(abs(s - 1) for s in result.pick.strengths) < 0.02


def test_the_splitting_error_falls_with_the_order_of_the_scheme(
    stiff: OperatorDictionary, window: Tensor, fitted_order: Callable[..., float]
) -> None:
    both = SEARCH.run(Objective(stiff, window, GRID, DT), None).pick
    assert len(both) == 2
    for scheme, order in (("lie", 1), ("strang", 2)):
        # Short steps, where the operators' own integrator is as good as exact.
        objective = Objective(stiff, window, GRID, DT / 5, scheme)  # type: ignore[arg-type]
        counts = (4, 8, 16)
        errors = [splitting_errors([objective.refined(n)], [both])[0] for n in counts]
        assert fitted_order([1 / n for n in counts], errors) == pytest.approx(order, abs=0.25)


def test_operators_that_commute_keep_one_substep(exact: Exact, observe: Observe) -> None:
    frames, grid, dt = observe(c=0.5, D=0.3, frames=6, points=64)
    objective = Objective(exact(c=[0.2, 0.5], D=[0.1, 0.3]), frames, grid, dt)
    result, same = found(SEARCH, objective)
    assert len(result.pick) == 2
    assert same.refinement == 1
    assert splitting_errors([objective], [result.pick])[0] < 1e-6


def test_one_operator_has_no_splitting_error(stiff: OperatorDictionary, window: Tensor) -> None:
    pick: Composition = Beam(max_parts=1).run(Objective(stiff, window, GRID, DT), None).pick
    assert splitting_errors([Objective(stiff, window, GRID, DT)], [pick]) == [0.0]


def test_finer_splitting_that_explains_no_more_is_given_up(
    stiff: OperatorDictionary, window: Tensor
) -> None:
    """Frames in reverse order follow no composition of the two, however finely it is split."""
    objective = Objective(stiff, window.flip(0), GRID, DT)
    asking = search_substeps(Finer(objective, 1))
    # Algebra hopes for nothing here; let it say otherwise.
    first, second = next(asking), replace(SEARCH.run(objective, None), promise=0.5)
    assert first.refinement == 1
    split = asking.send((second, objective))
    assert isinstance(split, Split)
    finer = asking.send(splitting_errors([split.objective], [split.pick])[0])
    assert isinstance(finer, Finer) and finer.refinement > 1
    with pytest.raises(StopIteration) as end:
        asking.send((second, objective.refined(finer.refinement)))
    assert end.value.value == (second, objective)


def test_where_algebra_hopes_for_nothing_the_search_is_not_repeated() -> None:
    """Frames of noise: no number of substeps makes sums of rates explain them."""
    frames = torch.randn(6, 1, POINTS, generator=torch.manual_seed(0))
    start = OperatorDictionary.analytic(1, 1, [{"diffusion": 1e-3}], {})
    dictionary = start.add(speed).add(growth)
    objective = Objective(dictionary, frames, GRID, 1e-3 * DT)
    result, same = found(Pursuit(max_parts=3), objective)
    assert result.promise > 0.95 and same.refinement == 1


def test_the_promise_is_what_least_squares_leave(stiff: OperatorDictionary, window: Tensor) -> None:
    """Coarse splitting spoils the flows of both operators, and not the algebra."""
    coarse = SEARCH.run(Objective(stiff, window, GRID, DT), None)
    fine = SEARCH.run(Objective(stiff, window, GRID, DT, refinement=16), None)
    assert coarse.promise < fine.promise


def test_the_error_of_persistence_is_the_relative_change(
    stiff: OperatorDictionary, window: Tensor
) -> None:
    change = (window[1:] - window[:-1]).flatten(1).norm(dim=1) / window[1:].flatten(1).norm(dim=1)
    objective = Objective(stiff, window, GRID, DT)
    assert persistence_error(objective) == pytest.approx(float(change.mean()))


def splitter(model: Model, search: Strategy, **settings: object) -> OperatorSplitter:
    return OperatorSplitter(model, search, denoise=False, **settings)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")
def test_a_given_number_is_respected_and_beam_takes_one(
    tiny_model: Model, stiff: OperatorDictionary, window: Tensor
) -> None:
    def fit(search: Strategy, **settings: object) -> OperatorSplitter:
        return splitter(tiny_model, search, **settings).fit(window, DT, LENGTH, stiff)

    assert fit(SEARCH).refinement_ > 1
    assert fit(SEARCH, refinement=3).refinement_ == 3
    assert fit(Beam(max_parts=2)).refinement_ == 1
    # One substep is the search itself, and nothing around it.
    one = fit(SEARCH, refinement=1)
    plain = SEARCH.run(one_objective(one, stiff), None)
    assert one.refinement_ == 1
    assert one.composition_.operators == plain.pick.operators
    assert one.composition_.strengths == plain.pick.strengths
    assert one.fit_error_ == plain.pick.fit_error


def one_objective(fitted: OperatorSplitter, dictionary: OperatorDictionary) -> Objective:
    """The search problem that an estimator saw, with one substep."""
    seen = fitted._found.window
    return Objective(dictionary, seen.joined, seen.grid, seen.steps(), fitted.scheme, 1)
