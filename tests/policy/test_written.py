"""Policies and definitions as their files write them."""

from __future__ import annotations

import pytest

from mtlmon.policy import check_files, parse_policies
from mtlmon.reporting import Definition
from tests.doors import written_formula, written_policies

FILE = """\
unit s
key car
const limit = 120  # km/h
const unused = 1
/* over a quarter
   of an hour */
stream mean = avg[0,15m](speed)
atom fast = speed > limit and lane in (1, 2)
atom rare = row.mean > 3
let warned = ONCE[0,7d] warning
let calm = NOT fast  /* not now */  SINCE warned

policy slow "Nobody is # too fast" at most 5: mean > 100 IMPLIES

  (calm)  # or so
policy tiny: rare
policy plain: "fast" OR "# /* no comment"
trigger hot: speed > limit message "{car} at {mean:.1f}"
"""


def names_of(definitions: tuple[Definition, ...]) -> list[str]:
    return [one.name for one in definitions]


def test_texts_have_no_comments_and_keep_their_lines() -> None:
    slow, tiny, plain, hot = written_policies(parse_policies(FILE))
    assert slow.text == "mean > 100 IMPLIES\n  (calm)"
    assert tiny.text == "rare"
    assert plain.text == '"fast" OR "# /* no comment"'
    assert hot.text == 'speed > limit message "{car} at {mean:.1f}"'
    assert [one.text for one in slow.definitions] == [
        "const limit = 120",
        "stream mean = avg[0,15m](speed)",
        "atom fast = speed > limit and lane in (1, 2)",
        "let warned = ONCE[0,7d] warning",
        "let calm = NOT fast    SINCE warned",
    ]
    assert [one.kind for one in slow.definitions] == ["const", "stream", "atom", "let", "let"]


def test_definitions_are_those_that_a_policy_uses() -> None:
    slow, tiny, plain, hot = written_policies(parse_policies(FILE))
    assert names_of(slow.definitions) == ["limit", "mean", "fast", "warned", "calm"]
    # `row.mean` is the column
    assert names_of(tiny.definitions) == ["rare"]
    # in formulas, quotes are for names
    assert names_of(plain.definitions) == ["limit", "fast"]
    assert names_of(hot.definitions) == ["limit", "mean"]


def test_values_that_options_give() -> None:
    file = parse_policies(FILE, constants={"limit": "90"})
    slow, *_ = written_policies(file, {"limit": "90"})
    assert slow.definitions[0] == Definition("const", "limit", "const limit = 120", "set to 90")
    assert {one.remark for one in slow.definitions[1:]} == {""}


def test_a_formula_behind_the_last_declaration() -> None:
    file = parse_policies("unit s\nlet a = ONCE[0,5m] p\n\na IMPLIES q  # so\n")
    (policy,) = written_policies(file)
    assert policy.text == "a IMPLIES q"
    assert [one.text for one in policy.definitions] == ["let a = ONCE[0,5m] p"]


def test_several_files_keep_their_own_names() -> None:
    texts = [
        ("let a = ONCE p\npolicy x: a", "one.mtl"),
        ("let a = HISTORICALLY p\npolicy x: NOT a", "two.mtl"),
    ]
    file, errors = check_files(texts)
    assert not errors
    assert [policy.name for policy in file.policies] == ["one:x", "two:x"]
    found = written_policies(file)
    assert [(one.text, one.source) for one in found] == [("a", "one.mtl"), ("NOT a", "two.mtl")]
    assert [one.definitions[0].text for one in found] == [
        "let a = ONCE p",
        "let a = HISTORICALLY p",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p\r\n  AND q\r\n", "p\n  AND q"),
        ("/* a /* b */ c */ p", "p"),
        ('"a # b" # c', '"a # b"'),
        ("`a /* b`", "`a /* b`"),
    ],
)
def test_comments(text: str, expected: str) -> None:
    assert written_formula(text) == expected
