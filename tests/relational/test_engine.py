"""The engine of first-order policies against the reference, on random formulas and logs."""

from __future__ import annotations

import gc
from hashlib import blake2b

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon import Formula, RelationalHistory
from mtlmon.errors import FormulaError, LimitError, MtlmonError, RowError, SnapshotError
from mtlmon.policy import parse_policies
from mtlmon.relational import RelationalMonitor, analyse
from tests.doors import RelationalEngine, engine_of, plan
from tests.reference.first_order import Log, Row, answers
from tests.relational.formulas import formulas, logs, safe_formulas
from tests.sampling import thinned

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
# What a term is worth does not depend on its type here, so there are integers only.
_TYPES = dict.fromkeys("xyz", int)


def engine_for(formula: Formula) -> tuple[tuple[str, ...], RelationalEngine]:
    """An engine, and the variables that it reports."""
    file = parse_policies(f"{_DECLARED}find f: {formula}\n")
    # a comparison by itself is one of columns, not of variables
    assume(file.policies[0].formula == formula)
    analysis = analyse(file)
    assume(not analysis.errors and analysis.policies)
    planned = plan(file, analysis)
    return analysis.policies[0].reported, RelationalEngine(planned, planned.texts)


def evaluated(
    formula: Formula, log: Log, cuts: frozenset[int] = frozenset()
) -> tuple[tuple[str, ...], list[set[Row]], int]:
    """What the engine answers: the variables, the rows of each time-point, how many are known.

    Behind each time-point of `cuts`, it is saved and a new one goes on.
    """
    names, engine = engine_for(formula)
    numbers = {atom.name: number for number, atom in enumerate(engine.plan.named_atoms)}
    found: list[set[Row]] = [set() for _ in log.points]

    def take() -> None:
        for _, _, _, _, point, cells in engine.answers.take():
            assert cells not in found[point], "an answer occurs twice"
            found[point].add(cells)

    for number, (time_stamp, database) in enumerate(log.points):
        rows = [
            (numbers[name], [int(value) for value in row])
            for name, given_rows in database.items()
            if name in numbers
            for row in given_rows
        ]
        engine.points.add(time_stamp, rows)
        engine.advance()
        take()
        if number in cuts:
            saved = engine.snapshot()
            _, engine = engine_for(formula)
            engine.restore(saved)
            assert engine.snapshot() == saved
    engine.end(max(log.clock, engine.clock), log.closed)
    take()
    return names, found, engine.answered_points[0]


def agree(formula: Formula, log: Log, cuts: frozenset[int] = frozenset()) -> None:
    """The engine answers what the reference does, as soon as it is decided by time-stamps."""
    try:
        names, found, known = evaluated(formula, log, cuts)
    except FormulaError:
        # random formulas may have no quantifier or predicate, or look ahead without bound
        assume(False)
    expected = answers(formula, log, names, types=_TYPES)
    for point, rows in enumerate(found):
        if point < known:
            assert not expected[point].undecided
            assert rows == expected[point].satisfying
        else:
            assert not rows
    assert known == len(log.points) or not log.closed


def _read(text: str) -> Formula:
    return parse_policies(f"{_DECLARED}find f: {text}\n").policies[0].formula


_CUTS = st.frozensets(st.integers(0, 3))


@given(safe_formulas(), logs(), _CUTS)
def test_formulas_that_are_safe_by_construction(
    formula: Formula, log: Log, cuts: frozenset[int]
) -> None:
    agree(formula, log, cuts)


@given(safe_formulas(aggregates=True), logs(), _CUTS)
def test_formulas_with_aggregates(formula: Formula, log: Log, cuts: frozenset[int]) -> None:
    agree(formula, log, cuts)


@given(formulas(9), logs(), _CUTS)
def test_formulas_of_any_shape(formula: Formula, log: Log, cuts: frozenset[int]) -> None:
    agree(formula, log, cuts)


# Neither these nor their negations bind x and y.
_LEFT_SIDES = [
    "(p(x) OR q(y, y))",
    "(NOT p(x) OR q(y, y))",
    "(EXISTS z. q(x, z) AND p(y))",
    "((HISTORICALLY[0,1] q(x, y)) OR p(x))",
]
_UNTILS = ["{} UNTIL[0,2] q(x, y)", "q(x, y) AND NOT ({} UNTIL[1,3] q(y, x))"]


@given(st.sampled_from(_LEFT_SIDES), st.sampled_from(_UNTILS), logs(), _CUTS)
def test_left_sides_of_until_that_say_nothing_by_themselves(
    left: str, until: str, log: Log, cuts: frozenset[int]
) -> None:
    agree(_read(until.format(left)), log, cuts)


@given(st.sampled_from(["r", "ONCE[0,3] r", "PREVIOUS r", "r AND p(1)"]), logs(), _CUTS)
def test_aggregates_of_atoms_without_arguments(
    operand: str, log: Log, cuts: frozenset[int]
) -> None:
    agree(_read(f"COUNT({operand}) = 1"), log, cuts)


_REMEMBERING = """
atom p(x: text)
atom q(x: text, y: text)
find window: p(x) AND ONCE[0,3] q(x, y)
find since: (p(x) AND (NOT q(x, _))) SINCE[0,9] q(y, x)
find runs: (p(x) AND p(y)) SINCE[0,9] q(x, y)
find until: (p(x) AND (NOT q(x, x))) UNTIL[0,3] q(x, y)
find before: p(x) AND PREVIOUS q(x, y)
find counts: p(x) AND p(y) AND HISTORICALLY[0,4] q(x, y)
find ahead: (ONCE[0,2] p(x)) AND EVENTUALLY[0,2] q(x, y)
let held(x) = p(x) OR ((PREVIOUS held(x)) AND q(x, _)) OR (NOT q(x, x) SINCE[1,4] held(x))
let awaited(x) = q(x, x) OR ((ONCE[1,3] awaited(x)) AND EVENTUALLY[0,2] p(x))
find lets: held(x) AND awaited(x)
"""


@st.composite
def _text_logs(draw: st.DrawFn) -> list[tuple[int, dict[str, list[tuple[str, ...]]]]]:
    """Logs with new texts all the time, and some that come again."""
    points: list[tuple[int, dict[str, list[tuple[str, ...]]]]] = []
    time_stamp = 0
    for number in range(draw(st.integers(1, 25))):
        time_stamp += draw(st.integers(0, 2))
        texts = st.sampled_from(["a", "b", "ä" * 40, f"new {number}", f"new {number - 1}"])
        points.append(
            (
                time_stamp,
                {
                    "p": draw(st.lists(st.tuples(texts), max_size=2)),
                    "q": draw(st.lists(st.tuples(texts, texts), max_size=2)),
                },
            )
        )
    return points


@given(_text_logs())
def test_texts_that_nothing_remembers_are_forgotten(
    log: list[tuple[int, dict[str, list[tuple[str, ...]]]]],
) -> None:
    monitors = [RelationalMonitor(_REMEMBERING) for _ in "ab"]
    frugal, lavish = (engine_of(monitor) for monitor in monitors)
    assert isinstance(frugal, RelationalEngine)
    assert isinstance(lavish, RelationalEngine)
    frugal.spare_texts = 0
    lavish.keeps_texts = True
    for time_stamp, database in log:
        one, other = (monitor.step(time_stamp, database) for monitor in monitors)
        assert one == other
    assert monitors[0].finish() == monitors[1].finish()


def test_texts_do_not_pile_up() -> None:
    monitor = RelationalMonitor("atom p(x: text)\nfind again: p(x) AND ONCE[1,3] p(x)\n")
    engine = engine_of(monitor)
    assert isinstance(engine, RelationalEngine)
    engine.spare_texts = 16
    for number in range(2000):
        monitor.step(number, {"p": [(f"text {number}",)]})
        assert len(engine.texts) < 60


@given(st.integers(0, 10**9), st.integers(0, 255), _text_logs())
def test_damaged_snapshots_are_refused_or_harmless(
    place: int, value: int, log: list[tuple[int, dict[str, list[tuple[str, ...]]]]]
) -> None:
    monitor = RelationalMonitor(_REMEMBERING)
    for time_stamp, database in log:
        monitor.step(time_stamp, database)
    content = bytearray(engine_of(monitor).snapshot()[:-8])
    content[place % len(content)] = value
    forged = bytes(content) + blake2b(content, digest_size=8).digest()
    other = RelationalMonitor(_REMEMBERING)
    try:
        engine_of(other).restore(forged)
        engine_of(other).snapshot()
        for time_stamp, database in log:
            other.step(engine_of(other).clock + time_stamp, database)
        other.finish()
    except (MtlmonError, ValueError, IndexError, MemoryError, OverflowError):
        pass


def test_snapshots_of_other_policies_are_refused() -> None:
    saved = engine_of(RelationalMonitor("find f: p(x) AND ONCE q(x)")).snapshot()
    other = RelationalMonitor("find f: p(x) AND ONCE[0,1] q(x)")
    with pytest.raises(SnapshotError, match="other policies"):
        engine_of(other).restore(saved)
    with pytest.raises(SnapshotError, match="damaged"):
        engine_of(RelationalMonitor("find f: p(x) AND ONCE q(x)")).restore(saved[:-1])


def test_policies_can_give_one_name_to_variables_of_different_kinds() -> None:
    monitor = RelationalMonitor("atom p(x: text)\natom n(x: int)\nfind a: p(x)\nfind b: n(x)\n")
    found = monitor.step(1, {"p": [("a",)], "n": [(7,)]})
    assert [(one.policy, one.valuation) for one in found] == [("a", {"x": "a"}), ("b", {"x": 7})]


def test_formulas_that_nest_too_deeply_are_refused() -> None:
    with pytest.raises(LimitError, match="nests more than"):
        _ = RelationalMonitor("find f: p(x) AND " + "ONCE " * 200 + "q(x)").plan


def test_an_engine_whose_error_refers_to_it_is_freed() -> None:
    file = parse_policies("policy a: p(x) IMPLIES ONCE q(x)\n", "<rules>")

    def fail() -> None:
        made = plan(file, analyse(file))
        engine = RelationalEngine(made, made.texts)
        engine.points.add(2, [(0, (0,)), (1, (0,))])
        engine.points.add(1, [])
        with pytest.raises(ValueError, match="decrease"):
            engine.advance()

    for _ in thinned(range(50)):
        fail()
        gc.collect()


def test_filters_of_late_operators_look_at_the_atoms_of_their_time_point() -> None:
    monitor = RelationalMonitor(
        "atom p(x: int)\natom q(x: int)\nfind f: ((EVENTUALLY[0,3] p(y)) OR r) SINCE[2,*) q(y)\n"
    )
    monitor.step(0, {"q": [(1,)]})
    monitor.step(2, {})
    monitor.step(2, {"r": [()]})
    assert monitor.advance(11) == []


def test_running_counts_and_sums() -> None:
    monitor = RelationalMonitor(
        "atom w(u: text, a: int)\n"
        "find large: SUM(a OVER ONCE[0,30] (w(u, a) AND point(i)) BY u) > 10\n"
        "find third: w(u, _) AND COUNT(ONCE[0,30] (w(u, a) AND point(i)) BY u) > 2\n"
        "find none: COUNT(ONCE[0,3] w(u, a)) = 0\n"
        "find mean: m = AVG(a OVER ONCE[0,30] w(u, a) BY u) AND m > 6\n"
    )
    found = [
        [
            (answer.policy, *answer.valuation.values())
            for answer in monitor.step(time_stamp, {"w": rows})
        ]
        for time_stamp, rows in [
            (0, [("x", 5)]),
            (1, [("x", 5), ("y", 50)]),
            (2, [("x", 5)]),
            (20, [("y", 0)]),
            (33, []),
        ]
    ]
    assert found == [
        [],
        [("large", "y"), ("mean", 50.0, "y")],
        [("large", "x"), ("large", "y"), ("third", "x"), ("mean", 50.0, "y")],
        [("large", "x"), ("large", "y"), ("mean", 25.0, "y")],
        [("none",)],
    ]


def test_a_sum_that_overflows_is_an_error_of_its_row() -> None:
    text = "atom w(a: int)\nfind all: s = SUM(a OVER ONCE[0,1] w(a))\n"
    monitor = RelationalMonitor(text)
    with pytest.raises(RowError, match="SUM overflows"):
        monitor.step(0, {"w": [(2**63 - 1,), (1,)]})
    lenient = RelationalMonitor(text)
    engine_of(lenient).skips_overflows = True
    assert lenient.step(0, {"w": [(2**63 - 1,), (1,)]}) == []
    assert engine_of(lenient).overflows == 1
    assert [one.valuation for one in lenient.step(9, {"w": [(1,)]})] == [{"s": 1}]


def test_rows_are_those_of_all_policies_that_read_them_differently() -> None:
    """A policy with an order reads numbers, others texts: rows by name are rows of each of them."""
    text = """
        atom pay(id) = event = "pay"
        find large: pay(x) AND x > 5
        find again: pay(x) AND PREVIOUS pay(x)
    """
    monitor, history = RelationalMonitor(text), RelationalHistory(text, lateness=9)
    assert len(monitor.plan.named_atoms) == 2, "no policy reads the atom differently"
    events = [(time, {"pay": iter([(value,)])}) for time, value in enumerate(["a", "b", "b"])]
    found = [answer for event in events for answer in monitor.step(*event)]
    assert [(one.policy, one.time_stamp) for one in found] == [("again", 2)]
    events = [(time, {"pay": iter([(value,)])}) for time, value in enumerate(["a", "b", "b"])]
    history.push(events)
    latest = [(one.policy, one.time_stamp) for one in history.latest()]
    assert latest == [("again", 2)]


def test_time_stamps_that_are_time_points_are_saved_behind_a_row() -> None:
    def made() -> RelationalEngine:
        file = parse_policies(f"{_DECLARED}find f: p(x) AND ONCE[0,5] q(x, _)\n")
        planned = plan(file, analyse(file))
        return RelationalEngine(planned, planned.texts, is_of_stamps=True)

    engine = made()
    engine.points.add(3, [(1, [7, 1])])
    engine.advance()
    other = made()
    other.restore(engine.snapshot())
    other.points.add(8, [(0, [7])])
    other.advance()
    assert [cells for *_, cells in other.answers.take()] == [(7,)]


def test_what_waits_must_be_taken_first() -> None:
    """Time-points that have not been read, and answers, are no part of an engine's state."""

    def made() -> RelationalEngine:
        file = parse_policies(f"{_DECLARED}find f: p(x) AND ONCE[0,5] q(x, _)\n")
        planned = plan(file, analyse(file))
        return RelationalEngine(planned, planned.texts)

    def refuse(engine: RelationalEngine) -> None:
        with pytest.raises(ValueError, match="wait to be taken"):
            engine.snapshot()
        with pytest.raises(ValueError, match="wait to be taken"):
            engine.join(engine.plan.texts, engine.timeline)

    engine = made()
    engine.points.add(3, [(0, [7]), (1, [7, 1])])
    refuse(engine)
    engine.advance()
    assert len(engine.answers) == 1
    refuse(engine)
    engine.answers.take()
    made().restore(engine.snapshot())
    engine.join(engine.plan.texts, engine.timeline)
