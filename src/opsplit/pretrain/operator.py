"""The operator family of a training: chosen by value or by name, with units from its data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from opsplit.errors import OpsplitError
from opsplit.operators import (
    FAMILIES,
    NONLINEARITIES,
    Examples,
    GatedProducts,
    Nonlinearity,
    OperatorFamily,
    Spectral,
    UNet,
)
from opsplit.pretrain.config import TrainConfig
from opsplit.pretrain.sources import Facts, FreshSource, StoredSource
from opsplit.settings import Settings


@dataclass(frozen=True)
class Auto(Settings):
    """Let evidence in the data choose the structure of the operators."""

    kind = "auto"


Choice = OperatorFamily | Nonlinearity | Auto | str
EXAMPLES = 64
"""States that units are taken from."""


def named(name: str) -> OperatorFamily | Nonlinearity | Auto:
    """A family or a nonlinearity by its name in the registries, with its default settings.

    `spectral` has products: a family that can only learn linear terms must be asked for.
    """
    if name == Auto.kind:
        return Auto()
    if name == Spectral.kind:
        return Spectral(nonlinearity=GatedProducts())
    if name in NONLINEARITIES:
        return NONLINEARITIES[name]()
    if name in FAMILIES:
        return FAMILIES[name]()
    known = ", ".join([Auto.kind, *FAMILIES, *NONLINEARITIES])
    raise OpsplitError(f"Unknown operator {name!r}; choose from {known}.")


def chosen(operator: Choice, periodic: bool = True) -> OperatorFamily:
    """The family that a user means; a nonlinearity is that of a spectral operator."""
    found = named(operator) if isinstance(operator, str) else operator
    if isinstance(found, Auto):
        # Simulated data, and walls: no structure can be read off integrals between frames.
        found = named(Spectral.kind if periodic else UNet.kind)
    if isinstance(found, Nonlinearity):
        return Spectral(nonlinearity=found)
    if isinstance(found, OperatorFamily):
        return found
    raise OpsplitError(
        f"The operator must be an operator family, a nonlinearity or a name, got {operator!r:.60}."
    )


def fitted(
    operator: Choice, facts: Facts, source: FreshSource | StoredSource, training: TrainConfig
) -> OperatorFamily:
    """The chosen family with channels, axes, step and units of the training data."""
    if isinstance(source, StoredSource):
        examples = stored_examples(source, facts)
    else:
        examples = simulated_examples(source, facts, training)
    family = chosen(operator, facts.grid.periodic).fitted(examples)
    family.check_grid(facts.grid)
    return family


def stored_examples(source: StoredSource, facts: Facts) -> Examples:
    """Some of the stored states, and their changes per time."""
    data = source.data.data
    count, frames = data.shape[:2]
    draws = torch.Generator().manual_seed(0)
    place = torch.randint(count * frames, (EXAMPLES,), generator=draws)
    trajectory, frame = place // frames, place % frames
    before = frame.clamp_max(frames - 2)
    change = data[trajectory, before + 1].float() - data[trajectory, before].float()
    return Examples(
        data[trajectory, frame].float() / facts.scale,
        change / (facts.scale * facts.dt),
        facts.grid,
        facts.dt,
    )


def simulated_examples(source: FreshSource, facts: Facts, training: TrainConfig) -> Examples:
    """States as training draws them, and their changes per time."""
    batches = replace(training.batches, environments=EXAMPLES // 4, states=4, durations=(1.0,))
    batch = source.draw(replace(training, batches=batches), torch.Generator().manual_seed(0))
    state, target = (x.flatten(0, 1) / facts.scale for x in (batch.state, batch.target))
    return Examples(state, (target - state) / facts.dt, facts.grid, facts.dt)
