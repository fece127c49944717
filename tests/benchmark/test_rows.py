"""Rows on disk: read as written, whole lines only, from several writers."""

from __future__ import annotations

import math
import multiprocessing
import os
from pathlib import Path

import pytest
import torch

from opsplit.baselines import TRAINED
from opsplit.benchmark.marks import actions, mark
from opsplit.benchmark.rows import Row, RowTable, Series
from opsplit.benchmark.run import Runner, known_cells
from opsplit.benchmark.tasks import columns
from opsplit.errors import OpsplitError
from opsplit.model import Model
from opsplit.search import Beam, Pursuit

ONE = Series("GS", "beam", "spectral", "abc", 0)
ORIGIN = {"command": "opsplit benchmark, twice", "commit": "c", "hardware": "two cores"}
COMMITTED = Path(__file__).parents[2] / "benchmarks" / "rows"


def row(i: int, origin: str, error: float = 0.1) -> Row:
    return Row(i, error, None, 7, 0.25, 1.5, {"A": 1 / 3, "B": 2.0}, {"F": 1e-9}, origin)


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    table = RowTable(tmp_path / "rows", "gray-scott")
    assert table.all() == {}
    name = table.add_origin(ORIGIN)
    other = Series("GS", "direct", "", "none", 3)
    table.append(ONE, row(0, name), row(5, name, math.inf))
    table.append(other, row(0, name, 1e-7))
    assert table.of(ONE) == {0: row(0, name), 5: row(5, name, math.inf)}
    assert table.of(other) == {0: row(0, name, 1e-7)}
    assert table.origins() == {name: ORIGIN} and table.add_origin(ORIGIN) == name
    table.replace({ONE: table.of(other)})
    assert table.all() == {ONE: {0: row(0, name, 1e-7)}}


def test_a_line_cut_anywhere_is_left_out_and_the_next_is_not(tmp_path: Path) -> None:
    table = RowTable(tmp_path, "gray-scott")
    name = table.add_origin(ORIGIN)
    table.append(ONE, row(0, name))
    whole = table.file.read_bytes()
    table.append(ONE, row(1, name))
    second = table.file.read_bytes()[len(whole) :]
    for cut in range(1, len(second) - 1):
        table.file.write_bytes(whole + second[:cut])
        assert set(table.of(ONE)) == {0}
        table.append(ONE, row(2, name))
        assert table.of(ONE) == {0: row(0, name), 2: row(2, name)}


def _write(folder: Path, writer: int) -> None:
    table = RowTable(folder, "gray-scott")
    name = table.add_origin({**ORIGIN, "command": str(writer)})
    for i in range(40):
        table.append(ONE, row(100 * writer + i, name))


def test_several_processes_write_one_table(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, i)) for i in range(3)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    table = RowTable(tmp_path, "gray-scott")
    assert sorted(table.of(ONE)) == [100 * w + i for w in range(3) for i in range(40)]
    assert len(table.origins()) == 3
    assert table.file.read_text().count("\n") == 121


def test_a_table_of_another_equation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gray-scott.csv").write_text("a,b\n1,2\n")
    with pytest.raises(OpsplitError, match="does not have the columns"):
        RowTable(tmp_path, "gray-scott").all()


def test_a_cache_of_another_kind_is_refused(tmp_path: Path) -> None:
    table = RowTable(tmp_path, "advection-diffusion")
    table.origins_file.write_text("[]")
    with pytest.raises(OpsplitError, match="not a table of origins"):
        table.add_origin({"seed": 0})
    os.mkfifo(table.file)
    with pytest.raises(OpsplitError, match="not a regular file"):
        table.all()


def test_a_mark_is_of_what_a_method_uses(tiny_folder: Path) -> None:
    column = columns("advection-diffusion")["A+D"]

    def marks(model: Model) -> list[str]:
        return [mark(model, column, search) for search in (None, Beam(), Pursuit())]

    first = marks(Model.load(tiny_folder))
    assert marks(Model.load(tiny_folder)) == first and len(set(first)) == 3
    assert mark(Model.load(tiny_folder), column, Beam(width=3)) not in first
    other = Model.load(tiny_folder)
    other.disco.encoder.head.weight.add_(1)
    assert [a == b for a, b in zip(marks(other), first, strict=True)] == [False, True, True]
    other = Model.load(tiny_folder)
    next(other.disco.decoder.parameters()).add_(1)
    assert not set(marks(other)) & set(first)


def test_a_mark_outlives_rounding(tiny_model: Model) -> None:
    from opsplit.physics import get_physics

    physics = get_physics("advection-diffusion")
    before = [float(x) for x in actions(tiny_model.dictionary, physics.grid, physics.dt)]
    codes = tiny_model.dictionary.parts[0].codes
    noise = 1e-7 * codes.abs() * torch.sign(torch.randn(codes.shape))
    try:
        codes.add_(noise)
        after = [float(x) for x in actions(tiny_model.dictionary, physics.grid, physics.dt)]
    finally:
        codes.sub_(noise)
    assert after == pytest.approx(before, rel=2e-4)


def test_the_bundled_models_have_their_rows() -> None:
    runner = Runner(COMMITTED)
    for cell in known_cells(1):
        if cell.method in TRAINED and not runner.trained.recorded(cell.physics, cell.method):
            continue  # Not trained yet: the page of the baselines says so.
        assert runner.record(cell, only_measured=True) is not None, cell
