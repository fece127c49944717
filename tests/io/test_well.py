"""The Well's layout: round trips, The Well's own reader, foreign files and damaged ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.io import load_trajectories, read_well, write_well
from opsplit.io.well import read_head
from opsplit.io.well_statistics import field_sums, write_statistics
from opsplit.trajectories import Trajectories

GRIDS = {
    "line": Grid((16,), (16.0,)),
    "plane": Grid((8, 6), (2 * np.pi, 1.1), ("periodic", "reflect")),
    "box": Grid((4, 5, 3), (1.0, 2.0, 0.3), ("zero", "periodic", "reflect")),
}


def draw(grid: Grid, n: int = 3, frames: int = 5, seed: int = 0, **coefficients: Any) -> Any:
    generator = torch.Generator().manual_seed(seed)
    channels = ("A", "B")[: grid.ndim]
    data = torch.randn(n, frames, len(channels), *grid.shape, generator=generator)
    times = torch.arange(frames, dtype=torch.float64) * (4 / 249)
    known = {
        k: torch.as_tensor(v, dtype=torch.float64).expand(n).clone()
        for k, v in coefficients.items()
    }
    return Trajectories(data, times, grid, channels, known)


def assert_same(a: Trajectories, b: Trajectories) -> None:
    assert torch.equal(a.data, b.data)
    assert (a.grid, a.channels, a.dt) == (b.grid, b.channels, b.dt)
    torch.testing.assert_close(a.times, b.times, rtol=0, atol=1e-12)
    assert a.coefficients.keys() == b.coefficients.keys()
    for name, values in a.coefficients.items():
        torch.testing.assert_close(values, b.coefficients[name], rtol=1e-7, atol=0)


@pytest.mark.parametrize("kind", list(GRIDS))
def test_what_is_written_is_read(kind: str, tmp_path: Path) -> None:
    made = draw(GRIDS[kind], k=0.051, D=[0.1, 0.2, 0.3])
    found = read_well(write_well(made, tmp_path / "a.hdf5", kind))
    assert_same(made, found)
    # One value for all is kept exactly, although the layout wants single precision.
    assert torch.equal(found.coefficients["k"], made.coefficients["k"])
    assert read_head(tmp_path / "a.hdf5").name == kind


def test_parts_make_the_same_file_as_the_whole(tmp_path: Path) -> None:
    made = draw(GRIDS["plane"], 7, F=np.arange(7.0))
    parts = (made[begin : begin + 3] for begin in range(0, 7, 3))
    assert_same(made, read_well(write_well(parts, tmp_path / "a.hdf5", "x")))


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    made = draw(GRIDS["plane"], 12, F=np.arange(12.0))
    for i in range(6):
        write_well(made[2 * i : 2 * i + 2], tmp_path / "x/data/train" / f"{i}.hdf5", "x")
    write_well(made[:1], tmp_path / "x/data/test/0.h5", "x")
    for place in ("x", "x/data/train"):
        assert_same(made, load_trajectories(tmp_path / place))
    files = [tmp_path / "x/data/train" / f"{i}.hdf5" for i in (3, 0)]
    assert_same(made[[6, 7, 0, 1]], read_well(files))
    assert_same(made[:1], read_well(tmp_path / "x", "test"))
    assert_same(made[:1], load_trajectories(tmp_path / "x/data/test/0.h5"))
    assert_same(made, load_trajectories(made.save(tmp_path / "t.npz")))


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[Trajectories]:
        yield draw(GRIDS["line"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_well(parts(), tmp_path / "a.hdf5", "x")
    with pytest.raises(OpsplitError, match="no trajectories to write"):
        write_well([], tmp_path / "a.hdf5", "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["line", "plane"])
def test_the_wells_own_reader_opens_our_files(kind: str, tmp_path: Path) -> None:
    data = pytest.importorskip("the_well.data")
    normalization = pytest.importorskip("the_well.data.normalization")
    made = draw(GRIDS[kind], 4, frames=6, D=[0.1, 0.2, 0.3, 0.4], k=0.051)
    for i in range(2):
        write_well(made[2 * i : 2 * i + 2], tmp_path / f"data/train/{i}.hdf5", kind)
    sums = [field_sums(tmp_path / f"data/train/{i}.hdf5") for i in range(2)]
    total = {name: sums[0][name] + sums[1][name] for name in made.channels}
    write_statistics(total, tmp_path / "stats.yaml")

    def open_well(**options: Any) -> Any:
        return data.WellDataset(
            path=str(tmp_path), well_split_name="train", full_trajectory_mode=True, **options
        )

    found = open_well(n_steps_input=2)
    assert len(found) == 4
    assert found.metadata.dataset_name == kind
    assert found.metadata.field_names[0] == list(made.channels)
    assert found.metadata.constant_scalar_names == ["D", "k"]
    for i in range(4):
        sample = found[i]
        fields = torch.cat([sample["input_fields"], sample["output_fields"]])
        assert torch.equal(fields.movedim(-1, 1), made.data[i])
        assert sample["constant_scalars"].tolist() == pytest.approx([0.1 * (i + 1), 0.051])
        codes = {"periodic": 2.0, "neumann": 0.0}
        assert sample["boundary_conditions"].tolist() == [
            [codes[word]] * 2 for word in made.grid.boundary
        ]
        expected = torch.stack(torch.meshgrid(*made.grid.axes(), indexing="ij"), -1)
        torch.testing.assert_close(sample["space_grid"].double(), expected)
        torch.testing.assert_close(sample["output_time_grid"].double(), made.times[2:])
        assert {v.dtype for v in sample.values()} == {torch.float32}
    scaled = open_well(use_normalization=True, normalization_type=normalization.ZScoreNormalization)
    values = torch.stack(
        [torch.cat([s["input_fields"], s["output_fields"]]) for s in (scaled[i] for i in range(4))]
    ).flatten(0, -2)
    torch.testing.assert_close(values.mean(0), torch.zeros(len(made.channels)), atol=1e-5, rtol=0)
    torch.testing.assert_close(values.std(0), torch.ones(len(made.channels)), atol=2e-3, rtol=0)


def test_every_flag_matches_the_shape_beside_it(tmp_path: Path) -> None:
    """What The Well's format checker asserts."""
    made = draw(GRIDS["plane"], D=[0.1, 0.2, 0.3], k=0.051)
    with h5py.File(write_well(made, tmp_path / "a.hdf5", "x")) as file:
        sizes = {"sample": 3, "time": 5, "x": 8, "y": 6}
        assert file.attrs["n_trajectories"] == 3 and file.attrs["n_spatial_dims"] == 2
        assert isinstance(file.attrs["dataset_name"], str)
        assert file.attrs["grid_type"] == "cartesian"
        assert list(file.attrs["simulation_parameters"]) == ["k"]
        assert file.attrs["k"] == 0.051 and "k" in file["scalars"]

        def expected(item: Any) -> tuple[int, ...]:
            flags = [item.attrs[f"{what}_varying"] for what in ("sample", "time")]
            assert all(isinstance(flag, np.bool_) for flag in flags)
            return tuple(sizes[w] for w, use in zip(("sample", "time"), flags, strict=True) if use)

        for axis in file["dimensions"].attrs["spatial_dims"]:
            item = file["dimensions"][axis]
            assert expected(item) == () and item.shape == (sizes[axis],)
        assert expected(file["dimensions"]["time"]) == file["dimensions"]["time"].shape == (5,)
        for name in file["scalars"].attrs["field_names"]:
            assert expected(file["scalars"][name]) == file["scalars"][name].shape
        for order in range(3):
            names = file[f"t{order}_fields"].attrs["field_names"]
            assert list(names) == ([] if order else ["A", "B"])
            assert h5py.check_string_dtype(names.dtype) or not len(names)
            for name in names:
                field = file[f"t{order}_fields"][name]
                assert field.attrs["dim_varying"].tolist() == [True, True]
                assert (*expected(field), 8, 6) == field.shape and field.dtype == np.float32
        assert set(file["boundary_conditions"]) == {"x_periodic", "y_wall"}
        for boundary in file["boundary_conditions"].values():
            (axis,) = boundary.attrs["associated_dims"]
            assert len(boundary.attrs["associated_fields"]) == 0
            assert expected(boundary) == () and boundary["mask"].shape == (sizes[axis],)
            assert boundary["mask"][0] and boundary["mask"][-1]


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file as others write it: a vector, a constant field, walls, times of every sample."""
    path = tmp_path / "foreign.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file.attrs.update(
            {"dataset_name": "flow", "grid_type": "cartesian", "n_spatial_dims": 2,
             "n_trajectories": 2, "simulation_parameters": ["Re"], "Re": 100.0}
        )  # fmt: skip

        def put(group: str, name: str, values: Any, sample: bool, time: bool, **more: Any) -> None:
            file[f"{group}/{name}"] = values
            file[f"{group}/{name}"].attrs.update(
                {"sample_varying": sample, "time_varying": time, **more}
            )

        put("dimensions", "time", np.float32([[0, 0.5, 1], [2, 2.5, 3]]), True, True)
        put("dimensions", "x", np.linspace(-1, 1, 4, endpoint=False), False, False)
        put("dimensions", "y", np.arange(3.0), False, False)
        file["dimensions"].attrs["spatial_dims"] = ["x", "y"]
        put("scalars", "Re", np.float32(100), False, False)
        put("scalars", "seed", np.float32([7, 8]), True, False)
        put("scalars", "force", np.zeros(3, np.float32), False, True)
        file["scalars"].attrs["field_names"] = ["Re", "seed", "force"]
        both = {"dim_varying": np.array([True, True])}
        put("t0_fields", "p", rng.normal(size=(2, 3, 4, 3)), True, True, **both)
        put("t0_fields", "depth", rng.normal(size=4), False, False,
            dim_varying=np.array([True, False]))  # fmt: skip
        file["t0_fields"].attrs["field_names"] = ["p", "depth"]
        put("t1_fields", "v", rng.normal(size=(2, 3, 4, 3, 2)), True, True, **both)
        file["t1_fields"].attrs["field_names"] = ["v"]
        file.create_group("t2_fields").attrs["field_names"] = np.array([], dtype="S1")
        for axis, kind in (("x", "wall"), ("y", "PERIODIC")):
            put("boundary_conditions", f"{axis}_{kind}/mask", np.zeros(3, bool), False, False)
            file[f"boundary_conditions/{axis}_{kind}"].attrs.update(
                {"bc_type": kind, "associated_dims": [axis], "associated_fields": [],
                 "sample_varying": False, "time_varying": False}
            )  # fmt: skip
    return path


def test_vectors_and_constants_of_foreign_files_become_channels(foreign: Path) -> None:
    found = read_well(foreign)
    assert found.channels == ("p", "depth", "v_x", "v_y")
    assert found.grid == Grid((4, 3), (2.0, 3.0), ("reflect", "periodic"))
    assert found.dt == 0.5
    # A coefficient is constant in time.
    assert {k: v.tolist() for k, v in found.coefficients.items()} == {
        "Re": [100, 100],
        "seed": [7, 8],
    }
    with h5py.File(foreign) as file:
        stored = {name: np.float32(file[name][()]) for name in
                  ("t0_fields/p", "t0_fields/depth", "t1_fields/v")}  # fmt: skip
    np.testing.assert_array_equal(found.data[:, :, 0], stored["t0_fields/p"])
    np.testing.assert_array_equal(found.data[1, 2, 1, :, 1], stored["t0_fields/depth"])
    np.testing.assert_array_equal(found.data[:, :, 2:].movedim(2, -1), stored["t1_fields/v"])


def delete(name: str) -> Callable[[h5py.File], None]:
    return lambda file: file.__delitem__(name)


def put(name: str, values: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        held = dict(file[name].attrs)
        del file[name]
        file[name] = values
        file[name].attrs.update(held)

    return change


def attribute(name: str, key: str, value: Any) -> Callable[[h5py.File], None]:
    return lambda file: file[name].attrs.__setitem__(key, value)


@pytest.mark.parametrize(
    "change, words",
    [
        (delete("dimensions"), "not in the layout of The Well"),
        (delete("t1_fields"), "not in the layout of The Well"),
        (delete("t0_fields/p"), "not in the layout of The Well"),
        (delete("dimensions/y"), "not in the layout of The Well"),
        (delete("scalars/Re"), "not in the layout of The Well"),
        (attribute("/", "grid_type", "spherical"), "spherical grid"),
        (attribute("/", "n_trajectories", 5), "for 5 trajectories"),
        (attribute("/", "n_trajectories", "many"), "cannot be read as HDF5"),
        (attribute("t0_fields/p", "time_varying", False), "field p has shape"),
        (attribute("t0_fields/p", "dim_varying", np.array([True])), "cannot be read as HDF5"),
        (put("t0_fields/p", np.full((2, 3, 4, 3), np.nan)), "field p has values NaN"),
        (put("t1_fields/v", np.zeros((2, 3, 4, 3, 3))), "field v has shape"),
        (put("dimensions/time", np.float32([0, 1, 3])), "unevenly spaced times"),
        (put("dimensions/time", np.float32([0])), "at least 2"),
        (put("dimensions/x", np.float32([0, 1, 3, 4])), "unevenly spaced points along x"),
        (attribute("dimensions", "extent", [2.5, 3.0]), "the extent of x is 2.5"),
        (attribute("boundary_conditions/x_wall", "bc_type", "STICKY"), "type 'STICKY'"),
        (attribute("boundary_conditions/y_PERIODIC", "associated_dims", ["x"]), "two ends of x"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(
    foreign: Path, change: Callable[[h5py.File], None], words: str
) -> None:
    with h5py.File(foreign, "r+") as file:
        change(file)
    with pytest.raises(OpsplitError, match=words) as error:
        read_well(foreign)
    assert "foreign.h5" in str(error.value)
    assert "\n" not in str(error.value)


def test_damage_is_found(tmp_path: Path) -> None:
    file = write_well(draw(GRIDS["line"], 4), tmp_path / "a.hdf5", "x")
    whole = file.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(OpsplitError, match=r"a\.hdf5 cannot be read as HDF5"):
            read_well(file)
    with h5py.File(write_well(draw(GRIDS["line"], 4), file, "x")) as opened:
        place = opened["t0_fields"]["A"].id.get_chunk_info(1).byte_offset
    damaged = bytearray(whole)
    damaged[place + 9] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(OpsplitError, match=r"a\.hdf5 cannot be read as HDF5"):
        read_well(file)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    first = draw(GRIDS["line"], D=0.1)
    slow = Trajectories(first.data, 2 * first.times, first.grid, first.channels, first.coefficients)
    others = {
        "grids": draw(Grid((16,), (8.0,)), D=0.1),
        "numbers of frames": draw(GRIDS["line"], frames=4, D=0.1),
        "coefficients": draw(GRIDS["line"], c=0.1),
        "time steps": slow,
    }
    for what, other in others.items():
        shutil.rmtree(tmp_path / "x", ignore_errors=True)
        write_well(first, tmp_path / "x/a.hdf5", "x")
        write_well(other, tmp_path / "x/b.hdf5", "x")
        with pytest.raises(OpsplitError, match=f"different {what}"):
            load_trajectories(tmp_path / "x")


def test_wrong_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(OpsplitError, match="No such file"):
        load_trajectories(tmp_path / "missing.hdf5")
    with pytest.raises(OpsplitError, match="No such file"):
        read_well(tmp_path / "missing")
    with pytest.raises(OpsplitError, match="holds no"):
        load_trajectories(tmp_path)
    write_well(draw(GRIDS["line"]), tmp_path / "x/data/train/0.hdf5", "x")
    with pytest.raises(OpsplitError, match=r"name a folder in it, such as .*x\."):
        load_trajectories(tmp_path)
    (tmp_path / "text.hdf5").write_text("not HDF5")
    with pytest.raises(OpsplitError, match="cannot be read as HDF5"):
        load_trajectories(tmp_path / "text.hdf5")
