"""How a splitter shows itself: in words, in a notebook, as a plot, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from opsplit.display import channel_number, html_table, interval, new_axes, plot_fields
from opsplit.errors import NotFittedError, OpsplitError, named

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.axes import Axes

    from opsplit.predict.equations import Equation
    from opsplit.predict.rollout import Forecast
    from opsplit.predict.verdict import Verdict
    from opsplit.search import SearchResult
    from opsplit.trajectories import Trajectories


class Shown:
    """Displays of `OperatorSplitter`; everything they show is an attribute of it."""

    search_result_: SearchResult
    search_table_: list[dict[str, Any]]
    equation_: Equation
    verdict_: Verdict
    status_: str
    observed_: Trajectories
    coefficients_: dict[str, float]
    coefficient_intervals_: dict[str, tuple[float, float]]
    notes_: tuple[str, ...]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Only asked where an attribute is missing: what a fit leaves ends with `_`."""
            if name.endswith("_") and not name.startswith("_"):
                raise NotFittedError(f"There is no {name} before a fit: call fit(u, dt=...) first.")
            raise AttributeError(f"OperatorSplitter has no attribute {name!r}.")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        raise NotImplementedError

    def forecast(self, steps: int | None = None) -> Forecast:
        """The frames that follow."""
        raise NotImplementedError

    def coefficient_rows(self, others: Iterable[str] = ()) -> list[dict[str, Any]]:
        """The coefficients of the equation, and those of `others`, with their intervals in words.

        What is zero is left out, unless nothing else is there.
        """
        found = self.coefficients_
        used = {k: v for k, v in found.items() if v or k in others} or found
        rows: list[dict[str, Any]] = [{"coefficient": k, "value": v} for k, v in used.items()]
        if self.coefficient_intervals_:
            for row in rows:
                ends = self.coefficient_intervals_.get(row["coefficient"])
                row["90 % interval"] = interval(*ends) if ends else ""
        return rows

    def no_intervals(self) -> str:
        """Why coefficients of the equation have no interval; nothing where all have one."""
        used = [name for name, value in self.coefficients_.items() if value]
        without = [name for name in used if name not in self.coefficient_intervals_]
        if not without:
            return ""
        if self.verdict_.level.value != "explained":
            return "No intervals: a term may be missing, and others absorb it."
        if len(without) < len(used):
            return (
                f"No interval for {', '.join(without)}: in fresh tests such intervals missed "
                "their level."
            )
        return (
            "No intervals: the model is not calibrated for such data, or its intervals missed "
            "their level in fresh tests."
        )

    @property
    def fitted(self) -> bool:
        """Whether `fit` has succeeded."""
        return hasattr(self, "search_result_")

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items())
        found = f"<fitted, {self.verdict_.level.value}: {self.equation_}>" if self.fitted else ""
        return f"OperatorSplitter({shown}){found}"

    def __str__(self) -> str:
        if not self.fitted:
            return repr(self) + "\nnot fitted: call fit(u, dt=...)"
        return f"{self.search_result_}\n{self.equation_}\n{self.verdict_}"

    def _repr_html_(self) -> str:
        from html import escape

        if not self.fitted:
            return f"<pre>{escape(str(self))}</pre>"
        return (
            f"<div><p><strong>{escape(self.verdict_.text)}</strong></p>"
            f"<p>{self.equation_.html}</p>"
            f"{html_table(self.coefficient_rows(), 'Coefficients')}"
            f"<p><small>{escape(self.no_intervals())}</small></p>"
            f"{self.search_result_._repr_html_()}</div>"
        )

    def require_fit(self) -> None:
        """Refuse to go on without a fit."""
        if not self.fitted:
            raise OpsplitError("There is no fit yet: call fit(u, dt=...) first.")

    @named
    def plot(
        self, ax: Axes | None = None, steps: int | None = None, channel: int | str = 0
    ) -> Axes:
        """Draw the observed frames and the forecast.

        A line is drawn over time, with the forecast right of the dashed line. Of a plane or a
        volume the last frame of the forecast is drawn.

        Arguments:
            ax: axes to draw into (default: those of a new figure).
            steps: frames to forecast (default: as many as were observed).
            channel: which channel, by name or number.

        Returns:
            The axes.

        Raises:
            OpsplitError: before `fit`, or if there is no such channel.

        Examples:
            >>> axes = splitter.plot(steps=34)  # doctest: +SKIP
        """
        self.require_fit()
        observed = self.observed_
        number = channel_number(channel, observed.channels)
        count = len(observed.times) if steps is None else steps
        ahead = self.forecast(steps=count)
        before = observed.data[0, :, number].float().cpu().numpy()
        after = ahead.frames[:, number].float().cpu().numpy()
        past = (observed.times - observed.times[-1]).double().cpu().numpy()
        moments = np.concatenate([past, ahead.times.double().cpu().numpy()])
        axes = plot_fields(
            np.concatenate([before, after]),
            moments,
            observed.grid.extent,
            observed.channels[number],
            new_axes(ax),
        )
        if observed.grid.ndim == 1:
            axes.axvline(float(ahead.times[0]) / 2, color="black", ls="--", lw=1.5)
            axes.set(xlabel="time after the last observed frame", title="observed | forecast")
        return axes

    def to_frame(self) -> pandas.DataFrame:
        """The best composition of every length as a `pandas.DataFrame`.

        Returns:
            One row per length: `pick` (whether it was chosen), `parts`, `fit_error`, every
            coefficient and the composition in words.

        Raises:
            OpsplitError: before `fit`, or without pandas.

        Examples:
            >>> splitter.to_frame().query("pick")  # doctest: +SKIP
        """
        self.require_fit()
        try:
            import pandas
        except ImportError:
            raise OpsplitError("to_frame() needs the package pandas: pip install pandas") from None
        rows = [{**row, "pick": bool(row["pick"])} for row in self.search_table_]
        return pandas.DataFrame(rows)

    def to_xarray(self, steps: int) -> xarray.Dataset:
        """The forecast as an `xarray.Dataset`; times count from the last observed frame."""
        from opsplit.xarrays import to_xarray

        found, observed = self.forecast(steps=steps), self.observed_
        facts = {"equation": self.equation_, "status": self.status_, "verdict": self.verdict_.text}
        return to_xarray(
            found.frames, found.times, observed.grid, observed.channels, self.coefficients_, facts
        )
