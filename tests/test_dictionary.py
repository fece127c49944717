"""Selecting, merging, flowing and storing operators."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.decoder import Decoder
from opsplit.operators import Spectral, UNet, UserFunction

GRID = Grid((32,), (16.0,))
SPEEDS = (0.1, 0.2, 0.3, 0.4)
RATES = (1.0, 2.0)
FIELDS = torch.randn(1, 2, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def coded(n: int = 3, seed: int = 0, scale: float = 1.0) -> OperatorDictionary:
    """Operators of the spectral family, given by codes and a decoder."""
    family = Spectral(1, 1, max_step=0.1, copies=2, bumps=2)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = Decoder(2, family.initialisation(generator), width=8, head_width=4)
    codes = torch.randn(n, 2, generator=generator)
    mu = {"alpha": np.linspace(0, 1, n)}
    return OperatorDictionary((Part(family, codes, decoder, scale),), mu)


def flow_of(dictionary: OperatorDictionary, i: int, u: Tensor = FIELDS, h: float = 0.1) -> Tensor:
    return dictionary.prepare(GRID, u).flow(torch.tensor([i]), u, h)


@pytest.fixture
def lines(exact: Callable[..., OperatorDictionary]) -> OperatorDictionary:
    return exact(SPEEDS, RATES)


@given(index=st.lists(st.integers(0, 5), max_size=8))
def test_selected_operators_act_as_before(
    exact: Callable[..., OperatorDictionary], index: list[int]
) -> None:
    whole = exact(SPEEDS, RATES)
    part = whole.select(index)
    assert len(part) == len(index)
    assert part.coefficients["c"].tolist() == whole.coefficients["c"][index].tolist()
    for new, old in enumerate(index):
        torch.testing.assert_close(flow_of(part, new), flow_of(whole, old))


def test_positions_may_be_a_list_an_array_or_a_tensor(lines: OperatorDictionary) -> None:
    for index in ([4, 1], np.array([4, 1]), torch.tensor([4, 1])):
        assert lines.select(index).coefficients["D"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("index", [[-1], [6], [0, 99]])
def test_positions_outside_are_refused(lines: OperatorDictionary, index: list[int]) -> None:
    with pytest.raises(OpsplitError, match=r"Positions must lie in 0\.\.5"):
        lines.select(index)


def test_operators_are_filtered_by_their_coefficients(lines: OperatorDictionary) -> None:
    fast = lines.where(lambda mu: mu["c"] > 0.25)
    assert fast.coefficients["c"].tolist() == [0.3, 0.4]
    nothing = lines.where(lambda mu: False)
    assert len(nothing) == 0
    assert "empty" in repr(nothing)


@given(n=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_subsample_is_a_reproducible_subset_in_order(
    exact: Callable[..., OperatorDictionary], n: int, seed: int
) -> None:
    whole = exact(range(1, 7), ())
    values = whole.subsample(n, seed).coefficients["c"].tolist()
    assert values == sorted(set(values)) and len(values) == n
    assert set(values) <= set(range(1, 7))
    assert values == whole.subsample(n, seed).coefficients["c"].tolist()


def test_all_operators_are_sampled_alike(exact: Callable[..., OperatorDictionary]) -> None:
    whole = exact(range(6), ())
    counts = np.zeros(6)
    for seed in range(200):
        counts[whole.subsample(3, seed).coefficients["c"].astype(int)] += 1
    assert abs(counts - 100).max() < 5 * np.sqrt(50)


@pytest.mark.parametrize("n", [0, -1, 7])
def test_an_impossible_subsample_is_refused(lines: OperatorDictionary, n: int) -> None:
    with pytest.raises(OpsplitError, match=f"Cannot take {n} of 6"):
        lines.subsample(n, 0)


# Several families


def test_merged_families_act_each_as_alone(lines: OperatorDictionary) -> None:
    other = coded(scale=2.0)
    both = lines.merge(other)
    assert len(both) == 9
    index = torch.tensor([7, 0, 8, 5, 6, 0])
    u = FIELDS.expand(6, -1, -1, -1) + torch.arange(6)[:, None, None, None]
    durations = torch.linspace(0, 0.1, 6, dtype=torch.float64)
    together = both.prepare(GRID, u).flow(index, u, durations)
    for e, (i, h) in enumerate(zip(index.tolist(), durations.tolist(), strict=True)):
        own, place = (lines, i) if i < 6 else (other, i - 6)
        torch.testing.assert_close(together[e : e + 1], flow_of(own, place, u[e : e + 1], h))
    one = both.prepare(GRID, u).flow(index, u, 0.05)
    torch.testing.assert_close(one[2:3], flow_of(other, 2, u[2:3], 0.05))


def test_a_merged_dictionary_knows_all_coefficients_and_fills_in_zeros(
    lines: OperatorDictionary,
) -> None:
    both = lines.merge(coded())
    assert both.coefficients["c"].tolist() == [*SPEEDS, 0, 0, 0, 0, 0]
    assert both.coefficients["D"].tolist() == [0, 0, 0, 0, *RATES, 0, 0, 0]
    assert both.coefficients["alpha"].tolist() == [0, 0, 0, 0, 0, 0, 0, 0.5, 1.0]
    assert both.provenance == ("exact",) * 6 + ("unknown",) * 3
    assert both.describe(1) == "c=0.2" and both.describe(6) == "#6"
    assert "6 linear + 3 spectral" in repr(both)


def test_selection_keeps_families_together(lines: OperatorDictionary) -> None:
    both = lines.merge(coded())
    some = both.select([8, 0, 7, 5])
    assert [len(part) for part in some.parts] == [2, 2]
    assert some.coefficients["c"].tolist() == [0.1, 0, 0, 0]
    assert some.coefficients["alpha"].tolist() == [0, 0, 1.0, 0.5]
    torch.testing.assert_close(flow_of(some, 2), flow_of(both, 8))


def test_an_empty_dictionary_is_the_neutral_element_of_merging(lines: OperatorDictionary) -> None:
    empty = lines.select([])
    for merged in (empty.merge(lines), lines.merge(empty)):
        assert len(merged) == 6
        assert merged.coefficients["c"].tolist() == lines.coefficients["c"].tolist()
        assert torch.equal(flow_of(merged, 3), flow_of(lines, 3))


def test_operators_on_other_fields_are_not_merged(lines: OperatorDictionary) -> None:
    for channels, ndim in ((2, 1), (1, 2)):
        other = OperatorDictionary.analytic(channels, ndim, [{"diffusion": 1.0}])
        with pytest.raises(OpsplitError, match=r"1-D fields with 1 channels cannot join"):
            lines.merge(other)


def test_operators_act_on_fields_divided_by_their_scale() -> None:
    """`f(u / s) s`: an operator that is not linear notices."""
    small, large = coded(scale=1.0), coded(scale=10.0)
    torch.testing.assert_close(flow_of(large, 1, FIELDS), 10 * flow_of(small, 1, FIELDS / 10))
    assert float((flow_of(large, 1) - flow_of(small, 1)).abs().max()) > 1e-9


def test_a_function_of_the_user_joins_the_dictionary(lines: OperatorDictionary) -> None:
    more = lines.add(lambda u: -u, coefficients={"k": 1.0}, provenance="mine")
    assert len(more) == 7
    assert more.coefficients["k"].tolist() == [0, 0, 0, 0, 0, 0, 1.0]
    assert more.provenance[-1] == "mine"
    assert more.describe(6) == "k=1"
    decayed = flow_of(more, 6, h=0.01)
    torch.testing.assert_close(decayed, FIELDS * np.exp(-0.01), rtol=1e-10, atol=0)
    stepped = lines.add(UserFunction(1, 1, step=lambda u, h: u + h))
    torch.testing.assert_close(flow_of(stepped, 6, h=0.25), FIELDS + 0.25)


def test_a_function_needs_a_dictionary_that_knows_the_fields(lines: OperatorDictionary) -> None:
    with pytest.raises(OpsplitError, match="empty"):
        lines.select([]).add(lambda u: -u)
    alone = lines.select([]).add(UserFunction(1, 1, step=lambda u, h: u + h))
    torch.testing.assert_close(flow_of(alone, 0, h=0.25), FIELDS + 0.25)


def test_numbers_of_coefficients_and_operators_must_agree(lines: OperatorDictionary) -> None:
    with pytest.raises(OpsplitError, match="6 operators but 2 of 'c'"):
        OperatorDictionary(lines.parts, {"c": np.zeros(2)})
    with pytest.raises(OpsplitError, match="6 operators but 1 of 'provenance'"):
        OperatorDictionary(lines.parts, {}, ("one",))


def test_prepared_operators_follow_the_precision_of_the_fields(lines: OperatorDictionary) -> None:
    for dictionary in (lines, coded()):
        assert flow_of(dictionary, 0, FIELDS.float()).dtype == torch.float32
        assert flow_of(dictionary, 0, FIELDS).dtype == torch.float64


# On disk


@pytest.mark.parametrize("kind", ["exact", "coded", "both", "unet", "empty"])
def test_a_saved_dictionary_loads_bit_equal(
    kind: str, lines: OperatorDictionary, tmp_path: Path
) -> None:
    unet = UNet(1, 1, max_step=0.1, width=4)
    begin = unet.initialisation(torch.Generator().manual_seed(0))
    saved = {
        "exact": lines,
        "coded": coded(scale=3.0),
        "both": lines.merge(coded()),
        "unet": OperatorDictionary((Part(unet, begin.start[None]),), {"c": np.array([1 / 3])}),
        "empty": lines.select([]),
    }[kind]
    saved.save(tmp_path / "deep")
    loaded = OperatorDictionary.load(tmp_path / "deep")
    assert repr(loaded) == repr(saved)
    assert loaded.provenance == saved.provenance
    assert loaded.coefficients.keys() == saved.coefficients.keys()
    for name, values in saved.coefficients.items():
        assert np.array_equal(loaded.coefficients[name], values)
    for mine, theirs in zip(loaded.parts, saved.parts, strict=True):
        assert torch.equal(mine.codes, theirs.codes)
        assert torch.equal(mine.parameters(), theirs.parameters())
        assert mine.scale == theirs.scale
    for i in range(len(saved)):
        assert torch.equal(flow_of(loaded, i), flow_of(saved, i))


def test_codes_without_their_decoder_need_the_model_that_wrote_them(tmp_path: Path) -> None:
    saved = coded()
    saved.save(tmp_path, with_decoders=False)
    with pytest.raises(OpsplitError, match="holds codes of a model; load that model"):
        OperatorDictionary.load(tmp_path)
    loaded = OperatorDictionary.load(tmp_path, saved.parts[0].decoder)
    assert torch.equal(flow_of(loaded, 1), flow_of(saved, 1))


def test_a_function_is_not_saved_and_nothing_is_written(
    lines: OperatorDictionary, tmp_path: Path
) -> None:
    with pytest.raises(OpsplitError, match="add it again after loading"):
        lines.add(lambda u: -u).save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["dictionary.json", "dictionary.safetensors"])
def test_a_missing_file_is_named(name: str, lines: OperatorDictionary, tmp_path: Path) -> None:
    lines.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(OpsplitError, match=rf"No dictionary in .*{name}.* is missing"):
        OperatorDictionary.load(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("name", ["dictionary.safetensors", "dictionary.json"])
def test_a_truncated_file_is_refused(
    name: str, share: float, lines: OperatorDictionary, tmp_path: Path
) -> None:
    lines.save(tmp_path)
    held = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(held[: int(share * len(held))])
    with pytest.raises(OpsplitError, match="cannot be read"):
        OperatorDictionary.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"parts": [{}]},
        {"parts": [{"family": "spectral", "config": {"colour": 1}, "scale": 1.0}]},
        {"provenance": None},
    ],
    ids=["format", "parts", "config", "provenance"],
)
def test_a_description_that_makes_no_sense_is_refused(
    change: dict, lines: OperatorDictionary, tmp_path: Path
) -> None:
    lines.save(tmp_path)
    path = tmp_path / "dictionary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(OpsplitError, match="dictionary"):
        OperatorDictionary.load(tmp_path)
