# %% [markdown]
# # Audit of a data set
# Before you trust a data set, ask what it holds and whether its stored coefficients agree with
# its frames. Here is a file with three trajectories, one of which carries a wrong coefficient.

# %%
from dataclasses import replace

import opsplit

good = opsplit.get_physics("advection-diffusion").generate("A+D", 3, seed=3, frames=20)
wrong = dict(good.coefficients)
wrong["D"] = wrong["D"].clone()
wrong["D"][1] *= 3
file = replace(good, coefficients=wrong).save("suspicious.npz")

# %% [markdown]
# `describe` says what a file holds and which models fit it.

# %%
print(opsplit.describe("suspicious.npz"))

# %% [markdown]
# `check` looks for faults. It fits some windows and compares the coefficients it finds with the
# stored ones.

# %%
findings = opsplit.check("suspicious.npz")
for finding in findings:
    print(finding)

# %% [markdown]
# Which trajectory is it? Fit each and compare.

# %%
held = opsplit.read("suspicious.npz")
for i in range(len(held)):
    s = opsplit.OperatorSplitter("advection-diffusion").fit(held, trajectory=i)
    stored, found = float(held.coefficients["D"][i]), s.coefficients_["D"]
    mark = "" if abs(found - stored) < 0.05 * stored else "   <- wrong"
    print(f"trajectory {i}: stored D = {stored:.4f}, found D = {found:.4f}{mark}")
    assert bool(mark) == (i == 1)
