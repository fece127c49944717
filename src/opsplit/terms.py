"""What is known about the terms of an equation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from opsplit.errors import OpsplitError
from opsplit.settings import Between, Printable, Settings


@dataclass(frozen=True)
class Term(Settings):
    """The right-hand-side term that a coefficient multiplies.

    A coefficient of order `p` and degree `q` scales with the units of length and of the field as
    `length**p / field**(q - 1)`.

    Arguments:
        text: the term as it is printed, such as `-u_x`.
        order: its space derivatives (None: unknown, or several).
        degree: its power of the field (None: unknown, or several).
        signed: whether its coefficient may have either sign, as that of a directed term may.
    """

    text: Annotated[str, Printable()]
    order: Annotated[int, Between(-4, 16)] | None = None
    degree: Annotated[int, Between(0, 16)] | None = None
    signed: bool = False


def terms_to_text(terms: Mapping[str, str]) -> str:
    """Terms as files hold them: one line of JSON."""
    return json.dumps(dict(terms))


def terms_from(raw: Any, where: str) -> dict[str, str]:
    """Terms from the `terms` attribute of a file: JSON, such as `{"D": "u_xx"}`."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    try:
        found = json.loads(text) if len(text) < 100_000 else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise OpsplitError(
            f'{where}: terms must be JSON, such as {{"r": "u - u^3", "D": "u_xx"}}, '
            f"got {text!r:.60}."
        )
    return check_terms(found, where)


def check_terms(terms: Mapping[Any, Any], where: str) -> dict[str, str]:
    """Names of coefficients and the terms they multiply, as printable words."""
    Printable().check((*terms.keys(), *terms.values()), f"{where}: terms")
    return {str(k): str(v) for k, v in terms.items()}
