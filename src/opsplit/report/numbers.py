"""A forecast in numbers: one row per frame, to be read by a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opsplit._files import write_text
from opsplit._text import cell
from opsplit.metrics import nrmse
from opsplit.predict.rollout import Forecast


def write_numbers(
    path: Path, forecast: Forecast, upper: Any, truth: Any, channels: Sequence[str]
) -> float | None:
    """Write mean, least and most of every channel, the band's half width and the error.

    The error over all frames that the truth has is returned, if it has any.
    """
    frames = forecast.frames.cpu().numpy().astype(np.float64)
    known = None if truth is None else np.asarray(truth, dtype=np.float64)
    columns = [f"{name} {what}" for name in channels for what in ("mean", "min", "max")]
    columns += [] if upper is None else [f"{name} 90% +-" for name in channels]
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["time", *map(cell, columns), *([] if known is None else ["nrmse"])])
    for i, (time, frame) in enumerate(zip(forecast.times.tolist(), frames, strict=True)):
        each = frame.reshape(len(channels), -1)
        row = [v for c in each for v in (c.mean(), c.min(), c.max())]
        if upper is not None:
            band = np.asarray(upper[i], dtype=np.float64) - frame
            row += band.reshape(len(channels), -1).mean(1).tolist()
        if known is not None:
            row.append(_error(frame[None], known[[i]]) if i < len(known) else np.nan)
        rows.writerow([f"{v:.8g}" for v in [time, *row]])
    write_text(path, stream.getvalue())
    if known is None:
        return None
    there = np.isfinite(known.reshape(len(known), -1)).all(1)
    return _error(frames[: len(known)][there], known[there]) if there.any() else None


def _error(found: np.ndarray, true: np.ndarray) -> float:
    """NRMSE of frames `(time, channel, *space)`."""
    return float(nrmse(torch.from_numpy(found)[None], torch.from_numpy(true)[None]))
