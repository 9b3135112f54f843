"""Lengths of time with a fraction, and frequencies."""

from __future__ import annotations

import pyarrow as pa
import pytest

import mtlmon
from mtlmon.errors import FormulaError
from mtlmon.policy import parse_policies


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("ONCE[0,0.5s] p", "ONCE[0,500] p"),
        ("p UNTIL[1.5 s,2s] q", "p UNTIL[1500,2000] q"),
        ("ONCE[0.001s,0.025min) p", "ONCE[1,1499] p"),
        ("HISTORICALLY(0.5s,*) p", "HISTORICALLY[501,*) p"),
    ],
)
def test_intervals(text: str, formula: str) -> None:
    assert str(mtlmon.parse(text, unit="ms")) == formula
    later = mtlmon.parse(text, unit="later").in_unit("ms")
    assert str(later) == formula


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("on every 0.5s", "every 500ms"),
        ("on every 20Hz", "every 50ms"),
        ("on every 0.1 Hz", "every 10s"),
        ("on every 12.5Hz", "every 80ms"),
        ("on every 0.000011574074074074074Hz", None),
    ],
)
def test_periods(clause: str, words: str | None) -> None:
    text = f"policy p {clause} for 1.5s: count[0,1s]() > 0"
    if words is None:
        with pytest.raises(FormulaError, match="is not a whole number of units, ms"):
            parse_policies(f"unit ms\n{text}")
        return
    for file in (parse_policies(f"unit ms\n{text}"), parse_policies(text, unit="later")):
        (policy,) = file.policies
        assert policy.clock is not None
        assert policy.clock.in_words("ms") == words
        assert policy.lasting_text("ms") in {"for 1,500ms", "for 1500ms"}


def test_values() -> None:
    file = parse_policies(
        "unit ms\nconst w = 2.5s\nstream s = sum[0,0.5s](x) every 2Hz\n"
        "policy p: count[0,w](load > 0.25s) > 1 and load.at(-0.1s) > 0.5"
    )
    assert file.constants == {"w": 2500}
    (policy,) = file.policies
    assert str(policy.formula) == '"count[0,2500](load > 250) > 1" AND "load.at(-100) > 0.5"'
    assert str(file.streams["s"].expression) == "sum[0,500](x)"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("policy p: ONCE[0,0.5s] x", "0.5s is not a whole number of the stream's", "unit ms"),
        ("policy p: x.at(-1.5s) > 3", "1.5s is not a whole number of the stream's unit", "unit ms"),
        ("policy p: x > 0.5s", "0.5s is not a whole number of the stream's unit, s", "unit ms"),
        ("policy p on every 2Hz: x", "the period of 2Hz is not a whole number of units, s", ""),
        ("policy p on every 0Hz: x", "this frequency is 0", ""),
        ("policy p on every 0.0s: x", "this length of time is 0", ""),
        ("policy p: ONCE[0,0.5] x", "expected ']' or ')' at the end", "a bound is a whole number"),
        (f"policy p: ONCE[0,0.{'3' * 50}s] x", "a bound has less than 40 digits", ""),
        ("relation r = rows valid 2Hz", "'Hz' is not a unit of time", "the units are"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_policies(f"unit s\n{text}", needs_policy=False)
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


def test_nothing_is_below_a_nanosecond() -> None:
    with pytest.raises(FormulaError, match=r"0\.3ns is not a whole number of nanoseconds"):
        mtlmon.parse("ONCE[0,0.3ns] p", unit="later")


def test_frequencies_need_a_unit() -> None:
    with pytest.raises(FormulaError, match="2Hz needs the unit of the time-stamps"):
        parse_policies("policy p on every 2Hz: count[0,3]() > 0")


def test_lengths_of_options_have_fractions_too() -> None:
    rows = [{"ts": 1000, "p": True}, {"ts": 400, "p": False}, {"ts": 500, "p": True}]
    run = mtlmon.check("p", pa.Table.from_pylist(rows), unit="ms", wait="0.5s", late=lambda _: None)
    # rows wait for those up to half a second late
    assert [(one.time, one.verdict) for one in run] == [(500, True), (1000, True)]
