"""The weights that a training starts with."""

from __future__ import annotations

import torch
from torch import nn

from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.model import load_model
from opsplit.pretrain.config import TrainConfig
from opsplit.pretrain.sources import Source, StoredSource


def begin(model: ModelConfig, config: TrainConfig, source: Source) -> Disco:
    """A hypernetwork with the weights of its seed, or with those of trained models."""
    disco = Disco(model, config.seed)
    if config.recipe == "codebook" and config.codebook.start == "coefficients":
        codes_from_coefficients(disco, source)
    start = config.start
    if start.encoder_from is not None:
        borrow(disco.encoder, start.encoder_from, "encoder")
    if start.start_from is not None:
        borrow(disco, start.start_from, family=model.family)
    if start.encoder_only:
        disco.decoder.requires_grad_(False)
        disco.codebook.requires_grad_(False)
    return disco


def codes_from_coefficients(disco: Disco, source: Source) -> None:
    """Column `i` of the codebook is coefficient `i` of every environment, in units of its largest
    absolute value."""
    known = source.coefficients() if isinstance(source, StoredSource) else {}
    for i, values in enumerate(list(known.values())[: disco.codebook.shape[1]]):
        disco.codebook.data[:, i] = values.float() / values.abs().max().clamp_min(1e-30)


def borrow(into: nn.Module, name: str, part: str = "", family: str | None = None) -> None:
    """Copy trained weights: of a whole model, or of a part such as its encoder.

    A code means the same for every operator family, so an encoder serves another family.
    Operators that have gained parameters at their end keep their own start for these.
    """
    disco = load_model(name, family).disco
    weights = disco.get_submodule(part).state_dict()
    for key, own in into.state_dict().items():
        given = weights.get(key)
        if key.startswith(("moments.", "encoder.moments.")):
            weights.setdefault(key, own)
        if key.startswith("decoder.") and given is not None and len(given) < len(own):
            weights[key] = torch.cat([given, own[len(given) :]])
    try:
        into.load_state_dict(weights)
    except RuntimeError:
        raise OpsplitError(
            f"The {part or 'model'} of {name} has other sizes than the one to train; "
            "use the same encoder and operator settings."
        ) from None
