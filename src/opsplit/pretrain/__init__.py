"""Train a model: `opsplit.pretrain(data, ...)`, and the settings of a training.

The package is itself callable, because the stage, its folder and its function have one name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsplit.hypernetwork.config import EncoderConfig as EncoderConfig
    from opsplit.pretrain.config import Batches as Batches
    from opsplit.pretrain.config import Budget as Budget
    from opsplit.pretrain.config import Codebook as Codebook
    from opsplit.pretrain.config import Optimiser as Optimiser
    from opsplit.pretrain.config import Start as Start
    from opsplit.pretrain.config import TrainConfig as TrainConfig
    from opsplit.pretrain.loop import Execution as Execution
    from opsplit.pretrain.run import pretrain as pretrain

_HOME = {
    "Batches": "opsplit.pretrain.config",
    "Budget": "opsplit.pretrain.config",
    "Codebook": "opsplit.pretrain.config",
    "EncoderConfig": "opsplit.hypernetwork.config",
    "Execution": "opsplit.pretrain.loop",
    "Optimiser": "opsplit.pretrain.config",
    "Start": "opsplit.pretrain.config",
    "TrainConfig": "opsplit.pretrain.config",
    "pretrain": "opsplit.pretrain.run",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'opsplit.pretrain' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


class _Callable(ModuleType):
    """A module that is called like its function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return __getattr__("pretrain")(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
