"""Somebody who looks at the page in a browser."""

from __future__ import annotations

from typing import Any


class Visitor:
    """A page of its own, with all that it asked for and said."""

    def __init__(
        self, browser: Any, address: str, width: int = 1280, scheme: str = "light",
        motion: str = "reduce",
    ):  # fmt: skip
        size = {"width": width, "height": 844}
        self.context = browser.new_context(
            viewport=size, color_scheme=scheme, reduced_motion=motion
        )
        self.page = self.context.new_page()
        # Conditions are waited for, however busy the machine is.
        self.page.set_default_timeout(300_000)
        self.asked: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on(
            "console",
            lambda m: self.said.append(m.text) if m.type == "error" else None,
        )
        self.page.goto(address)
        self.page.wait_for_selector("#play")

    def answer(self) -> str:
        self.page.wait_for_selector("#verdict h2, #verdict .failure")
        return str(self.page.inner_text("#verdict"))

    def choose(self, part: str, name: str) -> None:
        """Take an entry of a list."""
        self.page.click(f"#{part} input")
        self.page.get_by_role("option", name=name).click()

    def leave(self, address: str) -> None:
        assert self.said == []
        assert all(u.startswith((address, "data:", "blob:", "about:")) for u in self.asked)
        self.context.close()
