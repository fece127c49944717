"""Errors of a hypernetwork on batches that training does not draw."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from opsplit.hypernetwork.disco import Disco
from opsplit.metrics import relative_error
from opsplit.pretrain.config import TrainConfig
from opsplit.pretrain.losses import EncoderCodes, Trainee, dictionary_loss, trains_rows
from opsplit.pretrain.sources import Source


@torch.no_grad()
def validate(
    trainee: Trainee,
    average: dict[str, Tensor],
    source: Source,
    config: TrainConfig,
    device: torch.device,
) -> dict[str, float]:
    """One-step error of the averaged weights on fixed unseen batches, per mechanism.

    The codes are those of the dictionary to be. If these are trained rows, `validation read` is
    the error with the encoder's codes, which direct prediction uses.
    """
    disco = trainee.disco
    current = {name: p.detach().clone() for name, p in disco.named_parameters()}
    disco.load_state_dict(average, strict=False)
    batches = replace(
        config.batches, durations=(1.0,), environments=32, states=8, warm_up_states=0.0
    )
    settings = replace(config, batches=batches)
    found: dict[str, list[float]] = {}
    read: list[float] = []
    for index in range(2):
        generator = torch.Generator().manual_seed(2**40 + index)
        batch = source.draw(settings, generator).to(device)
        errors = trainee(dictionary_loss(config), batch).error.tolist()
        if trains_rows(config):
            read += trainee(EncoderCodes(config.measure), batch).error.tolist()
        for mechanism, error in zip(batch.mechanisms(), errors, strict=True):
            found.setdefault(f"validation {mechanism}", []).append(error)
    disco.load_state_dict(current, strict=False)
    means = {name: sum(v) / len(v) for name, v in sorted(found.items())}
    out = {"validation": sum(means.values()) / len(means), **means}
    return out | ({"validation read": sum(read) / len(read)} if read else {})


@torch.no_grad()
def semigroup(disco: Disco, source: Source, config: TrainConfig) -> float:
    """Relative distance between two half steps and one whole step, on unseen states.

    The operators are those of the dictionary to be, as in `validate`.
    """
    batches = replace(config.batches, durations=(1.0,), environments=16, states=8)
    settings = replace(config, batches=batches)
    batch = source.draw(settings, torch.Generator().manual_seed(2**40 + 7))
    rows = trains_rows(config)
    codes = disco.codebook[batch.environment] if rows else disco.encode(batch.context)
    operators = disco.operators(codes)
    u, h = batch.state / disco.config.scale, batch.duration
    whole = disco.family.flow(operators, u, h)
    halves = disco.family.flow(operators, disco.family.flow(operators, u, h / 2), h / 2)
    return float(relative_error(halves, whole).mean())
