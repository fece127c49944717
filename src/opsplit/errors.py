"""The one exception a user is meant to read, and the one warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class OpsplitError(ValueError):
    """Something the caller can put right: the message says what, where and what to do instead."""


class OpsplitWarning(UserWarning):
    """Something was done, but with data unlike those a model knows."""


@contextmanager
def no_warnings() -> Iterator[None]:
    """For commands, which print a fit's notes themselves, and for measurements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpsplitWarning)
        yield
