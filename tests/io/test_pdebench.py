"""PDEBench's layouts as its own generators write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import opsplit
from opsplit.errors import OpsplitError

RNG = np.random.default_rng(1)


def field(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def centres(n: int, length: float = 1.0) -> np.ndarray:
    return ((np.arange(n) + 0.5) * length / n).astype(np.float32)


def make(path: Path, attributes: dict[str, Any], **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
        for name, values in arrays.items():
            file[name.replace("__", "/").replace("_coordinate", "-coordinate")] = values
    return path


@pytest.mark.parametrize("extra", [0, 1])
def test_one_scalar_on_a_line(extra: int, tmp_path: Path) -> None:
    u = field(3, 5, 16)
    path = make(
        tmp_path / "1D_Burgers_Nu0.01.hdf5", {"Nu": 0.01}, tensor=u, x_coordinate=centres(16, 2),
        t_coordinate=np.arange(5 + extra, dtype=np.float32) * 0.01,
    )  # fmt: skip
    held = opsplit.read(path)
    assert (held.format, held.layout, held.shape) == ("pdebench", "scalar", (3, 5, 1, 16))
    np.testing.assert_array_equal(held.load().data[:, :, 0], u)
    np.testing.assert_array_equal(held.frames(2, slice(1, 3))[:, 0], u[2, 1:3])
    assert held.dt == pytest.approx(0.01) and held.uniform
    assert held.grid.extent[0] == pytest.approx(2.0) and held.origin[0] == 0.0625
    assert held.coefficients["Nu"].tolist() == [0.01] * 3
    assert held.known == {"dt", "extent"}
    # The stored times are one longer than the frames in some files.
    assert any("6 times for 5 frames" in line for line in held.understood) == bool(extra)
    assert opsplit.read(path, channels="velocity").channels == ("velocity",)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_compressible_flow(ndim: int, tmp_path: Path) -> None:
    shape = (8, 6, 4)[:ndim]
    names = ("density", "pressure", "Vx", "Vy", "Vz")[: 2 + ndim]
    fields = {name: field(2, 5, *shape) for name in names}
    points = {f"{a}_coordinate": centres(n) for a, n in zip("xyz", shape, strict=False)}
    path = make(
        tmp_path / "a.hdf5", {"eta": 0.1, "zeta": 0.2, "M": 1.0}, **fields, **points,
        t_coordinate=np.arange(6) * 0.05,
    )  # fmt: skip
    held = opsplit.read(path)
    assert held.layout == "gas" and held.shape == (2, 5, 2 + ndim, *shape)
    assert held.channels == names
    np.testing.assert_array_equal(held.load().data, np.stack(list(fields.values()), 2))
    assert set(held.coefficients) == {"eta", "zeta", "M"}
    chosen = opsplit.read(path, channels="Vx,density")
    expected = np.stack([fields["Vx"][1], fields["density"][1]], 1)
    np.testing.assert_array_equal(chosen.frames(1), expected)


@pytest.mark.parametrize("ndim", [1, 2])
def test_one_group_per_seed(ndim: int, tmp_path: Path) -> None:
    shape = (8, 6)[:ndim]
    u = field(3, 5, *shape, 2)
    path = tmp_path / "2D_diff-react_NA_NA.h5"
    with h5py.File(path, "w") as file:
        for i in range(3):
            group = file.create_group(f"{i:04d}")
            group["data"] = u[i]
            group["grid/t"] = np.arange(5) * 0.05
            for a, n in zip("xy", shape, strict=False):
                group[f"grid/{a}"] = centres(n, 2) - 1
            group.attrs["config"] = "sim:\n  k: 5.0e-3\n"
    held = opsplit.read(path)
    assert held.layout == "seeds" and held.shape == (3, 5, 2, *shape)
    np.testing.assert_array_equal(held.load().data, np.moveaxis(u, -1, 2))
    assert held.grid.extent == pytest.approx((2.0,) * ndim) and held.channels == ("u0", "u1")
    assert any("0000 to 0002" in line for line in held.understood)
    assert opsplit.read(path, channels="a,b").channels == ("a", "b")


def test_incompressible_flow(tmp_path: Path) -> None:
    v, p = field(4, 5, 8, 6, 2), field(4, 5, 8, 6, 1)
    path = tmp_path / "a.h5"
    make(
        path, {}, velocity=v, particles=p, force=field(4, 8, 6, 2),
        t=np.tile(np.arange(5) * 0.005, (4, 1)),
    )  # fmt: skip
    held = opsplit.read(path)
    assert held.layout == "flow" and held.shape == (4, 5, 3, 8, 6)
    assert held.channels == ("velocity_x", "velocity_y", "particles")
    expected = np.moveaxis(np.concatenate([v, p], -1), -1, 2)
    np.testing.assert_array_equal(held.load().data, expected)
    assert held.dt == pytest.approx(0.005) and held.known == {"dt"}
    assert any("force" in line for line in held.understood)


def lines(**changes: Any) -> Callable[[Path], Path]:
    arrays = {"tensor": field(3, 5, 16), "x_coordinate": centres(16), "t_coordinate": np.arange(5)}
    return lambda path: make(path, {}, **{**arrays, **changes})


@pytest.mark.parametrize(
    "write, words",
    [
        (
            lambda p: make(p, {"beta": 1.0}, nu=field(2, 8, 8), tensor=field(2, 1, 8, 8),
                           x_coordinate=centres(8), y_coordinate=centres(8)),
            "Darcy flow.*no frames over time",
        ),
        (lines(tensor=field(5, 16)), r"tensor has shape \(5, 16\); PDEBench has ntx or ntxy"),
        (lines(t_coordinate=np.arange(7)), "5 frames need as many times, it has 7"),
        (lines(t_coordinate=np.zeros(5)), "times must increase"),
        (lines(x_coordinate=centres(15)), "16 points along x have 15 coordinates"),
        (lines(x_coordinate=centres(16) ** 2), "unevenly spaced"),
        (lines(tensor=np.array([b"words"])), "real numbers"),
        (lambda p: make(p, {}, tensor__a=field(2)), "tensor is not an array"),
        (lambda p: make(p, {}, density=field(2, 3, 4), Vx=field(2, 3, 5)), "different shapes"),
        (lambda p: make(p, {}, velocity=field(2, 3, 4, 5, 3)), "needs 2 components"),
        (lambda p: make(p, {}, velocity=field(2, 3, 4, 5, 2), particles=field(2, 3, 4, 4, 1)),
         "particles"),
        (lambda p: make(p, {}, **{"0000__data": field(3, 4, 1)}), "it has no 0000/grid/t"),
        (lambda p: make(p, {}, **{"0000__grid": field(3)}), "it has no 0000/data"),
        (lambda p: make(p, {}, other=field(3)), "neither in the layout of The Well nor in one of"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(write: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    with pytest.raises(OpsplitError, match=words):
        opsplit.read(write(tmp_path / "a.h5"))


def test_a_seed_of_another_shape_is_refused_when_it_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i, n in enumerate((8, 6)):
            file[f"{i:04d}/data"] = field(5, n, 1)
            file[f"{i:04d}/grid/t"], file[f"{i:04d}/grid/x"] = np.arange(5), np.arange(n)
    held = opsplit.read(tmp_path / "a.h5")
    assert held.frames(0).shape == (5, 1, 8)
    with pytest.raises(OpsplitError, match="another shape"):
        held.frames(1)
