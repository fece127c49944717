"""Rows on disk: a run goes on where it stopped, and never with the rows of another."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplit._journal import Journal
from opsplit.errors import OpsplitError

SETTINGS = {"window": 16, "out": Path("a")}


@given(cut=st.integers(1, 400), rows=st.integers(0, 5))
def test_a_file_that_was_cut_anywhere_goes_on_with_whole_rows(
    tmp_path_factory: pytest.TempPathFactory, cut: int, rows: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with Journal(path, SETTINGS) as journal:
        journal.append({"item": i, "words": "é" * i} for i in range(rows))
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    with Journal(path, SETTINGS) as journal:
        kept = [row["item"] for row in journal.rows()]
        assert kept == list(range(len(kept)))
        journal.append([{"item": 99}])
        assert [row["item"] for row in journal.rows()] == [*kept, 99]
    if cut >= len(whole):
        assert len(kept) == rows


def test_rows_of_other_settings_are_refused_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with Journal(path, SETTINGS) as journal:
        journal.append([{"item": 1}])
    with pytest.raises(OpsplitError, match="window 16, not 8"), Journal(path, {"window": 8}):
        pass
    with Journal(path, {"window": 8}, again=True) as journal:
        assert not list(journal.rows())
    path.write_text("something else\n")
    with pytest.raises(OpsplitError, match="not written by opsplit"), Journal(path, SETTINGS):
        pass
