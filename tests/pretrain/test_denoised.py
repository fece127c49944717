"""White noise in training frames: what is taken out of them, and what is learned in spite of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planting import LINE, PLANTED, VALUES, planted

from opsplit.grid import Grid
from opsplit.pretrain.denoised import WORTH, denoised, noise_share
from opsplit.pretrain.evidence import Evidence, white_noise
from opsplit.pretrain.structure import learn, mechanisms, used_terms
from opsplit.pretrain.verdict import is_weak
from opsplit.trajectories import Trajectories


def noisy(clean: Trajectories, size: float, seed: int = 1) -> Trajectories:
    """The same trajectories with white noise, as a share of the deviation of the fields."""
    draws = torch.Generator().manual_seed(seed)
    noise = torch.randn(clean.data.shape, generator=draws) * clean.data.std()
    return replace(clean, data=clean.data + size * noise)


def of(name: str, value: list[float], **more: float) -> Trajectories:
    return planted({"c": (PLANTED[name][0], torch.tensor(value))}, frames=40, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["diffusion", "transport", "reaction", "flux"])
def test_what_is_left_of_the_noise_is_small_and_known(name: str) -> None:
    data = of(name, PLANTED[name][1])
    shaken = noisy(data, 0.01)
    deviation = white_noise(shaken.data.double(), LINE)
    clean, left = denoised(shaken.data.double(), deviation, LINE)
    error = clean - data.data.double()
    assert float(error.std()) < 0.4 * float(deviation)
    assert 0.6 < float(left.std() / error.std()) < 2
    # The change of a step, which everything is learned from, gains most.
    steps = error.diff(dim=1).std(), (shaken.data - data.data).diff(dim=1).std()
    assert float(steps[0]) < 0.3 * float(steps[1])


def test_frames_of_nothing_but_noise_stay_as_they_are() -> None:
    u = torch.randn(3, 20, 2, 16, 12, generator=torch.Generator().manual_seed(1)).double()
    grid = Grid((16, 12), (1.0, 2.0))
    assert torch.equal(denoised(u, torch.ones(2).double(), grid)[0], u)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 100), points=st.integers(8, 33))
def test_noise_goes_where_there_is_little_to_be_seen(seed: int, points: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    grid = Grid((points, 12), (1.0, 2.0))
    noise = torch.randn(3, 20, 1, points, 12, generator=draws, dtype=torch.float64)
    wave = 3 * torch.linspace(0, 2 * torch.pi, 13, dtype=torch.float64)[:-1].cos()
    clean, _ = denoised(wave + noise, torch.ones(1).double(), grid)
    assert float((clean - wave).square().mean()) < 0.02


def test_clean_frames_stay_as_they_are() -> None:
    u = of("reaction", [1.0, -1.0]).data.double()
    for size in (0.0, 0.5 * WORTH):
        usual = u.diff(dim=1).square().mean().sqrt()
        deviation = size * usual.reshape(1) / 2**0.5
        assert noise_share(u, deviation) <= WORTH
        assert torch.equal(denoised(u, deviation, LINE)[0], u)
    short = u[:, :5]
    assert torch.equal(denoised(short, torch.ones(1).double(), LINE)[0], short)


@pytest.mark.parametrize(
    ("name", "terms"),
    [("diffusion", {"lap": 2}), ("flux", {"0*0@x": 1})],
)
def test_noise_that_hides_every_step_hides_no_structure(name: str, terms: dict[str, int]) -> None:
    """Noise of 1 % makes a large part of the change of a step here; weights are right to 3 %."""
    data = noisy(of(name, PLANTED[name][1], per_value=6), 0.01)
    assert noise_share(data.data.double(), white_noise(data.data.double(), LINE)) > 0.25
    evidence, values = Evidence(data, 1.0), torch.tensor(VALUES).double()
    one = learn(evidence, "c", mechanisms(data)["c"], values)
    held = {t: w for kind in used_terms(one).values() for t, w in kind.items()}
    assert held.keys() == terms.keys() and not is_weak(one)
    # Nothing is left that rich structures could explain, and they take the most time.
    assert not any(rival.name.startswith(("inverses", "means")) for rival in one.rivals)
    for (term, order), true in zip(terms.items(), PLANTED[name][1], strict=True):
        found = held[term][:, 0] / values / evidence.units.wavenumber**order
        assert float((found / true - 1).abs().max()) < 0.03
