"""Policies with keys of their own answer in one run as in runs of their own."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Monitor, Resolution, SnapshotError, parse
from mtlmon.policy import Policy
from tests.checking.logs import LogOfRows, Rows, lines_with_keys
from tests.doors import (
    KeyTable,
    LogCheck,
    TextOutput,
    TraceKeys,
    decision_delay,
    number_rows,
    partitions_of,
)
from tests.doors import checking_idle_keys as idle_keys
from tests.strategies import ATOMS, formulas

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon import Formula
    from tests.doors import Partitions

Event = tuple[int, dict[str, str], frozenset[str]]
"""A time-stamp, the columns of a row, the atoms that hold."""

Key = tuple[str, ...] | None

KEYS: list[Key] = [None, (), ("user",), ("host",), ("host", "user"), ("user", "host")]
FORMULAS = [
    "p IMPLIES EVENTUALLY[0,5] q",
    "q IMPLIES ONCE[0,9] p",
    "p SINCE[2,8] (q AND NEXT[0,1] p)",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "PREVIOUS[0,4] p",
    "p IMPLIES EVENTUALLY[2,6] r",
]


def policies(*given: tuple[str | Formula, Key]) -> list[Policy]:
    """Policies named by their numbers."""
    made = []
    for number, (written, key) in enumerate(given):
        formula = parse(written) if isinstance(written, str) else written
        made.append(Policy(str(number), formula, formula, key))
    return made


def random_events(seed: object, count: int, users: int, hosts: int) -> list[Event]:
    source = random.Random(str(seed))
    clock = 0
    events: list[Event] = []
    for _ in range(count):
        clock += source.choice([0, 0, 0, 1, 1, 2, 7])
        row = {"user": f"u{source.randrange(users)}", "host": f"h{source.randrange(hosts)}"}
        held = frozenset(name for name in ATOMS if source.random() < 0.4)
        events.append((clock, row, held))
    return events


@st.composite
def drawn_events(draw: st.DrawFn) -> list[Event]:
    row = st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 3, 9]),
        st.fixed_dictionaries({"user": st.sampled_from("abc"), "host": st.sampled_from("xy")}),
        st.frozensets(st.sampled_from(ATOMS)),
    )
    clock = 0
    events = []
    for gap, columns, held in draw(st.lists(row, max_size=25)):
        clock += gap
        events.append((clock, columns, held))
    return events


class Batch(Rows):
    def __init__(self, events: Sequence[Event], log: Log) -> None:
        super().__init__(events)
        self._numbers = [
            None
            if table is None
            else number_rows(table, [pa.array([event[1][n] for event in events]) for n in names])
            for names, table in zip(log.partitions.columns, log.key_tables, strict=True)
        ]

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        return self._numbers[partition]


class Log(LogOfRows):
    """Events in batches of some sizes, with the keys of some partitions."""

    def __init__(
        self, events: Sequence[Event], sizes: Sequence[int], partitions: Partitions
    ) -> None:
        self.events = events
        self.sizes = sizes
        self.partitions = partitions
        self.key_tables = tuple(
            KeyTable(len(names)) if names else None for names in partitions.columns
        )

    def __iter__(self) -> Iterator[Batch]:
        start = 0
        while start < len(self.events):
            for size in self.sizes:
                part = self.events[start : start + size]
                start += size
                if part:
                    self.clock = part[-1][0]
                    yield Batch(part, self)


def all_lines(check: LogCheck, log: Log, end_time: Any = None) -> list[str]:
    return lines_with_keys(check, log, TraceKeys(check.partitions, log.key_tables), end_time)


def run(
    asked: Sequence[Policy],
    events: Sequence[Event],
    sizes: Sequence[int],
    key: tuple[str, ...],
    end_time: Any = None,
    mode: Any = "local",
    **options: Any,
) -> tuple[list[str], LogCheck]:
    check = LogCheck(asked, mode, key=key, **options)
    return all_lines(check, Log(events, sizes, check.partitions), end_time), check


def by_policy(lines: Sequence[str], columns: Sequence[str]) -> dict[str, list[Any]]:
    """The verdicts of each policy in their order, each with the texts of key columns, if any."""
    found: dict[str, list[Any]] = {}
    for line in lines:
        policy, *texts, verdict = line.split("\t")
        key = {name: text for name, text in zip(columns, texts, strict=True) if text}
        found.setdefault(policy, []).append((key, verdict))
    return found


def expected_lines(
    asked: Sequence[Policy],
    events: Sequence[Event],
    mode: Any,
    key: tuple[str, ...],
    *,
    resolve: bool,
    end_time: Any,
    advance_every: int | None = None,
) -> list[str]:
    """What a monitor for each policy and key says, in the order in which a check says it."""
    keys = [key if policy.key is None else policy.key for policy in asked]
    mentioned = [*([key] if key in keys else []), *keys]
    columns = list(dict.fromkeys(name for names in mentioned for name in names))
    monitors: dict[tuple[int, tuple[str, ...]], tuple[Monitor, Resolution]] = {}
    # the traces of each partition, both in order of first use
    traces: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, str]]] = {
        names: {} for names in keys
    }
    lines: list[str] = []

    def emit(number: int, trace: tuple[str, ...], verdicts: list[Any]) -> None:
        if resolve:
            verdicts = monitors[number, trace][1].push(verdicts)
        row = traces[keys[number]][trace]
        texts = [row.get(name, "") for name in columns]
        lines.extend("\t".join([str(number), *texts, str(verdict)]) for verdict in verdicts)

    def all_traces() -> Iterator[tuple[int, tuple[str, ...]]]:
        for names, some in traces.items():
            for trace in some:
                yield from ((n, trace) for n, own in enumerate(keys) if own == names)

    clock: int | None = None
    for time_stamp, row, atoms in events:
        if (
            advance_every is not None
            and clock is not None
            and time_stamp // advance_every != clock // advance_every
        ):
            for number, trace in all_traces():
                monitor = monitors[number, trace][0]
                delay = decision_delay(asked[number].formula)
                if delay is None or not monitor.pending:
                    continue
                if time_stamp - monitor.pending[0].time_stamp > delay:
                    emit(number, trace, monitor.advance(time_stamp))
        clock = time_stamp
        for number, (policy, names) in enumerate(zip(asked, keys, strict=True)):
            trace = tuple(row[name] for name in names)
            traces[names].setdefault(trace, {name: row[name] for name in names})
            if (number, trace) not in monitors:
                monitors[number, trace] = (Monitor(policy.formula, mode), Resolution())
            emit(number, trace, monitors[number, trace][0].step(time_stamp, atoms))
    for number, trace in all_traces():
        assert clock is not None
        monitor = monitors[number, trace][0]
        # what the end decides has its value, and is no equivalence first
        if end_time == "inf":
            verdicts = monitor.finish("inf")
        else:
            verdicts = monitor.advance(clock + 1 if end_time == "last" else clock)
        emit(number, trace, sorted(verdicts, key=lambda one: (one.time_stamp, one.offset)))
    return lines


# ---- in one pass, as apart -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["naive", "local", "global"])
@pytest.mark.parametrize("resolve", [False, True])
@pytest.mark.parametrize("sizes", [[1], [300, 17], [5000]])
def test_each_policy_has_the_traces_of_its_key(mode: Any, resolve: bool, sizes: list[int]) -> None:
    asked = policies(*zip(FORMULAS, KEYS, strict=True))
    for end_time in None, "last", "inf":
        events = random_events((mode, end_time), 300, 20, 3)
        found, check = run(asked, events, sizes, ("user",), end_time, mode, resolve=resolve)
        assert found == expected_lines(
            asked, events, mode, ("user",), resolve=resolve, end_time=end_time
        )
        assert check.partitions.all_columns == ("user", "host")
        apart = by_policy(found, check.partitions.all_columns)
        for number, policy in enumerate(asked):
            lines, alone = run([policy], events, [70], ("user",), end_time, mode, resolve=resolve)
            own = by_policy(lines, alone.partitions.all_columns)
            assert apart[str(number)] == own[str(number)]
            assert check.counts[number] == alone.counts[0]


@given(
    st.lists(st.tuples(formulas(depth=2), st.sampled_from(KEYS)), min_size=1, max_size=4),
    st.sampled_from([(), ("user",), ("host", "user")]),
    drawn_events(),
    st.sampled_from(["naive", "local", "global"]),
    st.booleans(),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from([None, "last", "inf"]),
)
def test_any_policies_with_any_keys(
    chosen: Any,
    key: tuple[str, ...],
    events: list[Event],
    mode: Any,
    resolve: bool,
    sizes: list[int],
    end_time: Any,
) -> None:
    """Also if keys are forgotten as soon as possible."""
    asked = policies(*chosen)
    expected = expected_lines(asked, events, mode, key, resolve=resolve, end_time=end_time)
    assert run(asked, events, sizes, key, end_time, mode, resolve=resolve)[0] == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idle_keys, "_IDLE_KEYS", 0)
        found, check = run(asked, events, sizes, key, end_time, mode, resolve=resolve)
    # A key that comes back after it was forgotten is a later one at the end.
    assert sorted(found) == sorted(expected)
    if not any(check.keys_forgotten):
        assert found == expected


@given(
    st.lists(st.tuples(formulas(depth=2), st.sampled_from(KEYS)), min_size=2, max_size=4),
    drawn_events(),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(1, 5),
)
def test_time_passes_for_all_partitions(
    chosen: Any, events: list[Event], sizes: list[int], every: int
) -> None:
    asked = policies(*chosen)
    found, _ = run(asked, events, sizes, ("host",), "last", advance_every=every, keep_keys=True)
    assert found == expected_lines(
        asked, events, "local", ("host",), resolve=False, end_time="last", advance_every=every
    )


@pytest.mark.parametrize("sizes", [[1], [7, 2], [5000]])
@pytest.mark.parametrize("seed", range(6))
def test_the_first_violation_of_all_partitions(sizes: list[int], seed: int) -> None:
    """It is the least by time-stamp, policy, key and offset."""
    chosen = ["p IMPLIES EVENTUALLY[0,5] (p AND q)", "q IMPLIES ONCE[0,3] (p AND q AND r)"]
    keys: list[Key] = [("host",), ("user",), ()]
    source = random.Random(seed)
    asked = policies(*((source.choice(chosen), source.choice(keys)) for _ in range(4)))
    events = [
        (time, row, held | {"r"} if time < 9 * seed else held)
        for time, row, held in random_events(("first", seed), 400, 5, 2)
    ]
    found, check = run(asked, events, sizes, (), verdicts="first")
    columns = check.partitions.all_columns
    numbers: dict[Any, dict[tuple[str, ...], int]] = {}
    for policy in asked:
        own = numbers.setdefault(policy.key, {})
        for _, row, _ in events:
            own.setdefault(tuple(row[name] for name in policy.key or ()), len(own))
    false = []
    for line in expected_lines(asked, events, "naive", (), resolve=False, end_time=None):
        number, *texts, verdict = line.split("\t")
        name, value = verdict.split(" ")
        if value == "false":
            key = asked[int(number)].key or ()
            row = dict(zip(columns, texts, strict=True))
            trace = numbers[key][tuple(row[name] for name in key)]
            time_stamp, offset = map(int, name.split(":"))
            false.append((time_stamp, int(number), trace, offset, line))
    assert found == [min(false)[4]]
    assert check.is_stopped
    single = run(asked, events, [1], (), verdicts="first")[1]
    assert (check.counts, check.event_count) == (single.counts, single.event_count)
    assert check.key_counts == single.key_counts


# ---- keys that are forgotten, and restarts -----------------------------------------------------


def test_each_partition_forgets_its_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 100)
    events = [
        (
            number // 2,
            {"user": f"u{number // 3}", "host": f"h{number % 150}"},
            frozenset({"p"} if number % 3 == 0 else {"q"}),
        )
        for number in range(9000)
    ]
    asked = policies(
        ("p IMPLIES EVENTUALLY[0,5] q", ("user",)),
        ("ONCE (p OR q)", ("host",)),
        ("q IMPLIES ONCE[0,9] p", ("user",)),
        # always with open equivalences, as the other keys are forgotten
        ("EVENTUALLY[0,40] r", ()),
    )
    check = LogCheck(asked, resolve=True)
    log = Log(events, [50], check.partitions)
    expected = expected_lines(asked, events, "local", (), resolve=True, end_time="last")
    assert all_lines(check, log, "last") == expected
    tables = [0 if table is None else len(table) for table in log.key_tables]
    assert check.key_counts == [tables[0], 150, 1]
    assert tables[0] <= 200
    assert check.keys_forgotten[0] == 3000 - tables[0]
    assert check.keys_forgotten[1:] == [0, 0]
    assert check.state_bytes[0] < 100_000


@pytest.mark.parametrize("options", [{}, {"resolve": True}, {"verdicts": "first"}])
@given(
    chosen=st.lists(st.tuples(formulas(depth=2), st.sampled_from(KEYS)), min_size=2, max_size=3),
    events=drawn_events(),
    slices=st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_going_on_from_snapshots(
    options: dict[str, Any], chosen: Any, events: list[Event], slices: list[int]
) -> None:
    """A check that goes on in a new one after every few events."""
    asked = policies(*chosen)
    expected, whole = run(asked, events, [4], ("user",), "last", **options)
    check = LogCheck(asked, key=("user",), **options)
    log = Log(events, slices, check.partitions)
    names = [policy.name for policy in asked]
    lines = b""
    snapshot = check.snapshot()
    tables = log.key_tables

    def take() -> None:
        nonlocal lines
        output = TextOutput(names, TraceKeys(check.partitions, log.key_tables))
        output.put(check.verdicts)
        lines += output.writer.take()

    for batch in log:
        for _ in check.feed(batch, log):
            take()
        snapshot = check.snapshot()
        check = LogCheck(asked, key=("user",), **options)
        check.restore(snapshot)
        tables = log.key_tables
        log.key_tables = tuple(None if one is None else KeyTable(one.columns) for one in tables)
        for table, new in zip(tables, log.key_tables, strict=True):
            if table is not None and new is not None:
                new.restore(table.snapshot())
        if check.is_stopped:
            break
    if not check.is_stopped:
        for _ in check.end(log, "last"):
            pass
        take()
    assert lines.decode().splitlines() == expected
    assert check.counts == whole.counts
    assert check.key_counts == whole.key_counts


def test_a_snapshot_belongs_to_its_keys() -> None:
    events = random_events("snapshot", 30, 3, 2)
    check = LogCheck(policies(("p", ("user",)), ("q", None)), key=("host",))
    log = Log(events, [30], check.partitions)
    for batch in log:
        for _ in check.feed(batch, log):
            check.verdicts.taken()
    snapshot = check.snapshot()
    other = LogCheck(policies(("p", ("user",)), ("q", None)), key=("user",))
    with pytest.raises(SnapshotError, match="policies with other keys"):
        other.restore(snapshot)


# ---- the columns of keys -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "default", "columns", "of_policies", "all_columns"),
    [
        ([None, None], (), [()], (0, 0), ()),
        ([None, None], ("ip",), [("ip",)], (0, 0), ("ip",)),
        ([(), None], ("ip",), [(), ("ip",)], (0, 1), ("ip",)),
        ([("user",), None], ("ip",), [("user",), ("ip",)], (0, 1), ("ip", "user")),
        ([("user",)], ("ip",), [("user",)], (0,), ("user",)),
        (
            [("b", "a"), ("a",), ("c", "a"), ("a",)],
            (),
            [("b", "a"), ("a",), ("c", "a")],
            (0, 1, 2, 1),
            ("b", "a", "c"),
        ),
    ],
)
def test_columns_in_order_of_first_mention(
    keys: list[Key],
    default: tuple[str, ...],
    columns: list[tuple[str, ...]],
    of_policies: tuple[int, ...],
    all_columns: tuple[str, ...],
) -> None:
    found = partitions_of(keys, default)
    assert found == (tuple(columns), of_policies, all_columns)
    for names, places in zip(found.columns, found.places, strict=True):
        assert tuple(all_columns[place] for place in places) == names


def test_a_named_case() -> None:
    """The order at an event, and at the end of the log."""
    asked = policies(
        ("EVENTUALLY[0,9] q", ("user",)), ("p", ()), ("EVENTUALLY[0,9] q", ("host", "user"))
    )
    events: list[Event] = [
        (1, {"user": "ann", "host": "x"}, frozenset("p")),
        (2, {"user": "bob", "host": "x"}, frozenset()),
        (3, {"user": "ann", "host": "y"}, frozenset("pq")),
    ]
    found, _ = run(asked, events, [2], (), "inf", resolve=True)
    assert found == [
        "1\t\t\t1:0 true",
        "1\t\t\t2:0 false",
        "0\tann\t\t1:0 true",
        "0\tann\t\t3:0 true",
        "1\t\t\t3:0 true",
        "2\tann\ty\t3:0 true",
        "0\tbob\t\t2:0 false",
        "2\tann\tx\t1:0 false",
        "2\tbob\tx\t2:0 false",
    ]
