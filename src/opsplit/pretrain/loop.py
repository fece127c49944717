"""One training loop for every recipe, family and physics, on Lightning Fabric."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor

from opsplit._files import read_json, write_json
from opsplit._interrupts import waiting_interrupts
from opsplit._processes import die_with_parent
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import ModelConfig
from opsplit.pretrain import checkpoint
from opsplit.pretrain.clock import Clock
from opsplit.pretrain.config import TrainConfig, flat
from opsplit.pretrain.loggers import MetricsFile, Row, open_logger
from opsplit.pretrain.losses import Trainee, loss_of_step
from opsplit.pretrain.optimiser import make_optimiser, set_rates
from opsplit.pretrain.sources import Source
from opsplit.pretrain.start import begin
from opsplit.pretrain.validate import validate
from opsplit.progress import Progress

MAY_CHANGE = "training.budget."
"""Settings that may differ when a run is continued begin with this."""


@dataclass(frozen=True)
class Execution:
    """Where and how a training runs; none of it changes the result of one process."""

    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""
    devices: int = 1
    """Data-parallel processes on every machine."""
    threads: int | None = None
    """Threads per process (None: all cores, shared out)."""
    logger: Literal["tensorboard", "wandb"] | None = None
    """Where the curve goes besides metrics.csv."""
    quiet: bool = False
    """No progress bar."""
    nodes: int = 1
    """Machines."""
    processor_time: bool = False
    """Count the seconds that the processor works against the budget, not those that pass."""

    @property
    def now(self) -> Callable[[], float]:
        """The clock of the budget."""
        return time.process_time if self.processor_time else time.monotonic

    @property
    def processes(self) -> int:
        """Data-parallel processes on all machines."""
        return self.devices * self.nodes


def train(
    model: ModelConfig,
    config: TrainConfig,
    source: Source,
    folder: Path,
    execution: Execution | None = None,
) -> None:
    """Train until a budget ends, from the newest checkpoint in `folder` if there is one.

    Every process draws its batches from a seed made of (seed, step, process), so a run that was
    killed at any moment continues with the same numbers as one that never stopped. That holds for
    a budget of steps. A budget of minutes makes the schedule depend on the clock, so that two runs
    differ; `metrics.json` says how many steps such a run made. The weights end up in
    `folder/resume.safetensors`, the curve in `folder/metrics.csv`.
    """
    execution = execution or Execution()
    folder.mkdir(parents=True, exist_ok=True)
    check_same_run(folder, {"model": model.to_json(), "training": config.to_json()})
    # The encoder rests in some steps, the codebook in others.
    # Processes that torchrun or SLURM has started are there already.
    launched = execution.nodes > 1 or "LOCAL_RANK" in os.environ
    method: Literal["popen", "spawn"] = "popen" if launched else "spawn"
    strategy = DDPStrategy(start_method=method, find_unused_parameters=True)
    several: dict[str, Any] = {"strategy": strategy} if execution.processes > 1 else {}
    kind, devices = accelerator(execution)
    fabric = Fabric(accelerator=kind, devices=devices, num_nodes=execution.nodes, **several)
    run = partial(_run, model=model, config=config, source=source, folder=folder)
    # Bound, because Fabric looks into arguments and does not take frozen dataclasses.
    run = partial(run, execution=execution)
    if execution.processes > 1:
        fabric.launch(run)
    else:
        run(fabric)


def accelerator(execution: Execution) -> tuple[str, int | list[int]]:
    """Fabric's words for `cpu`, `cuda` or `cuda:1`."""
    kind, _, number = execution.device.partition(":")
    if number and execution.processes > 1:
        raise OpsplitError(
            f"{execution.device} is one device; {execution.processes} processes need "
            f"--device {kind}."
        )
    return {"cuda": "gpu"}.get(kind, kind), [int(number)] if number else execution.devices


def check_same_run(folder: Path, settings: dict[str, Any]) -> None:
    """Refuse to continue a run under other settings; remember the settings of a new one."""
    file = folder / "training.json"
    if (folder / checkpoint.FILE).exists() and file.exists():
        held = read_json(file)
        if not isinstance(held, dict):
            raise OpsplitError(f"{file} does not hold the settings of a run; choose another --out.")
        before, now = flat(held), flat(settings)
        changed = [
            f"{key}: {before.get(key)} -> {value}"
            for key, value in now.items()
            if before.get(key) != value and not key.startswith(MAY_CHANGE)
        ]
        if changed:
            raise OpsplitError(
                f"{folder} holds a run with other settings ({'; '.join(changed)}). "
                "Use the same settings to continue it, or another --out for a new run."
            )
    write_json(file, settings)


def _run(
    fabric: Fabric,
    model: ModelConfig,
    config: TrainConfig,
    source: Source,
    folder: Path,
    execution: Execution,
) -> None:
    """One process of a training."""
    die_with_parent()
    if execution.processes > 1 and execution.threads is not None:
        torch.set_num_threads(execution.threads)
    training = Training(fabric, model, config, source, folder, execution.now)
    curve = Curve(training, execution.logger) if fabric.is_global_zero else None
    done = training.clock.done(training.step)
    title = "encoder" if config.start.encoder_only else "pretrain"
    unit = " of copying" if config.measure == "change" else ""
    # Processes that train together must also stop together.
    alone: AbstractContextManager[list[bool]] = nullcontext([])
    if execution.processes == 1:
        alone = waiting_interrupts()
    bar = Progress(title, enabled=curve is not None and not execution.quiet)
    with alone as interrupted, bar:
        while done < 1 and not interrupted:
            training.make_step(done)
            done = training.clock.done(training.step)
            if training.step % config.budget.validate_every == 0 or done >= 1:
                row = training.validation()
                if curve is not None:
                    curve.write(row)
            if training.clock.save_is_due(training.step):
                training.save()
            bar.update(done, f"step {training.step}  error {training.running:.5f}{unit}")
        if interrupted:
            training.save()
    # A budget that ended before the first new step still leaves the row of its last step.
    if curve is not None and not curve.has(training.step):
        curve.write(training.validation())
    training.save()
    fabric.barrier()


class Training:
    """The state of a run in one process: weights, averages, optimiser and counters."""

    def __init__(
        self,
        fabric: Fabric,
        model: ModelConfig,
        config: TrainConfig,
        source: Source,
        folder: Path,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.fabric, self.config, self.source, self.folder = fabric, config, source, folder
        self.disco = begin(model, config, source)
        self.trainee = Trainee(self.disco)
        self.optimiser = make_optimiser(self.disco, config.optimiser)
        self.wrapped, self.wrapped_optimiser = fabric.setup(self.trainee, self.optimiser)
        self.trainee.reduce_sum = partial(_sum_over_processes, fabric)
        self.average = {name: p.detach().clone() for name, p in self.disco.named_parameters()}
        facts: dict[str, Any] = {"step": 0, "seconds": 0.0, "running": 0.0}
        if self.file.exists():
            facts = checkpoint.load_state(self.file, self.disco, self.average, self.optimiser)
        self.step, self.running = int(facts["step"]), float(facts["running"])
        self.clock = Clock(config.budget, fabric, float(facts["seconds"]), now)

    @property
    def file(self) -> Path:
        return self.folder / checkpoint.FILE

    def make_step(self, done: float) -> None:
        """One batch, one step of the optimiser, one step of the averages."""
        config, fabric = self.config, self.fabric
        set_rates(self.optimiser, config.optimiser, self.step, done)
        seed = batch_seed(config.seed, self.step, fabric.global_rank)
        generator = torch.Generator().manual_seed(seed)
        batch = self.source.draw(config, generator).to(fabric.device)
        outcome = self.wrapped(loss_of_step(config, batch, done, generator), batch)
        self.wrapped_optimiser.zero_grad()
        fabric.backward(outcome.total)
        norm = fabric.clip_gradients(
            self.wrapped,
            self.wrapped_optimiser,
            max_norm=config.optimiser.clip,
            error_if_nonfinite=False,
        )
        # A flow that overflows must not take the weights with it.
        if norm is None or bool(torch.isfinite(norm)):
            self.wrapped_optimiser.step()
        self.step += 1
        decay = min(config.optimiser.ema, (1 + self.step) / (10 + self.step))
        checkpoint.update_average(self.average, self.disco, decay)
        self._follow(float(outcome.error.detach().mean()))

    def _follow(self, error: float) -> None:
        """Move the running mean of the training error."""
        if math.isfinite(error):
            # A single flow that blows up would be seen in the mean for hundreds of steps.
            error = min(error, 1.0)
            self.running = error if self.running == 0 else 0.98 * self.running + 0.02 * error

    def validation(self) -> Row:
        """A row of the curve."""
        row = {"step": self.step, "seconds": round(self.clock.seconds(), 2), "train": self.running}
        return row | validate(
            self.trainee, self.average, self.source, self.config, self.fabric.device
        )

    def save(self) -> None:
        """Write the checkpoint (first process only)."""
        if self.fabric.is_global_zero:
            facts = {"step": self.step, "seconds": self.clock.seconds(), "running": self.running}
            checkpoint.save_state(self.file, self.disco, self.average, self.optimiser, facts)


class Curve:
    """Rows of validation errors: in `metrics.csv` and, if asked for, in another logger."""

    def __init__(self, training: Training, logger: str | None) -> None:
        self.file = MetricsFile(training.folder / "metrics.csv", keep_below=training.step)
        self.extra: Callable[[Row, int], None] | None = open_logger(logger, training.folder)

    def write(self, row: Row) -> None:
        self.file.write(row)
        if self.extra is not None:
            self.extra(row, int(row["step"]))

    def has(self, step: int) -> bool:
        return any(row["step"] == step for row in self.file.rows)


def batch_seed(seed: int, step: int, process: int) -> int:
    """A different stream for every (seed, step, process)."""
    mixed = (seed * 1_000_003 + step) * 1_009 + process
    return (mixed * 0x9E3779B97F4A7C15) % (2**63)


def _sum_over_processes(fabric: Fabric, x: Tensor) -> Tensor:
    total = fabric.all_reduce(x, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total
