"""PySINDy as a rival: our features are its features, and what it finds is simulated faithfully."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opsplit.benchmark.methods import make_method
from opsplit.benchmark.run import cells
from opsplit.errors import OpsplitError
from opsplit.fourier import low_pass
from opsplit.grid import Grid
from opsplit.metrics import nrmse
from opsplit.physics import AdvectionDiffusion, GrayScott, NavierStokes, get_physics

pytest.importorskip("pysindy")
from opsplit.benchmark.sindy import Features, sindy

SQUARE = Grid((16, 16), (0.5, 0.5))


@pytest.mark.parametrize("physics", [AdvectionDiffusion(), GrayScott(grid=SQUARE)])
def test_features_are_those_of_the_library_in_its_order(
    physics: AdvectionDiffusion | GrayScott,
) -> None:
    features = Features(physics)
    u = low_pass(physics.initial_fields(6, torch.Generator().manual_seed(1)), physics.grid, 0.5)
    fields = features.fields("strong", u)
    library = features.library("strong", 6, 0.1)
    library.fit([fields])
    theirs = torch.from_numpy(library.transform([fields])[0].copy())
    spectrum = torch.fft.rfftn(u, dim=tuple(range(2, u.ndim)))
    ours = torch.stack([features.values(spectrum, u, f) for f in features.all], -1)
    ours = torch.movedim(ours, 0, -2)
    assert theirs.shape == ours.shape
    size = ours.flatten(0, -2).abs().amax(0)
    assert torch.allclose(theirs / size, ours / size, atol=1e-7)


def test_the_signatures_are_the_written_terms() -> None:
    features = Features(get_physics("combined"))
    names = [(f.powers, f.index) for f in features.all]
    expected = {"alpha": (((1,), (1,)), -2.0), "beta": (((0,), (2,)), 1.0)}
    expected["gamma"] = (((0,), (3,)), -1.0)
    for name, (feature, weight) in expected.items():
        row = features.signatures[name][0]
        assert row.nonzero().flatten().tolist() == [names.index(feature)]
        assert float(row[names.index(feature)]) == pytest.approx(weight, rel=1e-5)
    weights = sum(
        mu * features.signatures[k]
        for k, mu in zip(expected, (0.3, 0.2, 0.5), strict=True)
    )  # fmt: skip
    found = features.read(weights)
    assert list(found.values()) == pytest.approx([0.3, 0.2, 0.5], rel=1e-5)


def test_a_discovered_equation_is_simulated_as_the_exact_solver_does() -> None:
    physics = GrayScott(grid=SQUARE)
    whole = physics.generate("GS", 1, 0, 5)
    features = Features(physics)
    weights = sum(
        float(whole.coefficients[k][0]) * signature for k, signature in features.signatures.items()
    )
    path = features.simulate(weights, whole.data[0, 0].double(), whole.dt, 4)
    assert float(nrmse(path[None], whole.data[:, 1:])) < 1e-3


def test_transport_and_diffusion_are_discovered() -> None:
    physics = AdvectionDiffusion()
    whole = physics.generate("A+D", 1, 4, 30)
    outcome = sindy(physics)(whole.windows(16, 0), 14, 0)
    assert float(nrmse(outcome.frames[None], whole.data[:, 16:])) < 1e-3
    for name, value in outcome.coefficients.items():
        assert value == pytest.approx(float(whole.coefficients[name][0]), rel=0.01)


def test_a_library_without_the_terms_is_refused_and_its_cells_are_left_out() -> None:
    physics = NavierStokes(grid=Grid((16, 16), (6.0, 6.0)))
    with pytest.raises(OpsplitError, match="does not contain the term of advection"):
        _ = Features(physics).signatures
    todo = cells("navier-stokes", ["persistence", "sindy"], [], 1, 1, ["NS"])
    assert [cell.method for cell in todo] == ["persistence"]


def test_without_pysindy_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pysindy", None)
    with pytest.raises(OpsplitError, match=r"pip install 'opsplit\[sindy\]'"):
        make_method("sindy", AdvectionDiffusion())
