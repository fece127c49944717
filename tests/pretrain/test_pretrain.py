"""The whole stage: any data, any operator, the same result from Python, flags and files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import opsplit
import opsplit.cli
from opsplit.errors import OpsplitError, OpsplitWarning
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.operators import (
    BandLimited,
    GatedProducts,
    Homogeneous,
    OperatorFamily,
    Polynomial,
    ShiftedStages,
    Spectral,
    UNet,
)
from opsplit.physics import AdvectionDiffusion
from opsplit.pretrain.config import Codebook, TrainConfig, preset_settings
from opsplit.pretrain.files import read_toml
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.operator import chosen
from opsplit.pretrain.run import pretrain
from opsplit.trajectories import Trajectories

QUIET = Execution(threads=1, quiet=True)
Cli = Callable[[str], str]


@pytest.fixture(scope="module")
def stored() -> Trajectories:
    """Two trajectories of each of three dynamics."""
    made = AdvectionDiffusion(Grid((32,), (16.0,))).generate("train", 6, seed=0, frames=20)
    mu = {name: v[[0, 0, 1, 1, 2, 2]] for name, v in made.coefficients.items()}
    return replace(made, coefficients=mu)


def quick(stored: bool = True, **changes: Any) -> TrainConfig:
    """Two steps of the smallest preset."""
    usual = preset_settings("tiny", stored)[1]
    budget = replace(usual.budget, steps=2)
    batches = replace(usual.batches, environments=2, states=2)
    return replace(usual, budget=budget, batches=batches, **changes)


def made(data: Any, folder: Path, operator: Any = "spectral", **more: Any) -> Model:
    settings = {"training": quick(), "preset": "tiny", "execution": QUIET} | more
    return pretrain(data, folder, operator=operator, **settings)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "resume.safetensors")


def same(one: Path, other: Path) -> bool:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


def test_names_do_not_matter(stored: Trajectories, tmp_path: Path) -> None:
    """No setting follows from the name of an equation."""
    for name in ("mine", "gray-scott", "combined"):
        made(stored, tmp_path / name, Polynomial(degree=2), name=name)
        assert same(tmp_path / name, tmp_path / "mine")
        assert Model.load(tmp_path / name).config.physics == name


def test_trajectories_recordings_and_files_are_one(stored: Trajectories, tmp_path: Path) -> None:
    file = stored.save(tmp_path / "stored.npz")
    kinds = {"memory": stored, "recording": opsplit.read(file), "path": file, "text": str(file)}
    for name, data in kinds.items():
        made(data, tmp_path / name)
        assert same(tmp_path / name, tmp_path / "memory")


def test_netcdf_and_plain_arrays_train(stored: Trajectories, tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    import numpy as np

    stored.to_xarray().to_netcdf(tmp_path / "stored.nc", engine="h5netcdf")
    np.savez(tmp_path / "plain.npz", u=stored.data[:, :, 0].numpy())
    small = "--preset tiny --steps 2 --training.batches.environments 2 --threads 1"
    cli(f"pretrain mine --data stored.nc {small} --out nc")
    model = Model.load(tmp_path / "nc")
    assert len(model.dictionary) == 3
    assert model.config.dt == pytest.approx(stored.dt)
    with pytest.warns(OpsplitWarning, match="does not say how long its axes are"):
        cli(f"pretrain mine --data plain.npz --axes n,t,x --dt 0.1 {small} --out plain")
    assert len(Model.load(tmp_path / "plain").dictionary) == 6
    with pytest.raises(SystemExit):
        cli(f"pretrain mine --data plain.npz --axes n,t,x {small} --out none")


def test_an_equation_and_its_name_are_one(tmp_path: Path) -> None:
    training = quick(stored=False)
    for name, data in {"value": AdvectionDiffusion(), "name": "advection-diffusion"}.items():
        made(data, tmp_path / name, GatedProducts(copies=2), training=training)
    assert same(tmp_path / "value", tmp_path / "name")
    assert Model.load(tmp_path / "name").config.rescale


@pytest.mark.parametrize("points", [100, 33])
def test_grids_that_patches_do_not_divide_train(points: int, tmp_path: Path) -> None:
    physics = AdvectionDiffusion(Grid((points,), (16.0,)))
    data = physics.generate("train", 2, seed=0, frames=20)
    encoder = replace(preset_settings("tiny", True)[0], patch=16)
    model = made(data, tmp_path / "model", encoder=encoder)
    assert model.config.grid.shape == (points,)
    assert all(bool(t.isfinite().all()) for t in weights(tmp_path / "model").values())


@pytest.mark.parametrize(
    "given, expected",
    [
        ("spectral", Spectral(nonlinearity=GatedProducts())),
        ("unet", UNet()),
        ("polynomial", Spectral(nonlinearity=Polynomial())),
        (Polynomial(degree=3), Spectral(nonlinearity=Polynomial(degree=3))),
        ("homogeneous", Homogeneous(UNet())),
        (Spectral(), Spectral()),
    ],
)
def test_operators_by_value_and_by_name(given: Any, expected: OperatorFamily) -> None:
    assert chosen(given) == expected


def test_other_operators_are_refused() -> None:
    with pytest.raises(
        OpsplitError, match="Unknown operator 'network'; choose from auto, spectral"
    ):
        chosen("network")
    with pytest.raises(OpsplitError, match="a nonlinearity or a name, got 3"):
        chosen(3)  # type: ignore[arg-type]


def test_operators_take_their_sizes_from_the_data(stored: Trajectories, tmp_path: Path) -> None:
    family = made(stored, tmp_path / "a", Polynomial(degree=3)).config.operator
    assert isinstance(family, Spectral) and isinstance(family.nonlinearity, Polynomial)
    assert family.max_step == pytest.approx(1.001 * stored.dt)
    assert family.linear.highest_wavenumber == pytest.approx(torch.pi * 32 / 16)
    states = stored.data / stored.data.std()
    assert family.nonlinearity.centre[0] == pytest.approx(float(states.mean()), abs=0.2)
    assert len(family.nonlinearity.mixing) == 16
    wrapped = made(stored, tmp_path / "b", BandLimited(ShiftedStages(UNet()))).config
    assert wrapped.family == "unet"
    assert wrapped.operator.max_step == family.max_step


def test_operators_that_cannot_act_on_the_grid_are_refused(tmp_path: Path) -> None:
    data = AdvectionDiffusion(Grid((33,), (16.0,))).generate("train", 2, seed=0, frames=20)
    with pytest.raises(OpsplitError, match="16"):
        made(data, tmp_path / "model", "unet")
    assert not (tmp_path / "model").exists()


def test_codes_start_at_random_unless_asked(stored: Trajectories, tmp_path: Path) -> None:
    """A step that moves nothing shows the start."""
    still = {"share": 0.0, "commitment": 0.0}
    for start in ("random", "coefficients"):
        codebook = Codebook(start=start, **still)  # type: ignore[arg-type]
        made(stored, tmp_path / start, training=quick(codebook=codebook))
    rows = {name: weights(tmp_path / name)["model.codebook"] for name in ("random", "coefficients")}
    assert float(rows["random"].abs().max()) < 0.2
    for column in rows["coefficients"].unbind(1):
        assert float(column.abs().max()) == pytest.approx(1)
    assert Codebook().start == "random"


def test_a_file_of_settings_equals_flags_and_python(
    stored: Trajectories, tmp_path: Path, cli: Cli
) -> None:
    stored.save(tmp_path / "stored.npz")
    (tmp_path / "settings.toml").write_text(
        """
        preset = "tiny"
        [operator]
        kind = "polynomial"
        degree = 3
        [encoder]
        code = 3
        [training]
        measure = "channel"
        [training.budget]
        steps = 2
        [training.batches]
        environments = 2
        states = 2
        [training.codebook]
        by_gradient = 1.0
        """
    )
    common = "pretrain mine --data stored.npz --threads 1"
    cli(f"{common} --config settings.toml --out file")
    flags = (
        "--preset tiny --operator polynomial --operator.degree 3 --encoder.code 3 "
        "--training.measure channel --training.budget.steps 2 --training.batches.environments 2 "
        "--training.batches.states 2 --training.codebook.by-gradient 1.0"
    )
    cli(f"{common} {flags} --out flags")
    encoder = replace(preset_settings("tiny", True)[0], code=3)
    training = quick(measure="channel", codebook=Codebook(by_gradient=1.0))
    made(stored, tmp_path / "python", Polynomial(degree=3), encoder=encoder, training=training)
    assert same(tmp_path / "file", tmp_path / "flags")
    assert same(tmp_path / "file", tmp_path / "python")
    first, second = (Model.load(tmp_path / name).config for name in ("file", "flags"))
    assert first == second
    # Flags win over the file, the short ones too.
    cli(f"{common} --config settings.toml --steps 1 --seed 5 --encoder.code 2 --out less")
    less = Model.load(tmp_path / "less")
    assert (less.metrics["steps"], less.metrics["seed"], less.config.encoder.code) == (1, 5, 2)


@pytest.mark.parametrize(
    "text, words",
    [
        ("steps = 3", "no setting 'steps'; it has preset, operator, encoder, training"),
        ("preset = 3", "preset must be a name"),
        ('preset = "large"', "Unknown preset 'large'"),
        ("[operator]\ndegree = 3", "must be a table with a kind"),
        ('[operator]\nkind = "network"', "Unknown operator 'network'"),
        ('[operator]\nkind = "polynomial"\ncopies = 3', "no setting 'copies'"),
        ("[training.budget]\nsteps = 0", "training: budget: steps must lie in|Budget: steps"),
        ("[training]\nbudget = 3", "budget must be a table of settings"),
        ('operator = {kind = "spectal"}', "Unknown operator 'spectal'"),
        ("a = [", "cannot be read as TOML"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "{a=" * 40_000, "nested too deeply"),
        ("a." * 90_000 + "a = 1", "a line with more than 1000 dots"),
        (("a." * 900 + '"\u2028".') * 90 + "a = 1", "a line with more than 1000 dots"),
        ("[" + "a." * 90_000 + "a]", "a line with more than 1000 dots"),
        ("a = " + "9" * 100_000, "cannot be read as TOML: Exceeds the limit"),
        ("#" * 200_001, "larger than 200000 bytes"),
    ],
)
def test_wrong_files_of_settings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: str,
) -> None:
    import re

    monkeypatch.chdir(tmp_path)
    Path("settings.toml").write_text(text)
    with pytest.raises(SystemExit) as stop:
        opsplit.cli.main(["pretrain", "mine", "--config", "settings.toml", "--out", "run"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert re.search(words, said) and said.startswith("opsplit: settings.toml")
    assert not Path("run").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes a pipe")
@pytest.mark.parametrize("kind", ["pipe", "folder", "nothing", "bytes"])
def test_what_is_no_file_of_settings(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "settings.toml"
    words = {"pipe": "not a regular file", "folder": "cannot be read as TOML",
             "nothing": "No such file", "bytes": "cannot be read as TOML"}  # fmt: skip
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "bytes":
        path.write_bytes(b"a = '\xff'")
    with pytest.raises(OpsplitError, match=words[kind]) as refused:
        read_toml(path)
    assert str(path) in str(refused.value)


def test_the_package_is_the_function() -> None:
    assert callable(opsplit.pretrain)
    from opsplit.pretrain import pretrain as by_name

    assert by_name is pretrain
    assert opsplit.TrainConfig is TrainConfig
