"""Points and words of a grid, and what files may say of one."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opsplit.errors import OpsplitError
from opsplit.grid import Grid

WORDS = ("periodic", "dirichlet", "neumann", "open", "dirichlet=2.5", "neumann:dirichlet=-1")
AXES = st.lists(
    st.tuples(st.integers(2, 20), st.floats(0.1, 50), st.sampled_from(WORDS)),
    min_size=1,
    max_size=3,
)


@given(axes=AXES)
def test_a_grid_survives_json(axes: list[tuple[int, float, str]]) -> None:
    grid = Grid(*(tuple(column) for column in zip(*axes, strict=True)))
    assert Grid.from_json(json.loads(json.dumps(grid.to_json()))) == grid


@given(axes=AXES)
def test_points_start_at_zero_and_one_more_spacing_reaches_the_extent(
    axes: list[tuple[int, float, str]],
) -> None:
    grid = Grid(*(tuple(column) for column in zip(*axes, strict=True)))
    for x, n, h, length in zip(grid.axes(), grid.shape, grid.spacing, grid.extent, strict=True):
        assert len(x) == n
        assert x[0] == 0
        torch.testing.assert_close(x.diff(), torch.full((n - 1,), h, dtype=torch.float64))
        assert float(x[-1]) + h == pytest.approx(length)


def test_one_boundary_word_stands_for_all_axes() -> None:
    assert Grid((8, 8), (1, 1), "zero") == Grid((8, 8), (1, 1), ("zero", "zero"))
    assert Grid((8, 8), (1, 1)).periodic
    assert not Grid((8, 8), (1, 1), ("periodic", "reflect")).periodic


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (((), ()), "1 to 3 axes"),
        (((4, 4, 4, 4), (1, 1, 1, 1)), "1 to 3 axes"),
        (((8, 8), (1.0,)), "one extent and one boundary per axis"),
        (((8, 8), (1, 1), ("zero",)), "one extent and one boundary per axis"),
        (((1,), (1.0,)), "at least 2 points"),
        (((8,), (0.0,)), "positive length"),
        (((8,), (math.nan,)), "positive length"),
        (((8,), (1.0,), "sticky"), r"Unknown boundary 'sticky'; choose periodic, dirichlet"),
    ],
)
def test_an_impossible_grid_is_refused_with_the_reason(arguments: tuple, sentence: str) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        Grid(*arguments)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"shape": [8.0, 8.0]}, "shape must be a whole number"),
        ({"shape": "88"}, "shape must be a list"),
        ({"shape": [8, 10**12]}, "shape must lie in"),
        ({"shape": [2**15, 2**16]}, "more than 1073741824 points"),
        ({"shape": [8] * 100}, "shape has 100 entries, more than 3"),
        ({"shape": []}, "1 to 3 axes"),
        ({"extent": [1.0]}, "one extent and one boundary per axis"),
        ({"extent": [1.0, -1.0]}, "extent must lie in"),
        ({"extent": [1.0, 10**400]}, "extent must be a number"),
        ({"extent": ["1", "1"]}, "extent must be a number"),
        ({"boundary": ["sticky", "zero"]}, "Unknown boundary 'sticky'"),
        ({"boundary": 3}, "boundary must be text"),
        ({"colour": 1}, "has no setting 'colour'"),
    ],
)
def test_an_impossible_grid_in_a_file_is_refused_with_the_reason(
    change: dict[str, object], sentence: str
) -> None:
    held = Grid((8, 8), (1.0, 1.0)).to_json()
    with pytest.raises(OpsplitError, match=sentence):
        Grid.from_json({**held, **change})
