"""Data frames: the verdicts of one machine, whatever Spark does with partitions and batches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlmon.errors import ExecutorError, MtlmonError, PolicyError, TableError, UnitError
from mtlmon.spark import monitor, plain_errors
from tests.corpus import check_lines, load_cases
from tests.spark.single import Row, collected, expected, random_rows, shuffled
from tests.traces import MODES, Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.traces import EndTime, Mode

pytestmark = pytest.mark.xdist_group("spark")

POLICIES = """
policy answered: p IMPLIES EVENTUALLY[0,5] q
policy nested: ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)
policy past: p SINCE[2,8] (q AND NEXT[0,1] p)
policy unbounded: ALWAYS (p IMPLIES EVENTUALLY q)
"""


@contextmanager
def configured(spark: SparkSession, **options: object) -> Iterator[None]:
    """Options of Spark for a while; an underline in a name stands for a dot."""
    names = {
        "spark.sql." + name.replace("_", "."): str(value).lower() for name, value in options.items()
    }
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def frame(spark: SparkSession, rows: Sequence[Row], partitions: int | None = None) -> DataFrame:
    frame = spark.createDataFrame(pa.Table.from_pylist([row._asdict() for row in rows]))
    return frame if partitions is None else frame.repartition(partitions)


@pytest.mark.parametrize("end_time", [None, 20, "last", "inf"])
@pytest.mark.parametrize("mode", MODES)
def test_verdicts_are_those_of_one_machine(
    spark: SparkSession, mode: Mode, end_time: EndTime
) -> None:
    rows = random_rows(1, keys=40, events=30)
    for resolves in (False, True):
        found = monitor(
            frame(spark, shuffled(rows, 1)),
            POLICIES,
            key="k",
            event="what",
            order_within="n",
            mode=mode,
            resolve=resolves,
            end_time=end_time,
        )
        assert collected(found) == expected(
            rows, POLICIES, mode, resolves=resolves, end_time=end_time
        )


@pytest.mark.parametrize("batch", [1, 2, 7, 10_000, 0])
@pytest.mark.parametrize("partitions", [1, 5])
def test_neither_batches_nor_partitions_matter(
    spark: SparkSession, batch: int, partitions: int
) -> None:
    # a batch size of 0 is a whole partition
    rows = random_rows(batch, keys=9, events=20, skew=300)
    events = frame(spark, shuffled(rows, 2), partitions=7)
    with configured(spark, execution_arrow_maxRecordsPerBatch=batch, shuffle_partitions=partitions):
        found = monitor(
            events,
            POLICIES,
            key="k",
            event="what",
            order_within="n",
            resolve=False,
        )
        assert collected(found) == expected(rows, POLICIES, resolves=False)


def test_the_corpus(spark: SparkSession) -> None:
    # every policy is monitored on every trace; what is looked at is that of its own case
    cases = [
        case
        for case in load_cases()
        if case.trace and all(isinstance(step, Event) for step in case.trace)
    ]
    rows = []
    for number, case in enumerate(cases):
        events = [step for step in case.trace if isinstance(step, Event)]
        rows += [
            {"k": number, "n": place, "ts": step.time_stamp, "what": sorted(step.atoms)}
            for place, step in enumerate(events)
        ]
    policies = "\n".join(
        f"policy case{number}: {case.formula}" for number, case in enumerate(cases)
    )
    for mode in MODES:
        for end_time in (None, "inf"):
            verdicts = monitor(
                spark.createDataFrame(pa.Table.from_pylist(rows)),
                policies,
                key="k",
                event="what",
                order_within="n",
                mode=mode,
                resolve=False,
                end_time=end_time,
            )
            found: dict[int, list[str]] = {number: [] for number in range(len(cases))}
            for row in verdicts.where("policy = 'case' || k").collect():
                found[row.k].append(_line(row))
            for number, case in enumerate(cases):
                if case.end_time == end_time:
                    check_lines(case, mode, found[number], ordered=False)


def _line(row: Any) -> str:
    if row.verdict is None:
        return f"{row.time}:{row.offset} = {row.reference_time}:{row.reference_offset}"
    return f"{row.time}:{row.offset} {str(row.verdict).lower()}"


def test_keys_of_several_columns_and_types(spark: SparkSession) -> None:
    query = """
        SELECT * FROM VALUES
            (1.0D, 'a', DATE'2024-01-01', 1, true),
            (double('nan'), 'a', DATE'2024-01-01', 1, true),
            (double('nan'), 'a', DATE'2024-01-01', 2, false),
            (1.0D, 'b', DATE'2024-01-01', 1, true),
            (1.0D, 'a', DATE'2024-01-02', 1, false), (-0.0D, 'a', DATE'2024-01-01', 1, true),
            (0.0D, 'a', DATE'2024-01-01', 5, false)
        AS events(`a.b`, `c``d`, day, ts, p)
    """
    verdicts = monitor(spark.sql(query), "PREVIOUS p", key=["a.b", "c`d", "day"])
    assert verdicts.columns[:4] == ["policy", "a.b", "c`d", "day"]
    assert verdicts.schema.fields[1:4] == spark.sql(query).schema.fields[:3]
    found = sorted(
        (str(row[1]), row[2], str(row[3]), row[4], row.verdict) for row in verdicts.collect()
    )
    assert found == [
        ("-0.0", "a", "2024-01-01", 1, False),
        ("-0.0", "a", "2024-01-01", 5, True),
        ("1.0", "a", "2024-01-01", 1, False),
        ("1.0", "a", "2024-01-02", 1, False),
        ("1.0", "b", "2024-01-01", 1, False),
        ("nan", "a", "2024-01-01", 1, False),
        ("nan", "a", "2024-01-01", 2, True),
    ]


def test_without_a_key_all_rows_are_one_trace(spark: SparkSession) -> None:
    rows = [row._replace(k="") for row in random_rows(3, keys=1, events=1, skew=500)]
    verdicts = monitor(
        frame(spark, shuffled(rows, 3), partitions=4),
        "policy x: p IMPLIES EVENTUALLY[0,5] q",
        event="what",
        order_within="n",
    )
    whole = expected(rows, "policy x: p IMPLIES EVENTUALLY[0,5] q")
    assert collected(verdicts) == [(row[0], *row[2:]) for row in whole]


def test_places_in_files_tell_the_order_within_a_time(spark: SparkSession, tmp_path: Path) -> None:
    rows = random_rows(5, keys=6, events=40)
    events = [{**row._asdict(), "ts": row.ts // 50} for row in rows]
    for number in range(3):
        # row groups of few rows, so that a file is read in several tasks
        table = pa.Table.from_pylist(events[number::3])
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=7)
    with configured(spark, files_maxPartitionBytes=2000):
        verdicts = monitor(
            spark.read.parquet(str(tmp_path)),
            "policy x: PREVIOUS p",
            key="k",
            event="what",
            order_within=["_metadata.file_name", "_metadata.row_index"],
        )
        found = collected(verdicts)
    placed = [
        Row(**{**event, "n": 1000 * number + place})
        for number in range(3)
        for place, event in enumerate(events[number::3])
    ]
    assert found == expected(placed, "policy x: PREVIOUS p")


def test_no_rows_have_no_verdicts(spark: SparkSession) -> None:
    rows = frame(spark, random_rows(4, keys=2, events=3)).where("ts < 0")
    for end_time in (None, "last", "inf"):
        verdicts = monitor(rows, "p", key="k", event="what", end_time=end_time)
        assert verdicts.collect() == []


def test_times_and_predicates(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT timestamp_millis(1000 * id + 999) AS at, id % 3 AS speed, id > 2 AS late "
        "FROM range(5)"
    )
    text = "unit ms\natom fast = speed > 1\npolicy x: fast OR late"
    assert [row.time for row in monitor(rows, text, time="at").collect()][:2] == [999, 1999]
    policies = "fast AND ONCE[1,1] late"
    verdicts = monitor(rows, policies, time="at", atoms={"fast": "speed >= 0"}).collect()
    assert [(row.time, row.verdict) for row in verdicts] == [
        (0, False), (1, False), (2, False), (3, False), (4, True)
    ]  # fmt: skip


def test_a_policy_is_read_from_a_file(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.policy"
    path.write_text("policy x: p")
    rows = frame(spark, [Row("a", 1, 0, "p")])
    assert monitor(rows, path, key="k", event="what").first() == ("x", "a", 1, 0, True, None, None)
    with pytest.raises(TypeError, match="not int"):
        monitor(rows, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"time": "tss"}, TableError, "no column 'tss' for the times; did you mean 'ts'"),
        ({"time": "flag"}, TableError, "column 'flag': there are no times in values of type bool"),
        ({"time": "nothing"}, TableError, "column 'nothing': all values are null"),
        ({"key": "kk"}, TableError, "no column 'kk' for the key; did you mean 'k'"),
        ({"key": ["k", "k"]}, MtlmonError, "given twice"),
        ({"key": "nothing"}, TableError, "column 'nothing': all values are null"),
        ({"key": "list"}, MtlmonError, "'list' is of type list.*: cast it"),
        ({"key": "verdict"}, MtlmonError, "'verdict' is called like a column of verdicts: rename"),
        ({"event": "list"}, TableError, "column 'list' of events is of type list"),
        ({"event": None}, TableError, r"no column 'p' for the atom p; .*say which with event="),
        ({"event": None, "atoms": {"p": "k"}}, PolicyError, "the predicate is a text"),
        ({"event": None, "atoms": {"p": "k > 3"}}, PolicyError, "column k of type string"),
        ({"atoms": {"q": "flag"}}, MtlmonError, "no policy has an atom 'q', only 'p'"),
        ({"mode": "fast"}, MtlmonError, "unknown mode 'fast'"),
        ({"time_unit": "week"}, MtlmonError, "no unit of time is called 'week'"),
        ({"resolution": "week"}, MtlmonError, "week"),
        ({"end_time": "first"}, MtlmonError, "'first'"),
        ({"end_time": -3}, MtlmonError, "-3"),
        ({"end_time": True}, MtlmonError, "end_time is a time-stamp, .* not True"),
        ({"key": 3}, MtlmonError, "key is the name of a column, not a int"),
        ({"time": "d,t"}, MtlmonError, r"concat_ws\(' ', 'd', 't'\)"),
        ({"event": None, "atoms": {"p": 3}}, MtlmonError, "predicate of the atom 'p' is a int"),
        ({"policy": "rules/policy.mtl"}, MtlmonError, "looks like a path: pass pathlib.Path"),
        ({"policy": "policy.mtl"}, MtlmonError, "looks like a path: pass pathlib.Path"),
        ({"policy": "EVENTUALLY[0,5s] p"}, UnitError, "say it with resolution='s', or with a line"),
    ],
)  # fmt: skip
def test_mistakes_are_found_when_the_plan_is_built(
    spark: SparkSession, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    rows = spark.sql(
        "SELECT 'a' AS k, 1L AS ts, 'p' AS what, true AS flag, null AS nothing, array(1) AS list, "
        "'b' AS verdict"
    )
    with pytest.raises(kind, match=message):
        monitor(rows, **({"policy": "p", "key": "k", "event": "what"} | arguments))


def test_columns_as_arguments(spark: SparkSession) -> None:
    """They were TypeErrors of whatever met them first."""
    from pyspark.sql import functions as F

    rows = spark.sql("SELECT 'a' AS k, 1 AS ts, true AS p")
    with pytest.raises(MtlmonError, match="predicate of the atom 'p' is a Column: write it as"):
        monitor(rows, "p", atoms={"p": F.col("ts") > 3})  # type: ignore[dict-item]
    with pytest.raises(MtlmonError, match="key is the name of a column, not a Column: make"):
        monitor(rows, "p", key=F.col("k"))  # type: ignore[arg-type]
    assert monitor(rows, "p", key=None).count() == 1


def test_units_of_bounds_are_those_of_time_stamps(spark: SparkSession) -> None:
    rows = spark.sql("SELECT id * 1000 AS ts, id = 0 AS p FROM range(8)")
    policy = "ONCE[5s,6s] p"
    for given in ({"time_unit": "ms"}, {"time_unit": "ms", "resolution": "s"}):
        verdicts = monitor(rows, policy, **given).where("verdict").orderBy("time")  # type: ignore[arg-type]
        assert verdicts.count() == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            ("a", None, 1),
            "column 'ts' is empty in this row.*; the row is ts=None, k='a', speed=1",
        ),
        (
            (None, 3, 1),
            "column 'k' is empty in this row.*; the row is ts=3, k=None, speed=1",
        ),
        (("a", -3, 1), "column 'ts': -?.*; the row is ts=-3, k='a', speed=1"),
        (("a", 3, 2**62), f"atom fast: .*; the row is ts=3, k='a', speed={2**62}"),
    ],
)
def test_a_row_at_fault_is_shown(
    spark: SparkSession, row: tuple[object, ...], message: str
) -> None:
    good = [("a", time, 1) for time in range(50)]
    rows = spark.createDataFrame([*good, row], "k string, ts bigint, speed bigint")
    verdicts = monitor(rows, "atom fast = speed + speed > 3\npolicy x: fast", key="k")
    # all rows in one batch
    with (
        configured(spark, shuffle_partitions=1),
        pytest.raises(ExecutorError, match=message) as caught,
        plain_errors(),
    ):
        verdicts.collect()
    assert "\n" not in str(caught.value)
    assert issubclass(caught.value.kind, MtlmonError)


def test_errors_of_others_stay_as_they_are(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"), plain_errors():
        spark.sql("SELECT 1 / 0").collect()
