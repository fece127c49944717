"""Words for the ends of an axis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplit import OpsplitError
from opsplit.boundary import KINDS, SYNONYMS, Side, normal, sides

VALUES = st.floats(allow_nan=False, allow_infinity=False)
SIDES = st.one_of(
    st.sampled_from([Side("neumann"), Side("open")]), st.builds(Side, st.just("dirichlet"), VALUES)
)


@given(left=SIDES, right=SIDES)
def test_two_ends_are_read_as_they_are_written(left: Side, right: Side) -> None:
    assert sides(f"{left}:{right}") == (left, right)
    assert sides(normal(f"{left}:{right}")) == (left, right)


@pytest.mark.parametrize("word", KINDS)
def test_synonyms_mean_one_of_four_kinds(word: str) -> None:
    assert normal(word) == KINDS[word] and normal(word) in SYNONYMS
    assert normal(word.upper().replace("-", "_")) == KINDS[word]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("sticky", "Unknown boundary"),
        ("periodic:neumann", "periodic at one end only"),
        ("neumann=3", "only a fixed end has a value"),
        ("dirichlet=hot", "only a fixed end has a value"),
        ("dirichlet=nan", "only a fixed end has a value"),
        ("open:open:open", "An axis has two ends"),
    ],
)
def test_other_words_are_refused(word: str, reason: str) -> None:
    with pytest.raises(OpsplitError, match=reason):
        normal(word)
