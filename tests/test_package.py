"""What a user gets: a light import, a complete wheel, and a README that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import opsplit

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that has to succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=ROOT)
    (path,) = out.glob("*.whl")
    return path


@pytest.mark.parametrize(
    "action",
    [
        "import opsplit",
        "from opsplit.cli import main; main()",
        "import runpy; runpy.run_module('opsplit', run_name='__main__')",
    ],
    ids=["import", "cli", "module"],
)
def test_torch_is_not_imported(action: str, tmp_path: Path) -> None:
    script = f"""
import sys
sys.argv = ["opsplit", "--help"]
try:
    {action}
except SystemExit as end:
    assert not end.code, end.code
assert "opsplit" in sys.modules
assert "torch" not in sys.modules
"""
    run(sys.executable, "-c", script, cwd=tmp_path)


@pytest.mark.slow
def test_first_example_of_the_readme_runs_from_a_clean_install(wheel: Path, tmp_path: Path) -> None:
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert block, "README.md has no python block"
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    # -I keeps the surrounding PYTHONPATH out; byte-compiling all of torch would take a minute.
    python = (tmp_path / "venv" / "bin" / "python", "-I")
    pip = (*python, "-m", "pip", "install", "--quiet", "--no-compile")
    run(*pip, "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)

    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "example.py").write_text(block[1])
    output = run(*python, tmp_path / "example.py", cwd=empty)
    assert re.search(r"\bc\b.*\d", output, re.S), output


@pytest.fixture(scope="module")
def unets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unets")
    where = ROOT / "packages" / "opsplit-unets"
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=where)
    (path,) = out.glob("*.whl")
    return path


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_two_wheels_hold_the_whole_zoo(wheel: Path, unets: Path) -> None:
    source = ROOT / "src" / "opsplit"
    zoo = {
        path.relative_to(source).as_posix()
        for path in (source / "zoo").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    networks = {path for path in zoo if "/unet/" in path}
    assert networks and zoo - networks
    assert {f"opsplit/{path}" for path in zoo - networks} <= names(wheel)
    assert {f"opsplit_unets/{path}" for path in networks} <= names(unets)
    assert not any("/unet/" in name for name in names(wheel))
    assert wheel.stat().st_size < 25e6


def test_the_wheel_holds_templates_and_styles(wheel: Path) -> None:
    wanted = {"report/page.html", "report/page.css", "report/page.js", "app/player.html"}
    assert {f"opsplit/{name}" for name in wanted} <= names(wheel)


def test_models_of_another_package_are_found_by_name(unets: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(unets) as archive:
        archive.extractall(tmp_path)
    code = (
        "import sys; from pathlib import Path; import opsplit.model as m;"
        "m.ZOO = Path('nowhere'); print(m.locate('combined', 'unet'))"
    )
    paths = f"{tmp_path}:{ROOT / 'src'}"
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.stdout.strip() == str(tmp_path / "opsplit_unets/zoo/combined/unet"), done.stderr


def test_version_is_the_same_everywhere(wheel: Path) -> None:
    (built,) = metadata.distributions(path=[str(wheel)])
    assert built.version == opsplit.__version__
    top = re.search(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert top
    assert opsplit.__version__ in top[0]
