"""Words and numbers of strangers on terminals, in tables, in JSON and in files."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import opsplit
from opsplit import OperatorSplitter, OpsplitError, Pursuit
from opsplit._files import read_json, write_json, write_text
from opsplit._text import cell, plain, printable, say, to_json
from opsplit.io.write import FORMATS, write_forecast
from opsplit.model import Model
from opsplit.trajectories import Trajectories

SOURCE = Path(opsplit.__file__).parent


@given(st.text())
def test_no_word_reaches_the_terminal_that_it_would_obey(words: str) -> None:
    stream = io.StringIO()
    say(words, stream)
    assert all(c.isprintable() or c == "\n" for c in stream.getvalue())
    assert printable(words).isprintable() and "\n" not in plain(words)


def test_everything_is_printed_in_one_place() -> None:
    for file in SOURCE.rglob("*.py"):
        calls = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
        names = [c.func.id for c in calls if isinstance(c.func, ast.Name)]
        assert "print" not in names or file.name == "_text.py", file


@given(st.text())
def test_cells_are_no_formulas(words: str) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerow([cell(words)])
    read = next(csv.reader(io.StringIO(stream.getvalue())), [""])[0]
    assert not read.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert cell(-1.5) == -1.5


NUMBERS = st.recursive(
    st.floats() | st.text() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(NUMBERS)
def test_json_is_what_its_standard_says(value: object) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(to_json(value), parse_constant=refuse)


def test_files_of_any_text(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "Grüße \udcff")
    assert (tmp_path / "a.txt").read_text("utf-8") == "Grüße \\udcff"
    write_json(tmp_path / "a.json", {"x": [math.inf, math.nan, 1.0]})
    assert read_json(tmp_path / "a.json", finite=True) == {"x": [None, None, 1.0]}


def test_names_of_a_file_are_made_printable(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["u"] = np.random.default_rng(0).normal(size=(5, 16))
        file["\x1b[31mnu"] = 0.1
    found = opsplit.read(path)
    assert list(found.coefficients) == ["?[31mnu"]
    assert all(word.isprintable() for word in found.understood)
    with h5py.File(path, "r+") as file:
        file["\x1c[31mnu"] = 0.1
    with pytest.raises(OpsplitError, match="cannot be told apart"):
        opsplit.read(path)


RESERVED = ("u", "t", "x", "dt", "extent", "data", "times", "terms", "grid_type", "n_trajectories")


@pytest.mark.parametrize("form", sorted({"npz", "hdf5", "mat", "well", "netcdf", "pdebench"}))
def test_coefficients_of_reserved_names_can_be_read_back(tmp_path: Path, form: str) -> None:
    from dataclasses import replace

    data = torch.rand(1, 4, 1, 16)
    like = opsplit.read(Trajectories.from_numpy(data, dt=0.1, extent=2.0))
    like = replace(like, format=form, layout="scalar" if form == "pdebench" else "x")
    assert form in FORMATS
    frames = data[0].numpy()
    known = {name: float(i) for i, name in enumerate(RESERVED)}
    path = write_forecast(like, frames, np.arange(4) * 0.1, tmp_path, coefficients=known)
    again = opsplit.read(path)
    assert np.allclose(again.frames(0), frames, atol=1e-6)
    assert again.times == pytest.approx(np.arange(4) * 0.1, abs=1e-6)
    assert sorted(v[0] for v in again.coefficients.values()) == sorted(known.values())


def opsplit_in(shell: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PY": sys.executable, **more}
    return subprocess.run(
        ["sh", "-c", shell], cwd=folder, env=env, capture_output=True, text=True, errors="replace"
    )


def test_ascii_streams_and_closed_ones(tmp_path: Path) -> None:
    """Names of files in another language, standard error closed or missing."""
    (tmp_path / "Größe.npy").write_bytes(b"\x93NUMPY")
    done = opsplit_in(
        '"$PY" -m opsplit describe Größe.npy', tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C"
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith("opsplit: Gr\\xf6\\xdfe.npy cannot be read")
    for redirect in ("2>&-", ">&- 2>&-", "2>&- <&-"):
        done = opsplit_in(f'"$PY" -m opsplit describe none.npy {redirect}', tmp_path)
        assert done.returncode == 2 and "Traceback" not in done.stdout
    name = os.fsdecode(b"\xff\x1b[31m.npy")
    done = subprocess.run(
        [sys.executable, "-m", "opsplit", "describe", name], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 2 and b"\x1b" not in done.stderr and b"Traceback" not in done.stderr


QUICK = Pursuit(width=2, max_parts=1, refine="none")


@pytest.fixture(scope="module")
def field() -> np.ndarray:
    x = np.arange(64) / 64 * 2 * np.pi
    return np.array([[np.sin(x - 0.1 * i)] for i in range(6)])


@pytest.mark.parametrize("kind", [np.longdouble, np.clongdouble, ">f8", np.float16, np.int64])
def test_numbers_of_any_length(tiny_model: Model, field: np.ndarray, kind: type) -> None:
    given_field = (100 * field).astype(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splitter = OperatorSplitter(tiny_model, QUICK).fit(given_field, dt=0.1, extent=16.0)
    assert np.isfinite(np.asarray(splitter.predict(steps=2), dtype=float)).all()


@pytest.mark.parametrize(
    "flags",
    [{"dt": "a"}, {"dt": math.inf}, {"dt": 1e300}, {"extent": math.nan}, {"dt": 1e-300}],
    ids=str,
)
@pytest.mark.parametrize("size", [1.0, 1e39, 1e300])
def test_absurd_numbers_end_in_a_sentence_or_a_result(
    tiny_model: Model, field: np.ndarray, flags: dict[str, float], size: float
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            OperatorSplitter(tiny_model, QUICK).fit(
                size * field, **{"dt": 0.1, "extent": 16.0, **flags}
            )
        except OpsplitError as reason:
            assert "\n" not in str(reason)


DEFAULTS = """
import sys, warnings
import torch
if sys.argv[1] == "dtype":
    torch.set_default_dtype(torch.float64)
elif sys.argv[1] == "device":
    torch.set_default_device("meta")
import numpy as np
import opsplit
warnings.simplefilter("ignore")
made = opsplit.get_physics("advection-diffusion").generate("A+D", 1, seed=1)
u = made.data[0, :8].numpy()
search = opsplit.Pursuit(width=2, max_parts=1)
s = opsplit.OperatorSplitter("advection-diffusion", search=search).fit(u, 0.101, 16.0)
middle, low, high = s.predict(steps=2, return_interval=0.9)
made.save("made.npz")
loaded = opsplit.read("made.npz").load()
opsplit.describe("made.npz")
print(sorted(s.coefficients_.items()), u.dtype, middle.tobytes()[:64], loaded.data.sum().item())
"""


def test_other_defaults_of_torch_change_nothing(tmp_path: Path) -> None:
    said = {
        mode: subprocess.run(
            [sys.executable, "-c", DEFAULTS, mode], cwd=tmp_path, capture_output=True, text=True
        )
        for mode in ("none", "dtype", "device")
    }
    assert [done.stderr[-2000:] for done in said.values()] == ["", "", ""]
    assert len({done.stdout for done in said.values()}) == 1


@pytest.mark.parametrize("reader", ["gone", "full"])
def test_an_error_stream_that_takes_nothing_changes_no_exit_code(reader: str) -> None:
    there, stream = os.pipe()
    os.close(there)
    if reader == "full":
        os.close(stream)
        stream = os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run([sys.executable, "-m", "opsplit", "nonsense"], stderr=stream)
    os.close(stream)
    assert done.returncode == 2
