"""`opsplit figures`: the paper's figures, drawn anew from the bundled models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opsplit._files import origin, write_json
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
    """Folder for contour.png, contour.json and rollout-COLUMN.png."""

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
        return {"pictures": [str(path) for path in pictures]}

    def words(self, r: dict[str, Any]) -> str:
        return "\n".join(["Pictures:", *r["pictures"]])

    def contour(self) -> list[Path]:
        """NRMSE of every method on a grid of speeds and diffusivities in [0.01, 1]."""
        from opsplit.model import load_model
        from opsplit.report.figures import contour_figure
        from opsplit.report.progress import Progress

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
        from opsplit.model import bundled, load_model
        from opsplit.physics import PHYSICS
        from opsplit.report.figures import frames_figure, line_figure
        from opsplit.report.progress import Progress

        assert self.out is not None
        held = bundled()
        chosen = [
            column
            for physics, named in COLUMNS.items()
            for name, column in named.items()
            if physics in held and "composition" in PHYSICS[physics].splits[name]
        ]
        pictures = []
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
        return pictures


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
    from opsplit.physics import AdvectionDiffusion
    from opsplit.report.metrics import nrmse
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
