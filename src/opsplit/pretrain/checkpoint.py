"""Resume state: everything training needs to go on exactly, in one safetensors file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from opsplit._tensors import Shapes, read_tensors, same_shapes, save_tensors
from opsplit.errors import OpsplitError

FILE = "resume.safetensors"


def save_state(
    path: Path, model: nn.Module, average: dict[str, Tensor], optimiser: Any, facts: dict[str, Any]
) -> None:
    """Write weights, averaged weights, optimiser and counters, whole or not at all."""
    tensors = {f"model.{name}": t for name, t in model.state_dict().items()}
    tensors |= {f"average.{name}": t for name, t in average.items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": t for name, t in state.items()}
    # Cloned, because a file must not share memory with weights that go on changing.
    tensors = {name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}
    save_tensors(path, tensors, {"facts": json.dumps(facts)})


def load_state(
    path: Path, model: nn.Module, average: dict[str, Tensor], optimiser: Any
) -> dict[str, Any]:
    """Put back what `save_state` wrote; returns the counters.

    The file is believed only if it holds finite numbers of just these names and shapes.
    """
    weights = [p for group in optimiser.param_groups for p in group["params"]]

    def check(found: Shapes) -> None:
        expected = {f"model.{k}": tuple(t.shape) for k, t in model.state_dict().items()}
        expected |= {f"average.{k}": tuple(t.shape) for k, t in average.items()}
        for name, shape in found.items():
            words = name.split(".")
            if words[0] == "optimiser" and words[1].isdigit() and int(words[1]) < len(weights):
                whole = tuple(weights[int(words[1])].shape)
                expected[name] = shape if shape == () else whole
        same_shapes(expected)(found)

    try:
        held = read_tensors(path.parent, path.name, check)
        with safe_open(path, "pt") as file:
            facts = _facts(file.metadata())
    except (OpsplitError, SafetensorError, OSError, ValueError) as reason:
        raise OpsplitError(f"{reason} Delete {path} to start this run again.") from None

    def group(prefix: str) -> dict[str, Tensor]:
        return {n[len(prefix) :]: t for n, t in held.items() if n.startswith(prefix)}

    model.load_state_dict(group("model."))
    for name, tensor in group("average.").items():
        average[name].copy_(tensor)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in group("optimiser.").items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    return facts


def _facts(metadata: dict[str, str] | None) -> dict[str, Any]:
    """The counters; anything but finite numbers that are not negative is refused."""
    found: Any = json.loads((metadata or {}).get("facts", "null"))
    for name in ("step", "seconds", "running"):
        value: Any = found.get(name) if isinstance(found, dict) else None
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise ValueError(f"Its counter {name} is {value!r:.60}.")
    return {**found, "step": int(found["step"])}


def averaged(model: nn.Module, average: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's state with averaged weights in place of the current ones."""
    state = dict(model.state_dict())
    state.update(average)
    return state


@torch.no_grad()
def update_average(average: dict[str, Tensor], model: nn.Module, decay: float) -> None:
    """Exponential moving average of the weights that are trained."""
    moving = {n: p for n, p in model.named_parameters() if n in average and p.requires_grad}
    torch._foreach_lerp_([average[n] for n in moving], list(moving.values()), 1 - decay)
