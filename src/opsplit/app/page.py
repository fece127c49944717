"""The page itself: two ways in, one way to an answer."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opsplit
from opsplit.app import samples, views
from opsplit.app.job import Answer, Progress, Task, file_task, load_upload, play_task, run
from opsplit.app.pad import CELLS, pad
from opsplit.errors import OpsplitError
from opsplit.model import bundled

Inputs = tuple[Any, dict[str, Any]]
"""The button of a way in, and what it takes by name."""
INTRO = """
# opsplit
It forecasts systems that no network was trained on, by a sum of operators that know one mechanism
each.
"""
PLAY = """
The system is simulated. opsplit sees only its first frames; the rest is the truth that the
forecast is compared with. In training every mechanism acted alone. Here they act together.
"""
STYLE = """
.gradio-container { max-width: min(90rem, 100vw) !important; margin: 0 auto !important; }
.gradio-container main, .gradio-container .column, .gradio-container .block { min-width: 0; }
.gradio-container main { max-width: 100vw; overflow-x: hidden; }
.gradio-container table { border-collapse: collapse; margin: .5rem 0 1rem; }
#live :is(table, thead, tbody, tr), #found :is(table, thead, tbody, tr) {
  border: 0 !important;
}
#live th, #live td, #found th, #found td {
  border: 0 !important; border-bottom: 1px solid #8885 !important;
}
.gradio-container caption { font-weight: 600; }
.gradio-container progress { accent-color: #0072b2; height: .6rem; }
.gradio-container .steps { margin: 0 0 .5rem 1.2rem; list-style: decimal; }
.gradio-container .steps li { margin: .3rem 0; }
.gradio-container .idea { width: 100%; max-width: 44rem; margin: 1rem 0; }
.gradio-container caption { text-align: left; white-space: nowrap; }
.gradio-container td, .gradio-container th { padding: .2rem .6rem; text-align: left; }
.gradio-container #files .label-clear-button { display: none; }
#film iframe { width: 100%; height: var(--film, 420px); border: 0; }
footer { display: none !important; }
"""
HEAD = """<script>
addEventListener("message", event => {
  const film = document.querySelector("#film iframe"), height = Number(event.data?.film);
  if (film && event.source === film.contentWindow && height > 0)
    document.body.style.setProperty("--film", `${Math.min(height + 4, 4000)}px`);
});
</script>"""
"""The film says how high it is. The page keeps it, because Gradio may draw the frame anew."""
SHOW = """(...given) => {
  document.querySelector("#live").scrollIntoView({block: "nearest"});
  return given;
}"""
"""On a narrow screen the answer is below the inputs."""


@dataclass(frozen=True)
class Limits:
    """What one visitor may ask for."""

    seconds: float = 60.0
    """Longest time of a search."""
    usual_seconds: float = 20.0
    """Time of a search, if the visitor says nothing."""
    upload_mb: float = 50.0
    steps: int = 64
    waiting: int = 16
    """Visitors in the queue."""
    keep_seconds: int = 900
    """Age at which uploads and results are deleted."""


def _gradio() -> Any:
    # Before the import: nothing is reported to anybody, no version is asked for.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import gradio
    except ImportError:
        raise OpsplitError(
            "`opsplit app` needs the package gradio: pip install 'opsplit[app]'"
        ) from None
    return gradio


def build(limits: Limits | None = None) -> Any:
    """The page as Gradio blocks, not yet served."""
    gr, allowed = _gradio(), limits or Limits()
    kept = (min(60, allowed.keep_seconds), allowed.keep_seconds)
    with gr.Blocks(title="opsplit", analytics_enabled=False, delete_cache=kept) as page:
        gr.Markdown(INTRO)
        session = gr.State(None)
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                with gr.Tabs():
                    with gr.Tab("Play"):
                        play = _play_inputs(gr, allowed)
                    with gr.Tab("Your file"):
                        own = _file_inputs(gr, allowed)
                cancel = gr.Button("Cancel", interactive=False, elem_id="cancel")
            with gr.Column(scale=3, min_width=320):
                live = gr.HTML((Path(__file__).parent / "welcome.html").read_text(), elem_id="live")
                verdict = gr.HTML(elem_id="verdict")
                film = gr.HTML(elem_id="film")
                found = gr.HTML(elem_id="found")
                files = gr.Files(
                    label="Take home", visible=False, elem_id="files", height=300,
                    interactive=False,
                )  # fmt: skip
                code = gr.Code(
                    label="The same as Python", language="python", visible=False,
                    elem_id="code", max_lines=24, interactive=False,
                )  # fmt: skip
        out = [session, cancel, live, verdict, film, found, files, code]

        for (go, inputs), task in ((play, _play), (own, _own)):

            def begin(
                *given: Any, names: Any = tuple(inputs), task: Any = task
            ) -> Iterator[list[Any]]:
                told = dict(zip(names, given, strict=True))
                yield from _answers(gr, lambda: task(allowed, told))

            # One search at a time; everybody else waits in the queue.
            go.click(
                begin, list(inputs.values()), out, concurrency_limit=1, concurrency_id="search",
                show_progress="hidden", api_name=False, js=SHOW,
            )  # fmt: skip
        cancel.click(_cancel, session, None, queue=False, api_name=False)
    page.queue(max_size=allowed.waiting, api_open=False)
    return page


def serve(
    port: int | None = None, browser: bool = True, limits: Limits | None = None, wait: bool = True
) -> tuple[Any, str]:
    """Serve the page on the loopback; the blocks and the address."""
    gr, allowed = _gradio(), limits or Limits()
    # Uploads and results live in one folder, which goes when the server does.
    folder = tempfile.mkdtemp(prefix="opsplit-app-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["GRADIO_TEMP_DIR"] = folder
    page = build(allowed)
    plain = gr.themes.Base(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )
    _, address, _ = page.launch(
        server_name="127.0.0.1", server_port=port, inbrowser=browser, share=False, quiet=True,
        prevent_thread_lock=not wait, ssr_mode=False, allowed_paths=[], footer_links=[],
        max_file_size=int(allowed.upload_mb * 2**20), theme=plain, css=STYLE, head=HEAD,
        pwa=False, enable_monitoring=False,
    )  # fmt: skip
    return page, address


def _play_inputs(gr: Any, limits: Limits) -> Inputs:
    names = samples.playable()
    quiet = {"show_progress": "hidden", "api_name": False}
    gr.Markdown(PLAY)
    with gr.Row():
        equation = gr.Dropdown(
            names, value=names[0], label="Equation", elem_id="equation", min_width=190
        )
        field = gr.Dropdown(
            [*samples.FIELDS, samples.DRAWN], value="random", label="Initial field",
            elem_id="field", min_width=190,
        )  # fmt: skip
    drawing = pad(gr, _ndim(names[0]))
    # Every equation has sliders of its own: none is ever read with the range of another.
    groups, sliders = {}, {}
    for name in names:
        with gr.Column(visible=name == names[0]) as groups[name]:
            sliders[name] = [_slider(gr, name, knob) for knob in samples.knobs(name)]
            ranges = gr.HTML(_ranges(name, [knob.start for knob in samples.knobs(name)]))
        for slider in sliders[name]:
            slider.change(
                lambda *values, name=name: _ranges(name, values), sliders[name], ranges, **quiet
            )
    with gr.Row():
        noise = gr.Slider(
            0, 0.2, value=0, step=0.01, label="Noise (share of the field)", min_width=220
        )
        frames = gr.Slider(4, 32, value=16, step=1, label="Frames to observe", min_width=220)
        steps = gr.Slider(
            4, limits.steps, value=24, step=1, label="Frames to forecast", min_width=220
        )
    with gr.Row():
        seed = gr.Number(1, label="Seed", precision=0, min_width=220)
        seconds = _seconds(gr, limits)
    go = gr.Button("Observe and forecast", variant="primary", elem_id="play")

    def chosen(name: str) -> list[Any]:
        cells = gr.update(shape=list(CELLS[_ndim(name)]), value=None)
        return [*(gr.update(visible=each == name) for each in names), cells]

    equation.change(chosen, equation, [*groups.values(), drawing], **quiet)
    field.change(
        lambda kind: gr.update(visible=True if kind == samples.DRAWN else "hidden"),
        field, drawing, **quiet,
    )  # fmt: skip
    inputs = {
        "equation": equation, "field": field, "drawing": drawing, "noise": noise,
        "frames": frames, "steps": steps, "seed": seed, "seconds": seconds,
    }  # fmt: skip
    for name, mine in sliders.items():
        pairs = zip(samples.knobs(name), mine, strict=True)
        inputs |= {_knob_id(name, knob): slider for knob, slider in pairs}
    return go, inputs


def _seconds(gr: Any, limits: Limits) -> Any:
    usual = min(limits.usual_seconds, limits.seconds)
    return gr.Slider(
        1, limits.seconds, value=usual, step=1, label="Seconds for the search", min_width=220
    )


def _ndim(name: str) -> int:
    return opsplit.get_physics(name).coarse().grid.ndim


def _knob_id(name: str, knob: samples.Knob) -> str:
    return f"{name}-{knob.name}"


def _slider(gr: Any, name: str, knob: samples.Knob) -> Any:
    least, most = knob.ends
    term = f", the coefficient of {knob.term}" if knob.term else ""
    return gr.Slider(
        least, most, knob.start, step=float(f"{most / 200:.1g}"), label=f"{knob.name}{term}",
        elem_id=_knob_id(name, knob),
    )  # fmt: skip


def _ranges(name: str, values: Sequence[Any]) -> str:
    """The trained ranges of the coefficients, and where the sliders stand."""
    known = samples.knobs(name)
    chosen = {knob.name: float(v or 0) for knob, v in zip(known, values, strict=True)}
    return views.system(samples.equation(name, chosen)) + views.box(known, chosen)


def _file_inputs(gr: Any, limits: Limits) -> Inputs:
    fitting = ["auto", *bundled()]
    file = gr.File(
        label=f"Up to {limits.upload_mb:g} MB: .npy, .npz, .csv, .h5, .nc or .mat",
        file_types=[".npy", ".npz", ".csv", ".tsv", ".txt", ".dat", ".h5", ".hdf5", ".nc", ".mat"],
        type="filepath", elem_id="upload",
    )  # fmt: skip
    with gr.Row():
        axes = gr.Textbox(label="axes: their order, such as t,x", elem_id="axes")
        dt = gr.Textbox(label="dt: time between frames, such as 0.1", elem_id="dt")
        extent = gr.Textbox(label="extent: length of every axis, such as 1,1", elem_id="extent")
    described = gr.HTML(elem_id="described")
    with gr.Row():
        model = gr.Dropdown(fitting, value="auto", label="Model", elem_id="model")
        steps = gr.Slider(4, limits.steps, value=24, step=1, label="Frames to forecast")
        seconds = _seconds(gr, limits)
    go = gr.Button("Explain and forecast", variant="primary", elem_id="explain")
    told = [file, axes, dt, extent]
    for part in (file.upload, axes.submit, dt.submit, extent.submit):
        part(_described, told, described, show_progress="hidden", api_name=False)
    inputs = {
        "path": file, "axes": axes, "dt": dt, "extent": extent,
        "model": model, "steps": steps, "seconds": seconds,
    }  # fmt: skip
    return go, inputs


def _said(axes: str, dt: str, extent: str) -> dict[str, Any]:
    """The corrections of a user, as `opsplit.read` takes them."""
    try:
        step = float(dt) if dt.strip() else None
    except ValueError:
        raise OpsplitError(
            f"The time between frames is a number, such as 0.1, not {dt!r}."
        ) from None
    try:
        lengths = [float(x) for x in extent.split(",")] if extent.strip() else None
    except ValueError:
        raise OpsplitError(
            f"Lengths are numbers with commas, such as 1,1, not {extent!r}."
        ) from None
    return {"axes": axes.strip() or None, "dt": step, "extent": lengths}


def _described(path: str | None, axes: str, dt: str, extent: str) -> str:
    """What a file holds and what is wrong with it, or one sentence."""
    if path is None:
        return ""
    try:
        said = _said(axes, dt, extent)
        content = opsplit.describe(path, **said)
        return views.described(content, Path(path).name, opsplit.check(path, **said))
    except OpsplitError as reason:
        return views.failure(_without_path(str(reason), path))
    except Exception as reason:
        return views.failure(f"This file cannot be read: {type(reason).__name__}.")


def _without_path(words: str, path: str) -> str:
    """A file under its own name, not under that of the upload folder."""
    return words.replace(path, Path(path).name)


def _play(limits: Limits, told: dict[str, Any]) -> Task:
    name, field = told["equation"], told["field"]
    picked = {knob.name: float(told[_knob_id(name, knob)]) for knob in samples.knobs(name)}
    sample = samples.simulate(
        name, picked, (told["drawing"] or []) if field == samples.DRAWN else field,
        frames=min(int(told["frames"]), 32), steps=min(int(told["steps"]), limits.steps),
        noise=float(told["noise"]), seed=abs(int(told["seed"] or 0)) % 2**31,
    )  # fmt: skip
    return play_task(sample, min(float(told["seconds"]), limits.seconds))


def _own(limits: Limits, told: dict[str, Any]) -> Task:
    path = told["path"]
    if path is None:
        raise OpsplitError("Choose a file first.")
    said = _said(told["axes"], told["dt"], told["extent"])
    try:
        observed = load_upload(path, said, limits.upload_mb)
    except OpsplitError as reason:
        raise OpsplitError(_without_path(str(reason), path)) from None
    ahead = min(int(told["steps"]), limits.steps)
    budget = min(float(told["seconds"]), limits.seconds)
    return file_task(observed, Path(path).name, told["model"], ahead, budget, said)


def _cancel(session: dict[str, Any] | None) -> None:
    if session is not None:
        session["stop"].set()


class Session(dict[str, Any]):
    """What a visitor's search needs to be stopped; copies share the switch."""

    def __deepcopy__(self, memo: Any) -> Session:
        return self


def _answers(gr: Any, make: Callable[[], Task]) -> Iterator[list[Any]]:
    """The page from the click to the answer, step by step."""
    stop = threading.Event()
    session = Session(stop=stop)
    hidden = gr.update(visible=False)

    def page(live: str = "", verdict: str = "", film: str = "", found: str = "",
             files: Any = hidden, code: Any = hidden, busy: bool = False) -> list[Any]:  # fmt: skip
        button = gr.update(interactive=busy)
        return [session, button, live, verdict, film, found, files, code]

    yield page(live=views.progress(Progress()), busy=True)
    try:
        for state in run(make(), stop):
            if isinstance(state, Progress):
                yield page(live=views.progress(state), busy=True)
                continue
            yield _shown(gr, page, state)
            # The page has its own copies by now.
            shutil.rmtree(state.files[0].parent, ignore_errors=True)
            return
        yield page(live="<p role='status'>Cancelled.</p>")
    except OpsplitError as reason:
        yield page(verdict=views.failure(str(reason)))
    except Exception as reason:
        yield page(verdict=views.failure(f"The search failed: {type(reason).__name__}."))


def _shown(gr: Any, page: Callable[..., list[Any]], answer: Answer) -> list[Any]:
    return page(
        verdict=views.headline(answer),
        film=views.film(answer),
        found=views.found(answer),
        files=gr.update(value=[str(file) for file in answer.files], visible=True),
        code=gr.update(value=answer.task.snippet, visible=True),
    )
