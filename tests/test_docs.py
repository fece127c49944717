"""Numbers and commands in the documents are those the program writes and takes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opsplit.benchmark.tables import insert_summary, markdown
from opsplit.cli import parse

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"


def records() -> list[dict]:
    return json.loads((RESULTS / "method.json").read_text())


def test_the_readme_table_is_written_from_the_stored_records() -> None:
    text = (ROOT / "README.md").read_text()
    assert insert_summary(text, records()) == text


def test_the_results_page_is_written_from_the_stored_records() -> None:
    text = (RESULTS / "method.md").read_text()
    command = re.search(r"Written by `([^`]+)`", text)
    assert command is not None
    title = text.splitlines()[0].removeprefix("# ")
    assert markdown(records(), title, command[1]) == text


def test_the_page_on_searches_is_written_from_its_lines(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "search", tmp_path / "search")
    command = [sys.executable, "benchmarks/search_study", "report", "--out"]
    subprocess.run([*command, str(tmp_path / "search")], cwd=ROOT, check=True)
    for name in ("search.md", "search.json"):
        assert (tmp_path / name).read_text() == (RESULTS / name).read_text()


def test_every_measured_row_carries_its_origin() -> None:
    for record in records():
        spread = ("standard_error",) if record["n"] > 1 else ()
        for key in ("command", "seed", "commit", "hardware", "n", *spread):
            assert record[key] is not None, (record["method"], record["family"], key)
        if record["family"]:
            assert record["training_minutes"] > 0


@pytest.mark.parametrize(
    "line",
    [
        line.split("#")[0].strip()
        for block in re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
        for line in block.splitlines()
        if line.startswith("opsplit ")
    ],
)
def test_every_command_of_the_readme_is_understood(line: str) -> None:
    parse(shlex.split(line)[1:])


def test_every_page_has_its_place_in_the_site() -> None:
    """`make docs` refuses pages that nothing leads to."""
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(pages)
