"""Speed of batched U-Net flows against one copy of the weights per frame.

DISCO's code integrates its operators by `vmap(functional_call)` over samples, with the weights of
an operator repeated for each of its frames. Here `E` operators act on `K` states each through
convolutions grouped by operator. Both run one RK4 step on the same numbers, in turns, and have to
agree before anything is timed. The third way, `vmap` over operators with their states as a batch,
tells how much is owed to not copying weights.

    python benchmarks/unet_batching.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from opsplit._files import write_json
from opsplit._origin import origin
from opsplit.grid import Grid
from opsplit.operators import UNet

WIDTH, LEVELS, POINTS, DT = 8, 4, 256, 0.1
RESULTS = Path(__file__).parent / "results"


class PlainUNet(nn.Module):
    """The same U-Net for one operator, from PyTorch's layers, on states `(K, 1, x)`."""

    def __init__(self) -> None:
        super().__init__()
        s = WIDTH

        def conv3(into: int, out: int, groups: int = 1) -> nn.Conv1d:
            options = {"padding": 1, "padding_mode": "circular", "bias": False}
            return nn.Conv1d(into, out, 3, groups=groups, **options)

        self.adapter_in = nn.Conv1d(1, s, 1)
        self.in1, self.in2 = conv3(s, s), conv3(s, s)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level in range(LEVELS):
            c = s * 2 ** (level + 1)
            self.down.append(
                nn.ModuleList(
                    [
                        nn.Conv1d(c // 2, c, 2, 2, bias=False),
                        nn.GroupNorm(4, c),
                        conv3(c, c, groups=c),
                        nn.GroupNorm(4, c),
                    ]
                )
            )
        c = s * 2**LEVELS
        self.middle1 = nn.Conv1d(c, 2 * c, 1, bias=False)
        self.middle_norm = nn.GroupNorm(4, 2 * c)
        self.middle2 = nn.Conv1d(2 * c, c, 1, bias=False)
        for level in reversed(range(LEVELS)):
            c = s * 2 ** (level + 1)
            self.up.append(
                nn.ModuleList(
                    [
                        nn.ConvTranspose1d(c, c // 2, 2, 2, bias=False),
                        conv3(c, c // 2, groups=c // 2),
                        nn.GroupNorm(4, c // 2),
                    ]
                )
            )
        self.out1, self.out_norm, self.out2 = conv3(s, s), nn.GroupNorm(4, s), conv3(s, s)
        self.adapter_out = nn.Conv1d(s, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.in2(self.in1(self.adapter_in(x)))
        skips = []
        for halve, norm1, depthwise, norm2 in self.down:
            skips.append(x)
            x = F.gelu(norm2(depthwise(F.gelu(norm1(halve(x))))))
        x = x + self.middle2(F.gelu(self.middle_norm(self.middle1(x))))
        for double, merge, norm in self.up:
            x = F.gelu(norm(merge(torch.cat([double(x), skips.pop()], 1))))
        return self.adapter_out(self.out2(F.gelu(self.out_norm(self.out1(x)))))


def plain_weights(parameters: Tensor, family: UNet) -> dict[str, Tensor]:
    """Parameter vectors `(n, P)` as the weights of `n` plain U-Nets, by name."""
    ups = {f"up{LEVELS - 1 - i}": f"up.{i}" for i in range(LEVELS)}
    downs = {f"down{i}": f"down.{i}" for i in range(LEVELS)}
    ends = {".norm1": ".1", ".depthwise": ".2", ".norm2": ".3", ".merge": ".1", ".norm": ".2"}
    out, offset = {}, 0
    for name, (shape, _) in family.layers.items():
        n = torch.Size(shape).numel()
        weight = parameters[:, offset : offset + n].reshape(-1, *shape)
        offset += n
        base, _, kind = name.rpartition(".")
        if kind in ("gain", "shift", "bias"):
            name, kind = base, "bias" if kind != "gain" else "weight"
        else:
            kind = "weight"
        stem = name.split(".")[0]
        if stem in ups | downs:
            end = ends[name.removeprefix(stem)] if "." in name else ".0"
            if stem in ups and end == ".0":
                # From (out * 2, in, 1) to the (in, out, 2) of a transposed convolution.
                weight = weight.unflatten(1, (-1, 2)).squeeze(-1).permute(0, 3, 1, 2)
            name = (ups | downs)[stem] + end
        out[f"{name.replace('.norm', '_norm')}.{kind}"] = weight
    return out


def three_eighths(f: Callable[[Tensor], Tensor], u: Tensor, h: float) -> Tensor:
    """One step of Kutta's 3/8 rule, which DISCO's solver calls rk4."""
    k1 = f(u)
    k2 = f(u + h / 3 * k1)
    k3 = f(u + h * (k2 - k1 / 3))
    k4 = f(u + h * (k1 - k2 + k3))
    return u + h / 8 * (k1 + 3 * k2 + 3 * k3 + k4)


def ways(family: UNet, grid: Grid) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Functions of parameters `(E, P)` and states `(E, K, 1, x)`, by what they are called."""
    net = PlainUNet()
    call = vmap(lambda w, x: functional_call(net, w, (x,)))

    def grouped(parameters: Tensor, u: Tensor) -> Tensor:
        return family.flow(family.prepare(parameters, grid), u, DT)

    def copies(parameters: Tensor, u: Tensor) -> Tensor:
        states = u.flatten(0, 1).unsqueeze(1)
        w = plain_weights(parameters.repeat_interleave(u.shape[1], 0), family)
        return three_eighths(lambda x: call(w, x), states, DT).squeeze(1).unflatten(0, u.shape[:2])

    def shared(parameters: Tensor, u: Tensor) -> Tensor:
        w = plain_weights(parameters, family)
        return three_eighths(lambda x: call(w, x), u, DT)

    return {"opsplit": grouped, "copy per frame": copies, "copy per operator": shared}


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and of the processor: the second hardly minds what else the machine does."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", type=int, nargs="+", default=[8, 16, 32], help="E")
    parser.add_argument("--states", type=int, nargs="+", default=[16], help="K")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved, the median counts")
    parser.add_argument("--out", type=Path, default=RESULTS / "unet_batching.json")
    args = parser.parse_args()

    grid = Grid((POINTS,), (16.0,))
    family = UNet(1, 1, max_step=DT)
    methods = ways(family, grid)
    generator = torch.Generator().manual_seed(0)
    rows = []
    print(f"{torch.get_num_threads()} thread(s); operators x states per second, one RK4 step")
    print("(in brackets how much faster opsplit is: by the clock, by processor time)")
    names = f"{'opsplit':>9}" + "".join(f"{name:>18}        " for name in list(methods)[1:])
    print(f"{'E':>3} {'K':>3}  {'work':<17}{names}")
    for e in args.operators:
        for k in args.states:
            # Away from the start, where every gain is one and every shift zero.
            start = family.initialisation(generator)
            noise = torch.randn(e, family.n_parameters, generator=generator)
            parameters = start.start + 0.3 * start.scale * noise
            u = torch.randn(e, k, 1, POINTS, generator=generator)

            def forward(method: Callable, parameters: Tensor = parameters, u: Tensor = u) -> Tensor:
                with torch.no_grad():
                    return method(parameters, u)

            def backward(
                method: Callable, parameters: Tensor = parameters, u: Tensor = u
            ) -> Tensor:
                leaf = parameters.clone().requires_grad_()
                method(leaf, u).square().mean().backward()
                return leaf.grad

            for words, work in (("forward", forward), ("forward+backward", backward)):
                # The first call warms up, and must give the same numbers all ways.
                expected = work(methods["opsplit"])
                for method in methods.values():
                    gap = (work(method) - expected).norm() / expected.norm()
                    assert gap < 1e-4, f"{words} disagrees by {gap:.1e}"
                times: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
                for _ in range(args.repeats):
                    for name, method in methods.items():
                        times[name].append(seconds(lambda w=work, m=method: w(m)))
                clock, processor = (
                    {name: statistics.median(t[i] for t in ts) for name, ts in times.items()}
                    for i in (0, 1)
                )
                row = {
                    "operators": e,
                    "states": k,
                    "work": words,
                    "per_second": {name: e * k / t for name, t in clock.items()},
                    "opsplit_is_faster_by": {
                        name: {
                            "clock": clock[name] / clock["opsplit"],
                            "processor": processor[name] / processor["opsplit"],
                        }
                        for name in list(methods)[1:]
                    },
                    "seconds": times,
                }
                rows.append(row)
                shown = f"{row['per_second']['opsplit']:>9,.0f}"
                for name, ratio in row["opsplit_is_faster_by"].items():
                    times_as = f"({ratio['clock']:.2f}x, {ratio['processor']:.2f}x)"
                    shown += f"{row['per_second'][name]:>9,.0f} {times_as:<16}"
                print(f"{e:>3} {k:>3}  {words:<17}{shown}", flush=True)
    record = {
        "what": "operators times states per second, one RK4 step on 256 points",
        **origin(seed=0, program="python benchmarks/unet_batching.py"),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rows": rows,
    }
    write_json(args.out, record)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
