"""Functions of a program in expressions, wherever these stand."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from mtlmon import streams
from mtlmon.errors import FormulaError, MtlmonError, PolicyError
from mtlmon.policy import compile_predicate, parse_policies, parse_predicate
from tests.doors import predicates_own_functions as own_functions

ROWS = pa.table(
    {
        "ts": [0, 1, 2, 3],
        "x": [3, 5, None, 8],
        "y": [4.0, 12.0, 1.0, 15.0],
        "n": ["ab", "bc", "", "b"],
        "k": ["u", "v", "u", "v"],
    }
)
FILE = """\
key k
stream far = max[0,9](distance(x, y))
stream moving = distance(x, coalesce(y.last(), 0))
policy p: distance(x, y) > 16 IMPLIES ONCE odd(x)
policy q: initial(n) = "b" or far < 4
policy s: NOT moving > 13
atom moved(w = distance(x, y)) = odd(x)
policy r per none: moved(a) IMPLIES distance(a, 1.0) < 13
trigger t: odd(x) and far > 4 message "{initial(n)} {distance(x, 0):.1f}"
"""


@pytest.fixture(autouse=True)
def functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_functions, "_registered", {})
    streams.register_function("distance", math.hypot, ["float", "float"])
    streams.register_function("root", math.sqrt, ["int"])
    streams.register_function("initial", lambda text: text[:1] or None, ["text"], result="text")
    streams.register_function("odd", lambda i: i % 2 == 1, ["int"], result="bool")
    streams.register_function("wrong", str, result="int")
    streams.register_function("half", lambda i: chr(0xD800 + i), ["int"], result="text")


@pytest.mark.parametrize("lateness", [None, "9"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_functions_are_called_everywhere(size: int, lateness: str | None) -> None:
    batches = pa.RecordBatchReader.from_batches(ROWS.schema, ROWS.to_batches(max_chunksize=size))
    options: dict[str, Any] = {} if lateness is None else {"lateness": lateness}
    found = mtlmon.check(FILE, batches, verdicts="false", **options)
    said = sorted((one["policy"], one["time"], one.get("message")) for one in found)
    assert said == [
        ("q", 0, None),
        ("q", 2, None),
        ("r", 1, None),
        ("s", 3, None),
        ("t", 0, "a 3.0"),
        ("t", 1, "b 5.0"),
    ]


def test_files_keep_their_functions_when_they_are_sent() -> None:
    """As Spark does."""
    file = parse_policies("policy p: distance(x, 4) < 9")
    sent = pickle.loads(pickle.dumps(file))
    streams.register_function("distance", max, ["float", "float"])
    for one in (file, sent):
        assert [answer["verdict"] for answer in mtlmon.check(one, ROWS, verdicts="boolean")] == [
            True,
            True,
            False,
            True,
        ]


def test_values() -> None:
    batch = ROWS.to_batches()[0]
    found = compile_predicate(parse_predicate("distance(x, 4) = 5 or odd(x)"), batch.schema)(batch)
    assert found.to_pylist() == [True, True, False, False]


def test_expressions_are_written_as_they_are_read() -> None:
    file = parse_policies("policy p: distance ( x , y+1 ) > 2")
    assert list(file.conditions) == ["distance(x, y + 1) > 2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy p: distance(x) > 1", "distance takes 2 arguments, not 1"),
        ("policy p: odd(x, y)", "odd takes 1 argument, not 2"),
        ("policy p: distance(x, n) > 1", "distance takes numbers, not column n of type string"),
        ("policy p: odd(y)", "odd takes an integer, not column y of type double"),
        ("stream s = distance(s.last(or: 0), 1)\npolicy p: s > 1", "of a stream that reads itself"),
    ],
)
def test_mistakes_have_a_place(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        list(mtlmon.check(text, ROWS))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy p: root(x) > 1", r"row 2: root\(x\) with -1: ValueError: math domain error"),
        (
            "policy p: wrong(x) > 1",
            r"row 1: wrong\(x\) with 4: the result is '4.0', not an int",
        ),
        (
            'policy p: half(x) = "a"',
            r"row 1: half\(x\) with 4: the result is '.ud804', which is no Unicode text",
        ),
    ],
)
def test_errors_are_those_of_rows(text: str, message: str) -> None:
    rows = pa.table({"ts": [0, 1, 2], "x": [4, -1, 9]})
    with pytest.raises(MtlmonError, match=message):
        list(mtlmon.check(text, rows))
    if "root" in text:
        found = mtlmon.check(text, rows, on_error="skip")
        assert [(one["time"], one["verdict"]) for one in found] == [(0, True), (2, True)]


def test_a_function_that_fails_once_is_named() -> None:
    calls = []

    def fails_once(value: float) -> float:
        calls.append(value)
        if len(calls) == 2:
            raise ValueError("no answer")
        return value

    streams.register_function("asked", fails_once)
    with pytest.raises(MtlmonError, match="asked fails, and not when it is called again: Value"):
        list(mtlmon.check("policy p: asked(x) > 1", ROWS))


@pytest.mark.parametrize(
    ("name", "arguments", "result", "message"),
    [
        ("a b", ["int"], "int", "a function cannot be called 'a b'"),
        ("sqrt", ["int"], "int", "there is a function sqrt already"),
        ("sum", ["int"], "int", "there is an aggregate sum already"),
        ("mine", ["time"], "int", "an argument must be one of int, float, bool, text, not 'time'"),
        ("mine", ["int"], "list", "the result must be one of int, float, bool, text, not 'list'"),
        ("mine", [], "int", "a function takes at least one argument"),
    ],
)
def test_names_and_types_are_checked(name: str, arguments: Any, result: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        streams.register_function(name, abs, arguments, result=result)
