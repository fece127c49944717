"""The page about the baselines: measured beside published, with the budget of every training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from settings import METHODS

from opsplit.benchmark.run import Cell, Runner
from opsplit.benchmark.tasks import COLUMNS
from opsplit.physics import PHYSICS

NAMES = {"fno": "FNO", "mpp": "MPP", "geps": "GEPS", "zebra": "Zebra", "disco": "DISCO"}
PLANNED = 30
"""Minutes of one core that every training should have; Zebra twice as many."""
EVERY = 10_000
"""More trajectories than anybody measures."""

HEAD = f"""# The paper's baselines

Written by `python benchmarks/baselines report`. Errors are NRMSE of all predicted frames, mean
and median over trajectories; lower is better. A forecast that blows up counts 1. The number of
trajectories stands in brackets. `published` is the paper's row, from a graphics card and 100,000
steps or more.

**Most measured rows are under-trained.** Every training should have {PLANNED} minutes of one core
(Zebra {2 * PLANNED}); the last table says how many minutes each of them really had, and how large
its network is. Minutes are those that the core worked, not those of a clock. Read a measured row as
what the method reaches with so much time, never as a reproduction of the published number.
`python benchmarks/baselines train --minutes {PLANNED}` continues the trainings,
`python benchmarks/baselines rows` measures them again.

No setting was chosen on a column of these tables. The settings are those of the preset `cpu` and
the flags in the commands below; sizes follow from the time of a step, and hardly any other setting
was tuned. The errors that decide are those of held-out trajectories of the training mechanisms.
"""

NOTES = """
## How they differ from the published ones

- The preset `paper` has the paper's sizes, steps and optimiser. The rows above are of smaller
  networks.
- FNO and MPP predict the change of the last frame, not the next frame. The paper does not say
  which; in a short training the change is far easier to learn.
- MPP trains with clipped gradients, without dropped branches, with stronger residual branches at
  the start, and from a last layer of zeros: it begins where nothing changes. Only its Navier-Stokes
  row has that start; the other MPP rows are older.
- GEPS adapts its code in 100 steps. The paper takes the best of 100, 500 and 2000 steps on the
  test data. Its rate of change has a larger factor, 0.1 instead of 0.0005.
- Zebra has one codebook of 512 entries, and every sequence begins with one token. Its forecasts
  cannot be better than the reconstruction of its tokenizer, which the table of trainings shows.
- DISCO is the paper's direct prediction with a plain U-Net, by the paper's two recipes. Its rates
  of change are in physical units, as published; short frames make them large and slow to learn.
  Its advection-diffusion training was planned for 120 minutes and shortened to 60 after 44, so that
  the learning rate fell faster from there on. Its trainings store no forecast of held-out frames.
- The Navier-Stokes training set is small: every viscosity once and Euler's equations 16 times, 34
  frames each, simulated on the stored points.
"""


def page(cache: Path) -> str:
    """The whole page from the measured rows in a folder."""
    runner = Runner(cache)
    lines = [HEAD]
    for physics, columns in COLUMNS.items():
        lines += ["", f"## {PHYSICS[physics].title[0].upper()}{PHYSICS[physics].title[1:]}", ""]
        lines += [_line(["method", *(c.title or c.split for c in columns.values())])]
        lines += [_line(["---"] * (len(columns) + 1))]
        still = [_record(runner, physics, name, "persistence") for name in columns]
        lines += [_line(["nothing changes", *(_cell(r) for r in still)])]
        for method in METHODS:
            found = [_record(runner, physics, name, method) for name in columns]
            words = [f"{c.published[method]:.3f}" for c in columns.values()]
            lines += [_line([f"{NAMES[method]}, published", *words])]
            if any(found):
                minutes = runner.trained.recorded(physics, method)["minutes"]
                short = minutes < _planned(method) - 0.5
                planned = f" of {_planned(method)}" if short else ""
                label = f"{NAMES[method]}, {minutes:.1f}{planned} minutes"
                lines += [_line([label, *(_cell(r) for r in found)])]
            else:
                lines += [_line([f"{NAMES[method]}, not trained yet", *[""] * len(columns)])]
    lines += ["", "## Trainings", "", *_trainings(runner), "", _not_learned(runner), NOTES]
    return "\n".join(lines)


def _not_learned(runner: Runner) -> str:
    """Which trainings are too short to be better than a copy of the last frame."""
    found = []
    for physics in COLUMNS:
        for method in METHODS:
            ahead = runner.trained.recorded(physics, method).get("forecast", {})
            if ahead and ahead["nrmse"] >= ahead["persistence"]:
                found.append(f"{NAMES[method]} on {PHYSICS[physics].title}")
    if not found:
        return "All of them forecast held-out frames better than a copy of the last frame."
    return (
        "Too short to forecast held-out frames of the training mechanisms better than a copy of "
        f"the last frame: {', '.join(found)}. Their rows say nothing about the method."
    )


def _planned(method: str) -> int:
    return PLANNED * (2 if method == "zebra" else 1)


def _record(runner: Runner, physics: str, column: str, method: str) -> dict[str, Any] | None:
    return runner.record(Cell(physics, column, method, None, EVERY), only_measured=True)


def _cell(record: dict[str, Any] | None) -> str:
    if record is None:
        return ""
    blown = f", {record['diverged']} blew up" if record["diverged"] else ""
    return f"{record['nrmse']:.3f} / {record['median']:.3f} ({record['n']}{blown})"


def _trainings(runner: Runner) -> list[str]:
    """Size, budget and errors on held-out trajectories of every training."""
    head = ["equation", "method", "weights", "steps", "minutes", "error of held-out windows",
            "forecast of 16 held-out frames", "nothing changes", "command"]  # fmt: skip
    lines = [_line(head), _line(["---"] * len(head))]
    for physics in COLUMNS:
        for method in METHODS:
            facts = runner.trained.recorded(physics, method)
            if not facts:
                continue
            errors = ", ".join(f"{k} {v:.3g}" for k, v in facts["validation"].items())
            ahead = facts.get("forecast", {})
            shown = [f"{ahead[k]:.3g}" if k in ahead else "" for k in ("nrmse", "persistence")]
            lines += [_line([physics, NAMES[method], f"{facts['parameters']:,}",
                             f"{facts['steps']:,}", f"{facts['minutes']:.2f}", errors, *shown,
                             f"`{facts['command']}`"])]  # fmt: skip
    return lines


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
