"""A model and data as they suit each other: lifted to more axes, continued beyond walls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from opsplit.boundary import OPEN
from opsplit.grid import Grid
from opsplit.io.recording import Recording
from opsplit.model import Model
from opsplit.predict.compatibility import Code, Issue, Severity, lifted_issue
from opsplit.predict.ends import SMOOTH, Ends, ends_of
from opsplit.predict.walls import Walls


@dataclass(frozen=True)
class Adapted:
    """What a search works on, and what is to be said about it."""

    model: Model
    """With a dictionary for as many axes as the data have."""
    recording: Recording
    """The data, with the boundaries that were found in them."""
    walls: Walls
    issues: tuple[Issue, ...]

    @property
    def periodic(self) -> Recording:
        """The data as operators see them: walls are continued to periodic ends."""
        if not self.walls.any:
            return self.recording
        return replace(self.recording, grid=replace(self.recording.grid, boundary="periodic"))


def adapt(model: Model, recording: Recording, given: Sequence[Ends] | None = None) -> Adapted:
    """The model on as many axes as the data have, and the walls between which the data lie.

    Arguments:
        given: ends to assume (default: those that the data or the frames say).
    """
    grid, issues = recording.grid, []
    ndim = grid.ndim
    if ndim > model.config.ndim:
        issues.append(lifted_issue(model.config, ndim))
        model = model.lift(ndim)
    free = Walls((None,) * ndim)
    trained = model.config.grid
    if ndim < trained.ndim or not trained.periodic or any(OPEN in w for w in grid.boundary):
        # Operators that know walls themselves, and data that do not fit, are left as they are.
        return Adapted(model, recording, free, tuple(issues))
    ends = ends_of(recording) if given is None else given
    issues += _undecided(ends)
    walls = Walls.of(grid, ends)
    if not walls.any:
        return Adapted(model, recording, free, tuple(issues))
    issues.append(_note(walls))
    grid = replace(grid, boundary=tuple(one.words for one in ends))
    if recording.box:
        grid = between(grid, walls)
    guessed = {k: v for k, v in recording.guessed.items() if k != "boundary"}
    return Adapted(model, replace(recording, grid=grid, guessed=guessed), walls, tuple(issues))


def between(grid: Grid, walls: Walls) -> Grid:
    """The grid of points between walls whose distance is the extent that the caller gave."""
    extent = list(grid.extent)
    for i, axis in enumerate(walls.axes):
        if axis is not None:
            extent[i] *= axis.points / axis.steps
    return replace(grid, extent=tuple(extent))


def _undecided(ends: Sequence[Ends]) -> list[Issue]:
    """The note on ends that noise hides."""
    words = [
        f"Noise hides what the ends of {name} are: they are taken for periodic, {one.rival} ends "
        "suit the frames as well; say boundary."
        for name, one in zip("xyz", ends, strict=False)
        if one.rival
    ]
    return [Issue(Code.WALLS, Severity.NOTE, text) for text in words]


def _note(walls: Walls) -> Issue:
    words = (
        f"The field lies between walls ({walls.words}): it is continued beyond them by symmetry, "
        "and operators that do not keep it are left out."
    )
    found = [axis.ends for axis in walls.axes if axis is not None]
    if not all(ends.said for ends in found):
        words += " The frames say so, nothing else does; say boundary periodic if they are not."
    rough = max(ends.roughness for ends in found)
    if rough > SMOOTH:
        words += (
            f" The frames do not look like it: at a wall they are {rough:.2g} times as rough as "
            "inside."
        )
    return Issue(Code.WALLS, Severity.NOTE, words)
