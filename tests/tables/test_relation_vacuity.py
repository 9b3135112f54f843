"""`mtlmon.check` can warn, or fail, if policies with variables were never triggered."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from mtlmon.errors import MtlmonError, VacuousError, VacuousWarning

if TYPE_CHECKING:
    from tests.doors import Vacuous

ROWS = pa.table({"ts": [1, 2, 9], "what": ["pay", "ship", "ship"], "o": [7, 7, 8]})
DECLARED = """
atom pay(o) = what = "pay"
atom ship(o) = what = "ship"
atom refund(o) = what = "refund"
let known = (EXISTS o. refund(o)) IMPLIES NEXT ship(8)
"""
PAID = "policy paid: FORALL o. ship(o) IMPLIES ONCE pay(o)\n"
OTHER = "atom big = o > 5\npolicy other: big IMPLIES o > 6\n"


@pytest.mark.parametrize("others", ["", OTHER])
@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("policy back: FORALL o. refund(o) IMPLIES ONCE ship(o)", "refund(o)"),
        ("policy back: known", "EXISTS o. refund(o)"),
        (
            "policy back: (EXISTS o. refund(o)) IMPLIES EVENTUALLY[0,9] ship(8)",
            "EXISTS o. refund(o)",
        ),
        ("policy back: (refund(o) AND ONCE pay(o)) IMPLIES pay(8)", "refund(o) AND ONCE pay(o)"),
    ],
)
def test_policies_that_were_not_triggered(others: str, policy: str, left: str) -> None:
    text = f"{DECLARED}{others}{PAID}{policy}\n"
    check = mtlmon.check(text, ROWS, vacuous="error")
    batches: list[pa.RecordBatch] = []
    words = f"policy back was never triggered: {left} holds at none of the 3 time-points"
    with pytest.raises(VacuousError) as caught:
        batches.extend(check.batches())
    assert str(caught.value).startswith(words)
    # all verdicts come first
    assert pa.Table.from_batches(batches) == mtlmon.check(text, ROWS).to_arrow()
    with pytest.warns(VacuousWarning, match="policy back was never triggered") as warned:
        mtlmon.check(text, ROWS, vacuous="warn").to_arrow()
    assert [one.filename for one in warned] == [__file__]


@pytest.mark.parametrize("others", ["", OTHER])
def test_policies_that_were_triggered(others: str) -> None:
    text = f"{DECLARED}{others}{PAID}policy plain: NOT refund(o)\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error", VacuousWarning)
        for vacuous in "warn", "error":
            counted = mtlmon.check(text, ROWS, vacuous=vacuous).to_arrow()
            assert counted == mtlmon.check(text, ROWS).to_arrow()


def test_other_policies_beside_those_with_variables() -> None:
    text = f"{DECLARED}{PAID}atom never = o > 9\npolicy other: never IMPLIES o > 6\n"
    with pytest.raises(VacuousError, match="policy other was never triggered: never holds at none"):
        mtlmon.check(text, ROWS, vacuous="error").to_arrow()


@pytest.mark.parametrize("others", ["", OTHER])
@pytest.mark.parametrize(
    ("policy", "vacuous", "message"),
    [
        (PAID, "fail", "vacuous='fail': it is one of 'ignore', 'warn', 'error'"),
        (
            "policy back: o > 1 IMPLIES NOT ship(o)",
            "error",
            "vacuous='error' cannot tell how often the left side of policy back holds: by itself, "
            "it does not bind its variables; add an atom that does, leave the option out",
        ),
        (
            "policy back: (EVENTUALLY pay(1)) IMPLIES EVENTUALLY ship(1)",
            "warn",
            "vacuous='warn' cannot tell how often the left side of policy back holds: it looks "
            "ahead without bound; give its operators bounds, leave the option out",
        ),
    ],
)
def test_what_is_refused(others: str, policy: str, vacuous: Vacuous, message: str) -> None:
    text = f"{DECLARED}{others}{policy}\n"
    with pytest.raises(MtlmonError) as caught:
        mtlmon.check(text, ROWS, vacuous=vacuous)
    assert message in str(caught.value)
