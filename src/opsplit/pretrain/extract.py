"""From a pretrained hypernetwork to a dictionary of operators."""

from __future__ import annotations

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.pretrain.disco import Disco
from opsplit.trajectories import Trajectories


@torch.no_grad()
def extract(
    disco: Disco, trajectories: Trajectories, *, context: int = 16, seed: int = 0, batch: int = 64
) -> OperatorDictionary:
    """One operator per trajectory, read from one window of it.

    Arguments:
        trajectories: training trajectories with known coefficients.
        context: frames of a window; its start is random.
    """
    disco.family.check_grid(trajectories.grid)
    if abs(trajectories.dt / disco.config.dt - 1) > 1e-3:
        raise OpsplitError(
            f"The hypernetwork reads frames {disco.config.dt:.6g} apart, the trajectories have "
            f"dt = {trajectories.dt:.6g}."
        )
    generator = torch.Generator().manual_seed(seed)
    last = len(trajectories.times) - context
    if last < 0:
        raise OpsplitError(
            f"A context has {context} frames, the trajectories only {len(trajectories.times)}."
        )
    starts = torch.randint(last + 1, (len(trajectories),), generator=generator)
    windows = trajectories.windows(context, starts).data
    codes = torch.cat([disco.encode(part.float()) for part in windows.split(batch)])
    words = tuple(
        f"trajectory {i}, frames {s}..{s + context - 1}" for i, s in enumerate(starts.tolist())
    )
    return _dictionary(disco, codes, dict(trajectories.coefficients), words)


def extract_codebook(disco: Disco, coefficients: dict[str, Tensor]) -> OperatorDictionary:
    """One operator per environment, from the rows of the codebook."""
    if not len(disco.codebook):
        raise OpsplitError("This model has no codebook; extract from trajectories instead.")
    words = tuple(f"environment {i}" for i in range(len(disco.codebook)))
    return _dictionary(disco, disco.codebook.detach().clone(), coefficients, words)


def _dictionary(
    disco: Disco, codes: Tensor, coefficients: dict[str, Tensor], words: tuple[str, ...]
) -> OperatorDictionary:
    part = Part(disco.family, codes, disco.decoder, disco.config.scale)
    return OperatorDictionary(
        (part,), {name: v.double().numpy() for name, v in coefficients.items()}, words
    )
