"""Several methods on one observed window, beside what really followed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from opsplit._tensors import public
from opsplit.benchmark.marks import evenly
from opsplit.errors import OpsplitError, no_warnings
from opsplit.metrics import nrmse
from opsplit.model import Model, load_model
from opsplit.predict.estimator import OperatorSplitter
from opsplit.report.figures import Rollout
from opsplit.trajectories import Trajectories

DIRECT = "direct"
METHODS = (DIRECT, "beam", "pursuit")


@dataclass(frozen=True)
class Comparison:
    """What every method forecast, how far it was off, what it found and how long it took.

    `persistence`, the last observed frame for all times, is always the first of the predictions.
    """

    observed: Trajectories
    future: Trajectories
    predictions: dict[str, Tensor]
    """Frames `(time, channel, *space)` by method."""
    errors: dict[str, float]
    """NRMSE of all predicted frames by method."""
    coefficients: dict[str, dict[str, float]]
    """Coefficients that each method found."""
    true: dict[str, float]
    """Coefficients of the trajectory, where they are known."""
    seconds: dict[str, float]
    """Time to fit and to forecast by method."""
    fitted: dict[str, OperatorSplitter]
    """The fitted estimator of each method."""

    @property
    def best(self) -> OperatorSplitter:
        """The estimator of the last method, which pictures show."""
        return list(self.fitted.values())[-1]

    def rollout(self, alone: dict[str, Tensor] | None = None) -> Rollout:
        """The comparison as a picture shows it, beside what single mechanisms `alone` would do."""
        found, window, truth = self.best.coefficients_, self.observed.data[0], self.future.data[0]
        lines = [
            f"{len(window)} frames observed, {len(truth)} predicted,",
            "operators trained on one",
            "mechanism at a time",
            "",
            f"{'':9} {'true':>8} identified",
            *(f"{k:>9} {v:8.4g} {found[k]:10.4g}" for k, v in self.true.items() if k in found),
            "",
            "NRMSE of the forecast",
            *(f"{name:>12} {error:.2g}" for name, error in self.errors.items()),
            "",
            "composition found:",
            *self.best.composition_.label.replace("] + ", "] +\n").split("\n"),
        ]
        return Rollout(self.observed, self.future, self.predictions, "\n".join(lines), alone or {})


@public
def compare(
    model: str | Path | Model,
    observed: Trajectories,
    future: Trajectories,
    methods: Sequence[str] = METHODS,
    operators: int | None = None,
    device: str = "cpu",
) -> Comparison:
    """Forecast what follows an observed window with several methods.

    Arguments:
        model: a bundled name, a model directory, or a loaded model.
        observed: one trajectory.
        future: the frames that follow it.
        methods: names of searches, or `"direct"` for the operator that the hypernetwork reads.
        operators: how many operators of the dictionary the searches may use, evenly chosen (not
            given: all).
        device: where to compute.

    Returns:
        A `Comparison` with the forecasts and the errors by method; persistence is always there.

    Raises:
        OpsplitError: if there is more than one trajectory, or no method.

    Examples:
        >>> import opsplit
        >>> whole = opsplit.get_physics("advection-diffusion").generate("A+D", 1, seed=1, frames=24)
        >>> seen, after = whole.windows(16, 0), whole.windows(8, 16)
        >>> found = opsplit.compare("advection-diffusion", seen, after, methods=("direct",))
        >>> sorted(found.errors)
        ['direct', 'persistence']
    """
    for given in (observed, future):
        if not isinstance(given, Trajectories):
            raise OpsplitError(f"A comparison needs Trajectories, got {given!r:.60}.")
    if len(observed) != 1 or len(future) != 1:
        raise OpsplitError(
            f"A comparison is of one trajectory, got {len(observed)} observed and {len(future)} "
            "that follow; take one by observed[[0]] and future[[0]]."
        )
    if not methods:
        raise OpsplitError('A comparison needs at least one method, such as "pursuit".')
    loaded = load_model(model)
    window, truth = observed.data[0], future.data[0]
    few = evenly(loaded.dictionary, operators)
    # The model's own dictionary is not handed over: only with it do its intervals hold.
    dictionary = None if few is loaded.dictionary else few
    predictions = {"persistence": window[-1:].expand_as(truth)}
    fitted, seconds = {}, {}
    for name in methods:
        began = time.perf_counter()
        direct = name == DIRECT
        splitter = OperatorSplitter(loaded, "beam" if direct else name, device=device)
        chosen = loaded.read(window) if direct else dictionary
        with no_warnings():
            splitter.fit(window, observed.dt, observed.grid.extent, chosen)
        predictions[name] = splitter.predict(len(truth)).cpu()
        fitted[name], seconds[name] = splitter, time.perf_counter() - began
    return Comparison(
        observed,
        future,
        predictions,
        {name: float(nrmse(p[None], truth[None])) for name, p in predictions.items()},
        {name: splitter.coefficients_ for name, splitter in fitted.items()},
        {name: float(value[0]) for name, value in observed.coefficients.items()},
        seconds,
        fitted,
    )
