"""Pictures of a page about one forecast: fields, profiles, a film, errors over time."""

from __future__ import annotations

import json
import math
from html import escape
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from opsplit.report.animation import film_picks
from opsplit.report.contents import Contents
from opsplit.report.elements import drawing, scale
from opsplit.report.figures import COLOURS, new_figure


def pictures(page: Contents) -> str:
    """Every shown channel, and a film of fields in two or three dimensions."""
    draw = _line if page.grid.ndim == 1 else _plane
    text = "".join(draw(page, i) for i in range(page.shown))
    if len(page.channels) > page.shown:
        text += f"<p>Pictures of the first {page.shown} of {len(page.channels)} channels.</p>"
    return text + ("" if page.grid.ndim == 1 else _film(page))


def _line(page: Contents, channel: int) -> str:
    """History and forecast of a line, and its last profile."""
    name, colours = page.channels[channel], page.colours[channel]
    x = page.grid.axes()[0].numpy()
    whole = torch.cat([page.before[:, channel], page.frames[:, channel]]).numpy()
    moments = np.concatenate([page.past, page.times])
    # Frames beside a gap are not drawn across it.
    usual = float(np.median(np.diff(page.past)))
    sides = [{a + usual, b - usual} for a, b in pairwise(page.past) if b - a > 1.9 * usual]
    holes = sorted({t for pair in sides for t in pair})
    places = np.searchsorted(moments, holes)
    moments = np.insert(moments, places, holes)
    whole = np.insert(whole, places, math.nan, axis=0)
    t, s = (max(1, n // 1000) for n in whole.shape)
    figure = new_figure(5.4, 3)
    axes = figure.add_subplot()
    image = axes.pcolormesh(
        moments[::t], x[::s], whole[::t, ::s].T, shading="nearest", cmap=colours.name,
        vmin=colours.low, vmax=colours.high,
    )  # fmt: skip
    axes.axvline(page.times[0] / 2, color="black", lw=1.5, ls="--")
    axes.set(xlabel="time after the last observed frame", ylabel="x")
    figure.colorbar(image, ax=axes, extend="both" if colours.cut else "neither")
    words = f"{name}: observed left of the dashed line, forecast right of it."
    history = drawing(figure, words)
    fine = page.frames.flatten(1).isfinite().all(1).nonzero()[:, 0].tolist()
    last = fine[-1] if fine else 0
    figure = new_figure(5.4, 3)
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
    words = f"{name} in the {end} frame of the forecast, at {page.times[last]:.5g}."
    return history + drawing(figure, words)


def _plane(page: Contents, channel: int) -> str:
    """Frames of one channel with one scale of colours; the middle plane of a volume."""
    name, colours = page.channels[channel], page.colours[channel]
    picks = [int(i) for i in np.unique(np.linspace(0, len(page.frames) - 1, 4).round())]
    shown = [("observed", page.before, page.past, [0, len(page.before) - 1])]
    shown += [("forecast", page.frames, page.times, picks)]
    if page.truth is not None:
        shown += [("truth", page.truth, page.times, picks)]
    text = f"<h3>{escape(name)}{_where(page)}</h3>"
    for word, frames, times, numbers in shown:
        cells = [
            _cell(
                page,
                colours.picture(_slice(frames[i, channel])),
                f"{word}, t = {times[i]:.4g}",
                f"{name}, {word} at time {times[i]:.4g}",
            )
            for i in numbers
        ]
        text += f'<div class="frames">{"".join(cells)}</div>'
    return text + scale(colours)


def _where(page: Contents) -> str:
    return ", the plane in the middle of z" if page.grid.ndim == 3 else ""


def _slice(field: Tensor) -> np.ndarray:
    return (field if field.ndim == 2 else field[..., field.shape[-1] // 2]).numpy()


def _cell(page: Contents, uri: str, words: str, alt: str, extra: str = "") -> str:
    width, height = page.grid.extent[:2]
    # A very long box would be a thread or a tower.
    ratio = min(max(width / height, 0.25), 4)
    return (
        f'<figure><img src="{uri}" alt="{escape(alt)}" style="aspect-ratio:{ratio:.4g}"{extra}>'
        f"<figcaption>{escape(words)}</figcaption></figure>"
    )


def _film(page: Contents) -> str:
    """All channels through observation and forecast, one picture per frame and channel."""
    whole = [*page.before, *page.frames]
    moments = np.concatenate([page.past, page.times])
    picks = film_picks(len(whole), page.shown, page.grid.shape[:2])
    labels = [
        f"{'observed' if i < len(page.before) else 'forecast'}, t = {moments[i]:.4g}" for i in picks
    ]
    films = [
        [colours.picture(_slice(whole[i][channel])) for i in picks]
        for channel, colours in enumerate(page.colours)
    ]
    cells = [
        _cell(page, film[0], name, f"{name} as a film", ' class="screen"')
        for film, name in zip(films, page.channels, strict=False)
    ]
    held = json.dumps({"labels": labels, "films": films}).replace("<", "\\u003c")
    return f"""<h3>Film{_where(page)}</h3>
<div class="frames film">{"".join(cells)}</div>
<div class="player"><button type="button" id="play">Play</button>
<input type="range" id="frame" min="0" max="{len(picks) - 1}" value="0" aria-label="frame">
<output id="moment" for="frame">{escape(labels[0])}</output></div>
<script type="application/json" id="film">{held}</script>"""


def error_curves(page: Contents) -> str:
    """Error of every frame where the truth is known, else what the band says about it."""
    size = page.frames.square().flatten(1).mean(1).sqrt()
    band = None if page.half is None else (page.half.square().mean(1).sqrt() / size).numpy()
    if band is None and not page.errors:
        return ""
    figure = new_figure(5.4, 3)
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
    axes.set(xlabel="time after the last observed frame", ylabel="relative error of a frame")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    if page.errors:
        words = "Error of every frame against the truth; persistence repeats the last frame."
    else:
        words = "The truth is not known; the band's half width says what error to expect."
    return drawing(figure, words)
