"""Training that nobody has to tailor: structure by evidence, then an encoder that recognises it.

The structure of every mechanism is chosen and its weights are fitted in seconds to minutes; that
alone is a complete dictionary. The rest of the budget trains the encoder, which direct prediction
needs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit._origin import origin
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.hypernetwork.linear_decoder import LinearDecoder
from opsplit.model import Model
from opsplit.operators import Spectral
from opsplit.operators.spectral.filters import order_of
from opsplit.operators.spectral.products import parse
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.separate import separate
from opsplit.pretrain.sources import Facts, StoredSource
from opsplit.pretrain.structure import (
    Contest,
    Learned,
    check_data,
    join,
    mechanisms,
    terms_of,
    used_terms,
)
from opsplit.pretrain.verdict import GOOD, is_weak, report
from opsplit.pretrain.wording import learned_term
from opsplit.progress import Progress
from opsplit.terms import Term

EXACT = 1e-5
"""Directions of codes are added until they miss less than this share of the weights."""
MOST_DIRECTIONS = 8
MOST_VALUES = 16
"""Operators of one mechanism that was told apart from others."""


@dataclass(frozen=True)
class Structure:
    """What evidence says about all mechanisms of a data set."""

    learned: tuple[Learned, ...]
    evidence: Evidence
    seconds: float
    """As the budget counts them."""
    family: Spectral
    parameters: Tensor
    """Of all mechanisms together, `(E, P)`."""
    coefficients: dict[str, Tensor]
    """Of every environment, `(E,)`."""
    pure: Tensor | None = None
    """What one unit of every coefficient does, `(coefficient, P)`, where several act together and
    could be told apart."""

    def report(self) -> dict[str, Any]:
        """Choices, rivals and errors as plain values."""
        return report(self.learned, self.parameters, self.coefficients, self.pure is not None) | {
            "seconds": self.seconds,
            # Of the whole command until here, with its start: other work does not change it.
            "processor_seconds": time.process_time(),
        }


def learn_structure(
    source: StoredSource, facts: Facts, quiet: bool = False, limit: Limit | None = None,
    early: Callable[[Structure], None] | None = None,
) -> Structure:  # fmt: skip
    """The structure of every mechanism in the data, as good as the time until `limit` allows.

    Arguments:
        early: gets the first structure that serves in compositions; what can be made better is,
            after that.
    """
    check_data(source.data)
    limit = limit or Limit()
    began = limit.now()
    evidence = Evidence(source.data, facts.scale)
    found, coefficients = mechanisms(source.data), source.coefficients()
    made = partial(_structure, evidence, coefficients, limit, began)
    with Progress("structure", enabled=not quiet, every=10.0) as bar:
        contests = []
        for i, (name, environments) in enumerate(found.items()):
            labels = None
            if name in coefficients:
                labels = coefficients[name][list(environments)].double()
            tell = partial(_tell, bar, limit, i / len(found) / 2, name)
            contests.append(Contest(evidence, name, environments, labels, tell))
            contests[-1].until(GOOD, _part(limit, i, len(found)))
        if early is not None and all(contest.least < GOOD for contest in contests):
            early(made([contest.first() for contest in contests]))
        learned = []
        for i, contest in enumerate(contests):
            contest.tell = partial(_tell, bar, limit, (1 + i / len(found)) / 2, contest.name)
            learned.append(contest.finish(_part(limit, i, len(found))))
    return made(learned)


def _part(limit: Limit, place: int, count: int) -> Limit:
    """Simple mechanisms need little: one may take twice its share, if others leave it."""
    return limit.part(2 / (count - place + 1))


def _structure(
    evidence: Evidence, coefficients: dict[str, Tensor], limit: Limit, began: float,
    learned: Sequence[Learned],
) -> Structure:  # fmt: skip
    """All mechanisms in one family, told apart where they act together."""
    family, parameters = join(learned, evidence)
    if not parameters.shape[1]:
        raise OpsplitError(
            "None of the candidate terms explains anything of the changes in these data: their "
            "frames are too far apart, mostly noise, or follow other coefficients than they say."
        )
    mixed = [i for one in learned if "+" in one.mechanism for i in one.environments]
    pure = None
    if mixed and not any(map(is_weak, learned)):
        pure = separate(family, parameters, coefficients, mixed, evidence)
    seconds = limit.now() - began
    return Structure(tuple(learned), evidence, seconds, family, parameters, coefficients, pure)


def _tell(
    bar: Progress, limit: Limit, done: float, name: str, structure: str, error: float
) -> None:
    """A line of progress; the work ends with its time at the latest."""
    best = f", error so far {error:.2g} of copying" if error < math.inf else ""
    bar.update(max(done, limit.used()), f"mechanism {name}: {structure}{best}")


def assemble(
    structure: Structure, source: StoredSource, facts: Facts, encoder: EncoderConfig, preset: str
) -> Model:
    """A model whose operators are those of the structure and whose encoder is untrained."""
    family, parameters = structure.family, structure.parameters
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
    rows, known, words = dictionary_rows(structure, source)
    part = Part(family, rows.float(), None, facts.scale)
    terms = learned_terms(structure, source, facts)
    for key, text in source.data.terms.items():
        # What the user says a term is called; what was learned about it stays.
        terms[key] = replace(terms[key], text=text) if key in terms else Term(text)
    dictionary = OperatorDictionary((part,), known, words, terms)
    return Model(disco, dictionary, {"structure": structure.report(), **origin(0)})


def dictionary_rows(
    structure: Structure, source: StoredSource
) -> tuple[Tensor, dict[str, np.ndarray], tuple[str, ...]]:
    """Operators `(N, P)`, their coefficients and words for them.

    One per environment; where mechanisms that act together were told apart, one per value of every
    coefficient instead.
    """
    known = {k: v.double() for k, v in source.coefficients().items()}
    words = [f"environment {i}" for i in range(len(structure.parameters))]
    if structure.pure is None:
        return structure.parameters, {k: v.numpy() for k, v in known.items()}, tuple(words)
    alone = [i for one in structure.learned if "+" not in one.mechanism for i in one.environments]
    rows, table = structure.parameters[alone], {k: v[alone] for k, v in known.items()}
    words = [words[i] for i in alone]
    singles = {one.mechanism for one in structure.learned}
    for (name, values), unit in zip(known.items(), structure.pure, strict=True):
        if name in singles:
            continue
        some = values[values != 0].unique()
        some = some[torch.linspace(0, len(some) - 1, min(len(some), MOST_VALUES)).long()]
        rows = torch.cat([rows, some[:, None] * unit])
        zero = torch.zeros_like(some)
        table = {k: torch.cat([v, some if k == name else zero]) for k, v in table.items()}
        words += [f"{name} alone"] * len(some)
    return rows, {k: v.numpy() for k, v in table.items()}, tuple(words)


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
    out, coefficients = {}, source.coefficients()
    for one in structure.learned:
        if one.mechanism in coefficients:
            values = coefficients[one.mechanism][list(one.environments)].double()
            each = {
                kind: {t: (w / values[:, None]).median(0).values for t, w in terms.items()}
                for kind, terms in used_terms(one).items()
            }
            out[one.mechanism] = _printed(each, structure, facts)
    for i, name in enumerate(coefficients):
        if structure.pure is not None and name not in out:
            held = terms_of(structure.family, structure.pure[i : i + 1])
            each = {k: {t: w[0] for t, w in terms.items()} for k, terms in held.items()}
            out[name] = _printed(each, structure, facts)
    return {name: term for name, term in out.items() if term is not None}


def _printed(
    each: Mapping[str, Mapping[str, Tensor]], structure: Structure, facts: Facts
) -> Term | None:
    """A term in words, from weights `(channel,)` per unit of its coefficient; None if the words
    would hold a mean that was taken off."""
    units = structure.evidence.units
    # Derivatives do not change with a mean, and the constant has none.
    plain = any(parse(text).plain for text in each.get("products", ()))
    if not any(each.values()) or (units.centre and plain):
        return None
    held: dict[tuple[str, bool], np.ndarray] = {}
    for kind, terms in each.items():
        for text, weights in terms.items():
            linear = kind == "derivatives"
            order = order_of(text) if linear else parse(text).order
            degree = 1 if linear else parse(text).degree
            physical = weights * facts.scale ** (1 - degree) / units.wavenumber**order
            held[text, linear] = physical.numpy()
    ndim, unit = facts.grid.ndim, units.wavenumber
    return learned_term(held, facts.channels, ndim, facts.scale, unit)
