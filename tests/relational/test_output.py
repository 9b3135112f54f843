"""Answers become lines of text and tables."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import csv, parquet

from tests.doors import (
    AnswerLines,
    CsvOutput,
    FirstAnswers,
    JsonRowsOutput,
    KeyTable,
    ParquetOutput,
    ValuationTable,
)
from tests.relational.answers import (
    HOLDS,
    MATCHES,
    VIOLATED,
    Found,
    Reported,
    block_of,
    line_of,
    widths_of,
)

LARGEST = (1 << 63) - 1
ALL_KINDS = Reported(
    "all", (("i", "integer"), ("x", "float"), ("b", "boolean"), ("f", "text"), ("t", "time"))
)
REPORTED = [ALL_KINDS, Reported(None, (("f", "text"),), True), Reported("closed", ())]


def lines_of(
    reported: Sequence[Reported],
    answers: Sequence[Found],
    verdicts: Literal["all", "boolean", "false", "none"] = "all",
) -> str:
    texts = KeyTable(1)
    labels = [b"" if one.name is None else f"{one.name}\t".encode() for one in reported]
    lines = AnswerLines(labels, [one.variables for one in reported], texts, verdicts=verdicts)
    block = block_of(reported, answers, texts)
    lines.put(block)
    assert len(block) == 0
    return lines.writer.take().decode()


def test_lines_have_the_values_of_variables() -> None:
    answers = [
        Found(0, VIOLATED, 5, 1, 7, (-3, 0.5, True, "f 1", 1500000000)),
        Found(1, MATCHES, 5, 1, 7, ("",)),
        Found(2, HOLDS, 6, 0, 8),
        Found(2, VIOLATED, 6, 1, 9),
    ]
    wanted = (
        'all\t5:1 false (i=-3, x=0.5, b=true, f="f 1", t=1970-01-01T00:00:01.5Z)\n'
        '5:1 match (f="")\n'
        "closed\t6:0 true\n"
        "closed\t6:1 false\n"
    )
    assert lines_of(REPORTED, answers) == wanted
    assert lines_of(REPORTED, answers, "boolean") == wanted
    assert lines_of(REPORTED, answers, "false") == wanted.replace("closed\t6:0 true\n", "")
    assert lines_of(REPORTED, answers, "none") == ""


INTEGERS = st.integers(-LARGEST - 1, LARGEST)
FLOATS = st.one_of(st.floats(allow_nan=False), st.integers(-(10**17), 10**17).map(float)).map(
    lambda value: value + 0.0
)
TEXTS = st.text(max_size=5) | st.text('a",() \\\n\t\r\x7fé', max_size=5)
ROWS = st.tuples(INTEGERS, FLOATS, st.booleans(), TEXTS, INTEGERS)


@st.composite
def found(draw: st.DrawFn) -> list[Found]:
    answers = []
    for _ in range(draw(st.integers(0, 6))):
        policy = draw(st.integers(0, 2))
        place = draw(st.tuples(st.integers(0, LARGEST), st.integers(0, 9), st.integers(0, 9)))
        kind = MATCHES if REPORTED[policy].is_find else draw(st.sampled_from([VIOLATED, HOLDS]))
        values: tuple[Any, ...] = ()
        if kind != HOLDS:
            values = (draw(ROWS), (draw(TEXTS),), ())[policy]
        answers.append(Found(policy, kind, *place, values))
    return answers


@given(answers=found())
@example(answers=[Found(0, VIOLATED, 0, 0, 0, (0, 1e15, False, "", -LARGEST - 1))])
@example(answers=[Found(0, VIOLATED, 0, 0, 0, (0, -1e16, False, "", 951782400 * 10**9))])
@example(answers=[Found(0, VIOLATED, 0, 0, 0, (0, 5e-324, False, "", 951868799 * 10**9 + 1))])
def test_lines_are_those_of_the_reference(answers: list[Found]) -> None:
    for verdicts in ("all", "false"):
        shown = [answer for answer in answers if verdicts == "all" or answer.kind != HOLDS]
        wanted = "".join(f"{line_of(answer, REPORTED)}\n" for answer in shown)
        assert lines_of(REPORTED, answers, verdicts) == wanted


def table_of(
    reported: Sequence[Reported], answers: Sequence[Found], *, has_true: bool = True
) -> pa.Table:
    texts = KeyTable(1)
    names = [one.name for one in reported]
    variables = [one.variables for one in reported]
    table = ValuationTable(names, variables, texts, has_true=has_true)
    return pa.Table.from_batches(
        table.batches(block_of(reported, answers, texts)), schema=table.schema
    )


@given(answers=found())
def test_tables_have_a_column_for_each_variable(answers: list[Found]) -> None:
    table = table_of(REPORTED, answers)
    kinds = [str(kind) for kind in table.schema.types[5:]]
    assert table.schema.names[5:] == ["i", "x", "b", "f", "t"]
    assert kinds == ["int64", "double", "bool", "string", "timestamp[ns, tz=UTC]"]
    table = table.set_column(9, "t", table["t"].cast(pa.int64()))
    for answer, row in zip(answers, table.to_pylist(), strict=True):
        policy = REPORTED[answer.policy]
        names = [name for name, _ in policy.variables]
        values: dict[str, Any] = dict.fromkeys("ixbft")
        values |= dict(zip(names, answer.values, strict=False))
        assert row == {
            "policy": policy.name,
            "time": answer.time_stamp,
            "offset": answer.offset,
            "verdict": answer.kind != VIOLATED,
            "reference": None,
            **values,
        }
    assert table_of(REPORTED, answers, has_true=False).num_rows == sum(
        answer.kind != HOLDS for answer in answers
    )


def test_all_formats_of_tables_can_be_written() -> None:
    answers = [
        Found(0, VIOLATED, 5, 1, 7, (-3, math.inf, True, 'a "b"', 1500000000)),
        Found(1, MATCHES, 5, 1, 7, ("f",)),
    ]
    texts = KeyTable(1)
    table = ValuationTable(
        [one.name for one in REPORTED], [one.variables for one in REPORTED], texts
    )
    written = {}
    for form in (JsonRowsOutput, CsvOutput, ParquetOutput):
        output = form(table)
        output.put(block_of(REPORTED, answers, texts))
        output.close()
        written[form] = output.writer.take()
    first, second = map(json.loads, written[JsonRowsOutput].splitlines())
    assert first == {
        "policy": "all", "time": 5, "offset": 1, "verdict": False, "reference": None,
        "i": -3, "x": None, "b": True, "f": 'a "b"', "t": "1970-01-01T00:00:01.5Z",
    }  # fmt: skip
    assert second["f"] == "f"
    assert second["policy"] is second["i"] is None
    rows = csv.read_csv(io.BytesIO(written[CsvOutput])).to_pylist()
    assert [row["f"] for row in rows] == ['a "b"', "f"]
    assert parquet.read_table(io.BytesIO(written[ParquetOutput]))["i"].to_pylist() == [-3, None]


def test_a_variable_gets_another_name_than_the_columns() -> None:
    table = table_of([Reported("p", (("time", "text"), ("policy", "integer")))], [])
    assert table.schema.names[5:] == ["var_time", "var_policy"]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("text", "integer"), ["b", "7"]),
        (("integer", "float"), [7.0, 1.5]),
        (("float", "text"), ["1.5", "b"]),
        (("boolean", "integer"), ["true", "7"]),
        (("integer", "integer"), [7, 7]),
    ],
)
def test_one_name_of_two_types(kinds: tuple[str, str], expected: list[object]) -> None:
    """A table has one column for both: of floats, or of the canonical texts of the values."""
    values: dict[str, int | float | bool | str] = {
        "text": "b",
        "integer": 7,
        "float": 1.5,
        "boolean": True,
    }
    reported = [Reported(name, (("x", kind),)) for name, kind in zip("ab", kinds, strict=True)]
    answers = [Found(k, 0, k, 0, k, (values[kind],)) for k, kind in enumerate(kinds)]
    assert table_of(reported, answers).column("x").to_pylist() == expected


def test_answers_of_other_policies_are_refused() -> None:
    lines = AnswerLines([b""], [()], KeyTable(1))
    with pytest.raises(ValueError, match="answers of other policies"):
        lines.put(block_of(REPORTED, []))
    with pytest.raises(ValueError, match="another number of variables"):
        lines.put(block_of(REPORTED[:1], []))


# The first violation: answers come in the order of time-points for each policy, and the answers of
# a time-point together.


def first_of(reported: Sequence[Reported], answers: Sequence[Found]) -> tuple[int, int] | None:
    """The point and policy of the first violation, once nothing is open before it."""
    counts_matches = len(reported) == 1
    violated = {
        (answer.point, answer.policy)
        for answer in answers
        if answer.kind == VIOLATED or (answer.kind == MATCHES and counts_matches)
    }
    for policy, one in enumerate(reported):
        if one.is_find and not counts_matches:
            continue
        decided = max((answer.point for answer in answers if answer.policy == policy), default=-1)
        if violated and min(violated) >= (decided + 1, policy):
            return None
    return min(violated, default=None)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Reported], list[list[Found]]]:
    """Policies and finds, and their answers in the order in which they come."""
    finds = draw(st.lists(st.booleans(), min_size=1, max_size=3))
    reported = [Reported(f"p{k}", (("x", "integer"),), is_find) for k, is_find in enumerate(finds)]
    groups: list[list[Found]] = []
    places = [0] * len(finds)
    for _ in range(draw(st.integers(0, 12))):
        policy = draw(st.integers(0, len(finds) - 1))
        point = places[policy]
        places[policy] += 1
        rows = draw(st.sampled_from([[], [], [(1,)], [(1,), (2,)]]))
        kind = MATCHES if finds[policy] else VIOLATED
        group = [Found(policy, kind, point // 2, point % 2, point, row) for row in rows]
        if not rows and not finds[policy]:
            group = [Found(policy, HOLDS, point // 2, point % 2, point)]
        groups.append(group)
    return reported, groups


@given(run=runs(), size=st.integers(1, 4))
def test_the_first_violation_is_found_as_soon_as_it_is_known(
    run: tuple[list[Reported], list[list[Found]]], size: int
) -> None:
    reported, groups = run
    first = FirstAnswers(widths_of(reported), [one.is_find for one in reported])
    seen: list[Found] = []
    for place in range(0, len(groups), size):
        answers = [answer for group in groups[place : place + size] for answer in group]
        seen += answers
        is_decided = first.put(block_of(reported, answers))
        wanted = first_of(reported, seen)
        assert is_decided == (wanted is not None)
        if wanted is not None:
            rows = [answer for answer in seen if (answer.point, answer.policy) == wanted]
            assert first.time_point == (rows[0].time_stamp, rows[0].offset)
            assert first.found.take() == [tuple(row) for row in rows]
            return
    assert first.has_candidate == any(
        answer.kind == VIOLATED or (answer.kind == MATCHES and len(reported) == 1)
        for answer in seen
    )
