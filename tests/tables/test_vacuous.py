"""`check_tables` can warn, or fail, if policies were never triggered."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

from mtlmon.errors import MtlmonError, VacuousError, VacuousWarning
from mtlmon.tables import TableCheck, check_tables

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
    check = check_tables(ROWS, POLICIES, vacuous="error")
    found = 0
    words = "policy paid was never triggered: ship holds at none of the 3 time-points"
    with pytest.raises(VacuousError, match=words) as caught:
        for batch in check:
            found += batch.num_rows
    # the verdicts come first
    assert found == 7
    assert "ship" in str(caught.value.formula)
    with pytest.warns(VacuousWarning, match=words) as warned:
        check_tables(ROWS, POLICIES, vacuous="warn").to_arrow()
    assert [one.filename for one in warned] == [__file__]
    assert check_tables(ROWS, POLICIES).to_arrow().num_rows == 7


def test_policies_that_were_triggered() -> None:
    shipped = ROWS.set_column(ROWS.schema.get_field_index("ship"), "ship", ROWS["request"])
    for vacuous in "warn", "error":
        with warnings.catch_warnings():
            warnings.simplefilter("error", VacuousWarning)
            check_tables(shipped, POLICIES, vacuous=vacuous).to_arrow()


@pytest.mark.parametrize(
    ("policy", "vacuous", "verdicts", "message"),
    [
        ("ship IMPLIES pay", "fail", None, "vacuous is one of 'ignore', 'warn', 'error'"),
        ("ship IMPLIES pay", "warn", "first", "needs all rows"),
    ],
)
def test_what_is_refused(policy: str, vacuous: str, verdicts: str | None, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        _check(policy, vacuous, verdicts)


def _check(policy: str, vacuous: str, verdicts: str | None) -> TableCheck:
    return check_tables(ROWS, policy, vacuous=vacuous, verdicts=verdicts)  # type: ignore[arg-type]
