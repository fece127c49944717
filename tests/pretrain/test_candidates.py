"""Candidate structures: fluxes that saturate, many channels, data that name no coefficient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from planting import LINE, PLANTED, family, fields, planted

from opsplit.errors import OpsplitWarning
from opsplit.grid import Grid
from opsplit.operators import Products
from opsplit.operators.spectral.filters import added_to
from opsplit.pretrain.auto import learn_structure
from opsplit.pretrain.candidates import MOST_TERMS, _grouped
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.library import atoms_of, inverses, saturated_fluxes, saturation
from opsplit.pretrain.sources import StoredSource
from opsplit.pretrain.structure import learn, used_terms
from opsplit.trajectories import Trajectories


def test_a_saturating_flux_is_found_with_its_denominator() -> None:
    """`q (u_x / (0.5 + u))_x`"""
    flux = replace(family((), ("0:x*0:over5000@x",)), max_step=0.001)
    values = torch.tensor([0.02, 0.02, 0.05, 0.05]).double()
    u = 1.2 + 0.3 * fields(4, 1, LINE, 3)[:, None].clamp(-3, 3)
    operators, frames = flux.prepare(values[:, None], LINE), [u]
    for _ in range(11):
        frames.append(flux.flow(operators, frames[-1], 0.05))
    times = torch.arange(12).double() * 0.05
    data = Trajectories(
        torch.cat(frames, 1)[:, :, None].reshape(4, 12, 1, 64).float(), times, LINE, ("u",),
        {"q": values},
    )  # fmt: skip
    one = learn(Evidence(data, 1.0), "q", [0, 1])
    texts = [text for kind in used_terms(one).values() for text in kind if "over" in text]
    factor = texts[0].partition("over")[2].partition("@")[0]
    assert added_to(f"over{factor}") == pytest.approx(0.5, rel=0.02)
    assert float(one.error.max()) < 1e-3


def test_a_reaction_with_a_neighbourhood_is_found_with_its_size() -> None:
    terms = ("0*0:bell1500",)
    data = planted({"r": (family(("",), terms), torch.tensor([1.0, -0.3]))}, frames=10)
    evidence = Evidence(data, 1.0)
    one = learn(evidence, "r", [0, 1, 2])
    (found,) = used_terms(one)["products"]
    size = int(found.partition("bell")[2]) * 1e-4 / evidence.units.wavenumber**2
    assert size == pytest.approx(0.15, rel=0.01) and float(one.error.max()) < 1e-3


def test_a_bracket_with_a_curvature_is_found() -> None:
    grid = Grid((24, 20), (6.0, 5.0))
    terms = ("0:x*0:y.lap", "0:y*0:x.lap")
    data = planted({"l": (family((), terms, ndim=2), torch.tensor([1e-3, -1e-3]))}, grid, frames=8)
    one = learn(Evidence(data, 1.0), "l", [0, 1, 2])
    assert used_terms(one)["products"].keys() == {*terms} and float(one.error.max()) < 1e-3


def test_a_film_whose_finest_modes_are_too_fast_is_found() -> None:
    """`-(u^3 u_xxx)_x`: no number of steps that is tried is enough for all modes of this grid."""
    grid, terms = Grid((96,), (7.0,)), ("0*0*0*0:x.lap@x",)
    film = replace(family((), terms), nonlinearity=Products(terms, dealias=1 / 4), max_step=0.002)
    u = 1 + 0.2 * fields(4, 1, grid, 3, modes=2)[None]
    operators, frames = film.prepare(torch.tensor([[-0.03]]).double(), grid), [u]
    for _ in range(7):
        frames.append(film.flow(operators, frames[-1], 0.1))
    known = {"f": torch.full((4,), 0.03).double()}
    times = torch.arange(8).double() * 0.1
    data = Trajectories(torch.cat(frames).transpose(0, 1).float(), times, grid, ("u",), known)
    one = learn(Evidence(data, 1.0), "f", [0])
    assert used_terms(one)["products"].keys() == {*terms} and float(one.error.max()) < 1e-3


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_structures_are_compared_in_groups_of_few_terms(channels: int) -> None:
    every = [saturation(channels, range(channels), x) for x in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)]
    every += [saturated_fluxes(channels, "xy", range(channels), x) for x in (0.1, 0.2, 0.4)]
    every += [inverses(channels, "xy", "helm", x) for x in (0.1, 0.2, 0.4)]
    groups = _grouped(every)
    assert [library for group in groups for library in group] == every
    assert all(len(group) == 1 or len(atoms_of(group)) <= MOST_TERMS for group in groups)


def test_changes_without_a_coefficient_are_said() -> None:
    both = {name: PLANTED[name] for name in ("diffusion", "transport")}
    data = planted({k: (f, torch.tensor(w)) for k, (f, w) in both.items()}, frames=8)
    source = StoredSource(replace(data, coefficients={"diffusion": data.coefficients["diffusion"]}))
    with pytest.warns(OpsplitWarning, match="12 of 24 trajectories change although"):
        structure = learn_structure(source, source.facts("lost"), quiet=True)
    assert "change although" in structure.report()["verdict"]
