"""Measured beside published, as Markdown."""

from __future__ import annotations

from typing import Any

from opsplit.errors import OpsplitError

PAPER_NAMES = {"direct": "DISCO (original)", "uniform": "uniform", "beam": "beam"}


TABLES = {
    "Unseen ranges": ("c", "D", "alpha", "gamma"),
    "Unseen compositions": ("A+D", "NA+D", "NA+Disp", "D+Disp", "all3", "GS", "NS"),
}
"""The paper's two tables and their columns."""

TITLES = {
    "A+D": "advection + diffusion",
    "c": "c in [1, 3]",
    "D": "D in [1, 3]",
    "alpha": "alpha in [1, 2]",
    "gamma": "gamma in [1, 2]",
    "all3": "all 3",
    "GS": "Gray-Scott",
    "NS": "Navier-Stokes",
}


def markdown(records: list[dict[str, Any]], title: str, command: str) -> str:
    """The paper's tables, then channels, coefficients, costs and origins."""
    lines = [
        f"# {title}",
        "",
        f"Written by `{command}`. NRMSE is `||u - v|| / ||u||` over all predicted frames, channels "
        "and points of a trajectory (1 for a forecast that blows up, to infinity or tenfold), then "
        "the mean over trajectories (± standard error); lower "
        "is better. 16 frames are observed; 34, 50, 32 and 16 frames are predicted in "
        "advection-diffusion, the combined equation, Gray-Scott and Navier-Stokes. Our Gray-Scott "
        "fields are a quarter of the paper's square at its spacing, our Navier-Stokes fields have "
        "128 x 128 points instead of 256 x 256.",
    ]
    for name, columns in TABLES.items():
        there = [c for c in columns if any(r["column"] == c for r in records)]
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
    lines += ["", "## Cost and origin", ""]
    lines += [_line(["method", "family", "column", "n", "median", "largest", "fit error",
                     "seconds per trajectory", "operator evaluations", "training minutes",
                     "command", "seed", "commit", "hardware"])]  # fmt: skip
    lines += [_rule(14)]
    for r in records:
        lines.append(_line([
            r["method"], r["family"] or "", r["column"], str(r["n"]), _number(r["median"]),
            _number(r["largest"]), _or_blank(r["fit_error"], ".2g"),
            f"{r['seconds_per_trajectory']:.3f}", f"{r['operator_evaluations']:,.0f}",
            _or_blank(r["training_minutes"], ".0f"), f"`{r['command']}`", str(r["seed"]),
            r["commit"], r["hardware"],
        ]))  # fmt: skip
    return "\n".join(lines) + "\n"


def _errors(records: list[dict[str, Any]], columns: list[str]) -> list[str]:
    """One table of errors, published rows first."""
    held = {(r["method"], r["family"], r["column"]): r for r in records}
    published = {(r["method"], r["column"]): r["published"] for r in records if r["published"]}
    lines = [_line(["method", "family", *(TITLES.get(c, c) for c in columns), "n"])]
    lines += [_rule(len(columns) + 3)]
    for method, name in PAPER_NAMES.items():
        values = [published.get((method, c)) for c in columns]
        if any(v is not None for v in values):
            shown = [_or_blank(v, ".3f") for v in values]
            lines.append(_line([f"{name}, published", "unet, A100", *shown, ""]))
    for method, family in dict.fromkeys((r["method"], r["family"]) for r in records):
        found = [held.get((method, family, c)) for c in columns]
        if any(found):
            counts = _counts([r["n"] for r in found if r])
            lines.append(_line([method, family or "", *(_error(r) for r in found), counts]))
    return lines


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
                         _number(own), f"{own / theirs:.2f}"])  # fmt: skip
    if not rows:
        return []
    head = ["column", "family", "n", "beam", "pursuit", "ratio"]
    return ["", "## Pursuit beside beam", "", "Mean NRMSE on the trajectories that both were "
            "measured on.", "", _line(head), _rule(len(head)), *map(_line, rows)]  # fmt: skip


def _error(record: dict[str, Any] | None) -> str:
    if record is None:
        return ""
    spread = record["standard_error"]
    return _number(record["nrmse"]) + (f" ± {_number(spread)}" if spread is not None else "")


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(n: int) -> str:
    return "|" + "---|" * n


def _number(value: float) -> str:
    """Four decimals; five where four would hide the number."""
    return f"{value:.4f}" if value == 0 or value >= 0.00095 else f"{value:.5f}"


BEGIN, END = "<!-- results", "<!-- end of results -->"


def summary(records: list[dict[str, Any]]) -> str:
    """The short table of a README: the paper's columns as rows, ours beside the published."""
    shown = [("beam", "spectral"), ("pursuit", "spectral"), ("beam", "unet"), ("pursuit", "unet")]
    plain = [("persistence", None), ("least-squares", None)]
    held = {(r["method"], r["family"], r["column"]): r for r in records}
    names = [c for columns in TABLES.values() for c in columns]
    labels = [f"{m}, {f}" for m, f in shown] + ["nothing changes", "terms given"]
    lines = [_line(["", "published beam", *labels]), _rule(len(labels) + 2)]
    for name in names:
        found = [held.get((m, f, name)) for m, f in (*shown, *plain)]
        published = next(
            (r["published"] for r in records if r["column"] == name and r["method"] == "beam"), None
        )
        if any(found):
            cells = ["" if r is None else f"{_number(r['nrmse'])} ({r['n']})" for r in found]
            lines.append(_line([TITLES.get(name, name), _or_blank(published, ".3f"), *cells]))
    return "\n".join(lines)


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
