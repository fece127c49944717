"""Where a run computes, and which of several processes it is."""

from __future__ import annotations

import pytest

from opsplit._device import check_device, rank
from opsplit.errors import OpsplitError


@pytest.mark.parametrize("name", ["evil", "cuda:", "cuda:99", "meta", "", 3])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    check_device("cpu")
    with pytest.raises(OpsplitError, match="device"):
        check_device(name)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ({}, 0),
        ({"LOCAL_RANK": "0", "RANK": "3"}, 3),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "2"}, 2),
        ({"SLURM_PROCID": "2"}, 0),
    ],
)
def test_the_number_of_a_process_is_in_the_environment(
    said: dict[str, str], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCAL_RANK", "RANK", "SLURM_NTASKS", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert rank() == number


@pytest.mark.parametrize("name", ["SLURM_NTASKS", "RANK"])
def test_an_environment_without_sense_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if name == "RANK":
        monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv(name, "\x1b[31m")
    with pytest.raises(OpsplitError, match=f"{name} must be a whole number"):
        rank()
