"""Policy files whose unit of time-stamps is not known: which are read a second time without one."""

from __future__ import annotations

import pytest

from mtlmon.errors import FormulaError
from mtlmon.policy import parse_policies
from tests.doors import run_preparing

UNITS = ["ns", "us", "ms", "s", "m", "h", "d", "min", "sec"]
PLACES = [
    "policy p: EVENTUALLY[0,5{}] a",
    "policy p for 5{}: a",
    "policy p on every 5{}: a",
    "policy p: count[0,5{}](x > 1) < 3",
]


@pytest.mark.parametrize("text", PLACES)
@pytest.mark.parametrize("blank", ["", " ", "\t", "/* of */ ", " # of\n "])
@pytest.mark.parametrize("unit", UNITS)
def test_bounds_with_units_need_one(text: str, blank: str, unit: str) -> None:
    """Rationale: what is read only once, with units that come later, would not be refused."""
    written = text.format(blank + unit)
    try:
        file = parse_policies(written, unit="later")
    except FormulaError:
        # no place for a blank
        return
    assert run_preparing.may_need_unit(file)
    with pytest.raises(FormulaError):
        parse_policies(written)


@pytest.mark.parametrize(
    "text",
    [
        "policy w1 per user: a",
        "policy w1 at most 3: a",
        "policy w1 on rows where x > 0: a AND x = 5 IMPLIES b",
        "atom a = x in (1, 2) or x = 3 and y\npolicy p: a",
        "policy p: EVENTUALLY[0,5] m",
    ],
)
def test_numbers_before_other_words_need_none(text: str) -> None:
    """Rationale: reading 1,000 policies twice takes twice as long."""
    assert not run_preparing.may_need_unit(parse_policies(text, unit="later"))
    parse_policies(text)
