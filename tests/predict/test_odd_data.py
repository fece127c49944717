"""Data that must not look right: noise, extreme numbers, masks, little memory, stillness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import opsplit
from opsplit import OperatorSplitter
from opsplit.errors import OpsplitError, no_warnings
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.compatibility import Code
from opsplit.predict.verdict import Level

DT = 10 / 99
TRUE = {"c": 0.5, "D": 0.25}


def window() -> np.ndarray:
    physics = AdvectionDiffusion()
    initial = physics.initial_fields(1, torch.Generator().manual_seed(3), "A+D")
    mu = {k: torch.tensor([v]).double() for k, v in TRUE.items()}
    return physics.solve(initial, mu, torch.arange(16).double() * DT)[0, :, 0].numpy()


def fitted(u: Any, **more: Any) -> OperatorSplitter:
    with no_warnings():
        return OperatorSplitter("advection-diffusion", **more).fit(u, DT, 16.0)


@pytest.mark.parametrize("points", [64, 512])
def test_white_noise_is_not_explained(points: int) -> None:
    noise = np.random.default_rng(0).standard_normal((16, points))
    found = fitted(noise)
    assert found.verdict_.level is Level.UNEXPLAINED
    assert found.coefficient_intervals_ == {} and found.forecast(2).status == "unexplained"


@pytest.mark.parametrize("points", [64, 256])
def test_a_random_walk_is_not_explained(points: int) -> None:
    """Its steps look like noise that was measured, which is not held against a fit."""
    walk = np.random.default_rng(1).standard_normal((20, points)).cumsum(0)
    found = fitted(walk[:16])
    assert found.verdict_.level is Level.UNEXPLAINED
    last, after = (torch.from_numpy(walk[part]).float() for part in (slice(15, 16), slice(16, 20)))
    ahead = found.forecast(4).frames.float()
    told = found.verdict_.on_future(ahead, after[:, None], last)
    assert told.level is Level.UNEXPLAINED


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_numbers_are_read(dtype: torch.dtype) -> None:
    given = torch.from_numpy(window()).to(dtype)
    future = fitted(given).predict(2)
    assert future.dtype is dtype and bool(future.isfinite().all())
    assert opsplit.read(given, dt=DT).frames().dtype == np.float32


@pytest.mark.parametrize("kind", ["sparse", "meta"])
def test_tensors_that_are_not_plain_numbers_are_refused(kind: str) -> None:
    u = torch.from_numpy(window()).float()
    given = u.to_sparse() if kind == "sparse" else u.to("meta")
    for use in (fitted, lambda v: opsplit.read(v, dt=DT)):
        with pytest.raises(OpsplitError, match="dense tensor"):
            use(given)


@pytest.mark.parametrize("size", [1e-200, 1e300])
def test_extreme_amplitudes_are_only_units(size: float) -> None:
    plain, extreme = fitted(window()), fitted(size * window())
    assert extreme.coefficients_ == pytest.approx(plain.coefficients_, rel=1e-3)
    np.testing.assert_allclose(extreme.predict(2) / size, plain.predict(2), rtol=1e-3, atol=1e-4)


def test_single_precision_near_its_limit() -> None:
    u = window()
    large = (u * (1e38 / abs(u).max())).astype(np.float32)
    found = fitted(large)
    assert found.status_ == "explained" and np.isfinite(found.predict(3)).all()
    assert found.coefficients_ == pytest.approx(TRUE, rel=0.02)


def test_a_masked_frame_is_missing_and_a_masked_point_is_filled() -> None:
    u = np.ma.masked_array(window())
    u.data[5] = 77.0
    u[5] = np.ma.masked
    assert fitted(u).coefficients_ == pytest.approx(TRUE, rel=0.02)
    holes = np.ma.masked_array(window())
    holes[5, 3] = np.ma.masked
    found = fitted(holes)
    assert found.coefficients_ == pytest.approx(TRUE, rel=0.02)
    assert Code.HOLES in {i.code for i in found.issues_}
    assert "1 values were missing and are filled" in " ".join(found.notes_)


def test_frames_with_many_missing_values_are_left_out() -> None:
    u = window()
    u[[4, 9], :100] = np.nan
    found = fitted(u)
    assert found.coefficients_ == pytest.approx(TRUE, rel=0.02)
    assert (
        "2 frames with more than 5 % missing values, or with wide holes, are left out"
        in " ".join(found.notes_)
    )
    u[:, :100] = np.nan
    with pytest.raises(OpsplitError, match=r"fewer than 2 frames are there\. 16 frames with more"):
        fitted(u)


def test_a_memory_limit_that_leaves_frames_out_is_said() -> None:
    assert Code.MEMORY not in {i.code for i in fitted(window()).issues_}
    with no_warnings():
        tight = OperatorSplitter("line", memory_mb=2.0).fit(window(), DT, 16.0)
    assert any("of 16 frames" in i.text for i in tight.issues_ if i.code is Code.MEMORY)
    assert {k: tight.coefficients_[k] for k in TRUE} == pytest.approx(TRUE, rel=0.02)


def test_frames_at_rest_have_no_interval() -> None:
    still = fitted(np.tile(window()[:1], (16, 1)))
    assert Code.STILL in {i.code for i in still.issues_}
    assert still.coefficient_intervals_ == {}
