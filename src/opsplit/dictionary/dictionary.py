"""The operators a search may compose, with the physics each is known to stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from opsplit._files import inside, read_json, together, write_json
from opsplit._memory import check_room
from opsplit._tensors import read_tensors, save_tensors, usual_defaults
from opsplit.dictionary.lift import lifted, on_channels
from opsplit.dictionary.part import Part
from opsplit.dictionary.prepared import PreparedDictionary
from opsplit.dictionary.storage import (
    FORMAT,
    DecoderSizes,
    StoredFacts,
    StoredPart,
    read_part,
    same_parts,
    wrong_format,
)
from opsplit.display import html_table, new_axes
from opsplit.errors import OpsplitError, named
from opsplit.grid import Grid
from opsplit.hypernetwork.decoder import Decoder
from opsplit.operators import Linear, OperatorFamily, UserFunction
from opsplit.terms import Term

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEPT = 2_000_000
"""Operators on a grid are kept for the next window, if they have no more numbers than this."""
MAX_STRENGTH = 4.0
"""Largest strength of an operator, if nothing else is known: learned flows are trained on short
durations, and a strength is a longer one."""


@dataclass(frozen=True)
class OperatorDictionary:
    """An ordered set of operators from one or several families.

    Arguments:
        parts: operators, grouped by family; the order of the dictionary is part after part.
        coefficients: one value per operator for every coefficient, zero where it has no share.
        provenance: where every operator came from, in words.
        terms: what is known about the term of a coefficient.
        max_strengths: the largest strength that a search may give every operator.

    Examples:
        >>> import opsplit
        >>> dictionary = opsplit.load_model("advection-diffusion").dictionary
        >>> len(dictionary.subsample(16, seed=0))
        16
    """

    parts: tuple[Part, ...]
    coefficients: Mapping[str, np.ndarray] = field(default_factory=dict)
    provenance: tuple[str, ...] = ()
    terms: Mapping[str, Term] = field(default_factory=dict)
    max_strengths: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        n = len(self)
        if not self.provenance:
            object.__setattr__(self, "provenance", ("unknown",) * n)
        if not len(self.max_strengths):
            object.__setattr__(self, "max_strengths", np.full(n, MAX_STRENGTH))
        sizes = {name: len(v) for name, v in self.coefficients.items()} | {
            "provenance": len(self.provenance),
            "max_strengths": len(self.max_strengths),
        }
        for name, size in sizes.items():
            if size != n:
                raise OpsplitError(f"The dictionary has {n} operators but {size} of {name!r}.")

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @cached_property
    def mechanisms(self) -> dict[tuple[str, ...], np.ndarray]:
        """Positions of operators by the names of their coefficients that are not zero."""
        held: dict[tuple[str, ...], list[int]] = {}
        for i in range(len(self)):
            names = tuple(k for k, v in self.coefficients.items() if v[i] != 0)
            held.setdefault(names, []).append(i)
        return {names: np.asarray(members) for names, members in held.items()}

    @cached_property
    def right_up_to(self) -> float:
        """Modes beyond this wavenumber do not evolve as some operator says."""
        every = [part.family.right_up_to(part.parameters()) for part in self.parts]
        return min(every, default=math.inf)

    def __repr__(self) -> str:
        families = " + ".join(f"{len(p)} {p.family.innermost.kind}" for p in self.parts) or "empty"
        ranges = ", ".join(
            f"{k} in [{v.min():.3g}, {v.max():.3g}]" for k, v in self.coefficients.items() if len(v)
        )
        return f"OperatorDictionary({families}; {ranges or 'no coefficients'})"

    def _repr_html_(self) -> str:
        rows = [
            {"coefficient": name, "term": self.terms[name].text if name in self.terms else "",
             "operators": int((v != 0).sum()), "from": float(v[v != 0].min(initial=np.inf)),
             "to": float(v[v != 0].max(initial=-np.inf))}
            for name, v in self.coefficients.items() if v.any()
        ]  # fmt: skip
        return html_table(rows, f"{len(self)} operators")

    @named
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients of all operators, one row per coefficient.

        Arguments:
            ax: axes to draw into (default: those of a new figure).

        Returns:
            The axes.
        """
        axes = new_axes(ax)
        shown = {name: v[v != 0] for name, v in self.coefficients.items()}
        for row, values in enumerate(shown.values()):
            axes.plot(values, np.full(len(values), row), "|", ms=14)
        axes.set(yticks=range(len(shown)), xlabel="coefficient", title=f"{len(self)} operators")
        axes.set_yticklabels([f"{name} ({len(values)})" for name, values in shown.items()])
        axes.set_ylim(-0.5, max(len(shown), 1) - 0.5)
        return axes

    def describe(self, index: int) -> str:
        """An operator in a few characters, such as `c=0.52`."""
        known = [f"{k}={v[index]:.3g}" for k, v in self.coefficients.items() if v[index] != 0]
        return " ".join(known) or f"#{index}"

    def select(self, index: Sequence[int] | np.ndarray | Tensor) -> OperatorDictionary:
        """The operators at these positions; those of one family stay together."""
        chosen = np.asarray(index, dtype=int).reshape(-1)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(self)):
            raise OpsplitError(f"Positions must lie in 0..{len(self) - 1}, got {chosen.tolist()}.")
        parts, order, offset = [], [], 0
        for part in self.parts:
            mine = chosen[(chosen >= offset) & (chosen < offset + len(part))]
            if len(mine):
                codes = part.codes[torch.from_numpy(mine - offset)]
                parts.append(Part(part.family, codes, part.decoder, part.scale))
                order.append(mine)
            offset += len(part)
        kept = np.concatenate(order) if order else np.zeros(0, int)
        return OperatorDictionary(
            tuple(parts),
            {k: v[kept] for k, v in self.coefficients.items()},
            tuple(self.provenance[i] for i in kept),
            self.terms,
            self.max_strengths[kept],
        )

    def where(self, condition: Callable[[dict[str, float]], bool]) -> OperatorDictionary:
        """The operators whose coefficients satisfy a condition."""
        return self.select(
            [
                i
                for i in range(len(self))
                if condition({k: float(v[i]) for k, v in self.coefficients.items()})
            ]
        )

    def subsample(self, n: int, seed: int) -> OperatorDictionary:
        """`n` operators at random, in the dictionary's order."""
        if not 1 <= n <= len(self):
            raise OpsplitError(f"Cannot take {n} of {len(self)} operators.")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        return self.select(order[:n].sort().values)

    def merge(self, other: OperatorDictionary) -> OperatorDictionary:
        """Both dictionaries, families and physics may differ; missing coefficients are zero."""
        for part in other.parts:
            first = self.parts[0].family if self.parts else part.family
            if (part.family.channels, part.family.ndim) != (first.channels, first.ndim):
                raise OpsplitError(
                    f"Operators on {first.ndim}-D fields with {first.channels} channels cannot "
                    f"join operators on {part.family.ndim}-D fields with "
                    f"{part.family.channels} channels."
                )
        names = list(dict.fromkeys([*self.coefficients, *other.coefficients]))
        merged = {
            name: np.concatenate(
                [np.asarray(d.coefficients.get(name, np.zeros(len(d)))) for d in (self, other)]
            )
            for name in names
        }
        return OperatorDictionary(
            self.parts + other.parts,
            merged,
            self.provenance + other.provenance,
            {**other.terms, **self.terms},
            np.concatenate([self.max_strengths, other.max_strengths]),
        )

    def lift(self, ndim: int, apart: bool = False) -> OperatorDictionary:
        """The same mechanisms on fields with more axes.

        Operators that single out no direction, such as diffusion and reactions, act in every
        dimension. The others, on a line, act along every axis by itself, and their coefficients
        get an axis: `c` becomes `c_x` and `c_y`. Operators on a plane with a direction cannot be
        lifted.

        With `apart`, derivatives without a direction act along every axis as well: `D` stays, and
        `D_x` and `D_y` join it, for media that are not the same in all directions.
        """
        return lifted(self, ndim, apart)

    def on_channels(self, names: Sequence[str]) -> OperatorDictionary:
        """Scalar operators on every channel of a system, by itself; `D` becomes `D_A` and `D_B`."""
        return on_channels(self, names)

    def pruned(self, threshold: float) -> OperatorDictionary:
        """The same operators without the weights of products that are smaller than `threshold`.

        Zero weights cost nothing, and an operator without any flows as exactly as a linear one.
        Pruned operators are parameters: they have no code that a search could move.
        """
        parts = []
        for part in self.parts:
            family, kept = part.family.pruned(part.parameters(), threshold)
            parts.append(part if family is part.family else Part(family, kept, None, part.scale))
        return replace(self, parts=tuple(parts))

    def with_max_strength(self, most: float) -> OperatorDictionary:
        """The same operators, which a search may make this strong at most."""
        return replace(self, max_strengths=np.full(len(self), most))

    @usual_defaults()
    def add(
        self,
        operator: Callable[..., Tensor] | OperatorFamily,
        parameters: Tensor | None = None,
        coefficients: Mapping[str, float] | None = None,
        provenance: str = "added by hand",
    ) -> OperatorDictionary:
        """This dictionary and one more operator: a family with parameters, or your own `f(u)`."""
        if not isinstance(operator, OperatorFamily):
            if not self.parts:
                raise OpsplitError("An empty dictionary does not know the fields: add a family.")
            like = self.parts[0].family
            operator = UserFunction(like.channels, like.ndim, f=operator)
        if parameters is None:
            parameters = torch.ones(1, operator.n_parameters)
        known = {k: np.full(len(parameters), v) for k, v in (coefficients or {}).items()}
        new = OperatorDictionary(
            (Part(operator, parameters),), known, (provenance,) * len(parameters)
        )
        return self.merge(new)

    @torch.no_grad()
    @usual_defaults()
    def prepare(self, grid: Grid, like: Tensor) -> PreparedDictionary:
        """All operators, ready to act on fields of this grid, on the device and dtype of `like`."""
        held: dict[Hashable, PreparedDictionary] = self.__dict__.setdefault("_prepared", {})
        key = (grid, like.dtype, like.device, *(part.codes._version for part in self.parts))
        if key in held:
            return held[key]
        points = math.prod(grid.shape)
        numbers = sum(len(p.codes) * (p.family.n_parameters + points) for p in self.parts)
        check_room(f"{len(self)} operators on {points} points", 8.0 * numbers)
        parameters = tuple(part.parameters().to(like) for part in self.parts)
        prepared = tuple(
            (part.family, part.family.prepare(own, grid), part.scale)
            for part, own in zip(self.parts, parameters, strict=True)
        )
        made = PreparedDictionary(prepared, parameters)
        held.clear()
        if numbers <= KEPT and all(part.decoder is None for part in self.parts):
            # The next window is most often on the same grid; a decoder may be trained on.
            held[key] = made
        return made

    def renamed(self, coefficients: Mapping[str, np.ndarray]) -> OperatorDictionary:
        """The same operators, with coefficients in other units."""
        made = replace(self, coefficients=coefficients)
        made.__dict__["_prepared"] = self.__dict__.setdefault("_prepared", {})
        return made

    def save(self, folder: str | Path, with_decoders: bool = True) -> None:
        """Write `dictionary.json` and `dictionary.safetensors`.

        Without decoders the codes mean something only beside the model that wrote them.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        tensors: dict[str, Tensor] = {}
        parts: list[StoredPart] = []
        # Copies, because lifted parts share their codes and decoders, which a file cannot.
        for i, part in enumerate(self.parts):
            tensors[f"part{i}.codes"] = part.codes.detach().cpu().contiguous().clone()
            sizes = None
            if isinstance(part.decoder, Decoder):
                sizes = DecoderSizes(**part.decoder.sizes())
                if with_decoders:
                    for name, tensor in part.decoder.state_dict().items():
                        # A copy: parts may share a decoder, tensors of a file may not.
                        tensors[f"part{i}.decoder.{name}"] = (
                            tensor.detach().cpu().contiguous().clone()
                        )
            parts.append(StoredPart(part.family, part.scale, sizes))
        facts = StoredFacts(
            tuple(parts),
            {k: tuple(map(float, v)) for k, v in self.coefficients.items()},
            self.provenance,
            dict(self.terms),
            tuple(map(float, self.max_strengths)),
        )
        text = {"format": FORMAT, **facts.to_json()}
        with together():
            save_tensors(target / "dictionary.safetensors", tensors)
            write_json(target / "dictionary.json", text, indent=None)

    @classmethod
    @usual_defaults()
    def load(cls, folder: str | Path, decoder: nn.Module | None = None) -> OperatorDictionary:
        """Read a dictionary; `decoder` serves parts that were saved without theirs."""
        source = Path(folder)
        for name in ("dictionary.json", "dictionary.safetensors"):
            if not (source / name).exists():
                raise OpsplitError(f"No dictionary in {source}: {name} is missing.")
        file = inside(source, "dictionary.json")
        raw = read_json(file, finite=True)
        found = raw.get("format") if isinstance(raw, dict) else None
        if type(found) is not int or found != FORMAT:
            raise OpsplitError(wrong_format(source, found, FORMAT))
        try:
            facts = StoredFacts.from_json({k: v for k, v in raw.items() if k != "format"}, "it")
            tensors = read_tensors(source, "dictionary.safetensors", same_parts(facts.parts))
            parts = tuple(read_part(i, p, tensors, decoder) for i, p in enumerate(facts.parts))
            return cls(
                parts,
                {k: np.asarray(v) for k, v in facts.coefficients.items()},
                facts.provenance,
                facts.terms,
                np.asarray(facts.max_strengths),
            )
        except OpsplitError as reason:
            words = str(reason)
            raise OpsplitError(words if str(source) in words else f"{file}: {words}") from None

    @classmethod
    @usual_defaults()
    def analytic(
        cls,
        channels: int,
        ndim: int,
        terms: Sequence[Mapping[str, Any]],
        coefficients: Mapping[str, Sequence[float]] | None = None,
    ) -> OperatorDictionary:
        """Exact flows, one per entry of `terms` (arguments of `Linear.parameters`)."""
        family = Linear(channels, ndim)
        codes = torch.cat([family.parameters(**term) for term in terms])
        known = {k: np.asarray(v, float) for k, v in (coefficients or {}).items()}
        return cls((Part(family, codes),), known, ("exact",) * len(codes))
