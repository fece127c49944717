"""The page in a real browser: everything loads, works and fits on a phone."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from opsplit.predict.estimator import OperatorSplitter
from opsplit.report.html import write_report

api = pytest.importorskip("playwright.sync_api", reason="pip install opsplit[browser]")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")

STEPS = 8
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api.expect.set_options(timeout=300_000)
    with api.sync_playwright() as driver:
        # The sandbox refuses root and most containers; the pages are our own.
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module", params=["line", "plane"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    fitted: tuple[OperatorSplitter, Tensor] = request.getfixturevalue(request.param)
    splitter, truth = fitted
    path: Path = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    long = "/a/very/long/path/without/any/place/to/break/it" * 4
    write_report(
        path, splitter, splitter.forecast(STEPS), truth=truth, notes=[long], understood=[long],
        facts={"command": f"opsplit predict {long}", "note": "<script>console.error(1)</script>"},
    )  # fmt: skip
    return path.as_uri()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page(browser: Any, address: str, size: dict[str, int], scheme: str) -> None:
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(300_000)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda request: said.append(f"failed: {request.url:.80}"))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)

    pictures = page.locator("img")
    assert pictures.count() >= 3
    assert pictures.evaluate_all("all => all.every(x => x.complete && x.naturalWidth > 0)")
    assert pictures.evaluate_all("all => all.every(x => x.alt && x.clientWidth >= 100)")
    assert page.locator(".numbers tbody tr").count() == STEPS
    assert page.locator(".compositions tr.pick").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]

    page.click("#copy")
    api.expect(page.locator("#copy")).to_have_text("Copied")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    shown = page.locator(".numbers tbody tr").evaluate_all(
        "all => all.map(row => [...row.cells].map(cell => Number(cell.textContent)))"
    )
    assert len(rows) == STEPS
    for row, numbers in zip(rows, shown, strict=True):
        assert [float(x) for x in row.values()] == pytest.approx(numbers, rel=1e-4)

    if page.locator("#film").count():
        screen, label = page.locator(".screen").first, page.locator("#moment")
        first = screen.get_attribute("src")
        assert label.text_content().startswith("observed")
        page.locator("#frame").press("End")
        assert label.text_content() == f"forecast, t = {STEPS}"
        assert screen.get_attribute("src") != first
        page.click("#play")
        api.expect(label).to_have_text(re.compile("observed"))
        page.click("#play")
        assert page.locator("#play").text_content() == "Play"
    assert said == []
    assert asked[0] == address
    assert all(url.startswith("data:") for url in asked[1:])
    context.close()


def test_on_paper_everything_is_there_that_paper_can_hold(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 720, "height": 900}, color_scheme="dark")
    page.goto(address)
    page.emulate_media(media="print")
    tables = page.locator(".scroll").evaluate_all(
        "all => all.every(x => x.scrollHeight <= x.clientHeight + 2)"
    )
    assert tables, "no table is cut off"
    for part in ("#copy", "#play"):
        assert page.locator(part).count() == 0 or not page.locator(part).is_visible()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    page.close()


def test_copying_where_the_clipboard_is_closed(browser: Any, address: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(300_000)
    page.add_init_script("delete Navigator.prototype.clipboard")
    page.goto(address)
    page.click("#copy")
    api.expect(page.locator("#csv")).to_be_visible()
    # The channel has the name that the data give it.
    channel = "A" if address.endswith("plane.html") else "u"
    chosen = page.evaluate("getSelection().toString()")
    assert chosen.startswith(f"frame,time,mean {channel},min {channel}")
    page.close()
