"""The rows of data frames that violate policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon  # noqa: E402
from mtlmon import MtlmonError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = {
    "ts": [1, 1, 2, 5, 9, 9],
    "user": ["ann", "bob", "ann", "bob", "cy", "ann"],
    "p": [True, True, False, True, False, True],
    "q": [False, False, True, False, False, False],
    "reason": [1, 2, 3, 4, 5, 6],
}
POLICIES = """
policy soon "every p is followed by q": p IMPLIES EVENTUALLY[0,3] q
policy rare: NOT (p AND PREVIOUS p)
"""
EXPECTED = [
    ("bob", 1, 2, "soon", 1, "every p is followed by q"),
    ("ann", 9, 6, "soon", 9, "every p is followed by q"),
    ("bob", 5, 4, "soon", 5, "every p is followed by q"),
    ("bob", 5, 4, "rare", 5, "violates NOT (p AND PREVIOUS p)"),
]


def as_pandas(table: Any) -> Any:
    pandas = pytest.importorskip("pandas", minversion="2.2", reason="pandas 2.2 is not installed")
    return pandas.DataFrame(table.to_pydict(), index=list("abcdef"))


def as_polars(table: Any) -> Any:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame(table.to_pydict())


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    names = ["user", "ts", "reason", "policy", "time", "violation_reason"]
    if hasattr(found, "iloc"):
        return list(found[names].itertuples(index=False, name=None))
    if hasattr(found, "rows"):
        return list(found.select(names).rows())
    return [tuple(one[name] for name in names) for one in found.to_pylist()]


@pytest.mark.parametrize(
    "convert", [as_pandas, as_polars, lambda table: table, lambda table: table.to_batches()[0]]
)
@pytest.mark.parametrize("options", [{"resolve": True}, {"mode": "naive", "verdicts": "false"}])
def test_kinds_of_tables(convert: Callable[[Any], Any], options: dict[str, Any]) -> None:
    frame = convert(pa.table(COLUMNS))
    check = mtlmon.check(POLICIES, frame, key="user", rows=True, end_time="inf", **options)
    found = check.violations(frame)
    assert type(found) is type(frame)
    assert sorted(rows_of(found)) == sorted(EXPECTED)
    if hasattr(found, "iloc"):
        assert sorted(found.index) == ["b", "d", "d", "f"]


def test_messages_are_reasons() -> None:
    frame = pa.table(COLUMNS)
    text = 'trigger high: reason > 5 message "{user} has {reason}"'
    found = mtlmon.check(text, frame, rows=True, resolve=True).violations(frame)
    assert found["violation_reason"].to_pylist() == ["ann has 6"]


def test_no_violation() -> None:
    frame = pa.table(COLUMNS)
    found = mtlmon.check("p OR NOT p", frame, rows=True, resolve=True).violations(frame)
    assert (found.num_rows, found.schema.names[-3:]) == (0, ["policy", "time", "violation_reason"])


def test_long_formulas_are_shortened() -> None:
    frame = pa.table(COLUMNS)
    formula = " AND ".join(["q"] + ["NOT p"] * 30)
    found = mtlmon.check(formula, frame, rows=True, resolve=True).violations(frame)
    assert found["violation_reason"][0].as_py().endswith(" NOT ...")


def test_what_is_refused() -> None:
    frame = pa.table(COLUMNS)
    with pytest.raises(MtlmonError, match="needs the rows of verdicts: add rows=True"):
        mtlmon.check("p", frame).violations(frame)
    with pytest.raises(MtlmonError, match="leave out verdicts='none'"):
        mtlmon.check("p", frame, rows=True, resolve=True, verdicts="none").violations(frame)
    several: list[dict[str, Any]] = [{}, {"verdicts": "false"}]
    for options in several:
        with pytest.raises(MtlmonError, match="follows from an equivalence: add resolve=True"):
            mtlmon.check("p", frame, rows=True, **options).violations(frame)
    with pytest.raises(MtlmonError, match="the table that was checked, and only one"):
        mtlmon.check("p", [frame, frame], rows=True, resolve=True).violations(frame)
    with pytest.raises(MtlmonError, match="the table that was checked, and only one"):
        mtlmon.check("p", frame, rows=True, resolve=True).violations(frame.slice(1))
    reader = frame.to_reader()
    with pytest.raises(MtlmonError, match="a table of pyarrow; not RecordBatchReader"):
        mtlmon.check("p", reader, rows=True, resolve=True).violations(reader)


VARIABLES = """
atom ask(user, reason) = p
atom answer(user) = q
policy soon "every question is answered": ask(u, n) AND n > 1 IMPLIES EVENTUALLY[0,3] answer(u)
policy once: NOT EXISTS n. ask(u, n) AND PREVIOUS ask(u, _)
find asked: ask(u, _)
"""
FOUND = [
    ("bob", 1, 2, "soon", 1, "every question is answered (u=bob, n=2)"),
    ("bob", 5, 4, "soon", 5, "every question is answered (u=bob, n=4)"),
    ("ann", 9, 6, "soon", 9, "every question is answered (u=ann, n=6)"),
]


@pytest.mark.parametrize("convert", [as_pandas, as_polars, lambda table: table])
@pytest.mark.parametrize("verdicts", [None, "all"])
def test_policies_with_variables(convert: Callable[[Any], Any], verdicts: Any) -> None:
    frame = convert(pa.table(COLUMNS))
    check = mtlmon.check(VARIABLES, frame, rows=True, end_time="inf", verdicts=verdicts)
    found = check.violations(frame)
    assert type(found) is type(frame)
    assert sorted(rows_of(found), key=lambda row: row[4]) == FOUND


def test_policies_with_variables_and_without() -> None:
    frame = pa.table(COLUMNS)
    text = (
        f"{VARIABLES}"
        'trigger high: reason > 5 message "{user} has {reason}"\n'
        # a variable with the name of the column of messages
        "policy named: FORALL message. ask(message, 1) IMPLIES q\n"
    )
    options: Any = {"rows": True, "resolve": True, "end_time": "inf"}
    found = mtlmon.check(text, frame, **options).violations(frame)
    named = "violates FORALL message. ask(message, 1) IMPLIES q (message=ann)"
    assert sorted(rows_of(found), key=lambda row: (row[4], row[3])) == [
        ("ann", 1, 1, "named", 1, named),
        *FOUND[:2],
        ("ann", 9, 6, "high", 9, "ann has 6"),
        FOUND[2],
    ]


def test_several_valuations_of_a_row() -> None:
    """A row is there for each valuation; times have all of their digits."""
    times = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
    frame = pa.table({"ts": [1], "user": ["a b"], "x": [0.5], "at": times})
    text = """
        atom seen(user, x, at) = x > 0
        policy few: NOT (seen(u, v, t) AND (n = 1 OR n = 2))
    """
    found = mtlmon.check(text, frame, rows=True).violations(frame)
    assert found["reason"].to_pylist() == [
        f"violates NOT (seen(u, v, t) AND (n = 1 OR n = 2)) "
        f'(u="a b", v=0.5, t=2023-11-14T22:13:20.123456789Z, n={n})'
        for n in (1, 2)
    ]


def test_what_is_refused_with_variables() -> None:
    frame = pa.table(COLUMNS)
    others = f"{VARIABLES}policy other: p OR NOT p\n"
    for text in VARIABLES, others:
        with pytest.raises(MtlmonError, match="needs the rows of verdicts: add rows=True"):
            mtlmon.check(text, frame, resolve=True).violations(frame)
        options: Any = {"rows": True, "resolve": True}
        with pytest.raises(MtlmonError, match="leave out verdicts='none'"):
            mtlmon.check(text, frame, verdicts="none", **options).violations(frame)
        with pytest.raises(MtlmonError, match="leave out time_points='stamp'"):
            mtlmon.check(text, frame, time_points="stamp", **options).violations(frame)
        with pytest.raises(MtlmonError, match="the table that was checked, and only one"):
            mtlmon.check(text, [frame, frame], **options).violations(frame)
