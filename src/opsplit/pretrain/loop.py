"""One training loop for every recipe, family and physics, on Lightning Fabric."""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from opsplit.config import ModelConfig, TrainConfig
from opsplit.errors import OpsplitError
from opsplit.pretrain import checkpoint
from opsplit.pretrain.disco import Disco
from opsplit.pretrain.loggers import MetricsFile, open_logger
from opsplit.pretrain.sources import Batch, Source
from opsplit.report.progress import Progress

MAY_CHANGE = {"steps", "minutes", "checkpoint_seconds", "checkpoint_steps", "validate_every"}
"""Settings that may differ when a run is continued."""


def train(
    model: ModelConfig,
    config: TrainConfig,
    source: Source,
    folder: Path,
    *,
    device: str = "auto",
    processes: int = 1,
    logger: str | None = None,
    quiet: bool = False,
) -> None:
    """Train until a budget ends, from the newest checkpoint in `folder` if there is one.

    Every process draws its batches from a seed made of (seed, step, process), so a run that was
    killed at any moment continues with the same numbers as one that never stopped. The weights
    end up in `folder/resume.safetensors`, the curve in `folder/metrics.csv`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _check_same_run(folder, model, config)
    several = {"strategy": "ddp_spawn"} if processes > 1 else {}
    fabric = Fabric(accelerator=_accelerator(device), devices=processes, **several)  # type: ignore[arg-type]
    if processes > 1:
        fabric.launch(_run, model, config, source, folder, logger, quiet)
    else:
        _run(fabric, model, config, source, folder, logger, quiet)


def _accelerator(device: str) -> str:
    return {"cuda": "gpu"}.get(device, device)


def _check_same_run(folder: Path, model: ModelConfig, config: TrainConfig) -> None:
    """Refuse to continue a run under other settings; remember the settings of a new one."""
    file = folder / "training.json"
    settings = json.loads(json.dumps({"model": asdict(model), "training": asdict(config)}))
    if (folder / checkpoint.FILE).exists() and file.exists():
        before = json.loads(file.read_text())
        changed = [
            f"{part}.{key}: {before.get(part, {}).get(key)} -> {value}"
            for part, values in settings.items()
            for key, value in values.items()
            if before.get(part, {}).get(key) != value and key not in MAY_CHANGE
        ]
        if changed:
            raise OpsplitError(
                f"{folder} holds a run with other settings ({'; '.join(changed)}). "
                "Use the same settings to continue it, or another --out for a new run."
            )
    file.write_text(json.dumps(settings, indent=2) + "\n")


def _run(
    fabric: Fabric,
    model_config: ModelConfig,
    config: TrainConfig,
    source: Source,
    folder: Path,
    logger: str | None,
    quiet: bool,
) -> None:
    model = Disco(model_config, config.seed)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed}, {"params": plain, "weight_decay": 0.0}],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    wrapped, wrapped_optimiser = fabric.setup(model, optimiser)
    model.reduce_sum = lambda x: _sum_over_processes(fabric, x)
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    facts: dict[str, Any] = {"step": 0, "seconds": 0.0}
    state_file = folder / checkpoint.FILE
    if state_file.exists():
        facts = checkpoint.load_state(state_file, model, average, optimiser)
    step, before = int(facts["step"]), float(facts["seconds"])
    main = fabric.is_global_zero
    metrics = MetricsFile(folder / "metrics.csv", keep_below=step) if main else None
    extra = open_logger(logger, folder) if main else None
    began = saved = time.monotonic()

    def seconds() -> float:
        return before + time.monotonic() - began

    def save() -> None:
        if main:
            checkpoint.save_state(
                state_file, model, average, optimiser, {"step": step, "seconds": seconds()}
            )

    # The clock of the first process decides for all, so that they stop together.
    def progress_made() -> float:
        limit = config.minutes * 60 if config.minutes else math.inf
        clock = fabric.broadcast(seconds()) if fabric.world_size > 1 else seconds()
        return max(step / config.steps, clock / limit)

    bar = Progress("pretrain", enabled=main and not quiet)
    running = 0.0
    done = progress_made()
    with bar:
        while done < 1:
            for group in optimiser.param_groups:
                group["lr"] = config.learning_rate * schedule(step, done, config.warm_up)
            generator = torch.Generator().manual_seed(
                _seed(config.seed, step, fabric.global_rank)
            )
            batch = source.draw(config, generator).to(fabric.device)
            loss, error = _losses(wrapped, batch, config, generator)
            wrapped_optimiser.zero_grad()
            fabric.backward(loss)
            fabric.clip_gradients(
                wrapped, wrapped_optimiser, max_norm=config.clip, error_if_nonfinite=False
            )
            wrapped_optimiser.step()
            step += 1
            decay = min(config.ema, (1 + step) / (10 + step))
            checkpoint.update_average(average, model, decay)
            running = error if running == 0 else 0.98 * running + 0.02 * error
            done = progress_made()
            if step % config.validate_every == 0 or done >= 1:
                row = {"step": step, "seconds": round(seconds(), 2), "train": running}
                row |= validate(model, average, source, config, fabric.device)
                if metrics is not None:
                    metrics.write(row)
                if extra is not None:
                    extra(row, step)
            now = time.monotonic()
            due = config.checkpoint_steps and step % config.checkpoint_steps == 0
            if due or now - saved > config.checkpoint_seconds:
                save()
                saved = now
            bar.update(done, f"step {step}  error {running:.5f}")
    save()
    fabric.barrier()


def _losses(
    model: Callable[..., dict[str, Tensor]],
    batch: Batch,
    config: TrainConfig,
    generator: torch.Generator,
) -> tuple[Tensor, float]:
    use = None
    if config.recipe == "codebook":
        coin = torch.rand(len(batch.context), generator=generator)
        use = (coin < config.codebook_share).to(batch.context.device)
    out = model(batch, use, config.codebook_momentum)
    error = out["error"].mean()
    return error + config.commitment * out["commitment"], float(error.detach())


def schedule(step: int, done: float, warm_up: int) -> float:
    """Linear warm-up in steps, then a cosine in the share of the budget that is used."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return min(1.0, (step + 1) / max(1, warm_up)) * (1e-3 + (1 - 1e-3) * cosine)


def _seed(seed: int, step: int, process: int) -> int:
    """A different stream for every (seed, step, process)."""
    mixed = (seed * 1_000_003 + step) * 1_009 + process
    return (mixed * 0x9E3779B97F4A7C15) % (2**63)


def _sum_over_processes(fabric: Fabric, x: Tensor) -> Tensor:
    total = fabric.all_reduce(x, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


@torch.no_grad()
def validate(
    model: Disco,
    average: dict[str, Tensor],
    source: Source,
    config: TrainConfig,
    device: torch.device,
) -> dict[str, float]:
    """One-step error of the averaged weights on fixed unseen batches, per mechanism."""
    current = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.load_state_dict(average, strict=False)
    settings = replace(config, durations=(1.0,), environments=32, states=8, warm_up_states=0.0)
    found: dict[str, list[float]] = {}
    for index in range(2):
        generator = torch.Generator().manual_seed(2**40 + index)
        batch = source.draw(settings, generator).to(device)
        errors = model(batch)["error"].tolist()
        for mechanism, error in zip(batch.mechanisms(), errors, strict=True):
            found.setdefault(f"validation {mechanism}", []).append(error)
    model.load_state_dict(current, strict=False)
    means = {name: sum(v) / len(v) for name, v in sorted(found.items())}
    return {"validation": sum(means.values()) / len(means), **means}


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The rows of `metrics.csv`."""
    with open(folder / "metrics.csv", newline="") as stream:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(stream)]
