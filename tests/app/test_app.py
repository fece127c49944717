"""The page in a real browser, and its parts without one."""

from __future__ import annotations

import io
import json
import os
import threading
import time
import urllib.error
import urllib.request
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("gradio", reason="pip install opsplit[app]")
from visitor import Visitor

import opsplit
from opsplit.app import job, samples, views
from opsplit.errors import OpsplitError
from opsplit.physics import PHYSICS

NAME = "advection-diffusion"
VALUES = {"c": 0.5, "D": 0.3}


@pytest.fixture(scope="module")
def sample() -> samples.Sample:
    return samples.simulate(NAME, VALUES, frames=6, steps=4, seed=1)


@pytest.fixture(scope="module")
def answer(sample: samples.Sample) -> job.Answer:
    states = list(job.run(job.play_task(sample, 600), threading.Event()))
    assert all(isinstance(state, job.Progress) for state in states[:-1])
    found = states[-1]
    assert isinstance(found, job.Answer)
    return found


def test_every_equation_with_a_model_can_be_played() -> None:
    assert set(samples.playable()) <= set(PHYSICS)
    assert len(samples.playable()) >= 4


def test_a_sample_without_noise_is_the_exact_solution(sample: samples.Sample) -> None:
    whole = torch.cat([sample.observed.data, sample.future.data], 1)[0, :, 0].double()
    spectrum = torch.fft.rfft(whole)
    k = 2 * torch.pi * torch.arange(spectrum.shape[1]) / sample.observed.grid.extent[0]
    ratio = torch.exp((-0.3 * k**2 - 0.5j * k) * sample.observed.dt)
    low = slice(1, 6)
    assert torch.allclose(spectrum[1:, low], (spectrum[:-1] * ratio)[:, low], rtol=1e-3)
    known = samples.terms_given(sample)
    assert known is not None
    assert np.allclose(known, sample.future.data[0], atol=0.01)


def test_a_random_pattern_is_alive() -> None:
    """Some fields of Gray-Scott have died out before the first frame."""
    for seed in range(3):
        first = samples.simulate(
            "gray-scott", {"F": 0.06, "k": 0.06}, frames=2, steps=1, seed=seed
        ).observed.data[0, 0]
        assert float(first.flatten(1).std(1).min()) > 0.05


def test_noise_is_a_share_of_the_field_and_spares_the_future(sample: samples.Sample) -> None:
    noisy = samples.simulate(NAME, VALUES, frames=6, steps=4, seed=1, noise=0.1)
    gap = noisy.observed.data - sample.observed.data
    assert float(gap.std() / sample.observed.data.std()) == pytest.approx(0.1, rel=0.1)
    assert torch.equal(noisy.future.data, sample.future.data)


@pytest.mark.parametrize("field", samples.FIELDS[1:])
def test_initial_fields_are_periodic_with_unit_deviation(field: str) -> None:
    first = samples.simulate(NAME, VALUES, field, frames=2, steps=1).observed.data[0, 0, 0]
    assert float(first.std()) == pytest.approx(1, rel=1e-3)
    jump = float((first[0] - first[-1]).abs())
    assert jump <= 1.01 * float(first.diff().abs().max())


@pytest.mark.parametrize("name", samples.playable())
def test_the_equation_that_is_played_is_written_with_its_numbers(name: str) -> None:
    chosen = {knob.name: knob.start for knob in samples.knobs(name)}
    written = samples.equation(name, chosen)
    assert written.partition("_t")[0].strip("(").startswith(opsplit.get_physics(name).channels[0])
    acting = [knob for knob in samples.knobs(name) if chosen[knob.name]]
    assert 0 < len(acting) <= samples.TOGETHER
    assert "f_" not in written, "every term has its known form"
    assert "<i>" in views.system(written)


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ({}, ""),
        (
            {"opsplit": 0.0123, "persistence": 0.5},
            "<b>1.2 %</b>; the last frame, repeated, by 50 %",
        ),
        ({"opsplit": 1e-7}, "less than 0.001 %"),
        ({"opsplit": float("nan")}, "more than any number"),
    ],
)
def test_an_error_is_said_in_plain_words(errors: dict[str, float], words: str) -> None:
    assert words in views._in_words(errors)


def test_the_box_marks_what_lies_beyond_training() -> None:
    known = samples.knobs(NAME)
    inside = {knob.name: (knob.low + knob.high) / 2 for knob in known}
    outside = inside | {known[0].name: 1.5 * known[0].high}
    assert views.box(known, inside).count("#d55e00") == 0
    assert views.box(known, outside).count("#d55e00") == 1


def test_the_live_table_has_the_best_composition_first() -> None:
    lines = ["line: best 0.5: 1 [c=1]", "", "line: best 1e-06: 2 [D=1]", "best 0.1: <b>"]
    text = views.progress(job.Progress(0.5, lines))
    places = [text.index(words) for words in ("line: 2 [D=1]", "&lt;b&gt;", "line: 1 [c=1]")]
    assert places == sorted(places)


def test_the_answer_has_everything(answer: job.Answer) -> None:
    assert {"opsplit", "persistence", "direct", "terms given"} == answer.errors.keys()
    assert answer.errors["opsplit"] < answer.errors["persistence"]
    names = {file.name for file in answer.files}
    assert names == {"forecast.npz", "forecast.png", "report.html", "result.json", "the_same.py"}
    with np.load(next(f for f in answer.files if f.suffix == ".npz")) as held:
        assert np.array_equal(held["forecast"], answer.forecast.frames.numpy())
    text = views.found(answer) + views.headline(answer)
    level, _, reason = answer.verdict.text.partition(": ")
    assert "terms given" in text and f">{level}</h2>" in text and reason[1:] in text
    assert answer.task.title in text
    assert "differs from the truth by <b>" in text
    assert views.film(answer).startswith("<iframe")
    assert "nan" not in text


def test_the_snippet_gives_the_same(answer: job.Answer) -> None:
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()):
        exec(compile(answer.task.snippet, "the_same.py", "exec"), names)
    assert names["s"].equation_ == answer.splitter.equation_
    assert torch.equal(names["future"].data[0], answer.forecast.frames)


def test_a_stopped_search_gives_no_answer(sample: samples.Sample) -> None:
    stop = threading.Event()
    stop.set()
    states = list(job.run(job.play_task(sample, 600), stop))
    assert not any(isinstance(state, job.Answer) for state in states)


def test_an_upload_is_in_memory_and_may_go(sample: samples.Sample, tmp_path: Path) -> None:
    file = tmp_path / "u.npy"
    np.save(file, sample.observed.data[0, :, 0].numpy())
    with pytest.raises(OpsplitError, match="fill in dt"):
        job.load_upload(str(file), {}, 50)
    held = job.load_upload(str(file), {"dt": 0.1, "extent": 16.0}, 50)
    file.unlink()
    assert np.array_equal(held.frames()[:, 0], sample.observed.data[0, :, 0].numpy())
    np.save(file, np.zeros((1000, 64)))
    few = job.load_upload(str(file), {"dt": 0.1, "extent": 16.0}, most_mb=64 * 8 * 10 / 2**20)
    assert few.shape[1] == 10


def test_files_of_the_machine_are_not_served(address: str) -> None:
    for path in ("/etc/passwd", str(Path(__file__)), "pyproject.toml", "../../etc/passwd"):
        for route in ("gradio_api/file=", "file="):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{address}{route}{path}")
            assert refused.value.code in (403, 404)


def test_an_upload_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opsplit.app.page import Limits, serve

    # The folder of the other server comes back afterwards.
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    page, address = serve(browser=False, limits=Limits(keep_seconds=1), wait=False)
    try:
        body = (
            b"--x\r\nContent-Disposition: form-data; "
            b'name="files"; filename="u.npy"\r\n\r\n0\r\n--x--\r\n'
        )
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        asked = urllib.request.Request(f"{address}gradio_api/upload", body, headers)
        with urllib.request.urlopen(asked) as reply:
            (path,) = json.load(reply)
        held = Path(path)
        assert held.name == "u.npy" and held.parent.parent == Path(os.environ["GRADIO_TEMP_DIR"])
        end = time.monotonic() + 300
        while held.exists() and time.monotonic() < end:
            time.sleep(0.2)
        assert not held.exists()
    finally:
        page.close(verbose=False)


SIZES = "b => [b.scrollHeight, innerHeight, document.documentElement.scrollWidth, innerWidth]"


def test_play_in_a_browser_on_a_phone(browser: Any, address: str) -> None:
    visitor = Visitor(browser, address, width=390, scheme="dark")
    page = visitor.page
    page.focus("#play")
    page.keyboard.press("Enter")
    assert visitor.answer().startswith("Explained")
    frame = page.frame_locator("#film iframe")
    label, before = frame.locator("#moment"), frame.locator(".line").first.get_attribute("d")
    assert (label.text_content() or "").startswith("observed")
    page.wait_for_function("document.body.style.getPropertyValue('--film') != ''")
    inside = frame.locator("body").evaluate(SIZES)
    assert inside[0] <= inside[1] <= inside[0] + 8, "the frame is as high as the film"
    assert inside[2] <= inside[3], "nothing is cut off at the right"
    frame.locator("#frame").press("End")
    assert (label.text_content() or "").startswith("forecast")
    assert frame.locator(".line").first.get_attribute("d") != before
    page.wait_for_selector("#files a")
    assert page.locator("#files a").count() >= 5
    assert "OperatorSplitter" in page.inner_text("#code")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    visitor.leave(address)


def test_a_file_and_a_hostile_file(
    browser: Any, address: str, sample: samples.Sample, tmp_path: Path
) -> None:
    visitor = Visitor(browser, address, motion="no-preference")
    page = visitor.page
    page.get_by_role("tab", name="Your file").click()
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00" + b"<script>alert(1)</script>")
    page.set_input_files("#upload input[type=file]", tmp_path / "bad.npy")
    page.wait_for_selector("#described .failure")
    assert "bad.npy" in page.inner_text("#described")
    assert "/tmp" not in page.inner_text("#described")
    page.click("#explain")
    assert "bad.npy" in visitor.answer()
    page.reload()
    page.get_by_role("tab", name="Your file").click()
    np.save(tmp_path / "u.npy", sample.observed.data[0, :, 0].numpy())
    page.fill("#dt input, #dt textarea", "0.10101")
    page.fill("#extent input, #extent textarea", "16")
    page.set_input_files("#upload input[type=file]", tmp_path / "u.npy")
    page.wait_for_selector("#described details")
    assert "u.npy: 6 frames of 256 points" in page.inner_text("#described")
    page.click("#described summary")
    assert "/tmp" not in page.inner_text("#described")
    page.click("#explain")
    assert visitor.answer().startswith("Explained")
    film = page.frame_locator("#film iframe")
    inside = film.locator("body").evaluate(SIZES)
    assert inside[0] <= inside[1], "the film is cut off on a wide screen"
    wide = film.locator("svg").evaluate("s => s.getBoundingClientRect().width / innerWidth")
    assert wide > 0.95, "the profile fills the page"
    # Where motion is welcome the film runs once by itself, and stays at its end.
    film.locator("#moment:has-text('forecast')").wait_for()
    film.locator("#play:has-text('Play')").wait_for()
    assert film.locator("#frame").input_value() == film.locator("#frame").get_attribute("max")
    visitor.leave(address)


CANCEL = """() => {
  const button = document.querySelector('#cancel');
  const ready = button && !button.disabled;
  if (ready) button.click();
  return ready;
}"""


def test_two_visitors_do_not_mix_and_one_cancels(browser: Any, address: str) -> None:
    first, second = Visitor(browser, address), Visitor(browser, address)
    second.page.fill("#advection-diffusion-c input[type=number]", "1.5")
    second.page.keyboard.press("Tab")
    first.page.click("#play")
    second.page.click("#play")
    first.answer()
    second.answer()
    values = [v.page.inner_text("#found tr:has-text('c') >> nth=1") for v in (first, second)]
    assert "1.5" in values[1].split()[2]
    assert "1.5" not in values[0].split()[2]
    # A search that lasts long enough for a click; whose sliders may not be there yet.
    first.choose("equation", "gray-scott")
    first.page.click("#play")
    # The page itself clicks as soon as it can: on a busy machine a visitor may be too late.
    first.page.wait_for_function(CANCEL)
    first.page.wait_for_selector("#live:has-text('Cancelled'), #verdict h2")
    if first.page.locator("#live:has-text('Cancelled')").count():
        assert first.page.locator("#verdict h2").count() == 0
    for visitor in (first, second):
        visitor.leave(address)
