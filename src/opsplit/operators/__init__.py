"""Operator families, the parts they are made of, and wrappers around them."""

from opsplit.operators.family import (
    FAMILIES,
    Examples,
    Initialisation,
    OperatorFamily,
    Prepared,
)
from opsplit.operators.function import UserFunction
from opsplit.operators.linear import Linear
from opsplit.operators.spectral import (
    NONLINEARITIES,
    FluxStencil,
    GatedProducts,
    Nonlinearity,
    Polynomial,
    Spectral,
    Symbol,
)
from opsplit.operators.unet import UNet
from opsplit.operators.wrappers import (
    BandLimited,
    Conserving,
    Homogeneous,
    NonAmplifying,
    PotentialInputs,
    ShiftedStages,
    Standardised,
    Wrapper,
)

__all__ = [
    "FAMILIES",
    "NONLINEARITIES",
    "BandLimited",
    "Conserving",
    "Examples",
    "FluxStencil",
    "GatedProducts",
    "Homogeneous",
    "Initialisation",
    "Linear",
    "NonAmplifying",
    "Nonlinearity",
    "OperatorFamily",
    "Polynomial",
    "PotentialInputs",
    "Prepared",
    "ShiftedStages",
    "Spectral",
    "Standardised",
    "Symbol",
    "UNet",
    "UserFunction",
    "Wrapper",
]
