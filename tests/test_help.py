"""`help()` of every public name: what it returns and raises, and an example that runs."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import opsplit

PUBLIC = sorted(name for name in opsplit.__all__ if not name.startswith("__"))


def found(name: str) -> Any:
    """The object itself; a name may also be that of a sub-package."""
    home = opsplit._HOME.get(name, "opsplit")
    return getattr(import_module(home), name)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    thing = found(name)
    text = inspect.getdoc(thing) or ""
    assert "Examples:" in text
    if inspect.isfunction(thing):
        assert "Returns:" in text and "Raises:" in text
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_public_methods_and_properties_are_explained(name: str) -> None:
    for part, held in vars(found(name)).items():
        # Data of a class are explained by the strings below them.
        if not part.startswith("_") and isinstance(
            held, (FunctionType, classmethod, staticmethod, property)
        ):
            assert inspect.getdoc(getattr(found(name), part)), part
