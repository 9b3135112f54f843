"""Look-ups in relations inside policies and streams: the record that is valid at a row's time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import MtlmonError, PolicyError, TableError
from mtlmon.policy import parse_policies
from mtlmon.tables import open_tables
from tests.doors import NOTHING, ROWS, Plans, RowRelation, relations_with_columns
from tests.reference import relations as reference

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mtlmon.policy import PolicyFile

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.int64(), "p": pa.bool_()})
Row = tuple[int, str | None, int | None, bool]

DECLARED = """
relation sums   = rows valid 5 group k select sum(v) as s, count() as n
relation high   = sums where s > 3 select k as k, s as s
relation opened = rows valid until p per k where v > 0 select k as k
relation total  = opened group select count() as n
relation seen   = rows valid 3 where p
relation calm   = rows valid 4 select k as k distinct minus all high_keys
relation high_keys = high select k as k
stream a = sums[k].s
stream b = exists high[k]
stream c = sums[k = "x"].n + 1
stream d = total[].n
stream e = exists seen[k, v]
stream f = exists calm[k]
stream g = count[0,4](exists opened[k])
stream h = total[].n every 2
stream i = exists high["x"] every 3
stream j = sums["y"].s.last()
"""


def values(
    file: PolicyFile, batches: Sequence[pa.RecordBatch], **options: Any
) -> dict[str, list[Any]]:
    """The values of all streams, row by row, and those at ticks with their times."""
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    names = tuple(file.streams)
    at: dict[str, list[Any]] = {name: [] for name in names}
    found = open_tables(
        reader, (), policies=file, atoms_of_partitions=[{0: ()}], streams=names, **options
    )
    with found as tables:
        for batch in tables:
            assert batch.values is not None
            for name in names:
                column = batch.values.columns[name].to_pylist()
                at[name] += zip(batch.values.time_stamps.tolist(), column, strict=True)
    return at


def is_at_rows(file: PolicyFile, name: str) -> bool:
    return file.streams[name].clock is None


def expected(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The values at rows, from the bags at their times."""
    file = parse_policies(DECLARED, needs_policy=False)
    plans = Plans(file, {ROWS: pa.schema(list(SCHEMA)[1:])}, NOTHING)
    records = [(ts, ts + 1, rest) for ts, *rest in rows]
    table = reference.relation(SCHEMA.names[1:], [(a, b, tuple(row)) for a, b, row in records])
    bags = {name: reference.evaluate(plans.of(name), {ROWS: table}) for name in file.intervals}

    def records_at(name: str, time: int, **keys: Any) -> list[dict[str, Any]]:
        names = bags[name].names
        all_records = (
            dict(zip(names, row, strict=True)) for row in bags[name].snapshot(time).elements()
        )
        return [
            one
            for one in all_records
            if all(value is not None and one[key] == value for key, value in keys.items())
        ]

    def one(found: list[dict[str, Any]], column: str) -> Any:
        assert len(found) < 2
        return found[0][column] if found else None

    answer: dict[str, list[Any]] = {name: [] for name in "abcdefgj"}
    last: list[Any] = []
    for number, (ts, k, v, _) in enumerate(rows):
        n = one(records_at("sums", ts, k="x"), "n")
        opened = [
            bool(records_at("opened", time, k=key))
            for time, key, _, _ in rows[: number + 1]
            if ts - time <= 4
        ]
        found = {
            "a": one(records_at("sums", ts, k=k), "s"),
            "b": bool(records_at("high", ts, k=k)),
            "c": None if n is None else n + 1,
            "d": one(records_at("total", ts), "n"),
            "e": bool(records_at("seen", ts, k=k, v=v)),
            "f": bool(records_at("calm", ts, k=k)),
            "g": sum(opened),
            "j": last[-1] if last else None,
        }
        of_y = one(records_at("sums", ts, k="y"), "s")
        last += [] if of_y is None else [of_y]
        for name, value in found.items():
            answer[name].append((ts, value))
    for name, period in (("h", 2), ("i", 3)):
        ticks = range(-(-rows[0][0] // period) * period, rows[-1][0], period) if rows else ()
        answer[name] = [
            (
                tick,
                one(records_at("total", tick), "n")
                if name == "h"
                else bool(records_at("high", tick, k="x")),
            )
            for tick in ticks
        ]
    return answer


KEYS = st.sampled_from(["x", "y", None])
ROWS_OF_LOG = st.lists(
    st.tuples(st.integers(0, 12), KEYS, st.integers(-2, 3) | st.none(), st.booleans()), max_size=14
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@settings(max_examples=30, deadline=None)
@given(ROWS_OF_LOG, st.lists(st.integers(0, 14), max_size=4), st.booleans())
@example([(0, "x", 3, False), (0, "x", 3, True), (7, None, None, False)], [1], False)
@example([(0, None, None, False), (1, "x", 3, True), (1, "y", 3, True)], [1, 2], False)
def test_relations_of_rows(rows: list[Row], cuts: list[int], is_sorted: bool) -> None:
    file = parse_policies(DECLARED, needs_policy=False)
    places = sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})
    batches = [
        pa.RecordBatch.from_pylist(
            [dict(zip(SCHEMA.names, row, strict=True)) for row in rows[start:end]], SCHEMA
        )
        for start, end in pairwise(places)
    ]
    wanted = expected(rows)
    found = values(file, batches, sort=is_sorted)
    for name in file.streams:
        # a column has the ticks of other streams, too, where it is null
        times = {time for time, _ in wanted[name]}
        if is_at_rows(file, name):
            continue
        assert [one for one in found[name] if one[1] is not None] == [
            one for one in wanted[name] if one[1] is not None
        ], name
        assert times <= {time for time, _ in found[name]}
    at_rows = [name for name in file.streams if is_at_rows(file, name)]
    all_rows = list(zip(*(found[name] for name in at_rows), strict=True))
    wanted_rows = list(zip(*(wanted[name] for name in at_rows), strict=True))
    # at ticks, the values at rows are null, and counts never are
    is_row = [one[at_rows.index("g")][1] is not None for one in all_rows]
    assert [one for one, kept in zip(all_rows, is_row, strict=True) if kept] == wanted_rows


def test_what_is_known_is_kept_when_a_column_gets_a_type() -> None:
    """Ticks may look values up at times before the rows that say the type."""
    declared = 'relation r = rows valid 9\npolicy p on every 2: exists r[k = "x", v = 7]\n'
    file = parse_policies(declared)
    schemas = [pa.schema({"ts": pa.int64(), "k": pa.string(), "v": one}) for one in _TYPES]
    (relation,) = relations_with_columns(file, schemas[0]).of_rows.values()
    assert isinstance(relation, RowRelation)
    times, keys = np.array([3, 6, 12, 13]), pa.array(["x"] * 4)
    for place, (schema, ts, v) in enumerate(zip(schemas, (2, 5, 12), (None, 7, None), strict=True)):
        batch = pa.RecordBatch.from_pylist([{"ts": ts, "k": "x", "v": v}], schema)
        columns = dict(zip(relation.columns, relation.read(batch), strict=True))
        found = relation.find(["k"], times[:place], [keys[:place]])
        assert (found != -1).tolist() == [True] * place
        relation.advance(pa.table({"": [ts], " ": [ts + 1], **columns}), ts + 3, 0)
    found = relation.find(["k", "v"], times, [keys, pa.array([7] * 4)])
    assert (found != -1).tolist() == [False, True, True, True]
    assert relation.find(["k"], np.array([3, 7]), [keys[:2]]).tolist() == [0, -2]


_TYPES = (pa.null(), pa.int64(), pa.null())

LIMITS = """road,from,to,max
a1,0,100,80
a1,100,,100
a2,50,,60
"""
CARS = "ts,road,speed\n10,a1,90\n99,a1,90\n100,a1,90\n120,a2,70\n130,a3,70\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text(LIMITS)
    (tmp_path / "cars.csv").write_text(CARS)
    return tmp_path


def policy_file(folder: Path, body: str, name: str = "cars.mtl") -> PolicyFile:
    path = folder / name
    limits = 'relation limits = table "limits.csv" valid [from, to) key road\n'
    path.write_text(f"unit s\n{limits}{body}\n")
    return parse_policies(path.read_text(), str(path))


def verdicts(policies: PolicyFile, tables: Any, **options: Any) -> list[bool]:
    found = mtlmon.check(policies, tables, **options).to_arrow()
    answers: list[bool] = found.column("verdict").to_pylist()
    return answers


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("policy p: speed <= limits[road].max", [False, False, True, False, False]),
        ("policy p: NOT speed > limits[road].max", [False, False, True, False, True]),
        ("atom known = exists limits[road]\npolicy p: known", [True, True, True, True, False]),
        (
            'policy p: limits[road = (if road = "a3" then "a2" else road)].max = 60',
            [False, False, False, True, True],
        ),
        (
            "let fast = speed > limits[road].max\npolicy p: ONCE[0,20] fast",
            [True, True, True, True, True],
        ),
        (
            "stream most = max[0,1h](limits[road].max)\npolicy p: most > 80",
            [False, False, True, True, True],
        ),
        # a constant key: the record of the road at each time
        ('policy p: limits["a1"].max = 100', [False, False, True, True, True]),
        ("policy p: exists limits[null]", [False] * 5),
        (
            "policy p on rows where exists limits[road]: speed <= limits[road].max",
            [False, False, True, False],
        ),
        ('policy p on every 50: limits["a1"].max = 80', [True, False]),
        ("policy p: speed.next() > limits[road].max", [True, True, False, True]),
    ],
)
def test_relations_of_tables(folder: Path, body: str, wanted: list[bool]) -> None:
    policies = policy_file(folder, body)
    assert verdicts(policies, folder / "cars.csv") == wanted


SEVERAL = 'relation more = table "more.csv" valid [from, to)\n'


def test_several_records_are_an_error_of_the_row(folder: Path) -> None:
    (folder / "more.csv").write_text("road,from,to,max\na1,0,100,80\na1,90,,100\n")
    policies = policy_file(folder, f"{SEVERAL}policy p: speed <= more[road].max")
    with pytest.raises(TableError, match="several records of more with road a1 are valid at 99"):
        verdicts(policies, folder / "cars.csv")
    assert verdicts(policies, folder / "cars.csv", on_error="skip") == [False, True, False, False]
    exists = policy_file(folder, f"{SEVERAL}policy p: exists more[road]")
    assert verdicts(exists, folder / "cars.csv") == [True, True, True, False, False]
    declared = SEVERAL.replace("to)", "to) key road")
    keyed = policy_file(folder, f"{declared}policy p: exists more[road]")
    with pytest.raises(TableError, match="2 records with road a1 are valid at 90"):
        verdicts(keyed, folder / "cars.csv")


def test_several_records_of_rows(folder: Path) -> None:
    body = "relation near = rows valid 5\npolicy p: near[road].speed >= 90"
    policies = policy_file(folder, body)
    with pytest.raises(TableError, match=r"near\[road\].speed is not one value") as caught:
        verdicts(policies, folder / "cars.csv")
    assert caught.value.row == 3
    assert verdicts(policies, folder / "cars.csv", on_error="skip") == [True, True, False, False]
    # at 100, there are two; the tick there is left out
    declared = body.partition("policy")[0]
    ticks = policy_file(folder, f"{declared}policy p on every 10: near[].speed > 1")
    at_ticks = [True, *[False] * 8, False, True]
    assert verdicts(ticks, folder / "cars.csv", on_error="skip") == at_ticks


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("policy p: limits[road].min = 1", "relation limits has no column min"),
        ("policy p: limits[9].max = 1", "column 'road': '.*' is not of type int64"),
        ('policy p: limits[road].max > 5 and limits[road].max = "a"', "'=' compares limits"),
        (
            'relation lost = table "lost.csv" valid [a, b)\npolicy p: exists lost',
            "cannot read .*lost.csv: No such file",
        ),
        (
            "relation late = rows group road where end() > 5\npolicy p: exists late",
            "relation late is looked up while the log is read: `with end..` does not work",
        ),
        ("relation r = rows select spede as s\npolicy p: exists r", "no column 'spede'"),
        (
            "relation r = rows select speed + 9223372036854775800 as s\npolicy p: exists r",
            "relation r: speed . 9223372036854775800 overflows 64 bits",
        ),
        (
            "relation r = rows valid 5 group road select max(road + 1) as s\npolicy p: exists r",
            "column 'road': 'a1' is not of type int64",
        ),
        ("policy p: NOT exists limits[road.next()]", "is a later value, but the record is one now"),
    ],
)
def test_errors(folder: Path, body: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        verdicts(policy_file(folder, body), folder / "cars.csv")


JOINED = (
    "relation fast = rows join limits on road = limits_road where speed > max select road as road\n"
    "relation often = fast valid 50 group road select count() as n\n"
    "policy p: NOT often[road].n > 1"
)


def test_rows_that_are_joined_with_a_table(folder: Path) -> None:
    policies = policy_file(folder, JOINED.replace("fast valid 50", "fast"))
    assert verdicts(policies, folder / "cars.csv") == [True] * 5
    assert verdicts(policy_file(folder, JOINED), folder / "cars.csv") == [True] * 5
    held = JOINED.replace("rows join", "rows valid 1m join").replace("fast valid 50", "fast")
    assert verdicts(policy_file(folder, held), folder / "cars.csv") == [
        True,
        True,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "body",
    [
        "relation r = rows select road as a join recent on a = road\npolicy p: exists r[speed]",
        "relation r = rows select road as road join recent on road = recent_road\n"
        "policy p: exists r[recent_road = road, speed = speed]",
        "relation r = rows select road as a, speed as speed join recent on a = road\n"
        "policy p: exists r[recent_speed = speed]",
    ],
)
def test_rows_that_are_joined_with_rows(folder: Path, body: str) -> None:
    """What is joined has all columns of the log, perhaps under other names."""
    policies = policy_file(folder, f"relation recent = rows valid 5\n{body}")
    assert verdicts(policies, folder / "cars.csv") == [True] * 5


def test_the_largest_time(folder: Path) -> None:
    """A record without end is valid then, too; nothing else can be."""
    largest = 2**63 - 1
    cars = pa.table({"ts": [60, largest], "road": ["a2", "a2"]})
    policies = policy_file(
        folder, "policy p: exists limits[road]\npolicy q on changes of limits: true"
    )
    assert verdicts(policies, cars, end_time=largest) == [True, True, True]
    log = policy_file(folder, "relation r = rows\npolicy p: exists r")
    with pytest.raises(MtlmonError, match="a row has the time-stamp 9223372036854775807"):
        verdicts(log, cars)


def test_nan_finds_nothing(folder: Path) -> None:
    cars = pa.table({"ts": [5, 6, 7], "x": [1.0, float("nan"), None]})
    policies = policy_file(folder, "relation r = rows select x as x\npolicy p: exists r[x]")
    assert verdicts(policies, cars) == [True, False, False]


def test_columns_of_rows_are_read_only_if_they_are_needed(folder: Path) -> None:
    body = "relation r = rows valid 1m group road select count() as n\npolicy p: r[road].n < 2"
    policies = policy_file(folder, body)
    rows = pa.table({"ts": [1, 2, 9], "road": ["a", "a", "b"], "other": [[1], [2], []]})
    assert verdicts(policies, rows) == [True, False, True]
    # here all columns of the log tell records apart
    whole = policy_file(folder, "relation r = rows valid 5 distinct\npolicy p: exists r[road]")
    with pytest.raises(MtlmonError, match=r"column .other. .* which a relation cannot hold"):
        verdicts(whole, rows)
    assert verdicts(whole, rows.drop_columns("other")) == [True] * 3


def test_types_that_are_known_late(folder: Path) -> None:
    body = "relation r = rows valid 9 group road select sum(speed) as s\npolicy p: r[road].s > 5"
    lines = ['{"ts": 1, "road": null, "speed": null}', '{"ts": 2, "road": "a", "speed": null}']
    path = folder / "log.jsonl"
    path.write_text("\n".join([*lines, '{"ts": 3, "road": "a", "speed": 6}']) + "\n")
    assert verdicts(policy_file(folder, body), path) == [False, False, True]
    schemas = [pa.null(), pa.int64()]
    batches = [
        pa.record_batch({"ts": [1], "road": ["a"], "speed": pa.nulls(1, schemas[0])}),
        pa.record_batch({"ts": [2], "road": ["a"], "speed": pa.array([6], schemas[1])}),
    ]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    assert verdicts(policy_file(folder, body), tables) == [False, True]
    reals = pa.table({"ts": [4], "road": ["a"], "speed": [1.5]})
    assert verdicts(policy_file(folder, body), [*tables, reals]) == [False, True, True]


def test_policies_with_variables(folder: Path) -> None:
    body = (
        "relation recent = rows valid 10 group road select count() as n\n"
        "atom drive(road, speed, max = limits[road].max) = recent[road].n < 2\n"
        "policy p: FORALL r, s, m. drive(r, s, m) IMPLIES s <= m"
    )
    policies = policy_file(folder, body)
    found = mtlmon.check(policies, folder / "cars.csv").to_arrow().to_pylist()
    assert [(one["time"], one["s"], one["m"]) for one in found] == [
        (10, 90, 80),
        (99, 90, 80),
        (120, 70, 60),
    ]


def test_files_that_are_joined(folder: Path) -> None:
    from mtlmon.policy import load_policies

    policy_file(folder, "policy p: speed <= limits[road].max", "one.mtl")
    other = (
        "relation near = rows valid 1m group road select count() as n\npolicy q: near[road].n < 2"
    )
    policy_file(folder, other, "two.mtl")
    text = (folder / "two.mtl").read_text().replace("key road\n", "key road where max > 80\n")
    (folder / "two.mtl").write_text(text + "policy r: exists limits[road]\n")
    policies = load_policies([folder / "one.mtl", folder / "two.mtl"])
    found = mtlmon.check(policies, folder / "cars.csv").to_arrow().to_pylist()
    by_name = {name: [one["verdict"] for one in found if one["policy"] == name] for name in "pqr"}
    assert by_name == {
        "p": [False, False, True, False, False],
        "q": [True, True, False, True, True],
        "r": [False, False, True, False, False],
    }


def test_events_of_tests(folder: Path) -> None:
    from mtlmon.errors import ViolationError
    from mtlmon.testing import assert_holds

    fast = policy_file(folder, "policy p: speed <= limits[road].max")
    assert_holds(fast, [(99, {"road": "a1", "speed": 80}), (100, {"road": "a1", "speed": 100})])
    with pytest.raises(ViolationError, match=r"speed=90 .*max=80"):
        assert_holds(fast, folder / "cars.csv")
    own = "relation near = rows valid 5 group road select count() as n\npolicy p: near[road].n < 2"
    with pytest.raises(PolicyError, match="relation near reads the rows of the log"):
        assert_holds(policy_file(folder, own), [(99, {"road": "a1"})])
