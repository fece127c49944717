"""What the bundled spectral models are for: fresh compositions, found and followed."""

from __future__ import annotations

import pytest

from opsplit.benchmark import tasks
from opsplit.benchmark.tasks import COLUMNS, Column
from opsplit.errors import no_warnings
from opsplit.metrics import nrmse
from opsplit.predict.estimator import OperatorSplitter

COMPOSITIONS = [
    COLUMNS["advection-diffusion"]["A+D"],
    COLUMNS["gray-scott"]["GS"],
]


@pytest.mark.parametrize("column", COMPOSITIONS, ids=lambda c: c.split)
def test_an_unseen_composition_is_found_and_followed(column: Column) -> None:
    """A tenth of the error of copying the last frame, and every coefficient within a tenth."""
    observed, future = tasks.test_window(column, 0, seed=1234)
    splitter = OperatorSplitter(column.physics)
    with no_warnings():
        splitter.fit(observed.data[0], observed.dt, observed.grid.extent)
    truth = future.data
    copied = nrmse(observed.data[:, -1:].expand_as(truth), truth)
    forecast = nrmse(splitter.predict(steps=column.horizon)[None], truth)
    assert float(forecast) < 0.1 * float(copied)
    for name, value in splitter.coefficients_.items():
        true = float(observed.coefficients[name][0])
        assert value == pytest.approx(true, rel=0.1, abs=0.02)
