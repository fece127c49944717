"""Build both packages, check them, install them in empty environments, run the README.

Usage: python packages/release.py [--out dist]
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 25e6
"""Bytes of the main wheel."""
WANTED = ("Name", "Version", "Summary", "Requires-Python", "License-Expression", "Author")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Standard output of a command that has to succeed."""
    print("+", shlex.join(map(str, command)), flush=True)
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\n{command} failed")
    return done.stdout


def build(out: Path) -> dict[str, Path]:
    """The wheels of both packages and the source archive of the main one."""
    tool = (sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    run(*tool, "--wheel", "--sdist", ROOT)
    run(*tool, "--wheel", ROOT / "packages" / "opsplit-unets")
    return {path.name.split("-")[0]: path for path in out.glob("*.whl")}


def check(wheels: dict[str, Path]) -> None:
    """Sizes and metadata."""
    assert wheels.keys() == {"opsplit", "opsplit_unets"}, wheels
    versions = set()
    for name, wheel in wheels.items():
        (found,) = metadata.distributions(path=[str(wheel)])
        missing = [key for key in WANTED if not found.metadata.get(key)]
        assert not missing, f"{name} lacks {missing}"
        versions.add(found.version)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    assert len(versions) == 1, versions
    assert wheels["opsplit"].stat().st_size < LARGEST


def environment(folder: Path, *wheels: Path) -> Path:
    """The interpreter of a new environment with these wheels."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    pip = (python, "-I", "-m", "pip", "install", "--quiet", "--no-compile")
    # Exact, so that a build for processors wins over one for accelerators.
    run(*pip, "-c", ROOT / "constraints.txt", "torch==2.13.0", *wheels)
    return python


def readme(python: Path, folder: Path) -> None:
    """The first example and the quick commands of the README, as written."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert block
    save = "\nimport numpy\nnumpy.save('frames.npy', u)\n"
    (folder / "example.py").write_text(block[1] + save)
    print(run(python, "-I", "example.py", cwd=folder))
    (quick,) = re.findall(r"^## Try it\n(.*?)^## ", text, re.M | re.S)
    for line in re.findall(r"^opsplit .*$", quick, re.M):
        words = shlex.split(line, comments=True)
        run(python.parent / words[0], *words[1:], cwd=folder)
    for made in ("demo/demo.png", "forecast.html", "mine/forecast.npy"):
        assert (folder / made).exists(), made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out.resolve()
    for old in (*out.glob("*.whl"), *out.glob("*.tar.gz")):
        old.unlink()
    wheels = build(out)
    check(wheels)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        (work / "empty").mkdir()
        python = environment(work / "environment", wheels["opsplit"])
        readme(python, work / "empty")
        listed = "import opsplit.model as m; print(m.bundled()['combined'])"
        assert "unet" not in run(python, "-I", "-c", listed)
        run(python, "-I", "-m", "pip", "install", "--quiet", "--no-deps", wheels["opsplit_unets"])
        assert "unet" in run(python, "-I", "-c", listed)
    print(f"Ready: {', '.join(path.name for path in wheels.values())} in {out}")


if __name__ == "__main__":
    main()
