"""Tables of other libraries, and policies checked on tables from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon  # noqa: E402
from mtlmon import MtlmonError, parse  # noqa: E402
from mtlmon.policy import parse_policies  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.tables.reading import all_rows  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {
    "ts": [1, 2, 2, 9],
    "user": ["ann", "bob", "ann", "cy"],
    "what": [["p"], ["q", "x"], [], None],
    "size": [5, 50, None, 500],
}
POLICIES = """
unit s
atom large = size > 10 and startswith(user, "b")
policy response: p IMPLIES EVENTUALLY[0,5s] q
policy "not large": NOT large
"""


def tables() -> list[Any]:
    table = pa.table(COLUMNS)
    return [table, table.to_reader(), table.to_batches()[0], [table[:1], table[1:1], table[1:]]]


@pytest.mark.parametrize("table", tables(), ids=lambda table: type(table).__name__)
def test_tables_of_arrow(table: Any) -> None:
    with open_tables(table, ("p", "q"), event="what", key="user") as events:
        rows = all_rows(events, ("p", "q"))
    assert rows == [
        (1, frozenset("p")),
        (2, frozenset("q")),
        (2, frozenset()),
        (9, frozenset()),
    ]
    assert events.files == ()
    assert (events.rows, events.size, events.bytes_read) == (4, None, 0)


def test_data_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", minversion="2.2", reason="pandas 2.2 is not installed")
    frame = pandas.DataFrame(COLUMNS | {"ts": pandas.to_datetime(COLUMNS["ts"], unit="s")})
    log = tmp_path / "log.csv"
    log.write_text("ts,user,what,size\n12,ann,q,1\n")
    frame["what"] = ["p", "q|x", "", None]
    for one in frame, frame.set_index("ts"):
        check = mtlmon.check(POLICIES, [one, log], event="what", key="user")
        rows = check.to_arrow().to_pylist()
        # pandas has times, the first row says how the log writes them
        assert rows[0] == {
            "policy": "not large", "user": "ann", "time": 1, "time_text": "1970-01-01T00:00:01Z",
            "offset": 0, "verdict": True, "reference": None,
        }  # fmt: skip
        assert [(row["policy"], row["time"]) for row in rows if row["verdict"] is False] == [
            ("not large", 2), ("response", 1),
        ]  # fmt: skip
        assert len(rows) == 10


def _verdicts(table: Any) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = (
        mtlmon.check(POLICIES, table, event="what", key="user").to_arrow().to_pylist()
    )
    return rows


def test_lazy_frames_of_polars() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    lazy = polars.DataFrame(COLUMNS).lazy()
    assert _verdicts(lazy) == _verdicts(polars.DataFrame(COLUMNS))
    kept = lazy.filter(polars.col("user") != "nobody").with_columns(what=polars.col("what"))
    assert _verdicts(kept) == _verdicts(polars.DataFrame(COLUMNS))
    assert _verdicts(lazy.clear()) == []


def test_lazy_frames_are_read_in_batches() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    count = 300_000
    lazy = polars.LazyFrame({"ts": range(count), "p": [True] * count})
    check = mtlmon.check("p", lazy, verdicts="all")
    assert len(next(check)) < count
    assert sum(len(batch) for batch in check.batches()) > 0


def test_data_frames_of_polars() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame(COLUMNS)
    for user in polars.String, polars.Categorical:
        check = mtlmon.check(
            POLICIES, frame.with_columns(polars.col("user").cast(user)), event="what", key="user"
        )
        assert len(check.to_arrow()) == 8
        assert check.counts["not large"].false == 1
        assert check.counts["response"].false == 1


@pytest.mark.parametrize("policies", [POLICIES, parse_policies(POLICIES)], ids=["text", "file"])
def test_checks_from_python(policies: Any) -> None:
    table = pa.table(COLUMNS)
    with mtlmon.check(policies, table, event="what", key="user", mode="naive") as check:
        batches = list(check.batches())
    assert sum(map(len, batches)) == 8
    assert {name: tuple(counts) for name, counts in check.counts.items()} == {
        "response": (4, 3, 1),
        "not large": (4, 3, 1),
    }
    for verdicts, found in {
        "first": [("response", 1)],
        "false": [("not large", 2), ("response", 1)],
        "none": [],
    }.items():
        some = mtlmon.check(policies, table, event="what", key="user", verdicts=verdicts)  # type: ignore[arg-type]
        rows = some.to_arrow().to_pylist()
        assert [(row["policy"], row["time"]) for row in rows] == found


def test_formulas_and_units() -> None:
    table = pa.table({"at": [1500, 1600, 2700], "p": [True, False, False]})
    formula = parse("p IMPLIES EVENTUALLY[100ms,100ms] NOT p", unit="later").in_unit("ms")
    cases: list[tuple[Any, dict[str, Any]]] = [
        (formula, {"time_unit": "ms"}),
        ("p IMPLIES EVENTUALLY[100ms,100ms] NOT p", {"time_unit": "ms"}),
        ("p IMPLIES EVENTUALLY[100ms,100ms] NOT p", {"resolution": "ms"}),
        ("unit us\npolicy x: p IMPLIES EVENTUALLY[100ms,100ms] NOT p", {"time_unit": "ms"}),
    ]
    for policy, options in cases:
        check = mtlmon.check(policy, table, time="at", **options)
        assert not check.counts
        rows = check.to_arrow().to_pylist()
        assert [row["verdict"] for row in rows] == [True, True, True]
        assert rows[0]["time"] == (1500000 if "us" in str(policy) else 1500)


def test_errors() -> None:
    table = pa.table(COLUMNS)
    with pytest.raises(MtlmonError, match=r"a table is the name of a file or has .*; not int"):
        open_tables([3], ("p",))  # type: ignore[list-item]
    with pytest.raises(MtlmonError, match="not dict"):
        open_tables({"ts": [1]}, ("p",))  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="<Table>: no column 'p' for the atom"):
        list(mtlmon.check("p", table))
    with pytest.raises(MtlmonError, match="row 4: column 'ts': time-stamp 1 comes after 9"):
        list(mtlmon.check("p", [pa.concat_tables([table[1:], table[:1]])], event="what"))
    with pytest.raises(MtlmonError, match="the unit s, but ms was asked for"):
        mtlmon.check(POLICIES, table, event="what", resolution="ms").finish()


def test_verdicts_before_an_error_come_first() -> None:
    table = pa.table({"ts": [1, 2, None], "p": [True, False, True]})
    found = []
    check = mtlmon.check("p", table)
    with pytest.raises(MtlmonError, match="row 3: the time column 'ts' is empty in this row"):
        for batch in check.batches():
            found += batch["verdict"].to_pylist()
    assert found == [True, False]
