"""Run the notebooks and write them as `.ipynb` files and as pages of the documentation.

Usage: python examples/notebooks/build.py [NAME ...]   (writes docs/notebooks/)
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "notebooks"


def cells(name: str) -> list[tuple[str, str]]:
    """Kind (`markdown` or `code`) and text of every cell of a script."""
    found = []
    parts = re.split(r"^# %%(.*)\n", (HERE / f"{name}.py").read_text(), flags=re.M)[1:]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        kind = "markdown" if "[markdown]" in title else "code"
        text = re.sub(r"^# ?", "", body, flags=re.M) if kind == "markdown" else body
        found.append((kind, text.strip()))
    return found


def run_cell(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as a notebook does: printed text, drawn figures, the value of the last line."""
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    tree, value = ast.parse(code), None
    last = tree.body[-1] if isinstance(tree.body[-1], ast.Expr) else None
    if last is not None:
        tree.body.pop()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    for number in pyplot.get_fignums():
        stream = io.BytesIO()
        pyplot.figure(number).savefig(stream, format="png", dpi=80)
        picture = base64.b64encode(stream.getvalue()).decode()
        outputs.append(_shown({"image/png": picture, "text/plain": "<Figure>"}))
    pyplot.close("all")
    # What was drawn is shown as a picture.
    if value is not None and not isinstance(value, Axes):
        shown = {"text/plain": str(value)}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = value._repr_html_()
        outputs.append(_shown(shown))
    return outputs


def _shown(data: dict[str, str]) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": data}


def run(name: str) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """All cells with their outputs, run in an empty folder."""
    before, names = Path.cwd(), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return [
                (kind, text, run_cell(text, names) if kind == "code" else [])
                for kind, text in cells(name)
            ]
        finally:
            os.chdir(before)


def notebook(found: list[tuple[str, str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """The notebook file, format 4.5."""
    made = []
    for number, (kind, text, outputs) in enumerate(found):
        cell: dict[str, Any] = {
            "cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text,
        }  # fmt: skip
        if kind == "code":
            cell |= {"execution_count": None, "outputs": outputs}
        made.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made,
    }  # fmt: skip


def page(name: str, found: list[tuple[str, str, list[dict[str, Any]]]]) -> str:
    """The page; pictures go beside it."""
    lines = []
    for number, (kind, text, outputs) in enumerate(found):
        lines.append(text if kind == "markdown" else f"```python\n{text}\n```")
        for output in outputs:
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{number}.png"
                (DOCS / picture).write_bytes(base64.b64decode(data["image/png"]))
                lines.append(f"![Output of the cell above]({picture})")
            elif "text/html" in data:
                lines.append(f"<div>{data['text/html']}</div>")
            else:
                text = output.get("text") or data["text/plain"]
                lines.append(f"```text\n{text.rstrip()}\n```")
    said = f"Download [{name}.ipynb]({name}.ipynb). Written by "
    lines.insert(1, f"{said}`python examples/notebooks/build.py {name}`.")
    return "\n\n".join(lines) + "\n"


def main() -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    every = sorted(p.stem for p in HERE.glob("*.py") if p != Path(__file__))
    for name in sys.argv[1:] or every:
        found = run(name)
        text = json.dumps(notebook(found), indent=1, ensure_ascii=False)
        (DOCS / f"{name}.ipynb").write_text(text + "\n")
        (DOCS / f"{name}.md").write_text(page(name, found))
        print(f"docs/notebooks/{name}.md")


if __name__ == "__main__":
    main()
