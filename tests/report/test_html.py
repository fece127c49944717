"""The page about a forecast: complete, safe with any text, and the numbers of the forecast."""

from __future__ import annotations

import base64
import csv
import errno
import io
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.metrics import nrmse_per_frame
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.rollout import Forecast, Outcome
from opsplit.report.animation import SIDE, Colours, film_picks
from opsplit.report.html import write_report

Fitted = tuple[OperatorSplitter, Tensor]
STEPS = 8
FACTS = {"command": "opsplit predict u.npy", "seed": "0", "commit": "abc"}


class Page(HTMLParser):
    """Tags with their attributes, and the text of every element that has an id or a class."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text += f"\n<{tag}>"

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str, **attrs: str) -> int:
        return sum(t == tag and attrs.items() <= a.items() for t, a in self.tags)

    def rows(self) -> list[dict[str, str]]:
        """The numbers that the copy button gives."""
        held = self.text.split("<pre>")[1].split("\n<")[0]
        return list(csv.DictReader(io.StringIO(held)))


def report(path: Path, splitter: OperatorSplitter, **more: Any) -> Page:
    given = {"forecast": None, "facts": FACTS, "understood": ["Read as told."]} | more
    if given["forecast"] is None:
        given["forecast"] = splitter.forecast(STEPS)
    assert write_report(path, splitter, **given) == path
    return Page(path)


def test_everything_is_there_in_order(line: Fitted, tmp_path: Path) -> None:
    splitter, truth = line
    frames, lower, upper = splitter.predict(STEPS, return_interval=0.9)
    page = report(
        tmp_path / "new" / "out.html", splitter, lower=lower, upper=upper, truth=truth,
        notes=["Beyond the trained range."],
    )  # fmt: skip
    wanted = [
        "Explained: one step leaves", "NRMSE", "\n<td>skill", "Beyond the trained", "Coefficients",
        splitter.equation_, "Observation and forecast", "truth right of it", "size of the error",
        "half width of the 90 % band", "Error", "Compositions", splitter.composition_.label,
        "Numbers", "What was read", "Read as told.", "64 points", "Glossary",
        "opsplit predict u.npy", "abc", torch.__version__, np.__version__,
    ]  # fmt: skip
    places = [page.text.index(words, page.text.index("<body>")) for words in wanted]
    assert places == sorted(places)
    assert "Explained: one step leaves" in page.text and "on the frames that followed" in page.text
    assert page.count("tr", **{"class": "pick"}) >= 1
    # History, truth, error and band over time, the last profile, the error curve.
    assert page.count("img") == 6
    assert page.count("html", lang="en") == page.count("meta", name="viewport") == 1
    rows = page.rows()
    assert len(rows) == STEPS
    errors = nrmse_per_frame(frames[None].float(), truth[None].float())[0]
    for i, row in enumerate(rows):
        found = {k: float(v) for k, v in row.items()}
        assert found["time"] == pytest.approx(10 / 99 * (i + 1))
        assert found["max u"] == pytest.approx(float(frames[i].max()), rel=1e-5)
        half = float((upper - lower)[i].mean() / 2)
        assert found["half width u"] == pytest.approx(half, rel=1e-2)
        assert found["error of forecast"] == pytest.approx(float(errors[i]), rel=1e-3)
        assert found["error of persistence"] > found["error of forecast"]


def test_one_pick_per_table(line: Fitted, tmp_path: Path) -> None:
    page = report(tmp_path / "out.html", line[0])
    tables = page.count("table", **{"class": "compositions"}) + page.count(
        "table", **{"class": "ranked"}
    )
    assert page.count("tr", **{"class": "pick"}) == tables


def test_planes(plane: Fitted, tmp_path: Path) -> None:
    splitter, truth = plane
    page = report(tmp_path / "out.html", splitter, truth=truth, channels=["A", "B"])
    # Per channel 2 observed and 3 forecast frames, truth and error of these, 2 scales, 2 screens.
    assert page.count("img") == 2 * (2 + 3 + 3 + 3 + 2 + 2) + 1
    assert page.count("img", **{"class": "screen"}) == 4
    assert {"mean A", "max B"} <= page.rows()[0].keys()


def test_a_volume_is_cut_in_the_middle(
    on_grid: Callable[..., OperatorSplitter], tmp_path: Path
) -> None:
    frames = torch.rand(3, 1, 6, 5, 4, generator=torch.Generator().manual_seed(0))
    elsewhere = frames.clone()
    elsewhere[0, 0, ..., 3] = 0.5

    def pictures(forecast: Tensor) -> list[str | None]:
        found = Forecast(forecast, torch.arange(1.0, 4), "ok")
        page = report(tmp_path / "out.html", on_grid(frames), forecast=found)
        assert "the plane in the middle of z" in page.text
        return [a["src"] for t, a in page.tags if t == "img"]

    assert pictures(frames) == pictures(elsewhere)
    elsewhere[0, 0, ..., 2] = 0.5
    assert pictures(frames) != pictures(elsewhere)


HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>$\\frac{&'</title>\udcff"


@pytest.mark.parametrize("kind", ["line", "plane"])
def test_text_stays_text(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    splitter, truth = request.getfixturevalue(kind)

    def tags(words: str) -> list[str]:
        page = report(
            tmp_path / "out.html", splitter, truth=truth, notes=[words], understood=[words],
            channels=[words] * truth.shape[1], facts={"command": words, words: words},
        )  # fmt: skip
        for _, attrs in page.tags:
            assert not any(name.startswith("on") for name in attrs)
            for name in ("src", "href"):
                assert (attrs.get(name) or "data:").startswith("data:")
        return [tag for tag, _ in page.tags]

    assert tags(HOSTILE) == tags("words")
    text = (tmp_path / "out.html").read_text()
    assert "url(" not in text
    assert "@import" not in text


def test_a_forecast_that_breaks_off(line: Fitted, tmp_path: Path) -> None:
    splitter, truth = line
    found = splitter.forecast(STEPS)
    frames = found.frames.clone()
    frames[4] *= 1e30
    frames[5:] = torch.nan
    broken = Forecast(frames, found.times, Outcome.DIVERGED, 6)
    page = report(tmp_path / "out.html", splitter, forecast=broken, truth=truth[:3])
    assert "Status of the forecast: diverged at frame 6." in page.text
    assert "last finite frame" in page.text
    rows = page.rows()
    assert [bool(row["max u"]) for row in rows] == [True] * 5 + [False] * 3
    assert [bool(row["error of forecast"]) for row in rows] == [True] * 3 + [False] * 5


def test_large_fields_make_small_pages(
    on_grid: Callable[..., OperatorSplitter], tmp_path: Path
) -> None:
    noise = torch.rand(24, 5, 256, 256, generator=torch.Generator().manual_seed(0))
    found = Forecast(noise, torch.arange(1.0, 25), "ok")
    page = report(tmp_path / "out.html", on_grid(noise[:4]), forecast=found, truth=noise)
    assert "Pictures of the first 4 of 5 channels." in page.text
    assert (tmp_path / "out.html").stat().st_size < 5e6


def test_the_old_page_survives_a_full_disk(
    line: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.html"
    path.write_text("old")

    def full(self: Path, data: bytes) -> int:
        with open(self, "wb") as stream:
            stream.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OpsplitError, match="No space left on device"):
        report(path, line[0])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_shapes_that_do_not_fit(line: Fitted, tmp_path: Path) -> None:
    splitter, truth = line
    with pytest.raises(OpsplitError, match="truth must be shaped like the forecast"):
        report(tmp_path / "out.html", splitter, truth=truth[..., :32])
    with pytest.raises(OpsplitError, match="both lower and upper"):
        report(tmp_path / "out.html", splitter, lower=truth)
    with pytest.raises(OpsplitError, match="needs a forecast of shape"):
        report(tmp_path / "out.html", splitter, channels=["A", "B"])
    assert not list(tmp_path.iterdir())


def decoded(uri: str) -> np.ndarray:
    image = Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))
    return np.asarray(image.convert("RGB")).astype(int)


def test_pictures_have_x_to_the_right_and_y_upwards() -> None:
    field = np.zeros((6, 4), dtype=np.float32)
    field[5, 0], field[0, 3] = 1, np.nan
    seen = decoded(Colours("gray", 0, 1, False).picture(field))
    assert seen.shape == (4, 6, 3)
    assert seen[3, 5].tolist() == [255] * 3
    assert seen[0, 0].tolist() == [136] * 3
    assert seen.sum() == 3 * (255 + 136)
    fine = np.full((3 * SIDE, 8), 0.5, dtype=np.float32)
    assert decoded(Colours("gray", 0, 1, False).picture(fine)).shape == (8, SIDE, 3)


def test_colours_span_what_was_seen() -> None:
    seen = np.array([1.0, 3.0])
    assert Colours.of(seen, np.array([0.5, 4.0])) == Colours("viridis", 0.5, 4.0, False)
    assert Colours.of(seen, np.array([2.0, 1e30, np.inf])) == Colours("viridis", 1, 5, True)
    assert Colours.of(seen - 2, np.array([0.5])) == Colours("RdBu_r", -1, 1, False)
    still = Colours.of(np.full(3, 2.0), np.full(3, np.nan))
    assert still.low < still.high


def test_films_stay_short() -> None:
    assert film_picks(10, 1, (32, 32)) == list(range(10))
    assert len(film_picks(1000, 1, (32, 32))) == 60
    few = film_picks(1000, 4, (512, 512))
    assert len(few) == 10
    assert (few[0], few[-1]) == (0, 999)
