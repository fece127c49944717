"""How much the number of operators and the length of the window matter."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from common import Item, Row, measured, model, run_items, windows

from opsplit import Beam, Pursuit
from opsplit.search import Strategy

SIZES = (16, 32, 64, 256)
LENGTHS = (2, 4, 8, 16)
DRAWS = 4
"""A small dictionary is drawn so many times: which operators it holds matters."""
SEARCHES: tuple[Strategy, ...] = (Pursuit(), Beam())


def run(args: argparse.Namespace) -> None:
    observed, future = windows("A+D", args.n, args.seed)

    def measure(strategy: Strategy, length: int, size: int, draw: int) -> Row:
        whole = model().dictionary
        chosen = whole.subsample(size, draw) if size < len(whole) else whole
        frames = observed.data[:, -length:]
        return measured(strategy, frames, future, observed.coefficients, chosen)

    def items() -> Iterator[Item]:
        def item(strategy: Strategy, length: int, size: int, draw: int) -> Item:
            name = {"search": strategy.name, "length": length, "operators": size, "draw": draw}
            return name, lambda: measure(strategy, length, size, draw)

        for strategy in SEARCHES:
            for length in LENGTHS:
                yield item(strategy, length, len(model().dictionary), 0)
            for size in SIZES[:-1]:
                for draw in range(DRAWS):
                    yield item(strategy, 16, size, draw)

    run_items("sensitivity", args, items())
