"""Tables of text, long and wide."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opsplit
from opsplit.errors import OpsplitError
from opsplit.io import csv
from opsplit.io.write import write_forecast


def long_table(u: np.ndarray, t: np.ndarray, axes: list[np.ndarray], mark: str, seed: int) -> str:
    """One row per point, in random order."""
    points = np.meshgrid(t, *axes, indexing="ij")
    rows = np.stack([v.ravel() for v in (*points, *np.moveaxis(u, 1, 0))], 1)
    np.random.default_rng(seed).shuffle(rows)
    names = ["time", *"xyz"[: len(axes)], *(f"c{i}" for i in range(u.shape[1]))]
    lines = [mark.join(f"{v:.17g}" for v in row) for row in rows]
    return "\n".join([mark.join(names), *lines]) + "\n"


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(st.integers(2, 5), st.integers(1, 3), st.integers(2, 6), st.integers(2, 5)),
    st.integers(1, 2), st.sampled_from(",;\t"), st.integers(0, 99),
)  # fmt: skip
def test_long_tables_in_any_order(sizes: tuple[int, ...], ndim: int, mark: str, seed: int) -> None:
    shape = sizes[: 2 + ndim]
    u = np.random.default_rng(seed).normal(size=shape)
    t = 3.0 + 0.25 * np.arange(shape[0])
    axes = [0.5 * np.arange(n) for n in shape[2:]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_text(long_table(u, t, axes, mark, seed))
        held = opsplit.read(path, boundary="reflect")
        found = held.frames()
    assert held.format == "csv" and held.shape == (1, *shape)
    assert held.channels == tuple(f"c{i}" for i in range(shape[1]))
    np.testing.assert_array_equal(found, u)
    np.testing.assert_array_equal(held.times, t)
    assert held.grid.extent == tuple(0.5 * n for n in shape[2:])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("prefix", ["", "x=", "x_"])
def test_wide_tables(turned: bool, prefix: str, tmp_path: Path) -> None:
    u = np.random.default_rng(1).normal(size=(7, 5))
    t, x = 0.5 * np.arange(7), 2.0 + np.arange(5)
    rows, columns, values = (x, t, u.T) if turned else (t, x, u)
    lines = [",".join(["x [m]" if turned else "t", *(f"{prefix}{v}" for v in columns)])]
    lines += [
        ",".join(map(repr, (a, *row)))
        for a, row in zip(rows.tolist(), values.tolist(), strict=True)
    ]
    (tmp_path / "a.csv").write_text("# nu = 0.1\n" + "\n".join(lines))
    held = opsplit.read(tmp_path / "a.csv", boundary="zero")
    np.testing.assert_array_equal(held.frames()[:, 0], u)
    assert held.times.tolist() == t.tolist() and held.origin == (2.0,)
    assert held.coefficients["nu"].tolist() == [0.1]
    assert ("Units: x in 'm'." in held.understood) == turned


def test_a_bare_matrix_and_stated_steps(tmp_path: Path) -> None:
    u = np.random.default_rng(1).normal(size=(7, 16))
    np.savetxt(tmp_path / "a.txt", u, header="dt = 0.25, dx=0.5")
    held = opsplit.read(tmp_path / "a.txt")
    assert held.known == {"dt", "extent"} and held.dt == 0.25 and held.grid.extent == (8.0,)
    np.testing.assert_array_equal(held.frames()[:, 0], u)
    rows = np.array([[t, x, t + 10 * x] for t in range(3) for x in range(4)], dtype=float)
    np.savetxt(tmp_path / "b.csv", rows, delimiter=",", header="t,x,u")
    np.testing.assert_array_equal(
        opsplit.read(tmp_path / "b.csv").frames()[1, 0], 1 + 10 * np.arange(4)
    )


def test_a_forecast_comes_back_as_it_was_written(tmp_path: Path) -> None:
    u = np.random.default_rng(1).normal(size=(4, 1, 5, 3)).astype(np.float32)
    (tmp_path / "a.csv").write_text(
        long_table(u, np.arange(4.0), [np.arange(5.0), np.arange(3.0)], ",", 0)
    )
    held = opsplit.read(tmp_path / "a.csv")
    out = write_forecast(held, u, held.times + 4, tmp_path, coefficients={"D": 0.5})
    again = opsplit.read(out)
    np.testing.assert_allclose(again.frames(), u, rtol=1e-8)
    assert out.suffix == ".csv" and again.coefficients["D"].tolist() == [0.5]


def test_an_empty_cell_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,0,1,2\n0,1,2,3\n1,,,\n2,4,5,6\n")
    found = opsplit.read(tmp_path / "a.csv").frames()
    assert np.isnan(found[1]).all() and found[2, 0].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t,x,u\n0,0,1\n0,1,2\n1,0,3\n", "need 4 rows, it has 3"),
        ("t,x,u\n0,0,1\n0,1,2\n1,0,3\n1,0,4\n", "two rows are of the same point"),
        ("t,x\n0,0\n1,0\n", "none is a field"),
        ("a,b,c\n0,0,1\n1,1,2\n", "name them t, x and the fields"),
        ("t,x,u\n0,zero,1\n", "cannot be read as CSV"),
        ("t,x,u\n", "holds no numbers"),
        ("", "it is empty"),
        ("t,x,u,u\n0,0,1,1\n1,0,1,1\n", "as many different names"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(OpsplitError, match=said):
        opsplit.read(tmp_path / "a.csv")


def test_large_and_binary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(OpsplitError, match="cannot be read as CSV"):
        opsplit.read(tmp_path / "a.csv")
    monkeypatch.setattr(csv, "LARGEST_MB", 0)
    with pytest.raises(OpsplitError, match="MB of text are more than"):
        opsplit.read(tmp_path / "a.csv")


def test_rows_of_many_columns_take_little_memory(tmp_path: Path) -> None:
    path, places = tmp_path / "wide.csv", range(100_000)
    row = ",".join("2" for _ in places)
    path.write_text(f"t,{','.join(map(str, places))}\n0,{row}\n1,{row}\n")
    assert opsplit.read(path).shape == (1, 2, 1, 100_000)


def test_columns_are_counted_before_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opsplit.io.csv.COLUMNS", 10)
    for mark in (",", " ", "\t"):
        (tmp_path / "u.csv").write_text(mark.join("0123456789a"))
        with pytest.raises(OpsplitError, match="more than 10 columns"):
            opsplit.read(tmp_path / "u.csv")


@pytest.mark.parametrize("names", ["time [s],x [m],T [K]", "T,t,x", "x_km,time_s,T", "t_s,X,T"])
def test_a_temperature_is_no_time_and_units_may_follow_an_axis(names: str, tmp_path: Path) -> None:
    t, x = np.arange(4.0), 0.5 * np.arange(6)
    values = 300 + np.random.default_rng(0).normal(size=(4, 6))
    each = np.meshgrid(t, x, indexing="ij")
    columns = {"t": each[0].ravel(), "x": each[1].ravel(), "T": values.ravel()}
    order = ["T" if name[0] == "T" else name[0].lower() for name in names.split(",")]
    rows = np.stack([columns[name] for name in order], 1)
    path = tmp_path / "rod.csv"
    path.write_text(names + "\n" + "\n".join(",".join(map(repr, row)) for row in rows.tolist()))
    held = opsplit.read(path)
    assert held.channels == ("T",) and held.grid.extent == (3.0,)
    np.testing.assert_array_equal(held.times, t)
    np.testing.assert_array_equal(held.frames()[:, 0], values)


def test_names_and_comments_of_strangers_take_no_time(tmp_path: Path) -> None:
    """Patterns that look back took minutes for either."""
    began = time.process_time()
    file = tmp_path / "brackets.csv"
    names = ",".join(f"{i}" + "[ " * 450 for i in range(300))
    row = ",".join(["1"] * 301)
    file.write_text(f"t,{names}\n{row}\n{row}\n")
    with pytest.raises(OpsplitError):
        opsplit.read(file)
    file.write_text(("#" + "a" * 999 + "\n") * 2000 + "t,x,u\n0,0,1\n0,1,2\n1,0,1\n1,1,2\n")
    assert opsplit.read(file).shape == (1, 2, 1, 2)
    assert time.process_time() - began < 5
