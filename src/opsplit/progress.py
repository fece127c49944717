"""A progress bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from opsplit._text import plain, say


class Progress:
    """Shows the share done, a few words and the time left.

    Usage: `with Progress("search") as bar: bar.update(0.5, "best .004")`.
    """

    def __init__(self, title: str, enabled: bool = True, every: float = 30.0) -> None:
        self.title, self.enabled, self.every = title, enabled, every
        self.bar: Any = None
        self.began = self.printed = time.monotonic()
        self.first: float | None = None

    def __enter__(self) -> Progress:
        if self.enabled and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self.bar = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>4.0f}%  {task.fields[words]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task(self.title, total=1.0, words="")
            self.bar.start()
        return self

    def update(self, done: float, words: str = "") -> None:
        """Report the share done, from 0 to 1."""
        if not self.enabled:
            return
        if self.first is None:
            self.first = done
        if self.bar is not None:
            self.bar.update(self.task, completed=min(done, 1.0), words=plain(words))
            return
        now = time.monotonic()
        if now - self.printed >= self.every:
            self.printed = now
            gained = done - self.first
            line = f"{self.title} {100 * min(done, 1.0):.1f}%  {words}"
            if gained > 0 and done < 1:
                left = (now - self.began) * (1 - done) / gained
                line += f"  {left / 60:.1f} min left"
            say(line, sys.stderr)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
