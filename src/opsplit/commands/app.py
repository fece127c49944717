"""`opsplit app`: a page in the browser to play with and to drop files on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opsplit._text import say
from opsplit.commands.common import Common
from opsplit.errors import OpsplitError


@dataclass(frozen=True)
class App(Common):
    """Open a page in the browser: play with equations, or drop a file and watch the search.

    It listens on this computer only. It needs `pip install 'opsplit[app]'`.

    Example: opsplit app --port 7860
    """

    port: int | None = None
    """Port to listen on (default: the first free one from 7860)."""
    no_browser: bool = False
    """Print the address and open nothing."""
    max_seconds: float = 60
    """Longest search of a visitor."""
    max_mb: float = 50
    """Largest file of a visitor."""
    without: ClassVar[tuple[str, ...]] = ("out", "seed", "device", "json", "force")

    def check(self) -> None:
        super().check()
        if self.port is not None and not 0 < self.port < 65536:
            raise OpsplitError(f"--port must lie in 1..65535, got {self.port}.")
        if not 0 < self.max_mb <= 2000:
            raise OpsplitError(f"--max-mb must lie in 0..2000, got {self.max_mb}.")

    def run(self) -> None:
        self.check()
        from opsplit.app.page import Limits, serve

        limits = Limits(seconds=self.max_seconds, upload_mb=self.max_mb)
        page, address = serve(self.port, not self.no_browser, limits, wait=False)
        say(f"opsplit app: {address} (Ctrl-C ends it)")
        try:
            page.block_thread()
        finally:
            page.close(verbose=False)
