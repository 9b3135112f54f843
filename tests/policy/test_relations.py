"""`relation NAME = ...` in policy files: how it is read, written and refused."""

from __future__ import annotations

import pytest

from mtlmon.errors import FormulaError
from mtlmon.policy import PolicyFile, check_policies, declares, parse_policies
from tests.doors import Combine, Group, Rows, TableOf, Where

HEAD = (
    "unit s\nconst slow = 15\nstream mean = avg[0,5](speed)\nrelation others = rows select a as a\n"
)


def read(body: str) -> PolicyFile:
    return parse_policies(f"{HEAD}relation r = {body}\n", needs_policy=False)


@pytest.mark.parametrize(
    "body",
    [
        "rows",
        "rows valid 15m",
        "rows valid until next 1h",
        'rows valid until kind = "stop"',
        'rows valid until kind = "stop" per id, `the user` where kind = "start"',
        "rows valid until next per id",
        'table "limits.csv" valid [from, to)',
        'table "limits.csv" valid [`valid from`, to) key road, lane',
        "others where a > 5 and not b",
        "others select a + 1 as b, if a > 1 then 2 else 3 as `the c`",
        "rows group station select avg(speed) as v, count() as n, count(speed > 5) as m",
        "rows group select max(min(a, b)) as c",
        "rows join others on x = a",
        "rows semijoin others on x = a and y",
        "rows union others unionmax others minus others minus all others intersect others",
        "rows distinct coalesce coalesce max 1h split 1m",
        "rows where where select valid as valid",
    ],
)
def test_what_is_written_reads_back(body: str) -> None:
    file = read(body)
    assert file.intervals["r"].text("s") == body
    again = read(file.intervals["r"].text(None))
    assert again.intervals["r"].text("s") == body


def test_parts_have_their_names() -> None:
    file = read(
        'table "l.csv" valid [from, to) key road\n'
        "  where max > slow  # a constant\n"
        "  group road select count() as n /* and */ minus all others"
    )
    relation = file.intervals["r"]
    where, group, minus = relation.steps
    assert isinstance(relation.source, TableOf)
    assert relation.source[:4] == ("l.csv", "from", "to", ("road",))
    assert isinstance(where, Where)
    assert str(where.condition) == "max > 15"
    assert isinstance(group, Group)
    assert group.keys == ("road",)
    assert isinstance(minus, Combine)
    assert minus.word == "minus all"
    assert relation.others == [("others", file.text.index("others", minus.place))]
    assert isinstance(file.intervals["others"].source, Rows)


def test_relations_can_be_used_above_where_they_are_declared() -> None:
    file = parse_policies("relation a = b distinct\nrelation b = rows\n", needs_policy=False)
    assert list(file.intervals) == ["a", "b"]


def test_the_word_is_one_of_the_language_only_where_a_declaration_begins() -> None:
    assert not declares("relation AND\nrelation")
    file = parse_policies("atom relation = relation > 5\npolicy rows: relation IMPLIES table\n")
    assert not file.intervals
    assert file.log_atoms == ("table",)


@pytest.mark.parametrize(
    ("body", "place", "message", "hint"),
    [
        ("rows wher x", (5, 19), "expected a step or the end, found 'wher'", "did you mean where?"),
        ("rows valid", (6, 1), "expected a length of time", "as in valid 15m"),
        ("rows valid 0s", (5, 25), "this length of time is 0", ""),
        ("others2", (5, 14), "there is no relation others2", "did you mean others?"),
        ("rows union r", (5, 25), "relation r is made of itself", "r"),
        ("rows group a select rate(x) as y", (5, 34), "rate is not an aggregate of groups", ""),
        ("rows group a select mean(x) as y", (5, 34), "mean is not an aggregate", "mean avg?"),
        ("rows group a select max(x) - x as y", (5, 43), "x is neither an aggregate", "max(x)"),
        ("rows group a select quantile(x) as y", (5, 34), "quantile takes two arguments", "0.99)"),
        ("rows group a select quantile(x, 2) as y", (5, 46), "a quantile is a number", "0.99)"),
        ("rows group a select avg(x, 2) as y", (5, 34), "avg takes one argument, not 2", "avg(x)"),
        ("rows group none select 1 as y", (5, 30), "select has no aggregate of the group", ""),
        ("rows valid last 0 rows", (5, 30), "valid last takes a whole number", "100 rows"),
        ("rows valid last 5 per a", (5, 32), "expected rows", "valid last 5 rows"),
        ("rows every", (6, 1), "expected a length of time", "every 5m"),
        ("rows shift start x", (5, 31), "expected a length of time", "shift end -5m"),
        ('rows at "noon"', (5, 22), "'noon' is not a time", "2024-05-31"),
        ("rows at 1.5", (5, 22), "a time is a whole number", "at 1200"),
        (
            "rows valid until end() > 5",
            (5, 31),
            "end() is for the",
            "where, select or group",
        ),
        ("rows group a select avg() as y", (5, 34), "avg takes an argument", "only count()"),
        ("rows group a select avg(x as y", (6, 1), "expected ')', found the end", ""),
        ("rows group a select count(*) as n", (5, 40), "count takes no '*'", "write count(),"),
        ("rows group a, a select avg(x) as y", (5, 28), "the column a is named twice", ""),
        ("rows group a select avg(x) as a", (6, 1), "two columns are called a", ""),
        ("rows group", (6, 1), "expected columns or select, found the end", "as in group"),
        ("rows select a", (6, 1), "expected as and the name of the column", "as in select"),
        ("rows join others", (6, 1), "expected on, found the end", "as in join others on"),
        ("table 5 valid [a, b)", (5, 20), "expected the path of a table", "as in table"),
        ("rows of 5", (5, 22), "expected the path of a table", "as in rows of"),
        ('rows of "x.csv" time', (6, 1), "expected the column of times", ""),
        ('table "l.csv"', (6, 1), "expected valid, found the end", "valid [from, to)"),
        ('table "l.csv" valid [a, b]', (5, 39), "expected ')'", "valid [from, to)"),
        ("rows where mean > 5", (5, 25), "mean is a stream", "row.mean"),
        ("rows where count[0,5]() > 5", (5, 25), "count[0,5]() depends on other rows", "group"),
        ("rows where a >", (5, 28), "expected a value, found the end", ""),
    ],
)
def test_error_says_where_and_how_to_mend(
    body: str, place: tuple[int, int], message: str, hint: str
) -> None:
    with pytest.raises(FormulaError) as caught:
        read(body)
    assert caught.value.message.startswith(message)
    assert (caught.value.line, caught.value.column) == place
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("relation rows = rows", "rows is a word of relations"),
        ("relation avg = rows", "avg is an aggregate"),
        ("relation others = rows", "others is declared in line 4 already"),
        ("relation x: rows", "expected '=' after the name, found ':'"),
        ("atom f = speed > others[road]", "others is a relation"),
        ("policy p: speed > others", "others is a relation"),
    ],
)
def test_refused(declared: str, message: str) -> None:
    _, errors = check_policies(f"{HEAD}{declared}\n", needs_policy=False)
    assert [error.message for error in errors] == [message]


def test_relations_that_are_made_of_each_other() -> None:
    text = "relation a = b\nrelation b = rows union c\nrelation c = a\nrelation d = c\n"
    _, errors = check_policies(text, needs_policy=False)
    assert [(error.line, error.message) for error in errors] == [
        (1, "relation a is made of itself")
    ]
