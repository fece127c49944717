"""How to train on your own equation: Fisher-KPP, u_t = r u (1 - u) + D u_xx.

The package does not know this equation. We simulate its two mechanisms one at a time (growth
without diffusion, diffusion without growth) and pretrain operators on them. Then we forecast
dynamics in which both act together. The model has never seen them. This takes a few seconds and
writes `fisher-kpp.npz` and `fisher-kpp/` into the current folder.
"""

import numpy as np

import opsplit
from opsplit.pretrain import Budget, Execution, TrainConfig

POINTS, LENGTH, DT = 64, 16.0, 0.25
rng = np.random.default_rng(0)


# 1. Your own solver. Its frames must be equally spaced in time.
def simulate(u, r, D, frames, substeps=10):
    """Frames `(n, time, x)` from fields `(n, x)`: central differences, midpoint rule."""

    def rate(u):
        u_xx = (np.roll(u, 1, -1) - 2 * u + np.roll(u, -1, -1)) / (LENGTH / POINTS) ** 2
        return r[:, None] * u * (1 - u) + D[:, None] * u_xx

    h, out = DT / substeps, [u]
    for _ in range(frames - 1):
        for _ in range(substeps):
            u = u + h * rate(u + h / 2 * rate(u))
        out.append(u)
    return np.stack(out, 1)


def random_densities(n):
    """Smooth periodic fields between 0 and 1, flat ones and ones with steep fronts."""
    k, x = np.arange(1, 9)[:, None], 2 * np.pi * np.arange(POINTS) / POINTS
    phase, size = rng.uniform(0, 2 * np.pi, (n, 8, 1)), rng.normal(size=(n, 8, 1)) / k
    waves = (size * np.sin(k * x + phase)).sum(1)
    return 1 / (1 + np.exp(-rng.uniform(1, 4, (n, 1)) * waves - rng.normal(size=(n, 1))))


# 2. Pure mechanisms: eight coefficients of each, 24 trajectories per coefficient.
none = np.zeros(8)
r = np.repeat([*np.linspace(0.1, 1, 8), *none], 24)
D = np.repeat([*none, *np.linspace(0.05, 0.5, 8)], 24)
pure = simulate(random_densities(len(r)), r, D, frames=20)
data = opsplit.Trajectories.from_numpy(
    pure[:, :, None],  # (trajectory, time, channel, x)
    dt=DT,
    extent=LENGTH,
    coefficients={"r": r, "D": D},
)
data.save("fisher-kpp.npz")

# 3. Pretrain. Trajectories with equal coefficients form an environment, and every environment
# becomes one operator of the dictionary. The structure of the operators is chosen by evidence in
# the data; the steps train the encoder, which a search does not need.
model = opsplit.pretrain(
    data,
    "fisher-kpp",
    preset="tiny",
    training=TrainConfig(recipe="codebook", budget=Budget(steps=50)),
    name="fisher-kpp",
    execution=Execution(threads=1),
)
print(model.metrics["structure"]["verdict"])
for name, term in model.dictionary.terms.items():
    print(f"{name}: {term.text}")

# 4. Observe 16 frames of the whole equation, with coefficients that no environment had.
true = {"r": 0.7, "D": 0.3}
whole = simulate(random_densities(1), *(np.array([v]) for v in true.values()), frames=40)[0]
observed, future = whole[:16], whole[16:]
splitter = opsplit.OperatorSplitter(model="fisher-kpp").fit(observed, dt=DT, extent=LENGTH)
forecast = splitter.predict(steps=len(future))[:, 0]


def nrmse(frames):
    return np.linalg.norm(frames - future) / np.linalg.norm(future)


print(splitter)
print("true coefficients:", true, " identified:", splitter.coefficients_)
print(f"NRMSE: forecast {nrmse(forecast):.4f}, persistence {nrmse(observed[-1]):.4f}")
