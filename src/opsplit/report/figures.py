"""Pictures, drawn from the same numbers the tables show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.predict.rollout import Forecast

COLOURS = {
    "persistence": "#999999",
    "direct": "#d55e00",
    "uniform": "#e69f00",
    "beam": "#56b4e9",
    "pursuit": "#0072b2",
}


def _figure(width: float, height: float) -> Figure:
    """A figure without a window system, in one style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    return figure


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


def demo_figure(
    truth: Tensor,
    predictions: dict[str, Tensor],
    errors: dict[str, Tensor],
    observed: int,
    dt: float,
    extent: float,
    words: str,
    path: Path,
) -> None:
    """Space-time truth, direct and searched forecasts with their errors, and error over time.

    Arguments:
        truth: observed and future frames `(time, x)`.
        predictions: future frames `(time, x)` by method; `direct` and the search.
        errors: relative error per future frame by method.
    """
    figure = _figure(12, 6.4)
    grid = figure.add_gridspec(2, 4, width_ratios=(1, 1, 1, 1.15))
    limit = float(truth.abs().max())
    now, end = observed * dt, len(truth) * dt
    style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    whole = figure.add_subplot(grid[:, 0])
    image = _space_time(whole, truth, (0, end), extent, **style)
    whole.axhline(now, color="black", lw=1.5)
    whole.text(0.03 * extent, now * 0.5, "observed", fontsize=10, weight="bold")
    whole.set_title("truth")
    whole.set_ylabel("time")
    future = truth[observed:]
    largest = max(float((p - future).abs().max()) for p in predictions.values())
    for column, (name, frames) in enumerate(predictions.items(), 1):
        top = figure.add_subplot(grid[0, column])
        _space_time(top, frames, (now, end), extent, **style)
        top.set_title(f"forecast: {name}")
        below = figure.add_subplot(grid[1, column])
        gap = _space_time(below, (frames - future).abs(), (now, end), extent,
                          cmap="magma", vmin=0, vmax=largest)  # fmt: skip
        below.set_title(f"|error|: {name}")
    figure.colorbar(image, ax=whole, location="left", shrink=0.6, label="u")
    figure.colorbar(gap, ax=below, location="right", shrink=0.9)
    curve = figure.add_subplot(grid[0, 3])
    moments = now + dt * np.arange(1, len(future) + 1)
    for name, values in errors.items():
        curve.semilogy(moments, values.cpu().numpy(), label=name, lw=2, color=COLOURS.get(name))
    curve.set_xlabel("time")
    curve.set_title("relative error of a frame")
    curve.grid(alpha=0.3, which="both")
    curve.legend(fontsize=9)
    note = figure.add_subplot(grid[1, 3])
    note.axis("off")
    note.text(0, 1, words, va="top", family="monospace", fontsize=8.5, wrap=True)
    figure.savefig(path)


def forecast_figure(splitter: OperatorSplitter, forecast: Forecast, path: Path) -> None:
    """Observed frames and the forecast of every channel."""
    observed = splitter.observed_
    frames = forecast.frames.cpu()
    channels = frames.shape[1]
    figure = _figure(9, 3.6 * channels)
    for channel in range(channels):
        if frames.ndim == 3:
            axes = figure.add_subplot(channels, 1, channel + 1)
            dt, extent = observed.dt, observed.grid.extent[0]
            before = observed.data[0, :, channel].cpu()
            whole = np.concatenate([before.numpy(), frames[:, channel].numpy()])
            limit = float(np.nanmax(np.abs(whole))) or 1.0
            # Time runs to the right here: one wide strip per channel.
            image = axes.imshow(
                whole.T, origin="lower", aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit,
                extent=(-(len(before) - 1) * dt, float(forecast.times[-1]), 0, extent),
            )  # fmt: skip
            axes.axvline(0, color="black", lw=1.5)
            axes.set_xlabel("time after the last observed frame")
            axes.set_ylabel("x")
            axes.set_title(f"{observed.channels[channel]}: observed | forecast")
            figure.colorbar(image, ax=axes)
        else:
            picks = np.linspace(0, len(frames) - 1, 4).round().astype(int)
            shown = [observed.data[0, -1, channel].cpu(), *(frames[i, channel] for i in picks)]
            names = ["last observed", *(f"t = {float(forecast.times[i]):.3g}" for i in picks)]
            for column, (field, name) in enumerate(zip(shown, names, strict=True)):
                axes = figure.add_subplot(channels, 5, 5 * channel + column + 1)
                axes.imshow(field if field.ndim == 2 else field[len(field) // 2], origin="lower")
                axes.set_title(name, fontsize=8)
                axes.axis("off")
    figure.savefig(path)


def training_figure(curves: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Validation error against training time, one line per model and mechanism."""
    figure = _figure(6.5, 4)
    axes = figure.add_subplot()
    for name, rows in curves.items():
        minutes = [row["seconds"] / 60 for row in rows]
        for key in [k for k in rows[-1] if k.startswith("validation ")]:
            label = f"{name}, {key.removeprefix('validation ')}"
            axes.loglog(minutes, [row.get(key, np.nan) for row in rows], label=label)
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("one-step relative error, unseen fields")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path)
