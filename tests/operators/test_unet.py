"""The paper's family: sizes, a plain reference written anew, batches, walls and time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.integrators import rk4
from opsplit.operators import UNet
from opsplit.operators.unet import STAGE_SHIFTS

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
    for name, (shape, _) in net.layers.items():
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
    expected = rk4(
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
        n.flow(n.prepare(parameters, Grid((32,), (1.0,), n.boundary)), u, 0.1) for n in (net, other)
    ]
    assert float((flows[0] - flows[1]).abs().max()) > 1e-4


def test_only_cells_beside_a_wall_are_marked() -> None:
    net = family(2, boundary=("reflect", "periodic"))
    grid = Grid((16, 32), (1.0, 1.0), net.boundary)
    mask = net._wall_mask(grid, torch.zeros((), dtype=torch.float64))
    assert mask.shape == (16, 32)
    assert bool((mask[[0, -1]] == 1).all())
    assert bool((mask[1:-1] == 0).all())


def test_a_flow_is_of_fourth_order_in_its_step(fitted_order: Callable[..., float]) -> None:
    grid, counts = Grid((16,), (1.0,)), (2, 4, 8)
    parameters = weights(family(1), 1)

    def after_one(steps: int) -> Tensor:
        net = family(1, steps=steps)
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
    net = family(2, channels=2, boundary=("zero", "periodic"), width=4, steps=2)
    again = UNet(**net.config())
    assert again.config() == net.config()
    assert again.layers == net.layers


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (Grid((24,), (1.0,)), r"multiple of 16 points, got \(24,\)"),
        (Grid((16, 16), (1.0, 1.0)), "act on 1-D fields, the data are 2-D"),
        (
            Grid((16,), (1.0,), "reflect"),
            "made for boundaries .*periodic.* the data have .*reflect",
        ),
    ],
)
def test_a_grid_it_cannot_act_on_is_refused_with_the_reason(grid: Grid, sentence: str) -> None:
    net = family(1)
    with pytest.raises(OpsplitError, match=sentence):
        net.prepare(torch.zeros(1, net.n_parameters), grid)


@pytest.mark.parametrize("ndim", [1, 2])
def test_a_flow_changes_nothing_beyond_its_band(ndim: int) -> None:
    shape = SHAPES[ndim]
    whole, half = family(ndim), family(ndim, band=0.5)
    parameters, u = weights(whole, 2), states(2, 3, whole, shape)
    grid = Grid(shape, (1.0,) * ndim)
    after, banded = (f.flow(f.prepare(parameters, grid), u, 1.0) for f in (whole, half))
    axes = tuple(range(-ndim, 0))
    low = torch.ones(shape, dtype=torch.bool)
    for axis, n in enumerate(shape):
        number = torch.fft.fftfreq(n, 1 / n).abs() <= n / 4
        low &= number.reshape([-1 if i == axis else 1 for i in range(ndim)])
    changes = [torch.fft.fftn(x - u, dim=axes) for x in (after, banded)]
    torch.testing.assert_close(changes[1], changes[0] * low)
    rates = [f.rate(f.prepare(parameters, grid), u) for f in (whole, half)]
    spectra = [torch.fft.fftn(x, dim=axes) for x in rates]
    torch.testing.assert_close(spectra[1], spectra[0] * low)


@pytest.mark.parametrize("band", [0.0, -1.0, 1.5])
def test_an_impossible_band_is_refused(band: float) -> None:
    with pytest.raises(OpsplitError, match="share of the modes"):
        family(1, band=band)


def test_a_standardised_network_sees_and_moves_in_usual_units() -> None:
    usual = {"centre": [1.0, -2.0], "spread": [0.5, 3.0], "pace": [0.1, 0.02]}
    plain, net = family(1, 2), family(1, 2, **usual)
    theta, u = weights(plain, 3), states(3, 2, plain, (16,))
    centre, spread, pace = (torch.tensor(v).double()[:, None] for v in usual.values())
    grid = Grid((16,), (1.0,))
    expected = pace * plain.rate(plain.prepare(theta, grid), (u - centre) / spread)
    torch.testing.assert_close(net.rate(net.prepare(theta, grid), u), expected)
    with pytest.raises(OpsplitError, match="pace needs one number for each of 2 channels"):
        family(1, 2, pace=[1.0])


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


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_conserving_flow_keeps_the_mean_and_changes_nothing_else(ndim: int) -> None:
    free, keeping = family(ndim, 2), family(ndim, 2, conserve=True)
    parameters, grid = weights(free, 3), Grid(SHAPES[ndim], (1.0,) * ndim)
    u = states(3, 2, free, SHAPES[ndim])
    space = tuple(range(-ndim, 0))
    rates = [net.rate(net.prepare(parameters, grid), u) for net in (free, keeping)]
    torch.testing.assert_close(rates[1], rates[0] - rates[0].mean(space, keepdim=True))
    after = keeping.flow(keeping.prepare(parameters, grid), u, 0.7)
    torch.testing.assert_close(after.mean(space), u.mean(space), rtol=0, atol=1e-12)
    assert float((after - u).abs().max()) > 1e-3


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("power", [1.0, 2.0, "learned"])
def test_larger_states_change_faster_by_the_power(ndim: int, power: float | str) -> None:
    free, scaling = family(ndim, 2), family(ndim, 2, power=power)
    grid = Grid(SHAPES[ndim], (1.0,) * ndim)
    u = states(3, 2, free, SHAPES[ndim])
    parameters, own = weights(free, 3), torch.tensor([1.0, 1.5, 2.0], dtype=u.dtype)
    powers = own if power == "learned" else torch.full_like(own, float(power))
    all_of_them = torch.cat([parameters, own[:, None]], 1) if power == "learned" else parameters
    prepared = scaling.prepare(all_of_them, grid)
    per_state = (3, 1, *[1] * (ndim + 1))
    for size in (1e-3, 40.0):
        expected = scaling.rate(prepared, u) * (size**powers).reshape(per_state)
        torch.testing.assert_close(scaling.rate(prepared, size * u), expected, rtol=1e-9, atol=0)
    # On states of size one it is the network itself; nothing stays nothing.
    unit = u / u.square().mean(tuple(range(2, u.ndim)), keepdim=True).sqrt()
    network = free.rate(free.prepare(parameters, grid), unit)
    torch.testing.assert_close(scaling.rate(prepared, unit), network)
    assert not scaling.flow(prepared, 0 * u, 0.7).abs().max() > 1e-5


def test_a_flow_of_power_one_is_homogeneous_too() -> None:
    net = family(1, 2, power=1.0, shifted=True)
    prepared, u = (
        net.prepare(weights(net, 3), Grid(SHAPES[1], (1.0,))),
        states(3, 2, net, SHAPES[1]),
    )
    one, seven = net.flow(prepared, u, 0.7), net.flow(prepared, 7 * u, 0.7)
    torch.testing.assert_close(seven, 7 * one, rtol=1e-9, atol=1e-12)


def test_an_unknown_power_is_refused() -> None:
    with pytest.raises(OpsplitError, match="learned"):
        family(1, 1, power="two")


@pytest.mark.parametrize("period", [2, 4, 8, 16])
def test_shifts_of_the_stages_cancel_patterns_of_the_grid(period: int) -> None:
    stage_weights = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    angles = 2 * torch.pi * torch.tensor(STAGE_SHIFTS) / period
    left = (stage_weights * torch.polar(torch.ones(4), angles)).sum().abs()
    assert float(left) < 0.36


@pytest.mark.parametrize("ndim", [1, 2])
def test_shifted_stages_change_a_flow_only_by_how_it_is_tied_to_its_grid(ndim: int) -> None:
    shape = tuple(2 * n for n in SHAPES[ndim])
    grid = Grid(shape, (1.0,) * ndim)
    plain, shifted = family(ndim, 1), family(ndim, 1, shifted=True)
    parameters = weights(plain, 2)
    u = states(2, 3, plain, shape)
    one, other = (f.flow(f.prepare(parameters, grid), u, 1e-3) for f in (plain, shifted))
    assert 0 < float((one - other).norm()) < float((one - u).norm())
    # A network on shifted grids is still one network: shifts of the grid's period change nothing.
    axes = tuple(range(-ndim, 0))
    moved = shifted.flow(shifted.prepare(parameters, grid), u.roll([16] * ndim, axes), 1e-3)
    torch.testing.assert_close(moved, other.roll([16] * ndim, axes))


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_calm_flow_raises_no_upper_mode_and_leaves_the_lower_ones(ndim: int) -> None:
    free, calm = family(ndim, 2), family(ndim, 2, calm=0.5)
    parameters, grid = 2 * weights(free, 3), Grid(SHAPES[ndim], (1.0,) * ndim)
    u = states(3, 2, free, SHAPES[ndim])
    axes = tuple(range(-ndim, 0))
    loose, held = (f.flow(f.prepare(parameters, grid), u, 0.7) for f in (free, calm))
    before, loosely, after = (torch.fft.fftn(x, dim=axes) for x in (u, loose, held))
    shares = [torch.fft.fftfreq(n, dtype=u.dtype).abs() * 2 for n in SHAPES[ndim]]
    upper = torch.stack(torch.meshgrid(*shares, indexing="ij")).amax(0) > 0.5
    assert bool((after.abs() <= before.abs() * (1 + 1e-9))[..., upper].all())
    assert bool((loosely.abs() > before.abs())[..., upper].any())
    torch.testing.assert_close(after[..., ~upper], loosely[..., ~upper])
    # What had not grown is as it was.
    fine = loosely.abs() <= before.abs()
    torch.testing.assert_close(after[fine], loosely[fine])


def test_calm_needs_periodic_axes() -> None:
    with pytest.raises(OpsplitError, match="periodic axes"):
        family(2, 1, calm=0.5, boundary=("periodic", "zero"))


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("shifted", [True, False])
def test_a_rate_is_the_beginning_of_a_flow(ndim: int, shifted: bool) -> None:
    shape = tuple(2 * n for n in SHAPES[ndim])
    net = family(ndim, 1, shifted=shifted, power=1.0, pace=[2.0])
    prepared, u = net.prepare(weights(net, 2), Grid(shape, (1.0,) * ndim)), states(2, 3, net, shape)
    begun = (net.flow(prepared, u, 1e-6) - u) / 1e-6
    torch.testing.assert_close(net.rate(prepared, u), begun, rtol=1e-3, atol=1e-4)
    assert net.rate_evaluations == (4 if shifted else 1)


@pytest.mark.parametrize("ndim", [1, 2])
def test_the_network_sees_the_gradient_of_the_inverse_laplacian(ndim: int) -> None:
    family = UNet(1, ndim, max_step=0.1, stream=3.0)
    grid = Grid((16,) * ndim, (2 * torch.pi,) * ndim)
    x = grid.axes()[0].reshape(-1, *[1] * (ndim - 1)).expand(grid.shape)
    state = (5 + torch.sin(2 * x)).expand(1, 1, 1, *grid.shape)
    slopes = family._stream_gradient(state, grid)
    # The inverse Laplacian of sin(2x) is -sin(2x) / 4; a mean has none.
    torch.testing.assert_close(slopes[0, 0, 0], 3 * -torch.cos(2 * x) / 2)
    for other in slopes[0, 0, 1:]:
        torch.testing.assert_close(other, torch.zeros_like(other))


def test_the_inverse_laplacian_matters_to_the_rate_and_needs_periodic_axes() -> None:
    plain, seeing = UNet(1, 2, max_step=0.1), UNet(1, 2, max_step=0.1, stream=3.0)
    grid = Grid((16, 16), (1.0, 1.0))
    generator = torch.Generator().manual_seed(0)
    start = seeing.initialisation(generator).start
    state = torch.randn(1, 2, 1, 16, 16, generator=generator)
    with_it = seeing.rate(seeing.prepare(start[None], grid), state)
    without = plain.rate(plain.prepare(start[None, : plain.n_parameters], grid), state)
    assert not torch.allclose(with_it, without)
    blind = start.clone()
    blind[plain.n_parameters :] = 0
    torch.testing.assert_close(seeing.rate(seeing.prepare(blind[None], grid), state), without)
    with pytest.raises(OpsplitError, match="periodic"):
        UNet(1, 1, max_step=0.1, boundary=("zero",), stream=3.0)


def test_without_norms_at_full_resolution_a_network_sees_how_large_a_state_is() -> None:
    """What passes the finest level alone is scaled by norms, and seen as it is without them."""
    grid = Grid((16,), (1.0,))
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(1, 1, 1, 16, generator=generator)
    answers = {}
    for normalise in ("all", "coarse"):
        family = UNet(1, 1, max_step=0.1, normalise=normalise)  # type: ignore[arg-type]
        prepared = family.prepare(family.initialisation(generator).start[None], grid)
        # No bias, nothing from the coarser levels: a plain chain of layers at full resolution.
        for name in ("adapter_in.bias", "up0"):
            prepared.tensors[name].zero_()
        answers[normalise] = [family.rate(prepared, scale * state) for scale in (10.0, 30.0)]
    torch.testing.assert_close(*answers["all"], rtol=1e-3, atol=1e-4)
    assert float((answers["coarse"][0] - answers["coarse"][1]).abs().max()) > 0.01
    with pytest.raises(OpsplitError, match="'all' or 'coarse'"):
        UNet(1, 1, max_step=0.1, normalise="none")  # type: ignore[arg-type]
