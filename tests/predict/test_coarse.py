"""Large windows: a coarse screening and a search at full size give the pick of the whole search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from opsplit import Grid, OperatorSplitter, Trajectories
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import no_warnings
from opsplit.model import Model, load_model
from opsplit.operators import Derivatives, Products, Spectral
from opsplit.physics.gray_scott import FEEDS, KILLS, GrayScott
from opsplit.predict import coarse, questions
from opsplit.predict.questions import Asking, Problem

CUBE = Grid((20, 20, 20), (20 / 64,) * 3)


@pytest.fixture(scope="module")
def cube() -> Trajectories:
    return GrayScott(grid=CUBE).generate("GS", 1, seed=5, frames=14)


@pytest.fixture(scope="module")
def model() -> Model:
    """The bundled model's mechanisms on a plane with exact weights: 40 operators."""
    held = load_model("gray-scott")
    family = Spectral(
        2, 2, 1.001, Derivatives(("lap", ""), 0.1), Products(("0*1*1", "@"), alias_reactions=True)
    )
    rows = [[2e-5, 0, 1e-5, -k, 0, 0, 0, 0] for k in KILLS]
    rows += [[0, -f, 0, -f, -1, f, 1, 0] for f in FEEDS]
    known = {name: v.numpy() for name, v in GrayScott().environments().items()}
    dictionary = OperatorDictionary(
        (Part(family, torch.tensor(rows)),), known, terms=held.dictionary.terms
    )
    return Model(held.disco, dictionary)


def fit(model: Model, observed: Trajectories) -> OperatorSplitter:
    with no_warnings():
        return OperatorSplitter(model, refinement=2).fit(observed)


def test_the_same_pick_as_that_of_the_whole_search(
    model: Model, cube: Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed, future = cube.windows(10, 0), cube.windows(4, 10)
    whole = fit(model, observed)
    seen = []

    def shortlist(problem: Problem) -> Asking[object]:
        found = yield from coarse.shortlist(problem)
        seen.append(found)
        return found

    monkeypatch.setattr(questions, "LARGE", 1000)
    monkeypatch.setattr(coarse, "COARSE", 3000)
    monkeypatch.setattr("opsplit.predict.explain.shortlist", shortlist)
    quick = fit(model, observed)
    (pool, _), *_ = seen
    assert 2 <= len(pool) < len(model.dictionary)
    assert quick.composition_.label == whole.composition_.label
    true = {name: float(v[0]) for name, v in cube.coefficients.items()}
    assert quick.coefficients_ == pytest.approx(true, rel=2e-3)
    truth = future.data[0]
    missed = quick.predict(4).data[0] - truth
    assert float(missed.norm() / truth.norm()) < 1e-4


def test_flows_in_space_are_those_on_a_plane_of_a_flat_field(model: Model) -> None:
    """A field that does not depend on z evolves as it does on the plane."""
    plane = GrayScott(grid=Grid((16, 16), (0.25, 0.25)))
    u = plane.initial_fields(1, torch.Generator().manual_seed(1))[:, None].float()
    index = torch.tensor([3, 30])
    both = u.expand(2, *u.shape[1:])
    flat = model.dictionary.prepare(plane.grid, u).flow(index, both, 1.0)
    space = Grid((16, 16, 6), (0.25, 0.25, 0.1))
    deep = both[..., None].expand(*both.shape, 6)
    found = model.lift(3).dictionary.prepare(space, u).flow(index, deep, 1.0)
    torch.testing.assert_close(found, flat[..., None].expand_as(found), atol=1e-5, rtol=1e-5)


def test_representatives_are_even_and_neighbours_are_near() -> None:
    values = np.concatenate([np.linspace(0.1, 1, 50), -np.linspace(0.1, 1, 50)])
    line = OperatorDictionary.analytic(
        1, 1, [{"advection": float(c)} for c in values], {"c": values.tolist()}
    )
    groups = coarse.mechanisms(line)
    assert [len(g) for g in groups] == [50, 50]
    some = coarse.representatives(line, groups[1])
    assert len(some) == coarse.REPRESENTATIVES and some[0] == 50 and some[-1] == 99
    near = coarse._beside(line, groups, 70)
    assert near == [68, 69, 70, 71, 72]


def test_operators_that_are_bound_to_a_grid_keep_it() -> None:
    grid = Grid((64, 64, 64), (1.0, 1.0, 1.0))
    model = load_model("gray-scott", "unet")
    assert coarse.coarse_grid(model.dictionary, grid) is grid
    free = load_model("gray-scott").dictionary
    small = coarse.coarse_grid(free, grid)
    assert small == replace(grid, shape=(32, 32, 32))
