"""`opsplit info`: what is here, or what a file or folder holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from opsplit._text import say, to_json
from opsplit._version import __version__
from opsplit.commands.common import Common
from opsplit.errors import OpsplitError


@dataclass(frozen=True)
class Info(Common):
    """Describe the package, a physics, a model, a dictionary or a trajectory file.

    Example: opsplit info data/trajectories.npz
    """

    target: Annotated[str | None, tyro.conf.Positional] = None
    """A bundled model or physics name, a folder, or an .npz file."""
    without: ClassVar[tuple[str, ...]] = ("out", "seed", "device", "force")

    def run(self) -> None:
        self.check()
        result = self.describe() if self.target is None else self.describe_target(self.target)
        if self.json:
            say(to_json(result))
        else:
            say("\n".join(_lines(result)))

    def describe(self) -> dict[str, Any]:
        import torch

        from opsplit.model import bundled
        from opsplit.operators import FAMILIES
        from opsplit.physics import PHYSICS
        from opsplit.search import SEARCHES
        from opsplit.splitting import SCHEMES

        return {
            "opsplit": __version__,
            "torch": torch.__version__,
            "cuda": torch.cuda.is_available(),
            "bundled models": bundled(),
            "physics": list(PHYSICS),
            "operator families": sorted(FAMILIES),
            "searches": sorted(SEARCHES),
            "splitting schemes": list(SCHEMES),
        }

    def describe_target(self, target: str) -> dict[str, Any]:
        from opsplit.dictionary import OperatorDictionary
        from opsplit.model import Model, bundled
        from opsplit.physics import PHYSICS, get_physics
        from opsplit.trajectories import Trajectories

        path = Path(target)
        result: dict[str, Any] = {}
        if target in PHYSICS:
            physics = get_physics(target)
            result["physics"] = {
                "grid": physics.grid.to_json(), "frames": physics.frames, "dt": physics.dt,
                "terms": {k: t.text for k, t in physics.terms.items()},
                "splits": dict(physics.splits),
            }  # fmt: skip
        if target in bundled():
            from opsplit.model import locate

            result["models"] = {
                family: _model(Model.load(locate(target, family))) for family in bundled()[target]
            }
        if result:
            return result
        if (path / "config.json").exists():
            return _model(Model.load(path))
        if (path / "dictionary.json").exists():
            return {"dictionary": repr(OperatorDictionary.load(path))}
        if path.suffix == ".npz":
            return {"trajectories": repr(Trajectories.load(path))}
        raise OpsplitError(
            f"{target!r} is neither a known name nor a model, dictionary or trajectory file. "
            "`opsplit info` without arguments lists the names."
        )


def _model(model: Any) -> dict[str, Any]:
    config = model.config
    # The card has the curves; here the commands of earlier trainings will do.
    training = {k: v for k, v in model.metrics.items() if k not in ("curve", "before")}
    if model.metrics.get("before"):
        training["trained before by"] = [
            run.get("command", "unknown") for run in model.metrics["before"]
        ]
    return {
        "physics": config.physics, "family": config.family, "recipe": config.recipe,
        "preset": config.preset, "channels": list(config.channels), "dt": config.dt,
        "grid": config.grid.to_json(),
        "parameters": sum(p.numel() for p in model.disco.parameters()),
        "operator parameters": model.disco.family.n_parameters,
        "dictionary": repr(model.dictionary), "training": training,
    }  # fmt: skip


def _lines(value: dict[str, Any], indent: str = "") -> list[str]:
    lines = []
    for key, held in value.items():
        if isinstance(held, list) and held and isinstance(held[0], dict):
            # A table: its rows by number.
            held = {str(i): row for i, row in enumerate(held, 1)}
        if isinstance(held, dict):
            lines += [f"{indent}{key}:", *_lines(held, indent + "  ")]
        else:
            words = ", ".join(map(_word, held)) if isinstance(held, list) else _word(held)
            lines.append(f"{indent}{key}: {words}")
    return lines


def _word(value: object) -> str:
    """A number with the digits that a person reads; --json has them all."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
