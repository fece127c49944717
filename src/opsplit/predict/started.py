"""Everything that a fit knows before it searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.io.recording import Recording
from opsplit.model import Model
from opsplit.predict.adapt import Adapted, adapt
from opsplit.predict.compatibility import (
    Code,
    Issue,
    Severity,
    beyond_dictionary,
    compatibility,
    mixed_operators,
    refuse,
    resampled,
    symmetry_issue,
    unlike_training,
    weak_operators,
)
from opsplit.predict.ends import Ends
from opsplit.predict.explain import Explainer, Explanation, Plan
from opsplit.predict.jumps import unresolved_fronts
from opsplit.predict.memory import Load
from opsplit.predict.remarks import about_result
from opsplit.predict.window import observed_frames
from opsplit.search.strategy import Report
from opsplit.trajectories import Trajectories


@dataclass(frozen=True)
class Started:
    """A fit before its search."""

    adapted: Adapted
    """Model, recording and walls as they go together."""
    observed: Trajectories
    """The frames in memory."""
    explainer: Explainer


def start(
    plan: Plan,
    recording: Recording,
    model: Model,
    dictionary: OperatorDictionary | None = None,
    report: Report | None = None,
    ends: Sequence[Ends] | None = None,
) -> Started:
    """What is known about a recording as the model reads it; what cannot work is refused.

    Arguments:
        ends: to assume, instead of those that the data or the frames say.
    """
    if plan.last is not None and plan.last < 2:
        raise OpsplitError(f"window counts frames and must be at least 2, got {plan.last}.")
    _load(plan, recording, recording.grid.shape).check(plan.memory_mb, len(model.dictionary))
    adapted = adapt(model, recording, ends)
    walls = adapted.walls
    refuse(compatibility(adapted.model.config, adapted.periodic))
    used = adapted.model.dictionary if dictionary is None else dictionary
    if walls.any:
        longer = walls.shape(recording.grid.shape)
        _load(plan, recording, longer).check(plan.memory_mb, len(used))
    observed = observed_frames(adapted.recording, plan.last)
    seen = walls.unfold(observed) if walls.any else observed
    return Started(adapted, observed, Explainer(seen, adapted.model, used, plan, report, walls))


def _load(plan: Plan, recording: Recording, shape: Sequence[int]) -> Load:
    """The frames that will be in memory, on so many points."""
    count = recording.shape[1]
    if plan.last is not None and not recording.in_memory:
        count = min(count, plan.last)
    frame = recording.shape[2] * math.prod(shape)
    return Load(len(recording) * count * frame, frame)


def all_issues(started: Started, found: Explanation) -> list[Issue]:
    """What is unusual about the data and about what was found in them."""
    adapted, explainer = started.adapted, started.explainer
    model, window, given = adapted.model, found.window, adapted.periodic.grid
    issues = [*adapted.issues, *symmetry_issue(explainer.used, found.dictionary)]
    if started.observed.understood:
        issues.append(Issue(Code.HOLES, Severity.NOTE, started.observed.understood))
    issues += compatibility(model.config, adapted.periodic)
    bound = any(part.family.grid_bound for part in found.dictionary.parts)
    if bound and window.grid.shape != given.shape:
        issues.append(resampled(given, window.grid))
    dt = found.objective.dt
    issues += unlike_training(model.config, window.grid, dt, window.size, explainer.freedom)
    issues += unresolved_fronts(window, found.dictionary)
    issues += weak_operators(model.metrics) + mixed_operators(model.metrics)
    issues += about_result(model.dictionary, found.result, found.verdict, found.doubt is not None)
    return issues + beyond_dictionary(found.dictionary, found.result.pick)
