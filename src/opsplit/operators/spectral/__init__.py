"""Spectral operators: a symbol and, if asked for, a nonlinear part."""

from opsplit.operators.spectral.derivatives import Derivatives
from opsplit.operators.spectral.flux_stencil import FluxStencil
from opsplit.operators.spectral.fronts import Fronts
from opsplit.operators.spectral.gated_products import GatedProducts
from opsplit.operators.spectral.linear_part import LINEAR_PARTS, LinearPart
from opsplit.operators.spectral.nonlinearity import NONLINEARITIES, Nonlinearity
from opsplit.operators.spectral.polynomial import Polynomial
from opsplit.operators.spectral.products import Products
from opsplit.operators.spectral.spectral import Spectral
from opsplit.operators.spectral.symbol import Symbol

__all__ = [
    "LINEAR_PARTS",
    "NONLINEARITIES",
    "Derivatives",
    "FluxStencil",
    "Fronts",
    "GatedProducts",
    "LinearPart",
    "Nonlinearity",
    "Polynomial",
    "Products",
    "Spectral",
    "Symbol",
]
