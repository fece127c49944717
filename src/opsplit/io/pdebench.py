"""HDF5 files of PDEBench, in the layouts of its equations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.assemble import Raw
from opsplit.io.guard import check_small, dataset, opened, small
from opsplit.io.parts import Part, hdf5_part

GAS = ("density", "pressure", "Vx", "Vy", "Vz")
LAYOUTS = (
    "tensor (n,t,x); density, pressure, Vx, ... (n,t,x,...); one group per seed with "
    "data (t,x,...,c); velocity and particles (n,t,x,y,c)"
)


def of_pdebench(path: Path) -> Raw:
    """Fields, coordinates and coefficients of a file, by the arrays it has."""
    with opened(path) as file:
        keys = list(file)
        seeds = sorted(key for key in keys if key.isdigit())
        if "tensor" in keys:
            return _scalar(path, file)
        if "density" in keys or "Vx" in keys:
            return _gas(path, file)
        if "velocity" in keys:
            return _flow(path, file)
        if seeds:
            return _seeds(path, file, seeds)
        raise OpsplitError(
            f"{path} is neither in the layout of The Well nor in one of PDEBench ({LAYOUTS}): it "
            f"has {sorted(keys)[:10]}."
        )


def is_pdebench(file: Any) -> bool:
    """Whether the arrays of an open file have the names of PDEBench."""
    return any(k in ("tensor", "density", "Vx", "velocity") or k.isdigit() for k in file)


def _scalar(path: Path, file: Any) -> Raw:
    held = dataset(path, file, "tensor")
    if "nu" in file or "t-coordinate" not in file:
        raise OpsplitError(
            f"{path} holds Darcy flow, pairs of a medium and a steady state: there are no frames "
            "over time to forecast."
        )
    axes = _axes(path, "tensor", held.shape, ("ntx", "ntxy", "ntxyz"))
    part = hdf5_part(path, "tensor", axes, ("u",))
    return _raw(path, file, axes, held.shape, [part], "scalar", named=False)


def _gas(path: Path, file: Any) -> Raw:
    names = [name for name in GAS if name in file]
    shapes = {name: dataset(path, file, name).shape for name in names}
    shape = shapes[names[0]]
    if set(shapes.values()) != {shape}:
        raise OpsplitError(f"{path}: its fields have different shapes, {shapes}.")
    axes = _axes(path, names[0], shape, ("ntx", "ntxy", "ntxyz"))
    parts = [hdf5_part(path, name, axes, (name,)) for name in names]
    return _raw(path, file, axes, shape, parts, "gas")


def _flow(path: Path, file: Any) -> Raw:
    shape = dataset(path, file, "velocity").shape
    axes = _axes(path, "velocity", shape, ("ntxyc", "ntxyzc"))
    names = [f"velocity_{a}" for a in axes[2:-1]]
    if shape[-1] != len(names):
        raise OpsplitError(f"{path}: velocity of shape {shape} needs {len(names)} components.")
    parts = [hdf5_part(path, "velocity", axes, names)]
    if "particles" in file:
        other = dataset(path, file, "particles").shape
        if other[:-1] != shape[:-1]:
            raise OpsplitError(f"{path}: velocity has shape {shape}, particles {other}.")
        more = ["particles"] if other[-1] == 1 else [f"particles_{i}" for i in range(other[-1])]
        parts.append(hdf5_part(path, "particles", axes, more))
    times = np.atleast_2d(small(path, file, "t")) if "t" in file else None
    if times is not None and not np.allclose(np.diff(times), np.diff(times[:1]), rtol=1e-3):
        raise OpsplitError(f"{path}: its trajectories were stored at different times.")
    said = ("Its force, constant in time, is not read.",) if "force" in file else ()
    return _raw(
        path, file, axes[:-1], shape[:-1], parts, "flow",
        times=None if times is None else times[0], said=said,
    )  # fmt: skip


def _seeds(path: Path, file: Any, seeds: Sequence[str]) -> Raw:
    shape = dataset(path, file, f"{seeds[0]}/data").shape
    axes = _axes(path, f"{seeds[0]}/data", shape, ("txc", "txyc", "txyzc"))
    grid = {a: small(path, file, f"{seeds[0]}/grid/{a}") for a in axes[:-1]}
    count = shape[-1]
    names = ("u",) if count == 1 else tuple(f"u{i}" for i in range(count))

    def parts(trajectory: int) -> tuple[Sequence[Part], int]:
        return [hdf5_part(path, f"{seeds[trajectory]}/data", axes, names)], 0

    said = f"One trajectory per seed, {seeds[0]} to {seeds[-1]}, on the grid of the first"
    return Raw(
        str(path), "pdebench", "n" + axes, (len(seeds), *shape), parts, names, named=False,
        times=grid.pop("t"), coordinates=grid, layout="seeds",
        said=(f"{said}; their configurations are not read.",),
    )  # fmt: skip


def _axes(path: Path, name: str, shape: tuple[int, ...], choices: Sequence[str]) -> str:
    found = next((axes for axes in choices if len(axes) == len(shape)), None)
    if found is None:
        raise OpsplitError(
            f"{path}: {name} has shape {shape}; PDEBench has {' or '.join(choices)} there."
        )
    return found


def _raw(
    path: Path,
    file: Any,
    axes: str,
    shape: tuple[int, ...],
    parts: Sequence[Part],
    layout: str,
    named: bool = True,
    times: np.ndarray | None = None,
    said: tuple[str, ...] = (),
) -> Raw:
    """What the layouts with one array for all trajectories share."""
    if times is None and "t-coordinate" in file:
        times = small(path, file, "t-coordinate")
    names = tuple(name for part in parts for name in part.channels)
    return Raw(
        str(path), "pdebench", axes, shape, lambda i: (parts, i), names, named, times,
        {a: small(path, file, f"{a}-coordinate") for a in "xyz"
         if a in axes and f"{a}-coordinate" in file},
        coefficients=_coefficients(file.attrs, shape[0]), said=said, layout=layout,
    )  # fmt: skip


def _coefficients(attributes: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    found = {str(k): np.asarray(v) for k, v in attributes.items()}
    numbers = {k: v for k, v in found.items() if v.size == 1 and v.dtype.kind in "fiu"}
    check_small("its attributes for all trajectories", n * len(numbers))
    return {k: np.full(n, float(v.ravel()[0])) for k, v in numbers.items()}
