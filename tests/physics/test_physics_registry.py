"""A new equation is one class and one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.physics import PHYSICS, Physics, get_physics
from opsplit.physics.base import Coefficients
from opsplit.terms import Term


@dataclass(frozen=True)
class Decay(Physics):
    """u_t = -a u."""

    name = "decay"
    title = "decay"
    channels = ("u",)
    terms: ClassVar[dict[str, Term]] = {"a": Term("-u", order=0, degree=1)}
    splits: ClassVar[dict[str, str]] = {"train": "a in [0, 1]"}
    grid: Grid = field(default_factory=lambda: Grid((16,), (1.0,)))
    frames: int = 5
    dt: float = 0.1

    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        return {"a": torch.rand(n, generator=generator, dtype=torch.float64)}

    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        return torch.randn(n, 1, 16, generator=generator, dtype=torch.float64)

    def solve(self, initial: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        rate = -coefficients["a"][:, None] * times
        return initial[:, None] * torch.exp(rate)[..., None, None]

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        return {"a": -u}


def test_an_added_equation_is_simulated_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PHYSICS, "_own", dict(PHYSICS._own))
    monkeypatch.setattr(PHYSICS, "_loaded", dict(PHYSICS._loaded))
    PHYSICS.add("decay", Decay)
    assert list(PHYSICS)[-1] == "decay"
    made = get_physics("decay").generate("train", 2, seed=0, given={"a": 0.5})
    assert made.coefficients["a"].tolist() == [0.5, 0.5]
    torch.testing.assert_close(
        made.data[:, 1], made.data[:, 0] * torch.exp(torch.tensor(-0.05)), rtol=1e-5, atol=1e-7
    )
    assert get_physics("decay").coarse() == get_physics("decay")


def test_a_given_coefficient_must_exist() -> None:
    with pytest.raises(OpsplitError, match="no coefficient 'b' in the split 'train'; choose from"):
        Decay().generate("train", 1, seed=0, given={"b": 1.0})
