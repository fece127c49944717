"""`opsplit figures`: the paper's figures, drawn anew from the bundled models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opsplit._files import origin, read_json, write_json, write_text
from opsplit.commands.common import Common, model_files, once
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.model import Model

METHODS = ("direct", "beam", "pursuit")
VISCOSITIES = (1e-2, 1e-3)


@dataclass(frozen=True)
class Figures(Common):
    """Draw errors over the coefficients of advection-diffusion, and a rollout per composition.

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
        """NRMSE of every method on a grid of speeds and diffusivities in [0.01, 1]."""
        from opsplit.model import load_model
        from opsplit.progress import Progress
        from opsplit.report.figures import contour_figure

        assert self.out is not None
        model = load_model("advection-diffusion", "spectral")
        gap = 0.99 / (self.points - 1)
        values = [round(0.01 + gap * i, 6) for i in range(self.points)]
        found: dict[str, list[list[float]]] = {name: [] for name in METHODS}
        with Progress("contour", enabled=not self.json) as bar:
            for i, c in enumerate(values):
                for rows in found.values():
                    rows.append([])
                for j, d in enumerate(values):
                    bar.update((i + j / self.points) / self.points, f"c = {c:.3g}, D = {d:.3g}")
                    point = point_errors(model, c, d, self.n, self.seed, self.device)
                    for name, error in point.items():
                        found[name][-1].append(error)
        write_json(
            self.out / "contour.json",
            {"c": values, "D": values, "n": self.n, "nrmse": found}
            | origin(self.seed, self.device),
        )
        contour_figure(values, values, found, self.out / "contour.png")
        return [self.out / "contour.png"]

    def rollouts(self) -> list[Path]:
        """A forecast of every composition that a bundled model was made for."""
        from opsplit.benchmark.tasks import COLUMNS
        from opsplit.commands.demo import compare, example
        from opsplit.metrics import nrmse
        from opsplit.model import bundled, load_model
        from opsplit.physics import PHYSICS
        from opsplit.progress import Progress
        from opsplit.report.figures import frames_figure, line_figure

        assert self.out is not None
        held = bundled()
        chosen = [
            column
            for physics, named in COLUMNS.items()
            for name, column in named.items()
            if physics in held and "composition" in PHYSICS[physics].splits[name]
        ]
        pictures = []
        numbers: dict[str, list[dict[str, Any]]] = {}
        with Progress("rollouts", enabled=not self.json) as bar:
            for number, column in enumerate(chosen):
                bar.update(number / len(chosen), column.split)
                model = load_model(column.physics)
                flows = [{"nu": nu} for nu in VISCOSITIES]
                shown = []
                for given in flows if column.physics == "navier-stokes" else [None]:
                    # Thin vortex sheets need more points than are stored.
                    observed, future = example(column, self.seed, given, fine=256)
                    shown.append(compare(column, model, observed, future, self.device)[0])
                path = self.out / f"rollout-{column.split}.png"
                if model.config.ndim == 1:
                    line_figure(shown[0], path)
                else:
                    frames_figure(shown, path)
                pictures.append(path)
                numbers[column.split] = [
                    {
                        "coefficients": {
                            k: float(v[0]) for k, v in one.observed.coefficients.items()
                        },
                        "nrmse": {
                            name: float(nrmse(frames[None], one.truth[None]))
                            for name, frames in one.predictions.items()
                        },
                    }
                    for one in shown
                ]
        write_json(
            self.out / "rollouts.json", {"columns": numbers} | origin(self.seed, self.device)
        )
        return pictures


def write_page(folder: Path) -> None:
    """One page with every picture that is there, its numbers and the command that made it."""

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
            "## Errors over speed and diffusivity", "",
            "Advection-diffusion with the spectral model. Its dictionary holds speeds and "
            "diffusivities up to 1, one at a time: direct prediction is good along the axes, where "
            f"only one of the two matters. Mean over {held['n']} trajectories per point.",
            "", "![NRMSE over c and D by method](contour.png)", "", made(held), "",
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
    model: Model, c: float, d: float, n: int, seed: int, device: str = "cpu"
) -> dict[str, float]:
    """Mean NRMSE by method over `n` trajectories with these coefficients.

    The first 16 frames are observed and the next 34 predicted, from the same initial fields at
    every point of the map.
    """
    import torch

    from opsplit.benchmark.methods import make_method
    from opsplit.benchmark.tasks import OBSERVED, columns
    from opsplit.metrics import nrmse
    from opsplit.physics import AdvectionDiffusion
    from opsplit.trajectories import Trajectories

    physics = AdvectionDiffusion()
    horizon = columns(physics.name)["A+D"].horizon
    initial = physics.initial_fields(n, torch.Generator().manual_seed(seed), "A+D")
    ones = torch.ones(n, dtype=torch.float64)
    mu = {"c": c * ones, "D": d * ones}
    times = torch.arange(OBSERVED + horizon, dtype=torch.float64) * physics.dt
    data = physics.solve(initial, mu, times).float()
    whole = Trajectories(data, times, physics.grid, physics.channels, mu)
    out = {}
    for name in METHODS:
        method = make_method(name, physics, model, device=device)
        errors = [
            float(nrmse(method(one.windows(OBSERVED, 0), horizon, seed).frames[None],
                        one.data[:, OBSERVED:]))
            for one in (whole[i : i + 1] for i in range(n))
        ]  # fmt: skip
        out[name] = sum(errors) / n
    return out
