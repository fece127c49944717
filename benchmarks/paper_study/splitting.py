"""Splitting accuracy against the quality of operators: heat and dispersion, plain U-Nets.

Two U-Nets learn one mechanism each from one-frame transitions. At five stages of their training
each is measured alone, and their Strang composition on the equation with both terms.
"""

from __future__ import annotations

import argparse
import time

import torch
from common import Row, keep, read_rows
from torch import Tensor

from opsplit.metrics import nrmse
from opsplit.operators import UNet
from opsplit.physics import Combined
from opsplit.splitting import strang

SHARES = (0.1, 0.3, 0.5, 0.7, 1.0)
"""Stages of the training, as those of the paper: 50 to 500 epochs."""
TRUE = {"alpha": 0.0, "beta": 0.2, "gamma": 0.5}
PHYSICS = Combined()
STATES = 16
RATE = 3e-3
LONG = 250


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    stages = [round(share * args.steps) for share in SHARES]
    done = {row["item"]["step"] for row in read_rows("splitting", args.out)
            if row["item"]["of"] == args.steps}  # fmt: skip
    if done >= set(stages):
        return
    torch.manual_seed(0)
    draws = torch.Generator().manual_seed(11)
    family = UNet(max_step=PHYSICS.dt)
    start = family.initialisation(torch.Generator().manual_seed(0)).start
    weights = torch.nn.Parameter(start.repeat(2, 1))
    optimiser = torch.optim.Adam([weights], RATE)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, args.steps)
    began, aside = time.process_time(), 0.0
    for step in range(1, args.steps + 1):
        state = fields(2 * STATES, draws).unflatten(0, (2, STATES))
        target = torch.stack([alone(state[0], "beta"), alone(state[1], "gamma")])
        made = family.flow(family.prepare(weights, PHYSICS.grid), state, PHYSICS.dt)
        change = (target - state).flatten(2).norm(dim=2)
        loss = ((made - target).flatten(2).norm(dim=2) / change).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([weights], 1.0)
        optimiser.step()
        falling.step()
        if step in stages:
            stopped = time.process_time()
            minutes = (stopped - began - aside) / 60
            item = {"step": step, "of": args.steps, "n": args.n}
            found = evaluate(family, weights.detach(), args)
            aside += time.process_time() - stopped
            keep("splitting", args, item, lambda f=found, m=minutes: {**f, "core_minutes": m})


def fields(n: int, draws: torch.Generator) -> Tensor:
    """States that both mechanisms have acted on for up to four time units, single precision."""
    initial = PHYSICS.initial_fields(n, draws)
    spans = 4 * torch.rand(n, 1, generator=draws, dtype=torch.float64)
    shares = {k: v * torch.rand(n, generator=draws).double() for k, v in TRUE.items()}
    return PHYSICS.solve(initial, shares, spans)[:, 0].float()


def alone(state: Tensor, name: str, frames: int = 1) -> Tensor:
    """The exact solution of one mechanism, one frame on."""
    mu = {k: torch.full((len(state),), v if k == name else 0.0) for k, v in TRUE.items()}
    times = torch.tensor([frames * PHYSICS.dt], dtype=torch.float64)
    return PHYSICS.solve(state.double(), mu, times)[:, 0].float()


@torch.no_grad()
def evaluate(family: UNet, weights: Tensor, args: argparse.Namespace) -> Row:
    """One-step errors of both operators and of their composition, and of its long rollout."""
    test = fields(args.n, torch.Generator().manual_seed(args.seed + 7_000))
    both = [family.prepare(weights[[i]], PHYSICS.grid) for i in (0, 1)]

    def flow(i: int, u: Tensor, h: float | Tensor) -> Tensor:
        return family.flow(both[i], u[None], h)[0]

    flows = [lambda u, h, i=i: flow(i, u, h) for i in (0, 1)]
    single = {name: float(nrmse(flow(i, test, PHYSICS.dt)[:, None],
                                alone(test, name)[:, None]).mean())
              for i, name in enumerate(("beta", "gamma"))}  # fmt: skip
    mu = {k: torch.full((args.n,), v) for k, v in TRUE.items()}
    initial = PHYSICS.initial_fields(args.n, torch.Generator().manual_seed(args.seed + 8_000))
    times = PHYSICS.dt * torch.arange(1, LONG + 1, dtype=torch.float64)
    truth = PHYSICS.solve(initial, mu, times).float()
    one = PHYSICS.solve(test.double(), mu, times[:1]).float()
    u, frames = initial.float(), []
    for _ in range(LONG):
        u = strang(flows, u, PHYSICS.dt)
        frames.append(u)
    each = nrmse(torch.stack(frames, 1), truth)
    return {
        "heat": single["beta"],
        "dispersion": single["gamma"],
        "next": float(nrmse(strang(flows, test, PHYSICS.dt)[:, None], one).mean()),
        "rollout": float(each.mean()),
        "rollout_median": float(each.median()),
    }
