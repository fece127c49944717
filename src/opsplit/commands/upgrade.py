"""`opsplit upgrade`: a directory of an earlier format, rewritten in the present one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from opsplit.commands.common import Common, once
from opsplit.errors import OpsplitError
from opsplit.terms import Term


@dataclass(frozen=True)
class Upgrade(Common):
    """Convert a model or a dictionary that an earlier opsplit wrote; the operators stay the same.

    Example: opsplit upgrade runs/mine --out runs/mine-2
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path()
    """A directory of format 1."""
    out: Path | None = Path("upgraded")
    """Folder for the converted directory."""

    def run(self) -> None:
        if self.out is not None and self.out.resolve() == self.folder.resolve():
            raise OpsplitError("--out must be another folder than the one that is converted.")
        if not self.folder.is_dir():
            raise OpsplitError(f"No such folder: {self.folder}")

        def work() -> dict[str, Any]:
            from opsplit.upgrade import upgrade, upgrade_dictionary

            assert self.out is not None
            if (self.folder / "config.json").exists():
                model = upgrade(self.folder, _terms(self.folder))
                model.save(self.out)
                made, kind = model.dictionary, "model"
            else:
                made, kind = upgrade_dictionary(self.folder), "dictionary"
                made.save(self.out)
            return {"folder": str(self.out), "kind": kind, "operators": len(made)}

        files = tuple(sorted(p for p in self.folder.iterdir() if p.is_file()))
        once(self, work, lambda r: f"{r['folder']}: {r['kind']}, {r['operators']} operators", files)


def _terms(folder: Path) -> dict[str, Term]:
    """What is known about the terms of the model's equation, if we know the equation."""
    from opsplit._files import inside, read_json
    from opsplit.physics import PHYSICS

    raw = read_json(inside(folder, "config.json"), finite=True)
    name = raw.get("physics") if isinstance(raw, dict) else None
    known = PHYSICS[name].terms if isinstance(name, str) and name in PHYSICS else {}
    return {k: t if isinstance(t, Term) else Term(str(t)) for k, t in known.items()}
