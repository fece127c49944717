"""The soak of benchmarks/, cut short: it finds what it looks for, and nothing in the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PLACE = Path(__file__).parents[1] / "benchmarks" / "soak" / "__main__.py"


@pytest.fixture
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", PLACE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_the_last_call_is_the_first_again(soak: ModuleType) -> None:
    found = soak.soak(4, say=False)
    assert found["identical"] is True
    assert found["calls"] == 4 and found["windows"] == 4
    assert 0 < found["fit_error"] < 1e-2


def test_state_that_carries_over_and_memory_that_grows_are_found(
    soak: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def call(*_: Any) -> dict[str, Any]:
        calls.append(0)
        return {"fit_error": 1e-9 * (len(calls) == 40)}

    monkeypatch.setattr(soak, "call", call)
    monkeypatch.setattr(soak, "resident_mb", lambda: 100.0 + len(calls))
    found = soak.soak(40, say=False)
    assert found["identical"] is False
    assert found["growth"] == pytest.approx(138.5 / 106.5 - 1)
