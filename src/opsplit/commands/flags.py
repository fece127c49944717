"""Nested flags for settings whose parts are only known by value."""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from typing import Any, TypeVar

from opsplit.settings import Settings

S = TypeVar("S", bound=Settings)


def with_flags(settings: S) -> S:
    """The same settings in a subclass that declares the type of every part that it holds.

    A field declared as `Nonlinearity | None` that holds a `Polynomial` becomes a `Polynomial`, so
    that the command line has a flag for each of its settings.
    """
    values = {f.name: getattr(settings, f.name) for f in fields(settings)}  # type: ignore[arg-type]
    parts = {k: with_flags(v) for k, v in values.items() if isinstance(v, Settings)}
    if not parts:
        return settings
    own = type(settings)
    narrowed = make_dataclass(
        own.__name__,
        [(name, type(part), field(default=part)) for name, part in parts.items()],
        bases=(own,),
        frozen=True,
        namespace={"__doc__": own.__doc__, "__module__": own.__module__, "declared": own},
    )
    made: S = narrowed(**(values | parts))
    return made


def without_flags(settings: Any) -> Any:
    """Settings of the declared classes again."""
    if not isinstance(settings, Settings):
        return settings
    own: Any = getattr(type(settings), "declared", type(settings))
    return own(**{f.name: without_flags(getattr(settings, f.name)) for f in fields(own)})
