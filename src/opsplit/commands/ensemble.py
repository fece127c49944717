"""`opsplit predict`, `identify` and `search` on many trajectories: one table, one page."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplit._text import say, to_json
from opsplit.commands.common import effective_settings
from opsplit.commands.record import Record
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.commands.fit import Fit
    from opsplit.predict.ensemble import Row

JOURNAL = "rows.jsonl"
FORECASTS = {"files": "forecasts", "zarr": "forecasts.zarr"}


def run_ensemble(command: Fit, steps: int, kind: str = "files") -> None:
    """Fit every trajectory of all files; rows are kept as they come.

    A command that is repeated makes the rows that are missing or whose forecast is gone, and tries
    those that failed again: the reason, such as a full disk, may be gone.

    Arguments:
        steps: frames to forecast (0: none).
        kind: `"files"` or `"zarr"`, for the forecasts.
    """
    from opsplit._journal import Journal
    from opsplit.io.assemble import Flags
    from opsplit.predict.ensemble import FAILED, Ensemble, data_files
    from opsplit.progress import Progress
    from opsplit.report.ensemble import write_ensemble_report
    from opsplit.report.table import write_table

    command.check()
    files = data_files(command.files)
    if command.out is None:
        raise OpsplitError("Many trajectories need a folder for their table: add --out DIR.")
    out, began = command.out, time.monotonic()
    forecasts = out / FORECASTS[kind] if steps else None
    ensemble = Ensemble(
        command.splitter(), Flags(**command.said()), command.start, steps, forecasts
    )
    settings = effective_settings(command, ()) | {"files": fingerprint(files)}
    kept = Record.of(command, settings)
    folders = [given for given in command.files if given.is_dir()]
    place = {str(file): i for i, file in enumerate(files)}
    with (
        kept.run([*files, *folders]) as written,
        Journal(out / JOURNAL, command.force, lambda row: ensemble.holds(row, place)) as journal,
    ):
        done = {row["item"] for row in journal.rows()}
        before, made, wrong = len(done), 0, 0
        try:
            with Progress("fitting", enabled=not command.json, every=10.0) as bar:
                for rows in ensemble.rows(files, done, command.where()):
                    journal.append(rows)
                    made += len(rows)
                    wrong += sum(row["status"] == FAILED for row in rows)
                    share = (place.get(rows[-1]["file"], 0) + 0.5) / len(files)
                    rate = made / (time.monotonic() - began)
                    bar.update(share, f"{made} trajectories, {rate:.3g}/s, {wrong} failed")
        except KeyboardInterrupt:
            say(
                f"opsplit: {before + made} rows are kept in {out / JOURNAL}; the same command "
                "makes the others.",
                sys.stderr,
            )
            raise
        every = sorted(journal.rows(), key=_order)
        table = write_table(out, every)
        page = write_ensemble_report(out / "report.html", every, forecasts)
        counts = Counter(row["status"] for row in every)
        result = {
            "trajectories": len(every), "made": made, "status": dict(counts), "table": str(table),
            "report": str(page), "forecasts": None if forecasts is None else str(forecasts),
            "seconds": time.monotonic() - began,
        }  # fmt: skip
        kept.finish(written, result)
    say(to_json(result) if command.json else words(result, every))
    if counts[FAILED]:
        sys.exit(1)


def words(result: dict[str, Any], rows: list[Row]) -> str:
    """The result for a screen."""
    counts = ", ".join(f"{count} {status}" for status, count in result["status"].items())
    lines = [f"{result['trajectories']} trajectories ({result['made']} now): {counts}"]
    # A reason that begins with the name of the file does not repeat it.
    failed = [(row["item"], str(row["reason"])) for row in rows if row["reason"]]
    lines += [f"  {why if why.startswith(item) else f'{item}: {why}'}" for item, why in failed[:10]]
    lines.append(f"table: {result['table']}\nreport: {result['report']}")
    if result["forecasts"]:
        lines.append(f"forecasts: {result['forecasts']}")
    return "\n".join(lines)


def fingerprint(files: list[Path]) -> str:
    """A hash of the files' names, sizes and times; their content may be terabytes."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(os.fsencode(file))
        with contextlib.suppress(OSError):  # A link to nothing is a row with its reason.
            facts = file.stat()
            digest.update(f" {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return f"{len(files)} files, {digest.hexdigest()[:16]}"


def _order(row: Row) -> tuple[str, int]:
    return row["file"], -1 if row["trajectory"] is None else row["trajectory"]
