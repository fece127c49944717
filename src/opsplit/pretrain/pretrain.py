"""The whole stage: configure, train, extract, store."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from opsplit._files import origin, peak_memory_mb, read_json, write_json
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.hypernetwork.disco import Disco, relative_error
from opsplit.io import load_trajectories
from opsplit.model import Model, load_model
from opsplit.operators import Examples
from opsplit.physics import PHYSICS, get_physics
from opsplit.pretrain import checkpoint
from opsplit.pretrain.card import thinned, write_card
from opsplit.pretrain.config import OPERATORS, TrainConfig, preset_configs
from opsplit.pretrain.extract import extract, extract_codebook
from opsplit.pretrain.loop import read_metrics, train
from opsplit.pretrain.sources import FreshSource, StoredSource
from opsplit.trajectories import Trajectories

DICTIONARY_SEED = 42


def pretrain(
    physics: str,
    family: str,
    preset: str,
    folder: Path,
    *,
    data: Path | None = None,
    changes: dict[str, Any] | None = None,
    device: str = "cpu",
    processes: int = 1,
    threads: int | None = None,
    logger: str | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train a model into `folder`, or go on with the training that is there.

    Arguments:
        physics: a known equation, or any name together with `data`.
        data: stored trajectories to train on.
        changes: settings of `TrainConfig` that differ from the preset.
    """
    torch.set_num_threads(threads or max(1, (os.cpu_count() or 1) // processes))
    encoder, config = preset_configs(preset, family, physics, data is not None)
    source: FreshSource | StoredSource
    if data is not None:
        stored = load_trajectories(data)
        source = StoredSource(stored, config.resolved)
        grid, dt, channels = stored.grid, stored.dt, stored.channels
        names, rescale = tuple(stored.coefficients), False
        scale = float(stored.data.std()) or 1.0
    elif physics in PHYSICS:
        equation = get_physics(physics)
        equation.check_split((changes or {}).get("split", "train"))
        if "warm-up" not in equation.splits:
            raise OpsplitError(
                f"{physics} is too dear to simulate while training. Store trajectories first: "
                f"opsplit generate {physics} --out data, then "
                f"opsplit pretrain {physics} --data data/{physics}"
            )
        source = FreshSource(equation)
        grid, dt, channels = equation.grid, equation.dt, equation.channels
        names = tuple(equation.sample_coefficients("train", 1, torch.Generator()))
        rescale, scale = equation.homogeneous, 1.0
    else:
        raise OpsplitError(
            f"Unknown physics {physics!r}: choose from {sorted(PHYSICS)}, or give --data."
        )
    config = replace(config, **(changes or {}))
    environments = 0
    if config.recipe == "codebook":
        if isinstance(source, FreshSource):
            raise OpsplitError(
                "The codebook recipe needs environments: give stored trajectories with --data, "
                "or use --recipe in-context."
            )
        environments = source.environments
    _check_sizes(encoder, config, grid.shape)
    operator: dict[str, Any] = dict(OPERATORS.get((physics, family), {}))
    operator["max_step"] = dt * 1.001 / operator.pop("steps", 1)
    if family == "unet":
        operator["boundary"] = list(grid.boundary)
        if preset != "paper":
            # A flow that leaves the upper half of the modes alone stays stable in composition.
            operator.setdefault("band", 0.5)
            operator.setdefault("shifted", True)
        if operator.pop("standardise", False) and data is not None:
            operator |= _standard(stored, scale)
    else:
        operator["spacing"] = min(grid.spacing)
        operator["bump_wavenumber"] = max(
            3.1416 * n / length for n, length in zip(grid.shape, grid.extent, strict=True)
        )
    from opsplit.upgrade import _spectral, _unet

    made = (_unet if family == "unet" else _spectral)(operator, len(channels), grid.ndim)
    if data is not None and "degree" in operator:
        draws = torch.Generator().manual_seed(0)
        some = stored.data.flatten(0, 1)[
            torch.randint(stored.data.shape[0] * stored.data.shape[1], (64,), generator=draws)
        ]
        made = made.fitted(Examples(some.float() / scale, some.float() / scale, grid, dt))
    model = ModelConfig(
        physics=physics,
        recipe=config.recipe,
        preset=preset,  # type: ignore[arg-type]
        channels=tuple(channels),
        dt=dt,
        grid=grid,
        coefficients=names,
        environments=environments,
        scale=scale,
        rescale=rescale,
        encoder=encoder,
        operator=made,
    )
    if config.encoder_only:
        # The operators are those that are there, whatever the settings of today would make.
        model = replace(_codes_to_tell(config, family, source), encoder=encoder)
    train(
        model, config, source, folder,
        device=device, processes=processes, threads=threads, logger=logger, quiet=quiet,
    )  # fmt: skip
    return finish(folder, model, config, source)


def _standard(data: Trajectories, scale: float) -> dict[str, Any]:
    """Mean and deviation of every channel, and how fast it usually changes."""
    fields = data.data[::2, ::4].float().transpose(0, 2).flatten(1) / scale
    change = data.data[::2].float().diff(dim=1)[:, ::4].transpose(0, 2).flatten(1) / scale
    return {
        "centre": fields.mean(1).tolist(),
        "spread": fields.std(1).tolist(),
        "pace": (change.square().mean(1).sqrt() / data.dt).tolist(),
    }


def _check_sizes(encoder: EncoderConfig, config: TrainConfig, shape: tuple[int, ...]) -> None:
    if any(n % encoder.patch for n in shape):
        raise OpsplitError(
            f"The encoder cuts every axis into patches of {encoder.patch} points; "
            f"a grid of {shape} does not divide."
        )
    if not config.learning_rate > 0 or config.steps < 1:
        raise OpsplitError("Training needs a positive learning rate and at least one step.")


def finish(
    folder: Path, model: ModelConfig, config: TrainConfig, source: FreshSource | StoredSource
) -> dict[str, Any]:
    """Turn the averaged weights of a run into a model directory."""
    record = folder / "metrics.json"
    held = load_file(folder / checkpoint.FILE)
    rows = read_metrics(folder)
    if record.exists():
        before: dict[str, Any] = read_json(record)
        if before.get("steps") == int(rows[-1]["step"]):
            return before
    disco = Disco(model)
    for prefix in ("model.", "average."):
        part = {n[len(prefix) :]: t for n, t in held.items() if n.startswith(prefix)}
        disco.load_state_dict(part, strict=False)
    disco.eval().requires_grad_(False)
    if model.environments:
        assert isinstance(source, StoredSource)
        dictionary = extract_codebook(disco, source.coefficients())
    elif isinstance(source, StoredSource):
        dictionary = extract(disco, source.data, context=config.context, seed=DICTIONARY_SEED)
    else:
        examples = source.physics.dictionary_trajectories(
            config.split, config.dictionary, DICTIONARY_SEED
        )
        dictionary = extract(disco, examples, context=config.context, seed=DICTIONARY_SEED)
    result = {
        "steps": int(rows[-1]["step"]),
        "minutes": rows[-1]["seconds"] / 60,
        "validation": {
            k.removeprefix("validation "): v for k, v in rows[-1].items() if k.startswith("valid")
        },
        "semigroup": semigroup(disco, source, config),
        "operators": len(dictionary),
        "peak_memory_mb": peak_memory_mb(),
        **origin(config.seed),
        "curve": thinned(rows),
        "before": _history(config.start_from, model.family),
    }
    Model(disco, dictionary, result).save(folder)
    write_card(folder, model, config, result)
    write_json(record, result)
    return result


def _codes_to_tell(
    config: TrainConfig, family: str, source: FreshSource | StoredSource
) -> ModelConfig:
    """The model whose operators an encoder learns to tell; the data must have the same ones."""
    start = None if config.start_from is None else load_model(config.start_from, family)
    if start is None or not start.config.environments or not isinstance(source, StoredSource):
        raise OpsplitError(
            "An encoder alone learns to tell the codes of a trained codebook: give --data and "
            "--start-from a model of the codebook recipe."
        )
    known = {name: values.tolist() for name, values in source.coefficients().items()}
    if known != {name: list(values) for name, values in start.dictionary.coefficients.items()}:
        raise OpsplitError(
            f"The data have other dynamics than the {start.config.environments} that "
            f"{config.start_from} was trained on; give the data of its training."
        )
    return start.config


def _history(start: str | None, family: str) -> list[dict[str, Any]]:
    """What was known of the trainings that a model started from, the first one first."""
    if start is None:
        return []
    last = dict(load_model(start, family).metrics)
    before: list[dict[str, Any]] = last.pop("before", [])
    kept = ("command", "commit", "hardware", "steps", "minutes", "validation", "curve")
    return [*before, {k: last[k] for k in kept if k in last}]


@torch.no_grad()
def semigroup(disco: Disco, source: FreshSource | StoredSource, config: TrainConfig) -> float:
    """How far two half steps are from one whole step, relative, on unseen states.

    The operators are those of the dictionary to be, as in `validate`.
    """
    settings = replace(config, durations=(1.0,), environments=16, states=8)
    batch = source.draw(settings, torch.Generator().manual_seed(2**40 + 7))
    rows = config.recipe == "codebook" and config.polish > 0
    codes = disco.codebook[batch.environment] if rows else disco.encode(batch.context)
    operators = disco.operators(codes)
    u, h = batch.state / disco.config.scale, batch.duration
    whole = disco.family.flow(operators, u, h)
    halves = disco.family.flow(operators, disco.family.flow(operators, u, h / 2), h / 2)
    return float(relative_error(halves, whole).mean())
