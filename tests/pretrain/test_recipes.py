"""Recipes: a chain runs to its end, goes on where it stopped, and the bundled ones are complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.disco import Disco
from opsplit.model import ZOO, Model, bundled, load_config
from opsplit.operators import Examples
from opsplit.physics import PHYSICS, AdvectionDiffusion
from opsplit.pretrain import recipes
from opsplit.pretrain.data import load
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.recipes import FILE, Chain, StageData, find_recipe, run_recipe

BUNDLED = [(name, family) for name, families in bundled().items() for family in families]
QUIET = Execution(threads=1, quiet=True)
STAGE = """
[[stage]]
name = "{name}"
[stage.data]
file = "stored.npz"
[stage.operator]
kind = "spectral"
nonlinearity = {{kind = "polynomial", degree = 2}}
[stage.encoder]
width = 8
blocks = 1
heads = 2
decoder_width = 16
head_width = 8
[stage.training]
recipe = "codebook"
budget = {{steps = {steps}}}
batches = {{environments = 2, states = 2, context = 4}}
"""
TINY = f"""
{STAGE.format(name="first", steps=3)}
codebook = {{by_gradient = 1.0, start = "coefficients"}}
{STAGE.format(name="second", steps=2)}
codebook = {{by_gradient = 1.0}}
start = {{start_from = "first", encoder_only = true}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Two stages on a stored file."""
    physics = AdvectionDiffusion(Grid((32,), (16.0,)))
    physics.generate("train", 3, seed=0, frames=12).save(tmp_path / "stored.npz")
    path = tmp_path / "mine.toml"
    path.write_text(TINY)
    return path


def test_a_chain_runs_to_its_end(recipe: Path, tmp_path: Path, cli: Callable[[str], str]) -> None:
    model = run_recipe(recipe, tmp_path / "python", QUIET)
    first, second = (Model.load(tmp_path / "python" / name) for name in ("first", "second"))
    assert model.metrics == second.metrics
    assert second.metrics["before"][0]["steps"] == first.metrics["steps"] == 3
    old, new = first.disco.state_dict(), second.disco.state_dict()
    assert {n.split(".")[0] for n in old if not torch.equal(old[n], new[n])} == {"encoder"}
    # The same by a command; a second time nothing is trained.
    assert "2 steps in" in cli("pretrain --recipe mine.toml --threads 1 --out command")
    both = [tmp_path / out / "second" / "model.safetensors" for out in ("python", "command")]
    one, other = (load_file(path) for path in both)
    assert all(torch.equal(one[name], other[name]) for name in one)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("command/*/model.safetensors")}
    cli("pretrain --recipe mine.toml --threads 1 --out command")
    assert len(before) == 2
    assert before == {p: p.stat().st_mtime_ns for p in before}


def test_a_chain_that_was_stopped_goes_on(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_recipe(recipe, tmp_path / "whole", QUIET)
    train = recipes.pretrain

    def stopping(data: Any, out: Path, **settings: Any) -> Model:
        if out.name == "second":
            raise KeyboardInterrupt
        return train(data, out, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(recipes, "pretrain", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_recipe(recipe, tmp_path / "stopped", QUIET)
    assert not (tmp_path / "stopped" / "second").exists()
    run_recipe(recipe, tmp_path / "stopped", QUIET)
    one, other = (
        load_file(tmp_path / name / "second" / "model.safetensors") for name in ("whole", "stopped")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('name = "second"', 'name = "first"', "names must differ"),
        ('name = "second"', 'name = "../up"', "cannot be the name of a stage"),
        ('name = "second"', 'name = "data"', "cannot be the name of a stage"),
        ('file = "stored.npz"', "", "either an equation .physics. or a file"),
        ("blocks = 1", "blocks = 1000", "blocks must lie in 0..256"),
        ("blocks = 1", "layers = 1", "no setting 'layers'"),
        ('kind = "spectral"', 'kind = "network"', "Unknown operator family 'network'"),
    ],
)
def test_wrong_recipes(recipe: Path, old: str, new: str, words: str) -> None:
    recipe.write_text(TINY.replace(old, new))
    with pytest.raises(OpsplitError, match=words) as refused:
        Chain.read(recipe)
    assert str(recipe) in str(refused.value)


def test_a_training_set_is_simulated_once(tmp_path: Path) -> None:
    data = StageData(physics="advection-diffusion", stored=True, n=3, seed=1)
    folder = recipes._data(data, tmp_path, tmp_path / "data", QUIET)
    assert isinstance(folder, Path)
    (file,) = folder.glob("*.hdf5")
    when, stored = file.stat().st_mtime_ns, load(folder)
    assert stored.data.shape == (3, 100, 1, 256)
    assert stored.dt == pytest.approx(AdvectionDiffusion().dt)
    assert sorted(stored.coefficients) == ["D", "c"]
    assert recipes._data(data, tmp_path, tmp_path / "data", QUIET) == folder
    assert file.stat().st_mtime_ns == when
    other = replace(data, seed=2)
    assert recipes._data(other, tmp_path, tmp_path / "data", QUIET) != folder


def test_recipes_by_name(tmp_path: Path) -> None:
    with pytest.raises(OpsplitError, match=r"Unknown recipe 'nothing'.*one of .*/spectral"):
        find_recipe("nothing")
    name, family = BUNDLED[-1]
    assert find_recipe(f"{name}/{family}") == ZOO / name / family / FILE
    assert find_recipe(str(tmp_path / "mine.toml")) == tmp_path / "mine.toml"


@pytest.mark.parametrize("name, family", BUNDLED)
def test_bundled_recipes_describe_the_bundled_models(name: str, family: str) -> None:
    """Every stage is built as it would be trained; the last one is the model that is bundled."""
    chain, config = Chain.read(ZOO / name / family / FILE), load_config(ZOO / name / family)
    seen: list[str] = []
    for stage in chain.stage:
        assert stage.data.physics in PHYSICS
        start = stage.training.start
        assert {start.encoder_from, start.start_from} <= {None, *seen}
        assert stage.training.budget.minutes is not None
        seen.append(stage.name)
    assert stage.data.physics == config.physics
    assert stage.training.recipe == config.recipe
    if stage.operator is None:
        # Evidence decides on the operators and on the size of their codes.
        chosen = replace(stage.encoder, code=config.encoder.code, decoder="linear")
        assert chosen == config.encoder
        return
    assert stage.encoder == config.encoder
    fields = torch.randn(4, len(config.channels), *config.grid.shape)
    operator = stage.operator.fitted(Examples(fields, fields, config.grid, config.dt))
    assert operator.channels == len(config.channels)
    assert _without_units(operator.to_json()) == _without_units(config.operator.to_json())
    built = Disco(Model.load(ZOO / name / family).config).state_dict()
    assert built["decoder.start"].numel() == operator.n_parameters


def test_no_equation_has_settings_of_its_own() -> None:
    """Spectral models of equations differ in data and minutes; evidence does the rest."""
    chains = [
        Chain.read(ZOO / name / "spectral" / FILE)
        for name, kind in BUNDLED
        if kind == "spectral" and name != "line"
    ]
    free = [
        replace(
            stage, data=chains[0].stage[0].data,
            training=replace(
                stage.training, budget=replace(stage.training.budget, minutes=1.0)
            ),
        )
        for chain in chains for stage in chain.stage
    ]  # fmt: skip
    assert len(free) == len(chains) >= 4
    assert all(stage == free[0] and stage.operator is None for stage in free)


def _without_units(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the numbers that come from training data."""
    units = {"centre", "spread", "rate_scale", "mixing"}
    out = {
        key: _without_units(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if key not in units
    }
    # The old fits had pi to five digits.
    return {k: round(v, 2) if k == "highest_wavenumber" else v for k, v in out.items()}
