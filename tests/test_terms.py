"""Terms of coefficients: checked, and kept by every file that keeps trajectories."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opsplit import OpsplitError, Trajectories, read
from opsplit.grid import Grid
from opsplit.io.well import read_well, write_well
from opsplit.terms import Term, terms_from, terms_to_text

TERMS = {"r": "u - u^3", "D": "u_xx"}


@pytest.fixture
def data() -> Trajectories:
    u = torch.randn(2, 5, 1, 8, generator=torch.Generator().manual_seed(0))
    known = {"r": torch.tensor([1.0, 0.0]).double(), "D": torch.tensor([0.0, 2.0]).double()}
    return Trajectories(u, torch.arange(5).double(), Grid((8,), (2.0,)), ("u",), known, terms=TERMS)


def test_text_and_terms_are_inverse_to_each_other() -> None:
    assert terms_from(terms_to_text(TERMS), "here") == TERMS
    assert terms_from(terms_to_text(TERMS).encode(), "here") == TERMS


@pytest.mark.parametrize("bad", ["", "[1]", "u_xx", '{"r": 3}', '{"r": "\\u001b[31m"}', "[" * 9999])
def test_other_text_is_refused_in_a_sentence(bad: str) -> None:
    with pytest.raises(OpsplitError, match="here: terms"):
        terms_from(bad, "here")


def test_terms_survive_archives_selection_and_windows(data: Trajectories, tmp_path: Path) -> None:
    file = data.save(tmp_path / "mine.npz")
    assert Trajectories.load(file).terms == TERMS
    assert read(file).terms == TERMS
    assert read(file).load().terms == TERMS
    assert data[[1]].terms == data.windows(3, 1).terms == TERMS


def test_terms_survive_hdf5_of_the_well(data: Trajectories, tmp_path: Path) -> None:
    file = write_well(data, tmp_path / "mine.hdf5", "mine")
    assert read_well(file).terms == TERMS
    assert read(file).terms == TERMS


def test_terms_survive_netcdf(data: Trajectories, tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    file = tmp_path / "mine.nc"
    data.to_xarray().to_netcdf(file, engine="h5netcdf")
    assert read(file).terms == TERMS


def test_a_term_has_an_order_and_a_degree_in_range() -> None:
    assert Term("u_xx", 2, 1).order == 2
    with pytest.raises(OpsplitError, match="order"):
        Term("u_xx", 99)
