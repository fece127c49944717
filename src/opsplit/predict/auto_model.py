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
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, keeping_mean
from opsplit.errors import OpsplitError, OpsplitWarning, no_warnings
from opsplit.model import DEFAULT_MODEL, Model, bundled, load_config, load_model, locate
from opsplit.predict.verdict import Level, Verdict
from opsplit.search.strategy import Report

if TYPE_CHECKING:
    from opsplit.predict.estimator import OperatorSplitter

SECONDS = 60.0
"""No further model is tried after so much computing, if the search has no limit of its own. The
computing of this thread counts, so that a busy machine does not change the answer."""
PRICE = 0.1
"""One more part must divide the unexplained share by ten to this power."""
TIE = 0.05
"""Scores that differ by no more than this are equal. The one with the lowest degree is taken (about
a large mean, `u u_x` acts like `u_x`), and of these the cheapest."""
EQUAL = 1e-3
"""Unexplained shares below this count as equal."""
ENOUGH = 0.02
"""Where a model leaves less than this, no variant of it is tried."""
IDLE = 0.95
"""Where operators leave this share of the change, no others for the same terms are tried."""
SMALL = 64
"""Dictionaries of at most so many operators are tried in variants."""
NOISY = 0.1
"""Where noise makes more than this share of the change, single steps do not rank models: what a run
over the window misses does, in which noise counts once."""
STEADY = 2e-3
"""A mean that moves by less than this share of the deviations is kept."""


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


def fit_best(splitter: OperatorSplitter, report: Report | None, **given: Any) -> OperatorSplitter:
    """Fit the splitter with every candidate and take over the state of the best.

    Arguments:
        splitter: whose model is to be chosen.
        report: called with the share done and a few words.
        given: what its `fit` is given. With operators of the caller's own there is no choice.
    """

    def fit(copy: OperatorSplitter, said: Report | None) -> None:
        copy.fit(report=said, **given)

    if given.get("dictionary") is not None:
        return _take(splitter, _fitted(splitter, DEFAULT_MODEL, fit, report)[0], ())
    limit = getattr(splitter.search, "max_seconds", None)
    clock = time.thread_time if limit is None else time.perf_counter
    began, most = clock(), SECONDS if limit is None else limit
    ranking: list[Ranked] = []
    fits: list[tuple[Ranked, OperatorSplitter]] = []
    waiting = list(candidates(splitter.family))
    count = len(waiting)
    for number in range(count):
        if fits:
            waiting = _lifted_last(waiting, fits[0][1].observed_.grid.ndim)
        name, family = waiting.pop(0)
        late = bool(fits) and clock() - began > most
        twin = any(one.model == name and one.family == _usual(name) for one, _ in fits)
        vain = not twin and _in_vain(fits, name, family)
        if late or twin or vain or _settled(fits, name, family):
            why = "time is up" if late else "another model explains the data"
            why = "its usual operators were tried" if twin else why
            why = "other operators for its terms explain nothing" if vain else why
            ranking.append(Ranked(name, family, words=f"not tried: {why}"))
            continue

        def part(share: float, words: str, before: int = number, title: str = name) -> None:
            if report is not None:
                report((before + share) / count, f"{title}: {words}")

        try:
            for made, seconds in _attempts(splitter, load_model(name, family), fit, part):
                ranking.append(_ranked(Ranked(name, family, seconds=seconds), made))
                fits.append((ranking[-1], made))
        except OpsplitError as reason:
            ranking.append(Ranked(name, family, words=f"does not fit: {reason}"))
    if not fits:
        raise OpsplitError(_refusal(ranking))
    lowest = min(one.score or 0.0 for one, _ in fits)
    equal = [(one, made) for one, made in fits if (one.score or 0.0) <= lowest + TIE]
    best, made = min(equal, key=lambda pair: _degree(pair[1]))
    others = [one for one in ranking if one is not best]
    others.sort(key=lambda r: (r.score is None, r.score or 0.0, r.unexplained or 0.0))
    return _take(splitter, made, (best, *others))


def candidates(family: str | None = None) -> Iterator[tuple[str, str]]:
    """Bundled models and families, cheapest first: exact flows, few operators, networks."""
    found = []
    for name, families in bundled().items():
        for one in families:
            if family in (None, one):
                operator = load_config(locate(name, one)).operator
                usual = one == _usual(name)
                size = _operators(name, one) if usual else operator.n_parameters
                # A flow that takes one evaluation however long it is costs next to nothing.
                found.append((not usual, operator.evaluations(1.0) > 1, size, name, one))
    for *_, name, one in sorted(found):
        yield name, one


@lru_cache(maxsize=32)
def _operators(name: str, family: str) -> int:
    """The number of operators of a bundled model."""
    return len(load_model(name, family).dictionary)


def _lifted_last(waiting: Sequence[tuple[str, str]], ndim: int) -> list[tuple[str, str]]:
    """The models of data with so many axes first, then those that must be lifted.

    Of these the one with the fewest operators comes first: every axis multiplies them, and none of
    these models is calibrated there.
    """

    def key(one: tuple[str, str]) -> tuple[bool, int]:
        lifted = load_config(locate(*one)).ndim < ndim
        return one[1] != _usual(one[0]), _operators(*one) if lifted else 0

    return sorted(waiting, key=key)


def _settled(fits: Sequence[tuple[Ranked, OperatorSplitter]], name: str, family: str) -> bool:
    """Whether a model cannot, or need not, be better than those that were tried.

    Families other than the usual one of a name, and models that would have to be lifted to more
    axes, are for data that no other model explains; the same equations with other operators
    explain nothing new.
    """
    if any((one.unexplained or 0.0) < EQUAL for one, _ in fits):
        return True
    # Where noise hides the rest, other operators for the same terms explain no more.
    enough = [made for _, made in fits if made.verdict_.leaves_less_than(EQUAL)]
    kinds = _kinds(load_model(name, family).dictionary) if enough else frozenset()
    if kinds and any(kinds <= _kinds(made._found.dictionary) for made in enough):
        return True
    if not any(one.level == Level.EXPLAINED for one, _ in fits):
        return False
    ndim = fits[0][1].observed_.grid.ndim
    return family != _usual(name) or load_config(locate(name, family)).ndim < ndim


def _in_vain(fits: Sequence[tuple[Ranked, OperatorSplitter]], name: str, family: str) -> bool:
    """Whether operators for the same terms, and more, did no better than that nothing changes."""
    still = [m for _, m in fits if m.verdict_.level is Level.UNEXPLAINED and _idle(m.verdict_)]
    kinds = _kinds(load_model(name, family).dictionary) if still else frozenset()
    return bool(kinds) and any(kinds <= _kinds(made._found.dictionary) for made in still)


def _idle(verdict: Verdict) -> bool:
    """Whether neither a step nor a run does better than that nothing changes."""
    return verdict.unexplained > IDLE and (verdict.skill is None or verdict.skill < 1 - IDLE)


def _degree(made: OperatorSplitter) -> int:
    """How far the terms of a composition are from linear, all together."""
    terms = made._found.dictionary.terms
    held = [terms[name].degree for name, v in made.coefficients_.items() if v and name in terms]
    return sum(degree - 1 for degree in held if degree)


def _kinds(dictionary: OperatorDictionary) -> frozenset[tuple[int | None, int | None]]:
    """Order and degree of every term."""
    return frozenset((term.order, term.degree) for term in dictionary.terms.values())


def _usual(name: str) -> str:
    """The family that a bundled name stands for."""
    return locate(name).name


def _attempts(
    splitter: OperatorSplitter, model: Model,
    fit: Callable[[OperatorSplitter, Report | None], Any], report: Report,
) -> Iterator[tuple[OperatorSplitter, float]]:  # fmt: skip
    """The fit of a model, and that of a variant where a small one leaves much unexplained.

    On more axes than the model knows, its terms also act axis by axis. Where the data keep their
    mean, so do the operators.
    """
    made, seconds = _fitted(splitter, model, fit, report)
    yield made, seconds
    ndim = made.observed_.grid.ndim
    if len(model.dictionary) > SMALL or made.verdict_.leaves_less_than(ENOUGH):
        return
    variant = model.lift(ndim, apart=ndim > model.config.ndim == 1)
    if _keeps_mean(made.observed_.data):
        window = made._found.window
        dictionary = keeping_mean(variant.dictionary, window.grid, window.frames[0][-1])
        variant = replace(variant, dictionary=dictionary, calibration=None)
    if len(variant.dictionary) != len(model.dictionary) or variant.calibration is None:
        yield _fitted(splitter, variant, fit, report)


def _keeps_mean(data: Tensor) -> bool:
    """Whether the mean of every channel hardly moves, against the deviations."""
    u = data.double().cpu().numpy()
    held = u.mean(tuple(range(3, u.ndim)))
    moved = np.nanmax(held, 1) - np.nanmin(held, 1)
    return bool((moved <= STEADY * np.nanstd(u)).all())


def _fitted(
    splitter: OperatorSplitter, model: str | Model,
    fit: Callable[[OperatorSplitter, Report | None], Any], report: Report | None,
) -> tuple[OperatorSplitter, float]:  # fmt: skip
    copy = type(splitter)(**splitter.get_params())
    copy.set_params(model=model, family=None)
    began = time.perf_counter()
    with no_warnings():
        fit(copy, report)
    return copy, time.perf_counter() - began


def _ranked(one: Ranked, made: OperatorSplitter) -> Ranked:
    verdict, parts = made.verdict_, len(made.composition_)
    finite = math.isfinite(verdict.unexplained)
    left = verdict.unexplained if finite else 1e30
    missed = left
    if verdict.noise > NOISY and verdict.skill is not None:
        missed = min(1 - verdict.skill, 1e30)
    return replace(
        one, level=verdict.level.value, unexplained=left, parts=parts, score=score(missed, parts),
        words=made.equation_,
    )  # fmt: skip


def _take(
    splitter: OperatorSplitter, best: OperatorSplitter, ranking: tuple[Ranked, ...]
) -> OperatorSplitter:
    """The splitter with everything that the best fit knows."""
    given = splitter.get_params()
    vars(splitter).update({k: v for k, v in vars(best).items() if k not in given})
    splitter.ranking_ = ranking
    for note in splitter.notes_:
        warnings.warn(note, OpsplitWarning, stacklevel=6)
    return splitter


def _refusal(ranking: list[Ranked]) -> str:
    """Why the first model does not take the data; the others have reasons of their own."""
    reason = ranking[0].words.removeprefix("does not fit: ")
    return f"{reason} No other bundled model takes these data either."
