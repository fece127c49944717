"""One Zarr store with the forecasts of many trajectories.

A group per file of data, in it `u` with the axes sample, time, channel and space. A chunk is the
forecast of one trajectory, so several processes may write at the same time. xarray opens a group.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.recording import Recording


def prepare_store(store: Path, name: str, recording: Recording, steps: int) -> None:
    """Make room for forecasts of `steps` frames of all trajectories of a recording.

    What is there already is kept. Forecasts that were not written are NaN.
    """
    zarr = _zarr()
    group = zarr.open_group(store, mode="a")
    n, _, *rest = recording.shape
    shape = (n, steps, *rest)
    if name in group and tuple(group[name]["u"].shape) == shape:
        return
    space = "xyz"[: recording.grid.ndim]
    made = group.create_group(name, overwrite=True)
    made.create_array(
        "u", shape=shape, dtype="f4", chunks=(1, *shape[1:]), fill_value=np.nan,
        dimension_names=("sample", "time", "channel", *space),
    )  # fmt: skip
    times = recording.dt * np.arange(1, steps + 1)
    for axis, values in zip(("time", *space), (times, *recording.axes()), strict=True):
        made.create_array(axis, data=np.asarray(values, float), dimension_names=(axis,))
    made.attrs.update(
        source=recording.source, channels=list(recording.channels), time="after the window"
    )


def store_forecast(store: Path, name: str, number: int, frames: np.ndarray) -> None:
    """Write the forecast `(time, channel, *space)` of a trajectory."""
    _zarr().open_group(store, mode="r+")[name]["u"][number] = frames


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise OpsplitError("A Zarr store needs zarr: pip install 'opsplit[zarr]'.") from None
    return zarr
