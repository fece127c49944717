"""A model directory from anywhere: it is checked before anything is allocated, and never run."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from opsplit import _files
from opsplit._files import read_json
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.model import Model, bundled, load_model, locate

SOURCE = Path(_files.__file__).parent


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def refused(folder: Path) -> str:
    """The one sentence that loading ends in; it says where."""
    with pytest.raises(OpsplitError) as caught:
        Model.load(folder)
    message = str(caught.value)
    assert str(folder) in message and "\n" not in message
    return message


def edit(file: Path, change: Callable[[Any], Any]) -> None:
    file.write_text(json.dumps(change(json.loads(file.read_text()))))


def put(*keys: str | int, value: Any) -> Callable[[Any], Any]:
    """A change of one value, somewhere deep."""

    def change(whole: Any) -> Any:
        place = whole
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        return whole

    return change


@pytest.mark.parametrize("name, family", [(n, f) for n, fs in bundled().items() for f in fs])
def test_what_is_bundled_passes(name: str, family: str) -> None:
    assert len(load_model(name, family).dictionary) > 0


@pytest.mark.parametrize(
    "keys, value, words",
    [
        (("format",), 3, "format 3, this opsplit reads 2"),
        (("format",), 1, "convert it: opsplit upgrade"),
        (("format",), True, "format True"),
        (("format",), "1", "format '1'"),
        (("ndim",), 1, "no setting 'ndim'"),
        (("channels",), [], "0 channel"),
        (("channels",), ["u"] * 65, "65 entries, more than 64"),
        (("channels",), "u", "channels must be a list"),
        (("channels",), ["\x1b[2J"], "printable"),
        (("physics",), "\x1b]0;gone\x07", "printable"),
        (("coefficients",), [3], "coefficients must be text"),
        (("dt",), -1, "dt must lie in"),
        (("dt",), 10**400, "dt must be a number"),
        (("dt",), 1e999, "Infinity is not a number"),
        (("dt",), "0.1", "dt must be a number"),
        (("scale",), 0, "scale must lie in"),
        (("rescale",), 1, "rescale must be true or false"),
        (("environments",), 10**9, "environments must lie in"),
        (("environments",), 10_000_000, "damaged or belongs to another"),
        (("grid", "shape"), [10**12], "shape must lie in"),
        (("grid", "shape"), [256.0], "shape must be a whole number"),
        (("grid", "extent"), [-1], "extent must lie in"),
        (("grid", "boundary"), ["sticky"], "Unknown boundary 'sticky'"),
        (("grid",), 3, "grid must be a table of settings"),
        (("encoder",), [], "table of settings"),
        (("encoder", "width"), 10**15, "width must lie in"),
        (("encoder", "width"), 16_384, "GB, more than 2"),
        (("encoder", "blocks"), -1, "blocks must lie in"),
        (("encoder", "heads"), 3, "multiple of heads"),
        (("encoder", "heads"), 0, "heads must lie in"),
        (("encoder", "patch"), 6, "patch must be a multiple of 4"),
        (("encoder", "head_bias"), "no", "true or false"),
        (("encoder", "layer_scale"), None, "layer_scale must be a number"),
        (("operator",), None, "table of settings"),
        (("operator", "nonlinearity", "copies"), 10**6, "copies must lie in"),
        (("operator", "nonlinearity", "copies"), 3, "damaged or belongs to another"),
        (("operator", "nonlinearity"), {"kind": "polynomial", "degree": 8}, "damaged or belongs"),
        (("operator", "nonlinearity"), {"kind": "os.system"}, "Unknown nonlinearity 'os.system'"),
        (("operator", "nonlinearity"), {"kind": "x" * 10**5}, "Unknown nonlinearity 'xxx"),
        (("operator", "max_step"), 1e-9, "steps for a duration of"),
        (("operator", "max_step"), 0, "max_step must lie in"),
        (("operator", "linear", "bumps"), 10**9, "bumps must lie in"),
        (("operator", "channels"), 2, "need operators of that size"),
        (("operator", "ndim"), 4, "ndim must lie in"),
        (("operator", "__class__"), "os.system", "no setting '__class__'"),
        (("operator", "kind"), "function", "Unknown operator family 'function'"),
        (("operator", "kind"), ["unet"], "kind must be a name"),
        (("operator",), {"kind": "unet", "width": 512}, "GB, more than 2"),
    ],
)
def test_configurations(folder: Path, keys: tuple[str], value: Any, words: str) -> None:
    edit(folder / "config.json", put(*keys, value=value))
    message = refused(folder)
    assert re.search(words, message), message


def test_monomials_are_counted_before_they_are_listed(folder: Path) -> None:
    part = {"kind": "polynomial", "degree": 8, "derivatives": True}
    operator = {"kind": "spectral", "channels": 64, "nonlinearity": part}
    names = [f"u{i}" for i in range(64)]
    edit(folder / "config.json", lambda c: c | {"operator": operator, "channels": names})
    assert "monomials, more than 1000" in refused(folder)


@pytest.mark.parametrize("depth", [10, 200, 5000])
def test_operators_within_operators(folder: Path, depth: int) -> None:
    def wrap(config: dict[str, Any]) -> dict[str, Any]:
        for _ in range(depth):
            config["operator"] = {"kind": "conserving", "operator": config["operator"]}
        return config

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        edit(folder / "config.json", wrap)
    finally:
        sys.setrecursionlimit(limit)
    if depth == 10:
        Model.load(folder)
    else:
        assert "nested too deeply" in refused(folder)


@pytest.mark.parametrize(
    "keys, value, words",
    [
        (("format",), 3, "format 3, this opsplit reads 2"),
        (("format",), 1, "convert it: opsplit upgrade"),
        (("parts",), {}, "parts must be a list"),
        (("parts",), [], "part0.codes is not expected"),
        (("parts", 0), 3, "parts must be a table of settings"),
        (("parts", 0, "family", "kind"), "fourier", "Unknown operator family"),
        (("parts", 0, "family"), ["unet"], "family must be a table of settings"),
        (("parts", 0, "family", "linear", "bumps"), 3, "another model"),
        (("parts", 0, "family", "linear", "bumps"), 10**9, "bumps must lie in"),
        (("parts", 0, "family", "channels"), 2, "another model"),
        (("parts", 0, "family"), {"kind": "unet", "width": 512, "ndim": 3}, "than 2 GB"),
        (("parts", 0, "scale"), 0, "scale must lie in"),
        (("parts", 0, "extra"), 0, "no setting 'extra'"),
        (("parts", 0, "decoder", "code"), 3, "has shape .* not"),
        (("parts", 0, "decoder", "width"), 3, "another model"),
        (("coefficients", "c"), [0.5], "operators but 1 of 'c'"),
        (("coefficients", "c", 0), "0.5", "coefficients: c must be a number"),
        (("coefficients", "c", 0), 1e999, "Infinity is not a number"),
        (("coefficients", "c", 0), 10**400, "coefficients: c must be a number"),
        (("coefficients",), [], "coefficients must be a table"),
        (("coefficients",), {"\x1b[2J": []}, "coefficients must be printable"),
        (("max_strengths",), [1.0], "operators but 1 of 'max_strengths'"),
        (("max_strengths", 0), -1.0, "max_strengths must lie in"),
        (("terms",), 3, "terms must be a table"),
        (("terms", "c"), {"text": "\x1b[2J"}, "text must be printable"),
        (("terms", "c"), {"order": 1}, "text is missing"),
        (("provenance",), ["x"], "operators but 1 of 'provenance'"),
        (("provenance", 0), "\x1b[2J", "printable"),
    ],
)
def test_dictionaries(folder: Path, keys: tuple[str], value: Any, words: str) -> None:
    edit(folder / "dictionary.json", put(*keys, value=value))
    message = refused(folder)
    assert re.search(words, message), message


@pytest.mark.parametrize(
    "keys, value",
    [
        (("forecast", 3), -1),
        (("forecast", 3), 1e999),
        (("forecast",), [1.0]),
        (("levels", 0), 0.5),
        (("n",), "many"),
        (("n",), 1e999),
        (("strategy",), "\x1b[2J"),
        (("coefficients",), 3),
        (("origin",), 3),
    ],
)
def test_calibrations(tmp_path: Path, keys: tuple[str], value: Any) -> None:
    folder = Path(shutil.copytree(locate("advection-diffusion"), tmp_path / "model"))
    edit(folder / "calibration.json", put(*keys, value=value))
    assert "calibration.json" in refused(folder)


@pytest.mark.parametrize("name", ["model", "dictionary"])
@pytest.mark.parametrize(
    "change, words",
    [
        (lambda t: t | {"extra": torch.zeros(1)}, "extra is not expected"),
        (lambda t: {k: v for k, v in list(t.items())[1:]} | {"x": torch.zeros(1)}, "is missing"),
        (lambda t: {k: v[None] for k, v in t.items()}, "has shape"),
        (lambda t: {k: v.long() for k, v in t.items()}, "has the type I64"),
        (lambda t: {k: v * float("nan") for k, v in t.items()}, "NaN or infinite"),
        (lambda t: {k: v.double() * 1e300 * 1e300 for k, v in t.items()}, "NaN or infinite"),
    ],
)
def test_tensors(
    folder: Path, name: str, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], words: str
) -> None:
    file = folder / f"{name}.safetensors"
    save_file(change(load_file(file)), file)
    message = refused(folder)
    assert words in message and str(file) in message


def header(values: dict[str, Any], length: int | None = None) -> bytes:
    text = json.dumps(values).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text


@pytest.mark.parametrize("name", ["model", "dictionary"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        header({}, 2**63),
        header({}, 10**8),
        header({"codebook": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
        header({"codebook": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}),
        header({"codebook": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}) + b"1234",
    ],
)
def test_headers(folder: Path, name: str, content: bytes) -> None:
    (folder / f"{name}.safetensors").write_bytes(content)
    assert "cannot be read" in refused(folder)


def test_half_a_gigabyte_of_weights_is_refused_without_reading_it(folder: Path) -> None:
    """A sparse file whose header is in order but not of this configuration."""
    n = 2**29
    content = header({"codebook": {"dtype": "F32", "shape": [n // 4], "data_offsets": [0, n]}})
    with open(folder / "model.safetensors", "wb") as stream:
        stream.write(content)
        stream.truncate(len(content) + n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "is missing" in refused(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < n / 1024 / 4


def test_a_gigabyte_of_configuration_is_refused_without_building_it(folder: Path) -> None:
    edit(folder / "config.json", put("encoder", "width", value=4096))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "another configuration" in refused(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


FILES = [
    "config.json",
    "model.safetensors",
    "dictionary.json",
    "dictionary.safetensors",
    "metrics.json",
]


@pytest.mark.parametrize("name", [*FILES, "calibration.json"])
def test_links_out_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "secret"
    if (folder / name).exists():
        shutil.move(folder / name, outside)
    else:
        outside.write_text("{}")
    (folder / name).symlink_to(outside)
    message = refused(folder)
    assert "link out of its folder" in message and name in message


def test_links_within_the_folder_and_of_the_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "weights").write_bytes((folder / "model.safetensors").read_bytes())
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("weights")
    (tmp_path / "link").symlink_to(folder)
    assert len(Model.load(tmp_path / "link").dictionary) == 16


@pytest.mark.parametrize("name", FILES)
def test_pipes_do_not_hang(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "is not a regular file" in refused(folder)


@pytest.mark.parametrize(
    "text, words",
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("{" + '"format": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ('{"format": NaN}', "NaN is not a number"),
        ('{"format": -Infinity}', "-Infinity is not a number"),
        ("\ud800", "cannot be read as JSON"),
        ("", "cannot be read as JSON"),
    ],
)
def test_json(folder: Path, text: str, words: str) -> None:
    for name in ("config.json", "dictionary.json", "calibration.json"):
        kept = (folder / name).read_bytes() if (folder / name).exists() else None
        (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        message = refused(folder)
        assert words in message and name in message
        (folder / name).unlink() if kept is None else (folder / name).write_bytes(kept)


def test_large_json_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (folder / "config.json").stat().st_size
    monkeypatch.setattr(_files, "LARGEST_JSON", size)
    assert read_json(folder / "config.json")["format"] == 2
    monkeypatch.setattr(_files, "LARGEST_JSON", size - 1)
    assert f"{size} bytes are more than" in refused(folder)


def test_a_dictionary_by_itself_is_what_it_was(tmp_path: Path) -> None:
    """With its own decoder, whose operators differ in strength more than in what they multiply."""
    dictionary = load_model("combined").dictionary.subsample(5, seed=0)
    dictionary.save(tmp_path)
    loaded = OperatorDictionary.load(tmp_path)
    assert torch.equal(loaded.parts[0].parameters(), dictionary.parts[0].parameters())


def test_nothing_is_ever_unpickled() -> None:
    """From files, that is: workers and their parent send each other objects, as executors do."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "parallel"
        for line in path.read_text().splitlines()
        if re.search(r"torch\.load|allow_pickle\s*=\s*True|(import|from) (pickle|dill|shelve)"
                     r"|(?<!\.)\beval\(|\bexec\(", line)
    ]  # fmt: skip
    loads = [
        f"{path.name}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if "np.load(" in line and "allow_pickle=False" not in line
    ]
    assert found + loads == []


def test_loading_runs_no_code_of_the_folder(folder: Path, tmp_path: Path) -> None:
    """Modules beside the weights stay text, whatever the folder one is in."""
    for name in ("opsplit.py", "torch.py", "model.py", "sitecustomize.py", "conftest.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    code = f"from opsplit.model import Model; Model.load({str(folder)!r})"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=folder, check=True)
    assert not (tmp_path / "ran").exists()
