"""A step of training, what a model begins with, and that training teaches something."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from quick import QUICK, QUIET, Small, changed, tensors
from torch import Tensor

from opsplit.benchmark.tasks import columns, test_windows
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import ModelConfig, Recipe
from opsplit.hypernetwork.disco import Disco
from opsplit.metrics import nrmse, relative_error
from opsplit.model import Model
from opsplit.operators import Homogeneous, Spectral
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.estimator import OperatorSplitter
from opsplit.pretrain.batch import Batch
from opsplit.pretrain.config import (
    Batches,
    TrainConfig,
    preset_settings,
)
from opsplit.pretrain.loggers import read_metrics
from opsplit.pretrain.loop import batch_seed, train
from opsplit.pretrain.losses import EncoderCodes, Trainee
from opsplit.pretrain.run import pretrain
from opsplit.pretrain.sources import FreshSource, Source, StoredSource
from opsplit.pretrain.start import borrow, codes_from_coefficients
from opsplit.pretrain.validate import validate

test_windows.__test__ = False  # type: ignore[attr-defined]


@dataclass
class Halves:
    """Fixed batches, whole in one process or a half in each of two."""

    physics: AdvectionDiffusion
    processes: int

    def draw(self, config: TrainConfig, generator: torch.Generator) -> Batch:
        known = {
            batch_seed(config.seed, step, rank): (step, rank)
            for step in range(config.budget.steps)
            for rank in range(self.processes)
        }
        step, rank = known.get(generator.initial_seed(), (99, 0))
        settings = changed(config, batches={"environments": 4})
        batch = FreshSource(self.physics).draw(settings, torch.Generator().manual_seed(step))
        batch = replace(batch, environment=torch.tensor([0, 1, 0, 2]))
        if self.processes == 1 or step == 99:
            return batch
        mine = slice(2 * rank, 2 * rank + 2)
        parts = {x: getattr(batch, x)[mine] for x in ("context", "state", "target", "environment")}
        return replace(batch, coefficients={k: v[mine] for k, v in batch.coefficients.items()},
                       **parts)  # fmt: skip


def test_two_processes_make_the_step_of_one_on_both_halves(
    small_model: Small, line: AdvectionDiffusion, tmp_path: Path
) -> None:
    """Mean gradients and codebook sums; and steps that would drift apart if ranks differed."""
    config = changed(
        QUICK,
        recipe="codebook",
        budget={"steps": 4},
        codebook={"share": 1.0, "momentum": 0.5},
        optimiser={"clip": 1e9},
    )
    model = small_model(environments=4)
    for processes in (1, 2):
        source, folder = Halves(line, processes), tmp_path / str(processes)
        train(model, config, source, folder, replace(QUIET, devices=processes))
    one, two = (tensors(tmp_path / name) for name in "12")
    start = Disco(model).state_dict()
    assert one.keys() == two.keys()
    assert torch.equal(two["model.codebook"][3], start["codebook"][3])
    torch.testing.assert_close(two["model.codebook"], one["model.codebook"], rtol=1e-4, atol=1e-6)

    def flat(held: dict[str, Tensor], kind: str) -> Tensor:
        return torch.cat([t.flatten() for name, t in sorted(held.items()) if kind in name])

    def relative(kind: str, origin: float | Tensor = 0.0) -> float:
        expected, found = flat(one, kind) - origin, flat(two, kind) - origin
        return float((found - expected).norm() / expected.norm())

    # Adam's first moment is the gradient itself, the way travelled follows from it.
    assert relative("exp_avg") < 1e-3
    assert relative("exp_avg_sq") < 1e-3
    begin = flat({f"model.{name}": t for name, t in start.items()}, "model.")
    assert relative("model.", begin) < 1e-2
    first, second = (read_metrics(tmp_path / name)[-1] for name in "12")
    assert second["validation"] == pytest.approx(first["validation"], rel=1e-3)


@dataclass
class Broken:
    """Every second batch holds an overflow; validation does not."""

    physics: AdvectionDiffusion
    drawn: int = 0

    def draw(self, config: TrainConfig, generator: torch.Generator) -> Batch:
        batch = FreshSource(self.physics).draw(config, generator)
        if config.batches.environments != QUICK.batches.environments:
            return batch
        self.drawn += 1
        return replace(batch, state=batch.state / (self.drawn % 2))


def test_a_gradient_that_is_not_finite_leaves_the_weights_alone(
    small_model: Small, line: AdvectionDiffusion, tmp_path: Path
) -> None:
    """Odd steps are good, even ones are not: after each of these nothing has changed."""
    held = []
    source = Broken(line)
    for steps in (1, 2, 3):
        config = changed(QUICK, budget={"steps": steps, "validate_every": 1})
        # Resumed, so that the rate of every step is that of the end of a budget.
        train(small_model(), config, source, tmp_path, QUIET)
        held.append({n: t for n, t in tensors(tmp_path).items() if not n.startswith("average.")})
    assert all(torch.equal(held[0][name], held[1][name]) for name in held[0])
    assert any(not torch.equal(held[1][name], held[2][name]) for name in held[0])
    assert all(bool(t.isfinite().all()) for t in tensors(tmp_path).values())


def test_rows_start_in_the_order_of_their_coefficients(
    small_model: Small, line: AdvectionDiffusion
) -> None:
    source = StoredSource(line.generate("train", 6, seed=0, frames=8))
    known = source.coefficients()
    disco = Disco(small_model(environments=6))
    codes_from_coefficients(disco, source)
    for column, name in zip(disco.codebook.unbind(1), ("c", "D"), strict=True):
        assert column.abs().max().item() == 1
        torch.testing.assert_close(
            column.double() * known[name].abs().max(), known[name], rtol=1e-6, atol=0
        )


def test_parts_learn_at_their_own_rates(
    small_model: Small, line: AdvectionDiffusion, tmp_path: Path
) -> None:
    """A part whose rate is zero stays, the others move."""
    model = small_model()
    model = replace(model, encoder=replace(model.encoder, head_bias=True))
    start = Disco(model, QUICK.seed).state_dict()
    for still, changes in {
        "encoder.": {"encoder_rate": 0.0},
        "decoder.shared": {"shared_rate": 0.0},
    }.items():
        folder = tmp_path / still
        config = changed(QUICK, budget={"steps": 3}, optimiser=changes)
        train(model, config, FreshSource(line), folder, QUIET)
        found = tensors(folder)
        moved = {n for n, t in start.items() if not torch.equal(found[f"model.{n}"], t)}
        assert not any(name.startswith(still) for name in moved)
        assert "decoder.head.weight" in moved
        assert ("decoder.shared" in moved) == (still != "decoder.shared")


@pytest.mark.parametrize("part", ["encoder", ""])
def test_training_begins_with_borrowed_weights(
    part: str, tiny_model: Model, tmp_path: Path
) -> None:
    """No step that moves anything: what comes out is what was borrowed, and only that."""
    folder = tmp_path / "lender"
    tiny_model.save(folder)
    fresh = Disco(tiny_model.config, seed=1)
    borrow(fresh.get_submodule(part), str(folder), part)
    lent, own = tiny_model.disco.state_dict(), Disco(tiny_model.config, seed=1).state_dict()
    for name, found in fresh.state_dict().items():
        assert torch.equal(found, (lent if name.startswith(part) else own)[name])
    larger = replace(tiny_model.config, encoder=replace(tiny_model.config.encoder, width=32))
    with pytest.raises(OpsplitError, match=f"The {part or 'model'} of .* has other sizes"):
        borrow(Disco(larger).get_submodule(part), str(folder), part)


def test_operators_that_gained_parameters_borrow_all_others(
    small_model: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = small_model("unet")
    richer = replace(plain, operator=Homogeneous(plain.operator, degree="learned"))
    donor, before, after = Disco(plain, 7), Disco(richer, 0), Disco(richer, 0)
    monkeypatch.setattr(
        "opsplit.pretrain.start.load_model", lambda name, family: Model(donor, None, {})
    )  # type: ignore[arg-type]
    borrow(after, "donor")
    codes = torch.randn(3, plain.encoder.code, generator=torch.Generator().manual_seed(1))
    given, own, now = (d.decoder(codes) for d in (donor, before, after))
    torch.testing.assert_close(now[:, :-1], given)
    assert not torch.equal(own[:, :-1], given)
    torch.testing.assert_close(now[:, -1].detach().mean(), torch.tensor(1.0), rtol=0, atol=0.1)
    with pytest.raises(OpsplitError, match="other sizes"):
        borrow(Disco(small_model("spectral"), 0), "donor")


def test_a_divided_frame_is_trained_as_the_chain_of_its_flows(
    small_model: Small, line: AdvectionDiffusion
) -> None:
    disco = Disco(small_model("unet"), 0)
    batch = FreshSource(line).draw(QUICK, torch.Generator().manual_seed(0))
    divided = replace(batch, shares=(0.3, 0.7))
    codes = disco.encode(batch.context)
    operators, u = disco.operators(codes), batch.state
    for share in divided.shares:
        u = disco.family.flow(operators, u, share * batch.duration)
    expected = relative_error(u, batch.target).mean(1)
    torch.testing.assert_close(Trainee(disco)(EncoderCodes(), divided).error, expected)
    assert not torch.equal(Trainee(disco)(EncoderCodes(), batch).error, expected)


def initial_error(model: ModelConfig, config: TrainConfig, source: Source) -> float:
    disco = Disco(model, config.seed)
    average = {name: p.detach().clone() for name, p in disco.named_parameters()}
    return validate(Trainee(disco), average, source, config, torch.device("cpu"))["validation"]


@pytest.mark.parametrize("recipe", ["in-context", "codebook", "plain"])
@pytest.mark.parametrize("family, steps", [("spectral", 30), ("unet", 3)])
def test_every_recipe_and_family_lowers_the_error(
    small_model: Small,
    line: AdvectionDiffusion,
    tmp_path: Path,
    family: str,
    recipe: Recipe,
    steps: int,
) -> None:
    stored = StoredSource(line.generate("train", 4, seed=0, frames=12))
    source: Source = stored if recipe == "codebook" else FreshSource(line)
    model = small_model(family, environments=stored.environments if recipe == "codebook" else 0)
    config = changed(
        QUICK,
        recipe=recipe,
        budget={"steps": steps},
        batches={"states": 4},
        optimiser={"ema": 0.5, "warm_up": 1},
    )
    train(model, config, source, tmp_path, QUIET)
    rows = read_metrics(tmp_path)
    assert rows[-1]["step"] == steps
    assert rows[-1]["validation"] < 0.97 * initial_error(model, config, source)


@pytest.mark.parametrize("recipe", ["codebook", "in-context", "plain"])
def test_dictionary_is_what_the_recipe_learned(
    line: AdvectionDiffusion, tmp_path: Path, recipe: Recipe
) -> None:
    """Rows of the codebook where a codebook was trained, codes of the encoder elsewhere."""
    stored = line.generate("train", 3, seed=0, frames=20)
    file = stored.save(tmp_path / "stored.npz")
    config = changed(
        preset_settings("tiny", stored=True)[1],
        recipe=recipe,
        budget={"steps": 1},
        batches={"environments": 2, "states": 2},
    )
    made = pretrain(
        file, tmp_path / "model", operator=Spectral(), training=config, preset="tiny",
        execution=QUIET,
    )  # fmt: skip
    model = Model.load(tmp_path / "model")
    assert model.metrics == made.metrics
    codes = model.dictionary.parts[0].codes
    if recipe == "codebook":
        assert torch.equal(codes, model.disco.codebook)
    else:
        windows = stored.data.unfold(1, 16, 1).movedim(-1, 2).flatten(0, 1)
        read = model.disco.encode(windows)
        assert (codes[:, None] - read).abs().amax(2).amin(1).max() < 1e-5
        assert len(model.disco.codebook) == 0
    assert len(model.dictionary) == 3
    assert sorted(model.dictionary.coefficients["c"]) == sorted(stored.coefficients["c"].tolist())
    assert model.config.scale == pytest.approx(float(stored.data.std()))


def test_an_encoder_trained_alone_leaves_the_operators_as_they_are(
    line: AdvectionDiffusion, tmp_path: Path
) -> None:
    file = line.generate("train", 3, seed=0, frames=20).save(tmp_path / "stored.npz")
    usual = changed(
        preset_settings("tiny", stored=True)[1],
        budget={"steps": 3},
        batches={"environments": 2, "states": 2},
        codebook={"by_gradient": 1.0},
    )

    def made(name: str, **start: Any) -> Model:
        config = changed(usual, start=start)
        pretrain(
            file, tmp_path / name, operator=Spectral(), training=config, preset="tiny",
            execution=QUIET,
        )  # fmt: skip
        return Model.load(tmp_path / name)

    first = made("first")
    second = made("second", start_from=str(tmp_path / "first"), encoder_only=True)
    old, new = first.disco.state_dict(), second.disco.state_dict()
    # To the last bit: results are kept by it, and a zero has a sign.
    moved = {
        name.split(".")[0]
        for name, t in old.items()
        if t.numpy().tobytes() != new[name].numpy().tobytes()
    }
    assert moved == {"encoder"}
    for name in ("dictionary.safetensors", "dictionary.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    # The card tells of both trainings.
    (before,) = second.metrics["before"]
    assert before["steps"] == first.metrics["steps"] and before["curve"] == first.metrics["curve"]
    assert (tmp_path / "second" / "README.md").read_text().count("| minutes | step |") == 2
    with pytest.raises(OpsplitError, match="start-from a model of the codebook recipe"):
        made("third", encoder_only=True)
    file = line.generate("train", 3, seed=1, frames=20).save(tmp_path / "stored.npz")
    with pytest.raises(
        OpsplitError, match=r"other dynamics than the 3 that .*first was trained on"
    ):
        made("third", start_from=str(tmp_path / "first"), encoder_only=True)
    assert not (tmp_path / "third").exists()


def test_trained_model_beats_persistence_on_unseen_transitions(tiny_model: Model) -> None:
    config = TrainConfig(batches=Batches(environments=64, states=8))
    drawn = FreshSource(AdvectionDiffusion()).draw(config, torch.Generator().manual_seed(2**50))
    error = Trainee(tiny_model.disco)(EncoderCodes(), drawn).error
    persistence = relative_error(drawn.state, drawn.target).mean(1)
    assert error.mean() < 0.85 * persistence.mean()
    advected = torch.tensor([m == "c" for m in drawn.mechanisms()])
    assert error[advected].mean() < 0.8 * persistence[advected].mean()


@pytest.mark.parametrize("column", ["A+D", "c", "D"])
def test_trained_model_forecasts_better_than_persistence(tiny_model: Model, column: str) -> None:
    observed, future = test_windows(columns("advection-diffusion")[column], 3, seed=0)
    for window, truth in zip(observed.data, future.data, strict=True):
        forecast = OperatorSplitter(tiny_model).fit(window, observed.dt).predict(len(truth))
        still = window[-1:].expand_as(truth)
        assert nrmse(forecast[None], truth[None]) < 0.95 * nrmse(still[None], truth[None])
