"""Forecast dynamics a surrogate was never trained on, by splitting them into known operators."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opsplit._version import __version__
from opsplit.errors import OpsplitError, OpsplitWarning

if TYPE_CHECKING:
    from opsplit.benchmark.compare import compare as compare
    from opsplit.dictionary import OperatorDictionary as OperatorDictionary
    from opsplit.grid import Grid as Grid
    from opsplit.io.read import read as read
    from opsplit.io.recording import Recording as Recording
    from opsplit.model import Model as Model
    from opsplit.model import load_model as load_model
    from opsplit.operators import OperatorFamily as OperatorFamily
    from opsplit.physics import Physics as Physics
    from opsplit.physics import get_physics as get_physics
    from opsplit.predict.check import Finding as Finding
    from opsplit.predict.check import check as check
    from opsplit.predict.compatibility import Issue as Issue
    from opsplit.predict.compatibility import compatibility as compatibility
    from opsplit.predict.describe import Description as Description
    from opsplit.predict.describe import describe as describe
    from opsplit.predict.equations import Equation as Equation
    from opsplit.predict.estimator import OperatorSplitter as OperatorSplitter
    from opsplit.predict.many import fit_many as fit_many
    from opsplit.predict.rollout import Forecast as Forecast
    from opsplit.predict.verdict import Verdict as Verdict
    from opsplit.pretrain.config import TrainConfig as TrainConfig
    from opsplit.pretrain.extract import extract as extract
    from opsplit.pretrain.run import pretrain as pretrain
    from opsplit.search import Beam as Beam
    from opsplit.search import Composition as Composition
    from opsplit.search import Pursuit as Pursuit
    from opsplit.search import SearchResult as SearchResult
    from opsplit.search import Strategy as Strategy
    from opsplit.search import Uniform as Uniform
    from opsplit.trajectories import Trajectories as Trajectories

# Heavy modules are imported on first use, so that `import opsplit` stays instant.
_HOME = {
    "Composition": "opsplit.search",
    "Equation": "opsplit.predict.equations",
    "Forecast": "opsplit.predict.rollout",
    "OperatorFamily": "opsplit.operators",
    "Physics": "opsplit.physics",
    "SearchResult": "opsplit.search",
    "Strategy": "opsplit.search",
    "Beam": "opsplit.search",
    "Description": "opsplit.predict.describe",
    "Finding": "opsplit.predict.check",
    "Grid": "opsplit.grid",
    "Issue": "opsplit.predict.compatibility",
    "Model": "opsplit.model",
    "OperatorDictionary": "opsplit.dictionary",
    "OperatorSplitter": "opsplit.predict.estimator",
    "Pursuit": "opsplit.search",
    "Recording": "opsplit.io.recording",
    "TrainConfig": "opsplit.pretrain.config",
    "Trajectories": "opsplit.trajectories",
    "Uniform": "opsplit.search",
    "compare": "opsplit.benchmark.compare",
    "Verdict": "opsplit.predict.verdict",
    "check": "opsplit.predict.check",
    "compatibility": "opsplit.predict.compatibility",
    "describe": "opsplit.predict.describe",
    "extract": "opsplit.pretrain.extract",
    "fit_many": "opsplit.predict.many",
    "get_physics": "opsplit.physics",
    "load_model": "opsplit.model",
    "pretrain": "opsplit.pretrain.run",
    "read": "opsplit.io.read",
}

__all__ = ["OpsplitError", "OpsplitWarning", "__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'opsplit' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
