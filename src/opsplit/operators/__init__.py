"""Operator families, by name."""

from __future__ import annotations

from typing import Any

from opsplit.errors import OpsplitError
from opsplit.operators.analytic import Linear, UserFunction
from opsplit.operators.family import Initialisation, OperatorFamily, Prepared
from opsplit.operators.spectral import Spectral
from opsplit.operators.unet import UNet

FAMILIES: dict[str, type[OperatorFamily]] = {
    family.name: family for family in (UNet, Spectral, Linear)
}


def make_family(name: str, **config: Any) -> OperatorFamily:
    """The operator family of that name with these constructor arguments."""
    if name not in FAMILIES:
        raise OpsplitError(f"Unknown operator family {name!r}; choose from {sorted(FAMILIES)}.")
    return FAMILIES[name](**config)


__all__ = [
    "FAMILIES",
    "Initialisation",
    "Linear",
    "OperatorFamily",
    "Prepared",
    "Spectral",
    "UNet",
    "UserFunction",
    "make_family",
]
