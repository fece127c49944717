"""What the small arrays beside a field say, by their names: times, places, steps, coefficients."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from opsplit.io.axes import letter_of

WORD = re.compile(r"[a-z]+\d*|\d+")
NOISE = frozenset(
    re.findall(
        r"\w+",
        "array arr grid coord coords coordinate coordinates points pts vec vector values vals val "
        "axis data mesh span list space center centers centre centres cell cells m mm cm km um nm "
        "s ms us ns min h hr hour hours d day days yr year years sec seconds",
    )
)
"""Words that may stand beside the name of an axis: `x_grid`, `time_s`, `t-coordinate`."""
JOINED = re.compile(
    r"^(t|time|x|y|z)(s|span|grid|list|arr|array|vec|vector|coords?|pts|axis|vals?|mesh|\1)$"
)
STEPS = ("dt", "delta_t", "deltat", "time_step", "timestep", "sampling_interval")
RATES = ("fps", "frame_rate", "framerate", "sampling_rate")
SPACINGS = {a: (f"d{a}", f"delta_{a}", f"delta{a}") for a in "xyz"}
SPACING = ("spacing", "grid_spacing", "pixel_size", "voxel_size")
EXTENT = (
    "extent", "box_size", "l", "length", "box", "box_length", "domain_length", "domain_size",
)  # fmt: skip
EXTENTS = {a: (f"l{a}", f"length_{a}", f"{a}_length", f"{a}_extent") for a in "xyz"}
UNSURE = re.compile(
    r"^(arr_\d+|depth|height|altitude|elevation|level|radius|chainage|arc_?length|[rs])$"
)
"""Names of arrays that are coordinates if they rise and are as long as an axis: those that numpy
gives to arrays without one, and quantities that may be fields as well."""
COUNTS = ("frame", "frames", "step", "steps")
"""Numbers of frames are no times."""


MEANINGS = {
    **dict.fromkeys(STEPS, "dt"), **dict.fromkeys(RATES, "fps"),
    **dict.fromkeys(SPACING, "spacing"), **dict.fromkeys(EXTENT, "extent"),
    **{word: f"d{a}" for a, words in SPACINGS.items() for word in words},
    **{word: f"L{a}" for a, words in EXTENTS.items() for word in words},
}  # fmt: skip


def role(name: str) -> str:
    """What an array of this name says: `t`, `x`, `y`, `z`, `dt`, `fps`, `dx`, `Lx`, `extent`, ...;
    nothing for a name without a usual meaning."""
    low = name.strip().lower()
    # A small l is no length.
    if low in MEANINGS and name != "l":
        return MEANINGS[low]
    words = [word for word in WORD.findall(low) if word not in NOISE]
    if len(words) != 1 or words[0] in COUNTS:
        return ""
    found = JOINED.match(words[0])
    letter = letter_of(found[1] if found else words[0])
    return letter if letter in ("t", "x", "y", "z") else ""


def is_beside(name: str) -> bool:
    """Whether an array of this name says where or when a field was observed."""
    return bool(role(name))


def fields_among(shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """The arrays that may be fields over space and time; the others stand beside them."""
    large = [k for k, s in shapes.items() if sum(n > 1 for n in s) > 1]
    fields = [k for k in large if not is_beside(k)]
    # A temperature may be called `T` where there are times `t` besides.
    return fields or [k for k in large if k != k.lower() or not JOINED.match(k + "s")]


@dataclass(frozen=True)
class Beside:
    """What is known beside a field.

    Arguments:
        times: moments of the frames.
        points: coordinates by the letter of their axis.
        step: time between frames.
        spacings: distance of points by axis; `""` holds for all axes.
        lengths: of the box by axis; `""` holds for all axes, or one after the other.
        order: letters of axes in the order in which coordinates of several axes have them.
        rest: coefficients.
    """

    times: np.ndarray | None
    points: Mapping[str, np.ndarray]
    step: float | None
    spacings: Mapping[str, np.ndarray]
    lengths: Mapping[str, np.ndarray]
    order: tuple[str, ...]
    rest: Mapping[str, np.ndarray]
    said: tuple[str, ...] = ()

    @property
    def ndim(self) -> int:
        """The fewest space axes that the field must have."""
        named = {*self.points, *self.spacings, *self.lengths} - {""}
        return max(("xyz".index(a) + 1 for a in named), default=1) if "x" in named else 1

    def extent(self, space: Mapping[str, int]) -> tuple[float, ...] | None:
        """Lengths of all axes by a stored extent, or by stored spacings times points."""
        axes = sorted(space)
        for held, factors in ((self.lengths, None), (self.spacings, space)):
            whole, first = held.get(""), held.get("x")
            if whole is not None and len(whole) in (1, len(axes)):
                found = np.broadcast_to(whole, len(axes))
            elif first is not None and len(first) == len(axes):
                found = first
            elif first is not None:
                # One spacing `dx` holds for all axes.
                found = np.array([float(held.get(a, first)[0]) for a in axes])
            else:
                continue
            if factors is not None:
                found = found * [factors[a] for a in axes]
            return tuple(float(v) for v in found)
        return None


def understood(others: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Beside:
    """Sort the arrays beside a field of this shape by what they say."""
    coordinates: dict[str, np.ndarray] = {}
    order: list[str] = []
    step: float | None = None
    spacings: dict[str, np.ndarray] = {}
    lengths: dict[str, np.ndarray] = {}
    rest, said = {}, []
    several: dict[tuple[int, ...], dict[str, int]] = {}
    # Exact names come first: beside `t`, an array `T` may be anything.
    for name in sorted(others, key=lambda k: (k != k.lower(), len(k))):
        values, meaning = others[name], role(name)
        if values.dtype.kind in "mM":
            values = in_seconds(values)
            said.append(f"{name} is read as seconds.")
        numbers = np.ravel(values).astype(np.float64)
        scalar = numbers.size == 1
        if meaning in ("t", "x", "y", "z"):
            line, axis = _line(values)
            if meaning not in coordinates and line is not None and len(line) > 1:
                coordinates[meaning] = line
                if axis is not None:
                    several.setdefault(values.shape, {})[meaning] = axis
            elif not scalar:
                said.append(f"Not used: {name}.")
        elif meaning == "dt" and step is None and numbers[0] > 0:
            step = float(numbers[0])
        elif meaning == "fps" and step is None and numbers[0] > 0:
            step = 1 / float(numbers[0])
            said.append(f"Its {name} says {step:.6g} between frames.")
        elif meaning == "spacing" or (meaning.startswith("d") and meaning != "dt"):
            spacings.setdefault("" if meaning == "spacing" else meaning[1:], numbers)
        elif (meaning == "extent" and len(numbers) <= 3) or meaning.startswith("L"):
            lengths.setdefault("" if meaning == "extent" else meaning[1:], numbers)
        else:
            rest[name] = numbers
    for held in several.values():
        if len(held) > 1:
            order.append("".join(sorted(held, key=lambda a: held[a])))
    times = coordinates.pop("t", None)
    named = dict(zip(sorted(coordinates), "xyz", strict=False))
    if any(a != b for a, b in named.items()):
        said.append(f"Its {', '.join(named)} are called {', '.join(named.values())} here.")
        coordinates = {named[a]: v for a, v in coordinates.items()}
        order = ["".join(named.get(a, a) for a in word) for word in order]
    if coordinates:
        # Where places are stored, a number `L` may be a coefficient or the same again.
        rest |= {k: np.ravel(others[k]).astype(np.float64) for k in others if k == "L"}
        lengths = {k: v for k, v in lengths.items() if "L" not in others or k}
    return Beside(
        times, coordinates, step, spacings, lengths, tuple(order), rest, tuple(said)
    )  # fmt: skip


def numbered(
    beside: Beside, letters: str, shape: Iterable[int]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Axes for arrays that only have a number: those that rise and are as long as one axis."""
    size = dict(zip(letters, shape, strict=True))
    known = {*beside.points, *("t" if beside.times is not None else "")}
    found: dict[str, np.ndarray] = {}
    said = []
    for name, values in beside.rest.items():
        fitting = [a for a, n in size.items() if n == len(values) > 1]
        if not UNSURE.match(name) or len(fitting) != 1 or fitting[0] not in "txyz":
            continue
        if fitting[0] not in known | found.keys() and bool((np.diff(values) > 0).all()):
            found[fitting[0]] = values
            said.append(f"{name} rises and is as long as {fitting[0]}: its coordinates.")
    return found, said


def in_seconds(values: np.ndarray) -> np.ndarray:
    """Dates and durations as seconds after the first."""
    flat = np.ravel(values)
    seconds: np.ndarray = (flat - flat[:1]) / np.timedelta64(1, "s")
    return seconds.reshape(values.shape)


def _line(values: np.ndarray) -> tuple[np.ndarray | None, int | None]:
    """Coordinates of one axis, also from an array over several axes that varies along one.

    With the number of that axis, where there are several.
    """
    long = [i for i, n in enumerate(values.shape) if n > 1]
    if len(long) < 2:
        return np.ravel(values).astype(np.float64), None
    varies = [i for i in long if not bool((values == values.take([0], i)).all())]
    if len(varies) != 1:
        return None, None
    index = tuple(slice(None) if i == varies[0] else 0 for i in range(values.ndim))
    return values[index].astype(np.float64), varies[0]
