"""`limits[road].max` and `exists congested[station]`: how they are read, written and refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mtlmon.errors import PolicyError
from mtlmon.policy import Environment, PolicyFile, check_policies, parse_policies
from tests.doors import (
    Expression,
    KnownRelation,
    LookedUp,
    errors_with_columns,
    parse_expression,
    postorder,
)
from tests.doors import predicates_operators as ops
from tests.doors import term_text as to_text

HEAD = """unit s
relation limits = table "limits.csv" valid [from, to) key road
relation tracks = table "tracks.csv" valid [from, to) key road, lane
relation loose = table "loose.csv" valid [from, to)
relation means = rows valid 15m group station select avg(speed) as v
relation slow = means where v < 15 select station as `the station`, v as v
relation wider = means select v as v
relation total = rows group select count() as n
stream views = count[0,5]() per id
"""


def look_up(text: str) -> LookedUp:
    """The look-up in an expression of a file."""
    file = parse_policies(f"{HEAD}stream s = coalesce({text}, null)\n", needs_policy=False)
    nodes = postorder(file.streams["s"].expression)
    return next(node.looked_up for node in nodes if node.operator in ops.LOOK_UPS)


@pytest.mark.parametrize(
    "text",
    [
        "limits[road].max",
        "limits[road = way].max + 1 > limits[road = other].max",
        "exists deny[ip]",
        "exists deny",
        "not exists deny and exists",
        "exists deny[user = lower(name), ip = source].last(or: false)",
        "total[].n",
        "f[(a = b)].x",
        "f[a = (b = c)].x",
        "f[a != b].x",
        "f[a = (if b then c else d)].`the x`",
        "`the f`[row.a].x.hold()",
        "f[g[a].b].c",
        "exists `per`",
        "exists per[a]",
        "if exists a then exists else exists `then`",
        "`once`[a].b",
        "x.last().last",
    ],
)
def test_what_is_written_reads_back(text: str) -> None:
    if text == "x.last().last":
        with pytest.raises(PolicyError):
            parse_expression(text)
        return
    found = parse_expression(text)
    assert to_text(found) == text
    assert parse_expression(to_text(found)) == found


def test_brackets_without_keys() -> None:
    assert parse_expression("exists deny[]") == parse_expression("exists deny")
    assert parse_expression("exists") == Expression(ops.COLUMN, (), "exists")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        # the key of a table, whatever the values are called
        ("limits[road].max", ("road",)),
        ("limits[way].max", ("road",)),
        ("limits[lower(way)].max", ("road",)),
        ("limits[from_now = 1].max", ("from_now",)),
        ("tracks[way, number].max", ("road", "lane")),
        # values that are called like the columns are of these
        ("tracks[lane, road].max", ("lane", "road")),
        ("exists tracks[lane = 1]", ("lane",)),
        # the columns of the group, also under other names
        ("means[place].v", ("station",)),
        ("slow[place].v", ("the station",)),
        # no key: the values say
        ("loose[road].max", ("road",)),
        ("exists wider[v]", ("v",)),
        ("total[].n", ()),
        ("limits[].max", ()),
        ("exists means", ()),
    ],
)
def test_which_columns_are_looked_up(text: str, keys: tuple[str, ...]) -> None:
    assert look_up(text).keys == keys


@pytest.mark.parametrize(
    ("body", "atoms"),
    [
        ("speed <= limits[road].max", ["speed <= limits[road].max"]),
        ("limits[road].max >= speed", ["limits[road].max >= speed"]),
        ("limits[road].open", ["limits[road].open"]),
        ("NOT exists slow[x]", ["exists slow[x]"]),
        ("exists slow[x] IMPLIES ONCE[0,5s] exists total", ["exists slow[x]", "exists total"]),
        ("exists means AND (exists total[] OR a)", ["exists means", "exists total", "a"]),
        ("exists `means`", ["exists means"]),
        ("exists AND a", ["exists", "a"]),
        ("exists", ["exists"]),
        ("a SINCE total[].n > 3", ["a", "total[].n > 3"]),
    ],
)
def test_in_formulas(body: str, atoms: list[str]) -> None:
    file = parse_policies(f"{HEAD}policy p: {body}\n")
    assert list(file.atoms_needed) == atoms
    written = file.atoms.get(atoms[0])
    if written is not None:
        assert look_up(atoms[0]) in [
            node.looked_up
            for node in postorder(written.expression)
            if node.operator in ops.LOOK_UPS
        ]


@pytest.mark.parametrize(
    ("declared", "column", "message", "hint"),
    [
        ("stream s = limit[road].max", 12, "there is no relation limit", "did you mean limits?"),
        ("stream s = views[road].max", 12, "views is a stream: ", "write views[key]"),
        ("stream s = means[station].w", 12, "relation means has no column w", "station, v"),
        ("stream s = means[w = 1].v", 12, "relation means has no column w", None),
        ("stream s = tracks[1].max", 12, "the key of relation tracks is 2 values, not 1", "lane"),
        ("stream s = total[a].n", 12, "relation total has no key", "write total[].n"),
        ("stream s = loose[1].max", 12, "relation loose has no key, so 1 may be", "[COLUMN = 1]"),
        ("stream s = loose[a, a].max", 12, "a stands for one column only", None),
        ("stream s = limits[road]", 12, "limits is a relation", "limits[key].COLUMN"),
        ("stream s = limits", 12, "limits is a relation", "exists limits[key]"),
        ("stream s = exists a = b", 12, "there is no relation a", None),
        ("policy p: exists limits[road].max", 30, "exists takes a record", "limits[...].max"),
        ("policy p: tracks[road = a, 1].max = 1", 28, "name the column of this value, too", None),
        ("policy p: tracks[road = a, road = b].max = 1", 11, "road has two values", None),
        ("policy p: limits[road].max.x = 1", 23, "the name of a column", "`max.x`"),
        ("relation r = rows where limits[a].max > 1", 25, "limits[a].max looks into", "join it"),
        (
            "policy p: FORALL x. q(x) IMPLIES x > limits[x].max",
            38,
            "a look-up in a relation",
            "atom",
        ),
    ],
)
def test_refused(declared: str, column: int, message: str, hint: str | None) -> None:
    _, errors = check_policies(f"{HEAD}{declared}\n", needs_policy=False)
    assert [(error.line, error.column) for error in errors] == [(10, column)]
    assert errors[0].message.startswith(message)
    assert hint is None or hint in (errors[0].hint or "")


def test_which_columns_are_known_behind_a_step() -> None:
    """Only a join brings columns of another relation, which the file may not know."""
    shaped = "relation r = rows valid 1m group road select max(speed) as v"
    for step, is_known in (
        ("join limits on road = way", False),
        ("semijoin limits on road = road", True),
        ("minus means", True),
        ("where v > 1", True),
    ):
        _, errors = check_policies(f"{HEAD}{shaped} {step}\npolicy p: r[road].max > 1\n")
        found = [error.message for error in errors]
        assert found == ["relation r has no column max"] * is_known, step


def known(**columns: pa.DataType) -> KnownRelation:
    schema = pa.schema([("start", pa.int64()), ("end", pa.int64()), *columns.items()])
    return KnownRelation(schema.empty_table())


def errors_of(file: PolicyFile, relations: dict[str, KnownRelation]) -> list[str]:
    schema = pa.schema({"ts": pa.int64(), "road": pa.string(), "speed": pa.int64()})
    environment = file.environment._replace(relations=relations)
    return [error.message for error in errors_with_columns(file, environment, schema)]


def test_types() -> None:
    limits = {"limits": known(road=pa.large_string(), max=pa.float64(), open=pa.bool_())}
    file = parse_policies(
        HEAD.replace("stream views = count[0,5]() per id\n", "")
        + "stream a = limits[road].max + 1\nstream b: bool = limits[road].open\n"
        "policy p: exists limits[speed]\npolicy q: limits[road].min = 3\n"
        'policy r: limits[road = 3.5].open\npolicy s: limits[road].max = "a"\n'
    )
    assert errors_of(file, limits) == [
        "relation limits has no column min",
        "column road of limits is a text, not the number 3.5",
        "'=' compares limits[road].max (a number) with the text \"a\"",
    ]
    assert errors_of(file, {})[0] == "stream a: relation limits is not known here"


def test_text_logs_have_no_columns() -> None:
    relations = {"limits": known(road=pa.large_string(), max=pa.float64())}
    environment = Environment(has_columns=False, relations=relations, time="ts")
    head = HEAD.replace("stream views = count[0,5]() per id\n", "")
    file = parse_policies(
        f'{head}policy p: exists limits[road]\npolicy q: limits["a"].max > 1\n'
        "policy r: exists limits[ts]\n"
    )
    errors = errors_with_columns(file, environment, pa.schema([]))
    # a number and a text are compared by the text of the number
    assert [error.message for error in errors] == ["there is no column road in a text log"]
