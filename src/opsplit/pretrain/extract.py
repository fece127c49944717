"""From a pretrained hypernetwork to a dictionary of operators."""

from __future__ import annotations

import torch
from torch import Tensor

from opsplit._tensors import usual_defaults
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.disco import Disco
from opsplit.trajectories import Trajectories


@torch.no_grad()
@usual_defaults()
def extract(
    disco: Disco,
    trajectories: Trajectories,
    *,
    context: int = 16,
    seed: int = 0,
    batch: int = 64,
) -> OperatorDictionary:
    """One operator per dynamics, read from one window of each of its trajectories.

    Trajectories with equal coefficients follow one dynamics; their codes are averaged, which
    takes out much of what the hypernetwork misreads in a single field.

    Arguments:
        trajectories: training trajectories with known coefficients.
        context: frames of a window; its start is random.

    Returns:
        The dictionary.

    Raises:
        OpsplitError: if the data do not fit the model.

    Examples:
        >>> dictionary = opsplit.extract(model, data)  # doctest: +SKIP
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
    windows = trajectories.windows(context, starts).data.float()
    codes = torch.cat([disco.encode(part) for part in windows.split(batch)])
    group, first = trajectories.environments()
    means = codes.new_zeros(len(first), codes.shape[1]).index_add_(0, group, codes)
    counts = torch.bincount(group)
    means = means / counts[:, None].to(means)
    words = tuple(
        f"dynamics {i}, {n} trajector{'y' if n == 1 else 'ies'}"
        for i, n in enumerate(counts.tolist())
    )
    known = {name: v[first] for name, v in trajectories.coefficients.items()}
    return _dictionary(disco, means, known, words)


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
