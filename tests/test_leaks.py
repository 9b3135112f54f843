"""Memory stays flat while monitors are made, used and dropped.

The interpreter counts its objects and the C library its allocations, both exactly, so a leak of a
few bytes a round shows in few rounds. `.ci/leaks` runs many (MTLMON_LEAK_ROUNDS).
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import mtlmon
from mtlmon import RelationalMonitor
from mtlmon.errors import FormulaError, LogError, MtlmonError, TimeStampError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.slicing import plan_slices
from mtlmon.verdict_arrays import verdict_type
from tests.doors import (
    Codes,
    Contacts,
    CountAggregate,
    DistinctAggregate,
    Folds,
    Groups,
    KeyTable,
    LeastAggregate,
    Multiplicities,
    Numbering,
    Pairs,
    PointBlock,
    PolicyLines,
    QuantileAggregate,
    RelationalEngine,
    Router,
    SavedState,
    Segments,
    SplitBlock,
    Splitter,
    SumAggregate,
    TextMonitor,
    TextResolver,
    VerdictRows,
    engine_of,
    has_overlaps,
    plan,
    policy_label,
    routing_of,
)
from tests.doors import RelationOwnAggregate as OwnAggregate
from tests.doors import RelationTimeline as Timeline
from tests.doors import Timeline as PointTimeline
from tests.doors import predicates_own_aggregates as own_aggregates
from tests.doors import streams_native as native
from tests.memory.test_relations import DECLARED
from tests.memory.test_relations import FORMULAS as RELATIONAL
from tests.public_objects import CASES

_ROUNDS = int(os.environ.get("MTLMON_LEAK_ROUNDS", "200"))
# Caches fill and freelists grow in the first rounds.
_WARM_UP_ROUNDS = 20


def _first(left: object, right: object) -> object:
    return left


def _fails(left: object, right: object) -> object:
    raise ValueError("no")


_INT = own_aggregates.RESULTS["int"]
FIRST = own_aggregates.OwnAggregate("first", int, _first, int, None, _INT)
FAILING = own_aggregates.OwnAggregate("fails", int, _fails, int, None, _INT)

FORMULAS = {
    "atom": "p",
    "future": "p UNTIL[0,5] q",
    "nested": "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "past-and-future": "p SINCE[2,8] (q OR PREVIOUS[0,3] EVENTUALLY[1,4] p)",
    "unbounded": "NEXT (p OR (q UNTIL ONCE[0,4] p))",
    "needs-bdd": "((EVENTUALLY[0,3] p) EQUIV EVENTUALLY[1,4] q) OR NEXT (p EQUIV (NEXT q))",
}
Mode = Literal["local", "global", "naive"]
MODES: tuple[Mode, ...] = get_args(Mode)

EVENTS = [
    (i // 2, {atom for atom, period in [("p", 3), ("q", 5)] if i % period == 0}) for i in range(40)
]
LOG = "".join(f"@{time_stamp} {' '.join(sorted(atoms))}\n" for time_stamp, atoms in EVENTS).encode()


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _allocated_bytes() -> int:
    """Bytes that the C library has handed out; 0 where it does not tell."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    library.mallinfo2.restype = _Mallinfo
    information = library.mallinfo2()
    return int(information.uordblks + information.hblkhd)


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _assert_flat(work: Callable[[], object], most: int = _ROUNDS) -> None:
    """Run the work many times: neither objects, nor allocations, nor resident memory grow."""

    def repeat(rounds: int) -> tuple[int, int, int]:
        for _ in range(rounds):
            work()
            # Young cycles go at once, else resident memory tells how many of them had gathered.
            gc.collect(0)
        gc.collect()
        return sys.getallocatedblocks(), _allocated_bytes(), _resident_bytes()

    repeat(_WARM_UP_ROUNDS)
    rounds = min(_ROUNDS, most)
    # What tests before have left in pieces, and what is kept for later, may grow at first; a leak
    # grows on.
    for _ in range(3):
        before = repeat(1)
        after = repeat(rounds)
        objects, allocated, resident = (b - a for a, b in zip(before, after, strict=True))
        assert objects < rounds / 4
        if allocated < 4 * rounds + 4096 and resident < 1 << 20:
            return
    raise AssertionError(
        f"memory has grown by {allocated:,} bytes, resident memory by {resident:,}, and has grown "
        "the times before"
    )


@pytest.fixture(params=FORMULAS)
def formula(request: pytest.FixtureRequest) -> str:
    return FORMULAS[request.param]


@pytest.mark.parametrize("mode", MODES)
def test_monitors_come_and_go(formula: str, mode: Mode) -> None:
    def work() -> None:
        monitor = mtlmon.Monitor(formula, mode=mode)
        for time_stamp, atoms in EVENTS:
            monitor.step(time_stamp, atoms)
        monitor.advance(EVENTS[-1][0] + 2)
        monitor.finish("inf")

    _assert_flat(work)


@pytest.mark.parametrize("mode", MODES)
def test_monitors_are_dropped_with_events_pending(formula: str, mode: Mode) -> None:
    def work() -> None:
        for verdict in mtlmon.Monitor(formula, mode=mode)(EVENTS):
            if verdict.time_stamp > EVENTS[-1][0] // 2:
                break

    _assert_flat(work)


@pytest.mark.parametrize("mode", MODES)
def test_saved_states_come_and_go(formula: str, mode: Mode) -> None:
    def work() -> None:
        monitor = mtlmon.Monitor(formula, mode=mode)
        start = SavedState(monitor)
        for time_stamp, atoms in EVENTS:
            monitor.step(time_stamp, atoms)
            state = SavedState(monitor)
            state.load(monitor)
            assert state.is_state_of(monitor)
        start.load(monitor)

    _assert_flat(work)


def test_snapshots_come_and_go(formula: str) -> None:
    monitor = mtlmon.Monitor(formula)
    for event in EVENTS:
        monitor.step(*event)
    snapshot = monitor.snapshot()

    def work() -> None:
        other = mtlmon.Monitor(formula)
        for _ in range(2):
            other.restore(snapshot)
        assert other.snapshot() == snapshot
        with pytest.raises(mtlmon.SnapshotError):
            mtlmon.Monitor(formula).restore(snapshot[:-1])

    _assert_flat(work)


def test_monitors_go_with_reference_cycles(formula: str) -> None:
    """The collector empties objects before they are freed; what they own must be freed still."""

    def work() -> None:
        cycle: list[object] = [mtlmon.Monitor(formula), TextMonitor(mtlmon.Monitor(formula))]
        cycle.append(cycle)

    _assert_flat(work)


def test_one_monitor_goes_on(formula: str) -> None:
    monitor = mtlmon.Monitor(formula)
    length = EVENTS[-1][0] + 1

    def starts() -> Iterator[int]:
        start = 0
        while True:
            yield start
            start += length

    start = starts()

    def work() -> None:
        offset = next(start)
        for time_stamp, atoms in EVENTS:
            monitor.step(offset + time_stamp, atoms)

    _assert_flat(work)


def _run_text(text: TextMonitor | TextResolver, *blocks: bytes) -> None:
    for block in blocks:
        text.load(block)
        while text.run():
            text.writer.take()
    text.load_end()
    text.run()
    text.end("last")
    while text.run():
        text.writer.take()


@pytest.mark.parametrize("resolve", [False, True])
def test_text_runs_come_and_go(formula: str, resolve: bool) -> None:
    middle = len(LOG) // 2

    def work() -> None:
        text = TextMonitor(mtlmon.Monitor(formula), resolve=resolve)
        _run_text(text, LOG[:middle], LOG[middle:])

    _assert_flat(work)


def test_lines_that_are_read_ahead_come_and_go() -> None:
    def work() -> None:
        text = TextMonitor(mtlmon.Monitor("p UNTIL[0,5] q"))
        batches = [text.new_batch(1 << size) for size in (4, 12)]
        text.load_ahead(LOG)
        for batch in batches:
            text.scan_ahead(batch)
            text.take(batch)
            while text.run():
                text.writer.take()

    _assert_flat(work)


def test_text_runs_with_errors(formula: str) -> None:
    def work() -> None:
        with pytest.raises(LogError):
            _run_text(TextMonitor(mtlmon.Monitor(formula)), LOG, b"@ 5\n")
        _run_text(TextMonitor(mtlmon.Monitor(formula), skip_errors=True), LOG, b"@ 5\n", b"@99")

    _assert_flat(work)


@pytest.mark.parametrize("in_order", [False, True])
def test_text_resolvers_come_and_go(in_order: bool) -> None:
    keys = range(100)
    opened = b"".join(b"k%d\t1:1 = 1:0\n1:%d = 1:0\n" % (key, 2 * key + 1) for key in keys)
    closed = b"".join(b"k%d\t1:0 true\nk%d\t3:0 false\n" % (key, key) for key in keys)

    def work() -> None:
        for blocks in (opened, closed, b"1:0 true\n"), (opened,), (opened, closed[:-7], b" true"):
            _run_text(TextResolver(in_order=in_order), *blocks)
        with pytest.raises(LogError):
            _run_text(TextResolver(in_order=in_order), opened, b"1:0 = 1:0\n")

    _assert_flat(work)


def test_lines_of_policies_come_and_go() -> None:
    keys = KeyTable(2)
    names = [None, "a \n name", "x" * 100]
    places = np.zeros(3, np.uint32)

    def work() -> None:
        for format, columns in ("text", ()), ("jsonl", (b'"k"', b'"l"')):
            for key_table in None, keys:
                lines = PolicyLines(names, key_table, format=format, key_columns=columns)  # type: ignore[arg-type]
                rows = VerdictRows()
                for number in range(3):
                    rows.add_false(number, 0, 0, number)
                if key_table is None:
                    lines.write(rows, ["a", "b" * 50], places)
                    assert lines.writer.take().count(b"\n") == 3
                    continue
                with pytest.raises(IndexError):
                    lines.write(rows)
            policy_label(names[1], format)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="1 names"):
            PolicyLines(names, keys, format="jsonl", key_columns=(b"",))

    _assert_flat(work)


def test_resolutions_come_and_go() -> None:
    verdicts = list(mtlmon.Monitor("EVENTUALLY[0,5] p")(EVENTS))
    array = np.zeros(20, verdict_type())
    array["offset"] = range(20)
    array["kind"][1:] = 2

    def work() -> None:
        list(mtlmon.resolve(verdicts, in_order=True))
        next(mtlmon.resolve(mtlmon.Monitor("EVENTUALLY[0,5] p")(EVENTS), in_order=True))
        mtlmon.Summary(verdicts[:-1])
        mtlmon.resolve(array)
        mtlmon.Resolution(in_order=True).push_array(array)
        with pytest.raises(mtlmon.MtlmonError):
            mtlmon.resolve(array[["kind"]])

    _assert_flat(work)


def test_formulas_are_built_and_dropped() -> None:
    def work() -> None:
        formula = mtlmon.atom("p").until(mtlmon.eventually(mtlmon.atom("q"), 0, "5s"), "1s", "2s")
        formula.substitute({"p": formula}).in_unit("ms")
        repr(formula)

    _assert_flat(work)


def test_errors() -> None:
    def work() -> None:
        with pytest.raises(FormulaError):
            mtlmon.parse("p UNTIL[5,2] q")
        monitor = mtlmon.Monitor("EVENTUALLY[0,5] p")
        monitor.step(7, {"p"})
        with pytest.raises(TimeStampError):
            monitor.step(6, {"p"})

    _assert_flat(work)


def test_look_ups_in_relations_come_and_go() -> None:
    count = 300
    starts = np.arange(count)
    values = starts * 7 % 101

    def work() -> None:
        records = Timeline(starts, starts + 7, None, None, count)
        for _ in range(2):
            assert Contacts(records, [values % 11]).found is not None
        codes = Codes()
        numbers = np.frombuffer(codes.number(values, count), np.int64)
        codes.find(np.frombuffer(codes.values, np.int64), codes.count)
        found = Segments(records, numbers, None, codes.count)
        found.find(starts, numbers, count, -1)
        assert Segments(records, numbers % 3, None, 3).overlapping is not None
        has_overlaps(records, Numbering(numbers.astype(np.uint32), count))
        with pytest.raises(ValueError, match="too great"):
            Segments(records, numbers, None, 3)

    _assert_flat(work)


def test_sweeps_of_relations_come_and_go() -> None:
    count = 300
    starts = np.arange(count)
    ends = starts + 7
    values = starts % 11
    keys = Numbering((starts % 5).astype(np.uint32), count)
    floats = (values * 1e40).view(np.int64)

    def work() -> None:
        records = Timeline(starts, ends, None, None, count)
        Multiplicities("less", records, keys, count // 2)
        pairs = Pairs(records, keys, records, keys, 5)
        while pairs.find(100):
            pass
        aggregates = [
            CountAggregate(None, None, count),
            SumAggregate(values, None, count, "sum", False),
            SumAggregate(floats, None, count, "stddev", True),
            LeastAggregate(values, None, count),
            DistinctAggregate(values, None, count, 11),
            QuantileAggregate(values, None, count, 0.5),
            OwnAggregate(None, None, count, Folds(FIRST, values.tolist(), range(count))),
        ]
        Groups(records, keys, aggregates)
        failing = Folds(FAILING, values.tolist(), range(count))
        with pytest.raises(MtlmonError, match="failed"):
            Groups(records, keys, [OwnAggregate(None, None, count, failing)])
        with pytest.raises(ValueError, match="different lengths"):
            Groups(records, keys, [CountAggregate(None, None, count - 1)])
        with pytest.raises(ValueError, match="needs values"):
            Groups(records, keys, [LeastAggregate(None, None, count)])
        with pytest.raises(ValueError, match="number of a value is too great"):
            DistinctAggregate(values, None, count, 10)
        with pytest.raises(ValueError, match="unknown rule"):
            Multiplicities("few", records, keys, count)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not in the order"):
            Timeline(starts[::-1].copy(), ends, None, None, count)
        with pytest.raises(ValueError, match="number of a key"):
            Pairs(records, keys, records, keys, 2)

    _assert_flat(work)


def test_rows_in_rounds_come_and_go() -> None:
    """States between chunks, late rows, chunks that are forgotten, and an error of the caller."""
    count = 60
    times = np.concatenate([np.arange(count), np.arange(0, count, 7)])
    traces = (np.arange(len(times)) % 3).astype(np.uint32)
    offsets = np.arange(len(times)).astype(np.uint64)
    results, validity = np.empty(len(times), np.int64), np.empty(len(times), np.uint8)

    def work() -> None:
        kernels: list[native.Kernel] = [
            native.SumWindow("var", False, 0, -1),
            native.QueueWindow("max", False, 0, 9),
            native.QuantileWindow(0.5, 0, 9),
        ]
        for kernel in kernels:
            kernel.by_trace()

        def compute(
            slots: bytes, where: bytes, moments: bytes | None, saved: bytearray | None
        ) -> None:
            places = np.frombuffer(where, np.int64)
            batch = native.Batch(
                times[places], np.frombuffer(slots, np.uint32), len(places), 0, True
            )
            if moments is not None and saved is not None:
                batch.mark(np.frombuffer(moments, np.int64), np.frombuffer(saved, np.uint64), 3)
            for kernel in kernels:
                kernel.begin()
                kernel.feed(batch, times[places], None, results, validity)
            if len(places) == 1:
                raise ValueError("the last row")

        history = native.RoundHistory(kernels, compute, 4)
        signs = np.ones(len(times), np.int8)
        for part in (slice(0, count), slice(count, len(times))):
            rows = (
                traces[part],
                times[part],
                offsets[part],
                np.arange(len(times))[part],
                signs[part],
            )
            history.push(*rows)
        history.forget(count // 2, 3)
        history.take_places()
        history.at_starts(lambda: [kernel.snapshot() for kernel in kernels])
        with pytest.raises(ValueError, match="the last row"):
            history.push(
                traces[:1], times[count - 1 : count], offsets[:1], np.zeros(1, int), signs[:1]
            )

    _assert_flat(work)


class Latest:
    """The last time of rows as the state of a whole program."""

    def __init__(self, times: NDArray[np.int64], *, fails: bool = False) -> None:
        self.times = times
        self.fails = fails
        self.of: dict[int, bytes] = {}

    def saved(self, slot: int) -> bytes:
        return self.of.get(slot, b"")

    def load(self, slot: int, state: bytes | None) -> None:
        self.of[slot] = state or b""

    def move(self, slot: int, target: int) -> None:
        self.of[target] = self.of.pop(slot)

    def compute(
        self, slot: int, group: int, chunk: int, start: int, where: bytes, until: int
    ) -> tuple[int, int]:
        for place in np.frombuffer(where, np.int64).tolist():
            self.of[slot] = str(self.times[place]).encode()
            if self.fails and slot % 2:
                raise ValueError("the first row")
        return until, 1

    def cut(self, slot: int, group: int, chunk: int, where: bytes, until: int) -> None:
        self.compute(slot, group, chunk, 0, where, until)


def test_rows_with_states_of_a_whole_program_come_and_go() -> None:
    count = 60
    times = np.concatenate([np.arange(count), np.arange(1, count, 7)])
    traces = np.zeros(len(times), np.uint32)
    offsets, places = np.arange(len(times)).astype(np.uint64), np.arange(len(times))
    signs = np.ones(len(times), np.int8)

    def work() -> None:
        states = Latest(times)
        history = native.RoundHistory([native.WholeState(states)], None, 4)
        for part in (slice(0, count), slice(count, len(times))):
            rows = (traces[part], times[part], offsets[part], places[part], signs[part])
            history.push(*rows)
        history.pass_time(0, count + 5)
        assert history.last_of(0) == count + 5
        assert [state for *_, state in history.starts()] == [b""]
        history.touch(0, 1)
        history.push(*(column[:0] for column in rows))
        history.forget(count // 2, 3)
        history.cut(0, count // 2)
        assert [state for *_, state in history.starts()] == [str(count // 2 - 1).encode()]
        with pytest.raises(IndexError, match="no such chunk"):
            history.touch(0, 1000)
        failing = native.WholeState(Latest(times, fails=True))
        other = native.RoundHistory([failing], None, 4)
        other.push(traces[:9], times[:9], offsets[:9], places[:9], signs[:9])
        with pytest.raises(ValueError, match="the first row"):
            other.push(traces[:1], times[:1], offsets[:1], places[:1], 0 * signs[:1])

    _assert_flat(work)


def test_states_by_trace_are_not_those_of_a_whole_program() -> None:
    kernel = native.CountWindow(0, 9)
    kernel.by_trace()
    history = native.RoundHistory([kernel], lambda *_: None, 4)
    for ask in (history.starts, lambda: history.pass_time(0, 9), lambda: history.cut(0, 9)):
        with pytest.raises(ValueError, match="by trace"):
            ask()
    with pytest.raises(TypeError, match="the only one"):
        native.RoundHistory([kernel, native.WholeState(Latest(np.zeros(1, int)))], None, 4)


@pytest.mark.parametrize("name", ["History", "RelationalMonitor", "MonPolyMonitor", "Resolution"])
def test_public_objects_come_and_go(name: str) -> None:
    """With what they answer, and as they go on from a snapshot. None takes objects of Arrow."""
    case = CASES[name]

    def work() -> None:
        made = case.make()
        case.works(made, random.Random(1), 10**6)
        if case.same is not None:
            case.same(case.make())

    _assert_flat(work, 50)


@pytest.mark.parametrize("formula", [*RELATIONAL, "p(x) AND q(x, y)", "p(x) AND NOT q(x, _)"])
def test_monitors_with_variables_come_and_go(formula: str) -> None:
    """With many rows at once."""
    rows = [(number, number % 7) for number in range(200)]

    def work() -> None:
        monitor = RelationalMonitor(f"{DECLARED}find f: {formula}\n")
        for time_stamp in range(2):
            monitor.step(time_stamp, {"p": [row[:1] for row in rows], "q": rows})
        monitor.finish()

    _assert_flat(work, 40)


def test_blocks_of_slices_come_and_go() -> None:
    file = parse_policies("atom p(x: int)\nfind a: p(x) AND ONCE[0,9] p(x)\n")
    analysis = analyse(file)
    slicing = plan_slices(file, analysis, 3)
    made = plan(file, analysis, prepared=slicing.prepared)
    router = Router(routing_of(slicing, made), made.texts)
    widths = np.array(made.atoms, np.uint32)

    def work() -> None:
        points = PointBlock(widths)
        for time_stamp in range(3):
            points.add(time_stamp, [(0, [number]) for number in range(100)])
        splitter = Splitter(router, PointTimeline(made), [True] * 3)
        block = SplitBlock(splitter, widths)
        splitter.split(points, block)
        splitter.commit(block)
        for number in range(3):
            block.copy_to(PointBlock(widths), number)

    _assert_flat(work, 50)


def test_texts_of_relations_are_forgotten() -> None:
    monitor = RelationalMonitor("atom p(x: text)\nfind again: p(x) AND ONCE[1,3] p(x)\n")
    engine = engine_of(monitor)
    assert isinstance(engine, RelationalEngine)
    engine.spare_texts = 0
    time_stamp = 0

    def work() -> None:
        nonlocal time_stamp
        for number in range(20):
            time_stamp += 1
            monitor.step(time_stamp, {"p": [(f"text {time_stamp - number % 2}",)]})

    _assert_flat(work, 200)
