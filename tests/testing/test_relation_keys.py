"""Policies with variables and a key in tests: each key is judged by its own events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon import Formula
from mtlmon.errors import (
    EventTypeError,
    FormulaError,
    MtlmonError,
    PolicyError,
    TraceError,
    VacuousError,
    ViolationError,
)
from mtlmon.testing import LiveMonitor, LogRule, assert_holds, check
from tests.doors import postorder
from tests.reference.first_order import Log
from tests.relational.test_keyed import KeyedLog, keyed_logs
from tests.relational.test_keyed_monitors import FORMULAS, expected, offsets, written
from tests.tables.test_relation_keys import ROWS, table_of

OWN = """
key user
atom open(file) = what = "open"
atom read(file) = what = "read"
policy own: read(f) IMPLIES PREVIOUS open(f)
"""
# the values of a key need not be texts
TRACE: list[tuple[int, dict[str, Any]]] = [
    (1, {"user": 7, "open": [("x",)]}),
    (2, {"user": "7", "read": [("x",)]}),
    (2, {"user": "7", "read": [("x",), ("y",)]}),
    (3, {"user": 7, "read": [("x",)]}),
]
TABLE: dict[str, list[Any]] = {
    "time_stamp": [1, 2, 2, 3],
    "user": [7, 8, 8, 7],
    "what": ["open", "read", "read", "read"],
    "file": ["x", "x", "y", "x"],
}

REPORT = """\
2:1 violates own
read(f) IMPLIES PREVIOUS open(f)
for user = 8
for f = y

    2:0  read(x)
  > 2:1  read(y)

expected: open("y") at the time-point before, up to 2, because read("y") holds at 2:1

✓ read(f)
  └─ 2:1 read(y)
✗ PREVIOUS open(f)
  └─ no open(y) at the previous time-point"""


@settings(max_examples=50)
@given(FORMULAS, keyed_logs(), st.sampled_from([None, "last", 9, "inf"]), st.booleans())
def test_each_key_by_itself(
    formula: Formula, log: KeyedLog, end_time: Any, has_own_key: bool
) -> None:
    text = written(formula, is_find=False)
    trace = [
        (time, {**{name: list(rows) for name, rows in database.items()}, "k": key})
        for (time, database), key in zip(log.log.points, log.keys, strict=True)
    ]
    options: dict[str, Any] = {"unknown": "ignore", "end_time": end_time}
    if not has_own_key:
        text = text.replace("\nkey k\n", "\n")
        options["key"] = "k"
    try:
        result = check(text, trace, **options)
        # how far the log is known; keys share its clock
        clock = max([time for time, _ in trace], default=0)
        clock = max(clock, {None: 0, "last": clock + 1, 9: 10, "inf": 0}[end_time])
        count = 0
        # what looks ahead may wait for what is known already
        may_wait = end_time != "inf" and any(one.operator.is_future for one in postorder(formula))
        for key in dict.fromkeys(log.keys):
            own = Log(log.of(key).points, clock, end_time == "inf")
            names = offsets([time for time, _ in own.points])
            judged = expected(formula, own, str(key), names, is_find=False)
            found = result.keys[key]
            false = {one[1:3] for one in judged if one[3] is False}
            true = {one[1:3] for one in judged if one[3]}
            waiting = false - set(found.violations)
            assert not waiting or (may_wait and waiting <= set(found.undecided))
            false -= waiting
            assert set(found.violations) == false
            assert found.false_count == len(false)
            assert found.true_count + found.undecided_count == len(names) - len(false)
            assert end_time != "inf" or not found.undecided
            assert set(found.undecided) | true >= set(names) - false
            count += len(names)
            answers = [one for one in result.answers if one.key == (str(key),)]
            wanted = [one[1:3] + one[4:] for one in judged if one[1:3] in false]
            given_rows = [
                (one.time_stamp, one.offset, tuple(sorted(one.valuation.items())))
                for one in answers
            ]
            assert sorted(given_rows) == sorted(wanted)
        assert result.event_count == count
        assert result.false_count == len({(one.key, one.point) for one in result.answers})
    except FormulaError:
        assume(False)
    except MtlmonError as error:
        assert "overflow" in str(error)
        assume(False)


@settings(max_examples=30)
@given(
    ROWS,
    st.sampled_from([["ip"], ["host", "ip"]]),
    st.sampled_from(["frame", "polars", "arrow", "pairs", "csv", "order"]),
)
def test_tables_are_judged_as_the_command_does(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], key: list[str], form: str
) -> None:
    table = table_of(rows)
    text = f"""
key {", ".join(key)}
time "ts"
atom read(f) = what = "read"
atom open(f) = what = "open"
policy p: read(f) IMPLIES ((PREVIOUS open(f)) OR NEXT[0,4] read(f))
"""
    trace: Any = table
    options: dict[str, Any] = {}
    if form == "frame":
        trace = table.to_pandas()
    elif form == "polars":
        trace = polars.from_arrow(table)
    elif form == "pairs":
        trace = [(row["ts"], {**row, row["what"]: [(row["f"],)]}) for row in table.to_pylist()]
    elif form == "csv":
        trace = tmp_path_factory.mktemp("log") / "log.csv"
        lines = [",".join(map(str, row.values())) for row in table.to_pylist()]
        trace.write_text("\n".join([",".join(table.column_names), *lines, ""]))
    elif form == "order":
        # keys are found for rows in another order
        trace = table.take(pa.array(range(len(table)), pa.int64())[::-1])
        table = trace.sort_by("ts") if len(table) else table
        options["wait"] = 100
    result = check(text, trace, at_end="undecided-ok", unknown="ignore", **options)
    found = [(*one.key, one.time_stamp, one.offset, one.valuation["f"]) for one in result.answers]
    rows_of = mtlmon.check(text, table).to_arrow().to_pylist()
    wanted = [
        (*[row[name] for name in key], row["time"], row["offset"], row["f"]) for row in rows_of
    ]
    assert sorted(found) == sorted(wanted)


def test_results_of_keys() -> None:
    result = check(OWN, TRACE)
    assert [(key, one.violations) for key, one in result.keys.items()] == [
        (7, []), ("7", [(2, 0), (2, 1)])
    ]  # fmt: skip
    assert [one.key for one in result.answers] == [("7",)] * 3
    assert (result.true_count, result.false_count) == (2, 2)
    assert result.keys["7"].failure is not None
    assert "for user = 7\n" in str(result.failure)


def test_a_failure_is_about_the_events_of_the_key() -> None:
    policy = f"{OWN.replace('policy own', 'policy own at most 1')}"
    with pytest.raises(ViolationError, match="2 of 4 violated"):
        assert_holds(policy, TABLE)
    table = {name: [*values[:1], *values[2:]] for name, values in TABLE.items()}
    with pytest.raises(ViolationError) as caught:
        assert_holds(OWN, {**table, "time_stamp": [1, 2, 3]})
    assert "in row 1\nfor user = 8\nfor f = y" in str(caught.value)
    assert caught.value.key == {"user": 8}
    trace = [TRACE[0], (2, {"user": 8, "read": False}), (2, {"user": 8, "read": [("y",)]})]
    with pytest.raises(ViolationError) as caught:
        assert_holds(OWN, trace, unknown="ignore")
    assert str(caught.value) == REPORT.replace("    2:0  read(x)", "    2:0")


def test_time_passes_for_all_keys() -> None:
    policy = "key user\npolicy p: open(f) IMPLIES NEXT[0,5] read(f)"
    trace = [(1, {"user": "a", "open": [("x",)]}), (2, {"user": "b", "open": [("y",)]})]
    result = check(policy, trace, unknown="ignore")
    assert [one.undecided for one in result.keys.values()] == [[(1, 0)], [(2, 0)]]
    assert "for user = a\nand so are time-points of 1 other key" in str(result.failure)
    trace.append((7, {"user": "c", "read": [("x",)]}))
    result = check(policy, trace)
    assert result.keys["a"].violations == [(1, 0)]
    # the events of other keys show that nothing came
    assert "no read(x) at the next time-point" in str(result.failure)
    assert [one.undecided for one in result.keys.values()] == [[], [(2, 0)], [(7, 0)]]


def test_a_running_program() -> None:
    monitor = LiveMonitor(OWN)
    for time_stamp, event in TRACE[:1]:
        monitor.step(time_stamp, event)
    with pytest.raises(EventTypeError, match="the event has no 'user', which is the key"):
        monitor.step(2, {"read": [("x",)]})
    with pytest.raises(ViolationError, match="for user = 8\nfor f = x"):
        monitor.step(2, {"user": 8, "read": [("x",)]})
    monitor = LiveMonitor(OWN.replace("key user", ""), key="task", clock=iter(range(9)).__next__)
    monitor.event(task=1, open=[("x",)])
    monitor.event(task=2, open=[("y",)])
    monitor.event(task=1, read=[("x",)])
    monitor.close()


def test_log_records_have_a_key(caplog: pytest.LogCaptureFixture) -> None:
    import logging

    policy = "key task\npolicy p: done IMPLIES EXISTS x. ((ONCE begun(x)) OR PREVIOUS begins)"
    rules = [LogRule("begins", message="begin"), LogRule("done", message="done")]
    monitor = LiveMonitor(policy, clock=iter(range(9)).__next__, unknown="ignore")
    monitor.listen(*rules, logger="tasks", level="INFO")
    logger = logging.getLogger("tasks")
    logger.info("begin", extra={"task": 1})
    logger.info("done", extra={"task": 2})
    with pytest.raises(ViolationError, match="for task = 2"):
        monitor.close()


def test_what_has_no_key(tmp_path: Path) -> None:
    with pytest.raises(EventTypeError, match=r"event 0: .* has no key: write what holds and"):
        check(OWN, [(1, {"read"})])
    with pytest.raises(EventTypeError, match="event 1: the event has no 'user'"):
        check(OWN, [TRACE[0], (1, {"read": [("x",)]})])
    log = tmp_path / "events.log"
    log.write_text("@1 open(x)\n")
    with pytest.raises(TraceError, match="a text log has no values that could be the key user"):
        check(OWN, log)
    with pytest.raises(MtlmonError, match="user"):
        check(OWN, {name: values for name, values in TABLE.items() if name != "user"})
    with pytest.raises(PolicyError, match="NEXT looks ahead without bound"):
        check(OWN.replace("PREVIOUS", "NEXT"), TRACE)


def test_the_key_that_is_given_comes_first() -> None:
    none = OWN.replace("policy own", "policy own per none")
    assert check(none, TABLE).violations == [(2, 1), (3, 0)]
    assert not check(none, TABLE).keys
    assert list(check(none, TABLE, key=["file", "user"]).keys) == [("x", 7), ("x", 8), ("y", 8)]
    assert not check(OWN, TABLE, key=[]).keys


def test_one_key_is_enough_to_match_the_left_side() -> None:
    assert check(OWN, TABLE, vacuous="error").vacuity is None
    with pytest.raises(VacuousError, match="never triggered"):
        assert_holds(OWN, TRACE[:1], vacuous="error", unknown="ignore")


def test_only_the_last_events_are_kept() -> None:
    trace = [(time, {"user": time % 2, "open": [("x",)]}) for time in range(10)]
    trace.append((10, {"user": 0, "read": [("y",)]}))
    with pytest.raises(ViolationError) as caught:
        assert_holds(OWN, trace, keep=3)
    assert "no explanation: it needs more than the last 3 events" in str(caught.value)
    assert "... 4 events\n    8:0   open(x)\n  > 10:0  read(y)" in str(caught.value)
