"""Trained models that the method is compared with: FNO, MPP, GEPS, Zebra and DISCO.

A new baseline is one file with one subclass of `Baseline`, and one line below. A package adds its
own by an entry point of the group `opsplit.trained`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsplit.registry import Registry

if TYPE_CHECKING:
    from opsplit.baselines.protocol import Baseline

TRAINED: Registry[type[Baseline]] = Registry(
    "trained baseline",
    "opsplit.trained",
    {
        "fno": "opsplit.baselines.fno:FNO",
        "mpp": "opsplit.baselines.mpp:MPP",
        "geps": "opsplit.baselines.geps:GEPS",
        "zebra": "opsplit.baselines.zebra:Zebra",
        "disco": "opsplit.baselines.disco:DISCO",
    },
)

__all__ = ["TRAINED"]
