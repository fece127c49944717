"""`opsplit pretrain --method NAME`: train a model that the method is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from opsplit.commands.flags import with_flags, without_flags
from opsplit.commands.pretrain import Pretrain, given
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.baselines.protocol import Baseline, Fitting


@dataclass(frozen=True)
class PretrainBaseline(Pretrain):
    """Train a baseline; kill it any time and run the same command to go on.

    Example: opsplit pretrain my-equation --data mine.npz --method fno --minutes 30

    Minutes are those of one processor core, however busy the machine is. Every setting is a flag:
    those of the network begin with --model, those of its training with --training.
    """

    out: Path | None = None
    """The run, and in the end the trained baseline (default: where `opsplit benchmark` looks,
    runs/baselines/PHYSICS/METHOD)."""
    base: ClassVar[str] = "cpu"

    def run(self) -> None:
        from opsplit.baselines.trained import FOLDER

        if self.out is None:
            replace(self, out=FOLDER / (self.physics or "mine") / str(self.method)).run()
            return
        for flag, value in {"--recipe": self.recipe, "--config": self.config}.items():
            if value is not None:
                raise OpsplitError(f"A baseline has no recipe or file; leave {flag} out.")
        super().run()

    def _result(self) -> dict[str, Any]:
        assert self.out is not None
        model: Baseline = without_flags(vars(self)["model"])
        training: Fitting = self._training(without_flags(vars(self)["training"]))  # type: ignore[assignment]
        return model.train(self._data(), self.out, training, self.physics, self._execution()).facts

    def _words(self, result: dict[str, Any]) -> str:
        errors = ", ".join(f"{k} {v:.2g}" for k, v in result["validation"].items())
        lines = [
            f"{self.out}: {result['parameters']:,} weights, {result['steps']} steps in "
            f"{result['minutes']:.1f} minutes",
            f"error on held-out trajectories: {errors}",
        ]
        if "forecast" in result:
            found = result["forecast"]
            lines.append(
                f"forecast of {found['frames']} frames: {found['nrmse']:.4g} "
                f"(nothing changes: {found['persistence']:.4g})"
            )
        return "\n".join(lines)


def baseline_command(method: str, arguments: list[str]) -> type[PretrainBaseline]:
    """The command with the flags of a baseline, and the defaults of its preset."""
    from opsplit.baselines import TRAINED
    from opsplit.baselines.protocol import PRESETS

    preset = given(arguments, "--preset")
    name = preset if preset in PRESETS else PretrainBaseline.base  # the parser refuses others
    model, training = TRAINED[method].preset(name, _axes(arguments))  # type: ignore[arg-type]
    parts = {"model": with_flags(model), "training": with_flags(training)}
    nested: list[tuple[str, Any, Any]] = [
        (key, type(part), field(default=part)) for key, part in parts.items()
    ]
    return make_dataclass(
        "Pretrain",
        [*nested, ("seed", int, field(default=training.seed))],
        bases=(PretrainBaseline,),
        frozen=True,
        namespace={"__doc__": PretrainBaseline.__doc__, "__module__": __name__, "base": name},
    )


def _axes(arguments: list[str]) -> int:
    """How many axes the fields have."""
    from opsplit.io.read import read
    from opsplit.physics import PHYSICS, get_physics

    file = given(arguments, "--data")
    name = next((word for word in arguments if word in PHYSICS), None)
    if file is not None and name is None and Path(file).exists():
        return read(Path(file), axes=given(arguments, "--axes")).grid.ndim
    return get_physics(name or next(iter(PHYSICS))).grid.ndim
