"""A model as data need it: lifted to their axes."""

from __future__ import annotations

from opsplit.io.recording import Recording
from opsplit.model import Model
from opsplit.predict.compatibility import Issue, lifted_issue


def adapt(model: Model, recording: Recording) -> tuple[Model, list[Issue]]:
    """The model on as many axes as the data have, and what is to be said about it."""
    ndim = recording.grid.ndim
    if ndim <= model.config.ndim:
        return model, []
    return model.lift(ndim), [lifted_issue(model.config, ndim)]
