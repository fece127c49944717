"""What a notebook shows, plots, saves and typesets."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import opsplit
from opsplit.display import html_facts, html_table, plot_fields
from opsplit.errors import OpsplitError, no_warnings
from opsplit.grid import Grid
from opsplit.model import load_model
from opsplit.predict.equations import Equation
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.identify import equation
from opsplit.predict.verdict import Level, Verdict
from opsplit.search import Beam, Pursuit
from opsplit.trajectories import Trajectories


@pytest.fixture(scope="module")
def fitted(observe: Callable[..., tuple[Tensor, Grid, float]]) -> OperatorSplitter:
    u, grid, dt = observe(c=0.5, D=0.3, frames=6, points=64)
    search = Pursuit(max_parts=2, width=4, survivors=2)
    return OperatorSplitter("advection-diffusion", search).fit(u, dt, grid.extent)


@pytest.fixture
def figures() -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_unfitted_and_fitted_differ(fitted: OperatorSplitter) -> None:
    fresh = OperatorSplitter(**fitted.get_params())
    assert repr(fitted) != repr(fresh)
    assert repr(fitted).startswith(repr(fresh))
    assert fitted.equation_ in repr(fitted)
    assert "not fitted" in fresh._repr_html_()
    for refused in (fresh.plot, fresh.to_frame, lambda: fresh.save("nowhere")):
        with pytest.raises(OpsplitError, match="fit"):
            refused()


def test_every_plot_returns_the_axes_it_was_given(fitted: OperatorSplitter, figures: Any) -> None:
    forecast = fitted.forecast(5)
    things = (fitted, forecast, fitted.search_result_, fitted.observed_)
    for thing in (*things, load_model("advection-diffusion").dictionary):
        axes = figures.subplots()[1]
        assert thing.plot(axes) is axes
        assert axes.has_data()
        assert thing.plot() is not axes


def test_a_plane_is_drawn_with_x_to_the_right(figures: Any) -> None:
    field = np.zeros((1, 4, 6))
    field[0, 3, 0] = 1.0
    axes = plot_fields(field, [0.0], (2.0, 3.0), "u", figures.subplots()[1])
    image = axes.images[0]
    assert image.get_extent() == [0, 2.0, 0, 3.0]
    assert image.origin == "lower"
    assert image.get_array()[0, 3] == 1.0
    with pytest.raises(OpsplitError, match="1 frames"):
        plot_fields(field, [0.0], (2.0, 3.0), "u", axes, frame=1)


def test_the_drawn_numbers_are_those_of_the_data(fitted: OperatorSplitter, figures: Any) -> None:
    axes = fitted.plot(steps=3)
    drawn = np.asarray(axes.collections[0].get_array()).reshape(64, -1)
    assert np.allclose(drawn[:, :6], fitted.observed_.data[0, :, 0].T)
    assert np.allclose(drawn[:, 6:], fitted.forecast(3).frames[:, 0].T)


def test_the_frame_is_the_search_table(fitted: OperatorSplitter) -> None:
    pytest.importorskip("pandas")
    frame = fitted.to_frame()
    assert list(frame["parts"]) == [row["parts"] for row in fitted.search_table_]
    assert frame["pick"].sum() == 1
    assert frame[frame["pick"]]["fit_error"].item() == fitted.fit_error_


class Tags(HTMLParser):
    """Opening tags of a page, and whether all are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(html: str) -> set[str]:
    parser = Tags()
    parser.feed(html)
    assert parser.open == []
    return parser.seen


def test_everything_shows_itself_in_a_notebook(fitted: OperatorSplitter) -> None:
    dictionary = load_model("advection-diffusion").dictionary
    for thing in (fitted, fitted.forecast(2), fitted.search_result_, fitted.observed_, dictionary):
        assert "table" in tags(thing._repr_html_())
    assert fitted.verdict_.text in fitted._repr_html_()


@given(st.text(), st.text())
def test_names_cannot_inject_markup(name: str, value: str) -> None:
    plain = {"table", "caption", "thead", "tbody", "tr", "th", "td", "div", "strong", "p"}
    assert tags(html_table([{name: value}], name)) <= plain
    assert tags(html_facts(name, {name: value})) <= plain


@pytest.mark.parametrize("kind", ["name", "model", "codes", "beam", "auto"])
def test_a_loaded_splitter_forecasts_bit_for_bit(
    kind: str, tmp_path: Path, observe: Callable[..., tuple[Tensor, Grid, float]]
) -> None:
    u, grid, dt = observe(c=0.5, D=0.3, frames=6, points=64)
    named: Any = "advection-diffusion"
    search = {
        "beam": Beam(width=2, max_parts=2),
        "codes": Pursuit(max_parts=2, width=4, survivors=2, refine="codes"),
    }.get(kind, Pursuit(max_parts=2, width=4, survivors=2))
    model = {"model": load_model(named), "auto": "auto"}.get(kind, named)
    saved = OperatorSplitter(model, search).fit(u, dt, grid.extent)
    assert saved.save(tmp_path / "fit") == tmp_path / "fit"
    loaded = OperatorSplitter.load(tmp_path / "fit")
    assert torch.equal(loaded.forecast(4).frames, saved.forecast(4).frames)
    assert isinstance(loaded.predict(2), type(saved.predict(2)))
    assert loaded.predict(2).dtype == saved.predict(2).dtype
    for name in ("coefficients_", "coefficient_intervals_", "equation_", "status_", "notes_",
                 "fit_error_", "search_table_", "refinement_"):  # fmt: skip
        assert getattr(loaded, name) == getattr(saved, name), name
    assert loaded.search == saved.search and loaded.refinement == saved.refinement
    assert str(loaded.search_result_) == str(saved.search_result_)
    for file in (tmp_path / "fit").rglob("*"):
        assert file.is_dir() or file.suffix in (".json", ".npz", ".safetensors", ".md")


coefficient = st.floats(0.001, 100).map(lambda v: float(f"{v:.3g}"))


@given(coefficient, coefficient, st.booleans())
def test_sympy_has_the_same_coefficients(c: float, D: float, sure: bool) -> None:
    import sympy

    intervals = {"c": (0.9 * c, 1.1 * c)} if sure else None
    found = equation({"c": c, "D": D}, {"c": "-u_x", "D": "u_xx"}, intervals).sympy()
    t, x = sympy.symbols("t x")
    u = sympy.Function("u")(t, x)
    assert found.lhs == u.diff(t)
    assert float(found.rhs.coeff(u.diff(x))) == pytest.approx(-c, rel=1e-3)
    assert float(found.rhs.coeff(u.diff(x, 2))) == pytest.approx(D, rel=1e-3)


def test_an_exact_solution_solves_the_equation_that_sympy_is_given() -> None:
    import sympy

    found = Equation("u_t = -0.5 u_x + 0.25 u_xx - 1 (u^2)_x + 2 u u_x").sympy()
    t, x = sympy.symbols("t x")
    wave = sympy.sin(x - t / 2) * sympy.exp(-t / 4)
    left, right = (side.subs(sympy.Function("u")(t, x), wave).doit() for side in found.args)
    assert sympy.simplify(left - right) == 0


@pytest.mark.parametrize(
    "text, latex",
    [
        ("u_t = 1.2e-05 lap^2 u", r"u_{t} = 1.2 \times 10^{-5} \Delta^{2} u"),
        ("w_t = 0.1 lap w - 1 v . grad w", r"w_{t} = 0.1 \Delta w - 1 v \cdot \nabla w"),
        ("u_t = 0.5 (u - u^3)", "u_{t} = 0.5 (u - u^{3})"),
        ("u_t = 1 lap (D_A u)", r"u_{t} = 1 \Delta (D_{\mathrm{A}} u)"),
        ("u_t = 2 f_r(u)", r"u_{t} = 2 f_{\mathrm{r}} (u)"),
    ],
)
def test_latex(text: str, latex: str) -> None:
    assert Equation(text).latex == latex
    Equation(text).sympy()


def test_an_equation_on_a_page_is_escaped_and_says_what_is_printed() -> None:
    found = Equation("w_t = (0.1 ± 2e-3) lap w - <b>|k|^(1/2) w_xx").html
    assert "<b>" not in found
    assert found.count("<sup>") == 2 and found.count("<sub>") == 2
    words = re.sub(r"<[^>]+>", "", found)
    assert words == "wt = (0.1 ± 2 × 10-3) Δ w − &lt; b &gt; |k|1/2 wxx"


def test_several_channels_become_a_column() -> None:
    found = Equation("(A, B)_t = 0.03 (1 - A, -B) + 1 (2e-5 lap A, 1e-5 lap B)").sympy()
    assert found.lhs.shape == found.rhs.shape == (2, 1)


def test_an_unknown_term_is_named() -> None:
    with pytest.raises(OpsplitError, match="not understood"):
        Equation("u_t = 2 u ? u").sympy()


def test_the_equation_has_the_names_of_the_data() -> None:
    x = torch.arange(32) * 2 * torch.pi / 32
    frames = torch.stack([torch.sin(x - 0.05 * i) for i in range(5)])[None, :, None]
    times = torch.arange(5, dtype=torch.float64) * 0.1
    data = Trajectories(frames, times, Grid((32,), (16.0,)), ("T",))
    search = Beam(width=1, max_parts=1)
    with no_warnings():
        found = OperatorSplitter("advection-diffusion", search).fit(data)
    assert found.equation_.startswith("T_t = ")
    assert "u" not in found.equation_
    unknown = Equation("u_t = 2 f_k(u)").renamed({"A": "P", "B": "Q"})
    assert unknown == "(P, Q)_t = 2 f_k(P, Q)"
    swapped = Equation("u_t = 1 (A, -B)").renamed({"A": "B", "B": "A"})
    assert swapped == "(B, A)_t = 1 (B, -A)"


def test_what_a_user_may_subclass_is_public() -> None:
    for name in ("Physics", "OperatorFamily", "Strategy"):
        assert isinstance(getattr(opsplit, name), type)
    assert callable(opsplit.pretrain)


def test_large_shares_are_no_powers_of_ten() -> None:
    words = Verdict(Level.UNEXPLAINED, 0.998, 0.017).text
    assert "leaves 100 % of the change" in words
