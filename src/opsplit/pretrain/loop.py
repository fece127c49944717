"""One training loop for every recipe, family and physics, on Lightning Fabric."""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor, nn

from opsplit._files import read_json, write_json
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.pretrain import checkpoint
from opsplit.pretrain.config import TrainConfig
from opsplit.pretrain.loggers import MetricsFile, open_logger
from opsplit.pretrain.sources import Batch, Source, StoredSource
from opsplit.progress import Progress

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
    threads: int | None = None,
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
    # The encoder rests in some steps, the codebook in others.
    spawn = DDPStrategy(start_method="spawn", find_unused_parameters=True)
    several = {"strategy": spawn} if processes > 1 else {}
    accelerator, devices = _accelerator(device, processes)
    fabric = Fabric(accelerator=accelerator, devices=devices, **several)  # type: ignore[arg-type]
    if processes > 1:
        # Bound, because Fabric looks into arguments and does not take frozen dataclasses.
        rest = (model, config, source, folder, logger, quiet)
        fabric.launch(partial(_run_process, threads=threads, rest=rest))
    else:
        _run(fabric, model, config, source, folder, logger, quiet)


def _accelerator(device: str, processes: int) -> tuple[str, int | list[int]]:
    """Fabric's words for `cpu`, `cuda` or `cuda:1`."""
    kind, _, number = device.partition(":")
    if number and processes > 1:
        raise OpsplitError(f"{device} is one device; {processes} processes need --device {kind}.")
    return {"cuda": "gpu"}.get(kind, kind), [int(number)] if number else processes


def _run_process(fabric: Fabric, threads: int | None, rest: tuple[Any, ...]) -> None:
    """One of several processes; threads are counted per process."""
    if threads is not None:
        torch.set_num_threads(threads)
    _run(fabric, *rest)


def _check_same_run(folder: Path, model: ModelConfig, config: TrainConfig) -> None:
    """Refuse to continue a run under other settings; remember the settings of a new one."""
    file = folder / "training.json"
    settings = json.loads(json.dumps({"model": model.to_json(), "training": asdict(config)}))
    if (folder / checkpoint.FILE).exists() and file.exists():
        before = read_json(file)
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
    write_json(file, settings)


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
    if config.recipe == "codebook":
        _begin_codebook(model, source)
    if config.encoder_from is not None:
        _borrow(model.encoder, config.encoder_from, "encoder")
    if config.start_from is not None:
        _borrow(model, config.start_from, family=model_config.family)
    if config.encoder_only:
        model.decoder.requires_grad_(False)
        model.codebook.requires_grad_(False)
    shared = [] if model.decoder.shared is None else [model.decoder.shared]
    others = [p for p in model.decoder.parameters() if p is not model.decoder.shared]
    groups = [
        {"params": [p for p in part if (p.ndim > 1) == decayed], "faster": rate}
        | ({} if decayed else {"weight_decay": 0.0})
        for part, rate in (
            (list(model.encoder.parameters()), config.encoder_rate),
            (others, 1.0),
            (shared, config.shared_rate),
        )
        for decayed in (True, False)
    ]
    if len(model.codebook):
        groups += [{"params": [model.codebook], "faster": 1.0, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(
        groups,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    wrapped, wrapped_optimiser = fabric.setup(model, optimiser)
    model.reduce_sum = lambda x: _sum_over_processes(fabric, x)
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    facts: dict[str, Any] = {"step": 0, "seconds": 0.0, "running": 0.0}
    state_file = folder / checkpoint.FILE
    if state_file.exists():
        facts = checkpoint.load_state(state_file, model, average, optimiser)
    step, before = int(facts["step"]), float(facts["seconds"])
    running = float(facts.get("running", 0.0))
    main = fabric.is_global_zero
    metrics = MetricsFile(folder / "metrics.csv", keep_below=step) if main else None
    extra = open_logger(logger, folder) if main else None
    began = saved = time.monotonic()

    def seconds() -> float:
        return before + time.monotonic() - began

    def save() -> None:
        if main:
            held = {"step": step, "seconds": seconds(), "running": running}
            checkpoint.save_state(state_file, model, average, optimiser, held)

    def record() -> None:
        row = {"step": step, "seconds": round(seconds(), 2), "train": running}
        row |= validate(model, average, source, config, fabric.device)
        if metrics is not None:
            metrics.write(row)
        if extra is not None:
            extra(row, step)

    # The clock of the first process decides for all, so that they stop together.
    def progress_made() -> float:
        limit = config.minutes * 60 if config.minutes else math.inf
        clock = fabric.broadcast(seconds()) if fabric.world_size > 1 else seconds()
        return max(step / config.steps, clock / limit)

    bar = Progress("pretrain", enabled=main and not quiet)
    done = progress_made()
    with bar:
        while done < 1:
            for group in optimiser.param_groups:
                rate = config.learning_rate * schedule(step, done, config.warm_up)
                group["lr"] = group["faster"] * rate
            generator = torch.Generator().manual_seed(_seed(config.seed, step, fabric.global_rank))
            batch = source.draw(config, generator).to(fabric.device)
            loss, error = _losses(wrapped, batch, config, generator, done)
            wrapped_optimiser.zero_grad()
            fabric.backward(loss)
            norm = fabric.clip_gradients(
                wrapped, wrapped_optimiser, max_norm=config.clip, error_if_nonfinite=False
            )
            # A flow that overflows must not take the weights with it.
            if norm is None or bool(torch.isfinite(norm)):
                wrapped_optimiser.step()
            step += 1
            decay = min(config.ema, (1 + step) / (10 + step))
            checkpoint.update_average(average, model, decay)
            if math.isfinite(error):
                # A single flow that blows up would be seen in the mean for hundreds of steps.
                error = min(error, 1.0)
                running = error if running == 0 else 0.98 * running + 0.02 * error
            done = progress_made()
            if step % config.validate_every == 0 or done >= 1:
                record()
            now = time.monotonic()
            due = config.checkpoint_steps and step % config.checkpoint_steps == 0
            if due or now - saved > config.checkpoint_seconds:
                save()
                saved = now
            bar.update(done, f"step {step}  error {running:.5f}")
    # A budget that ended before the first new step still leaves the row of its last step.
    if metrics is not None and not any(row["step"] == step for row in metrics.rows):
        record()
    save()
    fabric.barrier()


def _begin_codebook(model: Disco, source: Source) -> None:
    """Rows start in the order of their coefficients, where these are known."""
    known = source.coefficients() if isinstance(source, StoredSource) else {}
    for i, values in enumerate(list(known.values())[: model.codebook.shape[1]]):
        model.codebook.data[:, i] = values.float() / values.abs().max().clamp_min(1e-30)


def _borrow(into: nn.Module, name: str, part: str = "", family: str | None = None) -> None:
    """Begin with trained weights: a whole model's, or those of a part such as its encoder.

    What a code means is the same for every operator family, so an encoder serves another family.
    Operators that have gained parameters at their end keep their own start for these.
    """
    from opsplit.model import load_model

    disco = load_model(name, family).disco
    weights = disco.get_submodule(part).state_dict()
    for key, own in into.state_dict().items():
        held = weights.get(key)
        if key.startswith(("moments.", "encoder.moments.")):
            weights.setdefault(key, own)
        if key.startswith("decoder.") and held is not None and len(held) < len(own):
            weights[key] = torch.cat([held, own[len(held) :]])
    try:
        into.load_state_dict(weights)
    except RuntimeError:
        raise OpsplitError(
            f"The {part or 'model'} of {name} has other sizes than the one to train; "
            "use the same preset."
        ) from None


def _losses(
    model: Callable[..., dict[str, Tensor]],
    batch: Batch,
    config: TrainConfig,
    generator: torch.Generator,
    done: float = 0.0,
) -> tuple[Tensor, float]:
    use = None
    if config.recipe == "codebook":
        coin = torch.rand(len(batch.context), generator=generator)
        use = (coin < config.codebook_share).to(batch.context.device)
    if config.encoder_only:
        out = model(batch, only_read=True)
    elif config.recipe == "codebook" and done > 1 - config.polish:
        read = float(torch.rand((), generator=generator)) < config.polish_reads
        out = model(batch, per_channel=config.per_channel, polish=read)
    else:
        out = model(batch, use, config.codebook_momentum, config.per_channel)
    error = float(out["error"].detach().mean())
    return out["loss"].mean() + config.commitment * out["commitment"], error


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
    """One-step error of the averaged weights on fixed unseen batches, per mechanism.

    Codes are those of the dictionary to be: rows of a polished codebook, else the encoder's.
    """
    current = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.load_state_dict(average, strict=False)
    settings = replace(config, durations=(1.0,), environments=32, states=8, warm_up_states=0.0)
    found: dict[str, list[float]] = {}
    read: list[float] = []
    for index in range(2):
        generator = torch.Generator().manual_seed(2**40 + index)
        batch = source.draw(settings, generator).to(device)
        rows = config.recipe == "codebook" and config.polish > 0
        errors = model(batch, polish=False if rows else None)["error"].tolist()
        if rows:
            # Not in the mean: what direct prediction would score.
            read += model(batch)["error"].tolist()
        for mechanism, error in zip(batch.mechanisms(), errors, strict=True):
            found.setdefault(f"validation {mechanism}", []).append(error)
    model.load_state_dict(current, strict=False)
    means = {name: sum(v) / len(v) for name, v in sorted(found.items())}
    out = {"validation": sum(means.values()) / len(means), **means}
    return out | ({"validation read": sum(read) / len(read)} if read else {})


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The rows of `metrics.csv`."""
    with open(folder / "metrics.csv", newline="") as stream:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(stream)]
