"""Models on data with more axes than they were trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from opsplit import Grid, OperatorSplitter, OpsplitError, OpsplitWarning, Trajectories
from opsplit.dictionary import OperatorDictionary
from opsplit.fourier import resample, wavenumbers
from opsplit.model import Model, load_config, locate
from opsplit.predict.compatibility import Code, compatibility
from opsplit.predict.door import observe

DT = 0.1


def plane(c: tuple[float, float], diffusivity: float, frames: int) -> Trajectories:
    """Exact advection and diffusion on a rectangle."""
    grid = Grid((24, 16), (16.0, 12.0))
    generator = torch.Generator().manual_seed(3)
    few = torch.randn(1, 1, 5, 5, generator=generator, dtype=torch.float64)
    kx, ky = wavenumbers(grid)
    symbol = -1j * (c[0] * kx + c[1] * ky) - diffusivity * (kx**2 + ky**2)
    start = torch.fft.rfft2(resample(few, grid.shape))
    times = DT * torch.arange(frames, dtype=torch.float64)
    modes = start[:, None] * torch.exp(symbol * times[:, None, None, None])
    data = torch.fft.irfft2(modes, s=grid.shape).float()
    return Trajectories(data, times, grid, ("u",), {})


def exact() -> OperatorDictionary:
    terms = [{"advection": 1.0}, {"advection": -1.0}, {"diffusion": 1.0}]
    return OperatorDictionary.analytic(1, 1, terms, {"c": [1, -1, 0], "D": [0, 0, 1]})


@pytest.fixture
def line(tiny_model: Model) -> Model:
    """A model of exact operators on a line."""
    return Model(tiny_model.disco, exact())


def test_a_model_of_lines_explains_planes_and_says_so(line: Model) -> None:
    whole = plane((0.5, -0.2), 0.3, 20)
    with pytest.warns(OpsplitWarning, match="trained on 1-D fields"):
        fitted = OperatorSplitter(line).fit(whole.data[0, :12], DT, whole.grid.extent)
    assert Code.LIFTED in [issue.code for issue in fitted.issues_]
    expected = {"c_x": 0.5, "c_y": -0.2, "D": 0.3}
    assert fitted.coefficients_ == pytest.approx(expected, rel=1e-3)
    truth = whole.data[0, 12:]
    found = fitted.predict(8)
    assert float((found - truth).norm() / truth.norm()) < 1e-3
    assert fitted.coefficient_intervals_ == {}


def test_arrays_with_more_axes_are_read_by_their_channels(tiny_model: Model) -> None:
    config = tiny_model.config
    for shape, ndim in {
        (9, 24, 16): 2,
        (9, 1, 16): 1,
        (2, 9, 1, 16): 1,
        (9, 1, 24, 16): 2,
        (9, 8, 8, 8): 3,
        (9, 2, 16): 1,
    }.items():
        assert observe(np.random.rand(*shape), config).grid.ndim == ndim


def test_a_lifted_model_reads_no_operator_and_is_not_saved(line: Model, tmp_path: str) -> None:
    lifted = line.lift(2)
    assert lifted.config.ndim == 2 and lifted.calibration is None
    with pytest.raises(OpsplitError, match="reads 1-D fields only"):
        lifted.read(torch.zeros(16, 1, 64, 64))
    with pytest.raises(OpsplitError, match="not saved"):
        lifted.save(tmp_path)


def test_compatibility_notes_more_axes_and_refuses_fewer() -> None:
    config = load_config(locate("advection-diffusion"))
    (first, *_) = compatibility(config, plane((1.0, 0.0), 0.1, 4))
    assert first.code is Code.LIFTED and not first.blocks
    flow = load_config(locate("navier-stokes"))
    space = Trajectories(
        torch.rand(1, 4, 1, 8, 8, 8), torch.arange(4.0), Grid((8,) * 3, (1.0,) * 3)
    )
    assert compatibility(flow, space)[0].code is Code.NDIM
