"""A time budget bounds the search for a structure; noise is told from missing terms."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planting import LINE, PLANTED, VALUES, family, fields, planted

from opsplit import OperatorSplitter, Trajectories, pretrain
from opsplit.model import Model
from opsplit.pretrain import Budget, Execution
from opsplit.pretrain.auto import (
    Structure,
    assemble,
    learn_structure,
)
from opsplit.pretrain.config import preset_settings
from opsplit.pretrain.evidence import Evidence, white_noise
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.refine import errors
from opsplit.pretrain.sources import Facts, StoredSource
from opsplit.pretrain.structure import learn, mechanisms, used_terms
from opsplit.pretrain.verdict import is_weak, structure_words


class Ticking:
    """A clock that moves on by itself whenever somebody looks."""

    def __init__(self, tick: float) -> None:
        self.tick, self.time = tick, 0.0

    def __call__(self) -> float:
        self.time += self.tick
        return self.time


@pytest.fixture(scope="module")
def slopes() -> Trajectories:
    """A mechanism that only the richest structures explain, and a simple one after it."""
    return planted({"q": (PLANTED["slope"][0], torch.tensor([-0.1])),
                    "D": (PLANTED["diffusion"][0], torch.tensor([0.1]))})  # fmt: skip


@given(seconds=st.floats(0, 1e6), share=st.floats(0, 1))
def test_parts_of_a_limit_end_inside_it(seconds: float, share: float) -> None:
    whole = Limit(seconds, lambda: 5.0)
    part = whole.part(share)
    assert part.end <= whole.end * (1 + 1e-12)
    assert math.isinf(Limit().part(share).end) and not Limit().over()
    assert not whole.hit and not part.hit
    assert whole.over() == whole.hit == (whole.end <= 5.0)
    assert part.over() == part.hit == (part.end <= 5.0)


def test_a_clock_that_is_over_leaves_a_complete_model(slopes: Trajectories, tmp_path: Path) -> None:
    source = StoredSource(slopes)
    facts = source.facts("any")
    limit = Limit(0.0, Ticking(1.0))
    structure = learn_structure(source, facts, quiet=True, limit=limit)
    names = [one.mechanism for one in structure.learned]
    assert names == ["q", "D"]
    hurried = structure.learned[0]
    assert not hurried.complete and len(hurried.rivals) == 1
    report = structure.report()
    said = structure_words(report)
    assert "the time was over before all structures were tried" in said
    # What could be learned without time is there, and says how bad it is.
    assert report["weak"] == ["q"] and "weak: q" in said
    assert float(structure.learned[1].error.max()) < 0.05
    model = assemble(structure, source, facts, preset_settings("tiny", True)[0], "tiny")
    model.save(tmp_path)
    assert len(Model.load(tmp_path).dictionary) == 2 * len(VALUES)


def test_a_clock_that_is_not_hit_changes_nothing(slopes: Trajectories) -> None:
    evidence = Evidence(slopes, 1.0)
    environments = mechanisms(slopes)["q"]
    free = learn(evidence, "q", environments)
    timed = learn(evidence, "q", environments, limit=Limit(1e9, Ticking(1.0)))
    assert free.complete and timed.complete and free.rivals == timed.rivals
    assert torch.equal(free.parameters, timed.parameters) and torch.equal(free.error, timed.error)
    assert set(used_terms(free)["products"]) == {"0:x*0:x"}


def test_the_time_of_the_structure_counts_for_the_whole_run(
    slopes: Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No minute is left for the encoder after a structure that took them all."""
    given: list[float] = []

    def noted(
        source: StoredSource, facts: Facts, quiet: bool, limit: Limit, early: object
    ) -> Structure:  # fmt: skip
        given.append(limit.left())
        return replace(learn_structure(source, facts, quiet, limit), seconds=600.0)

    monkeypatch.setattr("opsplit.pretrain.run.learn_structure", noted)
    training = replace(preset_settings("tiny", stored=True)[1], budget=Budget(minutes=0.5))
    alone = Execution(threads=1, quiet=True)
    model = pretrain(slopes, tmp_path, training=training, preset="tiny", execution=alone)
    assert given[0] <= 0.9 * 30
    # A hundredth of a minute is left, on a fast machine a hundred steps.
    assert model.metrics["steps"] < 500, "the encoder took a time of its own"


@settings(max_examples=10)
@given(size=st.floats(1e-3, 0.1), seed=st.integers(0, 100))
def test_white_noise_is_measured_and_a_signal_is_none(size: float, seed: int) -> None:
    moving = torch.arange(20).double()[:, None] * 0.02
    u = fields(2, 1, LINE, seed)[:, None].repeat(1, 20, 1, 1) * (1 + moving[..., None])
    assert float(white_noise(u, LINE)) < 1e-6
    draws = torch.Generator().manual_seed(seed)
    noisy = u + size * torch.randn(u.shape, generator=draws, dtype=u.dtype)
    assert float(white_noise(noisy, LINE)) == pytest.approx(size, rel=0.15)


def test_noise_is_not_taken_for_missing_terms_nor_missing_terms_for_noise() -> None:
    clean = planted({"D": (PLANTED["diffusion"][0], torch.tensor([0.1]))})
    noise = torch.randn(clean.data.shape, generator=torch.Generator().manual_seed(1))
    noisy = replace(clean, data=clean.data + 0.02 * noise)
    one = learn(Evidence(noisy, 1.0), "D", mechanisms(noisy)["D"])
    assert float(one.error.mean()) > 0.05 and not is_weak(one)
    # The same error by another cause: the fields follow no equation of motion.
    drift = (
        torch.linspace(0, 1, 20)[:, None, None] * fields(len(clean), 1, LINE, 9).float()[:, None]
    )
    forced = replace(clean, data=clean.data + drift)
    assert is_weak(learn(Evidence(forced, 1.0), "D", mechanisms(forced)["D"]))


def test_noise_does_not_make_a_structure_that_lacks_a_term_seem_as_good() -> None:
    """With noise in both, errors are of one size; without it, one leaves much and one nothing."""
    clean = planted({"h": (family(("",), ("@",)), torch.tensor([-1.0, 0.22]))}, per_value=3)
    noise = torch.randn(clean.data.shape, generator=torch.Generator().manual_seed(1))
    noisy = replace(clean, data=clean.data + 0.1 * noise)
    one = learn(Evidence(noisy, 1.0), "h", mechanisms(noisy)["h"])
    lacking, whole, *_ = one.rivals
    assert lacking.error < 1.5 * whole.error and len(lacking.terms) < len(whole.terms)
    assert set(used_terms(one)) == {"derivatives", "products"} and not is_weak(one)


def test_errors_of_a_step_that_grow_make_a_mechanism_weak() -> None:
    """A rate g that is wrong by a share d: a step misses d of its change, a forecast until T
    `(exp(d g T) - 1) / (1 - exp(-g T))`."""
    data = planted({"g": (family(("",), ()), torch.tensor([10.0]))})
    evidence, environments = Evidence(data, 1.0), mechanisms(data)["g"]
    one = learn(evidence, "g", environments)
    assert float(one.lasting.max()) < 1e-5 and not is_weak(one)
    share, rate = 0.01, 10 * torch.tensor(VALUES).double() * 19 * data.dt
    found = errors(
        one.family, (1 + share) * one.parameters, evidence.whole_pairs(environments), data.grid
    )
    expected = ((share * rate).exp() - 1) / (1 - (-rate).exp())
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0)
    assert is_weak(replace(one, lasting=torch.tensor([0.01, 0.02, 0.2])))


def test_weak_operators_never_count_as_explained(slopes: Trajectories) -> None:
    source = StoredSource(slopes)
    facts = source.facts("any")
    structure = learn_structure(source, facts, quiet=True)
    made = assemble(structure, source, facts, preset_settings("tiny", True)[0], "tiny")
    window = slopes.data[0]
    sure = OperatorSplitter(made).fit(window[:16], dt=slopes.dt, extent=7.0)
    assert sure.status_ == "explained" and sure.coefficients_["q"]
    report = {**made.metrics["structure"], "weak": ["q"]}
    doubtful = replace(made, metrics={**made.metrics, "structure": report})
    with pytest.warns(match="weak"):
        unsure = OperatorSplitter(doubtful).fit(window[:16], dt=slopes.dt, extent=7.0)
    assert unsure.status_ == "partly" and "weak operators of q" in unsure.verdict_.text
    assert not unsure.coefficient_intervals_
    later = unsure.verdict_.on_future(window[16:], window[16:], window[15])
    assert later.level == "partly"
