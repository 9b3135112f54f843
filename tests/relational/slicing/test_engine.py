"""The engine in slices: native hashes and routes, and the answers, one by one, of one engine."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from weakref import ref

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import (
    FormulaError,
    LimitError,
    MonitorBrokenError,
    PolicyError,
    RowError,
    SnapshotError,
)
from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.relational import Analysis, Answer, RelationalMonitor, analyse
from mtlmon.relational.slicing import Slicing, Statistics, plan_slices
from tests.doors import (
    FLOAT,
    INTEGER,
    TEXT,
    KeyTable,
    Kind,
    PointBlock,
    Router,
    SlicedEngine,
    SplitBlock,
    Splitter,
    Timeline,
    Value,
    atom_numbers,
    engine_of,
    hash_of_cell,
    plan,
    point_rows,
    routing_of,
    to_cell,
)
from tests.reference.first_order import Log
from tests.reference.slicing import hashed, owner, rows_of_slices
from tests.relational.formulas import logs, safe_formulas
from tests.relational.slicing.forgetting import FORGETFUL, forgotten_points
from tests.relational.slicing.test_slices import SPARK

_KINDS: dict[type, Kind] = {int: INTEGER, float: FLOAT, str: TEXT}


def hash_of(value: Value, seed: int) -> int:
    texts = KeyTable(1)
    cell = to_cell(value, _KINDS[type(value)], texts)
    assert cell is not None
    return hash_of_cell(texts, cell, isinstance(value, str), seed)


@pytest.mark.parametrize(("value", "expected"), SPARK)
def test_hashes_are_those_of_spark(value: Value, expected: int) -> None:
    assert hash_of(value, 7) == expected


_SEEDS = st.integers(-(2**63), 2**63 - 1)


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)), _SEEDS)
def test_hashes_of_numbers(value: float, seed: int) -> None:
    assert hash_of(value, seed) == hashed(value, seed)


@given(st.text(max_size=80), _SEEDS)
def test_hashes_of_texts(value: str, seed: int) -> None:
    assert hash_of(value, seed) == hashed(value, seed)


ROUTED = """
atom p(x: text)
atom q(x: text, y: text)
find a: p(x) AND ONCE[0,3] (q(x, y) AND NOT q(y, x))
find b: EXISTS y. q(x, y) AND q(y, "b") AND NOT q(x, x)
find c: COUNT(ONCE q(x, y)) > 2 AND r
find d: (ONCE[0,3] q(x, y)) AND q(y, z) AND EVENTUALLY[0,4] q(z, x)
"""
_LETTERS = st.sampled_from(["a", "b", "c", "", "dd"])
_ROWS = st.fixed_dictionaries(
    {
        "p": st.lists(st.tuples(_LETTERS), max_size=3),
        "q": st.lists(st.tuples(_LETTERS, _LETTERS), max_size=3),
        "r": st.lists(st.just(()), max_size=1),
    }
)
_HEAVY = st.tuples(*[st.frozensets(_LETTERS, max_size=2)] * 3).map(
    lambda sets: Statistics(
        {"q": 3.0, "p": 1.0}, {("p", 0): sets[0], ("q", 0): sets[1], ("q", 1): sets[2]}
    )
)


@given(
    st.lists(_ROWS, max_size=4),
    _HEAVY,
    st.one_of(st.integers(1, 9), st.sampled_from([64, 65, 130])),
)
@settings(max_examples=80)
def test_rows_go_where_the_reference_says(
    databases: list[dict[str, list[tuple[str, ...]]]], statistics: Statistics, slices: int
) -> None:
    file = parse_policies(ROUTED)
    analysis = analyse(file)
    slicing = plan_slices(file, analysis, slices, statistics=statistics)
    made = plan(file, analysis, prepared=slicing.prepared)
    router = Router(routing_of(slicing, made), made.texts)
    numbers = {atom.name: number for number, atom in enumerate(made.named_atoms)}
    widths = array("I", made.atoms)
    points, blocks = PointBlock(widths), [PointBlock(widths) for _ in range(slices)]

    def cells(row: Sequence[str]) -> tuple[int, ...]:
        found = [to_cell(value, TEXT, made.texts) for value in row]
        return tuple(cell for cell in found if cell is not None)

    for time_stamp, database in enumerate(databases):
        rows = [(numbers[name], cells(row)) for name, some in database.items() for row in some]
        points.add(time_stamp, rows)
    whole = [slice % 2 == 0 for slice in range(slices)]
    splitter = Splitter(router, Timeline(made), whole)
    split = SplitBlock(splitter, widths)
    splitter.split(points, split)
    splitter.commit(split)
    assert len(points) == 0
    for number, block in enumerate(blocks):
        split.copy_to(block, number)
    taken = [dict(block.take()) for block in blocks]
    for is_whole, part in zip(whole, taken, strict=True):
        assert len(part) == len(databases) if is_whole else all(part.values())
    for time_stamp, database in enumerate(databases):
        expected = rows_of_slices(slicing.policies, slices, database)
        for part, wanted in zip(taken, expected, strict=True):
            assert sorted(part.get(time_stamp, [])) == sorted(
                (numbers[name], cells(tuple(map(str, row))))
                for name, some in wanted.items()
                for row in some
            )
        for row in database["q"]:
            # as values of x and y, in each policy that has both
            for number in (0, 1):
                assert router.owner_of(number, cells(row)) == owner(slicing.policies[number], row)


def run(
    monitor: RelationalMonitor, log: Log, cuts: frozenset[int], text: str, **given: object
) -> list[Answer]:
    """All answers; behind some time-points, a new monitor goes on."""
    found: list[Answer] = []
    for number, (time_stamp, database) in enumerate(log.points):
        found += monitor.step(time_stamp, {name: list(rows) for name, rows in database.items()})
        if number in cuts:
            saved = monitor.snapshot()
            monitor = RelationalMonitor(text, **given)  # type: ignore[arg-type]
            monitor.restore(saved)
            assert monitor.snapshot() == saved
    if log.points:
        found += monitor.advance(max(log.clock, log.points[-1][0]))
    if log.closed:
        found += monitor.finish()
    assert engine_of(monitor).answered_points is not None
    return found


_NUMBERS = st.tuples(*[st.frozensets(st.integers(0, 2), max_size=1)] * 3).map(
    lambda sets: Statistics({}, {("p", 0): sets[0], ("q", 0): sets[1], ("q", 1): sets[2]})
)
DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


@given(
    st.lists(safe_formulas(aggregates=True), min_size=1, max_size=3),
    logs(),
    _NUMBERS,
    st.integers(2, 9),
    st.integers(0, 3),
    st.frozensets(st.integers(0, 3)),
    st.sampled_from(["false", "all"]),
)
@settings(max_examples=80)
def test_answers_are_those_of_one_engine(
    formulas: list[Formula],
    log: Log,
    statistics: Statistics,
    slices: int,
    seed: int,
    cuts: frozenset[int],
    verdicts: str,
) -> None:
    words = ["find", "policy"]
    text = DECLARED + "".join(
        f"{words[k % 2]} f{k}: {'NOT ' * (k % 2)}({one})\n" for k, one in enumerate(formulas)
    )
    try:
        single = RelationalMonitor(text, verdicts=verdicts)
        expected = run(single, log, frozenset(), text)
    except (FormulaError, PolicyError):
        # no variables, or nothing that binds them
        assume(False)
    given = {
        "verdicts": verdicts,
        "slices": slices,
        "statistics": statistics,
        "slice_seed": seed,
    }
    sliced = RelationalMonitor(text, **given)  # type: ignore[arg-type]
    assert run(sliced, log, cuts, text, **given) == expected


@pytest.mark.parametrize("is_ahead", [False, True])
def test_texts_are_forgotten_by_all_slices(is_ahead: bool) -> None:
    file = parse_policies(FORGETFUL)
    analysis = analyse(file)
    single = RelationalMonitor(FORGETFUL)
    sliced = RelationalMonitor(FORGETFUL, slices=3)
    engine = SlicedEngine(file, analysis, plan_slices(file, analysis, 3))
    for one in (*engine_of(sliced).engines, *engine.engines):  # type: ignore[union-attr]
        one.spare_texts = 20
    engine.is_ahead = is_ahead
    found: list[tuple[int, ...]] = []
    expected: list[tuple[int, ...]] = []
    answers = []
    for time_stamp, database in forgotten_points(200):
        answers.append((single.step(time_stamp, database), sliced.step(time_stamp, database)))
        numbers = {atom.name: number for number, atom in enumerate(engine.plan.named_atoms)}
        rows = []
        for name, some in database.items():
            for row in some:
                cells = [to_cell(value, TEXT, engine.texts) for value in row]
                rows.append((numbers[name], [cell for cell in cells if cell is not None]))
        engine.points.add(time_stamp, rows)
        engine.advance()
        expected += [answer[:1] for answer in answers[-1][0]]  # type: ignore[misc]
        found += engine.answers.take()  # type: ignore[arg-type]
    assert all(one == other for one, other in answers)
    engine.settle()
    found += engine.answers.take()  # type: ignore[arg-type]
    assert len(found) == len(expected)
    assert len(engine_of(sliced).texts) < 60
    assert len(engine.texts) < 60
    engine.close()


def test_closed_policies_are_answered_behind_others() -> None:
    text = """
    atom p(x: text)
    policy a: r IMPLIES EVENTUALLY EXISTS u. p(u)
    policy b: p(x) IMPLIES ONCE[0,3] r
    find c: p(x) AND EVENTUALLY[0,2] r
    find d: (EXISTS x. p(x)) AND EVENTUALLY EXISTS x. p(x) AND r
    """
    points: list[tuple[int, dict[str, list[tuple[str, ...]]]]] = [
        (k // 2, {"p": [(f"u{k % 5}",), ("v",)] if k % 3 else [], "r": [()] if k % 4 == 0 else []})
        for k in range(60)
    ]
    for verdicts in ("false", "all"):
        single = RelationalMonitor(text, verdicts=verdicts)
        sliced = RelationalMonitor(text, verdicts=verdicts, slices=4)
        for point in points:
            assert sliced.step(*point) == single.step(*point)
        assert sliced.finish() == single.finish()
        assert engine_of(sliced).found_points == engine_of(single).found_points


def test_a_slice_that_fails_stops_all() -> None:
    text = "atom p(x: int, y: int)\nfind a: p(x, y) AND x * y > 3\n"
    monitor = RelationalMonitor(text, slices=4)
    assert len(monitor.step(1, {"p": [(2, 3), (1, 2)]})) == 1
    with pytest.raises(RowError):
        monitor.step(2, {"p": [(2**62, 3), (5, 5)]})
    assert engine_of(monitor).point_count == 2
    with pytest.raises(MonitorBrokenError, match="stopped at an error"):
        engine_of(monitor).advance()


def test_damaged_snapshots_are_refused() -> None:
    saved = RelationalMonitor(FORGETFUL, slices=3).snapshot()
    for damaged in (saved[:-1], saved + b"x", b"", saved[:40], saved.replace(b'"seed"', b'"sead"')):
        with pytest.raises(SnapshotError):
            RelationalMonitor(FORGETFUL, slices=3).restore(damaged)
    saved = engine_of(RelationalMonitor(FORGETFUL, slices=3)).snapshot()
    other = saved.replace(b'"seed": 0', b'"seed": 1')
    assert other != saved
    with pytest.raises(SnapshotError, match="slices logs in another way"):
        engine_of(RelationalMonitor(FORGETFUL, slices=3)).restore(other)


def test_too_many_slices() -> None:
    with pytest.raises(LimitError, match="from 1 to 1024"):
        RelationalMonitor(FORGETFUL, slices=2000)


def test_what_python_computes_runs_on_one_thread() -> None:
    text = "atom p(x: text)\nfind a: p(x) AND (ONCE[0,3] p(y)) AND y = lower(x)\n"
    file = parse_policies(text)
    analysis = analyse(file)
    assert not analysis.errors
    engine = SlicedEngine(file, analysis, plan_slices(file, analysis, 3), threads=3)
    assert plan(file, analysis).functions
    assert engine.threads == 1
    assert SlicedEngine(*_planned(FORGETFUL, 3), threads=2).threads == 2


def _planned(text: str, slices: int) -> tuple[PolicyFile, Analysis, Slicing]:
    file = parse_policies(text)
    analysis = analyse(file)
    return file, analysis, plan_slices(file, analysis, slices)


def test_engines_alike_go_on_from_each_other() -> None:
    """What is left of one that nobody uses is free at once."""
    file, analysis, slicing = _planned(FORGETFUL, 3)
    first = SlicedEngine(file, analysis, slicing, threads=2, rebalances=False)
    numbers = atom_numbers(first.plan)
    for time_stamp, database in forgotten_points(20):
        first.points.add(time_stamp, point_rows(first.plan, numbers, database))
    first.advance()
    first.answers.take()
    second = first.alike()
    second.restore(first.snapshot(has_texts=False))
    assert second.content() == first.content() is not None
    assert second.plan is first.plan
    # a state of fewer slices
    other = SlicedEngine(file, analysis, plan_slices(file, analysis, 2), rebalances=False)
    with pytest.raises(SnapshotError, match="damaged"):
        other.restore(first.snapshot(has_texts=False))
    left = ref(second)
    del second
    assert left() is None
    first.close()
