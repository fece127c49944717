"""Orders of convergence and identities of the splitting schemes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import wavenumbers
from opsplit.grid import Grid
from opsplit.operators import Linear
from opsplit.splitting import SCHEMES, Flow, flows_per_step, split_step

ORDERS = {"lie": 1, "strang": 2, "fourth": 4}


def matrices(n: int, seed: int = 0, size: int = 4) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        0.5 * torch.randn(size, size, generator=generator, dtype=torch.float64) for _ in range(n)
    ]


def linear_flow(matrix: Tensor) -> Flow:
    """The exact flow of `u' = A u` on states `(n, size)`.

    By eigenvectors: for small matrices `torch.linalg.matrix_exp` is off by up to 1e-9.
    """
    values, vectors = torch.linalg.eig(matrix)
    inverse = torch.linalg.inv(vectors)

    @cache
    def transposed(h: float) -> Tensor:
        return (vectors * torch.exp(values * h) @ inverse).real.T

    return lambda u, h: u @ transposed(float(h))


def run(flows: list[Flow], u: Tensor, scheme: str, steps: int) -> Tensor:
    for _ in range(steps):
        u = split_step(flows, u, 1 / steps, scheme)  # type: ignore[arg-type]
    return u


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_error_falls_with_the_order_of_the_scheme(
    scheme: str, parts: int, fitted_order: Callable[..., float]
) -> None:
    A = matrices(parts)
    u = torch.eye(4, dtype=torch.float64)
    true = linear_flow(sum(A[1:], A[0]))(u, 1.0)
    counts = (8, 16, 32, 64)
    errors = [float((run([linear_flow(a) for a in A], u, scheme, n) - true).norm()) for n in counts]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(ORDERS[scheme], abs=0.15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_diffusion_in_a_potential_converges_with_the_order_of_the_scheme(
    scheme: str, smooth: Callable[..., Tensor], fitted_order: Callable[..., float]
) -> None:
    """`u_t = D u_xx + V(x) u`: diffusion and a pointwise factor do not commute."""
    grid = Grid((32,), (16.0,))
    family = Linear(1, 1)
    prepared = family.prepare(family.parameters(diffusion=0.5), grid)
    potential = torch.sin(2 * torch.pi * grid.axes()[0] / 16)
    flows: list[Flow] = [
        lambda u, h: family.flow(prepared, u, h),
        lambda u, h: u * torch.exp(potential * h),
    ]
    eye = torch.eye(32, dtype=torch.float64)[None, :, None]
    # The generator of the sum, from a diffusion flow that is exact: log(exp(L)) = L.
    (k,) = wavenumbers(grid)
    laplace = torch.fft.irfft(-(k**2) * torch.fft.rfft(eye[0, :, 0]), n=32).T
    u = smooth(grid, (1, 1, 1), modes=3)
    true = u @ torch.linalg.matrix_exp(0.5 * laplace + torch.diag(potential)).T
    counts = (4, 8, 16)
    errors = [float((run(flows, u, scheme, n) - true).norm()) for n in counts]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(ORDERS[scheme], abs=0.2)


@given(seed=st.integers(0, 99), parts=st.integers(1, 4), refinement=st.integers(1, 3))
def test_commuting_flows_are_composed_exactly_by_every_scheme(
    seed: int, parts: int, refinement: int
) -> None:
    (base,) = matrices(1, seed)
    A = [torch.linalg.matrix_power(base, i) / (i + 1) for i in range(parts)]
    u = torch.eye(4, dtype=torch.float64)
    true = linear_flow(sum(A[1:], A[0]))(u, 0.5)
    for scheme in SCHEMES:
        found = split_step([linear_flow(a) for a in A], u, 0.5, scheme, refinement)
        torch.testing.assert_close(found, true, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("refinement", [1, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_operator_is_its_own_flow_in_one_call(scheme: str, refinement: int) -> None:
    calls = []

    def flow(u: Tensor, h: float | Tensor) -> Tensor:
        calls.append(h)
        return u + h

    assert split_step([flow], torch.zeros(1), 0.7, scheme, refinement) == 0.7  # type: ignore[arg-type]
    assert calls == [0.7]


@given(refinement=st.integers(1, 5), seed=st.integers(0, 99))
def test_refinement_is_so_many_calls_with_a_shorter_step(refinement: int, seed: int) -> None:
    flows = [linear_flow(a) for a in matrices(3, seed)]
    start = torch.eye(4, dtype=torch.float64)
    for scheme in SCHEMES:
        u = start
        for _ in range(refinement):
            u = split_step(flows, u, 0.6 / refinement, scheme)
        torch.testing.assert_close(split_step(flows, start, 0.6, scheme, refinement), u)


@pytest.mark.parametrize(
    ("scheme", "calls"),
    [
        ("lie", [(0, 1.0), (1, 1.0), (2, 1.0)]),
        ("strang", [(0, 0.5), (1, 0.5), (2, 1.0), (1, 0.5), (0, 0.5)]),
    ],
)
def test_flows_are_called_in_the_order_and_for_the_times_of_the_paper(
    scheme: str, calls: list[tuple[int, float]]
) -> None:
    seen: list[tuple[int, float]] = []

    def flow(i: int) -> Flow:
        def record(u: Tensor, h: float | Tensor) -> Tensor:
            seen.append((i, float(h)))
            return u

        return record

    split_step([flow(i) for i in range(3)], torch.zeros(1), 1.0, scheme)  # type: ignore[arg-type]
    assert seen == calls


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("refinement", [1, 2])
def test_the_number_of_flows_is_the_number_of_calls(
    scheme: str, parts: int, refinement: int
) -> None:
    calls = 0

    def flow(u: Tensor, h: float | Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return u

    split_step([flow] * parts, torch.zeros(1), 1.0, scheme, refinement)  # type: ignore[arg-type]
    assert calls == flows_per_step(parts, scheme, refinement)  # type: ignore[arg-type]


@given(strengths=st.lists(st.floats(0, 3), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_a_strength_is_a_duration(strengths: list[float], seed: int) -> None:
    """Flows of `s A` over h and flows of `A` over `s h` compose to the same state."""
    A = matrices(len(strengths), seed)
    u = torch.eye(4, dtype=torch.float64)
    for scheme in SCHEMES:
        scaled = [linear_flow(s * a) for s, a in zip(strengths, A, strict=True)]
        longer: list[Flow] = [
            lambda u, h, s=s, a=a: linear_flow(a)(u, s * h)  # type: ignore[misc]
            for s, a in zip(strengths, A, strict=True)
        ]
        torch.testing.assert_close(
            split_step(scaled, u, 0.3, scheme), split_step(longer, u, 0.3, scheme)
        )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tensor_of_durations_equals_separate_calls(scheme: str) -> None:
    rates = (-1.0, 0.5)
    flows: list[Flow] = [
        lambda u, h: u * torch.exp(torch.as_tensor(rates[0] * h)),
        lambda u, h: u + h,
    ]
    durations = torch.tensor([0.1, 0.7], dtype=torch.float64)
    u = torch.ones(2, dtype=torch.float64)
    together = split_step(flows, u, durations, scheme, 2)  # type: ignore[arg-type]
    for i, h in enumerate(durations.tolist()):
        alone = split_step(flows, u[i : i + 1], h, scheme, 2)  # type: ignore[arg-type]
        torch.testing.assert_close(together[i : i + 1], alone)


def test_wrong_settings_are_refused_with_the_choices() -> None:
    flows = [linear_flow(a) for a in matrices(2)]
    with pytest.raises(OpsplitError, match=r"Unknown splitting scheme 'yoshida'; .*'strang'"):
        split_step(flows, torch.eye(4), 0.1, "yoshida")  # type: ignore[arg-type]
    for refinement in (0, -1):
        with pytest.raises(OpsplitError, match=r"must lie in 1\.\.1000"):
            split_step(flows, torch.eye(4), 0.1, "strang", refinement)
