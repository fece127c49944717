"""The notebooks run, and the pages in the documentation are those notebooks."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCE, DOCS = ROOT / "examples" / "notebooks", ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in SOURCE.glob("*.py") if path.stem != "build")


@pytest.fixture(scope="module")
def build() -> Any:
    spec = spec_from_file_location("build_notebooks", SOURCE / "build.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_from_the_first_to_the_last_cell(name: str, tmp_path: Path) -> None:
    code = "import matplotlib, runpy, sys; matplotlib.use('agg'); runpy.run_path(sys.argv[1])"
    command = [sys.executable, "-c", code, str(SOURCE / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_page_and_file_have_the_cells_of_the_source(name: str, build: Any) -> None:
    wanted = build.cells(name)
    held = json.loads((DOCS / f"{name}.ipynb").read_text())
    assert held["nbformat"] == 4
    assert [(cell["cell_type"], cell["source"]) for cell in held["cells"]] == wanted
    page = (DOCS / f"{name}.md").read_text()
    assert all(text in page for _, text in wanted)
    assert any(cell.get("outputs") for cell in held["cells"])


def test_a_cell_gives_what_a_notebook_would_show(build: Any) -> None:
    names: dict[str, Any] = {}
    printed, value = build.run_cell("print('x')\n1 + 1", names)
    assert (printed["text"], value["data"]["text/plain"]) == ("x\n", "2")
    (picture,) = build.run_cell("from matplotlib import pyplot\npyplot.subplots()[1]", names)
    assert "image/png" in picture["data"]
    assert build.run_cell("y = 2", names) == []
