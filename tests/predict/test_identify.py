"""Coefficients as an equation that reads as one writes it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplit.physics import PHYSICS
from opsplit.predict.identify import equation

TERMS = {"c": "-u_x", "D": "u_xx", "epsilon": "-u u_x"}


@pytest.mark.parametrize(
    ("coefficients", "written"),
    [
        ({"c": 0.5, "D": 0.3}, "u_t = -0.5 u_x + 0.3 u_xx"),
        ({"c": -0.5, "D": -0.3}, "u_t = 0.5 u_x - 0.3 u_xx"),
        ({"D": 0.3}, "u_t = 0.3 u_xx"),
        ({"D": 0.3, "c": 0.5}, "u_t = 0.3 u_xx - 0.5 u_x"),
        ({"D": -0.3}, "u_t = -0.3 u_xx"),
        ({"D": 0.123456}, "u_t = 0.1235 u_xx"),
        ({"c": 0.5, "D": 0.3, "epsilon": 0.25}, "u_t = -0.5 u_x + 0.3 u_xx - 0.25 u u_x"),
        ({"k": 2.0}, "u_t = 2 f_k(u)"),
        ({}, "u_t = (no coefficients known)"),
    ],
)
def test_an_equation_is_written_with_its_signs(
    coefficients: dict[str, float], written: str
) -> None:
    assert equation(coefficients, TERMS) == written


def test_a_constant_rate_is_a_number_alone() -> None:
    terms = {"f": "1", "h": "-3e+02", "D": "2e+08 u_xx"}
    assert equation({"f": 0.25, "D": 2.0, "h": 1.0}, terms) == "u_t = 0.25 + 4e+08 u_xx - 300"


@given(
    values=st.dictionaries(
        st.sampled_from(sorted(TERMS)), st.floats(-100, 100, allow_subnormal=False), min_size=1
    )
)
def test_the_coefficients_can_be_read_back_from_the_equation(values: dict[str, float]) -> None:
    text = equation(values, TERMS)
    assert text.startswith("u_t = ")
    names = {term.lstrip("-"): name for name, term in TERMS.items()}
    pattern = r"([+-]?) ?([\d.e+-]+) ([a-z_ ]+?)(?= [+-] |$)"
    read = {}
    for sign, number, term in re.findall(pattern, text.removeprefix("u_t = ")):
        printed = float(number) * (-1 if sign == "-" else 1)
        name = names[term]
        read[name] = -printed if TERMS[name].startswith("-") else printed
    assert read == pytest.approx(values, rel=1e-3)


def test_every_physics_names_its_terms() -> None:
    for physics in PHYSICS.values():
        texts = {name: term.text for name, term in physics.terms.items()}
        written = equation(dict.fromkeys(texts, 0.5), texts)
        for text in texts.values():
            assert f"0.5 {text.lstrip('-')}" in written


def test_a_fraction_of_a_term_is_exact() -> None:
    assert equation({"b": -3.0}, {"b": "-1/3 (u^3)_x"}) == "u_t = 1 (u^3)_x"
