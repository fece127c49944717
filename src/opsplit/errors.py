"""The one exception a user is meant to read."""

from __future__ import annotations


class OpsplitError(ValueError):
    """Something the caller can put right: the message says what, where and what to do instead."""
