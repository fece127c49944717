"""`opsplit pretrain`: train a hypernetwork, extract its dictionary, store a model."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from opsplit._device import rank
from opsplit._text import say, to_json
from opsplit.commands.common import Common, effective_settings
from opsplit.commands.record import Record
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.model import Model
    from opsplit.pretrain.config import TrainConfig
    from opsplit.pretrain.data import Data
    from opsplit.pretrain.loop import Execution

PARTS = ("operator", "encoder", "training")
"""Groups of nested flags."""


@dataclass(frozen=True)
class Pretrain(Common):
    """Train a model; kill it any time and run the same command to go on.

    Example: opsplit pretrain my-equation --data mine.npz --minutes 20 --out runs/mine

    Every setting is a flag, such as --training.budget.minutes 5. --operator chooses the operators,
    whose own settings are flags too: --operator polynomial --operator.degree 3
    """

    physics: Annotated[str, tyro.conf.Positional] = ""
    """The equation to simulate while training (`opsplit info` lists them), or a name for your own
    data."""
    data: Path | None = None
    """Train on these trajectories instead of simulating: any file that `opsplit describe` reads."""
    axes: str | None = None
    """Names of the axes of an array in --data, such as n,t,x."""
    dt: float | None = None
    """Time between the frames of --data, if the file does not say it."""
    extent: Annotated[tuple[float, ...] | None, tyro.conf.arg(metavar="LENGTH ...")] = None
    """Length of every space axis of --data, if the file does not say it."""
    boundary: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="KIND ...")] = None
    """periodic, neumann, dirichlet or open, per axis of --data, if the file does not say it."""
    method: str | None = None
    """Train a baseline instead: fno, mpp, geps, zebra or disco, with flags of its own (see
    `opsplit pretrain --method fno --help`)."""
    recipe: str | None = None
    """Run the chain of trainings that made a bundled model (NAME or NAME/FAMILY), or of a .toml
    file; stages go to folders of --out."""
    config: Path | None = None
    """Settings in a TOML file: preset, [operator], [encoder], [training]. Flags win."""
    preset: Literal["paper", "cpu", "tiny"] | None = None
    """Sizes and budgets: paper (GPU), cpu (default), tiny (seconds)."""
    steps: int | None = None
    """Short for --training.budget.steps."""
    minutes: float | None = None
    """Short for --training.budget.minutes. Two such runs differ, as the clock decides how long the
    schedule is; --steps alone repeats exactly."""
    processor_time: bool = False
    """Minutes are those that the processor works, not those that pass: for a machine that other
    work shares."""
    logger: Literal["tensorboard", "wandb"] | None = None
    """Send the curve there as well as to metrics.csv."""
    devices: int = 1
    """Data-parallel processes on every machine: cores, or as many GPUs."""
    nodes: int = 1
    """Machines, each started by torchrun or SLURM with this same command."""
    threads: int | None = None
    """Threads per process (default: all cores, shared out)."""
    out: Path | None = Path("runs/model")
    """The run, and in the end the model directory."""
    accumulates: ClassVar[bool] = True
    base: ClassVar[str] = "cpu"
    """The preset that the settings start from: that of the flag, of the file, or this one."""

    @classmethod
    def for_arguments(cls, arguments: list[str]) -> tuple[type[Common], list[str]]:
        """The settings of a training, and their flags, follow from its operator or method."""
        method = given(arguments, "--method")
        if method is not None:
            from opsplit.commands.baseline import baseline_command

            return baseline_command(method, arguments), arguments
        return pretrain_command(arguments), without_operator(arguments)

    def check(self) -> None:
        if not (self.physics or self.data or self.recipe):
            from opsplit.physics import PHYSICS, first_physics

            raise OpsplitError(
                "Say what to train on: an equation, as in `opsplit pretrain "
                f"{first_physics()}` (there are {', '.join(sorted(PHYSICS))}), or your own "
                "trajectories, as in `opsplit pretrain my-equation --data mine.npz`."
            )
        super().check()

    def run(self) -> None:
        self.check()
        assert self.out is not None
        if rank() > 0:
            # The first process of the training keeps the record and says what came of it.
            self._result()
            return
        inputs = tuple(p for p in (self.data, self.config) if p is not None)
        kept = Record.of(self, effective_settings(self, inputs))
        with kept.run(inputs) as made:
            result = self._result()
            kept.finish(made, result)
        say(to_json(result) if self.json else self._words(result))

    def _result(self) -> dict[str, Any]:
        """Train, and say how it went."""
        try:
            return (self._recipe() if self.recipe is not None else self._train()).metrics
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._how_to_go_on()) from None

    def _how_to_go_on(self) -> str:
        """What an interrupted training leaves, and what to do with it."""
        assert self.out is not None
        structure, first = self.out / "structure", self.out / "first"
        if (first / "metrics.json").exists():
            return f"the same command begins again, but --model {first} forecasts already"
        if not (self.out / "resume.safetensors").exists() and not structure.exists():
            return "nothing is stored yet; the same command begins again"
        words = f"{self.out} holds what was trained; the same command goes on from there"
        if (structure / "metrics.json").exists():
            words += f", and --model {structure} forecasts already"
        return words

    def _words(self, result: dict[str, Any]) -> str:
        """The result for people."""
        errors = ", ".join(f"{k} {v:.2g}" for k, v in result["validation"].items())
        lines = []
        if "structure" in result:
            from opsplit.pretrain.verdict import structure_words

            lines = [structure_words(result["structure"])]
        lines += [
            f"{self.out}: {result['steps']} steps in {result['minutes']:.1f} minutes",
            f"one-step error of unseen batches: {errors}",
            f"half-step consistency: {result['semigroup']:.5f}",
            f"{result['operators']} operators in the dictionary",
        ]
        return "\n".join(lines)

    def _recipe(self) -> Model:
        from opsplit.pretrain.recipes import run_recipe

        assert self.out is not None and self.recipe is not None
        given = {"--data": self.data, "--config": self.config, "--preset": self.preset,
                 "--steps": self.steps, "--minutes": self.minutes}  # fmt: skip
        changed = [f"--{k}" for k in PARTS if vars(self)[k] != getattr(type(self), k)]
        for flag in [flag for flag, value in given.items() if value is not None] + changed:
            raise OpsplitError(f"A recipe has all its settings itself; leave {flag} out.")
        return run_recipe(self.recipe, self.out, self._execution())

    def _train(self) -> Model:
        from opsplit.commands.flags import without_flags
        from opsplit.pretrain.run import pretrain

        assert self.out is not None
        chosen = vars(self)
        return pretrain(
            self._data(),
            self.out,
            operator=without_flags(chosen["operator"]),
            training=self._training(without_flags(chosen["training"])),
            encoder=without_flags(chosen["encoder"]),
            preset=self.base,
            name=self.physics,
            execution=self._execution(),
        )

    def _data(self) -> Data:
        from opsplit.io.read import read
        from opsplit.physics import PHYSICS

        if self.data is not None:
            return read(
                self.data, axes=self.axes, dt=self.dt, extent=self.extent, boundary=self.boundary
            )
        if self.physics not in PHYSICS:
            raise OpsplitError(
                f"Unknown physics {self.physics!r}: choose from {sorted(PHYSICS)}, or give --data."
            )
        return self.physics

    def _training(self, training: TrainConfig) -> TrainConfig:
        """Nested settings, with those that have short flags."""
        short = {"steps": self.steps, "minutes": self.minutes}
        given = {k: v for k, v in short.items() if v is not None}
        # --seed and --training.seed are one setting; a flag that was given wins.
        seed = self.seed if self.seed != type(self).seed else training.seed
        return replace(training, budget=replace(training.budget, **given), seed=seed)  # type: ignore[arg-type]

    def _execution(self) -> Execution:
        from opsplit.pretrain.loop import Execution

        return Execution(
            self.device, self.devices, self.threads, self.logger, self.json, self.nodes,
            self.processor_time,
        )  # fmt: skip


def pretrain_command(arguments: list[str]) -> type[Pretrain]:
    """`Pretrain` with the flags of the operator, and the defaults of preset and file, that the
    arguments ask for."""
    from opsplit.commands.flags import with_flags
    from opsplit.physics import PHYSICS
    from opsplit.pretrain.config import PRESETS
    from opsplit.pretrain.files import read_settings

    config, preset = given(arguments, "--config"), given(arguments, "--preset")
    base, operator, encoder, training = read_settings(
        None if config is None else Path(config),
        preset if preset in PRESETS else None,  # the parser refuses another one
        given(arguments, "--operator"),
        stored=given(arguments, "--data") is not None,
        name=next((word for word in arguments if word in PHYSICS), ""),
    )
    parts = [with_flags(operator), with_flags(encoder), with_flags(training)]
    nested: list[tuple[str, Any, Any]] = [
        (name, type(part), field(default=part)) for name, part in zip(PARTS, parts, strict=True)
    ]
    return make_dataclass(
        "Pretrain",
        [*nested, ("seed", int, field(default=training.seed))],
        bases=(Pretrain,),
        frozen=True,
        namespace={"__doc__": Pretrain.__doc__, "__module__": __name__, "base": base},
    )


def without_operator(arguments: list[str]) -> list[str]:
    """The arguments without `--operator KIND`, which `pretrain_command` has used."""
    out, skip = [], False
    for word in arguments:
        if skip:
            skip = False
        elif word == "--operator":
            skip = True
        elif not word.startswith("--operator="):
            out.append(word)
    return out


def given(arguments: list[str], flag: str) -> str | None:
    """The value of a flag, as `--flag value` or `--flag=value`."""
    for i, word in enumerate(arguments):
        if word == flag and i + 1 < len(arguments):
            return arguments[i + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None
