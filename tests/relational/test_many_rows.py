"""Time-points with hundreds of rows, against computations on lists."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import copy
from statistics import median
from typing import Any

import pytest

from mtlmon import RelationalMonitor, RowError
from tests.doors import FLOAT, INTEGER, TEXT, RelationalEngine, engine_of, from_cell, to_cell

_DECLARED = """
atom p(x: int, y: int)
atom q(y: int, z: int)
atom m(g: int, f: float)
atom t(s: text, n: int)
"""
Rows = list[tuple[int, int]]
Found = list[tuple[object, ...]]


def found(formula: str, database: dict[str, list[tuple[object, ...]]]) -> Found:
    """The values of the variables of a formula in one time-point, as they are told."""
    monitor = RelationalMonitor(f"{_DECLARED}find f: {formula}\n")
    return [tuple((one.valuation or {}).values()) for one in monitor.step(0, database)]


def some_rows(chance: random.Random, count: int) -> Rows:
    values = range(-count, count)
    return sorted({(chance.choice(values), chance.choice(values)) for _ in range(count)})


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100, 257])
@pytest.mark.parametrize("kind", ["int", "float", "text"])
def test_answers_are_in_the_order_of_their_values(kind: str, count: int) -> None:
    """An engine puts them in order, as lines are written in it."""
    chance = random.Random(count)
    rows: list[tuple[Any, int]] = [
        {"int": (a, b), "float": (a / 3, b), "text": (f"{a % 17:x}", b)}[kind]
        for a, b in some_rows(chance, count)
    ]
    engine = engine_of(RelationalMonitor(f"atom r(v: {kind}, n: int)\nfind f: r(v, n)\n"))
    own = {"int": INTEGER, "float": FLOAT, "text": TEXT}[kind]
    shuffled = chance.sample(rows, len(rows))
    cells = [(to_cell(v, own, engine.texts) or 0, n) for v, n in shuffled]
    engine.points.add(0, [(0, row) for row in cells])
    engine.advance()
    answers = [cells for *_, cells in engine.answers.take()]
    assert [(from_cell(v, own, engine.texts), n) for v, n in answers] == sorted({*rows})


@pytest.mark.parametrize("count", [3, 40, 300])
@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (
            "p(x, y) AND q(y, z)",
            lambda p, q: sorted((x, y, z) for x, y in p for one, z in q if one == y),
        ),
        ("p(x, y) AND q(y, _)", lambda p, q: [one for one in p if one[1] in {y for y, _ in q}]),
        (
            "p(x, y) AND NOT q(y, _)",
            lambda p, q: [one for one in p if one[1] not in {y for y, _ in q}],
        ),
        ("p(x, y) AND q(x, y)", lambda p, q: sorted({*p} & {*q})),
        ("p(x, y) AND NOT q(x, y)", lambda p, q: sorted({*p} - {*q})),
        ("p(x, y) OR q(x, y)", lambda p, q: sorted({*p} | {*q})),
        (
            "p(x, y) AND q(y, 2)",
            lambda p, q: [one for one in p if (one[1], 2) in q],
        ),
    ],
)
def test_rows_are_joined(formula: str, expected: Callable[[Rows, Rows], Found], count: int) -> None:
    chance = random.Random(count)
    p = sorted({(chance.randrange(count), chance.randrange(9)) for _ in range(count)})
    q = sorted({(chance.randrange(9), chance.randrange(count)) for _ in range(count)})
    assert found(formula, {"p": [*p], "q": [*q]}) == expected(p, q)


@pytest.mark.parametrize(
    ("word", "fold"),
    [
        ("MIN", min),
        ("MAX", max),
        ("SUM", sum),
        ("AVG", lambda values: sum(values) / len(values)),
        ("MEDIAN", median),
    ],
)
def test_aggregates_of_many_groups(word: str, fold: Callable[[list[int]], float]) -> None:
    chance = random.Random(word)
    rows = [(chance.randrange(30), chance.randrange(-999, 999)) for _ in range(400)]
    groups = defaultdict(set)
    for x, y in rows:
        groups[x].add(y)
    asked = [(x, 0) for x in groups]
    answers = found(f"q(x, _) AND v = {word}(y OVER p(x, y) BY x)", {"q": [*asked], "p": [*rows]})
    assert answers == [(x, fold([*values])) for x, values in sorted(groups.items())]


@pytest.mark.parametrize("kind", ["int", "float", "text"])
@pytest.mark.parametrize("operator", ["ONCE[0,4]", "ONCE[2,6]", "ONCE", "(NOT e(g)) SINCE[0,9]"])
def test_aggregates_of_groups_whose_rows_come_and_go(operator: str, kind: str) -> None:
    """They are kept up to date, also in a copy, and where texts get other numbers."""
    chance = random.Random(f"{operator} {kind}")
    words = ["MIN", "MAX", *(["SUM"] if kind == "int" else [])]
    rule = f"(EXISTS v, w. {operator} r(g, v, w)) AND n = {{}}(v OVER {operator} r(g, v, w) BY g)"
    finds = [f"find {word}: {rule.format(word)}\n" for word in words]
    monitor = RelationalMonitor(
        f"atom r(g: int, v: {kind}, w: int)\natom e(g: int)\n{''.join(finds)}"
    )
    makes: dict[str, Callable[[int], Any]] = {
        "int": int,
        "float": lambda value: value / 4,
        "text": lambda value: f"{value:x}",
    }
    folds: dict[str, Callable[[Iterable[Any]], Any]] = {"MIN": min, "MAX": max, "SUM": sum}
    came: list[tuple[int, int, Any, int]] = []
    for time_stamp in range(150):
        if time_stamp % 40 == 20:
            monitor = copy(monitor)
        engine = engine_of(monitor)
        assert isinstance(engine, RelationalEngine)
        engine.spare_texts = 0
        ended = {(g,) for g in range(3) if chance.random() < 0.1}
        if "SINCE" in operator:
            came = [one for one in came if (one[1],) not in ended]
        size = chance.choice([0, 1, 30])
        rows = {
            (chance.randrange(4), makes[kind](chance.randrange(-50, 50)), chance.randrange(3))
            for _ in range(size)
        }
        rows |= {row[1:] for row in chance.sample(came, min(len(came), 2))}
        came += [(time_stamp, *row) for row in sorted(rows)]
        bounds = {"ONCE[0,4]": (0, 4), "ONCE[2,6]": (2, 6), "ONCE": (0, 999)}.get(operator, (0, 9))
        groups = defaultdict(set)
        for then, g, *row in came:
            if bounds[0] <= time_stamp - then <= bounds[1]:
                groups[g].add(tuple(row))
        answers = monitor.step(time_stamp, {"r": [*rows], "e": [*ended]})
        assert [(one.policy, one.valuation) for one in answers] == [
            (word, {"g": g, "n": folds[word](v for v, _ in values)})
            for word in words
            for g, values in sorted(groups.items())
        ]


@pytest.mark.parametrize("operator", ["ONCE", "ONCE[0,500]"])
def test_rows_that_cannot_be_the_largest_any_more_are_forgotten(operator: str) -> None:
    text = f"atom r(g: int, v: int)\nfind f: r(g, _) AND n = MAX(v OVER {operator} r(g, v) BY g)\n"
    monitor = RelationalMonitor(text)
    held = []
    for time_stamp in range(2000):
        rows = [(g, (time_stamp * 7919 + g) % 4001) for g in range(3)]
        monitor.step(time_stamp, {"r": [*rows]})
        held.append(monitor.held_bytes)
    assert held[-1] < 4 * held[100]


def test_groups_whose_sum_is_too_large() -> None:
    """The others have their sums."""
    most = 2**63 - 1
    rows = [(x, most if x == 3 else x) for x in range(9)] + [(x, 10) for x in range(9)]
    database = {"p": rows, "q": [(x, 0) for x in range(9)]}
    text = f"{_DECLARED}find f: q(x, _) AND s = SUM(y OVER p(x, y) BY x)\n"
    with pytest.raises(RowError, match="overflows 64 bits"):
        RelationalMonitor(text).step(0, database)
    monitor = RelationalMonitor(text)
    engine_of(monitor).skips_overflows = True
    assert [one.valuation for one in monitor.step(0, database)] == [
        {"x": x, "s": x + 10} for x in range(9) if x != 3
    ]


def test_functions_of_texts() -> None:
    rows = [(f"{'ab' * (number % 5)}{number}", number) for number in range(100)]
    database: dict[str, list[tuple[object, ...]]] = {"t": [*rows]}
    short = sorted(one for one in rows if len(one[0]) < 5)
    assert found("t(s, n) AND length(s) < 5", database) == short
    assert found("t(s, n) AND NOT length(s) < 5", database) == sorted({*rows} - {*short})
    assert found("t(s, n) AND k = length(s)", database) == sorted((s, n, len(s)) for s, n in rows)
