"""A pretrained model on disk and in memory: hypernetwork, operator family and dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit._files import inside, read_json, together, write_json
from opsplit._tensors import (
    LARGEST,
    Shapes,
    about_as_many,
    read_tensors,
    same_shapes,
    save_tensors,
    usual_defaults,
)
from opsplit._version import __version__
from opsplit.calibration import Calibration
from opsplit.dictionary import OperatorDictionary, Part, wrong_format
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.decoder import UNITS
from opsplit.hypernetwork.disco import Disco
from opsplit.operators import OperatorFamily
from opsplit.physics import first_physics
from opsplit.settings import path_argument, shown

FORMAT = 2
ZOO = Path(__file__).parent / "zoo"
DEFAULT_MODEL = first_physics()
"""The bundled model that goes with operators of the caller's own."""
AUTO = "auto"
"""The name that lets every bundled model be tried."""
HALF_ABOVE = 1_000_000
"""Tensors with more numbers than this are stored in half precision."""


@dataclass(frozen=True)
class Model:
    """A hypernetwork with the dictionary of operators it was pretrained on.

    Examples:
        >>> import opsplit
        >>> opsplit.load_model("advection-diffusion").config.channels
        ('u',)
    """

    disco: Disco
    dictionary: OperatorDictionary
    metrics: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    lifted: ModelConfig | None = None
    """The settings on fields with more axes than the hypernetwork reads."""

    @property
    def config(self) -> ModelConfig:
        """Settings of the model: grid, channels, operators and codes."""
        return self.lifted or self.disco.config

    def lift(self, ndim: int, apart: bool = False) -> Model:
        """The model with its dictionary on fields with more axes; it is not calibrated there."""
        if ndim == self.config.ndim:
            return self
        dictionary = self.dictionary.lift(ndim, apart)
        config = lifted_config(self.config, ndim, dictionary.parts[0].family)
        return Model(self.disco, dictionary, self.metrics, None, config)

    def __repr__(self) -> str:
        c = self.config
        return f"Model({c.physics}, {c.family}, {c.recipe}, {c.preset}; {self.dictionary!r})"

    @torch.no_grad()
    @usual_defaults()
    def read(self, window: Tensor) -> OperatorDictionary:
        """The one operator that the hypernetwork itself reads from frames (direct prediction)."""
        if self.lifted is not None:
            raise OpsplitError(
                f"The hypernetwork reads {self.disco.config.ndim}-D fields only, not "
                f"{self.lifted.ndim}-D ones; search the dictionary instead."
            )
        codes = self.disco.encode(window[None].to(next(self.disco.parameters())))
        part = Part(self.disco.family, codes, self.disco.decoder, self.config.scale)
        found = OperatorDictionary((part,), {}, ("read from the window",))
        return found.pruned(self.config.prune) if self.config.prune else found

    def check(self, grid: Grid, channels: int) -> None:
        """Raise with the reason if this model cannot take such fields."""
        names = self.config.channels
        if channels != len(names):
            raise OpsplitError(
                f"The model {self.config.physics!r} knows {len(names)} channel(s) "
                f"({', '.join(names)}), the data have {channels}."
            )
        self.config.operator.check_grid(grid)

    def save(self, folder: str | Path) -> Path:
        """Write a model directory: configuration, weights, dictionary and metrics."""
        if self.lifted is not None:
            raise OpsplitError("A lifted model is not saved; save its dictionary, or lift again.")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        tensors = {
            name: (t.half() if t.numel() > HALF_ABOVE else t).detach().cpu().contiguous()
            for name, t in self.disco.state_dict().items()
        }
        with together():
            save_tensors(target / "model.safetensors", tensors)
            self.dictionary.save(target, with_decoders=False)
            write_json(target / "metrics.json", self.metrics)
            if self.calibration is not None:
                self.calibration.save(target)
            write_json(
                target / "config.json",
                {"format": FORMAT, "version": __version__, **self.config.to_json()},
            )
        return target

    @classmethod
    @usual_defaults()
    def load(cls, folder: str | Path) -> Model:
        """Read a model directory; it may come from anywhere.

        Nothing in it is run, and nothing is allocated before the configuration has been checked
        and the weights' names, types and shapes are those that it describes.
        """
        source = Path(folder)
        config = load_config(source)
        built: list[Disco] = []

        def check(found: Shapes) -> None:
            # Only a file that holds about as many weights is worth the memory of a model.
            about_as_many(config.numbers(), found)
            built.append(Disco(config))
            _same_weights(built[0].state_dict())(found)

        tensors = read_tensors(source, "model.safetensors", check)
        disco = built[0]
        disco.load_state_dict(disco.state_dict() | {name: t.float() for name, t in tensors.items()})
        disco.eval().requires_grad_(False)
        dictionary = OperatorDictionary.load(source, disco.decoder)
        mine = (len(config.channels), config.ndim)
        if any((p.family.channels, p.family.ndim) != mine for p in dictionary.parts):
            raise OpsplitError(f"{source}: the dictionary is not of the model's channels and axes.")
        metrics = inside(source, "metrics.json")
        said = read_json(metrics) if metrics.exists() else {}
        _check_metrics(metrics, said)
        return cls(disco, dictionary, said, Calibration.load(source))


def lifted_config(config: ModelConfig, ndim: int, operator: OperatorFamily) -> ModelConfig:
    """The settings of a model on fields with more axes."""
    return replace(config, grid=lifted_grid(config.grid, ndim), operator=operator)


def lifted_grid(grid: Grid, ndim: int) -> Grid:
    """A grid with more axes, the new ones like the last one."""
    more = ndim - grid.ndim
    return Grid(
        (*grid.shape, *grid.shape[-1:] * more),
        (*grid.extent, *grid.extent[-1:] * more),
        (*grid.boundary, *grid.boundary[-1:] * more),
    )


def _check_metrics(file: Path, said: Any) -> None:
    """Refuse records of a training whose types nobody expects."""
    if not isinstance(said, dict):
        raise OpsplitError(f"{file} must hold a table, not {shown(said)}.")
    before = said.get("before", [])
    if not isinstance(before, list) or not all(isinstance(run, dict) for run in before):
        raise OpsplitError(f"{file}: before must be a list of tables, not {shown(before)}.")
    kinds = {"command": str, "structure": dict, "validation": dict, "minutes": (int, float)}
    for run in (said, *before):
        for key, kind in kinds.items():
            if key in run and not isinstance(run[key], kind):  # type: ignore[arg-type]
                raise OpsplitError(f"{file}: {key} must not be {shown(run[key])}.")


def _config(file: Path, raw: dict[str, Any]) -> ModelConfig:
    """A configuration whose model may be built: nothing is allocated before its size is known."""
    values = {k: v for k, v in raw.items() if k not in ("format", "version")}
    try:
        config = ModelConfig.from_json(values, "it")
        size = 4 * config.numbers()
        if size > LARGEST:
            raise OpsplitError(
                f"the model takes about {size / 1e9:.3g} GB, more than {LARGEST / 1e9:g}."
            )
    except OpsplitError as reason:
        raise OpsplitError(f"{file}: {reason}") from None
    return config


def _same_weights(held: dict[str, Tensor]) -> Callable[[Shapes], None]:
    """A check that a file holds these weights; a decoder's units may be missing."""

    def check(found: Shapes) -> None:
        units = {f"decoder.{name}" for name in UNITS}
        wanted = {k: tuple(t.shape) for k, t in held.items() if k in found or k not in units}
        same_shapes(wanted)(found)

    return check


def load_config(folder: str | Path) -> ModelConfig:
    """The configuration of a model directory, without its weights."""
    source = Path(folder)
    raw = read_json(inside(source, "config.json"), finite=True)
    found = raw.get("format") if isinstance(raw, dict) else None
    if type(found) is not int or found != FORMAT:
        raise OpsplitError(wrong_format(source, found, FORMAT))
    return _config(source / "config.json", raw)


@cache
def _other_zoos() -> tuple[Path, ...]:
    """Folders of models of other installed packages; looking for them takes a while."""
    return tuple(Path(e.load()) for e in entry_points(group="opsplit.models"))


def _homes() -> dict[str, dict[str, Path]]:
    """Directories of the bundled models by name and family.

    Other packages, such as opsplit-unets, add a folder by an entry point of `opsplit.models`.
    """
    found: dict[str, dict[str, Path]] = {}
    for zoo in (ZOO, *_other_zoos()):
        for config in sorted(zoo.glob("*/*/config.json")):
            families = found.setdefault(config.parents[1].name, {})
            families.setdefault(config.parent.name, config.parent)
    return found


def bundled() -> dict[str, list[str]]:
    """Names of the bundled models and the families of each."""
    return {name: list(families) for name, families in _homes().items()}


def locate(model: str | Path, family: str | None = None) -> Path:
    """The directory of a bundled name (`opsplit info` lists them) or of a path."""
    path = path_argument(model, "A model that is no bundled name")
    names = _homes()
    if str(model) in names:
        families = names[str(model)]
        if family is not None and family not in families:
            more = "; pip install opsplit-unets brings the U-Nets" if family == "unet" else ""
            raise OpsplitError(
                f"{model} is bundled with the families {list(families)}, not with {family!r}{more}."
            )
        return families[family or ("spectral" if "spectral" in families else min(families))]
    if (path / "config.json").exists():
        return path
    raise OpsplitError(
        f"Unknown model {str(model)!r}: neither a bundled name ({', '.join(names) or 'none'}) "
        "nor a directory with a config.json."
    )


def load_model(model: str | Path | Model, family: str | None = None) -> Model:
    """A model from a bundled name, a directory, or as it is.

    Returns:
        The model.

    Raises:
        OpsplitError: if the name is unknown, or the directory is damaged or of another family.

    Examples:
        >>> import opsplit
        >>> opsplit.load_model("combined", family="spectral").config.ndim
        1
    """
    if isinstance(model, Model):
        if family is not None and model.config.family != family:
            raise OpsplitError(
                f"The given model is of family {model.config.family!r}, not {family!r}."
            )
        return model
    loaded = Model.load(locate(model, family))
    if family is not None and loaded.config.family != family:
        raise OpsplitError(f"{model} is of family {loaded.config.family!r}, not {family!r}.")
    return loaded
