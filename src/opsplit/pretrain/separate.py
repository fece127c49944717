"""Mechanisms that only act together in the data, told apart by how weights follow coefficients.

Mechanisms add up: the weights of an environment are `W = C B`, with its coefficients `C` and what
one unit of every coefficient does, `B`. Where the coefficients vary independently of each other,
least squares find `B`, and forecasts of unseen fields say whether the mechanisms do add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from opsplit.operators import OperatorFamily
from opsplit.pretrain.choices import SIMPLER
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.fitting import ENOUGH
from opsplit.pretrain.refine import errors

INDEPENDENT = 1e-2
"""Coefficients whose least singular value is below this share of the largest are too alike."""
SMALL = (0.1, 0.03, 0.01, 1e-3, 0.0)
"""Shares of the largest part of a weight below which parts are tried to be dropped."""


def separate(
    family: OperatorFamily, parameters: Tensor, known: Mapping[str, Tensor],
    mixed: Sequence[int], evidence: Evidence,
) -> Tensor | None:  # fmt: skip
    """What one unit of every coefficient adds to the weights, `(coefficient, P)`.

    None where the coefficients do not vary independently, or the mechanisms do not add up.

    Arguments:
        parameters: weights `(E, P)` of all environments.
        known: their coefficients, `(E,)` each.
        mixed: environments in which several coefficients act.
    """
    table = torch.stack([v.double() for v in known.values()], 1)
    unit = table.abs().amax(0)
    if bool((unit == 0).any()):
        return None
    values = torch.linalg.svdvals(table / unit)
    if len(table) < table.shape[1] or values[-1] < INDEPENDENT * values[0]:
        return None
    pairs = evidence.pairs(mixed, unseen=True, seed=2)
    rows = list(mixed)
    own = float(errors(family, parameters[rows], pairs, evidence.grid).mean())
    whole = torch.linalg.lstsq(table / unit, parameters).solution
    for share in SMALL:
        parts = _without_small(table / unit, parameters, whole, share) / unit[:, None]
        now = float(errors(family, (table @ parts)[rows], pairs, evidence.grid).mean())
        if now <= SIMPLER * own + ENOUGH:
            return parts
    return None


def _without_small(table: Tensor, parameters: Tensor, whole: Tensor, share: float) -> Tensor:
    """Least squares in which small parts of every weight are zero."""
    kept = whole.abs() > share * whole.abs().amax(0).clamp_min(1e-300)
    out = torch.zeros_like(whole)
    for place in range(whole.shape[1]):
        rows = kept[:, place].nonzero()[:, 0]
        if len(rows):
            found = torch.linalg.lstsq(table[:, rows], parameters[:, place : place + 1]).solution
            out[rows, place] = found[:, 0]
    return out
