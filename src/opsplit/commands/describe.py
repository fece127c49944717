"""`opsplit describe`: what a file holds and which bundled models can take it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from opsplit.commands.common import Common
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.io.recording import Recording
    from opsplit.io.survey import Survey

FACTOR = 4.0
"""Steps and spacings up to so many times those of training are known ground."""
SEAM = 3.0
"""Ends whose jump is so many times the largest between neighbours are not neighbours."""


@dataclass(frozen=True)
class ReadFlags(Common):
    """Flags of commands that read fields over time."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """A file (.h5 of The Well or PDEBench, .nc, .npy, .npz, .mat), or files or a folder of
    The Well."""
    axes: str | None = None
    """Names of the array's axes in order, such as t,x or n,t,c,x,y."""
    channels: str | None = None
    """Names of the channels, or which to read of a file that names them: u,v."""
    dt: float | None = None
    """Time between frames."""
    extent: tuple[float, ...] | None = None
    """Physical length of every space axis."""
    boundary: str | None = None
    """periodic, reflect or zero; one per axis with commas."""
    ndim: int | None = None
    """Number of space axes, where an array does not tell."""

    def read(self) -> Recording:
        from opsplit.io.read import read

        if not self.files:
            raise OpsplitError("Name a file to read, such as frames.npy.")
        return read(
            self.files[0] if len(self.files) == 1 else list(self.files),
            axes=self.axes, channels=self.channels, dt=self.dt, extent=self.extent,
            boundary=self.boundary, ndim=self.ndim,
        )  # fmt: skip


@dataclass(frozen=True)
class Describe(ReadFlags):
    """Say what a file holds: shape, times, grid, channels, ranges, and which models fit it.

    Example: opsplit describe frames.npy --axes t,x --dt 0.1
    """

    def run(self) -> None:
        from opsplit.io.survey import survey

        self.check()
        recording = self.read()
        result = description(recording, survey(recording))
        print(json.dumps(result) if self.json else "\n".join(_lines(result)))


def description(recording: Recording, seen: Survey) -> dict[str, Any]:
    """Everything `opsplit describe` says, as data."""
    grid, names = recording.grid, ["trajectory", "time", "channel", *"xyz"]
    return {
        "source": recording.source,
        "format": recording.format + (f" ({recording.layout})" if recording.layout else ""),
        "shape": dict(zip(names, recording.shape, strict=False)),
        "understood": list(recording.understood),
        "times": _times(recording),
        "grid": {**grid.to_json(), "spacing": list(grid.spacing)},
        "boundary": _boundaries(recording, seen),
        "channels": {
            name: {
                "min": _number(seen.low[i]), "max": _number(seen.high[i]),
                "mean": _number(seen.mean[i]), "std": _number(seen.std[i]),
                "nans": int(seen.nans[i]),
            }
            for i, name in enumerate(recording.channels)
        },
        "frames read": seen.frames,
        "frames": seen.total,
        "missing frames": len(seen.missing),
        "coefficients": {
            k: {"min": float(v.min()), "max": float(v.max())}
            for k, v in recording.coefficients.items()
        },
        "models": {name: judge(config, recording) for name, config in bundled_configs().items()},
    }  # fmt: skip


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return float(value) if abs(value) < float("inf") else None


def _times(recording: Recording) -> dict[str, Any]:
    import numpy as np

    steps = np.diff(recording.times)
    missing = gaps(recording)
    return {
        "first": float(recording.times[0]),
        "last": float(recording.times[-1]),
        "dt": recording.dt,
        "known": "dt" in recording.known,
        "regular": recording.uniform,
        "steps": [float(steps.min()), float(steps.max())],
        "gaps": [{"after frame": i, "missing": count} for i, count in missing],
    }


def gaps(recording: Recording) -> list[tuple[int, int]]:
    """Frames after which whole steps are missing, and how many."""
    import numpy as np

    ratio = np.diff(recording.times) / recording.dt
    whole = np.round(ratio)
    found = np.flatnonzero((whole >= 2) & (abs(ratio - whole) < 0.05 * whole))
    return [(int(i), int(whole[i]) - 1) for i in found]


def _boundaries(recording: Recording, seen: Survey) -> dict[str, str]:
    out = {}
    for axis, word, jump in zip("xyz", recording.grid.boundary, seen.seam, strict=False):
        measured = f"the jump across the ends is {jump:.3g} of the largest between neighbours"
        if "boundary" in recording.known:
            out[axis] = f"{word} (stored or given); {measured}"
        else:
            guess = "periodic" if jump <= SEAM else "not periodic"
            out[axis] = f"{guess} (a guess: {measured})"
    return out


def bundled_configs() -> dict[str, dict[str, Any]]:
    """Configurations of the bundled models, without their weights."""
    from opsplit.model import ZOO, bundled, load_config

    def facts(folder: Path) -> dict[str, Any]:
        config = load_config(folder)
        return {**config.to_json(), "ndim": config.ndim, "family": config.family}

    return {
        f"{name} ({family})": facts(ZOO / name / family)
        for name, families in bundled().items()
        for family in families
    }


def judge(config: dict[str, Any], recording: Recording) -> dict[str, Any]:
    """Whether a model can take the fields; why not, or what to mind."""
    grid, trained = recording.grid, config["grid"]
    why, mind = [], []
    if grid.ndim != config["ndim"]:
        why.append(f"it knows {config['ndim']}-D fields, these are {grid.ndim}-D")
    count, names = recording.shape[2], config["channels"]
    if count != len(names):
        why.append(f"it knows {len(names)} channel(s) ({', '.join(names)}), these are {count}")
    elif set(names) != set(recording.channels):
        mind.append(f"its channels are called {', '.join(names)}")
    walls = tuple(trained["boundary"])
    if not why and tuple(grid.boundary) != walls:
        why.append(f"its boundaries are {', '.join(walls)}, these {', '.join(grid.boundary)}")
    if not why:
        spacing = [a / n for a, n in zip(trained["extent"], trained["shape"], strict=True)]
        if config["family"] == "unet" and not _close(grid.spacing, spacing, 1.01):
            mind.append(f"fields are resampled to its spacing {spacing[0]:.4g}")
        elif not _close(grid.spacing, spacing, FACTOR):
            mind.append(
                f"it was trained at spacing {spacing[0]:.4g}, this is {grid.spacing[0]:.4g}"
            )
        if not _close(grid.extent, trained["extent"], FACTOR):
            length = trained["extent"][0]
            mind.append(f"it was trained on length {length:.4g}, this is {grid.extent[0]:.4g}")
        if not _close([recording.dt], [config["dt"]], FACTOR):
            mind.append(f"it was trained on dt {config['dt']:.4g}, this is {recording.dt:.4g}")
        unknown = [word for word in ("dt", "extent") if word not in recording.known]
        if unknown:
            mind.append(f"{' and '.join(unknown)} of these data are guesses")
    return {"fits": not why, "why not": why, "mind": mind}


def _close(these: Any, those: Any, factor: float) -> bool:
    return all(1 / factor <= a / b <= factor for a, b in zip(these, those, strict=True))


def _lines(r: dict[str, Any]) -> list[str]:
    times, grid = r["times"], r["grid"]
    lines = [
        f"{r['source']}: {r['format']}",
        "  shape: " + ", ".join(f"{k} {n}" for k, n in r["shape"].items()),
        *(f"  {sentence}" for sentence in r["understood"]),
        f"  times: {times['first']:.6g} to {times['last']:.6g}, dt {times['dt']:.6g}"
        + ("" if times["known"] else " (a guess)")
        + ("" if times["regular"] else f", irregular: {_range(times['steps'])}"),
    ]
    lines += [
        f"  gap: {g['missing']} missing after frame {g['after frame']}" for g in times["gaps"]
    ]
    both = zip("xyz", grid["shape"], grid["extent"], grid["spacing"], strict=False)
    for axis, points, extent, spacing in both:
        lines.append(f"  {axis}: {points} points, length {extent:.6g}, spacing {spacing:.6g}")
        lines.append(f"    boundary {r['boundary'][axis]}")
    part = "" if r["frames read"] == r["frames"] else f"from {r['frames read']} of "
    lines.append(f"  channels ({part}{r['frames']} frames, {r['missing frames']} missing):")
    for name, held in r["channels"].items():
        shown = [f"{k} {_short(held[k])}" for k in ("min", "max", "mean", "std")]
        lines.append(f"    {name}: {', '.join(shown)}, {held['nans']} NaN or infinite")
    for name, held in r["coefficients"].items():
        lines.append(f"  coefficient {name}: {_range([held['min'], held['max']])}")
    lines.append("  models:")
    for name, verdict in r["models"].items():
        said = "; ".join(verdict["why not"] or verdict["mind"])
        word = "fits" if verdict["fits"] else "does not fit"
        lines.append(f"    {name} {word}{': ' if said else ''}{said}")
    return lines


def _short(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _range(ends: list[float]) -> str:
    return f"{ends[0]:.6g}" if ends[0] == ends[1] else f"{ends[0]:.6g} to {ends[1]:.6g}"
