"""Training that nobody has to tailor: structure by evidence, then an encoder that recognises it.

The structure of every mechanism is chosen and its weights are fitted in seconds to minutes; that
alone is a complete dictionary. The rest of the budget trains the encoder, which direct prediction
needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit._files import origin
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.hypernetwork.linear_decoder import LinearDecoder
from opsplit.model import Model
from opsplit.operators.spectral.filters import order_of
from opsplit.operators.spectral.products import parse
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.sources import Facts, StoredSource
from opsplit.pretrain.structure import (
    Learned,
    check_data,
    join,
    learn,
    mechanisms,
    used_terms,
)
from opsplit.pretrain.wording import learned_term
from opsplit.progress import Progress
from opsplit.terms import Term

GOOD = 0.05
"""Operators serve in compositions where they leave less than this share of the change on average,
and no environment leaves ten times as much."""
UNSURE = 1.1
"""Squared errors up to so many times those of the noise in the frames are noise."""
MOST_NOISE = 0.6
"""Where noise makes more than this share of the change, nothing is known about the rest."""
EXACT = 1e-5
"""Directions of codes are added until they miss less than this share of the weights."""
MOST_DIRECTIONS = 8


def structure_words(report: dict[str, Any]) -> str:
    """The choice, its rivals and their errors, as a table to read."""
    lines = ["mechanism  error of a step  terms (rivals and their errors)"]
    for row in report["mechanisms"]:
        rivals = ", ".join(f"{r['structure']} {r['error']:.2g}" for r in row["rivals"])
        terms = ", ".join(t or "identity" for t in row["terms"])
        lines.append(f"{row['mechanism']:9}  {row['error']:15.2g}  {terms} ({rivals})")
    lines.append(
        f"found in {report['seconds']:.1f} s; the error of a step is relative to its change, on "
        f"fields that were not fitted.\nverdict: {report['verdict']}"
    )
    return "\n".join(lines)


@dataclass(frozen=True)
class Structure:
    """What evidence says about all mechanisms of a data set."""

    learned: tuple[Learned, ...]
    evidence: Evidence
    seconds: float

    def report(self) -> dict[str, Any]:
        """Choices, rivals and errors as plain values."""
        rows: list[dict[str, Any]] = []
        for one in self.learned:
            terms = sorted({t for kind in used_terms(one).values() for t in kind})
            rows.append({
                "mechanism": one.mechanism,
                "terms": terms,
                "error": float(one.error.mean()),
                "worst": float(one.error.max()),
                "noise": float(one.noise.mean()),
                "beyond_noise": float(beyond_noise(one).mean()),
                "environments": len(one.environments),
                "complete": one.complete,
                "rivals": [
                    {"structure": r.name, "terms": list(r.terms), "error": r.error}
                    for r in one.rivals
                ],
            })  # fmt: skip
        weak = [one.mechanism for one in self.learned if is_weak(one)]
        verdict = "good for compositions"
        if weak:
            verdict = (
                f"weak: {', '.join(weak)} (more than {GOOD:.0%} of the change is left: noise, too "
                "few frames, or terms that no structure has)"
            )
        noisy = [row for row in rows if row["noise"] > GOOD and row["mechanism"] not in weak]
        if noisy:
            names = ", ".join(row["mechanism"] for row in noisy)
            verdict += (
                f"; the frames of {names} hold noise, which makes up to "
                f"{max(row['noise'] for row in noisy):.0%} of the change of a step and was taken "
                "off before judging"
            )
        hurried = [row["mechanism"] for row in rows if not row["complete"]]
        if hurried:
            verdict += (
                f"; {', '.join(hurried)}: the time was over before all structures were tried; "
                "this is the best so far, and more minutes may improve it"
            )
        mixed = [row["mechanism"] for row in rows if "+" in row["mechanism"]]
        if mixed:
            verdict += (
                f"; {', '.join(mixed)} act together in the data: forecasts are not affected, but "
                "their coefficients can only be told apart by other trajectories"
            )
        return {"verdict": verdict, "weak": weak, "seconds": self.seconds, "mechanisms": rows}


def beyond_noise(one: Learned) -> Tensor:
    """Errors `(E,)` of a step without the part that noise in the frames explains."""
    return (one.error.square() - UNSURE * one.noise.square()).clamp_min(0).sqrt()


def is_weak(one: Learned) -> bool:
    """Whether operators leave too much of the change, or noise hides what they leave."""
    left = beyond_noise(one)
    hidden = float(one.noise.mean()) > MOST_NOISE
    return hidden or float(left.mean()) > GOOD or float(left.max()) > 10 * GOOD


def learn_structure(
    source: StoredSource, facts: Facts, quiet: bool = False, limit: Limit | None = None
) -> Structure:
    """The structure of every mechanism in the data, as good as the time until `limit` allows."""
    check_data(source.data)
    limit = limit or Limit()
    began = limit.now()
    evidence = Evidence(source.data, facts.scale)
    found, coefficients = mechanisms(source.data), source.coefficients()
    learned = []
    with Progress("structure", enabled=not quiet, every=10.0) as bar:
        for i, (name, environments) in enumerate(found.items()):
            bar.update(i / len(found), f"mechanism {name}")
            labels = None
            if name in coefficients:
                labels = coefficients[name][list(environments)].double()
            # Simple mechanisms need little: one may take twice its share, if others leave it.
            own = limit.part(2 / (len(found) - i + 1))
            learned.append(learn(evidence, name, environments, labels, own))
    return Structure(tuple(learned), evidence, limit.now() - began)


def assemble(
    structure: Structure, source: StoredSource, facts: Facts, encoder: EncoderConfig, preset: str
) -> Model:
    """A model whose operators are those of the structure and whose encoder is untrained."""
    family, parameters = join(structure.learned, structure.evidence)
    codes, directions = code_directions(structure.learned, parameters)
    config = ModelConfig(
        physics=facts.name,
        operator=family,
        grid=facts.grid,
        dt=facts.dt,
        channels=facts.channels,
        coefficients=facts.coefficients,
        recipe="codebook",
        preset=preset,  # type: ignore[arg-type]
        environments=facts.environments,
        scale=facts.scale,
        encoder=replace(encoder, code=codes.shape[1], decoder="linear"),
    )
    disco = Disco(config)
    assert isinstance(disco.decoder, LinearDecoder)
    with torch.no_grad():
        disco.decoder.directions.copy_(directions)
        disco.codebook.copy_(codes)
    disco.eval().requires_grad_(False)
    known = {k: v.double().numpy() for k, v in source.coefficients().items()}
    words = tuple(f"environment {i}" for i in range(len(parameters)))
    part = Part(family, parameters.float(), None, facts.scale)
    terms = learned_terms(structure, source, facts)
    for key, text in source.data.terms.items():
        # What the user says a term is called; what was learned about it stays.
        terms[key] = replace(terms[key], text=text) if key in terms else Term(text)
    dictionary = OperatorDictionary((part,), known, words, terms)
    return Model(disco, dictionary, {"structure": structure.report(), **origin(0)})


def code_directions(learned: Sequence[Learned], parameters: Tensor) -> tuple[Tensor, Tensor]:
    """Codes `(E, d)` of unit size and the directions `(d, P)` they stand for.

    Every mechanism has coordinates of its own: principal directions of its weights.
    """
    columns, rows = [], []
    for one in learned:
        index = list(one.environments)
        weights = parameters[index]
        size = weights.abs().amax(0).clamp_min(1e-300)
        _, s, v = torch.linalg.svd(weights / size, full_matrices=False)
        missed = (s.square().flip(0).cumsum(0).flip(0) / s.square().sum().clamp_min(1e-300)).sqrt()
        rank = max(1, min(MOST_DIRECTIONS, int((missed > EXACT).sum())))
        scores = (weights / size) @ v[:rank].T
        unit = scores.square().mean(0).sqrt().clamp_min(1e-300)
        held = parameters.new_zeros(len(parameters), rank)
        held[index] = scores / unit
        columns.append(held)
        rows.append((v[:rank] * unit[:, None]) * torch.where(size > 1e-300, size, 0.0))
    return torch.cat(columns, 1).float(), torch.cat(rows).float()


def learned_terms(structure: Structure, source: StoredSource, facts: Facts) -> dict[str, Term]:
    """What single coefficients multiply, from the mechanisms in which they act alone."""
    unit = structure.evidence.units.wavenumber
    out = {}
    coefficients = source.coefficients()
    for one in structure.learned:
        centred = structure.evidence.units.centre and used_terms(one).get("products")
        if one.mechanism not in coefficients or centred:
            continue
        values = coefficients[one.mechanism][list(one.environments)].double()
        held: dict[tuple[str, bool], np.ndarray] = {}
        for kind, terms in used_terms(one).items():
            for text, weights in terms.items():
                linear = kind == "derivatives"
                order = order_of(text) if linear else parse(text).order
                degree = 1 if linear else parse(text).degree
                physical = weights * facts.scale ** (1 - degree) / unit**order
                held[text, linear] = (physical / values[:, None]).median(0).values.numpy()
        if held:
            out[one.mechanism] = learned_term(held, facts.channels, facts.grid.ndim)
    return out
