"""Rows on disk: a run goes on where it stopped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplit._files import writing
from opsplit._journal import Journal
from opsplit.errors import OpsplitError


@given(cut=st.integers(0, 400), rows=st.integers(0, 5), length=st.sampled_from([1, 2**21]))
def test_a_file_that_was_cut_anywhere_goes_on_with_whole_rows(
    tmp_path_factory: pytest.TempPathFactory, cut: int, rows: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with Journal(path) as journal:
        journal.append({"item": i, "words": "é" * i} for i in range(rows))
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] + (b'{"x": "' + b"y" * length if cut < len(whole) else b""))
    with Journal(path) as journal:
        kept = [row["item"] for row in journal.rows()]
        assert kept == list(range(len(kept)))
        journal.append([{"item": 99}])
        assert [row["item"] for row in journal.rows()] == [*kept, 99]
    assert len(kept) == whole[:cut].count(b"\n")
    with Journal(path, again=True) as journal:
        assert not list(journal.rows())


def test_rows_that_do_not_stay_are_gone_for_good(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with Journal(path) as journal:
        journal.append({"item": i, "ok": i % 3 > 0} for i in range(7))
    with Journal(path, keep=lambda row: row["ok"]) as journal:
        journal.append([{"item": 0, "ok": True}])
        assert [row["item"] for row in journal.rows()] == [1, 2, 4, 5, 0]
    with Journal(path) as journal:
        assert [row["item"] for row in journal.rows()] == [1, 2, 4, 5, 0]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


def test_rows_are_written_to_a_file_of_their_own(tmp_path: Path) -> None:
    given, path = tmp_path / "given", tmp_path / "rows.jsonl"
    given.write_text('{"item": 1}\n{"item"')
    for link in (path.symlink_to, path.hardlink_to):
        link(given)
        with Journal(path) as journal:
            journal.append([{"item": 2, "error": float("nan")}])
            assert list(journal.rows()) == [{"item": 1}, {"item": 2, "error": None}]
        assert given.read_text() == '{"item": 1}\n{"item"'
        path.unlink()
    path.hardlink_to(given)
    with writing([given]), pytest.raises(OpsplitError, match="which this run reads"), Journal(path):
        pass
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OpsplitError, match="not a regular file"), Journal(path):
        pass
