"""The record beside every output: what made it, what it wrote, what a next run may replace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplit._files import LOCK, Written, read_json, unchanged, write_json, writing
from opsplit._origin import origin
from opsplit._text import plain
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.commands.common import Common


@dataclass(frozen=True)
class Record:
    """What `--out` says about the run that wrote it.

    Before a run begins its record says so and has no result: a run that is killed or fails leaves
    no record of a run before it that would speak of other files.
    """

    command: Common
    settings: dict[str, Any]
    file: Path | None

    @classmethod
    def of(cls, command: Common, settings: dict[str, Any]) -> Record:
        """The record of a command in its `--out`."""
        return cls(command, settings, None if command.out is None else command.out / command.record)

    def held(self) -> dict[str, Any]:
        """What the file holds, if it is there."""
        found = read_json(self.file) if self.file is not None and self.file.exists() else None
        return found if isinstance(found, dict) else {}

    def finished(self) -> dict[str, Any] | None:
        """The result of the same run, if all that it wrote is there and the same."""
        held = self.held()
        result: Any = held.get("result")
        files: Any = held.get("files")
        if self.file is None or held.get("settings") != self.settings:
            return None
        whole = isinstance(result, dict) and isinstance(files, dict)
        if not whole or not unchanged(files, self.file.parent):
            return None
        asked = [p for p in self.command.replaces() if not p.is_dir()]
        return result if all(self._name(p) in files for p in asked) else None

    @contextmanager
    def run(self, inputs: Sequence[Path]) -> Iterator[Written]:
        """Inside, the command writes, but never over what it reads nor over files of others."""
        with writing(inputs) as made:
            self._begin(made)
            try:
                yield made
            except BaseException:
                self._withdraw()
                raise

    def _begin(self, made: Written) -> None:
        """Refuse to write over inputs or files of others; say that the run has begun."""
        places = self.command.replaces()
        for place in places:
            target = place.resolve()
            for where, given in made.inputs.items():
                if where.is_relative_to(target) and given.exists():
                    raise OpsplitError(
                        f"{given} is read by this run and lies where it writes ({place}); choose "
                        "another --out."
                    )
            made.refuse_input(place / "file" if place.is_dir() else place)
        if not self.command.force:
            self._refuse_strangers(places)
        self._write(made, None)

    def _withdraw(self) -> None:
        """Remove the record of a run that failed before it wrote anything."""
        if self.file is not None and self._occupant(self.file.parent) is None:
            self.file.unlink(missing_ok=True)

    def finish(self, made: Written, result: dict[str, Any]) -> None:
        """Write the result, the origin, and what was written."""
        self._write(made, result)

    def _write(self, made: Written, result: dict[str, Any] | None) -> None:
        if self.file is None:
            return
        write_json(
            self.file,
            {
                "settings": self.settings,
                **origin(self.command.seed, self.command.device),
                "result": result,
                "places": [self._name(place) for place in self.command.replaces()],
                "files": made.facts(self.file.parent, self.file),
            },
        )

    def _refuse_strangers(self, places: tuple[Path, ...]) -> None:
        held = self.held()
        before, now = held.get("settings"), self.settings
        same = before == now
        if self.command.accumulates and isinstance(before, dict):
            same = before.get("command") == now["command"]
        ours = held.get("places")
        for place in places:
            if same and isinstance(ours, list) and self._name(place) in ours:
                continue
            found = self._occupant(place)
            if found is not None:
                out = self.command.out
                flag = "--out" if out in (place, *place.parents) else "--report"
                raise OpsplitError(
                    f"{found} is there already, and not from this command{self._differs(before)}; "
                    f"choose another {flag}, or --force to replace it."
                )

    def _differs(self, before: Any) -> str:
        """In which settings the run that wrote the record was another one."""
        if not isinstance(before, dict) or before.get("command") != self.settings["command"]:
            return ""
        other = [k for k, v in self.settings.items() if before.get(k) != v]
        words = "; ".join(f"{k} {before.get(k)}, not {self.settings[k]}" for k in other)
        return f" ({plain(words, 300)})" if words else ""

    def _occupant(self, place: Path) -> Path | None:
        """A file that the run would replace or mix with its own, if there is one."""
        if not place.is_dir():
            return place if place.exists() else None
        own = (LOCK, self.command.record)
        there = (p for p in sorted(place.iterdir()) if p.name not in own and p.suffix != ".part")
        return next(there, None)

    def _name(self, path: Path) -> str:
        """A path as seen from the folder of the record, which may be moved as a whole."""
        assert self.file is not None
        return os.path.relpath(path, self.file.parent)
