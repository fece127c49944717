"""Strengths by runs over many frames: exact on exact frames, hardly biased on noisy ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from opsplit.predict import shooting as shooting_module
from opsplit.predict.shooting import Shooting
from opsplit.predict.units import Units
from opsplit.predict.window import Window
from opsplit.search import Composition, Objective, SearchResult
from opsplit.search.result import Cost


def composed(
    observe: Any, exact: Any, noise: float, seed: int = 4
) -> tuple[Shooting, Objective, torch.Tensor]:
    """Sixteen frames of advection 0.5 and diffusion 0.3; true strengths are 1."""
    u, grid, dt = observe(0.5, 0.3, points=64)
    u = u.float()
    dictionary = exact([0.5], [0.3])
    moments = (torch.arange(len(u)).double() * dt,)
    seen = u + noise * u.std() * torch.randn(u.shape, generator=torch.manual_seed(seed))
    left = noise * float(u.std())
    window = Window((seen,), moments, grid, Units(), noise, float(u.std()), left)
    objective = Objective(dictionary, seen, grid, dt)
    return Shooting(window, objective.operators, dt, "strang", 1), objective, seen


def pick(strengths: tuple[float, ...]) -> Composition:
    return Composition((0, 1), strengths, 0.1, {}, "")


def test_exact_frames_give_exact_strengths(observe: Any, exact: Any) -> None:
    shooting, _, _ = composed(observe, exact, 0.0)
    assert shooting.refined(pick((0.8, 1.3)), 10.0) == pytest.approx((1.0, 1.0), abs=1e-3)


def test_noise_does_not_make_strengths_small(observe: Any, exact: Any) -> None:
    shooting, _, _ = composed(observe, exact, 0.005)
    assert shooting.refined(pick((0.8, 0.7)), 10.0) == pytest.approx((1.0, 1.0), abs=0.05)


def test_strengths_stay_within_their_limit(observe: Any, exact: Any) -> None:
    shooting, _, _ = composed(observe, exact, 0.0)
    assert max(shooting.refined(pick((0.5, 0.5)), 0.6)) <= 0.6


def test_runs_that_share_their_calls_are_those_of_each_start(
    observe: Any, exact: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shooting, _, _ = composed(observe, exact, 0.01)
    strengths = [torch.tensor(s, dtype=torch.float64) for s in ((0.8, 1.3), (1.1, 0.6))]
    together = shooting._misfits(pick((1.0, 1.0)), strengths)
    joint = shooting_module._starts

    def apart(times: torch.Tensor) -> list[tuple[list[int], torch.Tensor]]:
        ((firsts, _),) = joint(times)
        return [([first], times[first + 1 :] - times[first]) for first in firsts]

    monkeypatch.setattr(shooting_module, "_starts", apart)
    torch.testing.assert_close(shooting._misfits(pick((1.0, 1.0)), strengths), together)


def test_the_doubt_is_the_scatter_over_other_noise(observe: Any, exact: Any) -> None:
    found, said = [], []
    for seed in range(6):
        shooting, _, _ = composed(observe, exact, 0.01, seed)
        strengths = shooting.refined(pick((1.0, 1.0)), 10.0)
        doubt = shooting.doubt(pick(strengths))
        assert doubt is not None
        assert doubt.missed < 0.02, "noise accounts for what the runs miss"
        found.append(strengths)
        said.append((torch.tensor(doubt.strengths) - torch.tensor(strengths)).square().mean(0))
    scatter = (torch.tensor(found) - 1).square().mean(0).sqrt()
    expected = torch.stack(said).mean(0).sqrt()
    assert bool((scatter / expected < 2).all() and (expected / scatter < 2).all())


def test_what_noise_does_not_account_for_is_missed(observe: Any, exact: Any) -> None:
    shooting, _, _ = composed(observe, exact, 0.005)
    right, wrong = (shooting.doubt(pick(s)) for s in ((1.0, 1.0), (1.4, 0.4)))
    assert right is not None and wrong is not None
    assert wrong.missed > max(0.02, 5 * right.missed)


def searched(*held: Composition) -> SearchResult:
    """A result whose pick is the first of the compositions."""
    return SearchResult("pursuit", held[0], held, held[:1], "", Cost(0, 0, 0.0))


def test_runs_find_a_part_that_single_steps_missed(observe: Any, exact: Any) -> None:
    shooting, objective, _ = composed(observe, exact, 0.01)
    alone = Composition((0,), (1.0,), 0.1, {}, "")
    made = shooting.extended(searched(alone, pick((1.0, 0.3))), objective.dictionary, 10.0)
    assert made.pick.operators == (0, 1) and made.finalists == (made.pick,)
    assert made.pick.strengths == pytest.approx((1.0, 1.0), abs=0.1)


def test_runs_ask_for_no_part_that_is_not_there(observe: Any, exact: Any) -> None:
    """Frames of advection alone, however the noise falls."""
    for seed in range(4):
        shooting, objective, seen = composed(observe, exact, 0.01, seed)
        u = torch.stack([seen[0].roll(i, -1) for i in range(len(seen))])
        speed = float(objective.grid.spacing[0]) / float(shooting.window.moments[0].diff()[0])
        u = u + shooting.window.left * torch.randn(u.shape, generator=torch.manual_seed(seed))
        window = replace(shooting.window, frames=(u,))
        alone = Composition((0,), (speed / 0.5,), 0.1, {}, "")
        both = Composition((0, 1), (speed / 0.5, 0.1), 0.1, {}, "")
        held = searched(alone, both)
        made = replace(shooting, window=window).extended(held, objective.dictionary, 100.0)
        assert made.pick.operators == (0,)
