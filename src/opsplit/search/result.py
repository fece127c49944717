"""The result of a search: ranked compositions, the pick, and the cost."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplit._files import write_json, write_text
from opsplit._text import cell
from opsplit.dictionary import OperatorDictionary
from opsplit.display import html_table, new_axes, without_zeros
from opsplit.errors import named

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Composition:
    """A list of operators whose sum explains the observed frames.

    Examples:
        >>> import opsplit
        >>> opsplit.Composition((0, 1), (1.0, 0.5), 0.01, {"c": 1.0}, "[c=1] + 0.5 [D=1]").operators
        (0, 1)
    """

    operators: tuple[int, ...]
    """Positions in the dictionary, in the order of the splitting."""
    strengths: tuple[float, ...]
    """Factor of every operator: the flow of `s f` over dt is the flow of `f` over `s dt`."""
    fit_error: float
    """Mean over the observed transitions of the relative error of one step."""
    coefficients: Mapping[str, float]
    """Sum of the parts' coefficients, or a better estimate that agrees with it."""
    label: str
    """The parts in words."""
    free_run_error: float | None = None
    """Mean relative error of the rollout from the first observed frame, where it was computed."""

    @classmethod
    def of(
        cls,
        dictionary: OperatorDictionary,
        operators: tuple[int, ...],
        fit_error: float,
        strengths: tuple[float, ...] | None = None,
        free_run_error: float | None = None,
    ) -> Composition:
        """Operators of a dictionary by their numbers, with the sums of their coefficients."""
        s = strengths or (1.0,) * len(operators)
        total = {
            name: float(sum(w * v[i] for w, i in zip(s, operators, strict=True)))
            for name, v in dictionary.coefficients.items()
        }
        words = " + ".join(
            f"[{dictionary.describe(i)}]" if w == 1 else f"{w:.3g} [{dictionary.describe(i)}]"
            for w, i in zip(s, operators, strict=True)
        )
        return cls(operators, s, fit_error, total, words, free_run_error)

    def with_strengths(
        self, dictionary: OperatorDictionary, strengths: tuple[float, ...]
    ) -> Composition:
        """The same operators with other strengths; coefficients move by as much as their sums."""
        made = Composition.of(dictionary, self.operators, self.fit_error, strengths)
        before = Composition.of(dictionary, self.operators, self.fit_error, self.strengths)
        moved = {
            name: value + made.coefficients[name] - before.coefficients[name]
            for name, value in self.coefficients.items()
        }
        return replace(
            self, strengths=strengths, coefficients=moved, label=made.label, free_run_error=None
        )

    def __len__(self) -> int:
        return len(self.operators)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; JSON has no infinity, so the error of a diverging composition is null."""
        error = self.fit_error if math.isfinite(self.fit_error) else None
        return asdict(self) | {"fit_error": error}


@dataclass(frozen=True)
class Cost:
    """What a search spent."""

    flows: int
    """Flows of one operator on one state."""
    evaluations: int
    """Evaluations of an operator's right-hand side on one state."""
    seconds: float
    evaluation_flops: int = 0
    """Floating-point operations of one evaluation, by formula."""

    @property
    def flops(self) -> int:
        """Floating-point operations of all evaluations."""
        return self.evaluations * self.evaluation_flops

    def to_dict(self) -> dict[str, Any]:
        held = {"flows": self.flows, "evaluations": self.evaluations}
        return {**held, "flops": self.flops, "seconds": self.seconds}


@dataclass(frozen=True)
class SearchResult:
    """The best compositions that a search scored, and the one it picked.

    Examples:
        >>> splitter.search_result_.pick.label  # doctest: +SKIP
        '0.5 [c=0.9] + [D=0.3]'
    """

    strategy: str
    pick: Composition
    ranked: tuple[Composition, ...]
    """The best compositions that were scored in full, by fitting error."""
    finalists: tuple[Composition, ...]
    """The pick and the compositions that explain the window nearly as well."""
    status: str
    """Why the search ended."""
    cost: Cost
    """What was spent on all windows of the search together."""
    spread: Mapping[str, float] = field(default_factory=dict)
    """Uncertainty of each coefficient, from explanations that fit nearly as well."""
    dictionary: OperatorDictionary | None = None
    """The dictionary with operators that the search made itself (`refine="codes"`)."""
    alike: tuple[tuple[str, str], ...] = ()
    """Mechanisms of the pick, each with another one that explains these frames as well."""
    remark: str = ""
    """What a user should know about the way the search was done."""
    promise: float = 0.0
    """Where known: the least that algebra, which knows no splitting, leaves of the change with two
    and more parts, over what the flows of the pick leave."""

    @property
    def identified(self) -> Mapping[str, float]:
        """Estimated coefficients of the observed dynamics: those of the pick."""
        return self.pick.coefficients

    def with_strengths(
        self, dictionary: OperatorDictionary, strengths: tuple[float, ...]
    ) -> SearchResult:
        """The same result whose pick has other strengths."""
        pick = self.pick.with_strengths(dictionary, strengths)

        def others(held: tuple[Composition, ...]) -> tuple[Composition, ...]:
            return tuple(pick if c.operators == pick.operators else c for c in held)

        return replace(
            self, pick=pick, ranked=others(self.ranked), finalists=others(self.finalists)
        )

    def with_spread(
        self, dictionary: OperatorDictionary, strengths: Sequence[tuple[float, ...]]
    ) -> SearchResult:
        """The same result whose spread is that of the pick's coefficients over other strengths."""
        pick, total = self.pick, dict.fromkeys(self.spread, 0.0)
        for one in strengths:
            made = pick.with_strengths(dictionary, one).coefficients
            for name, value in made.items():
                total[name] = total.get(name, 0.0) + (value - pick.coefficients[name]) ** 2
        spread = {name: math.sqrt(x / len(strengths)) for name, x in total.items()}
        return replace(self, spread=spread)

    def rows(self) -> list[dict[str, Any]]:
        """The best composition of every length; `pick` marks the chosen one."""
        best: dict[int, Composition] = {}
        for composition in sorted((self.pick, *self.ranked), key=lambda c: c.fit_error):
            best.setdefault(len(composition), composition)
        best[len(self.pick)] = self.pick
        return [
            {
                "pick": ">>>>" if c is self.pick else "",
                "parts": size,
                "fit_error": c.fit_error,
                **dict(c.coefficients),
                "composition": c.label,
            }
            for size, c in sorted(best.items())
        ]

    def shown(self) -> list[dict[str, Any]]:
        """The rows without the coefficients that none of them has."""
        return without_zeros(self.rows(), self.pick.coefficients)

    def __str__(self) -> str:
        rows = self.shown()
        shown = [
            {k: f"{v:.5g}" if isinstance(v, float) else str(v) for k, v in row.items()}
            for row in rows
        ]
        widths = {k: max(len(k), *(len(row[k]) for row in shown)) for k in shown[0]}
        lines = ["  ".join(k.ljust(w) for k, w in widths.items()).rstrip()]
        lines += ["  ".join(row[k].ljust(w) for k, w in widths.items()).rstrip() for row in shown]
        tail = (
            f"{self.strategy}: {self.status}; {self.cost.evaluations:,} operator evaluations "
            f"in {self.cost.seconds:.2f} s"
        )
        return "\n".join([*lines, tail])

    def _repr_html_(self) -> str:
        return html_table(self.shown(), f"{self.strategy}: {self.status}")

    @named
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the smallest fitting error of every length; the pick is marked.

        Arguments:
            ax: axes to draw into (default: those of a new figure).

        Returns:
            The axes.
        """
        axes, rows = new_axes(ax), self.rows()
        parts = [row["parts"] for row in rows]
        axes.semilogy(parts, [row["fit_error"] for row in rows], "o-", color="#0072b2")
        axes.plot([len(self.pick)], [self.pick.fit_error], "s", ms=10, color="#d55e00",
                  label=self.pick.label)  # fmt: skip
        axes.set(xlabel="operators in the composition", ylabel="fitting error", xticks=parts)
        axes.legend(title="pick")
        return axes

    def to_csv(self) -> str:
        """All ranked compositions as CSV."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        names = list(self.pick.coefficients)
        writer.writerow(
            ["rank", "pick", "parts", "fit_error", *map(cell, names), "operators", "composition"]
        )
        for rank, c in enumerate(self.ranked, 1):
            operators = " ".join(map(str, c.operators))
            values = [c.coefficients[n] for n in names]
            same = c.operators == self.pick.operators
            writer.writerow(
                [rank, int(same), len(c), c.fit_error, *values, operators, cell(c.label)]
            )
        return stream.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "strategy": self.strategy,
            "status": self.status,
            "pick": self.pick.to_dict(),
            "identified": dict(self.identified),
            "spread": dict(self.spread),
            "ranked": [c.to_dict() for c in self.ranked],
            "finalists": [c.to_dict() for c in self.finalists],
            "cost": self.cost.to_dict(),
        }

    def save(self, folder: str | Path) -> None:
        """Write `search.csv` and `search.json`."""
        target = Path(folder)
        write_text(target / "search.csv", self.to_csv())
        write_json(target / "search.json", self.to_dict())
