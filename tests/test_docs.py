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
        for page in ("README.md", "docs/models.md")
        for block in re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), re.S)
        for line in block.splitlines()
        if line.startswith("opsplit ")
    ],
)
def test_every_command_of_the_readme_and_the_models_page_is_understood(line: str) -> None:
    parse(shlex.split(line)[1:])


def test_the_first_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert block, "README.md has no python block"
    lines = [line for line in block[1].splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 10
    exec(compile(block[1], "README.md", "exec"), {"__name__": "readme"})
    assert re.search(r"'c': 0\.\d+.*'D': 0\.\d+.*explained", capsys.readouterr().out)


def test_the_readme_is_short() -> None:
    words = [w for w in (ROOT / "README.md").read_text().split() if any(c.isalnum() for c in w)]
    assert len(words) <= 900


def pages() -> list[Path]:
    """Every page that a person wrote."""
    written = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return [page for page in written if RESULTS not in page.parents]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(), re.M)
            known = {re.sub(r"[^\w\s-]", "", h).strip().lower().replace(" ", "-") for h in headings}
            assert anchor in known, target


def test_the_glossary_defines_each_term_once() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\*\*(.+?)\*\*$", text, re.M)
    assert len(terms) == len(set(terms)) > 30
    assert text.count("\n: ") == len(terms)
    for word in (
        "Pursuit", "Strength", "Window", "Environment", "Free run", "Composition", "Code",
        "Dictionary", "Operator", "Mechanism", "Fitting error", "NRMSE", "Verdict", "Skill",
    ):  # fmt: skip
        assert word in terms


def test_no_page_promises_what_is_not_measured() -> None:
    for page in pages():
        text = " ".join(page.read_text().split())
        for claim in ("hold at their level", "classical Runge-Kutta", "8 for U-Nets"):
            assert claim not in text, page


def test_every_page_has_its_place_in_the_site() -> None:
    """`make docs` refuses pages that nothing leads to."""
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(pages)
