"""What is known of a window and its fit that tells how far errors are from their expected size."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.predict.compatibility import Code, Issue, Severity
from opsplit.predict.explain import Explanation

BARELY = 3.0
"""What changes at other wave numbers over the window is not seen if it is no larger than so many
times what a step of the composition leaves,"""
ROUNDING = 1e-7
"""or than rounding in single precision makes."""


@torch.no_grad()
def traits(found: Explanation) -> dict[str, float]:
    """Traits of a fit, which do not depend on the units of the data.

    noisy: 1 for frames with noise, else 0.
    misfit: what one step of the composition leaves, over the fields.
    moved: what one step changes, over the fields.
    modes: effective number of scales that change.
    rough: effective number of scales in what is left; rounding and noise are on all of them.
    parts: of the composition.
    """
    pick, objective, window = found.result.pick, found.objective, found.window
    seen = objective.observed
    states, targets = seen.states[:1], seen.targets[:1]
    strengths = torch.tensor([pick.strengths], dtype=torch.float64, device=states.device)
    members = torch.tensor([pick.operators], device=states.device)
    left = (targets - objective.step(members, states, strengths))[0].double()
    change, size = (targets - states)[0].double(), max(float(targets.double().norm()), 1e-300)
    return {
        "noisy": float(window.noise > 0),
        "misfit": float(left.norm()) / size,
        "moved": float(change.norm()) / size,
        "modes": scales(change, objective.grid),
        "rough": scales(left, objective.grid),
        "parts": float(len(pick)),
    }


def one_wave(found: Explanation, known: Mapping[str, float]) -> list[Issue]:
    """What to say of frames where all that changes has one wave number.

    There every derivative multiplies the waves by a number, and no dictionary, which may lack the
    right one, can tell derivatives of other orders by itself.
    """
    steps = found.objective.transitions
    others = math.sqrt(max(0.0, known["modes"] - 1) / 2) * known["moved"] * steps
    seen = max(known["misfit"], ROUNDING * steps)
    terms = found.dictionary.terms
    held = [k for k, v in found.result.identified.items() if v and k in terms]
    linear = [k for k in held if terms[k].degree == 1 and terms[k].order is not None]
    if not linear or not known["moved"] > 0 or not others <= BARELY * seen:
        return []
    words = (
        "All that changes in these frames are waves of one length: terms with two derivatives "
        f"more or less would act as {' and '.join(linear)} {'do' if len(linear) > 1 else 'does'}, "
        "and the frames cannot tell which of them are at work."
    )
    return [Issue(Code.ALIKE, Severity.NOTE, words)]


def scales(fields: Tensor, grid: Grid) -> float:
    """Effective number of wave numbers that hold the power of fields `(time, channel, *space)`."""
    numbers = [torch.fft.fftfreq(n, 1 / n, dtype=torch.float64) for n in grid.shape]
    along = torch.stack(torch.meshgrid(*numbers, indexing="ij"))
    shell = along.square().sum(0).sqrt().round().long().flatten().to(fields.device)
    spectrum = torch.fft.fftn(fields, dim=tuple(range(2, fields.ndim)))
    power = spectrum.abs().square().sum((0, 1)).flatten()
    each = power.new_zeros(int(shell.max()) + 1).index_add(0, shell, power)
    return float(each.sum().square() / each.square().sum().clamp_min(1e-300))
