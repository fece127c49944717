"""Wrappers: properties that fit around any operator family."""

from opsplit.operators.wrappers.along import Along
from opsplit.operators.wrappers.band_limited import BandLimited
from opsplit.operators.wrappers.conserving import Conserving
from opsplit.operators.wrappers.homogeneous import Homogeneous
from opsplit.operators.wrappers.mirrored import Mirrored
from opsplit.operators.wrappers.negated import Negated
from opsplit.operators.wrappers.non_amplifying import NonAmplifying
from opsplit.operators.wrappers.on_channel import OnChannel
from opsplit.operators.wrappers.potential_inputs import PotentialInputs
from opsplit.operators.wrappers.shifted_stages import ShiftedStages
from opsplit.operators.wrappers.standardised import Standardised
from opsplit.operators.wrappers.wrapper import RateWrapper, Wrapper

__all__ = [
    "Along",
    "BandLimited",
    "Conserving",
    "Homogeneous",
    "Mirrored",
    "Negated",
    "NonAmplifying",
    "OnChannel",
    "PotentialInputs",
    "RateWrapper",
    "ShiftedStages",
    "Standardised",
    "Wrapper",
]
