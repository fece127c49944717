"""Whether data are like those a model was trained on, in sentences with numbers."""

from __future__ import annotations

from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.search import Composition

FACTOR = 4.0
"""Strengths go up to four, so flows and coefficients up to four times as large are known ground."""


UNEXPLAINED = 0.65
"""A composition that leaves more of what a still image leaves explains nothing."""


def out_of_range(
    config: ModelConfig,
    dictionary: OperatorDictionary,
    found: Composition,
    frames: Tensor,
    dt: float,
    given: Grid,
    used: Grid,
) -> tuple[tuple[str, ...], str]:
    """Notes on what is unusual, and a status that sums them up."""
    notes: dict[str, str] = {}
    if not 1 / FACTOR <= dt / config.dt <= FACTOR:
        notes["dt"] = (
            f"The frames are {dt:.4g} apart; the model was trained on flows of {config.dt:.4g}, "
            f"{ratio(dt, config.dt)}."
        )
    if not config.rescale:
        size = float(frames.square().mean().sqrt())
        if not 1 / FACTOR <= size / config.scale <= FACTOR:
            notes["amplitude"] = (
                f"The fields have a size of {size:.4g}; those the model was trained on "
                f"{config.scale:.4g}, {ratio(size, config.scale)}."
            )
    for name, value in found.coefficients.items():
        known = float(abs(dictionary.coefficients[name]).max())
        if abs(value) > FACTOR * known > 0:
            notes[name] = (
                f"{name} = {value:.4g} lies far beyond the operators of the dictionary, which "
                f"reach {known:.4g}."
            )
    change = (frames[1:] - frames[:-1]).flatten(1).norm(dim=1)
    still = float((change / frames[1:].flatten(1).norm(dim=1).clamp_min(1e-30)).mean())
    if found.fit_error > max(UNEXPLAINED * still, 1e-4):
        notes["unexplained"] = (
            f"No composition explains these frames: one step leaves {found.fit_error:.3g}, and "
            f"assuming that nothing changes leaves {still:.3g}. Do not trust the forecast."
        )
    status = f"outside what the model knows: {', '.join(notes)}" if notes else "ok"
    if used.shape != given.shape:
        notes["grid"] = (
            f"The fields were resampled from {by(given)} to {by(used)} points, the spacing these "
            f"operators were trained at; the forecast is on the grid of the data."
        )
    return tuple(notes.values()), status


def ratio(value: float, usual: float) -> str:
    """`3.2 times less`, to be read by people."""
    more = value >= usual
    factor = value / usual if more else usual / max(value, 1e-300)
    return f"{factor:.3g} times {'more' if more else 'less'}"


def by(grid: Grid) -> str:
    return "x".join(map(str, grid.shape))
