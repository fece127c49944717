"""A pretrained model on disk and in memory: hypernetwork, operator family and dictionary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from opsplit._files import read_json, write_json
from opsplit._version import __version__
from opsplit.config import ModelConfig
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.predict.calibration import Calibration
from opsplit.pretrain.disco import Disco

FORMAT = 1
ZOO = Path(__file__).parent / "zoo"
HALF_ABOVE = 1_000_000
"""Tensors with more numbers than this are stored in half precision."""


@dataclass(frozen=True)
class Model:
    """A hypernetwork with the dictionary of operators it was pretrained on."""

    disco: Disco
    dictionary: OperatorDictionary
    metrics: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None

    @property
    def config(self) -> ModelConfig:
        return self.disco.config

    def __repr__(self) -> str:
        c = self.config
        return f"Model({c.physics}, {c.family}, {c.recipe}, {c.preset}; {self.dictionary!r})"

    @torch.no_grad()
    def read(self, window: Tensor) -> OperatorDictionary:
        """The one operator that the hypernetwork itself reads from frames (direct prediction)."""
        codes = self.disco.encode(window[None].to(next(self.disco.parameters())))
        part = Part(self.disco.family, codes, self.disco.decoder, self.config.scale)
        return OperatorDictionary((part,), {}, ("read from the window",))

    def check(self, grid: Grid, channels: int) -> None:
        """Raise with the reason if this model cannot take such fields."""
        names = self.config.channels
        if channels != len(names):
            raise OpsplitError(
                f"The model {self.config.physics!r} knows {len(names)} channel(s) "
                f"({', '.join(names)}), the data have {channels}."
            )
        self.disco.family.check_grid(grid)

    def save(self, folder: str | Path) -> Path:
        """Write a model directory: configuration, weights, dictionary and metrics."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        write_json(
            target / "config.json",
            {"format": FORMAT, "version": __version__, **asdict(self.config)},
        )
        tensors = {
            name: (t.half() if t.numel() > HALF_ABOVE else t).detach().cpu().contiguous()
            for name, t in self.disco.state_dict().items()
        }
        save_file(tensors, target / "model.safetensors")
        self.dictionary.save(target, with_decoders=False)
        write_json(target / "metrics.json", self.metrics)
        if self.calibration is not None:
            self.calibration.save(target)
        return target

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """Read a model directory."""
        source = Path(folder)
        raw = read_json(source / "config.json")
        found = raw.get("format") if isinstance(raw, dict) else None
        if found != FORMAT:
            raise OpsplitError(f"{source} has model format {found}, this opsplit reads {FORMAT}.")
        try:
            disco = Disco(ModelConfig.from_dict(raw))
        except OpsplitError as reason:
            raise OpsplitError(f"{source}: {reason}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as reason:
            raise OpsplitError(
                f"{source / 'config.json'} does not describe a model: {reason}"
            ) from None
        try:
            tensors = load_file(source / "model.safetensors")
            disco.load_state_dict({name: t.float() for name, t in tensors.items()})
        except FileNotFoundError:
            raise OpsplitError(f"{source} has no model.safetensors.") from None
        except (SafetensorError, RuntimeError, OSError) as reason:
            first = str(reason).strip().splitlines()[0]
            raise OpsplitError(
                f"{source / 'model.safetensors'} cannot be read ({first}). "
                "The file is damaged or belongs to another configuration."
            ) from None
        disco.eval().requires_grad_(False)
        dictionary = OperatorDictionary.load(source, disco.decoder)
        metrics = read_json(source / "metrics.json") if (source / "metrics.json").exists() else {}
        return cls(disco, dictionary, metrics, Calibration.load(source))


def bundled() -> dict[str, list[str]]:
    """Names of the bundled models and the families of each."""
    found: dict[str, list[str]] = {}
    for config in sorted(ZOO.glob("*/*/config.json")):
        found.setdefault(config.parents[1].name, []).append(config.parent.name)
    return found


def locate(model: str | Path, family: str | None = None) -> Path:
    """The directory of a bundled name (`"advection-diffusion"`) or of a path."""
    path = Path(model)
    names = bundled()
    if str(model) in names:
        families = names[str(model)]
        if family is not None and family not in families:
            raise OpsplitError(
                f"{model} is bundled with the families {families}, not with {family!r}."
            )
        chosen = family or ("spectral" if "spectral" in families else families[0])
        return ZOO / str(model) / chosen
    if (path / "config.json").exists():
        return path
    raise OpsplitError(
        f"Unknown model {str(model)!r}: neither a bundled name ({', '.join(names) or 'none'}) "
        "nor a directory with a config.json."
    )


def load_model(model: str | Path | Model, family: str | None = None) -> Model:
    """A model from a bundled name, a directory, or as it is."""
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
