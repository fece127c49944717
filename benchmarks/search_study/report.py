"""Tables and figures from the lines of all parts; nothing is measured here."""

from __future__ import annotations

import argparse
from pathlib import Path

from common import COLUMNS, Row, read_rows
from robustness import PUBLISHED, TRUE
from writing import cell, number, pick, plot, slope, source, table

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
Advection-diffusion, spectral operators, the trajectories of the [main table](method.md). Cells are
mean NRMSE, with the median in round brackets and the number of forecasts that blew up in square
brackets if there are any (each counts as 1); lower is better. Seconds are those that one core
worked. All searches take one substep per frame."""


def cost(rows: list[Row], folder: Path) -> list[str]:
    body = []
    for row in rows:
        ways = row["ways"]
        ours = ways["pursuit"]
        body += [
            [
                row["item"]["column"],
                name,
                f"{w['evaluations']:,.0f}",
                f"{w['flops'] / 1e9:.2g}",
                f"{w['seconds']:.3f}",
                f"{w['evaluations'] / ours['evaluations']:.1f}",
                f"{w['seconds'] / ours['seconds']:.1f}",
                f"{w['fit_error']:.2e}",
            ]
            for name, w in ways.items()
        ]
    head = ["column", "search", "evaluations", "GFLOP", "seconds"]
    head += ["evaluations ratio", "seconds ratio", "fitting error"]
    shares = ", ".join(f"{r['fits_as_well']:.0%} in {r['item']['column']}" for r in rows)
    return [
        "## Cost",
        "Mean per trajectory. A ratio says how many times what pursuit spends.",
        table(head, body),
        f"Pursuit fits at least as well as the exact beam search on {shares}.",
    ]


def growth(rows: list[Row], folder: Path) -> list[str]:
    panels, body = [], []
    words = {
        "operators": "operators N",
        "parts": "longest composition M",
        "trajectories": "trajectories in one batch",
    }
    for axis, label in words.items():
        lines = {}
        for search in ("pursuit", "beam"):
            mine = [r for r in pick(rows, axis=axis, search=search) if r["seconds"]]
            if len(mine) < 2:
                continue
            at = [r["item"]["at"] for r in mine]
            lines[search] = (at, [r["seconds"] for r in mine])
            cells = [search, label, f"{at[0]} to {at[-1]}"]
            for key, form in (("seconds", ".3f"), ("evaluations", ",")):
                values = [r[key] for r in mine]
                half = len(at) // 2
                cells += [f"{values[0]:{form}} to {values[-1]:{form}}", f"{slope(at, values):.2f}",
                          f"{slope(at[half:], values[half:]):.2f}"]  # fmt: skip
            body.append(cells)
        if lines:
            panels.append({"lines": lines, "x": label, "y": "seconds", "title": label})
    exponents = ["exponent", "of the upper half"]
    head = ["search", "against", "range", "seconds", *exponents, "evaluations", *exponents]
    out = ["## Growth", "An exponent is that of a power law.", table(head, body)]
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
    out, trials, flops = ["## Scaling (Figures 4 and 5)"], [], []
    drawn, searches, exponents = [], {}, []
    for column in COLUMNS:
        found = pick(rows, column=column)
        curves = pick(found, search="uniform")
        if not curves:
            continue
        curve = curves[0]["curve"]
        keys = ("fit_error", "fit_error_without")
        drawn += [
            [column, str(p["trials"]), *(number(p[k], 5) for k in keys), cell(p),
             *(number(p[k]) for k in ("c_mae", "D_mae")), f"{p['flops'] / 1e9:.2g}"]
            for p in curve
        ]  # fmt: skip
        at = [p["trials"] for p in curve]
        exponent = slope(at, [p["fit_error_without"] for p in curve])
        exponents.append(f"{exponent:.2f} in {column}")
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
        for r in others:
            cells = searches.setdefault(r["item"]["search"], [])
            cells.append(f"{r['flops'] / 1e9:.2g}, {r['fit_error']:.1e}")
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
    head = ["column", "T", "fitting error", "drawn sets alone", "NRMSE"]
    return [
        *out,
        "Uniform search with T trials; it starts from the best single operator.",
        table([*head, "MAE of c", "MAE of D", "GFLOP"], drawn),
        f"The drawn sets alone fit as T to the power {', '.join(exponents)}.",
        "The other searches, GFLOP and mean fitting error:",
        table(["search", *COLUMNS], ([name, *cells] for name, cells in searches.items())),
        plot(folder / "scaling_trials.png", trials),
        plot(folder / "scaling_flops.png", flops),
    ]


def sensitivity(rows: list[Row], folder: Path) -> list[str]:
    body = []
    for axis, published in (("operators", PUBLISHED_SIZES), ("length", PUBLISHED_LENGTHS)):
        for at, theirs in published.items():
            chosen = {"operators": 256, "length": 16, axis: at}
            ours = [drawn(pick(rows, search=s, **chosen)) for s in ("beam", "pursuit")]
            name = "N" if axis == "operators" else "L"
            body.append([f"{name} = {at}", f"{theirs:.3f}", *ours])
    return [
        "## Sensitivity",
        "Tables 7 and 8, column A+D: N operators in the dictionary, L observed frames. Fewer than "
        "256 operators are drawn several times: means over the draws, and the range of their "
        "means.",
        table(["setting", "beam, published", "beam", "pursuit"], body),
    ]


def drawn(found: list[Row]) -> str:
    """A cell over several draws of a dictionary."""
    if not found:
        return ""
    values = [r["nrmse"] for r in found]
    middle = sum(r["median"] for r in found) / len(found)
    spread = f", {number(min(values))} to {number(max(values))}" if len(values) > 1 else ""
    blown = sum(r["diverged"] for r in found)
    lost = f" [{blown}]" if blown else ""
    return f"{number(sum(values) / len(values))} ({number(middle)}){spread}{lost}"


def robustness(rows: list[Row], folder: Path) -> list[str]:
    methods = ("direct", "beam", "pursuit")
    body, guesses = [], []
    for epsilon, published in PUBLISHED.items():
        found = {m: pick(rows, method=m, epsilon=epsilon) for m in methods}
        known = [f"{published[m]:.3f}" for m in ("direct", "beam")]
        ours = [cell(found[m][0]) if found[m] else "" for m in methods]
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
        f"Table 4: {equation}; 16 frames observed, 84 predicted.",
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
        errors.append([method, *(cell(found[x][0]) if found[x] else "" for x in levels)])
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
    out = ["## Noise", words, table(["method", *titles], errors)]
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
