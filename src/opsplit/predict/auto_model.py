"""`model="auto"`: try every bundled model that takes the data, and keep the one that explains most.

The cheapest models come first. Each is fitted as if it had been asked for. They are ranked by the
share of the change that they leave unexplained, with a price for every part of a composition.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from opsplit.errors import OpsplitError, OpsplitWarning, no_warnings
from opsplit.model import DEFAULT_MODEL, Model, bundled, load_config, load_model, locate
from opsplit.predict.verdict import Level
from opsplit.search.strategy import Report

if TYPE_CHECKING:
    from opsplit.predict.estimator import OperatorSplitter

SECONDS = 60.0
"""No further model is tried after so long, if the search has no limit of its own."""
PRICE = 0.1
"""One more part must divide the unexplained share by ten to this power."""
EQUAL = 1e-3
"""Unexplained shares below this count as equal."""


@dataclass(frozen=True)
class Ranked:
    """One model that was tried, or the reason why it was not."""

    model: str
    """Its name."""
    family: str
    level: str = ""
    """How far it explains the frames; empty if it was not tried."""
    unexplained: float | None = None
    """Share of the change that one step leaves."""
    parts: int = 0
    """Operators of its composition."""
    score: float | None = None
    """What the ranking goes by: smaller is better."""
    seconds: float = 0.0
    words: str = ""
    """Its equation, or why it was not tried."""

    @property
    def title(self) -> str:
        return f"{self.model} ({self.family})"

    @property
    def explains(self) -> str:
        """`explains 99.7 % of the change`, to be read by people."""
        if self.unexplained is None:
            return self.words
        share = 100 * max(0.0, 1 - self.unexplained)
        return f"explains {share:.{1 if share < 99.95 else 3}f} % of the change"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(unexplained: float, parts: int) -> float:
    """The order of the ranking: logarithm of the unexplained share, and a price per part."""
    return math.log10(max(unexplained, EQUAL)) + PRICE * parts


def ranking_table(ranking: Sequence[Ranked]) -> str:
    """The ranking as lines to read, the chosen model first."""
    tried = [one for one in ranking if one.unexplained is not None]
    lines = ["models, best first (unexplained share of the change, parts, seconds):"]
    for i, one in enumerate(tried):
        lines.append(
            f"  {'>>' if i == 0 else '  '} {one.title}: {one.unexplained:.2g}, "
            f"{one.parts} part{'s' if one.parts > 1 else ''}, {one.seconds:.1f} s"
        )
    return "\n".join(lines)


def fit_best(
    splitter: OperatorSplitter, fit: Callable[[OperatorSplitter, Report | None], Any],
    report: Report | None, own: bool,
) -> OperatorSplitter:  # fmt: skip
    """Fit the splitter with every candidate and take over the state of the best.

    Arguments:
        splitter: whose model is to be chosen.
        fit: fits a copy of it that has a model.
        report: called with the share done and a few words.
        own: whether the caller gives the operators, so that there is nothing to choose.
    """
    if own:
        return _take(splitter, _fitted(splitter, DEFAULT_MODEL, fit, report), ())
    began = time.perf_counter()
    ranking: list[Ranked] = []
    fits: dict[tuple[str, str], OperatorSplitter] = {}
    most = getattr(splitter.search, "max_seconds", None) or SECONDS
    names = list(candidates(splitter.family))
    for number, (name, family) in enumerate(names):
        late = bool(fits) and time.perf_counter() - began > most
        if late or _settled(ranking, name, family):
            why = "time is up" if late else "another model explains the data"
            ranking.append(Ranked(name, family, words=f"not tried: {why}"))
            continue

        def part(share: float, words: str, before: int = number, title: str = name) -> None:
            if report is not None:
                report((before + share) / len(names), f"{title}: {words}")

        start = time.perf_counter()
        try:
            made = _fitted(splitter, load_model(name, family), fit, part)
        except OpsplitError as reason:
            ranking.append(Ranked(name, family, words=f"does not fit: {reason}"))
            continue
        ranking.append(_ranked(Ranked(name, family), made, time.perf_counter() - start))
        fits[name, family] = made
    ordered = sorted(ranking, key=lambda r: (r.score is None, r.score or 0.0, r.unexplained or 0.0))
    if not fits:
        raise OpsplitError(_refusal(ranking))
    best = ordered[0]
    return _take(splitter, fits[best.model, best.family], tuple(ordered))


def candidates(family: str | None = None) -> Iterator[tuple[str, str]]:
    """Bundled models and families, the cheapest first: few operators, then networks."""
    found = []
    for name, families in bundled().items():
        for one in families:
            if family in (None, one):
                config = load_config(locate(name, one))
                weights = config.operator.n_parameters
                found.append((one != _usual(name), weights, name, one))
    for _, _, name, one in sorted(found):
        yield name, one


def _settled(ranking: list[Ranked], name: str, family: str) -> bool:
    """Whether a model cannot, or need not, be better than those that were tried.

    Families other than the usual one of a name are for data that no other model explains.
    """
    if any(one.unexplained is not None and one.unexplained < EQUAL for one in ranking):
        return True
    return family != _usual(name) and any(one.level == Level.EXPLAINED for one in ranking)


def _usual(name: str) -> str:
    """The family that a bundled name stands for."""
    return locate(name).name


def _fitted(
    splitter: OperatorSplitter, model: str | Model,
    fit: Callable[[OperatorSplitter, Report | None], Any], report: Report | None,
) -> OperatorSplitter:  # fmt: skip
    copy = type(splitter)(**splitter.get_params())
    copy.set_params(model=model, family=None)
    with no_warnings():
        fit(copy, report)
    return copy


def _ranked(one: Ranked, made: OperatorSplitter, seconds: float) -> Ranked:
    verdict, parts = made.verdict_, len(made.composition_)
    finite = math.isfinite(verdict.unexplained)
    left = verdict.unexplained if finite else 1e30
    return replace(
        one, level=verdict.level.value, unexplained=left, parts=parts, score=score(left, parts),
        seconds=seconds, words=made.equation_,
    )  # fmt: skip


def _take(
    splitter: OperatorSplitter, best: OperatorSplitter, ranking: tuple[Ranked, ...]
) -> OperatorSplitter:
    """The splitter with everything that the best fit knows."""
    given = splitter.get_params()
    vars(splitter).update({k: v for k, v in vars(best).items() if k not in given})
    splitter.ranking_ = ranking
    for note in splitter.notes_:
        warnings.warn(note, OpsplitWarning, stacklevel=4)
    return splitter


def _refusal(ranking: list[Ranked]) -> str:
    """Why no model takes the data: one reason, or one per model where they differ."""
    reasons = {one.words.removeprefix("does not fit: "): one.model for one in ranking}
    if len(reasons) == 1:
        return next(iter(reasons))
    each = "; ".join(f"{model}: {reason}" for reason, model in reasons.items())
    return f"No bundled model takes these data. {each}"
