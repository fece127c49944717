"""Model directories of format 1, rewritten in format 2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from opsplit._files import inside, read_json
from opsplit._tensors import LARGEST, read_tensors
from opsplit.calibration import Calibration
from opsplit.dictionary import MAX_STRENGTH, OperatorDictionary, Part
from opsplit.dictionary.storage import DecoderSizes
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.hypernetwork.decoder import Decoder
from opsplit.hypernetwork.disco import Disco
from opsplit.model import Model
from opsplit.operators import (
    BandLimited,
    Conserving,
    FluxStencil,
    GatedProducts,
    Homogeneous,
    Linear,
    NonAmplifying,
    Nonlinearity,
    OperatorFamily,
    Polynomial,
    PotentialInputs,
    ShiftedStages,
    Spectral,
    Standardised,
    Symbol,
    UNet,
)
from opsplit.terms import Term

Old = Mapping[str, Any]


def upgrade(folder: str | Path, terms: Mapping[str, Term] | None = None) -> Model:
    """The model of a directory of format 1, with the same operators.

    Arguments:
        terms: what is known about the terms of its coefficients, which format 1 did not store.
    """
    source = Path(folder)
    with _one_sentence(source):
        raw = _read(source, "config.json")
        config = _config(raw)
        tensors = {n: t.float() for n, t in _all(source, "model.safetensors").items()}
        disco = Disco(config)
        _fill(disco, tensors, raw["operator"], config.operator, "decoder.")
        disco.eval().requires_grad_(False)
        assert isinstance(disco.decoder, Decoder)  # format 1 had no other
        dictionary = _dictionary(source, terms or {}, disco.decoder)
        metrics = inside(source, "metrics.json")
        held = read_json(metrics) if metrics.exists() else {}
        return Model(disco, dictionary, held, Calibration.load(source))


def upgrade_dictionary(
    folder: str | Path, terms: Mapping[str, Term] | None = None
) -> OperatorDictionary:
    """The dictionary of a directory of format 1 that holds its own decoders."""
    source = Path(folder)
    with _one_sentence(source):
        return _dictionary(source, terms or {}, None)


@contextmanager
def _one_sentence(source: Path) -> Iterator[None]:
    """Whatever a file of a stranger leads to ends in one sentence that names the directory."""
    try:
        yield
    except OpsplitError as reason:
        words = str(reason)
        raise OpsplitError(words if str(source) in words else f"{source}: {words}") from None
    except (
        ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError
    ) as reason:  # fmt: skip
        said = " ".join(str(reason).split())
        raise OpsplitError(f"{source} cannot be converted: {said:.200}") from None


def _read(source: Path, name: str) -> Old:
    raw = read_json(inside(source, name), finite=True)
    if not isinstance(raw, dict) or type(raw.get("format")) is not int or raw["format"] != 1:
        raise OpsplitError(f"{source / name} is not of format 1.")
    return raw


def _config(raw: Old) -> ModelConfig:
    config = ModelConfig(
        physics=raw["physics"],
        operator=_family(raw["family"], raw["operator"], len(raw["channels"]), raw["ndim"]),
        grid=Grid.from_json(raw["grid"]),
        dt=raw["dt"],
        channels=tuple(raw["channels"]),
        coefficients=tuple(raw["coefficients"]),
        recipe=raw["recipe"],
        preset=raw["preset"],
        environments=raw["environments"],
        scale=raw["scale"],
        rescale=raw["rescale"],
        encoder=EncoderConfig.from_json(raw["encoder"], "the encoder"),
        prune=float(raw["operator"].get("prune", 0.0)),
    )
    if 4 * config.numbers() > LARGEST:
        raise OpsplitError(f"the model takes more than {LARGEST / 1e9:g} GB.")
    return config


def _dictionary(
    source: Path, terms: Mapping[str, Term], given: Decoder | None
) -> OperatorDictionary:
    text = _read(source, "dictionary.json")
    tensors = _all(source, "dictionary.safetensors")
    parts: list[Part] = []
    strengths: list[np.ndarray] = []
    for i, entry in enumerate(text["parts"]):
        old = entry["config"]
        part = _part(entry, f"part{i}.", tensors, given)
        if old.get("prune"):
            (part,) = OperatorDictionary((part,)).pruned(old["prune"]).parts
        parts.append(part)
        strengths.append(np.full(len(part), float(old.get("max_strength", MAX_STRENGTH))))
    known = {k: np.asarray(v, float) for k, v in text["coefficients"].items()}
    told = {k: t for k, t in terms.items() if k in known}
    most = np.concatenate(strengths) if strengths else np.zeros(0)
    return OperatorDictionary(tuple(parts), known, tuple(text["provenance"]), told, most)


def _part(entry: Old, prefix: str, tensors: Mapping[str, Tensor], given: Decoder | None) -> Part:
    old = entry["config"]
    family = _family(entry["family"], old, old["channels"], old["ndim"])
    codes, scale = tensors[f"{prefix}codes"].clone(), float(entry["scale"])
    if "decoder" not in entry:
        if old.get("stream"):
            rows = _rows(old)
            codes = torch.where(rows < 0, 0.0, codes[:, rows.clamp_min(0)])
        return Part(family, codes, None, scale)
    own = {n.removeprefix(prefix): t.float() for n, t in tensors.items() if n.startswith(prefix)}
    own.pop("codes")
    if not own:
        if given is None:
            raise OpsplitError("this dictionary holds codes of a model; convert that model.")
        if len(given.start) != family.n_parameters:
            raise OpsplitError("the dictionary belongs to another model than this one.")
        return Part(family, codes, given, scale)
    sizes = DecoderSizes.from_json({"bias": False, **entry["decoder"]}, "the decoder")
    if 4 * sizes.numbers(family) > LARGEST:
        raise OpsplitError(f"a decoder takes more than {LARGEST / 1e9:g} GB.")
    decoder = sizes.build(family)
    held = {n.removeprefix("decoder."): t for n, t in own.items()}
    _fill(decoder, held, old, family, "")
    return Part(family, codes, decoder.eval().requires_grad_(False), scale)


def _fill(
    module: nn.Module, tensors: dict[str, Tensor], old: Old, family: OperatorFamily, prefix: str
) -> None:
    """Load the weights of format 1; the units of a decoder are its family's."""
    if old.get("stream"):
        tensors = _joined_adapters(tensors, old, family, prefix)
    module.load_state_dict(module.state_dict() | tensors)


def _family(name: str, old: Old, channels: int, ndim: int) -> OperatorFamily:
    if name == "linear":
        return Linear(channels, ndim)
    if name not in ("spectral", "unet"):
        raise OpsplitError(f"format 1 has no operator family {name!r:.60}.")
    return (_spectral if name == "spectral" else _unet)(old, channels, ndim)


def _all(source: Path, name: str) -> dict[str, Tensor]:
    return read_tensors(source, name, lambda shapes: None)


def _spectral(old: Old, channels: int, ndim: int) -> OperatorFamily:
    symbol = Symbol(old.get("bumps", 8), old.get("bump_wavenumber", 50.0), old.get("quiet", False))
    return Spectral(
        channels, ndim, old["max_step"], symbol, _nonlinearity(old),
        old.get("wavenumber_scale", 1.0), old.get("cut", 0.0),
    )  # fmt: skip


def _nonlinearity(old: Old) -> Nonlinearity | None:
    dealias, scale = old.get("dealias", 2 / 3), old.get("output_scale", 0.02)
    if old.get("degree"):
        return Polynomial(
            old["degree"], old.get("constants", True), old.get("derivatives", True),
            old.get("inverse", False), dealias, scale, tuple(old.get("centre", ())),
            tuple(old.get("spread", ())), tuple(old.get("mixing", ())),
        )  # fmt: skip
    copies, products = old.get("copies", 4), old.get("products")
    if not (copies if products is None else products):
        return None
    plain = {"layers": 1, "derivatives": True, "inverse": False}
    if any(old.get(k, v) != v for k, v in plain.items()):
        raise OpsplitError("its products have settings that no longer exist.")
    constants, absolute = old.get("constants", True), old.get("absolute", False)
    if old.get("shifts") and not copies and absolute and not constants and dealias >= 1:
        return FluxStencil(old["shifts"], products or copies, old["spacing"], scale)
    if old.get("shifts") or absolute or not constants or products not in (None, copies):
        raise OpsplitError("its products have settings that no longer exist.")
    return GatedProducts(copies, dealias, scale)


def _unet(old: Old, channels: int, ndim: int) -> OperatorFamily:
    if old.get("steps", 1) != 1:
        raise OpsplitError("several steps per frame are now a shorter max_step.")
    seen = channels * (1 + ndim) if old.get("stream") else channels
    level = 1 if old.get("normalise") == "coarse" else 0
    boundary = tuple(old["boundary"]) if old.get("boundary") else None
    made: OperatorFamily = UNet(
        seen, ndim, old["max_step"], boundary,
        old.get("width", 8), level,
    )  # fmt: skip
    if old.get("conserve"):
        made = Conserving(made)
    extra = seen - channels
    units = {
        "centre": (*old.get("centre", ()), *[0.0] * extra) if old.get("centre") else (),
        "spread": (*old.get("spread", ()), *[1.0] * extra) if old.get("spread") else (),
        "rate_scale": (*old.get("pace", ()), *[1.0] * extra) if old.get("pace") else (),
    }
    if any(units.values()):
        made = Standardised(made, **units)
    if old.get("stream"):
        made = PotentialInputs(made, old["stream"])
    if old.get("power") is not None:
        made = Homogeneous(made, old["power"])
    if old.get("shifted"):
        made = ShiftedStages(made)
    if old.get("band", 1.0) < 1:
        made = BandLimited(made, old["band"])
    if old.get("calm", 1.0) < 1:
        made = NonAmplifying(made, old["calm"])
    return made


def _rows(old: Old) -> Tensor:
    """Where the parameters of a U-Net with one adapter stood in format 1, -1 for new ones.

    Format 1 had a second adapter for the potentials at the end.
    """
    made = _unet(old, old["channels"], old["ndim"])
    large = made.innermost
    assert isinstance(large, UNet)
    channels, d, width = made.channels, large.ndim, large.width
    small = replace(large, channels=channels)
    before, place = {}, 0
    for name, (shape, _) in small.layers().items():
        before[name] = torch.arange(place, place + math.prod(shape)).reshape(shape)
        place += math.prod(shape)
    learned = int(old.get("power") == "learned")
    last, extra = place + learned, channels * d
    adapter = torch.arange(last, last + width * extra).reshape(width, extra, *[1] * d)
    rows = []
    for name, (shape, _) in large.layers().items():
        held = before[name]
        if name == "adapter_in":
            held = torch.cat([held, adapter], 1)
        elif held.shape != shape:
            held = torch.cat([held, torch.full((shape[0] - len(held), *shape[1:]), -1)])
        rows.append(held.flatten())
    return torch.cat([*rows, torch.arange(place, place + learned)])


def _joined_adapters(
    tensors: dict[str, Tensor], old: Old, family: OperatorFamily, prefix: str
) -> dict[str, Tensor]:
    """Decoder weights for a U-Net that reads fields and potentials through one adapter.

    Rows of the decoder move with their parameters; those of outputs that nobody reads are zero.
    """
    index = _rows({**old, "channels": family.channels, "ndim": family.ndim})
    large = family.innermost
    assert isinstance(large, UNet)
    start = replace(large, channels=family.channels).initialisation(torch.Generator())
    extra = family.channels * family.ndim
    more = torch.full((large.width * extra,), 1 / math.sqrt(extra))
    one = torch.ones(int(old.get("power") == "learned"))
    scale = torch.cat([start.scale, 0.3 * one, more])
    bound = torch.cat([start.bound, 4 * one, 4 * more])
    moved = {f"{prefix}scale": scale, f"{prefix}bound": bound, **tensors}
    for name in ("head.weight", "shared", "start", "scale", "bound"):
        key = f"{prefix}{name}"
        if key in moved:
            kept = moved[key][index.clamp_min(0)]
            none = 1.0 if name in ("scale", "bound") else 0.0
            moved[key] = torch.where((index < 0).reshape(-1, *[1] * (kept.ndim - 1)), none, kept)
    return moved
