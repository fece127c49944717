"""What a model directory from anywhere may say: types and ranges, before anything is built.

A value outside is no model but a mistake or an attempt to fill the memory; the ranges are far
beyond what makes sense.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opsplit.errors import OpsplitError
from opsplit.grid import BOUNDARIES

LARGEST = 2_000_000_000
"""Bytes that the numbers of one model, or of all its operators, may take."""

WHOLE = {
    "ndim": (1, 3),
    "channels": (1, 64),
    "environments": (0, 10_000_000),
    "code": (1, 4096),
    "width": (1, 16_384),
    "blocks": (0, 256),
    "heads": (1, 256),
    "patch": (4, 4096),
    "decoder_width": (1, 65_536),
    "head_width": (1, 65_536),
    "copies": (0, 1024),
    "shifts": (0, 64),
    "products": (0, 4096),
    "layers": (0, 8),
    "bumps": (0, 1024),
    "degree": (0, 8),
    "steps": (1, 1000),
}
REAL = {
    "dt": (1e-30, 1e30),
    "scale": (1e-30, 1e30),
    "layer_scale": (-1e6, 1e6),
    "max_step": (1e-30, 1e30),
    "dealias": (1e-6, 2.0),
    "band": (1e-6, 1.0),
    "calm": (0.0, 1.0),
    "stream": (0.0, 1e6),
    "bump_wavenumber": (1e-30, 1e30),
    "wavenumber_scale": (1e-30, 1e30),
    "spacing": (1e-30, 1e30),
    "output_scale": (-1e6, 1e6),
    "prune": (0.0, 1e30),
    "cut": (0.0, 1e30),
    "max_strength": (1e-30, 1e30),
}
SWITCHES = {
    "constants", "absolute", "inverse", "quiet", "derivatives", "rescale", "head_bias", "bias",
    "conserve", "shifted", "moments",
}  # fmt: skip
MONOMIALS = 4096
POINTS = 2**30
STEPS_PER_FRAME = 10_000


def check_values(values: Any, what: str) -> None:
    """Every known setting has its type and lies in its range."""
    if not isinstance(values, Mapping):
        raise OpsplitError(f"{what} must be a table of settings, got {values!r:.60}.")
    for name, value in values.items():
        if name in WHOLE:
            low, high = WHOLE[name]
            if value is None and name == "products":
                continue
            if type(value) is not int or not low <= value <= high:
                raise OpsplitError(
                    f"{what}: {name} must be a whole number in {low}..{high}, got {value!r:.60}."
                )
        elif name in REAL:
            check_number(value, f"{what}: {name}", *REAL[name])
        elif name in SWITCHES and type(value) is not bool:
            raise OpsplitError(f"{what}: {name} must be true or false, got {value!r:.60}.")
        elif name == "power" and value not in (None, "learned"):
            check_number(value, f"{what}: power", -8, 8)
        elif name in ("centre", "spread", "pace", "mixing"):
            # A matrix over all monomials is as long as they are many, squared.
            check_list(value, f"{what}: {name}", 1_000_000 if name == "mixing" else 1000)
            for x in value:
                least = -1e30 if name in ("centre", "mixing") else 1e-30
                check_number(x, f"{what}: {name}", least, 1e30)
        elif name == "boundary" and value is not None:
            check_list(value, f"{what}: boundary", 3)
            if not set(map(str, value)) <= set(BOUNDARIES):
                raise OpsplitError(f"{what}: unknown boundary in {value!r:.60}.")


def check_number(value: Any, what: str, low: float, high: float) -> None:
    if type(value) not in (int, float) or not low <= value <= high:
        raise OpsplitError(f"{what} must be a number from {low:g} to {high:g}, got {value!r:.60}.")


def check_list(value: Any, what: str, most: int) -> None:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise OpsplitError(f"{what} must be a list of at most {most}, got {value!r:.60}.")


def check_names(value: Any, what: str, most: int = 1000) -> None:
    """Names end up on the terminal and in reports: words of ordinary characters."""
    check_list(value, what, most)
    for name in value:
        if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
            raise OpsplitError(f"{what} must be printable names, got {name!r:.60}.")


def check_family(family: str, settings: Mapping[str, Any], what: str) -> None:
    """The arguments of an operator family make sense together, too."""
    check_values(settings, what)
    channels, ndim = settings.get("channels", 1), settings.get("ndim", 1)
    if settings.get("boundary") is not None and len(settings["boundary"]) != ndim:
        raise OpsplitError(f"{what}: {ndim} axes need as many boundaries.")
    filters = 1 + ndim * (settings.get("derivatives", True) + settings.get("inverse", False))
    factors = channels * filters
    degree = settings.get("degree", 0)
    monomials = math.comb(factors + degree, factors)
    if monomials > MONOMIALS:
        raise OpsplitError(f"{what}: degree {degree} makes too many monomials.")
    if degree:
        if not settings.get("constants", True):
            monomials = math.comb(factors + degree - 1, degree)
        sizes = {"centre": channels, "spread": factors, "mixing": monomials**2}
        for name, n in sizes.items():
            if settings.get(name) and len(settings[name]) != n:
                raise OpsplitError(f"{what}: {name} needs {n} numbers, got {len(settings[name])}.")
    if family == "unet" and settings.get("width", 8) > 512:
        raise OpsplitError(f"{what}: width must be at most 512, got {settings['width']}.")
    if family == "unet" and settings.get("width", 8) % 4:
        raise OpsplitError(f"{what}: width must be a multiple of 4, got {settings['width']}.")


def check_config(raw: Mapping[str, Any]) -> None:
    """A configuration as it stands in `config.json`; what is missing is found when it is built."""
    check_values({k: v for k, v in raw.items() if k != "channels"}, "the model")
    for name in ("physics", "family", "recipe", "preset"):
        if name in raw:
            check_names([raw[name]], f"the model: {name}")
    for name, most in (("channels", 64), ("coefficients", 1000)):
        if name in raw:
            check_names(raw[name], f"the model: {name}", most)
    if raw.get("channels") == []:
        raise OpsplitError("the model: at least one of the channels is needed.")
    encoder, operator = raw.get("encoder", {}), raw.get("operator", {})
    check_values(encoder, "the encoder")
    check_values(operator, "the operator family")
    given = {"channels": len(raw.get("channels", "u")), "ndim": raw.get("ndim", 1), **operator}
    check_family(raw.get("family", ""), given, "the operator family")
    if encoder.get("width", 128) % encoder.get("heads", 4):
        raise OpsplitError("the encoder: width must be a multiple of heads.")
    frame = raw.get("dt", 1.0) / operator.get("max_step", 1.0) * operator.get("steps", 1)
    if "max_step" in operator and frame > STEPS_PER_FRAME:
        raise OpsplitError(f"the operator family takes {frame:.3g} steps from frame to frame.")
    check_grid(raw.get("grid"), raw.get("ndim"))


def check_grid(grid: Any, ndim: Any) -> None:
    if not isinstance(grid, Mapping):
        return
    for name in (n for n in ("shape", "extent", "boundary") if n in grid):
        check_list(grid[name], f"the grid: {name}", 3)
        if len(grid[name]) != ndim:
            raise OpsplitError(f"the grid: {name} must say one thing per axis, of {ndim}.")
    for n in grid.get("shape", ()):
        if type(n) is not int:
            raise OpsplitError(f"the grid: shape counts points, got {n!r:.60}.")
    if math.prod(grid.get("shape", ())) > POINTS:
        raise OpsplitError(f"the grid has more than {POINTS} points.")
    for length in grid.get("extent", ()):
        check_number(length, "the grid: extent", 1e-30, 1e30)
