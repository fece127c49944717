"""Pieces of the page as HTML: verdict, equation, coefficients, the film, the trained box."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import opsplit
from opsplit._text import in_percent
from opsplit.app.job import Answer, Progress
from opsplit.app.samples import Knob, constants
from opsplit.display import html_table, middle
from opsplit.report.animation import Colours, film_picks, plane_ratio, plane_words

if TYPE_CHECKING:
    from jinja2 import Template

METHODS = {
    "opsplit": "opsplit: the composition that was found",
    "persistence": "persistence: the last frame stays",
    "direct": "direct: the trained network alone, without a search",
    "terms given": "terms given: a fit of the true terms, then the solver",
}
TRIED = "Sums tried so far, the best first: strength [operator, by its coefficients]"
COLOURS = {"explained": "#2a9d5c", "partly": "#d9a400", "unexplained": "#c0392b"}


def system(equation: opsplit.Equation) -> str:
    """The equation that is simulated."""
    return f'<p class="system" style="font-size:1.1rem;margin-bottom:.75rem">{equation.html}</p>'


def box(knobs: tuple[Knob, ...], values: dict[str, float]) -> str:
    """Every coefficient on its own axis: the trained range as a bar, the value as a dot."""
    rows = ""
    for i, knob in enumerate(knobs):
        least, most = knob.ends
        y, value = 24 + 34 * i, values.get(knob.name, 0.0)

        def at(x: float, least: float = least, most: float = most) -> float:
            return 70 + 250 * min(max((x - least) / (most - least), 0.0), 1.0)

        inside = knob.low <= value <= knob.high or value == 0
        rows += (
            f'<line x1="70" x2="320" y1="{y}" y2="{y}" stroke="currentColor" opacity=".3"/>'
            f'<rect x="{at(knob.low):.1f}" y="{y - 6}" width="{at(knob.high) - at(knob.low):.1f}" '
            'height="12" rx="3" fill="#0072b2" opacity=".35"/>'
            f'<circle cx="{at(value):.1f}" cy="{y}" r="7" '
            f'fill="{"#0072b2" if inside else "#d55e00"}"/>'
            f'<text x="60" y="{y + 5}" text-anchor="end" fill="currentColor">'
            f"{escape(knob.name)}</text>"
            f'<text x="330" y="{y + 5}" fill="currentColor">{value:.4g}</text>'
        )
    height = 34 * len(knobs) + 14
    return (
        f'<svg viewBox="0 0 390 {height}" style="max-width:28rem;width:100%" role="img" '
        f'aria-label="trained ranges and chosen values" font-size="15">{rows}</svg>'
        "<p><small>Bar: the values of the training. Beyond it the dot is orange.</small></p>"
    )


def progress(state: Progress) -> str:
    """The live table of a search."""
    done = 100 * state.share
    doing = f"Searching: {done:.0f} %" if state.share else "Preparing ..."
    # Said as "best ERROR: COMPOSITION", after the model's name where there are several.
    said = [line.partition("best ")[::2] for line in state.lines]
    tried = [(model, *rest.partition(": ")[::2]) for model, rest in said if rest]
    rows = [
        {"error of one step": error, "composition": f"{model}{parts}"}
        for model, error, parts in sorted(tried, key=lambda line: float(line[1]))[:8]
    ]
    return (
        f'<p role="status">{doing}</p>'
        f'<progress max="100" value="{done:.0f}" style="width:100%"></progress>'
        f"{html_table(rows, TRIED) if rows else ''}"
    )


def headline(answer: Answer) -> str:
    """The level in large letters, its reason, and what was explained."""
    verdict = answer.verdict
    level, _, reason = verdict.text.partition(": ")
    return (
        f'<div style="border-left:.5rem solid {COLOURS[verdict.level.value]};padding-left:.75rem">'
        f'<h2 class="verdict" data-level="{verdict.level.value}">{escape(level)}</h2>'
        f"{_in_words(answer.errors)}"
        f"<p>{escape(reason[:1].upper() + reason[1:])}</p>"
        f"<p><small>{escape(answer.task.title)}</small></p></div>"
    )


def _in_words(errors: dict[str, float]) -> str:
    """How far the forecast is from the truth, for somebody who knows none of our words."""
    if not errors:
        return ""
    mine, still = errors["opsplit"], errors.get("persistence")
    said = f"The forecast differs from the truth by <b>{in_percent(mine)}</b>"
    if still is not None:
        said += f"; the last frame, repeated, by {in_percent(still)}"
    return f"<p>{said}.</p>"


def failure(words: str) -> str:
    """One sentence in place of a result."""
    return (
        f'<p class="failure" role="alert" style="border-left:.5rem solid {COLOURS["unexplained"]};'
        f'padding-left:.75rem">{escape(words)}</p>'
    )


def described(content: opsplit.Description, name: str, findings: list[opsplit.Finding]) -> str:
    """What a file holds and what is wrong with it, then all that is known about it."""
    recording = content.recording
    trajectories, frames, channels, *points = recording.shape
    held = " x ".join(map(str, points))
    size = f"<b>{escape(name)}</b>: {frames} frames of {held} points"
    if channels > 1:
        size += f", {channels} channels"
    if trajectories > 1:
        size += f", {trajectories} trajectories (the first one is used)"
    wrong = [f for f in findings if f.verdict != "ok"]
    first = f"All {len(findings)} checks passed." if not wrong else f"{len(wrong)} to look at:"
    # The same words as on the command line, where a setting is a flag.
    said = {
        f.check: re.sub(
            r"; say --boundary .*", ", which the search tries as well.",
            re.sub(r"add --(\w+) \(or \1=\)", r"fill in \1", f.words),
        )
        for f in wrong
    }  # fmt: skip
    rows = "".join(f"<li><b>{escape(k)}</b>: {escape(words)}</li>" for k, words in said.items())
    words = str(content).replace(recording.source, name)
    whole = escape("\n".join([words, "", *map(str, findings)]))
    return (
        f"<p>{size}.</p><p>{first}</p><ul>{rows}</ul>"
        "<details><summary>Content and checks</summary>"
        f"<pre style='white-space:pre-wrap;font-size:.8rem'>{whole}</pre></details>"
    )


def found(answer: Answer) -> str:
    """The equation, its coefficients beside the true ones, and the errors of the methods."""
    splitter, sample = answer.splitter, answer.task.sample
    true = {} if sample is None else {**constants(sample.equation), **sample.coefficients}
    rows = splitter.coefficient_rows([name for name, value in true.items() if value])
    if true:
        # Beside the value that was found, also on a narrow screen.
        rows = [
            {"coefficient": (name := row.pop("coefficient")), "found": row.pop("value"),
             "true": true.get(name, ""), **row}
            for row in rows
        ]  # fmt: skip
    text = f'<p class="equation" style="font-size:1.25rem">{splitter.equation_.html}</p>'
    text += html_table(rows, "Coefficients") if rows else ""
    if rows and (missing := splitter.no_intervals()):
        text += f"<p><small>{escape(missing)}</small></p>"
    if answer.errors:
        ranked = sorted(answer.errors.items(), key=lambda item: item[1])
        text += html_table(
            [{"forecast": METHODS.get(n, n), "NRMSE": f"{error:.2g}"} for n, error in ranked],
            "Errors of the forecasts (lower is better)",
        )
    notes = "".join(f"<li>{escape(note)}</li>" for note in splitter.notes_)
    return text + (f"<ul>{notes}</ul>" if notes else "")


@cache
def _player() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("player.html")


def film(answer: Answer) -> str:
    """The player: a profile in 1-D, fields in 2-D; truth, forecast and error share colours."""
    splitter, task = answer.splitter, answer.task
    observed = splitter.observed_
    before = observed.data[0].float().numpy()
    after = answer.forecast.frames.float().numpy()
    truth = None if task.truth is None else task.truth.data[0].float().numpy()
    past = (observed.times - observed.times[-1]).numpy()
    moments = np.concatenate([past, answer.forecast.times.numpy()])
    if observed.grid.ndim == 1:
        direct = answer.rivals.get("direct")
        held = _lines(observed, before, after, truth, None if direct is None else direct.numpy())
    else:
        held = _fields(observed, before, after, truth)
    picks = held.pop("picks")
    words = ["observed" if i < len(before) else "forecast" for i in picks]
    held["labels"] = [f"{w}, t = {moments[i]:.4g}" for w, i in zip(words, picks, strict=True)]
    held["data"]["labels"] = held["labels"]
    page = _player().render(film=held)
    return f'<iframe title="film" srcdoc="{escape(page)}" sandbox="allow-scripts"></iframe>'


def _lines(
    observed: opsplit.Trajectories, before: np.ndarray, after: np.ndarray,
    truth: np.ndarray | None, direct: np.ndarray | None,
) -> dict[str, Any]:  # fmt: skip
    """Profiles of the first channel as paths of an SVG picture."""
    runs = {"forecast": np.concatenate([before, after])[:, 0]}
    if direct is not None:
        runs["direct"] = np.concatenate([before, direct])[:, 0]
    if truth is not None:
        runs["truth"] = np.concatenate([before, truth])[:, 0]
        runs["error"] = np.concatenate([np.zeros_like(before), after - truth])[:, 0]
    fixed = [values for name, values in runs.items() if name != "direct"]
    seen = np.concatenate([values[np.isfinite(values)] for values in fixed])
    low, high = float(seen.min()), float(seen.max())
    room = (high - low) or 1.0
    picks = film_picks(len(runs["forecast"]), 1, (before.shape[-1],))
    every = max(1, before.shape[-1] // 320)
    x = np.linspace(0, 640, before.shape[-1])[::every]

    def path(values: np.ndarray) -> str:
        y = 240 - 220 * (np.nan_to_num(values[::every], nan=low) - low) / room
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y + 5, strict=True))

    styles = {
        "forecast": {"colour": "#0072b2", "width": 2.5, "dash": "none", "mark": "—"},
        "truth": {"colour": "#888888", "width": 5, "dash": "none", "mark": "━"},
        "direct": {"colour": "#b5479b", "width": 1.5, "dash": "2 4", "mark": "···"},
        "error": {"colour": "#d55e00", "width": 1.5, "dash": "5 4", "mark": "- -"},
    }
    order = [name for name in ("direct", "truth", "forecast", "error") if name in runs]
    labels = {"forecast": "observed, then forecast"}
    if truth is not None:
        error = f"forecast minus truth, at most {np.nanmax(np.abs(runs['error'])):.2g}"
        alone = "the network alone, without a search"
        labels = {"truth": "truth", "forecast": "forecast", "direct": alone, "error": error}
    return {
        "name": observed.channels[0], "low": low, "high": high, "picks": picks,
        "end": _end(observed.grid), "columns": 1, "words": "", "ratio": "",
        "lines": [{"name": labels[name], **styles[name]} for name in order],
        "screens": [], "scales": [],
        "data": {"lines": [[path(runs[n][i]) for i in picks] for n in order], "films": []},
    }  # fmt: skip


def _fields(
    observed: opsplit.Trajectories, before: np.ndarray, after: np.ndarray, truth: np.ndarray | None
) -> dict[str, Any]:
    """Frames of the first channels as small pictures."""
    shown = min(2, len(observed.channels))
    picks = film_picks(len(before) + len(after), 3 * shown, observed.grid.shape[:2])
    screens, films, scales = [], [], []
    for channel in range(shown):
        name = observed.channels[channel]
        colours = Colours.of(before[:, channel], after[:, channel])
        forecast = np.concatenate([before, after])[:, channel]
        alone = f"{name}, observed, then forecast"
        runs = {f"{name}, forecast" if truth is not None else alone: (forecast, colours)}
        scales.append(_scale(name, colours))
        if truth is not None:
            gap = np.abs(after - truth)[:, channel]
            largest = float(gap[np.isfinite(gap)].max(initial=0.0)) or 1.0
            errors = Colours("magma", 0.0, largest, False)
            whole = np.concatenate([before, truth])[:, channel]
            runs = {f"{name}, truth": (whole, colours)} | runs
            empty = np.zeros_like(before[:, channel])
            runs[f"{name}, error"] = (np.concatenate([empty, gap]), errors)
            scales.append(_scale(f"error of {name}", errors))
        for words, (frames, used) in runs.items():
            made = [used.picture(middle(frames[i])) for i in picks]
            films.append(made)
            screens.append({"name": words, "first": made[0]})
    return {
        "columns": len(screens) // shown if truth is not None else len(screens),
        "name": "", "low": 0.0, "high": 0.0, "end": 0.0, "picks": picks, "lines": [],
        "words": plane_words(observed.grid), "ratio": plane_ratio(observed.grid),
        "screens": screens, "scales": scales, "data": {"lines": [], "films": films},
    }  # fmt: skip


def _end(grid: opsplit.Grid) -> float:
    """Where a profile ends: the right end of a periodic axis is the left one again."""
    return grid.extent[0] if grid.boundary[0] == "periodic" else float(grid.axes()[0][-1])


def _scale(what: str, colours: Colours) -> dict[str, Any]:
    return {"what": what, "low": colours.low, "high": colours.high, "bar": colours.bar()}
