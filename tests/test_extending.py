"""CONTRIBUTING.md, "Where does a new X go?": a toy of every kind is added and used end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import opsplit
from opsplit import registry
from opsplit.benchmark.baselines import BASELINES, Method, Outcome
from opsplit.benchmark.methods import make_method
from opsplit.dictionary import OperatorDictionary
from opsplit.fourier import field_of, spectrum_of
from opsplit.grid import Grid
from opsplit.io.arrays import of_array
from opsplit.io.assemble import Flags, Raw
from opsplit.io.read import READERS
from opsplit.operators.family import (
    FAMILIES,
    Axes,
    Channels,
    Initialisation,
    OperatorFamily,
    Prepared,
    per_operator,
)
from opsplit.operators.spectral import NONLINEARITIES, Nonlinearity, Spectral
from opsplit.physics import PHYSICS, Physics, get_physics
from opsplit.registry import Registry
from opsplit.search.objective import Objective
from opsplit.search.registry import SEARCHES
from opsplit.search.strategy import Record, Report, Strategy, Tried
from opsplit.terms import Term
from opsplit.trajectories import Trajectories

LENGTH, POINTS, DT = 16.0, 64, 0.1
REGISTRIES: tuple[Registry[Any], ...] = (
    PHYSICS, FAMILIES, NONLINEARITIES, SEARCHES, READERS, BASELINES,
)  # fmt: skip


@pytest.fixture(autouse=True)
def toys_leave(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test adds to the registries is gone after it."""
    for one in REGISTRIES:
        for name in ("_own", "_loaded"):
            monkeypatch.setattr(one, name, dict(getattr(one, name)))
        monkeypatch.setattr(one, "_found", None)
    yield


@dataclass(frozen=True)
class Decay(Physics):
    """u_t = -r u + D u_xx, exactly in Fourier space."""

    name = "decay"
    title = "decay with diffusion"
    channels = ("u",)
    terms: ClassVar[dict[str, Term]] = {
        "r": Term("-u", order=0, degree=1),
        "D": Term("u_xx", order=2, degree=1),
    }
    splits: ClassVar[dict[str, str]] = {"train": "one of both", "r+D": "both"}
    homogeneous = True

    grid: Grid = field(default_factory=lambda: Grid((POINTS,), (LENGTH,)))
    frames: int = 40
    dt: float = DT

    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        drawn = 0.1 + 0.9 * torch.rand(2, n, generator=generator, dtype=torch.float64)
        if split == "train":
            drawn = drawn * torch.nn.functional.one_hot(torch.arange(n) % 2).T
        return {"r": drawn[0], "D": drawn[1]}

    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        modes = torch.randn(n, 1, POINTS // 2 + 1, generator=generator, dtype=torch.complex128)
        decay = torch.exp(-torch.arange(POINTS // 2 + 1) / 2)
        return torch.fft.irfft(POINTS * modes * decay, n=POINTS)

    def solve(self, initial: Tensor, coefficients: Any, times: Tensor) -> Tensor:
        k = 2 * torch.pi * torch.fft.rfftfreq(POINTS, LENGTH / POINTS, dtype=torch.float64)
        r, D = (coefficients[name][:, None, None, None] for name in ("r", "D"))
        t = times.expand(len(initial), times.shape[-1])[:, :, None, None]
        return torch.fft.irfft(torch.fft.rfft(initial)[:, None] * torch.exp(-(r + D * k**2) * t))

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        k = 2 * torch.pi * torch.fft.rfftfreq(POINTS, LENGTH / POINTS, dtype=u.dtype)
        return {"r": -u, "D": torch.fft.irfft(-(k**2) * torch.fft.rfft(u))}


def known_terms() -> OperatorDictionary:
    """Exact operators of decay and diffusion with unit coefficients."""
    return OperatorDictionary.analytic(
        1,
        1,
        [{"reaction": -1.0}, {"diffusion": 1.0}],
        {"r": [1.0, 0.0], "D": [0.0, 1.0]},
    )


def observed(split: str = "r+D", seed: int = 3) -> Trajectories:
    return Decay().generate(split, 1, seed)


def test_an_equation(cli: Callable[[str], str], tmp_path: Path) -> None:
    PHYSICS.add("decay", Decay)
    assert "decay" in cli("info")
    cli(f"generate decay --split r+D --n 2 --seed 3 --out {tmp_path / 'data'}")
    (file,) = [p for p in (tmp_path / "data").rglob("*") if p.suffix in (".hdf5", ".npz")]
    stored = opsplit.read(file).load()
    assert set(stored.coefficients) == {"r", "D"}
    assert torch.equal(stored.data, get_physics("decay").generate("r+D", 2, 3).data)

    s = opsplit.OperatorSplitter("advection-diffusion")
    s.fit(stored.data[0, :16], dt=DT, extent=LENGTH, dictionary=known_terms())
    for name, values in stored.coefficients.items():
        assert s.coefficients_[name] == pytest.approx(float(values[0]), rel=1e-3)


@dataclass(frozen=True)
class Relaxation(OperatorFamily):
    """u_t = q (mean(u) - u): every point approaches the mean."""

    kind = "relaxation"

    channels: Channels = 1
    ndim: Axes = 1

    @property
    def n_parameters(self) -> int:
        return 1

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        return Initialisation(torch.zeros(1), torch.ones(1), 10 * torch.ones(1))

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        return Prepared({"q": parameters[:, :, None, None]}, grid)

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        mean = u.mean(-1, keepdim=True)
        kept = torch.exp(-prepared.tensors["q"].to(u) * per_operator(duration, u))
        return mean + kept * (u - mean)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return prepared.tensors["q"].to(u) * (u.mean(-1, keepdim=True) - u)


def test_an_operator_family(tmp_path: Path) -> None:
    FAMILIES.add("relaxation", Relaxation)
    truth = observed("r+D")
    u = truth.data[0, 0, 0].double()
    t = DT * torch.arange(40, dtype=torch.float64)[:, None]
    frames = u.mean() + torch.exp(-0.8 * t) * (u - u.mean()) + 1.0  # the mean is not zero
    made = known_terms().add(Relaxation(), torch.ones(1, 1), coefficients={"q": 1.0})
    made.save(tmp_path)
    dictionary = OperatorDictionary.load(tmp_path)
    assert dictionary.parts[-1].family == Relaxation()

    s = opsplit.OperatorSplitter("advection-diffusion")
    s.fit(frames[:16], dt=DT, extent=LENGTH, dictionary=dictionary)
    assert s.coefficients_["q"] == pytest.approx(0.8, rel=1e-3)
    assert -s.score(frames[16:]) < 1e-4


@dataclass(frozen=True)
class Square(Nonlinearity):
    """w u^2 in every point."""

    kind = "square"

    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        return {"weight": (channels,)}

    def start(
        self, name: str, shape: tuple[int, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, float]:
        return torch.zeros(shape), torch.ones(shape), 1.0

    def prepare(self, weights: Any, grid: Grid, unit: float) -> dict[str, Tensor]:
        return {"weight": weights["weight"]}

    def products(self, tensors: Any, spectrum: Tensor, grid: Grid) -> Tensor:
        u = field_of(spectrum, grid.shape)
        weight = tensors["weight"].reshape(len(u), 1, -1, *[1] * grid.ndim)
        return spectrum_of(weight * u.square(), grid.ndim)

    def fields(self, channels: int, ndim: int) -> int:
        return channels


def test_a_nonlinearity(tmp_path: Path) -> None:
    NONLINEARITIES.add("square", Square)
    family = Spectral(nonlinearity=Square(), max_step=DT / 4)
    assert OperatorFamily.from_json(json.loads(json.dumps(family.to_json()))) == family

    # u_t = u^2 has the solution u / (1 - u t); all weights of the symbol are zero.
    parameters = torch.zeros(1, family.n_parameters, dtype=torch.float64)
    parameters[:, -1] = 1.0
    x = LENGTH / POINTS * torch.arange(POINTS, dtype=torch.float64)
    u = 0.2 * torch.sin(2 * torch.pi * x / LENGTH) - 0.1
    grid = Grid((POINTS,), (LENGTH,))
    moved = family.flow(family.prepare(parameters, grid), u[None, None, None], 1.0)[0, 0, 0]
    assert torch.allclose(moved, u / (1 - u), rtol=0, atol=1e-7)

    dictionary = known_terms().add(family, parameters, coefficients={"w": 1.0})
    dictionary.save(tmp_path)
    t = DT * torch.arange(40, dtype=torch.float64)[:, None]
    frames = u / (1 - u * t)
    s = opsplit.OperatorSplitter("advection-diffusion")
    s.fit(frames[:16], dt=DT, extent=LENGTH, dictionary=OperatorDictionary.load(tmp_path))
    assert -s.score(frames[16:]) < 1e-3


@dataclass(frozen=True)
class Single(Strategy):
    """The best single operator, with strength one."""

    kind: ClassVar[str] = "single"

    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        sets = torch.arange(len(objective.dictionary))[:, None]
        for w, record in enumerate(records):
            for i, error in enumerate(objective.score(sets, None, torch.full((len(sets),), w))):
                record.add(Tried((i,), float(error)))
            record.pick, record.status, record.done = record.ranked()[0], "all tried", True


def test_a_search(cli: Callable[[str], str], tmp_path: Path) -> None:
    SEARCHES.add("single", Single)
    truth = opsplit.get_physics("advection-diffusion").generate("train", 1, seed=0).data[0, :16]
    s = opsplit.OperatorSplitter("advection-diffusion", search="single")
    s.fit(truth, dt=10 / 99, extent=LENGTH)
    best = opsplit.OperatorSplitter(search=opsplit.Beam(max_parts=1)).fit(
        truth, dt=10 / 99, extent=LENGTH
    )
    assert s.composition_.operators == best.composition_.operators
    assert s.fit_error_ == pytest.approx(best.fit_error_)

    np.save(tmp_path / "u.npy", truth.numpy())
    flags = f"--dt 0.10101 --extent 16 --strategy single --out {tmp_path / 'found'}"
    assert s.composition_.label in cli(f"search {tmp_path / 'u.npy'} {flags}")


def of_csv(path: Path, flags: Flags) -> Raw:
    """One frame per line, one point per column."""
    return of_array(np.loadtxt(path, delimiter=","), flags)


def test_a_reader(tmp_path: Path) -> None:
    READERS.add("csv", of_csv)
    frames = observed().data[0, :, 0].numpy()
    np.savetxt(tmp_path / "u.csv", frames, delimiter=",")
    recording = opsplit.read(tmp_path / "u.csv", axes="t,x", dt=DT, extent=LENGTH)
    assert recording.shape == (1, 40, 1, POINTS)
    assert np.allclose(recording.frames()[:, 0], frames)

    s = opsplit.OperatorSplitter("advection-diffusion").fit(recording, dictionary=known_terms())
    assert s.coefficients_["D"] == pytest.approx(float(observed().coefficients["D"]), rel=0.01)


def mean_field(physics: Physics) -> Method:
    """The mean of the observed frames, for ever."""

    def run(window: Trajectories, horizon: int, seed: int) -> Outcome:
        mean = window.data[0].mean(0)
        return Outcome(mean.expand(horizon, *mean.shape), {}, None, 0, 0.0)

    return run


def test_a_baseline() -> None:
    BASELINES.add("mean-field", mean_field)
    truth = observed()
    outcome = make_method("mean-field", Decay())(truth, 5, 0)
    assert torch.equal(outcome.frames, truth.data[0].mean(0).expand(5, 1, POINTS))


def test_a_package_adds_members_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(group: str) -> list[EntryPoint]:
        found = EntryPoint("decay", f"{__name__}:Decay", "opsplit.physics")
        return [found] if group == found.group else []

    monkeypatch.setattr(registry, "entry_points", installed)
    assert "decay" in list(PHYSICS)
    assert PHYSICS["decay"].name == "decay"
    assert "decay" not in list(SEARCHES)


def test_contributing_names_every_registry_and_its_group() -> None:
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    groups = set(re.findall(r"`(opsplit\.\w+)`", text))
    assert groups >= {one.group for one in REGISTRIES}
