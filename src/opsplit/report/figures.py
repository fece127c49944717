"""Pictures, drawn from the same numbers the tables show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit._files import atomic
from opsplit._text import in_percent
from opsplit.display import colour_limits, middle
from opsplit.metrics import nrmse_per_frame
from opsplit.trajectories import Trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure, SubFigure

    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.predict.rollout import Forecast

COLOURS = {
    "persistence": "#999999",
    "direct": "#d55e00",
    "uniform": "#e69f00",
    "beam": "#56b4e9",
    "pursuit": "#0072b2",
}


def _figure(width: float, height: float, constrained: bool = True) -> Figure:
    """A figure without a window system, in one style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained" if constrained else None, dpi=130)
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path, whole: bool = False) -> None:
    """With `whole`, labels that a nested layout pushes over the edge are kept, too."""
    box = "tight" if whole else None
    # The strongest compression takes longer than the drawing and saves little.
    quick = {"compress_level": 2} if path.suffix == ".png" else None
    with atomic(path) as partial:
        figure.savefig(partial, format=path.suffix[1:], bbox_inches=box, pil_kwargs=quick)


def _space_time(
    axes: Axes, frames: Tensor, times: tuple[float, float], extent: float, **options: Any
) -> Any:
    """A line's history: space to the right, time upwards."""
    image = axes.imshow(
        frames.cpu().numpy(), origin="lower", aspect="auto", interpolation="nearest",
        extent=(0, extent, *times), **options,
    )  # fmt: skip
    axes.set_xlabel("x")
    return image


@dataclass(frozen=True)
class Rollout:
    """One observed window, what followed, and what the methods said would follow."""

    observed: Trajectories
    future: Trajectories
    predictions: dict[str, Tensor]
    """Future frames `(time, channel, *space)` by method; pictures show all but persistence."""
    words: str
    """Coefficients, errors and composition, to be read beside the picture."""
    alone: dict[str, Tensor] = field(default_factory=dict)
    """What single mechanisms would have made of the same fields, at the future times."""

    @property
    def frames(self) -> int:
        return self.observed.data.shape[1]

    @property
    def shown(self) -> dict[str, Tensor]:
        """The forecasts whose frames are worth a look."""
        return {k: v for k, v in self.predictions.items() if k != "persistence"}

    @property
    def truth(self) -> Tensor:
        return self.future.data[0]

    @property
    def moments(self) -> np.ndarray:
        """Times of the future frames; the first observed one is at 0."""
        return self.observed.dt * (self.frames + np.arange(len(self.truth)))

    @property
    def errors(self) -> dict[str, Tensor]:
        """Relative error per future frame by method."""
        return {
            name: nrmse_per_frame(frames[None], self.truth[None])[0]
            for name, frames in self.predictions.items()
        }


def _logarithmic(errors: Sequence[Tensor]) -> LogNorm:
    """Colours for the errors of several methods, which may differ by orders of magnitude."""
    from matplotlib.colors import LogNorm

    largest = [max(float(error.abs().max()), 1e-30) for error in errors]
    return LogNorm(max(0.01 * min(largest), 1e-8 * max(largest)), max(largest), clip=True)


def _error_curve(axes: Axes, rollout: Rollout) -> None:
    for name, values in rollout.errors.items():
        axes.semilogy(rollout.moments, values, label=name, lw=2, color=COLOURS.get(name))
    axes.set_xlabel("time")
    axes.set_title("relative error of a frame")
    axes.grid(alpha=0.3, which="major")
    axes.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))


def _note(axes: Axes, words: str) -> None:
    axes.axis("off")
    axes.text(0, 1, words, va="top", family="monospace", fontsize=8)


def demo_figure(rollout: Rollout, path: Path) -> None:
    """What happened beside the direct and the searched forecast, and the last frame of each."""
    seen, future = rollout.observed.data[0, :, 0], rollout.truth[:, 0]
    dt, extent = rollout.observed.dt, rollout.observed.grid.extent[0]
    methods = {"direct": "the network's own forecast", "pursuit": "forecast by opsplit"}
    found = {name: rollout.predictions[name][:, 0] for name in methods}
    figure = _figure(13, 4.2)
    *maps, profile = figure.subplots(1, 4)
    limit = float(torch.cat([seen, future]).abs().max())
    now, end = rollout.frames * dt, (rollout.frames + len(future)) * dt
    titles = ["what really happened\n"]
    for name, words in methods.items():
        share = float((found[name] - future).norm() / future.norm())
        titles.append(f"{words}\n{in_percent(share)} wrong")
    for axes, frames, title in zip(maps, (future, *found.values()), titles, strict=True):
        image = _space_time(
            axes, torch.cat([seen, frames]), (0, end), extent,
            cmap="RdBu_r", vmin=-limit, vmax=limit,
        )  # fmt: skip
        axes.axhline(now, color="black", lw=1.5, ls="--")
        for height, words in (
            (0.4 * now, "observed"),
            (1.12 * now, "truth" if frames is future else "forecast"),
        ):
            axes.text(0.03 * extent, height, words, fontsize=10, weight="bold")
        axes.set_title(title)
    maps[0].set_ylabel("time")
    figure.colorbar(image, ax=maps, label=rollout.observed.channels[0])
    x = np.arange(len(future[0])) * extent / len(future[0])
    profile.plot(x, seen[-1], color="black", ls=":", label="last observed")
    profile.plot(x, future[-1], color="black", lw=5, alpha=0.35, label="truth")
    labels = {"direct": "network", "pursuit": "opsplit"}
    for name, frames in found.items():
        profile.plot(x, frames[-1], color=COLOURS[name], lw=2, label=labels[name])
    profile.set_xlabel("x")
    profile.grid(alpha=0.3)
    profile.legend(
        title="the last frame", title_fontsize=12, fontsize=9, ncols=2, frameon=False,
        loc="lower center", bbox_to_anchor=(0.5, 0.98), borderpad=0,
    )  # fmt: skip
    _save(figure, path)


def line_figure(rollout: Rollout, path: Path) -> None:
    """Space-time truth; forecast and error of every method; error over time; the last profile."""
    truth = rollout.truth[:, 0]
    shown = {name: frames[:, 0] for name, frames in rollout.shown.items()}
    grid = rollout.observed.grid
    times = (float(rollout.moments[0]), float(rollout.moments[-1]) + rollout.observed.dt)
    limit = float(truth.abs().max())
    gaps = {"cmap": "magma", "norm": _logarithmic([f - truth for f in shown.values()])}
    figure = _figure(4 * (len(shown) + 1), 9.6)
    cells = figure.add_gridspec(3, len(shown) + 1)
    style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    first = figure.add_subplot(cells[0, 0])
    _space_time(first, truth, times, grid.extent[0], **style)
    first.set_title("truth")
    first.set_ylabel("time")
    for column, (name, frames) in enumerate(shown.items(), 1):
        axes, below = (figure.add_subplot(cells[row, column]) for row in (0, 1))
        image = _space_time(axes, frames, times, grid.extent[0], **style)
        axes.set_title(f"forecast: {name}")
        gap = _space_time(below, (frames - truth).abs(), times, grid.extent[0], **gaps)
        below.set_title(f"|error|: {name}")
    figure.colorbar(image, ax=axes, label="u")
    figure.colorbar(gap, ax=below)
    _error_curve(figure.add_subplot(cells[1, 0]), rollout)
    profile = figure.add_subplot(cells[2, :-1])
    x = np.arange(grid.shape[0]) * grid.spacing[0]
    profile.plot(x, truth[-1], color="black", lw=3, alpha=0.4, label="truth")
    for method, values in rollout.predictions.items():
        profile.plot(x, values[-1, 0], lw=1.2, color=COLOURS.get(method), label=method)
    profile.set_xlabel("x")
    profile.set_title(f"u at t = {rollout.moments[-1]:.3g}")
    profile.legend(fontsize=8)
    _note(figure.add_subplot(cells[2, -1]), rollout.words)
    _save(figure, path)


def frames_figure(rollouts: Sequence[Rollout], path: Path) -> None:
    """Truth, forecasts and errors of every channel at a few times, one band per rollout."""
    channels = rollouts[0].observed.channels
    rows = 1 + 2 * len(rollouts[0].shown) + len(rollouts[0].alone)
    # A frame is a square: rows are as high as its columns are wide.
    width, square = (13.5, 1.42) if len(channels) > 1 else (12, 1.9)
    figure = _figure(width, max(5.8, square * rows + 0.3) * len(rollouts))
    bands = figure.subfigures(len(rollouts), 1, squeeze=False)[:, 0]
    for band, rollout in zip(bands, rollouts, strict=True):
        picture, side = band.subfigures(1, 2, width_ratios=(2.6, 1))
        parts = picture.subfigures(1, len(channels), squeeze=False)[0]
        for number, part in enumerate(parts):
            _frames(part, rollout, number, 3 if len(channels) > 1 else 4)
        curve, note = side.subplots(2, 1)
        _error_curve(curve, rollout)
        _note(note, rollout.words)
    _save(figure, path, whole=True)


def _frames(figure: SubFigure, rollout: Rollout, channel: int, count: int) -> None:
    """Rows of frames of one channel: truth, forecasts, errors, single mechanisms; shared limits."""
    truth = rollout.truth[:, channel]
    low, high = float(truth.min()), float(truth.max())
    style: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high}
    if low < -0.1 * high:
        limit = max(-low, high)
        style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    shown = {name: frames[:, channel] for name, frames in rollout.shown.items()}
    errors = {name: (frames - truth).abs() for name, frames in shown.items()}
    fields = {"truth": truth, **shown, **{k: v[:, channel] for k, v in rollout.alone.items()}}
    rows = [(title, frames, style) for title, frames in fields.items()]
    gaps: dict[str, Any] = {"cmap": "magma", "norm": _logarithmic(list(errors.values()))}
    rows += [(f"|error| {name}", error, gaps) for name, error in errors.items()]
    width, height = rollout.observed.grid.extent
    label = rollout.observed.channels[channel]
    picks = np.linspace(0, len(truth) - 1, count).round().astype(int)
    axes = figure.subplots(len(rows), count, sharex=True, sharey=True)
    for row, (title, frames, options) in enumerate(rows):
        for column, i in enumerate(picks):
            cell = axes[row, column]
            image = cell.imshow(frames[i].cpu().numpy().T, origin="lower",
                                extent=(0, width, 0, height), **options)  # fmt: skip
            cell.set_xticks([])
            cell.set_yticks([])
            if row == 0:
                cell.set_title(f"t = {rollout.moments[i]:.3g}", fontsize=9)
        axes[row, 0].set_ylabel(title, fontsize=8)
        if row in (len(fields) - 1, len(rows) - 1):
            held = axes[: len(fields)] if row < len(fields) else axes[len(fields) :]
            words = label if row < len(fields) else f"|error| of {label}"
            figure.colorbar(image, ax=list(held.flat), label=words, aspect=15 * len(held))


def contour_figure(
    x: Sequence[float],
    y: Sequence[float],
    values: dict[str, list[list[float]]],
    path: Path,
    labels: Sequence[str],
) -> None:
    """NRMSE over the two coefficients, one map per method, all in the same colours."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator

    tables = {name: np.array(rows) for name, rows in values.items()}
    least = min(float(t.min()) for t in tables.values())
    most = max(float(t.max()) for t in tables.values())
    low, high = np.log10(least) - 0.05, np.log10(most) + 0.05
    levels = np.logspace(low, high, 25)
    figure = _figure(4 * len(tables) + 0.8, 3.8)
    axes = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
    for cell, (name, table) in zip(axes, tables.items(), strict=True):
        image = cell.contourf(x, y, table.T, levels, norm=LogNorm(levels[0], levels[-1]))
        cell.set_title(f"{name}: mean {table.mean():.3g}")
        cell.set_xlabel(labels[0])
    axes[0].set_ylabel(labels[1])
    figure.colorbar(image, ax=list(axes), label="NRMSE (lower is better)", pad=0.01,
                    ticks=LogLocator(), format="%.0e")  # fmt: skip
    _save(figure, path)


def forecast_figure(splitter: OperatorSplitter, forecast: Forecast, path: Path) -> None:
    """Observed frames and the forecast of every channel."""
    observed = splitter.observed_
    frames = forecast.frames.cpu()
    channels = frames.shape[1]
    # Strips of one width need no layout by trial, which takes as long as the drawing.
    strips = frames.ndim == 3
    figure = _figure(9 if strips else 12, (3.6 if strips else 2.7) * channels, not strips)
    if strips:
        inches = 3.6 * channels
        figure.subplots_adjust(
            left=0.07, right=1.05, bottom=0.5 / inches, top=1 - 0.3 / inches, hspace=0.3
        )
    for channel in range(channels):
        if strips:
            axes = figure.add_subplot(channels, 1, channel + 1)
            dt, extent = observed.dt, observed.grid.extent[0]
            before = observed.data[0, :, channel].cpu()
            whole = np.concatenate([before.numpy(), frames[:, channel].numpy()])
            # Time runs to the right here: one wide strip per channel.
            image = axes.imshow(
                whole.T, origin="lower", aspect="auto", **colour_limits(whole),
                extent=(-(len(before) - 1) * dt, float(forecast.times[-1]), 0, extent),
            )  # fmt: skip
            axes.axvline(0, color="black", lw=1.5)
            axes.set_xlabel("time after the last observed frame")
            axes.set_ylabel("x")
            axes.set_title("observed | forecast")
            figure.colorbar(image, ax=axes, label=observed.channels[channel])
        else:
            picks = np.linspace(0, len(frames) - 1, 4).round().astype(int)
            shown = [observed.data[0, -1, channel].cpu(), *(frames[i, channel] for i in picks)]
            names = ["last observed", *(f"t = {float(forecast.times[i]):.3g}" for i in picks)]
            planes = [middle(f).numpy() for f in shown]
            style, each = colour_limits(np.stack(planes)), []
            for column, (field, name) in enumerate(zip(planes, names, strict=True)):
                each.append(figure.add_subplot(channels, 5, 5 * channel + column + 1))
                # x to the right and y upwards, as on the page.
                box = (0, observed.grid.extent[0], 0, observed.grid.extent[1])
                image = each[-1].imshow(field.T, origin="lower", extent=box, **style)
                each[-1].set(title=name, xticks=[], yticks=[])
            label = observed.channels[channel] + (", middle of z" if frames.ndim == 5 else "")
            figure.colorbar(image, ax=each, label=label, shrink=0.8)
    _save(figure, path)
