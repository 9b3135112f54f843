"""Ticks, rows that a condition chooses, instances and messages in Spark."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon import resolve
from mtlmon.errors import MtlmonError, TableError, UnitError
from mtlmon.spark import (
    monitor,
    monitor_files,
    monitor_partitions,
    monitor_stream,
    register,
    resolve_verdicts,
)
from tests.cli.process import mtlmon
from tests.doors import OrderedRows, compile_policies
from tests.doors import streams_atoms as stream_atoms
from tests.spark.streams import put, state_store, streaming
from tests.spark.test_key_streams import Query
from tests.spark.test_trace_streams import (
    LOG,
    TABLE,
    counted,
    frame,
    log_rows,
    logs,
    quoted,
    rows_of,
    source_of,
    table,
    truth,
)
from tests.streams.programs import CELLS, rows
from tests.streams.test_clocks import END_TIMES, Verdicts, expected, files, small

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.doors import EndTime
    from tests.streams.programs import Row
    from tests.streams.test_clocks import File

spark_group = pytest.mark.xdist_group("spark")

CLOCKS = """
unit s
key user
atom failed = what = "login" and code >= 400
stream fails = count[0,10s](failed)
stream mean = avg[0,10s](amount, or: 0.0) every 5s
policy alive on every 5s: count[0,10s]() > 0
policy mean on every 10s: mean < 60.0 OR NEXT mean >= 60.0
policy pause on rows where failed: NOT PREVIOUS[0,1s] true
policy held: amount - mean.hold(or: 0.0) < 60.0 OR EVENTUALLY[0,5s] fails > 1
policy other per host on every 20s: ONCE[0,40s] max[0,20s](amount) > 90
policy whole per none on rows where amount > 50: NEXT[0,9s] code = 200
trigger silent on every 5s: ts - ts.last() >= 10 message "{ts - ts.last()} s without {what.hold()}"
trigger many: fails > 1 message "{user}: {fails}"
trigger slow on rows where code = 500: amount > 50 message "{amount:.1f} of {{{host}}}"
"""

TEMPLATES = """
unit s
key user
stream views = views.last(or: 0) + 1 per what as it from code != 500 until code = 500 and what = it
stream buys = count[0,20s]() per host
stream seen = seen.last(or: 0) + 1 per host as h on host = h or code = 500
policy seen: sum(seen over seen) < 9 or coalesce(seen[host], 0) > 1
policy few: all(views < 4 over views)
policy sum: sum(buys over buys) < 5 OR EVENTUALLY[0,9s] what = "buy"
policy one: coalesce(views["login"], 0) < 3
policy ticks on every 10s: count(views > 1 over views) < 3
stream pace = count[0,20s]() per what as it every 10s until code = 500 and what = it
policy pace on every 20s: max(pace over pace) < 3
policy everyone per none: count(views > 3 over views) < 2
policy ticks_of_all per none on every 10s: all(pace < 5 over pace) OR NEXT any(pace > 5 over pace)
policy buy: pace["buy"] is null OR pace["buy"] < 2
"""


def template_texts() -> st.SearchStrategy[str]:
    """Policies over instances of streams."""
    keys = st.sampled_from(["i", "s", "b", "f", "s, b"])
    values = st.sampled_from(
        ["count[0,4]()", "sum[0,6](f, or: 0.0)", "x.last(or: 0) + 1", "i.last(or: 0) * 2"]
    )
    clauses = st.sampled_from(["", " from b", " until i > 2", " from i is not null until not b"])
    over = st.sampled_from(
        ["count(x > 1 over x) < 2", "any(x > 2 over x)", "max(x over x) > 1", "all(x < 3 over x)"]
    )
    points = st.sampled_from(["", " on every 4", " on rows where i > 0"])
    return st.builds(
        lambda key, value, clause, one, other, where: (
            f"stream x = {value} per {key}{clause}\npolicy p{where}: {one}\npolicy q: ONCE[0,4] "
            f"{other}"
        ),
        keys,
        values,
        clauses,
        over,
        over,
        points,
    )


def found_in_order(
    text: str,
    log: Sequence[Row],
    cuts: Sequence[int],
    end_time: EndTime,
    log_clock: int | None,
    on_error: Literal["stop", "skip"] = "stop",
) -> list[dict[str, Any]]:
    """The verdicts on rows that are sorted by key, in batches."""
    source = source_of(text, on_error)
    cells = [{"ts": time, "k": key, **one} for time, key, one in log]
    cells.sort(key=lambda row: row["k"])
    edges = [0, *sorted(min(cut, len(cells)) for cut in cuts), len(cells)]
    batches = (
        pa.RecordBatch.from_pylist(cells[start:end], TABLE).select(source.selection.names)
        for start, end in pairwise(edges)
    )
    monitors = OrderedRows(source, True, end_time, "allow", log_clock)
    return [row for batch in monitors(batches) for row in batch.to_pylist()]


def by_name(found: Sequence[dict[str, Any]]) -> Verdicts:
    verdicts: Verdicts = {}
    for row in found:
        name = row["policy"], f"k{row['k']}", row["time"], row["offset"]
        assert name not in verdicts
        verdicts[name] = row["verdict"]
    return verdicts


CUTS = st.lists(st.integers(0, 20), max_size=3)


# The reference is slow, and tests of the streams themselves run it more often.
FEW = settings(max_examples=60)


@FEW
@given(files(), rows(20).map(small), END_TIMES, CUTS, st.sampled_from([1, 3, 1 << 17]))
def test_sorted_rows_are_those_of_the_reference(
    file: File, log: list[Row], end_time: EndTime, cuts: list[int], most_ticks: int
) -> None:
    wanted = expected(file, log, end_time)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_atoms, "MOST_TICKS", most_ticks)
        clock = log[-1][0] if log else 0
        try:
            found = found_in_order(file.text, log, cuts, end_time, clock)
        except TableError as error:
            # policies leave out the ticks of each other
            assume("at the tick" not in str(error))
            raise
    assert by_name(found) == wanted, file.text


def run_query(query: Query, log: Sequence[Row], data: st.DataObject) -> int:
    """Send a log in parts, start again now and then, and return the last horizon."""
    rest = list(log)
    horizon = 0
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        batch, rest = rest[:count], rest[count:]
        if data.draw(st.booleans()):
            query.restart()
        query.resume(batch, horizon)
        latest = rest[0][0] if rest else batch[-1][0] + 3
        horizon = max(horizon, data.draw(st.integers(batch[0][0], latest)))
        if data.draw(st.booleans()):
            query.resume([], horizon)
    return horizon


def verdicts_of(query: Query) -> Verdicts:
    return {
        (
            query.source.policies.policies[number].name or "",
            f"k{key}",
            one.time_stamp,
            one.offset,
        ): (one.value)
        for (key, number), verdicts in query.verdicts.items()
        for one in resolve(verdicts)
        if one.value is not None
    }


@FEW
@given(files(), rows(20).map(small), st.data(), st.sampled_from([1, 3, 1 << 17]))
def test_a_query_is_that_of_the_reference(
    file: File, log: list[Row], data: st.DataObject, most_ticks: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_atoms, "MOST_TICKS", most_ticks)
        query = Query(source_of(file.text), tasks=1)
        try:
            end = max(run_query(query, log, data), log[-1][0] if log else 0) + 9
            query.resume([], end)
        except TableError as error:
            assume("at the tick" not in str(error))
            raise
    wanted = expected(file, log, end - 1)
    assert verdicts_of(query) == wanted, file.text


@given(template_texts(), logs(), CUTS, st.data())
def test_instances_are_those_of_one_machine(
    text: str, log: list[Row], cuts: list[int], data: st.DataObject
) -> None:
    log = small((time % 2**62, key, cells) for time, key, cells in log)
    rows = [{"ts": time, "k": key, **cells} for time, key, cells in log]
    clock = log[-1][0] if log else 0
    query = Query(source_of(text), tasks=1)
    end = max(run_query(query, log, data), clock) + 1
    query.resume([], end)
    wanted = truth(pa.Table.from_pylist(rows, TABLE), text, key="k", end_time=end - 1)
    found = found_in_order(text, log, cuts, end - 1, clock)
    assert counted(found) == wanted
    assert verdicts_of(query) == by_name(found)


def test_a_silent_key_is_woken_for_each_tick_only() -> None:
    query = Query(source_of("policy p on every 10: count[0,10]() > 0"))
    query.resume([(3, 1, dict.fromkeys(CELLS))], 0)
    seen = []
    for horizon in range(1, 50):
        before = query.visits
        query.resume([], horizon)
        if query.visits > before:
            seen.append(horizon)
    # when its event is due, and whenever a tick has passed
    assert seen == [4, 11, 21, 31, 41]
    assert [(one.time_stamp, one.value) for one in query.verdicts[1, 0]] == [
        (10, True),
        (20, False),
        (30, False),
        (40, False),
    ]


@pytest.mark.parametrize(
    ("policy", "messages"),
    [
        ('trigger t: count[0,9]() > 1 message "{i} {count[0,9]()}"', ["2 2", "4 3"]),
        ('policy t: i > 1 IMPLIES NOT ONCE[0,9] i < 4 message "{i} of"', ["2 of", "4 of"]),
        ('policy t: i > 1 IMPLIES NOT ONCE[0,9] i < 4 message "plain"', ["plain", "plain"]),
    ],
)
def test_messages_of_a_query(policy: str, messages: list[str]) -> None:
    query = Query(source_of(f"{policy}\npolicy q: i > 1"))
    query.resume([(time, 1, {**dict.fromkeys(CELLS), "i": time}) for time in (1, 2, 4, 30)], 0)
    query.resume([], 3)
    assert query.messages == {(1, 0): messages[:1]}
    query.resume([], 50)
    assert query.messages == {(1, 0): messages}
    assert [str(one) for one in query.verdicts[1, 0]] == [
        "1:0 true",
        "2:0 false",
        "4:0 false",
        "30:0 true",
    ]


def test_ticks_at_which_integers_overflow() -> None:
    text = "policy small on every 10: sum[0,9](i) < 5"
    log: list[Row] = [
        (time, 1, {**dict.fromkeys(CELLS), "i": value})
        for time, value in ((2, 2**62), (5, 2**62), (15, 0), (25, 0))
    ]
    message = r"at the tick 10 of k 1: .* overflows 64 bits; on_error='skip' leaves such ticks out"
    others: list[Row] = [(time, key, dict.fromkeys(CELLS)) for time, key in ((3, 0), (4, 2))]
    for cuts in ([], [1], [2], [5], [1, 2, 3, 4, 5, 6]):
        for rest in ([], others[:1], others[1:], others):
            with pytest.raises(TableError, match=message):
                found_in_order(text, [*log, *rest], cuts, None, 25)
    query = Query(source_of(text))
    query.resume(log, 0)
    with pytest.raises(TableError, match=message):
        query.resume([], 11)
    found = found_in_order(text, log, [], None, 25, "skip")
    assert [(row["time"], row["verdict"]) for row in found] == [(20, True)]
    query = Query(source_of(text, "skip"))
    query.resume(log, 0)
    query.resume([], 11)
    query.resume([], 21)
    assert [str(one) for one in query.verdicts[1, 0]] == ["20:0 true"]


def test_the_unit_of_periods_is_known() -> None:
    with pytest.raises(UnitError, match="policy p is on every 10s, and the unit"):
        compile_policies("policy p on every 10s: count[0,10]() > 0", "local")
    found = compile_policies("policy p on every 10s: count[0,1m]() > 0", "local", time_unit="ms")
    assert [one.period for one in found.policies] == [10_000]


@spark_group
@pytest.mark.parametrize("end_time", [None, "last", 10_000, 5, "inf"])
def test_data_frames(spark: SparkSession, end_time: EndTime) -> None:
    rows = log_rows(5, 150)
    df = frame(spark, rows)
    found = rows_of(monitor(df, CLOCKS, order_within="n", end_time=end_time))
    wanted = truth(table(rows), CLOCKS, end_time=end_time)
    assert counted(found) == wanted
    names = {row["policy"] for row in found if not row["verdict"]}
    assert len(names) == 9, names
    assert sum(row["message"] is not None for row in found) > 20


@spark_group
def test_templates_in_data_frames(spark: SparkSession) -> None:
    rows = log_rows(7, 200)
    found = rows_of(monitor(frame(spark, rows), TEMPLATES, order_within="n", end_time="inf"))
    assert counted(found) == truth(table(rows), TEMPLATES)
    assert len({row["policy"] for row in found if not row["verdict"]}) == 9


@spark_group
def test_each_partition_and_file_is_a_log(spark: SparkSession, tmp_path: Path) -> None:
    """Its last time-stamp is that of its own rows."""
    rows = log_rows(6, 90)
    text = "\n".join(
        line for line in CLOCKS.splitlines() if " per " not in line and "key" not in line
    )
    df = spark.createDataFrame(rows, LOG).coalesce(1)
    register(spark)
    df.createOrReplaceTempView("rows_of_clocks")
    for end_time in (None, "last", "inf"):
        wanted = truth(table(rows), text, end_time=end_time)
        assert counted(rows_of(monitor_partitions(df, text, end_time=end_time))) == wanted
        argument = "" if end_time is None else f", end_time => '{end_time}'"
        of_table = spark.sql(
            "SELECT * FROM mtlmon(TABLE(rows_of_clocks) PARTITION BY user ORDER BY (ts, n), policy "
            f"=> '{quoted(text)}', key => 'user'{argument})"
        )
        of_arrays = spark.sql(
            "SELECT user, inline(mtlmon_verdicts(sort_array(collect_list(struct(ts, n, user, host, "
            f"what, code, amount))), '{quoted(text)}'{argument})) FROM rows_of_clocks GROUP BY user"
        )
        of_users: dict[tuple[Any, ...], int] = {}
        for user in {row[2] for row in rows}:
            own = [row for row in rows if row[2] == user]
            for one, count in truth(table(own), text, end_time=end_time).items():
                of_users[tuple(sorted((*one, ("user", user))))] = count
        renamed = [{"user": row.pop("key"), **row} for row in rows_of(of_table)]
        assert counted(renamed) == of_users
        assert counted(rows_of(of_arrays)) == of_users
    path = str(tmp_path / "log.jsonl")
    table(rows).to_pandas().to_json(path, orient="records", lines=True)
    of_file = rows_of(monitor_files(spark, path, text, end_time="last"))
    wanted = truth(table(rows), text, end_time="last")
    assert counted([{**row, "file": None} for row in of_file]) == counted_with_file(wanted)


def counted_with_file(wanted: Any) -> Any:
    return type(wanted)(
        {tuple(sorted((*one, ("file", None)))): count for one, count in wanted.items()}
    )


@spark_group
def test_text_logs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    path.write_text("@1 failed\n@2 failed ok\n@2 ok\n@25 ok\n@31\n")
    text = """
        policy alive on every 10: count[0,10](failed) > 0
        policy pause on rows where failed: NOT PREVIOUS[0,1] true
        trigger many: count[0,10](failed) > 1 message "{count[0,10](failed)} at {ts}"
    """
    found = rows_of(monitor_files(spark, path, text))
    assert sorted((row["policy"], row["time"], row["offset"], row["verdict"]) for row in found) == [
        ("alive", 10, 0, True),
        ("alive", 20, 0, False),
        ("alive", 30, 0, False),
        ("many", 1, 0, True),
        ("many", 2, 0, False),
        ("many", 2, 1, False),
        ("many", 25, 0, True),
        ("many", 31, 0, True),
        ("pause", 1, 0, True),
        ("pause", 2, 0, False),
    ]
    assert {row["message"] for row in found} == {None, "2 at 2"}


@spark_group
def test_lines_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """They are those of the command on the same log."""
    generator = random.Random(3)
    time, lines = 1_700_000_001, []
    for _ in range(60):
        time += generator.choice([0, 0, 1, 2, 5, 30])
        names = [name for name in ("failed", "ok") if generator.random() < 0.5]
        lines.append(" ".join([f"@{time}", *names]))
    text = """
        unit s
        policy alive on every 10s: count[0,10s](failed) > 0
        policy pause on rows where failed: NOT PREVIOUS[0,1s] true
        policy early: minute(ts) in (13, 14, 15) OR EVENTUALLY[0,3s] failed
        policy row: count[0,20s](ok) < 5
    """
    (tmp_path / "x.mtl").write_text(text)
    (tmp_path / "x.log").write_text("\n".join(lines))
    asked = [str(tmp_path / "x.mtl"), str(tmp_path / "x.log")]
    for end_time in ("last", "inf"):
        wanted = mtlmon("--resolve", "--end-time", end_time, *asked).output.splitlines()
        pairs = [(int(line.split()[0][1:]), line.split()[1:]) for line in lines]
        for elements in (lines, [line.encode() for line in lines], pairs):
            log: Any = spark.sparkContext.parallelize(elements, 1)
            found = monitor_partitions(log, text, end_time=end_time).collect()
            plain = [
                one.decode()
                if isinstance(one, bytes)
                else f"{one[0]}\t{one[1]}"
                if isinstance(one, tuple)
                else one
                for one in found
            ]
            assert sorted(plain) == sorted(wanted)
        assert {line.split("\t")[0] for line in wanted if "false" in line} == {
            "alive",
            "pause",
            "early",
            "row",
        }


@spark_group
def test_what_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 2**63 - 1), (2, 1)], "ts long, x long")
    with pytest.raises(MtlmonError, match=r"at tick|policy p is every 5, but x is of rows"):
        monitor(df, "policy p on every 5: x > 0")
    pairs: Any = spark.sparkContext.parallelize([(1, ["p"])], 1)
    with pytest.raises(Exception, match=r"no column|columns"):
        monitor_partitions(pairs, "p OR x > 3").collect()
    pairs = spark.sparkContext.parallelize([(1, ["p"]), (0, ["p"])], 1)
    with pytest.raises(Exception, match=r"partition 0: row 2: .*the event is \(0, \['p'\]\)"):
        monitor_partitions(pairs, "policy p on every 5: count[0,5](p) > 0").collect()
    with pytest.raises(Exception, match="cannot be skipped with policies on ticks"):
        text = "policy p on every 5: count[0,5]() > 0\npolicy q: sum[0,9](x) > 0"
        monitor(df, text, on_error="skip").collect()
    with pytest.raises(MtlmonError, match="'message' is called like a column"):
        named = spark.createDataFrame([(1, "a")], "ts long, message string")
        monitor(named, 'trigger t: ts > 1 message "x"', key="message")
    with pytest.raises(MtlmonError, match="not decided at their own rows, as t:"):
        monitor(named, 'policy t: ts > 1 IMPLIES EVENTUALLY[0,3] ts > 5 message "x"')


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    with state_store(spark):
        yield


@pytest.mark.dear("streaming queries")
@spark_group
@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize("text", [CLOCKS, TEMPLATES])
def test_a_query_says_what_one_machine_says(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """Also if it is started again after each batch, as another query with the same checkpoint."""
    source = tmp_path / "source"
    source.mkdir()
    rows = log_rows(8, 90)
    generator = random.Random(4)
    names = [field.split()[0] for field in LOG.split(", ")]
    for number in range(0, len(rows), 30):
        given_rows = spark.readStream.schema(LOG).json(str(source))
        verdicts = monitor_stream(given_rows, text, order_within="n", delay=60)
        part = generator.sample(rows[number : number + 30], 30)
        put(source, f"{number:03}", [dict(zip(names, row, strict=True)) for row in part])
        if number == 60:
            last = {
                "ts": rows[-1][0] + 200,
                "n": 0,
                "user": "end",
                "host": 9,
                "what": "",
                "code": 0,
            }
            put(source, "end", [{**last, "amount": 0}])
        writer = verdicts.writeStream.format("parquet").option("path", str(tmp_path / "verdicts"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        query.stop()
    written = spark.read.parquet(str(tmp_path / "verdicts"))
    assert written.where("late IS NOT NULL").count() == 0
    # the watermark is 60 before the last row, which does not come before that
    end = rows[-1][0] + 200 - 60
    keys = ["user", "host"] if "host" in written.columns else "user"
    resolved = [row.asDict() for row in resolve_verdicts(written, key=keys).collect()]
    wanted = truth(table(rows), text, end_time=end - 1)
    plain = [tuple(item for item in one if item[0] != "message") for one in wanted.elements()]
    assert counted(resolved) == type(wanted)(plain)
    if "message" in text:
        messages = sorted(
            (row["policy"], row["user"], row["time"], row["message"])
            for row in written.where("message IS NOT NULL").collect()
        )
        assert messages == sorted(
            (one["policy"], one["user"], one["time"], one["message"])
            for one in map(dict, wanted.elements())
            if "message" in one
        )
        assert len(messages) > 20


@pytest.mark.dear("streaming queries")
@spark_group
@pytest.mark.usefixtures("rocksdb")
def test_a_silent_key_has_ticks_as_the_watermark_moves(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    df = spark.readStream.schema("ts long, k string").json(str(source))
    text = 'key k\ntrigger silent on every 10: count[0,10]() = 0 message "since {ts.hold()}"'
    with streaming(spark, monitor_stream(df, text, delay=0), tmp_path, source) as stream:
        assert stream.send({"ts": 3, "k": "a"}) == []
        found = stream.send({"ts": 25, "k": "b"})
        assert [(row["k"], row["time"], row["verdict"]) for row in found] == [
            ("a", 10, True),
            ("a", 20, False),
        ]
        assert found[1]["message"] == "since 3"
        found = stream.send({"ts": 41, "k": "b"})
        assert sorted((row["k"], row["time"], row["verdict"]) for row in found) == [
            ("a", 30, False),
            ("a", 40, False),
            ("b", 30, True),
            ("b", 40, False),
        ]


SSH = """\
2024-05-01T10:00:00Z web sshd[812]: Failed password for root from 10.0.0.7 port 51122 ssh2
2024-05-01T10:00:05Z web sshd[812]: Failed password for root from 10.0.0.7 port 51123 ssh2
2024-05-01T10:00:06Z web cron[9]: something else
2024-05-01T10:00:12Z web sshd[813]: Accepted publickey for ann from 10.0.0.9 port 51001 ssh2
"""


@spark_group
def test_lines_that_match_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "auth.log"
    path.write_text(SSH)
    text = (
        'unit s\npattern "sshd"\ntrigger two: count[0,10s](result = "Failed") > 1 message "{user}"'
    )
    found = rows_of(monitor_files(spark, path, text))
    start = 1_714_557_600
    assert [(row["time"] - start, row["verdict"], row["message"]) for row in found] == [
        (0, True, None),
        (5, False, "root"),
        (12, True, None),
    ]
    options = {"pattern": r"^(?P<at>\S+) (?P<host>\S+) (?P<program>\w+)", "time": "at"}
    found = rows_of(monitor_files(spark, path, 'program = "cron"', options=options))
    assert [row["verdict"] for row in found] == [False, False, True, False]
    with pytest.raises(MtlmonError, match="has no named groups"):
        monitor_files(spark, path, "p", options={"pattern": "x"})
    with pytest.raises(MtlmonError, match="not for csv"):
        monitor_files(spark, path, text, format="csv")
