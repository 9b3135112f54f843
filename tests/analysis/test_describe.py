from __future__ import annotations

import pytest

from mtlmon import parse
from tests.doors import describe, state_bound


def test_the_whole_explanation() -> None:
    text = "ALWAYS[0,1h] (p IMPLIES EVENTUALLY[0,30s] q)"
    assert describe(parse(text, unit="s"), "s").splitlines() == [
        "Formula, with all parentheses",
        "  ALWAYS[0,3600] (p IMPLIES (EVENTUALLY[0,30] q))",
        "",
        "Operators",
        "  ALWAYS[0,3600]    1 x  at every time-point up to 3600 s (1 h) ahead",
        "  IMPLIES           1 x",
        "  EVENTUALLY[0,30]  1 x  at some time-point up to 30 s ahead",
        "",
        "Atoms (2)",
        "  p, q",
        "",
        "Reach",
        "  future   3630 s",
        "  past     0 s",
        "  bounded  yes: no verdict waits for more than 3630 s to pass",
        "",
        "Size",
        "  subformulas  5 distinct, 9 in basic operators",
        "  skewed       3,639 with every shift of every interval",
        "",
        "State, at most (most logs need far less)",
        "  memories     none: nothing looks back",
        "  obligations  3,632: one per future operator and time-stamp its interval can span",
        "  pending      14 entries per distinct time-stamp, however many events share it",
        "               for the distinct time-stamps of the last 3630 s",
    ]


def test_the_engine_comes_last() -> None:
    explanation = describe(parse("p"))
    assert describe(parse("p"), None, ("abacus", "it is the only one")) == (
        f"{explanation}\n\nEngine\n  abacus  it is the only one"
    )
    assert describe(parse("p"), None, ("abacus", "it is the only one"), "it is slow") == (
        f"{explanation}\n\nEngine\n  abacus  it is the only one\n  time    it is slow"
    )


@pytest.mark.parametrize(
    ("text", "unit", "lines"),
    [
        ("p", None, ["none", "future   0 time units", "pending      none: each time-point is"]),
        ("true", None, ["Atoms (0)", "none"]),
        ("EVENTUALLY[0,0] p", None, ["of the same time-stamp", "for the present time-stamp only"]),
        ("EVENTUALLY[0,1] p", None, ["up to 1 time unit ahead"]),
        ("EVENTUALLY p", None, ["no: a verdict may stay open", "local runs as global"]),
        ("EVENTUALLY p", None, ["future   no limit", "2 entries in all", "however far ahead"]),
        ("p UNTIL[2,8] q", "ms", ["the right side at some time-point 2 to 8 ms ahead, the left"]),
        ("p SINCE[2,2] q", "ms", ["at some time-point exactly 2 ms back, the left ever since"]),
        ("ONCE[3,*) p", "m", ["at some time-point 3 m or more back", "memories     4 past values"]),
        ("NEXT p", None, ["a NEXT without upper bound waits", "time-stamps whose NEXT has not"]),
        ("ONCE[0,86400000] p", "ms", ["up to 86400000 ms (1 d) back"]),
        ("(ONCE p) AND (ONCE p)", None, ["ONCE  2 x"]),
        ('"a\x1bb" AND "x y"', None, ['"a\ufffdb", "x y"']),
        ("PREVIOUS[3,3] EVENTUALLY[0,9] p", None, ["pending      2^(2^10) entries"]),
    ],
)
def test_lines(text: str, unit: str | None, lines: list[str]) -> None:
    explanation = describe(parse(text), unit)
    for line in lines:
        assert line in explanation


def test_large_formulas_are_explained_on_a_few_screens() -> None:
    text = " AND ".join(f"(ONCE[0,{n}] atom{n})" for n in range(3000))
    lines = describe(parse(text), None).splitlines()
    assert len(lines) < 100
    assert max(map(len, lines)) < 5000
    assert any("and 2,971 more" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "witnesses", "obligations", "choices", "entries"),
    [
        ("p", 0, 0, 0, 0),
        ("p SINCE[2,8] q", 9, 0, 0, 0),
        ("p SINCE[2,*) q", 3, 0, 0, 0),
        ("PREVIOUS p", 1, 0, 0, 0),
        ("NEXT p", 0, 1, 1, 2),
        ("p UNTIL[2,8] q", 0, 9, 1, 2),
        ("p UNTIL[2,*) q", 0, 3, 3, 254),
        ("(EVENTUALLY[0,3] p) AND ALWAYS[0,4] q", 0, 9, 2, 14),
        ("ALWAYS[0,4] ONCE[0,7] q", 8, 5, 1, 2),
        ("ONCE[0,7] ALWAYS[0,4] q", 8, 5, 5, None),
    ],
)
def test_state_bound(
    text: str, witnesses: int, obligations: int, choices: int, entries: int | None
) -> None:
    bound = state_bound(parse(text))
    assert bound.witnesses == witnesses
    assert bound.obligations == obligations
    assert bound.choices == choices
    assert bound.entries == entries
