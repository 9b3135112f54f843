"""Verdicts of policies and keys as JSON lines, against lines of text and Python's own `json`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mtlmon import parse
from mtlmon.policy import Policy
from tests.checking.logs import Log, logs
from tests.doors import (
    JsonLinesOutput,
    KeyTable,
    LogCheck,
    PolicyFacts,
    PolicyLines,
    TextOutput,
    TraceKeys,
    VerdictRows,
    number_rows,
    policy_label,
    unique_key_columns,
)
from tests.verdicts import json_line

RESPONSE = "p IMPLIES EVENTUALLY[0,5] q"
CONTROLS = "".join(map(chr, range(0x20)))
AWKWARD = [
    "",
    'quo"te',
    "back\\slash\\",
    CONTROLS,
    "\x7f\x80\u2028\ufeff",
    "ü 中 \U0001f600",
    "/",
    "x" * 500,
    CONTROLS * 9,
]
TEXTS = st.sampled_from(AWKWARD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


class Notation:
    """Times as a log may write them."""

    def __init__(self, form: str, *, is_plain: bool = False) -> None:
        self.form = form
        self.is_plain = is_plain

    def texts(self, time_stamps: Any) -> list[str]:
        return [self.form.format(time_stamp) for time_stamp in time_stamps]


class Said(NamedTuple):
    """What a file says of a policy."""

    severity: str | None
    text: str


def false_rows(*rows: tuple[int, int, int, int]) -> VerdictRows:
    """Violations: time-stamp, offset, number of the key, number of the policy."""
    found = VerdictRows()
    for row in rows:
        found.add_false(*row)
    return found


def keys_of(*keys: tuple[str, ...]) -> KeyTable:
    table = KeyTable(len(keys[0]))
    columns = [pa.array(column, pa.string()) for column in zip(*keys, strict=True)]
    assert number_rows(table, columns).tolist() == list(range(len(keys)))
    return table


def lines_of(output: JsonLinesOutput | TextOutput, rows: VerdictRows) -> list[str]:
    output.put(rows)
    assert len(rows) == 0
    return output.writer.take().decode().split("\n")[:-1]


@given(st.none() | TEXTS)
def test_labels(name: str | None) -> None:
    text = json.dumps(name, ensure_ascii=False)
    assert policy_label(name, "jsonl").decode() == f'{{"policy":{text},"time":'


@given(
    st.lists(st.none() | TEXTS, min_size=1, max_size=4),
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(*(st.integers(0, 2**64 - 1) for _ in range(4))), max_size=30),
    st.booleans(),
    st.none() | TEXTS.map(lambda text: text.replace("{", "{{").replace("}", "}}") + "{}"),
    st.none() | TEXTS,
)
def test_any_names_keys_and_times(
    names: list[str | None],
    keys: list[tuple[str, str]],
    rows: list[tuple[int, int, int, int]],
    has_keys: bool,
    form: str | None,
    said: str | None,
) -> None:
    columns = ("user", 'ü"') if has_keys else ()
    rows = [(t, o, key % len(keys), policy % len(names)) for t, o, key, policy in rows]
    output = JsonLinesOutput(
        names,
        TraceKeys.of_one_partition(len(names), keys_of(*keys), columns) if has_keys else None,
        None if form is None else Notation(form),
        # every other policy has a severity
        None
        if said is None
        else PolicyFacts([Said(None if k % 2 else said, said) for k in range(len(names))]),
    )
    # the names of columns in ASCII
    begin = [json.dumps(name) for name in columns]
    for _ in range(2):
        expected = []
        for time_stamp, offset, key, policy in rows:
            members = [
                f'"policy":{json.dumps(names[policy], ensure_ascii=False)}',
                *(
                    f"{name}:{json.dumps(text, ensure_ascii=False)}"
                    for name, text in zip(begin, keys[key] if has_keys else (), strict=True)
                ),
                f'"time":{time_stamp}',
            ]
            if form is not None:
                text = json.dumps(form.format(time_stamp), ensure_ascii=False)
                members.append(f'"time_text":{text}')
            members.append(f'"offset":{offset},"verdict":false,"reference":null')
            if said:
                severity = json.dumps(None if policy % 2 else said, ensure_ascii=False)
                members.append(f'"severity":{severity}')
                members.append(f'"text":{json.dumps(said, ensure_ascii=False)}')
            expected.append(f"{{{','.join(members)}}}")
        assert lines_of(output, false_rows(*rows)) == expected
        for line in expected:
            assert json.loads(line)["verdict"] is False
        rows = rows[::-1]


@pytest.mark.parametrize("name", [None, "x", "a\tb"])
def test_lines_of_text_begin_with_names_and_keys_of_any_length(name: str | None) -> None:
    keys = [f"{chr(ord('a') + size % 26)}{'0123456789' * 9}"[:size] for size in range(80)]
    output = TextOutput([name], TraceKeys.of_one_partition(1, keys_of(*zip(keys)), ["k"]))
    begin = "" if name is None else name.replace("\t", "\\t") + "\t"
    rows = [(size, 7, size, 0) for size in range(80)]
    assert lines_of(output, false_rows(*rows)) == [
        f"{begin}{key}\t{size}:7 false" for size, key in enumerate(keys)
    ]


@given(logs([0, 0, 1, 2, 6]), st.booleans())
def test_lines_of_text_and_json_say_the_same(log: list[Any], has_keys: bool) -> None:
    """Also where lines of several policies and keys follow each other in any order."""
    formulas = [
        Policy(name, parse(one), parse(one))
        for name, one in ((None, RESPONSE), ("a\tb", "ALWAYS[0,4] p"), ("é", "q SINCE[0,3] r"))
    ]

    def written(format: str) -> list[str]:
        check, source = LogCheck(formulas), Log(log, [7], has_keys=has_keys)
        names = [policy.name for policy in formulas]
        columns = ["time"] if has_keys else []
        keys = TraceKeys.of_one_partition(len(names), source.keys, columns)
        output: JsonLinesOutput | TextOutput = TextOutput(names, keys)
        if format == "jsonl":
            output = JsonLinesOutput(names, keys)
        return [
            line for _ in check.run(source, "last") for line in lines_of(output, check.verdicts)
        ]

    expected = []
    for line in written("text"):
        *fields, verdict = line.split("\t")
        keys = {"key_time": fields.pop()} if has_keys else {}
        policy = fields[0].replace("\\t", "\t") if fields else None
        expected.append(json_line(verdict, policy, keys))
    assert written("jsonl") == expected


def test_many_rows_of_one_time_and_of_many() -> None:
    """Texts of times belong to their rows, whatever the order."""
    output = JsonLinesOutput(["x"], times=Notation("at {}"))
    rows = [(k * 7919 % 3001, k, 0, 0) for k in range(20_000)]
    assert lines_of(output, false_rows(*rows)) == [
        json_line(f"{time_stamp}:{offset} false", "x", time_text=f"at {time_stamp}")
        for time_stamp, offset, _, _ in rows
    ]


def test_what_the_first_rows_say_of_times_holds() -> None:
    """All lines of a file have the same members."""
    for is_plain in False, True:
        notation = Notation("{}!", is_plain=is_plain)
        output = JsonLinesOutput([None], times=notation)
        for _ in range(2):
            (line,) = lines_of(output, false_rows((3, 4, 0, 0)))
            assert line == json_line("3:4 false", None, time_text="" if is_plain else "3!")
            notation.is_plain = not is_plain
    assert lines_of(JsonLinesOutput([None], times=Notation("{}")), VerdictRows()) == []


def test_keys_that_have_other_numbers_now() -> None:
    """Numbers of keys mean something until the next call only."""
    keys = keys_of(("a",), ("b",))
    output = JsonLinesOutput(["x"], TraceKeys.of_one_partition(1, keys, ["k"]))
    assert lines_of(output, false_rows((1, 0, 1, 0))) == [json_line("1:0 false", "x", {"k": "b"})]
    keys.keep(np.array([2**32 - 1, 0], np.uint32).tobytes())
    assert lines_of(output, false_rows((1, 0, 0, 0))) == [json_line("1:0 false", "x", {"k": "b"})]


def test_names_of_key_columns_are_unique() -> None:
    assert unique_key_columns(["user", "time", "key_time"]) == ["user", "key_key_time", "key_time"]
    assert unique_key_columns(["policy", "verdict"]) == ["key_policy", "key_verdict"]


def test_rows_that_refer_to_nothing() -> None:
    keys = keys_of(("a",))
    lines = PolicyLines(["x"], keys, format="jsonl", key_columns=(b'"k"',))
    for row in (1, 0, 1, 0), (1, 0, 0, 1):
        with pytest.raises(IndexError):
            lines.write(false_rows(row))
    rows = false_rows((1, 0, 0, 0), (2, 0, 0, 0))
    wrong: list[tuple[NDArray[Any], type[Exception]]] = [
        (np.array([0, 2], np.uint32), IndexError),
        (np.array([0], np.uint32), ValueError),
        (np.array([0, 1], np.uint64), ValueError),
        (np.array([0, 1, 1], np.uint32)[::2], ValueError),
    ]
    for places, error in wrong:
        with pytest.raises(error):
            lines.write(rows, ["1", "2"], places)
    with pytest.raises(TypeError):
        lines.write(rows, ["1", 2], np.array([0, 1], np.uint32))  # type: ignore[list-item]
    assert len(rows) == 2
    assert lines.writer.take() == b""
    lines.write(rows, ["1", "2"], np.array([1, 0], np.uint32))
    assert [json.loads(line)["time_text"] for line in lines.writer.take().splitlines()] == [
        "2",
        "1",
    ]
    with pytest.raises(ValueError, match="2 names for 1 key columns"):
        PolicyLines(["x"], keys, format="jsonl", key_columns=(b'"k"', b'"l"'))


def test_endings_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="no members"):
        PolicyLines(["x"], endings=[(b"", b"")])
    with pytest.raises(ValueError, match="for each policy"):
        PolicyLines(["x"], format="jsonl", endings=[])
