"""A hypernetwork on 32 points, small enough to train in a test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opsplit.grid import Grid
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.operators import GatedProducts, Spectral, UNet
from opsplit.physics import AdvectionDiffusion


@pytest.fixture(scope="session")
def line() -> AdvectionDiffusion:
    """The equation on a coarse grid."""
    return AdvectionDiffusion(Grid((32,), (16.0,)))


@pytest.fixture(scope="session")
def small_model(line: AdvectionDiffusion) -> Callable[..., ModelConfig]:
    """The configuration of a small model; `environments` gives it a codebook."""

    def build(family: str = "spectral", environments: int = 0) -> ModelConfig:
        step = 1.001 * line.dt
        operators = {
            "spectral": Spectral(max_step=step, nonlinearity=GatedProducts()),
            "unet": UNet(max_step=step),
        }
        return ModelConfig(
            physics=line.name,
            recipe="codebook" if environments else "in-context",
            preset="tiny",
            channels=line.channels,
            dt=line.dt,
            grid=line.grid,
            coefficients=("c", "D"),
            environments=environments,
            encoder=EncoderConfig(width=8, blocks=1, heads=2, decoder_width=16, head_width=8),
            operator=operators[family],
        )

    return build
