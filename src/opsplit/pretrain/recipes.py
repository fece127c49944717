"""Recipes: the whole chain of trainings that makes a model, in one TOML file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import EncoderConfig, Preset
from opsplit.model import ZOO, Model, bundled, locate
from opsplit.operators import OperatorFamily
from opsplit.parallel import Where
from opsplit.physics import Physics, get_physics
from opsplit.physics.dataset import check_space, make_all, plan
from opsplit.pretrain.config import Count, TrainConfig, Word
from opsplit.pretrain.data import Data
from opsplit.pretrain.files import in_file, read_toml
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.operator import Auto
from opsplit.pretrain.run import pretrain
from opsplit.settings import AtMost, Between, Settings

FILE = "recipe.toml"


@dataclass(frozen=True)
class StageData(Settings):
    """The data of a stage: an equation that is simulated, or a file."""

    physics: Word | None = None
    """Name of the equation."""
    preset: Word = "cpu"
    """Its grid, times and counts."""
    stored: bool = False
    """Simulate a training set first (else: simulate every batch while training)."""
    n: Count | None = None
    """Trajectories of every dynamics in that training set (None: those of the preset)."""
    seed: Annotated[int, Between(0, 2**31 - 1)] = 0
    """Seed of that training set."""
    file: Word | None = None
    """Stored trajectories, instead of an equation; relative to the folder of the recipe."""

    def check(self) -> None:
        if (self.physics is None) == (self.file is None):
            raise OpsplitError("StageData: name either an equation (physics) or a file.")


@dataclass(frozen=True)
class Stage(Settings):
    """One training of a chain; values that it does not give are the defaults of the classes."""

    name: Word
    """Folder of the stage; later stages can start from it."""
    data: StageData
    operator: OperatorFamily | None = None
    """Chosen by evidence in the data unless given."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    preset: Preset = "cpu"
    """Label of the sizes, for the model card."""

    def check(self) -> None:
        if Path(self.name).name != self.name or self.name in (".", "..", "data"):
            raise OpsplitError(f"Stage: {self.name!r} cannot be the name of a stage.")


@dataclass(frozen=True)
class Chain(Settings):
    """Trainings in order; the last one makes the model."""

    stage: Annotated[tuple[Stage, ...], AtMost(100)]

    def check(self) -> None:
        names = [stage.name for stage in self.stage]
        if not names or len(set(names)) < len(names):
            raise OpsplitError("A recipe: at least one stage is needed, and names must differ.")

    @classmethod
    def read(cls, path: str | Path) -> Chain:
        """The recipe in a TOML file."""
        with in_file(Path(path)):
            return cls.from_json(read_toml(Path(path)), str(path))


def find_recipe(name: str) -> Path:
    """The file of a recipe: a path, or the bundled one of `NAME` or `NAME/FAMILY`."""
    if name.endswith(".toml") or Path(name).is_file():
        return Path(name)
    model, _, family = name.partition("/")
    if model not in bundled():
        raise OpsplitError(
            f"Unknown recipe {name!r}: neither a .toml file nor one of "
            f"{', '.join(p.parent.relative_to(ZOO).as_posix() for p in sorted(ZOO.rglob(FILE)))}."
        )
    return locate(model, family or None) / FILE


def run_recipe(recipe: str | Path, out: str | Path, execution: Execution | None = None) -> Model:
    """Run all stages into folders of `out`; a finished stage is kept, a stopped one goes on."""
    path, root = find_recipe(str(recipe)), Path(out)
    execution = execution or Execution()
    chain = Chain.read(path)
    made: list[str] = []
    model: Model | None = None
    for stage in chain.stage:
        training = _starts(stage.training, made, root)
        data = _data(stage.data, path.parent, root / "data", execution)
        model = pretrain(
            data,
            root / stage.name,
            operator=stage.operator or Auto(),
            training=training,
            encoder=stage.encoder,
            preset=stage.preset,
            name=stage.data.physics or "",
            execution=execution,
        )
        made.append(stage.name)
    assert model is not None
    return model


def _starts(training: TrainConfig, made: list[str], root: Path) -> TrainConfig:
    """Names of earlier stages replaced by their folders."""

    def place(name: str | None) -> str | None:
        return str(root / name) if name in made else name

    start = training.start
    start = replace(
        start, encoder_from=place(start.encoder_from), start_from=place(start.start_from)
    )
    return replace(training, start=start)


def _data(data: StageData, beside: Path, root: Path, execution: Execution) -> Data:
    """The data of a stage; a training set is simulated once for all stages."""
    if data.file is not None:
        return beside / data.file
    assert data.physics is not None
    physics = get_physics(data.physics, data.preset)
    return _training_set(physics, data, root, execution) if data.stored else physics


def _training_set(physics: Physics, data: StageData, root: Path, execution: Execution) -> Path:
    label = f"{physics.name}-{data.preset}-{data.n or 'all'}-{data.seed}"
    folder = root / label
    folder.mkdir(parents=True, exist_ok=True)
    works = plan(physics, data.preset, "train", data.n, data.seed, folder)
    check_space(works, folder)
    make_all(works, Where(os.cpu_count() or 1), quiet=execution.quiet)
    return folder
