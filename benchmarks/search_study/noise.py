"""White noise on the observed frames; the future to be predicted is clean.

Methods that are not said to be denoised start the forecast from the last noisy frame, which alone
costs what `true equation` shows. `denoised` ones see and start from frames without the noise that
`OperatorSplitter` takes out; for pursuit that is the default. Coefficients of diffusion that come
out negative count as zero in a forecast by the exact solver.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from common import PHYSICS, Item, Row, direct, errors, exact_forecast, model, run_items, windows
from torch import Tensor

from opsplit import Beam, OperatorSplitter, Pursuit, Trajectories
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.predict.denoise import denoise
from opsplit.search import Strategy

LEVELS = (0.0, 0.001, 0.01, 0.05)
SEARCHES: dict[str, tuple[Strategy, bool]] = {
    "pursuit, denoised": (Pursuit(), True),
    "pursuit, denoised, one step": (Pursuit(strides=(1,)), True),
    "pursuit, denoised, whole window": (Pursuit(strides=(0,)), True),
    "pursuit": (Pursuit(), False),
    "beam": (Beam(), False),
    "beam, denoised": (Beam(), True),
}
"""Search, and whether noise is taken out first."""
THRESHOLDS = (0.005, 0.05)


def run(args: argparse.Namespace) -> None:
    observed, future = windows("A+D", args.n, args.seed)
    truth = observed.coefficients
    generator = torch.Generator().manual_seed(args.seed + 7)
    white = torch.randn(observed.data.shape, generator=generator)
    steps = future.shape[1]

    def noisy(level: float) -> Tensor:
        size = observed.data.flatten(1).std(1)[:, None, None, None]
        return observed.data + level * size * white

    def solved(frames: Tensor, found: dict[str, Tensor]) -> Row:
        return errors(exact_forecast(frames[:, -1], found, steps), future, found, truth)

    def least_squares(frames: Tensor) -> Row:
        each = [PHYSICS.least_squares(window, PHYSICS.dt) for window in frames]
        return solved(frames, {k: torch.tensor([e[k] for e in each]) for k in truth})

    def sindy(frames: Tensor, threshold: float) -> Row:
        found, right = weak_sindy(frames, observed, threshold)
        return solved(frames, found) | {"right_terms": right}

    def searched(frames: Tensor, strategy: Strategy, clean: bool) -> Row:
        splitter = OperatorSplitter(model(), strategy, denoise=clean)
        futures: list[Tensor] = []
        found: dict[str, list[float]] = {k: [] for k in truth}
        own: dict[str, list[float]] = {k: [] for k in truth}
        parts = 0
        for window in frames:
            splitter.fit(window, PHYSICS.dt)
            futures.append(splitter.predict(steps=steps))
            parts += len(splitter.composition_)
            for k in truth:
                found[k].append(splitter.coefficients_[k])
                own[k].append(splitter.composition_.coefficients[k])
        row = errors(torch.stack(futures), future, tensors(found), truth)
        for k, values in tensors(own).items():
            row[f"{k}_mae_of_pick"] = float((values - truth[k]).abs().mean())
        return row | {"parts": parts / len(frames), "settings": repr(splitter.search)}

    def items() -> Iterator[Item]:
        methods: dict[str, Callable[[Tensor], Row]] = {
            "true equation": lambda frames: solved(frames, truth),
            "direct": lambda frames: errors(direct(frames, steps), future),
            "least squares": least_squares,
            "least squares, denoised": lambda f: least_squares(denoised(f)),
        }
        for name, (strategy, clean) in SEARCHES.items():
            methods[name] = lambda f, s=strategy, c=clean: searched(f, s, c)
        for threshold in THRESHOLDS:
            methods[f"weak SINDy, {threshold:g}"] = lambda f, t=threshold: sindy(f, t)
        methods["weak SINDy, 0.05, denoised"] = lambda f: sindy(denoised(f), 0.05)
        # Beam search takes most of the time.
        for name, method in sorted(methods.items(), key=lambda m: m[0].startswith("beam")):
            for level in LEVELS:
                item = {"method": name, "noise": level}
                yield item, lambda m=method, x=level: m(noisy(x))

    run_items("noise", args, items())


def denoised(frames: Tensor) -> Tensor:
    """Every window without its noise."""
    return torch.stack([denoise(window, PHYSICS.grid)[0] for window in frames])


def tensors(values: dict[str, list[float]]) -> dict[str, Tensor]:
    return {k: torch.tensor(v, dtype=torch.float64) for k, v in values.items()}


def weak_sindy(
    frames: Tensor, observed: Trajectories, threshold: float
) -> tuple[dict[str, Tensor], float]:
    """c and D of every window by PySINDy's weak form; a user would tune it much like this.

    Also the share of windows in which u_x and u_xx are the only terms it keeps of u, u_x, u_xx,
    u u_x and u u_xx.
    """
    try:
        import pysindy
    except ImportError:
        raise OpsplitError("This row needs PySINDy: pip install pysindy") from None
    library, pad = weak_library(observed.grid, frames.shape[1])
    found: dict[str, list[float]] = {"c": [], "D": []}
    right = 0
    for window in frames:
        u = window[:, 0].T.double().numpy()
        u = np.concatenate([u, u[:pad]])[..., None]
        fit = pysindy.SINDy(
            feature_library=library, optimizer=pysindy.STLSQ(threshold=threshold, alpha=1e-12)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit.fit(u, t=PHYSICS.dt, feature_names=["u"])
        terms = dict(zip(fit.get_feature_names(), fit.coefficients()[0], strict=True))
        found["c"].append(-float(terms["u_1"]))
        found["D"].append(float(terms["u_11"]))
        right += {k for k, v in terms.items() if v != 0} == {"u_1", "u_11"}
    return {k: torch.tensor(v) for k, v in found.items()}, right / len(frames)


@cache
def weak_library(grid: Grid, frames: int) -> tuple[Any, int]:
    """Test functions over a quarter of the line and all of the window, and how far to wrap.

    Windows are continued periodically, so that no part of the line is left out.
    """
    import pysindy

    (points,), (spacing,) = grid.shape, grid.spacing
    pad = points // 4
    x = spacing * np.arange(points + pad)
    t = PHYSICS.dt * np.arange(frames)
    np.random.seed(0)  # the library places its test functions with numpy's global generator
    library = pysindy.WeakPDELibrary(
        function_library=pysindy.PolynomialLibrary(degree=1, include_bias=False),
        derivative_order=2,
        spatiotemporal_grid=np.stack(np.meshgrid(x, t, indexing="ij"), -1),
        K=300,
        H_xt=[2.0, 0.49 * float(t[-1])],
        p=4,
    )
    return library, pad
