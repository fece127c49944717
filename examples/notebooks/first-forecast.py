# %% [markdown]
# # First forecast
# Sixteen frames of a system go in. The model knows transport and diffusion, each alone. It was
# never trained on both together.

# %%
import opsplit

whole = opsplit.get_physics("advection-diffusion").generate("A+D", 1, seed=1, frames=40)
observed, future = whole.data[0, :16].numpy(), whole.data[0, 16:].numpy()
whole

# %% [markdown]
# Fit, and look at the verdict first. It says how far the composition explains the frames.

# %%
s = opsplit.OperatorSplitter("advection-diffusion")
s.fit(observed, dt=whole.dt, extent=16.0)
s

# %% [markdown]
# The forecast, drawn behind the observed frames.

# %%
s.plot(steps=24)

# %% [markdown]
# Every length of composition that was tried, and the equation. `s.equation_.latex` and
# `s.equation_.sympy()` take it further.

# %%
s.to_frame()

# %%
s.equation_.sympy()

# %% [markdown]
# The error against the frames that really followed, and the coefficients beside the true ones.

# %%
true = {name: float(values[0]) for name, values in whole.coefficients.items()}
assert s.status_ == "explained" and -s.score(future) < 0.01
print(f"NRMSE {-s.score(future):.2g}")
print("found", {k: round(v, 4) for k, v in s.coefficients_.items()})
print("true ", {k: round(v, 4) for k, v in true.items()})

# %% [markdown]
# Keep the fit. The folder holds arrays and JSON, no pickle.

# %%
s.save("my-fit")
assert (opsplit.OperatorSplitter.load("my-fit").predict(24) == s.predict(24)).all()
