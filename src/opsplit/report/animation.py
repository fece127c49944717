"""Fields as small pictures that a page carries within itself, alone or as a film."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opsplit.grid import Grid

COLOURS = 255
"""Shades of a picture; the last place of the palette shows what is not a number."""
SIDE = 192
"""Most points of a picture along one axis; finer fields are averaged."""
FILM_POINTS = 1_500_000
"""Most points of all frames of a film together: 2 MB if nothing can be compressed."""


def plane_ratio(grid: Grid) -> str:
    """Width over height of a picture; a very long box would be a thread or a tower."""
    width, height = grid.extent[:2]
    return f"{min(max(width / height, 0.25), 4):.4g}"


def plane_words(grid: Grid) -> str:
    """Which way a picture lies in space."""
    width, height = (f"{length:.5g}" for length in grid.extent[:2])
    words = f"x runs to the right, from 0 to {width}; y upwards, from 0 to {height}"
    return words + ("; the plane in the middle of z." if grid.ndim == 3 else ".")


def data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


@dataclass(frozen=True)
class Colours:
    """What the colours of one channel mean, in every picture of a page."""

    name: str
    low: float
    high: float
    cut: bool
    """Whether some values lie beyond the ends and get their colours."""

    @classmethod
    def of(cls, observed: np.ndarray, forecast: np.ndarray) -> Colours:
        """The range of both; a forecast far outside of what was observed does not widen it."""
        held = observed[np.isfinite(observed)]
        low, high = (float(held.min()), float(held.max())) if held.size else (0.0, 1.0)
        room = (high - low) or abs(high) or 1.0
        new = forecast[np.isfinite(forecast)]
        least, most = (float(new.min()), float(new.max())) if new.size else (low, high)
        cut = least < low - room or most > high + room
        low, high = min(low, max(least, low - room)), max(high, min(most, high + room))
        if low < -0.1 * high:
            limit = max(-low, high)
            return cls("RdBu_r", -limit, limit, cut)
        return cls("viridis", low, high if high > low else low + room, cut)

    def palette(self) -> bytes:
        from matplotlib import colormaps

        shades = colormaps[self.name](np.linspace(0, 1, COLOURS), bytes=True)[:, :3]
        return bytes(shades.tobytes()) + bytes((136, 136, 136))

    def bar(self) -> str:
        """The scale from low to high as a picture of one row."""
        return self._png(np.arange(COLOURS, dtype=np.uint8)[None])

    def picture(self, field: np.ndarray) -> str:
        """A field `(x, y)` with x to the right and y upwards, as a data URI."""
        from PIL import Image

        seen = np.ascontiguousarray(field.T[::-1], dtype=np.float32)
        rows, columns = seen.shape
        if max(seen.shape) > SIDE:
            size = (min(columns, SIDE), min(rows, SIDE))
            seen = np.asarray(Image.fromarray(seen).resize(size, Image.Resampling.BOX))
        share = (seen.astype(np.float64) - self.low) / (self.high - self.low)
        bad = np.isnan(share)
        shade = np.where(bad, 0, share).clip(0, 1) * (COLOURS - 1)
        return self._png(np.where(bad, COLOURS, shade.round()).astype(np.uint8))

    def _png(self, shades: np.ndarray) -> str:
        from PIL import Image

        image, stream = Image.fromarray(shades), io.BytesIO()
        image.putpalette(self.palette())
        image.save(stream, "png", optimize=True)
        return data_uri(stream.getvalue())


def film_picks(frames: int, channels: int, shape: Sequence[int]) -> list[int]:
    """Which frames a film shows: evenly spread, with the first and the last, at most 60."""
    points = channels * int(np.prod([min(n, SIDE) for n in shape]))
    count = min(frames, 60, max(6, FILM_POINTS // points))
    return [int(i) for i in np.unique(np.linspace(0, frames - 1, count).round())]
