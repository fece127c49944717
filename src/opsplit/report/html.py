"""One page about one forecast: a file that opens offline, on a desk or on a phone."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit._version import __version__
from opsplit.errors import OpsplitError
from opsplit.metrics import nrmse_per_frame
from opsplit.predict.rollout import Outcome
from opsplit.report.animation import Colours, data_uri, film_picks
from opsplit.report.figures import COLOURS, _figure
from opsplit.report.page import SCRIPT, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.predict.rollout import Forecast

SHOWN = 4
"""Channels that get pictures; the table of numbers has them all."""


def write_report(
    path: Path,
    splitter: OperatorSplitter,
    forecast: Forecast,
    *,
    lower: Any = None,
    upper: Any = None,
    truth: Any = None,
    facts: dict[str, str],
    understood: Sequence[str],
    notes: Sequence[str] = (),
    channels: Sequence[str] | None = None,
    level: float = 0.9,
) -> Path:
    """Write what was read, found and forecast as one HTML file, whole or not at all.

    Arguments:
        path: the file to write.
        splitter: after `fit`.
        forecast: what it said would follow.
        lower: lower end of the band, shaped like the forecast; `upper` likewise.
        truth: what did follow, as many frames as there are; frames of NaN are missing.
        facts: where the page comes from: command, seed, commit. Versions are added.
        understood: sentences on what was read and what was guessed.
        notes: warnings, shown in a box.
        channels: names, if the splitter does not know them.
        level: probability that the band stands for.
    """
    page = _Page(splitter, forecast, lower, upper, truth, channels, level)
    text = page.html(facts, understood, notes).encode("utf-8", "replace")
    # Two runs that write the same page do not share a partial file.
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(text)
        os.replace(partial, path)
    except OSError as reason:
        partial.unlink(missing_ok=True)
        raise OpsplitError(f"Cannot write the report {path}: {reason.strerror}.") from None
    return path


def versions() -> dict[str, str]:
    return {
        "opsplit": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


class _Page:
    """The parts of the page, from the same numbers."""

    def __init__(
        self,
        splitter: OperatorSplitter,
        forecast: Forecast,
        lower: Any,
        upper: Any,
        truth: Any,
        channels: Sequence[str] | None,
        level: float,
    ) -> None:
        self.splitter, self.status, self.level = splitter, forecast.status, level
        self.outcome, self.verdict = forecast.outcome, splitter.verdict_
        observed = splitter.observed_
        self.grid = observed.grid
        self.channels = tuple(observed.channels if channels is None else channels)
        self.shown = min(SHOWN, len(self.channels))
        self.before = observed.data[0].float().cpu()
        self.frames = forecast.frames.float().cpu()
        self.times = forecast.times.double().cpu().numpy()
        self.past = (observed.times - observed.times[-1]).double().cpu().numpy()
        expected = (len(self.times), len(self.channels), *self.grid.shape)
        if tuple(self.frames.shape) != expected:
            raise OpsplitError(
                f"A report on {len(self.channels)} channels on the grid {self.grid.shape} at "
                f"{len(self.times)} times needs a forecast of shape {expected}, "
                f"got {tuple(self.frames.shape)}."
            )
        if (lower is None) != (upper is None):
            raise OpsplitError("A band has two ends: give both lower and upper, or neither.")
        self.lower, self.upper = self._like("lower", lower), self._like("upper", upper)
        self.truth = self._like("truth", truth)
        axes = tuple(range(2, self.frames.ndim))
        self.half: Tensor | None = None
        if self.lower is not None and self.upper is not None:
            self.half = ((self.upper - self.lower) / 2).mean(axes)
        self.errors: dict[str, np.ndarray] = {}
        if self.truth is not None:
            still = self.before[-1:].expand_as(self.frames)
            for name, frames in {"forecast": self.frames, "persistence": still}.items():
                self.errors[name] = nrmse_per_frame(frames[None], self.truth[None])[0].numpy()
            self.verdict = self.verdict.on_future(self.frames, self.truth, self.before[-1])
        past, future = self.before.numpy(), self.frames.numpy()
        self.colours = [Colours.of(past[:, i], future[:, i]) for i in range(self.shown)]

    def _like(self, word: str, given: Any) -> Tensor | None:
        """An optional companion of the forecast; frames missing at its end become NaN."""
        if given is None:
            return None
        values = torch.as_tensor(given).float().cpu()
        wanted = tuple(self.frames.shape)
        if len(self.channels) == 1 and values.ndim == len(wanted) - 1:
            values = values[:, None]
        short = word == "truth" and len(values) < wanted[0]
        if values.shape[1:] != wanted[1:] or (len(values) != wanted[0] and not short):
            raise OpsplitError(
                f"{word} must be shaped like the forecast, {wanted}, got {tuple(values.shape)}."
            )
        rest = torch.full((wanted[0] - len(values), *wanted[1:]), math.nan)
        return torch.cat([values, rest]) if short else values

    def html(self, facts: dict[str, str], understood: Sequence[str], notes: Sequence[str]) -> str:
        equation = self.splitter.equation_
        if self.outcome is not Outcome.FINITE:
            notes = [f"Status of the forecast: {self.status}.", *notes]
        told = facts | {k: v for k, v in versions().items() if k not in facts}
        sections = {
            "What was read": self._read(understood),
            "Compositions": self._compositions(),
            "Coefficients": self._coefficients(),
            "Observation and forecast": self._pictures(),
            "Error": self._error(),
            "Numbers": self._numbers(),
            "Where this page comes from": _table(["", ""], told.items(), "facts"),
        }
        box = f'<aside class="notes" role="note"><h2>Notes</h2>{_list(notes)}</aside>'
        parts = [f"<section><h2>{k}</h2>{v}</section>" for k, v in sections.items() if v]
        parts.insert(1, box if notes else "")
        last = f"{len(self.times)} frames until {self.times[-1]:.5g} after the last observed one"
        digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
        # Nothing is fetched, and no script runs but the one below.
        policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        policy += f"script-src 'sha256-{digest}'"
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Forecast: {escape(equation)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<p class="kicker">opsplit forecast</p>
<h1>{escape(equation)}</h1>
<p class="verdict {self.verdict.level.value}"><strong>{escape(self.verdict.text)}</strong></p>
<p>{escape(last)}. One step of the composition misses the observed frames by
{_number(self.splitter.fit_error_)} (relative).</p>
</header>
{"".join(parts)}
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""

    def _read(self, understood: Sequence[str]) -> str:
        count, grid, window = len(self.before), self.grid, self.splitter.window
        steps = np.diff(self.past)
        even = np.allclose(steps, steps[0], rtol=1e-3)
        used = count if window is None else min(window, count)
        box = " × ".join(f"{x:.5g}" for x in grid.extent)
        rows = {
            "frames": f"{count}" + (f", the last {used} fitted" if used < count else ""),
            "time step": f"{np.median(steps):.6g}" + ("" if even else " (median; irregular)"),
            "grid": " × ".join(map(str, grid.shape)) + " points",
            "box": f"{box}, {', '.join(dict.fromkeys(grid.boundary))}",
            "channels": ", ".join(self.channels),
        }
        if self.splitter.noise_:
            rows["white noise taken out"] = f"{self.splitter.noise_:.3g}"
        return _list(understood) + _table(["", ""], rows.items(), "facts")

    def _compositions(self) -> str:
        result = self.splitter.search_result_
        names = list(result.pick.coefficients)
        head = ["", "parts", "one-step error", *names, "composition"]

        def row(c: Any) -> list[Any]:
            mark = "pick" if c is result.pick else ""
            return [mark, len(c), c.fit_error, *(c.coefficients[n] for n in names), c.label]

        best = [
            [r["pick"] and "pick", r["parts"], r["fit_error"], *(r[n] for n in names),
             r["composition"]]
            for r in self.splitter.search_table_
        ]  # fmt: skip
        ranked = sorted({id(c): c for c in (result.pick, *result.ranked)}.values(),
                        key=lambda c: c.fit_error)  # fmt: skip
        more = ""
        if len(ranked) > len(best):
            rows = [row(c) for c in islice(ranked, 20)]
            more = f"<details><summary>The best {len(rows)} of all lengths</summary>"
            more += _table(head, rows, "ranked") + "</details>"
        words = f"The best of every length. {result.strategy}: {result.status}."
        return f"<p>{escape(words)}</p>" + _table(head, best, "compositions") + more

    def _coefficients(self) -> str:
        found, sure = self.splitter.coefficients_, self.splitter.coefficient_intervals_
        if not found:
            return "<p>The operators of this model have no known coefficients.</p>"
        if not sure:
            words = (
                "<p>No intervals: the model is not calibrated for this search and such data.</p>"
            )
            return words + _table(["", "value"], found.items(), "coefficients")
        rows = [[name, value, *sure.get(name, (None, None))] for name, value in found.items()]
        return _table(["", "value", "90 % from", "to"], rows, "coefficients")

    def _pictures(self) -> str:
        draw = self._line if self.grid.ndim == 1 else self._plane
        text = "".join(draw(i) for i in range(self.shown))
        if len(self.channels) > self.shown:
            text += f"<p>Pictures of the first {self.shown} of {len(self.channels)} channels.</p>"
        return text + ("" if self.grid.ndim == 1 else self._film())

    def _line(self, channel: int) -> str:
        """History and forecast of a line, and its last profile."""
        name, colours = self.channels[channel], self.colours[channel]
        x = self.grid.axes()[0].numpy()
        whole = torch.cat([self.before[:, channel], self.frames[:, channel]]).numpy()
        moments = np.concatenate([self.past, self.times])
        # Frames beside a gap are not drawn across it.
        usual = float(np.median(np.diff(self.past)))
        sides = [{a + usual, b - usual} for a, b in pairwise(self.past) if b - a > 1.9 * usual]
        holes = sorted({t for pair in sides for t in pair})
        places = np.searchsorted(moments, holes)
        moments = np.insert(moments, places, holes)
        whole = np.insert(whole, places, math.nan, axis=0)
        t, s = (max(1, n // 1000) for n in whole.shape)
        figure = _figure(5.4, 3)
        axes = figure.add_subplot()
        image = axes.pcolormesh(
            moments[::t], x[::s], whole[::t, ::s].T, shading="nearest", cmap=colours.name,
            vmin=colours.low, vmax=colours.high,
        )  # fmt: skip
        axes.axvline(self.times[0] / 2, color="black", lw=1.5, ls="--")
        axes.set(xlabel="time after the last observed frame", ylabel="x")
        figure.colorbar(image, ax=axes, extend="both" if colours.cut else "neither")
        words = f"{name}: observed left of the dashed line, forecast right of it."
        history = _drawing(figure, words)
        fine = self.frames.flatten(1).isfinite().all(1).nonzero()[:, 0].tolist()
        last = fine[-1] if fine else 0
        figure = _figure(5.4, 3)
        axes = figure.add_subplot()
        axes.plot(x, self.before[-1, channel], ls=":", color="black", label="last observed")
        if self.lower is not None and self.upper is not None:
            ends = (self.lower[last, channel], self.upper[last, channel])
            label = f"{100 * self.level:.3g} % band"
            axes.fill_between(x, *ends, color=COLOURS["pursuit"], alpha=0.3, lw=0, label=label)
        if self.truth is not None and bool(self.truth[last].isfinite().all()):
            axes.plot(x, self.truth[last, channel], color="black", lw=3, alpha=0.4, label="truth")
        axes.plot(x, self.frames[last, channel], color=COLOURS["pursuit"], label="forecast")
        axes.set_xlabel("x")
        axes.grid(alpha=0.3)
        figure.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
        end = "last" if last == len(self.frames) - 1 else "last finite"
        words = f"{name} in the {end} frame of the forecast, at {self.times[last]:.5g}."
        return history + _drawing(figure, words)

    def _plane(self, channel: int) -> str:
        """Frames of one channel with one scale of colours; the middle plane of a volume."""
        name, colours = self.channels[channel], self.colours[channel]
        picks = [int(i) for i in np.unique(np.linspace(0, len(self.frames) - 1, 4).round())]
        shown = [("observed", self.before, self.past, [0, len(self.before) - 1])]
        shown += [("forecast", self.frames, self.times, picks)]
        if self.truth is not None:
            shown += [("truth", self.truth, self.times, picks)]
        text = f"<h3>{escape(name)}{self._where()}</h3>"
        for word, frames, times, numbers in shown:
            cells = [
                self._cell(
                    colours.picture(self._slice(frames[i, channel])),
                    f"{word}, t = {times[i]:.4g}",
                    f"{name}, {word} at time {times[i]:.4g}",
                )
                for i in numbers
            ]
            text += f'<div class="frames">{"".join(cells)}</div>'
        return text + _scale(colours)

    def _where(self) -> str:
        return ", the plane in the middle of z" if self.grid.ndim == 3 else ""

    @staticmethod
    def _slice(field: Tensor) -> np.ndarray:
        return (field if field.ndim == 2 else field[..., field.shape[-1] // 2]).numpy()

    def _cell(self, uri: str, words: str, alt: str, extra: str = "") -> str:
        width, height = self.grid.extent[:2]
        # A very long box would be a thread or a tower.
        ratio = min(max(width / height, 0.25), 4)
        return (
            f'<figure><img src="{uri}" alt="{escape(alt)}" style="aspect-ratio:{ratio:.4g}"{extra}>'
            f"<figcaption>{escape(words)}</figcaption></figure>"
        )

    def _film(self) -> str:
        """All channels through observation and forecast, one picture per frame and channel."""
        whole = [*self.before, *self.frames]
        moments = np.concatenate([self.past, self.times])
        picks = film_picks(len(whole), self.shown, self.grid.shape[:2])
        labels = [
            f"{'observed' if i < len(self.before) else 'forecast'}, t = {moments[i]:.4g}"
            for i in picks
        ]
        films = [
            [colours.picture(self._slice(whole[i][channel])) for i in picks]
            for channel, colours in enumerate(self.colours)
        ]
        cells = [
            self._cell(film[0], name, f"{name} as a film", ' class="screen"')
            for film, name in zip(films, self.channels, strict=False)
        ]
        held = json.dumps({"labels": labels, "films": films}).replace("<", "\\u003c")
        return f"""<h3>Film{self._where()}</h3>
<div class="frames film">{"".join(cells)}</div>
<div class="player"><button type="button" id="play">Play</button>
<input type="range" id="frame" min="0" max="{len(picks) - 1}" value="0" aria-label="frame">
<output id="moment" for="frame">{escape(labels[0])}</output></div>
<script type="application/json" id="film">{held}</script>"""

    def _error(self) -> str:
        """Error of every frame where the truth is known, else what the band says about it."""
        size = self.frames.square().flatten(1).mean(1).sqrt()
        band = None if self.half is None else (self.half.square().mean(1).sqrt() / size).numpy()
        if band is None and not self.errors:
            return ""
        figure = _figure(5.4, 3)
        axes = figure.add_subplot()
        styles = {"forecast": COLOURS["pursuit"], "persistence": COLOURS["persistence"]}
        marker = "o" if len(self.times) < 3 else None
        curves = [(name, values, styles[name], "-") for name, values in self.errors.items()]
        if band is not None:
            label = f"half width of the {100 * self.level:.3g} % band"
            curves.append((label, band, COLOURS["uniform"], "--"))
        for label, values, colour, line in curves:
            axes.plot(self.times, values, line, label=label, color=colour, lw=2, marker=marker)
        drawn = np.concatenate([values for _, values, _, _ in curves])
        if (drawn > 0).any():
            axes.set_yscale("log")
        axes.set(xlabel="time after the last observed frame", ylabel="relative error of a frame")
        axes.grid(alpha=0.3)
        figure.legend(loc="outside upper center", ncols=3, fontsize=9, frameon=False)
        if self.errors:
            words = "Error of every frame against the truth; persistence repeats the last frame."
        else:
            words = "The truth is not known; the band's half width says what error to expect."
        return _drawing(figure, words)

    def _numbers(self) -> str:
        """Every forecast frame in a row, to read and to copy."""
        head, columns = ["frame", "time"], [np.arange(1, len(self.times) + 1), self.times]
        for i, name in enumerate(self.channels):
            field = self.frames[:, i].flatten(1)
            head += [f"mean {name}", f"min {name}", f"max {name}"]
            columns += [field.mean(1).numpy(), field.amin(1).numpy(), field.amax(1).numpy()]
            if self.half is not None:
                head.append(f"half width {name}")
                columns.append(self.half[:, i].numpy())
        head += [f"error of {name}" for name in self.errors]
        columns += list(self.errors.values())
        rows = [[v.item() for v in row] for row in zip(*columns, strict=True)]
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([head, *([_exact(v) for v in row] for row in rows)])
        return (
            '<p><button type="button" id="copy">Copy as CSV</button></p>'
            + _table(head, rows, "numbers")
            + f'<pre id="csv" class="scroll" hidden>{escape(stream.getvalue())}</pre>'
        )


def _exact(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:.9g}" if math.isfinite(value) else ""


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else "–"
    return escape("" if value is None else str(value))


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(x)}</li>' for x in lines)}</ul>" if lines else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], name: str) -> str:
    """A table in a box of its own that scrolls; a row marked `pick` stands out."""

    def cell(value: Any) -> str:
        kind = ' class="n"' if isinstance(value, int | float) else ""
        return f"<td{kind}>{_number(value)}</td>"

    top = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    top = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    body = "".join(
        f"<tr{' class=pick' if row[0] == 'pick' else ''}>{''.join(map(cell, row))}</tr>"
        for row in rows
    )
    table = f'<table class="{name}">{top}<tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{table}</div>'


def _drawing(figure: Figure, words: str) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=160)
    said = escape(words)
    uri = data_uri(stream.getvalue())
    return f'<figure><img src="{uri}" alt="{said}"><figcaption>{said}</figcaption></figure>'


def _scale(colours: Colours) -> str:
    more = " (values beyond have the colours of the ends)" if colours.cut else ""
    return (
        f'<p class="scale">{colours.low:.4g} <img src="{colours.bar()}" alt="colours from '
        f'{colours.low:.4g} to {colours.high:.4g}"> {colours.high:.4g}{more}</p>'
    )
