"""Tables as other programs write them: right numbers, or one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplit
from opsplit.errors import OpsplitError

TIMES, PLACES = np.arange(4) * 0.25, np.arange(8) * 0.5
FIELD = np.round(np.sin(PLACES[None] - TIMES[:, None]), 3) + 0.001


def long(path: Path, times: list[str], end: str = "", head: str = "t,x,u") -> Path:
    rows = [
        f"{t},{x:g},{FIELD[i, j]:.6f}{end}"
        for i, t in enumerate(times)
        for j, x in enumerate(PLACES)
    ]
    path.write_text("\n".join([head + end, *rows]) + "\n")
    return path


@pytest.mark.parametrize("mark", [";", "\t"])
def test_decimal_commas_are_read_in_names_too_and_said(tmp_path: Path, mark: str) -> None:
    lines = [mark.join(["t", *(f"{x:g}" for x in PLACES)])]
    lines += [mark.join(f"{v:.4f}" for v in (t, *row)) for t, row in zip(TIMES, FIELD, strict=True)]
    path = tmp_path / "u.csv"
    path.write_text("\n".join(lines).replace(".", ","))
    found = opsplit.read(path)
    assert found.frames()[:, 0] == pytest.approx(FIELD, abs=1e-4)
    assert found.grid.extent == pytest.approx((4.0,)) and found.dt == pytest.approx(0.25)
    assert "Commas are read as decimal points." in found.understood


def test_a_matrix_with_decimal_commas_keeps_its_first_row(tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_text("\n".join(";".join(f"{v:.4f}" for v in row) for row in FIELD).replace(".", ","))
    assert opsplit.read(path, axes="t,x").frames()[:, 0] == pytest.approx(FIELD, abs=1e-4)


def test_dates_count_from_the_same_zone(tmp_path: Path) -> None:
    clocks = ["00:00:00+01:00", "01:00:00+01:00", "03:00:00+02:00", "04:00:00+02:00"]
    found = opsplit.read(long(tmp_path / "u.csv", [f"2026-03-29T{c}" for c in clocks]))
    assert np.diff(found.times) == pytest.approx([3600.0] * 3)


def test_dates_as_numbers_are_refused_where_they_are_no_durations(tmp_path: Path) -> None:
    days = ["20260130", "20260131", "20260201", "20260202"]
    with pytest.raises(OpsplitError, match="look like dates"):
        opsplit.read(long(tmp_path / "u.csv", days))


def test_lines_that_end_with_a_mark_have_no_further_channel(tmp_path: Path) -> None:
    found = opsplit.read(long(tmp_path / "u.csv", [f"{t:g}" for t in TIMES], end=","))
    assert found.channels == ("u",)
    assert found.frames()[:, 0] == pytest.approx(FIELD)


def test_an_array_file_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", FIELD)
    content = bytearray((tmp_path / "u.npy").read_bytes())
    content[6] = 4
    (tmp_path / "u.npy").write_bytes(content)
    with pytest.raises(OpsplitError, match=r"version 4\.0"):
        opsplit.read(tmp_path / "u.npy")


def test_tiny_values_are_no_rounded_ones() -> None:
    from opsplit.io.rounded import last_decimal

    assert last_decimal(np.array([1e-310, 2.5e-310])) is None
