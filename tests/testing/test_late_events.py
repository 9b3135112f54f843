"""Events that come late: `wait=` of assertions and live monitors, compared with sorted events."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlmon.errors import (
    EventTypeError,
    LogError,
    MtlmonError,
    TableError,
    TimeStampError,
    ViolationError,
)
from mtlmon.testing import LiveMonitor, MonitorFactory, assert_holds, check
from tests.reference.late import judged_and_refused

Row = tuple[int, dict[str, Any]]
Form = Callable[[Sequence[Row], Path], Any]

WAIT = 6
PLAIN = "ask IMPLIES EVENTUALLY[0,4] reply"


def late_rows(seed: int, latest: int, count: int = 60) -> list[Row]:
    """Rows up to so late."""
    source = random.Random(seed)
    now = 100
    rows = []
    for _ in range(count):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(latest + 1) if source.random() < 0.4 else 0)
        what = source.choice(["ask", "reply"])
        row = {"ask": what == "ask", "reply": what == "reply", "amount": source.randrange(9)}
        rows.append((stamp, row | {"task": source.choice("abc")}))
    return rows


def names_of(row: dict[str, Any]) -> set[str]:
    return {name for name in ("ask", "reply") if row[name]}


def sets(rows: Sequence[Row], path: Path) -> Any:
    return [(stamp, names_of(row)) for stamp, row in rows]


def one_by_one(rows: Sequence[Row], path: Path) -> Any:
    return iter(sets(rows, path))


def mappings(rows: Sequence[Row], path: Path) -> Any:
    return list(rows)


def mappings_one_by_one(rows: Sequence[Row], path: Path) -> Any:
    return iter(rows)


def arrays(rows: Sequence[Row], path: Path) -> Any:
    letters = np.array([[row["ask"], row["reply"]] for _, row in rows])
    return np.array([stamp for stamp, _ in rows]), letters


def columns(rows: Sequence[Row], path: Path) -> Any:
    found = {name: np.array([row[name] for _, row in rows]) for name in rows[0][1]}
    return {"time_stamp": np.array([stamp for stamp, _ in rows])} | found


def text_log(rows: Sequence[Row], path: Path) -> Any:
    file = path / "events.log"
    file.write_text("".join(f"@{stamp} {' '.join(names_of(row))}\n" for stamp, row in rows))
    return file


def json_lines(rows: Sequence[Row], path: Path) -> Any:
    file = path / "events.jsonl"
    file.write_text("".join(json.dumps({"ts": stamp, **row}) + "\n" for stamp, row in rows))
    return file


def atoms_with_rows(rows: Sequence[Row], path: Path) -> Any:
    return [(stamp, {name: [(row["task"],)] for name in names_of(row)}) for stamp, row in rows]


def log_of_rows(rows: Sequence[Row], path: Path) -> Any:
    file = path / "events.log"
    lines = [f"@{stamp} {names_of(row).pop()}({row['task']})\n" for stamp, row in rows]
    file.write_text("".join(lines))
    return file


CONDITION = "amount < 6 OR EVENTUALLY[0,3] amount < 2"
WINDOW = "count[0,3](amount > 4) < 4"
VARIABLES = "ask(x) IMPLIES EVENTUALLY[0,4] reply(x)"
OF_TABLE = (
    "atom ask(task) = ask\natom reply(task) = reply\n"
    "policy late: FORALL x. ask(x) IMPLIES EVENTUALLY[0,4] reply(x)\n"
)
RUNS: dict[str, tuple[str, Form, dict[str, Any]]] = {
    "sets": (PLAIN, sets, {}),
    "one by one": (PLAIN, one_by_one, {}),
    "arrays": (PLAIN, arrays, {"atoms": ["ask", "reply"]}),
    "columns": (PLAIN, columns, {}),
    "text": (PLAIN, text_log, {}),
    "mappings": (PLAIN, mappings, {"key": "task"}),
    "columns with keys": (PLAIN, columns, {"key": "task"}),
    "condition": (CONDITION, mappings, {}),
    "conditions one by one": (WINDOW, mappings_one_by_one, {"key": "task"}),
    "conditions of columns": (WINDOW, columns, {"key": "task"}),
    "file": (PLAIN, json_lines, {"key": "task"}),
    "conditions of a file": (WINDOW, json_lines, {}),
    "variables": (VARIABLES, atoms_with_rows, {}),
    "variables of a log": (VARIABLES, log_of_rows, {}),
    "variables of a file": (OF_TABLE, json_lines, {}),
    "variables of columns": (OF_TABLE, columns, {"time": "time_stamp"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_trace_is_checked_as_if_it_were_sorted(name: str, tmp_path: Path) -> None:
    text, form, options = RUNS[name]
    if form is json_lines or text not in (PLAIN, VARIABLES):
        pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    violated = 0
    for seed in range(5):
        rows = late_rows(seed, WAIT)
        judged, refused = judged_and_refused(rows, WAIT)
        assert not refused
        given = {"at_end": "undecided-ok", **options}
        wanted = check(text, form(judged, tmp_path), **given)
        found = check(text, form(rows, tmp_path), wait=WAIT, **given)
        assert (found.violations, found.undecided) == (wanted.violations, wanted.undecided)
        assert found.event_count == wanted.event_count
        assert len(found.keys) == len(wanted.keys)
        violated += len(found.violations)
        with pytest.raises((TimeStampError, LogError, TableError)):
            check(text, form(rows, tmp_path), **given)
    assert violated


@pytest.mark.parametrize("name", RUNS)
def test_what_comes_too_late_is_an_error_at_its_place(name: str, tmp_path: Path) -> None:
    text, form, options = RUNS[name]
    if form is json_lines or text not in (PLAIN, VARIABLES):
        pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    rows = late_rows(1, WAIT)
    latest = max(stamp for stamp, _ in rows)
    place = len(rows)
    rows += [(latest - WAIT - 1, rows[0][1]), (latest - WAIT - 2, rows[0][1])]
    with pytest.raises((TimeStampError, LogError, TableError), match="comes too late") as caught:
        check(text, form(rows, tmp_path), wait=WAIT, **options)
    error = caught.value
    if isinstance(error, TimeStampError):
        assert error.index == place
    elif isinstance(error, LogError):
        assert error.line == place + 1
    else:
        assert isinstance(error, TableError)
        assert error.row == place + 1


def test_errors_name_the_places_in_the_trace() -> None:
    for wrong, kind in [("x", EventTypeError), (-1, TimeStampError), (2**63, TimeStampError)]:
        with pytest.raises(kind, match="event 2: ") as caught:
            check("p", [(5, {"p"}), (4, {"p"}), (wrong, {"p"})], wait=2)
        assert caught.value.index == 2
    trace: list[tuple[int, Any]] = [(5, {"p": [("a",)]}), (4, {"p": [(1, 2)]}), (9, {})]
    with pytest.raises(EventTypeError, match="event 1: "):
        check("p(x) IMPLIES ONCE p(x)", trace, wait=2)


def test_lengths_of_time() -> None:
    trace = [(5000, {"p"}), (3000, {"p"})]
    for wait in ("2s", timedelta(seconds=2), 2000):
        assert_holds("p", trace, unit="ms", wait=wait)
        with pytest.raises(TimeStampError, match="event 1: time-stamp 2999 comes too late"):
            assert_holds("p", [*trace[:1], (2999, {"p"})], unit="ms", wait=wait)
    for wrong in (-1, "soon", timedelta(seconds=-1), 2.5):
        with pytest.raises(MtlmonError, match="is neither a number of time units from 0 on nor"):
            assert_holds("p", trace, wait=wrong)  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="wait='2s' needs the unit of the time-stamps: add unit="):
        assert_holds("p", trace, wait="2s")
    with pytest.raises(MtlmonError, match="is not a whole number of the time-stamps' unit, s"):
        assert_holds("p", trace, unit="s", wait="500ms")


@pytest.mark.parametrize("text", [PLAIN, WINDOW, VARIABLES])
def test_a_live_monitor_sees_events_in_order(text: str) -> None:
    if text == WINDOW:
        pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    form = {PLAIN: sets, WINDOW: mappings, VARIABLES: atoms_with_rows}[text]
    violated = 0
    for seed in range(10):
        rows = late_rows(seed, WAIT, 30)
        judged, _ = judged_and_refused(rows, WAIT)
        found: list[object] = []
        for some, wait in (rows, WAIT), (judged, None):
            monitor = LiveMonitor(text, wait=wait, at_end="undecided-ok")
            try:
                for stamp, atoms in form(some, Path()):
                    monitor.step(stamp, atoms)
                monitor.close()
            except ViolationError as error:
                found.append((error.time_point, error.formula))
            else:
                found.append(None)
        assert found[0] == found[1]
        violated += found[0] is not None
    assert violated


def test_a_live_monitor_waits_and_no_longer() -> None:
    monitor = LiveMonitor("p", wait=5)
    monitor.step(10, {"p"})
    monitor.step(8, ())
    monitor.step(12, {"p"})
    assert monitor.violation is None
    with pytest.raises(ViolationError) as caught:
        monitor.step(13, {"p"})
    assert caught.value.time_point == (8, 0)
    monitor = LiveMonitor("p", wait=5)
    monitor.step(10, {"p"})
    with pytest.raises(TimeStampError, match="time-stamp 4 comes too late: it is below 5, "):
        monitor.step(4, {"p"})
    monitor.step(5, {"p"})
    monitor.advance(9)
    with pytest.raises(TimeStampError, match="is below 9, up to which time has passed"):
        monitor.step(8, {"p"})
    monitor.step(9, {"p"})
    monitor.advance(2)
    with pytest.raises(ViolationError) as caught:
        monitor.step(9, ())
    assert caught.value.time_point == (9, 1)


def test_the_end_releases_what_waits() -> None:
    monitor = LiveMonitor("p", wait=5)
    monitor.step(10, ())
    monitor.step(9, {"p"})
    assert monitor.violation is None
    with pytest.raises(ViolationError) as caught:
        monitor.close()
    assert caught.value.time_point == (10, 0)
    monitor = LiveMonitor("p", wait=5)
    monitor.close()
    with pytest.raises(MtlmonError, match="is closed"):
        monitor.step(20, ())
    monitor = LiveMonitor("p", wait=5)
    monitor.step(10, ())
    assert monitor.abandon() is not None


def test_time_of_a_clock_passes_up_to_the_time_to_wait() -> None:
    now = 100
    monitor = LiveMonitor("p IMPLIES EVENTUALLY[0,3] q", clock=lambda: now, wait=10)
    monitor.event("p")
    now = 113
    monitor.check()
    monitor.step(103, {"q"})
    now = 120
    monitor.check()
    monitor.event("p")
    now = 90
    monitor.event()
    now = 134
    assert monitor.take_violation() is not None
    monitor = LiveMonitor("p IMPLIES EVENTUALLY[0,3] q", clock=lambda: now, wait=10)
    monitor.event("p")
    now += 13
    monitor.check()
    now += 1
    with pytest.raises(ViolationError):
        monitor.check()


def test_the_fixture_has_the_argument() -> None:
    monitors = MonitorFactory()
    monitor = monitors("p", wait="1s", unit="ms")
    monitor.step(2000, {"p"})
    monitor.step(1000, {"p"})
    monitors.close()
