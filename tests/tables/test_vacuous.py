"""`mtlmon.check` can warn, or fail, if policies were never triggered."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import mtlmon
from mtlmon.errors import MtlmonError, VacuousError, VacuousWarning

POLICIES = """
policy answered per user: request IMPLIES EVENTUALLY[0,5] response
policy paid: ALWAYS[0,3] (ship IMPLIES ONCE pay)
policy never: NOT error
"""
ROWS = pa.table(
    {
        "ts": [0, 3, 9],
        "user": ["ann", "ann", "bob"],
        **{name: [False, False, False] for name in ("response", "pay", "error")},
        "request": [False, False, True],
        "ship": [False, False, False],
    }
)


def test_policies_that_were_not_triggered() -> None:
    check = mtlmon.check(POLICIES, ROWS, vacuous="error")
    found = 0
    words = "policy paid was never triggered: ship holds at none of the 3 time-points"
    with pytest.raises(VacuousError, match=words) as caught:
        for batch in check.batches():
            found += batch.num_rows
    # the verdicts come first
    assert found == 7
    assert "ship" in str(caught.value.formula)
    with pytest.warns(VacuousWarning, match=words) as warned:
        mtlmon.check(POLICIES, ROWS, vacuous="warn").to_arrow()
    assert [one.filename for one in warned] == [__file__]
    assert mtlmon.check(POLICIES, ROWS).to_arrow().num_rows == 7


def test_policies_that_were_triggered() -> None:
    shipped = ROWS.set_column(ROWS.schema.get_field_index("ship"), "ship", ROWS["request"])
    for vacuous in "warn", "error":
        with warnings.catch_warnings():
            warnings.simplefilter("error", VacuousWarning)
            mtlmon.check(POLICIES, shipped, vacuous=vacuous).to_arrow()


@pytest.mark.parametrize(
    ("policy", "vacuous", "verdicts", "message"),
    [
        (
            "ship IMPLIES pay",
            "fail",
            None,
            "vacuous='fail': it is one of",
        ),
        ("ship IMPLIES pay", "warn", "first", "does not work with verdicts='first'"),
    ],
)
def test_what_is_refused(policy: str, vacuous: str, verdicts: str | None, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        _check(policy, vacuous, verdicts)


def _check(policy: str, vacuous: str, verdicts: str | None) -> mtlmon.Run:
    return mtlmon.check(policy, ROWS, vacuous=vacuous, verdicts=verdicts)  # type: ignore[arg-type]
