"""Batches of events: one result in every form and however they are cut; bad ones change nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import (
    EventError,
    EventTypeError,
    LimitError,
    Monitor,
    MonitorBrokenError,
    MtlmonError,
    TimeStampError,
)
from tests.doors import EventColumns, feed_columns
from tests.doors import expressions_bdd as bdd
from tests.engines import with_expressions
from tests.feeding import FORMS, matrix_of, table_of, time_stamps_of
from tests.strategies import formulas, traces
from tests.traces import MODES, Event, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon import Formula
    from tests.traces import Step

LARGEST = 2**63 - 1
FORMULAS = (
    "p",
    "EVENTUALLY[0,5] p",
    "p UNTIL[0,5] q",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "ALWAYS[0,4] (p IMPLIES ONCE[0,7] q)",
    "((NEXT p) OR p) SINCE[2,8] q",
)


def random_events(count: int, rate: int, seed: int, atoms: Sequence[str] = "pq") -> list[Event]:
    source = random.Random(seed)
    return [
        Event(i // rate, frozenset(name for name in atoms if source.random() < 0.4))
        for i in range(count)
    ]


def stepped(monitor: Monitor, events: Sequence[Event]) -> list[str]:
    return [str(verdict) for event in events for verdict in monitor.step(*event)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_long_batches_in_every_form(formula: str, form: str) -> None:
    for rate in (1, 300):
        events = random_events(2000, rate, seed=rate)
        monitor = Monitor(formula)
        fed = FORMS[form](monitor, events)
        alone = Monitor(formula)
        assert [str(verdict) for verdict in fed] == stepped(alone, events)
        assert monitor.pending == alone.pending


@settings(max_examples=150)
@given(
    formulas(),
    traces(maximum_length=12),
    st.sampled_from(MODES),
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(list(FORMS)))),
)
def test_results_do_not_depend_on_batches(
    formula: Formula, steps: tuple[Step, ...], mode: Mode, cuts: list[tuple[int, str]]
) -> None:
    events = [step for step in steps if isinstance(step, Event)]
    monitor = Monitor(formula, mode)
    start = 0
    lines = []
    for stop, form in [*sorted(cuts), (len(events), "columns")]:
        lines += [str(verdict) for verdict in FORMS[form](monitor, events[start:stop])]
        start = max(start, min(stop, len(events)))
    assert lines == stepped(Monitor(formula, mode), events)


@pytest.mark.parametrize("count", [63, 64, 65, 128, 130])
def test_many_atoms(count: int) -> None:
    names = [f"a{i}" for i in range(count)]
    formula = " OR ".join(f"(a{i} AND a{i + 1})" for i in range(0, count - 1, 2))
    formula += f" OR EVENTUALLY[0,2] a{count - 1}"
    source = random.Random(count)
    events = [Event(i // 3, frozenset(source.sample(names, 8))) for i in range(300)]
    expected = stepped(Monitor(formula), events)
    for form in FORMS:
        if count < 63 or not form.endswith("integers"):
            monitor = Monitor(formula)
            assert [str(verdict) for verdict in FORMS[form](monitor, events)] == expected, form
    with pytest.raises(EventError, match="64 bits for"):
        Monitor(formula).feed([0], [0], atoms=[*names, *map(str, range(64))])


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 130])
def test_bits_of_no_atom_change_nothing(count: int) -> None:
    """They may be those of other formulas; what is learnt of letters is as without them."""
    formula = "ONCE[0,2] (" + " OR ".join(f"a{i}" for i in range(count)) + ")"
    random = np.random.default_rng(count)
    words = -(-count // 64)
    time_stamps = np.arange(200) // 3
    atoms = np.zeros((200, words), np.uint64)
    for row in range(0, 200, 4):
        atom = int(random.integers(count))
        atoms[row, atom // 64] = 1 << (atom % 64)
    others = random.integers(0, 2**64, 200, np.uint64)
    others = others << np.uint64(count % 64) if count % 64 else others * np.uint64(0)
    found: list[tuple[bytes, dict[str, int]]] = []
    for letters in (atoms, atoms.copy()):
        if found:
            letters[:, -1] |= others
        events = EventColumns(time_stamps, 200)
        for word in range(words):
            events.add_letters(count, letters[:, word], word)
        monitor = Monitor(formula)
        verdicts = feed_columns(monitor, [events]).tobytes()
        found.append((verdicts, monitor.counters))
    assert found[0] == found[1]


def test_sixty_four_bits() -> None:
    formula = " OR ".join(f"a{i}" for i in range(64))
    monitor = Monitor(formula)
    masks = np.array([2**63, 0], np.uint64)
    assert monitor.feed([0, 1], masks, unknown="error").kind.tolist() == [1, 0]
    assert monitor.atoms == tuple(f"a{i}" for i in range(64))
    assert monitor.feed([1], masks[:1], atoms=monitor.atoms[::-1]).kind.tolist() == [1]


def test_bytes_of_booleans_other_than_one_are_true() -> None:
    column = np.array([2, 0, 255], np.uint8).view(np.bool_)
    assert Monitor("p").feed([0, 1, 2], {"p": column}).kind.tolist() == [1, 0, 1]


def test_other_integers_and_byte_orders() -> None:
    for time_stamps in (np.array([3, 4], ">i8"), np.array([3, 4], np.uint8)):
        verdicts = Monitor("p").feed(time_stamps, np.array([1, 0], ">u2"))
        assert [str(verdict) for verdict in verdicts] == ["3:0 true", "4:0 false"]


def test_unaligned_arrays() -> None:
    packed = np.zeros(4, np.dtype([("p", "?"), ("time", "i8"), ("bits", "u8")]))
    packed["time"], packed["bits"] = [1, 1, 2, 3], [1, 0, 1, 0]
    monitor = Monitor("p")
    assert monitor.feed(packed["time"], packed["bits"]).kind.tolist() == [1, 0, 1, 0]
    assert monitor.feed(packed["time"] + 3, {"p": packed["p"]}).kind.tolist() == [0] * 4


def test_arrays_that_cannot_be_written_to() -> None:
    time_stamps, masks = np.array([1, 2]), np.array([1, 1], np.uint64)
    time_stamps.flags.writeable = masks.flags.writeable = False
    assert Monitor("p").feed(time_stamps, masks).kind.tolist() == [1, 1]


def test_no_events() -> None:
    for form in FORMS.values():
        monitor = Monitor("NEXT p")
        assert len(form(monitor, [])) == 0
        monitor.step(3)
        assert len(form(monitor, [])) == 0
        assert monitor.pending == [(3, 0)]
    assert len(Monitor("p").feed([], [])) == 0
    assert len(Monitor("p").feed([], {"p": []})) == 0


def test_a_formula_without_atoms() -> None:
    events = random_events(5, 2, seed=1)
    for form in FORMS.values():
        assert [str(v) for v in form(Monitor("NEXT true"), events)] == [
            "0:0 true",
            "0:1 true",
            "1:0 true",
            "1:1 true",
        ]


def test_the_largest_time_stamps() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    verdicts = monitor.feed([0, LARGEST, LARGEST], {"p": [True, False, True]})
    assert [str(verdict) for verdict in verdicts] == [
        "0:0 true",
        f"{LARGEST}:0 true",
        f"{LARGEST}:1 true",
    ]


BOOLEANS = np.array([[True, False], [False, True], [True, True]])
TABLE = pyarrow.table({"time_stamp": [5, 6, 7], "p": [True] * 3, "q": [True] * 3})

BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[MtlmonError], str, int | None]] = {
    "below the clock": (([3, 6, 7], BOOLEANS), {}, TimeStampError, "3 at index 0 is below 5", 0),
    "decreasing": (([5, 7, 6], BOOLEANS), {}, TimeStampError, "6 at index 2 is below 7", 2),
    "negative": (([5, -1, 6], BOOLEANS), {}, TimeStampError, "-1 at index 1 is not between", 1),
    "too large": (
        (np.array([5, 6, 2**63], np.uint64), BOOLEANS),
        {},
        TimeStampError,
        "9223372036854775808 at index 2 is not between",
        2,
    ),
    "far too large": (([5, 6, 2**70], BOOLEANS), {}, EventTypeError, "integers, not object", None),
    "NaN": (([5.0, np.nan, 6], BOOLEANS), {}, EventTypeError, "index 1 is NaN", 1),
    "floats": (([5.0, 6, 7], BOOLEANS), {}, EventTypeError, "integers, not float64", None),
    "Boolean time": (([True, True], BOOLEANS), {}, EventTypeError, "integers, not bool", None),
    "matrix of time-stamps": (([[5]], BOOLEANS), {}, EventError, "one dimension, not 2", None),
    "ragged": (([[5], [5, 6]], BOOLEANS), {}, EventTypeError, "are not an array", None),
    "dates": (
        (np.array(["2026-01-01"], "M8[s]"), [[True, True]]),
        {},
        EventTypeError,
        "not datetime64",
        None,
    ),
    "rows": (([5, 6], BOOLEANS), {}, EventError, r"shape \(3, 2\) for 2 time-stamps", None),
    "columns": (([5, 6, 7], BOOLEANS[:, :1]), {}, EventError, r"2 atoms \('p', 'q'\)", None),
    "named columns": (
        ([5, 6, 7], BOOLEANS),
        {"atoms": ["p"]},
        EventError,
        "no column for 'q': the formula needs 'p', 'q'",
        None,
    ),
    "twice": (([5, 6, 7], BOOLEANS), {"atoms": ["p", "p"]}, EventError, "two columns", None),
    "one string": (([5, 6, 7], BOOLEANS), {"atoms": "pq"}, EventTypeError, "sequence", None),
    "unknown column": (
        ([5, 6, 7], {"p": BOOLEANS[:, 0], "q": BOOLEANS[:, 1], "r": BOOLEANS[:, 1]}),
        {"unknown": "error"},
        EventError,
        "has no atom 'r'",
        None,
    ),
    "unknown bit": (([5, 6], [1, 4]), {"unknown": "error"}, EventError, "4 at index 1 has bits", 1),
    "negative bits": (([5, 6], [1, -4]), {}, EventError, "-4 at index 1 is negative", 1),
    "missing column": (([5], {"p": [True]}), {}, EventError, "no column for 'q'", None),
    "length": (([5], {"p": [True], "q": []}), {}, EventError, "'q' has length 0 for 1", None),
    "integers for Booleans": (
        ([5], {"p": [1], "q": [True]}),
        {},
        EventTypeError,
        "'p' is a Boolean array",
        None,
    ),
    "length of bits": (([5], [1, 2]), {}, EventError, "2 letters for 1 time-stamps", None),
    "floats for letters": (([5], [0.5]), {}, EventTypeError, "letters are a Boolean", None),
    "names for letters": (([5], ["p"]), {}, EventTypeError, "letters are a Boolean", None),
    "names for columns": (([5], {"p": [1]}), {"atoms": "p"}, EventTypeError, "no atoms", None),
    "no letters": (([5, 6, 7],), {}, EventTypeError, "letters are missing", None),
    "unknown what": (([5], [1]), {"unknown": "raise"}, MtlmonError, "'ignore' or 'error'", None),
    "table without time": ((TABLE,), {"time": "t"}, EventError, "no column 't'", None),
    "table without atom": ((TABLE.drop(["q"]),), {}, EventError, "no column for 'q'", None),
    "table with atoms": ((TABLE,), {"atoms": ["p"]}, EventTypeError, "give no atoms", None),
    "table with an unknown column": (
        (TABLE.append_column("r", TABLE["p"]),),
        {"unknown": "error"},
        EventError,
        "has no atom 'r'",
        None,
    ),
    "table with the time of another type": (
        (TABLE.set_column(0, "time_stamp", TABLE["time_stamp"].cast("int32")),),
        {},
        EventTypeError,
        "'time_stamp' is of type int32, not int64",
        None,
    ),
    "table with an atom of another type": (
        (TABLE.set_column(1, "p", TABLE["time_stamp"]),),
        {},
        EventTypeError,
        "'p' is of type int64, not bool",
        None,
    ),
    "table with nulls": (
        (TABLE.set_column(1, "p", pyarrow.array([True, None, False])),),
        {},
        EventError,
        "'p' is null at index 1",
        1,
    ),
    "table with null time-stamps": (
        (TABLE.set_column(0, "time_stamp", pyarrow.array([5, 6, None], "int64")),),
        {},
        EventError,
        "'time_stamp' is null at index 2",
        2,
    ),
    "table with two columns of a name": (
        (TABLE.append_column("p", TABLE["p"]),),
        {},
        EventError,
        "two columns for the atom 'p'",
        None,
    ),
    "table with two columns of time": (
        (TABLE.append_column("time_stamp", TABLE["p"]),),
        {},
        EventError,
        "more than one column 'time_stamp'",
        None,
    ),
    "table with an atom for the time": (
        (TABLE.append_column("r", TABLE["p"]),),
        {"time": "p"},
        EventError,
        "no column for 'p'",
        None,
    ),
    "table that decreases in its second chunk": (
        (pyarrow.concat_tables([TABLE, TABLE]),),
        {},
        TimeStampError,
        "5 at index 3 is below 7",
        3,
    ),
    "array for a table": ((TABLE["p"],), {}, EventTypeError, "not a table", None),
}


@pytest.mark.parametrize("step", [1, 3, -2])
@pytest.mark.parametrize("count", [2, 3, 255, 256, 257, 600])
def test_time_stamps_that_decrease_anywhere(count: int, step: int) -> None:
    spread = np.zeros(count * abs(step), np.int64)
    time_stamps = spread[::step][:count]
    p = np.zeros(count, np.bool_)
    for place in {1, count // 2, count - 2, count - 1, 255, 256, 257} & {*range(1, count)}:
        time_stamps[:] = np.arange(7, count + 7)
        time_stamps[place] = place + 5
        with pytest.raises(TimeStampError) as caught:
            Monitor("p").feed(time_stamps, {"p": p})
        assert f"{place + 5} at index {place} is below {place + 6}" in str(caught.value)


def test_time_stamps_that_decrease_from_batch_to_batch() -> None:
    table = pyarrow.concat_tables(TABLE.slice(place, 1) for place in (0, 2, 1))
    assert table["time_stamp"].num_chunks == 3
    monitor = Monitor("p")
    with pytest.raises(TimeStampError, match="at index 2 is below"):
        monitor.feed(table)
    assert monitor.counters == Monitor("p").counters


@pytest.mark.parametrize("case", BAD)
def test_bad_batches_leave_the_monitor_as_it_was(case: str) -> None:
    arguments, options, kind, message, index = BAD[case]
    monitor, undisturbed = (Monitor("(EVENTUALLY[0,5] p) AND NEXT q") for _ in range(2))
    for each in (monitor, undisturbed):
        each.step(5)
        each.step(5, {"q"})
    with pytest.raises(kind, match=message) as caught:
        monitor.feed(*arguments, **options)
    assert getattr(caught.value, "index", None) == index
    assert monitor.counters == undisturbed.counters
    assert monitor.pending == undisturbed.pending
    rest = ([5, 6, 7], BOOLEANS)
    assert monitor.feed(*rest) == undisturbed.feed(*rest)


def test_unknown_columns_and_bits_are_ignored() -> None:
    monitor = Monitor("p")
    assert monitor.feed([1], {"p": [True], "r": ["x"]}).kind.tolist() == [1]
    assert monitor.feed([1], [6]).kind.tolist() == [0]
    table = TABLE.append_column("r", pyarrow.array(["x", None, "y"]))
    assert monitor.feed(table).kind.tolist() == [1, 1, 1]


def test_whatever_gives_a_table_away() -> None:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return TABLE.__arrow_c_stream__(requested_schema)

    class Array:
        def __arrow_c_array__(
            self, requested_schema: object | None = None
        ) -> tuple[object, object]:
            (batch,) = TABLE.to_batches()
            capsules: tuple[object, object] = batch.__arrow_c_array__(requested_schema)
            return capsules

    class Broken:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            raise ValueError("no stream today")

    expected = Monitor("p AND q").feed(TABLE)
    assert expected.kind.tolist() == [1, 1, 1]
    for source in (Stream(), Array(), TABLE.to_reader(), TABLE.to_pandas()):
        assert Monitor("p AND q").feed(source) == expected
    with pytest.raises(EventTypeError, match="no stream today"):
        Monitor("p").feed(Broken())


def test_columns_of_pandas_and_arrow_are_arrays() -> None:
    frame = TABLE.to_pandas()
    verdicts = Monitor("p").feed(frame["time_stamp"], {"p": frame["p"]})
    assert verdicts == Monitor("p").feed(TABLE["time_stamp"], {"p": TABLE["p"]})
    assert verdicts.time_stamp.tolist() == [5, 6, 7]


def test_a_fault_in_the_middle_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided before it is in the exception; a reset mends the monitor."""
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 4)
    formula = with_expressions(
        "EVENTUALLY[0,90] ((EVENTUALLY[3,40] p) AND (r OR EVENTUALLY[5,70] q))"
    )
    events = [Event(i, frozenset("r") if i % 2 else frozenset()) for i in range(60)]
    before = Monitor(formula)
    expected: list[str] = []
    done = 0
    with pytest.raises(LimitError):
        for event in events:
            expected += map(str, before.step(*event))
            done += 1
    monitor = Monitor(formula)
    with pytest.raises(LimitError) as caught:
        monitor.feed(time_stamps_of(events), matrix_of(events, monitor.atoms))
    assert [str(verdict) for verdict in caught.value.verdicts] == expected  # type: ignore[attr-defined]
    assert monitor.counters["events"] == done
    with pytest.raises(MonitorBrokenError, match="`reset` it"):
        monitor.feed(table_of(events, monitor.atoms))
    monitor.reset()
    assert stepped(monitor, events[:done]) == expected
