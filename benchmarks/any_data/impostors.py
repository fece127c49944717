"""Films that the road dictionary cannot say, though many of them look as if it could."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from strangers import Array, Film, Maker, Plan, Waves, dx, evolved, ft, smooth

L, DT = 10.0, 0.1


def law(
    linear: Callable[[Waves], Array],
    nonlinear: Callable[[Array, Waves, float], Array] | None = None,
    dt: float = DT, length: float = L, start: tuple[float, float] = (0.0, 1.0), settle: int = 0,
) -> Maker:  # fmt: skip
    """`u_t = linear + nonlinear` on a line."""

    def make(plan: Plan) -> Film:
        fine = plan.points
        while fine < 128:
            fine *= 2
        u = start[0] + start[1] * smooth(plan, 1, min(5, plan.points // 6), fine)
        made = evolved(u, length, linear, nonlinear, dt, plan.frames + settle)
        return Film(made[settle:, :: fine // plan.points], dt, length)

    return make


def _x(u: Array) -> Array:
    return np.arange(u.shape[-1]) * L / u.shape[-1]


def _wave(plan: Plan) -> Film:
    k = 2 * np.pi * np.arange(1, 6) / L
    x, t = np.arange(plan.points) * L / plan.points, DT * np.arange(plan.frames)
    weight, phase = plan.rng.standard_normal(5), plan.rng.uniform(0, 2 * np.pi, 5)
    both = np.cos(np.multiply.outer(t, k))[:, None] * np.sin(np.multiply.outer(x, k) + phase)
    return Film((weight * both).sum(-1), DT, L)


def _delay(plan: Plan) -> Film:
    steps, lag = 20, 60
    h = DT / steps
    one, two = smooth(plan), smooth(plan)
    past = [one * np.cos(0.1 * i) + two * np.sin(0.1 * i) for i in range(lag + 1)]
    for _ in range(plan.frames * steps):
        past.append(past[-1] - 6 * h * past[-1 - lag])
    return Film(np.stack(past[-plan.frames * steps :: steps]), DT, L)


def _hysteresis(plan: Plan) -> Film:
    """Diffusion with a relay at every point: it heats until 0.5 and cools until -0.5."""
    u, on = smooth(plan), plan.rng.random(plan.points) < 0.5
    out, steps = [], 50
    for i in range(plan.frames * steps):
        if i % steps == 0:
            out.append(u)
        on = np.where(u > 0.5, False, np.where(u < -0.5, True, on))
        bend = (np.roll(u, 1) - 2 * u + np.roll(u, -1)) * min(0.05 * (plan.points / L) ** 2, 100)
        u = u + DT / steps * (bend + np.where(on, 1.0, -1.0))
    return Film(np.stack(out), DT, L)


def _camera(plan: Plan) -> Film:
    """A diffusing field, seen by a camera that swings."""
    made = _heat(plan, 0.03)
    t = DT * np.arange(plan.frames)
    return Film(_moved(made, 1.5 * np.sin(4 * t)), DT, L)


def _accelerating(plan: Plan) -> Film:
    made = _heat(plan, 0.03)
    t = DT * np.arange(plan.frames)
    return Film(_moved(made, 0.8 * t**2), DT, L)


def _moved(u: Array, by: Array) -> Array:
    k = 2 * np.pi * np.fft.rfftfreq(u.shape[1], L / u.shape[1])
    found: Array = np.fft.irfft(
        np.fft.rfft(u) * np.exp(-1j * np.multiply.outer(by, k)), u.shape[1], axis=1
    )
    return found


def _heat(plan: Plan, d: float, u: Array | None = None, frames: int | None = None) -> Array:
    first = smooth(plan) if u is None else u
    return evolved(first, L, lambda k: -d * k[0] ** 2, None, DT, frames or plan.frames)


def _switch(plan: Plan) -> Film:
    """The coefficients change in the middle of the observed frames, which are half of all."""
    at = plan.frames // 4
    first = _heat(plan, 0.2, frames=at + 1)
    second = evolved(
        first[-1], L, lambda k: -0.8j * k[0] - 0.02 * k[0] ** 2, None, DT, plan.frames - at
    )
    return Film(np.concatenate([first, second[1:]]), DT, L)


def _glued(plan: Plan) -> Film:
    """Two systems side by side: one drifts, one decays."""
    one = evolved(smooth(plan), L, lambda k: -1j * k[0], None, DT, plan.frames)
    two = _heat(plan, 0.2)
    half = plan.points // 2
    return Film(np.concatenate([one[:, :half], two[:, half:]], 1), DT, L)


def _still(plan: Plan) -> Film:
    u = np.broadcast_to(smooth(plan), (plan.frames, plan.points))
    return Film(u + 0.02 * plan.rng.standard_normal(u.shape), DT, L)


def _walk(plan: Plan) -> Film:
    steps = plan.rng.standard_normal((plan.frames, plan.points))
    return Film(np.cumsum(steps, 0), DT, L)


def _smooth_walk(plan: Plan) -> Film:
    steps = np.stack([smooth(plan) for _ in range(plan.frames)])
    return Film(smooth(plan) + 0.3 * np.cumsum(steps, 0), DT, L)


def _tracks(plan: Plan) -> Film:
    """Every mode on a smooth path of its own, that no law relates to the others."""
    t = np.linspace(0, 1, plan.frames)
    out = smooth(plan) * np.ones((plan.frames, 1))
    for i in range(1, 5):
        out = out + np.multiply.outer(np.sin(2 * i * t + plan.rng.uniform(0, 6)), smooth(plan))
    return Film(out, DT, L)


def _rotation(plan: Plan) -> Film:
    """A picture that turns about its centre."""
    from scipy.ndimage import rotate

    picture = smooth(plan, 2, 6)
    x = np.linspace(-1, 1, plan.points)
    picture = picture * np.exp(-4 * (x[:, None] ** 2 + x**2))
    turns = [rotate(picture, 4.0 * i, reshape=False, order=3) for i in range(plan.frames)]
    return Film(np.stack(turns), DT, L)


def _zoom(plan: Plan) -> Film:
    from scipy.ndimage import affine_transform

    picture = smooth(plan, 2, 6)
    scales = 1.02 ** np.arange(plan.frames)
    c = plan.points / 2
    made = [
        affine_transform(picture, [1 / s] * 2, offset=[c - c / s] * 2, mode="wrap") for s in scales
    ]
    return Film(np.stack(made), DT, L)


def _window(plan: Plan) -> Film:
    """A part of a larger domain, through which waves enter and leave."""
    wide = Plan(plan.frames, 4 * plan.points, plan.rng)
    u = smooth(wide, 1, 20)
    made = evolved(u, 4 * L, lambda k: -1.0j * k[0] - 0.05 * k[0] ** 2, None, DT, plan.frames)
    return Film(made[:, plan.points : 2 * plan.points], DT, L)


def _burgers(plan: Plan, points: int, nu: float, dt: float, frames: int, u: Array) -> Array:
    return evolved(
        u, L, lambda k: -nu * k[0] ** 2, lambda u, k, t: -0.5j * k[0] * ft(u**2), dt, frames
    )


def _filtered(plan: Plan) -> Film:
    """Burgers' equation, of which only the lowest modes are seen: turbulence without a closure."""
    made = _burgers(plan, 512, 0.01, 0.05, plan.frames, 2 * smooth(plan, 1, 20, 1024))
    spectrum = np.fft.rfft(made[:, :: 1024 // 128])
    spectrum[:, 9:] = 0
    return Film(np.fft.irfft(spectrum, 128), 0.05, L)


def _averaged(plan: Plan) -> Film:
    """Every frame is a mean over a time in which much happens."""
    made = evolved(
        smooth(plan), L, lambda k: -3j * k[0] - 0.05 * k[0] ** 2,
        lambda u, k, t: -0.5j * k[0] * ft(u**2), 0.02, 10 * plan.frames,
    )  # fmt: skip
    return Film(made.reshape(plan.frames, 10, -1).mean(1), 0.2, L)


def _sparse_chaos(plan: Plan) -> Film:
    made = evolved(
        smooth(plan, 1, 5, 128), 60.0, lambda k: k[0] ** 2 - k[0] ** 4,
        lambda u, k, t: -0.5j * k[0] * ft(u**2), 6.0, plan.frames + 15, 120,
    )  # fmt: skip
    return Film(made[15:], 6.0, 60.0)


def _lattice(plan: Plan) -> Film:
    """Coupled logistic maps."""
    u = plan.rng.random(plan.points)
    out = []
    for _ in range(plan.frames):
        out.append(u)
        f = 3.9 * u * (1 - u)
        u = 0.7 * f + 0.15 * (np.roll(f, 1) + np.roll(f, -1))
    return Film(np.stack(out), 1.0, L)


def _schroedinger(plan: Plan) -> Film:
    """The real part of a wave function; the other half is not seen."""
    k = 2 * np.pi * np.fft.fftfreq(plan.points, L / plan.points)
    u = np.fft.fft(smooth(plan) + 1j * smooth(plan))
    made = [np.fft.ifft(u * np.exp(-1j * k**2 * DT * i)).real for i in range(plan.frames)]
    return Film(np.stack(made), DT, L)


def _hidden(plan: Plan) -> Film:
    """FitzHugh-Nagumo, whose slow variable is not seen."""
    u, v, out = smooth(plan), smooth(plan), []
    h, bend = 0.002, min(0.05 * (plan.points / L) ** 2, 100)
    for i in range(plan.frames * 100):
        if i % 100 == 0:
            out.append(u)
        lap = (np.roll(u, 1) - 2 * u + np.roll(u, -1)) * bend
        u, v = u + h * (lap + u - u**3 - 2 * v), v + h * (u - v + 0.2)
    return Film(np.stack(out), 0.2, L)


def _gamma(plan: Plan) -> Film:
    """A camera whose brightness is not linear, over Burgers' equation."""
    made = _burgers(plan, plan.points, 0.05, 0.05, plan.frames, smooth(plan))
    low, high = made.min(), made.max()
    return Film(((made - low) / (high - low)) ** 0.45, 0.05, L)


def _clipped(plan: Plan) -> Film:
    made = evolved(smooth(plan), L, lambda k: -1j * k[0] - 0.05 * k[0] ** 2, None, DT, plan.frames)
    return Film(np.clip(made, -0.7, 0.7), DT, L)


def _jitter(plan: Plan) -> Film:
    """The clock of the camera goes wrong: frames are not where their times say."""
    t = np.cumsum(plan.rng.uniform(0.4, 1.6, plan.frames)) * DT
    k = 2 * np.pi * np.fft.rfftfreq(plan.points, L / plan.points)
    rate = -0.8j * k - 0.05 * k**2
    made = np.fft.irfft(np.fft.rfft(smooth(plan)) * np.exp(np.multiply.outer(t, rate)), plan.points)
    return Film(made, DT, L)


def _dropped(plan: Plan) -> Film:
    """A frame that is missing without a word, and one that is there twice."""
    made = evolved(
        smooth(plan), L, lambda k: -0.8j * k[0] - 0.05 * k[0] ** 2, None, DT, plan.frames + 1
    )
    order = np.delete(np.arange(plan.frames + 1), plan.frames // 5)
    order[plan.frames // 3] = order[plan.frames // 3 - 1]
    return Film(made[order], DT, L)


def _fifth(u: Array, k: Waves, t: float) -> Array:
    return ft(u - u**5)


def _porous(u: Array, k: Waves, t: float) -> Array:
    return -(k[0] ** 2) * ft(0.1 * u**3 - 0.3 * u)


FLAT: Mapping[str, Callable[[Waves], Array]] = {"none": lambda k: 0 * k[0]}
IMPOSTORS: dict[str, Maker] = {
    "wave equation": _wave,
    "delay": _delay,
    "hysteresis": _hysteresis,
    "camera swings": _camera,
    "camera accelerates": _accelerating,
    "switched halfway": _switch,
    "two systems side by side": _glued,
    "still, with noise": _still,
    "random walk": _walk,
    "smooth random walk": _smooth_walk,
    "modes on paths": _tracks,
    "rotating picture": _rotation,
    "zoom": _zoom,
    "window of a larger domain": _window,
    "low modes of Burgers": _filtered,
    "averaged over time": _averaged,
    "chaos, rare frames": _sparse_chaos,
    "coupled maps": _lattice,
    "real part of a wave function": _schroedinger,
    "hidden variable": _hidden,
    "brightness not linear": _gamma,
    "clipped": _clipped,
    "wrong clock": _jitter,
    "dropped frames": _dropped,
    "varying speed": law(
        lambda k: -0.02 * k[0] ** 2,
        lambda u, k, t: -1j * k[0] * ft((1 + 0.6 * np.sin(2 * np.pi * _x(u) / L)) * u),
    ),
    "varying diffusion": law(
        FLAT["none"],
        lambda u, k, t: 1j * k[0] * ft((0.1 + 0.09 * np.sin(2 * np.pi * _x(u) / L)) * dx(u, k[0])),
    ),
    "steady source": law(
        lambda k: -0.1 * k[0] ** 2, lambda u, k, t: ft(2 * np.sin(4 * np.pi * _x(u) / L))
    ),
    "beating source": law(
        lambda k: -0.05 * k[0] ** 2,
        lambda u, k, t: ft(3 * np.cos(5 * t) * np.sin(2 * np.pi * _x(u) / L)),
    ),
    "diffusion fades": law(
        FLAT["none"], lambda u, k, t: -0.2 * np.exp(-t / 1.0) * k[0] ** 2 * ft(u)
    ),
    "fifth derivative": law(lambda k: 1j * (0.05 * k[0] ** 3 + 0.02 * k[0] ** 5)),
    "sixth derivative": law(lambda k: -0.004 * k[0] ** 6),
    "reaction u^4": law(lambda k: 0.5 - 0.03 * k[0] ** 2, lambda u, k, t: -ft(u**4) * 0.5,
                        start=(0.5, 0.2)),
    "reaction u^5": law(lambda k: -0.03 * k[0] ** 2, _fifth),
    "reaction sin 3u": law(lambda k: -0.03 * k[0] ** 2, lambda u, k, t: ft(np.sin(3 * u))),
    "nonlocal mean": law(lambda k: -0.03 * k[0] ** 2,
                         lambda u, k, t: ft(u * (1 - 2 * np.mean(u**2)))),
    "Benjamin-Ono": law(lambda k: 0.4j * k[0] * np.abs(k[0]),
                        lambda u, k, t: -0.5j * k[0] * ft(u**2), dt=0.05),
    "half Laplacian": law(lambda k: -0.3 * np.abs(k[0])),
    "Laplacian to the 0.75": law(lambda k: -0.2 * np.abs(k[0]) ** 1.5),
    "porous medium": law(lambda k: -0.3 * k[0] ** 2, _porous, start=(1.0, 0.25)),
    "flux u^4": law(lambda k: -0.1 * k[0] ** 2, lambda u, k, t: -0.25j * k[0] * ft(u**4),
                    dt=0.05),
    "saturating reaction": law(lambda k: -0.03 * k[0] ** 2,
                               lambda u, k, t: ft(-2 * u / (0.3 + np.abs(u)))),
    "screened": law(lambda k: -1.0 * k[0] ** 2 / (1 + k[0] ** 2)),
}  # fmt: skip
