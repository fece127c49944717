"""Windows: which transitions count, how long they last, what their errors are relative to."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.search.window import Windows

GRID = Grid((8,), (1.0,))
STEPS = st.lists(st.sampled_from([1.0, 1.2, 1.7, 2.0, 3.0]), min_size=1, max_size=12)


def frames(count: int, windows: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(windows, count, 1, 8, generator=generator, dtype=torch.float64)


@given(steps=STEPS)
def test_a_step_is_scored_unless_it_is_a_gap(steps: list[float]) -> None:
    u = frames(len(steps) + 1)
    found = Windows.of(u, GRID, steps)
    usual = sorted(steps)[(len(steps) - 1) // 2]
    kept = [i for i, h in enumerate(steps) if h <= 1.75 * usual]
    assert found.scored.tolist() == kept
    assert torch.equal(found.states, u[:, kept])
    assert torch.equal(found.targets, u[:, [i + 1 for i in kept]])
    lasting = torch.as_tensor(found.lasting(), dtype=torch.float64).expand(len(kept))
    assert lasting.tolist() == [steps[i] for i in kept]
    assert [found.scored_among(n) for n in (1, len(u[0]))] == [0, len(kept)]


@given(steps=STEPS)
def test_the_steps_of_a_free_run_add_up_to_the_times(steps: list[float]) -> None:
    found = Windows.of(frames(len(steps) + 1), GRID, steps)
    for (count, h), span in zip(found.substeps(), steps, strict=True):
        assert count * h == pytest.approx(span)
        assert count == 1 or h <= found.dt * (1 + 1e-5)


def test_equal_steps_share_one_duration_and_one_window_is_a_batch_of_one() -> None:
    u = frames(5, 1)
    a, b = (Windows.of(w, GRID, dt) for w, dt in ((u, 0.1), (u[0], [0.1] * 4)))
    assert a.even and b.even
    assert a.durations == b.durations == 0.1
    assert torch.equal(a.frames, b.frames)


@given(factor=st.floats(1e-3, 1e3))
def test_errors_do_not_depend_on_the_unit(factor: float) -> None:
    u = frames(4)
    home = torch.tensor([1, 0, 1])
    guess = u[home][:, :-1]
    one, other = (Windows.of(s * u, GRID, 0.1).errors(s * guess, home) for s in (1.0, factor))
    torch.testing.assert_close(one, other)
    some = torch.tensor([2, 0])
    part = Windows.of(u, GRID, 0.1).errors(guess[:, some], home, some)
    assert torch.equal(part, one[:, some])


def test_a_prediction_that_is_not_finite_is_infinitely_bad() -> None:
    u = frames(3, 1)
    guess = u[:, :-1].clone()
    guess[0, 1, 0, 3] = math.nan
    found = Windows.of(u, GRID, 0.1).errors(guess, torch.tensor([0]))
    assert found.isfinite().tolist() == [[True, False]]


def test_a_frame_of_zeros_is_measured_against_its_window() -> None:
    u = frames(4, 1)
    u[0, 2] = 0
    assert float(Windows.of(u, GRID, 0.1).sizes[0, 1]) == pytest.approx(float(u.norm()))


@pytest.mark.parametrize(
    ("count", "dt", "sentence"),
    [(1, 0.1, "at least 2 observed frames, got 1"), (4, [0.1] * 4, "4 frames have 3 steps")],
)
def test_windows_that_hold_no_transition_are_refused(
    count: int, dt: float | list[float], sentence: str
) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        Windows.of(frames(count), GRID, dt)
