"""Relations of policy files on tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import mtlmon
from mtlmon import streams
from mtlmon.errors import MemoryLimitError, MtlmonError, PolicyError, TableError
from mtlmon.policy import load_policies, parse_policies, parse_predicate
from mtlmon.relations import count, own, rows
from tests.doors import NOTHING, ROWS, Node, Plans, Source, columns_of_rows
from tests.doors import predicates_own_aggregates as own_aggregates
from tests.doors import relations_algebra as algebra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mtlmon.policy import Predicate

Records = list[dict[str, object]]

ROWS_SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "t": pa.string(), "p": pa.bool_()})
LIMITS = pa.schema({"a": pa.int64(), "max": pa.int64()})
FIRST = Source(ROWS)


def expression(text: str) -> Predicate:
    from tests.doors import parse_expression

    return parse_predicate("true").with_expression(parse_expression(text))


@pytest.mark.parametrize(
    ("body", "plan"),
    [
        ("rows", FIRST),
        ("rows valid 2m", algebra.ValidFor(FIRST, 120)),
        ("rows valid until next 7", algebra.ValidUntilNext(FIRST, 7)),
        ("rows valid until p per a, b", algebra.ValidUntil(FIRST, expression("p"), ("a", "b"))),
        ("rows where a > 5", algebra.Where(FIRST, expression("a > 5"))),
        ("rows select a + b as c", algebra.Select(FIRST, (("c", expression("a + b")),))),
        (
            "rows group t select sum(a) as s, count() as n, count(p) as m",
            algebra.Group(
                FIRST,
                ("t",),
                (
                    algebra.Aggregation("s", "sum", expression("a")),
                    algebra.Aggregation("n", "count"),
                    algebra.Aggregation("m", "count", expression("p")),
                ),
            ),
        ),
        (
            "rows join limits on a = limits_a and b > max",
            algebra.Join(
                FIRST, Source("l.csv"), expression("a = limits_a and b > max"), ("limits_a", "max")
            ),
        ),
        (
            "rows semijoin limits on b > max",
            algebra.Semijoin(FIRST, Source("l.csv"), expression("b > max"), ("limits_a", "max")),
        ),
        ("rows union rest", algebra.Union(FIRST, FIRST)),
        ("rows unionmax rest", algebra.UnionMax(FIRST, FIRST)),
        ("rows minus rest", algebra.Minus(FIRST, FIRST)),
        ("rows minus all rest", algebra.MinusAll(FIRST, FIRST)),
        ("rows intersect rest", algebra.Intersect(FIRST, FIRST)),
        ("rows distinct", algebra.Distinct(FIRST)),
        ("rows coalesce", algebra.Coalesce(FIRST)),
        ("rows coalesce max 1m", algebra.Coalesce(FIRST, 60)),
        ("rows split 1m", algebra.Split(FIRST, 60)),
    ],
)
def test_plan_of_a_declaration(body: str, plan: Node) -> None:
    file = parse_policies(
        'unit s\nrelation limits = table "l.csv" valid [from, to)\nrelation rest = rows\n'
        f"relation r = {body}\n",
        needs_policy=False,
    )
    assert Plans(file, {ROWS: ROWS_SCHEMA, "l.csv": LIMITS}, NOTHING).of("r") == plan


@pytest.mark.parametrize(
    ("body", "names", "has_all"),
    [
        ("rows", [], True),
        ("rows select a + b as c where c > d", ["a", "b", "c", "d"], False),
        ("rows where a > 5 group b select max(c) as d", ["a", "b", "c"], False),
        ("rows valid until a > 1 per b select c as c", ["a", "b", "c"], False),
        ("few minus few", ["x"], False),
        ("rows distinct select a as a", ["a"], True),
        ("rows minus all rest select a as a", ["a"], True),
        ("few join rest on x = a", ["x", "a"], True),
        ("few semijoin few on x = few_x", ["x", "few_x"], False),
        ("rows join few on a = x select few_b as c", ["a", "b", "few_b", "x"], False),
    ],
)
def test_columns_that_are_read(body: str, names: list[str], has_all: bool) -> None:
    file = parse_policies(
        f"unit s\nrelation rest = rows\nrelation few = rows select x as x\nrelation r = {body}\n",
        needs_policy=False,
    )
    found = columns_of_rows(file, "r")
    assert found is not None
    assert (sorted(found[0]), found[1]) == (sorted(names), has_all)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text("road,from,to,max\na,100,,70\na,0,100,50\n")
    (tmp_path / "log.csv").write_text(
        "ts,road,speed\n10,a,60\n20,b,90\n99,a,50\n100,a,60\n150,a,71\n"
    )
    path = tmp_path / "roads.mtl"
    path.write_text(
        "unit s\n"
        'relation limits = table "limits.csv" valid [from, to) key road\n'
        "relation fast = rows join limits on road = limits_road where speed > max\n"
        "  select speed as speed, max as max\n"
        "relation known = rows semijoin limits on road = limits_road group select count() as n\n"
    )
    return path


def test_the_limit_that_applied_then(rules: Path) -> None:
    found: Records = mtlmon.query(rules, "fast", rules.with_name("log.csv")).to_pylist()
    assert found == [
        {"start": 10, "end": 11, "speed": 60, "max": 50},
        {"start": 150, "end": 151, "speed": 71, "max": 70},
    ]
    limits: Records = mtlmon.query(rules, "limits").to_pylist()
    assert limits == [
        {"start": 0, "end": 100, "road": "a", "max": 50},
        {"start": 100, "end": None, "road": "a", "max": 70},
    ]
    known: Records = mtlmon.query(rules, "known", [str(rules.with_name("log.csv"))]).to_pylist()
    assert [(one["start"], one["end"]) for one in known] == [(10, 11), (99, 101), (150, 151)]


def test_tables_of_arrow_and_lengths_with_units() -> None:
    text = "relation r = rows where p valid 1m select x as x"
    rows = pa.table({"ts": [0, 30_000, 90_000], "p": [True, False, True], "x": ["a", "b", None]})
    found: Records = mtlmon.query(text, "r", rows, time_unit="ms").to_pylist()
    assert found == [
        {"start": 0, "end": 60_000, "x": "a"},
        {"start": 90_000, "end": 150_000, "x": None},
    ]


def test_without_rows_there_are_no_records() -> None:
    rows = pa.table({"ts": pa.array([], pa.int64()), "x": pa.array([], pa.int64())})
    found = mtlmon.query("relation r = rows valid 5 select x as y", "r", rows)
    assert found.num_rows == 0
    assert found.schema.names == ["start", "end", "y"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("road,from,to,max\na,5,5,1\n", "a record from 5 on ends at 5"),
        ("road,from,to,max\na,5,x,1\n", "is not a"),
        ("road,from,until,max\na,5,6,1\n", "has no column to"),
        ("road,from,to,max\na,5,9,1\nb,6,7,1\na,8,,2\n", "2 records with road a are valid at 8"),
        ("road,from,to,max\n,5,9,1\n,8,,2\n", "2 records with road null are valid at 8"),
        (f"road,from,to,max\na,{2**63 - 1},,1\n", "a record begins at 9223372036854775807, the"),
    ],
)
def test_tables_that_have_no_intervals(rules: Path, content: str, error: str) -> None:
    rules.with_name("limits.csv").write_text(content)
    with pytest.raises((TableError, PolicyError), match=error) as caught:
        mtlmon.query(rules, "limits")
    assert "limits.csv" in str(caught.value)


def test_a_time_is_no_key(rules: Path) -> None:
    declared = 'relation r = table "limits.csv" valid [from, to) key road, to\n'
    rules.write_text(f"unit s\n{declared}")
    with pytest.raises(PolicyError, match="to says when records are valid, so it cannot be their"):
        mtlmon.query(rules, "r")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("limts", "there is no relation limts; did you mean 'limits'\\?"),
        ("zzz", "there is no relation zzz; the relations are limits, fast, known"),
        ("fast", "relation fast reads the rows of a log: give a table"),
    ],
)
def test_relations_that_cannot_be_evaluated(rules: Path, name: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        mtlmon.query(rules, name)


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("rows where sped > 5", (1, 25), "relation r: there is no column sped"),
        ("rows select speed + road as x", (1, 34), "relation r: '+' takes numbers"),
        ("rows group raod select count() as n", (1, 19), "relation r: there is no column 'raod'"),
        ("rows union few", (1, 25), "relation r: a relation with"),
    ],
)
def test_columns_that_do_not_fit(body: str, place: tuple[int, int], message: str) -> None:
    rows = pa.table({"ts": [1], "road": ["a"], "speed": [5]})
    text = f"relation r = {body}\nrelation few = rows select speed as speed\n"
    with pytest.raises(PolicyError) as caught:
        mtlmon.query(text, "r", rows)
    assert caught.value.message.startswith(message)
    assert (caught.value.line, caught.value.column) == place


def test_a_column_of_the_log_that_only_the_name_of_another_tells(rules: Path) -> None:
    """`limits_max` is that of the table, as the log has a column `max`, which is not read else."""
    rules.write_text(
        'relation limits = table "limits.csv" valid [from, to)\n'
        "relation r = rows join limits on road = limits_road select limits_max as max\n"
    )
    rows = pa.table({"ts": [3, 120], "road": ["a", "a"], "max": [1, 2]})
    found: Records = mtlmon.query(rules, "r", rows).to_pylist()
    assert [one["max"] for one in found] == ["50", "70"]


@pytest.mark.parametrize(
    ("speed", "ts", "message"),
    [
        (2**63 - 1, 5, "relation r: speed . 1 overflows 64 bits with 9223372036854775807, 1$"),
        (5, 2**63 - 1, "a row has the time-stamp 9223372036854775807, which rows of relations"),
    ],
)
def test_numbers_that_are_too_large(speed: int, ts: int, message: str) -> None:
    rows = pa.table({"ts": [1, ts], "speed": [1, speed]})
    with pytest.raises(MtlmonError, match=message):
        mtlmon.query("relation r = rows select speed + 1 as x", "r", rows)


def test_records_that_last_beyond_all_times() -> None:
    rows = pa.table({"ts": [2**63 - 5]})
    for step in ("valid 9", "valid until next 9", "valid until false"):
        found: Records = mtlmon.query(f"relation r = rows {step}", "r", rows).to_pylist()
        assert found == [{"start": 2**63 - 5, "end": None, "ts": 2**63 - 5}]


def test_memory_limit(rules: Path) -> None:
    with pytest.raises(MemoryLimitError, match="of them by rows and records of relations"):
        mtlmon.query(rules, "fast", rules.with_name("log.csv"), max_memory=10)


def test_a_table_that_is_read_with_other_times(tmp_path: Path) -> None:
    """Each relation has records between its own columns, and its own key."""
    (tmp_path / "l.csv").write_text("k,a,b,c\n1,0,5,9\n1,3,6,8\n")
    path = tmp_path / "rules.mtl"
    path.write_text(
        'unit s\nrelation one = table "l.csv" valid [a, b) select k as k\n'
        'relation second = table "l.csv" valid [b, c) key a\n'
        'relation third = table "l.csv" valid [a, b) key k union third_as_well\n'
        'relation third_as_well = table "l.csv" valid [a, b)\n'
        "relation both = second select k as k union one\n"
        "policy p: exists one[k] and not exists second[k]\n"
        "policy q: exists third[k]\n"
    )
    assert mtlmon.query(path, "both").to_pylist() == [
        {"start": 0, "end": 8, "k": "1"},
        {"start": 3, "end": 9, "k": "1"},
    ]
    message = "2 records with k 1 are valid at 3: the key says that there is at most one"
    with pytest.raises(TableError, match=message):
        mtlmon.query(path, "third")
    with pytest.raises(TableError, match=message):
        mtlmon.check(load_policies([path]), pa.table({"ts": [1], "k": [1]})).finish()


def test_a_time_whose_unit_is_not_known() -> None:
    with pytest.raises(PolicyError) as raised:
        mtlmon.query('relation r = rows at "2024-01-01"', "r", pa.table({"ts": [1]}))
    assert "relation r: at 2024-01-01: say in which unit" in str(raised.value)
    assert (raised.value.line, raised.value.column) == (1, 22)


def test_columns_that_were_meant() -> None:
    rows = pa.table({"ts": [1], "road": ["a"], "speed": [5], "list": [[1]]})
    with pytest.raises(PolicyError) as caught:
        mtlmon.query("relation r = rows where sped > 5 select road as s", "r", rows)
    assert caught.value.hint == "did you mean speed? the columns are ts, road, speed"
    with pytest.raises(MtlmonError, match="column list of the log is of type list"):
        mtlmon.query("relation r = rows", "r", rows)


def test_format_that_the_name_does_not_say(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("ts,x\n1,2\n")
    found = mtlmon.query("relation r = rows", "r", tmp_path / "log.txt", format="csv")
    assert found.to_pylist() == [{"start": 1, "end": 2, "ts": 1, "x": "2"}]
    pattern = r"(?P<ts>\d+),(?P<x>\d+)"
    assert mtlmon.query("relation r = rows", "r", tmp_path / "log.txt", pattern=pattern) == found


@pytest.fixture
def strung() -> Iterator[None]:
    """An aggregate that depends on the order of values."""
    streams.register_aggregate(
        "strung",
        lift=lambda value: {"a": "A", "b": "B"}[value],
        combine=lambda one, other: one + other,
        lower=str,
        result="text",
    )
    yield
    del own_aggregates._registered["strung"]


@pytest.mark.usefixtures("strung")
def test_aggregates_of_programs() -> None:
    """In groups as in windows: in the order of starts, and where these are equal, of values."""
    log = pa.table({"ts": [0, 1, 1, 3, 9], "v": ["b", "b", "a", "a", None]})
    text = "relation r = rows valid 4 group select strung(v) as all, count() as n"
    found = mtlmon.query(text, "r", log)
    assert [one["all"] for one in found] == ["B", "BAB", "BABA", "ABA", "A", None]
    built = rows().valid(4).group(all=own("strung", "v"), n=count())
    assert mtlmon.query(built, log).to_pylist() == mtlmon.query(text, "r", log).to_pylist()


@pytest.mark.usefixtures("strung")
@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (lambda state: 1, "lower of aggregate strung gives 1, which is not a text"),
        (lambda state: state / 0, "lower of aggregate strung has failed with TypeError"),
    ],
)
def test_aggregates_of_programs_that_fail(lower: Callable[[Any], Any], message: str) -> None:
    streams.register_aggregate("strung", str, lambda one, other: one + other, lower, result="text")
    log = pa.table({"ts": [0], "v": ["b"]})
    with pytest.raises(MtlmonError, match=message):
        mtlmon.query("relation r = rows group select strung(v) as all", "r", log)
