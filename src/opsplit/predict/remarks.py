"""What a user should know about coefficients that were found."""

from __future__ import annotations

import numpy as np

from opsplit.dictionary import OperatorDictionary
from opsplit.predict.compatibility import Code, Issue, Severity
from opsplit.predict.verdict import Verdict
from opsplit.search import SearchResult
from opsplit.search.estimate import AGREE

NOISE_LEAVES = 0.05
"""A coefficient is noted as open if other noise would change it by more than this share."""


def about_result(
    dictionary: OperatorDictionary, found: SearchResult, verdict: Verdict, noisy: bool = False
) -> list[Issue]:
    """What a user should know about coefficients that were found.

    Arguments:
        dictionary: the model's own operators.
        noisy: whether the spread is what noise leaves open.
    """
    texts = [
        (
            Code.ALIKE,
            f"On these frames {one} and {other} act alike, as in a single wave: the frames cannot "
            "tell which of them is at work, and the coefficients are one choice among several.",
        )
        for one, other in found.alike
    ]
    if found.remark:
        texts.append((Code.MEMORY, found.remark))
    if verdict.skill is None:
        texts.append((Code.STILL, "Nothing changes in these frames: they say no coefficient."))
    for name, value in found.identified.items():
        if value and verdict.trusted:
            open_share = found.spread.get(name, 0.0) / abs(value)
            texts += [(Code.UNCERTAIN, words) for words in unsure(name, open_share, noisy)]
        own = dictionary.coefficients.get(name, np.zeros(0))
        sizes = set(own[own != 0].tolist())
        # A number that all operators share is no parameter of the physics.
        if len(sizes) == 1 and value * sizes.pop() < 0:
            words = (
                f"{name} has the opposite sign of the model's: the fields or an axis of the data "
                "follow the other sign convention."
            )
            texts.append((Code.SIGN, words))
    return [Issue(code, Severity.NOTE, text) for code, text in texts]


def unsure(name: str, share: float, noisy: bool) -> list[str]:
    """The note on a coefficient whose spread is a large share of it."""
    if share <= (NOISE_LEAVES if noisy else AGREE):
        return []
    words = f"These frames hardly say how large {name} is: other values fit nearly as well."
    other = f" Other noise of the same size would change it by about {100 * share:.2g} %."
    return [words + other if noisy else words]
