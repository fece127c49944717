"""Small things that would hurt a person at a terminal."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplit
from opsplit import cli
from opsplit.commands.describe import Describe
from opsplit.commands.fit import Predict, Search
from opsplit.progress import Progress
from opsplit.search.registry import SEARCHES, search_names

ROOT = Path(__file__).parents[1]
OPSPLIT = [sys.executable, "-m", "opsplit"]


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit):
        cli.main(list(arguments))
    return "".join(capsys.readouterr())


def test_the_help_names_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "--help")
    assert opsplit.__version__ in text and "--version" in text


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_no_help_page_speaks_of_none_as_a_value(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "{None" not in told(capsys, name, "--help")


@pytest.mark.parametrize("name", ["app", "info", "describe", "check"])
def test_no_flag_is_without_effect(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = told(capsys, name, "--help")
    for flag in cli.command_class(name).without:
        assert f"--{flag}" not in page
    assert "Unrecognized options: --force" in told(capsys, name, "--force")


def test_lengths_may_have_a_comma_between_them() -> None:
    for words in (["--extent", "1,2"], ["--extent", "1", "2"], ["--extent", "1,", "2"]):
        made = cli.parse(["describe", "u.npy", *words, "--axes", "t,x,y"])
        assert isinstance(made, Describe)
        assert made.extent == (1.0, 2.0) and made.axes == "t,x,y"


def test_a_closed_pipe_is_no_error() -> None:
    shell = f"set -o pipefail; {shlex.join(OPSPLIT)} --help | head -n 1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert done.stdout.startswith("usage: opsplit")
    assert done.stderr == ""


def test_a_refused_run_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "folder"
    assert "No such file" in told(capsys, "predict", "none.npy", "--out", str(out))
    assert list(tmp_path.iterdir()) == []
    out.mkdir(parents=True)
    told(capsys, "predict", "none.npy", "--out", str(out))
    assert out.is_dir(), "a folder that was there before stays"


def test_unknown_time_left_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("work", every=0.0) as bar:
        bar.update(0.5)
        bar.update(0.5)
        time.sleep(0.01)
        bar.update(0.6)
    first, second, third = capsys.readouterr().err.splitlines()
    assert "nan" not in first + second + third
    assert "left" not in second and "left" in third


def test_a_terminal_sees_something_before_the_long_import(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.zeros((4, 16)))
    main, other = pty.openpty()
    code = (
        "import sys; from opsplit import cli; found = cli.import_module;"
        "cli.import_module = lambda n: sys.exit(7) if n == 'torch' else found(n);"
        "cli.main(sys.argv[1:])"
    )
    line = ["predict", "u.npy", "--dt", "1", "--out", "o"]
    run = subprocess.run([sys.executable, "-c", code, *line], cwd=tmp_path, stderr=other)
    os.close(other)
    assert run.returncode == 7
    assert b"loading" in os.read(main, 100)
    os.close(main)


@pytest.mark.parametrize("name", ["u.npy", "u.npz"])
def test_a_missing_time_step_is_reported_before_the_long_import(tmp_path: Path, name: str) -> None:
    save = np.save if name.endswith("y") else np.savez
    save(tmp_path / name, np.zeros((4, 16)))
    code = (
        "import sys; from opsplit import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "predict", name], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 2
    assert "add --dt" in run.stderr
    assert run.stdout == "False\n"
    np.savez(tmp_path / "with.npz", u=np.zeros((4, 16)), dt=0.1)
    Predict(files=(tmp_path / "with.npz",), out=tmp_path / "out").check()


def test_a_plane_given_to_a_model_of_lines_is_refused_for_its_channels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its operators are lifted to the plane, so that two space axes are no obstacle."""
    np.save(tmp_path / "u.npy", np.random.default_rng(0).normal(size=(16, 2, 32, 32)))
    line = ["predict", str(tmp_path / "u.npy"), "--dt", "1", "--out", str(tmp_path / "o")]
    text = told(capsys, *line, "--model", "advection-diffusion")
    assert "knows 1 channel(s) (u), the data have 2 (u0, u1)" in text
    assert len(text) < 300


@pytest.mark.parametrize("name", search_names())
def test_every_setting_of_a_search_is_a_flag(name: str) -> None:
    chosen = SEARCHES[name]
    defaults = chosen()
    for setting in fields(chosen):
        value = getattr(defaults, setting.name)
        other: Any = 3
        if isinstance(value, bool):
            other = not value
        elif isinstance(value, tuple):
            other = (1, 2)
        elif isinstance(value, str):
            other = "none"
        elif isinstance(value, float):
            other = value / 2
        words = [str(v) for v in (other if isinstance(other, tuple) else (other,))]
        flag = "--" + setting.name.replace("_", "-")
        command = cli.parse(["search", "u.npy", "--strategy", name, flag, *words])
        assert isinstance(command, Search)
        assert getattr(command.search(), setting.name) == other != value


def test_a_flag_of_another_search_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--survivors" in told(
        capsys, "search", "u.npy", "--strategy", "beam", "--survivors", "3"
    )


def bash_lines(page: str) -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), re.S)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("opsplit ")]


@pytest.mark.slow
def test_the_commands_of_the_readme_run_as_written(tmp_path: Path) -> None:
    readme_files(tmp_path)
    for line in bash_lines("README.md"):
        done = subprocess.run([*OPSPLIT, *shlex.split(line)[1:]], cwd=tmp_path)
        assert done.returncode == 0, line


def test_the_quick_commands_of_the_readme_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    (first,) = re.findall(r"^## Try it\n(.*?)^## ", text, re.M | re.S)
    quick = [line for line in bash_lines("README.md") if line in first]
    assert len(quick) >= 5
    for line in quick:
        cli.main(shlex.split(line)[1:])
    assert (tmp_path / "forecast.html").exists() and (tmp_path / "demo" / "demo.png").exists()
    assert "Explained" in capsys.readouterr().out


def readme_files(folder: Path) -> None:
    """The files that the commands of the README name."""
    physics = opsplit.get_physics("advection-diffusion")
    np.save(folder / "frames.npy", physics.generate("A+D", 1, seed=1).data[0, :16].numpy())
    whole = opsplit.get_physics("combined").generate("train", 24, seed=1, frames=30)
    whole.save(folder / "mine.npz")
    unseen = opsplit.get_physics("combined").generate("D+Disp", 1, seed=2)
    np.save(folder / "observed.npy", unseen.data[0, :16].numpy())


def test_the_overview_teaches_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {told(capsys, *words) for words in ((), ("--help",), ("-h",), ("help",))}
    assert len(pages) == 1
    page = pages.pop()
    for name in cli.COMMANDS:
        sentence = str(cli.command_class(name).__doc__).split(".")[0].split()
        assert f" {name} {' '.join(sentence)}" in " ".join(page.split())
    assert max(map(len, page.splitlines())) < 100


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_says_no_default_that_is_nothing(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = told(capsys, name, "--help")
    assert "default: None" not in page and "default: False" not in page


def test_mistyped_names_are_answered_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Did you mean predict?" in told(capsys, "predcit", "u.npy")
    np.save(tmp_path / "frames.npy", np.zeros((4, 16)))
    told(capsys, "predict", str(tmp_path / "frames.npy"), "--out", str(tmp_path))
    said = told(capsys, "predict", str(tmp_path / "frame.npy"), "--out", str(tmp_path))
    assert "Did you mean frames.npy?" in said, "also where the output folder is in use"


def test_a_guessed_box_is_the_one_that_was_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's box, not one of spacing one, where nothing says it."""
    made = opsplit.get_physics("advection-diffusion").generate("A+D", 1, seed=1)
    np.save(tmp_path / "u.npy", made.data[0, :16].numpy())
    line = ["identify", str(tmp_path / "u.npy"), "--dt", f"{made.dt}"]
    cli.main(line)
    guessed = capsys.readouterr().out
    cli.main([*line, "--extent", "16"])
    said = capsys.readouterr().out
    assert "taken as 16" in guessed and "1 apart" not in guessed
    found = next(line for line in guessed.splitlines() if "D = " in line)
    assert " ".join(found.split()[:3]) in said


@pytest.mark.parametrize("wish", [{}, {"NO_COLOR": "1"}])
def test_colours_are_left_out_on_request(wish: dict[str, str]) -> None:
    main, other = pty.openpty()
    spoken = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"} | wish
    subprocess.run([*OPSPLIT, "info", "--help"], stdout=other, env=spoken, check=True)
    os.close(other)
    coloured = b"\x1b[" in os.read(main, 10_000)
    os.close(main)
    assert coloured == (not wish)


@pytest.mark.parametrize("during", ["parse", "import_module"])
def test_an_interrupt_during_imports_waits_for_their_end(tmp_path: Path, during: str) -> None:
    """A library that is interrupted may swallow it and go on with half of its modules."""
    np.save(tmp_path / "u.npy", np.zeros((4, 16)))
    code = (
        "import os, signal, sys; from opsplit import cli\n"
        f"found = cli.{during}\n"
        "def interrupted(asked):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    made = found(asked) if asked != 'torch' else None\n"
        "    print('whole')\n"
        "    return made\n"
        f"cli.{during} = interrupted\n"
        "cli.main(sys.argv[1:])"
    )
    line = ["predict", "u.npy", "--dt", "1", "--out", "o"]
    run = subprocess.run(
        [sys.executable, "-c", code, *line], cwd=tmp_path, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (130, "opsplit: interrupted\n")
    assert "whole" in run.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["u.npy"]
