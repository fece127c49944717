"""`opsplit.pretrain`: from data to a model."""

from __future__ import annotations

import math
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from opsplit._device import rank
from opsplit._tensors import threads, usual_defaults
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.model import Model, load_model
from opsplit.pretrain.auto import Structure, assemble, learn_structure
from opsplit.pretrain.config import Start, TrainConfig, preset_operator, preset_settings
from opsplit.pretrain.data import Data, is_stored, name_of, open_source
from opsplit.pretrain.finish import finish
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.loop import Execution, train
from opsplit.pretrain.operator import Auto, Choice, fitted
from opsplit.pretrain.sources import Facts, FreshSource, StoredSource
from opsplit.settings import path_argument

EARLY = "first"
"""The folder of the first model that serves, while structures are made better."""
STRUCTURE = 0.9
"""Share of a time budget in which the structure must be found; the rest is the encoder's, which
searches do not use."""
PATIENCE = 86400.0
"""Seconds that the other processes of a training wait for what the first one writes."""


@usual_defaults()
def pretrain(
    data: Data,
    out: str | Path = "runs/model",
    *,
    operator: Choice | None = None,
    training: TrainConfig | None = None,
    encoder: EncoderConfig | None = None,
    preset: str = "cpu",
    name: str = "",
    execution: Execution | None = None,
) -> Model:
    """Train a model into the folder `out`, or continue the training that is there.

    Arguments:
        data: stored trajectories (`Trajectories`, `Recording` or a path), or an equation that is
            simulated while training (`Physics` or its name).
        operator: an operator family, a nonlinearity for the spectral family, or the name of one.
            `"auto"` lets the structure of stored data be chosen by evidence (default; of the preset
            `"paper"`: `"unet"`).
        training: settings of the training (default: those of the preset).
        encoder: sizes of the hypernetwork (default: those of the preset).
        preset: `"paper"`, `"cpu"` or `"tiny"`.
        name: of the model (default: the name of the equation or of the file).
        execution: device, number of devices and machines, threads, logger.

    Returns:
        The trained model, which is also in `out`.

    Raises:
        OpsplitError: if the data cannot be trained on, or `out` holds another training.

    Examples:
        >>> model = opsplit.pretrain("pure.npz", "model")  # doctest: +SKIP
    """
    execution = execution or Execution()
    began = execution.now()
    name = name or name_of(data)
    operator = preset_operator(preset) if operator is None else operator
    usual_encoder, usual_training = preset_settings(preset, is_stored(data), name)
    encoder, training = encoder or usual_encoder, training or usual_training
    source = open_source(data, training.batches, continued=operator in (Auto.kind, Auto()))
    _check(training, source)
    folder = path_argument(out, "out")
    share = max(1, (os.cpu_count() or 1) // execution.devices)
    with threads(execution.threads or share):
        if by_evidence(operator, source):
            assert isinstance(source, StoredSource)
            facts = source.facts(name)
            model, training = _structured(
                source, facts, training, encoder, folder, execution, preset, began
            )
        elif training.start.encoder_only:
            # The operators are those of the model to start from.
            model = replace(_recognisable(training, source), encoder=encoder)
        else:
            model = _model(source, name, operator, training, encoder, preset)
        train(model, training, source, folder, execution)
        if rank() > 0:
            # The first process writes the model.
            return _once_written(folder)
        return finish(folder, model, training, source)


def _once_written(folder: Path) -> Model:
    """A model that the first process of the training writes."""
    until = time.monotonic() + PATIENCE
    while not (folder / "metrics.json").exists():
        if time.monotonic() > until:
            raise OpsplitError(
                f"{folder} has no model after {PATIENCE / 3600:g} hours: the first process of "
                "the training ended early, or writes to another disk."
            )
        time.sleep(1.0)
    return Model.load(folder)


def by_evidence(operator: Choice, source: FreshSource | StoredSource) -> bool:
    """Whether the structure of the operators is chosen by evidence in the data."""
    stored = isinstance(source, StoredSource) and source.data.grid.periodic
    return operator in (Auto.kind, Auto()) and stored


def _structured(
    source: StoredSource,
    facts: Facts,
    training: TrainConfig,
    encoder: EncoderConfig,
    folder: Path,
    execution: Execution,
    preset: str,
    began: float,
) -> tuple[ModelConfig, TrainConfig]:
    """The model of the structure that evidence shows, and the training of its encoder.

    A time budget holds for both, from the moment `began`.
    """
    place, budget = folder / "structure", training.budget
    if rank() > 0:
        made = _once_written(place)
    elif (place / "metrics.json").exists():
        made = Model.load(place)
    else:
        whole = math.inf if budget.minutes is None else 60 * budget.minutes
        limit = Limit(STRUCTURE * whole - (execution.now() - began), execution.now)
        first: dict[str, float] = {}

        def assembled(structure: Structure) -> Model:
            made = assemble(structure, source, facts, encoder, preset)
            most = training.dictionary.max_strength
            return replace(made, dictionary=made.dictionary.with_max_strength(most))

        def early(structure: Structure) -> None:
            made = assembled(structure)
            found = made.metrics["structure"]
            found["verdict"] += "; the first operators that serve, before they were made better"
            made.save(folder / EARLY)
            first["seconds"] = found["seconds"]
            first["processor_seconds"] = found["processor_seconds"]
            first["worst"] = max(row["worst"] for row in found["mechanisms"])

        structure = learn_structure(source, facts, execution.quiet, limit, early)
        made = assembled(structure)
        if first:
            made.metrics["structure"]["first"] = first
        made.save(place)
        shutil.rmtree(folder / EARLY, ignore_errors=True)
    seconds = made.metrics["structure"]["seconds"]
    if budget.minutes is not None:
        budget = replace(budget, minutes=max(0.01, budget.minutes - seconds / 60))
    start = Start(start_from=str(place), encoder_only=True)
    codebook = replace(training.codebook, by_gradient=1.0)
    # A structure needs few frames; the encoder makes do with as many.
    context = min(training.batches.context, len(source.data.times) - 1)
    batches = replace(training.batches, context=context)
    later = replace(
        training, recipe="codebook", budget=budget, start=start, codebook=codebook, batches=batches
    )
    return made.config, later


def _check(training: TrainConfig, source: FreshSource | StoredSource) -> None:
    if training.recipe == "codebook" and isinstance(source, FreshSource):
        raise OpsplitError(
            "The codebook recipe needs environments: give stored trajectories with --data, "
            "or use --training.recipe in-context."
        )


def _model(
    source: FreshSource | StoredSource,
    name: str,
    operator: Choice,
    training: TrainConfig,
    encoder: EncoderConfig,
    preset: str,
) -> ModelConfig:
    """The model that the settings and the data describe."""
    facts = source.facts(name)
    return ModelConfig(
        physics=facts.name,
        recipe=training.recipe,
        preset=preset,  # type: ignore[arg-type]
        channels=facts.channels,
        dt=facts.dt,
        grid=facts.grid,
        coefficients=facts.coefficients,
        environments=facts.environments if training.recipe == "codebook" else 0,
        scale=facts.scale,
        rescale=facts.rescale,
        encoder=encoder,
        operator=fitted(operator, facts, source, training),
        prune=training.dictionary.prune,
    )


def _recognisable(training: TrainConfig, source: FreshSource | StoredSource) -> ModelConfig:
    """The model whose codes an encoder learns to recognise; the data must be those of its
    training."""
    name = training.start.start_from
    start = None if name is None else load_model(name)
    if start is None or not start.config.environments or not isinstance(source, StoredSource):
        raise OpsplitError(
            "An encoder alone learns to recognise the codes of a trained codebook: give --data "
            "and --training.start.start-from a model of the codebook recipe."
        )
    known = {key: values.tolist() for key, values in source.coefficients().items()}
    if known != {key: list(values) for key, values in start.dictionary.coefficients.items()}:
        raise OpsplitError(
            f"The data have other dynamics than the {start.config.environments} that "
            f"{name} was trained on; give the data of its training."
        )
    return start.config
