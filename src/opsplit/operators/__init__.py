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
    LINEAR_PARTS,
    NONLINEARITIES,
    Derivatives,
    FluxStencil,
    Fronts,
    GatedProducts,
    LinearPart,
    Nonlinearity,
    Polynomial,
    Products,
    Spectral,
    Symbol,
)
from opsplit.operators.unet import UNet
from opsplit.operators.wrappers import (
    BandLimited,
    Conserving,
    Homogeneous,
    Mirrored,
    Negated,
    NonAmplifying,
    PotentialInputs,
    ShiftedStages,
    Standardised,
    Wrapper,
)

__all__ = [
    "FAMILIES",
    "LINEAR_PARTS",
    "NONLINEARITIES",
    "BandLimited",
    "Conserving",
    "Derivatives",
    "Examples",
    "FluxStencil",
    "Fronts",
    "GatedProducts",
    "Homogeneous",
    "Initialisation",
    "Linear",
    "LinearPart",
    "Mirrored",
    "Negated",
    "NonAmplifying",
    "Nonlinearity",
    "OperatorFamily",
    "Polynomial",
    "PotentialInputs",
    "Prepared",
    "Products",
    "ShiftedStages",
    "Spectral",
    "Standardised",
    "Symbol",
    "UNet",
    "UserFunction",
    "Wrapper",
]
