"""Known physics beside learned physics: transport from the bundled model, diffusion exact.

You know the form of the diffusion, but not its strength. For the transport you have a trained
model only. A dictionary may contain both kinds of operators: here the learned advections of the
bundled model and one exact diffusion. The search finds the strength of each.
"""

from opsplit import OperatorSplitter, get_physics
from opsplit.model import load_model
from opsplit.operators import Linear

# 1. Keep the learned operators of pure transport.
model = load_model("advection-diffusion", family="spectral")
learned = model.dictionary.where(lambda c: c["D"] == 0)

# 2. Add the exact flow of u_t = u_xx. Its coefficient is D = 1; a strength of 0.3 means D = 0.3.
exact = Linear(channels=1, ndim=1)
dictionary = learned.add(exact, exact.parameters(diffusion=1.0), coefficients={"D": 1.0})

# 3. Observe 16 frames of a system where both act, and forecast the next 34.
truth = get_physics("advection-diffusion").generate("A+D", 1, seed=7)
observed, future = truth.data[0, :16], truth.data[0, 16:50]
splitter = OperatorSplitter(model, search="pursuit")
splitter.fit(observed, dt=truth.dt, extent=truth.grid.extent, dictionary=dictionary)

print(dictionary)
print(splitter)
print("identified:", splitter.coefficients_)
print("true:      ", {name: float(value) for name, value in truth.coefficients.items()})
print(f"NRMSE of the next {len(future)} frames: {-splitter.score(future):.5f}")
