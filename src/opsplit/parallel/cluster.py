"""A Dask cluster as a place for work items."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from opsplit.errors import OpsplitError
from opsplit.parallel.work import check_versions, versions

START = "dask scheduler --host 127.0.0.1"
LOST = (
    "The connection to the workers was lost. What is finished is kept; start the same command "
    "again."
)
ANSWER = 10.0
"""Seconds within which a scheduler must answer,"""
ALONE = 60.0
"""and within which at least one worker must be there."""
COUNTED = 2.0
"""Seconds for which the number of workers is remembered."""


class Cluster:
    """Workers that a Dask scheduler knows; their number may change at any time.

    Addresses that begin with `tls://` use the certificates of Dask's own configuration.
    """

    isolates = False

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise OpsplitError(
                "A cluster needs Dask: pip install 'opsplit[cluster]', here and on the workers."
            ) from None
        self.address = address
        try:
            self._client = Client(address, timeout=ANSWER, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as reason:
            said = " ".join(str(reason).split())[:120]
            raise OpsplitError(
                f"No Dask scheduler answers at {address} ({said}); start one with `{START}`."
            ) from None
        try:
            self._wait_for_workers()
            for worker, others in self._ask_versions().items():
                check_versions(others, f"The worker {worker}")
        except BaseException:
            self.close()
            raise
        self._executor = self._client.get_executor(pure=False)
        self._seen = time.monotonic()
        self._counted = (-COUNTED, 0)

    def submit(self, function: Callable[..., Any], call: Any) -> Future[Any]:
        with warnings.catch_warnings():
            # A model travels with one item per worker; Dask would rather have it scattered.
            warnings.filterwarnings("ignore", message="Sending large graph")
            found: Future[Any] = self._executor.submit(function, call)
        return found

    def slots(self) -> int:
        return 2 * self._threads()

    def check(self) -> None:
        """Refuse to wait for workers that do not come."""
        if self._client.status not in ("running", "connecting"):
            raise OpsplitError(LOST)
        if self._threads():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > ALONE:
            raise OpsplitError(
                f"The cluster at {self.address} has had no worker for {ALONE:g} s. What is "
                "finished is kept; start workers and the same command again."
            )

    def close(self) -> None:
        self._client.close(timeout=2)

    def _threads(self) -> int:
        """Threads of all workers, as of a moment ago."""
        when, count = self._counted
        if time.monotonic() - when > COUNTED:
            try:
                count = sum(self._client.nthreads().values())
            except (OSError, TimeoutError, CancelledError):
                count = 0
            self._counted = (time.monotonic(), count)
        return count

    def _wait_for_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=ANSWER)
        except (TimeoutError, OSError):
            raise OpsplitError(
                f"The scheduler at {self.address} has no worker; start one with `dask worker "
                f"{self.address}`."
            ) from None

    def _ask_versions(self) -> dict[str, dict[str, str]]:
        """The versions of every worker."""
        try:
            found: dict[str, dict[str, str]] = self._client.run(versions)
            return found
        # Whatever a worker raises that cannot import opsplit.
        except Exception as reason:
            raise OpsplitError(
                f"A worker of {self.address} cannot use opsplit ({' '.join(str(reason).split())}); "
                "install the same version there."
            ) from None
