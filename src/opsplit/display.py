"""How objects show themselves: tables for notebooks, and plots into given axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def html_table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> str:
    """Rows as an HTML table; everything is escaped."""
    if not rows:
        return f"<p>{escape(caption)}</p>"
    head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_words(value))}</td>' for value in row.values())}</tr>"
        for row in rows
    )
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_facts(title: str, facts: Mapping[str, Any]) -> str:
    """A title over a table of names and values; everything is escaped."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(str(name))}</th>"
        f"<td style='text-align:left'>{escape(_words(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<div><strong>{escape(title)}</strong><table><tbody>{rows}</tbody></table></div>"


def _words(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def without_zeros(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """Rows without those named columns that hold nothing but zeros."""
    idle = [name for name in names if not any(row[name] for row in rows)]
    return [{k: v for k, v in row.items() if k not in idle} for row in rows]


def interval(low: float, high: float) -> str:
    """An interval with so many digits that its ends differ.

    Examples:
        >>> from opsplit.display import interval
        >>> interval(0.7107371, 0.7107433), interval(0.5, 2.0)
        ('0.7107371 to 0.7107433', '0.5 to 2')
    """
    width, size = high - low, max(abs(low), abs(high))
    if not (math.isfinite(size) and width > 0):
        return f"{low:.5g} to {high:.5g}"
    digits = min(max(4, math.ceil(math.log10(size / width)) + 2), 15)
    return f"{low:.{digits}g} to {high:.{digits}g}"


def span(low: float, high: float) -> str:
    """The least and the largest of some numbers, or the one that they all are."""
    least, most = f"{low:.4g}", f"{high:.4g}"
    return least if least == most else f"{least} to {most}"


def new_axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        if not hasattr(ax, "pcolormesh"):
            raise OpsplitError(
                f"ax must be axes of matplotlib, as pyplot.gca() gives them, got {ax!r:.60}."
            )
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def colour_limits(values: np.ndarray) -> dict[str, Any]:
    """A diverging map with zero in the middle for fields of both signs, else a sequential one."""
    held = values[np.isfinite(values)]
    low, high = (float(held.min()), float(held.max())) if held.size else (0.0, 1.0)
    if low < -0.1 * high:
        limit = max(-low, high) or 1.0
        return {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    return {"cmap": "viridis", "vmin": low, "vmax": high if high > low else low + 1.0}


def middle(field: Any) -> Any:
    """A plane as it is, of a volume the plane in the middle of z."""
    return field if field.ndim == 2 else field[..., field.shape[-1] // 2]


def plot_fields(
    fields: Any,
    times: Any,
    extent: Sequence[float],
    name: str,
    ax: Axes | None = None,
    frame: int = -1,
) -> Axes:
    """Fields `(time, *space)` of one channel: a line over time, else one frame (middle in z).

    Time runs to the right, x upwards; in a plane x runs to the right and y upwards.
    """
    values = np.asarray(fields, dtype=np.float64)
    moments = np.asarray(times, dtype=np.float64)
    if not -len(values) <= frame < len(values):
        raise OpsplitError(f"There are {len(values)} frames; there is no frame {frame}.")
    axes, style = new_axes(ax), colour_limits(values)
    if values.ndim == 2:
        x = np.arange(values.shape[1]) * extent[0] / values.shape[1]
        image: Any = axes.pcolormesh(moments, x, values.T, shading="nearest", **style)
        axes.set(xlabel="time", ylabel="x", title=name)
    else:
        shown = middle(values[frame])
        box = (0, extent[0], 0, extent[1])
        image = axes.imshow(shown.T, origin="lower", extent=box, **style)
        axes.set(xlabel="x", ylabel="y", title=f"{name}, t = {moments[frame]:.4g}")
    axes.figure.colorbar(image, ax=axes, label=name)
    return axes


def channel_number(channel: int | str, names: Sequence[str]) -> int:
    """The position of a channel that is given by name or number."""
    if isinstance(channel, str):
        if channel not in names:
            raise OpsplitError(f"There is no channel {channel!r}; there are {', '.join(names)}.")
        return list(names).index(channel)
    if not -len(names) <= channel < len(names):
        raise OpsplitError(f"There are {len(names)} channels; there is no channel {channel}.")
    return channel
