"""Measured beside published, as Markdown."""

from __future__ import annotations

from typing import Any

from opsplit.errors import OpsplitError

PAPER_NAMES = {"direct": "DISCO (original)", "uniform": "uniform", "beam": "beam"}


def markdown(records: list[dict[str, Any]], title: str, command: str) -> str:
    """One table of errors, one of coefficients, one of costs and origins."""
    names = list(dict.fromkeys(r["column"] for r in records))
    rows = list(dict.fromkeys((r["method"], r["family"]) for r in records))
    held = {(r["method"], r["family"], r["column"]): r for r in records}
    published = {(r["method"], r["column"]): r["published"] for r in records if r["published"]}

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    def rule(n: int) -> str:
        return "|" + "---|" * n

    def of(method: str, family: str | None, column: str, key: str) -> Any:
        record = held.get((method, family, column))
        return None if record is None else record[key]

    def error(method: str, family: str | None, column: str) -> str:
        record = held.get((method, family, column))
        if record is None:
            return ""
        spread = record["standard_error"]
        return _number(record["nrmse"]) + (f" ± {_number(spread)}" if spread is not None else "")

    lines = [
        f"# {title}",
        "",
        f"Written by `{command}`. NRMSE is `||u - v|| / ||u||` over all predicted frames, channels "
        "and points of a trajectory, then the mean over trajectories (± standard error); lower "
        "is better. Fields with power 3, window start uniform in frames 0..50, 16 frames "
        "observed, 34 predicted.",
        "",
        line(["method", "family", *names, "n"]),
        rule(len(names) + 3),
    ]
    for method in ("direct", "uniform", "beam"):
        values = [published.get((method, c)) for c in names]
        if any(v is not None for v in values):
            shown = ["" if v is None else f"{v:.3f}" for v in values]
            lines.append(line([f"{PAPER_NAMES[method]}, published", "unet, A100", *shown, "512"]))
    for method, family in rows:
        count = _counts([of(method, family, c, "n") for c in names])
        cells = [error(method, family, c) for c in names]
        lines.append(line([method, family or "", *cells, count]))
    keys = list(dict.fromkeys(k for r in records for k in r["coefficient_mae"]))
    lines += ["", "## Identified coefficients", "", "Mean absolute error.", ""]
    lines += [line(["method", "family", *(f"{c}: {k}" for c in names for k in keys)])]
    lines += [rule(2 + len(names) * len(keys))]
    for method, family in rows:
        found = [
            (of(method, family, c, "coefficient_mae") or {}).get(k) for c in names for k in keys
        ]
        if any(v is not None for v in found):
            shown = ["" if v is None else f"{v:.4f}" for v in found]
            lines.append(line([method, family or "", *shown]))
    lines += ["", "## Cost and origin", ""]
    lines += [line(["method", "family", "column", "n", "median", "largest", "fit error",
                    "seconds per trajectory", "operator evaluations", "training minutes",
                    "command", "seed", "commit", "hardware"])]  # fmt: skip
    lines += [rule(14)]
    for r in records:
        lines.append(line([
            r["method"], r["family"] or "", r["column"], str(r["n"]), _number(r["median"]),
            _number(r["largest"]), _or_blank(r["fit_error"], ".2g"),
            f"{r['seconds_per_trajectory']:.3f}", f"{r['operator_evaluations']:,.0f}",
            _or_blank(r["training_minutes"], ".0f"), f"`{r['command']}`", str(r["seed"]),
            r["commit"], r["hardware"],
        ]))  # fmt: skip
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Four decimals; five where four would hide the number."""
    return f"{value:.4f}" if value == 0 or value >= 0.00095 else f"{value:.5f}"


BEGIN, END = "<!-- results", "<!-- end of results -->"


def summary(records: list[dict[str, Any]]) -> str:
    """The short table of a README: one row per method and family."""
    names = list(dict.fromkeys(r["column"] for r in records))
    held = {(r["method"], r["family"], r["column"]): r for r in records}
    beam = {r["column"]: r["published"] for r in records if r["method"] == "beam"}
    lines = [
        "| | " + " | ".join(f"{TITLES.get(c, c)}" for c in names) + " | seconds | trajectories |",
        "|---|" + "---|" * (len(names) + 2),
        "| published beam (A100) | "
        + " | ".join(_or_blank(beam.get(c), ".3f") for c in names)
        + " | 21 to 26 | 512 |",
    ]
    for method, family in dict.fromkeys((r["method"], r["family"]) for r in records):
        cells = " | ".join(
            _number(held[method, family, c]["nrmse"]) if (method, family, c) in held else ""
            for c in names
        )
        found = [held[method, family, c] for c in names if (method, family, c) in held]
        seconds = sum(r["seconds_per_trajectory"] for r in found) / len(found)
        label = f"{method}, {family}" if family else method
        if method == "pursuit":
            label = f"**{label}**"
        lines.append(f"| {label} | {cells} | {seconds:.2f} | {_counts([r['n'] for r in found])} |")
    return "\n".join(lines)


TITLES = {"A+D": "advection + diffusion", "c": "c in [1, 3]", "D": "D in [1, 3]"}


def insert_summary(text: str, records: list[dict[str, Any]]) -> str:
    """A README with the short table between its two marks."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise OpsplitError(f"No lines {BEGIN} ... {END} to put the table between.")
    head = text[: text.index("\n", begin) + 1]
    return f"{head}\n{summary(records)}\n\n{text[end:]}"


def _counts(counts: list[int | None]) -> str:
    """How many trajectories: one number, or one per column where they differ."""
    return "/".join(str(n or 0) for n in counts) if len(set(counts)) > 1 else str(counts[0])


def _or_blank(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
