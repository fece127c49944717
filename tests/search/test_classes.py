"""Operators that differ in strength alone count once, and flows share what they can."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import opsplit
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.dictionary.multiples import Multiples
from opsplit.grid import Grid
from opsplit.operators import Linear
from opsplit.physics import get_physics
from opsplit.predict.questions import splitting_errors
from opsplit.search import Composition, Objective
from opsplit.search.classes import Classes
from opsplit.search.estimate import Mechanisms
from opsplit.splitting import split_step, strang

GRID, ODD, DT = Grid((32,), (16.0,)), Grid((31,), (16.0,)), 0.1


def speeds(values: list[float], diffusivities: list[float]) -> OperatorDictionary:
    terms = [{"advection": v} for v in values] + [{"diffusion": v} for v in diffusivities]
    known = {
        "c": [*values, *[0.0] * len(diffusivities)],
        "D": [*[0.0] * len(values), *diffusivities],
    }
    return OperatorDictionary.analytic(1, 1, terms, known)


def classes_of(dictionary: OperatorDictionary, free: bool = True) -> Classes:
    multiples = dictionary.prepare(GRID, torch.zeros(1)).multiples
    mechanisms = Mechanisms.of(dictionary.coefficients, len(dictionary))
    return Classes.of(multiples, mechanisms, free)


@given(
    values=st.lists(st.floats(0.01, 4.0), min_size=1, max_size=8, unique=True),
    strength=st.floats(1e-3, 3.0),
)
def test_the_member_has_the_strength_nearest_to_one(values: list[float], strength: float) -> None:
    n = len(values)
    factor = torch.tensor(values, dtype=torch.float64)
    multiples = Multiples(torch.tensor([0]), torch.zeros(n, dtype=torch.long), factor)
    found = Classes.of(multiples, Mechanisms(np.array(values)[:, None], ("c",)), free=True)
    assert len(found) == 1 and values[found.heads[0]] == max(values)
    member, own = found.member(0, strength)
    assert own * values[member] == pytest.approx(strength * max(values))
    distance = np.abs(np.log(strength * max(values) / np.array(values)))
    assert abs(np.log(own)) == pytest.approx(distance.min(), abs=1e-9)


def test_multiples_of_one_mechanism_are_one_class() -> None:
    dictionary = speeds([0.2, 1.0, 0.5], [0.1, 0.4])
    assert classes_of(dictionary).group.tolist() == [0, 0, 0, 1, 1]
    assert classes_of(dictionary).heads.tolist() == [1, 4]
    assert classes_of(dictionary, free=False).group.tolist() == [0, 1, 2, 3, 4]


def test_the_finalists_of_a_search_explain_differently() -> None:
    data = get_physics("advection-diffusion").generate("A+D", 1, seed=51, frames=16)
    found = opsplit.OperatorSplitter("advection-diffusion").fit(
        data.data[0], data.dt, data.grid.extent
    )
    sets = [c for c in found.search_result_.ranked if len(c) == 2]
    kinds = {tuple(sorted(k for k, v in c.coefficients.items() if v)) for c in sets}
    assert len(kinds) == len(sets) == 1
    # Of the many speeds that explain the frames, one that needs hardly any strength stands.
    assert found.composition_.strengths == pytest.approx((1.0, 1.0), abs=0.1)


def states(seed: int, n: int) -> torch.Tensor:
    """On an odd number of points: the last mode of an even one has no phase."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, 1, 31, generator=draw, dtype=torch.float64)


def learned() -> OperatorDictionary:
    """Two speeds and two diffusivities of the bundled model, whose flows multiply modes."""
    whole = opsplit.load_model("advection-diffusion").dictionary
    c, d = (np.flatnonzero(whole.coefficients[name])[[3, 40]] for name in ("c", "D"))
    return whole.select(np.concatenate([c, d]))


@given(seed=st.integers(0, 99), refinement=st.integers(1, 5))
def test_flows_that_share_transforms_are_the_flows_one_by_one(seed: int, refinement: int) -> None:
    u = states(seed, 2)
    objective = Objective(learned(), u[0], ODD, DT)
    sets = torch.tensor([[0, 2, 3], [1, 3, 2]])
    strengths = torch.tensor([[1.0, 0.5, 2.0], [0.3, 1.0, 1.0]], dtype=torch.float64)
    shared = objective.refined(refinement).step(sets, u, strengths, duration=DT)

    def alone(i: int) -> object:
        return lambda v, h: objective.operators.flow(sets[:, i], v, strengths[:, i] * h)

    flows = [alone(i) for i in range(3)]
    wanted = u
    for _ in range(refinement):
        wanted = strang(flows, wanted, DT / refinement)  # type: ignore[arg-type]
    torch.testing.assert_close(shared, wanted, rtol=1e-9, atol=1e-10)
    merged = split_step(flows, u, DT, "strang", refinement)  # type: ignore[arg-type]
    torch.testing.assert_close(merged, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shape", [(8, 6), (7, 6), (8, 5)])
def test_lines_along_an_axis_are_multiplied_as_they_flow(shape: tuple[int, int]) -> None:
    """Transport along every axis of a plane, against the same lines by themselves."""
    plane = learned().lift(2)
    draw = torch.Generator().manual_seed(1)
    u = torch.randn(1, 2, 1, *shape, generator=draw, dtype=torch.float64)
    grid = Grid(shape, (8.0, 6.0))
    operators = plane.prepare(grid, u)
    line = learned()
    for i, name in enumerate(("c_x", "c_y")):
        place = int(np.flatnonzero(plane.coefficients[name])[0])
        found = operators.flow(torch.tensor([place]), u, 0.3)
        lines = u.movedim(3 + i, -1)
        own = line.prepare(Grid((shape[i],), (grid.extent[i],)), u)
        flat = lines.reshape(1, -1, 1, shape[i])
        wanted = own.flow(torch.tensor([0]), flat, 0.3).reshape(lines.shape).movedim(-1, 3 + i)
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


def test_splitting_errors_of_windows_are_those_of_each() -> None:
    dictionary = speeds([0.2, 1.0], [0.1, 0.4])
    u = states(5, 3)
    objectives = [Objective(dictionary, one, ODD, DT) for one in u]
    joint = Objective(dictionary, u, ODD, DT)
    parts = [joint.only([i]) for i in range(3)]
    picks = [Composition.of(dictionary, (0, 2), 0.1, (1.0, 0.5 + i)) for i in range(3)]
    alone = [splitting_errors([o], [p])[0] for o, p in zip(objectives, picks, strict=True)]
    assert splitting_errors(parts, picks) == pytest.approx(alone, rel=1e-6, abs=1e-14)


def test_operators_that_were_changed_are_prepared_again() -> None:
    family = Linear(1, 1)
    codes = family.parameters(advection=0.5).double()
    dictionary = OperatorDictionary((Part(family, codes),), {"c": np.array([0.5])})
    u = states(7, 1)
    before = dictionary.prepare(ODD, u)
    assert dictionary.prepare(ODD, u) is before
    assert dictionary.renamed({"c": np.array([5.0])}).prepare(ODD, u) is before
    codes *= 2
    after = dictionary.prepare(ODD, u)
    index = torch.tensor([0])
    wanted = before.flow(index, u, 0.2)
    torch.testing.assert_close(after.flow(index, u, 0.1), wanted, rtol=1e-9, atol=1e-10)
