"""Fields of a dealiased solver: the edge of their modes is seen, and operators keep to it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opsplit.dictionary import within_band
from opsplit.fourier import low_pass
from opsplit.grid import Grid
from opsplit.model import load_model
from opsplit.operators import BandLimited
from opsplit.predict.band import kept_share


def rough(shape: tuple[int, ...], seed: int, slope: float) -> torch.Tensor:
    """Random fields whose modes fall off smoothly, eight frames."""
    u = torch.randn(8, 1, *shape, dtype=torch.float64, generator=torch.manual_seed(seed))
    axes = tuple(range(2, u.ndim))
    decay = torch.ones(())
    for axis, n in enumerate(shape):
        m = torch.fft.fftfreq(n, 1 / n).abs().double()
        decay = decay * torch.exp(-slope * m).reshape(
            [-1 if a == axis else 1 for a in range(len(shape))]
        )
    return torch.fft.ifftn(torch.fft.fftn(u, dim=axes) * decay, dim=axes).real


@given(st.integers(0, 100), st.sampled_from([(64,), (32, 48), (20, 16, 24)]),
       st.floats(0.05, 0.5), st.sampled_from([0.5, 2 / 3]))  # fmt: skip
def test_the_edge_of_a_solver_is_found_and_smooth_fields_have_none(
    seed: int, shape: tuple[int, ...], slope: float, share: float
) -> None:
    grid = Grid(shape, (1.0,) * len(shape))
    u = rough(shape, seed, slope)
    assert kept_share([u], grid) is None
    cut = low_pass(u, grid, share)
    expected = max(int(share * (n // 2) + 1e-9) / (n // 2) for n in shape)
    assert kept_share([cut], grid) == pytest.approx(expected)
    assert kept_share([cut.float().double()], grid) == pytest.approx(expected)


@pytest.mark.parametrize("ndim", [1, 2])
def test_operators_stay_among_the_modes_of_the_solver(ndim: int) -> None:
    grid, share = Grid((32,) * ndim, (10.0,) * ndim), 0.5
    dictionary = (
        load_model("line").lift(ndim).dictionary if ndim > 1 else load_model("line").dictionary
    )
    frame = low_pass(rough(grid.shape, 3, 0.1), grid, share)[0].float()
    held = within_band(dictionary, grid, frame, share)
    assert len(held) == len(dictionary)
    ready = held.prepare(grid, frame)
    rates = ready.rates(torch.arange(len(held)), frame[None])
    beyond = (rates - low_pass(rates, grid, share)).flatten(1).norm(dim=1)
    assert bool((beyond <= 1e-5 * rates.flatten(1).norm(dim=1)).all())
    # Products leave it, so that all operators stay in it: nothing else would damp what grows there.
    assert all(isinstance(part.family, BandLimited) for part in held.parts)


def test_no_edge_where_noise_covers_the_end_of_the_modes() -> None:
    grid = Grid((128,), (1.0,))
    u = rough((128,), 5, 0.3)
    noisy = u + 1e-3 * u.std() * torch.randn(u.shape, generator=torch.manual_seed(1))
    assert kept_share([noisy], grid) is None
