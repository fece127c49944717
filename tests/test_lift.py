"""Dictionaries on fields with more axes or channels: theorems about lifted operators."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from dictionaries import KINDS, of_family
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit import OpsplitError
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.fourier import resample, squared_wavenumber
from opsplit.grid import Grid
from opsplit.operators import Along, Derivatives, OnChannel, Products, Spectral
from opsplit.operators.spectral.filters import isotropic_filter
from opsplit.operators.spectral.products import isotropic_product
from opsplit.terms import Term

LENGTH = 2 * math.pi
TERMS = ("", "x", "lap", "x.lap")
PRODUCTS = ("0*0", "0*0@x", "0:x*0:x")
WEIGHTS = {
    "r": (0.3, 0, 0, 0, 0, 0, 0),
    "c": (0, -0.7, 0, 0, 0, 0, 0),
    "D": (0, 0, 0.2, 0, 0, 0, 0),
    "g": (0, 0, 0, -0.1, 0, 0, 0),
    "q": (0, 0, 0, 0, 0.4, 0, 0),
    "alpha": (0, 0, 0, 0, 0, -0.5, 0),
    "s": (0, 0, 0, 0, 0, 0, -0.3),
}
DIRECTED = ("c", "g", "alpha")


def road() -> OperatorDictionary:
    """One operator for each of seven terms on a line."""
    family = Spectral(1, 1, 0.02, Derivatives(TERMS, 1.0), Products(PRODUCTS))
    known = {name: np.zeros(len(WEIGHTS)) for name in WEIGHTS}
    for i, name in enumerate(WEIGHTS):
        known[name][i] = 1.0
    texts = ("u", "-u_x", "u_xx", "-u_xxx", "u^2", "-(u^2)_x", "-u_x^2")
    terms = {name: Term(text) for name, text in zip(WEIGHTS, texts, strict=True)}
    codes = torch.tensor(list(WEIGHTS.values()), dtype=torch.float64)
    return OperatorDictionary((Part(family, codes),), known, terms=terms)


def smooth(shape: tuple[int, ...], seed: int, channels: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    few = torch.randn(1, 1, channels, *[6] * len(shape), dtype=torch.float64, generator=generator)
    return 0.3 * resample(few, shape)


def flows(dictionary: OperatorDictionary, grid: Grid, u: Tensor, h: float = 0.05) -> Tensor:
    """The flow of every operator from one state."""
    everyone = torch.arange(len(dictionary))
    each = u.expand(len(dictionary), *u.shape[1:])
    return dictionary.prepare(grid, u).flow(everyone, each, h)[:, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_field_that_varies_along_one_axis_evolves_as_on_a_line(kind: str, axis: int) -> None:
    line = Grid((32,), (16.0,))
    dictionary = of_family(KINDS[kind], decoder=False)
    u = smooth(line.shape, 1).float()
    expected = flows(dictionary, line, u)
    other = 1 - axis
    shape, extent = [0, 0], [0.0, 0.0]
    shape[axis], shape[other], extent[axis], extent[other] = 32, 4, 16.0, 3.0
    grid = Grid(tuple(shape), tuple(extent))
    wide = u.unsqueeze(3 + other).expand(1, 1, 1, *shape)
    part = dictionary.parts[0]
    found = flows(OperatorDictionary((Part(Along(part.family, axis, 2), part.codes),)), grid, wide)
    torch.testing.assert_close(found, expected.unsqueeze(2 + other).expand_as(found))


@given(seed=st.integers(0, 1000), axis=st.integers(0, 2))
@settings(max_examples=6, deadline=None)
def test_lifted_operators_reduce_to_those_on_a_line(seed: int, axis: int) -> None:
    dictionary = road()
    u = smooth((24,), seed)
    expected = flows(dictionary, Grid((24,), (LENGTH,)), u)
    shape = [4, 4, 4]
    shape[axis] = 24
    lifted = dictionary.lift(3)
    place = [a for a in range(3) if a != axis]
    wide = u
    for a in place:
        wide = wide.unsqueeze(3 + a)
    wide = wide.expand(1, 1, 1, *shape)
    found = flows(lifted, Grid(tuple(shape), (LENGTH,) * 3), wide)
    for i, name in enumerate(WEIGHTS):
        own = f"{name}_{'xyz'[axis]}" if name in DIRECTED else name
        (j,) = np.flatnonzero(lifted.coefficients[own])
        line = found[j].movedim(1 + axis, -1)
        torch.testing.assert_close(line, expected[i].expand_as(line[0]).expand_as(line))


def test_coefficients_of_directed_operators_get_an_axis() -> None:
    lifted = road().lift(2)
    names = ["r", "c_x", "c_y", "D", "g_x", "g_y", "q", "alpha_x", "alpha_y", "s"]
    assert list(lifted.coefficients) == names
    texts = {name: term.text for name, term in lifted.terms.items()}
    assert texts["c_y"] == "-u_y" and texts["g_y"] == "-u_yyy" and texts["alpha_y"] == "-(u^2)_y"
    assert texts["D"] == "lap u" and texts["s"] == "-|grad u|^2" and texts["q"] == "u^2"


@given(seed=st.integers(0, 1000))
@settings(max_examples=5, deadline=None)
def test_isotropic_operators_commute_with_swapping_axes(seed: int) -> None:
    lifted = road().lift(2)
    free = [i for i, p in enumerate(lifted.provenance) if not p.endswith(")")]
    grid = Grid((16, 16), (LENGTH, LENGTH))
    u = smooth(grid.shape, seed)
    isotropic = lifted.select(free)
    there = flows(isotropic, grid, u.transpose(-1, -2))
    torch.testing.assert_close(there.transpose(-1, -2), flows(isotropic, grid, u))
    # Directed operators do not: along x becomes along y.
    alone = lifted.select([i for i in range(len(lifted)) if i not in free])
    swapped = flows(alone, grid, u.transpose(-1, -2)).transpose(-1, -2)
    assert not torch.allclose(swapped, flows(alone, grid, u), atol=1e-4)


@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize("exact", [False, True])
def test_the_lifted_flow_of_heat_is_the_exact_solution(ndim: int, exact: bool) -> None:
    grid = Grid((12, 10, 14)[:ndim], (LENGTH, 3.0, 5.0)[:ndim])
    if exact:
        heat = OperatorDictionary.analytic(1, 1, [{"diffusion": 0.2}], {"D": [0.2]})
    else:
        heat = road().select([2])
    u = smooth(grid.shape, 3)
    axes = tuple(range(-ndim, 0))
    decay = torch.exp(-0.2 * 0.7 * squared_wavenumber(grid))
    expected = torch.fft.irfftn(torch.fft.rfftn(u, dim=axes) * decay, s=grid.shape, dim=axes)
    torch.testing.assert_close(flows(heat.lift(ndim), grid, u, 0.7), expected[:, 0])


def test_transport_along_two_axes_moves_the_field_along_both() -> None:
    exact = OperatorDictionary.analytic(1, 1, [{"advection": 1.0}], {"c": [1.0]}).lift(2)
    assert list(exact.coefficients) == ["c_x", "c_y"]
    grid = Grid((16, 12), (16.0, 12.0))
    u = smooth(grid.shape, 5)
    moved = flows(exact, grid, u, 3.0)
    torch.testing.assert_close(moved[0], u[0, 0].roll(3, 1))
    torch.testing.assert_close(moved[1], u[0, 0].roll(3, 2))


def test_scalar_operators_act_on_every_channel_by_itself() -> None:
    heat = OperatorDictionary.analytic(1, 1, [{"diffusion": 0.2}, {"reaction": -1}], {"D": [1, 0]})
    grid = Grid((16,), (LENGTH,))
    u = smooth(grid.shape, 2, channels=2)
    both = heat.on_channels(("A", "B"))
    found = flows(both, grid, u)
    for i, channel in enumerate((0, 0, 1, 1)):
        alone = flows(heat, grid, u[:, :, channel : channel + 1])[i % 2]
        torch.testing.assert_close(found[i, channel : channel + 1], alone)
        torch.testing.assert_close(found[i, 1 - channel], u[0, 0, 1 - channel])
    assert both.coefficients["D_B"].tolist() == [0, 0, 1, 0]


def test_lifted_dictionaries_are_saved(tmp_path: Path) -> None:
    lifted = road().lift(2).on_channels(("A", "B"))
    lifted.save(tmp_path)
    again = OperatorDictionary.load(tmp_path)
    assert [p.family for p in again.parts] == [p.family for p in lifted.parts]
    grid = Grid((8, 8), (LENGTH, LENGTH))
    u = smooth(grid.shape, 4, channels=2)
    torch.testing.assert_close(flows(again, grid, u), flows(lifted, grid, u))
    assert again.terms == lifted.terms


def test_operators_on_a_plane_with_a_direction_have_no_form_in_space() -> None:
    plane = Spectral(1, 2, 0.1, Derivatives(("lap", "x"), 1.0))
    codes = torch.tensor([[0.2, 0.0], [0.0, 1.0]], dtype=torch.float64)
    dictionary = OperatorDictionary(
        (Part(plane, codes),), {"D": np.array([1.0, 0.0]), "c": np.array([0.0, 1.0])}
    )
    with pytest.raises(OpsplitError, match="operators of c single out a direction"):
        dictionary.lift(3)
    assert len(dictionary.select([0]).lift(3)) == 1
    with pytest.raises(OpsplitError, match="cannot be lifted to 1-D"):
        dictionary.lift(1)


def test_filters_and_products_without_a_direction() -> None:
    assert isotropic_filter("xx", 1) == "lap" and isotropic_filter("xxxx", 1) == "lap2"
    assert isotropic_filter("x", 1) is None and isotropic_filter("xx", 2) is None
    assert isotropic_product("0*1*1", 2, 3) == ("0*1*1",)
    assert isotropic_product("@", 1, 2) == ("@",)
    assert isotropic_product("0:x*0:x", 1, 2) == ("0:x*0:x", "0:y*0:y")
    assert isotropic_product("0*0:x@x", 1, 3) == ("0*0:x@x", "0*0:y@y", "0*0:z@z")
    assert isotropic_product("0*0@x", 1, 2) is None
    assert isotropic_product("0:px*0:y", 2, 3) is None


def test_wrappers_refuse_operators_that_do_not_fit() -> None:
    with pytest.raises(OpsplitError, match="acts on 2 axes"):
        Along(Spectral(1, 2), 0, 3)
    with pytest.raises(OpsplitError, match="axis must lie"):
        Along(Spectral(1, 1), 2, 2)
    with pytest.raises(OpsplitError, match="acts on 2 channels"):
        OnChannel(Spectral(2, 1), 0, 2)
