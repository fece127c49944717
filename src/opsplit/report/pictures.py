"""Pictures of a page about one forecast: fields, profiles, a film, errors over time."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit.display import middle
from opsplit.report.animation import Colours, data_uri, film_picks, plane_ratio
from opsplit.report.contents import Contents
from opsplit.report.figures import COLOURS, _figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AFTER = "time after the last observed frame"


@dataclass(frozen=True)
class Picture:
    """One image with its caption."""

    uri: str
    words: str
    alt: str
    ratio: str = ""
    """Width over height, where it differs from that of the image."""
    screen: bool = False
    """Whether a film runs in it."""


def channel_pictures(page: Contents, channel: int) -> dict[str, Any]:
    """What the page shows of one channel."""
    empty: dict[str, Any] = {"title": "", "drawings": [], "rows": [], "scales": []}
    if page.grid.ndim == 1:
        return empty | {"drawings": _line(page, channel)}
    return empty | _plane(page, channel)


def _drawing(figure: Figure, words: str) -> Picture:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=160)
    return Picture(data_uri(stream.getvalue()), words, words)


def _map(
    moments: np.ndarray, x: np.ndarray, values: np.ndarray, style: dict[str, Any], words: str,
    now: float | None = None,
) -> Picture:  # fmt: skip
    """A line over time, with a colour bar; with `now`, a dashed line before the forecast."""
    t, s = (max(1, n // 1000) for n in values.shape)
    figure = _figure(5.4, 3)
    axes = figure.add_subplot()
    extend = style.pop("extend", "neither")
    image = axes.pcolormesh(moments[::t], x[::s], values[::t, ::s].T, shading="nearest", **style)
    if now is not None:
        axes.axvline(now, color="black", lw=1.5, ls="--")
    axes.set(xlabel=AFTER, ylabel="x")
    figure.colorbar(image, ax=axes, extend=extend)
    return _drawing(figure, words)


def _line(page: Contents, channel: int) -> list[Picture]:
    """History and forecast of a line, truth, error and band, and its last profile."""
    x = page.grid.axes()[0].numpy()
    found = [_history(page, channel, page.frames, "forecast")]
    if page.truth is not None and len(page.times) > 1:
        found.append(_history(page, channel, page.truth, "truth"))
    if len(page.times) > 1:
        found += _companions(page, channel, x)
    return [*found, _profile(page, channel, x)]


def _history(page: Contents, channel: int, after: Tensor, what: str) -> Picture:
    """What was observed, then what followed, in the colours of the forecast."""
    name, colours = page.channels[channel], page.colours[channel]
    whole = torch.cat([page.before[:, channel], after[:, channel]]).numpy()
    moments = np.concatenate([page.past, page.times])
    # Frames beside a gap are not drawn across it.
    usual = float(np.median(np.diff(page.past)))
    sides = [{a + usual, b - usual} for a, b in pairwise(page.past) if b - a > 1.9 * usual]
    holes = sorted({t for pair in sides for t in pair})
    places = np.searchsorted(moments, holes)
    moments = np.insert(moments, places, holes)
    whole = np.insert(whole, places, math.nan, axis=0)
    ends = "both" if colours.cut else "neither"
    style = {"cmap": colours.name, "extend": ends, "vmin": colours.low, "vmax": colours.high}
    words = f"{name}: observed left of the dashed line, {what} right of it."
    return _map(moments, page.grid.axes()[0].numpy(), whole, style, words, page.times[0] / 2)


def _companions(page: Contents, channel: int, x: np.ndarray) -> list[Picture]:
    """Maps of the error and of the band, as far as they are known."""
    name, found = page.channels[channel], []
    if page.truth is not None:
        error = np.abs((page.frames - page.truth)[:, channel].numpy())
        found.append(_map(page.times, x, error, _from_zero(error), f"{name}: size of the error."))
    if page.lower is not None and page.upper is not None:
        half = ((page.upper - page.lower)[:, channel] / 2).numpy()
        words = f"{name}: half width of the {100 * page.level:.3g} % band."
        found.append(_map(page.times, x, half, _from_zero(half), words))
    return found


def _from_zero(values: np.ndarray) -> dict[str, Any]:
    held = values[np.isfinite(values)]
    return {"cmap": "magma", "vmin": 0.0, "vmax": float(held.max(initial=0.0)) or 1.0}


def _profile(page: Contents, channel: int, x: np.ndarray) -> Picture:
    """The last finite frame of the forecast, with what is known about it."""
    fine = page.frames.flatten(1).isfinite().all(1).nonzero()[:, 0].tolist()
    last = fine[-1] if fine else 0
    figure = _figure(5.4, 3)
    axes = figure.add_subplot()
    axes.plot(x, page.before[-1, channel], ls=":", color="black", label="last observed")
    if page.lower is not None and page.upper is not None:
        ends = (page.lower[last, channel], page.upper[last, channel])
        label = f"{100 * page.level:.3g} % band"
        axes.fill_between(x, *ends, color=COLOURS["pursuit"], alpha=0.3, lw=0, label=label)
    if page.truth is not None and bool(page.truth[last].isfinite().all()):
        axes.plot(x, page.truth[last, channel], color="black", lw=3, alpha=0.4, label="truth")
    axes.plot(x, page.frames[last, channel], color=COLOURS["pursuit"], label="forecast")
    axes.set_xlabel("x")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    end = "last" if last == len(page.frames) - 1 else "last finite"
    name = page.channels[channel]
    words = f"{name} in the {end} frame of the forecast, at {page.times[last]:.5g}."
    return _drawing(figure, words)


def _plane(page: Contents, channel: int) -> dict[str, Any]:
    """Frames of one channel with one scale of colours; the middle plane of a volume."""
    name, colours = page.channels[channel], page.colours[channel]
    picks = [int(i) for i in np.unique(np.linspace(0, len(page.frames) - 1, 3).round())]
    shown = [("observed", page.before, page.past, [0, len(page.before) - 1], colours)]
    shown += [("forecast", page.frames, page.times, picks, colours)]
    scales = [_scale(name, colours)]
    if page.truth is not None:
        error = (page.frames - page.truth).abs()
        largest = _from_zero(error[:, channel].numpy())["vmax"]
        gap = Colours("magma", 0.0, largest, False)
        known = [i for i in picks if bool(page.truth[i].isfinite().all())]
        shown += [("truth", page.truth, page.times, known, colours)]
        shown += [("size of the error", error, page.times, known, gap)]
        scales.append(_scale(f"error of {name}", gap))
    rows = [
        [
            _cell(page, used, frames[i, channel], f"{word}, t = {times[i]:.4g}", name)
            for i in numbers
        ]
        for word, frames, times, numbers, used in shown
    ]
    return {"title": name, "rows": rows, "scales": scales}


def _scale(what: str, colours: Colours) -> dict[str, Any]:
    ends = {"low": colours.low, "high": colours.high, "cut": colours.cut}
    return {"what": what, "bar": colours.bar(), **ends}


def _cell(
    page: Contents, colours: Colours, field: Tensor, words: str, name: str, screen: bool = False
) -> Picture:
    picture, ratio = colours.picture(middle(field).numpy()), plane_ratio(page.grid)
    return Picture(picture, words, f"{name}, {words}", ratio, screen)


def film(page: Contents) -> dict[str, Any] | None:
    """All channels through observation and forecast, beside the truth where it is known."""
    if page.grid.ndim == 1:
        return None
    runs = {"forecast": [*page.before, *page.frames]}
    if page.truth is not None:
        runs["truth"] = [*page.before, *page.truth]
    moments = np.concatenate([page.past, page.times])
    picks = film_picks(len(moments), page.shown * len(runs), page.grid.shape[:2])
    labels = [
        f"{'observed' if i < len(page.before) else 'forecast'}, t = {moments[i]:.4g}" for i in picks
    ]
    films, screens = [], []
    for channel, colours in enumerate(page.colours):
        for word, frames in runs.items():
            films.append([colours.picture(middle(frames[i][channel]).numpy()) for i in picks])
            name = page.channels[channel]
            said = f"{name}, {word}" if len(runs) > 1 else name
            screens.append(_cell(page, colours, frames[picks[0]][channel], said, "film", True))
    return {
        "title": "Film",
        "labels": labels,
        "screens": screens,
        "data": {"labels": labels, "films": films},
    }


def error_curves(page: Contents) -> Picture | None:
    """Error of every frame where the truth is known, else what the band says about it."""
    size = page.frames.square().flatten(1).mean(1).sqrt()
    band = None if page.half is None else (page.half.square().mean(1).sqrt() / size).numpy()
    if band is None and not page.errors:
        return None
    figure = _figure(5.4, 3)
    axes = figure.add_subplot()
    styles = {"forecast": COLOURS["pursuit"], "persistence": COLOURS["persistence"]}
    marker = "o" if len(page.times) < 3 else None
    curves = [(name, values, styles[name], "-") for name, values in page.errors.items()]
    if band is not None:
        label = f"half width of the {100 * page.level:.3g} % band"
        curves.append((label, band, COLOURS["uniform"], "--"))
    for label, values, colour, line in curves:
        axes.plot(page.times, values, line, label=label, color=colour, lw=2, marker=marker)
    drawn = np.concatenate([values for _, values, _, _ in curves])
    if (drawn > 0).any():
        axes.set_yscale("log")
    axes.set(xlabel=AFTER, ylabel="relative error of a frame")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    if page.errors:
        words = "Error of every frame against the truth; persistence repeats the last frame."
    else:
        words = "The truth is not known; the band's half width says what error to expect."
    return _drawing(figure, words)
