"""One door: whatever holds the frames, the fit is the same, and what goes in comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray

import opsplit
from opsplit import Grid, OperatorSplitter, OpsplitError, OpsplitWarning, Trajectories
from opsplit.cli import main
from opsplit.errors import no_warnings
from opsplit.io.assemble import Flags
from opsplit.model import Model
from opsplit.physics import AdvectionDiffusion, GrayScott
from opsplit.predict import door
from opsplit.predict.compatibility import Code
from opsplit.search import Beam, Objective, Pursuit

DT = 10 / 99
STEPS = 3
Fit = Callable[..., OperatorSplitter]


@pytest.fixture(scope="module")
def made() -> Trajectories:
    """One system on 64 points, in double precision."""
    physics = AdvectionDiffusion(Grid((64,), (16.0,)))
    return physics.generate("A+D", 1, seed=907, frames=8)


@pytest.fixture(scope="module")
def fit(tiny_model: Model) -> Fit:
    def run(u: Any, *args: Any, **more: Any) -> OperatorSplitter:
        with no_warnings():
            return OperatorSplitter(tiny_model, Beam(2, 2)).fit(u, *args, **more)

    return run


def test_trajectories_in_trajectories_out(fit: Fit, made: Trajectories) -> None:
    out = fit(made).predict(STEPS)
    assert isinstance(out, Trajectories)
    assert out.grid == made.grid and out.channels == made.channels
    assert out.data.shape == (1, STEPS, 1, 64) and out.data.dtype == made.data.dtype
    expected = made.times[-1] + made.dt * torch.arange(1, STEPS + 1)
    torch.testing.assert_close(out.times, expected.to(out.times))


def test_every_kind_gives_the_same_forecast(fit: Fit, made: Trajectories, tmp_path: Path) -> None:
    array = made.data[0].numpy()
    expected = fit(array, made.dt, 16.0).predict(STEPS)
    made.save(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", array[:, 0])
    for found in (
        fit(made).predict(STEPS).data[0].numpy(),
        fit(opsplit.read(made)).predict(STEPS),
        fit(tmp_path / "a.npz").predict(STEPS),
        fit(str(tmp_path / "a.npy"), made.dt, 16.0).predict(STEPS),
        fit([frame for frame in array[:, 0]], made.dt, 16.0).predict(STEPS),
        fit(made.data[0], made.dt, 16.0).predict(STEPS).numpy(),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_xarray_in_xarray_out(fit: Fit, made: Trajectories) -> None:
    xarray = pytest.importorskip("xarray")
    expected = fit(made).predict(STEPS)
    whole = made.to_xarray()
    out = fit(whole).predict(STEPS)
    assert isinstance(out, xarray.Dataset) and out["u"].dims == whole["u"].dims
    np.testing.assert_allclose(out["u"].values, expected.data[:, :, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["time"], expected.times)
    np.testing.assert_array_equal(out["x"], whole["x"])
    assert float(out["c"][0]) == pytest.approx(float(made.coefficients["c"][0]))
    turned = whole["u"][0].rename("height").transpose("x", "time")
    again = fit(turned).predict(STEPS)
    assert isinstance(again, xarray.DataArray)
    assert again.name == "height" and again.dims == ("x", "time")
    np.testing.assert_allclose(again.values.T, out["u"].values[0], rtol=1e-4, atol=1e-5)


def test_dates_go_on(fit: Fit, made: Trajectories) -> None:
    xarray = pytest.importorskip("xarray")
    dates = np.datetime64("2020-01-01", "ns") + (np.arange(8) * 101_000_000).astype(
        "timedelta64[ns]"
    )
    x = np.arange(64) / 4
    given = xarray.DataArray(made.data[0, :, 0].numpy(), {"time": dates, "x": x}, ("time", "x"))
    splitter = fit(given)
    assert splitter.dt_ == pytest.approx(0.101)
    assert "seconds after 2020-01-01" in splitter.understood_
    out = splitter.predict(STEPS)
    steps = np.diff(out["time"].values, prepend=dates[-1]) / np.timedelta64(1, "ms")
    np.testing.assert_allclose(steps, 101, rtol=1e-6)


# What data say is not replaced


def test_boundaries_of_the_data_are_not_replaced(fit: Fit, made: Trajectories) -> None:
    for word in ("open", "neumann:open"):
        ends = replace(made, grid=Grid((64,), (16.0,), word))
        with pytest.raises(OpsplitError, match=f"boundaries {word}, the model periodic"):
            fit(ends)
        with pytest.raises(OpsplitError, match=f"boundaries {word}"):
            fit(opsplit.read(made.data[0].numpy(), axes="t,c,x", dt=DT, boundary=word))


def test_one_word_is_the_boundary_of_all_axes_of_an_array() -> None:
    config = opsplit.load_model("gray-scott").config
    found = door.observe(
        np.zeros((4, 2, 8, 8)), config, Flags(dt=1.0, extent=1.0, boundary="neumann")
    )
    assert found.grid.boundary == ("neumann", "neumann")


@pytest.fixture(scope="module")
def plane() -> Trajectories:
    physics = GrayScott(Grid((32, 32), (1.0, 1.0)))
    initial = physics.initial_fields(1, torch.Generator().manual_seed(3), "GS")
    mu = {"F": 0.03, "k": 0.06, "reaction": 1.0, "diffusion": 1.0}
    known = {k: torch.tensor([v], dtype=torch.float64) for k, v in mu.items()}
    times = torch.arange(5.0, dtype=torch.float64)
    data = physics.solve(initial, known, times).float()
    return Trajectories(data, times, physics.grid, physics.channels)


def test_channels_enter_by_name_and_come_back_in_place(plane: Trajectories) -> None:
    first, second = plane.channels
    turned = replace(plane, data=plane.data[:, :, [1, 0]], channels=(second, first))

    def run(u: Trajectories) -> OperatorSplitter:
        with no_warnings():
            return OperatorSplitter("gray-scott", Beam(1, 1)).fit(u)

    usual, other = run(plane), run(turned)
    assert other.composition_ == usual.composition_
    assert torch.equal(other.predict(2).data[:, :, [1, 0]], usual.predict(2).data)
    assert other.predict(2).channels == (second, first)
    assert Code.CHANNEL_ORDER in {issue.code for issue in other.issues_}
    wrong = replace(plane, channels=(second, "Q"))
    with pytest.raises(
        OpsplitError, match=f"the channels {second}, Q, the model {first}, {second}"
    ):
        run(wrong)


def test_contradictions_are_refused(fit: Fit, made: Trajectories) -> None:
    with pytest.raises(OpsplitError, match="time between frames in the data"):
        fit(made, 0.5)
    with pytest.raises(OpsplitError, match="extent in the data"):
        fit(made, extent=3.0)
    assert fit(made, made.dt, 16.0).composition_ == fit(made).composition_


def test_a_guessed_extent_warns_and_has_no_intervals(observe: Any) -> None:
    u, grid, dt = observe(0.5, 0.3, frames=8, points=64)
    with pytest.warns(OpsplitWarning, match="Nothing says how large the box is"):
        guessed = OperatorSplitter("advection-diffusion").fit(u, dt)
    told = OperatorSplitter("advection-diffusion").fit(u, dt, grid.extent)
    assert guessed.coefficients_ == told.coefficients_
    assert guessed.coefficient_intervals_ == {} and "±" not in guessed.equation_
    assert told.coefficient_intervals_.keys() <= {"c", "D"}


# Several trajectories of one dynamics


@pytest.mark.parametrize("search", [Pursuit(max_parts=2), Beam(2, 2)], ids=lambda s: s.name)
def test_copies_fit_like_one(made: Trajectories, search: Any) -> None:
    def run(u: Trajectories) -> OperatorSplitter:
        with no_warnings():
            return OperatorSplitter(search=search).fit(u)

    one, three = run(made), run(made[[0, 0, 0]])
    # Operators of one mechanism are multiples of each other: rounding may choose among them.
    assert len(three.composition_.operators) == len(one.composition_.operators)
    assert three.fit_error_ == pytest.approx(one.fit_error_, rel=1e-3, abs=1e-5)
    assert three.coefficients_ == pytest.approx(one.coefficients_, rel=1e-3)
    assert three.verdict_.unexplained == pytest.approx(one.verdict_.unexplained, rel=1e-2, abs=1e-4)
    out = three.predict(STEPS)
    assert out.data.shape == (3, STEPS, 1, 64)
    torch.testing.assert_close(out.data[2], one.predict(STEPS).data[0], rtol=1e-3, atol=1e-4)


def test_trajectories_are_not_joined_end_to_end(made: Trajectories, mixed: Any) -> None:
    """Scores of two trajectories in a row are those of both; no run goes from one to the other."""
    other = AdvectionDiffusion(made.grid).generate("A+D", 1, seed=908, frames=8)
    both = torch.cat([made.data[0], other.data[0]])
    steps = [made.dt] * 7
    sets = torch.tensor([[0, 1], [2, 4]])
    joined = Objective(mixed(0), both, made.grid, [*steps, float("inf"), *steps])
    parts = [Objective(mixed(0), u.data[0], made.grid, made.dt) for u in (made, other)]
    for question in ("errors", "free_run"):
        found = getattr(joined, question)(sets)
        apart = torch.cat([getattr(part, question)(sets) for part in parts], 1)
        torch.testing.assert_close(found, apart, rtol=1e-4, atol=1e-6)


def test_several_systems_are_refused(fit: Fit, made: Trajectories) -> None:
    two = AdvectionDiffusion(made.grid).generate("A+D", 2, seed=1, frames=8)
    with pytest.raises(OpsplitError, match="2 trajectories with different c"):
        fit(two)
    alone = fit(two[[1]]).composition_
    assert fit(two, trajectory=1).composition_ == alone
    with pytest.raises(OpsplitError, match="need equal shapes"):
        fit([two.data[0, :, 0].numpy(), two.data[1, 2:, 0].numpy()], DT)


# Complex numbers


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_a_rounding_imaginary_part_is_left_out(fit: Fit, made: Trajectories, kind: Any) -> None:
    u = made.data[0].double().numpy()
    rough = fit(kind(u + 1e-6j * np.abs(u).max()), DT)
    assert rough.composition_ == fit(u, DT).composition_
    assert "imaginary part is rounding" in rough.understood_
    with pytest.raises(OpsplitError, match="real numbers"):
        fit(kind(u + 1e-3j * np.abs(u).max()), DT)


def on_points(x: np.ndarray, frames: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Advection-diffusion on [0, 16], exact, at any points."""
    t, k = 0.1 * np.arange(frames)[:, None], 2 * np.pi / 16
    waves = ((1, 1.0), (2, -0.5), (5, 0.3))
    u = sum(
        a * np.exp(-0.2 * (n * k) ** 2 * t) * np.sin(n * k * (x - 0.7 * t) + n) for n, a in waves
    )
    return t[:, 0], np.asarray(u)


@pytest.mark.parametrize(
    "x", [np.linspace(0, 16, 129), np.linspace(16, 0, 129), np.linspace(16, 0, 128, endpoint=False)]
)
def test_forecasts_are_on_the_points_that_were_given(x: np.ndarray, tmp_path: Path) -> None:
    """A repeated end point comes back, and points that fall go on falling."""
    t, u = on_points(x)
    truth = on_points(x, 26)[1][16:]
    np.savez(tmp_path / "a.npz", u=u, x=x, t=t)
    s = OperatorSplitter("advection-diffusion").fit(tmp_path / "a.npz")
    np.testing.assert_allclose(s.predict(10)[:, 0], truth, atol=1e-4)
    assert s.score(truth) > -1e-4
    middle, lower, upper = s.predict(10, return_interval=0.9)
    np.testing.assert_array_equal(middle, s.predict(10))
    np.testing.assert_allclose(upper + lower, 2 * middle, atol=1e-5)
    assert (upper > lower).all()
    command = ["predict", str(tmp_path / "a.npz"), "--model", "advection-diffusion"]
    main([*command, "--out", str(tmp_path / "out"), "--report", str(tmp_path / "page.html")])
    assert "90% +-" in (tmp_path / "out" / "numbers.csv").read_text().splitlines()[0]
    again = OperatorSplitter.load(s.save(tmp_path / "saved"))
    np.testing.assert_array_equal(again.predict(10), s.predict(10))
    field = xarray.DataArray(u, {"time": t, "x": x}, ("time", "x"))
    made = OperatorSplitter("advection-diffusion").fit(field).predict(10)
    np.testing.assert_array_equal(made.x, x)
    np.testing.assert_allclose(made, truth, atol=1e-4)
