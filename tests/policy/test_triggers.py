"""Triggers whose conditions are expressions or formulas, messages of policies, missing names."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy import parse_policies

ROWS = pa.table(
    {
        "ts": [1, 2, 3, 5, 9],
        "x": [1, 3, None, 2, 3],
        "ok": [True, False, None, True, False],
        "up": [False, False, True, False, False],
    }
)


def violations(text: str, **options: object) -> list[tuple[int, str | None]]:
    """The times and messages of violations, the same in blocks of all sizes."""
    found = []
    for size in (1, 2, 5):
        batches = pa.RecordBatchReader.from_batches(ROWS.schema, ROWS.to_batches(size))
        table = mtlmon.check(text, batches, **options).to_arrow().to_pylist()  # type: ignore[arg-type]
        found.append(
            [(row["time"], row.get("message")) for row in table if row["verdict"] is False]
        )
    assert found[0] == found[1] == found[2]
    return found[0]


@pytest.mark.parametrize(
    ("condition", "times"),
    [
        # an expression: what is null is not true, whatever stands before it
        ("not x > 1", [1]),
        # an atom that is null does not hold
        ("not ok", [2, 3, 9]),
        ("x > 1 and not ok", [2, 9]),
        # formulas: their largest parts that are expressions are read as such
        ("not x > 1 and historically not up", [1]),
        ("not x > 1 or once[1,1] up", [1]),
        ("(not x > 1) since[0,9] ok", [1, 5]),
        ("ONCE[0,1] (x > 1 AND NOT ok)", [2, 3, 9]),
        # and a formula's NOT is that of formulas
        ("NOT ONCE[0,1] x > 1", [1]),
        ("x > 1 and previous ok", [2, 9]),
        # later rows
        ("x > 1 and next not ok", [2, 5]),
        ("eventually[1,2] up", [1, 2]),
    ],
)
def test_conditions(condition: str, times: list[int]) -> None:
    found = violations(f"trigger t: {condition}", end_time="inf")
    assert [time for time, _ in found] == times


def test_lets_of_both_directions() -> None:
    text = "let before = once ok\nlet later = next not ok\ntrigger t: before and later and x > 1"
    assert [time for time, _ in violations(text, end_time="inf")] == [2, 5]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            'policy p: x <= 2 message "{x} is high"',
            [(2, "3 is high"), (3, "null is high"), (9, "3 is high")],
        ),
        (
            'policy p: NOT (x > 2 AND ONCE[0,4] ok) message "{x} at {ts}"',
            [(2, "3 at 2"), (9, "3 at 9")],
        ),
        ('policy p: x > 2 IMPLIES PREVIOUS[0,1] ok message "a"  # more', [(9, "a")]),
        (
            'trigger t: x > 1 and once[0,4] ok message "{{{x}}}"',
            [(2, "{3}"), (5, "{2}"), (9, "{3}")],
        ),
        ('policy p: NOT x = 2 # message "x"', [(5, None)]),
        ('let l = once[0,1] up\npolicy p: NOT l message "{ok}"', [(3, "null")]),
        # without values, nothing is needed of the row
        (
            'policy p: ok IMPLIES EVENTUALLY[1,2] up message "late {{x}}"',
            [(5, "late {x}")],
        ),
        ('trigger t: eventually[1,2] up message "soon"', [(1, "soon"), (2, "soon")]),
        (
            'policy p on rows where x > 1: PREVIOUS ok message "a"',
            [(2, "a"), (5, "a")],
        ),
        ('policy p on every 4: PREVIOUS any[0,3](up) message "no"', [(4, "no")]),
    ],
)
def test_messages(text: str, wanted: list[tuple[int, str | None]]) -> None:
    assert violations(text, end_time=9) == wanted


def test_messages_leave_the_formula_as_it_is() -> None:
    plain = parse_policies("policy p: ok IMPLIES up").policies[0]
    emitted = parse_policies('policy p: ok IMPLIES up message "{x}"').policies[0]
    assert emitted.formula == plain.formula


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("trigger x > 1", "this trigger has no name", (1, 1)),
        ("trigger: x > 1", "this trigger has no name", (1, 1)),
        ("trigger not ok", "this trigger has no name", (1, 1)),
        ("trigger ok.last(or: true)", "this trigger has no name", (1, 1)),
        ("stream s = x + 1\ntrigger s > 1", "this trigger has no name", (2, 1)),
        ("policy p: ok\n  trigger count[0,5]() > 3", "this trigger has no name", (2, 3)),
        ("policy: ok", "this policy has no name", (1, 1)),
        ("policy logged in: ok", "a name is one word, and logged in is several", (1, 8)),
        ("policy p: ok\nfind a b: ok", "a name is one word, and a b is several", (2, 6)),
        ("policy a b per k: ok", "a name is one word, and a b is several", (1, 8)),
        ('policy a-b c "text": ok', "a name is one word, and a-b c is several", (1, 8)),
        ("let a b c = ok\npolicy p: a", "a name is one word, and a b c is several", (1, 5)),
        ("policy p: ok\nstream s t = x + 1", "a name is one word, and s t is several", (2, 8)),
        ("trigger t: x >", "expected a value, found the end", (1, 15)),
        ("trigger t: once x >", "expected a value, found the end", (1, 20)),
        (
            'trigger t: x > 1 message "a" b',
            "expected the end of the policy after its message",
            (1, 30),
        ),
        (
            'policy p: x > 1 IMPLIES EVENTUALLY ok message "{x}"',
            "the values of a message are kept until its row is decided, and EVENTUALLY looks "
            "ahead without bound",
            (1, 47),
        ),
        (
            'policy p: x > 1 IMPLIES EVENTUALLY[0,9] x.next() > 3 message "{x}"',
            "policy p looks ahead, so its message cannot have values of rows that wait, as "
            "x.next() does",
            (1, 8),
        ),
        (
            'trigger t on every 2: once any[0,1](ok) message "{x}"',
            "with 'on', the message of a formula with temporal operators cannot have values of "
            "rows",
            (1, 49),
        ),
    ],
)
def test_errors(text: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_policies(text)
    assert caught.value.message == message
    assert (caught.value.line, caught.value.column) == place


def test_trigger_is_a_name_still() -> None:
    assert parse_policies("trigger IMPLIES x").atoms_needed == ("trigger", "x")
    with pytest.raises(PolicyError, match="policies with variables have no messages"):
        parse_policies('policy p: NOT pay(u) message "a"')


@pytest.mark.parametrize(
    ("formula", "times"),
    [
        # the null at 3 is passed over at 5
        ("ok.last(or: true)", [3, 5]),
        ("NOT ok.last(or: true)", [1, 2, 9]),
        ("x > 1 IMPLIES ok.last(2, or: true)", [9]),
        ("ONCE[0,1] up.at(-2, or: false)", [1, 2, 3, 9]),
    ],
)
def test_offsets_of_booleans_are_conditions(formula: str, times: list[int]) -> None:
    found = violations(f"policy p: {formula}")
    assert [time for time, _ in found] == times
