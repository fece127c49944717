"""Move the codes of picked operators, and their strengths, through the frozen decoder."""

from __future__ import annotations

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, Part
from opsplit.search.objective import Objective
from opsplit.search.strategy import Record, Tried

ITERATIONS = 4
STEP = 1e-2
"""Difference quotients go this share of the codes' spread."""
CLOSENESS = 1e-3
"""How much a code's distance from where it was counts against the fit, as a share."""


def refine_codes(objective: Objective, records: list[Record], most: float) -> None:
    """Improve every pick by Levenberg-Marquardt over codes and strengths; weights stay.

    A refined operator is new, so it joins a dictionary of its own window. It keeps the
    coefficients of the operator it came from, because no map from codes to coefficients is
    known. Operators without a decoder have no code; the status of their record says so.
    """
    for window, record in enumerate(records):
        if record.pick is not None:
            _refine(objective, window, record, most)


def _refine(objective: Objective, window: int, record: Record, most: float) -> None:
    pick = record.pick
    assert pick is not None
    dictionary, grid = objective.named[window], objective.grid
    home = [_locate(dictionary, i) for i in pick.operators]
    fixed = [i for i, (p, _) in zip(pick.operators, home, strict=True) if p.decoder is None]
    if fixed:
        labels = ", ".join(f"[{dictionary.describe(i)}]" for i in fixed)
        record.status += f"; codes not refined: no decoder for {labels}"
        return
    starts = [part.codes[i].double().cpu() for part, i in home]
    spread = [part.codes.double().std(0, correction=0).clamp_min(1e-6).cpu() for part, _ in home]
    sizes = [len(z) for z in starts]
    m = len(home)
    x0 = torch.cat([torch.tensor(pick.strengths or [1.0] * m, dtype=torch.float64), *starts])
    unit = torch.cat([torch.ones(m, dtype=torch.float64), *spread])
    observed = objective.observed
    states, targets = observed.states[window], observed.targets[window]
    norms = observed.sizes[window, :, None]

    def build(x: Tensor) -> OperatorDictionary:
        parts = tuple(
            Part(part.family, z[None].to(part.codes), part.decoder, part.scale)
            for (part, _), z in zip(home, x[m:].split(sizes), strict=True)
        )
        return OperatorDictionary(parts)

    def residual(x: Tensor) -> Tensor:
        """The error of one step, relative to the norm of its target."""
        operators = build(x).prepare(grid, states)
        index = torch.arange(m, device=objective.device)[None]
        u = objective.step(index, states[None], x[None, :m].to(objective.device), operators)
        left = (u[0] - targets).flatten(1) / norms
        return left.double().flatten().cpu()

    x, now = x0, residual(x0)
    damping = 1e-3
    for _ in range(ITERATIONS):
        objective.meter.check()
        jacobian = torch.stack(
            [(residual(x + STEP * unit * e) - now) / STEP for e in torch.eye(len(x)).double()], 1
        )
        normal = jacobian.T @ jacobian
        held = CLOSENESS * float(now @ now)
        tie = torch.diag(torch.cat([torch.zeros(m), torch.ones(len(x) - m)]).double()) * held
        lifted = normal + tie + damping * torch.diag(normal.diagonal().clamp_min(1e-12))
        step = torch.linalg.solve(lifted, -jacobian.T @ now - tie @ ((x - x0) / unit))
        trial = x + unit * step
        trial[:m] = trial[:m].clamp(0, most)
        new = residual(trial)
        if bool(new.isfinite().all()) and float(new.norm()) < float(now.norm()):
            x, now, damping = trial, new, damping * 0.1
        else:
            damping *= 30
    error = float(now.reshape(objective.transitions, -1).norm(dim=1).mean())
    if not error < pick.error:
        record.status += "; other codes fit no better"
        return
    own = build(x)
    origin = list(pick.operators)
    coefficients = {k: v[origin] for k, v in dictionary.coefficients.items()}
    words = tuple(f"refined from operator {i}" for i in origin)
    strongest = dictionary.max_strengths[origin]
    refined = OperatorDictionary(own.parts, coefficients, words, dictionary.terms, strongest)
    record.dictionary = dictionary.merge(refined)
    first = len(dictionary)
    found = Tried(tuple(range(first, first + m)), error, tuple(x[:m].tolist()))
    record.add(found)
    if pick.operators in record.estimates:
        record.estimates[found.operators] = record.estimates[pick.operators]
    record.pick = found
    record.finalists = [found, *(record.finalists or [])]
    record.status += f"; codes refined from {pick.error:.3g} to {error:.3g}"


def _locate(dictionary: OperatorDictionary, position: int) -> tuple[Part, int]:
    """The part that holds an operator, and its place in it."""
    for part in dictionary.parts:
        if position < len(part):
            return part, position
        position -= len(part)
    raise IndexError(position)
