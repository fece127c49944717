"""The one template of the page; every value that enters it is escaped."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent


def number(value: Any) -> str:
    """Five digits of a float; a dash for what is not finite; nothing for None."""
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else "–"
    return "" if value is None else str(value)


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment.get_template("page.html")


def render(values: dict[str, Any]) -> str:
    """The whole page. It fetches nothing, and no script runs but its own."""
    from markupsafe import Markup

    script = (HERE / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    policy += f"script-src 'sha256-{digest}'"
    own = {
        "script": Markup(script),
        "style": Markup((HERE / "page.css").read_text("utf-8")),
        "policy": policy,
    }
    return _template().render(**values, **own)
