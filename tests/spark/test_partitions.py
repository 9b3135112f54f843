"""Partitions and files as traces: what one machine says of each of them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row

from mtlmon import Monitor, Verdict, resolve
from mtlmon.errors import ExecutorError, LogError, MtlmonError, TableError
from mtlmon.spark import monitor_files, monitor_partitions, plain_errors
from tests.doors import shares as _shares
from tests.spark.single import collected, random_rows
from tests.traces import MODES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark import single
    from tests.traces import EndTime, Mode

pytestmark = pytest.mark.xdist_group("spark")

FORMULA = "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)"
TWO = f"policy x: {FORMULA}\npolicy y: ONCE[0,5] r"


def traces_of(seed: int, count: int) -> list[list[single.Row]]:
    """Traces of some length, one of them empty."""
    rows = random_rows(seed, keys=count - 1, events=60, skew=9000)
    keys = dict.fromkeys(row.k for row in rows)
    return [[], *([row for row in rows if row.k == key] for key in keys)]


def lines_of(trace: Sequence[single.Row]) -> list[str]:
    return [f"@{row.ts} {row.what.replace('|', ' ')}" for row in trace]


def pairs_of(trace: Sequence[single.Row]) -> list[tuple[int, list[str]]]:
    return [(row.ts, row.what.split("|")) for row in trace]


def single_verdicts(
    trace: Sequence[single.Row],
    formula: str = FORMULA,
    mode: Mode = "local",
    resolves: bool = True,
    end_time: EndTime = None,
) -> list[Verdict]:
    found = Monitor(formula, mode)(pairs_of(trace), end_time=end_time)
    return list(resolve(found) if resolves else found)


def partitioned(spark: SparkSession, traces: list[list[Any]]) -> Any:
    """An RDD with a partition for each trace."""
    numbered = spark.sparkContext.parallelize(traces, len(traces))
    return numbered.flatMap(lambda trace: trace)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("resolves", [False, True])
def test_lines_and_pairs(spark: SparkSession, mode: Mode, resolves: bool) -> None:
    traces = traces_of(5, 4)
    options: dict[str, Any] = {"mode": mode, "resolve": resolves}
    truth = [single_verdicts(trace, FORMULA, mode, resolves) for trace in traces]
    lines = [lines_of(trace) for trace in traces]
    texts = monitor_partitions(partitioned(spark, lines), FORMULA, **options).glom().collect()
    assert list(map(sorted, texts)) == [sorted(map(str, one)) for one in truth]
    coded = [[line.encode() for line in trace] for trace in lines]
    found = monitor_partitions(partitioned(spark, coded), FORMULA, **options).glom().collect()
    assert [[line.decode() for line in trace] for trace in found] == texts
    pairs = partitioned(spark, [pairs_of(trace) for trace in traces])
    found = monitor_partitions(pairs, FORMULA, **options).glom().collect()
    assert [sorted(map(str, one)) for one in found] == [sorted(map(str, one)) for one in truth]


@pytest.mark.parametrize("end_time", [30, "last", "inf"])
def test_ends_of_partitions(spark: SparkSession, end_time: EndTime) -> None:
    traces = traces_of(6, 3)
    truth = [
        {
            "x": sorted(map(str, single_verdicts(trace, FORMULA, end_time=end_time))),
            "y": sorted(map(str, single_verdicts(trace, "ONCE[0,5] r", end_time=end_time))),
        }
        for trace in traces
    ]
    wanted = [sorted(f"{name}\t{line}" for name in one for line in one[name]) for one in truth]
    lines = partitioned(spark, [lines_of(trace) for trace in traces])
    found = monitor_partitions(lines, TWO, end_time=end_time).glom().collect()
    assert list(map(sorted, found)) == wanted
    rows = partitioned(
        spark, [[Row(what=row.what, at=row.ts) for row in trace] for trace in traces]
    )
    pairs = partitioned(spark, [pairs_of(trace) for trace in traces])
    for verdicts in (
        monitor_partitions(pairs, TWO, end_time=end_time),
        monitor_partitions(rows, TWO, end_time=end_time, time="at", event="what"),
    ):
        named = [[f"{name}\t{one}" for name, one in trace] for trace in verdicts.glom().collect()]
        assert list(map(sorted, named)) == wanted


def test_partitions_of_a_data_frame(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    traces = traces_of(7, 3)
    rows = partitioned(spark, [[tuple(row) for row in trace] for trace in traces]).toDF(
        "`odd.name` string, ts bigint, n bigint, what string"
    )
    verdicts = monitor_partitions(rows, FORMULA, event="what", resolve=False)
    found = verdicts.select(
        F.spark_partition_id(), "time", "offset", "verdict", "reference_time", "reference_offset"
    )
    truth = [
        (number, one.time_stamp, one.offset, one.value, *(one.ref or (None, None)))
        for number, trace in enumerate(traces)
        for one in single_verdicts(trace, resolves=False)
    ]
    assert collected(found) == sorted(truth, key=repr)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        (["@1 p", "@0 q"], "^partition 0:2:2: .*@0 q"),
        ([(1, ["p"]), (0, ["q"])], r"partition 0: row 2: .*; the event is \(0, \['q'\]\)"),
        ([(1, "p")], r"partition 0: row 1: .*; the event is \(1, 'p'\)"),
        ([Row(ts=1, p=True), Row(ts=0, p=True)], "is below 1.*; the row is ts=0, p=True"),
        ([Row(ts=1, p=True), Row(ts=None, p=True)], "is empty in this row.*; the row is ts=None"),
        ([Row(time=1, p=True)], "partition 0: .*no column 'ts'"),
        ([3], "partition 0: an event is a line .*, not int"),
        # None in front was taken for an empty partition
        ([None, "@1 p"], "partition 0: an event is a line .*, not NoneType"),
        (["@1 p", None], "partition 0: element 2 is of type NoneType, .* is a line of text"),
        (["@1 p", b"@2 p"], "partition 0: element 2 is of type bytes"),
        ([(1, ["p"]), None], "partition 0: element 2 is of type NoneType, .* is a pair"),
        ([Row(ts=1, p=True), None], "partition 0: element 2 is of type NoneType, .* is a Row"),
        ([Row(ts=1, p=True), (2, True)], "element 2 is a tuple without names of columns"),
        ([Row(ts=1, p=True), Row(at=2, p=True)], "partition 0: row 2: .*no column 'ts'"),
    ],
)  # fmt: skip
def test_an_element_at_fault_is_shown(
    spark: SparkSession, elements: list[Any], message: str
) -> None:
    verdicts = monitor_partitions(partitioned(spark, [elements]), "p")
    with pytest.raises(ExecutorError, match=message) as caught, plain_errors():
        verdicts.collect()
    assert "\n" not in str(caught.value)


def test_rows_of_a_data_frame_that_go_back_in_time(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(3, True), (2, False)], "ts int, p boolean").coalesce(1)
    message = "DataFrame: time-stamp 2 at index 1 is below 3.*; the row is ts=2, p=False"
    with pytest.raises(ExecutorError, match=message), plain_errors():
        monitor_partitions(rows, "p").collect()


def test_small_files_share_tasks(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.log").write_text(f"@{number} p\n")
    verdicts = monitor_files(spark, tmp_path / "*.log", "p")
    assert verdicts.rdd.getNumPartitions() < 20
    assert sorted(row.time for row in verdicts.collect() if row.verdict) == list(range(300))


@pytest.mark.parametrize(
    ("sizes", "cores", "tasks"),
    [
        ([5], 4, [0]),
        ([0, 0, 0], 4, [0, 1, 2]),
        # the largest first, and files that a task would take long for are alone
        ([1, 900 << 20, 2, 500 << 20], 2, [2, 0, 2, 1]),
        ([3 << 20] * 8, 1, [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_files_are_shared_out(sizes: list[int], cores: int, tasks: list[int]) -> None:
    assert _shares(sizes, cores) == tasks


def test_files(spark: SparkSession, tmp_path: Path) -> None:
    traces = traces_of(8, 4)
    (tmp_path / "0.log").write_text("")
    (tmp_path / "1.log").write_text("\n".join(lines_of(traces[1])))
    (tmp_path / "2.log.gz").write_bytes(gzip.compress("\n".join(lines_of(traces[2])).encode()))
    table = ["when,what", *(f"{row.ts},{row.what}" for row in traces[3])]
    (tmp_path / "3.csv").write_text("\n".join(table))
    for end_time in (None, "last", "inf"):
        found = monitor_files(
            spark,
            [tmp_path / "*.log*", tmp_path / "3.csv", tmp_path / "0.log"],
            TWO,
            resolve=False,
            end_time=end_time,
            options={"time": "when", "event": "what"},
        )
        assert found.columns[:2] == ["policy", "file"]
        names = ["0.log", "1.log", "2.log.gz", "3.csv"]
        truth = [
            (policy, str(tmp_path / name), one.time_stamp, one.offset, one.value,
             *(one.ref or (None, None)))
            for policy, formula in (("x", FORMULA), ("y", "ONCE[0,5] r"))
            for name, trace in zip(names, traces, strict=True)
            for one in single_verdicts(trace, formula, resolves=False, end_time=end_time)
        ]  # fmt: skip
        assert collected(found) == sorted(truth, key=repr)


def test_how_cells_of_files_are_written(spark: SparkSession, tmp_path: Path) -> None:
    """Executors read delimited text by the same rules, with the same options."""
    (tmp_path / "a.tsv").write_text('ts\tuser\tx\n1\t"ann\t1\n2\tb"\t3\n3\t"c\t5\n')
    (tmp_path / "b.csv").write_text("ts;user;x\n1;'a;b';1,5\n2;'c\nd';2,5\n")
    found = monitor_files(spark, tmp_path / "a.tsv", "x > 2", resolve=False)
    assert [(row.time, row.verdict) for row in found.collect()] == [
        (1, False),
        (2, True),
        (3, True),
    ]
    options = {"delimiter": ";", "quote": "'", "decimal": ","}
    found = monitor_files(spark, tmp_path / "b.csv", "x > 2", resolve=False, options=options)
    assert [(row.time, row.verdict) for row in found.collect()] == [(1, False), (2, True)]


def test_errors_of_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("@1 p\n@x p\n")
    (tmp_path / "b.csv").write_text("ts,p\n1,true\n0,true\n")
    for name, kind in (("a.log", LogError), ("b.csv", TableError)):
        with pytest.raises(ExecutorError, match=rf"{name}:\d") as caught, plain_errors():
            monitor_files(spark, tmp_path / name, "p").collect()
        assert caught.value.kind is kind
    with pytest.raises(FileNotFoundError):
        monitor_files(spark, tmp_path / "c.log", "p")
    for arguments, message in (
        ({"paths": tmp_path}, "is a directory"),
        ({"paths": tmp_path / "*.txt"}, "no file matches"),
        ({"paths": []}, "no file to monitor"),
        ({"format": "xml"}, "no format of files is called 'xml'; there are text, csv"),
        ({"options": {"key": "k"}}, "no option is called 'key'"),
        ({"end_time": "first"}, "'first'"),
    ):
        with pytest.raises(MtlmonError, match=message):
            given: dict[str, Any] = {"paths": tmp_path / "a.log", "policy": "p", **arguments}
            monitor_files(spark, **given)


def test_time_zones(spark: SparkSession, tmp_path: Path) -> None:
    """Of texts without an offset, by a declaration or an option; the repeated hour is by order."""
    texts = ["2024-10-27 02:59:00", "2024-10-27 02:00:30", "2024-10-27T01:01:00Z"]
    times = [1729990740, 1729990830, 1729990860]
    policy = "unit s\npolicy p: p"
    declared = f'time zone "Europe/Berlin"\n{policy}'
    (tmp_path / "log.csv").write_text("ts,p\n" + "".join(f"{text},true\n" for text in texts))
    events = spark.createDataFrame([Row(ts=text, p=True) for text in texts]).coalesce(1)
    lines = spark.sparkContext.parallelize([Row(ts=text, p=True) for text in texts], 1)
    path = str(tmp_path / "log.csv")
    zone = {"time_zone": "Europe/Berlin"}
    for verdicts in (
        monitor_files(spark, path, declared),
        monitor_files(spark, path, policy, options=zone),
        monitor_partitions(events, declared, time="ts"),
        monitor_partitions(events, policy, time="ts", time_zone="Europe/Berlin"),
    ):
        assert [row.time for row in verdicts.collect()] == times
    found = monitor_partitions(lines, policy, time="ts", time_zone="Europe/Berlin").collect()
    assert [verdict.time_stamp for verdict in found] == times
