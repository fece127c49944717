"""`opsplit benchmark`: measured beside published."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from opsplit._files import command_line, write_json
from opsplit.commands.common import Common
from opsplit.errors import OpsplitError


@dataclass(frozen=True)
class Benchmark(Common):
    """Measure methods on the paper's test columns and write a table.

    Every trajectory is kept as soon as it is measured: stop any time, run the same command again.

    Example: opsplit benchmark advection-diffusion --method beam --family spectral --n 16
    """

    physics: Annotated[str, tyro.conf.Positional] = "advection-diffusion"
    """The benchmark."""
    method: str = "persistence,least-squares,direct,uniform,beam,pursuit"
    """Methods, separated by commas."""
    family: str | None = None
    """Families, separated by commas (default: spectral,unet, or that of --model)."""
    column: str | None = None
    """Columns, separated by commas (default: all)."""
    n: int = 128
    """Trajectories per cell."""
    n_unet: int = 24
    """Trajectories per cell of the unet family."""
    model: Path | None = None
    """Measure this model directory instead of the bundled ones."""
    only_measured: bool = False
    """Run nothing: write the table from what has been measured so far."""
    cache: Path = Path("runs/benchmark")
    """Where measured trajectories are kept."""
    readme: Path | None = None
    """Put the short table into this file too, between its marks."""
    out: Path | None = Path("docs/results")
    """Folder for PHYSICS.md and PHYSICS.json."""

    def chosen_columns(self) -> list[str]:
        from opsplit.benchmark.tasks import columns

        known = list(columns(self.physics))
        chosen = known if self.column is None else self.column.split(",")
        for name in chosen:
            if name not in known:
                raise OpsplitError(f"{self.physics} has the columns {known}, not {name!r}.")
        return chosen

    def run(self) -> None:
        self.check()
        from opsplit.benchmark.methods import METHODS, check_methods
        from opsplit.benchmark.run import cells, measure
        from opsplit.benchmark.tables import insert_summary, markdown
        from opsplit.model import load_model
        from opsplit.report.progress import Progress

        assert self.out is not None
        methods = [word.strip() for word in self.method.split(",")]
        check_methods(methods)
        if self.family is not None:
            families = [word.strip() for word in self.family.split(",")]
        elif self.model is not None:
            families = [load_model(self.model).config.family]
        else:
            families = ["spectral", "unet"]
        records = []
        todo = cells(self.physics, methods, families, self.n, self.n_unet, self.chosen_columns())
        for number, cell in enumerate(todo, 1):
            with Progress(f"{number}/{len(todo)}", enabled=not self.json) as bar:
                found = measure(
                    cell, self.seed, self.cache, bar, self.model, self.device, self.only_measured
                )
                records += [found] if found else []
        if not records:
            raise OpsplitError(
                f"Nothing is measured yet in {self.cache}; leave out --only-measured."
            )
        order = {name: i for i, name in enumerate(METHODS)}
        records.sort(key=lambda r: (r["family"] or "", order.get(r["method"], 9)))
        write_json(self.out / f"{self.physics}.json", records)
        title = self.physics.capitalize() + ": measured beside published"
        text = markdown(records, title, command_line())
        (self.out / f"{self.physics}.md").write_text(text)
        if self.readme is not None:
            self.readme.write_text(insert_summary(self.readme.read_text(), records))
        print(json.dumps(records) if self.json else text)
