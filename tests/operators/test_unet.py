"""The paper's family: sizes, a plain reference written anew, batches, walls and time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.integrators import rk38
from opsplit.operators import Examples, OperatorFamily, UNet

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
UP = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
SHAPES = {1: (32,), 2: (16, 32), 3: (16, 16, 16)}


def family(ndim: int, channels: int = 1, **options: object) -> UNet:
    return UNet(channels, ndim, **({"max_step": 1.0} | options))  # type: ignore[arg-type]


def weights(net: UNet, n: int, seed: int = 0) -> Tensor:
    """Parameter vectors `(n, P)` around the family's start, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    begin = net.initialisation(generator)
    noise = torch.randn(n, net.n_parameters, generator=generator)
    return (begin.start + 0.3 * begin.scale * noise).double()


def states(e: int, k: int, net: UNet, shape: tuple[int, ...], seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(e, k, net.channels, *shape, generator=generator, dtype=torch.float64)


def reference(net: UNet, parameters: Tensor, x: Tensor, boundary: tuple[str, ...]) -> Tensor:
    """One operator on states `(K, channel, *space)`, layer by layer as the paper's code has it."""
    d = net.ndim
    w = {}
    for name, (shape, _) in net.layers().items():
        w[name], parameters = (
            parameters[: math.prod(shape)].reshape(shape),
            parameters[math.prod(shape) :],
        )
    assert parameters.numel() == 0

    def pad(x: Tensor) -> Tensor:
        modes = {"periodic": "circular", "reflect": "reflect", "zero": "constant"}
        for axis, word in enumerate(boundary):
            # F.pad names the last axis first and reflects only the axes that are last.
            moved = x.movedim(2 + axis, -1)
            flat = F.pad(moved.flatten(1, -2), (1, 1), mode=modes[word])
            x = flat.reshape(*moved.shape[:-1], -1).movedim(-1, 2 + axis)
        return x

    def conv3(x: Tensor, name: str, groups: int = 1) -> Tensor:
        return CONV[d](pad(x), w[name], groups=groups)

    def norm_gelu(x: Tensor, name: str) -> Tensor:
        x = F.group_norm(x, 4, eps=1e-5)
        affine = (-1, *[1] * d)
        return F.gelu(x * w[f"{name}.gain"].reshape(affine) + w[f"{name}.shift"].reshape(affine))

    def per_point(x: Tensor, name: str) -> Tensor:
        return F.linear(x.movedim(1, -1), w[name].flatten(1), w[f"{name}.bias"]).movedim(-1, 1)

    if any(word != "periodic" for word in boundary):
        wall = torch.zeros_like(x[:, :1])
        for axis, word in enumerate(boundary):
            if word != "periodic":
                wall.movedim(2 + axis, -1)[..., [0, -1]] = 1
        x = torch.cat([x, wall], 1)
    x = conv3(conv3(per_point(x, "adapter_in"), "in1"), "in2")
    skips = []
    for level in range(4):
        skips.append(x)
        x = norm_gelu(CONV[d](x, w[f"down{level}"], stride=2), f"down{level}.norm1")
        x = conv3(x, f"down{level}.depthwise", groups=x.shape[1])
        x = norm_gelu(x, f"down{level}.norm2")
    x = x + CONV[d](norm_gelu(CONV[d](x, w["middle1"]), "middle.norm"), w["middle2"])
    for level in (3, 2, 1, 0):
        into = x.shape[1]
        kernel = w[f"up{level}"].reshape(into // 2, *(2,) * d, into).movedim(-1, 0)
        x = torch.cat([UP[d](x, kernel, stride=2), skips.pop()], 1)
        x = norm_gelu(conv3(x, f"up{level}.merge", groups=into // 2), f"up{level}.norm")
    x = conv3(norm_gelu(conv3(x, "out1"), "out.norm"), "out2")
    return per_point(x, "adapter_out")


@pytest.mark.parametrize(
    ("ndim", "channels", "count"), [(1, 1, 113_017), (2, 2, 160_970), (2, 1, 160_953)]
)
def test_the_number_of_parameters_is_the_papers(ndim: int, channels: int, count: int) -> None:
    assert family(ndim, channels).n_parameters == count


@pytest.mark.parametrize(
    ("ndim", "channels", "boundary"),
    [
        (1, 1, ("periodic",)),
        (1, 2, ("reflect",)),
        (1, 1, ("zero",)),
        (2, 2, ("periodic", "periodic")),
        (2, 1, ("reflect", "periodic")),
        (2, 1, ("zero", "reflect")),
        (3, 1, ("periodic",) * 3),
    ],
)
def test_the_grouped_network_equals_a_plain_one(
    ndim: int, channels: int, boundary: tuple[str, ...]
) -> None:
    net = family(ndim, channels, boundary=boundary)
    shape = (16,) * 3 if ndim == 3 else (32,) * ndim
    grid = Grid(shape, (1.0,) * ndim, boundary)
    (parameters,) = weights(net, 1)
    u = states(1, 2, net, shape)
    found = net.flow(net.prepare(parameters[None], grid), u, 0.1)[0]
    expected = rk38(
        lambda x: reference(net, parameters, x, boundary),
        u[0],
        torch.tensor(0.1, dtype=torch.float64),
        1,
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert float((found - u[0]).abs().max()) > 1e-3


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_batch_of_operators_equals_each_alone(ndim: int) -> None:
    net = family(ndim, channels=2)
    grid = Grid(SHAPES[ndim], (1.0,) * ndim)
    parameters, u = weights(net, 3), states(3, 2, net, grid.shape)
    together = net.flow(net.prepare(parameters, grid), u, 0.1)
    for e in range(3):
        alone = net.flow(net.prepare(parameters[e : e + 1], grid), u[e : e + 1], 0.1)
        torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-12)
    assert float((together[0] - u[0] - together[1] + u[1]).abs().max()) > 1e-3


@pytest.mark.parametrize("ndim", [1, 2])
def test_many_states_equal_one_by_one(ndim: int) -> None:
    net = family(ndim)
    grid = Grid(SHAPES[ndim], (1.0,) * ndim)
    prepared = net.prepare(weights(net, 2), grid)
    u = states(2, 4, net, grid.shape)
    together = net.flow(prepared, u, 0.1)
    alone = torch.cat([net.flow(prepared, u[:, i : i + 1], 0.1) for i in range(4)], 1)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_taken_operators_are_those_of_the_index() -> None:
    net = family(1)
    grid = Grid((16,), (1.0,))
    parameters, index = weights(net, 3), torch.tensor([2, 0, 2])
    taken = net.prepare(parameters, grid).take(index)
    u = states(3, 1, net, (16,))
    assert len(taken) == 3
    assert torch.equal(
        net.flow(taken, u, 0.1), net.flow(net.prepare(parameters[index], grid), u, 0.1)
    )


@pytest.mark.parametrize("ndim", [1, 2])
def test_on_a_periodic_grid_a_shift_by_sixteen_cells_commutes_with_the_flow(ndim: int) -> None:
    net = family(ndim)
    shape = (48,) if ndim == 1 else (32, 48)
    prepared = net.prepare(weights(net, 1), Grid(shape, (1.0,) * ndim))
    u = states(1, 1, net, shape)
    for axis in range(-ndim, 0):
        shifted = net.flow(prepared, u.roll(16, axis), 0.1)
        torch.testing.assert_close(shifted, net.flow(prepared, u, 0.1).roll(16, axis))
        one_cell = net.flow(prepared, u.roll(1, axis), 0.1).roll(-1, axis)
        assert float((one_cell - net.flow(prepared, u, 0.1)).abs().max()) > 1e-6


def test_a_wall_adds_one_channel_and_stops_the_field_from_wrapping_around() -> None:
    free, wall = family(1), family(1, boundary=("zero",))
    assert wall.n_parameters == free.n_parameters + wall.width
    grid = Grid((32,), (1.0,), "zero")
    prepared = wall.prepare(weights(wall, 1), grid)
    u = states(1, 1, wall, (32,))
    moved = wall.flow(prepared, u.roll(16, -1), 0.1).roll(-16, -1)
    assert float((moved - wall.flow(prepared, u, 0.1)).abs().max()) > 1e-6


@pytest.mark.parametrize("word", ["reflect", "zero"])
def test_the_kind_of_wall_matters(word: str) -> None:
    """The same weights on the same states give other flows beside another wall."""
    net = family(1, boundary=(word,))
    other = family(1, boundary=("zero" if word == "reflect" else "reflect",))
    parameters, u = weights(net, 1), states(1, 1, net, (32,))
    flows = [
        n.flow(n.prepare(parameters, Grid((32,), (1.0,), n.walls)), u, 0.1) for n in (net, other)
    ]
    assert float((flows[0] - flows[1]).abs().max()) > 1e-4


def test_only_cells_beside_a_wall_are_marked() -> None:
    net = family(2, boundary=("reflect", "periodic"))
    grid = Grid((16, 32), (1.0, 1.0), net.walls)
    mask = net._wall_mask(grid, torch.zeros((), dtype=torch.float64))
    assert mask.shape == (16, 32)
    assert bool((mask[[0, -1]] == 1).all())
    assert bool((mask[1:-1] == 0).all())


def test_a_flow_is_of_fourth_order_in_its_step(fitted_order: Callable[..., float]) -> None:
    grid, counts = Grid((16,), (1.0,)), (2, 4, 8)
    parameters = weights(family(1), 1)

    def after_one(steps: int) -> Tensor:
        net = family(1, max_step=1 / steps)
        return net.flow(net.prepare(parameters, grid), states(1, 1, net, (16,)), 1.0)

    best = after_one(64)
    errors = [float((after_one(n) - best).norm()) for n in counts]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(4, abs=0.7)


def test_a_long_flow_is_a_chain_of_flows_of_the_longest_step() -> None:
    net = family(1, max_step=0.1)
    prepared = net.prepare(weights(net, 1), Grid((16,), (1.0,)))
    u = states(1, 1, net, (16,))
    chained = net.flow(prepared, net.flow(prepared, u, 0.1), 0.1)
    torch.testing.assert_close(net.flow(prepared, u, 0.2), chained)
    assert net.evaluations(0.1) == 4
    assert net.evaluations(0.2) == 8
    assert net.evaluations(0.21) == 12


def test_a_duration_per_operator_equals_separate_calls() -> None:
    net = family(1)
    grid, durations = Grid((16,), (1.0,)), torch.tensor([0.3, 0.0, 1.0], dtype=torch.float64)
    parameters, u = weights(net, 3), states(3, 2, net, (16,))
    together = net.flow(net.prepare(parameters, grid), u, durations)
    for e, h in enumerate(durations.tolist()):
        alone = net.flow(net.prepare(parameters[e : e + 1], grid), u[e : e + 1], h)
        torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-12)
    assert torch.equal(together[1], u[1])


def test_double_precision_is_kept_and_single_agrees_with_it() -> None:
    net, grid = family(1), Grid((32,), (1.0,))
    parameters, u = weights(net, 1), states(1, 1, net, (32,))
    fine = net.flow(net.prepare(parameters, grid), u, 0.1)
    rough = net.flow(net.prepare(parameters.float(), grid), u.float(), 0.1)
    assert fine.dtype == torch.float64 and rough.dtype == torch.float32
    torch.testing.assert_close(rough.double(), fine, rtol=0, atol=1e-4)


def test_starting_weights_lie_within_their_bounds() -> None:
    begin = family(1).initialisation(torch.Generator().manual_seed(0))
    assert bool((begin.start.abs() < begin.bound).all())
    again = family(1).initialisation(torch.Generator().manual_seed(0))
    assert torch.equal(begin.start, again.start)


def test_a_family_is_built_again_from_its_configuration() -> None:
    net = family(2, channels=2, boundary=("zero", "periodic"), width=4, normalise_from=2)
    again = OperatorFamily.from_json(json.loads(json.dumps(net.to_json())))
    assert again == net and isinstance(again, UNet)
    assert again.layers() == net.layers()


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (Grid((24,), (1.0,)), r"multiple of 16 points, got \(24,\)"),
        (Grid((16, 16), (1.0, 1.0)), "act on 1-D fields, the data are 2-D"),
        (
            Grid((16,), (1.0,), "reflect"),
            "made for boundaries .*periodic.* the data have .*neumann",
        ),
    ],
)
def test_a_grid_it_cannot_act_on_is_refused_with_the_reason(grid: Grid, sentence: str) -> None:
    net = family(1)
    with pytest.raises(OpsplitError, match=sentence):
        net.prepare(torch.zeros(1, net.n_parameters), grid)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_gradient_of_the_padding_is_that_of_torch(ndim: int, n: int) -> None:
    net = family(ndim)
    x = torch.randn(2, 3, *[n] * ndim, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 3, *[n + 2] * ndim, dtype=torch.float64)
    wrapped = F.pad(x, (1, 1) * ndim, mode="circular")
    ours = torch.autograd.grad((net._pad(x) * weight).sum(), x)[0]
    theirs = torch.autograd.grad((wrapped * weight).sum(), x)[0]
    assert torch.equal(net._pad(x), wrapped)
    torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradgradcheck(lambda z: net._pad(z).square(), x)


def test_without_norms_at_full_resolution_a_network_sees_how_large_a_state_is() -> None:
    """What passes the finest level alone is scaled by norms, and seen as it is without them."""
    grid = Grid((16,), (1.0,))
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(1, 1, 1, 16, generator=generator)
    answers = {}
    for level in (0, 1):
        family = UNet(1, 1, 0.1, normalise_from=level)
        prepared = family.prepare(family.initialisation(generator).start[None], grid)
        # No bias, nothing from the coarser levels: a plain chain of layers at full resolution.
        for name in ("adapter_in.bias", "up0"):
            prepared.tensors[name].zero_()
        answers[level] = [family.rate(prepared, scale * state) for scale in (10.0, 30.0)]
    torch.testing.assert_close(*answers[0], rtol=1e-3, atol=1e-4)
    assert float((answers[1][0] - answers[1][1]).abs().max()) > 0.01


@pytest.mark.parametrize("ndim", [1, 2])
def test_norms_begin_at_the_level_that_is_asked_for(ndim: int) -> None:
    """A norm is where scaling the weights before it changes nothing."""
    shape = (32,) * ndim
    u = states(1, 1, family(ndim), shape)
    for level in range(5):
        net = family(ndim, normalise_from=level)
        theta = weights(net, 1)
        prepared = net.prepare(theta, Grid(shape, (1.0,) * ndim))
        before = net.rate(prepared, u)
        # A positive factor in front of the first norm of level 1.
        prepared.tensors["down0"].mul_(1e3)
        changed = float((net.rate(prepared, u) - before).abs().max())
        assert (changed > 1e-3) == (level > 1), (level, changed)


def test_missing_settings_are_taken_from_the_training_data() -> None:
    u = torch.zeros(3, 2, 16, 16)
    grid = Grid((16, 16), (1.0, 1.0), ("zero", "periodic"))
    made = UNet(width=4).fitted(Examples(u, u, grid, 0.2))
    assert made == UNet(2, 2, 0.2 * 1.001, ("zero", "periodic"), 4)
    assert UNet(max_step=0.05).fitted(Examples(u, u, grid, 0.2)).max_step == 0.05


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"width": 6}, "width must be a multiple of 4, got 6"),
        ({"width": 0}, "width must lie in 4..512, got 0"),
        ({"normalise_from": 5}, "normalise_from must lie in 0..4, got 5"),
        ({"normalise_from": True}, "normalise_from must be a whole number, got True"),
        ({"boundary": ("zero",), "ndim": 2}, "2 axes need as many boundaries"),
        ({"boundary": ("sticky",)}, "Unknown boundary 'sticky'"),
        ({"boundary": ("dirichlet=3",)}, "boundary must be one of periodic, neumann"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        UNet(**wrong)  # type: ignore[arg-type]


def test_what_is_not_in_the_paper_has_no_place_in_the_network() -> None:
    for name in ("steps", "band", "calm", "conserve", "power", "shifted", "stream", "centre"):
        with pytest.raises(OpsplitError, match="has no setting"):
            OperatorFamily.from_json({"kind": "unet", name: 1})
