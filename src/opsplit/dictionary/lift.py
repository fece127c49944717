"""Dictionaries on fields with more axes or more channels than their operators know.

Operators without a direction (diffusion, reactions) act in every dimension as they are. Operators
with a direction (transport, fluxes) act along every axis by itself, and their coefficients get the
name of the axis.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from opsplit.dictionary.part import Part
from opsplit.errors import OpsplitError
from opsplit.operators import Along, OnChannel, OperatorFamily
from opsplit.terms import Term

if TYPE_CHECKING:
    from opsplit.dictionary.dictionary import OperatorDictionary

AXES = "xyz"


@dataclass(frozen=True)
class _Group:
    """Operators of one part that are used in one way."""

    part: Part
    positions: np.ndarray
    """Where they stand in the dictionary that is lifted."""
    suffix: str
    """What is added to the names of their coefficients: an axis, a channel, or nothing."""


def lifted_family(family: OperatorFamily, ndim: int) -> OperatorFamily | None:
    """A family on fields with more axes; None if its operators have no form there."""
    if family.ndim == 1:
        return Along(family, 0, ndim)
    try:
        return family.isotropic(torch.ones(1, family.n_parameters), ndim)[0]
    except OpsplitError:
        return None


def lifted(dictionary: OperatorDictionary, ndim: int, apart: bool = False) -> OperatorDictionary:
    """The operators on fields with `ndim` axes; see `OperatorDictionary.lift`."""
    own = {part.family.ndim for part in dictionary.parts}
    if len(own) != 1 or not 1 <= ndim <= 3 or ndim < max(own):
        raise OpsplitError(
            f"Operators on {', '.join(f'{n}-D' for n in sorted(own)) or 'no'} fields cannot be "
            f"lifted to {ndim}-D: choose 1 to 3 axes, no fewer than theirs."
        )
    if own == {ndim}:
        return dictionary
    groups, offset = [], 0
    for part in dictionary.parts:
        directed = part.family.directed(part.parameters()).cpu()
        mine = np.arange(offset, offset + len(part))
        offset += len(part)
        if not bool(directed.all()):
            free = ~directed
            family, parameters = part.family.isotropic(part.parameters()[free], ndim)
            same = Part(family, parameters, None, part.scale)
            groups.append(_Group(same, mine[free.numpy()], ""))
        if apart and part.family.ndim == 1:
            directed |= torch.as_tensor(_derivatives(dictionary, mine))
        if not bool(directed.any()):
            continue
        places = mine[directed.numpy()]
        if part.family.ndim > 1:
            raise OpsplitError(
                f"The operators of {_named(dictionary, places)} single out a direction in "
                f"{part.family.ndim}-D; they have no {ndim}-D form. Leave them out, or train on "
                f"{ndim}-D data."
            )
        for axis in range(ndim):
            along = Part(Along(part.family, axis, ndim), part.codes[directed], part.decoder,
                         part.scale)  # fmt: skip
            groups.append(_Group(along, places, AXES[axis]))
    terms = {
        _name(name, suffix): _along(term, suffix) if suffix else _everywhere(term)
        for name, term in dictionary.terms.items()
        for suffix in ("", *AXES[:ndim])
    }
    return _joined(dictionary, groups, terms)


def _derivatives(dictionary: OperatorDictionary, places: np.ndarray) -> np.ndarray:
    """Operators whose terms all have derivatives; reactions are the same along every axis."""
    held = {k: v[places] != 0 for k, v in dictionary.coefficients.items()}
    terms = {k: dictionary.terms.get(k) for k in held}
    plain = [own for k, own in held.items() if not ((t := terms[k]) and t.order)]
    known = np.any(list(held.values()), axis=0) if held else np.zeros(len(places), bool)
    return known & ~np.any(plain, axis=0) if plain else known


def on_channels(dictionary: OperatorDictionary, names: Sequence[str]) -> OperatorDictionary:
    """Scalar operators on every channel; see `OperatorDictionary.on_channels`."""
    groups, offset = [], 0
    for part in dictionary.parts:
        mine = np.arange(offset, offset + len(part))
        offset += len(part)
        for i, name in enumerate(names):
            family = OnChannel(part.family, i, len(names))
            groups.append(_Group(replace(part, family=family), mine, name))
    terms = {
        f"{name}_{channel}": replace(term, text=_of_channel(term.text, i, names))
        for name, term in dictionary.terms.items()
        for i, channel in enumerate(names)
    }
    return _joined(dictionary, groups, terms)


def _joined(
    dictionary: OperatorDictionary, groups: Sequence[_Group], terms: dict[str, Term]
) -> OperatorDictionary:
    """One dictionary of all groups; a coefficient that none of its operators has is left out."""
    suffixes = list(dict.fromkeys(g.suffix for g in groups))
    coefficients = {}
    for name, values in dictionary.coefficients.items():
        for suffix in suffixes:
            own = [
                values[g.positions] if g.suffix == suffix else np.zeros(len(g.positions))
                for g in groups
            ]
            column = np.concatenate(own)
            if column.any():
                coefficients[_name(name, suffix)] = column
    provenance = [
        f"{dictionary.provenance[i]} ({g.suffix})" if g.suffix else dictionary.provenance[i]
        for g in groups
        for i in g.positions
    ]
    places = np.concatenate([g.positions for g in groups])
    return replace(
        dictionary,
        parts=tuple(g.part for g in groups),
        coefficients=coefficients,
        provenance=tuple(provenance),
        terms={name: term for name, term in terms.items() if name in coefficients},
        max_strengths=dictionary.max_strengths[places],
    )


def _name(name: str, suffix: str) -> str:
    return f"{name}_{suffix}" if suffix else name


def _named(dictionary: OperatorDictionary, places: np.ndarray) -> str:
    found = [k for k, v in dictionary.coefficients.items() if v[places].any()]
    return ", ".join(found) or f"{len(places)} entries"


def _along(term: Term, axis: str) -> Term:
    """The term along another axis: `-u_x` becomes `-u_y`."""
    text = re.sub(r"_(x+)\b", lambda m: "_" + axis * len(m[1]), term.text)
    return replace(term, text=text)


def _everywhere(term: Term) -> Term:
    """The term in every dimension: `u_xx` becomes `lap u`, `u_x^2` becomes `|grad u|^2`."""

    def laplacian(found: re.Match[str]) -> str:
        power = len(found[2]) // 2
        return f"lap{f'^{power}' if power > 1 else ''} {found[1]}"

    text = re.sub(r"(\w+|\([^()]*\))_x\^2(?!\w)", r"|grad \1|^2", term.text)
    text = re.sub(r"([A-Za-z]\w*?|\([^()]*\))_((?:xx)+)(?!\w)", laplacian, text)
    return replace(term, text=text)


def _of_channel(text: str, channel: int, names: Sequence[str]) -> str:
    """The term of a scalar `u` in the line of one channel: `(u_xx, 0)`."""
    own = re.sub(r"\bu(?=\b|_)", names[channel], text)
    return f"({', '.join(own if i == channel else '0' for i in range(len(names)))})"
