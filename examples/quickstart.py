"""Forecast advection with diffusion; the bundled operators were trained on each alone."""

from opsplit import OperatorSplitter, get_physics

# A trajectory that no training contained: transport and diffusion act together.
truth = get_physics("advection-diffusion").generate("A+D", 1, seed=7)
observed, future = truth.data[0, :16], truth.data[0, 16:50]

splitter = OperatorSplitter(model="advection-diffusion", search="beam")
splitter.fit(observed, dt=truth.dt, extent=truth.grid.extent)
forecast = splitter.predict(steps=len(future))

print(splitter)
print("identified:", splitter.coefficients_)
print("true:      ", {name: float(value) for name, value in truth.coefficients.items()})
print(f"NRMSE of the next {len(future)} frames: {-splitter.score(future):.4f}")
