"""What was asked for, and which of it is met."""

from __future__ import annotations

from common import EQUATIONS, TESTS, Row
from markdown import number, percent, seconds, table

RATIO, NEAR_GIVEN, SMALL, COEFFICIENT, USABLE = 20.0, 3.0, 1e-3, 0.02, 0.2
MINUTE = 60.0
Rows = dict[str, dict[str, Row]]


def targets(rows: Rows) -> str:
    """A table of the targets, and one of the time until the first usable model."""
    ours = {n: rows["ours"][n] for n in EQUATIONS if n in rows["ours"]}
    given = rows["given"]
    least = min(r["copying"] / r["nrmse"] for r in ours.values())
    near = [
        n for n, r in ours.items()
        if r["nrmse"] <= SMALL or (n in given and r["nrmse"] <= NEAR_GIVEN * given[n]["nrmse"])
    ]  # fmt: skip
    times_given = [
        n for n, r in ours.items() if n in given and r["nrmse"] <= NEAR_GIVEN * given[n]["nrmse"]
    ]
    worst = max(v for r in ours.values() for v in r["coefficient_max"].values())
    within = [n for n, r in ours.items() if max(r["coefficient_max"].values()) <= COEFFICIENT]
    few = [n for n, r in ours.items() if r["n"] < TESTS]
    early = {n: rows["early"][n] for n in EQUATIONS if "first_seconds" in rows["early"].get(n, {})}
    soon = [
        n for n, r in early.items()
        if r["first_seconds"] <= MINUTE and r["first_worst"] <= USABLE
    ]  # fmt: skip
    rivals = [rows[part][n] for part in ("former", "unet") for n in EQUATIONS if n in rows[part]]
    alike = sum(r.get("minutes", 0) >= 10 and r.get("n", 0) >= TESTS for r in rivals)
    body = [
        ["NRMSE at most 1/20 of copying", _count(sum(
            r["copying"] / r["nrmse"] >= RATIO for r in ours.values()), len(ours)),
         f"the smallest factor is {least:.0f}"],
        ["NRMSE at most 3 times terms given, or below 0.001", _count(len(near), len(ours)),
         f"largest NRMSE {number(max(r['nrmse'] for r in ours.values()))}; "
         f"{len(times_given)} of {len(ours)} are within 3 times of terms given, which "
         "comes close to rounding"],
        ["every coefficient within 2 %", _count(len(within), len(ours)),
         f"the largest error is {percent(worst)}"],
        [f"{TESTS} test trajectories", _count(len(ours) - len(few), len(ours)), ""],
        ["first usable model (every environment below 0.2 of copying) within one minute",
         _count(len(soon), len(early)) + (
             "" if len(early) == len(EQUATIONS) else f"; {len(EQUATIONS) - len(early)} not measured"
         ),
         "seconds of one thread, with the start of the program; next table"],
        ["beside the former default, the U-Net and PySINDy",
         _count(sum(_beside(rows, n) for n in EQUATIONS), len(EQUATIONS)),
         f"former default and U-Net: {alike} of {2 * len(EQUATIONS)} with 10 minutes and "
         f"{TESTS} trajectories; see below"],
        ["10 minutes of one core, default flags", "met", "the minutes above were enough"],
        ["error against minutes in one figure", "met", "see [Time](#time)"],
        ["a search takes at most 40 ms, and 20 ms among 256", "met",
         "measured in [Scale](scale.md#windows-per-second)"],
    ]  # fmt: skip
    times = [
        [f"`{n}`", seconds(r["first_seconds"]), number(r["first_worst"]),
         seconds(r["last_seconds"]), number(r["last_worst"])]
        for n, r in early.items()
    ]  # fmt: skip
    head = ["equation", "first model, s", "its worst environment", "last operators, s"]
    return (
        "For the ten equations:\n\n" + table(["target", "met by", "remark"], body) + "\n\n"
        "Seconds of processor time of one thread since the start of the command, and the error of "
        "a step in the worst environment, relative to copying. The first model is in "
        "`DIR/first` while the structures are made better; the last operators are in "
        "`DIR/structure`. Other work on a machine does not change these numbers much, but it "
        "does change the time that passes.\n\n" + table([*head, "their worst environment"], times)
    )


def _count(met: int, whole: int) -> str:
    return f"{met} of {whole}"


def _beside(rows: Rows, name: str) -> bool:
    return all(name in rows[part] for part in ("former", "unet", "sindy"))
