"""Model directories of format 1, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from opsplit.grid import Grid
from opsplit.hypernetwork.encoder import Encoder
from opsplit.operators import UNet

GRID = Grid((32,), (8.0,))
STEP, SCALE, CODE = 0.02, 1.3, 2
SMALL = UNet(1, 1, STEP, width=4)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decoder_tensors(n: int, bias: bool, spectral: bool) -> dict[str, Tensor]:
    """A decoder as format 1 stored it, whose parameters are neither small nor near a bound."""
    shapes = {"features.0.weight": (4, CODE), "features.0.bias": (4,),
              "features.2.weight": (3, 4), "features.2.bias": (3,),
              "head.weight": (n, 3), "start": (n,)}  # fmt: skip
    held = {name: 0.3 * noise(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    held |= {"scale": 0.5 + 0.1 * noise(n, seed=7).abs(), "bound": torch.full((n,), 20.0)}
    if bias:
        held["shared"] = 0.1 * noise(n, seed=8)
    if spectral:
        held["variation"] = 0.7 + 0.1 * noise(n, seed=9).abs()
    return {name: t.float() for name, t in held.items()}


def decoded(held: dict[str, Tensor], codes: Tensor) -> Tensor:
    """Parameters of codes, by the formula of format 1."""
    w = {name: t.double() for name, t in held.items()}
    x = F.gelu(codes.double() @ w["features.0.weight"].T + w["features.0.bias"])
    x = F.gelu(x @ w["features.2.weight"].T + w["features.2.bias"])
    raw = w.get("variation", 1.0) * (x @ w["head.weight"].T) + w.get("shared", 0.0)
    return w["bound"] * torch.tanh((w["start"] + w["scale"] * raw) / w["bound"])


def write(folder: Path, family: str, operator: dict[str, Any], n: int, bias: bool = True) -> Tensor:
    """A model directory of format 1 with three operators of `n` parameters, which it returns."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = {"code": CODE, "width": 8, "blocks": 1, "heads": 2, "patch": 8, "layer_scale": 0.3,
               "decoder_width": 4, "head_width": 3, "head_bias": bias}  # fmt: skip
    old = {"max_step": STEP, **operator}
    config = {
        "format": 1, "version": "0.1.0", "physics": "mine", "family": family,
        "recipe": "codebook", "preset": "tiny", "channels": ["u"], "ndim": 1, "dt": 0.1,
        "grid": GRID.to_json(), "coefficients": ["c"], "environments": 3, "scale": SCALE,
        "rescale": False, "encoder": encoder, "operator": old,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    held = decoder_tensors(n, bias, family == "spectral")
    tensors = {f"decoder.{name}": t for name, t in held.items()}
    reader = Encoder(1, 1, CODE, 8, 1, 2, 8, 0.3).state_dict()
    tensors |= {f"encoder.{name}": t for name, t in reader.items()}
    codes = noise(3, CODE, seed=11).float()
    tensors["codebook"] = codes.clone()
    save_file(tensors, folder / "model.safetensors")
    sizes = {"code": CODE, "width": 4, "head_width": 3, "bias": bias}
    part = {"family": family, "config": {"channels": 1, "ndim": 1, **old}, "scale": SCALE,
            "decoder": sizes}  # fmt: skip
    text = {"format": 1, "parts": [part], "coefficients": {"c": [0.1, 0.2, 0.3]},
            "provenance": ["a", "b", "c"]}  # fmt: skip
    (folder / "dictionary.json").write_text(json.dumps(text))
    save_file({"part0.codes": codes}, folder / "dictionary.safetensors")
    (folder / "metrics.json").write_text('{"minutes": 3.5}')
    return decoded(held, codes)
