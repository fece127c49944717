"""From the averaged weights of a run to a model directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from opsplit._files import read_json, write_json
from opsplit._memory import peak_memory_mb
from opsplit._origin import origin
from opsplit.dictionary import OperatorDictionary
from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.model import Model, load_model
from opsplit.physics import PHYSICS
from opsplit.pretrain import checkpoint
from opsplit.pretrain.card import thinned, write_card
from opsplit.pretrain.config import TrainConfig
from opsplit.pretrain.extract import extract, extract_codebook
from opsplit.pretrain.loggers import Row, read_metrics
from opsplit.pretrain.sources import FreshSource, StoredSource
from opsplit.pretrain.validate import semigroup
from opsplit.terms import Term

DICTIONARY_SEED = 42


def finish(
    folder: Path, model: ModelConfig, config: TrainConfig, source: FreshSource | StoredSource
) -> Model:
    """Extract the dictionary, store the model with its card; a finished folder stays as it is."""
    record, rows = folder / "metrics.json", read_metrics(folder)
    held: Any = read_json(record) if record.exists() else None
    whole = isinstance(held, dict) and (folder / "config.json").exists()
    if whole and held.get("steps") == int(rows[-1]["step"]):
        return Model.load(folder)
    disco = trained(folder, model)
    structure: dict[str, Any] = {}
    if config.start.encoder_only:
        # The operators are those of the model to start from, whatever made them.
        assert config.start.start_from is not None
        start = load_model(config.start.start_from)
        dictionary, structure = start.dictionary, start.metrics.get("structure", {})
        if dictionary.parts[0].decoder is not None:
            dictionary = make_dictionary(disco, config, source)
            dictionary = replace(dictionary, terms=start.dictionary.terms)
    else:
        dictionary = make_dictionary(disco, config, source)
        dictionary = replace(dictionary, terms=_terms(model, source)).with_max_strength(
            config.dictionary.max_strength
        )
        if config.dictionary.prune:
            dictionary = dictionary.pruned(config.dictionary.prune)
    result = (
        _result(rows)
        | ({"structure": structure} if structure else {})
        | {
            "semigroup": semigroup(disco, source, config),
            "operators": len(dictionary),
            "peak_memory_mb": peak_memory_mb(),
            **origin(config.seed),
            "curve": thinned(rows),
            "before": [] if structure else _history(config.start.start_from, model.family),
        }
    )
    made = Model(disco, dictionary, result)
    made.save(folder)
    write_card(folder, model, config, result)
    # The last file: a folder that has it is finished.
    write_json(record, result)
    return made


def trained(folder: Path, model: ModelConfig) -> Disco:
    """The hypernetwork with the averaged weights of the run in `folder`."""
    tensors = load_file(folder / checkpoint.FILE)
    disco = Disco(model)
    for prefix in ("model.", "average."):
        part = {n[len(prefix) :]: t for n, t in tensors.items() if n.startswith(prefix)}
        disco.load_state_dict(part, strict=False)
    return disco.eval().requires_grad_(False)


def make_dictionary(
    disco: Disco, config: TrainConfig, source: FreshSource | StoredSource
) -> OperatorDictionary:
    """Rows of the codebook, or operators that the encoder reads from trajectories."""
    context = config.batches.context
    if isinstance(source, StoredSource):
        if disco.config.environments:
            return extract_codebook(disco, source.coefficients())
        return extract(disco, source.data, context=context, seed=DICTIONARY_SEED)
    examples = source.physics.dictionary_trajectories(
        config.batches.split, config.dictionary.operators, DICTIONARY_SEED
    )
    return extract(disco, examples, context=context, seed=DICTIONARY_SEED)


def _terms(model: ModelConfig, source: FreshSource | StoredSource) -> dict[str, Term]:
    """The terms of the coefficients: those of the data, or of a known equation."""
    if isinstance(source, StoredSource) and source.data.terms:
        return {k: Term(text) for k, text in source.data.terms.items()}
    known = PHYSICS[model.physics].terms if model.physics in PHYSICS else {}
    return {k: t for k, t in known.items() if k in model.coefficients and isinstance(t, Term)}


def _result(rows: list[Row]) -> dict[str, Any]:
    last = rows[-1]
    return {
        "steps": int(last["step"]),
        "minutes": last["seconds"] / 60,
        "validation": {
            k.removeprefix("validation "): v for k, v in last.items() if k.startswith("valid")
        },
    }


def _history(start: str | None, family: str) -> list[dict[str, Any]]:
    """The records of the trainings that a model started from, the first one first."""
    if start is None:
        return []
    last = dict(load_model(start, family).metrics)
    before: list[dict[str, Any]] = last.pop("before", [])
    kept = ("command", "commit", "hardware", "steps", "minutes", "validation", "curve")
    return [*before, {k: last[k] for k in kept if k in last}]
