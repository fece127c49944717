"""The one exception a user is meant to read, and the one warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar


class OpsplitError(ValueError):
    """Something the caller can put right: the message says what, where and what to do instead.

    Examples:
        >>> import opsplit
        >>> try:
        ...     opsplit.load_model("unknown")
        ... except opsplit.OpsplitError as error:
        ...     print(str(error)[:24])
        Unknown model 'unknown':
    """


class NotFittedError(OpsplitError, AttributeError):
    """Something was asked for that only a fit knows."""


class ArgumentError(OpsplitError, TypeError):
    """A function was called with an argument that it does not have."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that names what was probably meant, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), 1)
    return f" Did you mean {found[0]}?" if found else ""


P = ParamSpec("P")
R = TypeVar("R")


def named(function: Callable[P, R]) -> Callable[P, R]:
    """The same function; an argument that it does not have is answered with those that it has."""
    known = [name for name in signature(function).parameters if name != "self"]
    home = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*given: P.args, **told: P.kwargs) -> R:
        for name in told:
            if name not in known:
                raise ArgumentError(
                    f"{home}() has no argument {name!r:.60}.{nearest(name, known)} "
                    f"It takes {', '.join(known)}."
                )
        return function(*given, **told)

    return checked


class OpsplitWarning(UserWarning):
    """Something was done, but with data unlike those a model knows.

    Examples:
        >>> import warnings, opsplit
        >>> warnings.simplefilter("ignore", opsplit.OpsplitWarning)
    """


@contextmanager
def no_warnings() -> Iterator[None]:
    """For commands, which print a fit's notes themselves, and for measurements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpsplitWarning)
        yield
