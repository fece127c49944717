"""Structure by evidence: planted operators are found, whatever they are called or measured in."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planting import LINE, PLANTED, VALUES, family, fields, planted

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import Derivatives, Fronts, Products, Spectral
from opsplit.operators.spectral.filters import added_to, power_below
from opsplit.pretrain.auto import assemble, learn_structure, learned_terms
from opsplit.pretrain.candidates import Candidates
from opsplit.pretrain.config import preset_settings
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.library import atoms_of, stages
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.refine import errors
from opsplit.pretrain.regression import Moments, select
from opsplit.pretrain.sources import StoredSource
from opsplit.pretrain.structure import Learned, learn, mechanisms, used_terms
from opsplit.trajectories import Trajectories


def found(one: Learned) -> set[str]:
    return {term for kind in used_terms(one).values() for term in kind}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_operator_is_found_with_its_weights(name: str) -> None:
    operator, weights = PLANTED[name]
    data = planted({"q": (operator, torch.tensor(weights))})
    evidence = Evidence(data, 1.0)
    one = learn(evidence, "q", mechanisms(data)["q"])
    assert isinstance(operator.linear, Derivatives)
    linear = operator.linear.terms
    products = operator.nonlinearity.terms if isinstance(operator.nonlinearity, Products) else ()
    assert found(one) == {*linear, *products}
    assert float(one.error.max()) < 2e-3
    source = StoredSource(data)
    facts = replace(source.facts("any"), scale=1.0)
    structure = learn_structure(source, facts, quiet=True)
    assert structure.report()["verdict"].startswith("good")


@settings(max_examples=6)
@given(
    degree=st.integers(2, 3),
    output=st.integers(0, 1),
    ndim=st.integers(1, 2),
    seed=st.integers(0, 50),
)
def test_planted_monomials_of_two_channels_are_found(
    degree: int, output: int, ndim: int, seed: int
) -> None:
    draws = torch.Generator().manual_seed(seed)
    factors = torch.randint(2, (degree,), generator=draws).sort().values.tolist()
    term = "*".join(map(str, factors))
    grid = Grid((64,), (7.0,)) if ndim == 1 else Grid((16, 16), (5.0, 5.0))
    operator = family(("lap",), (term,), channels=2, ndim=ndim)
    weights = torch.zeros(4)
    weights[0] = weights[1] = 0.05
    weights[2 + output] = 0.3
    data = planted({"q": (operator, weights)}, grid, seed=seed)
    one = learn(Evidence(data, 1.0), "q", mechanisms(data)["q"])
    assert found(one) == {"lap", term}
    held = used_terms(one)["products"][term]
    assert bool((held[:, 1 - output] == 0).all())


@pytest.mark.parametrize("power", [1, 2])
def test_a_saturating_reaction_is_found_with_its_denominator(power: int) -> None:
    """`-q u / (0.5 + u^p)`, solved exactly: `u^p / p + 0.5 log u` falls by `q t`."""
    start = 1.2 + 0.35 * fields(6, 1, LINE, 3).clamp(-3, 3)
    q, dt = torch.tensor([0.5, 0.5, 1.0, 1.0, 2.0, 2.0]).double(), 0.05
    goal, frames = start**power / power + 0.5 * start.log(), []
    for frame in range(16):
        u = start if frame == 0 else frames[-1]
        left = goal - (q * dt * frame).reshape(-1, 1, 1)
        for _ in range(30):
            fall = u**power / power + 0.5 * u.log() - left
            u = u - fall / (u ** (power - 1) + 0.5 / u)
        frames.append(u)
    u = torch.stack(frames, 1).float()
    data = Trajectories(u, torch.arange(16).double() * dt, LINE, ("u",), {"q": q})
    one = learn(Evidence(data, 1.0), "q", mechanisms(data)["q"])
    bottoms = [added_to(text.partition(":")[2]) for text in found(one) if "over" in text]
    assert len(set(bottoms)) == 1 and bottoms[0] == pytest.approx(0.5, rel=0.005)
    assert power_below(next(t.partition(":")[2] for t in found(one) if "over" in t)) == power
    assert float(one.error.max()) < 1e-3


@pytest.mark.parametrize("kind", ["helm", "bihelm"])
def test_an_inverse_of_a_differential_operator_is_found_with_its_length(kind: str) -> None:
    """A flux smoothed as in waves of finite depth."""
    planted_family = family((), (f"0*0@x.{kind}1000",))
    data = planted({"a": (planted_family, torch.tensor([-0.3]))}, frames=12)
    source = StoredSource(data)
    facts = source.facts("waves")
    structure = learn_structure(source, facts, quiet=True)
    (one,) = structure.learned
    assert float(one.error.max()) < 1e-3
    words = learned_terms(structure, source, facts)["a"]
    inverse = "(1 - 0.1 d_xx)^-1" if kind == "helm" else "(1 + 0.1 d_xxxx)^-1"
    assert inverse in words.text and words.order is None


def test_an_inverse_is_preferred_to_many_linear_terms() -> None:
    """Fields of four modes: a few derivatives fit them as well, but no other fields."""
    data = planted({"c": (family(("x.helm2000",), ()), torch.tensor([-1.0]))}, frames=12)
    one = learn(Evidence(data, 1.0), "c", mechanisms(data)["c"])
    assert len(found(one)) == 1 and "helm" in next(iter(found(one)))


def test_few_environments_choose_terms_on_fine_grids_and_all_get_weights() -> None:
    data = planted({"r": (PLANTED["reaction"][0], torch.tensor([1.0, -1.0]))}, per_value=2)
    more = torch.cat([data.data] * 2)
    values = torch.cat([data.coefficients["r"], 2 * data.coefficients["r"]])
    evidence = Evidence(replace(data, data=more, coefficients={"r": values}), 1.0)
    candidates = Candidates(evidence, range(6), Limit())
    atoms = atoms_of(stages(1, 1)[1])
    assert candidates._choosing(atoms) == [0, 1, 2, 3, 4, 5]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opsplit.pretrain.candidates.WORK", 1)
        assert candidates._choosing(atoms) == [0, 2, 5]
        # Noise in the frames wants all of them.
        evidence.noise[0] += 1e-3
        assert len(candidates._choosing(atoms)) == 6
        evidence.noise[0] *= 1e-4
        right = next(c for c in candidates if c.texts == ("", "0*0*0"))
    assert right.weights[0].shape == (6, 2)


def test_mechanisms_have_their_own_structure_and_exact_zeros_elsewhere() -> None:
    data = planted({"r": (PLANTED["reaction"][0], torch.tensor([1.0, -1.0])),
                    "D": (PLANTED["diffusion"][0], torch.tensor([0.1]))})  # fmt: skip
    source = StoredSource(data)
    facts = source.facts("any")
    structure = learn_structure(source, facts, quiet=True)
    model = assemble(structure, source, facts, preset_settings("tiny", True)[0], "tiny")
    parameters = model.dictionary.parts[0].parameters()
    diffusion = data.coefficients["D"][data.environments()[1]] != 0
    assert int(parameters[diffusion].ne(0).sum(1).max()) == 1
    texts = {k: t.text for k, t in model.dictionary.terms.items()}
    assert texts == {"r": "u - u^3", "D": "0.1 u_xx"}
    # The decoder writes what the dictionary holds, from codes that were learned from data.
    written = model.disco.decoder(model.disco.codebook)
    torch.testing.assert_close(written, parameters, rtol=1e-4, atol=1e-6)


@settings(max_examples=5)
@given(length=st.floats(-6, 6), size=st.floats(-6, 6), time=st.floats(-6, 6))
def test_units_change_nothing_but_the_weights(length: float, size: float, time: float) -> None:
    """The same fields in other units of length, field and time have the same structure."""
    data = planted({"a": (PLANTED["flux"][0], torch.tensor([-0.3]))})
    scale, stretch, slow = 10.0**size, 10.0**length, 10.0**time
    other = Trajectories(
        data.data * scale, data.times * slow, Grid((64,), (7.0 * stretch,)), ("u",),
        data.coefficients,
    )  # fmt: skip
    base, same = (
        learn(Evidence(d, float(d.data.std())), "a", mechanisms(d)["a"]) for d in (data, other)
    )
    assert found(base) == found(same)
    torch.testing.assert_close(same.error, base.error, rtol=0.2, atol=1e-5)
    # In operator units only time is left: weights are rates.
    torch.testing.assert_close(same.parameters * slow, base.parameters, rtol=1e-3, atol=1e-9)


def test_a_mean_of_300_gives_the_same_operators() -> None:
    data = planted({"D": (PLANTED["diffusion"][0], torch.tensor([0.1])),
                    "c": (PLANTED["transport"][0], torch.tensor([-1.0]))})  # fmt: skip
    warm = replace(data, data=data.data.double() + 300)
    for name, environments in mechanisms(data).items():
        cold_one, warm_one = (
            learn(Evidence(d, float(d.data.std())), name, environments) for d in (data, warm)
        )
        assert found(cold_one) == found(warm_one)
        (a,), (b,) = (
            used_terms(one)["derivatives"].values() for one in (cold_one, warm_one)
        )  # fmt: skip
        torch.testing.assert_close(a, b, rtol=1e-3, atol=0)


def test_terms_that_hold_no_mean_are_printed_in_spite_of_one() -> None:
    data = planted({"h": (family(("",), ()), torch.tensor([-1.0]))})
    source = StoredSource(replace(data, data=data.data.double() + 300))
    facts = source.facts("warm")
    structure = learn_structure(source, facts, quiet=True)
    assert structure.evidence.units.centre
    assert learned_terms(structure, source, facts)["h"].text == "-u + 300"


def test_white_noise_of_a_thousandth_does_not_hide_the_structure() -> None:
    data = planted({"r": (PLANTED["reaction"][0], torch.tensor([1.0, -1.0]))}, frames=30)
    noise = torch.randn(data.data.shape, generator=torch.Generator().manual_seed(1))
    data = replace(data, data=data.data + 1e-3 * noise)
    one = learn(Evidence(data, 1.0), "r", mechanisms(data)["r"])
    assert found(one) == {"", "0*0*0"}


def test_terms_that_help_only_together_are_found() -> None:
    """Four terms whose sum is small: three of them, or fewer, say nothing about it."""
    draws = torch.Generator().manual_seed(3)
    large = torch.randn(3, 400, generator=draws, dtype=torch.float64)
    other, target = torch.randn(2, 400, generator=draws, dtype=torch.float64)
    features = torch.stack([*large, 0.1 * target - large.sum(0), other])
    halves = []
    for some in (slice(0, 200), slice(200, 400)):
        x, y = features[:, some], target[some]
        halves.append(Moments((x @ x.T)[None, None], (x @ y)[None, None], (y @ y)[None, None]))
    assert set(select(*halves, 0, range(5)).terms) == {0, 1, 2, 3}


def test_growth_is_bounded_beyond_what_the_data_hold() -> None:
    data = planted({"s": (PLANTED["growth"][0], torch.tensor([-0.3, 0.0]))}, frames=12)
    one = learn(Evidence(data, 1.0), "s", mechanisms(data)["s"])
    symbol = one.family.prepare(one.parameters, LINE).tensors["symbol"].real
    k = 2 * math.pi * 4 / 7
    fastest = 0.3 * k**2
    assert fastest * 0.9 < float(symbol.max()) < 20 * fastest


def test_data_without_structure_are_refused() -> None:
    u = torch.randn(6, 12, 1, 64, generator=torch.Generator().manual_seed(0))
    known = {"q": torch.tensor([1.0, 1, 1, 2, 2, 2]).double()}
    data = Trajectories(u, torch.arange(12).double(), LINE, ("u",), known)
    source = StoredSource(data)
    with pytest.raises(OpsplitError, match="None of the candidate terms explains anything"):
        learn_structure(source, source.facts("noise"), quiet=True)


def test_constant_fields_and_one_environment_have_clear_outcomes() -> None:
    still = Trajectories(
        torch.ones(3, 8, 1, 64), torch.arange(8).double(), LINE, ("u",),
        {"q": torch.ones(3).double()},
    )  # fmt: skip
    source = StoredSource(still)
    with pytest.raises(OpsplitError, match="nothing to learn"):
        learn_structure(source, source.facts("still"), quiet=True)
    moving = planted({"D": (PLANTED["diffusion"][0], torch.tensor([0.1]))})[:4]
    source = StoredSource(moving)
    verdict = learn_structure(source, source.facts("once"), quiet=True).report()["verdict"]
    assert verdict == (
        "good for compositions; D: one value only, and others are taken to act in proportion"
    )


def test_a_mechanism_whose_fields_stay_is_weak() -> None:
    data = planted({"r": (PLANTED["reaction"][0], torch.tensor([1.0, -1.0])),
                    "D": (PLANTED["diffusion"][0], torch.tensor([0.1]))})  # fmt: skip
    data.data[data.coefficients["D"] != 0] = 0.5
    source = StoredSource(data)
    report = learn_structure(source, source.facts("half"), quiet=True).report()
    assert report["weak"] == ["D"]
    # It has no operator that another one could be like.
    assert "do the same" not in report["verdict"]


def test_mechanisms_that_do_the_same_are_named() -> None:
    data = planted({"a": (PLANTED["diffusion"][0], torch.tensor([0.1])),
                    "b": (PLANTED["diffusion"][0], torch.tensor([0.3])),
                    "c": (PLANTED["transport"][0], torch.tensor([-1.0]))})  # fmt: skip
    source = StoredSource(data)
    report = learn_structure(source, source.facts("same"), quiet=True).report()
    assert report["verdict"].startswith("good for compositions; a, b do the same")


def test_too_few_frames_are_refused() -> None:
    short = Trajectories(torch.randn(2, 4, 1, 64), torch.arange(4).double(), LINE)
    with pytest.raises(OpsplitError, match="at least 6 frames"):
        learn_structure(StoredSource(short), StoredSource(short).facts("x"), quiet=True)


def test_several_active_coefficients_are_trained_and_said() -> None:
    data = planted({"r": (PLANTED["reaction"][0], torch.tensor([1.0, -1.0]))})
    both = replace(
        data, coefficients={"r": data.coefficients["r"], "q": 2 * data.coefficients["r"]}
    )
    source = StoredSource(both)
    report = learn_structure(source, source.facts("mixed"), quiet=True).report()
    assert report["verdict"].startswith("good for compositions; r+q act together")


@settings(max_examples=2)
@given(seed=st.integers(0, 1000))
def test_mechanisms_that_always_act_together_are_told_apart(seed: int) -> None:
    """`W = C B`: coefficients that vary independently give every mechanism its own operator."""
    operator = family(("", "lap", "x"), ("0*0*0",))
    draws = torch.Generator().manual_seed(seed)
    values = 0.3 + torch.rand(6, 3, generator=draws, dtype=torch.float64)
    unit = torch.tensor([[1.0, 0, 0, -1], [0, 0.1, 0, 0], [0, 0, -1, 0]]).double()
    mixed = [
        planted({"q": (operator, row @ unit)}, seed=seed + 10 * i)[8:]
        for i, row in enumerate(values)
    ]
    names = ("r", "D", "c")
    known = {k: values[:, i].repeat_interleave(4) for i, k in enumerate(names)}
    joined = torch.cat([one.data for one in mixed])
    source = StoredSource(replace(mixed[0], data=joined, coefficients=known))
    facts = source.facts("mixed")
    structure = learn_structure(source, facts, quiet=True)
    report = structure.report()
    assert "so they were told apart" in report["verdict"] and not report["mixed"]
    model = assemble(structure, source, facts, preset_settings("tiny", True)[0], "tiny")
    table = np.stack([model.dictionary.coefficients[k] for k in names], 1)
    assert ((table != 0).sum(1) == 1).all() and len(table) == 18
    texts = {k: t.text for k, t in model.dictionary.terms.items()}
    assert texts == {"r": "u - u^3", "D": "0.1 u_xx", "c": "-u_x"}


def test_a_flux_that_makes_fronts_is_followed_beyond_them() -> None:
    """Trajectories that steepen into shocks: the flux is learned before, and followed after."""
    terms = ("0*0@x",)
    solver = Spectral(1, 1, None, Derivatives(("lap",), 0.0), Fronts(terms), 1.0)
    data = planted({"a": (solver, torch.tensor([0.0, -0.5]))}, dt=0.05, frames=60)
    evidence = Evidence(data, 1.0)
    assert any(len(pieces) for pieces in evidence.fronts)
    one = learn(evidence, "a", (0, 1, 2), torch.tensor(VALUES).double())
    assert isinstance(one.family.nonlinearity, Fronts) and found(one) == {"0*0@x"}
    late = evidence.front_pairs((0, 1, 2), seed=9)
    left = errors(one.family, one.parameters[late[0]], late[1], data.grid)
    smooth = replace(one.family, nonlinearity=Products(terms, alias_reactions=True))
    usual = errors(smooth, one.parameters[late[0]], late[1], data.grid)
    assert float(left.max()) < 0.05 and float(left.mean()) < float(usual.mean()) / 5
