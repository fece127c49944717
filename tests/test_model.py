"""A model directory: what is saved is what is loaded, and damage is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from dictionaries import KINDS
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from opsplit import model as model_module
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.hypernetwork.decoder import UNITS
from opsplit.hypernetwork.disco import Disco
from opsplit.model import HALF_ABOVE, Model, load_model
from opsplit.operators import OperatorFamily, Polynomial, Spectral, UNet
from opsplit.physics import AdvectionDiffusion
from opsplit.pretrain.extract import extract

LINE = AdvectionDiffusion(Grid((32,), (16.0,)))


def build(operator: OperatorFamily, head_width: int = 8) -> Model:
    """A model whose weights are nowhere those of a new one."""
    config = ModelConfig(
        physics=LINE.name,
        operator=operator,
        grid=LINE.grid,
        dt=LINE.dt,
        coefficients=("c", "D"),
        recipe="codebook",
        preset="tiny",
        environments=3,
        scale=1.7,
        encoder=EncoderConfig(width=8, blocks=1, heads=2, decoder_width=8, head_width=head_width),
    )
    disco = Disco(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(3)
    for tensor in (*disco.parameters(), disco.codebook):
        tensor += 0.05 * torch.randn(tensor.shape, generator=generator)
    dictionary = extract(disco, LINE.generate("train", 5, seed=0))
    return Model(disco, dictionary, {"minutes": 0.125, "command": "opsplit pretrain"})


def outputs(model: Model) -> dict[str, Tensor]:
    """Everything a model computes, on fixed fields."""
    fields = LINE.generate("A+D", 5, seed=1, frames=16).data
    codes = model.disco.encode(fields)
    prepared = model.dictionary.prepare(LINE.grid, fields)
    everyone = torch.arange(len(model.dictionary))
    return {
        "codes": codes,
        "parameters": model.disco.decoder(codes),
        "operators": model.dictionary.parts[0].parameters(),
        "flows": prepared.flow(everyone, fields[: len(everyone), :2], LINE.dt),
        "codebook": model.disco.codebook,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load_are_bit_equal(kind: str, tmp_path: Path) -> None:
    model = build(KINDS[kind])
    loaded = Model.load(model.save(tmp_path))
    assert loaded.config == model.config
    assert loaded.metrics == model.metrics
    assert loaded.config.family == KINDS[kind].innermost.kind
    assert loaded.dictionary.provenance == model.dictionary.provenance
    assert loaded.dictionary.terms == model.dictionary.terms
    for name, values in model.dictionary.coefficients.items():
        assert values.tolist() == loaded.dictionary.coefficients[name].tolist()
    before, after = outputs(model), outputs(loaded)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(p.requires_grad for p in loaded.disco.parameters())


def test_large_tensors_are_stored_in_half_precision(tmp_path: Path) -> None:
    model = build(UNet(1, 1, 1.001 * LINE.dt), head_width=16)
    loaded = Model.load(model.save(tmp_path / "first"))
    large = []
    for (name, held), (_, found) in zip(
        model.disco.state_dict().items(), loaded.disco.state_dict().items(), strict=True
    ):
        assert found.dtype == torch.float32
        large += [name] if held.numel() > HALF_ABOVE else []
        assert torch.equal(found, held.half().float() if name in large else held), name
    assert large == ["decoder.head.weight"]
    # Rounding happens once: what was loaded is saved and loaded without any loss.
    again = Model.load(loaded.save(tmp_path / "second"))
    before, after = outputs(loaded), outputs(again)
    assert all(torch.equal(before[name], after[name]) for name in before)
    exact = outputs(model)
    torch.testing.assert_close(before["flows"], exact["flows"], rtol=1e-2, atol=1e-2)


@pytest.fixture
def zoo(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two bundled names, one of them with two families."""
    for place in ("alpha/spectral", "beta/spectral", "beta/unet"):
        shutil.copytree(tiny_folder, tmp_path / place)
    monkeypatch.setattr(model_module, "ZOO", tmp_path)
    return tmp_path


def test_bundled_name_and_path_load_the_same(zoo: Path, tiny_model: Model) -> None:
    for given_model in ("alpha", zoo / "alpha" / "spectral", str(zoo / "beta" / "unet")):
        loaded = load_model(given_model)
        weights = loaded.disco.state_dict()
        assert all(torch.equal(t, weights[n]) for n, t in tiny_model.disco.state_dict().items())
    assert load_model(tiny_model) is tiny_model


@pytest.mark.parametrize("name", ["gamma", "alph", "no/such/folder", "."])
def test_unknown_model_lists_what_exists(zoo: Path, name: str) -> None:
    with pytest.raises(OpsplitError, match="Unknown model") as caught:
        load_model(name)
    assert repr(name) in str(caught.value)
    assert "alpha, beta" in str(caught.value)


def test_wrong_family(zoo: Path, tiny_folder: Path, tiny_model: Model) -> None:
    with pytest.raises(OpsplitError, match=r"families \['spectral'\], not with 'unet'"):
        load_model("alpha", "unet")
    for given_model in (tiny_folder, tiny_model):
        with pytest.raises(OpsplitError, match="family 'spectral', not 'unet'"):
            load_model(given_model, "unet")
        assert load_model(given_model, "spectral").config.family == "spectral"


@given(share=st.floats(0, 1, exclude_max=True), name=st.sampled_from(["model", "dictionary"]))
def test_truncated_weights(
    tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory, share: float, name: str
) -> None:
    folder = tmp_path_factory.mktemp("cut") / "model"
    shutil.copytree(tiny_folder, folder)
    file = folder / f"{name}.safetensors"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(OpsplitError, match="cannot be read") as caught:
        Model.load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "dictionary.json", "dictionary.safetensors"]
)
def test_missing_file_is_named(tiny_folder: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    (folder / name).unlink()
    with pytest.raises(OpsplitError, match=name.replace(".", r"\.")):
        load_model(folder)


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda config: {k: v for k, v in config.items() if k != key}


def changed(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda config: config | values


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda _: "{not json", "config.json cannot be read as JSON"),
        (lambda _: [], "format None"),
        (without("format"), "format None"),
        (changed(format=99), "format 99, this opsplit reads 2"),
        (changed(format=1), "an earlier opsplit .format 1.; convert it: opsplit upgrade .* --out"),
        (without("physics"), "config.json: it: physics is missing"),
        (without("operator"), "config.json: it: operator is missing"),
        (without("grid"), "config.json: it: grid is missing"),
        (without("dt"), "config.json: it: dt is missing"),
        (without("encoder"), "another configuration"),
        (changed(grid={"shape": [256]}), "it: grid: extent is missing"),
        (changed(encoder={"witdh": 3}), "it: encoder has no setting 'witdh'"),
        (changed(operator={"copies": 2}), "it: operator: kind must be a name"),
        (changed(operator={"kind": "spectral", "copies": 2}), "it: operator has no .* 'copies'"),
        (changed(operator={"kind": "fourier"}), "Unknown operator family 'fourier'"),
        (changed(colour="blue"), "it has no setting 'colour'"),
        (changed(encoder={"width": 32, "heads": 2}), "another configuration"),
    ],
)
def test_broken_configuration(
    tiny_folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any], words: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    file = folder / "config.json"
    new = change(json.loads(file.read_text()))
    file.write_text(new if isinstance(new, str) else json.dumps(new))
    with pytest.raises(OpsplitError, match=words) as caught:
        Model.load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("missing", [("scale",), ("bound",), ("variation",), UNITS])
def test_units_of_the_decoder_may_be_missing(missing: tuple[str, ...], tmp_path: Path) -> None:
    """They are the family's own then; other tensors may not be missing."""
    model = build(KINDS["flux"])
    model.save(tmp_path)
    file = tmp_path / "model.safetensors"
    held = load_file(file)
    for name in missing:
        del held[f"decoder.{name}"]
    save_file(held, file)
    before, after = outputs(model), outputs(Model.load(tmp_path))
    assert all(torch.equal(before[name], after[name]) for name in before)
    save_file({k: t for k, t in held.items() if k != "decoder.start"}, file)
    with pytest.raises(OpsplitError, match=r"decoder\.start is missing"):
        Model.load(tmp_path)


def test_units_in_the_file_are_taken_before_those_of_the_family(tmp_path: Path) -> None:
    model = build(KINDS["unet"])
    model.disco.decoder.bound *= 3
    model.save(tmp_path)
    before, after = outputs(model), outputs(Model.load(tmp_path))
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"channels": ("u", "v")}, r"2 channel\(s\) on 1 axes need operators of that size"),
        ({"grid": Grid((16, 16), (1.0, 1.0))}, r"1 channel\(s\) on 2 axes need operators"),
        ({"dt": 1e9}, "steps for a duration of"),
        ({"operator": None}, "operator must be a OperatorFamily"),
        ({"recipe": "soup"}, "recipe must be one of in-context, codebook, plain"),
    ],
)
def test_what_does_not_belong_together_cannot_be_configured(
    change: dict[str, Any], words: str
) -> None:
    config = build(KINDS["gated"]).config
    with pytest.raises(OpsplitError, match=words):
        replace(config, **change)


def test_the_size_of_a_model_is_known_before_it_is_built() -> None:
    """Within a factor of two, units included, from the smallest to what is bundled."""
    for operator in KINDS.values():
        for width, patch in ((8, 4), (64, 16)):
            encoder = EncoderConfig(width=width, patch=patch, heads=2, head_width=8)
            config = replace(build(operator).config, encoder=encoder)
            held = sum(t.numel() for t in Disco(config).state_dict().values())
            assert 0.5 < config.numbers() / held < 1.5, (operator, width, patch)


def test_fields_that_a_model_cannot_take(tiny_model: Model, unet_folder: Path) -> None:
    grid = Grid((256,), (16.0,))
    tiny_model.check(grid, 1)
    with pytest.raises(OpsplitError, match=r"1 channel\(s\) \(u\), the data have 2"):
        tiny_model.check(grid, 2)
    with pytest.raises(OpsplitError, match="1-D fields"):
        tiny_model.check(Grid((16, 16), (1.0, 1.0)), 1)
    with pytest.raises(OpsplitError, match="periodic"):
        tiny_model.check(replace(grid, boundary="reflect"), 1)
    with pytest.raises(OpsplitError, match="multiple of 16 points"):
        Model.load(unet_folder).check(Grid((250,), (16.0,)), 1)


def test_an_operator_that_is_read_is_pruned_like_a_dictionary() -> None:
    usual = build(Spectral(max_step=0.1, nonlinearity=Polynomial(degree=2)))
    window = LINE.generate("train", 1, seed=0, frames=16).data[0]
    whole = usual.read(window)
    middle = float(whole.parts[0].family.pruned(whole.parts[0].parameters(), 0.0)[1].abs().median())
    disco = Disco(replace(usual.config, prune=middle))
    disco.load_state_dict(usual.disco.state_dict())
    read = Model(disco.eval(), usual.dictionary).read(window)
    expected = whole.pruned(middle).parts[0].parameters()
    assert torch.equal(read.parts[0].parameters(), expected)
    zeros = int((expected == 0).sum())
    assert 0 < zeros < expected.numel()
    assert whole.parts[0].decoder is not None and read.parts[0].decoder is None
