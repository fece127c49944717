"""Fields as an `xarray.Dataset`: named axes, coordinates, and what is known about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid

if TYPE_CHECKING:
    import xarray


def to_xarray(
    frames: np.ndarray | Tensor,
    times: Sequence[float] | np.ndarray | Tensor,
    grid: Grid,
    channels: Sequence[str],
    coefficients: Mapping[str, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xarray.Dataset:
    """One variable per channel, over `(time, x, y, z)` as far as there are axes.

    Arguments:
        frames: `(time, channel, *space)`, or with an axis of trajectories before these.
        times: time of every frame.
        grid: the space; extent and boundary become attributes.
        channels: a name per channel. One that is taken, such as `x`, becomes `field_x`.
        coefficients: known values, one per trajectory; they become coordinates.
        attrs: more attributes of the data set.
    """
    try:
        import xarray
    except ImportError:
        raise OpsplitError(
            "to_xarray() needs the package xarray: pip install 'opsplit[netcdf]'"
        ) from None
    data, moments = _numpy(frames), _numpy(times)
    axes = "xyz"[: grid.ndim]
    lead = ("trajectory",) if data.ndim == grid.ndim + 3 else ()
    single = data if lead else data[None]
    expected = (len(moments), len(channels), *grid.shape)
    if moments.ndim != 1 or single.shape[1:] != expected:
        raise OpsplitError(
            f"{len(moments)} times, {len(channels)} channels and the grid {grid.shape} need frames "
            f"of shape {expected}, with or without trajectories before, got {data.shape}."
        )
    coords: dict[str, Any] = {"time": moments}
    coords |= {name: x.numpy() for name, x in zip(axes, grid.axes(), strict=True)}
    if lead:
        coords["trajectory"] = np.arange(len(data))
    fields: dict[str, Any] = {}
    for number, name in enumerate(channels):
        values = single[:, :, number] if lead else single[0, :, number]
        free = _free(name, "field_", {*coords, *fields})
        fields[free] = ((*lead, "time", *axes), values, {"long_name": name})
    for name, given in (coefficients or {}).items():
        known = _numpy(given).reshape(-1)
        if len(known) != len(single):
            raise OpsplitError(
                f"Coefficient {name!r} needs one value for each of the {len(single)} "
                f"trajectories, got {len(known)}."
            )
        free = _free(name, "coefficient_", {*coords, *fields})
        coords[free] = (lead, known if lead else known[0], {"long_name": f"coefficient {name}"})
    about = {"extent": list(grid.extent), "boundary": ", ".join(grid.boundary)}
    return xarray.Dataset(fields, coords, {**about, **(attrs or {})})


def continued(
    given: xarray.DataArray | xarray.Dataset,
    fields: Mapping[str, np.ndarray],
    dims: Mapping[str, str],
    ahead: np.ndarray,
) -> Any:
    """Fields that follow given ones, with their dimensions, coordinates and names.

    Arguments:
        given: the `DataArray` or `Dataset` that is continued.
        fields: per variable an array whose axes are those of the variable.
        dims: dimensions of the variables: `t` and the space axes, by letter.
        ahead: times of the new frames after the last given one, in seconds for dates.
    """
    import xarray

    single = not hasattr(given, "data_vars")
    held = given.to_dataset(name=given.name or "u") if single else given
    time = dims["t"]
    moments: Any = ahead
    if time in held.coords:
        last = held[time].values[-1]
        dated = held[time].dtype.kind in "mM"
        moments = last + (ahead * 1e9).astype("timedelta64[ns]") if dated else last + ahead
    points = dict(
        zip(held[next(iter(fields))].dims, next(iter(fields.values())).shape, strict=True)
    )
    coords: dict[Any, Any] = {time: moments}
    for name, values in held.coords.items():
        inside = time not in values.dims and name != time
        if inside and all(points.get(d, 0) <= n for d, n in values.sizes.items()):
            coords[name] = values.isel({d: slice(0, points[d]) for d in values.dims})
    made = xarray.Dataset(
        {name: (held[name].dims, values, held[name].attrs) for name, values in fields.items()},
        coords,
        held.attrs,
    )
    return made[next(iter(fields))].rename(given.name) if single else made


def _numpy(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _free(name: str, prefix: str, taken: set[str]) -> str:
    while name in taken:
        name = prefix + name
    return name
