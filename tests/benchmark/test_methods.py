"""Searches in the tables use what a user gets, those of the paper what the paper says."""

from __future__ import annotations

import pytest

from opsplit import load_model
from opsplit.benchmark import methods, tasks
from opsplit.predict.estimator import OperatorSplitter


@pytest.mark.parametrize(("search", "substeps"), [("pursuit", "auto"), ("beam", 1), ("direct", 1)])
def test_substeps(search: str, substeps: object, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    class StoppedError(Exception):
        pass

    def splitter(*_: object, **settings: object) -> None:
        used.append(settings["refinement"])
        raise StoppedError

    monkeypatch.setattr(methods, "OperatorSplitter", splitter)
    model = load_model("advection-diffusion", "spectral")
    observed, _ = tasks.test_window(tasks.columns("advection-diffusion")["A+D"], 0, 0)
    with pytest.raises(StoppedError):
        methods.splitting(model, search, model.dictionary)(observed, 4, 0)
    assert used == [substeps]
    assert OperatorSplitter().refinement == "auto"
