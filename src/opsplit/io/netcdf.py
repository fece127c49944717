"""NetCDF files through xarray (`pip install 'opsplit[netcdf]'`), and xarray data in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opsplit._files import regular
from opsplit.boundary import is_boundary
from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw
from opsplit.io.axes import letter_of
from opsplit.io.beside import SPACINGS, STEPS, is_beside
from opsplit.io.examine import CHUNK_MB
from opsplit.io.guard import check_kind, check_small, reading
from opsplit.io.helper import examined
from opsplit.io.packed import SCALES, WORDS, Packing, unpacked_said
from opsplit.io.parts import Index, Part
from opsplit.terms import terms_from

BOUNDS = frozenset({"bnds", "bounds", "nv", "nbnds", "nb2", "vertex", "vertices"})
"""Axes of variables that say where cells or means begin and end."""
NOT_COEFFICIENTS = frozenset({"boundary", "version"}) | WORDS


@contextmanager
def opened_netcdf(path: Path, drop: Sequence[str] = ()) -> Iterator[Any]:
    """An open dataset with all numbers as they are stored, without some variables."""
    try:
        import xarray
    except ImportError:
        raise OpsplitError(
            f"{path}: NetCDF is read by xarray, which is missing; pip install 'opsplit[netcdf]'."
        ) from None
    with reading(path, "as NetCDF"):
        size = regular(path).st_size
        with open(path, "rb") as stream:
            classic = stream.read(3) == b"CDF"
        # The classic format is not HDF5; scipy reads it. It would end in a bus error if a file
        # that is mapped into memory becomes shorter.
        more: dict[str, Any] = {"engine": "h5netcdf"}
        if classic:
            more = {"engine": "scipy", "backend_kwargs": {"mmap": size > CHUNK_MB * 2**20}}
        examined(path, "netcdf3" if classic else "hdf5", "as NetCDF")
        with xarray.open_dataset(
            path, decode_times=False, mask_and_scale=False, drop_variables=list(drop), **more
        ) as held:
            yield held


def of_netcdf(path: Path, flags: Flags) -> Raw:
    """Every variable over time and space becomes a channel, one per trajectory a coefficient."""
    return of_dataset(str(path), "netcdf", partial(opened_netcdf, path), flags)


def of_xarray(given: Any, flags: Flags) -> Raw:
    """A `DataArray` or a `Dataset` in memory; times that are dates become seconds."""
    held, said = in_seconds(as_dataset(given))
    raw = of_dataset("xarray", "xarray", lambda drop=(): nullcontext(held), flags)
    return replace(raw, said=(*raw.said, *said))


def as_dataset(given: Any) -> Any:
    return given if hasattr(given, "data_vars") else given.to_dataset(name=given.name or "u")


def in_seconds(held: Any) -> tuple[Any, list[str]]:
    """The data set with dates and durations as seconds, and a sentence on it."""
    for dim in held.dims:
        if dim in held.coords and held[dim].dtype.kind in "mM":
            moments = held[dim].values
            start = moments[0] if held[dim].dtype.kind == "M" else moments[0] - moments[0]
            seconds = (moments - start) / np.timedelta64(1, "s")
            words = f" after {np.datetime_as_string(start, 's')}" if start.dtype.kind == "M" else ""
            return held.assign_coords({dim: seconds}), [f"Times are seconds{words}."]
    return held, []


def letters_of(source: str, held: Any, flags: Flags) -> tuple[list[str], dict[str, str]]:
    """The variables that are read, and which dimension each axis of them is."""
    fields = _fields(source, held, flags)
    first = held[fields[0]]
    axes = _axes_of(held, first, flags)
    letters = flags.letters or _letters(source, held, axes)
    if len(letters) != len(axes):
        raise OpsplitError(
            f"{source}: {fields[0]} has the axes {', '.join(map(str, first.dims))}; "
            f"{','.join(letters)} does not name each of them."
        )
    return fields, dict(zip(letters, map(str, axes), strict=True))


def of_dataset(
    source: str, form: str, opened: Callable[..., AbstractContextManager[Any]], flags: Flags
) -> Raw:
    """What an xarray data set says; it is open only while it is read."""
    with opened() as held:
        fields, dims = letters_of(source, held, flags)
        letters = "".join(dims)
        first = held[fields[0]]
        names = _channels(source, held, fields, dims)
        times = _coordinate(source, form, held, dims["t"])
        points = {a: _coordinate(source, form, held, dims[a]) for a in "xyz" if a in dims}
        n = first.sizes[dims["n"]] if "n" in dims else 1
        check_small(f"{source}: {dims.get('n')}", n)
        coefficients = _coefficients(form, held, fields, dims.get("n"), n)
        said = [f"Variables {', '.join(fields)} over {', '.join(dims.values())}."]
        said += units_said(held, [*dims.values(), *fields])
        packings = {k: packing_of(f"{source}: {k}", form, held[k]) for k in fields}
        said += unpacked_said(packings)
        said += [f"Coefficients: {', '.join(coefficients)}."] if coefficients else []
        shape = tuple(first.sizes[dim] for dim in dims.values())
        single = [dim for dim in first.dims if str(dim) not in dims.values()]
        said += [f"One value of {', '.join(map(str, single))}: no axis."] if single else []
        extent, boundary = _stated(held.attrs, {a: first.sizes[dims[a]] for a in points})
        if times is None and (step := _positive(held.attrs, STEPS)) is not None:
            times = np.arange(first.sizes[dims["t"]]) * step
        told = held.attrs.get("terms")
        terms = {} if told is None else terms_from(told, source)

    def part(field: str) -> Part:
        def read(index: Index) -> np.ndarray:
            # xarray reads coordinates whole and makes an index of them, whoever asks for a frame.
            with opened(drop=[dim for dim in dims.values() if dim != field]) as held:
                stored = np.asarray(held[field].squeeze(single)[index].values)
                return packings[field].values(stored)

        return Part(read, letters, tuple(names[field]))

    parts = [part(field) for field in fields]
    return Raw(
        source, form, letters, shape, lambda i: (parts, i),
        tuple(name for field in fields for name in names[field]),
        times=times, coordinates={a: v for a, v in points.items() if v is not None},
        extent=extent, boundary=boundary,
        coefficients=coefficients, said=tuple(said), look_for_repeats=True, terms=terms,
        layout=",".join(dims.get(a, "") for a in "xyz"[: len(points)]),
    )  # fmt: skip


def packing_of(where: str, form: str, held: Any) -> Packing:
    """How a variable is stored."""
    said = dict(held.attrs)
    if form == "xarray" and not {"_FillValue", "missing_value", *SCALES} & said.keys():
        return Packing()  # xarray has unpacked it, and leaves the valid range as it was.
    # Zarr says a zero for what was never written: it is missing only where numbers are packed.
    packed = any(k in said for k in SCALES)
    if form == "zarr" and not packed and np.all(np.asarray(said.get("_FillValue", 1)) == 0):
        del said["_FillValue"]
    return Packing.of(where, said, held.dtype, netcdf=form == "netcdf")


def _reserved(name: str) -> bool:
    return name in NOT_COEFFICIENTS or is_beside(name)


def units_said(held: Any, names: Sequence[str]) -> list[str]:
    """A sentence on the attributes `units` of axes and fields; the numbers stay as they are."""
    return units_of({k: held[k].attrs for k in names if k in held})


def units_of(attributes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The same, from the attributes of every array."""
    units = {k: held.get("units") for k, held in attributes.items()}
    words = [f"{k} in {str(unit)[:60]!r}" for k, unit in units.items() if unit]
    return [f"Units: {', '.join(words)}."] if words else []


def _stated(
    attributes: Mapping[str, Any], points: Mapping[str, int]
) -> tuple[tuple[float, ...] | None, tuple[str, ...] | None]:
    """The extent and the boundaries as our own `to_xarray` writes them, or an extent by `dx`."""
    ndim = len(points)
    lengths = np.ravel(np.asarray(attributes.get("extent", ())))
    known = len(lengths) == ndim and lengths.dtype.kind in "fiu" and bool((lengths > 0).all())
    words = tuple(word.strip() for word in str(attributes.get("boundary", "")).split(","))
    stated = len(words) == ndim and all(is_boundary(word) for word in words)
    boundary = words if stated else None
    if known:
        return tuple(lengths.astype(float).tolist()), boundary
    first = _positive(attributes, SPACINGS["x"])
    spacings = {a: _positive(attributes, SPACINGS[a]) or first for a in points}
    extent = tuple((h or 0.0) * points[a] for a, h in spacings.items())
    return None if None in spacings.values() else extent, boundary


def _positive(attributes: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """The first of these attributes that is one positive number."""
    held = (np.ravel(np.asarray(attributes[k])) for k in names if k in attributes)
    numbers = (v for v in held if v.size == 1 and v.dtype.kind in "fiu" and v[0] > 0)
    return next((float(v[0]) for v in numbers), None)


def _fields(source: str, held: Any, flags: Flags) -> list[str]:
    """The variables with the most axes, all the same; of those, the wanted ones."""
    edges = {str(v.attrs.get("bounds", "")) for v in held.variables.values()}
    real = {
        str(k): v for k, v in held.data_vars.items()
        if v.dtype.kind in "fiuc" and v.ndim > 1 and k not in edges and not BOUNDS & {*v.dims}
    }  # fmt: skip
    most = max((v.ndim for v in real.values()), default=0)
    found = {k: v.dims for k, v in real.items() if v.ndim == most}
    if flags.names is not None and set(flags.names) <= found.keys():
        found = {k: found[k] for k in flags.names}
    if not found:
        kinds = {str(k): v.dtype for k, v in held.data_vars.items() if v.ndim > 1}
        for name, dtype in kinds.items():
            check_kind(f"{source}: {name}", dtype)
        raise OpsplitError(f"{source} holds no variable with axes of time and space.")
    if len({(v, held[k].shape) for k, v in found.items()}) > 1:
        raise OpsplitError(
            f"{source}: its variables have different axes, {found}; choose some by channels."
        )
    return list(found)


def _letters(source: str, held: Any, dims: Sequence[Any]) -> str:
    """Letters of the axes by their names or by the conventions of their coordinates' attributes;
    axes of unknown name are space, in order."""
    found = [letter_of(str(dim)) or _by_convention(held, dim) for dim in dims]
    free = [a for a in "xyz" if a not in found]
    letters = [a or (free.pop(0) if free else "") for a in found]
    if "t" not in letters or len(set(letters)) < len(letters) or "" in letters:
        raise OpsplitError(
            f"{source} has the axes {', '.join(map(str, dims))}; say what they are in this order, "
            "such as axes t,x or n,t,c,x,y."
        )
    return "".join(letters)


def _by_convention(held: Any, dim: Any) -> str | None:
    """The letter by the attributes of the CF conventions: `axis`, `standard_name`, `units`."""
    if dim not in held.coords:
        return None
    attributes = {k: str(v).lower() for k, v in held[dim].attrs.items()}
    if attributes.get("axis", "") in tuple("txyz"):
        return attributes["axis"]
    name = attributes.get("standard_name", "")
    projected = re.match(r"(?:projection|grid)_([xy])_coordinate|grid_(longitude|latitude)", name)
    if projected:
        return projected[1] or letter_of(projected[2])
    return "t" if " since " in attributes.get("units", "") else letter_of(name)


def _axes_of(held: Any, first: Any, flags: Flags) -> list[Any]:
    """The axes of a field, without those of one point if one of space is left."""
    known = {dim: letter_of(str(dim)) or _by_convention(held, dim) for dim in first.dims}
    space = [dim for dim, a in known.items() if a not in ("t", "n", "c")]
    single = [dim for dim in space if first.sizes[dim] == 1]
    named = flags.letters is not None and len(flags.letters) == first.ndim
    if named or len(single) == len(space):
        return list(first.dims)
    return [dim for dim in first.dims if dim not in single]


def _channels(
    source: str, held: Any, fields: Sequence[str], dims: Mapping[str, str]
) -> dict[str, list[str]]:
    if "c" not in dims:
        return {field: [field] for field in fields}
    count = int(held.sizes[dims["c"]])
    check_small(f"{source}: {dims['c']}", count)
    words = [str(i) for i in range(count)]
    if dims["c"] in held.coords and held[dims["c"]].dtype.kind in "UOST":
        words = [str(word) for word in held[dims["c"]].values]
        if len(fields) == 1 and len(set(words)) == count:
            return {fields[0]: words}
    return {field: [f"{field}{word}" for word in words] for field in fields}


def _coordinate(source: str, form: str, held: Any, dim: str) -> np.ndarray | None:
    if dim not in held.coords:
        return None
    check_kind(f"{source}: {dim}", held[dim].dtype)
    check_small(f"{source}: {dim}", held[dim].size)
    packing = packing_of(f"{source}: {dim}", form, held[dim])
    return packing.values(np.asarray(held[dim].values)).astype(np.float64)


def _coefficients(
    form: str, held: Any, fields: Sequence[str], dim: str | None, n: int
) -> dict[str, np.ndarray]:
    found = {}
    check_small("its coefficients of all trajectories", n * (len(held.variables) + len(held.attrs)))
    for name, values in {**held.data_vars, **held.coords}.items():
        if name in (*fields, *held.dims) or values.dtype.kind not in "fiu":
            continue
        if values.dims in ((), (dim,)):
            numbers = packing_of(str(name), form, values).values(np.asarray(values.values))
            found[str(name)] = np.broadcast_to(numbers.astype(np.float64), n).copy()
    for name, value in held.attrs.items():
        number = np.asarray(value)
        if number.size == 1 and number.dtype.kind == "f" and not _reserved(str(name)):
            found.setdefault(str(name), np.full(n, float(number.ravel()[0])))
    return found
