"""Trained baselines in the tables: where their weights are, and what is known without them.

Weights are not part of the repository. Beside the rows of an equation, `PHYSICS.trained.json` says
for every method which training the rows belong to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opsplit._files import read_json, write_json
from opsplit.baselines import TRAINED
from opsplit.baselines.protocol import Forecaster
from opsplit.baselines.trained import FOLDER, METRICS, load_trained
from opsplit.errors import OpsplitError

BATCH = 32
"""Windows that are forecast together."""
KEPT = ("minutes", "steps", "parameters", "validation", "forecast", "command",
        "commit", "hardware")  # fmt: skip


class TrainedModels:
    """The trained baselines in a folder, each loaded once.

    Arguments:
        cache: folder of the tables of rows.
        folder: weights lie in `folder/PHYSICS/METHOD`.
    """

    def __init__(self, cache: Path, folder: Path = FOLDER) -> None:
        self.cache, self.folder = cache, folder
        self._loaded: dict[tuple[str, str], Forecaster] = {}

    def there(self, physics: str, method: str) -> bool:
        """Whether the weights of a method are there."""
        return (self.folder / physics / method / METRICS).exists()

    def load(self, physics: str, method: str) -> Forecaster:
        TRAINED.require(method)
        key = (physics, method)
        if key not in self._loaded:
            self._loaded[key] = load_trained(self.folder / physics / method)
        return self._loaded[key]

    def recorded(self, physics: str, method: str) -> dict[str, Any]:
        """The training that measured rows belong to; empty if nothing was measured."""
        file = self._file(physics)
        found: dict[str, Any] = read_json(file).get(method, {}) if file.exists() else {}
        return found

    def training(self, physics: str, method: str, only_measured: bool = False) -> dict[str, Any]:
        """The facts of a training: that of the weights, or the one measured last."""
        if not self.there(physics, method) or only_measured:
            return self.recorded(physics, method)
        made = self.load(physics, method)
        facts = {k: made.facts[k] for k in KEPT if k in made.facts}
        return {"mark": made.fingerprint(), **facts}

    def remember(self, physics: str, method: str) -> None:
        """Keep the facts of a training whose rows are measured now."""
        file = self._file(physics)
        held = read_json(file) if file.exists() else {}
        write_json(file, {**held, method: self.training(physics, method)})

    def mark(self, physics: str, method: str, only_measured: bool = False) -> str:
        """Which training rows belong to: that of the weights, or the one measured last."""
        return str(self.training(physics, method, only_measured).get("mark", "none"))

    def _file(self, physics: str) -> Path:
        return self.cache / f"{physics}.trained.json"


def not_trained(physics: str, method: str) -> OpsplitError:
    """What to do if a method has neither weights nor rows."""
    return OpsplitError(
        f"{method} is not trained on {physics} yet; run `opsplit pretrain {physics} --method "
        f"{method}` first."
    )
