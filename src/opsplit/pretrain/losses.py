"""The four ways of training a hypernetwork, one callable each.

They differ in where the code of a dynamics comes from; the error is always that of the flow of
the generated operator against the state of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from opsplit.hypernetwork.disco import Disco
from opsplit.metrics import change_error, channel_error, relative_error
from opsplit.pretrain.batch import Batch
from opsplit.pretrain.config import Measure, TrainConfig


class Outcome(NamedTuple):
    """The result of a loss on one batch."""

    total: Tensor
    """The number to minimise."""
    error: Tensor
    """Relative error per dynamics, `(E,)`."""
    commitment: Tensor
    """Mean square distance between the encoder's codes and those of the codebook."""


class Loss(Protocol):
    """One way of training."""

    def __call__(self, trainee: Trainee, batch: Batch, /) -> Outcome: ...


class Trainee(nn.Module):
    """A hypernetwork and a loss in one `forward`, for data-parallel wrappers.

    Arguments:
        reduce_sum: the sum of a tensor over all processes.
    """

    def __init__(self, disco: Disco) -> None:
        super().__init__()
        self.disco = disco
        self.reduce_sum: Callable[[Tensor], Tensor] = lambda x: x

    def forward(self, loss: Loss, batch: Batch) -> Outcome:
        return loss(self, batch)


def flow_errors(
    disco: Disco, codes: Tensor, batch: Batch, measure: Measure = "field"
) -> tuple[Tensor, Tensor]:
    """Loss and error of the operators of `codes`, both per dynamics, `(E,)`.

    Arguments:
        measure: what the error of a step is divided by: the `field`, every `channel` of it (the
            error itself is then relative to the field), or the `change` of the step.
    """
    scale = disco.config.scale
    operators, predicted = disco.operators(codes), batch.state / scale
    for share in batch.shares:
        predicted = disco.family.flow(operators, predicted, share * batch.duration)
    target = batch.target / scale
    if measure == "change":
        error = change_error(predicted, target, batch.state / scale).mean(1)
        return error, error
    error = relative_error(predicted, target).mean(1)
    return (channel_error(predicted, target).mean(1) if measure == "channel" else error), error


@dataclass(frozen=True)
class EncoderCodes:
    """Codes of the encoder (recipes `in-context` and `plain`)."""

    measure: Measure = "field"

    def __call__(self, trainee: Trainee, batch: Batch) -> Outcome:
        codes = trainee.disco.encode(batch.context)
        loss, error = flow_errors(trainee.disco, codes, batch, self.measure)
        return Outcome(loss.mean(), error, codes.new_zeros(()))


@dataclass(frozen=True)
class AveragedCodes:
    """Codes of the codebook, whose rows follow the encoder by a moving average.

    The gradient of a row goes straight through to the encoder.

    Arguments:
        use: the dynamics `(E,)` that take their code from the codebook; the others take it from
            the encoder.
        momentum: decay of the moving average.
        commitment: weight of the distance between the encoder's codes and the rows.
    """

    use: Tensor
    momentum: float = 0.99
    commitment: float = 0.5
    measure: Measure = "field"

    def __call__(self, trainee: Trainee, batch: Batch) -> Outcome:
        codes = trainee.disco.encode(batch.context)
        update_codebook(trainee, codes.detach(), batch.environment, self.use, self.momentum)
        rows = trainee.disco.codebook[batch.environment].detach()
        pick = self.use[:, None]
        # Straight through: the value of the codebook, the gradient of the encoder.
        used = torch.where(pick, rows + codes - codes.detach(), codes)
        gap = (codes - rows).square() * pick
        commitment = gap.sum() / (pick.sum() * codes.shape[1]).clamp_min(1)
        loss, error = flow_errors(trainee.disco, used, batch, self.measure)
        return Outcome(loss.mean() + self.commitment * commitment, error, commitment)


@torch.no_grad()
def update_codebook(
    trainee: Trainee, codes: Tensor, environment: Tensor, use: Tensor, momentum: float
) -> None:
    """Move every used row towards the mean code of its environment in this batch."""
    codebook = trainee.disco.codebook
    counted = torch.cat([codes, torch.ones_like(codes[:, :1])], 1) * use[:, None]
    totals = counted.new_zeros(len(codebook), counted.shape[1])
    totals.index_add_(0, environment, counted)
    totals = trainee.reduce_sum(totals)
    seen = totals[:, -1] > 0
    means = totals[seen, :-1] / totals[seen, -1:]
    codebook[seen] = momentum * codebook[seen] + (1 - momentum) * means


@dataclass(frozen=True)
class TrainedCodes:
    """Codes of the codebook, whose rows are trained by gradient.

    Arguments:
        reading: whether the encoder learns to recognise the rows in this step.
        commitment: weight of the distance between the encoder's codes and the rows.
    """

    reading: bool = False
    commitment: float = 0.5
    measure: Measure = "field"

    def __call__(self, trainee: Trainee, batch: Batch) -> Outcome:
        rows = trainee.disco.codebook[batch.environment]
        commitment = rows.new_zeros(())
        if self.reading:
            codes = trainee.disco.encode(batch.context)
            commitment = (codes - rows.detach()).square().mean()
        loss, error = flow_errors(trainee.disco, rows, batch, self.measure)
        return Outcome(loss.mean() + self.commitment * commitment, error, commitment)


@dataclass(frozen=True)
class Recognition:
    """The encoder alone learns to recognise the codes of the codebook; no flow is computed.

    The error of a dynamics is the root mean square distance between the two codes.
    """

    commitment: float = 0.5

    def __call__(self, trainee: Trainee, batch: Batch) -> Outcome:
        disco = trainee.disco
        gap = (disco.encode(batch.context) - disco.codebook[batch.environment]).square()
        return Outcome(self.commitment * gap.mean(), gap.mean(1).sqrt(), gap.mean())


def loss_of_step(
    config: TrainConfig, batch: Batch, done: float, generator: torch.Generator
) -> Loss:
    """The loss of one step, when the share `done` of the budget is used."""
    codebook = config.codebook
    if config.recipe != "codebook":
        return EncoderCodes(config.measure)
    use = torch.rand(len(batch.context), generator=generator) < codebook.share
    if config.start.encoder_only:
        return Recognition(codebook.commitment)
    if done > 1 - codebook.by_gradient:
        reading = float(torch.rand((), generator=generator)) < codebook.reading
        return TrainedCodes(reading, codebook.commitment, config.measure)
    return AveragedCodes(
        use.to(batch.context.device), codebook.momentum, codebook.commitment, config.measure
    )


def dictionary_loss(config: TrainConfig) -> Loss:
    """The loss whose codes will stand in the dictionary: trained rows, else the encoder's."""
    measure = config.measure
    return TrainedCodes(measure=measure) if trains_rows(config) else EncoderCodes(measure)


def trains_rows(config: TrainConfig) -> bool:
    """Whether the dictionary is made of codes that were trained by gradient."""
    return config.recipe == "codebook" and config.codebook.by_gradient > 0
