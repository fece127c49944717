"""The operators a search may compose."""

from opsplit.dictionary.band import dealiased, within_band
from opsplit.dictionary.dictionary import MAX_STRENGTH, OperatorDictionary
from opsplit.dictionary.lift import lifted_family
from opsplit.dictionary.mean import keeping_mean
from opsplit.dictionary.orientation import oriented
from opsplit.dictionary.part import Part
from opsplit.dictionary.prepared import PreparedDictionary
from opsplit.dictionary.storage import wrong_format

__all__ = [
    "MAX_STRENGTH",
    "OperatorDictionary",
    "Part",
    "PreparedDictionary",
    "dealiased",
    "keeping_mean",
    "lifted_family",
    "oriented",
    "within_band",
    "wrong_format",
]
