"""Reading, cutting, splitting and storing fields over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.trajectories import Trajectories


def counted(n: int = 5, frames: int = 7) -> Trajectories:
    """Trajectory `i`, frame `t` holds the number `100 i + t` everywhere."""
    value = 100 * torch.arange(n)[:, None] + torch.arange(frames)
    data = value.double()[:, :, None, None].expand(n, frames, 1, 4)
    times = torch.arange(frames, dtype=torch.float64) * 0.25
    names = {"c": torch.arange(n, dtype=torch.float64)}
    return Trajectories(data, times, Grid((4,), (2.0,)), ("u",), names)


@pytest.mark.parametrize(
    ("shape", "ndim", "full", "words"),
    [
        ((5, 8), 1, (1, 5, 1, 8), "(time 5, x 8)"),
        ((5, 2, 8), 1, (1, 5, 2, 8), "(time 5, channel 2, x 8)"),
        ((3, 5, 2, 8), 1, (3, 5, 2, 8), "(trajectory 3, time 5, channel 2, x 8)"),
        ((5, 8, 6), 2, (1, 5, 1, 8, 6), "(time 5, x 8, y 6)"),
        ((5, 2, 8, 6), 2, (1, 5, 2, 8, 6), "(time 5, channel 2, x 8, y 6)"),
        ((5, 4, 8, 6), 3, (1, 5, 1, 4, 8, 6), "(time 5, x 4, y 8, z 6)"),
        (
            (3, 5, 2, 4, 8, 6),
            3,
            (3, 5, 2, 4, 8, 6),
            "(trajectory 3, time 5, channel 2, x 4, y 8, z 6)",
        ),
    ],
)
def test_missing_axes_are_added_and_what_was_understood_is_said(
    shape: tuple[int, ...], ndim: int, full: tuple[int, ...], words: str
) -> None:
    array = np.random.default_rng(0).normal(size=shape)
    read = Trajectories.from_numpy(array, dt=0.5, ndim=ndim)
    assert tuple(read.data.shape) == full
    assert read.understood == words
    assert read.dt == 0.5
    assert read.grid.shape == full[3:]
    assert np.array_equal(read.data.numpy().reshape(shape), array)
    assert len(read.channels) == full[2]


@pytest.mark.parametrize("dtype", ["float32", "float64", ">f8", "int32"])
def test_every_numeric_array_keeps_its_values(dtype: str) -> None:
    array = np.arange(40).reshape(5, 8).astype(dtype)
    read = Trajectories.from_numpy(array, dt=1.0)
    assert read.data.is_floating_point()
    assert np.array_equal(read.data[0, :, 0].numpy(), array)


def test_views_and_read_only_arrays_are_read_and_copied() -> None:
    array = np.arange(40.0).reshape(5, 8)
    backwards = Trajectories.from_numpy(array[::-1], dt=1.0)
    assert np.array_equal(backwards.data[0, :, 0].numpy(), array[::-1])
    array.flags.writeable = False
    read = Trajectories.from_numpy(array, dt=1.0)
    array.flags.writeable = True
    array[:] = -1
    assert float(read.data.min()) == 0


def test_names_extent_and_coefficients_are_taken_over() -> None:
    read = Trajectories.from_numpy(
        np.zeros((3, 5, 2, 8)),
        dt=0.1,
        extent=4.0,
        channels=["a", "b"],
        boundary="zero",
        coefficients={"c": [1, 2, 3]},
    )
    assert read.channels == ("a", "b")
    assert read.grid == Grid((8,), (4.0,), "zero")
    assert read.coefficients["c"].tolist() == [1, 2, 3]
    assert "a/b" in repr(read) and "coefficients: c" in repr(read)


@pytest.mark.parametrize(
    ("array", "options", "sentence"),
    [
        (np.zeros(8), {}, r"shape \(8,\) cannot be read as 1-D fields .* 1 space axis"),
        (np.zeros((2, 3, 4, 1, 8)), {}, "cannot be read as 1-D fields"),
        (np.zeros((5, 8)), {"ndim": 2}, "cannot be read as 2-D fields .* 2 space axes"),
        (np.zeros((2, 5, 1, 4, 4, 4, 4)), {"ndim": 4}, "1 to 3 space axes"),
        (np.zeros((1, 8)), {}, r"\(time 1, x 8\).* single frame: .* at least 2 frames"),
        (
            np.array([[0, 1], [0, np.nan], [np.inf, 0]]),
            {},
            r"1 values are infinite, the first in frame 2 .*\(?time 3, x 2",
        ),
        (np.zeros((5, 8)), {"dt": 0.0}, "time between frames and must be positive"),
        (np.zeros((5, 8)), {"dt": np.nan}, "time between frames and must be positive"),
        (np.zeros((5, 2, 8)), {"channels": ["a"]}, "2 channels need as many names"),
        (np.zeros((5, 8)), {"coefficients": {"c": [1, 2]}}, "'c' needs one value for each"),
        (np.zeros((5, 8)), {"extent": (1.0, 2.0)}, "needs one extent"),
        (np.full((5, 8), 1 + 1e-3j), {}, "must be real numbers, but the imaginary part is 0.001"),
        (np.zeros((5, 8), bool), {}, "must be real numbers"),
        ([["a", "b"], ["c", "d"]], {}, "must be real numbers"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_helpful_sentence(
    array: object, options: dict, sentence: str
) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        Trajectories.from_numpy(array, **({"dt": 0.1} | options))


def test_data_that_contradict_their_description_are_refused() -> None:
    grid, times = Grid((8,), (1.0,)), torch.arange(5.0)
    with pytest.raises(OpsplitError, match="from_numpy"):
        Trajectories(torch.zeros(5, 1, 8), times, grid)
    with pytest.raises(OpsplitError, match="5 frames need as many times"):
        Trajectories(torch.zeros(1, 5, 1, 8), times[:4], grid)
    with pytest.raises(OpsplitError, match="at least two frames"):
        _ = Trajectories(torch.zeros(1, 1, 1, 8), times[:1], grid).dt


@given(starts=st.lists(st.integers(0, 4), min_size=5, max_size=5), length=st.integers(1, 3))
def test_a_window_holds_consecutive_frames_from_its_own_start(
    starts: list[int], length: int
) -> None:
    whole = counted()
    part = whole.windows(length, starts)
    expected = [[100 * i + s + t for t in range(length)] for i, s in enumerate(starts)]
    assert part.data[:, :, 0, 0].tolist() == expected
    assert part.coefficients["c"].tolist() == whole.coefficients["c"].tolist()
    if length > 1:
        assert part.dt == whole.dt


def test_one_start_serves_all_trajectories() -> None:
    whole = counted()
    assert torch.equal(whole.windows(3, 2).data, whole.data[:, 2:5])


@pytest.mark.parametrize(("length", "start"), [(8, 0), (4, 4), (2, -1), (0, 0)])
def test_a_window_that_does_not_fit_is_refused(length: int, start: int) -> None:
    with pytest.raises(OpsplitError, match="do not fit into 7 frames"):
        counted().windows(length, start)


@pytest.mark.parametrize(
    "index",
    [
        slice(1, 4, 2),
        [1, 3],
        (1, 3),
        np.array([1, 3]),
        torch.tensor([1, 3]),
        torch.tensor([False, True, False, True, False]),
    ],
    ids=["slice", "list", "tuple", "numpy", "tensor", "mask"],
)
def test_selected_trajectories_keep_their_coefficients(index: object) -> None:
    part = counted()[index]  # type: ignore[index]
    assert part.data[:, 0, 0, 0].tolist() == [100, 300]
    assert part.coefficients["c"].tolist() == [1, 3]


@given(
    n=st.integers(1, 60),
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_splits_are_disjoint_and_complete(n: int, weights: list[int], seed: int) -> None:
    whole = counted(n, 2)
    parts = whole.split(*(w / sum(weights) for w in weights), seed=seed)
    held = [part.coefficients["c"].tolist() for part in parts]
    assert sorted(c for part in held for c in part) == list(range(n))
    for part, weight in zip(parts, weights, strict=True):
        assert abs(len(part) - n * weight / sum(weights)) <= 1
        assert torch.equal(part.data[:, 0, 0, 0], 100 * part.coefficients["c"])


def test_a_split_is_reproducible_from_its_seed() -> None:
    whole = counted(50, 2)
    first, again, other = (whole.split(0.5, seed=s)[0].coefficients["c"] for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("fractions", [(), (0.5, 0.6), (0.5, 0.0), (-0.1,)])
def test_impossible_fractions_are_refused(fractions: tuple[float, ...]) -> None:
    with pytest.raises(OpsplitError, match="positive and sum to at most 1"):
        counted().split(*fractions, seed=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saved_trajectories_load_bit_equal(dtype: torch.dtype, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    saved = Trajectories(
        torch.randn(2, 3, 2, 4, 5, generator=generator, dtype=dtype),
        torch.linspace(0.1, 0.7, 3, dtype=torch.float64),
        Grid((4, 5), (1.1, 2.3), ("periodic", "zero")),
        ("density", "velocity"),
        {"c": torch.rand(2, dtype=torch.float64), "D.x": torch.rand(2, dtype=torch.float64)},
    )
    path = saved.save(tmp_path / "deep" / "data.npz")
    assert [p.name for p in path.parent.iterdir()] == ["data.npz"]
    loaded = Trajectories.load(path)
    assert loaded.data.dtype == dtype
    assert torch.equal(loaded.data, saved.data)
    assert torch.equal(loaded.times, saved.times)
    assert loaded.grid == saved.grid
    assert loaded.channels == saved.channels
    assert loaded.coefficients.keys() == saved.coefficients.keys()
    assert all(torch.equal(v, saved.coefficients[k]) for k, v in loaded.coefficients.items())


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "npy", "text", "other"])
def test_a_file_that_is_no_trajectory_is_refused_by_name(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    if damage == "npy":
        with open(path, "wb") as stream:
            np.save(stream, np.zeros((5, 8)))
    elif damage == "text":
        path.write_text("not an archive")
    elif damage == "other":
        np.savez(path, fields=np.zeros((5, 8)))
    elif damage != "missing":
        counted().save(path)
        held = bytearray(path.read_bytes())
        if damage == "flipped":
            held[len(held) // 8] ^= 255
        path.write_bytes(held[: len(held) // 2] if damage == "truncated" else held)
    with pytest.raises(OpsplitError, match=r"data\.npz"):
        Trajectories.load(path)
