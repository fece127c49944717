"""Walls: fields between them continue by symmetry, operators that break it are left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from opsplit import Grid, OperatorSplitter, OpsplitError, Trajectories, read
from opsplit.boundary import Side
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import no_warnings
from opsplit.model import Model
from opsplit.predict.compatibility import Code
from opsplit.predict.ends import End, Ends, ends_of
from opsplit.predict.noisy_ends import looks_noisy
from opsplit.predict.walls import Walls
from opsplit.terms import Term

LENGTH, DIFFUSIVITY, DT = 1.0, 0.1, 0.004
KINDS = ("dirichlet", "neumann", "dirichlet:neumann", "neumann:dirichlet")
LAYOUTS = ("on the walls", "in cells", "inside")
Fit = Callable[..., OperatorSplitter]


def points(layout: str, n: int = 48) -> np.ndarray:
    every = np.linspace(0, LENGTH, n + 1)
    return {"on the walls": every, "in cells": (every[1:] + every[:-1]) / 2}.get(
        layout, every[1:-1]
    )


def rod(x: np.ndarray, times: np.ndarray, kind: str) -> np.ndarray:
    """The exact series of the heat equation between two walls."""
    sizes = np.random.default_rng(0).normal(size=6) / np.arange(1, 7)
    total = np.zeros((len(times), len(x)))
    for n, a in enumerate(sizes, 1):
        k = (n if ":" not in kind else n - 0.5) * np.pi / LENGTH
        wave = np.sin if kind.startswith("dirichlet") else np.cos
        total += a * wave(k * x) * np.exp(-DIFFUSIVITY * k**2 * times)[:, None]
    return total


@pytest.fixture
def fit(tiny_model: Model) -> Fit:
    """Fits with exact transport and diffusion."""
    terms = [{"advection": 1.0}, {"diffusion": 1.0}, {"diffusion": 0.2}]
    exact = OperatorDictionary.analytic(1, 1, terms, {"c": [1, 0, 0], "D": [0, 1, 0.2]})
    known = {"c": Term("-u_x", 1, 1, True), "D": Term("u_xx", 2, 1)}
    dictionary = OperatorDictionary(
        exact.parts, exact.coefficients, exact.provenance, known, exact.max_strengths
    )

    def run(u: np.ndarray, **more: object) -> OperatorSplitter:
        with no_warnings():
            return OperatorSplitter(Model(tiny_model.disco, dictionary)).fit(u, DT, LENGTH, **more)

    return run


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_rod_between_walls_is_identified(fit: Fit, kind: str, layout: str, said: bool) -> None:
    if layout == "inside" and kind != "dirichlet":
        pytest.skip("an insulated end one spacing beyond the last point is not known")
    times = DT * np.arange(24)
    u = rod(points(layout), times, kind)
    found = fit(u[:12], boundary=kind) if said else fit(u[:12])
    assert found.coefficients_["D"] == pytest.approx(DIFFUSIVITY, rel=0.01)
    missed = np.linalg.norm(found.predict(12)[:, 0] - u[12:]) / np.linalg.norm(u[12:])
    assert missed < 1e-3
    assert found.observed_.grid.boundary == (kind,)
    codes = [issue.code for issue in found.issues_]
    assert Code.WALLS in codes and Code.SYMMETRY in codes


def test_ends_at_300_and_500_degrees(fit: Fit) -> None:
    x, times = points("on the walls"), DT * np.arange(24)
    u = 300 + 200 * x + 40 * rod(x, times, "dirichlet")
    found = fit(u[:12])
    assert found.observed_.grid.boundary == ("dirichlet=300:dirichlet=500",)
    assert found.coefficients_["D"] == pytest.approx(DIFFUSIVITY, rel=0.01)
    np.testing.assert_allclose(found.predict(12)[:, 0], u[12:], atol=0.05)


def test_a_periodic_field_has_no_walls(fit: Fit) -> None:
    x = np.arange(48) / 48
    u = np.sin(2 * np.pi * (x - DT * np.arange(12)[:, None]))
    found = fit(u)
    assert found.observed_.grid.boundary == ("periodic",)
    assert Code.WALLS not in [issue.code for issue in found.issues_]


def test_open_ends_are_refused(fit: Fit) -> None:
    u = rod(points("in cells"), DT * np.arange(12), "dirichlet")
    with pytest.raises(OpsplitError, match="boundaries open, the model periodic"):
        fit(u, boundary="open")


def test_a_model_without_symmetric_operators_is_refused(tiny_model: Model) -> None:
    exact = OperatorDictionary.analytic(1, 1, [{"advection": 1.0}], {"c": [1]})
    u = rod(points("in cells"), DT * np.arange(12), "neumann")
    with pytest.raises(OpsplitError, match="No operator of this model keeps the symmetry"):
        OperatorSplitter(Model(tiny_model.disco, exact)).fit(u, DT, LENGTH, boundary="neumann")


@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("kind", KINDS)
def test_folding_undoes_unfolding_and_heat_stays_symmetric(kind: str, layout: str) -> None:
    """The continued field solves the heat equation on the longer box as well."""
    times = DT * np.arange(6)
    u = rod(points(layout), times, kind)
    recording = read(u, axes="t,x", dt=DT, extent=LENGTH, boundary=kind)
    walls = Walls.of(recording.grid, ends_of(recording))
    (axis,) = walls.axes
    assert axis is not None
    h = LENGTH / axis.steps
    whole = recording.load()
    whole = Trajectories(
        whole.data, whole.times, Grid((axis.points,), (h * axis.points,)), whole.channels, {}
    )
    longer = walls.unfold(whole)
    assert longer.grid.periodic
    assert longer.grid.extent[0] == pytest.approx((4 if ":" in kind else 2) * LENGTH)
    torch.testing.assert_close(walls.fold(longer.data), whole.data)
    heat = OperatorDictionary.analytic(1, 1, [{"diffusion": DIFFUSIVITY}])
    start = longer.data[:, :1]
    later = heat.prepare(longer.grid, start).flow(torch.tensor([0]), start, float(times[-1]))
    torch.testing.assert_close(walls.fold(later)[0, 0], whole.data[0, -1], atol=1e-4, rtol=0)


def test_walls_of_one_axis_of_a_plane(tiny_model: Model) -> None:
    """Insulated along x, periodic along y."""
    x, y = points("in cells")[:, None], np.arange(16) / 16
    times = DT * np.arange(16)
    k = (np.pi, 2 * np.pi)
    decay = np.exp(-DIFFUSIVITY * (k[0] ** 2 + k[1] ** 2) * times)[:, None, None]
    u = np.cos(k[0] * x) * np.sin(k[1] * y) * decay
    u = u + np.cos(3 * k[0] * x) * np.exp(-DIFFUSIVITY * 9 * k[0] ** 2 * times)[:, None, None]
    exact = OperatorDictionary.analytic(1, 1, [{"diffusion": 1.0}], {"D": [1]})
    with no_warnings():
        found = OperatorSplitter(Model(tiny_model.disco, exact)).fit(u[:10], DT, (1.0, 1.0))
    assert found.observed_.grid.boundary == ("neumann", "periodic")
    assert found.coefficients_["D"] == pytest.approx(DIFFUSIVITY, rel=1e-3)
    np.testing.assert_allclose(found.predict(6)[:, 0], u[10:], atol=1e-3)


@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_noise_does_not_hide_walls(kind: str, layout: str) -> None:
    """Waves of the right kind describe the lines with the fewest parameters."""
    draw = np.random.default_rng(4)
    u = rod(points(layout), DT * np.arange(16), kind)
    noisy = u + 0.01 * u.std() * draw.normal(size=u.shape)
    (ends,) = ends_of(read(noisy, axes="t,x", dt=DT, extent=LENGTH), by_frames=True)
    assert (ends.words, ends.rival) == (kind, "")


def test_noise_that_hides_the_ends_is_said(fit: Fit) -> None:
    """A field that vanishes at both ends suits periodic ends and walls: no interval is printed."""
    x, draw = points("in cells"), np.random.default_rng(1)
    decay = np.exp(-4 * np.pi**2 * DIFFUSIVITY * DT * np.arange(12))
    u = decay[:, None] * np.sin(2 * np.pi * x) + 0.05 * draw.normal(size=(12, len(x)))
    found = fit(u)
    assert found.observed_.grid.boundary == ("periodic",)
    (issue,) = [issue for issue in found.issues_ if issue.code is Code.WALLS]
    assert "Noise hides" in issue.text and found.coefficient_intervals_ == {}


def test_noise_between_periodic_ends_makes_no_walls() -> None:
    x, draw = np.arange(64) / 64, np.random.default_rng(2)
    u = np.sin(2 * np.pi * x + 1) + 0.5 * np.cos(6 * np.pi * x)
    noisy = u + 0.02 * draw.normal(size=(16, 64))
    (ends,) = ends_of(read(noisy, axes="t,x", dt=DT, extent=LENGTH), by_frames=True)
    assert not ends.walls and ends.rival == ""


@pytest.mark.parametrize("seed", [5, 6, 12])
def test_rough_fields_show_their_walls_by_their_dynamics(fit: Fit, seed: int) -> None:
    """A seam is no rougher than the field itself; only insulated walls explain the motion."""
    x, number = points("in cells", 16), np.arange(13)
    weights = np.random.default_rng(seed).normal(size=13)
    decay = np.exp(-DIFFUSIVITY * np.multiply.outer(DT * np.arange(12), (np.pi * number) ** 2))
    u = np.einsum("n,tn,nx->tx", weights, decay, np.cos(np.pi * np.outer(number, x)))
    (ends,) = ends_of(read(u, axes="t,x", dt=DT, extent=LENGTH), by_frames=True)
    assert not ends.walls
    found = fit(u)
    assert found.observed_.grid.boundary == ("neumann",)
    assert found.coefficients_["D"] == pytest.approx(DIFFUSIVITY, rel=0.02)


def test_a_field_that_moves_fast_is_not_noise() -> None:
    """A soliton that passes its own width from frame to frame, far from both ends."""
    x, t = np.linspace(-30, 30, 513)[:-1], 0.7 * np.arange(8)[:, None]
    u = 2 / np.cosh(x - 4 * t + 18) ** 2
    assert not looks_noisy(u[:, None])
    assert looks_noisy(u[:, None] + 0.02 * np.random.default_rng(0).normal(size=u[:, None].shape))


def test_walls_that_the_frames_only_seem_to_show_are_given_up() -> None:
    """At the seam of a periodic axis a kink looks like a wall, through which nothing moves."""
    x = np.linspace(-1, 1, 129)[:-1]
    k = 2 * np.pi * np.fft.rfftfreq(128, 2 / 128)
    start = np.fft.rfft(x**2 * np.cos(np.pi * x))
    t = 0.01 * np.arange(16)[:, None]
    u = np.fft.irfft(start * np.exp(-1e-3 * k**2 * t), 128) * np.exp(-0.5 * t)
    with no_warnings():
        found = OperatorSplitter("line").fit(u, 0.01, 2.0)
    assert found.status_ == "explained"
    assert found.coefficients_["r"] == pytest.approx(-0.5, rel=0.05)


def test_walls_that_no_operator_keeps_are_no_refusal(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames may look as between walls; where transport is all there is, ends are periodic."""
    moving = OperatorDictionary.analytic(1, 1, [{"advection": 1.0}], {"c": [1.0]})
    x, times = np.arange(48) / 48, DT * np.arange(12)[:, None]
    u = np.sin(2 * np.pi * (x - 2.0 * times)) + np.cos(6 * np.pi * (x - 2.0 * times))
    wall = End(Side("dirichlet"))
    guessed = [Ends(wall, wall, False, 1.0)]
    monkeypatch.setattr("opsplit.predict.adapt.ends_of", lambda recording: guessed)
    monkeypatch.setattr("opsplit.predict.rival_ends.ends_of", lambda recording: guessed)
    with no_warnings():
        found = OperatorSplitter(Model(tiny_model.disco, moving)).fit(u, DT, LENGTH)
        assert found.observed_.grid.boundary == ("periodic",)
        assert found.coefficients_["c"] == pytest.approx(2.0, rel=1e-4)
        with pytest.raises(OpsplitError, match="No operator of this model keeps the symmetry"):
            OperatorSplitter(Model(tiny_model.disco, moving)).fit(
                u, DT, LENGTH, boundary="dirichlet"
            )
