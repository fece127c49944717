"""Settings of a training in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from opsplit._files import parsing, regular
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import EncoderConfig
from opsplit.operators import NONLINEARITIES, Nonlinearity, OperatorFamily
from opsplit.pretrain.config import TrainConfig, preset_operator, preset_settings
from opsplit.pretrain.operator import Auto, named
from opsplit.settings import Settings, shown

S = TypeVar("S", bound=Settings)
Operator = OperatorFamily | Nonlinearity | Auto
KEYS = ("preset", "operator", "encoder", "training")
LARGEST = 200_000
"""Bytes of a file of settings."""
DOTS = 1000
"""Most dots in a line: a name of many parts takes the parser a time that grows with the square of
their number."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    with parsing(path, "TOML"):
        if regular(path).st_size > LARGEST:
            raise OpsplitError(f"{path} is larger than {LARGEST} bytes.")
        text = path.read_text("utf-8")
        if any(line.count(".") > DOTS for line in text.split("\n")):
            raise OpsplitError(
                f"{path} has a line with more than {DOTS} dots; write shorter lines."
            )
        return tomllib.loads(text)


@contextmanager
def in_file(path: Path | None) -> Iterator[None]:
    """Inside, whatever is refused is said with the name of the file."""
    try:
        yield
    except OpsplitError as reason:
        if path is None or str(path) in str(reason):
            raise
        raise OpsplitError(f"{path}: {reason}") from None


def changed(settings: S, raw: Any, what: str) -> S:
    """Settings in which the values of a table replace those that are there."""
    if not isinstance(raw, Mapping):
        raise OpsplitError(f"{what} must be a table of settings, got {shown(raw)}.")
    base: type[Settings] = type(settings)
    for kind in (Nonlinearity, OperatorFamily):
        base = kind if isinstance(settings, kind) else base
    made = base.from_json(_merged(settings.to_json(), raw), what)
    assert isinstance(made, type(settings))
    return made


def _merged(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Tables within tables are merged, unless the new one is of another kind."""
    out = dict(old)
    for key, value in new.items():
        before = out.get(key)
        out[key] = value
        if isinstance(before, dict) and isinstance(value, Mapping):
            kind = before.get("kind")
            out[key] = _merged(before, value) if value.get("kind", kind) == kind else value
    return out


def operator_from(raw: Any, what: str) -> Operator:
    """An operator family or a nonlinearity from a table; `kind` names it."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("kind"), str):
        raise OpsplitError(f'{what} must be a table with a kind, such as kind = "spectral".')
    kind = raw["kind"]
    if kind == Auto.kind:
        return Auto.from_json(raw, what)
    base = Nonlinearity if kind in NONLINEARITIES else OperatorFamily
    # Values that the table does not give are those that the name alone stands for.
    return base.from_json(_merged(named(kind).to_json(), raw), what)


def read_settings(
    path: Path | None, preset: str | None, operator: str | None, stored: bool, name: str = ""
) -> tuple[str, Operator, EncoderConfig, TrainConfig]:
    """Preset, operator, encoder and training: of the preset, changed by a file.

    Arguments:
        preset: instead of the file's.
        operator: the name of one, instead of the file's.
        stored: whether the data are stored, rather than simulated.
        name: of the equation, if it is one of ours.
    """
    raw = {} if path is None else read_toml(path)
    for key in raw:
        if key not in KEYS:
            raise OpsplitError(f"{path} has no setting {key!r:.60}; it has {', '.join(KEYS)}.")
    chosen = preset or raw.get("preset", "cpu")
    if not isinstance(chosen, str):
        raise OpsplitError(f"{path}: preset must be a name, got {shown(chosen)}.")
    with in_file(path):
        encoder, training = preset_settings(chosen, stored, name)
        table = raw.get("operator", {"kind": preset_operator(chosen)})
        if operator is not None and (
            not isinstance(table, Mapping) or table.get("kind") != operator
        ):
            table = {"kind": operator}
        return (
            chosen,
            operator_from(table, f"{path}: operator"),
            changed(encoder, raw.get("encoder", {}), f"{path}: encoder"),
            changed(training, raw.get("training", {}), f"{path}: training"),
        )
