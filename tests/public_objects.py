"""The public objects that have a state, and how each of their methods is called.

`CASES` is complete: `test_public_objects.py` compares it with what the reference documents.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import mtlmon
from mtlmon import streams
from mtlmon.monpoly import LogReader, MonPolyMonitor, TimePoint, read_policy, read_signature
from mtlmon.reporting import Collector
from mtlmon.tables import KeyedMonitors, open_tables
from mtlmon.testing import LiveMonitor
from tests.doors import EventColumns

Call = Callable[[Any, random.Random, int], object]
"""Calls a method of an object: gets the object, a source of chance, and a time that grows."""


class Case(NamedTuple):
    """Objects of one class.

    Attributes:
        make: makes one that has a state.
        works: a call that an object which has not ended can answer at any time.
        calls: how methods are called that need arguments, or whose results must be read.
        ends: the methods after which others may be refused for good.
        hold: makes an object and calls a method that calls the given function with the object in
            its middle, and returns the object; None if nothing that a method is given can do that.
        free: what needs no guard: it answers while another call is active.
        is_native: whether there is a state in native code, which calls at once could corrupt.
        same: what shows whether a copy goes on as the original does; None if there are no copies.
    """

    make: Callable[[], Any]
    works: Call
    calls: Mapping[str, Call] = MappingProxyType({})
    ends: frozenset[str] = frozenset()
    hold: Callable[[Callable[[Any], object]], Any] | None = None
    free: frozenset[str] = frozenset()
    same: Callable[[Any], object] | None = None
    is_native: bool = True


FORMULA = "p IMPLIES EVENTUALLY[0,5] q"
POLICIES = """
atom a(s: text)
atom b(s: text)
atom c(s: text, n: int)
policy f: a(u) IMPLIES EVENTUALLY[0,5] b(u)
find g: a(u) AND ONCE[0,5] (EXISTS z. c(u, z))
find h: c(u, n) AND ((NOT a(u)) SINCE[0,7] b(u))
"""
STREAMS = "unit s\nkey k\nstream s = sum[0,50](x)\nstream t = count[0,9]() every 5s"
SIGNATURE = read_signature("p(a: string)\nq(a: string)")
MONPOLY = read_policy("p(x) AND ONCE[0,9] q(x)", SIGNATURE)


class Calling:
    """An iterable that calls a function when it is iterated, and then has some items."""

    def __init__(self, function: Callable[[], object], *items: Any) -> None:
        self.function = function
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        self.function()
        return iter(self.items)


def rows_at(source: random.Random) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of the atoms of `POLICIES`."""
    found: dict[str, list[tuple[Any, ...]]] = {
        name: [(source.choice("xyz"),)] for name in "ab" if source.random() < 0.5
    }
    return {**found, "c": [(source.choice("xyz"), source.randrange(9))]}


def stream_rows(time_stamp: int) -> pa.RecordBatch:
    """Rows for `STREAMS`."""
    return pa.record_batch({"ts": [time_stamp] * 3, "k": ["a", "b", "c"], "x": [1, 2, 3]})


def event_rows(count: int, before: Callable[[], object] = lambda: None) -> pa.RecordBatchReader:
    """Rows of a table in batches; a function is called before each."""
    batches = [
        pa.record_batch(
            {"ts": [3 * k, 3 * k + 2], "p": [True, k % 3 == 0], "q": [False, k % 2 < 1]}
        )
        for k in range(count)
    ]

    def read() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            before()
            yield batch

    return pa.RecordBatchReader.from_batches(batches[0].schema, read())


def columns(time_stamp: int) -> EventColumns:
    """Many events at one time-stamp."""
    made = EventColumns(np.full(400, time_stamp), 400)
    made.add_letters(2, np.arange(400, dtype=np.uint64) % 4)
    return made


def _numbers() -> Any:
    return np.arange(400, dtype=np.uint32) % 7


# ---- objects with a state ----------------------------------------------------------------------


def monitor() -> mtlmon.Monitor:
    made = mtlmon.Monitor(FORMULA)
    made.step(1, {"p"})
    return made


def monitors() -> mtlmon.Monitors[str]:
    made: mtlmon.Monitors[str] = mtlmon.Monitors(FORMULA)
    for key in "abcdefgh":
        made.step(key, 1, {"p"})
    return made


def history() -> mtlmon.History:
    made = mtlmon.History(FORMULA, lateness=50, wait=2, equality=True)
    source = random.Random(1)
    for time in range(30):
        made.push(
            [max(0, time - source.randint(0, 9))],
            [source.randint(0, 3)],
            keys=[source.choice("ab")],
            ids=[source.choice([time, None])],
        )
    made.retract(id="later")
    made.retract(30, [], key="a")
    return made


def relational_monitor(slices: int | None = None) -> mtlmon.RelationalMonitor:
    made = mtlmon.RelationalMonitor(POLICIES, slices=slices)
    source = random.Random(1)
    for time in range(25):
        made.step(time, rows_at(source))
    return made


def relational_history() -> mtlmon.RelationalHistory:
    made = mtlmon.RelationalHistory(POLICIES, lateness=50, wait=2, ids=True)
    source = random.Random(1)
    for time in range(30):
        made.push([(max(0, time - source.randint(0, 9)), rows_at(source))], ids=[time])
    made.push([(30, {})], ids=[5], operations=["retract"])
    made.push([(30, {})], ids=["later"], operations=["retract"])
    return made


def compiled_streams() -> streams.compiled.CompiledStreams:
    made = streams.compile(STREAMS, stream_rows(0).schema)
    for time in (0, 3, 9, 40):
        made.evaluate(stream_rows(time))
    return made


def keyed_monitors() -> KeyedMonitors:
    made = KeyedMonitors(FORMULA)
    made.feed(columns(1), _numbers())
    return made


def resolution() -> mtlmon.Resolution:
    made = mtlmon.Resolution(in_order=True)
    made.push(monitor().step(1, {"p"}))
    return made


def live_monitor() -> LiveMonitor:
    made = LiveMonitor("TRUE OR p", at_end="undecided-ok", unknown="ignore")
    made.step(1, {"p"})
    return made


def collector() -> Collector:
    made = Collector(FORMULA)
    made.add(mtlmon.resolve(_verdicts()))
    return made


def _verdicts() -> mtlmon.VerdictArray:
    return mtlmon.Monitor(FORMULA).feed(np.arange(4000), np.arange(4000) % 4)


def _events(count: int, before: Callable[[], object] = lambda: None) -> Iterator[Any]:
    for time in range(count):
        before()
        yield time, {"p"}


async def _astream(made: mtlmon.Monitor, time: int) -> list[mtlmon.Verdict]:
    async def events() -> AsyncIterator[Any]:
        yield time, {"p"}

    return [one async for one in made.astream(events())]


def _held(made: Any, inside: Callable[[Any], object], call: Callable[[Any, Any], object]) -> Any:
    """Make a call with something to iterate over that calls a function with the object."""
    call(made, lambda *items: Calling(lambda: inside(made), *items))
    return made


def _held_iterator(of_events: Callable[[Any], Any], inside: Callable[[Any], object]) -> Any:
    """Take an item of an iterator over events that call a function with the iterator."""
    made: list[Any] = []
    made.append(of_events(_events(9, lambda: inside(made[0]))))
    next(made[0])
    return made[0]


def _resume(made: Any) -> object:
    """What becomes of a monitor of `FORMULA` at later events."""
    found = [str(one) for time in range(60, 80, 3) for one in made.step(time, {"p"})]
    return found, [str(one) for one in made.finish("inf")]


def _resume_late(made: mtlmon.History) -> object:
    found = []
    for time in range(26, 60, 3):
        found += list(made.push([time - time % 7], [time % 4], keys=["ab"[time % 2]], ids=[time]))
    return found, list(made.finish("inf")), [str(one) for key in "ab" for one in made.latest(key)]


def _resume_with_rows(made: mtlmon.RelationalMonitor) -> object:
    source = random.Random(2)
    found = [one for time in range(25, 40) for one in made.step(time, rows_at(source))]
    return found, made.finish()


def _resume_with_late_rows(made: mtlmon.RelationalHistory) -> object:
    source = random.Random(2)
    found = []
    for time in range(28, 50, 3):
        event = (time - source.randint(0, 9), rows_at(source))
        found += made.push([event], ids=[source.choice([time, None])]).lines
    return found, made.finish("inf").lines, made.latest()


def _resume_with_streams(made: streams.compiled.CompiledStreams) -> object:
    return [made.evaluate(stream_rows(time)).to_pydict() for time in (41, 47, 90)]


def _restored(made: Any, _source: random.Random, _time: int) -> object:
    """Restore what is no snapshot."""
    return made.restore(b"no snapshot")


_FIND = "atom a(ts) = p\nfind f: a(x) AND ONCE[0,5] a(x)"


def _run(policies: str, **options: Any) -> Case:
    """The check of a table; frames are made of what the other methods return."""
    return Case(
        lambda: mtlmon.check(policies, event_rows(3000), resolution="s", **options),
        lambda one, source, time: next(one, None),
        {
            "violations": lambda one, source, time: one.violations(None),
            "to_pandas": lambda one, source, time: None,
            "to_polars": lambda one, source, time: None,
        },
        frozenset({"close", "__exit__", "to_arrow", "finish", "has_violation", "summary"}),
        free=frozenset({"__iter__", "__enter__", "batches", "messages", "explanations", "status"}),
    )


def _live(policies: str, **options: Any) -> Case:
    """A run to which rows are given."""

    def row(time: int) -> dict[str, Any]:
        return {"ts": time, "p": True, "q": time % 3 == 0}

    async def stream(time: int) -> AsyncIterator[dict[str, Any]]:
        yield row(time)

    async def consume(run: Any, time: int) -> list[Any]:
        return [answer async for answer in run.aiter(stream(time))]

    def made() -> Any:
        run = mtlmon.live(policies, **options)
        run.feed([row(time) for time in range(50)])
        return run

    return Case(
        made,
        lambda one, source, time: one.feed(row(time)),
        {
            "feed": lambda one, source, time: one.feed([row(time)] * source.randrange(1, 200)),
            "pass_time": lambda one, source, time: one.pass_time(time),
            "afeed": lambda one, source, time: asyncio.run(one.afeed(row(time))),
            "apass_time": lambda one, source, time: asyncio.run(one.apass_time(time)),
            "complete": lambda one, source, time: one.complete(time + 99, time + 100, 0),
            "acomplete": lambda one, source, time: asyncio.run(one.acomplete(time, time + 9, 99)),
            "aend": lambda one, source, time: asyncio.run(one.aend()),
            "aiter": lambda one, source, time: asyncio.run(consume(one, time)),
        },
        frozenset({"close", "end", "aend", "aiter", "__exit__"}),
    )


CASES: dict[str, Case] = {
    "Monitor": Case(
        monitor,
        lambda one, source, time: one.step(time, {"p"}),
        {
            "step": lambda one, source, time: one.step(time, {"q"} if time % 2 else ()),
            "feed": lambda one, source, time: one.feed([time] * 3000, np.arange(3000) % 4),
            "advance": lambda one, source, time: one.advance(time),
            "restore": _restored,
            "__call__": lambda one, source, time: list(one([(time, {"p"})])),
            "astream": lambda one, source, time: asyncio.run(_astream(one, time)),
        },
        frozenset({"finish", "__exit__"}),
        lambda inside: _held(monitor(), inside, lambda one, rows: one.step(60, rows("p"))),
        # Counts are read while arrays are fed. Leaving a block within a call does nothing.
        frozenset({"atoms", "program", "mode", "unknown", "max_memory", "counters"})
        | {"__enter__", "__exit__"},
        _resume,
    ),
    "Monitors": Case(
        monitors,
        lambda one, source, time: one.step("a", time, {"p"}),
        {
            "step": lambda one, source, time: one.step(source.choice("abc"), time, {"p"}),
            "advance": lambda one, source, time: one.advance(source.choice("abc"), time),
            "pending": lambda one, source, time: one.pending(source.choice("abc")),
            "forget": lambda one, source, time: one.forget(source.choice("bcdefgh")),
            "finish": lambda one, source, time: list(one.finish()),
            "__contains__": lambda one, source, time: "a" in one,
            "__iter__": lambda one, source, time: list(one),
        },
        frozenset(),
        lambda inside: _held(monitors(), inside, lambda one, rows: one.step("a", 60, rows("p"))),
        frozenset({"atoms", "program", "mode", "__contains__", "__iter__", "__len__"}),
    ),
    "History": Case(
        history,
        lambda one, source, time: one.push([time], [0], keys=["a"]),
        {
            "push": lambda one, source, time: one.push(
                [time - k for k in range(40)], [k % 4 for k in range(40)], keys=["a", "b"] * 20
            ),
            "push_columns": lambda one, source, time: one.push_columns(
                columns(time - source.randrange(40)), ["a"] * 400
            ),
            "insert": lambda one, source, time: one.insert(time - source.randrange(40), key="b"),
            "retract": lambda one, source, time: one.retract(id=source.randrange(30)),
            "advance": lambda one, source, time: one.advance(time),
            "complete": lambda one, source, time: one.complete(time + 10**6, time + 10**6 + 1, 0),
            "latest": lambda one, source, time: list(one.latest("a")),
            "restore": _restored,
        },
        frozenset({"finish"}),
        lambda inside: _held(
            history(), inside, lambda one, rows: one.insert(60, rows("p"), key="a")
        ),
        frozenset({"atoms", "program", "mode"}),
        _resume_late,
    ),
    "RelationalMonitor": Case(
        relational_monitor,
        lambda one, source, time: one.step(time, {}),
        {
            "step": lambda one, source, time: one.step(time, rows_at(source)),
            "advance": lambda one, source, time: one.advance(time),
            "feed": lambda one, source, time: one.feed(pa.table({"ts": [time]}), resolution="s"),
            "start": lambda one, source, time: one.start(pa.schema([])),
            "restore": _restored,
        },
        frozenset({"finish"}),
        lambda inside: _held(
            relational_monitor(), inside, lambda one, rows: one.step(60, {"a": rows(("x",))})
        ),
        frozenset(),
        _resume_with_rows,
    ),
    "RelationalHistory": Case(
        relational_history,
        lambda one, source, time: one.push([(time, {})]),
        {
            "push": lambda one, source, time: one.push(
                [(time - source.randrange(40), rows_at(source)) for _ in range(5)]
            ),
            "advance": lambda one, source, time: one.advance(time),
            "complete": lambda one, source, time: one.complete(time + 10**6, time + 10**6 + 1, 0),
            "restore": _restored,
        },
        frozenset({"finish"}),
        lambda inside: _held(
            relational_history(), inside, lambda one, rows: one.push([(60, {"a": rows(("x",))})])
        ),
        frozenset(),
        _resume_with_late_rows,
    ),
    "CompiledStreams": Case(
        compiled_streams,
        lambda one, source, time: one.evaluate(stream_rows(min(time, 10**4))),
        {"evaluate": lambda one, source, time: one.evaluate(stream_rows(time))},
        frozenset({"finish"}),
        lambda inside: _held(
            compiled_streams(), inside, lambda one, rows: one.evaluate(_Rows(rows()))
        ),
        frozenset({"names", "time", "unit", "keys"}),
        _resume_with_streams,
    ),
    "KeyedMonitors": Case(
        keyed_monitors,
        lambda one, source, time: one.feed(columns(time), _numbers()),
        {
            "feed": lambda one, source, time: one.feed(columns(time), _numbers()),
            "pass_time": lambda one, source, time: one.pass_time(_numbers()[:7], time),
            "snapshot": lambda one, source, time: one.snapshot(_numbers()[:7]),
            "restore": lambda one, source, time: one.restore(one.snapshot(_numbers()[:7])),
            "add": lambda one, source, time: one.add(1),
            "drop": lambda one, source, time: one.drop(np.array([6], np.uint32)),
            "settled": lambda one, source, time: one.settled(_numbers()[:7], time),
            "pending": lambda one, source, time: one.pending(source.randrange(7)),
            "finish": lambda one, source, time: one.finish(source.randrange(7)),
            "set_limit": lambda one, source, time: None,
        },
    ),
    "Resolution": Case(
        resolution,
        lambda one, source, time: one.push(()),
        {
            "push": lambda one, source, time: one.push(mtlmon.Monitor("p").step(time, {"p"})),
            "push_array": lambda one, source, time: one.push_array(_verdicts().records),
        },
        frozenset({"finish"}),
    ),
    "iterator of Monitor": Case(
        lambda: mtlmon.Monitor("p")(_events(10**9)),
        lambda one, source, time: next(one),
        hold=lambda inside: _held_iterator(mtlmon.Monitor("p"), inside),
        free=frozenset({"monitor", "__iter__"}),
    ),
    "resolve": Case(
        lambda: mtlmon.resolve(mtlmon.Monitor("p")(_events(10**9)), in_order=True),
        lambda one, source, time: next(one),
        hold=lambda inside: _held_iterator(
            lambda events: mtlmon.resolve(mtlmon.Monitor("p")(events), in_order=True), inside
        ),
        free=frozenset({"__iter__"}),
    ),
    "iterator of Summary": Case(
        lambda: mtlmon.Summary().watch(mtlmon.Monitor("p")(_events(10**9))),
        lambda one, source, time: next(one),
        hold=lambda inside: _held_iterator(
            lambda events: mtlmon.Summary().watch(mtlmon.Monitor("p")(events)), inside
        ),
        ends=frozenset({"close"}),
        free=frozenset({"__iter__"}),
    ),
    "iterator of Monitors": Case(
        lambda: monitors().finish(),
        lambda one, source, time: next(one, None),
        ends=frozenset({"close"}),
        free=frozenset({"__iter__"}),
    ),
    "Summary": Case(
        lambda: mtlmon.Summary(mtlmon.Monitor("p")(_events(5))),
        lambda one, source, time: one.update(()),
        {
            "update": lambda one, source, time: one.update(mtlmon.Monitor("p")(_events(9))),
            "watch": lambda one, source, time: list(one.watch(mtlmon.Monitor("p")(_events(9)))),
        },
    ),
    "Run": _run(f"policy x: {FORMULA}", rows=True),
    "Run of policies with variables": _run(_FIND),
    "Live": _live(f"policy x: {FORMULA}", lateness=50),
    "Live of both kinds": _live(f"{_FIND}\npolicy x: {FORMULA}", on_error="skip"),
    "Run of both kinds": _run(f"{_FIND}\npolicy x: {FORMULA}"),
    "TableEvents": Case(
        lambda: open_tables(event_rows(3000), ["p", "q"], resolution="s"),
        lambda one, source, time: next(one, None),
        # what a check calls between two batches, after it has said what the reader is for
        dict.fromkeys(
            [
                *(
                    "columns_of",
                    "descriptor",
                    "earliest_waiting",
                    "resume_at",
                    "keep_traces",
                    "next_change",
                    "only_due_ticks",
                    "pass_time",
                    "prepare_next",
                    "restore_given",
                ),
                *(
                    "refuse",
                    "reject",
                    "released",
                    "rows_until",
                    "seen_names",
                    "settled_traces",
                    "skip",
                ),
                *("ticks_until", "track_rows", "late_header"),
            ],
            lambda one, source, time: None,
        ),
        frozenset({"close", "__exit__"}),
    ),
    "LiveMonitor": Case(
        live_monitor,
        lambda one, source, time: one.step(time, {"p"}),
        {
            "step": lambda one, source, time: one.step(time, {"p"}),
            "advance": lambda one, source, time: one.advance(time),
            "event": lambda one, source, time: one.event("p"),
            "notify": lambda one, source, time: one.notify(frozenset({"p"})),
            "fail": lambda one, source, time: None,
            "listen": lambda one, source, time: None,
        },
        frozenset({"close", "abandon", "__exit__"}),
    ),
    "MonPolyMonitor": Case(
        lambda: MonPolyMonitor(MONPOLY),
        lambda one, source, time: one.step(TimePoint(time, {})),
        {"step": lambda one, source, time: one.step(TimePoint(time, {"p": [("a",)]}))},
        frozenset({"finish"}),
    ),
    "LogReader": Case(
        lambda: LogReader(SIGNATURE, MONPOLY.relations),
        lambda one, source, time: list(one.feed(b"@1 p(a)\n")),
        is_native=False,
    ),
    "Collector": Case(
        collector,
        lambda one, source, time: one.report(),
        is_native=False,
    ),
}


class _Rows:
    """Rows whose schema, when it is asked for, iterates over something."""

    def __init__(self, asked: Calling) -> None:
        self._asked = asked
        self._rows = stream_rows(60)

    @property
    def schema(self) -> pa.Schema:
        list(self._asked)
        return self._rows.schema

    def select(self, names: list[str]) -> pa.RecordBatch:
        return self._rows.select(names)


# Special methods that are part of a class as its users see it.
_SPECIAL = frozenset(
    {
        "__call__",
        "__iter__",
        "__next__",
        "__len__",
        "__contains__",
        "__enter__",
        "__exit__",
        "__repr__",
    }
)


def methods_of(made: Any) -> list[str]:
    """The names of all public methods and properties of an object, and of its attributes."""
    special = {name for kind in type(made).__mro__ for name in vars(kind)} & _SPECIAL
    return sorted({name for name in dir(made) if not name.startswith("_")} | special)


def call(case: Case, made: Any, name: str, source: random.Random, time: int) -> object:
    """Call a method, or read a property."""
    if name in case.calls:
        return case.calls[name](made, source, time)
    value = getattr(made, name)
    if name == "__exit__":
        return value(None, None, None)
    is_method = callable(inspect.getattr_static(type(made), name, None))
    return value() if is_method else value
