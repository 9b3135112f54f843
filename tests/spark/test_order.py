"""The order of rows: by time-stamp, then as `order_within` says; what has no order is noticed."""

from __future__ import annotations

import random
import warnings
from collections import defaultdict
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mtlmon
from mtlmon.errors import ExecutorError, MtlmonError, TableError
from mtlmon.spark import (
    RowCounts,
    TiesWarning,
    monitor,
    monitor_trace,
    plain_errors,
    resolve_verdicts,
)
from tests.doors import Events, Letters, TieFinder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.traces import EndTime

pytestmark = pytest.mark.xdist_group("spark")

# what depends on the order of events of one time-stamp
POLICIES = """
policy before: PREVIOUS p
policy since: q SINCE[0,2] p
policy after: p IMPLIES NEXT q
"""
START = datetime(2024, 3, 31, 1, 59, 58, tzinfo=UTC)


def rows_of_trace(seed: int, count: int, key: str = "a") -> list[dict[str, Any]]:
    """Events at times of tenths of seconds in the order of `n`, which is not that of tenths."""
    source = random.Random(seed)
    rows = []
    second = 0
    for number in range(count):
        second += source.choice([0, 0, 0, 1, 3])
        tenths = 10 * second + source.randrange(10)
        at = START + timedelta(milliseconds=100 * tenths)
        rows.append(
            {
                "k": key,
                "at": at,
                "local": at.replace(tzinfo=None),
                "seconds": tenths / 10,
                "exact": Decimal(tenths) / 10,
                "ms": 100 * tenths,
                "n": number,
                "p": source.random() < 0.4,
                "q": source.random() < 0.4,
            }
        )
    return rows


def one_machine(
    rows: Sequence[dict[str, Any]], end_time: EndTime = None, **options: Any
) -> list[tuple[Any, ...]]:
    """What `mtlmon.check` says of rows in their order."""
    table = mtlmon.check(
        POLICIES,
        pa.Table.from_pylist(list(rows)),
        resolve=True,
        end_time=end_time,
        **options,
    ).to_arrow()
    return sorted(
        (one["policy"], one["time"], one["offset"], one["verdict"]) for one in table.to_pylist()
    )


def found(verdicts: DataFrame) -> list[tuple[Any, ...]]:
    rows = verdicts.select("policy", "time", "offset", "verdict").collect()
    return sorted(tuple(row) for row in rows)


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    mixed = random.Random(1).sample(list(rows), len(rows))
    # pyspark would take a datetime without time zone for one of the session's
    plain = [{**row, "local": row["local"].isoformat()} for row in mixed]
    events = spark.createDataFrame(pa.Table.from_pylist(plain)).repartition(4)
    return events.withColumn("local", events["local"].cast("timestamp_ntz"))


@contextmanager
def time_zone(spark: SparkSession, name: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.parametrize(
    ("time", "options"),
    [
        ("at", {}),
        ("local", {}),
        ("local", {"resolution": "m"}),
        ("seconds", {"time_unit": "s"}),
        ("exact", {"time_unit": "s", "resolution": "s"}),
        ("ms", {"time_unit": "ms", "resolution": "s"}),
        ("ms", {"time_unit": "ms", "resolution": "us"}),
        ("ms", {}),
    ],
)
def test_time_stamps_come_before_the_order_within_them(
    spark: SparkSession, time: str, options: dict[str, Any]
) -> None:
    """`monitor` sorted by raw times, so that 1.2 came before 1.7 although both have the
    time-stamp 1 and `n` says otherwise. Local times, which are in UTC, may be in an hour that the
    session's zone does not have.
    """
    if time == "seconds":
        options = {**options, "resolution": "s"}
    rows = rows_of_trace(3, 60)
    with time_zone(spark, "Europe/Zurich"):
        events = frame(spark, rows)
        for end_time in (None, "last"):
            # the rows are in the order of `n` and of seconds, and only finer time-stamps sort them
            is_fine = time == "ms" and options.get("resolution") != "s"
            wanted = one_machine(rows, end_time, time=time, sort=is_fine, **options)
            given: dict[str, Any] = {
                "time": time, "order_within": "n", "end_time": end_time, **options,
            }  # fmt: skip
            assert found(monitor(events, POLICIES, **given)) == wanted
            assert found(monitor_trace(events, POLICIES, ranges=3, **given)) == wanted


@pytest.mark.parametrize("seed", range(4))
def test_random_keyed_traces(spark: SparkSession, seed: int) -> None:
    rows = [row for key in "abc" for row in rows_of_trace(seed + ord(key), 40, key)]
    kinds = [{"time": "at"}, {"time": "ms", "time_unit": "ms", "resolution": "s"}]
    options: dict[str, Any] = kinds[seed % 2]
    verdicts = monitor(frame(spark, rows), POLICIES, key="k", order_within=["k", "n"], **options)
    by_key = defaultdict(list)
    for row in verdicts.collect():
        by_key[row.k].append((row.policy, row.time, row.offset, row.verdict))
    for key in "abc":
        of_key = [row for row in rows if row["k"] == key]
        assert sorted(by_key[key]) == one_machine(of_key, **options)


def test_without_an_order_times_themselves_order(spark: SparkSession) -> None:
    """A log in the order of its times is read as on one machine, though its rows are mixed up."""
    rows = sorted(rows_of_trace(5, 50), key=lambda row: row["ms"])
    for number, row in enumerate(rows):
        row["at"] += timedelta(milliseconds=number)
    wanted = one_machine(rows, time="at")
    counts = RowCounts()
    assert found(monitor(frame(spark, rows), POLICIES, time="at", counts=counts)) == wanted
    assert counts.ties == 0
    assert found(monitor_trace(frame(spark, rows), POLICIES, time="at", ranges=2)) == wanted


def test_rows_of_parquet_have_an_order(spark: SparkSession, tmp_path: Path) -> None:
    """As one machine sorts the files: equal times keep the order of the rows."""
    rows = rows_of_trace(6, 90)
    for number in range(3):
        part = pa.Table.from_pylist(rows[30 * number : 30 * (number + 1)])
        pq.write_table(part, tmp_path / f"{number}.parquet", row_group_size=7)
    wanted = one_machine(rows, time="at", sort=True)
    assert wanted != one_machine(rows, time="at")
    events = spark.read.parquet(str(tmp_path)).repartition(5)
    counts = RowCounts()
    assert found(monitor(events, POLICIES, time="at", counts=counts)) == wanted
    assert counts.ties == 0
    assert found(monitor_trace(events, POLICIES, time="at", ranges=2)) == wanted


def test_orders_may_be_expressions(spark: SparkSession) -> None:
    rows = rows_of_trace(7, 30)
    wanted = one_machine(rows, time="at")
    events = frame(spark, rows).selectExpr("*", "struct(n AS inner) AS outer")
    for order in ("n + 1", "-(-n)", "outer.inner", ["k", "n * 2"]):
        assert found(monitor(events, POLICIES, time="at", order_within=order)) == wanted
    wrong: list[tuple[Any, str]] = [
        ("nn + 1", "order_within: 'nn [+] 1' cannot be read: .*nn"),
        ("n +", "order_within: 'n [+]' cannot be read"),
        ("n DESC", "order_within is ascending, and 'n DESC' has a direction"),
        (["n", 3], "order_within is columns or expressions, .* not a int"),
    ]
    for bad, message in wrong:
        with pytest.raises(MtlmonError, match=message):
            monitor(events, POLICIES, time="at", order_within=bad)


def test_times_that_are_texts_are_refused(spark: SparkSession) -> None:
    """They were sorted as texts, '9' after '10', and the last one was the greatest text."""
    rows = spark.sql("SELECT string(id) AS ts, true AS p FROM range(8, 12)")
    for run in (monitor, monitor_trace):
        with pytest.raises(TableError, match=r"times are texts.*cast them first.*'ts'"):
            run(rows, "p", end_time="last")


@pytest.mark.parametrize(
    ("collation", "mend"), [("UTF8_LCASE", "F.lower"), ("UTF8_BINARY_RTRIM", "F.rtrim"),
                            ("UNICODE_CI", "F.lower")]
)  # fmt: skip
def test_keys_with_collations_are_refused(spark: SparkSession, collation: str, mend: str) -> None:
    """Spark brought 'A' and 'a' together, and a new trace began at each change of spelling."""
    rows = spark.sql(f"SELECT 'a' COLLATE {collation} AS k, 1 AS ts, true AS p")
    message = f"'k' has the collation {collation}.*{mend}"
    with pytest.raises(MtlmonError, match=message):
        monitor(rows, "p", key="k")
    with pytest.raises(MtlmonError, match="order_within, number 1, has the collation"):
        monitor(rows, "p", order_within="k")
    with pytest.raises(MtlmonError, match=message):
        resolve_verdicts(rows, key="k")
    from pyspark.sql import functions as F

    mended = rows.withColumn("k", F.lower(F.collate("k", "UTF8_BINARY")))
    assert monitor(mended, "p", key="k").count() == 1


def tied(spark: SparkSession) -> DataFrame:
    """Two keys of 50 time-stamps with two events each, which differ at every fifth of them."""
    return spark.sql(
        "SELECT id DIV 100 AS k, id DIV 2 AS ts, id % 10 = 1 AS p, id AS n FROM range(200)"
    )


def test_ties_are_counted_and_warned_of_once(spark: SparkSession) -> None:
    """Verdicts changed from run to run, and nothing said so."""
    counts = RowCounts()
    with pytest.warns(TiesWarning, match="so far .*give columns that order them") as caught:
        monitor(tied(spark), "PREVIOUS p", key="k", counts=counts).collect()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert counts.ties == 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdicts = monitor(tied(spark), "PREVIOUS p", key="k", counts=counts, ties="allow")
        assert verdicts.count() == 200
        assert counts.ties == 0
        verdicts = monitor(tied(spark), "PREVIOUS p", key="k", counts=counts, order_within="n")
        assert verdicts.count() == 200
        assert counts.ties == 0


def test_counts_are_those_of_the_last_action(spark: SparkSession) -> None:
    counts = RowCounts()
    verdicts = monitor(tied(spark), "PREVIOUS p", key="k", counts=counts)
    with pytest.warns(TiesWarning) as caught:
        for _ in range(3):
            verdicts.collect()
    assert (len(caught), counts.ties) == (1, 20)
    assert repr(counts) == "RowCounts(ties=20, skipped=0)"


def test_ties_as_errors(spark: SparkSession) -> None:
    verdicts = monitor(tied(spark), "PREVIOUS p", key="k", ties="error")
    message = r"another row of time-stamp \d+ is a different event, and nothing .*; the row is ts="
    with pytest.raises(ExecutorError, match=message), plain_errors():
        verdicts.collect()
    with pytest.raises(MtlmonError, match="ties is 'warn', 'error' or 'allow', not 'ignore'"):
        monitor(tied(spark), "p", ties="ignore")  # type: ignore[arg-type]


def test_a_warning_that_is_an_error_does_not_stop_spark(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert monitor(tied(spark), "PREVIOUS p", key="k").count() == 200
    assert capsys.readouterr().err.count("TiesWarning: so far") == 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_ties_are_found_whatever_the_batches(size: int) -> None:
    """By comparison with all events at once: groups of a key, time and place that differ."""
    source = np.random.default_rng(size)
    count = 300
    keys = np.sort(source.integers(0, 20, count))
    times = source.integers(0, 4, count)
    places = source.integers(0, 2, count)
    order = np.lexsort((places, times, keys))
    keys, times, places = keys[order], times[order], places[order]
    words = source.integers(0, 2, (count, 1)).astype(np.uint64)
    groups = defaultdict(set)
    for row in range(count):
        groups[keys[row], times[row], places[row]].add(int(words[row, 0]))
    expected = sum(len(one) > 1 for one in groups.values())
    finder = TieFinder()
    total = 0
    for first in range(0, count, size):
        part = slice(first, min(count, first + size))
        starts = np.flatnonzero(np.diff(keys[part], prepend=keys[first - 1] if first else -1))
        letters = Letters(words[part].copy(), {})
        events = Events(times[part], letters, ("p",), pa.RecordBatch.from_pylist([]))
        total += len(finder.find(events, places[part], starts.astype(np.uint32)))
    assert total == expected > 10


@pytest.mark.parametrize(
    ("time", "end_time", "expected"),
    [
        ("at", datetime(2024, 3, 31, 2, 0, 5, 900_000, tzinfo=UTC), 1711850405),
        ("at", datetime(2024, 3, 31, 4, 0, 5), 1711850405),
        ("local", datetime(2024, 3, 31, 2, 0, 5), 1711850405),
        ("day", date(2024, 4, 1), 1711929600),
    ],
)
def test_end_times_of_the_calendar(
    spark: SparkSession, time: str, end_time: Any, expected: int
) -> None:
    rows = rows_of_trace(9, 20)
    events = frame(spark, rows).selectExpr("*", "date(local) AS day")
    with time_zone(spark, "Europe/Zurich"):
        given: dict[str, Any] = {"time": time, "order_within": "n"}
        policy = "EVENTUALLY[0,10000] p"
        wanted = found(monitor(events, policy, end_time=expected, **given))
        assert found(monitor(events, policy, end_time=end_time, **given)) == wanted
        assert found(monitor_trace(events, policy, end_time=end_time, ranges=2, **given)) == wanted


def test_end_times_that_do_not_fit(spark: SparkSession) -> None:
    events = frame(spark, rows_of_trace(9, 5))
    for time, end_time, message in (
        ("ms", datetime(2024, 1, 1, tzinfo=UTC), "values of type int64: give a time-stamp, or say"),
        ("at", date(2024, 1, 1), "has no time of day: give a datetime"),
        ("at", datetime(1960, 1, 1, tzinfo=UTC), "end_time: 1960.* is before 1970"),
        ("at", True, "end_time is a time-stamp, 'last', 'inf' or None, not True"),
    ):
        with pytest.raises(MtlmonError, match=message):
            monitor(events, "p", time=time, end_time=end_time)
