"""The operators a search may compose, with the physics each is known to stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from opsplit._files import inside, read_json, write_json
from opsplit._limits import (
    LARGEST,
    check_family,
    check_list,
    check_names,
    check_number,
    check_values,
)
from opsplit._tensors import Shapes, read_tensors, same_shapes, save_tensors
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.decoder import Decoder
from opsplit.operators import Linear, OperatorFamily, Prepared, UserFunction, make_family
from opsplit.operators.family import count_flops

FORMAT = 1


@dataclass(frozen=True)
class Part:
    """Operators of one family: codes, and the decoder that turns them into parameters.

    Without a decoder the codes are the parameters themselves.
    """

    family: OperatorFamily
    codes: Tensor
    decoder: nn.Module | None = None
    scale: float = 1.0
    """The family acts on fields divided by this."""

    def __len__(self) -> int:
        return len(self.codes)

    @torch.no_grad()
    def parameters(self) -> Tensor:
        return self.codes if self.decoder is None else self.decoder(self.codes)


@dataclass(frozen=True)
class OperatorDictionary:
    """An ordered set of operators from one or several families.

    Arguments:
        parts: operators, grouped by family; the order of the dictionary is part after part.
        coefficients: one value per operator for every coefficient, zero where it has no share.
        provenance: where every operator came from, in words.
    """

    parts: tuple[Part, ...]
    coefficients: Mapping[str, np.ndarray] = field(default_factory=dict)
    provenance: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self)
        if not self.provenance:
            object.__setattr__(self, "provenance", ("unknown",) * n)
        sizes = {name: len(v) for name, v in self.coefficients.items()} | {
            "provenance": len(self.provenance)
        }
        for name, size in sizes.items():
            if size != n:
                raise OpsplitError(f"The dictionary has {n} operators but {size} of {name!r}.")

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __repr__(self) -> str:
        families = " + ".join(f"{len(p)} {p.family.name}" for p in self.parts) or "empty"
        ranges = ", ".join(
            f"{k} in [{v.min():.3g}, {v.max():.3g}]" for k, v in self.coefficients.items() if len(v)
        )
        return f"OperatorDictionary({families}; {ranges or 'no coefficients'})"

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
            self.parts + other.parts, merged, self.provenance + other.provenance
        )

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
    def prepare(self, grid: Grid, like: Tensor) -> PreparedDictionary:
        """All operators, ready to act on fields of this grid, on the device and dtype of `like`."""
        prepared = []
        for part in self.parts:
            parameters = part.parameters().to(like)
            prepared.append((part.family, part.family.prepare(parameters, grid), part.scale))
        return PreparedDictionary(tuple(prepared))

    def save(self, folder: str | Path, with_decoders: bool = True) -> None:
        """Write `dictionary.json` and `dictionary.safetensors`.

        Without decoders the codes mean something only beside the model that wrote them.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        tensors, parts = {}, []
        for i, part in enumerate(self.parts):
            tensors[f"part{i}.codes"] = part.codes.detach().cpu().contiguous()
            entry: dict[str, Any] = {
                "family": part.family.name,
                "config": part.family.config(),
                "scale": part.scale,
            }
            if isinstance(part.decoder, Decoder):
                entry["decoder"] = part.decoder.sizes()
                if with_decoders:
                    for name, tensor in part.decoder.state_dict().items():
                        tensors[f"part{i}.decoder.{name}"] = tensor.detach().cpu().contiguous()
            parts.append(entry)
        text = {
            "format": FORMAT,
            "parts": parts,
            "coefficients": {k: [float(x) for x in v] for k, v in self.coefficients.items()},
            "provenance": list(self.provenance),
        }
        save_tensors(target / "dictionary.safetensors", tensors)
        write_json(target / "dictionary.json", text, indent=None)

    @classmethod
    def load(cls, folder: str | Path, decoder: nn.Module | None = None) -> OperatorDictionary:
        """Read a dictionary; `decoder` serves parts that were saved without theirs."""
        source = Path(folder)
        for name in ("dictionary.json", "dictionary.safetensors"):
            if not (source / name).exists():
                raise OpsplitError(f"No dictionary in {source}: {name} is missing.")
        file = inside(source, "dictionary.json")
        text = read_json(file, finite=True)
        if not isinstance(text, dict) or text.get("format") != FORMAT:
            raise OpsplitError(f"The dictionary in {source} is not of format {FORMAT}.")
        try:
            check_list(text["parts"], "parts", 1000)
            described = [_Description.read(entry) for entry in text["parts"]]
            tensors = read_tensors(source, "dictionary.safetensors", _same_parts(described))
            parts = tuple(d.part(i, tensors, decoder) for i, d in enumerate(described))
            return cls(parts, *_facts(text, sum(map(len, parts))))
        except OpsplitError as reason:
            words = str(reason)
            raise OpsplitError(words if str(source) in words else f"{file}: {words}") from None
        except (
            ArithmeticError, AttributeError, KeyError, RuntimeError, TypeError, ValueError
        ) as reason:  # fmt: skip
            raise OpsplitError(f"The dictionary in {source} cannot be read: {reason!r}") from None

    @classmethod
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


@dataclass(frozen=True)
class _Description:
    """A part as `dictionary.json` describes it, before there is memory for its numbers."""

    family: OperatorFamily
    scale: float
    decoder: Decoder | None
    """On the device `meta`: sizes only."""

    @classmethod
    def read(cls, entry: dict[str, Any]) -> _Description:
        check_family(entry["family"], entry["config"], "the operator family")
        check_number(entry["scale"], "scale", 1e-30, 1e30)
        family = make_family(entry["family"], **entry["config"])
        if "decoder" not in entry:
            return cls(family, entry["scale"], None)
        check_values(entry["decoder"], "the decoder")
        with torch.device("meta"):
            start = family.initialisation(torch.Generator().manual_seed(0))
            decoder = Decoder(initialisation=start, **entry["decoder"])
        if 4 * sum(t.numel() for t in decoder.state_dict().values()) > LARGEST:
            raise OpsplitError(f"a decoder takes more than {LARGEST / 1e9:g} GB.")
        return cls(family, entry["scale"], decoder)

    def shapes(self, i: int, own_decoder: bool, n: int) -> dict[str, tuple[int, ...]]:
        """The tensors of part `i` with `n` operators."""
        if self.decoder is None:
            return {f"part{i}.codes": (n, self.family.n_parameters)}
        held = self.decoder.state_dict() if own_decoder else {}
        shapes = {f"part{i}.decoder.{name}": tuple(t.shape) for name, t in held.items()}
        return {f"part{i}.codes": (n, self.decoder.sizes()["code"])} | shapes

    def part(self, i: int, tensors: dict[str, Tensor], given: nn.Module | None) -> Part:
        """The operators, with their own decoder or the one of the model they came with."""
        prefix = f"part{i}.decoder."
        own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        decoder: Decoder | None = None
        if self.decoder is not None:
            sizes = self.decoder.sizes()
            if own:
                start = self.family.initialisation(torch.Generator().manual_seed(0))
                decoder = Decoder(initialisation=start, **sizes)
                decoder.load_state_dict({name: t.float() for name, t in own.items()})
            elif not isinstance(given, Decoder):
                raise OpsplitError("this dictionary holds codes of a model; load that model.")
            elif given.sizes() != sizes or len(given.start) != self.family.n_parameters:
                raise OpsplitError("the dictionary belongs to another model than this one.")
            else:
                decoder = given
        # A copy, because the tensor is the file itself, which may change.
        return Part(self.family, tensors[f"part{i}.codes"].clone(), decoder, float(self.scale))


def _same_parts(described: Sequence[_Description]) -> Callable[[Shapes], None]:
    """A check that a file holds the tensors of these parts and no others."""

    def check(found: Shapes) -> None:
        expected: dict[str, tuple[int, ...]] = {}
        for i, description in enumerate(described):
            n = (found.get(f"part{i}.codes") or (0,))[0]
            if 4 * n * description.family.n_parameters > LARGEST:
                raise OpsplitError(f"{n} operators take more than {LARGEST / 1e9:g} GB.")
            own = any(name.startswith(f"part{i}.decoder.") for name in found)
            expected |= description.shapes(i, own, n)
        same_shapes(expected)(found)

    return check


def _facts(text: dict[str, Any], n: int) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Coefficients and provenance of `n` operators."""
    check_names(text["provenance"], "provenance", n)
    check_names(list(text["coefficients"]), "coefficients")
    for name, values in text["coefficients"].items():
        check_list(values, f"the coefficient {name}", n)
        for x in values:
            check_number(x, f"the coefficient {name}", -1e100, 1e100)
    known = {k: np.asarray(v, dtype=float) for k, v in text["coefficients"].items()}
    return known, tuple(text["provenance"])


PreparedPart = tuple[OperatorFamily, Prepared, float]
"""A family, its operators on a grid, and the scale of the fields they act on."""


@dataclass(frozen=True)
class PreparedDictionary:
    """Operators of several families behind one call: `flow(index, u, duration)`."""

    parts: tuple[PreparedPart, ...]

    def __len__(self) -> int:
        return sum(len(prepared) for _, prepared, _ in self.parts)

    @property
    def grid(self) -> Grid:
        return self.parts[0][1].grid

    def flow(self, index: Tensor, u: Tensor, duration: float | Tensor) -> Tensor:
        """Operator `index[e]` on the states `u[e]`, for all `e`: `(E, K, channel, *space)`."""
        if len(self.parts) == 1:
            return self._flow(self.parts[0], index, u, duration)
        each = torch.as_tensor(duration, dtype=u.dtype, device=u.device).expand(len(index))
        out = torch.empty_like(u)
        for part, mine, position in self._by_part(index):
            out[mine] = self._flow(part, position, u[mine], each[mine])
        return out

    def rate(self, index: Tensor, u: Tensor) -> Tensor:
        """Right-hand sides: operator `index[e]` on the states `u[e]`, for all `e`."""
        out = torch.empty_like(u)
        for (family, prepared, scale), mine, position in self._by_part(index):
            out[mine] = family.rate(prepared.take(position), u[mine] / scale) * scale
        return out

    def _by_part(self, index: Tensor) -> Iterator[tuple[PreparedPart, Tensor, Tensor]]:
        """Each part with the entries that are its own and their positions in it."""
        offset = 0
        for part in self.parts:
            mine = (index >= offset) & (index < offset + len(part[1]))
            if bool(mine.any()):
                yield part, mine, index[mine] - offset
            offset += len(part[1])

    @staticmethod
    def _flow(
        part: PreparedPart,
        index: Tensor,
        u: Tensor,
        duration: float | Tensor,
    ) -> Tensor:
        """Flows of one family; an operator that many entries share acts on all their states."""
        family, prepared, scale = part
        u = u / scale
        if isinstance(duration, Tensor) and duration.ndim:
            return PreparedDictionary._flow_each(part, index, u, duration) * scale
        operators, group = torch.unique(index, return_inverse=True)
        counts = torch.bincount(group)
        largest = int(counts.max())
        if largest == 1 or largest * len(operators) > 1.3 * len(index):
            return family.flow(prepared.take(index), u, duration) * scale
        # Entries of one operator side by side, padded to the largest group.
        order = torch.sort(group, stable=True).indices
        slot = torch.empty_like(group)
        first = counts.cumsum(0) - counts
        slot[order] = torch.arange(len(index), device=index.device) - first[group[order]]
        states = u.new_zeros(len(operators), largest, *u.shape[1:])
        states[group, slot] = u
        moved = family.flow(prepared.take(operators), states.flatten(1, 2), duration)
        return moved.unflatten(1, (largest, u.shape[1]))[group, slot] * scale

    @staticmethod
    def _flow_each(part: PreparedPart, index: Tensor, u: Tensor, duration: Tensor) -> Tensor:
        """Every entry for its own duration, those that need as many steps together.

        So a flow does not depend on what else is in the batch.
        """
        family, prepared, _ = part
        steps = [family.evaluations(h) for h in duration.tolist()]
        if len(set(steps)) == 1:
            return family.flow(prepared.take(index), u, duration)
        out = torch.empty_like(u)
        for count in set(steps):
            mine = torch.tensor([s == count for s in steps], device=u.device)
            out[mine] = family.flow(prepared.take(index[mine]), u[mine], duration[mine])
        return out

    def evaluations(self, duration: float | Tensor) -> float:
        """Right-hand-side evaluations of one flow, for the dearest family; mean over durations."""
        each = duration.reshape(-1).tolist() if isinstance(duration, Tensor) else [duration]
        counts = [max(family.evaluations(h) for family, _, _ in self.parts) for h in each]
        return sum(counts) / len(counts)

    def flops(self) -> int:
        """Floating-point operations of one evaluation on one state, for the dearest family."""
        return max(count_flops(family, prepared) for family, prepared, _ in self.parts)
