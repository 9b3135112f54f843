"""Policies with variables in Spark: what one machine says with a time-point for each time-stamp."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon.errors import ExecutorError, MtlmonError
from mtlmon.relational.slicing import Statistics
from mtlmon.spark import (
    RowCounts,
    monitor,
    monitor_partitions,
    monitor_stream,
    plain_errors,
    relation_statistics,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

FILE = """
unit s
atom publish(user, file) = what = "publish"
atom approve(file, level) = what = "approve"
atom began(user) = what = "login"
atom ended(user) = what = "logout"
atom quiet = what = "quiet"

let inside(u) = NOT ended(u) SINCE began(u)
let going(f) = approve(f, _) OR (publish(_, f) AND PREVIOUS[0,4] going(f))
let near(f, n) = (approve(f, n) AND n > 1) OR ((ONCE[1,5] near(f, n)) AND EVENTUALLY[0,2] quiet)

policy approved per none:
    FORALL u, f. publish(u, f) IMPLIES ONCE[0,9] EXISTS n. approve(f, n) AND n > 1
policy soon per none: publish(u, f) IMPLIES EVENTUALLY[0,5] approve(f, _)
policy inside per none: publish(u, f) IMPLIES inside(u)
find pair per none: publish(u, f) AND (ONCE[0,4] publish(v, f)) AND NOT (u = v)
policy answered per none: ALWAYS (quiet IMPLIES EVENTUALLY EXISTS u. began(u))
find many per none: COUNT(ONCE[0,9] publish(u, f) BY u) > 2
find whole per none: COUNT(ONCE[0,3] publish(u, f)) > 3
find nothing per none: COUNT(ONCE[0,3] publish(u, f)) = 0
find after per none: quiet AND PREVIOUS publish(u, f)
find next per none: publish(u, f) AND NEXT[0,3] quiet
find some per none: EXISTS u, f. publish(u, f) AND ONCE[0,3] approve(f, _)
find going per none: going(f)
find near per none: publish(u, f) AND near(f, n)
find again per none: publish("u1", f) AND ONCE[0,3] (publish(v, f) AND NOT (v = "u1"))
"""
SCHEMA = "ts long, what string, user string, file string, level long, amount double"
ARROW = pa.schema(
    [
        ("ts", pa.int64()),
        ("what", pa.string()),
        ("user", pa.string()),
        ("file", pa.string()),
        ("level", pa.int64()),
        ("amount", pa.float64()),
    ]
)


# a frequent value, which is part of expressions of SQL
USUAL = 'f é\'s \\ "1"\n$x'


def log_of(seed: int, count: int, *, is_skewed: bool = False) -> list[dict[str, Any]]:
    """Random rows, in no order."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        is_usual = is_skewed and draw.random() < 0.7
        rows.append(
            {
                "ts": draw.randrange(count // 3 + 1),
                "what": draw.choice(
                    [
                        "publish",
                        "publish",
                        "publish",
                        "approve",
                        "login",
                        "logout",
                        "quiet",
                        "other",
                    ]
                ),
                "user": "u0" if is_usual else draw.choice([None, *(f"u{n}" for n in range(6))]),
                "file": USUAL if is_usual else draw.choice([None, *(f"f{n}" for n in range(6))]),
                "level": draw.choice([None, 1, 2, 3]),
                "amount": draw.choice([None, 0.0, -0.0, 1.5, float("nan"), 1e300]),
            }
        )
    return rows


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    names = ARROW.names
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SCHEMA)


def truth(rows: list[dict[str, Any]], policies: str, **options: Any) -> Counter[tuple[Any, ...]]:
    """What one machine says."""
    ordered = sorted(rows, key=lambda row: row["ts"])
    table = pa.Table.from_pylist(ordered, ARROW)
    check = mtlmon.check(policies, table, time_points="stamp", **options)
    return counted(check.to_arrow().to_pylist())


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(sorted((name, str(value)) for name, value in row.items() if name != "reference"))
        for row in rows
    )


def found(df: DataFrame, policies: str, **options: Any) -> Counter[tuple[Any, ...]]:
    with plain_errors():
        return counted([row.asDict() for row in monitor(df, policies, **options).collect()])


@pytest.mark.parametrize(
    ("seed", "slices", "is_skewed", "options"),
    [
        (2, 4, False, {"end_time": "inf"}),
        (4, 7, True, {"end_time": 70}),
        (5, None, True, {"end_time": "last"}),
    ],
)
def test_slices_say_what_one_machine_says(
    spark: SparkSession, seed: int, slices: int | None, is_skewed: bool, options: dict[str, Any]
) -> None:
    rows = log_of(seed, 160, is_skewed=is_skewed)
    df = frame(spark, rows).repartition(3)
    expected = truth(rows, FILE, **options)
    assert len({dict(one)["policy"] for one in expected}) >= 8
    assert found(df, FILE, slices=slices, **options) == expected


def test_rows_are_not_copied_for_time_points_without_them(spark: SparkSession) -> None:
    text = """
        atom publish(user, file) = what = "publish"
        atom approve(file) = what = "approve"
        policy approved: publish(u, f) IMPLIES ONCE[0,9] approve(f)
    """
    rows = log_of(7, 200)
    df = frame(spark, rows)
    for options in ({}, {"end_time": "inf"}):
        assert found(df, text, slices=9, statistics=Statistics(), **options) == truth(
            rows, text, **options
        )


def test_policies_say_what_they_say_alone(spark: SparkSession) -> None:
    """An equality with texts makes texts of numbers in its policy, not in others of the file."""
    atoms = """
        atom publish(user, level) = what = "publish"
        atom approve(level) = what = "approve"
        atom named(file) = what = "login"
        let approved(x) = ONCE[0,9] approve(x)
    """
    policies = {
        "numbers": "policy numbers: publish(u, x) IMPLIES approved(x)",
        "texts": "policy texts: publish(u, x) IMPLIES ONCE[0,9] named(x)",
        "lets": "policy lets: named(x) IMPLIES approved(x)",
    }
    # the files of the second half are numbers as texts
    rows = log_of(11, 90)
    rows = [row | {"file": str(row["level"])} if k > 45 else row for k, row in enumerate(rows)]
    df = frame(spark, rows)
    together = found(df, atoms + "\n".join(policies.values()), slices=3)
    alone = [found(df, f"{atoms}\n{policy}", slices=3) for policy in policies.values()]
    assert all(alone)

    def values(answers: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
        # policies of a file have their variables in the same columns
        return Counter(
            tuple(pair for pair in row if pair != ("u", "None")) for row in answers.elements()
        )

    assert values(together) == values(sum(alone, Counter()))


def test_values_of_all_kinds_are_split_alike(spark: SparkSession) -> None:
    text = """
        atom paid(amount) = what = "publish"
        atom returned(amount) = what = "approve"
        atom at(moment = when, big = level > 1) = what = "publish"
        atom left(moment = when, big = level > 1) = what = "approve"
        find again: paid(a) AND ONCE[0,30] returned(a)
        find moment: at(m, b) AND ONCE[0,30] left(m, b)
    """
    moments = [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 1, 1, tzinfo=UTC)]
    draw = random.Random(9)
    rows = [{**row, "when": draw.choice([None, *moments])} for row in log_of(9, 120)]
    schema = ARROW.append(pa.field("when", pa.timestamp("us", "UTC")))
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]), schema)
    df = spark.createDataFrame(table.to_pandas()[["ts", "what", "level", "amount", "when"]])
    df = df.selectExpr("ts", "what", "cast(level as bigint) level", "amount", "when")
    expected = mtlmon.check(text, table, time_points="stamp").to_arrow()
    assert len({row["a"] for row in expected.to_pylist()} - {None}) == 3
    with plain_errors():
        rows_found = monitor(df, text, slices=8).toArrow()
    moment = pa.timestamp("us", "UTC")
    one, other = (
        Counter(
            tuple(map(str, row.values()))
            for row in table_found.set_column(
                table_found.column_names.index("m"), "m", table_found["m"].cast(moment)
            )
            .select(["policy", "time", "offset", "verdict", "a", "m", "b"])
            .to_pylist()
        )
        for table_found in (expected, rows_found)
    )
    assert one == other
    assert sum(one.values()) > 10
    # values of several kinds in one column are texts, and numbers of two kinds are floats
    text = """
        atom paid(amount) = what = "publish"
        atom at(moment = when) = what = "publish"
        atom big(big = level > 1) = what = "publish"
        atom of(level) = what = "publish"
        find paid: paid(x)
        find at: at(x)
        find big: big(x)
        find level: of(x)
        find number: of(y)
        find other: paid(y)
    """
    expected = counted(mtlmon.check(text, table, time_points="stamp").to_arrow().to_pylist())
    assert found(df, text, slices=2) == expected


OTHERS = """
key user
policy calm: quiet IMPLIES EVENTUALLY[0,5] what = "login"
policy few per file: count[0,9]() < 3
trigger dear: amount > 1 message "{amount} of {user}"
"""


@pytest.mark.parametrize("options", [{"end_time": "inf"}, {"end_time": "last", "key": "level"}])
def test_policies_of_both_kinds(spark: SparkSession, options: dict[str, Any]) -> None:
    """The rows are those of the command, with its columns."""
    rows = [
        {name: "none" if value is None and name in keys else value for name, value in row.items()}
        for row in log_of(14, 90)
        for keys in [("user", "file")]
        if row["level"] is not None
    ]
    df = frame(spark, sorted(rows, key=lambda row: row["ts"])).coalesce(1)
    df = df.selectExpr("*", "monotonically_increasing_id() place")
    expected = truth(rows, FILE + OTHERS, resolve=True, **options)
    found_rows = found(df, FILE + OTHERS, order_within="place", slices=3, **options)
    got: Counter[tuple[Any, ...]] = Counter()
    for one, count in found_rows.items():
        got[tuple(item for item in one if not item[0].startswith("reference"))] += count
    assert {name for one in got for name, _ in one} >= {"u", "f", "v", "file", "message"}
    assert got == expected


FAR = """
atom far(user, more = level * 3074457345618258603) = what = "publish"
find far per none: far(u, n) AND n > 0
"""


def test_rows_are_skipped_for_policies_of_both_kinds(spark: SparkSession) -> None:
    """A row without a key, or without an argument, is an event for no policy."""
    rows = log_of(15, 120)
    # which tell where the log ends, and whether a policy holds there
    last = {**rows[0], "what": "quiet", "user": "u1", "file": "f1", "level": 1}
    rows += [{**last, "ts": 60}, {**last, "ts": 61, "level": 3}, {**last, "ts": 62, "file": None}]
    df = frame(spark, sorted(rows, key=lambda row: row["ts"])).coalesce(1)
    df = df.selectExpr("*", "monotonically_increasing_id() place")
    options: dict[str, Any] = {"end_time": "last", "on_error": "skip"}
    expected = truth(rows, FILE + FAR + OTHERS, resolve=True, **options)
    counts = RowCounts()
    got: Counter[tuple[Any, ...]] = Counter()
    for one, count in found(
        df,
        FILE + FAR + OTHERS,
        order_within="place",
        slices=3,
        counts=counts,
        statistics=Statistics(),
        **options,
    ).items():
        got[tuple(item for item in one if not item[0].startswith("reference"))] += count
    assert got == expected
    is_bad = [None in (row["user"], row["file"]) or row["level"] == 3 for row in rows]
    assert counts.skipped == sum(is_bad)
    assert {value for one in got for name, value in one if name == "policy"} >= {"far", "calm"}


def test_what_depends_on_other_rows_is_not_skipped_beside_variables(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(1, "ann", 1), (2, "ann", 2**62), (3, "ann", 2**62)], "ts long, user string, n long"
    )
    text = "atom did(user) = n > 0\nfind a: did(u)\npolicy few: sum[0,9](n) < 9\n"
    with pytest.raises(ExecutorError, match="such rows cannot be skipped beside policies with"):
        found(df, text, on_error="skip", slices=2, statistics=Statistics())


def test_predicates_can_be_given_for_policies_of_both_kinds(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "ann", 3)], "ts long, user string, n long")
    text = "atom did(user) = n > 0\nfind a: did(u) AND big\npolicy small: NOT large\n"
    both = {"big": "n > 2", "large": "n > 1"}
    rows = monitor(df, text, atoms=both, slices=1).collect()
    assert sorted((row["policy"], row["verdict"]) for row in rows) == [
        ("a", True),
        ("small", False),
    ]
    with pytest.raises(MtlmonError, match="no policy has an atom 'other'"):
        monitor(df, text, atoms={**both, "other": "n > 1"}, slices=1)


def test_columns_of_keys_and_variables_have_names_of_their_own(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "ann", 3)], "ts long, user string, n long")
    text = (
        "key user\natom did(user, n) = n > 2\nfind a per none: did(user, message) AND message > 2\n"
        'trigger t: n > 2 message "{n} of {user}"\n'
    )
    found_rows = [row.asDict() for row in monitor(df, text, slices=2).collect()]
    columns = ["policy", "key_user", "time", "offset", "verdict", "reference_time"]
    columns += ["reference_offset", "user", "message", "trigger_message"]
    assert [list(row) for row in found_rows] == [columns, columns]
    said = [(row["key_user"], row["user"], row["trigger_message"]) for row in found_rows]
    assert sorted(said, key=str) == [("ann", None, "3 of ann"), (None, "ann", None)]


def test_statistics_are_found_or_given(spark: SparkSession) -> None:
    rows = log_of(11, 300, is_skewed=True)
    df = frame(spark, rows).repartition(4)
    text = (
        'atom publish(user, file) = what = "publish"\nfind p: publish(u, f) AND ONCE publish(u, f)'
    )
    statistics = relation_statistics(df, text, slices=4)
    published = [row for row in rows if row["what"] == "publish" and row["user"] and row["file"]]
    assert statistics.rates == {"publish": len(published)}
    assert statistics.heavy[("publish", 0)] == {"u0"}
    assert statistics.heavy[("publish", 1)] == {USUAL}
    assert found(df, text, slices=4, statistics=statistics) == truth(rows, text)


def test_where_rows_come_from_does_not_matter(spark: SparkSession) -> None:
    rows = log_of(12, 90)
    expected = truth(rows, FILE)
    shuffled = random.Random(1).sample(rows, len(rows))
    assert found(frame(spark, shuffled).repartition(6), FILE, slices=1) == expected
    assert not found(frame(spark, []), FILE, slices=3)


def test_bad_rows(spark: SparkSession) -> None:
    text = """
        atom publish(user, more = level + 9223372036854775807) = what = "publish"
        policy never: publish(u, n) IMPLIES FALSE
    """
    rows = log_of(13, 30)
    df = frame(spark, rows)
    with pytest.raises(ExecutorError, match=r"overflows 64 bits with .*; the row is ts="):
        found(df, text, slices=2)
    counts = RowCounts()
    kept = found(df, text, slices=2, on_error="skip", counts=counts, statistics=Statistics())
    assert kept == truth(rows, text, on_error="skip")
    assert counts.skipped == sum((row["level"] or 0) > 0 for row in rows)


def test_a_policy_is_read_from_a_file(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "never.mtl"
    path.write_text('unit s\ntime "at"\natom publish(u) = what = "publish"\nfind p: publish(who)')
    df = spark.createDataFrame(
        [(datetime(2026, 1, 1, tzinfo=UTC), "publish", "ann")],
        "at timestamp, what string, u string",
    )
    (row,) = monitor(df, path, slices=2).collect()
    assert row.asDict() == {
        "policy": "p",
        "time": int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()),
        "offset": 0,
        "verdict": True,
        "who": "ann",
    }


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        (FILE, {"order_within": "level"}, "rows of a time-stamp are one time-point"),
        (FILE, {"mode": "global"}, "mode 'global' is for policies without variables"),
        (FILE, {"slices": 0}, "slices is a number from 1 to 1024, not 0"),
        (FILE, {"end_time": -3}, "end"),
        ("find p: publish(u)", {}, "nothing says which rows of a table are rows"),
        (f"{FILE}find p: publish(u, f) AND point(i)", {}, "point"),
        (
            'atom p(user) = count[0,5](what = "x") > 1\nfind a: p(u)',
            {},
            "whose conditions depend on other rows, as p",
        ),
        ('atom p(nobody) = what = "x"\nfind a: p(u)', {}, "nobody"),
        ("what", {"slices": 2}, "slices and statistics are for policies with variables"),
    ],
)
def test_what_is_refused(
    spark: SparkSession, policies: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(MtlmonError, match=message):
        monitor(frame(spark, log_of(1, 3)), policies, **options)


def test_what_is_refused_elsewhere(spark: SparkSession) -> None:
    df = frame(spark, log_of(1, 3))
    with pytest.raises(MtlmonError, match="statistics are for policies with variables"):
        relation_statistics(df, "what")
    with pytest.raises(MtlmonError, match="the data frame is not streaming"):
        monitor_stream(df, FILE)
    with pytest.raises(MtlmonError, match="has variables"):
        monitor_partitions(df, FILE)
