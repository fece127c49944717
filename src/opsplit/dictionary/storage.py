"""A dictionary on disk: what its files may hold, checked before there is memory for its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from opsplit._tensors import LARGEST, Shapes, about_as_many, same_shapes
from opsplit.dictionary.part import Part
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.decoder import UNITS, Decoder
from opsplit.operators import OperatorFamily
from opsplit.settings import NUMBER, AtMost, Between, Printable, Settings, Size, plain
from opsplit.terms import Term

FORMAT = 2
MOST_OPERATORS = 100_000
"""In a dictionary, all its parts together."""
MOST_NUMBERS = 10_000_000
"""Coefficients of all operators together."""


@dataclass(frozen=True)
class DecoderSizes(Settings):
    """Sizes of a decoder."""

    code: Annotated[int, Between(1, 4096)]
    width: Annotated[int, Between(1, 65_536)]
    head_width: Annotated[int, Between(1, 65_536)]
    bias: bool

    def numbers(self, family: OperatorFamily) -> int:
        parameters = family.n_parameters
        head = self.head_width * (parameters + self.width)
        return head + self.code * self.width + 4 * parameters

    def build(self, family: OperatorFamily) -> Decoder:
        start = family.initialisation(torch.Generator().manual_seed(0))
        return Decoder(self.code, start, self.width, self.head_width, self.bias)


@dataclass(frozen=True)
class StoredPart(Settings):
    """A part as `dictionary.json` describes it, before there is memory for its numbers."""

    family: OperatorFamily
    scale: Size
    decoder: DecoderSizes | None = None

    def shapes(self, i: int, found: Shapes) -> dict[str, tuple[int, ...]]:
        """The tensors of part `i`, of as many operators as the file holds."""
        n = (found.get(f"part{i}.codes") or (0,))[0]
        prefix = f"part{i}.decoder."
        if n > MOST_OPERATORS or 4 * n * self.family.n_parameters > LARGEST:
            raise OpsplitError(
                f"{n} operators are more than {MOST_OPERATORS}, or take more than "
                f"{LARGEST / 1e9:g} GB."
            )
        if self.decoder is None:
            return {f"part{i}.codes": (n, self.family.n_parameters)}
        if 4 * self.decoder.numbers(self.family) > LARGEST:
            raise OpsplitError(f"a decoder takes more than {LARGEST / 1e9:g} GB.")
        shapes: dict[str, tuple[int, ...]] = {f"part{i}.codes": (n, self.decoder.code)}
        own = {name: shape for name, shape in found.items() if name.startswith(prefix)}
        if own:
            about_as_many(self.decoder.numbers(self.family), own)
            held = self.decoder.build(self.family).state_dict()
            shapes |= {
                prefix + name: tuple(t.shape)
                for name, t in held.items()
                if name not in UNITS or prefix + name in found
            }
        return shapes


@dataclass(frozen=True)
class StoredFacts(Settings):
    """What `dictionary.json` holds."""

    parts: Annotated[tuple[StoredPart, ...], AtMost(1000)]
    coefficients: Annotated[
        Mapping[str, Annotated[tuple[float, ...], NUMBER, AtMost(MOST_OPERATORS)]], AtMost(1000)
    ]
    provenance: Annotated[tuple[str, ...], AtMost(MOST_OPERATORS), Printable()]
    terms: Annotated[Mapping[str, Term], AtMost(1000)]
    max_strengths: Annotated[tuple[float, ...], Between(1e-30, 1e30), AtMost(MOST_OPERATORS)]

    def check(self) -> None:
        numbers = len(self.coefficients) * len(self.provenance)
        if numbers > MOST_NUMBERS:
            raise OpsplitError(f"it has {numbers} coefficients, more than {MOST_NUMBERS}.")


def read_part(
    i: int, stored: StoredPart, tensors: dict[str, Tensor], given: nn.Module | None
) -> Part:
    """The operators, with their own decoder or the one of the model they came with."""
    prefix = f"part{i}.decoder."
    own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    decoder: Decoder | None = None
    if stored.decoder is not None:
        if own:
            decoder = stored.decoder.build(stored.family)
            decoder.load_state_dict(decoder.state_dict() | {k: t.float() for k, t in own.items()})
        elif not isinstance(given, Decoder):
            raise OpsplitError("this dictionary holds codes of a model; load that model.")
        elif plain(given.sizes()) != stored.decoder.to_json() or (
            len(given.start) != stored.family.n_parameters
        ):
            raise OpsplitError("the dictionary belongs to another model than this one.")
        else:
            decoder = given
    # A copy, because the tensor is the file itself, which may change.
    return Part(stored.family, tensors[f"part{i}.codes"].clone(), decoder, stored.scale)


def same_parts(described: Sequence[StoredPart]) -> Callable[[Shapes], None]:
    """A check that a file holds the tensors of these parts and no others."""

    def check(found: Shapes) -> None:
        expected: dict[str, tuple[int, ...]] = {}
        operators, size = 0, 0
        for i, part in enumerate(described):
            # Checked part by part: the parts before may already be all that there is room for.
            expected |= part.shapes(i, found)
            n = expected[f"part{i}.codes"][0]
            operators, size = operators + n, size + 4 * n * part.family.n_parameters
            if part.decoder is not None:
                size += 4 * part.decoder.numbers(part.family)
            if operators > MOST_OPERATORS or size > LARGEST:
                raise OpsplitError(
                    f"its parts together hold more than {MOST_OPERATORS} operators, or take more "
                    f"than {LARGEST / 1e9:g} GB."
                )
        same_shapes(expected)(found)

    return check


def wrong_format(source: Path, found: Any, wanted: int) -> str:
    """What to do about a directory that another version of the package wrote."""
    if type(found) is int and found == 1:
        return (
            f"{source} was written by an earlier opsplit (format 1); convert it: "
            f"opsplit upgrade {source} --out NEW"
        )
    return f"{source} has format {found!r:.60}, this opsplit reads {wanted}."
