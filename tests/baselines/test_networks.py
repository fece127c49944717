"""Sizes and symmetries of the networks."""

from __future__ import annotations

import pytest
import torch

from opsplit.baselines import TRAINED
from opsplit.baselines.geps import GEPS, AdaptiveConvolution
from opsplit.baselines.mpp import MPP, AxialTransformer
from opsplit.baselines.protocol import OBSERVED, Network
from opsplit.baselines.windows import StoredWindows, Windows
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.pretrain.sources import Facts, StoredSource
from opsplit.trajectories import Trajectories


def facts(shape: tuple[int, ...], channels: int = 1, environments: int = 0) -> Facts:
    grid = Grid(shape, (1.0,) * len(shape))
    names = tuple("uv"[:channels])
    return Facts("toy", grid, 1.0, names, (), environments, scale=1.0, rescale=False)


def count(network: Network) -> int:
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("shape", "channels", "weights"), [((256,), 1, 2_182_145), ((128, 128), 2, 67_196_162)]
)
def test_the_papers_fourier_operator_has_its_published_size(
    shape: tuple[int, ...], channels: int, weights: int
) -> None:
    settings, _ = TRAINED["fno"].preset("paper", len(shape))
    with torch.device("meta"):
        assert count(settings.build(facts(shape, channels))) == weights


def test_the_papers_transformer_is_384_wide_with_six_blocks() -> None:
    settings, fitting = TRAINED["mpp"].preset("paper", 2)
    assert isinstance(settings, MPP)
    assert (settings.width, settings.blocks, settings.patch) == (384, 6, 16)
    assert (fitting.budget.steps, fitting.batch, fitting.learning_rate) == (100_000, 64, 5e-4)
    with torch.device("meta"):
        # 8 blocks, as in the authors' configuration, have 19.5 million.
        per_block = count(settings.build(facts((64, 64)))) / 6
    assert 8 * per_block == pytest.approx(19.5e6, rel=0.1)


@pytest.mark.parametrize(("shape", "weights"), [((256,), 64_000), ((128, 128), 84_000)])
def test_the_papers_adaptive_network_has_its_size(shape: tuple[int, ...], weights: int) -> None:
    settings, _ = TRAINED["geps"].preset("paper", len(shape))
    channels = len(shape)
    assert count(settings.build(facts(shape, channels))) == pytest.approx(weights, rel=0.1)


@pytest.mark.parametrize("shape", [(32,), (16, 8), (8, 8, 8)])
@pytest.mark.parametrize("name", ["fno", "mpp", "geps"])
def test_one_code_path_for_one_to_three_axes(name: str, shape: tuple[int, ...]) -> None:
    settings, _ = TRAINED[name].preset("tiny", len(shape))
    network = settings.build(facts(shape, 2, environments=1)).eval()
    frames = torch.randn(2, OBSERVED, 2, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert network.forecast(frames, 2).shape == (2, 2, 2, *shape)


def random_transformer(blocks: int) -> AxialTransformer:
    """A transformer of which every number is random, in double precision."""
    torch.manual_seed(0)
    network = AxialTransformer(MPP(16, blocks, 2, patch=4, layer_scale=1.0), 1, 1).double().eval()
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.5)
    return network.requires_grad_(False)


def test_tokens_attend_alike_wherever_a_periodic_line_is_cut() -> None:
    network = random_transformer(2)
    window = torch.randn(1, OBSERVED, 1, 32).double()
    assert torch.allclose(network(window.roll(8, -1)), network(window).roll(8, -1), atol=1e-6)


@pytest.mark.parametrize("shape", [(32,), (16, 8)])
def test_embedding_and_first_convolution_are_one_map(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    network = AxialTransformer(MPP(16, 1, 2, patch=4), 2, len(shape)).double()
    frames = torch.randn(3, 2, *shape).double()
    apart = network.stem(network.embed(frames))
    assert torch.allclose(network.tokens(frames), apart, atol=1e-12)


def test_a_transformer_of_increments_begins_where_nothing_changes() -> None:
    settings, _ = TRAINED["mpp"].preset("cpu", 1)
    window = torch.randn(2, OBSERVED, 1, 64, generator=torch.Generator().manual_seed(0))
    still = settings.build(facts((64,)))(window)
    assert torch.allclose(still, window[:, -1], atol=1e-5)


def test_the_transformer_follows_the_mean_and_the_size_of_a_window() -> None:
    network = random_transformer(1)
    window = torch.randn(1, OBSERVED, 1, 32).double()
    assert torch.allclose(network(3 * window + 2), 3 * network(window) + 2, atol=1e-3)


def test_adapted_weights_are_those_of_the_formula() -> None:
    torch.manual_seed(0)
    layer = AdaptiveConvolution(2, 3, kernel=3, code=2, ndim=1)
    code, u = torch.randn(2, 2), torch.randn(2, 2, 8)
    out = layer(u, code)
    for n in range(2):
        taps = [
            layer.weight[:, :, k] + layer.left[..., k] @ code[n].diag() @ layer.right[..., k].T
            for k in range(3)
        ]
        expected = sum(tap @ u[n].roll(1 - k, -1) for k, tap in enumerate(taps))
        assert torch.allclose(out[n], expected, atol=1e-5)


def test_adaptation_changes_codes_only_and_lowers_the_error() -> None:
    torch.manual_seed(0)
    settings = GEPS(8, 3, gain=0.1, adaptation_steps=60, adaptation_rate=3e-2)
    network = settings.build(facts((32,), environments=2)).eval().requires_grad_(False)
    true = torch.tensor([[1.5, -1.0]])
    frames = [torch.randn(1, 1, 32)]
    with torch.no_grad():
        for _ in range(OBSERVED - 1):
            frames.append(network.step(frames[-1], true))
    observed = torch.stack(frames, 1)
    before = {k: v.clone() for k, v in network.state_dict().items()}
    with torch.no_grad():
        code = network.adapt(observed)
        errors = [
            float((network.step(observed[:, 7], c) - observed[:, 8]).norm())
            for c in (torch.zeros(1, 2), code)
        ]
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())
    assert errors[1] < 0.5 * errors[0]


def test_patches_that_do_not_divide_an_axis_are_refused() -> None:
    with pytest.raises(OpsplitError, match=r"patches of 16 points, which do not divide \(40,\)"):
        MPP().build(facts((40,)))


def test_held_out_trajectories_are_never_trained_on(waves: Trajectories) -> None:
    source = StoredWindows(StoredSource(waves))
    assert not set(source.seen.tolist()) & set(source.unseen.tolist())
    assert len(source.unseen) == len(waves) // 8
    held = source.draw(20, 5, torch.Generator().manual_seed(0), held_out=True)
    whole = waves.data[source.unseen]
    for window in held.frames:
        pieces = whole.unfold(1, 5, 1).movedim(-1, 2).flatten(0, 1)
        assert bool((pieces == window).flatten(1).all(1).any())


@pytest.mark.parametrize("name", ["fno", "mpp", "geps", "zebra"])
def test_a_step_at_the_sizes_of_the_paper(name: str) -> None:
    """Every stage of `--preset paper` has a finite loss that reaches the weights."""
    if name == "zebra":
        pytest.importorskip("vector_quantize_pytorch")
        pytest.importorskip("x_transformers")
    settings, fitting = TRAINED[name].preset("paper", 1)
    assert fitting.budget.steps and not fitting.budget.minutes
    network = settings.build(facts((32,), environments=2 if settings.listed else 0))
    draw = torch.Generator().manual_seed(0)
    frames = torch.randn(2, settings.window, 1, 32, generator=draw)
    for stage in network.stages:
        loss = network.loss(Windows(frames, torch.arange(2)), stage).mean()
        loss.backward()
        assert bool(loss.isfinite())
    moved = [p.grad is not None and bool(p.grad.isfinite().all()) for p in network.parameters()]
    assert sum(moved) > len(moved) / 2
