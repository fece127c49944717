"""The errors that tables show, against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.metrics import nrmse, nrmse_per_channel, nrmse_per_frame, vrmse

SHAPES = [(3, 4, 2, 8), (3, 4, 2, 5, 6), (3, 4, 2, 3, 4, 5)]


def fields(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    predicted, truth = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    return predicted, truth


@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_is_the_ratio_of_norms_over_all_of_a_trajectory(shape: tuple[int, ...]) -> None:
    predicted, truth = fields(shape)
    for i, error in enumerate(nrmse(predicted, truth).tolist()):
        gap = math.sqrt(sum(x**2 for x in (predicted[i] - truth[i]).flatten().tolist()))
        size = math.sqrt(sum(x**2 for x in truth[i].flatten().tolist()))
        assert error == pytest.approx(gap / size)


@pytest.mark.parametrize("shape", SHAPES)
def test_per_frame_and_per_channel_errors_are_those_of_the_slices(shape: tuple[int, ...]) -> None:
    predicted, truth = fields(shape)
    by_frame, by_channel = nrmse_per_frame(predicted, truth), nrmse_per_channel(predicted, truth)
    assert by_frame.shape == (3, 4) and by_channel.shape == (3, 2)
    for t in range(4):
        slices = predicted[:, t : t + 1], truth[:, t : t + 1]
        torch.testing.assert_close(by_frame[:, t], nrmse(*slices))
    for c in range(2):
        slices = predicted[:, :, c : c + 1], truth[:, :, c : c + 1]
        torch.testing.assert_close(by_channel[:, c], nrmse(*slices))


def test_frame_errors_weighted_by_size_make_up_the_whole() -> None:
    predicted, truth = fields(SHAPES[0])
    weight = truth.square().sum((2, 3))
    whole = ((nrmse_per_frame(predicted, truth) ** 2 * weight).sum(1) / weight.sum(1)).sqrt()
    torch.testing.assert_close(whole, nrmse(predicted, truth))


@given(
    factor=st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3),
    seed=st.integers(0, 99),
)
def test_errors_do_not_depend_on_the_unit_of_the_field(factor: float, seed: int) -> None:
    predicted, truth = fields(SHAPES[0], seed)
    for metric in (nrmse, nrmse_per_frame, nrmse_per_channel):
        torch.testing.assert_close(
            metric(factor * predicted, factor * truth), metric(predicted, truth)
        )


@pytest.mark.parametrize("metric", [nrmse, nrmse_per_frame, nrmse_per_channel, vrmse])
def test_a_perfect_forecast_has_no_error_and_zero_has_a_known_one(metric) -> None:  # type: ignore[no-untyped-def]
    _, truth = fields(SHAPES[1])
    assert float(metric(truth, truth).abs().max()) == 0
    if metric is not vrmse:
        nothing = metric(torch.zeros_like(truth), truth)
        torch.testing.assert_close(nothing, torch.ones_like(nothing))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_variance_scaled_error_of_the_mean_is_one(shape: tuple[int, ...]) -> None:
    _, truth = fields(shape)
    dims = tuple(range(3, truth.ndim))
    mean = truth.mean(dims, keepdim=True).expand_as(truth)
    torch.testing.assert_close(vrmse(mean, truth, epsilon=0.0), torch.ones(3, dtype=torch.float64))


@given(shift=st.floats(-50, 50), seed=st.integers(0, 99))
def test_the_variance_scaled_error_ignores_a_common_shift(shift: float, seed: int) -> None:
    predicted, truth = fields(SHAPES[0], seed)
    torch.testing.assert_close(vrmse(predicted + shift, truth + shift), vrmse(predicted, truth))


def test_the_variance_scaled_error_is_the_mean_over_frames_and_channels() -> None:
    predicted, truth = fields(SHAPES[0])
    expected = torch.zeros(3, dtype=torch.float64)
    for t in range(4):
        for c in range(2):
            u, v = truth[:, t, c], predicted[:, t, c]
            spread = (u - u.mean(1, keepdim=True)).square().mean(1)
            expected += ((u - v).square().mean(1) / (spread + 1e-7)).sqrt() / 8
    torch.testing.assert_close(vrmse(predicted, truth), expected)


def test_a_field_of_zeros_that_is_met_exactly_has_no_error() -> None:
    zero = torch.zeros(1, 2, 1, 4)
    assert nrmse(zero, zero).tolist() == [0]
    assert nrmse_per_frame(zero, zero).tolist() == [[0, 0]]


def test_a_forecast_that_diverged_has_no_finite_error() -> None:
    predicted, truth = fields(SHAPES[0])
    predicted[1, 2:] = torch.nan
    error = nrmse(predicted, truth)
    assert error.isnan().tolist() == [False, True, False]
    assert nrmse_per_frame(predicted, truth).isnan().sum(1).tolist() == [0, 2, 0]
