"""Extensions of kept lists of operators: the flows that all of them share are computed once."""

from __future__ import annotations

import torch
from torch import Tensor

from opsplit.search.objective import Objective
from opsplit.splitting import lie, split_step, strang_finish, strang_prefix


class Extensions:
    """Kept lists of one length, each of which may get one more operator at its end.

    In a Lie or Strang step the operators before the last act first, whatever the last one is.
    With `reuse` their flows are computed once per kept list. This changes the cost and not the
    errors.

    Arguments:
        objective: the windows, the operators and the splitting.
        kept: `(n, m)` positions in the dictionary; `m` may be zero.
        which: `(n,)` the window of every list.
        reuse: share the leading flows where the scheme allows it.
    """

    def __init__(
        self,
        objective: Objective,
        kept: Tensor,
        which: Tensor | None = None,
        reuse: bool = True,
    ) -> None:
        self.objective, self.kept = objective, kept
        self.home = objective.home(kept, which)
        # Single operators have no leading flows, and act in one flow whatever the refinement.
        shared = reuse and objective.scheme in ("lie", "strang") and kept.shape[1] > 0
        self.states = self._leading() if shared else None

    @torch.no_grad()
    def _leading(self) -> Tensor:
        """States `(n, transition, ...)` before the last operator of an extension acts."""
        made = self.objective
        u = made.observed.states[self.home]
        leading = [made.flow(self.kept[:, i]) for i in range(self.kept.shape[1])]
        h = made.observed.lasting() / made.refinement
        return strang_prefix(leading, u, h) if made.scheme == "strang" else lie(leading, u, h)

    @torch.no_grad()
    def errors(self, row: Tensor, new: Tensor, transitions: Tensor) -> Tensor:
        """Errors `(n, transition)` of list `row[i]` with operator `new[i]` at its end."""
        made, observed = self.objective, self.objective.observed
        lasting = observed.lasting(transitions)
        out = [observed.states.new_zeros(0, len(transitions))]
        for part in made.chunks(len(row)):
            r, j = row[part], new[part]
            flows = [made.flow(self.kept[r, i]) for i in range(self.kept.shape[1])]
            flows.append(made.flow(j))
            if self.states is None:
                u = observed.states[self.home[r][:, None], transitions]
                u = split_step(flows, u, lasting, made.scheme, made.refinement)
            else:
                h = lasting / made.refinement
                u = self.states[r[:, None], transitions]
                u = strang_finish(flows, u, h) if made.scheme == "strang" else flows[-1](u, h)
                if made.refinement > 1:
                    rest = lasting - h
                    u = split_step(flows, u, rest, made.scheme, made.refinement - 1)
            out.append(observed.errors(u, self.home[r], transitions))
        return torch.cat(out)
