"""`opsplit figures`: the paper's figures, drawn anew from the bundled models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from opsplit._files import fingerprint, read_json, write_json, write_text
from opsplit._origin import origin
from opsplit.commands.common import model_files, once
from opsplit.commands.spread import Spread
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.model import Model


@dataclass(frozen=True)
class Figures(Spread):
    """Draw errors over two coefficients, and forecasts of every composition.

    Points of the map are kept as soon as they are measured: stop any time, run the command again.

    Example: opsplit figures --only contour --points 8 --n 2
    """

    only: Literal["contour", "rollouts"] | None = None
    """Draw only these (default: both)."""
    points: int = 11
    """Values per axis of the map."""
    n: int = 4
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
        from opsplit.model import load_model, locate
        from opsplit.parallel import run_items
        from opsplit.progress import Progress
        from opsplit.report.figures import contour_figure

        assert self.out is not None
        model = load_model(MAP.physics, "spectral")
        low, high = MAP.range
        gap = (high - low) / (self.points - 1)
        values = [round(low + gap * i, 6) for i in range(self.points)]
        first, second = MAP.axes
        file = self.out / "contour.json"
        own = {"model": fingerprint(*model_files(locate(MAP.physics, "spectral"))), "n": self.n}
        facts = own | origin(self.seed, self.device)
        points = self._points(file, facts)
        todo = [{first: x, second: y} for x in values for y in values if _at(x, y) not in points]
        shared = (model, self.n, self.seed, self.device)
        with Progress("contour", enabled=not self.json) as bar:
            for done, outcome in enumerate(run_items(_point, todo, shared, self.where()), 1):
                key = _at(*outcome.item.values())
                if outcome.value is None:
                    raise OpsplitError(f"The point {key} was not measured. {outcome.reason}")
                points[key] = outcome.value
                write_json(file, {"points": points} | facts)
                bar.update(done / len(todo), f"{first}, {second} = {key}")
        found = {m: [[points[_at(x, y)][m] for y in values] for x in values] for m in METHODS}
        whole = {first: values, second: values, "nrmse": found, "points": points}
        write_json(file, whole | facts)
        contour_figure(values, values, found, self.out / "contour.png", tuple(MAP.axes.values()))
        return [self.out / "contour.png"]

    def _points(self, file: Path, facts: dict[str, Any]) -> dict[str, dict[str, float]]:
        """Points that were measured before with the same model, trajectories and seed.

        `--force` may write over a finished picture; a point is the same whenever it is measured.
        """
        held = read_json(file) if file.exists() else {}
        same = all(held.get(k) == facts[k] for k in ("model", "n", "seed"))
        return held["points"] if same else {}

    def rollouts(self) -> list[Path]:
        """Forecasts of every composition that a bundled model was made for."""
        from dataclasses import replace

        from opsplit.benchmark.compare import METHODS, compare
        from opsplit.benchmark.tasks import COLUMNS, example, mechanisms_alone
        from opsplit.model import bundled, load_model
        from opsplit.progress import Progress
        from opsplit.report.figures import frames_figure, line_figure

        assert self.out is not None
        held = bundled()
        chosen = [
            (replace(column, horizon=column.pictured_frames or column.horizon), number, given)
            for physics, named in COLUMNS.items()
            for column in named.values()
            if physics in held and column.table == "Unseen compositions"
            for number, given in enumerate(column.pictured)
        ]
        pictures = []
        shown: dict[str, list[dict[str, Any]]] = {}
        with Progress("rollouts", enabled=not self.json) as bar:
            for done, (column, number, given) in enumerate(chosen):
                bar.update(done / len(chosen), f"{column.split} {number + 1}")
                # Thin structures need the fine simulation of the benchmark.
                observed, future = example(column, self.seed + number, given, coarse=False)
                flat = observed.grid.ndim == 1
                # Beside single mechanisms, and over many frames, direct prediction says little.
                searched = [m for m in METHODS if m != "direct" or not (flat or column.mechanisms)]
                found = compare(
                    load_model(column.physics), observed, future, searched, column.operators,
                    self.device,
                )  # fmt: skip
                ending = f"-{number + 1}" if len(column.pictured) > 1 else ""
                path = self.out / f"rollout-{column.split}{ending}.png"
                if flat:
                    line_figure(found.rollout(), path)
                else:
                    alone = mechanisms_alone(column, observed, future)
                    frames_figure([found.rollout(alone)], path)
                pictures.append(path)
                shown.setdefault(column.split, []).append(
                    {"coefficients": found.true, "nrmse": found.errors, "picture": path.name,
                     "frames": column.horizon}
                )  # fmt: skip
        write_json(self.out / "rollouts.json", {"columns": shown} | origin(self.seed, self.device))
        return pictures


def _at(x: float, y: float) -> str:
    """The name of a point of the map."""
    return f"{x:g}, {y:g}"


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
    if contour.exists() and "nrmse" in (held := read_json(contour)):
        lines += [
            f"## {MAP.title}", "",
            f"{MAP.words} Mean over {held['n']} trajectories per point.", "",
            f"![NRMSE over {' and '.join(MAP.axes)} by method](contour.png)", "", made(held), "",
        ]  # fmt: skip
    if rollouts.exists():
        held = read_json(rollouts)
        lines += [
            "## Forecasts of unseen compositions", "",
            "Truth, forecasts and their errors with shared colours, spectral models.",
            made(held), "",
        ]  # fmt: skip
        for column, shown in held["columns"].items():
            lines += [f"### {column}", ""]
            for one in shown:
                true = ", ".join(f"{k} = {v:.3g}" for k, v in one["coefficients"].items())
                errors = ", ".join(f"{k} {v:.2g}" for k, v in one["nrmse"].items())
                lines += [f"![Forecast of {column}]({one['picture']})", ""]
                lines += [f"{true}. NRMSE of {one['frames']} frames: {errors}.", ""]
    write_text(folder / "index.md", "\n".join(lines).rstrip() + "\n")


def _point(shared: tuple[Model, int, int, str], item: dict[str, float]) -> dict[str, float]:
    """The errors at one point of the map, in a worker."""
    model, n, seed, device = shared
    return point_errors(model, item, n, seed, device)


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
