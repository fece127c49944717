"""`opsplit benchmark`: measured beside published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro

from opsplit._files import write_json, write_text
from opsplit._origin import command_line
from opsplit._text import say, to_json
from opsplit.commands.common import effective_settings, model_files
from opsplit.commands.record import Record
from opsplit.commands.spread import Spread
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.benchmark.run import Cell


@dataclass(frozen=True)
class Benchmark(Spread):
    """Measure methods on the paper's test columns and write a table.

    Every trajectory is kept as soon as it is measured: stop any time, run the same command again.

    The tables are written from all that the cache holds of the bundled models.

    Example: opsplit benchmark --method beam,pursuit --family spectral --n 16
    """

    names: Annotated[str, tyro.conf.Positional, tyro.conf.arg(name="physics")] = "all"
    """Equations, separated by commas (default: all; `opsplit info` lists them)."""
    physics: str | None = None
    """The same as an option."""
    method: str = "all"
    """Methods, separated by commas: baselines such as persistence, direct, and searches."""
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
    baselines: Path = Path("runs/baselines")
    """Folder of the baselines that `opsplit pretrain --method` has trained."""
    only_measured: bool = False
    """Run nothing: write the tables from what has been measured so far."""
    cache: Path = Path("runs/benchmark")
    """Folder with a table of measured trajectories per equation."""
    readme: Path | None = None
    """Put the short table into this file too, between its marks."""
    out: Path | None = Path("docs/results")
    """Folder for method.md and method.json, and the same for every physics by itself."""
    record: ClassVar[str] = "benchmark.json"
    accumulates: ClassVar[bool] = True

    def replaces(self) -> tuple[Path, ...]:
        # Other results may lie in the same folder.
        return () if self.out is None else (self.out / "method.json", self.out / "method.md")

    def chosen(self) -> dict[str, list[str]]:
        """The columns to measure, by physics."""
        from opsplit.benchmark.tasks import COLUMNS, columns

        if self.physics is not None and self.names != "all":
            raise OpsplitError(f"Give the benchmark once: {self.names!r} or --physics.")
        words = self.physics or self.names
        physics = list(COLUMNS) if words == "all" else [w.strip() for w in words.split(",")]
        held = {name: list(columns(name)) for name in physics}
        wanted = None if self.column is None else [w.strip() for w in self.column.split(",")]
        for name in wanted or []:
            if not any(name in known for known in held.values()):
                known = [c for names in held.values() for c in names]
                raise OpsplitError(f"{words} has the columns {known}, not {name!r}.")
        return {
            name: [c for c in known if wanted is None or c in wanted]
            for name, known in held.items()
        }

    def run(self) -> None:
        self.check()
        from opsplit.benchmark.methods import check_methods, methods
        from opsplit.benchmark.run import cells
        from opsplit.model import bundled, load_model

        every, words = list(methods()), self.method
        chosen_methods = every if words == "all" else [w.strip() for w in words.split(",")]
        check_methods(chosen_methods)
        todo: list[Cell] = []
        for physics, chosen in self.chosen().items():
            if self.family is not None:
                families = [word.strip() for word in self.family.split(",")]
            elif self.model is not None:
                families = [load_model(self.model).config.family]
            else:
                families = bundled().get(physics, [])
            todo += cells(physics, chosen_methods, families, self.n, self.n_unet, chosen)
        inputs = () if self.model is None else model_files(self.model)
        kept = Record.of(self, effective_settings(self, inputs))
        with kept.run(inputs) as made:
            text, records = self._tables(todo, every)
            kept.finish(made, {"cells": len(records)})
        say(to_json(records) if self.json else text)

    def _tables(self, todo: list[Cell], every: list[str]) -> tuple[str, list[dict[str, Any]]]:
        """Measure what is missing, write all tables; the text of the whole and its numbers."""
        from opsplit.benchmark.run import Runner, known_cells
        from opsplit.benchmark.tables import insert_summary, markdown
        from opsplit.benchmark.trained import not_trained
        from opsplit.progress import Progress

        assert self.out is not None
        runner = Runner(self.cache, self.seed, self.device, self.model, self.baselines)
        if not self.only_measured:
            spread = self.workers or self.cluster
            with Progress("benchmark", enabled=not self.json) as bar:
                runner.fill(todo, self.where() if spread else None, bar)
        found = [runner.record(cell, only_measured=True) for cell in todo]
        for cell, record in zip(todo, found, strict=True):
            if not record and self.method != "all" and not self.only_measured:
                raise not_trained(cell.physics, cell.method)
        records = [record for record in found if record]
        if not records:
            raise OpsplitError(
                f"Nothing is measured yet in {self.cache}; leave out --only-measured."
            )
        if self.model is None:
            held = [runner.record(cell, only_measured=True) for cell in known_cells(MANY)]
            records = [record for record in held if record]
        records.sort(key=lambda r: (r["family"] or "", every.index(r["method"])))
        write_json(self.out / "method.json", records)
        text = markdown(records, TITLE, command_line())
        write_text(self.out / "method.md", text)
        for physics in dict.fromkeys(r["physics"] for r in records):
            mine = [r for r in records if r["physics"] == physics]
            write_json(self.out / f"{physics}.json", mine)
            page = markdown(mine, f"{physics}: measured beside published", command_line())
            write_text(self.out / f"{physics}.md", page)
        if self.readme is not None:
            write_text(self.readme, insert_summary(self.readme.read_text("utf-8"), records))
        return text, records


TITLE = "The method on the paper's benchmarks: measured beside published"
MANY = 10_000
"""More trajectories than anybody measures."""
