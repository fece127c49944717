"""Where training curves go: `metrics.csv` always, TensorBoard or Weights & Biases if asked."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

from opsplit._files import atomic, regular
from opsplit.errors import OpsplitError

Row = dict[str, float]


class MetricsFile:
    """A CSV file that survives kills: rows after the resumed step are dropped on opening."""

    def __init__(self, path: Path, keep_below: float = math.inf) -> None:
        self.path = path
        self.rows: list[Row] = []
        if not path.exists():
            return
        regular(path)
        with open(path, newline="", encoding="utf-8", errors="replace") as stream:
            for row in csv.DictReader(stream):
                try:
                    held = {k: float(v) for k, v in row.items() if v}
                    if 0 <= held["step"] <= keep_below and held["step"].is_integer():
                        self.rows.append(held)
                except (KeyError, TypeError, ValueError):
                    continue  # a line cut short by a kill, or of somebody else

    def write(self, row: Row) -> None:
        self.rows.append(row)
        names = list(dict.fromkeys(name for r in self.rows for name in r))
        with atomic(self.path) as partial, open(partial, "w", newline="") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(self.rows)


def open_logger(name: str | None, folder: Path) -> Callable[[Row, int], None] | None:
    """A function `(row, step) -> None` of the chosen service, or None."""
    if name is None:
        return None
    try:
        if name == "tensorboard":
            from lightning_fabric.loggers.tensorboard import TensorBoardLogger

            board = TensorBoardLogger(folder, name="tensorboard")
            return lambda row, step: board.log_metrics(row, step)
        if name == "wandb":
            import wandb  # type: ignore[import-not-found,unused-ignore]

            run = wandb.init(project="opsplit", dir=str(folder), name=folder.name)
            return lambda row, step: run.log(row, step=step)
    except ImportError:
        raise OpsplitError(
            f"The {name} logger needs a package that is not installed: "
            f"pip install 'opsplit[{name}]'"
        ) from None
    raise OpsplitError(f"Unknown logger {name!r}; choose tensorboard or wandb.")


def read_metrics(folder: Path) -> list[Row]:
    """The rows of `metrics.csv`."""
    rows = MetricsFile(folder / "metrics.csv").rows
    if not rows or "seconds" not in rows[-1]:
        raise OpsplitError(
            f"{folder / 'metrics.csv'} holds no rows of a training; delete it and "
            "resume.safetensors to start this run again."
        )
    return rows
