"""A Dask scheduler and its worker, here as threads of this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from work_items import Counted, add

from opsplit.errors import OpsplitError
from opsplit.parallel import HERE, Where, run_items
from opsplit.parallel import work as worker_side

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None,
        host="127.0.0.1", protocol="tcp",
    ) as found:  # fmt: skip
        yield found


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to answer."""
    monkeypatch.setattr("opsplit.parallel.cluster.ANSWER", 300.0)


def test_a_cluster_gives_the_outcomes_of_one_after_the_other(cluster: Any) -> None:
    items = [*range(60), -1]
    spread = list(run_items(add, items, Counted(0.5), Where(cluster=cluster.scheduler_address)))
    alone = list(run_items(add, items, Counted(0.5), HERE))
    assert sorted((o.item, o.value or 0, o.reason or "") for o in spread) == sorted(
        (o.item, o.value or 0, o.reason or "") for o in alone
    )


def test_workers_with_other_versions_are_refused_at_once(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = worker_side.versions() | {"opsplit": "99.0"}
    monkeypatch.setattr(
        "opsplit.parallel.cluster.check_versions",
        lambda others, who: worker_side.check_versions(mine, who),
    )
    with pytest.raises(OpsplitError, match=r"The worker .* has opsplit 99\.0 instead of"):
        list(run_items(add, [1], Counted(0.0), Where(cluster=cluster.scheduler_address)))


def test_no_scheduler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsplit.parallel.cluster.ANSWER", 0.3)
    with pytest.raises(OpsplitError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1 "):
        list(run_items(add, [1], Counted(0.0), Where(cluster="tcp://127.0.0.1:1")))
