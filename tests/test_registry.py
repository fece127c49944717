"""Members by name: ours, those of installed packages, and those of the running program."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from opsplit.errors import OpsplitError
from opsplit.operators import FAMILIES, NONLINEARITIES, Nonlinearity, OperatorFamily
from opsplit.registry import Registry


@pytest.fixture
def sums() -> Registry[object]:
    return Registry("sum", "opsplit.test-sums", {"all": "math:fsum", "gone": "no.such:thing"})


def test_a_member_is_imported_when_it_is_asked_for(sums: Registry[object]) -> None:
    import math

    assert list(sums) == ["all", "gone"] and len(sums) == 2
    assert "all" in sums and "none" not in sums and 3 not in sums
    assert sums["all"] is math.fsum


def test_an_unknown_name_is_answered_with_those_that_exist(sums: Registry[object]) -> None:
    with pytest.raises(OpsplitError, match="Unknown sum 'x'; choose from all, gone"):
        sums["x"]
    with pytest.raises(OpsplitError, match="Unknown sum 'x'; choose from all, gone"):
        sums.require("x")
    # A name that is listed is not imported to know that.
    sums.require("gone")
    with pytest.raises(OpsplitError) as caught:
        sums["x" * 10_000]
    assert len(str(caught.value)) < 200


def test_a_member_that_cannot_be_imported_says_why(sums: Registry[object]) -> None:
    with pytest.raises(OpsplitError, match=r"'gone' cannot be imported from no\.such:thing: No"):
        sums["gone"]
    other: Registry[object] = Registry("sum", "opsplit.none", {"attribute": "math:no_such"})
    with pytest.raises(OpsplitError, match="no attribute 'no_such'"):
        other["attribute"]


def test_a_member_of_the_running_program_joins(sums: Registry[object]) -> None:
    sums["all"]  # The places are known by now.
    sums.add("mine", max)
    assert sums["mine"] is max and "mine" in sums and list(sums)[-1] == "mine"


def test_packages_add_members_but_do_not_replace_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[opsplit.test-sums]\nproduct = math:prod\nall = math:prod\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert any(e.name == "product" for e in metadata.entry_points(group="opsplit.test-sums"))
    import math

    registry: Registry[object] = Registry("sum", "opsplit.test-sums", {"all": "math:fsum"})
    assert registry["product"] is math.prod
    assert registry["all"] is math.fsum


@pytest.mark.parametrize(
    ("registry", "base"), [(FAMILIES, OperatorFamily), (NONLINEARITIES, Nonlinearity)]
)
def test_our_members_are_named_by_their_kind(
    registry: Registry[type[OperatorFamily]], base: type
) -> None:
    assert len(registry) > 2
    for name in registry:
        assert issubclass(registry[name], base) and registry[name].kind == name
