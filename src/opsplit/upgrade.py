"""Model directories of format 1, rewritten in format 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit._files import inside, read_json
from opsplit._tensors import read_tensors
from opsplit.calibration import Calibration
from opsplit.dictionary import MAX_STRENGTH, OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.model import Model
from opsplit.operators import (
    BandLimited,
    Conserving,
    FluxStencil,
    GatedProducts,
    Homogeneous,
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
    raw = read_json(inside(source, "config.json"), finite=True)
    if not isinstance(raw, dict) or raw.get("format") != 1:
        raise OpsplitError(f"{source} is not a model directory of format 1.")
    try:
        return _upgrade(source, raw, terms or {})
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as reason:
        raise OpsplitError(f"{source} cannot be converted: {reason}") from None


def _upgrade(source: Path, raw: Old, terms: Mapping[str, Term]) -> Model:
    old = raw["operator"]
    channels, ndim = len(raw["channels"]), raw["ndim"]
    make = _spectral if raw["family"] == "spectral" else _unet
    config = ModelConfig(
        physics=raw["physics"],
        operator=make(old, channels, ndim),
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
    )
    tensors = {n: t.float() for n, t in _all(source, "model.safetensors").items()}
    if old.get("stream"):
        tensors = _joined_adapters(tensors, old, channels, ndim)
    disco = Disco(config)
    disco.load_state_dict(disco.state_dict() | tensors)
    disco.eval().requires_grad_(False)
    text = read_json(inside(source, "dictionary.json"), finite=True)
    codes = _all(source, "dictionary.safetensors")["part0.codes"].clone()
    known = {k: np.asarray(v, float) for k, v in text["coefficients"].items()}
    most = np.full(len(codes), float(old.get("max_strength", MAX_STRENGTH)))
    part = Part(config.operator, codes, disco.decoder, config.scale)
    told = {k: t for k, t in terms.items() if k in known}
    dictionary = OperatorDictionary((part,), known, tuple(text["provenance"]), told, most)
    if old.get("prune"):
        dictionary = dictionary.pruned(old["prune"])
    metrics = read_json(inside(source, "metrics.json"))
    return Model(disco, dictionary, metrics, Calibration.load(source))


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
    if products == 0:
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


def _joined_adapters(
    tensors: dict[str, Tensor], old: Old, channels: int, ndim: int
) -> dict[str, Tensor]:
    """Decoder weights for a U-Net that reads fields and potentials through one adapter.

    Format 1 had a second adapter at the end. Rows of the decoder move with their parameters; those
    of outputs that nobody reads are zero.
    """
    width, d, extra = old.get("width", 8), ndim, channels * ndim
    small = UNet(channels, ndim, old["max_step"], None, width)
    large = UNet(channels + extra, ndim, old["max_step"], None, width)
    before, place = {}, 0
    for name, (shape, _) in small.layers().items():
        before[name] = torch.arange(place, place + math.prod(shape)).reshape(shape)
        place += math.prod(shape)
    learned = int(old.get("power") == "learned")
    last = place + learned
    adapter = torch.arange(last, last + width * extra).reshape(width, extra, *[1] * d)
    rows = []
    for name, (shape, _) in large.layers().items():
        held = before[name]
        if name == "adapter_in":
            held = torch.cat([held, adapter], 1)
        elif held.shape != shape:
            held = torch.cat([held, torch.full((shape[0] - len(held), *shape[1:]), -1)])
        rows.append(held.flatten())
    rows += [torch.arange(place, place + learned)]
    index = torch.cat(rows)
    generator = torch.Generator().manual_seed(0)
    start = small.initialisation(generator)
    fan = 1 / math.sqrt(extra)
    more = torch.full((width * extra,), fan)
    one = torch.ones(learned)
    scale = torch.cat([start.scale, 0.3 * one, more])
    bound = torch.cat([start.bound, 4 * one, 4 * more])
    moved = {**tensors, "decoder.scale": scale, "decoder.bound": bound}
    for name in ("head.weight", "shared", "start", "scale", "bound"):
        key = f"decoder.{name}"
        if key in moved:
            kept = moved[key][index.clamp_min(0)]
            none = 1.0 if name in ("scale", "bound") else 0.0
            moved[key] = torch.where((index < 0).reshape(-1, *[1] * (kept.ndim - 1)), none, kept)
    return moved
