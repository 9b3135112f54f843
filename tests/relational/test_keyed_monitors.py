"""Monitors and histories of policies with a key: what is said of each key's part of the log."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula, RelationalHistory, RelationalMonitor
from mtlmon.errors import EventError, FormulaError, MtlmonError, SnapshotError
from mtlmon.policy import parse_policies
from tests.doors import sealed, sized, take_sized, unsealed
from tests.reference.first_order import Log, answers
from tests.relational.formulas import formulas, safe_formulas
from tests.relational.test_keyed import KeyedLog, keyed_logs

_TYPES = dict.fromkeys("xyzint", int)
Named = tuple[str, int, int, bool | None, tuple[tuple[str, Any], ...]]

FORMULAS = st.one_of(safe_formulas(), safe_formulas(aggregates=True), formulas(9))


def written(formula: Formula, *, is_find: bool) -> str:
    """A policy file that is about the valuations that a formula has: matches, or violations."""
    body = f"find f: {formula}" if is_find else f"policy f: NOT ({formula})"
    text = f"atom p(x: int)\natom q(x: int, y: int)\nkey k\n{body}\n"
    try:
        file = parse_policies(text)
        RelationalMonitor(file)
    except MtlmonError:
        assume(False)
    (policy,) = file.policies
    assume(policy.formula == formula if is_find else policy.formula.operands == (formula,))
    return text


def named(answer: Any) -> Named:
    (key,) = answer.key
    values = tuple(sorted(answer.valuation.items()))
    return key, answer.time_stamp, answer.offset, answer.value, values


def expected(
    formula: Formula, log: Log, key: str, names: list[tuple[int, int]], *, is_find: bool
) -> set[Named]:
    """What the reference says of the log of a key, whose time-points have some names."""
    variables: tuple[str, ...] = tuple(sorted(free_names(formula)))
    found: set[Named] = set()
    value = None if is_find else False
    for (time_stamp, offset), one in zip(
        names, answers(formula, log, variables, types=_TYPES), strict=True
    ):
        if one.undecided:
            continue
        rows = [tuple(zip(variables, row, strict=True)) for row in one.satisfying]
        found |= {(key, time_stamp, offset, value, row) for row in rows}
        if not rows and not is_find:
            found.add((key, time_stamp, offset, True, ()))
    return found


def free_names(formula: Formula) -> set[str]:
    from tests.doors import free_variables

    return set(free_variables(formula)[id(formula)])


def offsets(stamps: list[int]) -> list[tuple[int, int]]:
    """The names of time-points, in the order in which they come."""
    return [(stamp, stamps[:place].count(stamp)) for place, stamp in enumerate(stamps)]


@settings(max_examples=60)
@given(
    FORMULAS,
    keyed_logs(),
    st.frozensets(st.integers(0, 6), max_size=2),
    st.booleans(),
    st.sampled_from([None, None, 2]),
)
def test_a_monitor(
    formula: Formula, log: KeyedLog, cuts: frozenset[int], is_find: bool, slices: int | None
) -> None:
    text = written(formula, is_find=is_find)
    monitor = RelationalMonitor(text, verdicts="all", slices=slices)
    found: list[Named] = []
    try:
        for place, ((time_stamp, database), key) in enumerate(
            zip(log.log.points, log.keys, strict=True)
        ):
            if place in cuts:
                saved = monitor.snapshot()
                monitor = RelationalMonitor(text, verdicts="all", slices=slices)
                monitor.restore(saved)
            given_key = {"k": str(key), "other": "x"}
            found += map(named, monitor.step(time_stamp, database, given_key))
        found += map(named, monitor.finish())
    except MtlmonError as error:
        assert "overflow" in str(error)
        assume(False)
    wanted: set[Named] = set()
    for key in set(log.keys):
        own = Log(log.of(key).points, 0, True)
        names = offsets([time for time, _ in own.points])
        try:
            wanted |= expected(formula, own, str(key), names, is_find=is_find)
        except FormulaError:
            assume(False)
    assert sorted(found) == sorted(wanted)


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[int, Any, str, bool]]:
    """Events in any order: their times, rows and keys, and whether they are taken back."""
    log = draw(keyed_logs())
    events = [
        (time, rows, str(key), draw(st.integers(0, 4)) == 0)
        for (time, rows), key in zip(log.log.points, log.keys, strict=True)
    ]
    return draw(st.permutations(events))


@settings(max_examples=60)
@given(
    FORMULAS,
    arrivals(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(None, 0), (3, 0), (3, 2)]),
    st.sampled_from([0, 2]),
)
def test_a_history(
    formula: Formula,
    events: list[tuple[int, Any, str, bool]],
    is_find: bool,
    has_cuts: bool,
    bounds: tuple[int | None, int],
    spacing: int,
) -> None:
    """Whatever comes late or is taken back, the answers are those about each key's own events."""
    text = written(formula, is_find=is_find)
    if bounds[1]:
        # an event that is taken back while it waits never gets a name
        events = [(*one[:3], False) for one in events]
    options: dict[str, Any] = {"verdicts": "all", "ids": True, "_spacing": spacing}
    options |= {"lateness": bounds[0], "wait": bounds[1]}
    history = RelationalHistory(text, **options)
    emitted: set[Named] = set()
    kept: list[tuple[int, Any, str, bool]] = []

    def take(changes: Any) -> None:
        for operation, answer in changes:
            if operation == "delete":
                emitted.remove(named(answer))
            else:
                assert named(answer) not in emitted
                emitted.add(named(answer))
        assert {named(one) for one in history.latest()} <= emitted

    try:
        for number, event in enumerate(events):
            time_stamp, rows, key, _ = event
            changes = history.push([(time_stamp, rows)], ids=[number], keys=[{"k": key}])
            take(changes)
            if not changes.refused:
                kept.append(event)
            if has_cuts:
                saved = history.snapshot()
                history = RelationalHistory(text, **options)
                history.restore(saved)
            if event[3] and not changes.refused:
                take(history.push([(0, {})], ids=[number], operations=["-"]))
        take(history.finish("inf"))
    except MtlmonError as error:
        assert "overflow" in str(error)
        assume(False)
    wanted: set[Named] = set()
    for key in {one[2] for one in kept}:
        own = [one for one in kept if one[2] == key]
        if bounds[1]:
            # events that wait get their names in the order of time
            own.sort(key=lambda one: one[0])
        alive = [
            (name, one)
            for name, one in zip(offsets([one[0] for one in own]), own, strict=True)
            if not one[3]
        ]
        alive.sort(key=lambda one: one[0])
        log = Log(tuple((one[0], one[1]) for _, one in alive), 0, True)
        try:
            wanted |= expected(formula, log, key, [name for name, _ in alive], is_find=is_find)
        except FormulaError:
            assume(False)
    assert sorted(emitted) == sorted(wanted)


_READS = 'key ip\natom read(f) = what = "read"\natom open(f) = what = "open"\n'
_READS += "policy own: read(f) IMPLIES PREVIOUS open(f)\n"


def test_names_of_tables_go_on() -> None:
    """Time-points of one time-stamp in several tables, and steps, have names of their own."""
    monitor = RelationalMonitor(_READS)

    def table(*rows: tuple[int, str, str]) -> pa.Table:
        columns = dict(zip(("ts", "ip", "what"), map(list, zip(*rows, strict=True)), strict=True))
        return pa.table({**columns, "f": ["x"] * len(rows)})

    found = monitor.feed(table((1, "a", "read"), (1, "b", "read"), (1, "a", "read")))
    found += monitor.feed(table((1, "b", "read"), (1, "c", "read")))
    saved = monitor.snapshot()
    monitor = RelationalMonitor(_READS)
    monitor.restore(saved)
    found += monitor.step(1, {"read": [("x",)]}, key={"ip": "a"})
    found += monitor.feed(table((2, "b", "read"), (2, "b", "read")), time_points="stamp")
    found += monitor.step(2, {"read": [("x",)]}, key={"ip": "b"})
    named = [(*one.key, one.time_stamp, one.offset, one.point) for one in found]
    assert named == [
        ("a", 1, 0, 0), ("b", 1, 0, 1), ("a", 1, 1, 2), ("b", 1, 1, 3), ("c", 1, 0, 4),
        ("a", 1, 2, 5), ("b", 2, 0, 6), ("b", 2, 1, 7),
    ]  # fmt: skip


def test_a_time_point_of_several_keys() -> None:
    rows = {"ts": [1, 1, 1], "ip": ["a", "b", "c"], "what": ["open", "read", "open"]}
    monitor = RelationalMonitor(_READS, verdicts="all")
    found = monitor.feed(pa.table({**rows, "f": ["x"] * 3}), time_points="stamp")
    found += monitor.finish()
    assert [(*one.key, one.value) for one in found] == [("a", True), ("b", False), ("c", True)]


def test_the_key_of_an_event_is_needed() -> None:
    history = RelationalHistory(_READS, lateness=5, ids=True)
    event = 1, {"read": [("x",)]}
    for keys in (None, [None], [{"host": "a"}]):
        with pytest.raises(ValueError, match="the policy has the key ip: give its value"):
            history.push([event], keys=keys)
    with pytest.raises(TypeError, match="the value of the key ip is a text, not 7"):
        history.push([event], keys=[{"ip": 7}])  # type: ignore[dict-item]
    with pytest.raises(EventError, match="2 keys for 1 events"):
        history.push([event], keys=[{"ip": "a"}] * 2)
    assert not len(history.push([(5, {})], operations=["advance"]))
    assert history.push([event], ids=[1], keys=[{"ip": "a"}]).lines == ["own\ta\t1:0 false (f=x)"]
    assert history.push([(0, {})], ids=[1], operations=["-"]).lines == ["own\ta\t!x1:0 false (f=x)"]


def test_events_of_other_keys_are_no_equals() -> None:
    """A retraction takes back an event of its key, even if no policy reads either's rows."""
    text = _READS.replace("PREVIOUS", "ONCE")
    history = RelationalHistory(text, lateness=5, equality=True, verdicts="all")
    keys = [{"ip": "a"}, {"ip": "b"}]
    lines = history.push([(1, {}), (1, {})], keys=keys).lines
    assert lines == ["own\ta\t1:0 true", "own\tb\t1:0 true"]
    taken = history.push([(1, {})], keys=keys[:1], operations=["-"]).lines
    assert taken == ["own\ta\t!x1:0 true"]


def forged(source: random.Random, snapshot: bytes) -> bytes:
    """A snapshot with another number, text or key somewhere in the names of time-points."""
    line = snapshot[: snapshot.index(b"\n") + 1]
    first, body = take_sized(unsealed(line, snapshot))
    if b"monitor" in line:
        names, body = take_sized(body)
        return sealed(line, sized(first) + sized(changed_json(source, names)) + body)
    waiting, names = take_sized(first)
    if source.random() < 0.5:
        waiting = changed_json(source, waiting)
    else:
        names = changed_json(source, names)
    return sealed(line, sized(sized(waiting) + names) + body)


def changed_json(source: random.Random, text: bytes) -> bytes:
    value = json.loads(text)
    lists = [value]
    for one in lists:
        lists += [part for part in one if isinstance(part, list)]
    within = source.choice([one for one in lists if one] or [value])
    place = source.randrange(len(within) + 1)
    within[place : place + 1] = source.choice(
        [[], [0], [-1], [1 << 70], ["a"], [None], [[]], ["\ud800"], [True], [{}], [["a", "b"]]]
    )
    return json.dumps(value).encode()


@pytest.mark.parametrize("kind", ["monitor", "history"])
def test_forged_names_are_refused(kind: str) -> None:
    """Whatever a snapshot says of names, there is an error of mtlmon, or none."""
    source = random.Random(kind)
    text = _READS.replace("PREVIOUS open(f)", "EVENTUALLY[0,5] open(f)")

    def made() -> Any:
        if kind == "monitor":
            return RelationalMonitor(text, verdicts="all")
        return RelationalHistory(text, lateness=4, wait=2, ids=True, verdicts="all")

    def resume(one: Any, first: int) -> None:
        for time in range(first, first + 9):
            rows, key = {"read": [("x",)]}, {"ip": "ab"[time % 2]}
            if kind == "monitor":
                one.step(time // 2, rows, key)
            else:
                one.push([(time // 2 + time % 3, rows)], ids=[time], keys=[key])
        if kind == "history":
            one.latest()

    old = made()
    resume(old, 0)
    snapshot = old.snapshot()
    refused = 0
    for _ in range(300):
        new = made()
        try:
            new.restore(forged(source, snapshot))
        except SnapshotError:
            refused += 1
            continue
        try:
            resume(new, 9)
            new.snapshot()
            new.finish(*["inf"] * (kind == "history"))
        except MtlmonError:
            # some are found to be forged when they are used
            refused += 1
    assert refused > 100
