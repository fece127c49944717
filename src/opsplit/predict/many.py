"""`opsplit.fit_many`: a fit for each of many trajectories, in shared calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from opsplit.errors import OpsplitError, no_warnings
from opsplit.io.assemble import Flags
from opsplit.io.recording import Recording
from opsplit.model import AUTO, Model, load_model
from opsplit.predict.door import observe, open_as
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.explain import Plan
from opsplit.predict.started import Started, start
from opsplit.predict.together import answered_together

BATCH = 64
"""Trajectories whose windows share calls."""

Fits = list[OperatorSplitter | OpsplitError]


def fit_many(
    u: Any,
    dt: float | None = None,
    extent: float | Sequence[float] | None = None,
    splitter: OperatorSplitter | None = None,
    batch: int = BATCH,
) -> Fits:
    """Fit every trajectory by itself; the result of each is that of `OperatorSplitter.fit`.

    With a named model, windows on the same grid share the calls of operators and of algebra,
    which makes many small fits several times as fast. A trajectory that cannot be fitted does not
    stop the others: its entry is the error that says why.

    Arguments:
        u: everything that `OperatorSplitter.fit` takes; dynamics may differ.
        dt: time between frames.
        extent: physical length of the domain per axis.
        splitter: model, search and other settings (default: those of `OperatorSplitter()`).
        batch: trajectories that are in memory and in shared calls together.

    Returns:
        A fitted splitter, or the error, for every trajectory in its order.

    Raises:
        OpsplitError: if the data cannot be read, or there is no such model.

    Examples:
        >>> import opsplit
        >>> u = opsplit.get_physics("advection-diffusion").generate("A+D", 2, seed=1).data[:, :16]
        >>> like = opsplit.OperatorSplitter("advection-diffusion")
        >>> [fit.status_ for fit in opsplit.fit_many(u, 10 / 99, 16.0, like)]
        ['explained', 'explained']
    """
    if batch < 1:
        raise OpsplitError(f"batch counts trajectories and must be at least 1, got {batch}.")
    like = splitter or OperatorSplitter()
    flags = Flags(dt=dt, extent=extent)
    model = None if like.model == AUTO else load_model(like.model, like.family)
    parts = list(_trajectories(u, model, flags))
    found: Fits = []
    for begin in range(0, len(parts), batch):
        found += fit_parts(parts[begin : begin + batch], model, like, _kind(u))
    return found


Part = Recording | OpsplitError


def _trajectories(u: Any, model: Model | None, flags: Flags) -> Iterator[Part]:
    """Every trajectory by itself, still unread; of arrays that cannot be read, the reason."""
    array = isinstance(u, np.ndarray | Tensor)
    arrays = array or (
        isinstance(u, list | tuple) and all(isinstance(one, np.ndarray | Tensor) for one in u)
    )
    if model is not None and arrays and len(u) and u[0].ndim == model.config.ndim + 2:
        if array and _whole(u):
            # All are read alike, in one go.
            one, every = observe(u[0], model.config, flags), observe(u, model.config, flags)
            yield from (
                replace(every.part([i]), facts=one.facts, guessed=one.guessed)
                for i in range(len(u))
            )
            return
        for one in u:
            try:
                yield observe(one, model.config, flags)
            except OpsplitError as reason:
                yield reason
        return
    recording = open_as(u, flags) if model is None else observe(u, model.config, flags)
    for number in range(len(recording)):
        yield recording.part([number])


def _whole(u: np.ndarray | Tensor) -> bool:
    """Whether every number is there: no frame of any trajectory is missing."""
    if isinstance(u, Tensor):
        return bool(u.isfinite().all())
    return u.dtype.kind in "fiu" and not np.ma.isMaskedArray(u) and bool(np.isfinite(u).all())


def _kind(u: Any) -> Any:
    """Data of the kind that forecasts have."""
    return u[0] if isinstance(u, list | tuple) and len(u) else u


def fit_parts(
    parts: Sequence[Part],
    model: Model | None,
    like: OperatorSplitter,
    given: Any = None,
) -> Fits:
    """A fit for every recording, which the model has read already.

    Arguments:
        model: None: the best for each by itself.
        like: the settings.
        given: the data as the caller gave them (not given: each recording itself).
    """
    if model is None:
        return [_alone(part, like) for part in parts]
    plan = like.plan()
    started = [_started(part, model, plan) for part in parts]
    begun = [one for one in started if isinstance(one, Started)]
    ways = [one.explainer.asking() for one in begun]
    ends = iter(answered_together(ways, plan.search))
    fits: Fits = []
    for part, one in zip(parts, started, strict=True):
        if isinstance(one, OpsplitError):
            fits.append(one)
            continue
        found = next(ends)
        if isinstance(found, OpsplitError):
            fits.append(found)
            continue
        made = copy(like)
        made.keep(found, one, part if given is None else given)
        fits.append(made)
    return fits


def _started(part: Part, model: Model, plan: Plan) -> Started | OpsplitError:
    if isinstance(part, OpsplitError):
        return part
    try:
        return start(plan, part, model)
    except OpsplitError as reason:
        return reason


def _alone(part: Part, like: OperatorSplitter) -> OperatorSplitter | OpsplitError:
    if isinstance(part, OpsplitError):
        return part
    try:
        with no_warnings():
            return copy(like).fit(part)
    except OpsplitError as reason:
        return reason
