"""The automatic training as users start it: names, resume, and what is stored."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from opsplit import OperatorSplitter, Trajectories, pretrain
from opsplit.cli import main
from opsplit.errors import OpsplitWarning
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.pretrain import Budget, Execution
from opsplit.pretrain.config import TrainConfig, preset_settings
from opsplit.pretrain.data import load
from opsplit.pretrain.loop import Training


def reaction_diffusion(
    r: np.ndarray, d: np.ndarray, frames: int, seed: int, sign: float = 0.0
) -> np.ndarray:
    """`u_t = r (u - u^3) + d u_xx` on 64 points of a box of length 4, by small Strang steps.

    Fields are even or odd about the middle of the box where `sign` is 1 or -1.
    """
    rng = np.random.default_rng(seed)
    k = 2 * np.pi * np.fft.rfftfreq(64, 4 / 64)
    modes = rng.normal(size=(len(r), 33, 2)) @ [1, 1j] * (np.arange(33) <= 5)
    u = np.fft.irfft(modes, 64)
    u = u + sign * u[:, ::-1]
    u = 0.8 * u / np.abs(u).max(1, keepdims=True)
    out, h = [u], 0.05 / 20
    for _ in range(frames - 1):
        for _ in range(20):
            u = np.fft.irfft(np.fft.rfft(u) * np.exp(-d[:, None] * k**2 * h / 2), 64)
            grown = u * np.exp(r[:, None] * h)
            u = grown / np.sqrt(1 + u**2 * (np.exp(2 * r[:, None] * h) - 1))
            u = np.fft.irfft(np.fft.rfft(u) * np.exp(-d[:, None] * k**2 * h / 2), 64)
        out.append(u)
    return np.stack(out, 1)[:, :, None]


@pytest.fixture(scope="module")
def data() -> Trajectories:
    r = np.repeat([*np.linspace(0.5, 3, 4), *[0.0] * 4], 4)
    d = np.repeat([*[0.0] * 4, *np.linspace(0.005, 0.03, 4)], 4)
    u = reaction_diffusion(r, d, 24, 0)
    return Trajectories.from_numpy(
        u.astype(np.float32), dt=0.05, extent=4.0, coefficients={"r": r, "D": d}
    )


def short(steps: int) -> TrainConfig:
    training = preset_settings("tiny", stored=True)[1]
    return replace(training, budget=Budget(steps=steps, validate_every=10, checkpoint_steps=5))


QUIET = Execution(threads=1, quiet=True)


def test_an_equation_that_nobody_knows_is_forecast(data: Trajectories, tmp_path: Path) -> None:
    """The combination of two mechanisms, twenty times better than copying; coefficients to 2 %."""
    threads = torch.get_num_threads()
    model = pretrain(data, tmp_path / "m", training=short(5), preset="tiny", execution=QUIET)
    assert torch.get_num_threads() == threads
    true = {"r": 1.7, "D": 0.012}
    u = reaction_diffusion(np.array([true["r"]]), np.array([true["D"]]), 50, 77)[0]
    splitter = OperatorSplitter(model).fit(u[:16], dt=0.05, extent=4.0)
    error = np.linalg.norm(splitter.predict(34) - u[16:]) / np.linalg.norm(u[16:])
    copying = np.linalg.norm(u[15] - u[16:]) / np.linalg.norm(u[16:])
    assert error < copying / 20
    for name, value in true.items():
        assert splitter.coefficients_[name] == pytest.approx(value, rel=0.02)
    assert splitter.status_ == "explained"
    assert "(u - u^3)" in splitter.equation_ and "u_xx" in splitter.equation_
    assert model.metrics["structure"]["verdict"] == "good for compositions"


def test_a_name_never_changes_a_result(data: Trajectories, tmp_path: Path) -> None:
    names = ("mine", "gray-scott")
    models = [
        pretrain(data, tmp_path / n, training=short(10), preset="tiny", name=n, execution=QUIET)
        for n in names
    ]
    first, second = (m.disco.state_dict() for m in models)
    assert all(torch.equal(first[k], second[k]) for k in first)
    a, b = (m.dictionary.parts[0] for m in models)
    assert torch.equal(a.codes, b.codes) and a.family == b.family


def test_an_interrupt_saves_and_changes_nothing(
    data: Trajectories, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Ctrl-C in the middle of a step: it is made, saved, and the same command goes on from it."""
    file, made = data.save(tmp_path / "mine.npz"), Training.make_step

    def interrupted(training: Training, done: float) -> None:
        if training.step == 7:
            signal.raise_signal(signal.SIGINT)
        made(training, done)

    def run(out: str) -> None:
        main(["pretrain", "mine", "--data", str(file), "--preset", "tiny", "--steps", "12",
              "--threads", "1", "--out", str(tmp_path / out)])  # fmt: skip

    run("whole")
    with monkeypatch.context() as patch:
        patch.setattr(Training, "make_step", interrupted)
        with pytest.raises(SystemExit) as stop:
            run("halves")
    assert stop.value.code == 130
    said = capsys.readouterr().err
    assert "the same command goes on" in said and "structure forecasts already" in said
    assert len(Model.load(tmp_path / "halves" / "structure").dictionary) == 8
    run("halves")
    whole, halves = (Model.load(tmp_path / n).disco.state_dict() for n in ("whole", "halves"))
    assert all(torch.equal(whole[k], halves[k]) for k in whole)
    a, b = (Model.load(tmp_path / n).dictionary.parts[0].codes for n in ("whole", "halves"))
    assert torch.equal(a, b)


def test_an_interrupt_before_anything_is_stored_says_so(
    data: Trajectories, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    file = data.save(tmp_path / "mine.npz")
    monkeypatch.setattr("opsplit.pretrain.run.learn_structure", interrupted)
    with pytest.raises(SystemExit):
        main(["pretrain", "mine", "--data", str(file), "--out", str(tmp_path / "run")])
    assert "nothing is stored yet; the same command begins again" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_first_model_serves_while_structures_are_made_better(
    data: Trajectories, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Ctrl-C in the last refinement: the first model is there, and goes once the last one is."""
    file, out = data.save(tmp_path / "mine.npz"), tmp_path / "run"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    command = ["pretrain", "mine", "--data", str(file), "--preset", "tiny", "--steps", "5",
               "--threads", "1", "--out", str(out)]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr("opsplit.pretrain.structure.shortened", interrupted)
        with pytest.raises(SystemExit) as stop:
            main(command)
    assert stop.value.code == 130
    assert f"--model {out / 'first'} forecasts already" in capsys.readouterr().err
    first = Model.load(out / "first")
    assert first.metrics["structure"]["verdict"].endswith("before they were made better")
    assert len(first.dictionary) == 8 and not (out / "structure").exists()
    main(command)
    assert not (out / "first").exists()
    found = Model.load(out).metrics["structure"]
    assert 0 < found["first"]["processor_seconds"] <= found["processor_seconds"]
    assert found["first"]["worst"] < 0.05


def test_minutes_may_be_those_of_the_processor(
    data: Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day that passes takes nothing of a budget of the processor's time."""
    clock, days = time.monotonic, iter(range(10**9))
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 86400 * next(days))
    training = replace(short(3), budget=Budget(steps=3, minutes=20))
    own = replace(QUIET, processor_time=True)
    model = pretrain(data, tmp_path / "m", training=training, preset="tiny", execution=own)
    rows = model.metrics["structure"]["mechanisms"]
    assert all(row["complete"] for row in rows) and model.metrics["steps"] == 3


def test_the_command_prints_and_stores_the_choice(
    data: Trajectories, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = data.save(tmp_path / "mine.npz")
    out = tmp_path / "run"
    main(["pretrain", "mine", "--data", str(file), "--preset", "tiny", "--steps", "5",
          "--threads", "1", "--out", str(out)])  # fmt: skip
    said = capsys.readouterr().out
    assert "verdict: good for compositions" in said and "polynomial of degree 3" in said
    card = (out / "README.md").read_text()
    # Every environment by its coefficient.
    for value in ("r = 0.5: ", "r = 3: ", "D = 0.005: ", "D = 0.03: "):
        assert value in said and value in card
    assert "## Structure" in card and "Verdict: good" in card
    loaded = Model.load(out)
    assert loaded.dictionary.terms["r"].text == "u - u^3"
    assert loaded.dictionary.terms["D"].order == 2


def test_terms_that_the_user_gives_are_printed(data: Trajectories, tmp_path: Path) -> None:
    from dataclasses import replace

    told = replace(data, terms={"r": "f(u)"})
    model = pretrain(told, tmp_path / "t", training=short(5), preset="tiny", execution=QUIET)
    assert model.dictionary.terms["r"].text == "f(u)"
    assert model.dictionary.terms["D"].text == "u_xx"


@pytest.mark.parametrize(("word", "sign"), [("neumann", 1.0), ("dirichlet", -1.0)])
def test_fields_between_walls_are_continued(word: str, sign: float, tmp_path: Path) -> None:
    """Half of a field with the symmetry of the walls gives the operators of the whole."""
    r = np.repeat([*np.linspace(0.5, 3, 3), *[0.0] * 3], 3)
    d = np.repeat([*[0.0] * 3, *np.linspace(0.005, 0.03, 3)], 3)
    u = reaction_diffusion(r, d, 12, 1, sign)[..., :32]
    walled = Trajectories.from_numpy(
        u.astype(np.float32), dt=0.05, extent=2.0, boundary=word, coefficients={"r": r, "D": d}
    )
    with pytest.warns(OpsplitWarning, match=f"between walls .x: {word}"):
        model = pretrain(walled, tmp_path / "w", training=short(2), preset="tiny", execution=QUIET)
    assert model.config.grid == Grid((64,), (4.0,))
    assert model.metrics["structure"]["verdict"] == "good for compositions"
    texts = {k: t.text for k, t in model.dictionary.terms.items()}
    assert texts == {"r": "u - u^3", "D": "u_xx"}
    window = reaction_diffusion(np.array([2.0]), np.array([0.02]), 30, 2, sign)[0, :, :, :32]
    splitter = OperatorSplitter(model)
    with pytest.warns(OpsplitWarning, match="between walls"):
        splitter.fit(window[:16].astype(np.float32), dt=0.05, extent=2.0, boundary=word)
    error = np.linalg.norm(splitter.predict(14) - window[16:]) / np.linalg.norm(window[16:])
    assert error < 1e-3
    assert splitter.coefficients_["r"] == pytest.approx(2.0, rel=0.01)
    assert splitter.coefficients_["D"] == pytest.approx(0.02, rel=0.02)


def test_walls_are_those_of_most_trajectories() -> None:
    """A mechanism that carries fields through a wall does not hide the wall from the others."""
    r, d = np.zeros(9), np.linspace(0.01, 0.03, 9)
    u = reaction_diffusion(r, d, 8, 1, -1.0)[..., :32].astype(np.float32)
    shift = np.arange(8)[:, None]
    x = np.arange(32) / 32
    u[0, :, 0] = u[4, :, 0] = np.sin(5 * np.clip(x - 0.02 * shift, 0, None))
    walled = Trajectories.from_numpy(u, dt=0.05, extent=2.0, boundary="dirichlet")
    with pytest.warns(OpsplitWarning, match="between walls .x: dirichlet.:"):
        found = load(walled, continued=True)
    diffused = torch.from_numpy(u[1:4])
    assert torch.allclose(found.data[1:4, ..., :32], diffused, atol=1e-6)
    assert torch.allclose(found.data[1:4, ..., 32:], -diffused.flip(-1), atol=1e-6)


def test_open_ends_get_a_network(tmp_path: Path) -> None:
    u = torch.rand(4, 24, 1, 16)
    grid = Grid((16,), (1.0,), "open")
    known = {"q": torch.tensor([1.0, 1.0, 2.0, 2.0]).double()}
    walled = Trajectories(u, torch.arange(24).double(), grid, ("u",), known)
    model = pretrain(walled, tmp_path / "w", training=short(2), preset="tiny", execution=QUIET)
    assert model.config.family == "unet"
