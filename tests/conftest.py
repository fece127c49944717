"""Helpers shared by the tests: smooth fields, observed windows, exact operators, orders."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

# One thread each, also for programs that tests start: pytest already runs two processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from opsplit.cli import main
from opsplit.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.model import Model
from opsplit.operators import GatedProducts, UNet
from opsplit.physics import AdvectionDiffusion
from opsplit.pretrain.config import preset_settings
from opsplit.pretrain.extract import extract
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.run import pretrain
from opsplit.terms import Term

settings.register_profile(
    "opsplit", deadline=None, max_examples=20, derandomize=True, database=None
)
settings.load_profile("opsplit")

# A shell starts background jobs deaf to interrupts, and so are the programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

DT = 10 / 99


def nyquist(points: int) -> Tensor:
    return (torch.arange(points // 2 + 1) == points / 2).double()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does much else must not end a description early."""
    monkeypatch.setattr("opsplit.predict.describe.SECONDS", 3600.0)


@pytest.fixture(scope="session")
def smooth() -> Callable[..., Tensor]:
    """Random periodic fields `(*lead, *space)` with `modes` modes per axis, on any grid."""

    def draw(
        grid: Grid, lead: Sequence[int] = (), modes: int = 4, seed: int = 0, size: float = 1.0
    ) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        shape = (*lead, *(2 * modes + 1,) * grid.ndim)
        u = torch.randn(shape, generator=generator, dtype=torch.complex128)
        k = torch.arange(-modes, modes + 1, dtype=torch.float64)
        for n in grid.shape:
            # Every turn replaces the first mode axis by a space axis at the end.
            wave = torch.exp(2j * math.pi * k[:, None] * torch.arange(n) / n)
            u = torch.tensordot(u, wave, dims=([len(lead)], [0]))
        return size * u.real / (2 * modes + 1) ** grid.ndim

    return draw


@pytest.fixture(scope="session")
def observe() -> Callable[..., tuple[Tensor, Grid, float]]:
    """A window `(time, 1, x)` of the exact advection-diffusion solution, its grid and its dt."""

    def draw(
        c: float, D: float, frames: int = 9, points: int = 32, seed: int = 0
    ) -> tuple[Tensor, Grid, float]:
        physics = AdvectionDiffusion(Grid((points,), (16.0,)))
        initial = physics.initial_fields(1, torch.Generator().manual_seed(seed), "A+D")
        # The mode at half the sampling rate has no direction: half steps do not add up on it.
        initial = initial - torch.fft.irfft(torch.fft.rfft(initial) * nyquist(points), n=points)
        times = torch.arange(frames, dtype=torch.float64) * DT
        mu = {k: torch.tensor([v], dtype=torch.float64) for k, v in (("c", c), ("D", D))}
        return physics.solve(initial, mu, times)[0], physics.grid, DT

    return draw


@pytest.fixture(scope="session")
def exact() -> Callable[..., OperatorDictionary]:
    """A dictionary of exact flows in one dimension: advections, then diffusions."""

    def build(c: Sequence[float], D: Sequence[float]) -> OperatorDictionary:
        terms = [{"advection": x} for x in c] + [{"diffusion": x} for x in D]
        known = {"c": [*c, *(0.0 for _ in D)], "D": [*(0.0 for _ in c), *D]}
        found = OperatorDictionary.analytic(1, 1, terms, known)
        return replace(found, terms={"c": Term("-u_x"), "D": Term("u_xx")})

    return build


@pytest.fixture(scope="session")
def mixed() -> Callable[..., OperatorDictionary]:
    """Six random operators of two families that do not commute, and that flow by RK4 in part."""

    def build(seed: int) -> OperatorDictionary:
        draw = torch.rand(6, generator=torch.Generator().manual_seed(seed)).tolist()
        dictionary = OperatorDictionary.analytic(
            1,
            1,
            [{"advection": draw[0]}, {"diffusion": draw[1]}, {"reaction": draw[2] - 0.5}],
            {"c": [draw[0], 0, 0], "D": [0, draw[1], 0]},
        )

        def well(u: Tensor) -> Tensor:
            return draw[3] * u * torch.linspace(-1, 1, u.shape[-1], dtype=u.dtype)

        def steepen(u: Tensor) -> Tensor:
            return draw[4] * u * (u.roll(1, -1) - u.roll(-1, -1))

        return dictionary.add(well).add(steepen).add(lambda u: draw[5] * (u - u**3))

    return build


@pytest.fixture(scope="session")
def fitted_order() -> Callable[[Sequence[float], Sequence[float]], float]:
    """Slope of log(error) against log(step)."""

    def slope(steps: Sequence[float], errors: Sequence[float]) -> float:
        x, y = (torch.tensor(v, dtype=torch.float64).log() for v in (steps, errors))
        x = x - x.mean()
        return float((x * y).sum() / x.square().sum())

    return slope


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory of the spectral family after seconds of training."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    training = preset_settings("tiny")[1]
    training = replace(training, budget=replace(training.budget, steps=100, validate_every=100))
    quiet = Execution(threads=1, quiet=True)
    pretrain(
        "advection-diffusion",
        folder,
        operator=GatedProducts(copies=2),
        training=training,
        preset="tiny",
        execution=quiet,
    )
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Path) -> Model:
    return Model.load(tiny_folder)


@pytest.fixture(scope="session")
def unet_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory of the unet family as it is before training, with four operators."""
    physics = AdvectionDiffusion()
    config = ModelConfig(
        physics=physics.name,
        recipe="in-context",
        preset="tiny",
        channels=physics.channels,
        dt=physics.dt,
        grid=physics.grid,
        coefficients=("c", "D"),
        rescale=True,
        encoder=replace(preset_settings("tiny")[0], head_width=4),
        operator=UNet(max_step=1.001 * physics.dt),
    )
    disco = Disco(config).eval().requires_grad_(False)
    dictionary = extract(disco, physics.dictionary_trajectories("train", 4, seed=0))
    return Model(disco, dictionary).save(tmp_path_factory.mktemp("models") / "unet")


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Runs a command line in an empty folder and returns what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        monkeypatch.setattr(sys, "argv", ["opsplit", *line.split()])
        capsys.readouterr()
        main()
        return capsys.readouterr().out

    return run
