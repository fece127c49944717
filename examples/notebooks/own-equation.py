# %% [markdown]
# # Your own equation
# The package does not know the equation u_t = D u_xx - r u. We simulate its mechanisms one at a
# time, train on them for a few seconds, and explain data in which both act together.

# %%
import numpy as np

import opsplit
from opsplit.pretrain import Budget, Execution, TrainConfig

POINTS, LENGTH, DT = 64, 10.0, 0.1
rng = np.random.default_rng(0)


def simulate(n, D, r, frames):
    """Exact solutions from random smooth fields: every Fourier mode decays by itself."""
    k = 2 * np.pi * np.arange(POINTS // 2 + 1) / LENGTH
    size = np.exp(-0.5 * np.arange(len(k))) * (rng.normal(size=(n, len(k), 2)) @ [1, 1j])
    times = DT * np.arange(frames)[:, None]
    rate = D[:, None, None] * k**2 + r[:, None, None]
    return np.fft.irfft(size[:, None] * POINTS * np.exp(-rate * times), POINTS)


# %% [markdown]
# Six values of each coefficient, the other one exactly zero.

# %%
none = np.zeros(6)
D = np.repeat([*np.linspace(0.1, 1, 6), *none], 8)
r = np.repeat([*none, *np.linspace(0.1, 1, 6)], 8)
pure = opsplit.Trajectories.from_numpy(
    simulate(len(D), D, r, 20)[:, :, None], dt=DT, extent=LENGTH, coefficients={"D": D, "r": r}
)
pure

# %%
pure.plot()

# %% [markdown]
# Training chooses the structure of the operators by evidence in these data.

# %%
model = opsplit.pretrain(
    pure,
    "decay-model",
    preset="tiny",
    training=TrainConfig(recipe="codebook", budget=Budget(steps=5)),
    execution=Execution(threads=1),
)
model.dictionary

# %%
model.dictionary.plot()

# %% [markdown]
# Data of the whole equation, with coefficients that no training trajectory had.

# %%
whole = simulate(1, np.array([0.45]), np.array([0.35]), 40)[0]
s = opsplit.OperatorSplitter("decay-model").fit(whole[:16], dt=DT, extent=LENGTH)
assert s.status_ == "explained" and -s.score(whole[16:]) < 0.01
s

# %%
s.plot(steps=24)
