"""The state that a forecast starts from."""

from __future__ import annotations

from torch import Tensor

from opsplit.predict.explain import Explanation
from opsplit.predict.rollout import rollout
from opsplit.search.window import LONG_GAP
from opsplit.splitting import Scheme


def last_states(found: Explanation, scheme: Scheme) -> list[Tensor]:
    """The last frame of every trajectory; of noisy ones, what all frames say about it."""
    return [last_state(found, scheme, i) for i in range(len(found.window.frames))]


def last_state(found: Explanation, scheme: Scheme, trajectory: int) -> Tensor:
    """The last frame of a trajectory; of a noisy one, what all frames say about it.

    Every frame is carried to the last by the composition found. It brings its own noise, and
    the model's error for as long as it is carried.
    """
    window, pick, objective = found.window, found.result.pick, found.objective
    frames, noise = window.frames[trajectory], window.noise
    if not noise:
        return frames[-1]
    moments = window.moments[trajectory]
    far = (moments.diff() > LONG_GAP * objective.dt).nonzero()[:, 0].tolist()
    begin = far[-1] + 1 if far else 0
    frames, between = frames[begin:], moments[begin:].diff().tolist()
    per_step = pick.fit_error * float(frames.square().mean().sqrt())
    count = len(frames)
    carried = [per_step * (count - 1 - i) for i in range(count)]
    weights = [1 / (noise**2 + error**2) for error in carried]
    held = frames[0]
    for i in range(count):
        # A running weighted mean is carried on together with what it holds.
        share = weights[i] / sum(weights[: i + 1])
        held = held + share * (frames[i] - held)
        if i < count - 1:
            held = rollout(
                found.operators, pick, held, [between[i]], objective.dt, scheme,
                objective.refinement,
            ).frames[0]  # fmt: skip
    return held if bool(held.isfinite().all()) else frames[-1]
