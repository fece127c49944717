"""The one exception a user is meant to read, and the one warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


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
