"""A pad in the page to draw an initial field on, and the field that a drawing stands for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import resample
from opsplit.grid import Grid

CELLS = {1: (64,), 2: (24, 24)}
"""Points of a drawing, by the number of dimensions."""
SMOOTHING = 1.0
"""Width of the Gaussian that smooths a drawing, in its points."""

Drawing = list[float] | list[list[float]]
"""Values from -1 to 1, x first."""


def pad(gr: Any, ndim: int) -> Any:
    """The component; its value is a `Drawing`, or None before the first stroke."""
    here = Path(__file__).parent
    return gr.HTML(
        None, html_template=(here / "pad.html").read_text(), elem_id="pad", visible="hidden",
        css_template=(here / "pad.css").read_text(), js_on_load=(here / "pad.js").read_text(),
        shape=list(CELLS[ndim]),
    )  # fmt: skip


def drawn_field(drawing: Drawing, grid: Grid) -> Tensor:
    """The smooth periodic field `(*space)` of a drawing, on the points of `grid`."""
    shape = CELLS[grid.ndim]
    try:
        values = torch.tensor(drawing, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        values = torch.empty(0)
    if values.shape != shape or not values.isfinite().all():
        size = " x ".join(map(str, shape))
        raise OpsplitError(f"A drawing has {size} numbers: draw the initial field first.")
    for axis, points in enumerate(shape):
        k = 2 * math.pi * torch.fft.fftfreq(points, dtype=torch.float64)
        # The numbers are those at the middle of the cells, a grid begins at the edge of the first.
        kept = torch.exp(-((SMOOTHING * k) ** 2) / 2 - 0.5j * k)
        kept = kept.reshape([-1] + [1] * (len(shape) - 1 - axis))
        values = torch.fft.ifft(torch.fft.fft(values, dim=axis) * kept, dim=axis).real
    field = resample(values, grid.shape)
    if float(field.max() - field.min()) < 1e-3:
        raise OpsplitError("The drawing is flat: draw the initial field first.")
    return field
