"""Every option of every public function does something, or is refused with what to do instead.

The public interface is looked through for options. Each has an example here: calls with and without
it, whose results differ, or of which the one with it is an error. A new option needs an entry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")
pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import numpy as np
import pyarrow as pa

import mtlmon
from mtlmon import History, Monitor, Monitors, RelationalHistory, RelationalMonitor, atom
from mtlmon.errors import MtlmonError
from mtlmon.policy import (
    Environment,
    check_files,
    check_policies,
    compile_predicates,
    load_policies,
    parse_policies,
    parse_predicate,
)
from mtlmon.relational.slicing import Statistics
from mtlmon.tables import KeyedMonitors, Times, open_tables, table_files
from mtlmon.testing import LiveMonitor, LogHandler, LogRule, assert_holds, check, log_events
from mtlmon.testing import policies as policy_parameters
from tests.doors import (
    COMMAND,
    OF_EVENTS,
    OF_ROWS,
    CheckOptions,
    EventColumns,
    LiveOptions,
    LogOptions,
    MemoryLimit,
    QueryOptions,
    check_tables,
    engine_of,
)
from tests.options import Examples, public_options, shown

MODULES = [
    "mtlmon",
    "mtlmon.tables",
    "mtlmon.policy",
    "mtlmon.testing",
    "mtlmon.verdict_arrays",
]

PASSED_ON = {
    "mtlmon.query": tuple(QueryOptions.__annotations__),
    "mtlmon.check": tuple(CheckOptions.__annotations__),
    "mtlmon.live": tuple(LiveOptions.__annotations__),
    "mtlmon.testing.check": tuple(LogOptions.__annotations__),
    "mtlmon.RelationalMonitor.feed": OF_EVENTS,
}
"""The options of functions with `**options`."""

NO_OPTIONS = {
    "mtlmon.Formula": "made by parse",
    "mtlmon.Answers": "returned by mtlmon.Live.feed",
    "mtlmon.Live": "made by mtlmon.live",
    "mtlmon.Proof": "made by explain",
    "mtlmon.Program": "made by compile_formula",
    "mtlmon.policy.Policy": "made by parse_policies",
    "mtlmon.policy.PolicyFile": "made by parse_policies",
    "mtlmon.policy.CompiledPredicates": "made by compile_predicates",
    "mtlmon.testing.LiveMonitor.event": "values of the event",
    "mtlmon.tables.Times.message": "names of options for its messages",
    "mtlmon.tables.EventBatch": "made by open_tables",
    "mtlmon.tables.TableEvents": "made by open_tables",
    "mtlmon.tables.TableEvents.only_due_ticks": "for whoever runs ticks",
    "mtlmon.testing.Result": "made by check",
    "mtlmon.testing.MonitorFactory": "made by the plugin for pytest",
    "mtlmon.testing.LiveMonitor.close": "the place is that of the test",
    "mtlmon.policy.Predicate": "made by parse_predicate",
    "mtlmon.policy.PolicyFile.predicate": "the role is words of messages",
}
"""What is no option that a user gives, and why."""


EXAMPLES = Examples()
example = EXAMPLES.example

# ---- formulas ------------------------------------------------------------------------------------

P, Q = atom("p"), atom("q")
for _name in ("always", "eventually", "historically", "once", "previous", "next_"):
    _build = getattr(mtlmon, _name)
    example(f"mtlmon.{_name}", lambda build=_build, **o: build(P, **o))(lower=2)
    example(f"mtlmon.{_name}", lambda build=_build, **o: build(P, **o), {"lower": 1})(upper=5)
for _name in ("since", "trigger", "until", "release", "weak_until"):
    example(f"mtlmon.Formula.{_name}", lambda n=_name, **o: getattr(P, n)(Q, **o))(lower=2)
    example(f"mtlmon.Formula.{_name}", lambda n=_name, **o: getattr(P, n)(Q, **o), {"lower": 1})(
        upper=5
    )
example("mtlmon.parse", lambda **o: mtlmon.parse("p SINCE[0,1m] q", **o))(unit="s")
example("mtlmon.parse", lambda **o: mtlmon.parse("p SINCE", **o))(source="rules.mtl")
example("mtlmon.compile_formula", lambda **o: mtlmon.compile_formula("p SINCE[0,1m] q", **o).atoms)(
    unit="s"
)


# ---- monitors ------------------------------------------------------------------------------------

LOG: Any = [(1, ["p"]), (1, []), (3, ["q"]), (9, ["p"])]
FUTURE = "p OR EVENTUALLY[0,5] q"


def verdicts_of(formula: Any = FUTURE, events: Any = LOG, **options: Any) -> list[str]:
    monitor = Monitor(formula, **options)
    found = chain.from_iterable(monitor.step(*event) for event in events)
    return [*map(str, found), *map(str, monitor.finish())]


def keyed_verdicts(formula: str = FUTURE, events: Any = LOG, **options: Any) -> list[str]:
    monitors: Monitors[Any] = Monitors(formula, **options)
    found = [
        str(one) for time_stamp, atoms in events for one in monitors.step("a", time_stamp, atoms)
    ]
    return found + [f"{key} {' '.join(map(str, own))}" for key, own in monitors.finish()]


OPEN: Any = [(1, []), (1, []), (1, [])]
for _function, _run in (("mtlmon.Monitor", verdicts_of), ("mtlmon.Monitors", keyed_verdicts)):
    example(_function, lambda run=_run, **o: run(FUTURE, OPEN, **o))(mode="naive", bdd="none")
    example(_function, lambda run=_run, **o: run("p SINCE[0,1m] q", **o))(unit="s")
    example(_function, lambda run=_run, **o: run("p", **o))(unknown="error", max_memory=10)


def fed(**options: Any) -> object:
    return list(Monitor("p").feed([1, 2], {"p": [True, False], "x": [True, True]}, **options))


TIMES = pa.table({"time_stamp": [1, 2], "at": [5, 6], "p": [True, False]})

example("mtlmon.Monitor.step", lambda **o: Monitor("p").step(1, **o))(atoms=["p"])
example("mtlmon.Monitor.feed", lambda **o: list(Monitor("p").feed([1, 2], [1, 0], **o)))(
    atoms=["q"]
)
example("mtlmon.Monitor.feed", fed)(unknown="error")
example(
    "mtlmon.Monitor.feed", lambda **o: list(Monitor("p").feed([1, 2], **{"letters": [1, 0], **o}))
)(letters=[0, 1])
example("mtlmon.Monitor.feed", lambda **o: list(Monitor("p").feed(TIMES, **o)))(time="at")


def ended(kind: Callable[[str], Any], **options: Any) -> list[str]:
    monitor = kind("EVENTUALLY[0,5] p")
    if isinstance(monitor, Monitors):
        monitor.step("a", 1)
        return [str(own) for _, verdicts in monitor.finish(**options) for own in verdicts]
    monitor.step(1)
    return list(map(str, monitor.finish(**options)))


def streamed(**options: Any) -> list[str]:
    import asyncio

    async def events() -> Any:
        yield 1, []

    async def found() -> list[str]:
        monitor = Monitor("EVENTUALLY[0,5] p")
        return [str(one) async for one in monitor.astream(events(), **options)]

    return asyncio.run(found())


def keyed_step(**options: Any) -> object:
    monitors: Monitors[str] = Monitors("p")
    return monitors.step("a", 1, **options)


example("mtlmon.Monitor.finish", lambda **o: ended(Monitor, **o))(end_time="inf")
example("mtlmon.Monitors.finish", lambda **o: ended(Monitors, **o))(end_time="inf")
example("mtlmon.Monitor.astream", streamed)(end_time="inf")
example("mtlmon.Monitors.step", keyed_step)(atoms=["p"])
example(
    "mtlmon.explain", lambda **o: mtlmon.explain("EVENTUALLY[0,5] p", [(1, [])], 0, **o).to_text()
)(end_time="inf")
PROOF = mtlmon.explain(
    "ALWAYS[0,9] (p OR ONCE[0,9] q)", [(n, ["p"] if n < 5 else []) for n in range(9)], 0
)
example("mtlmon.Proof.to_text", PROOF.to_text)(lines=1, ascii_only=True)
example("mtlmon.Proof.to_text", PROOF.to_text)(width=30)


# ---- verdicts ------------------------------------------------------------------------------------


def open_verdicts() -> list[Any]:
    monitor = Monitor("p OR EVENTUALLY[0,5] q", "local")
    return [*monitor.step(1), *monitor.step(1), *monitor.step(2, ["q"]), *monitor.finish("inf")]


def late_verdicts() -> list[Any]:
    """A later time-point is decided first."""
    monitor = Monitor("p OR EVENTUALLY[0,5] q", "naive")
    events = [(1, []), (2, ["p"]), (9, []), (30, [])]
    return [*chain.from_iterable(monitor.step(*one) for one in events), *monitor.finish("inf")]


def taken(count: int, found: Iterator[Any]) -> list[str]:
    return [str(one) for _, one in zip(range(count), found, strict=False)]


example("mtlmon.resolve", lambda **o: [*map(str, mtlmon.resolve(late_verdicts(), **o))])(
    in_order=True, max_memory=1
)
example(
    "mtlmon.resolve",
    lambda **o: taken(1, chain(mtlmon.resolve(unending(), in_order=True, **o))),
)(reach=5)
example("mtlmon.violations", lambda **o: taken(9, mtlmon.violations(late_violations(), **o)))(
    in_order=True
)
example(
    "mtlmon.violations",
    lambda **o: taken(1, mtlmon.violations(unending(), in_order=True, **o)),
)(reach=5)
example("mtlmon.first", lambda **o: str(mtlmon.first(unending(), **o)))(reach=5)


class Endless(Exception):
    """A stream of verdicts was read further than expected."""


def unending() -> Iterator[Any]:
    """Verdicts that are known to be the first ones by the reach alone."""
    monitor = Monitor("NOT p OR EVENTUALLY[0,5] q", "naive")
    for time_stamp in range(0, 100, 9):
        yield from monitor.step(time_stamp, ["p"])
    raise MtlmonError("read to the end")


def late_violations() -> list[Any]:
    """A later violation is decided first."""
    monitor = Monitor("(p AND EVENTUALLY[0,5] q) OR NOT r", "naive")
    events = [(1, ["p", "r"]), (2, ["r"]), (30, [])]
    return [*chain.from_iterable(monitor.step(*one) for one in events), *monitor.finish("inf")]


def pushed(**options: Any) -> object:
    resolution = mtlmon.Resolution(**options)
    return [
        *([str(one) for one in resolution.push([verdict])] for verdict in late_verdicts()),
        [str(one) for one in resolution.finish()],
    ]


example("mtlmon.Resolution", pushed)(in_order=True, max_memory=1)
example("mtlmon.Resolution", pushed, {"in_order": True})(reach=5, monitor=Monitor("p"))
example("mtlmon.Summary", mtlmon.Summary)(verdicts=late_verdicts())


# ---- histories -----------------------------------------------------------------------------------


def history(
    formula: str = "p IMPLIES EVENTUALLY[0,5] q", steps: object = None, **options: Any
) -> list[str]:
    options = {"lateness": 10, **options}
    one = History(formula, **options)
    found = [str(one.insert(1, ["p"])), str(one.insert(1, [])), str(one.insert(8, []))]
    found += [str(one.insert(4, ["q"])), str(one.insert(20, [])), str(one.insert(3, ["p"]))]
    return [*found, str(one.counters), str(one.finish())]


def keyed_history(**options: Any) -> list[str]:
    one = History("EVENTUALLY[0,5] p", lateness=3, **options)
    one.insert(1, [], key="a")
    one.insert(9, [], key="b")
    return [str([*one.insert(2, [], key="c")]), str(one.counters)]


def retracted(**options: Any) -> list[str]:
    one = History("p", lateness=9, **options)
    return [
        str(one.insert(1, ["p"], id="i")),
        str(one.insert(1, ["p"], id="i")),
        str(one.retract(1, ["p"], id="other")),
        str(one.insert(99)),
        str(one.counters),
    ]


example("mtlmon.History", history)(lateness=1, wait=4, bdd="none")
example("mtlmon.History", lambda **o: history("EVENTUALLY[0,5] q", **o))(mode="naive")
example("mtlmon.History", lambda **o: history("p SINCE[0,1m] q", **o))(unit="s")
example("mtlmon.History", keyed_history)(clock="key")
example("mtlmon.History", retracted)(unmatched="error")
example("mtlmon.History", lambda **o: History("p", lateness=9, **o).retract(1, ["p"]))(
    equality=True
)


def stepped(name: str, kind: str = "p", before: Any = None, **options: Any) -> str:
    how = (
        {"clock": "key"}
        if name == "final_below"
        else {"equality": True}
        if name == "retract"
        else {}
    )
    one: History = History(kind, lateness=9, **how)
    if before is not None:
        before(one)
    arguments = {
        "push": ([1, 2], [1, 1]),
        "push_columns": (COLUMNS,),
        "insert": (2,),
        "retract": (1,),
        "advance": (9,),
        "finish": (),
        "latest": (),
        "final_below": (),
    }[name]
    if name == "retract" and {"time_stamp", "id"} & set(options):
        arguments = ()
    found = getattr(one, name)(*arguments, **options)
    shown = [*map(str, found)] if isinstance(found, Iterable) else found
    return f"{shown} {one.counters} {one.keys}"


def with_keys(one: History) -> None:
    one.insert(1, ["p"], key="a")
    one.insert(9, ["p"], key="b")


def with_late_keys(one: History) -> None:
    one.insert(20, ["p"], key="a")
    one.insert(90, ["p"], key="b")


def with_ids(one: History) -> None:
    one.insert(1, ["p"], id="i")


COLUMNS = EventColumns(np.array([1, 2]), 2)
COLUMNS.add_bit_of_masks(0, np.array([1, 1], np.uint64), 0)
for _name in ("push", "push_columns"):
    example(f"mtlmon.History.{_name}", lambda n=_name, **o: stepped(n, **o))(
        keys=["a", "b"], ids=["a", "a"], operations=["insert", "retract"]
    )
example("mtlmon.History.push", lambda **o: stepped("push", **o))(atoms=["q"])
example(
    "mtlmon.History.push",
    lambda **o: History("p", lateness=9).push([1], {"p": [True], "x": [True]}, **o),
)(unknown="error")
example("mtlmon.History.insert", lambda **o: stepped("insert", **o))(atoms=["p"], key="a", id="i")
example("mtlmon.History.retract", lambda **o: stepped("retract", before=with_ids, **o))(id="i")
example("mtlmon.History.retract", lambda **o: stepped("retract", before=with_plain, **o))(
    atoms=["p"]
)
example(
    "mtlmon.History.retract",
    lambda **o: stepped("retract", before=with_plain, **{"atoms": ["p"], "time_stamp": 7, **o}),
)(time_stamp=1)
example("mtlmon.History.retract", lambda **o: stepped("retract", before=with_keys, **o))(key="a")
example("mtlmon.History.advance", lambda **o: stepped("advance", **o))(key="a")
example("mtlmon.History.finish", lambda **o: stepped("finish", "NEXT p", with_plain, **o))(
    end_time="inf"
)
example("mtlmon.History.latest", lambda **o: stepped("latest", before=with_keys, **o))(key="a")
example(
    "mtlmon.History.final_below",
    lambda **o: stepped("final_below", before=with_late_keys, **{"key": "a", **o}),
)(key="b")


def with_plain(one: History) -> None:
    one.insert(1, ["p"])


# ---- policies with variables ---------------------------------------------------------------------

ASKED = "policy a: p(x) IMPLIES ONCE[0,5] q(x)"
EVENTS: Any = [(1, {"p": [("a",)]}), (3, {"q": [("a",), ("b",)]}), (4, {"p": [("a",), ("b",)]})]


def answers(policy: str = ASKED, **options: Any) -> str:
    monitor = RelationalMonitor(policy, **options)
    found = [str(monitor.step(*event)) for event in EVENTS]
    engine = engine_of(monitor)
    counted = getattr(engine, "counted_valuations", None)
    return f"{found} {type(engine).__name__} {counted}"


def revised_answers(policy: str = ASKED, **options: Any) -> str:
    one = RelationalHistory(policy, **{"lateness": 9, **options})
    events = [*EVENTS, (9, {}), (1, EVENTS[1][1])]
    found = [shown(one.push([event])) for event in events]
    if options.get("ids"):
        found += [shown(one.push([(9, {})], ids=["i"]))]
    return f"{found} {shown(one.finish('inf'))}"


example("mtlmon.RelationalMonitor", answers)(
    verdicts="all", slices=2, counts_left_sides=True, statistics=Statistics(), slice_seed=5
)
example("mtlmon.RelationalHistory", revised_answers)(lateness=1, wait=3, verdicts="all", ids=True)
example(
    "mtlmon.RelationalHistory",
    lambda **o: RelationalHistory(ASKED, lateness=9, **o).push(EVENTS[:1], operations=["retract"]),
)(equality=True)


def unmatched_answers(**options: Any) -> str:
    one = RelationalHistory(ASKED, lateness=9, ids=True, **options)
    events = [EVENTS[0], EVENTS[2], (99, {})]
    operations = ["retract", "insert", "insert"]
    return shown(one.push(events, ids=["i", "j", "k"], operations=operations))


example("mtlmon.RelationalHistory", unmatched_answers)(unmatched="error")
example(
    "mtlmon.RelationalHistory.push",
    lambda **o: RelationalHistory(ASKED, lateness=9).push(EVENTS[:1], **o),
)(operations=["retract"], ids=["i"])
example(
    "mtlmon.RelationalHistory.push",
    lambda **o: RelationalHistory(f"key k\n{ASKED}", lateness=9).push(EVENTS[:1], **o),
)(keys=[{"k": "a"}])
example(
    "mtlmon.RelationalHistory.finish",
    lambda **o: RelationalHistory("find a: p(x) AND NEXT q(x)", lateness=9).finish(**o),
)(end_time="nothing")


# ---- tables --------------------------------------------------------------------------------------

ROWS = pa.table(
    {
        "ts": [1, 1, 3, 9],
        "at": [5, 6, 6, 7],
        "down": [9, 8, 7, 6],
        "text": ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"],
        "k": ["a", "b", "a", "b"],
        "p": [True, False, False, True],
        "what": ["p", "q|p", "p,q", ""],
    }
)
XS = pa.table({"ts": [1, 1, 2], "x": [False, False, False], "p": [False, False, False]})
CSV = "ts;p\n1;true\n2;-\n"


class Files:
    """Files for examples, in a folder of the test."""

    folder = Path()

    @classmethod
    def path(cls, name: str, text: str) -> str:
        path = cls.folder / name
        path.write_text(text)
        return str(path)


def ran(policy: Any = "p", rows: Any = ROWS, **options: Any) -> str:
    run = mtlmon.check(policy, rows, **options)
    found = run.to_arrow().to_pydict()
    return f"{found} {run.messages} {run.status} {run.explanations} {run.summary[-40:]}"


def asserted(policy: Any = "p", rows: Any = ROWS, **options: Any) -> str:
    result = check(policy, rows, **{"unknown": "ignore", "time": "ts", **options})
    return f"{result} {result.messages} {result.violations}"


def read(atoms: tuple[str, ...] = ("p",), rows: Any = ROWS, **options: Any) -> str:
    with open_tables(rows, atoms, **options) as source:
        found = [
            (
                batch.time_stamps.tolist(),
                batch.letters_of(0).tolist(),
                None if batch.numbers is None else batch.numbers.tolist(),
                None if batch.values is None else str(batch.values),
                str(batch.shown_of(0)),
                str(batch.corrections)[:20],
            )
            for batch in source
        ]
        return f"{found} {source.refused}"


def asked(rows: Any = ROWS, **options: Any) -> str:
    return str(mtlmon.query("unit s\nrelation r = rows", "r", rows, **options).to_pydict())


def answered(rows: Any = ROWS, **options: Any) -> str:
    policy = "unit s\natom e(k) = p\npolicy a: FORALL x. e(x) IMPLIES ONCE e(x)\nfind b: e(x)"
    monitor = RelationalMonitor(policy)
    found = monitor.feed(rows, **options)
    return f"{[(one.policy, one.time_stamp, one.valuation) for one in found]}"


LINES = "at 1 p=true\nat 2 p=false\n"
OF_ROWS_VALUES: dict[str, tuple[object, object, dict[str, object]]] = {
    # the value of the option, the rows (or a file: name and text), and what both calls have
    "format": ("csv", ("log.unknown", "ts,k,p\n1,a,true\n"), {}),
    "pattern": (r"at (?P<ts>\d+) p=(?P<p>\w+)(?P<k>)", ("log.txt", LINES), {}),
    "time": ("at", ROWS, {}),
    "time_unit": ("m", ROWS, {"resolution": "s"}),
    "time_format": ("%d.%m.%Y", ("d.csv", "ts,k,p\n02.01.2024,a,true\n"), {"resolution": "s"}),
    "time_zone": ("Asia/Tokyo", ROWS, {"time": "text", "resolution": "s"}),
    "resolution": ("h", ROWS, {"time": "text"}),
    "null_values": (["-"], ("n.csv", "ts,k,p\n1,a,true\n2,b,-\n"), {}),
    "delimiter": (";", ("s.csv", "ts;k;p\n1;a;true\n"), {}),
    "quote": ("'", ("q.csv", "ts,k,p\n1,'a,b',true\n"), {}),
    "on_error": ("skip", ("e.csv", "ts,k,p\n1,a,true\nx,a,true\n"), {}),
    "sort": (True, ROWS, {"time": "down"}),
    "sort_memory": (1000, ROWS, {}),
    "event": ("what", ROWS, {}),
    "event_separator": (",", ROWS, {"event": "what"}),
    "wait": (9, ROWS, {"time": "down"}),
    "late": (lambda _: None, ROWS, {"time": "down"}),
}


def enter_rows(function: str, call: Callable[..., object], names: tuple[str, ...]) -> None:
    """Enter the options that say how rows are read."""
    for name in names:
        if name == "decimal":
            continue  # below: it concerns what is read as a number
        value, rows, others = OF_ROWS_VALUES[name]

        def run(rows: object = rows, **options: Any) -> object:
            if isinstance(rows, tuple):
                rows = Files.path(*rows)
            return call(rows=rows, **options)

        example(function, run, others)(**{name: value})


enter_rows("mtlmon.tables.open_tables", read, OF_EVENTS)
enter_rows("mtlmon.check", ran, tuple(one for one in OF_EVENTS if one != "late"))
enter_rows("mtlmon.query", asked, OF_ROWS)
enter_rows(
    "mtlmon.testing.check",
    asserted,
    tuple(one for one in OF_ROWS_VALUES if one in LogOptions.__annotations__),
)
enter_rows("mtlmon.RelationalMonitor.feed", answered, (*OF_ROWS, "wait", "late"))


def of_fractions(run: Callable[..., object]) -> Callable[..., object]:
    return lambda **o: run(Files.path("f.csv", "ts;k;p\n1;a;1,5\n"), **o)


_of_numbers: dict[str, Callable[..., object]] = {
    "mtlmon.check": lambda rows, **o: ran("p > 1", rows, **o),
    "mtlmon.tables.open_tables": lambda rows, **o: read(rows=rows, **o),
    "mtlmon.testing.check": lambda rows, **o: asserted("p > 1", rows, **o),
    "mtlmon.query": lambda rows, **o: mtlmon.query(
        "unit s\nrelation r = rows where p > 1", "r", rows, **o
    ),
    "mtlmon.RelationalMonitor.feed": lambda rows, **o: str(
        [str(one) for one in RelationalMonitor("atom e(k) = p > 1\nfind a: e(x)").feed(rows, **o)]
    ),
}
for _function, _compared in _of_numbers.items():
    _others: dict[str, object] = {"delimiter": ";"}
    if _function == "mtlmon.tables.open_tables":
        _others["predicates"] = {"p": parse_predicate("p > 1")}
    example(_function, of_fractions(_compared), _others)(decimal=",")

NAMED = "unit s\natom e(k) = at > 0\nfind a: e(x) AND q\nfind b: e(x) AND PREVIOUS e(y)"


def named_answers(**options: Any) -> str:
    return str([str(one) for one in RelationalMonitor(NAMED).feed(ROWS, **options)])


example("mtlmon.RelationalMonitor.feed", named_answers)(event="what")
example("mtlmon.RelationalMonitor.feed", named_answers, {"event": "what"})(
    event_separator=",", time_points="stamp"
)
example("mtlmon.query", asked)(max_memory=10)
example(
    "mtlmon.query",
    lambda **o: mtlmon.query("unit s\nrelation r = rows", "r", ROWS, **o).messages,
)(explain=True)
example(
    "mtlmon.query",
    lambda **o: str(mtlmon.query("relation r = rows valid 5", "r", ROWS, **o).to_pydict()),
)(end_time="last")
example("mtlmon.query", lambda **o: mtlmon.query("relation r = rows", **o))(relation="r")
example("mtlmon.query", lambda **o: mtlmon.query("relation r = rows", "r", **o))(tables=ROWS)


def answer_file(policy: Any = "p", **options: Any) -> str:
    """What is in the file of answers, and whether a file of the run is there."""
    for name in ("out.txt", "state", "page.html", "why.txt", "late.csv", "other.txt"):
        (Files.folder / name).unlink(missing_ok=True)
    given = {"output": str(Files.folder / "out.txt"), **options}
    run = mtlmon.check(policy, Files.path("in.csv", "ts,p\n1,true\n2,true\n3,false\n"), **given)
    try:
        run.finish()
    except MtlmonError as error:
        return str(error)
    names = "state", "page.html", "why.txt", "late.csv", "other.txt"
    there = [name for name in names if (Files.folder / name).exists()]
    out = Files.folder / "out.txt"
    return f"{out.read_text() if out.exists() else None} {there}"


class _Folder:
    """A path in the folder of the test, once there is one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __fspath__(self) -> str:
        return str(Files.folder / self.name)


RULES = "unit s\nconst n = 3\npolicy a severity low: at < n\npolicy b: q IMPLIES p"
example("mtlmon.check", ran)(key="k", max_memory=10, rows=True, verdicts="false", explain=True)
example("mtlmon.check", lambda **o: ran("EVENTUALLY[0,9] x", XS, **o))(
    mode="naive", resolve=True, end_time="inf", bdd="cud"
)
example("mtlmon.check", lambda **o: ran("policy a per k: NEXT p", **o))(advance_every="s")
example("mtlmon.check", lambda **o: ran("policy a: x IMPLIES p", XS, **o))(
    summary=True, fail_on_vacuous=True
)
example("mtlmon.check", lambda **o: ran("x IMPLIES p", XS, **o))(vacuous="warn")
example("mtlmon.check", lambda **o: ran(RULES, **o))(set={"m": 9}, fail_on="none", unit="m")
example("mtlmon.check", lambda **o: ran(NAMED, **o), {"event": "what"})(time_points="stamp")
example("mtlmon.check", lambda **o: ran(NAMED, **o), {"event": "what"})(max_rows=0, slices=0)
example("mtlmon.check", ran, {"explain": True})(explain_limit=1)
example("mtlmon.check", ran, {"time": "down"})(lateness=9)
example("mtlmon.check", ran, {"time": "down", "lateness": 9})(arrival=True)
example("mtlmon.check", ran, {"time": "down", "lateness": 9})(complete="k")
example("mtlmon.check", ran, {"time": "down", "lateness": 9})(new_end="k")
example("mtlmon.check", ran, {"time": "down", "lateness": 9})(consistency="strong", op="k", id="k")
example("mtlmon.check", ran, {"time": "down", "lateness": 1, "key": "k"})(clock="keys")


def followed(**options: Any) -> str:
    """What is said of a file that comes after the run has begun."""
    path = Files.folder / "to come.log"
    path.unlink(missing_ok=True)
    with mtlmon.check("p", path, format="text", **options) as run:
        if "follow" not in options:
            with pytest.raises(mtlmon.RunError, match="No such file"):
                next(run)
            return ""
        path.write_text("@1 p\n")
        run.end_log()
        return str([answer.verdict for answer in run])


example("mtlmon.check", followed)(follow=True)
example("mtlmon.check", ran)(
    idle="1x",
    slice_seed=3,
    statistics="known.json",
    write_statistics="seen.json",
    threads=0,
    csv_safe=True,
    time_stamps="iso",
    checkpoint_every=5,
    resume=True,
)

ASSERTED = "mtlmon.testing.check"
example(ASSERTED, asserted)(max_memory=10, bdd="cud", slice_seed=3, threads=0)
example(ASSERTED, asserted)(statistics="known.json", write_statistics="seen.json")
OF_KEYS = "atom e(k) = p\npolicy a: e(x) IMPLIES ONCE[1,9] e(x)"
example(ASSERTED, lambda **o: asserted(OF_KEYS, **o))(time_points="stamp", max_rows=0, slices=0)
example(ASSERTED, asserted, {"time": "down"})(lateness=9)


def given_to_live(policy: Any = "p", rows: Any = ROWS, **options: Any) -> str:
    """What is said of rows that are given."""
    run = mtlmon.live(policy, **options)
    found = [*run.feed(rows), *run.end()]
    return f"{found} {run.messages} {run.status} {run.summary[-40:]}"


def saved(**options: Any) -> str:
    if "snapshot" in options:
        first = mtlmon.live("NEXT p")
        first.feed(ROWS)
        options["snapshot"] = first.snapshot()
    return given_to_live("NEXT p", ROWS.slice(3), **options)


def late_at(**options: Any) -> str:
    """What is in the file of late rows."""
    path = Files.folder / "late.csv"
    path.unlink(missing_ok=True)
    given_to_live(**options)
    return path.read_text() if path.exists() else ""


HOLES = pa.table({"ts": [1, None, 3], "p": [True, True, False]})
enter_rows(
    "mtlmon.live",
    given_to_live,
    ("time", "time_unit", "time_zone", "resolution", "event", "event_separator", "wait"),
)
example("mtlmon.live", given_to_live, {"time": "text"})(time_format="%Y-%d-%m")
example("mtlmon.live", lambda **o: given_to_live("p", HOLES, **o))(on_error="skip")
example("mtlmon.live", late_at, {"time": "down", "wait": 0})(late=_Folder("late.csv"))
example("mtlmon.live", given_to_live)(
    key="k", max_memory=10, rows=True, verdicts="false", threads=0, slice_seed=3, text=True
)
example("mtlmon.live", given_to_live)(statistics="known.json", write_statistics="seen.json")
example("mtlmon.live", saved)(snapshot=True)
example("mtlmon.live", lambda **o: given_to_live("EVENTUALLY[0,9] x", XS, **o))(
    mode="naive", resolve=True, end_time="inf", bdd="cud"
)
example("mtlmon.live", lambda **o: given_to_live("policy a per k: NEXT p", **o))(advance_every="s")
example("mtlmon.live", lambda **o: given_to_live("policy a: x IMPLIES p", XS, **o))(
    fail_on_vacuous=True, vacuous="warn"
)
example("mtlmon.live", lambda **o: given_to_live(RULES, **o))(
    set={"m": 9}, fail_on="none", unit="m"
)
example("mtlmon.live", lambda **o: given_to_live(NAMED, **o), {"event": "what"})(
    time_points="stamp", max_rows=0, slices=0
)
example("mtlmon.live", given_to_live, {"time": "down"})(lateness=9)
example("mtlmon.live", given_to_live, {"time": "down", "lateness": 9})(arrival=True)
example("mtlmon.live", given_to_live, {"time": "down", "lateness": 9})(complete="k")
example("mtlmon.live", given_to_live, {"time": "down", "lateness": 9})(new_end="k")
example("mtlmon.live", given_to_live, {"time": "down", "lateness": 9})(
    consistency="strong", op="k", id="k"
)
example("mtlmon.live", given_to_live, {"time": "down", "lateness": 1, "key": "k"})(clock="keys")


OF_MONPOLY = "EVENTUALLY[0,5] p(x)", "@1 p(1)\n@2 p(2)\n"


def monpoly_answers(**options: Any) -> str:
    """What is found in a log of MonPoly."""
    formula, lines = OF_MONPOLY
    log = Files.path("monpoly.log", lines)
    given = {"signature": Files.path("one.sig", "p(x: int)\n"), **options}
    return str([dict(one) for one in mtlmon.check(formula, log, **given)])


def given_monpoly(**options: Any) -> str:
    """What is found in its lines, given as they come."""
    formula, lines = OF_MONPOLY
    given = {"signature": Files.path("one.sig", "p(x: int)\n"), **options}
    run = mtlmon.live(formula, text=True, **given)
    return str([dict(one) for one in (*run.feed(lines), *run.end())])


example("mtlmon.check", monpoly_answers)(nonewlastts=True, negate=True)
example("mtlmon.check", monpoly_answers)(signature=_Folder("other.sig"))
example("mtlmon.live", given_monpoly)(nonewlastts=True, negate=True)
example("mtlmon.live", given_monpoly)(signature=_Folder("other.sig"))
example("mtlmon.check", answer_file, {"wait": 0})(
    late=_Folder("late.csv"),
    output_format="csv",
    report=_Folder("page.html"),
    explain_output=_Folder("why.txt"),
)
example("mtlmon.check", answer_file, {"wait": 5})(output=_Folder("other.txt"))
example("mtlmon.check", answer_file)(checkpoint=_Folder("state"))


def records_file(**options: Any) -> str:
    """What is in the file of records."""
    for name in ("out.txt", "other.txt"):
        (Files.folder / name).unlink(missing_ok=True)
    given = {"output": str(Files.folder / "out.txt"), **options}
    mtlmon.query("unit s\nrelation r = rows", "r", ROWS, **given).finish()
    found = [Files.folder / name for name in ("out.txt", "other.txt")]
    made = [(Files.folder / name).exists() for name in ("late of records.csv", "state of records")]
    return f"{[one.read_bytes() if one.exists() else None for one in found]} {made}"


example("mtlmon.query", records_file)(output=_Folder("other.txt"), output_format="csv")
example("mtlmon.query", asked)(csv_safe=True)
example("mtlmon.query", asked, {"time": "down"})(lateness=9, wait=9)
example("mtlmon.query", asked, {"time": "down", "lateness": 9})(
    consistency="strong", op="k", id="k"
)
example("mtlmon.query", asked, {"time": "down", "lateness": 9})(arrival=True)
example("mtlmon.query", asked)(new_end="at")
example("mtlmon.query", asked, {"time": "down", "lateness": 9})(complete="k")
example("mtlmon.query", asked)(idle="1x", checkpoint_every="9", resume=True)
example("mtlmon.query", records_file, {"wait": 0})(late=_Folder("late of records.csv"))
example("mtlmon.query", records_file)(checkpoint=_Folder("state of records"))


def followed_records(**options: Any) -> str:
    """What is said of records of a file that comes after the run has begun."""
    path = Files.folder / "to come.csv"
    path.unlink(missing_ok=True)
    if "follow" not in options:
        with pytest.raises(mtlmon.MtlmonError):
            mtlmon.query("unit s\nrelation r = rows select k as k", "r", path, **options)
        return ""
    run = mtlmon.query("unit s\nrelation r = rows select k as k", "r", path, **options)
    path.write_text("ts,k\n1,a\n")
    run.end_log()
    return str(run.to_pylist())


example("mtlmon.query", followed_records)(follow=True)
_counted = "relation r = rows valid 9s where at > n\nconst n = 0"
example("mtlmon.query", lambda **o: str(mtlmon.query(_counted, "r", ROWS, **o).to_pydict()))(
    unit="m"
)
example(
    "mtlmon.query",
    lambda **o: str(mtlmon.query(_counted, "r", ROWS, **o).to_pydict()),
    {"unit": "s"},
)(set={"n": 10**9})

OFTEN = parse_policies("unit s\natom often = count[0,5](p) > 1\npolicy a: often")
WINDOW = parse_policies("unit s\nstream n = count[0,5](p)\npolicy a: n > 1\n")
WINDOW_SHOWN = WINDOW.show(WINDOW.streams["n"].expression)
example("mtlmon.tables.open_tables", read)(
    predicates={"p": parse_predicate("at > 5")},
    key="k",
    operation="k",
    complete=(None, "k"),
    new_end=("at", "at", 3),
    id="k",
    clock="key",
    streams=["n"],
    atoms_of_partitions=[{3: ["p"]}],
    shown=[{0: ["p"]}],
    computed=[{0: ["p"]}],
    counting=np.array([True]),
    given_relations=object(),
)
example("mtlmon.tables.open_tables", lambda **o: read((), **o), {"streams": ["n"]})(policies=WINDOW)
example("mtlmon.tables.open_tables", read, {"key": "k", "sort": True})(memory=MemoryLimit(1))
example("mtlmon.tables.open_tables", read)(partitions=[["k"]])
example("mtlmon.tables.open_tables", read, {"time": "down"})(in_any_order=True)
example("mtlmon.tables.open_tables", lambda **o: read(rows=Files.path("m.csv", "x\n1\n"), **o))(
    option_names=COMMAND
)
example("mtlmon.tables.table_files", lambda **o: table_files(Files.path("x.dat", CSV), **o))(
    format="csv", option_names=COMMAND
)
example("mtlmon.tables.Times", lambda **o: Times(**o).read(pa.array([3])), {"resolution": "s"})(
    unit="ms"
)
example("mtlmon.tables.Times", lambda **o: Times(**o).read(pa.array([180])), {"unit": "s"})(
    resolution="m"
)
example("mtlmon.tables.Times", lambda **o: Times(**o).read(pa.array(["2024-01-01"])))(
    format="%Y", zone="Asia/Tokyo"
)
# the clock is put back between them
TWICE = pa.array(["2024-10-27 02:50:00", "2024-10-27 02:10:00"])
example("mtlmon.tables.Times", lambda **o: Times(**o).read(TWICE), {"zone": "Europe/Berlin"})(
    disorder=None
)


def fed_streams(times: list[int], offsets: Any = None, **options: Any) -> KeyedMonitors:
    monitors = KeyedMonitors("EVENTUALLY[0,5] p", **options)
    columns = EventColumns(np.array(times), len(times))
    columns.add_bit_of_masks(0, np.array([0] * len(times), np.uint64), 0)
    numbers = np.arange(len(times), dtype=np.uint32)
    monitors.feed(columns, numbers, offsets)
    return monitors


def pending(monitors: KeyedMonitors, **options: Any) -> str:
    return str(monitors.pending(0, **options))


KEYED = "mtlmon.tables.KeyedMonitors"
example(KEYED, lambda **o: KeyedMonitors("p", **o).mode)(mode="naive", bdd="none")
example(KEYED, lambda **o: KeyedMonitors("p SINCE[0,1m] q", **o).mode)(unit="s")
example(KEYED, lambda **o: pending(fed_streams([9, 1], **o)))(own_clocks=True)
example(f"{KEYED}.feed", lambda **o: pending(fed_streams([1], **o)))(
    offsets=np.array([3], np.uint32)
)
example(f"{KEYED}.finish", lambda **o: fed_streams([1]).finish(0, **o))(end_time="inf")
example(f"{KEYED}.pending", lambda **o: pending(fed_streams([1]), **o))(time_stamp=9)
example(
    "mtlmon.tables.EventBatch.events_of",
    lambda **o: next(open_tables(ROWS, ("often",), policies=OFTEN)).events_of(("often",), **o),
)(partition=5)


# ---- policy files --------------------------------------------------------------------------------

FILE = "let d = 5\npolicy a: ONCE[0,d] p\npolicy b: p AND"
UNITS = "policy a: ONCE[0,5m] p"
SET = "const d = 5\npolicy a: ONCE[0,d] p"
NOTHING_IN_IT = "key k\n"


def shown_file(file: object) -> str:
    found, errors = file if isinstance(file, tuple) else (file, ())
    return f"{[str(one.formula) for one in found.policies]} {found.key} {[*map(str, errors)]}"


def of_paths(text: str, **options: Any) -> str:
    return shown_file(load_policies([Files.path("rules.mtl", text)], **options))


for _function, _reads in {
    "mtlmon.policy.parse_policies": lambda text, **o: shown_file(parse_policies(text, **o)),
    "mtlmon.policy.check_policies": lambda text, **o: shown_file(check_policies(text, **o)),
    "mtlmon.policy.load_policies": of_paths,
    "mtlmon.policy.check_files": lambda text, **o: shown_file(check_files([(text, "x.mtl")], **o)),
}.items():
    example(_function, lambda run=_reads, **o: run(UNITS, **o))(unit="s")
    example(_function, lambda run=_reads, **o: run(SET, **o))(constants={"d": "7"})
    example(_function, lambda run=_reads, **o: run(NOTHING_IN_IT, **o))(needs_policy=False)
    if "_files" in _function or "load" in _function:
        example(_function, lambda run=_reads, **o: run(UNITS, **o), {"unit": "s"})(key=("k",))
    else:
        example(_function, lambda run=_reads, **o: run("policy a: p AND", **o))(path="rules.mtl")
example("mtlmon.policy.parse_predicate", lambda **o: parse_predicate("a +", **o))(source="x.mtl")
example("mtlmon.policy.parse_predicate", lambda **o: parse_predicate("a > 1", **o).name)(name="big")
example(
    "mtlmon.policy.compile_predicates",
    lambda **o: compile_predicates({"p": parse_predicate("hour(ts) = 1")}, ROWS.schema, **o),
)(environment=Environment(time="ts", unit="s"))


# ---- tests ---------------------------------------------------------------------------------------

TRACE: Any = [(1, ["p"]), (2, []), (3, ["q"])]
LONG: Any = [(number, ["p"]) for number in range(9)]
PER_KEY: Any = [
    (1, {"k": "a", "p": False}),
    (2, {"k": "b", "p": False}),
    (3, {"k": "a", "p": True}),
]


def outcome_of(formula: str = "p", trace: Any = TRACE, run: Any = check, **options: Any) -> str:
    return str(run(formula, trace, **options))


for _function, _checks in (("check", check), ("assert_holds", assert_holds)):
    _name = f"mtlmon.testing.{_function}"

    def _tested(formula: str = "p", trace: Any = TRACE, run: Any = _checks, **o: Any) -> str:
        return outcome_of(formula, trace, run, **o)

    example(_name, lambda t=_tested, **o: t("NEXT p", PER_KEY, **o))(key="k")
    example(_name, lambda t=_tested, **o: t("p", TIMES, **o))(time="at")
    example(_name, lambda t=_tested, **o: t("EVENTUALLY[0,9] q", TRACE[:2], **o))(
        at_end="closed", end_time="inf", mode="none"
    )
    example(_name, lambda t=_tested, **o: t("p SINCE[0,1m] q", **o))(unit="s")
    example(_name, lambda t=_tested, **o: t("const n = 0\npolicy a: count[0,9](p) > n", **o))(
        set={"n": 9}
    )
    example(_name, lambda t=_tested, **o: t("x IMPLIES p", **o))(unknown="error", vacuous="error")
    example(_name, lambda t=_tested, **o: t("p", [(5, ["p"]), (3, ["p"])], **o))(wait=3)
    example(_name, lambda t=_tested, **o: t("p", ([1, 2], [1, 1]), **o))(atoms=["q"])
    example(_name, lambda t=_tested, **o: t("ONCE q", LONG, **o))(keep=0)


def live(
    formula: str = "p", events: Any = ((1, ["p"]), (2, [])), close: bool = True, **options: Any
) -> str:
    monitor = LiveMonitor(formula, **options)
    for event in events:
        monitor.step(*event)
    if close:
        monitor.close()
    return repr(monitor)


def clocked(**options: Any) -> str:
    monitor = LiveMonitor("p", **options)
    monitor.event("p")
    monitor.close()
    return repr(monitor)


def at_seven() -> int:
    return 7


LIVE = "mtlmon.testing.LiveMonitor"
example(LIVE, lambda **o: live("NOT p OR EVENTUALLY[0,9] q", **o))(
    at_end="closed", end_time="inf", mode="none"
)
example(LIVE, lambda **o: live("x IMPLIES p", **o))(unknown="error", vacuous="error")
example(LIVE, lambda **o: live("NEXT p", PER_KEY, **o))(key="k")
example(LIVE, lambda **o: live("p SINCE[0,1m] q", **o))(unit="s")
example(LIVE, lambda **o: live("p", [(5, ["p"]), (3, ["p"])], **o))(wait=3)
example(LIVE, lambda **o: live("ONCE q", LONG, **o))(keep=0)
example(LIVE, clocked)(clock=at_seven)
example(LIVE, lambda **o: live("p", close=False, **o))(owner="another")


def noted(name: str, *given: object, **options: Any) -> str:
    """What a live monitor with a clock makes of a call."""
    formula = "(ONCE[0,9] p) AND EVENTUALLY[0,5] q"
    monitor = LiveMonitor(formula, clock=at_seven, key="k", owner=None)
    if name == "step":
        monitor = LiveMonitor("p", owner=None)
    getattr(monitor, name)(*given, **options)
    monitor.close()
    return repr(monitor)


example(f"{LIVE}.step", lambda **o: noted("step", 1, **o))(atoms=["p"])
example(f"{LIVE}.notify", lambda **o: noted("notify", frozenset("p"), **o))(
    fields={"k": 1}, source="the record"
)


def advanced(**options: Any) -> str:
    monitor = LiveMonitor("EVENTUALLY[0,3] q", clock=at_seven, owner=None)
    monitor.step(1, [])
    monitor.advance(**options)
    return repr(monitor.violation)


example(f"{LIVE}.advance", advanced)(time_stamp=2)
SOURCE = logging.getLogger("tests.options")


def listened(level: int = logging.INFO, **options: Any) -> str:
    monitor = LiveMonitor("NOT went", clock=at_seven, owner=None)
    monitor.listen(LogRule("went", message="went"), **options)
    SOURCE.log(level, "it went")
    monitor.close()
    return repr(monitor)


example(f"{LIVE}.listen", lambda **o: listened(logging.WARNING, **o))(logger="elsewhere")
example(f"{LIVE}.listen", lambda **o: listened(logging.DEBUG, **o))(level=logging.DEBUG)


def record(message: str = "user ada went") -> logging.LogRecord:
    found = logging.LogRecord("app.web", logging.INFO, "app.py", 1, message, (), None)
    found.created = 5.0
    return found


def handled(**options: Any) -> str:
    monitor = LiveMonitor("NOT went", clock=at_seven, owner=None)
    handler = LogHandler(monitor, [LogRule("went", message="went")], **options)
    return f"{handler.level} {monitor.violation}"


example("mtlmon.testing.LogHandler", handled)(level="ERROR")
example("mtlmon.testing.LogRule", lambda **o: LogRule("went", **o).atom_of(record()))(
    logger="db", level="ERROR", message="came", fields={"name": "x"}
)
WENT = [LogRule("went", message=r"user (?P<user>\w+) went")]
example("mtlmon.testing.log_events", lambda **o: log_events([record()], *WENT, **o))(
    fields="user", unit="s"
)
example(
    "mtlmon.testing.policies",
    lambda **o: [
        str(one.file.policies[0].formula)
        for one in policy_parameters(Files.path("p.mtl", SET), **o)
    ],
)(constants={"d": "7"})
example(
    "mtlmon.testing.policies",
    lambda **o: [
        str(one.file.policies[0].formula)
        for one in policy_parameters(Files.path("p.mtl", UNITS), **o)
    ],
)(unit="s")


# ---- the test ------------------------------------------------------------------------------------


PUBLIC = public_options(MODULES, PASSED_ON, NO_OPTIONS)


@pytest.mark.parametrize(("function", "option"), PUBLIC, ids=[".".join(one) for one in PUBLIC])
def test_an_option_is_obeyed_or_refused(function: str, option: str, tmp_path: Path) -> None:
    found = EXAMPLES.find(function, option)
    Files.folder = tmp_path
    without = found.outcome(with_option=False)
    assert found.outcome(with_option=False) == without, "the example is not always the same"
    assert found.outcome(with_option=True) != without, f"{option} changes nothing:\n{without}"


def test_examples_are_of_options() -> None:
    entered = {(full, name) for full, own in EXAMPLES.of.items() for name in own}
    assert entered <= set(PUBLIC)


REFUSED = {
    "operation": "mtlmon.History takes these, and mtlmon.RelationalHistory for policies",
    "id": "mtlmon.History takes these",
    "clock": "mtlmon.History takes these",
    "in_any_order": "mtlmon.History takes these",
    "shown": "follows from the policies: mtlmon.tables.open_tables takes it",
    "memory": "give max_memory=",
    "tiem": "has no option 'tiem'; did you mean 'time'",
}


@pytest.mark.parametrize("option", REFUSED)
def test_what_is_refused_names_the_way(option: str) -> None:
    policy = "unit s\natom e(k) = p\npolicy a: e(x) IMPLIES ONCE e(x)"
    given: dict[str, Any] = {option: "k"}
    with pytest.raises(MtlmonError, match=REFUSED[option]):
        check_tables(ROWS, policy, **given)
    with pytest.raises(MtlmonError, match=REFUSED[option]):
        RelationalMonitor(policy).feed(ROWS, **given)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("tiem", r"query\(\) has no option 'tiem'; did you mean 'time'\?"),
        ("verdicts", r"query\(\) has no option verdicts, which mtlmon.check has"),
        ("key", r"query\(\) has no option key, which mtlmon.check has"),
        ("progress", r"query\(\) has no option progress, which is for terminals"),
        ("shown", r"query\(\) has no option 'shown'"),
    ],
)
def test_what_queries_do_not_take(option: str, message: str) -> None:
    query: Any = mtlmon.query
    with pytest.raises(TypeError, match=message):
        query("relation r = rows", "r", ROWS, **{option: "k"})
