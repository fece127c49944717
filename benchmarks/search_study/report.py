"""Tables and figures from the lines of all parts; nothing is measured here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from common import COLUMNS, RESULTS, Row, read_rows
from robustness import PUBLISHED, TRUE
from writing import number, pick, plot, slope, source, table, with_error

from opsplit._files import write_json
from opsplit.calibration import Calibration
from opsplit.model import bundled, locate

PARTS = ("cost", "growth", "scaling", "sensitivity", "robustness", "noise")
PUBLISHED_SIZES = {16: 0.037, 32: 0.035, 64: 0.017, 256: 0.015}
PUBLISHED_LENGTHS = {2: 0.011, 4: 0.013, 8: 0.013, 16: 0.015}


def run(args: argparse.Namespace) -> None:
    rows = {part: read_rows(part, args.out) for part in PARTS}
    folder = args.out.parent
    text = ["# The search: pursuit beside beam and uniform search", INTRODUCTION]
    text += accuracy()
    writers = {
        "cost": cost,
        "growth": growth,
        "scaling": scaling,
        "sensitivity": sensitivity,
        "robustness": robustness,
        "noise": noise,
    }
    for part, write in writers.items():
        if rows[part]:
            text += [*write(rows[part], args.out), source(rows[part])]
    text += coverage()
    write_json(folder / "search.json", rows)
    (folder / "search.md").write_text("\n\n".join(text) + "\n")
    print(f"wrote {folder / 'search.md'} and search.json")


def coverage() -> list[str]:
    """How often the 90 % intervals of the bundled models hold."""
    text = [
        "## How sure",
        "Share of fresh test points (forecast) and of coefficients inside their 90 % intervals. "
        "Factors come from validation trajectories of all columns of a model together, tests from "
        "as many fresh ones; trajectories of which no interval is printed do not count. The number "
        "in brackets is how many a share is of: with `n` of them, shares scatter by about "
        "`30 / sqrt(n)` %.",
    ]
    for name, families in bundled().items():
        for family in families:
            found = Calibration.load(locate(name, family))
            if found is None:
                continue
            # A coefficient has no share where its column has none of its mechanism.
            names = list(dict.fromkeys(k for row in found.coverage.values() for k in row))
            body = [[c, *(_share(found, c, k) for k in names)] for c in found.coverage]
            shown = ", ".join(f"`{k}`" for k in names if found.shown(k))
            text += [
                f"{name}, {family}, {found.n} validation trajectories:",
                table(["column", *names], body),
                f"Printed, because they keep their level: {shown or 'none'}.",
                f"Written by `{found.origin['command']}`, seed {found.origin['seed']}, commit "
                f"{found.origin['commit']}, {found.origin['hardware']}.",
            ]
    return text


def _share(found: Calibration, group: str, name: str) -> str:
    row, counts = found.coverage[group], found.tested.get(group, {})
    return f"{row[name]:.1%} ({counts.get(name, 0)})" if name in row else ""


INTRODUCTION = """Written by `python benchmarks/search_study report` from the lines in
`docs/results/search/`; the same lines, with seed, commit and hardware each, are in `search.json`.
Advection-diffusion, spectral operators, the trajectories of the
[main table](method.md). NRMSE is that of the main table; times are per trajectory on
one thread."""


# Small pieces of Markdown.


# The sections.


def accuracy() -> list[str]:
    """The main table's rows of the searches, if pursuit is among them."""
    file = RESULTS / "method.json"
    held = json.loads(file.read_text()) if file.exists() else []
    records = [r for r in held if r["physics"] == "advection-diffusion"]
    if not any(r["method"] == "pursuit" for r in records):
        return []
    body = []
    chosen = [r for r in records if r["method"] in ("direct", "uniform", "beam", "pursuit")]
    for method, family in dict.fromkeys((r["method"], r["family"]) for r in chosen):
        mine = {r["column"]: r for r in chosen if (r["method"], r["family"]) == (method, family)}
        values = [
            f"{number(mine[c]['nrmse'])} ± {number(mine[c]['standard_error'])}" if c in mine else ""
            for c in COLUMNS
        ]
        found = [
            " / ".join(number(v) for v in mine[c]["coefficient_mae"].values()) if c in mine else ""
            for c in COLUMNS
        ]
        counts = "/".join(str(r["n"]) for r in mine.values())
        body.append([method, family, *values, *found, counts])
    head = ["method", "family", *COLUMNS, *(f"{c}: MAE of c / D" for c in COLUMNS), "n"]
    commands = dict.fromkeys(f"`{r['command']}`" for r in chosen if r["method"] == "pursuit")
    where = "[main table](method.md)"
    return [
        "## Accuracy",
        table(head, body),
        f"From the {where}; the rows of pursuit were written by {', '.join(commands)}.",
    ]


def cost(rows: list[Row], folder: Path) -> list[str]:
    out = ["## Cost", "Mean per trajectory. A ratio says how many times what pursuit spends."]
    for row in rows:
        ways = row["ways"]
        ours = ways["pursuit"]
        body = [
            [
                name,
                f"{w['evaluations']:,.0f}",
                f"{w['flops'] / 1e9:.2f}",
                f"{w['seconds']:.3f}",
                f"{w['evaluations'] / ours['evaluations']:.1f}",
                f"{w['seconds'] / ours['seconds']:.1f}",
                f"{w['fit_error']:.2e}",
            ]
            for name, w in ways.items()
        ]
        head = ["search", "evaluations", "GFLOP", "seconds"]
        head += ["evaluations ratio", "seconds ratio", "fitting error"]
        out += [f"Column {row['item']['column']}:", table(head, body)]
    shares = ", ".join(f"{r['fits_as_well']:.0%} in {r['item']['column']}" for r in rows)
    out.append(f"Pursuit fits at least as well as the exact beam search on {shares}.")
    return out


def growth(rows: list[Row], folder: Path) -> list[str]:
    out, panels, exponents = ["## Growth"], [], []
    words = {
        "operators": "operators N",
        "parts": "longest composition M",
        "trajectories": "trajectories in one batch",
    }
    for axis, label in words.items():
        lines, body = {}, []
        for search in ("pursuit", "beam"):
            mine = [r for r in pick(rows, axis=axis, search=search) if r["seconds"]]
            at = [r["item"]["at"] for r in mine]
            if not mine:
                continue
            lines[search] = (at, [r["seconds"] for r in mine])
            if len(mine) > 1:
                line = [search, label]
                for key in ("seconds", "evaluations"):
                    values = [r[key] for r in mine]
                    half = len(mine) // 2
                    line += [f"{slope(at, values):.2f}"]
                    upper = len(at[half:]) > 1
                    line += [f"{slope(at[half:], values[half:]):.2f}" if upper else ""]
                exponents.append(line)
            for r in mine:
                cells = [search, str(r["item"]["at"]), f"{r['seconds']:.3f}"]
                body.append([*cells, f"{r['evaluations']:,}", str(r["longest"])])
        if body:
            head = ["search", label, "seconds", "evaluations", "longest tried"]
            out.append(table(head, body))
            panels.append({"lines": lines, "x": label, "y": "seconds", "title": label})
    head = ["search", "against", "seconds", "upper half", "evaluations", "upper half"]
    out += ["Fitted exponents:", table(head, exponents)]
    memory = pick(rows, axis="memory")
    if memory:
        body = [
            [
                str(r["item"]["operators"]),
                str(r["item"]["trajectories"]),
                str(r["item"]["limit"]),
                f"{r['search_mb']:.0f}",
                f"{r['process_mb']:.0f}",
            ]
            for r in memory
        ]
        head = ["operators", "trajectories", "memory_mb", "the search adds, MB", "process, MB"]
        out += ["Resident memory of pursuit in a fresh process:", table(head, body)]
    return [*out, plot(folder / "growth.png", panels)]


def scaling(rows: list[Row], folder: Path) -> list[str]:
    out, trials, flops = ["## Scaling"], [], []
    for column in COLUMNS:
        found = pick(rows, column=column)
        curves = pick(found, search="uniform")
        if not curves:
            continue
        curve = curves[0]["curve"]
        head = ["T", "fitting error", "drawn sets alone", "NRMSE", "MAE of c", "MAE of D", "GFLOP"]
        keys = ("fit_error", "fit_error_without", "nrmse", "c_mae", "D_mae")
        body = [
            [str(p["trials"]), *(number(p[k], 5) for k in keys), f"{p['flops'] / 1e9:.2f}"]
            for p in curve
        ]
        out += [f"Column {column}, T uniform trials:", table(head, body)]
        at = [p["trials"] for p in curve]
        exponent = slope(at, [p["fit_error_without"] for p in curve])
        out.append(f"The drawn sets alone fit as T to the power {exponent:.2f}.")
        named = {
            "fitting": "fit_error",
            "fitting, drawn sets alone": "fit_error_without",
            "prediction": "nrmse",
            "c": "c_mae",
            "D": "D_mae",
        }
        lines = {name: (at, [p[key] for p in curve]) for name, key in named.items()}
        title = f"{column}: uniform search"
        trials.append({"lines": lines, "x": "trials T", "y": "error", "title": title})
        others = [r for r in found if r["item"]["search"] != "uniform"]
        body = [
            [r["item"]["search"], f"{r['flops'] / 1e9:.2f}", f"{r['fit_error']:.2e}"]
            for r in others
        ]
        out.append(table(["search", "GFLOP", "fitting error"], body))
        lines = {"uniform": ([p["flops"] for p in curve], [p["fit_error"] for p in curve])}
        for name in ("beam", "pursuit"):
            for kind in ("width", "survivors", "parts"):
                mine = [
                    r
                    for r in others
                    if r["item"]["search"].startswith(name) and kind in r["item"]["search"]
                ]
                if mine:
                    x, y = [r["flops"] for r in mine], [r["fit_error"] for r in mine]
                    lines[f"{name}, {kind}"] = (x, y)
        flops.append({"lines": lines, "x": "FLOPs", "y": "fitting error", "title": column})
    return [
        *out,
        plot(folder / "scaling_trials.png", trials),
        plot(folder / "scaling_flops.png", flops),
    ]


def sensitivity(rows: list[Row], folder: Path) -> list[str]:
    def cell(found: list[Row]) -> str:
        if not found:
            return ""
        values = [r["nrmse"] for r in found]
        spread = f" ({number(min(values))} to {number(max(values))})" if len(values) > 1 else ""
        return number(sum(values) / len(values)) + spread

    body = []
    for size, published in PUBLISHED_SIZES.items():
        ours = [cell(pick(rows, search=s, operators=size, length=16)) for s in ("beam", "pursuit")]
        body.append([str(size), f"{published:.3f}", *ours])
    head = ["operators N", "beam, published", "beam", "pursuit"]
    words = "NRMSE in the column A+D. Fewer than 256 operators are drawn several times: mean and"
    out = ["## Sensitivity", f"{words} range over the draws.", table(head, body)]
    body = []
    for length, published in PUBLISHED_LENGTHS.items():
        found = [pick(rows, search=s, operators=256, length=length) for s in ("beam", "pursuit")]
        body.append([str(length), f"{published:.3f}", *(cell(f) for f in found)])
    return [*out, table(["frames L", *head[1:]], body)]


def robustness(rows: list[Row], folder: Path) -> list[str]:
    methods = ("direct", "beam", "pursuit")
    body, guesses = [], []
    for epsilon, published in PUBLISHED.items():
        found = {m: pick(rows, method=m, epsilon=epsilon) for m in methods}
        known = [f"{published[m]:.3f}" for m in ("direct", "beam")]
        ours = [with_error(found[m][0]) if found[m] else "" for m in methods]
        body.append([f"{epsilon:.2f}", *known, *ours])
        line = [f"{epsilon:.2f}"]
        for k in TRUE:
            line.append(f"{published[k]:.3f}")
            for m in methods[1:]:
                line.append(number(found[m][0][f"{k}_mean"], 3) if found[m] else "")
        guesses.append(line)
    head = ["ε", "direct, published", "beam, published", "direct", "beam", "pursuit"]
    titles = ["ε"]
    for k in TRUE:
        titles += [f"{k}: beam, published", f"{k}: beam", f"{k}: pursuit"]
    equation = "`u_t + c u_x + ε u u_x = D u_xx` with c = 0.5, D = 0.3"
    lines = {
        m: (
            [max(e, 0.003) for e in PUBLISHED],
            [r["nrmse"] for e in PUBLISHED for r in pick(rows, method=m, epsilon=e)],
        )
        for m in methods
    }
    lines["beam, published"] = (lines["beam"][0], [p["beam"] for p in PUBLISHED.values()])
    shown = {k: v for k, v in lines.items() if len(v[0]) == len(v[1])}
    panel = {
        "lines": shown, "x": "ε, the size of the unknown term", "y": "NRMSE of the forecast",
        "title": "a term that no operator knows",
        "ticks": {max(e, 0.003): f"{e:.2g}" for e in PUBLISHED},
    }  # fmt: skip
    return [
        "## A term that no operator knows",
        f"{equation}; 16 frames observed, 84 predicted. NRMSE:",
        table(head, body),
        "Mean of the recovered coefficients:",
        table(titles, guesses),
        plot(folder / "robustness.png", [panel]),
    ]


def noise(rows: list[Row], folder: Path) -> list[str]:
    methods = list(dict.fromkeys(r["item"]["method"] for r in rows))
    levels = list(dict.fromkeys(r["item"]["noise"] for r in rows))
    errors, guesses, lines = [], [], {}
    for method in methods:
        found = {x: pick(rows, method=method, noise=x) for x in levels}
        errors.append([method, *(with_error(found[x][0]) if found[x] else "" for x in levels)])
        values = [r[0] for r in found.values() if r]
        if "c_mae" in values[0] and method != "true equation":
            cells = [
                f"{number(r[0]['c_mae'])} / {number(r[0]['D_mae'])}" if r else ""
                for r in found.values()
            ]
            guesses.append([method, *cells])
        if "," not in method or method.startswith("weak") or method.endswith("denoised"):
            at = [max(x, 2e-4) for x in levels if found[x]]
            lines[method] = (at, [r["nrmse"] for r in values])
    titles = [f"{x:.1%}" for x in levels]
    words = (
        "White noise of a share of the field's standard deviation on the 16 observed frames of "
        "the column A+D; the future is clean. A forecast starts from the last noisy frame: what "
        "that alone costs shows in the row of the true equation. `denoised`: fitted to and "
        "started from the frames without the noise that `OperatorSplitter` takes out, which for "
        "pursuit is the default. SINDy is given the terms u, u_x, u_xx, u u_x and u u_xx, its "
        "name carries the threshold of its regression; it and least squares forecast with the "
        "exact solver."
    )
    panel = {
        "lines": lines, "x": "noise, share of the field's deviation", "y": "NRMSE of the forecast",
        "title": "noise on the observed frames",
        "ticks": {max(x, 2e-4): f"{x:.2g}" for x in levels},
    }  # fmt: skip
    out = ["## Noise", words, "NRMSE:", table(["method", *titles], errors)]
    out += ["Mean absolute error of c / D:", table(["method", *titles], guesses)]
    right = [r for r in rows if "right_terms" in r]
    if right:
        body = [
            [m, *(f"{pick(right, method=m, noise=x)[0]['right_terms']:.0%}" for x in levels)]
            for m in dict.fromkeys(r["item"]["method"] for r in right)
            if len(pick(right, method=m)) == len(levels)
        ]
        out += ["Trajectories in which SINDy keeps the right terms and no others:"]
        out += [table(["method", *titles], body)]
    return [*out, plot(folder / "noise.png", [panel])]
