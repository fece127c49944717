"""The last steps of pursuit: strengths by the flows' own derivatives, and stronger operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.search import Objective, Pursuit
from opsplit.search.estimate import Mechanisms
from opsplit.search.polish import polished, stronger
from opsplit.search.strategy import Tried

Exact = Callable[..., OperatorDictionary]
GRID, DT = Grid((64,), (16.0,)), 0.15


def rough(c: float, D: float, frames: int = 9) -> Tensor:
    """Exact frames `(time, 1, x)` from a field with all modes: the finest are gone in a frame."""
    k = 2 * np.pi * np.fft.rfftfreq(64, 16.0 / 64)
    draw = np.random.default_rng(0).normal(size=(2, len(k)))
    start = (draw[0] + 1j * draw[1]) * (k > 0) * (k < k[-1])
    flow = np.exp(-(1j * k * c + D * k**2) * DT * np.arange(frames)[:, None])
    return torch.from_numpy(np.fft.irfft(start * flow, 64))[:, None]


@pytest.mark.parametrize(("c", "D"), [(0.0, 2.0), (1.5, 0.8)])
def test_rough_fields_give_exact_coefficients(exact: Exact, c: float, D: float) -> None:
    """Integrals of rates are no derivatives of flows in which modes vanish within a frame."""
    dictionary = exact([0.4, 1.0, -1.0], [0.1, 0.5, 1.0])
    found = Pursuit().run(Objective(dictionary, rough(c, D), GRID, DT))
    assert found.identified["D"] == pytest.approx(D, rel=1e-6)
    assert found.identified["c"] == pytest.approx(c, rel=1e-6, abs=1e-9)
    assert found.pick.fit_error < 1e-6


def test_polished_strengths_leave_least(exact: Exact) -> None:
    objective = Objective(exact([1.0], [1.0]), rough(1.0, 0.5), GRID, DT)
    sets = torch.tensor([[0, 1]])
    begin = torch.tensor([[0.9, 0.2]], dtype=torch.float64)
    [(best, share)] = polished(objective, (1, 4, 0), sets, begin, torch.tensor([0]), 4.0)
    assert best.tolist() == pytest.approx([1.0, 0.5], rel=1e-6)
    assert share < 1e-4
    [(held, _)] = polished(objective, (1, 4, 0), sets, begin, torch.tensor([0]), 0.95)
    assert float(held.max()) <= 0.95
    [(same, share)] = polished(objective, (1, 4, 0), sets, best[None], torch.tensor([0]), 4.0)
    assert same.tolist() == pytest.approx(best.tolist(), rel=1e-6) and share <= 1


def test_an_operator_at_its_limit_gives_way_to_a_stronger_one() -> None:
    known = {"c": np.array([0.5, 0.0, 0.0, 0.0]), "D": np.array([0.0, 0.1, 0.4, -0.8])}
    mechanisms = Mechanisms.of(known, 4)
    now = stronger(mechanisms, Tried((0, 1), 0.1, (1.0, 4.0)), 4.0)
    assert now is not None and now.operators == (0, 2)
    assert now.strengths == pytest.approx((1.0, 1.0)), "the coefficient stays, the sign too"
    assert stronger(mechanisms, Tried((0, 1), 0.1, (1.0, 3.0)), 4.0) is None
    assert stronger(mechanisms, Tried((2,), 0.1, (4.0,)), 4.0) is None
