"""Look-ups in relations, whose records go to the executors."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from pyspark.errors import PythonException

from mtlmon import check as check_log
from mtlmon import query
from mtlmon.errors import MtlmonError
from mtlmon.policy import load_policies
from mtlmon.spark import (
    SkippedRowsWarning,
    monitor,
    monitor_files,
    monitor_partitions,
    monitor_stream,
)
from tests.cli.process import mtlmon
from tests.doors import OrderedRows, compile_policies, event_source
from tests.doors import streams_atoms as stream_atoms
from tests.reference import policies as reference
from tests.spark.streams import put, state_store, streaming

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

# one session for all tests
pytestmark = pytest.mark.xdist_group("spark")

POLICIES = """unit s
relation limits = table "limits.csv" valid [from, to) key road
key car
policy fast: speed <= limits[road].max
stream most = max[0,1m](limits[road].max)
policy rising: most > 70 OR ONCE exists limits[road]
policy ticks on every 20s: limits["a1"].max = 80
"""
CHANGES = """relation lanes = table "lanes.csv" valid [from, to)
relation recent = rows where speed > 70 valid 20 group road, car select count() as n
policy often per car, road on changes of recent: recent[road.hold(), car.hold()].n > 1
policy whole per none on changes of limits: count[0,20s]() > 5
policy own on changes of lanes: exists lanes[car = car.hold()] IMPLIES NEXT[0,10s] true
policy road per road, car on changes of lanes: count[0,1m](speed > 60) > 2
trigger busy on changes of lanes: count[0,30s]() > 3 message "on {lanes[car = car.hold()].road}"
"""
LANES = "car,road,from,to\n" + "".join(
    f"c{number % 4},a{1 + number % 3},{7 * number},{7 * number + 11}\n" for number in range(20)
)
LIMITS = "road,from,to,max\na1,0,100,80\na1,100,,100\na2,50,,60\n"
ROWS = [(ts, f"c{ts % 3}", f"a{1 + ts % 4 // 2}", 50 + ts * 7 % 60) for ts in range(0, 160, 3)]


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text(LIMITS)
    (tmp_path / "lanes.csv").write_text(LANES)
    (tmp_path / "cars.mtl").write_text(POLICIES)
    return tmp_path / "cars.mtl"


def verdicts(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    names = ("policy", "car", "time", "offset", "verdict")
    found = (tuple(row[name] for name in names) for row in rows)
    return sorted((policy, car or "", *rest) for policy, car, *rest in found)


OF_ROWS = """unit s
relation limits = table "limits.csv" valid [from, to) key road
relation pace = rows valid 30s group road select avg(speed) as v, count() as n
relation slow = pace join limits on road = limits_road where v < max select road as road
relation quick = rows where speed > 60 valid until speed < 55 per car select car as car distinct
key car
policy even: speed - pace[road].v < 30 AND speed - pace[road].v > -30
policy known: exists slow[road] OR exists quick[car]
policy ticks on every 20s: exists slow["a1"]
stream most = max[0,1m](pace["a2"].n)
policy few: most < 8
"""


def of_reference(policies: Path, rows: Sequence[tuple[int, str, str, int]]) -> list[Any]:
    """The verdicts of the references."""
    file = load_policies([policies])
    tables = {"limits.csv": reference.records_of(LIMITS, "from", "to", integers=["max"])}
    schemas = {name: schema for name, (_, schema) in tables.items()}
    schemas["rows"] = pa.schema(
        {"ts": pa.int64(), "car": pa.string(), "road": pa.string(), "speed": pa.int64()}
    )
    cells = [dict(zip(schemas["rows"].names, row, strict=True)) for row in rows]
    bags = {name: bag for name, (bag, _) in tables.items()}
    said = reference.said_of(file, reference.Log(cells, None, bags, schemas))
    return sorted(
        (file.policies[number].name, *key, *point, value)
        for (number, key, point), value in said.values.items()
        if value is not None
    )


def test_relations_of_rows_and_command(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    """Rows of all keys are in a relation, also those of the same time-stamp."""
    policies.write_text(OF_ROWS)
    rows = [*ROWS, *((ts, f"c{ts % 2}", "a1", 40 + ts % 80) for ts in range(0, 160, 6))]
    rows.sort()
    wanted = of_command(policies, rows, tmp_path)
    frame = spark.createDataFrame(rows, "ts long, car string, road string, speed long")
    found = monitor(frame.repartition(3), policies, time_unit="s", order_within=["road", "speed"])
    answers = verdicts(found.collect())
    assert answers == wanted == of_reference(policies, rows)
    assert len({(one[0], one[-1]) for one in answers}) > 6


def test_rows_that_are_skipped_are_not_of_relations(spark: SparkSession, policies: Path) -> None:
    """Without a key, or with an atom that overflows; but a row on which a stream overflows is."""
    policies.write_text(f"""{OF_ROWS}
policy own: speed * 1000000000000000000 > 3
policy window: sum[0,9s](lane) > 3
relation lanes = rows valid 9s group select count() as n
policy seen: lanes[].n < 3
""")
    rows = [
        {
            "ts": None if number % 7 == 3 else 3 * number,
            "car": None if number % 5 == 2 else f"c{number % 3}",
            "road": "a1",
            "speed": number % 6 if number % 4 else 40 + number,
            "lane": 2**62 if number % 3 == 1 else 1,
        }
        for number in range(40)
    ]
    kinds = "ts long, car string, road string, speed long, lane long"
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], kinds)
    options: Any = {"time_unit": "s", "on_error": "skip", "resolve": True}
    with pytest.warns(SkippedRowsWarning):
        found = monitor(frame, policies, **options).collect()
    texts = {"car", "road"}
    schema = pa.schema({name: pa.string() if name in texts else pa.int64() for name in rows[0]})
    wanted = check_log(policies, pa.Table.from_pylist(rows, schema), **options)
    answers = verdicts(found)
    assert answers == verdicts(wanted.to_arrow().to_pylist())
    assert {one[-1] for one in answers if one[0] == "seen"} == {True, False}
    assert len({one[2] for one in answers if one[0] == "seen"}) < len(rows)


def of_command(
    policies: Path, rows: Sequence[tuple[int, str, str, int]], folder: Path
) -> list[tuple[object, ...]]:
    """The verdicts of the command."""
    cells = "".join(f"{ts},{car},{road},{speed}\n" for ts, car, road, speed in rows)
    (folder / "log.csv").write_text("ts,car,road,speed\n" + cells)
    wanted = []
    for line in mtlmon(str(policies), str(folder / "log.csv")).output.splitlines():
        policy, car, rest = line.split("\t")
        place, verdict = rest.split(" ")
        time, offset = map(int, place.split(":"))
        wanted.append((policy, car, time, offset, verdict == "true"))
    return sorted(wanted)


def test_batch_and_command(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    wanted = of_command(policies, ROWS, tmp_path)
    frame = spark.createDataFrame(ROWS, "ts long, car string, road string, speed long")
    found = monitor(frame, policies, resolution="s", time_unit="s").collect()
    assert verdicts(found) == wanted == of_reference(policies, ROWS)
    assert len({row["verdict"] for row in found}) == 2
    # beside policies with variables
    fast = "atom seen(road) = speed > 90\n"
    fast += "policy rare per none: seen(r) IMPLIES NOT ONCE[1s,20s] seen(r)\n"
    policies.write_text(POLICIES + fast)
    both = monitor(frame, policies, resolution="s", time_unit="s").collect()
    assert verdicts([row for row in both if row["r"] is None]) == wanted
    assert len(both) > len(wanted)


def test_changes_are_those_of_the_command(
    spark: SparkSession, policies: Path, tmp_path: Path
) -> None:
    policies.write_text(POLICIES + CHANGES)
    cells = "".join(f"{ts},{car},{road},{speed}\n" for ts, car, road, speed in ROWS)
    (tmp_path / "log.csv").write_text("ts,car,road,speed\n" + cells)
    frame = spark.createDataFrame(ROWS, "ts long, car string, road string, speed long")
    options = ["--output-format", "jsonl", "--end-time", "last", "--resolve"]
    lines = mtlmon(*options, str(policies), str(tmp_path / "log.csv")).output.splitlines()
    names = ("policy", "car", "road", "time", "offset", "verdict", "message")
    wanted = [tuple(json.loads(line).get(name) for name in names) for line in lines]
    # an unresolved verdict is not written
    found = [
        tuple(row[name] for name in names)
        for row in monitor(
            frame, policies, resolution="s", time_unit="s", end_time="last"
        ).collect()
        if row["verdict"] is not None
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    for name in ("whole", "own", "road", "busy", "often"):
        assert {one[5] for one in found if one[0] == name} == {True, False}, name
    policies.write_text(f"{POLICIES}policy p on changes of limits: true\n")
    with pytest.raises(MtlmonError, match="car is not a column of relation limits"):
        monitor(frame, policies, resolution="s", time_unit="s")


KEYED = """unit s
key k
relation open = table "open.csv" valid [from, to)
policy a on changes of open: exists open[k = k.hold()]
policy b on changes of open: count[0,3s]() > 1 IMPLIES NEXT[0,4s] true
policy c on every 3s: exists open[k = k.hold()]
policy d: exists open[k]
trigger e on changes of open: count[0,5s](v > 2) > 0 message "{k} {v}"
"""
CELLS = st.lists(
    st.tuples(st.integers(0, 14), st.sampled_from("wxyz"), st.integers(0, 4)), max_size=16
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@settings(max_examples=30, deadline=None)
@given(
    CELLS,
    st.lists(st.integers(0, 16), max_size=3),
    st.sampled_from([1, 3, 1 << 17]),
    st.sampled_from(["last", 17, None]),
)
def test_changes_for_one_key_after_the_other(
    tmp_path_factory: pytest.TempPathFactory,
    log: list[tuple[int, str, int]],
    cuts: list[int],
    most_ticks: int,
    end_time: Any,
) -> None:
    """Rows that are sorted by key, in any batches, against the rows in the order of time."""
    folder = tmp_path_factory.getbasetemp()
    (folder / "open.csv").write_text("k,from,to\nx,0,2\nx,5,9\ny,3,\nz,4,6\nz,6,7\nv,1,8\nw,2,16\n")
    (folder / "keyed.mtl").write_text(KEYED)
    schema = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.int64()})
    rows = [dict(zip(schema.names, row, strict=True)) for row in log]
    names = ("policy", "k", "time", "offset", "verdict", "message")
    file = folder / "keyed.mtl"
    options: Any = {"resolution": "s", "time_unit": "s"}
    wanted = [
        tuple(row[name] for name in names)
        for batch in check_log(
            file, pa.Table.from_pylist(rows, schema), resolve=True, end_time=end_time, **options
        ).batches()
        for row in batch.to_pylist()
    ]
    policies = compile_policies(
        file, "local", "s", "s", has_keys=True, looks_up=True, has_changes=True
    )
    policies.watch(("k",))
    source = event_source(policies, time=None, keys=("k",), **options)
    rows.sort(key=lambda row: row["k"])
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    batches = (
        pa.RecordBatch.from_pylist(rows[start:end], schema).select(source.selection.names)
        for start, end in pairwise(edges)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_atoms, "MOST_TICKS", most_ticks)
        monitors = OrderedRows(source, True, end_time, "allow", log[-1][0] if log else 0)
        found = [
            tuple(row[name] for name in names)
            for batch in monitors(batches)
            for row in batch.to_pylist()
        ]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


STREAMED = """unit s
relation limits = table "limits.csv" valid [from, to) key road
relation lanes = table "lanes.csv" valid [from, to)
relation recent = rows where speed > 70 valid 20s group car select count() as n
relation pace = rows valid 30s group road select avg(speed) as v, count() as n
relation slow = pace join limits on road = limits_road where v < max select road as road
key car
policy fast: speed <= limits[road].max
policy even: speed - pace[road].v < 30 AND speed - pace[road].v > -30
policy known: exists slow[road] IMPLIES EVENTUALLY[0,9s] speed < 60
policy ticks on every 20s: exists slow["a1"]
stream most = max[0,1m](pace["a2"].n)
policy few: most < 4
policy often on changes of recent: recent[car.hold()].n > 1
policy whole per none on changes of limits: count[0,20s]() > 5
policy own on changes of lanes: exists lanes[car = car.hold()] IMPLIES NEXT[0,10s] true
trigger busy on changes of lanes: count[0,30s]() > 3 message "on {lanes[car = car.hold()].road}"
policy calm per none on changes of slow: count[0,9s]() < 3
"""


@pytest.mark.dear("streaming queries")
def test_streaming_and_command(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    """A query that is stopped after each batch, and rows in any order within the delay."""
    policies.write_text(STREAMED)
    rows = [*ROWS, *((ts, f"c{ts % 2}", "a1", 40 + ts % 80) for ts in range(0, 160, 6))]
    rows.sort(key=lambda row: (row[0], row[3], row[1]))
    cells = "".join(f"{ts},{car},{road},{speed}\n" for ts, car, road, speed in rows)
    (tmp_path / "log.csv").write_text("ts,car,road,speed\n" + cells)
    options = ["--output-format", "jsonl", "--resolve", "--end-time", "339"]
    lines = mtlmon(*options, str(policies), str(tmp_path / "log.csv")).output.splitlines()
    names = ("policy", "car", "time", "offset", "verdict", "message")
    wanted = [tuple(json.loads(line).get(name) for name in names) for line in lines]
    schema = "ts long, car string, road string, speed long"
    columns = ("ts", "car", "road", "speed")
    (tmp_path / "source").mkdir()
    generator = random.Random(3)
    parts = [generator.sample(some, len(some)) for some in (rows[:30], rows[30:])]
    # late by less than the delay; a row that only moves time, and one that is late
    parts[1].append(parts[0].pop(-1))
    parts.append([(400, "end", "a9", 50), (50, "late", "a1", 90)])
    with state_store(spark):
        for number, part in enumerate(parts):
            sent = [dict(zip(columns, one, strict=True)) for one in part]
            put(tmp_path / "source", f"{number}", sent)
            frame = spark.readStream.schema(schema).json(str(tmp_path / "source"))
            found = monitor_stream(
                frame,
                policies,
                time_unit="s",
                delay="60s",
                order_within=["speed", "ascii(substr(car, 2, 1))"],
                mode="naive",
                buckets=3,
            )
            writer = found.writeStream.format("parquet").option("path", str(tmp_path / "out"))
            query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            query.processAllAvailable()
            query.stop()
    given = spark.read.parquet(str(tmp_path / "out"))
    answers = [tuple(row[name] for name in names) for row in given.where("late IS NULL").collect()]
    wanted = [one for one in wanted if one[4] is not None]
    assert sorted(map(repr, answers)) == sorted(map(repr, wanted))
    for name in {one[0] for one in wanted}:
        assert {one[4] for one in wanted if one[0] == name} == {True, False}, name
    assert given.where("late IS NOT NULL").count() == 2


OF_FILES = """unit s
relation limits = table "limits.csv" valid [from, to) key road
relation pace = rows valid 30s group road select avg(speed) as v, count() as n
relation slow = pace join limits on road = limits_road where v < max select road as road
policy fast: speed <= limits[road].max
policy even: speed - pace[road].v < 15
policy ticks on every 20s: exists slow["a1"] OR limits["a2"].max = 60
policy changed on changes of limits: count[0,20s]() > 3
policy dense on changes of pace: NOT exists slow["a1"]
trigger over: speed > limits[road].max message "{speed} above {limits[road].max} on {road}"
policy later: pace[road].n.next() < 6
"""


@pytest.mark.parametrize("end_time", [None, "inf", 400])
def test_files_are_logs_of_their_own(spark: SparkSession, tmp_path: Path, end_time: Any) -> None:
    """Each has the relations of its own rows, as for the command, and the same tables."""
    (tmp_path / "limits.csv").write_text(LIMITS)
    rules = tmp_path / "rules.mtl"
    rules.write_text(OF_FILES)
    names = ("policy", "time", "offset", "verdict", "message")
    wanted = []
    for number, suffix in enumerate(["csv", "jsonl", "csv"]):
        rows = [row for row in ROWS if number and (row[0] // 3) % (6 - number) < 3]
        path = tmp_path / f"log{number}.{suffix}"
        if suffix == "csv":
            path.write_text(
                "ts,car,road,speed\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
            )
        else:
            named = (dict(zip(("ts", "car", "road", "speed"), row, strict=True)) for row in rows)
            path.write_text("".join(f"{json.dumps(one)}\n" for one in named))
        output = tmp_path / "out.jsonl"
        options = [] if end_time is None else ["--end-time", str(end_time)]
        done = mtlmon(
            "--resolve",
            "--output-format",
            "jsonl",
            "-o",
            str(output),
            *options,
            str(rules),
            str(path),
        )
        assert done.status in (0, 1), done.errors
        lines = output.read_text().splitlines()
        for one in map(json.loads, lines):
            wanted.append((str(path), *map(one.get, names)))
    found = monitor_files(spark, str(tmp_path / "log*"), rules, end_time=end_time)
    # tables are read before
    (tmp_path / "limits.csv").unlink()
    answers = [tuple(row[name] for name in ("file", *names)) for row in found.collect()]
    answers = [one for one in answers if one[4] is not None]
    wanted = [one for one in wanted if one[4] is not None]
    assert sorted(map(repr, answers)) == sorted(map(repr, wanted))
    for name in {one[1] for one in wanted}:
        assert {one[4] for one in wanted if one[1] == name} == {True, False}, name


def test_text_logs_look_up_in_tables(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "one.log"
    rules.write_text(
        'unit s\nrelation limits = table "limits.csv" valid [from, to) key road\n'
        'policy some: count[0,30s](p) < limits["a2"].max - 58 OR NOT exists limits["a2"]\n'
        "policy changed on changes of limits: count[0,20s](p) > 1\n"
    )
    log.write_text("".join(f"@{stamp} p\n" for stamp in range(1, 130, 9)))
    output = tmp_path / "out.jsonl"
    done = mtlmon("--output-format", "jsonl", "-o", str(output), str(rules), str(log))
    wanted = [json.loads(line) for line in output.read_text().splitlines()]
    assert done.status == 1
    found = monitor_files(spark, log, rules).collect()
    names = ("policy", "time", "offset", "verdict")
    answers = sorted(tuple(row[name] for name in names) for row in found)
    assert answers == sorted(tuple(one[name] for name in names) for one in wanted)
    rules.write_text("relation r = rows\npolicy p: exists r")
    with pytest.raises(
        PythonException, match="the log is read as text, whose rows have no columns"
    ):
        monitor_files(spark, log, rules).collect()


def test_what_is_refused(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, "ts long, car string, road string, speed long")
    with pytest.raises(MtlmonError, match="looks values up in relation limits"):
        monitor_partitions(frame, policies)
    rows = tmp_path / "rows.mtl"
    source = tmp_path / "source"
    source.mkdir()
    stream = spark.readStream.schema(frame.schema).json(str(source))
    rows.write_text(f"{VARIABLES}{OF_PACE}")
    with state_store(spark), pytest.raises(MtlmonError, match="relation pace reads the rows of"):
        monitor_stream(stream, rows, delay=0)


VARIABLES = """unit s
relation limits = table "limits.csv" valid [from, to) key road
relation pace = rows valid 30s group road select count() as n
atom over(car, m = limits[road].max) = speed > limits[road].max
atom limited(road) = exists limits[road]
policy again: over(c, m) IMPLIES NOT ONCE[1s,60s] (EXISTS n. over(c, n))
"""
OF_PACE = """
atom full(road, n = pace[road].n) = pace[road].n > 6
find filled: full(r, n) AND ONCE[0s,9s] limited(r)
"""


def valuations(rows: Sequence[dict[str, Any]]) -> list[str]:
    names = ("policy", "time", "offset", "verdict", "c", "m", "r", "n")
    return sorted(repr([row.get(name) for name in names]) for row in rows)


def of_one_machine(rows: Sequence[tuple[int, str, str, int]], policies: Path) -> list[str]:
    names = ("ts", "car", "road", "speed")
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    check = check_log(policies, table, time_points="stamp", time_unit="s")
    return valuations(check.to_arrow().to_pylist())


def test_policies_with_variables_look_values_up(
    spark: SparkSession, policies: Path, tmp_path: Path
) -> None:
    """In relations of tables and of the rows of a data frame; beside others; also in a stream."""
    policies.write_text(f"{VARIABLES}{OF_PACE}")
    rows = [*ROWS, *((ts, f"c{ts % 2}", "a1", 40 + ts % 80) for ts in range(0, 160, 6))]
    rows.sort()
    wanted = of_one_machine(rows, policies)
    assert len(wanted) > 20
    assert all(any(f"'{name}'" in one for one in wanted) for name in ("again", "filled"))
    frame = spark.createDataFrame(rows, "ts long, car string, road string, speed long")
    for on_error in ("stop", "skip"):
        found = monitor(
            frame.repartition(3), policies, time_unit="s", slices=3, on_error=on_error
        ).collect()
        assert valuations([row.asDict() for row in found]) == wanted
    other = "policy fast: speed <= limits[road].max\npolicy slow: pace[road].n < 9\n"
    policies.write_text(f"{VARIABLES}{OF_PACE}{other}")
    found = monitor(frame, policies, time_unit="s", order_within="car").collect()
    of_variables = [row.asDict() for row in found if row["policy"] in {"again", "filled"}]
    assert valuations(of_variables) == wanted
    assert len(found) == len(of_variables) + 2 * len(rows)

    policies.write_text(VARIABLES)
    source = tmp_path / "source"
    source.mkdir()
    stream = spark.readStream.schema(frame.schema).json(str(source))
    with state_store(spark):
        verdicts = monitor_stream(stream, policies, delay=0, time_unit="s", slices=2)
        with streaming(spark, verdicts, tmp_path, source) as query:
            names = ("ts", "car", "road", "speed")
            cells = [dict(zip(names, row, strict=True)) for row in rows]
            end = [{"ts": 1000, "car": "c0", "road": "x", "speed": 0}]
            answers = [one for part in (cells[:30], cells[30:], end) for one in query.send(*part)]
    assert valuations([one for one in answers if one["late"] is None]) == of_one_machine(
        rows, policies
    )


WHOLE = """unit s
relation cut = rows valid 40s split 15s valid 9s group road select count() as n
relation parts = rows where speed > 60 valid 35s select car as car coalesce max 20s valid 12s
relation pieces = table "lanes.csv" valid [from, to) split 4s valid 3s
"""
ON_WHOLE = """key car
policy cut: cut[road].n < 3
policy parts: exists parts[car]
policy pieces: exists pieces[car]
policy changes per none on changes of cut: count[0,9s]() > 2
policy ticks on every 20s: exists parts
"""


def test_relations_that_need_the_whole_log(
    spark: SparkSession, policies: Path, tmp_path: Path
) -> None:
    """At rest, they are what `query` says of all rows."""
    policies.write_text(WHOLE + ON_WHOLE)
    table = pa.table(list(zip(*ROWS, strict=True)), ["ts", "car", "road", "speed"])
    declared = "unit s\n"
    for name in ("cut", "parts", "pieces"):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(query(policies, name, table).to_arrow(), path)
        declared += f'relation {name} = table "{name}.parquet" valid [start, end)\n'
    (tmp_path / "known.mtl").write_text(
        declared + ON_WHOLE.replace("cut[road]", "cut[road = road]")
    )
    wanted = of_command(tmp_path / "known.mtl", ROWS, tmp_path)
    frame = spark.createDataFrame(ROWS, "ts long, car string, road string, speed long")
    found = verdicts(monitor(frame.repartition(3), policies, time_unit="s").collect())
    assert found == wanted
    for policy in {one[0] for one in wanted}:
        assert {one[-1] for one in wanted if one[0] == policy} == {True, False}, policy


@pytest.mark.parametrize("slices", [1, 3])
def test_values_of_differing_types(spark: SparkSession, tmp_path: Path, slices: int) -> None:
    """An integer of a data frame equals the cell of CSV, and the text, that is written like it."""
    (tmp_path / "deny.csv").write_text("id,from,to\n7,0,100\n008,0,100\nA1,0,100\n")
    (tmp_path / "rules.mtl").write_text(
        'relation deny = table "deny.csv" valid [from, to) key id\n'
        "policy denied: not exists deny[id]\n"
        "policy same: id = other\n"
    )
    rows = [(1, 7, "7", "k"), (2, 8, "008", "k"), (3, 9, "9", "k")]
    df = spark.createDataFrame(rows, "ts bigint, id bigint, other string, k string")
    found = monitor(df, tmp_path / "rules.mtl", key="k", time="ts").collect()
    assert sorted((row.policy, row.time) for row in found if not row.verdict) == [
        ("denied", 1),
        ("same", 2),
    ]
    variables = "atom a(id) = ts < 2\natom b(other) = ts >= 1\npolicy x: b(p) IMPLIES ONCE a(p)\n"
    answers = monitor(df, variables, time="ts", slices=slices).collect()
    assert sorted((row.time, row.p) for row in answers) == [(2, "008"), (3, "9")]
