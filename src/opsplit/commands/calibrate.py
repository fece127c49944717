"""`opsplit calibrate`: make the intervals of a model mean what they say."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from opsplit._origin import origin
from opsplit.commands.common import model_files, once
from opsplit.commands.spread import Spread
from opsplit.physics import first_physics
from opsplit.search.registry import SEARCHES, search_names

FILE = "calibration.json"


@dataclass(frozen=True)
class Calibrate(Spread):
    """Measure a model's errors on fresh trajectories and keep the factors of its intervals.

    Example: opsplit calibrate --model runs/ad --n 64
    """

    model: str = first_physics()
    """A bundled name or a model directory; calibration.json goes into --out."""
    family: str | None = None
    """Which of the bundled models of that name, such as spectral or unet."""
    strategy: Annotated[
        str,
        tyro.conf.arg(
            help=f"The search whose spreads are calibrated: {', '.join(search_names())}."
        ),
    ] = "pursuit"
    n: int = 64
    """Trajectories of every test column, and as many again to measure the coverage. Fits of which
    no interval is shown, such as those that explain little, do not count."""
    seed: int = 77
    """Seed of the trajectories; tests use others."""
    out: Path | None = Path("calibration")
    """Folder for calibration.json: the model's own to put it into use."""
    rows: Path | None = None
    """Keep what is measured of every trajectory in this file, and take from it what is there: a
    run that was stopped goes on, and more trajectories add to those before."""
    record: ClassVar[str] = "calibrate.json"

    def replaces(self) -> tuple[Path, ...]:
        # The folder may be the model's own, whose other files stay.
        return () if self.out is None else (self.out / FILE,)

    def check(self) -> None:
        super().check()
        SEARCHES.require(self.strategy)

    def run(self) -> None:
        from opsplit.model import locate

        once(self, self.work, self.words, model_files(locate(self.model, self.family)))

    def work(self) -> dict[str, Any]:
        from opsplit._files import fingerprint
        from opsplit._journal import Journal
        from opsplit.benchmark.calibrate import Rows, calibrate, coverage
        from opsplit.calibration import SPREAD
        from opsplit.model import load_model, locate
        from opsplit.progress import Progress

        assert self.out is not None
        model = load_model(self.model, self.family)
        files = fingerprint(*model_files(locate(self.model, self.family)))
        with ExitStack() as open_files:
            rows = Rows()
            if self.rows is not None:
                journal = open_files.enter_context(Journal(self.rows))
                rows = Rows(journal, f"{files} {self.strategy} {SPREAD}")
            bar = open_files.enter_context(Progress("calibrate"))
            made_by, where = origin(self.seed, self.device), self.where()
            found = calibrate(model, self.strategy, self.n, self.seed, made_by, bar, where, rows)
            tested = replace(model, calibration=found)
            covered, tested_on = coverage(
                tested, self.strategy, self.n, self.seed + 1, bar=bar, where=where, rows=rows
            )
        found = replace(found, coverage=covered, tested=tested_on)
        found.save(self.out)
        return {
            "trajectories": found.n,
            "coverage_90": covered,
            "tested": tested_on,
            "shown": [k for k in ("forecast", *found.coefficients) if found.shown(k)],
            "forecast_factor_90": found.forecast_factor(0.9),
            "coefficient_factors_90": {
                k: found.coefficient_factor(k, 0.9) for k in found.coefficients
            },
            "file": str(self.out / FILE),
        }

    def words(self, r: dict[str, Any]) -> str:
        factors = ", ".join(f"{k} {v:.3g}" for k, v in r["coefficient_factors_90"].items())
        covered = "\n".join(
            f"  {column:>5}  "
            + ", ".join(f"{k} {v:.1%} of {r['tested'][column][k]}" for k, v in row.items())
            for column, row in r["coverage_90"].items()
        )
        return (
            f"{r['trajectories']} trajectories; half width of a 90 % interval over its spread:\n"
            f"  forecast {r['forecast_factor_90']:.3g}, {factors}\n"
            f"share of as many fresh trajectories inside:\n{covered}\n"
            f"shown, because they keep their level: {', '.join(r['shown']) or 'none'}\n{r['file']}"
        )
