"""Trajectories of fields: what is simulated, observed and trained on."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit._files import atomic, regular
from opsplit._memory import check_room
from opsplit._tensors import chosen_numbers, dense, usual_defaults
from opsplit.display import channel_number, html_facts, plot_fields, span
from opsplit.errors import OpsplitError, named
from opsplit.grid import Grid
from opsplit.terms import check_terms, terms_from, terms_to_text

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes


IMAGINARY = 1e-5
"""An imaginary part up to this share of the size of a field is rounding."""


def imaginary_share(values: np.ndarray) -> float:
    """The largest imaginary part over the largest absolute value."""
    size = float(np.nanmax(np.abs(values), initial=0.0))
    return float(np.nanmax(np.abs(values.imag), initial=0.0)) / size if size else 0.0


def rounded(share: float, what: str) -> str:
    """Say that an imaginary part of this share is left out, or refuse it if it is too large."""
    if share > IMAGINARY:
        raise OpsplitError(
            f"{what}: Fields must be real numbers, but the imaginary part is {share:.2g} of the "
            f"field's size (up to {IMAGINARY:g} counts as rounding). Give the real and the "
            "imaginary part as two channels."
        )
    return f"the imaginary part is rounding ({share:.1g} of the size) and left out"


def unmasked(array: Any) -> np.ndarray:
    """An array whose masked values, if it has a mask, are NaN."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        kind = np.result_type(array.dtype, np.float32)
        return np.asarray(np.ma.filled(array.astype(kind), np.nan))
    return np.asarray(array)


@dataclass(frozen=True)
class Trajectories:
    """Fields over time on one grid.

    Arguments:
        data: `(trajectory, time, channel, *space)`.
        times: physical time of every frame, increasing, shared by all trajectories.
        grid: the space.
        channels: a name per channel.
        coefficients: physical coefficients, one value per trajectory (may be empty).
        terms: what the coefficients multiply, to be printed, such as `{"D": "u_xx"}`.
        understood: how an array was read, if it was (`from_numpy`).

    Examples:
        >>> import numpy, opsplit
        >>> opsplit.Trajectories.from_numpy(numpy.random.rand(8, 32), dt=0.1, extent=16.0)
        Trajectories(1 of 8 frames, dt=0.1, channels u, grid 32, coefficients: none)
    """

    data: Tensor
    times: Tensor
    grid: Grid
    channels: tuple[str, ...] = ("u",)
    coefficients: Mapping[str, Tensor] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    understood: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.data, Tensor) and isinstance(self.grid, Grid)):
            raise OpsplitError("Trajectories need tensors and a Grid; `from_numpy` takes arrays.")
        expected = 3 + self.grid.ndim
        if self.data.ndim != expected or tuple(self.data.shape[3:]) != self.grid.shape:
            raise OpsplitError(
                f"Trajectories need data (trajectory, time, channel, *{self.grid.shape}), "
                f"got shape {tuple(self.data.shape)}. `Trajectories.from_numpy` adds missing axes."
            )
        if self.times.ndim != 1 or len(self.times) != self.data.shape[1]:
            raise OpsplitError(
                f"{self.data.shape[1]} frames need as many times, got {tuple(self.times.shape)}."
            )
        if len(self.channels) != self.data.shape[2]:
            raise OpsplitError(
                f"{self.data.shape[2]} channels need as many names, got {self.channels}."
            )
        check_terms(self.terms, "Trajectories")
        for name, values in self.coefficients.items():
            if tuple(values.shape) != (len(self),):
                raise OpsplitError(
                    f"Coefficient {name!r} needs one value for each of the {len(self)} "
                    f"trajectories, got shape {tuple(values.shape)}."
                )

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def __repr__(self) -> str:
        coefficients = ", ".join(self.coefficients) or "none"
        return (
            f"Trajectories({len(self)} of {len(self.times)} frames, dt={self.dt:.6g}, "
            f"channels {'/'.join(self.channels)}, grid {'x'.join(map(str, self.grid.shape))}, "
            f"coefficients: {coefficients})"
        )

    def _repr_html_(self) -> str:
        shape = " x ".join(map(str, self.grid.shape))
        size = " x ".join(f"{length:.5g}" for length in self.grid.extent)
        facts = {
            "trajectories": len(self),
            "frames": f"{len(self.times)}, from {self.times[0]:.5g} to {self.times[-1]:.5g}",
            "grid": f"{shape} points, length {size}, {', '.join(self.grid.boundary)}",
            "channels": ", ".join(self.channels),
        }
        facts |= {k: span(float(v.min()), float(v.max())) for k, v in self.coefficients.items()}
        return html_facts("Trajectories", facts)

    @named
    def plot(
        self,
        ax: Axes | None = None,
        trajectory: int = 0,
        channel: int | str = 0,
        frame: int = -1,
    ) -> Axes:
        """Draw one channel of one trajectory into `ax` or a new figure; the axes are returned.

        A line is drawn over time. Of a plane one `frame` is drawn.
        """
        number = channel_number(channel, self.channels)
        fields = self.data[trajectory, :, number].float().cpu().numpy()
        times, name = self.times.cpu().numpy(), self.channels[number]
        return plot_fields(fields, times, self.grid.extent, name, ax, frame)

    @property
    def dt(self) -> float:
        """The usual time between frames."""
        if len(self.times) < 2:
            raise OpsplitError("One frame has no time step: at least two frames are needed.")
        mean = float((self.times[-1] - self.times[0]) / (len(self.times) - 1))
        return mean if self.uniform else float(self.times.diff().median())

    @property
    def uniform(self) -> bool:
        """Whether frames are equally far apart (times read from a file are rounded)."""
        steps = self.times.diff().double()
        return torch.allclose(steps, steps.mean(), rtol=1e-3, atol=0)

    def __iter__(self) -> Iterator[Trajectories]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray | Tensor) -> Trajectories:
        """Some of the trajectories, or one, with their coefficients."""
        chosen = chosen_numbers(index, len(self), "trajectories")
        return Trajectories(
            self.data[chosen],
            self.times,
            self.grid,
            self.channels,
            {name: values[chosen] for name, values in self.coefficients.items()},
            terms=self.terms,
        )

    def windows(self, length: int, starts: int | Sequence[int] | Tensor) -> Trajectories:
        """`length` consecutive frames of every trajectory, from its own start frame."""
        begin = torch.as_tensor(starts).expand(len(self))
        if length < 1 or int(begin.min()) < 0 or int(begin.max()) + length > len(self.times):
            raise OpsplitError(
                f"Windows of {length} frames starting at {int(begin.min())}..{int(begin.max())} "
                f"do not fit into {len(self.times)} frames."
            )
        frames = begin[:, None] + torch.arange(length)
        return Trajectories(
            self.data[torch.arange(len(self))[:, None], frames],
            self.times[:length],
            self.grid,
            self.channels,
            self.coefficients,
            terms=self.terms,
        )

    def environments(self) -> tuple[Tensor, Tensor]:
        """Which dynamics each trajectory follows, and the first trajectory of each dynamics.

        Equal coefficients mean one dynamics; without coefficients each trajectory has its own.
        Dynamics are numbered in the order of their first trajectory.
        """
        everyone = torch.arange(len(self))
        if not self.coefficients:
            return everyone, everyone
        table = torch.stack([v.double() for v in self.coefficients.values()], 1)
        rows, group = torch.unique(table, dim=0, return_inverse=True)
        first = torch.full((len(rows),), len(self)).scatter_reduce(0, group, everyone, "amin")
        order = first.argsort()
        return order.argsort()[group], first[order]

    def split(self, *fractions: float, seed: int) -> tuple[Trajectories, ...]:
        """Disjoint random parts, such as `split(0.9, 0.1, seed=0)`."""
        if not fractions or min(fractions) <= 0 or sum(fractions) > 1 + 1e-9:
            raise OpsplitError(f"Fractions must be positive and sum to at most 1, got {fractions}.")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        edges = (torch.tensor([0.0, *fractions]).cumsum(0) * len(self)).round().long().tolist()
        return tuple(self[order[a:b]] for a, b in pairwise(edges))

    @classmethod
    @usual_defaults()
    def from_numpy(
        cls,
        array: Any,
        *,
        dt: float | None = None,
        times: Any = None,
        extent: float | Sequence[float] | None = None,
        ndim: int = 1,
        channels: Sequence[str] | None = None,
        boundary: str | Sequence[str] = "periodic",
        coefficients: Mapping[str, Any] | None = None,
        terms: Mapping[str, str] | None = None,
    ) -> Trajectories:
        """Read an array whose channel and trajectory axes may be missing.

        With `ndim` space axes: `(time, *space)`, `(time, channel, *space)` or
        `(trajectory, time, channel, *space)`. Frames are `dt` apart or at `times`; a frame that
        is NaN everywhere is missing and left out, another NaN is a missing value and stays. What
        was understood is kept in `.understood`.
        """
        if not 1 <= ndim <= 3:
            raise OpsplitError(f"Fields have 1 to 3 space axes, got ndim={ndim}.")
        if not isinstance(array, Tensor):
            given_array = unmasked(array)
            if given_array.dtype.kind not in "fiuc":
                raise OpsplitError(f"Fields must be real numbers, got {given_array.dtype}.")
            # A copy: the array may be read-only, reversed or in another byte order.
            kind = given_array.dtype.newbyteorder("=")
            if kind.itemsize > (16 if kind.kind == "c" else 8):
                # torch has no numbers longer than double precision.
                kind = np.dtype(np.complex128 if kind.kind == "c" else np.float64)
            array = given_array.astype(kind, order="C")
        data = dense(torch.as_tensor(array))
        if data.dtype == torch.bool:
            raise OpsplitError(f"Fields must be real numbers, got {data.dtype}.")
        rounding = ""
        if data.is_complex():
            rounding = f"; {rounded(imaginary_share(data.numpy(force=True)), 'the array')}"
            data = data.real.contiguous()
        if not data.is_floating_point():
            data = data.to(torch.float32)
        if (dt is None) == (times is None):
            raise OpsplitError("Say when the frames are: either dt=0.1 or times=[0, 0.1, 0.25].")
        if dt is not None and not is_positive(dt):
            raise OpsplitError(f"dt is the time between frames and must be positive, got {dt!r}.")
        missing = 3 + ndim - data.ndim
        if not 0 <= missing <= 2:
            raise OpsplitError(
                f"An array of shape {tuple(data.shape)} cannot be read as {ndim}-D fields over "
                f"time: expected (time, *space), (time, channel, *space) or "
                f"(trajectory, time, channel, *space) with {ndim} space "
                f"ax{'is' if ndim == 1 else 'es'}."
            )
        words = ["trajectory", "time", "channel", *"xyz"[:ndim]]
        given = [words, words[1:], [words[1], *words[3:]]][missing]
        understood = ", ".join(f"{w} {n}" for w, n in zip(given, data.shape, strict=True))
        if missing == 2:
            data = data.unsqueeze(1)
        if missing >= 1:
            data = data.unsqueeze(0)
        if data.shape[1] < 2:
            raise OpsplitError(
                f"Read as ({understood}), that is a single frame: dynamics need at least 2 frames."
            )
        if dt is not None:
            moments = torch.arange(data.shape[1], dtype=torch.float64) * dt
        else:
            moments = _increasing(times, data.shape[1])
        understood += rounding
        gone = data.isnan().transpose(0, 1).flatten(1).all(1).cpu()
        if bool(gone.any()):
            missing_frames = ", ".join(map(str, gone.nonzero()[:, 0].tolist()[:8]))
            understood += f"; {int(gone.sum())} frames are missing ({missing_frames})"
            data, moments = data[:, ~gone], moments[~gone]
            if data.shape[1] < 2:
                raise OpsplitError(f"Read as ({understood}), fewer than 2 frames are there.")
        bad = data.isinf()
        if bool(bad.any()):
            frame = int((~gone).nonzero()[bad.nonzero()[0, 1]])
            raise OpsplitError(
                f"{int(bad.sum())} values are infinite, the first in frame {frame} "
                f"(read as {understood}). Fill or cut them before fitting."
            )
        shape = tuple(data.shape[3:])
        if extent is not None and np.size(extent) not in (1, ndim):
            raise OpsplitError(f"Each of the {ndim} space axes needs one extent, got {extent}.")
        lengths = shape if extent is None else np.broadcast_to(extent, (ndim,)).tolist()
        names = tuple(
            channels or (["u"] if data.shape[2] == 1 else [f"u{i}" for i in range(data.shape[2])])
        )
        ends = (
            boundary if isinstance(boundary, str) or not np.iterable(boundary) else tuple(boundary)
        )
        grid = Grid(shape, tuple(lengths), ends)
        known = {
            k: torch.as_tensor(v, dtype=torch.float64).reshape(-1)
            for k, v in (coefficients or {}).items()
        }
        return cls(data, moments, grid, names, known, f"({understood})", terms=terms or {})

    def to_xarray(self) -> xarray.Dataset:
        """An `xarray.Dataset` with named axes, coordinates and coefficients."""
        from opsplit.xarrays import to_xarray

        attrs = {"terms": terms_to_text(self.terms)} if self.terms else {}
        return to_xarray(self.data, self.times, self.grid, self.channels, self.coefficients, attrs)

    def save(self, path: str | Path) -> Path:
        """Write one `.npz` file (arrays only, no pickle), whole or not at all."""
        target = Path(path)
        with atomic(target) as partial, open(partial, "wb") as stream:
            np.savez(
                stream,
                data=self.data.numpy(),
                times=self.times.numpy(),
                extent=np.array(self.grid.extent),
                boundary=np.array(self.grid.boundary),
                channels=np.array(self.channels),
                terms=np.array(terms_to_text(self.terms)),
                **{f"coefficient.{k}": v.numpy() for k, v in self.coefficients.items()},  # type: ignore[arg-type]
            )
        return target

    @classmethod
    @usual_defaults()
    def load(cls, path: str | Path) -> Trajectories:
        """Read what `save` wrote."""
        try:
            regular(Path(path))
            with zipfile.ZipFile(path) as packed:
                check_room(str(path), sum(member.file_size for member in packed.infolist()))
            with np.load(path, allow_pickle=False) as archive:
                held = {name: archive[name] for name in archive.files}
            grid = Grid(
                held["data"].shape[3:], tuple(held["extent"]), tuple(held["boundary"].tolist())
            )
            return cls(
                torch.from_numpy(held["data"]),
                torch.from_numpy(held["times"]),
                grid,
                tuple(held["channels"].tolist()),
                {
                    k.split(".", 1)[1]: torch.from_numpy(v)
                    for k, v in held.items()
                    if k.startswith("coefficient.")
                },
                terms=terms_from(held["terms"], str(path)) if "terms" in held else {},
            )
        except FileNotFoundError:
            raise OpsplitError(f"No such file: {path}") from None
        except OpsplitError:
            raise
        # A damaged archive raises whatever its parsers meet: zlib.error, TokenError, MemoryError.
        except Exception as reason:
            said = " ".join(str(reason).split())[:300] or type(reason).__name__
            raise OpsplitError(
                f"{path} is not a trajectory file of `opsplit generate`: {said}"
            ) from None


def is_positive(x: Any) -> bool:
    """Whether it is a finite positive number."""
    return isinstance(x, int | float | np.number) and bool(np.isfinite(x)) and bool(x > 0)


def _increasing(times: Any, frames: int) -> Tensor:
    """Times as numbers, one per frame and each later than the one before."""
    try:
        given = times.cpu().numpy() if isinstance(times, Tensor) else times
        # A copy: times of a file may be read-only.
        found = torch.from_numpy(np.array(given, dtype=np.float64)).reshape(-1)
    except (TypeError, ValueError):
        raise OpsplitError(f"times must be a list of numbers, got {times!r:.80}.") from None
    if len(found) != frames:
        raise OpsplitError(f"{frames} frames need as many times, got {len(found)}.")
    if not bool(found.isfinite().all()) or not bool((found.diff() > 0).all()):
        raise OpsplitError("times must be finite and increase from frame to frame.")
    return found
