"""Time-points with hundreds of rows, against computations on lists."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from mtlmon import RelationalMonitor, RowError
from tests.doors import FLOAT, INTEGER, TEXT, engine_of, from_cell, to_cell

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
