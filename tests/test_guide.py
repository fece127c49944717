"""The pages of the guide run as they stand, and print what they show."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from importlib import import_module
from pathlib import Path

import pytest

import opsplit

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.stem for path in (DOCS / "guide").glob("*.md"))
SAME = ELLIPSIS | NORMALIZE_WHITESPACE


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Language and content of every fenced block, at the lines where they stand."""
    text = (DOCS / "guide" / f"{page}.md").read_text()
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        yield found[1], "\n" * text[: found.start(2)].count("\n") + found[2]


def sessions(block: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def command_lines(block: str) -> list[str]:
    joined = block.replace("\\\n", " ")
    return [line.split("  #")[0] for line in joined.splitlines() if line.startswith("opsplit ")]


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, cli: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": page}
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, f"docs/guide/{page}.md", "exec"), names)
        elif language == "bash":
            for line in command_lines(block):
                cli(line.removeprefix("opsplit "))
        elif language == "console":
            for line, shown in sessions(block):
                try:
                    printed = cli(line.removeprefix("opsplit "))
                except SystemExit:
                    said = capsys.readouterr()
                    printed = said.out + said.err
                assert OutputChecker().check_output(shown, printed, SAME), f"{line}\n{printed}"


def test_the_guide_has_its_pages_and_they_do_something() -> None:
    assert PAGES == [
        "first-forecast",
        "many-trajectories",
        "own-data",
        "own-equation",
        "own-operator",
        "walls-and-dimensions",
    ]
    for page in PAGES:
        languages = [language for language, _ in blocks(page)]
        assert languages.count("python") >= 3
        # `sh` is not run: it starts clusters and several machines.
        unrun = {"sh"} if page == "many-trajectories" else set()
        assert set(languages) <= {"python", "bash", "console"} | unrun


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    named = set(re.findall(r"^::: opsplit\.(?:\w+\.)*(\w+)$", text, re.M)) | {"__version__"}
    assert named >= set(opsplit.__all__)


@pytest.mark.parametrize(
    "name",
    ["Physics", "OperatorFamily", "Wrapper", "LinearPart", "Nonlinearity", "Strategy"],
)
def test_the_reference_has_what_a_user_may_subclass(name: str) -> None:
    text = (DOCS / "reference" / "extend.md").read_text()
    (place,) = re.findall(rf"^::: (opsplit\.[\w.]+)\.{name}$", text, re.M)
    assert inspect.isclass(getattr(import_module(place), name))
