"""The command that converts directories of format 1, and what it cannot convert."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from format1 import CODE, GRID, SMALL, STEP, decoder_tensors, noise, write
from safetensors.torch import save_file

from opsplit.cli import main
from opsplit.errors import OpsplitError
from opsplit.model import Model
from opsplit.operators import Linear, UNet
from opsplit.terms import Term
from opsplit.upgrade import upgrade, upgrade_dictionary

# Dictionaries of their own


def test_a_dictionary_with_its_own_decoder_and_one_with_parameters(tmp_path: Path) -> None:
    theta = write(tmp_path / "model", "spectral", {"copies": 0, "bumps": 1}, 10)
    (tmp_path / "alone").mkdir()
    text = json.loads((tmp_path / "model" / "dictionary.json").read_text())
    exact = {"family": "linear", "config": {"channels": 1, "ndim": 1}, "scale": 1.0}
    text["parts"].append(exact)
    text["coefficients"]["c"].append(0.7)
    text["provenance"].append("exact")
    own = decoder_tensors(10, True, True)
    codes = noise(3, CODE, seed=11).float()
    parameters = Linear().parameters(advection=0.7)
    save_file(
        {"part0.codes": codes, "part1.codes": parameters}
        | {f"part0.decoder.{name}": t for name, t in own.items()},
        tmp_path / "alone" / "dictionary.safetensors",
    )
    (tmp_path / "alone" / "dictionary.json").write_text(json.dumps(text))
    made = upgrade_dictionary(tmp_path / "alone", {"c": Term("-u_x", 1, 1, True)})
    torch.testing.assert_close(made.parts[0].parameters().double(), theta, rtol=1e-5, atol=1e-6)
    assert torch.equal(made.parts[1].parameters(), parameters)
    assert made.parts[1].family == Linear() and made.terms["c"].order == 1
    with pytest.raises(OpsplitError, match="holds codes of a model; convert that model"):
        upgrade_dictionary(tmp_path / "model")


def test_parameters_of_a_network_that_sees_the_stream_function(tmp_path: Path) -> None:
    n = SMALL.n_parameters + 4
    old = {"channels": 1, "ndim": 1, "max_step": STEP, "width": 4, "stream": 3.0}
    text = {"format": 1, "coefficients": {}, "provenance": ["x"],
            "parts": [{"family": "unet", "config": old, "scale": 1.0}]}  # fmt: skip
    (tmp_path / "dictionary.json").write_text(json.dumps(text))
    theta = 0.3 * noise(1, n).float()
    save_file({"part0.codes": theta}, tmp_path / "dictionary.safetensors")
    part = upgrade_dictionary(tmp_path).parts[0]
    wide = UNet(2, 1, STEP, width=4)
    tensors = wide.prepare(part.parameters(), GRID).tensors
    assert torch.equal(tensors["adapter_in"][0, :, 1, 0], theta[0, -4:])
    assert torch.equal(tensors["adapter_in"][0, :, 0, 0], theta[0, :4])
    assert not tensors["adapter_out"][0, 1].any()


# The command


def test_the_command_converts_what_loading_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "old", "spectral", {"copies": 1, "bumps": 1}, 18)
    with pytest.raises(OpsplitError, match=f"opsplit upgrade {tmp_path / 'old'} --out NEW"):
        Model.load(tmp_path / "old")
    before = {p.name: p.read_bytes() for p in (tmp_path / "old").iterdir()}
    main(["upgrade", str(tmp_path / "old"), "--out", str(tmp_path / "new")])
    assert "model, 3 operators" in capsys.readouterr().out
    new = Model.load(tmp_path / "new")
    assert new.config == upgrade(tmp_path / "old").config
    assert {p.name: p.read_bytes() for p in (tmp_path / "old").iterdir()} == before
    main(["upgrade", str(tmp_path / "old"), "--out", str(tmp_path / "new"), "--json"])
    assert json.loads(capsys.readouterr().out)["kind"] == "model"


def test_the_terms_of_a_known_equation_are_added(tmp_path: Path) -> None:
    write(tmp_path / "old", "spectral", {"copies": 0, "bumps": 1}, 10)
    file = tmp_path / "old" / "config.json"
    held = json.loads(file.read_text()) | {"physics": "advection-diffusion"}
    file.write_text(json.dumps(held))
    main(["upgrade", str(tmp_path / "old"), "--out", str(tmp_path / "new")])
    assert Model.load(tmp_path / "new").dictionary.terms["c"].text == "-u_x"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["old", "--out", "old"], "--out must be another folder"),
        (["nowhere", "--out", "new"], "No such folder: nowhere"),
        (["new", "--out", "other"], "is not of format 1"),
        (["empty", "--out", "other"], "No such file: .*dictionary.json"),
    ],
)
def test_what_the_command_cannot_convert_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write(Path("old"), "spectral", {"copies": 0, "bumps": 1}, 10)
    upgrade("old").save("new")
    Path("empty").mkdir()
    with pytest.raises(SystemExit) as caught:
        main(["upgrade", *arguments])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert re.search(words, said) and said.count("\n") == 1


@pytest.mark.parametrize(
    ("family", "operator", "words"),
    [
        ("spectral", {"layers": 2}, "settings that no longer exist"),
        ("spectral", {"shifts": 3}, "settings that no longer exist"),
        ("spectral", {"inverse": True}, "settings that no longer exist"),
        ("spectral", {"absolute": True}, "settings that no longer exist"),
        ("spectral", {"copies": 10**9}, "copies must lie in"),
        ("spectral", {"copies": "many"}, "copies must be a whole number"),
        ("unet", {"steps": 2}, "shorter max_step"),
        ("unet", {"width": 512}, "takes more than 2 GB|belongs|missing|cannot be converted"),
        ("unet", {"band": "half"}, "cannot be converted"),
        ("fourier", {}, "no operator family 'fourier'"),
    ],
)
def test_settings_that_are_gone_or_absurd_are_refused(
    tmp_path: Path, family: str, operator: dict[str, Any], words: str
) -> None:
    write(tmp_path, family, operator, 10)
    with pytest.raises(OpsplitError, match=words) as caught:
        upgrade(tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"operator": None}, {"channels": None}, {"grid": []}, {"encoder": 3}, {"ndim": "x"},
        {"dt": 10**400}, {"physics": "\x1b"}, {"scale": 0}, {"family": ["spectral"]},
        {"encoder": {"width": 16384}}, {"coefficients": 5}, {"recipe": []}, {"format": 1.0},
        {"format": True},
    ],
)  # fmt: skip
def test_a_file_that_says_something_else_ends_in_a_sentence(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    write(tmp_path, "spectral", {"copies": 0, "bumps": 1}, 10)
    for name in ("config.json", "dictionary.json"):
        file = tmp_path / name
        kept = file.read_text()
        file.write_text(json.dumps({**json.loads(kept), **change}))
        if name == "config.json" or set(change) & {"coefficients", "format"}:
            with pytest.raises(OpsplitError) as caught:
                upgrade(tmp_path)
            assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
        file.write_text(kept)
    upgrade(tmp_path)
