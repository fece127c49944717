"""The page as it is served, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    pytest.importorskip("gradio", reason="pip install opsplit[app]")
    from opsplit.app.page import Limits, serve

    # A machine that does much else must not end a search early.
    limits = Limits(seconds=600, usual_seconds=600, upload_mb=1)
    page, found = serve(browser=False, limits=limits, wait=False)
    yield found
    page.close(verbose=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="pip install opsplit[browser]")
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
