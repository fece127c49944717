"""The hypernetwork's writer: bounded, and at first the family's own start."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.hypernetwork.decoder import Decoder
from opsplit.operators import GatedProducts, Initialisation, OperatorFamily, Spectral, UNet

FAMILIES = [Spectral(1, 1, 0.1, nonlinearity=GatedProducts(copies=2)), UNet(1, 1, 0.1, width=4)]


def start_of(family: OperatorFamily) -> Initialisation:
    return family.initialisation(torch.Generator().manual_seed(0))


def writer(family: OperatorFamily, size: float = 1.0, bias: bool = False) -> Decoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        decoder = Decoder(2, start_of(family), width=8, head_width=4, bias=bias)
    with torch.no_grad():
        decoder.head.weight.mul_(size)
    return decoder.requires_grad_(False)


def codes(n: int, seed: int = 0, size: float = 1.0) -> Tensor:
    return size * torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.kind)
def test_with_a_silent_head_every_code_means_the_start_of_the_family(
    family: OperatorFamily,
) -> None:
    begin = start_of(family)
    found = writer(family, size=0.0)(codes(3))
    assert found.shape == (3, family.n_parameters)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    squashed = begin.bound * torch.tanh(begin.start / begin.bound)
    torch.testing.assert_close(found[0], squashed)
    # |x - b tanh(x / b)| <= |x|^3 / (3 b^2): the bound hardly touches the start.
    allowed = begin.start.abs() ** 3 / (3 * begin.bound**2) + 1e-6
    assert bool(((found[0] - begin.start).abs() <= allowed).all())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.kind)
@given(size=st.floats(0.1, 1e6), seed=st.integers(0, 99))
def test_no_code_pushes_a_parameter_beyond_its_bound(
    family: OperatorFamily, size: float, seed: int
) -> None:
    found = writer(family, size=100.0)(codes(4, seed, size))
    assert bool((found.abs() <= start_of(family).bound).all())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.kind)
def test_codes_are_decoded_one_by_one(family: OperatorFamily) -> None:
    decoder, z = writer(family), codes(4)
    together = decoder(z)
    alone = torch.cat([decoder(z[i : i + 1]) for i in range(4)])
    torch.testing.assert_close(together, alone)
    assert float((together[0] - together[1]).abs().max()) > 1e-4


@pytest.mark.parametrize("bias", [False, True])
def test_a_decoder_is_built_again_from_its_sizes_and_weights(bias: bool) -> None:
    family = FAMILIES[0]
    decoder = writer(family, bias=bias)
    for weight in decoder.parameters():
        weight.add_(0.1)
    assert decoder.sizes() == {"code": 2, "width": 8, "head_width": 4, "bias": bias}
    again = Decoder(initialisation=start_of(family), **decoder.sizes())
    again.load_state_dict(decoder.state_dict())
    assert torch.equal(again(codes(3)), decoder(codes(3)))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.kind)
def test_what_is_shared_moves_every_code_alike_in_the_familys_own_scale(
    family: OperatorFamily,
) -> None:
    begin, decoder = start_of(family), writer(family, bias=True)
    assert torch.equal(decoder(codes(3)), writer(family, size=0.0)(codes(3)))
    assert decoder.shared is not None
    decoder.shared.fill_(0.5)
    expected = begin.bound * torch.tanh((begin.start + 0.5 * begin.scale) / begin.bound)
    torch.testing.assert_close(decoder(codes(3)), expected.expand(3, -1))


def test_bounds_and_scales_are_stored_with_the_weights() -> None:
    assert set(writer(FAMILIES[0]).state_dict()) == {
        "start",
        "scale",
        "bound",
        "variation",
        "head.weight",
        "features.0.weight",
        "features.0.bias",
        "features.2.weight",
        "features.2.bias",
    }
