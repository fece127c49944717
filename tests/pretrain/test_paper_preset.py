"""`--preset paper` is the paper's training, and it runs: a few steps for every equation."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from opsplit import load_model
from opsplit.cli import parse
from opsplit.commands.pretrain import Pretrain
from opsplit.grid import Grid
from opsplit.operators import UNet
from opsplit.physics import Combined, GrayScott, NavierStokes, Physics
from opsplit.pretrain.config import preset_operator, preset_settings

SMALL: dict[str, Physics] = {
    "combined": Combined(grid=Grid((32,), (16.0,)), frames=20),
    "gray-scott": GrayScott(grid=Grid((16, 16), (0.25, 0.25)), frames=20),
    "navier-stokes": NavierStokes(grid=Grid((16, 16), (2 * math.pi,) * 2), frames=20, fine=16),
}
PUBLISHED = {
    "advection-diffusion": (2, 300_000),
    "combined": (3, 300_000),
    "gray-scott": (2, 100_000),
    "navier-stokes": (4, 100_000),
}
"""Numbers in a code, and steps."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_settings_are_those_of_the_paper(name: str) -> None:
    stored = name in SMALL
    encoder, training = preset_settings("paper", stored, name)
    assert (encoder.code, training.budget.steps) == PUBLISHED[name]
    assert (encoder.width, encoder.blocks, encoder.heads, encoder.patch) == (128, 4, 4, 8)
    assert preset_operator("paper") == "unet"
    assert training.recipe == ("codebook" if stored else "in-context")
    book, optimiser = training.codebook, training.optimiser
    assert (book.share, book.momentum, book.by_gradient, book.start) == (0.5, 0.99, 0.0, "random")
    assert (optimiser.learning_rate, optimiser.weight_decay) == (3e-4, 1e-4)
    assert training.budget.minutes is None and training.measure == "field"
    assert not encoder.moments and training.batches.durations == (1.0,)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_command_has_these_settings(name: str) -> None:
    data = ["--data", "some.npz"] if name in SMALL else []
    command = parse(["pretrain", name, "--preset", "paper", *data])
    assert isinstance(command, Pretrain)
    chosen = vars(command)
    assert chosen["encoder"].code == PUBLISHED[name][0]
    assert chosen["training"].budget.steps == PUBLISHED[name][1]
    assert isinstance(chosen["operator"], UNet)


@pytest.mark.parametrize("name", SMALL)
def test_a_dry_run(name: str, tmp_path: Path) -> None:
    physics = SMALL[name]
    table = physics.environments()
    last = len(next(iter(table.values()))) - 1
    # One environment of the first and one of the last mechanism.
    parts = [physics.generate_environment(number, 2, seed=number) for number in (0, last)]
    data = torch.cat([p.data for p in parts])
    mu = {k: torch.cat([p.coefficients[k] for p in parts]) for k in parts[0].coefficients}
    parts[0].__class__(data, parts[0].times, physics.grid, physics.channels, mu).save(
        tmp_path / "data.npz"
    )
    flags = "--preset paper --steps 3 --training.optimiser.warm-up 1 --threads 1 --json "
    flags += "--training.batches.environments 2 --training.batches.states 2"
    line = f"pretrain {name} --data {tmp_path / 'data.npz'} --out {tmp_path / 'model'} {flags}"
    command = parse(line.split())
    command.run()
    model = load_model(tmp_path / "model")
    assert model.config.preset == "paper" and model.config.encoder.code == PUBLISHED[name][0]
    # Nothing is wrapped around the network.
    assert type(model.config.operator) is UNet
    assert len(model.dictionary) == model.config.environments == 2
    codes = model.dictionary.parts[0].codes
    assert codes.shape == (2, PUBLISHED[name][0])
    # Rows start small and random, and have followed the encoder for three steps: none is a
    # coefficient of its environment.
    known = torch.stack([v[[0, 2]] for v in mu.values()], 1)
    assert codes.abs().max() < 1
    assert not torch.isclose(codes[:, :, None].double(), known[:, None, :], atol=1e-6).any()


def test_a_dry_run_on_simulated_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--preset paper --steps 2 --training.optimiser.warm-up 1 --threads 1 --json "
    flags += "--training.batches.environments 2 --training.batches.states 2 "
    flags += "--training.dictionary.operators 3"
    parse(f"pretrain advection-diffusion --out {tmp_path / 'model'} {flags}".split()).run()
    model = load_model(tmp_path / "model")
    assert type(model.config.operator) is UNet
    assert model.config.recipe == "in-context" and len(model.dictionary) == 3
    assert model.dictionary.parts[0].codes.shape == (3, 2)
