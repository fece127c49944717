"""One training loop for every baseline that is a network, with the budget, checkpoints and data of
`opsplit.pretrain`."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from opsplit._files import write_json
from opsplit._memory import peak_memory_mb
from opsplit._origin import origin
from opsplit._tensors import threads
from opsplit.baselines.protocol import OBSERVED, Baseline, Fitting, Network
from opsplit.baselines.trained import METRICS, NetworkForecaster
from opsplit.baselines.windows import Windows, WindowSource, open_windows
from opsplit.errors import OpsplitError
from opsplit.metrics import nrmse
from opsplit.pretrain import checkpoint
from opsplit.pretrain.card import thinned
from opsplit.pretrain.clock import Clock
from opsplit.pretrain.config import Batches
from opsplit.pretrain.data import Data, name_of, open_source
from opsplit.pretrain.loggers import MetricsFile, Row, open_logger
from opsplit.pretrain.loop import Execution, accelerator, batch_seed, check_same_run
from opsplit.pretrain.sources import Facts
from opsplit.progress import Progress
from opsplit.trajectories import Trajectories

UNSEEN = 2**40
"""Seeds of validation windows begin here."""
VALIDATED = 32
"""Held-out windows of a validation."""
FORECASTS, FORECAST = 8, 16
"""Held-out windows of the forecast at the end, and its frames."""


def train_network(
    settings: Baseline,
    data: Data,
    folder: Path,
    fitting: Fitting,
    name: str,
    execution: Execution,
) -> NetworkForecaster:
    """Train until a budget ends, from the checkpoint in `folder` if there is one.

    Every step draws its windows and its random numbers from its own seed, so a run that was killed
    continues with the same numbers as one that never stopped.
    """
    if execution.processes > 1:
        raise OpsplitError("A baseline is trained by one process; leave --processes out.")
    source = open_source(data, Batches())
    windows = open_windows(source, settings.listed, fitting.seed)
    facts = replace(source.facts(name or name_of(data)), environments=windows.environments)
    folder.mkdir(parents=True, exist_ok=True)
    check_same_run(folder, {"model": settings.to_json(), "training": fitting.to_json()})
    kind, devices = accelerator(execution)
    fabric = Fabric(accelerator=kind, devices=devices)
    with threads(execution.threads or os.cpu_count() or 1):
        training = Training(settings, facts, fitting, windows, folder, fabric)
        curve = training.run(execution)
        return training.finish(curve)


class Training:
    """The state of a run: weights, optimiser and counters."""

    def __init__(
        self,
        settings: Baseline,
        facts: Facts,
        fitting: Fitting,
        windows: WindowSource,
        folder: Path,
        fabric: Fabric,
    ) -> None:
        self.settings, self.facts, self.fitting, self.windows = settings, facts, fitting, windows
        self.folder, self.device = folder, fabric.device
        with torch.random.fork_rng():
            torch.manual_seed(fitting.seed)
            self.network: Network = settings.build(facts).to(self.device)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), fitting.learning_rate, weight_decay=fitting.weight_decay
        )
        counters: dict[str, Any] = {"step": 0, "seconds": 0.0, "running": 0.0}
        if self.file.exists():
            counters = checkpoint.load_state(self.file, self.network, {}, self.optimiser)
        self.step, self.running = int(counters["step"]), float(counters["running"])
        # Minutes of one core, however many others share it: budgets of methods are equal.
        now = time.process_time if self.device.type == "cpu" else time.monotonic
        self.clock = Clock(fitting.budget, fabric, float(counters["seconds"]), now)

    @property
    def file(self) -> Path:
        return self.folder / checkpoint.FILE

    def run(self, execution: Execution) -> list[Row]:
        """All steps that the budget has left; returns the curve."""
        curve = MetricsFile(self.folder / "metrics.csv", keep_below=self.step)
        extra = open_logger(execution.logger, self.folder)
        every = self.fitting.budget.validate_every
        done = self.clock.done(self.step)
        with Progress("pretrain", enabled=not execution.quiet) as bar:
            while done < 1:
                self.make_step(done)
                done = self.clock.done(self.step)
                if self.step % every == 0 or done >= 1:
                    curve.write(self.validation())
                    if extra is not None:
                        extra(curve.rows[-1], self.step)
                if self.clock.save_is_due(self.step):
                    self.save()
                bar.update(done, f"step {self.step}  error {self.running:.5f}")
        if not any(row["step"] == self.step for row in curve.rows):
            curve.write(self.validation())
        self.save()
        return curve.rows

    def make_step(self, done: float) -> None:
        """One batch, one step of the optimiser."""
        fitting, stages = self.fitting, self.network.stages
        stage = min(int(done * len(stages)), len(stages) - 1)
        rate = fitting.learning_rate * schedule(done * len(stages) - stage, fitting.warm_up)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        seed = batch_seed(fitting.seed, self.step, 0)
        windows = self.draw(fitting.batch, self.settings.window, seed)
        self.network.train()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            loss = self.network.loss(windows, stages[stage]).mean()
        self.optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(
            self.network.parameters(), fitting.clip or math.inf, error_if_nonfinite=False
        )
        if bool(torch.isfinite(norm)):
            self.optimiser.step()
        self.step += 1
        value = float(loss.detach())
        if math.isfinite(value):
            self.running = value if self.running == 0 else 0.98 * self.running + 0.02 * value

    def draw(self, n: int, length: int, seed: int, held_out: bool = False) -> Windows:
        """Windows in the units of the network."""
        generator = torch.Generator().manual_seed(seed)
        found = self.windows.draw(n, length, generator, held_out)
        frames = found.frames.to(self.device) / self.facts.scale
        return Windows(frames, found.environment.to(self.device))

    @torch.no_grad()
    def validation(self) -> Row:
        """A row of the curve: errors on held-out trajectories of the training mechanisms."""
        self.network.eval()
        windows = self.draw(VALIDATED, self.settings.window, UNSEEN, held_out=True)
        row: Row = {"step": self.step, "seconds": round(self.clock.seconds(), 2)}
        row["train"] = self.running
        with torch.random.fork_rng():
            torch.manual_seed(UNSEEN)
            found = {k: float(v.mean()) for k, v in self.network.errors(windows).items()}
        return row | {f"validation {k}": v for k, v in found.items()}

    def save(self) -> None:
        """Write the checkpoint."""
        facts = {"step": self.step, "seconds": self.clock.seconds(), "running": self.running}
        checkpoint.save_state(self.file, self.network, {}, self.optimiser, facts)

    def finish(self, rows: list[Row]) -> NetworkForecaster:
        """Store the weights and the record of the run."""
        last = rows[-1]
        made = NetworkForecaster(self.settings, self.facts, self.network.eval(), {})
        made.facts |= {
            "method": self.settings.kind,
            "parameters": sum(p.numel() for p in self.network.parameters()),
            "steps": self.step,
            "minutes": last["seconds"] / 60,
            "validation": {
                k.removeprefix("validation "): v for k, v in last.items() if k.startswith("valid")
            },
            "forecast": self.forecast_errors(made),
            "peak_memory_mb": peak_memory_mb(),
            **origin(self.fitting.seed),
            "curve": thinned(rows),
        }
        made.save(self.folder)
        # The last file: a folder that has it is finished.
        write_json(self.folder / METRICS, made.facts)
        return made

    def forecast_errors(self, made: NetworkForecaster) -> dict[str, float]:
        """NRMSE of forecasts of held-out windows, and of a forecast that nothing changes."""
        windows = self.draw(FORECASTS, OBSERVED + FORECAST, UNSEEN + 1, held_out=True)
        frames = windows.frames.cpu() * self.facts.scale
        observed, future = frames[:, :OBSERVED], frames[:, OBSERVED:]
        times = torch.arange(OBSERVED, dtype=torch.float64) * self.facts.dt
        given = Trajectories(observed, times, self.facts.grid, self.facts.channels)
        found = made.forecast(given, FORECAST)
        still = observed[:, -1:].expand_as(future)
        return {
            "frames": FORECAST,
            "nrmse": float(nrmse(found, future).mean()),
            "persistence": float(nrmse(still, future).mean()),
        }


def schedule(done: float, warm_up: float) -> float:
    """Linear warm-up, then a cosine down to a thousandth, both in shares of the budget."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    # Never zero, so that the first step moves the weights.
    growth = min(1.0, max(done, 1e-3) / warm_up) if warm_up else 1.0
    return growth * (1e-3 + (1 - 1e-3) * cosine)
