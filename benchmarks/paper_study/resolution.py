"""How far the Navier-Stokes frames of the tables are from those of a finer simulation."""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch
from common import Row, keep

from opsplit.benchmark.tasks import columns, test_window
from opsplit.metrics import nrmse
from opsplit.physics import get_physics

NAME, SPLIT = "navier-stokes", "NS"
FINE = 384
"""Points per axis of the finer simulation."""


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for number in range(args.n):
        item = {"physics": NAME, "fine": FINE, "trajectory": number, "seed": args.seed}
        keep("resolution", args, item, lambda i=number: difference(args, i))


def difference(args: argparse.Namespace, number: int) -> Row:
    """NRMSE of the frames to predict against those of the finer simulation."""
    column, usual = columns(NAME)[SPLIT], get_physics(NAME)
    observed, future = test_window(column, number, args.seed, args.runs / "windows")
    moments = torch.cat([observed.times, future.times]) - observed.times[0]
    mu = observed.coefficients
    finer = replace(usual, fine=FINE).solve(observed.data[:, 0].double(), mu, moments)
    found = nrmse(future.data, finer[:, len(observed.times) :])
    return {"nu": float(mu["nu"][0]), "nrmse": float(found), "points": usual.fine}
