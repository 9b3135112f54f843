"""Bounds on the memory of policies hold, for random formulas and logs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import Formula, parse
from mtlmon.errors import PolicyError
from mtlmon.policy import parse_policies
from mtlmon.tables import KeyedMonitors
from tests.doors import (
    Assumption,
    EventColumns,
    FileBounds,
    Load,
    bounds_of,
    guessed_schema,
    monitors_kept,
    read_as,
)
from tests.doors import checking_bounds as bounds_module
from tests.strategies import formulas

KEYS = 30
EVENTS = 1200


def peak(formula: Formula, seed: int, keys: int, batches: int = 6) -> int:
    """The most bytes that monitors hold on a random log."""
    random = np.random.default_rng(seed)
    monitors = KeyedMonitors(formula)
    clock = most = 0
    for _ in range(batches):
        times = clock + np.cumsum(random.choice([0, 0, 1, 3], EVENTS)).astype(np.int64)
        clock = int(times[-1])
        events = EventColumns(times, EVENTS)
        for number in range(len(monitors.atoms)):
            held = random.random(EVENTS) < random.choice([0.1, 0.5, 0.9])
            events.add_bytes(number, held.astype(np.uint8))
        monitors.feed(events, random.integers(0, keys, EVENTS).astype(np.uint32))
        most = max(most, monitors.held_bytes)
    return most


@settings(max_examples=60)
@given(formulas(depth=3), st.integers(0, 1000))
def test_monitors_hold_no_more_than_their_bound(formula: Formula, seed: int) -> None:
    load = Load([Assumption("keys", KEYS, None)], None, has_keys=True)
    bound = monitors_kept(formula, load).total
    if bound is not None:
        assert peak(formula, seed, KEYS) <= bound


@pytest.mark.parametrize(
    "text",
    [
        "p",
        "p SINCE[2,60] q",
        "ONCE[0,5] PREVIOUS p",
        "EVENTUALLY[1,61] ALWAYS[1,4] p",
        "HISTORICALLY[0,60] (p UNTIL[0,3] q)",
        "ALWAYS[0,60] (p IMPLIES EVENTUALLY[0,10] q)",
        "EVENTUALLY[0,60] ALWAYS[0,60] (p OR EVENTUALLY[0,5] q)",
        "ALWAYS[0,60] (p IMPLIES EVENTUALLY[0,60] (q AND ONCE[0,60] EVENTUALLY[0,5] r))",
        "(p UNTIL[0,*) q) OR PREVIOUS p",
        "NEXT NEXT EVENTUALLY[0,9] p",
        " OR ".join(f"(p{number} AND NOT q{number})" for number in range(20)),
    ],
)
@pytest.mark.parametrize("keys", [1, 3000])
def test_the_bound_covers_few_and_many_keys(text: str, keys: int) -> None:
    load = Load([Assumption("keys", keys, None)], None, has_keys=True)
    bound = monitors_kept(parse(text), load).total
    assert bound is not None
    assert peak(parse(text), 1, keys, 30) <= bound


def test_the_bound_of_conditions_alone_is_small() -> None:
    """A policy without memory has little more than its keys."""
    load = Load([], None, has_keys=False)
    bound = monitors_kept(parse("p IMPLIES q"), load).total
    assert bound is not None
    assert bound < 5 * peak(parse("p IMPLIES q"), 1, 1)


def test_a_rate_limits_what_waits() -> None:
    formula = parse("ALWAYS[0,3600] (p IMPLIES EVENTUALLY[0,60] q)")
    slow = Load([Assumption("rate", 1, "m")], "s", has_keys=False)
    fast = Load([Assumption("rate", 1000, "s")], "s", has_keys=False)
    few, many = monitors_kept(formula, slow), monitors_kept(formula, fast)
    assert few.words == "65 obligations, 62 time-points that wait"
    assert few.total is not None
    assert many.total is not None
    assert 10 * (few.per_key or 0) < (many.per_key or 0)


def test_functions_that_no_negation_changes_are_few() -> None:
    """The queue network has monotone functions only, if the formula is unate; see `_MONOTONE`."""
    for variables in range(4):
        points = range(2**variables)
        above = [(low, high) for low in points for high in points if low & high == low]
        tables = range(1, 2 ** len(points) - 1)
        count = sum(
            all(table >> low & 1 <= table >> high & 1 for low, high in above) for table in tables
        )
        assert bounds_module._MONOTONE[variables] == count
        assert bounds_module._FUNCTIONS[variables] == len(tables)
    text = "ALWAYS[0,60] (p IMPLIES EVENTUALLY[0,60] (q AND ONCE[0,60] EVENTUALLY[0,5] r))"
    kept = monitors_kept(parse(text), Load([], "s", has_keys=False))
    assert kept.words == "61 past values, 128 obligations, 20,916 time-points that wait"
    mixed = "ALWAYS[0,60] ((EVENTUALLY[0,60] p) EQUIV q)"
    kept = monitors_kept(parse(mixed), Load([], "s", has_keys=False))
    assert kept.words == "122 obligations, 1,694 time-points that wait"


def test_many_functions_of_obligations_are_limited_by_a_rate_only() -> None:
    formula = parse("ONCE[0,50] ((p UNTIL[0,9] q) SINCE[0,9] (NOT (p UNTIL[0,8] q) AND NEXT r))")
    assert monitors_kept(formula, Load([], "s", has_keys=False)).total is None
    rate = Load([Assumption("rate", 1, "s")], "s", has_keys=False)
    assert monitors_kept(formula, rate).total is not None


FILE = """
unit s
key ip
assume rate per key <= 1/s
assume keys <= 100
const limit = 3
atom  failed = path = "/login"
stream fails = count[0,2m](failed)
stream slow  = avg[0,1m](latency) > 0.5
stream spare = latency.last()
let    hot   = fails >= limit
policy brute: NOT (hot AND status = 200)
policy both per path: fails < 8 AND max[0,1m](status) < 500
trigger many: any[0,1h](slow) and hot message "slow"
"""
SCHEMA = pa.schema(
    [("ip", pa.string()), ("path", pa.string()), ("latency", pa.float64()), ("status", pa.int64())]
)


def kept(bounds: FileBounds) -> list[tuple[str, str | None, tuple[str, ...], list[str]]]:
    return [
        (bound.kind, bound.name, bound.key, [one.expression for one in bound.kept])
        for bound in bounds.bounds
    ]


def test_every_stream_and_policy_has_what_it_keeps() -> None:
    bounds = bounds_of(parse_policies(FILE), SCHEMA)
    assert kept(bounds) == [
        ("stream", "fails", ("ip",), ["count[0,120](failed)"]),
        ("stream", "fails", ("path",), ["count[0,120](failed)"]),
        ("stream", "slow", ("ip",), ["avg[0,60](latency)"]),
        ("stream", "spare", ("ip",), ["latency.last()"]),
        ("policy", "brute", ("ip",), ["monitor"]),
        ("policy", "both", ("path",), ["max[0,60](status)", "monitor"]),
        ("trigger", "many", ("ip",), ["any[0,3600](slow)", "monitor"]),
        ("keys", "ip", ("ip",), ["keys"]),
        ("keys", "path", ("path",), ["keys"]),
    ]
    assert bounds.total == sum(bound.total or 0 for bound in bounds.bounds)


def test_types_are_guessed_without_a_table() -> None:
    file = parse_policies(FILE)
    guessed = guessed_schema(file)
    # each use of a column reads it as what it needs
    assert {field.name: str(field.type) for field in guessed} == {
        "path": "string",
        read_as("latency", "number"): "double",
        read_as("status", "number"): "double",
        "latency": "double",
    }
    assert [bound.name for bound in bounds_of(file, guessed).bounds] == [
        bound.name for bound in bounds_of(file, SCHEMA).bounds
    ]
    with pytest.raises(PolicyError):
        guessed_schema(parse_policies("stream s = x\npolicy p: s > 1 AND lower(s) = y"))


def test_a_missing_column_is_an_error() -> None:
    with pytest.raises(PolicyError, match="there is no column path"):
        bounds_of(parse_policies(FILE), pa.schema([("latency", pa.float64())]))
