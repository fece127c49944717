"""Learned weights in words."""

from __future__ import annotations

import numpy as np
import pytest

from opsplit.pretrain.wording import learned_term


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (-1 / 3 * 1.0004, "-1/3 (u^3)_x"),
        (2 / 3, "2/3 (u^3)_x"),
        (-0.5001, "-0.5 (u^3)_x"),
        (0.125, "0.125 (u^3)_x"),
        (1.0001, "(u^3)_x"),
    ],
)
def test_weights_near_a_simple_number_are_that_number(weight: float, text: str) -> None:
    assert learned_term({("0*0*0@x", False): np.array([weight])}, ["u"], 1).text == text
