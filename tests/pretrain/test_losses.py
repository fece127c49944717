"""Every way of training against computation by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.metrics import channel_error, relative_error
from opsplit.physics import AdvectionDiffusion
from opsplit.pretrain.batch import Batch
from opsplit.pretrain.config import Batches, Codebook, Start, TrainConfig
from opsplit.pretrain.losses import (
    AveragedCodes,
    EncoderCodes,
    Loss,
    Recognition,
    TrainedCodes,
    Trainee,
    loss_of_step,
    update_codebook,
)
from opsplit.pretrain.sources import FreshSource

ROWS, CODE = 5, 2
ENVIRONMENT = torch.tensor([3, 0, 3, 1])


@pytest.fixture
def disco(small_model: Callable[..., ModelConfig]) -> Disco:
    return Disco(small_model(environments=ROWS))


@pytest.fixture
def trainee(disco: Disco) -> Trainee:
    return Trainee(disco)


@pytest.fixture(scope="module")
def batch(line: AdvectionDiffusion) -> Batch:
    config = TrainConfig(batches=Batches(environments=len(ENVIRONMENT), states=3))
    drawn = FreshSource(line).draw(config, torch.Generator().manual_seed(0))
    return replace(drawn, environment=ENVIRONMENT)


def gradients(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


@given(
    data=st.lists(st.tuples(st.integers(0, ROWS - 1), st.booleans()), min_size=1, max_size=12),
    momentum=st.floats(0, 1),
    seed=st.integers(0, 2**16),
)
def test_used_rows_move_to_the_mean_of_their_samples(
    small_model: Callable[..., ModelConfig],
    data: list[tuple[int, bool]],
    momentum: float,
    seed: int,
) -> None:
    model = Disco(small_model(environments=ROWS), seed)
    codes = torch.randn(len(data), CODE, generator=torch.Generator().manual_seed(seed))
    before = model.codebook.clone()
    environment, use = torch.tensor([e for e, _ in data]), torch.tensor([u for _, u in data])
    update_codebook(Trainee(model), codes, environment, use, momentum)
    for row in range(ROWS):
        mine = [codes[i] for i, (e, u) in enumerate(data) if e == row and u]
        if not mine:
            assert torch.equal(model.codebook[row], before[row])
            continue
        mean = sum(mine[1:], mine[0]) / len(mine)
        expected = momentum * before[row] + (1 - momentum) * mean
        torch.testing.assert_close(model.codebook[row], expected, rtol=1e-5, atol=1e-6)


def test_averaged_codes_use_the_moved_row(disco: Disco, trainee: Trainee, batch: Batch) -> None:
    use = torch.tensor([True, False, False, True])
    before, codes = disco.codebook.clone(), disco.encode(batch.context)
    out = trainee(AveragedCodes(use, momentum=0.9), batch)
    expected = before.clone()
    expected[3] = 0.9 * before[3] + 0.1 * codes[0]
    expected[1] = 0.9 * before[1] + 0.1 * codes[3]
    torch.testing.assert_close(disco.codebook, expected)
    used = torch.stack([expected[3], codes[1], codes[2], expected[1]])
    predicted = disco.family.flow(disco.operators(used), batch.state, batch.duration)
    error = relative_error(predicted, batch.target).mean(1)
    torch.testing.assert_close(out.error, error, rtol=1e-4, atol=1e-6)
    gap = (codes[[0, 3]] - expected[[3, 1]]).square()
    torch.testing.assert_close(out.commitment, gap.mean())


def test_straight_through_gradient_is_the_encoders(
    disco: Disco, trainee: Trainee, batch: Batch
) -> None:
    use = torch.ones(4, dtype=torch.bool)
    trainee(AveragedCodes(use, momentum=0.9), batch).error.mean().backward()
    found = gradients(disco.encoder)
    disco.zero_grad()
    # The same by hand: the loss's gradient at the codebook's value, handed to the encoder.
    rows = disco.codebook.detach()[ENVIRONMENT].requires_grad_()
    predicted = disco.family.flow(disco.operators(rows), batch.state, batch.duration)
    relative_error(predicted, batch.target).mean().backward()
    disco.encode(batch.context).backward(rows.grad)
    expected = gradients(disco.encoder)
    assert found.keys() == expected.keys()
    assert max(g.abs().max().item() for g in found.values()) > 0
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-7)


def test_commitment_pulls_the_encoder_only(disco: Disco, trainee: Trainee, batch: Batch) -> None:
    use = torch.tensor([True, False, False, False])
    trainee(AveragedCodes(use, momentum=0.5), batch).commitment.backward()
    found = gradients(disco)
    assert disco.codebook.grad is None
    assert all(name.startswith("encoder.") for name in found)
    disco.zero_grad()
    codes = disco.encode(batch.context)
    codes[0].backward(2 * (codes[0] - disco.codebook[3]).detach() / CODE)
    for name, expected in gradients(disco).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-8)


def test_unused_codebook_changes_nothing(disco: Disco, trainee: Trainee, batch: Batch) -> None:
    before = disco.codebook.clone()
    plain = trainee(EncoderCodes(), batch)
    unused = trainee(AveragedCodes(torch.zeros(4, dtype=torch.bool), momentum=0.1), batch)
    assert torch.equal(plain.error, unused.error)
    assert plain.commitment.item() == unused.commitment.item() == 0
    assert torch.equal(disco.codebook, before)


@pytest.mark.parametrize("reading", [False, True])
def test_rows_that_are_drawn_are_trained_by_gradient(
    disco: Disco, trainee: Trainee, batch: Batch, reading: bool
) -> None:
    out = trainee(TrainedCodes(reading), batch)
    out.error.mean().backward(retain_graph=reading)
    assert gradients(disco.encoder) == {}
    assert disco.codebook.grad is not None
    moved = disco.codebook.grad.abs().amax(1) > 0
    assert moved.nonzero()[:, 0].tolist() == sorted(set(ENVIRONMENT.tolist()))
    assert (out.commitment.item() > 0) == out.commitment.requires_grad == reading


def test_the_encoder_recognises_trained_rows_and_does_not_move_them(
    disco: Disco, trainee: Trainee, batch: Batch
) -> None:
    before = disco.codebook.clone()
    commitment = trainee(TrainedCodes(reading=True), batch).commitment
    gap = disco.encode(batch.context) - disco.codebook[ENVIRONMENT]
    torch.testing.assert_close(commitment, gap.square().mean())
    commitment.backward()
    found = gradients(disco)
    assert found and all(name.startswith("encoder.") for name in found)
    assert torch.equal(disco.codebook, before)


def test_the_encoder_alone_learns_to_recognise_the_codes(
    disco: Disco, trainee: Trainee, batch: Batch
) -> None:
    disco.codebook.requires_grad_(False)
    out = trainee(Recognition(commitment=0.3), batch)
    gap = disco.encode(batch.context) - disco.codebook[batch.environment]
    torch.testing.assert_close(out.error, gap.square().mean(1).sqrt())
    torch.testing.assert_close(out.commitment, gap.square().mean())
    torch.testing.assert_close(out.total, 0.3 * out.commitment)
    out.total.backward()
    before = float(out.commitment.detach())
    with torch.no_grad():
        for weight in disco.encoder.parameters():
            if weight.grad is not None:
                weight -= 3e-3 * weight.grad
    assert all(name.startswith("encoder.") for name in gradients(disco))
    assert float(trainee(Recognition(), batch).commitment.detach()) < before


@pytest.mark.parametrize("reading", [0.0, 1.0])
def test_the_end_of_a_budget_trains_the_rows(
    disco: Disco, trainee: Trainee, batch: Batch, reading: float
) -> None:
    codebook = Codebook(by_gradient=0.3, reading=reading, commitment=0.7)
    config = TrainConfig(recipe="codebook", codebook=codebook)
    for done, by_gradient in ((0.69, False), (0.71, True)):
        disco.zero_grad()
        loss = loss_of_step(config, batch, done, torch.Generator().manual_seed(0))
        trainee(loss, batch).total.backward()
        assert (disco.codebook.grad is not None) == by_gradient
        assert bool(gradients(disco.encoder)) == (not by_gradient or reading == 1)


def test_every_recipe_has_its_loss(batch: Batch) -> None:
    def kind(**settings: object) -> type:
        config = TrainConfig(**settings)  # type: ignore[arg-type]
        return type(loss_of_step(config, batch, 0.5, torch.Generator()))

    assert kind(recipe="in-context") is kind(recipe="plain") is EncoderCodes
    assert kind(recipe="codebook") is AveragedCodes
    assert kind(recipe="codebook", codebook=Codebook(by_gradient=1.0)) is TrainedCodes
    assert kind(recipe="codebook", start=Start(encoder_only=True)) is Recognition


# Errors per dynamics and total loss, computed when all four ways were one method of the network.
USED = torch.tensor([True, False, True, False])
KNOWN: dict[str, tuple[Loss, list[float], float]] = {
    "encoder": (
        EncoderCodes(measure="channel"),
        [0.010627001, 0.026533708, 0.01750852, 0.076050907],
        0.032665335,
    ),
    "averaged": (
        AveragedCodes(USED, momentum=0.9, commitment=0.7),
        [0.010659083, 0.026533708, 0.017378865, 0.076050907],
        0.099888667,
    ),
    "trained": (
        TrainedCodes(reading=True, commitment=0.7),
        [0.010663711, 0.026482997, 0.017360022, 0.076205373],
        0.097375616,
    ),
    "recognition": (
        Recognition(commitment=0.7),
        [0.380073547, 0.197281137, 0.302923471, 0.307509542],
        0.064697593,
    ),
}


@pytest.mark.parametrize("way", KNOWN)
def test_every_loss_has_its_known_numbers(
    small_model: Callable[..., ModelConfig], batch: Batch, way: str
) -> None:
    loss, errors, total = KNOWN[way]
    trainee = Trainee(Disco(small_model(environments=ROWS), seed=3))
    out = trainee(loss, replace(batch, shares=(0.25, 0.75)))
    assert out.error.tolist() == pytest.approx(errors, rel=1e-5)
    assert out.total.item() == pytest.approx(total, rel=1e-5)
    if way == "averaged":
        row = trainee.disco.codebook[3].tolist()
        assert row == pytest.approx([0.0447015725, -0.0446534082], rel=1e-5)


FIELD = st.floats(-1, 1).map(lambda x: x + 2)


@given(seed=st.integers(0, 999), sizes=st.tuples(FIELD, FIELD), floor=st.sampled_from([0.0, 0.03]))
def test_every_channel_is_measured_by_itself(
    seed: int, sizes: tuple[float, float], floor: float
) -> None:
    draw = torch.randn(2, 3, 2, 2, 4, 5, generator=torch.Generator().manual_seed(seed))
    predicted, target = draw.double() * torch.tensor(sizes)[:, None, None]
    expected = torch.zeros(3, 2, dtype=torch.float64)
    for e in range(3):
        for k in range(2):
            for c in range(2):
                gap = (predicted - target)[e, k, c].square().sum().sqrt()
                expected[e, k] += gap / target[e, k, c].square().sum().sqrt() / 2
    # With a floor, a channel as large as a fifth of the field is measured to a hundredth.
    found = channel_error(predicted, target, floor)
    torch.testing.assert_close(found, expected, rtol=0.015 if floor else 1e-12, atol=0)
    assert bool((found <= expected * (1 + 1e-12)).all())


@pytest.mark.parametrize("size", [0.0, 1e-20, 1e-6])
def test_a_vanished_channel_is_measured_against_the_field(size: float) -> None:
    target = torch.ones(1, 1, 2, 8)
    target[:, :, 1] = size
    predicted = torch.cat([target[:, :, :1], target[:, :, 1:] + 0.03], 2).requires_grad_()
    error = channel_error(predicted, target)
    assert error.item() == pytest.approx(0.5, rel=1e-3)  # the mean of 0 and 0.03 / 0.03
    error.sum().backward()
    assert predicted.grad is not None and bool(predicted.grad.isfinite().all())


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_share_and_weight_of_the_loss(
    disco: Disco, trainee: Trainee, batch: Batch, share: float
) -> None:
    codebook = Codebook(share=share, momentum=1.0, commitment=0.7)
    config = TrainConfig(recipe="codebook", codebook=codebook)
    found = trainee(loss_of_step(config, batch, 0.0, torch.Generator().manual_seed(0)), batch)
    used = torch.full((4,), bool(share))
    out = trainee(AveragedCodes(used, momentum=1.0), batch)
    torch.testing.assert_close(found.error, out.error)
    torch.testing.assert_close(found.total, out.error.mean() + 0.7 * out.commitment)
    assert (out.commitment.item() > 0) == bool(share)
