"""`opsplit figures`: the paper's figures, drawn anew from the bundled models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from opsplit._files import origin, read_json, write_json, write_text
from opsplit.commands.common import Common, model_files, once
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.model import Model


@dataclass(frozen=True)
class Figures(Common):
    """Draw errors over two coefficients, and a forecast of every composition.

    Example: opsplit figures --only contour --points 8 --n 2
    """

    only: Literal["contour", "rollouts"] | None = None
    """Draw only these (default: both)."""
    points: int = 8
    """Values per axis of the map."""
    n: int = 2
    """Trajectories per point of the map."""
    out: Path | None = Path("docs/results/figures")
    """Folder for contour.png, rollout-COLUMN.png, their numbers, and a page with all of them."""
    accumulates: ClassVar[bool] = True

    def run(self) -> None:
        from opsplit.model import bundled, locate

        if self.points < 2:
            raise OpsplitError(f"--points must be at least 2, got {self.points}.")
        folders = [locate(name) for name in bundled()]
        once(self, self.work, self.words, tuple(f for x in folders for f in model_files(x)))

    def work(self) -> dict[str, Any]:
        pictures = []
        if self.only != "rollouts":
            pictures += self.contour()
        if self.only != "contour":
            pictures += self.rollouts()
        assert self.out is not None
        write_page(self.out)
        return {"pictures": [str(path) for path in pictures]}

    def words(self, r: dict[str, Any]) -> str:
        return "\n".join(["Pictures:", *r["pictures"]])

    def contour(self) -> list[Path]:
        """NRMSE of every method on a grid of two coefficients."""
        from opsplit.benchmark.compare import METHODS
        from opsplit.benchmark.tasks import MAP
        from opsplit.model import load_model
        from opsplit.progress import Progress
        from opsplit.report.figures import contour_figure

        assert self.out is not None
        model = load_model(MAP.physics, "spectral")
        low, high = MAP.range
        gap = (high - low) / (self.points - 1)
        values = [round(low + gap * i, 6) for i in range(self.points)]
        first, second = MAP.axes
        found: dict[str, list[list[float]]] = {name: [] for name in METHODS}
        with Progress("contour", enabled=not self.json) as bar:
            for i, x in enumerate(values):
                for rows in found.values():
                    rows.append([])
                for j, y in enumerate(values):
                    given = {first: x, second: y}
                    words = ", ".join(f"{k} = {v:.3g}" for k, v in given.items())
                    bar.update((i + j / self.points) / self.points, words)
                    point = point_errors(model, given, self.n, self.seed, self.device)
                    for name, error in point.items():
                        found[name][-1].append(error)
        write_json(
            self.out / "contour.json",
            {first: values, second: values, "n": self.n, "nrmse": found}
            | origin(self.seed, self.device),
        )
        contour_figure(values, values, found, self.out / "contour.png", tuple(MAP.axes.values()))
        return [self.out / "contour.png"]

    def rollouts(self) -> list[Path]:
        """A forecast of every composition that a bundled model was made for."""
        from opsplit.benchmark.compare import METHODS, compare
        from opsplit.benchmark.tasks import COLUMNS, example
        from opsplit.model import bundled, load_model
        from opsplit.progress import Progress
        from opsplit.report.figures import frames_figure, line_figure

        assert self.out is not None
        held = bundled()
        chosen = [
            column
            for physics, named in COLUMNS.items()
            for column in named.values()
            if physics in held and column.table == "Unseen compositions"
        ]
        methods = tuple(name for name in METHODS if name != "beam")
        pictures = []
        numbers: dict[str, list[dict[str, Any]]] = {}
        with Progress("rollouts", enabled=not self.json) as bar:
            for number, column in enumerate(chosen):
                bar.update(number / len(chosen), column.split)
                model = load_model(column.physics)
                shown = []
                for given in column.pictured:
                    # Thin structures need the fine simulation of the benchmark.
                    observed, future = example(column, self.seed, given, coarse=False)
                    shown.append(
                        compare(model, observed, future, methods, column.operators, self.device)
                    )
                path = self.out / f"rollout-{column.split}.png"
                if observed.grid.ndim == 1:
                    line_figure(shown[0].rollout(), path)
                else:
                    frames_figure([one.rollout() for one in shown], path)
                pictures.append(path)
                numbers[column.split] = [
                    {"coefficients": one.true, "nrmse": one.errors} for one in shown
                ]
        write_json(
            self.out / "rollouts.json", {"columns": numbers} | origin(self.seed, self.device)
        )
        return pictures


def write_page(folder: Path) -> None:
    """One page with every picture that is there, its numbers and the command that made it."""
    from opsplit.benchmark.tasks import MAP

    def made(held: dict[str, Any]) -> str:
        return (
            f"Written by `{held['command']}`, seed {held['seed']}, commit {held['commit']}, "
            f"{held['hardware']}."
        )

    lines = ["# Figures", ""]
    lines += ["NRMSE is that of [The method, measured](../method.md).", ""]
    contour, rollouts = folder / "contour.json", folder / "rollouts.json"
    if contour.exists():
        held = read_json(contour)
        lines += [
            f"## {MAP.title}", "",
            f"{MAP.words} Mean over {held['n']} trajectories per point.", "",
            f"![NRMSE over {' and '.join(MAP.axes)} by method](contour.png)", "", made(held), "",
        ]  # fmt: skip
    if rollouts.exists():
        held = read_json(rollouts)
        lines += [
            "## Forecasts of unseen compositions", "",
            "Truth, forecast by pursuit and its error with shared colours, spectral models.",
            made(held), "",
        ]  # fmt: skip
        for column, shown in held["columns"].items():
            lines += [f"### {column}", "", f"![Forecast of {column}](rollout-{column}.png)", ""]
            for one in shown:
                true = ", ".join(f"{k} = {v:.3g}" for k, v in one["coefficients"].items())
                errors = ", ".join(f"{k} {v:.2g}" for k, v in one["nrmse"].items())
                lines += [f"{true}. NRMSE: {errors}.", ""]
    write_text(folder / "index.md", "\n".join(lines).rstrip() + "\n")


def point_errors(
    model: Model, given: Mapping[str, float], n: int, seed: int, device: str = "cpu"
) -> dict[str, float]:
    """Mean NRMSE by method over `n` trajectories with these coefficients."""
    from opsplit.benchmark.compare import METHODS, compare
    from opsplit.benchmark.tasks import map_point

    totals = dict.fromkeys(METHODS, 0.0)
    for observed, future in map_point(given, n, seed):
        found = compare(model, observed, future, METHODS, device=device)
        for name in METHODS:
            totals[name] += found.errors[name] / n
    return totals
