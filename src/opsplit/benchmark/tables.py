"""Measured beside published, as Markdown."""

from __future__ import annotations

from typing import Any

from opsplit.benchmark.tasks import COLUMNS, OBSERVED, TABLES, Column
from opsplit.errors import OpsplitError
from opsplit.physics import PHYSICS

PAPER_NAMES = {
    "mpp": "MPP",
    "fno": "FNO",
    "zebra": "Zebra",
    "geps": "GEPS",
    "direct": "DISCO (original)",
    "uniform": "uniform",
    "beam": "beam",
}
LOOKED_AT = 10
"""Trajectories that most settings with a look at test data were chosen on, from the first one."""
CHOICES = (
    "Some settings of the bundled models and of pursuit were chosen on test trajectories of seed "
    f"0: on the first {LOOKED_AT} or fewer of the columns c, D, alpha, NA+D and NS; a rule for "
    "forecasts that overflow on trajectories 26 and 30 of NS; and a longer training of U-Nets was "
    "rejected on 24 trajectories of A+D, c and D. The last table therefore has the mean without "
    f"the first {LOOKED_AT}, too. Models whose structure is chosen by evidence, as their cards "
    "say, use held-out trajectories of single mechanisms only. The settings of terms-given and "
    "sindy were chosen on trajectories of seed 5. terms-given uses the solver that made the "
    "data; its error is that of numbers stored in single precision."
)
"""Which choices have seen test trajectories."""
DIRECT = (
    "disco is the paper's network by the paper's recipe; direct is the operator that the "
    "hypernetwork of a bundled model reads from the frames."
)
SECONDS = (
    "Seconds are those of a clock, on the machine beside them, which other work may have shared: "
    "they do not compare methods. Minutes of training are those of one core."
)


def markdown(records: list[dict[str, Any]], title: str, command: str) -> str:
    """The paper's tables, then channels, coefficients, costs and origins."""
    lines = [
        f"# {title}",
        "",
        f"Written by `{command}`. NRMSE is `||u - v|| / ||u||` over all predicted frames, channels "
        "and points of a trajectory; lower is better. A cell is the mean over trajectories ± its "
        "standard error, the median in round brackets, and in square brackets the number of "
        "forecasts that blew up (to infinity or tenfold; each counts as 1 in the mean), if any. "
        f"{OBSERVED} frames are observed. {_horizons(records)}",
        "",
        CHOICES,
    ]
    for name, there in _tables(records).items():
        if there:
            lines += ["", f"## {name}", "", *_errors(records, there)]
    lines += _beside_beam(records)
    channels = [r for r in records if r.get("nrmse_per_channel")]
    if channels:
        lines += ["", "## Channels", "", "NRMSE of every channel by itself.", ""]
        lines += [_line(["column", "method", "family", "channel", "NRMSE"]), _rule(5)]
        for r in channels:
            lines += [
                _line([r["column"], r["method"], r["family"] or "", name, _number(value)])
                for name, value in r["nrmse_per_channel"].items()
            ]
    lines += ["", "## Identified coefficients", "", "Mean absolute error.", ""]
    lines += [_line(["column", "method", "family", "coefficient", "error"]), _rule(5)]
    for r in records:
        lines += [
            _line([r["column"], r["method"], r["family"] or "", name, f"{value:.4g}"])
            for name, value in r["coefficient_mae"].items()
        ]
    lines += ["", "## Cost and origin", "", SECONDS, ""]
    later = f"mean without the first {LOOKED_AT}"
    lines += [_line(["method", "family", "column", "n", later, "largest", "fit error",
                     "seconds per trajectory", "operator evaluations", "training minutes",
                     "command", "seed", "commit", "hardware"])]  # fmt: skip
    lines += [_rule(14)]
    for r in records:
        lines.append(_line([
            r["method"], r["family"] or "", r["column"], str(r["n"]), _later(r),
            _number(r["largest"]), _or_blank(r["fit_error"], ".2g"),
            f"{r['seconds_per_trajectory']:.3f}", f"{r['operator_evaluations']:,.0f}",
            _or_blank(r["training_minutes"], ".0f"), f"`{r['command']}`", str(r["seed"]),
            r["commit"], r["hardware"],
        ]))  # fmt: skip
    return "\n".join(lines) + "\n"


def _tables(records: list[dict[str, Any]]) -> dict[str, list[Column]]:
    """The paper's tables and their columns, those that were measured."""
    measured = {(r["physics"], r["column"]) for r in records}
    held = [
        column
        for physics, named in COLUMNS.items()
        for name, column in named.items()
        if (physics, name) in measured
    ]
    return {name: [c for c in held if c.table == name] for name in TABLES}


def _horizons(records: list[dict[str, Any]]) -> str:
    """How many frames are predicted, and how our fields differ from the paper's."""
    words = []
    for name in dict.fromkeys(r["physics"] for r in records):
        physics, column = PHYSICS[name], next(iter(COLUMNS[name].values()))
        remark = f"; {physics.remark}" if physics.remark else ""
        words.append(f"{physics.title} ({column.horizon} frames{remark})")
    return f"Predicted are: {', '.join(words)}."


def _errors(records: list[dict[str, Any]], columns: list[Column]) -> list[str]:
    """One table of errors, published rows first."""
    held = {(r["method"], r["family"], r["physics"], r["column"]): r for r in records}
    lines = [_line(["method", "family", *(c.title or c.split for c in columns), "n"])]
    lines += [_rule(len(columns) + 3)]
    for method, name in PAPER_NAMES.items():
        values = [c.published.get(method) for c in columns]
        if any(v is not None for v in values):
            shown = [_or_blank(v, ".3f") for v in values]
            lines.append(_line([f"{name}, published", "A100", *shown, ""]))
    for method, family in dict.fromkeys((r["method"], r["family"]) for r in records):
        found = [held.get((method, family, c.physics, c.split)) for c in columns]
        if any(found):
            counts = _counts([r["n"] for r in found if r])
            cells = [_error(r) for r in found]
            lines.append(_line([method, family or _budget(found), *cells, counts]))
    reasons = {m: why for c in columns for m, why in c.excluded.items()}
    measured = {r["method"] for r in records}
    notes = [f"\n{m}: {why}." for m, why in reasons.items() if m in measured]
    return [*lines, *notes, *([f"\n{DIRECT}"] if {"disco", "direct"} <= measured else [])]


def _budget(found: list[dict[str, Any] | None]) -> str:
    """How long a baseline was trained, beside the published rows of a graphics card."""
    minutes = [r["training_minutes"] for r in found if r and r["training_minutes"]]
    if not minutes:
        return ""
    least, most = (f"{x:.3g}" for x in (min(minutes), max(minutes)))
    return f"{least} min of CPU" if least == most else f"{least} to {most} min of CPU"


def _beside_beam(records: list[dict[str, Any]]) -> list[str]:
    """Pursuit and exact beam search where both were measured."""
    rows = []
    for beam in (r for r in records if r["method"] == "beam"):
        for ours in records:
            cell = ("physics", "column", "family")
            if ours["method"] != "pursuit" or any(ours[k] != beam[k] for k in cell):
                continue
            both = beam["errors"].keys() & ours["errors"].keys()
            theirs, own = (sum(r["errors"][i] for i in both) / len(both) for r in (beam, ours))
            rows.append([ours["column"], ours["family"], str(len(both)), _number(theirs),
                         _number(own), f"{own / theirs:.1g}"])  # fmt: skip
    if not rows:
        return []
    head = ["column", "family", "n", "beam", "pursuit", "ratio"]
    return ["", "## Pursuit beside beam", "", "Mean NRMSE on the trajectories that both were "
            "measured on.", "", _line(head), _rule(len(head)), *map(_line, rows)]  # fmt: skip


def _error(record: dict[str, Any] | None) -> str:
    if record is None:
        return ""
    spread, blown = record["standard_error"], record["diverged"]
    words = _number(record["nrmse"]) + (f" ± {_number(spread)}" if spread is not None else "")
    return f"{words} ({_number(record['median'])})" + (f" [{blown}]" if blown else "")


def _later(record: dict[str, Any]) -> str:
    """The mean over the trajectories that no setting was chosen on."""
    errors = [e for number, e in record["errors"].items() if int(number) >= LOOKED_AT]
    return _number(sum(errors) / len(errors)) if errors else ""


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(n: int) -> str:
    return "|" + "---|" * n


def _number(value: float) -> str:
    """Four decimals; five, or a power of ten, where four would hide the number."""
    if 0 < value < 0.00005:
        return f"{value:.0e}"
    return f"{value:.4f}" if value == 0 or value >= 0.00095 else f"{value:.5f}"


BEGIN, END = "<!-- results", "<!-- end of results -->"


def summary(records: list[dict[str, Any]]) -> str:
    """The short table of a README: the paper's columns as rows, ours beside the published."""
    shown = [("beam", "spectral"), ("pursuit", "spectral"), ("beam", "unet"), ("pursuit", "unet")]
    plain = {("persistence", None): "nothing changes", ("terms-given", None): "terms given",
             ("sindy", None): "PySINDy"}  # fmt: skip
    held = {(r["method"], r["family"], r["physics"], r["column"]): r for r in records}
    labels = [f"{m}, {f}" for m, f in shown] + list(plain.values())
    lines = [_line(["", "published beam", *labels]), _rule(len(labels) + 2)]
    for column in (c for columns in _tables(records).values() for c in columns):
        cell = (column.physics, column.split)
        found = [held.get((m, f, *cell)) for m, f in (*shown, *plain)]
        published = _or_blank(column.published.get("beam"), ".3f")
        if any(found):
            cells = [_short(r) for r in found]
            lines.append(_line([column.title or column.split, published, *cells]))
    return "\n".join(lines)


def _short(record: dict[str, Any] | None) -> str:
    """Mean, median, and how many forecasts; those that blew up are counted."""
    if record is None:
        return ""
    blown = f", {record['diverged']} blew up" if record["diverged"] else ""
    return f"{_number(record['nrmse'])}/{_number(record['median'])} ({record['n']}{blown})"


def insert_summary(text: str, records: list[dict[str, Any]]) -> str:
    """A README with the short table between its two marks."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise OpsplitError(f"No lines {BEGIN} ... {END} to put the table between.")
    head = text[: text.index("\n", begin) + 1]
    return f"{head}\n{summary(records)}\n\n{text[end:]}"


def _counts(counts: list[int]) -> str:
    """How many trajectories: one number, or the smallest and the largest."""
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _or_blank(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
