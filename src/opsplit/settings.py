"""Settings as frozen dataclasses whose fields carry their own ranges; JSON in and out.

A field says what it may be where it is declared:

    @dataclass(frozen=True)
    class Polynomial(Settings):
        degree: Annotated[int, Between(1, 8)] = 2

An instance can only be made with values in their ranges, whether they come from Python, from the
command line or from a file of a stranger. Ranges are far wider than what makes sense: a value
outside is a mistake, or an attempt to fill the memory.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from opsplit.errors import OpsplitError

S = TypeVar("S", bound="Settings")

DEEPEST = 20
"""Levels of settings within settings."""


def shown(value: Any) -> str:
    """A value in at most 60 characters, for messages."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):
        # Python writes out neither whole numbers of many thousand digits nor very deep lists.
        return f"a {type(value).__name__} that is too large to print"


@dataclass(frozen=True)
class Between:
    """A number in a closed interval; of a tuple, every number in it."""

    low: float
    high: float

    def check(self, value: Any, what: str) -> None:
        for x in value if isinstance(value, tuple) else (value,):
            if x is not None and not isinstance(x, str) and not self.low <= x <= self.high:
                raise OpsplitError(
                    f"{what} must lie in {_short(self.low)}..{_short(self.high)}, got {shown(x)}."
                )


@dataclass(frozen=True)
class AtMost:
    """A tuple or a table of at most so many entries."""

    count: int

    def check(self, value: Any, what: str) -> None:
        if len(value) > self.count:
            raise OpsplitError(f"{what} has {len(value)} entries, more than {self.count}.")


class Printable:
    """Words that may be shown: 1 to 200 printable characters each."""

    def check(self, value: Any, what: str) -> None:
        for word in value if isinstance(value, tuple) else (value,):
            if not isinstance(word, str) or not 1 <= len(word) <= 200 or not word.isprintable():
                raise OpsplitError(f"{what} must be printable words, got {shown(word)}.")


SIZE = Between(1e-30, 1e30)
"""A positive number of any unit."""
NUMBER = Between(-1e30, 1e30)
Size = Annotated[float, SIZE]
Share = Annotated[float, Between(0.0, 1.0)]
Names = Annotated[tuple[str, ...], AtMost(1000), Printable()]


class Kinds(Protocol):
    """Where a class looks for its members by their `kind`."""

    def __getitem__(self, name: str, /) -> Any: ...


class Settings:
    """Base of frozen dataclasses that check themselves.

    A class with several interchangeable members sets `kinds` to their registry; JSON then names
    the member by its `kind`.
    """

    kind: ClassVar[str] = ""
    kinds: ClassVar[Kinds | None] = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        for key, hint in _hints(type(self)).items():
            value = getattr(self, key)
            fitting = _converted(hint, value, f"{name}: {key}", from_file=False)
            if fitting is not value:
                object.__setattr__(self, key, fitting)
        self.check()

    def check(self) -> None:
        """Refuse values that do not make sense together."""

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads again."""
        out: dict[str, Any] = {"kind": self.kind} if self.kind else {}
        for field in fields(self):  # type: ignore[arg-type]
            out[field.name] = plain(getattr(self, field.name))
        return out

    @classmethod
    def from_json(cls: type[S], raw: Any, what: str = "") -> S:
        """Settings from what `json.load` gives; anything unexpected is refused in a sentence."""
        where = what or cls.__name__
        if where.count(": ") > DEEPEST:
            raise OpsplitError(f"{where[:60]}...: settings are nested too deeply.")
        if not isinstance(raw, Mapping):
            raise OpsplitError(f"{where} must be a table of settings, got {shown(raw)}.")
        chosen: type[S] = cls
        if cls.kinds is not None:
            kind = raw.get("kind")
            if not isinstance(kind, str):
                raise OpsplitError(f"{where}: kind must be a name, got {shown(kind)}.")
            chosen = cls.kinds[kind]
            if not issubclass(chosen, cls):
                raise OpsplitError(f"{where} must be of kind {cls.kind}, got {kind!r}.")
        hints = _hints(chosen)
        values = {k: v for k, v in raw.items() if k != "kind" or not chosen.kind}
        for key in values:
            if key not in hints:
                raise OpsplitError(
                    f"{where} has no setting {shown(key)}; it has {', '.join(hints)}."
                )
        for field in fields(chosen):  # type: ignore[arg-type]
            needed = field.default is MISSING and field.default_factory is MISSING
            if field.name not in values and needed:
                raise OpsplitError(f"{where}: {field.name} is missing.")
        made = {
            key: _converted(hints[key], value, f"{where}: {key}", from_file=True)
            for key, value in values.items()
        }
        return chosen(**made)


def plain(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, Settings):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [plain(x) for x in value]
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return value


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    """The annotation of every field, ranges included."""
    if cls not in _HINTS:
        if not is_dataclass(cls):
            raise TypeError(f"{cls.__name__} must be a dataclass.")
        hints = get_type_hints(cls, include_extras=True)
        _HINTS[cls] = {field.name: hints[field.name] for field in fields(cls)}
    return _HINTS[cls]


_APART: dict[int, tuple[Any, Any, tuple[Any, ...]]] = {}


def _apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Origin and arguments of an annotation, which are looked up for every value."""
    known = _APART.get(id(hint))
    if known is None or known[0] is not hint:
        # The annotation is kept with its number, which belongs to it as long as it lives.
        known = _APART[id(hint)] = (hint, get_origin(hint), get_args(hint))
    return known[1:]


def argument(hint: Any, value: Any, what: str) -> Any:
    """An argument in its declared type; numbers of numpy and torch count as Python's.

    Examples:
        >>> import numpy
        >>> from opsplit.settings import argument
        >>> argument(int | None, numpy.int64(3), "window")
        3
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    return _converted(hint, value, what, False)


def path_argument(value: Any, what: str) -> Path:
    """A path, or one sentence."""
    try:
        return Path(value)
    except TypeError:
        raise OpsplitError(f"{what} must be a path, got {shown(value)}.") from None


def _converted(hint: Any, value: Any, what: str, from_file: bool) -> Any:
    """The value in its declared type and range."""
    origin, arguments = _apart(hint)
    if origin is Annotated:
        found = _converted(arguments[0], value, what, from_file)
        for limit in arguments[1:]:
            if found is not None and hasattr(limit, "check"):
                limit.check(found, what)
        return found
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, what, from_file)
    if origin is Literal:
        if value not in arguments or type(value) not in {type(a) for a in arguments}:
            words = ", ".join(map(str, arguments))
            raise OpsplitError(f"{what} must be one of {words}, got {shown(value)}.")
        return value
    if origin is tuple:
        return _tuple(arguments, value, what, from_file)
    if origin in (dict, Mapping) or str(origin).endswith("Mapping'>"):
        if not isinstance(value, Mapping):
            raise OpsplitError(f"{what} must be a table, got {shown(value)}.")
        Printable().check(tuple(value), what)
        return {k: _converted(arguments[1], v, f"{what}: {k}", from_file) for k, v in value.items()}
    if isinstance(hint, type) and issubclass(hint, Settings):
        if isinstance(value, hint):
            return value
        if from_file:
            return hint.from_json(value, what)
        raise OpsplitError(f"{what} must be a {hint.__name__}, got {shown(value)}.")
    return _simple(hint, value, what)


def _simple(hint: Any, value: Any, what: str) -> Any:
    if hint is bool and type(value) is not bool:
        raise OpsplitError(f"{what} must be true or false, got {shown(value)}.")
    if hint is int and type(value) is not int:
        raise OpsplitError(f"{what} must be a whole number, got {shown(value)}.")
    if hint is float:
        if type(value) is int and abs(value) <= sys.float_info.max:
            value = float(value)
        if not isinstance(value, float) or math.isnan(value):
            raise OpsplitError(f"{what} must be a number, got {shown(value)}.")
    if hint is str and not isinstance(value, str):
        raise OpsplitError(f"{what} must be text, got {shown(value)}.")
    return value


def _one_of(arguments: tuple[Any, ...], value: Any, what: str, from_file: bool) -> Any:
    """The first of several types that takes the value."""
    if value is None and type(None) in arguments:
        return None
    said: OpsplitError | None = None
    meant = False
    for one in arguments:
        if one is not type(None):
            try:
                return _converted(one, value, what, from_file)
            except OpsplitError as reason:
                # The reason of the type that was meant says more than that of another one.
                if not meant:
                    said, meant = reason, _same_type(one, value)
    raise said or OpsplitError(f"{what} must not be {shown(value)}.")


def _same_type(hint: Any, value: Any) -> bool:
    """Whether a value has the basic type of an annotation, whatever its range."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        return type(value) in {type(a) for a in get_args(hint)}
    plain_type = get_origin(hint) or hint
    numbers = plain_type is float and type(value) is int
    return numbers or type(value) is plain_type or (plain_type is tuple and type(value) is list)


def _tuple(arguments: tuple[Any, ...], value: Any, what: str, from_file: bool) -> Any:
    if not isinstance(value, tuple | list):
        raise OpsplitError(f"{what} must be a list, got {shown(value)}.")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        kinds = [arguments[0]] * len(value)
    elif len(arguments) == len(value):
        kinds = list(arguments)
    else:
        raise OpsplitError(f"{what} needs {len(arguments)} entries, got {len(value)}.")
    made = tuple(_converted(k, v, what, from_file) for k, v in zip(kinds, value, strict=True))
    same = isinstance(value, tuple) and all(a is b for a, b in zip(made, value, strict=True))
    return value if same else made


def _short(x: float) -> str:
    return f"{x:g}"
