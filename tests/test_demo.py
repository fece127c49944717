"""`opsplit demo` beyond its default equation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opsplit.benchmark.tasks import columns
from opsplit.commands.demo import example


def test_unknown_physics(cli: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli("demo --physics heat")
    assert end.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "'heat'" in said
    for name in ("advection-diffusion", "combined", "gray-scott", "navier-stokes"):
        assert name in said


def test_example_has_the_frames_of_its_column() -> None:
    column = columns("gray-scott")["GS"]
    observed, future = example(column, seed=1)
    assert observed.data.shape == (1, 16, 2, 64, 64)
    assert future.data.shape == (1, column.horizon, 2, 64, 64)
    # The forecast begins one frame after the window: a step like the last of the window.
    last, steps = observed.data[0, -1], observed.data[0].diff(dim=0).flatten(1).norm(dim=1)
    assert 0 < float((future.data[0, 0] - last).norm()) < 2 * float(steps[-1])
