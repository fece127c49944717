"""HDF5 files in the layout of The Well, which `the_well.data.WellDataset` opens as they are.

`ROOT/data/train/*.hdf5`, `ROOT/data/test/*.hdf5` and `ROOT/stats.yaml`. We add three attributes
that The Well does not know: the exact `extent` and `dt`, whose stored coordinates are float32,
and what the writer wants to remember of itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opsplit._files import atomic
from opsplit._memory import check_room
from opsplit._tensors import usual_defaults
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.io.guard import check_small, dataset, opened, small
from opsplit.terms import terms_from, terms_to_text
from opsplit.trajectories import Trajectories

SUFFIXES = (".hdf5", ".h5")
AXES = ("x", "y", "z")
BOUNDARY_TYPES = {"periodic": "PERIODIC", "neumann": "WALL", "open": "OPEN"}
CHUNK = 2**18
"""Numbers in a chunk, which is what a reader fetches and what a checksum covers."""


def write_well(
    trajectories: Trajectories | Iterable[Trajectories],
    path: str | Path,
    name: str,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write one file, whole or not at all; every channel becomes a scalar field.

    Arguments:
        trajectories: all at once, or parts that are simulated while the file grows.
        name: the dataset's name, for `opsplit generate` that of the physics.
        facts: further attributes of the file.
    """
    import h5py

    parts = [trajectories] if isinstance(trajectories, Trajectories) else trajectories
    target = Path(path)
    held: dict[str, list[np.ndarray]] = {}
    total, terms = 0, None
    with atomic(target) as partial, h5py.File(partial, "w") as file:
        for part in parts:
            if not total:
                _write_frame(file, part, name, facts or {})
            for i, channel in enumerate(part.channels):
                field = file["t0_fields"][channel]
                field.resize(total + len(part), 0)
                field[total:] = part.data[:, :, i].numpy()
            terms = part.terms
            for key, values in part.coefficients.items():
                held.setdefault(key, []).append(values.double().numpy())
            total += len(part)
        if not total:
            raise OpsplitError(f"There are no trajectories to write to {target}.")
        file.attrs["n_trajectories"] = total
        if terms:
            file.attrs["terms"] = terms_to_text(terms)
        _write_scalars(file, {k: np.concatenate(v) for k, v in held.items()})
    return target


def _write_frame(file: Any, part: Trajectories, name: str, facts: Mapping[str, str]) -> None:
    """Everything but the numbers of trajectories, coefficients and field values."""
    grid, axes = part.grid, AXES[: part.grid.ndim]
    file.attrs.update(
        {"dataset_name": name, "grid_type": "cartesian", "n_spatial_dims": grid.ndim, **facts}
    )
    space = file.create_group("dimensions")
    _names(space, "spatial_dims", axes)
    space.attrs["extent"] = np.array(grid.extent)
    times = _flagged(space, "time", part.times.float().numpy(), time=True)
    if len(part.times) > 1 and np.allclose(part.times.diff(), part.dt, rtol=1e-2, atol=0):
        times.attrs["dt"] = part.dt
    for axis, coordinates in zip(axes, grid.axes(), strict=True):
        _flagged(space, axis, coordinates.float().numpy())
    boundaries = file.create_group("boundary_conditions")
    for axis, word, points in zip(axes, grid.boundary, grid.shape, strict=True):
        # The format knows three kinds of ends; the word itself says which of ours it is.
        kind = BOUNDARY_TYPES.get(word, "WALL")
        group = boundaries.create_group(f"{axis}_{kind.lower()}")
        group.attrs.update(
            {"bc_type": kind, "boundary": word, "sample_varying": False, "time_varying": False}
        )
        _names(group, "associated_dims", (axis,))
        _names(group, "associated_fields", ())
        # The reader takes a boundary for open unless both ends are marked.
        group["mask"] = np.isin(np.arange(points), (0, points - 1))
    for order in range(3):
        group = file.create_group(f"t{order}_fields")
        _names(group, "field_names", () if order else part.channels)
    shape = (len(part.times), *grid.shape)
    chunk = (1, min(shape[0], max(1, CHUNK // math.prod(grid.shape))), *grid.shape)
    for channel in part.channels:
        field = file["t0_fields"].create_dataset(
            channel, (0, *shape), "f4", maxshape=(None, *shape), chunks=chunk, fletcher32=True
        )
        field.attrs.update({"sample_varying": True, "time_varying": True})
        field.attrs["dim_varying"] = np.ones(grid.ndim, dtype=bool)


def _write_scalars(file: Any, coefficients: Mapping[str, np.ndarray]) -> None:
    group = file.create_group("scalars")
    _names(group, "field_names", tuple(coefficients))
    constant = {k: v[0] for k, v in coefficients.items() if (v == v[0]).all()}
    _names(file, "simulation_parameters", tuple(constant))
    for key, values in coefficients.items():
        one = key in constant
        _flagged(group, key, np.float32(values[0] if one else values), sample=not one)
        if one and key not in file.attrs:
            file.attrs[key] = float(values[0])


def _names(group: Any, key: str, names: Sequence[str]) -> None:
    """A list of words, which must be one of words when it is empty, too."""
    import h5py

    group.attrs.create(key, list(names), (len(names),), h5py.string_dtype())


def _flagged(group: Any, key: str, values: Any, sample: bool = False, time: bool = False) -> Any:
    group[key] = values
    group[key].attrs.update({"sample_varying": sample, "time_varying": time})
    return group[key]


@dataclass(frozen=True)
class WellHead:
    """What a file says of itself before its fields are read."""

    path: Path
    name: str
    facts: Mapping[str, Any]
    n: int
    times: np.ndarray
    grid: Grid
    fields: tuple[tuple[str, str], ...]
    """Group and name of every field, scalars before vectors before tensors."""
    channels: tuple[str, ...]
    coefficients: Mapping[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, len(self.times), len(self.channels), *self.grid.shape)

    @property
    def dt(self) -> float:
        return float(self.times[1] - self.times[0])


@usual_defaults()
def read_well(paths: str | Path | Sequence[str | Path], split: str = "train") -> Trajectories:
    """Trajectories from a file, several files, or a folder of files in the layout of The Well.

    All fields become channels, vectors and tensors one per component (`v_x`, `v_y`); fields
    constant in time or along an axis are spread over it. Scalars become coefficients, except
    those that vary in time. Walls are read as `neumann` ends.

    Arguments:
        paths: of a folder with `data/train`, the files of `split` are read.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files = [file for path in given for file in well_files(path, split)]
    heads = [read_head(file) for file in files]
    first = heads[0]
    for head in heads[1:]:
        check_alike(first, head)
    shape = (sum(head.n for head in heads), *first.shape[1:])
    check_room(f"{first.path}, with {len(heads)} file(s)", 4.0 * math.prod(shape))
    data = torch.empty(shape)
    begin = 0
    for head in heads:
        _read_fields(head, data[begin : begin + head.n].numpy())
        begin += head.n
    coefficients = {
        name: torch.from_numpy(np.concatenate([head.coefficients[name] for head in heads]))
        for name in first.coefficients
    }
    return Trajectories(
        data,
        torch.from_numpy(first.times),
        first.grid,
        first.channels,
        coefficients,
        terms=terms_from(first.facts["terms"], str(first.path)) if "terms" in first.facts else {},
    )


def well_files(path: str | Path, split: str = "train") -> list[Path]:
    """The HDF5 files that a path stands for."""
    place = Path(path)
    if not place.exists():
        raise OpsplitError(f"No such file: {place}")
    if not place.is_dir():
        return [place]
    folder = place / "data" / split if (place / "data").is_dir() else place
    found = sorted(p for p in folder.glob("*") if p.suffix in SUFFIXES)
    if not found:
        roots = sorted(str(p.parent.parent) for p in place.glob("*/data/*") if p.is_dir())
        hint = f"; name a folder in it, such as {roots[0]}" if roots else ""
        raise OpsplitError(f"{folder} holds no {' or '.join(SUFFIXES)} file{hint}.")
    return found


def read_head(path: Path, irregular: bool = False) -> WellHead:
    """The grid, times, names and coefficients of a file, whose steps may differ if you say so."""
    with opened_well(path) as file:
        axes = [str(axis) for axis in file["dimensions"].attrs["spatial_dims"]]
        if file.attrs["grid_type"] != "cartesian":
            raise OpsplitError(f"{path} has a {file.attrs['grid_type']} grid, not a cartesian one.")
        n = int(file.attrs["n_trajectories"])
        check_small(f"{path}: n_trajectories", n)
        fields, channels = [], []
        for order in range(3):
            group = f"t{order}_fields"
            for field in file[group].attrs["field_names"]:
                fields.append((group, str(field)))
                for part in itertools.product(axes, repeat=order):
                    channels.append("_".join([field, "".join(part)]) if order else str(field))
        if not fields:
            raise OpsplitError(f"{path} holds no fields.")
        return WellHead(
            path=path,
            name=str(file.attrs["dataset_name"]),
            facts=dict(file.attrs),
            n=n,
            times=_read_times(path, file, irregular),
            grid=_read_grid(path, file, axes),
            fields=tuple(fields),
            channels=tuple(channels),
            coefficients=_read_scalars(path, file, n),
        )


@contextmanager
def opened_well(path: Path) -> Iterator[Any]:
    """An open file; whatever is wrong with it ends in one sentence."""
    with opened(path, "as HDF5 of The Well") as file:
        try:
            yield file
        except KeyError as reason:
            raise OpsplitError(
                f"{path} is not in the layout of The Well: {str(reason).strip(chr(34))}"
            ) from None


def _read_times(path: Path, file: Any, irregular: bool) -> np.ndarray:
    times = np.atleast_2d(small(path, file, "dimensions/time"))
    count = times.shape[1]
    if times.ndim != 2 or count < 2:
        raise OpsplitError(f"{path} holds {count} frame(s); dynamics need at least 2.")
    dt = float(times[0, -1] - times[0, 0]) / (count - 1)
    if not dt > 0 or not np.allclose(np.diff(times), dt, rtol=1e-2, atol=0):
        if irregular and np.allclose(np.diff(times), np.diff(times[:1]), rtol=1e-2, atol=0):
            return times[0]
        raise OpsplitError(f"{path} has unevenly spaced times; one dt between frames is needed.")
    exact = _exact(path, "dt", file["dimensions/time"].attrs.get("dt"), dt)
    return times[0, 0] + exact * np.arange(count)


def _read_grid(path: Path, file: Any, axes: Sequence[str]) -> Grid:
    group = file["dimensions"]
    shape, extent = [], []
    for axis in axes:
        points = np.atleast_2d(small(path, file, f"dimensions/{axis}"))
        count = points.shape[-1]
        gap = float(points[0, -1] - points[0, 0]) / max(1, count - 1)
        if points.ndim != 2 or not gap > 0 or not np.allclose(np.diff(points), gap, 1e-2, 0):
            raise OpsplitError(f"{path} has unevenly spaced points along {axis}.")
        shape.append(count)
        extent.append(gap * count)
    known = group.attrs.get("extent", extent)
    extent = [
        _exact(path, f"the extent of {axis}", float(given), length)
        for axis, given, length in zip(axes, known, extent, strict=True)
    ]
    words: dict[str, str] = {}
    kinds = {kind: word for word, kind in BOUNDARY_TYPES.items()}
    for name, boundary in file["boundary_conditions"].items():
        word = kinds.get(str(boundary.attrs["bc_type"]).upper())
        if word is None:
            raise OpsplitError(
                f"{path} has a boundary {name} of type {boundary.attrs['bc_type']!r}; "
                f"choose from {sorted(kinds)}."
            )
        word = str(boundary.attrs.get("boundary", word))
        for axis in boundary.attrs["associated_dims"]:
            if words.setdefault(str(axis), word) != word:
                raise OpsplitError(f"{path} has different boundaries at the two ends of {axis}.")
    # The Well takes ends of which nothing is said for open.
    return Grid(tuple(shape), tuple(extent), tuple(words.get(axis, "open") for axis in axes))


def _read_scalars(path: Path, file: Any, n: int) -> dict[str, np.ndarray]:
    found = {}
    names = file["scalars"].attrs["field_names"]
    check_small(f"{path}: its scalars of all trajectories", n * len(names))
    for name in names:
        scalar = file["scalars"][name]
        if scalar.attrs["time_varying"]:
            continue
        values = small(path, file, f"scalars/{name}")
        if values.shape != ((n,) if scalar.attrs["sample_varying"] else ()):
            raise OpsplitError(
                f"{path}: scalar {name} has shape {values.shape} for {n} trajectories."
            )
        exact = file.attrs.get(name)
        known = isinstance(exact, float) and np.float32(exact) == np.float32(values)
        if values.ndim == 0 and known:
            values = np.asarray(exact, dtype=np.float64)
        found[str(name)] = np.array(np.broadcast_to(values, (n,)))
    return found


def _exact(path: Path, what: str, exact: Any, stored: float) -> float:
    """The exact number of an attribute, which must be the rounded one of the coordinates."""
    if exact is None:
        return stored
    if not math.isclose(float(exact), stored, rel_tol=1e-4):
        raise OpsplitError(f"{path} says that {what} is {exact:.6g}, its points say {stored:.6g}.")
    return float(exact)


def check_alike(first: WellHead, other: WellHead) -> None:
    pairs = {
        "grids": (first.grid, other.grid),
        "fields": (first.channels, other.channels),
        "numbers of frames": (len(first.times), len(other.times)),
        "time steps": (f"{first.dt:.4g}", f"{other.dt:.4g}"),
        "coefficients": (tuple(first.coefficients), tuple(other.coefficients)),
    }
    for what, (a, b) in pairs.items():
        if a != b:
            raise OpsplitError(
                f"{first.path} and {other.path} have different {what}, {a} and {b}; "
                f"read them apart."
            )


def _read_fields(head: WellHead, out: np.ndarray) -> None:
    """Fill `(n, time, channel, *space)`."""
    with opened_well(head.path) as file:
        channel = 0
        for group, name in head.fields:
            field, order = dataset(head.path, file, f"{group}/{name}"), int(group[1])
            used = check_field(head, field, name, order)
            sizes = (head.n, len(head.times), *head.grid.shape)
            parts = head.grid.ndim**order
            values = field[()].reshape(
                *(size if use else 1 for size, use in zip(sizes, used, strict=True)), parts
            )
            if not np.isfinite(values).all():
                raise OpsplitError(f"{head.path}: field {name} has values NaN or infinite.")
            out[:, :, channel : channel + parts] = np.moveaxis(values, -1, 2)
            channel += parts


def check_field(head: WellHead, field: Any, name: str, order: int) -> list[bool]:
    """Whether a field varies over trajectories, time and every axis; its shape must agree."""
    used = [field.attrs["sample_varying"], field.attrs["time_varying"]]
    used += list(field.attrs["dim_varying"])
    sizes = (head.n, len(head.times), *head.grid.shape)
    lead = [size for size, use in zip(sizes, used, strict=True) if use]
    if field.shape != (*lead, *(head.grid.ndim,) * order):
        raise OpsplitError(
            f"{head.path}: field {name} has shape {field.shape}, but its flags and the "
            f"dimensions say {tuple(lead)} and {order} components axes."
        )
    return [bool(use) for use in used]
