"""Copies of operators in the opposite direction: only where a sign means something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from opsplit.dictionary import OperatorDictionary, Part, oriented
from opsplit.fourier import low_pass
from opsplit.grid import Grid
from opsplit.model import load_model
from opsplit.operators import Linear, Products, Spectral
from opsplit.operators.spectral import Derivatives
from opsplit.terms import Term

GRID = Grid((64,), (16.0,))
PLANE = Grid((16, 24), (5.0, 7.0))


def field(grid: Grid, seed: int = 0) -> torch.Tensor:
    """A random field without the modes at half the sampling rate, which have no direction."""
    shape = (1, *grid.shape)
    u = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return low_pass(u, grid, 0.7)


def line() -> OperatorDictionary:
    """Advection, diffusion, dispersion, each twice."""
    terms = [{"advection": 0.5}, {"advection": 1.0}, {"diffusion": 0.3}, {"dispersion": 0.2}]
    known = {"c": [0.5, 1, 0, 0], "D": [0, 0, 0.3, 0], "g": [0, 0, 0, 0.2]}
    named = {
        "c": Term("-u_x", 1, 1, True),
        "D": Term("u_xx", 2, 1),
        "g": Term("-u_xxx", 3, 1, True),
    }
    return replace(OperatorDictionary.analytic(1, 1, terms, known), terms=named)


def rates(dictionary: OperatorDictionary, grid: Grid, u: torch.Tensor) -> torch.Tensor:
    every = torch.arange(len(dictionary))
    return dictionary.prepare(grid, u).rates(every, u[None])


def test_directed_operators_get_a_copy_with_the_negative_rate() -> None:
    plain, u = line(), field(GRID)
    found = oriented(plain, GRID, u)
    assert found.coefficients["c"].tolist() == [0.5, 1, 0, 0, -0.5, -1, 0]
    assert found.coefficients["g"].tolist() == [0, 0, 0, 0.2, 0, 0, -0.2]
    assert found.coefficients["D"].tolist() == [0, 0, 0.3, 0, 0, 0, 0]
    assert found.provenance[4].endswith("mirrored along x")
    f = rates(found, GRID, u)
    torch.testing.assert_close(f[4:], -f[[0, 1, 3]])


@pytest.mark.parametrize("axis", [0, 1])
def test_in_a_plane_the_field_says_which_axis_is_turned(axis: int) -> None:
    c = [0.0, 0.0]
    c[axis] = 0.4
    plain = OperatorDictionary.analytic(1, 2, [{"advection": tuple(c)}], {"c": [0.4]})
    named = replace(plain, terms={"c": Term("-u_a", 1, 1, True)})
    u = field(PLANE)
    found = oriented(named, PLANE, u)
    assert found.coefficients["c"].tolist() == [0.4, -0.4]
    f = rates(found, PLANE, u)
    torch.testing.assert_close(f[1], -f[0])


def test_terms_of_several_parities_get_all_signs() -> None:
    """`alpha (u^2)_x + g u_xxx` in one operator: negation turns the first, a mirror both."""
    family = Spectral(1, 1, 0.1, Derivatives(("xxx",)), Products(("0*0@x",)))
    part = Part(family, torch.tensor([[0.2, 0.7]], dtype=torch.float64))
    terms = {"alpha": Term("(u^2)_x", 1, 2, True), "g": Term("u_xxx", 3, 1, True)}
    known = {"alpha": np.array([0.7]), "g": np.array([0.2])}
    found = oriented(OperatorDictionary((part,), known, (), terms), GRID, field(GRID))
    signs = {
        (np.sign(a), np.sign(g))
        for a, g in zip(found.coefficients["alpha"], found.coefficients["g"], strict=True)
    }
    assert signs == {(1, 1), (-1, 1), (-1, -1), (1, -1)}
    u = field(GRID)
    f = rates(found, GRID, u)
    for i in range(1, 4):
        a, g = (float(found.coefficients[k][i]) for k in ("alpha", "g"))
        exact = replace(part, codes=torch.tensor([[g, a]], dtype=torch.float64))
        expected = rates(OperatorDictionary((exact,)), GRID, u)
        torch.testing.assert_close(f[[i]], expected, rtol=1e-6, atol=1e-7)


def test_a_sign_without_meaning_has_no_copy() -> None:
    one = line().select([2])
    assert len(oriented(one, GRID, field(GRID))) == 1
    nameless = OperatorDictionary((Part(Linear(1, 1), torch.rand(3, 4).double()),))
    assert len(oriented(nameless, GRID, field(GRID))) == 3


def test_copies_of_bundled_operators_flow_like_the_mirrored_dynamics() -> None:
    """Learned operators of every kind: the flow of a mirrored state is the mirrored flow."""
    for name, family in (("advection-diffusion", "unet"), ("combined", "spectral")):
        held = load_model(name, family).dictionary
        few = held.select(np.linspace(0, len(held) - 1, 5).astype(int))
        grid = Grid((256,), (16.0,))
        u = torch.sin(2 * np.pi * torch.arange(256) / 64)[None] + 0.3
        found = oriented(few, grid, u)
        assert len(found) > len(few)
        prepared = found.prepare(grid, u)
        for i in range(len(few), len(found)):
            value = {k: v[i] for k, v in found.coefficients.items() if v[i]}
            (source,) = [
                j
                for j in range(len(few))
                if all(found.coefficients[k][j] == -v for k, v in value.items())
            ]
            turned = [prepared.flow(torch.tensor([j]), x[None, None], 0.05)
                      for j, x in ((i, u), (source, u.flip(-1)), (source, -u))]  # fmt: skip
            mirrored = torch.allclose(turned[0], turned[1].flip(-1), atol=1e-5)
            negated = torch.allclose(turned[0], -turned[2], atol=1e-5)
            assert mirrored or negated


def test_the_other_convention_has_a_copy_whatever_signs_training_saw() -> None:
    """Vorticity with either sign, an axis that points either way: the product changes its sign."""
    bundled = load_model("navier-stokes", "spectral")
    u = field(bundled.config.grid).float()
    found = oriented(bundled.dictionary, bundled.config.grid, u)
    assert {float(np.sign(v)) for v in found.coefficients["advection"]} == {-1.0, 0.0, 1.0}
    assert (found.coefficients["nu"] >= 0).all()
    turned = [i for i, v in enumerate(found.coefficients["advection"]) if v < 0]
    same = [i for i, v in enumerate(found.coefficients["advection"]) if v > 0]
    f = rates(found, bundled.config.grid, u)
    torch.testing.assert_close(f[turned], -f[same], rtol=0.01, atol=0.01 * float(f[same].std()))
