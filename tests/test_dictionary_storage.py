"""A dictionary on disk is the one in memory, bit by bit; damage is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from dictionaries import KINDS, RATES, SPEEDS, coded, flow_of, of_family
from safetensors.torch import load_file, save_file

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.decoder import UNITS


@pytest.fixture
def lines(exact: Callable[..., OperatorDictionary]) -> OperatorDictionary:
    return exact(SPEEDS, RATES)


KINDS_OF = [f"{way} {kind}" for kind in KINDS for way in ("codes:", "parameters:")]


@pytest.mark.parametrize("kind", ["exact", "coded", "both", "empty", *KINDS_OF])
def test_a_saved_dictionary_loads_bit_equal(
    kind: str, lines: OperatorDictionary, tmp_path: Path
) -> None:
    if ":" in kind:
        way, _, name = kind.partition(": ")
        saved = of_family(KINDS[name], way == "codes")
    else:
        saved = {
            "exact": lines,
            "coded": coded(scale=3.0),
            "both": lines.merge(coded()),
            "empty": lines.select([]),
        }[kind]
    saved.save(tmp_path / "deep")
    loaded = OperatorDictionary.load(tmp_path / "deep")
    assert repr(loaded) == repr(saved)
    assert [p.family for p in loaded.parts] == [p.family for p in saved.parts]
    assert loaded.provenance == saved.provenance
    assert loaded.max_strengths.tolist() == saved.max_strengths.tolist()
    assert loaded.coefficients.keys() == saved.coefficients.keys()
    for name, values in saved.coefficients.items():
        assert np.array_equal(loaded.coefficients[name], values)
    for mine, theirs in zip(loaded.parts, saved.parts, strict=True):
        assert torch.equal(mine.codes, theirs.codes)
        assert torch.equal(mine.parameters(), theirs.parameters())
        assert mine.scale == theirs.scale
    for i in range(len(saved)):
        assert torch.equal(flow_of(loaded, i), flow_of(saved, i))


def test_codes_without_their_decoder_need_the_model_that_wrote_them(tmp_path: Path) -> None:
    saved = coded()
    saved.save(tmp_path, with_decoders=False)
    with pytest.raises(OpsplitError, match="holds codes of a model; load that model"):
        OperatorDictionary.load(tmp_path)
    loaded = OperatorDictionary.load(tmp_path, saved.parts[0].decoder)
    assert torch.equal(flow_of(loaded, 1), flow_of(saved, 1))


def test_a_function_is_not_saved_and_nothing_is_written(
    lines: OperatorDictionary, tmp_path: Path
) -> None:
    with pytest.raises(OpsplitError, match="add it again after loading"):
        lines.add(lambda u: -u).save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["dictionary.json", "dictionary.safetensors"])
def test_a_missing_file_is_named(name: str, lines: OperatorDictionary, tmp_path: Path) -> None:
    lines.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(OpsplitError, match=rf"No dictionary in .*{name}.* is missing"):
        OperatorDictionary.load(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("name", ["dictionary.safetensors", "dictionary.json"])
def test_a_truncated_file_is_refused(
    name: str, share: float, lines: OperatorDictionary, tmp_path: Path
) -> None:
    lines.save(tmp_path)
    held = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(held[: int(share * len(held))])
    with pytest.raises(OpsplitError, match="cannot be read"):
        OperatorDictionary.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"parts": [{}]},
        {"parts": [{"family": {"kind": "spectral", "colour": 1}, "scale": 1.0}]},
        {"provenance": None},
        {"max_strengths": [1.0]},
        {"max_strengths": None},
        {"terms": {"c": {"text": "-u_x", "order": 99}}},
    ],
    ids=["format", "parts", "family", "provenance", "strengths", "no strengths", "terms"],
)
def test_a_description_that_makes_no_sense_is_refused(
    change: dict, lines: OperatorDictionary, tmp_path: Path
) -> None:
    lines.save(tmp_path)
    path = tmp_path / "dictionary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(OpsplitError, match=r"dictionary|format 99"):
        OperatorDictionary.load(tmp_path)


def test_a_dictionary_of_format_1_is_refused_with_the_command_that_converts_it(
    lines: OperatorDictionary, tmp_path: Path
) -> None:
    lines.save(tmp_path)
    path = tmp_path / "dictionary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    with pytest.raises(OpsplitError, match=r"format 1.*opsplit upgrade .* --out NEW"):
        OperatorDictionary.load(tmp_path)


@pytest.mark.parametrize("missing", [("scale",), ("bound",), ("variation",), UNITS])
def test_units_of_a_decoder_may_be_missing_in_a_file(
    missing: tuple[str, ...], tmp_path: Path
) -> None:
    """They are the family's own then."""
    saved = of_family(KINDS["flux"], decoder=True)
    saved.save(tmp_path)
    file = tmp_path / "dictionary.safetensors"
    held = load_file(file)
    for name in missing:
        del held[f"part0.decoder.{name}"]
    save_file(held, file)
    loaded = OperatorDictionary.load(tmp_path)
    assert torch.equal(loaded.parts[0].parameters(), saved.parts[0].parameters())


def test_units_in_a_file_are_taken_before_those_of_the_family(tmp_path: Path) -> None:
    saved = of_family(KINDS["flux"], decoder=True)
    saved.parts[0].decoder.scale *= 2  # type: ignore[union-attr, operator]
    saved.save(tmp_path)
    loaded = OperatorDictionary.load(tmp_path)
    assert torch.equal(loaded.parts[0].parameters(), saved.parts[0].parameters())
