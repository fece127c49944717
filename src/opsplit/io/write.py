"""Forecasts in the format that came in, written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from opsplit._files import atomic
from opsplit._text import cell
from opsplit.errors import OpsplitError
from opsplit.io.arrays import FIELDS
from opsplit.io.beside import is_beside
from opsplit.io.netcdf import NOT_COEFFICIENTS
from opsplit.io.npz import OURS
from opsplit.io.recording import Recording

RESERVED = OURS | NOT_COEFFICIENTS | {*FIELDS, "terms"}
"""Names by which readers find fields, times, coordinates and facts."""
Write = Callable[[Path, Recording, np.ndarray, np.ndarray, Mapping[str, float]], None]


def write_forecast(
    recording: Recording,
    frames: np.ndarray,
    times: np.ndarray,
    folder: Path,
    name: str = "forecast",
    coefficients: Mapping[str, float] | None = None,
) -> Path:
    """Write `(time, channel, *space)` like the recording it continues; the path of the file.

    Arguments:
        times: of the frames, on the recording's clock.
        coefficients: numbers to store beside them, such as the identified ones.
    """
    frames, times = np.asarray(frames), np.asarray(times, dtype=np.float64)
    if frames.shape != (len(times), *recording.shape[2:]):
        raise OpsplitError(
            f"A forecast of {len(times)} frames like {recording.source} has shape "
            f"{(len(times), *recording.shape[2:])}, got {frames.shape}."
        )
    # What another package reads, or would have to write, we can only write as an archive.
    suffix, write = FORMATS.get(recording.format, FORMATS["npz"])
    if recording.format == "mat" and find_spec("scipy") is None:
        suffix, write = FORMATS["npz"]
    if recording.format == "pdebench" and recording.layout in ("seeds", "flow"):
        suffix = ".h5"
    target = folder / (name + suffix)
    with atomic(target) as partial:
        write(partial, recording, frames, times, _free(coefficients or {}, recording.channels))
    return target


def _free(coefficients: Mapping[str, float], channels: Sequence[str]) -> dict[str, float]:
    """Coefficients under names that mean nothing else in any format."""
    found: dict[str, float] = {}
    for name, value in coefficients.items():
        if name in RESERVED or is_beside(name):
            name = f"coefficient_{name}"
        while name in channels or name in found:
            name += "_"
        found[name] = value
    return found


def _well(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    import torch

    from opsplit.io.well import write_well
    from opsplit.trajectories import Trajectories

    known = {k: torch.tensor([v], dtype=torch.float64) for k, v in extra.items()}
    data = torch.from_numpy(u[None].astype(np.float32))
    made = Trajectories(data, torch.from_numpy(times), like.grid, like.channels, known)
    write_well(made, path, "forecast")


def _pdebench(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    import h5py

    axes = dict(zip("xyz", like.axes(), strict=False))
    last = np.moveaxis(u, 1, -1)
    with h5py.File(path, "w") as file:
        file.attrs.update(extra)
        if like.layout == "seeds":
            file["0000/data"] = last
            for a, points in {**axes, "t": times}.items():
                file[f"0000/grid/{a}"] = points
            return
        if like.layout == "flow":
            for field in ("velocity", "particles"):
                chosen = [i for i, name in enumerate(like.channels) if name.startswith(field)]
                if chosen:
                    file[field] = last[None, ..., chosen]
            file["t"] = times[None]
        elif like.layout == "scalar":
            file["tensor"] = u[None, :, 0]
        else:
            for i, name in enumerate(like.channels):
                file[name] = u[None, :, i]
        if like.layout != "flow":
            file["t-coordinate"] = times
        for a, points in axes.items():
            file[f"{a}-coordinate"] = points


def _netcdf(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    import xarray

    names = [word or a for word, a in zip(like.layout.split(","), "xyz", strict=False)]
    coordinates = dict(zip(names, like.axes(), strict=True))
    fields = {name: (("time", *names), u[:, i]) for i, name in enumerate(like.channels)}
    made = xarray.Dataset(fields, {"time": times, **coordinates}, dict(extra))
    made.to_netcdf(path, engine="h5netcdf")


def _npy(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    with open(path, "wb") as stream:
        np.save(stream, u, allow_pickle=False)


def _npz(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    arrays: dict[str, Any] = {k: np.array([v]) for k, v in extra.items()}
    arrays |= {"u": u, "times": times, "extent": np.array(like.grid.extent)}
    with open(path, "wb") as stream:
        np.savez(stream, **arrays)


def _hdf5(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, values in {**extra, "u": u, "t": times, "extent": like.grid.extent}.items():
            file[name] = values


def _mat(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    from scipy.io import savemat

    names = ["usol"] if len(like.channels) == 1 else like.channels
    fields = {name: np.moveaxis(u[:, i], 0, -1) for i, name in enumerate(names)}
    axes = dict(zip("xyz", like.axes(), strict=False))
    savemat(path, {**extra, **fields, **axes, "t": times}, appendmat=False, oned_as="row")


def _csv(
    path: Path, like: Recording, u: np.ndarray, times: np.ndarray, extra: Mapping[str, float]
) -> None:
    axes = dict(zip("xyz", like.axes(), strict=False))
    points = np.meshgrid(times, *axes.values(), indexing="ij")
    columns = [*points, *np.moveaxis(u, 1, 0)]
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(f"# {name} = {value!r}\n" for name, value in extra.items())
        # A name may neither end a cell nor begin a formula.
        names = (cell(name).replace(",", "_") for name in like.channels)
        stream.write(",".join(("t", *axes, *names)) + "\n")
        np.savetxt(stream, np.stack([c.ravel() for c in columns], 1), "%.9g", ",")


FORMATS: dict[str, tuple[str, Write]] = {
    "well": (".hdf5", _well),
    "pdebench": (".hdf5", _pdebench),
    "hdf5": (".h5", _hdf5),
    "netcdf": (".nc", _netcdf),
    "xarray": (".nc", _netcdf),
    "npy": (".npy", _npy),
    "npz": (".npz", _npz),
    "array": (".npz", _npz),
    "trajectories": (".npz", _npz),
    "mat": (".mat", _mat),
    "csv": (".csv", _csv),
}
