"""Every command from end to end, as a user types it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import opsplit
from opsplit.dictionary import OperatorDictionary
from opsplit.io import write_well
from opsplit.model import Model
from opsplit.physics import PHYSICS, AdvectionDiffusion
from opsplit.pretrain.loggers import read_metrics
from opsplit.trajectories import Trajectories

COMMANDS = ("demo", "predict", "identify", "search", "generate", "pretrain", "extract",
            "describe", "check", "benchmark", "info")  # fmt: skip
QUICK = "--window 6 --max-parts 2 --width 2"
Cli = Callable[..., str]


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    """Twenty observed frames of an unseen system, `(time, x)`."""
    whole = AdvectionDiffusion().generate("A+D", 1, seed=5, frames=20)
    np.save(tmp_path / "frames.npy", whole.data[0, :, 0].numpy())
    return tmp_path / "frames.npy"


def assert_record(folder: Path, command: str, line: str, seed: int = 0) -> dict[str, Any]:
    """`opsplit.json` says what was asked, by whom, when in history and on what."""
    record = json.loads((folder / "opsplit.json").read_text())
    assert record["settings"]["command"] == command
    assert record["settings"]["seed"] == record["seed"] == seed
    assert record["command"] == f"opsplit {line}"
    assert re.fullmatch(r"[0-9a-f]{12}(\+changes)?|opsplit [\w.]+", record["commit"])
    assert "cores" in record["hardware"]
    return record["settings"]


def test_generate(cli: Cli, tmp_path: Path) -> None:
    line = "generate advection-diffusion --split A+D --n 3 --frames 18 --seed 4 --out data --json"
    result = json.loads(cli(line))
    stored = Trajectories.load(tmp_path / "data" / "trajectories.npz")
    assert result["shape"] == list(stored.data.shape) == [3, 18, 1, 256]
    assert result["dt"] == pytest.approx(10 / 99)
    expected = AdvectionDiffusion().generate("A+D", 3, seed=4, frames=18)
    assert torch.equal(stored.data, expected.data)
    assert torch.equal(stored.coefficients["c"], expected.coefficients["c"])
    settings = assert_record(tmp_path / "data", "generate", line, seed=4)
    assert (settings["split"], settings["n"], settings["frames"]) == ("A+D", 3, 18)
    assert ", c 0.0" in cli(line.replace(" --json", ""))


def test_pretrain_extract_and_info(cli: Cli, tmp_path: Path) -> None:
    small = (
        "--preset tiny --steps 2 --training.batches.environments 2 --training.batches.states 2 "
        "--training.dictionary.operators 3 --threads 1"
    )
    line = f"pretrain advection-diffusion {small} --seed 1 --out runs/ad --json"
    result = json.loads(cli(line))
    assert result["steps"] == 2
    assert result["operators"] == 3
    assert {"validation", "semigroup", "minutes"} <= result.keys()
    settings = assert_record(tmp_path / "runs" / "ad", "pretrain", line, seed=1)
    assert (settings["preset"], settings["steps"]) == ("tiny", 2)
    model = Model.load(tmp_path / "runs" / "ad")
    assert model.metrics == result
    card = (tmp_path / "runs" / "ad" / "README.md").read_text()
    assert f"`opsplit {line}`" in card
    assert "2 steps in" in cli(line.replace(" --json", ""))

    line = "extract --model runs/ad --n 4 --out dictionary --json"
    result = json.loads(cli(line))
    assert result["operators"] == 4
    assert len(OperatorDictionary.load(tmp_path / "dictionary")) == 4
    assert assert_record(tmp_path / "dictionary", "extract", line)["n"] == 4
    assert "dictionary: OperatorDictionary(4 spectral" in cli(line.replace(" --json", ""))

    cli("generate --n 2 --frames 18 --out data")
    assert json.loads(cli("info --json"))["physics"] == list(PHYSICS)
    assert "train" in json.loads(cli("info advection-diffusion --json"))["physics"]["splits"]
    held = json.loads(cli("info runs/ad --json"))
    assert (held["family"], held["preset"]) == ("spectral", "tiny")
    assert held["parameters"] == sum(p.numel() for p in model.disco.parameters())
    assert "4 spectral" in json.loads(cli("info dictionary --json"))["dictionary"]
    held = json.loads(cli("info data/trajectories.npz --json"))
    assert held["trajectories"].startswith("Trajectories(2 of 18 frames")
    for target in ("", "advection-diffusion", "runs/ad", "dictionary", "data/trajectories.npz"):
        assert "{" not in cli(f"info {target}")


def test_pretrain_on_stored_trajectories(cli: Cli, tmp_path: Path) -> None:
    cli("generate --n 2 --frames 20 --out data")
    small = (
        "--preset tiny --steps 1 --training.batches.environments 2 --training.batches.states 2 "
        "--threads 1"
    )
    result = json.loads(
        cli(f"pretrain mine --data data/trajectories.npz {small} --out mine --json")
    )
    model = Model.load(tmp_path / "mine")
    assert model.config.recipe == "codebook"
    assert model.config.physics == "mine"
    assert result["operators"] == len(model.dictionary) == 2
    assert [row["step"] for row in read_metrics(tmp_path / "mine")] == [1]


def test_predict_identify_and_search_agree(
    cli: Cli, tmp_path: Path, frames: Path, tiny_folder: Path
) -> None:
    flags = f"{frames} --dt 0.101 --model {tiny_folder} {QUICK} --json"
    results = {}
    for command in ("predict", "identify", "search"):
        line = f"{command} {flags} --out {command}"
        results[command] = json.loads(cli(line))
        settings = assert_record(tmp_path / command, command, line)
        assert (settings["window"], settings["dt"]) == (6, 0.101)
        ranked = (tmp_path / command / "search.csv").read_text().splitlines()
        assert ranked[0].startswith("rank,pick,parts,fit_error,c,D,")
        assert sum(row.split(",")[1] == "1" for row in ranked[1:]) == 1
    first = results["predict"]
    for result in results.values():
        for key in ("coefficients", "equation", "fit_error", "composition"):
            assert result[key] == first[key]
        assert result["status"] == result["verdict"]["level"] == "partly"
        assert "Read as (time 20, x 256), a guess from the lengths." in result["understood"]
    forecast = np.load(tmp_path / "predict" / "forecast.npy")
    assert forecast.shape == (34, 1, 256)
    assert np.isfinite(forecast).all()
    rows = (tmp_path / "predict" / "numbers.csv").read_text().splitlines()
    assert rows[0] == "time,u mean,u min,u max"
    moments = [float(row.split(",")[0]) for row in rows[1:]]
    assert moments == pytest.approx(0.101 * np.arange(1, 35))
    assert (tmp_path / "predict" / "forecast.png").read_bytes().startswith(b"\x89PNG")
    words = cli(f"identify {flags} --out identify".replace(" --json", ""))
    assert first["equation"] in words
    assert "c = " in words and "D = " in words
    assert ">>>>" in cli(f"search {flags}".replace(" --json", ""))


def test_files_say_what_flags_do_not(
    cli: Cli, tmp_path: Path, frames: Path, tiny_folder: Path
) -> None:
    """`dt` and `extent` from an .npz, several trajectories in a file, uniform search."""
    u = np.load(frames)
    flags = f"--model {tiny_folder} {QUICK} --json"

    def identify(file: str, more: str = "") -> dict[str, Any]:
        found = json.loads(cli(f"identify {file} {flags} {more}"))
        return {k: found[k] for k in ("coefficients", "fit_error")}

    plain = identify("frames.npy", "--dt 0.101")
    wide = identify("frames.npy", "--dt 0.101 --extent 12")
    assert wide != plain
    np.savez(tmp_path / "wide.npz", u=u, dt=0.101, extent=12.0, note=np.zeros(3))
    assert identify("wide.npz") == wide
    np.savez(tmp_path / "single.npz", anything=u)
    assert identify("single.npz", "--dt 0.101") == plain
    other = AdvectionDiffusion().generate("A+D", 1, seed=6, frames=20).data[0, :, 0].numpy()
    np.save(tmp_path / "both.npy", np.stack([other, u])[:, :, None])
    assert identify("both.npy", "--dt 0.101 --trajectory 1") == plain
    assert identify("both.npy", "--dt 0.101") != plain

    cli("generate --split A+D --n 2 --frames 30 --seed 5 --out data")
    first = Trajectories.load(tmp_path / "data" / "trajectories.npz").data[1, :6, 0].numpy()
    np.save(tmp_path / "first.npy", first)
    whole = identify("data/trajectories.npz", "--trajectory 1")
    alone = identify("first.npy", f"--dt {10 / 99}")
    assert whole["coefficients"] == alone["coefficients"]
    assert whole["fit_error"] == pytest.approx(alone["fit_error"], rel=1e-4)
    uniform = "--dt 0.101 --strategy uniform --trials 40"
    assert identify("frames.npy", uniform) == identify("frames.npy", uniform)


def test_a_forecast_comes_out_as_the_data_came_in(
    cli: Cli, tmp_path: Path, tiny_folder: Path
) -> None:
    """HDF5 in, HDF5 out; with frames that follow, their error; and a page about it all."""
    made = AdvectionDiffusion().generate("A+D", 2, seed=3, frames=12)
    write_well(made, tmp_path / "two.hdf5", "test")
    line = f"predict two.hdf5 --trajectory 1 --model {tiny_folder} {QUICK} --steps 8 --json"
    found = json.loads(cli(f"{line} --report page.html --out made"))
    assert found["forecast"] == "made/forecast.hdf5"
    written = opsplit.read(tmp_path / "made" / "forecast.hdf5")
    assert written.shape == (1, 8, 1, 256)
    assert written.times == pytest.approx(made.dt * np.arange(6, 14), rel=1e-5)
    missed = float((torch.from_numpy(written.frames(0)[:6]) - made.data[1, 6:]).norm())
    assert found["nrmse"] == pytest.approx(missed / float(made.data[1, 6:].norm()), rel=1e-4)
    page = (tmp_path / "page.html").read_text()
    assert html.escape(found["equation"].split("u_t")[-1].strip()[:12]) in page
    (tmp_path / "page.html").unlink()
    cli(f"{line} --report page.html --out made")
    assert (tmp_path / "page.html").exists()


def test_a_window_inside_a_file(cli: Cli, tmp_path: Path, frames: Path, tiny_folder: Path) -> None:
    flags = f"--dt 0.101 --model {tiny_folder} {QUICK} --json"
    np.save(tmp_path / "part.npy", np.load(frames)[3:9])
    inside = json.loads(cli(f"identify {frames} {flags} --start 3"))
    alone = json.loads(cli(f"identify part.npy {flags}"))
    assert inside["coefficients"] == alone["coefficients"]


@pytest.mark.parametrize("command", ["generate", "extract", "search", "identify", "predict"])
def test_finished_work_is_not_done_again(
    cli: Cli, tmp_path: Path, frames: Path, tiny_folder: Path, command: str
) -> None:
    fit = f"{frames} --dt 0.101 --model {tiny_folder} {QUICK}"
    line, file, change = {
        "generate": ("generate --n 2 --frames 17", "trajectories.npz", "--seed 1"),
        "extract": (f"extract --model {tiny_folder} --n 2", "dictionary.safetensors", "--n 3"),
        "search": (f"search {fit}", "search.csv", "--width 1"),
        "identify": (f"identify {fit}", "search.json", "--scheme lie"),
        "predict": (f"predict {fit} --steps 2", "forecast.npy", "--steps 3"),
    }[command]
    line += " --out made"
    made, record = tmp_path / "made" / file, tmp_path / "made" / "opsplit.json"

    def touched(more: str = "") -> bool:
        """Whether a run writes the file anew."""
        before = made.stat().st_ino if made.exists() else None
        seen.append(cli(line + more))
        return made.stat().st_ino != before

    seen = [cli(line)]
    first = record.read_bytes()
    assert not touched()
    assert seen[1].endswith(seen[0])
    assert "finished before" in seen[1] and "opsplit.json" in seen[1]
    assert record.read_bytes() == first
    assert json.loads(cli(f"{line} --json")) == json.loads(first)["result"]

    assert touched(" --force")
    assert "finished before" not in seen[-1]
    # A file that somebody changed or took away is not what the record speaks of.
    whole = made.read_bytes()
    made.write_bytes(whole[:-1])
    # Seconds have more or fewer digits; the end shows that a file is whole.
    assert touched() and made.read_bytes()[-1:] == whole[-1:]
    made.unlink()
    assert touched() and made.read_bytes()[-1:] == whole[-1:]
    changes = [lambda: change]
    if command in ("search", "identify", "predict"):
        changes.append(lambda: np.save(frames, 2 * np.load(frames)) or "")
    for make in changes:
        line += f" {make()}"
        before = made.read_bytes()
        with pytest.raises(SystemExit):
            cli(line)
        assert made.read_bytes() == before
        assert touched(" --force") and not touched()


def test_changed_model_is_searched_again(
    cli: Cli, tmp_path: Path, frames: Path, tiny_model: Model
) -> None:
    line = f"identify {frames} --dt 0.101 --model model --out made {QUICK} --json"
    tiny_model.save(tmp_path / "model")
    first = json.loads(cli(line))
    assert json.loads(cli(line)) == first
    fewer = tiny_model.dictionary.select([0, 1])
    Model(tiny_model.disco, fewer).save(tmp_path / "model")
    with pytest.raises(SystemExit):
        cli(line)
    assert json.loads(cli(f"{line} --force"))["composition"] != first["composition"]


def test_benchmark(cli: Cli, tmp_path: Path, tiny_folder: Path) -> None:
    methods = "persistence,terms-given,direct,uniform,beam"
    line = (
        f"benchmark advection-diffusion --method {methods} --family spectral --n 2 "
        f"--model {tiny_folder} --cache cache --out results"
    )
    records = json.loads(cli(f"{line} --json"))
    assert len(records) == 5 * 3
    error = {(r["method"], r["column"]): r["nrmse"] for r in records}
    for record in records:
        assert record["n"] == 2
        assert record["command"] == f"opsplit {line} --json"
        assert {"seed", "commit", "hardware"} <= record.keys()
        baseline = record["method"] in ("persistence", "terms-given")
        assert record["family"] == (None if baseline else "spectral")
    for column in ("A+D", "c", "D"):
        assert error["terms-given", column] < 1e-5
        assert error["beam", column] < error["persistence", column]
    fits = {(r["method"], r["column"]): r["fit_error"] for r in records}
    assert all(fits["beam", c] <= fits["direct", c] * 1.05 for c in ("A+D", "c", "D"))
    assert json.loads((tmp_path / "results" / "method.json").read_text()) == records
    rows = tmp_path / "cache" / "advection-diffusion.csv"
    kept = rows.read_bytes()
    assert kept.count(b"\n") == 1 + 5 * 3 * 2

    # The same again reads every trajectory from the cache; a line cut short is measured anew.
    cli(line)
    assert rows.read_bytes() == kept
    rows.write_bytes(kept[:-40])
    table = cli(line)
    assert rows.read_bytes().startswith(kept[:-40] + b"\n")
    assert rows.read_bytes().count(b"\n") == kept.count(b"\n") + 1
    assert table == (tmp_path / "results" / "method.md").read_text() + "\n"
    assert "| beam, published | A100 | 0.052 | 0.002 |  |" in table
    value = error["beam", "c"]
    assert re.search(rf"^\| beam \| spectral \| {value:.4f} ± .* \(.*\).*\| 2 \|$", table, re.M)


def test_benchmark_by_option_is_benchmark_by_word(cli: Cli, tiny_folder: Path) -> None:
    def errors(words: str, cache: str) -> dict[str, float]:
        flags = f"--method persistence --n 1 --model {tiny_folder} --cache {cache} --out {cache}"
        return {
            r["column"]: r["nrmse"] for r in json.loads(cli(f"benchmark {words} {flags} --json"))
        }

    by_word, by_option = (
        errors("advection-diffusion", "a"),
        errors("--physics advection-diffusion", "b"),
    )
    assert by_word == by_option
    assert set(by_word) == {"A+D", "c", "D"}


def test_benchmark_measures_the_family_it_names(
    cli: Cli, capsys: pytest.CaptureFixture[str], tiny_folder: Path
) -> None:
    model = f"--model {tiny_folder} --cache cache --out results"
    line = f"benchmark advection-diffusion --method direct --n 1 {model}"
    assert {r["family"] for r in json.loads(cli(f"{line} --json"))} == {"spectral"}
    with pytest.raises(SystemExit) as end:
        cli(f"{line} --family unet")
    assert end.value.code == 2
    assert "family 'spectral', not 'unet'" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(cli: Cli, capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as end:
        cli(f"{command} --help")
    assert end.value.code in (0, None)
    out, err = capsys.readouterr()
    assert f"Example: opsplit {command}" in out
    assert err == ""


def test_top_level_help_and_version(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    from opsplit import __version__

    assert cli("--version") == f"opsplit {__version__}\n"
    with pytest.raises(SystemExit) as end:
        cli("--help")
    assert end.value.code in (0, None)
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


def test_demo(cli: Cli, tmp_path: Path) -> None:
    line = "demo --out demo --json"
    result = json.loads(cli(line))
    assert {"nrmse", "coefficients", "true", "seconds"} <= result.keys()
    errors = result["nrmse"]
    assert errors["beam"] < errors["direct"] < errors["persistence"]
    assert errors["beam"] < 0.1
    assert result["coefficients"] == pytest.approx(result["true"], abs=0.1)
    assert (tmp_path / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert assert_record(tmp_path / "demo", "demo", line)["family"] == "spectral"
    again = cli("demo --out demo")
    assert "finished before" in again
    assert f"{errors['beam']:.4f}" in again
