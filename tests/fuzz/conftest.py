"""Small good files of every format, a small model, and the process that reads damaged ones."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzzing import Worker

from opsplit.calibration import LEVELS, Calibration
from opsplit.errors import no_warnings
from opsplit.grid import Grid
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.hypernetwork.disco import Disco
from opsplit.io.well import write_well
from opsplit.model import Model
from opsplit.operators import BandLimited, GatedProducts, Spectral
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.estimator import OperatorSplitter
from opsplit.pretrain.extract import extract
from opsplit.search import Pursuit

LINE = AdvectionDiffusion(Grid((16,), (16.0,)))


@pytest.fixture(scope="session")
def small_model() -> Model:
    config = ModelConfig(
        physics=LINE.name, recipe="codebook", preset="tiny",
        dt=LINE.dt, grid=LINE.grid, coefficients=("c", "D"), environments=3,
        encoder=EncoderConfig(width=8, blocks=1, heads=2, patch=4, decoder_width=8, head_width=8),
        operator=BandLimited(Spectral(max_step=1.001 * LINE.dt, nonlinearity=GatedProducts(2))),
    )  # fmt: skip
    disco = Disco(config).eval().requires_grad_(False)
    dictionary = extract(disco, LINE.generate("train", 4, seed=0, frames=16))
    levels = tuple(1.0 + level for level in LEVELS)
    calibration = Calibration("pursuit", 8, levels, {"c": levels, "D": levels}, {"seed": 0})
    return Model(disco, dictionary, {"minutes": 0.1}, calibration)


@pytest.fixture(scope="session")
def small_folder(small_model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model.save(tmp_path_factory.mktemp("fuzz") / "model")


@pytest.fixture(scope="session")
def small_splitter(small_model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    search = Pursuit(max_parts=1, width=2, survivors=1)
    made = OperatorSplitter(small_model, search, refinement=1)
    with no_warnings():
        made.fit(LINE.generate("A+D", 1, seed=0, frames=5))
    return made.save(tmp_path_factory.mktemp("fuzz") / "splitter")


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Good files by kind."""
    import h5py

    folder = tmp_path_factory.mktemp("good")
    made = LINE.generate("A+D", 2, seed=0, frames=5)
    u = made.data.numpy()  # (2, 5, 1, 16)
    t, x = np.arange(5) * 0.1, np.arange(16.0)
    found: dict[str, list[Path]] = {}

    def put(kind: str, name: str, write: Callable[[Path], Any]) -> None:
        write(folder / name)
        found.setdefault(kind, []).append(folder / name)

    put("well", "a.hdf5", lambda p: write_well(made, p, "advection-diffusion"))

    def hdf5(**arrays: Any) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with h5py.File(path, "w", userblock_size=512 if path.suffix == ".mat" else 0) as file:
                for name, values in arrays.items():
                    file[name.replace("__", "/")] = values
                file.attrs["nu"] = 0.1

        return write

    plane = np.random.default_rng(0).normal(size=(1, 3, 4, 4, 2)).astype(np.float32)
    coordinates = {"t-coordinate": t, "x-coordinate": x}
    put("pdebench", "scalar.hdf5", hdf5(tensor=u[:, :, 0], **coordinates))
    put("pdebench", "gas.hdf5", hdf5(density=u[:, :, 0], Vx=u[:, :, 0], **coordinates))
    seeds = {"0000__data": u[0].swapaxes(1, 2), "0000__grid__x": x, "0000__grid__t": t}
    put("pdebench", "seeds.h5", hdf5(**seeds))
    put("pdebench", "flow.h5", hdf5(velocity=plane, particles=plane[..., :1], t=t[None, :3]))
    put("npy", "a.npy", lambda p: np.save(p, u[0, :, 0]))
    put("npz", "a.npz", lambda p: np.savez(p, u=u[0, :, 0], dt=0.1, extent=[16.0]))
    put("npz", "b.npz", lambda p: np.savez_compressed(p, u=u[0, :, 0], dt=0.1, t=t, x=x))
    put("trajectories", "c.npz", made.save)
    sci = pytest.importorskip("scipy.io")
    put("mat", "a.mat", lambda p: sci.savemat(p, {"usol": u[0, :, 0].T, "t": t, "x": x}))
    put("mat", "b.mat", lambda p: sci.savemat(
        p, {"usol": u[0, :, 0].T, "t": t, "x": x}, do_compression=True))  # fmt: skip
    put("mat73", "c.mat", hdf5(usol=u[0, :, 0], t=t[:, None], x=x[:, None]))
    xarray = pytest.importorskip("xarray")
    held = xarray.Dataset({"u": (("time", "x"), u[0, :, 0])}, {"time": t, "x": x})
    put("netcdf", "a.nc", lambda p: held.to_netcdf(p, engine="h5netcdf"))
    put("netcdf3", "b.nc", lambda p: held.to_netcdf(p, engine="scipy"))
    names = "t," + ",".join(f"{at:g}" for at in x)
    long = np.stack([*(v.ravel() for v in np.meshgrid(t, x, indexing="ij")), u[0, :, 0].ravel()], 1)
    wide = np.column_stack([t, u[0, :, 0]])
    put("csv", "a.csv", lambda p: np.savetxt(
        p, wide, "%.4g", ",", header=names, comments=""))  # fmt: skip
    put("csv", "b.csv", lambda p: np.savetxt(
        p, long, "%.4g", ",", header="t,x,u", comments=""))  # fmt: skip
    if importlib.util.find_spec("zarr"):
        put("zarr", "a.zarr", lambda p: held.to_zarr(p, consolidated=False))
        put("zarr", "b.zarr", lambda p: held.to_zarr(p, consolidated=False, zarr_format=2))
    return found


@pytest.fixture(scope="session")
def worker(
    good: dict[str, list[Path]],
    small_folder: Path,
    small_splitter: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("work")
    shutil.copytree(small_folder, folder / "model")
    shutil.copytree(small_splitter, folder / "splitter")
    shutil.copy(good["npy"][0], folder / "frames.npy")
    tasks: list[dict[str, Any]] = [
        {"job": "read", "given": str(p), "flags": {"dt": 0.1} if p.suffix == ".npy" else {}}
        for paths in good.values()
        for p in paths
    ]
    tasks += [{"job": job, "given": str(folder / job)} for job in ("model", "splitter")]
    held = Worker(tasks, folder)
    yield held
    held.stop()


torch.set_num_threads(1)
