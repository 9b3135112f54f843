"""Arrays and tables as traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mtlmon import TimeStampError
from mtlmon.errors import TraceError, ViolationError
from mtlmon.testing import assert_holds, check

FORMULA = "p IMPLIES EVENTUALLY[0,2] q"
STAMPS = np.array([0, 1, 5, 5, 9])
P = np.array([1, 0, 1, 0, 0], dtype=bool)
Q = np.array([0, 1, 0, 0, 1], dtype=bool)
VIOLATIONS = [(5, 0)]
DAYS = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-06", "2020-01-06", "2020-01-10"])


def structured() -> Any:
    table = np.zeros(5, dtype=[("time_stamp", "i4"), ("q", "?"), ("p", "?"), ("other", "f8")])
    table["time_stamp"], table["p"], table["q"] = STAMPS, P, Q
    return table


FORMS = {
    "matrix": (STAMPS, np.column_stack([P, Q])),
    "matrix of 0 and 1": (STAMPS, np.column_stack([P, Q]).astype(float)),
    "masks": (STAMPS, P + 2 * Q.astype(np.uint8)),
    "signed masks": (STAMPS, P + 2 * Q.astype(np.int64)),
    "columns": (STAMPS, {"q": Q, "p": P.tolist(), "other": ["text"] * 5}),
    "unsigned": (STAMPS.astype(np.uint64), {"q": Q, "p": P}),
    "objects": (STAMPS.astype(object), {"q": Q, "p": P}),
    "dictionary": {"time_stamp": STAMPS.tolist(), "p": P, "q": Q.astype(int)},
    "structured": structured(),
    "frame": pd.DataFrame({"time_stamp": STAMPS, "p": P, "q": Q}),
    "frame by index": pd.DataFrame({"p": P, "q": Q}, index=STAMPS),
    "nullable": pd.DataFrame({"time_stamp": STAMPS, "p": P, "q": Q}).convert_dtypes(),
    "series": (pd.Series(STAMPS), {"p": P, "q": Q}),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    trace = FORMS[form]
    assert check(FORMULA, trace, end_time="last").violations == VIOLATIONS
    with pytest.raises(ViolationError, match="5:0 violates"):
        assert_holds(FORMULA, trace)


def test_atoms_name_the_columns_of_a_matrix() -> None:
    matrix = np.column_stack([Q, P, P])
    names = ["q", "p", "r"]
    assert check(FORMULA, (STAMPS, matrix), atoms=names).violations == VIOLATIONS
    masks = Q + 2 * P + 4 * P.astype(int)
    result = check(FORMULA, (STAMPS, masks), atoms=names)
    assert result.violations == VIOLATIONS
    assert "5:0  p r" in str(result)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 63, 64, 65, 130])
def test_many_columns(count: int) -> None:
    random = np.random.default_rng(count)
    names = [f"a{number}" for number in range(count)]
    matrix = random.integers(0, 2, (20, count)).astype(bool)
    formula = " OR ".join(names[-3:]) or "true"
    trace = [
        (row, {name for name, holds in zip(names, cells, strict=True) if holds})
        for row, cells in enumerate(matrix.tolist())
    ]
    wanted = check(formula, trace).violations
    assert check(formula, (np.arange(20), matrix), atoms=names).violations == wanted


def test_blocks_make_no_difference() -> None:
    stamps = np.arange(200_000) // 3
    matrix = np.zeros((200_000, 2), dtype=bool)
    matrix[[0, 65_535, 65_536, 131_072, 199_999], 0] = True
    masks = matrix[:, 0].astype(np.uint8)
    for letters in (matrix, masks):
        violations = check("NOT p", (stamps, letters), atoms=("p", "q")).violations
        assert violations == [(0, 0), (21845, 0), (21845, 1), (43690, 2), (66666, 1)]


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
@pytest.mark.parametrize(("unit", "day"), [("d", 1), ("h", 24), ("ms", 86_400_000)])
def test_dates(unit: str, day: int, zone: str | None) -> None:
    days = DAYS if zone is None else DAYS.tz_localize("UTC").tz_convert(zone)
    formula = "p IMPLIES EVENTUALLY[0,2d] q"
    first = 18262 * day
    for trace in (
        pd.DataFrame({"p": P, "q": Q}, index=days),
        pd.DataFrame({"time_stamp": days, "p": P, "q": Q}),
        (days, {"p": P, "q": Q}),
    ):
        result = check(formula, trace, unit=unit)
        assert result.violations == [(first + 5 * day, 0)]


def test_dates_of_numpy() -> None:
    stamps = np.array(["1970-01-01T00:00:01.9", "1970-01-01T00:00:02"], dtype="datetime64[ms]")
    assert check("p", (stamps, {"p": P[:2]}), unit="s").violations == [(2, 0)]
    differences = np.array([0, 1999], dtype="timedelta64[ms]")
    assert check("p", (differences, {"p": P[:2]}), unit="s").violations == [(1, 0)]


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"time_stamp": STAMPS, "p": P, "q": Q} | columns)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (STAMPS, "ndarray on its own is not a trace"),
        ((STAMPS, P), "letters have the shape"),
        ((STAMPS, np.column_stack([P, Q, Q])), "a column for each of p, q"),
        ((STAMPS, np.column_stack([P, Q])[:4]), "4 rows, but there are 5 time-stamps"),
        ((STAMPS, 2 * P + 4 * Q), "the mask of row 1 is 0x4, but there are only 2 atoms: p, q"),
        ((STAMPS, (-1) * P.astype(int)), "the mask of row 0 is -0x1"),
        ((STAMPS, {"p": P}), "no column for 'q'"),
        ((STAMPS, {"p": P, "q": Q[1:]}), "column 'q': 4 rows"),
        ((STAMPS, {"p": P, "q": [[1]] * 5}), r"column 'q' has the shape \(5, 1\)"),
        ((STAMPS, {"p": P, "q": [0, 1, None, 1, 1]}), "column 'q', row 2: None is neither"),
        ((STAMPS, {"p": P, "q": [0, 1, 2, 1, 1]}), "column 'q', row 2: 2 is neither"),
        ((STAMPS, {"p": P, "q": [0, 1, 1, 1, np.nan]}), "column 'q', row 4: nan is neither"),
        ((STAMPS, np.full((5, 2), 7)), "column 'p', row 0: 7 is neither"),
        ((STAMPS.astype(float), {"p": P, "q": Q}), "the time-stamp of row 0 is 0.0"),
        ((np.array([1, None]), {"p": P, "q": Q}), "the time-stamp of row 1 is None"),
        ((P, {"p": P, "q": Q}), "the time-stamp of row 0 is True"),
        ((STAMPS.reshape(5, 1), {"p": P, "q": Q}), r"time-stamps have the shape \(5, 1\)"),
        (frame(time_stamp=DAYS), "need the unit"),
        ({"time": STAMPS, "p": P, "q": Q}, "no column 'time_stamp'.* one of 'time', 'p', 'q'"),
        (frame().drop(columns="p"), "no column for 'p', which the formula names"),
    ],
)
def test_bad_arrays_and_tables(trace: Any, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        check(FORMULA, trace)


def test_missing_dates() -> None:
    days = DAYS.to_series(index=range(5))
    days[3] = pd.NaT
    with pytest.raises(TraceError, match=r"the time-stamp of row 3 is missing \(NaT\)"):
        check(FORMULA, frame(time_stamp=days), unit="d")


def test_the_column_of_time_stamps_can_be_named() -> None:
    table = frame().rename(columns={"time_stamp": "when"})
    assert check(FORMULA, table, time="when").violations == VIOLATIONS
    with pytest.raises(TraceError, match="no column 'then'"):
        check(FORMULA, table, time="then")


def test_decreasing_time_stamps_are_named_by_row() -> None:
    with pytest.raises(TimeStampError, match="event 2: time-stamp 0 is below 1"):
        check(FORMULA, (np.array([0, 1, 0]), {"p": P[:3], "q": Q[:3]}))
    with pytest.raises(TimeStampError, match="event 0: time-stamp -1"):
        check(FORMULA, (np.array([-1, 1, 0]), {"p": P[:3], "q": Q[:3]}))
