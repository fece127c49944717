"""An initial field that somebody draws: the field of a drawing, and the pad in a real browser."""

from __future__ import annotations

import io
import math
import threading
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("gradio", reason="pip install opsplit[app]")
from visitor import Visitor

from opsplit.app import job, samples
from opsplit.app.pad import CELLS, SMOOTHING, drawn_field
from opsplit.errors import OpsplitError
from opsplit.grid import Grid

NAME = "advection-diffusion"
VALUES = {"c": 0.5, "D": 0.3}


def waves(*turns: int) -> torch.Tensor:
    """A product of sines, at the middle of the cells of a drawing."""
    made = torch.ones((), dtype=torch.float64)
    for points, turn in zip(CELLS[len(turns)], turns, strict=True):
        x = (torch.arange(points, dtype=torch.float64) + 0.5) / points
        made = made[..., None] * torch.sin(2 * math.pi * turn * x)
    return made


@pytest.mark.parametrize("turns", [(1,), (5,), (1, 2), (3, 1)])
def test_a_drawn_wave_is_that_wave_on_the_grid(turns: tuple[int, ...]) -> None:
    grid = Grid((50, 40)[: len(turns)], (1.0,) * len(turns))
    wanted, damping = torch.ones((), dtype=torch.float64), 1.0
    for points, cells, turn in zip(grid.shape, CELLS[grid.ndim], turns, strict=True):
        x = torch.arange(points, dtype=torch.float64) / points
        wanted = wanted[..., None] * torch.sin(2 * math.pi * turn * x)
        damping *= math.exp(-((SMOOTHING * 2 * math.pi * turn / cells) ** 2) / 2)
    found = drawn_field(waves(*turns).tolist(), grid)
    assert torch.allclose(found, damping * wanted, atol=1e-12)


@pytest.mark.parametrize(
    "drawing", [[], [0.0] * 64, [1.0] * 64, [1.0] * 63, ["a"] * 64, [math.nan] * 64, [[1.0]] * 64]
)
def test_no_field_comes_from_nothing(drawing: Any) -> None:
    with pytest.raises(OpsplitError, match="draw the initial field first"):
        drawn_field(drawing, Grid((32,), (1.0,)))


def test_all_channels_start_from_the_drawing_within_their_range() -> None:
    drawing = waves(1, 1).tolist()
    values = {knob.name: knob.start for knob in samples.knobs("gray-scott")}
    sample = samples.simulate("gray-scott", values, drawing, frames=2, steps=1)
    a, b = sample.observed.data[0, 0].double()
    wanted = drawn_field(drawing, sample.observed.grid)
    assert abs(float(torch.corrcoef(torch.stack([b.flatten(), wanted.flatten()]))[0, 1])) > 0.999
    assert float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]) < -0.999
    assert float(a.min()) > 0 and float(a.max()) < 1.01


def test_the_snippet_holds_the_drawing() -> None:
    sample = samples.simulate(NAME, VALUES, waves(2).tolist(), frames=6, steps=4)
    task = job.play_task(sample, 600)
    answer = list(job.run(task, threading.Event()))[-1]
    assert isinstance(answer, job.Answer)
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()):
        exec(compile(task.snippet, "the_same.py", "exec"), names)
    assert torch.equal(names["sample"].observed.data, sample.observed.data)
    assert torch.equal(names["future"].data[0], answer.forecast.frames)


@pytest.mark.parametrize("name", samples.playable())
def test_every_coefficient_has_a_slider_that_goes_beyond_training(name: str) -> None:
    for knob in samples.knobs(name):
        least, most = knob.ends
        assert least <= knob.low < knob.high < most
        assert knob.low < knob.start < knob.high if knob.acts else knob.start == 0


STILL = """() => {
  const box = document.querySelector('#pad canvas').getBoundingClientRect();
  const now = [box.x, box.y, box.width].join();
  const same = now === window.lastBox;
  window.lastBox = now;
  return same && box.width > 0;
}"""
"""Whether the pad is where it was a frame ago."""


def draw(visitor: Visitor, points: Any) -> None:
    """One stroke with the mouse, through shares of the width and the height of the pad."""
    mouse, canvas = visitor.page.mouse, visitor.page.locator("#pad canvas")
    canvas.scroll_into_view_if_needed()
    # The page may still move: what was typed or answered before is being drawn.
    visitor.page.wait_for_function(STILL)
    box = canvas.bounding_box()
    for number, (x, y) in enumerate(points):
        mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if number == 0:
            mouse.down()
    mouse.up()


def test_a_profile_is_drawn_with_the_mouse_and_with_keys(browser: Any, address: str) -> None:
    visitor = Visitor(browser, address, width=390, scheme="dark")
    page = visitor.page
    visitor.choose("field", samples.DRAWN)
    page.wait_for_selector("#pad canvas", state="visible")
    page.click("#play")
    assert "draw the initial field first" in visitor.answer()
    x = np.linspace(0.02, 0.98, 15)
    draw(visitor, zip(x, 0.5 - 0.4 * np.sin(2 * np.pi * x), strict=True))
    page.focus("#pad canvas")
    for key in ("ArrowLeft", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    assert page.inner_text("#pad output").startswith("x 62: 0.")
    page.click("#play")
    page.wait_for_selector("#verdict .failure", state="detached")
    assert visitor.answer().startswith("Explained")
    code = page.inner_text("#code")
    assert "field=[" in code
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("#pad .clear")
    page.click("#play")
    page.wait_for_selector("#verdict .failure")
    assert "flat" in visitor.answer()
    visitor.leave(address)


def test_the_pad_of_a_plane_has_x_to_the_right_and_y_upwards(browser: Any, address: str) -> None:
    visitor = Visitor(browser, address)
    page = visitor.page
    visitor.choose("field", samples.DRAWN)
    visitor.choose("equation", "gray-scott")
    page.wait_for_selector("#pad .lower", state="visible")
    draw(visitor, [(0.9, 0.2)])
    # The pressed button turns the brush round, the keys go on from the place of the last stroke.
    page.click("#pad .lower")
    draw(visitor, [(0.1, 0.9)])
    page.focus("#pad canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("-")
    assert page.inner_text("#pad output") == "x 4, y 3: -0.34"
    visitor.leave(address)
