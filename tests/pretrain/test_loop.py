"""Training: a killed run is as good as an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quick import QUICK, QUIET, Small, changed, curve, facts, tensors

from opsplit.cli import main
from opsplit.errors import OpsplitError
from opsplit.physics import AdvectionDiffusion
from opsplit.pretrain import clock
from opsplit.pretrain.batch import Batch
from opsplit.pretrain.config import TrainConfig
from opsplit.pretrain.loggers import read_metrics
from opsplit.pretrain.loop import train
from opsplit.pretrain.optimiser import schedule
from opsplit.pretrain.sources import FreshSource


class Killed(BaseException):
    """Stands for the end of the process: nothing after it is executed."""


def assert_same_run(found: Path, expected: Path) -> None:
    """Weights, averages, optimiser and curve agree to the last bit."""
    one, other = tensors(found), tensors(expected)
    assert one.keys() == other.keys()
    assert {name.split(".")[0] for name in one} == {"model", "average", "optimiser"}
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert curve(found) == curve(expected)
    assert facts(found)["step"] == facts(expected)["step"]


DIES = """
import os, signal, sys
from opsplit.cli import main
from opsplit.pretrain.loop import Training
make = Training.make_step
def step(self, done):
    make(self, done)
    if self.step == 7:
        os.kill(os.getpid(), signal.SIGKILL)
Training.make_step = step
main(sys.argv[1:])
"""
"""A training that is killed in its seventh step, one step after a checkpoint."""


def test_kill_9_and_the_same_command_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(folder: str) -> list[str]:
        flags = (
            "--preset tiny --steps 60 --training.batches.environments 2 "
            "--training.batches.states 2 --training.dictionary.operators 2 "
            "--training.budget.checkpoint-steps 2 --threads 1"
        )
        return ["pretrain", "advection-diffusion", *flags.split(), "--out", folder]

    main(command(str(tmp_path / "whole")))
    killed = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", DIES, *command(str(killed))])
    assert done.returncode == -signal.SIGKILL
    assert facts(killed)["step"] == 6
    assert not (killed / "metrics.json").exists()
    main(command(str(killed)))
    assert_same_run(killed, tmp_path / "whole")
    assert facts(killed)["step"] == 60
    for name in ("model.safetensors", "dictionary.safetensors"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    # A finished command does no more steps and leaves what is there alone.
    kept = ("model.safetensors", "dictionary.safetensors", "metrics.csv", "metrics.json")
    before = {name: (killed / name).read_bytes() for name in kept}
    capsys.readouterr()
    main(command(str(killed)))
    assert "60 steps" in capsys.readouterr().out
    assert all((killed / name).read_bytes() == held for name, held in before.items())
    assert_same_run(killed, tmp_path / "whole")


@pytest.fixture(scope="module")
def undisturbed(
    small_model: Small, line: AdvectionDiffusion, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    train(small_model(), QUICK, FreshSource(line), folder, QUIET)
    return folder


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "file, turn",
    [
        ("training.json", 1),
        ("resume.safetensors", 1),
        ("resume.safetensors", 3),
        ("metrics.csv", 1),
        ("metrics.csv", 3),
    ],
)
def test_death_at_any_write_changes_nothing(
    undisturbed: Path,
    small_model: Small,
    line: AdvectionDiffusion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    turn: int,
    moment: str,
) -> None:
    """Files change by `os.replace` only, so dying beside one of those is the worst case."""
    seen, replace_file = 0, os.replace

    def dying(source: Path, target: Path) -> None:
        nonlocal seen
        seen += Path(target).name == file
        now = Path(target).name == file and seen == turn
        if now and moment == "before":
            raise Killed
        replace_file(source, target)
        if now:
            raise Killed

    def run() -> None:
        train(small_model(), QUICK, FreshSource(line), tmp_path, QUIET)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying)
        with pytest.raises(Killed):
            run()
    run()
    assert_same_run(tmp_path, undisturbed)


def test_resuming_draws_the_rest_of_the_batches_only(
    undisturbed: Path, small_model: Small, line: AdvectionDiffusion, tmp_path: Path
) -> None:
    @dataclass
    class Counting:
        inner: FreshSource
        steps: int = 0

        def draw(self, config: TrainConfig, generator: torch.Generator) -> Batch:
            self.steps += config.batches.environments == QUICK.batches.environments
            return self.inner.draw(config, generator)

    source = Counting(FreshSource(line))
    for budget, drawn in ((3, 3), (8, 8), (8, 8)):
        config = changed(QUICK, budget={"steps": budget})
        train(small_model(), config, source, tmp_path, QUIET)
        assert source.steps == drawn
    assert facts(tmp_path)["step"] == 8
    # A smaller budget than what is done does nothing either, and the curve ends at the last step.
    (tmp_path / "metrics.csv").unlink()
    train(small_model(), changed(QUICK, budget={"steps": 2}), source, tmp_path, QUIET)
    assert source.steps == 8
    assert [row["step"] for row in read_metrics(tmp_path)] == [8]


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"optimiser": {"learning_rate": 1e-3}},
            "training.optimiser.learning_rate: 0.003 -> 0.001",
        ),
        ({"seed": 1}, "training.seed: 0 -> 1"),
        ({"batches": {"environments": 3}}, "training.batches.environments: 2 -> 3"),
        ({"family": "unet"}, "model.operator.kind: spectral -> unet"),
    ],
)
def test_resuming_with_other_settings_is_refused(
    undisturbed: Path,
    small_model: Small,
    line: AdvectionDiffusion,
    change: dict[str, Any],
    words: str,
) -> None:
    model = small_model(**{k: v for k, v in change.items() if k == "family"})
    config = changed(QUICK, **{k: v for k, v in change.items() if k != "family"})
    with pytest.raises(OpsplitError, match="other settings") as caught:
        train(model, config, FreshSource(line), undisturbed, QUIET)
    assert words in str(caught.value)
    assert "--out" in str(caught.value)


@pytest.mark.parametrize("keep", [0, 7, 0.5, 0.999])
def test_truncated_checkpoint(
    undisturbed: Path, small_model: Small, line: AdvectionDiffusion, tmp_path: Path, keep: float
) -> None:
    whole = (undisturbed / "resume.safetensors").read_bytes()
    cut = whole[: int(keep * len(whole)) if keep < 1 else int(keep)]
    (tmp_path / "resume.safetensors").write_bytes(cut)
    with pytest.raises(OpsplitError, match=r"cannot be read.*Delete .*resume\.safetensors"):
        train(small_model(), QUICK, FreshSource(line), tmp_path, QUIET)


@given(warm_up=st.integers(0, 50), budget=st.integers(60, 500))
def test_schedule_warms_up_and_ends_low(warm_up: int, budget: int) -> None:
    rates = [schedule(step, step / budget, warm_up) for step in range(budget + 1)]
    assert rates[0] == pytest.approx(1 / max(1, warm_up))
    assert schedule(warm_up, 0.0, warm_up) == 1
    assert all(0 < rate <= 1 for rate in rates)
    later = rates[warm_up:]
    assert all(b < a for a, b in pairwise(later))
    assert rates[-1] == pytest.approx(1e-3)
    assert schedule(10**6, 0.5, warm_up) == pytest.approx(0.5005)
    assert schedule(10**6, 7.0, warm_up) == pytest.approx(1e-3)


def test_time_budget_ends_training_and_counts_on(
    small_model: Small, line: AdvectionDiffusion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        """One second passes between any two looks."""

        now = 0.0

        @classmethod
        def monotonic(cls) -> float:
            cls.now += 1
            return cls.now

    monkeypatch.setattr(clock, "time", Clock)
    monkeypatch.setattr("opsplit.pretrain.loop.time", Clock)
    config = changed(QUICK, budget={"steps": 10**6, "minutes": 0.5, "validate_every": 10**6})
    train(small_model(), config, FreshSource(line), tmp_path, QUIET)
    first = facts(tmp_path)
    assert 5 < first["step"] < 30
    assert 30 <= first["seconds"] < 40
    assert [row["step"] for row in read_metrics(tmp_path)] == [first["step"]]
    longer = changed(config, budget={"minutes": 1.0})
    train(small_model(), longer, FreshSource(line), tmp_path, QUIET)
    second = facts(tmp_path)
    assert first["step"] < second["step"] < 2.5 * first["step"]
    assert 60 <= second["seconds"] < 70
