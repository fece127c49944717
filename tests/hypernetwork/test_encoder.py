"""The hypernetwork's reader: shapes, what it cannot see, and what its attention depends on."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.hypernetwork.encoder import Encoder, RelativeBias

SHAPES = {1: (32,), 2: (16, 8), 3: (8, 8, 16)}


def reader(
    ndim: int = 1, channels: int = 1, patch: int = 8, code: int = 2, moments: bool = False
) -> Encoder:
    """A small encoder whose every weight matters, in double precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = Encoder(
            channels, ndim, code, width=16, blocks=2, heads=2, patch=patch, moments=moments
        )
        for name, weight in encoder.named_parameters():
            if "scales" in name:
                torch.nn.init.constant_(weight, 0.5)
            if "bias.table" in name:
                torch.nn.init.normal_(weight)
    return encoder.double().requires_grad_(False)


def frames(batch: int, time: int, channels: int, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, time, channels, *shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("patch", [4, 8])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_frames_become_a_code_in_every_dimension(ndim: int, channels: int, patch: int) -> None:
    encoder = reader(ndim, channels, patch, code=3)
    for time in (2, 5):
        codes = encoder(frames(2, time, channels, SHAPES[ndim]))
        assert codes.shape == (2, 3)
        assert bool(torch.isfinite(codes).all())
        assert float((codes[0] - codes[1]).abs().max()) > 1e-6


@given(
    factor=st.floats(0.01, 100),
    shift=st.floats(-100, 100),
    seed=st.integers(0, 99),
)
def test_the_code_does_not_depend_on_unit_and_origin_of_the_field(
    factor: float, shift: float, seed: int
) -> None:
    encoder, context = reader(), frames(1, 4, 1, (16,), seed)
    torch.testing.assert_close(
        encoder(factor * context + shift), encoder(context), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("ndim", [1, 2])
def test_told_the_moments_an_encoder_begins_as_it_was_and_can_learn_unit_and_origin(
    ndim: int,
) -> None:
    plain, told = reader(ndim, 2), reader(ndim, 2, moments=True)
    told.load_state_dict(plain.state_dict(), strict=False)
    context = frames(3, 4, 2, SHAPES[ndim])
    torch.testing.assert_close(told(context), plain(context), rtol=0, atol=0)
    assert told.moments is not None
    torch.nn.init.normal_(told.moments.weight, generator=torch.Generator().manual_seed(0))
    for other in (2 * context, context + 1):
        assert float((told(other) - told(context)).abs().amin(0).max()) > 1e-3
    # Every context is told its own, and fields that do not change at all are read too.
    torch.testing.assert_close(told(context)[1:2], told(context[1:2]))
    assert bool(torch.isfinite(told(torch.zeros_like(context))).all())


def test_every_channel_has_a_unit_of_its_own() -> None:
    encoder, context = reader(channels=2), frames(1, 4, 2, (16,))
    factors, shifts = torch.tensor([3.0, 0.2]), torch.tensor([-1.0, 7.0])
    moved = context * factors[:, None] + shifts[:, None]
    torch.testing.assert_close(encoder(moved), encoder(context), rtol=0, atol=1e-5)
    assert float((encoder(context.flip(2)) - encoder(context)).abs().max()) > 1e-4


def test_frames_are_not_standardised_one_by_one() -> None:
    """A field that decays is not one that stays: the code sees growth over time."""
    encoder, context = reader(), frames(1, 4, 1, (16,))
    decay = torch.tensor([1.0, 0.7, 0.5, 0.3])[:, None, None]
    assert float((encoder(context * decay) - encoder(context)).abs().max()) > 1e-4


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_batch_equals_one_by_one(ndim: int) -> None:
    encoder, context = reader(ndim, patch=4), frames(3, 3, 1, SHAPES[ndim])
    alone = torch.cat([encoder(context[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(encoder(context), alone, rtol=0, atol=1e-10)


def test_the_order_of_the_frames_matters() -> None:
    encoder, context = reader(), frames(1, 5, 1, (16,))
    assert float((encoder(context.flip(1)) - encoder(context)).abs().max()) > 1e-4


def test_a_context_without_any_variation_has_a_finite_code() -> None:
    encoder = reader()
    assert bool(torch.isfinite(encoder(torch.ones(1, 3, 1, 16).double())).all())


@pytest.mark.parametrize("length", [1, 5, 16, 70])
def test_the_bias_is_a_function_of_the_offset_only(length: int) -> None:
    bias = RelativeBias(heads=3)
    torch.nn.init.normal_(bias.table, generator=torch.Generator().manual_seed(0))
    table = bias(length)
    assert table.shape == (3, length, length)
    for offset in range(1 - length, length):
        diagonal = table.diagonal(offset, 1, 2)
        assert torch.equal(diagonal, diagonal[:, :1].expand_as(diagonal))


def test_near_offsets_and_both_directions_have_a_bias_of_their_own() -> None:
    bias = RelativeBias(heads=1)
    torch.nn.init.normal_(bias.table, generator=torch.Generator().manual_seed(0))
    row = bias(15)[0, 7]  # offsets -7..7
    assert len(set(row.tolist())) == 15


def test_offsets_beyond_the_longest_share_one_bias_per_direction() -> None:
    bias = RelativeBias(heads=1, max_distance=32)
    torch.nn.init.normal_(bias.table, generator=torch.Generator().manual_seed(0))
    table = bias(80)[0]
    assert len(set(table[0, 32:].tolist())) == 1
    assert len(set(table[32:, 0].tolist())) == 1
    assert table[0, 40] != table[40, 0]
    assert table[0, 8] != table[0, 31]


@pytest.mark.parametrize("patch", [0, 2, 6])
def test_a_patch_that_three_strides_cannot_make_is_refused(patch: int) -> None:
    with pytest.raises(OpsplitError, match=f"multiple of 4, got {patch}"):
        reader(patch=patch)


@pytest.mark.parametrize("points", [5, 20, 33, 100])
def test_a_grid_that_patches_do_not_divide_is_continued_periodically(points: int) -> None:
    encoder, context = reader(patch=16), frames(2, 4, 1, (points,))
    whole = -(-points // 16) * 16
    continued = context[..., torch.arange(whole) % points]
    assert bool(torch.isfinite(encoder(context)).all())
    # Every point counts, the last ones too.
    moved = context.clone()
    moved[..., -1] += 1
    assert float((encoder(moved) - encoder(context)).abs().max()) > 1e-6
    assert torch.equal(encoder._whole_patches(context), continued)
    assert encoder._whole_patches(continued) is continued
