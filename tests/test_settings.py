"""Settings that check themselves: ranges, round trips, and files that say something else."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsplit.dictionary.storage import DecoderSizes, StoredFacts, StoredPart
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.config import EncoderConfig, ModelConfig
from opsplit.operators import (
    FAMILIES,
    NONLINEARITIES,
    Linear,
    OperatorFamily,
    Spectral,
    Symbol,
    UNet,
)
from opsplit.settings import DEEPEST, AtMost, Between, Names, Printable, Settings, _hints, shown
from opsplit.terms import Term

PARTS: dict[str, type[Settings]] = {
    **{name: FAMILIES[name] for name in FAMILIES},
    **{name: NONLINEARITIES[name] for name in NONLINEARITIES},
    "symbol": Symbol,
    "encoder": EncoderConfig,
    "term": Term,
    "decoder": DecoderSizes,
}
HELD: dict[str, Settings] = {
    **{n: c() for n, c in PARTS.items() if n not in ("term", "decoder")},
    "term": Term("u_xx", 2, 1),
    "decoder": DecoderSizes(2, 8, 4, True),
    "grid": Grid((8,), (1.0,)),
    "model": ModelConfig("x", UNet(1, 1, 0.1), Grid((16,), (1.0,)), 0.1),
    "part": StoredPart(Linear(), 1.0),
    "facts": StoredFacts((StoredPart(Linear(), 1.0),), {"c": (1.0,)}, ("x",), {}, (4.0,)),
}
every = pytest.mark.parametrize("name", HELD)


def refused(make: Any) -> str:
    """The one sentence that it ends in."""
    with pytest.raises(OpsplitError) as caught:
        make()
    words = str(caught.value)
    assert words and "\n" not in words and len(words) < 1500
    return words


def ranges() -> list[tuple[str, str, Between]]:
    """Every field of a part that is a number in an interval."""
    found = []
    for name, part in PARTS.items():
        for key, hint in _hints(part).items():
            options = get_args(hint) if get_origin(hint) not in (Annotated, None) else (hint,)
            for option in options:
                limits = [x for x in get_args(option)[1:] if isinstance(x, Between)]
                if get_origin(option) is Annotated and get_args(option)[0] in (int, float):
                    found += [(name, key, limit) for limit in limits]
    return found


def test_every_part_has_ranges() -> None:
    found = {name for name, _, _ in ranges()}
    assert len(ranges()) > 30
    assert found >= set(PARTS) - {"conserving", "negated", "shifted-stages", "standardised"}


@every
def test_json_and_back_is_the_same(name: str) -> None:
    held = HELD[name]
    text = json.dumps(held.to_json())
    base = OperatorFamily if name in FAMILIES else type(held)
    assert base.from_json(json.loads(text)) == held


@given(place=st.sampled_from(ranges()), share=st.floats(0, 1), beyond=st.floats(1e-3, 10))
def test_numbers_are_taken_inside_their_range_and_refused_outside(
    place: tuple[str, str, Between], share: float, beyond: float
) -> None:
    name, key, limit = place
    part = PARTS[name]
    whole = "int" in str(_hints(part)[key])
    held = {k: v for k, v in HELD[name].to_json().items() if k != "kind"}
    for outside in (limit.low - beyond - 1, limit.high * 1.01 + beyond + 1):
        value = math.floor(outside) if whole else outside
        words = refused(lambda v=value: part.from_json({**HELD[name].to_json(), key: v}))
        assert key in words
        plain = {k: v for k, v in held.items() if not isinstance(v, dict | list)}
        assert key in refused(lambda v=value, p=plain: part(**{**p, key: v}))
    inside = limit.low + share * (min(limit.high, 1e3 + abs(limit.low)) - limit.low)
    value = round(inside) if whole else inside
    try:
        made = part.from_json({**HELD[name].to_json(), key: value})
    except OpsplitError as reason:
        # In range, but not beside the other values, such as a width that does not divide.
        assert "must lie in" not in str(reason)
    else:
        assert getattr(made, key) == value
        assert part.from_json(json.loads(json.dumps(made.to_json()))) == made


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([10**400, -(10**400), 1e308, math.nan, math.inf, "learned", "unet", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                                max_size=3),
    max_leaves=5,
)  # fmt: skip


@every
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_anywhere_is_taken_or_refused_in_one_sentence(
    name: str, data: st.DataObject
) -> None:
    held = HELD[name]
    raw = held.to_json()
    key = data.draw(st.sampled_from([*raw, "other"]))
    value = data.draw(JUNK)
    base = OperatorFamily if name in FAMILIES else type(held)
    try:
        made = base.from_json({**raw, key: value})
    except OpsplitError as reason:
        assert "\n" not in str(reason) and len(str(reason)) < 1500
    else:
        again = base.from_json(json.loads(json.dumps(made.to_json())))
        assert again == made


@every
@given(raw=JUNK)
def test_anything_else_than_a_table_is_refused(name: str, raw: Any) -> None:
    cls = type(HELD[name])
    if not isinstance(raw, dict):
        assert "must be a table of settings" in refused(lambda: cls.from_json(raw))


@every
def test_unknown_and_missing_settings_are_named(name: str) -> None:
    held = HELD[name]
    cls, raw = type(held), held.to_json()
    words = refused(lambda: cls.from_json({**raw, "colour": 1}))
    assert "has no setting 'colour'; it has" in words
    for known in fields(cls):  # type: ignore[arg-type]
        assert known.name in words
        rest = {k: v for k, v in raw.items() if k != known.name}
        try:
            cls.from_json(rest)
        except OpsplitError as reason:
            assert f"{known.name} is missing" in str(reason) or "channel" in str(reason)


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Symbol().bumps = 3  # type: ignore[misc]


@pytest.mark.parametrize("depth", [DEEPEST - 3, DEEPEST + 2, 200, 5000])
def test_settings_within_settings_end_somewhere(depth: int) -> None:
    raw: dict[str, Any] = UNet().to_json()
    for _ in range(depth):
        raw = {"kind": "conserving", "operator": raw}
    if depth < DEEPEST:
        assert OperatorFamily.from_json(raw).innermost == UNet()
    else:
        assert "nested too deeply" in refused(lambda: OperatorFamily.from_json(raw))


def test_values_too_large_to_print_are_described() -> None:
    plain = Symbol().to_json()
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "too large to print" in refused(lambda: Symbol.from_json({**plain, "bumps": 10**5000}))
    assert "too large to print" in refused(lambda: Symbol.from_json({**plain, "bumps": deep}))
    assert shown("x" * 1000) == "'" + "x" * 59
    while deep:  # Python cannot delete so deep a list at once.
        deep = deep[0]


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1], 10**400, math.nan])
def test_types_are_not_converted(value: Any) -> None:
    """But for whole numbers where any number will do."""
    plain = Symbol().to_json()
    for make in (lambda: Symbol(bumps=value), lambda: Symbol.from_json({**plain, "bumps": value})):
        assert "bumps must" in refused(make)
    assert Symbol(highest_wavenumber=3).highest_wavenumber == 3.0
    assert type(Symbol(highest_wavenumber=3).highest_wavenumber) is float
    if value != 1.0 or value is True:
        assert "must" in refused(lambda: Spectral(filter_rate=value))


# Every kind of field, in a class of the tests


@dataclass(frozen=True)
class Inner(Settings):
    size: Annotated[float, Between(0, 1)] = 0.5


@dataclass(frozen=True)
class Everything(Settings):
    needed: int
    words: Names = ("a",)
    pair: tuple[int, str] = (1, "x")
    table: dict[str, Annotated[float, Between(0, 1)]] = field(default_factory=dict)
    choice: Literal["a", "b"] = "a"
    inner: Inner | None = None
    many: Annotated[tuple[Inner, ...], AtMost(2)] = ()
    text: Annotated[str, Printable()] = "t"
    anything: Any = None
    either: Annotated[float, Between(0, 8)] | Literal["learned"] | None = None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"needed": 1.5}, "Everything: needed must be a whole number, got 1.5."),
        ({"words": ["\x1b[2J"]}, "words must be printable words"),
        ({"words": ["x" * 201]}, "words must be printable words"),
        ({"words": [""]}, "words must be printable words"),
        ({"words": ["a"] * 1001}, "words has 1001 entries, more than 1000"),
        ({"words": "a"}, "words must be a list"),
        ({"pair": [1]}, "pair needs 2 entries, got 1"),
        ({"pair": ["x", 1]}, "pair must be a whole number, got 'x'"),
        ({"table": [1]}, "table must be a table"),
        ({"table": {"a": 2.0}}, "table: a must lie in 0..1, got 2.0"),
        ({"table": {"\n": 0.5}}, "table must be printable words"),
        ({"choice": "c"}, "choice must be one of a, b, got 'c'"),
        ({"inner": {"size": 2}}, "inner: size must lie in 0..1, got 2.0"),
        ({"inner": 3}, "inner must be a table of settings, got 3"),
        ({"many": [{}, {}, {}]}, "many has 3 entries, more than 2"),
        ({"many": [{"size": -1}]}, "many: size must lie in 0..1"),
        ({"text": 3}, "text must be text, got 3"),
        ({"either": 9}, "either must lie in 0..8, got 9.0"),
        ({"either": 9.5}, "either must lie in 0..8, got 9.5"),
        ({"either": "taught"}, "either must be one of learned, got 'taught'"),
        ({"either": [1]}, "either must be one of learned, got [1]"),
    ],
)
def test_every_kind_of_field_is_checked(change: dict[str, Any], words: str) -> None:
    assert words in refused(lambda: Everything.from_json({"needed": 1, **change}))


def test_every_kind_of_field_goes_through_json() -> None:
    held = Everything(
        3, ("u", "v"), (2, "y"), {"a": 0.25}, "b", Inner(0.1), (Inner(0.2), Inner()), "t", [1, "x"]
    )
    assert Everything.from_json(json.loads(json.dumps(held.to_json()))) == held
    assert Everything(1).to_json()["inner"] is None
    assert "needed is missing" in refused(lambda: Everything.from_json({}))


def test_python_values_are_not_read_like_files() -> None:
    """A table in place of settings is a mistake in Python, and the way of a file."""
    assert "inner must be a Inner" in refused(lambda: Everything(1, inner={"size": 0.1}))  # type: ignore[arg-type]
    assert Everything(1, words=["a", "b"]).words == ("a", "b")  # type: ignore[arg-type]


def test_only_dataclasses_are_settings() -> None:
    class Plain(Settings):
        pass

    with pytest.raises(TypeError, match="Plain must be a dataclass"):
        Plain.from_json({})
