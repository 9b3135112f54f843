"""What slices remember, moved to other slices in the middle of a log: nothing changes."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import FormulaError, PolicyError, SnapshotError
from mtlmon.policy import parse_policies
from mtlmon.relational import Answer, RelationalMonitor, analyse
from mtlmon.relational.slicing import Statistics, plan_slices
from tests.doors import STATE_KINDS, RelationalEngine, SlicedEngine, engine_of
from tests.reference.first_order import Log
from tests.relational.formulas import logs, safe_formulas
from tests.relational.slicing.forgetting import FORGETFUL, forgotten_points

_STATISTICS = st.tuples(
    st.tuples(*[st.integers(0, 9)] * 2), *[st.frozensets(st.integers(0, 2), max_size=1)] * 3
).map(
    lambda drawn: Statistics(
        {"p": float(drawn[0][0]), "q": float(drawn[0][1])},
        {("p", 0): drawn[1], ("q", 0): drawn[2], ("q", 1): drawn[3]},
    )
)
_PLANS = st.tuples(st.integers(1, 9), _STATISTICS, st.integers(0, 3))
DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


class Moved:
    """A monitor whose slices change.

    Args:
        text: the policies.
        verdicts: as those of a monitor.
        plan: the number of slices, what is known of the log, and the seed.
    """

    def __init__(self, text: str, verdicts: str, plan: tuple[int, Statistics, int]) -> None:
        self.text = text
        self.verdicts = verdicts
        self.monitor = self.new(plan)

    def new(self, plan: tuple[int, Statistics, int]) -> RelationalMonitor:
        slices, statistics, seed = plan
        return RelationalMonitor(
            self.text,
            verdicts=self.verdicts,
            slices=slices,
            statistics=statistics,
            slice_seed=seed,
        )

    def reslice(self, plan: tuple[int, Statistics, int]) -> None:
        """Let the monitor go on with other slices."""
        slices, statistics, seed = plan
        engine = engine_of(self.monitor)
        if isinstance(engine, RelationalEngine):
            return
        file = parse_policies(self.text)
        exposed = engine.slicing.exposed
        engine.reslice(
            plan_slices(
                file,
                analyse(file),
                slices,
                statistics=statistics,
                seed=seed,
                exposed=exposed,
            )
        )

    def restart(self, plan: tuple[int, Statistics, int]) -> None:
        """Let a new monitor with other slices go on."""
        saved = self.monitor.snapshot()
        self.monitor = self.new(plan)
        self.monitor.restore(saved)


def answers_of(
    moved: Moved, log: Log, moves: dict[int, tuple[str, tuple[int, Statistics, int]]]
) -> list[Answer]:
    """All answers; behind some time-points, the slices change."""
    found: list[Answer] = []
    for number, (time_stamp, database) in enumerate(log.points):
        found += moved.monitor.step(
            time_stamp, {name: list(rows) for name, rows in database.items()}
        )
        if number in moves:
            way, plan = moves[number]
            (moved.reslice if way == "reslice" else moved.restart)(plan)
    if log.points:
        found += moved.monitor.advance(max(log.clock, log.points[-1][0]))
    if log.closed:
        found += moved.monitor.finish()
    return found


# PERF: a new engine for each slice and row takes most of the time
@given(
    st.lists(safe_formulas(aggregates=True), min_size=1, max_size=3),
    logs(),
    _PLANS,
    st.dictionaries(
        st.integers(0, 3), st.tuples(st.sampled_from(["reslice", "restart"]), _PLANS), min_size=1
    ),
    st.sampled_from(["false", "all"]),
)
@settings(max_examples=50)
def test_any_plan_becomes_any_other(
    formulas: list[Formula],
    log: Log,
    plan: tuple[int, Statistics, int],
    moves: dict[int, tuple[str, tuple[int, Statistics, int]]],
    verdicts: str,
) -> None:
    words = ["find", "policy"]
    text = DECLARED + "".join(
        f"{words[k % 2]} f{k}: {'NOT ' * (k % 2)}({one})\n" for k, one in enumerate(formulas)
    )
    try:
        single = Moved(text, verdicts, (1, Statistics(), 0))
        expected = answers_of(single, log, {})
    except (FormulaError, PolicyError):
        # no variables, or nothing that binds them
        assume(False)
    assert answers_of(Moved(text, verdicts, plan), log, moves) == expected


OPERATORS = {
    "a let that uses itself": "let l(x) = p(x) OR (PREVIOUS l(x)) AND NOT q(x, x)\n"
    "find a: q(x, y) AND l(y) AND ONCE[0,3] l(x)",
    "a let that looks ahead": "let l(x) = p(x) OR (PREVIOUS l(x)) AND EVENTUALLY[0,2] q(x, x)\n"
    "find a: q(x, y) AND l(y) AND ONCE[0,3] l(x)",
    "window": "find a: p(x) AND ONCE[0,4] q(x, y)",
    "lower bounds": "find a: p(x) AND ONCE[2,6] q(x, y)",
    "no bound": "find a: p(x) AND ONCE q(x, y)",
    "unowned rows are wrong": "find a: p(x) AND ONCE (p(x) AND NOT q(x, y) AND p(y))",
    "since": "find a: p(x) AND ((NOT p(y)) SINCE[0,9] q(x, y))",
    "since without bound": "find a: p(x) AND ((NOT q(y, x)) SINCE q(x, y))",
    "runs": "find a: q(x, y) AND (p(x) SINCE[0,9] q(x, y))",
    "filters": "find a: p(x) AND ((x > 1 OR NOT p(y)) SINCE[1,9] q(x, y))",
    "until": "find a: p(x) AND ((NOT p(y)) UNTIL[0,5] q(x, y))",
    "until with runs": "find a: p(x) AND (p(x) UNTIL[1,6] q(x, y))",
    "late past": "find a: p(x) AND (EVENTUALLY[0,4] q(x, y)) AND ONCE[0,5] q(y, x)",
    "atoms that are kept": "find a: (EVENTUALLY[0,4] p(x)) AND q(x, y) AND NOT q(y, x)",
    "past of the future": "find a: p(x) AND ONCE[0,3] EVENTUALLY[0,3] q(x, y)",
    "counts": "find a: p(x) AND HISTORICALLY[0,3] (p(x) OR q(x, x))",
    "counts without bound": "find a: p(x) AND HISTORICALLY[4,*) NOT q(x, x)",
    "always": "find a: p(x) AND ALWAYS[0,3] (NOT q(x, x) OR p(x))",
    "neighbours": "find a: p(x) AND (PREVIOUS q(x, y)) AND NEXT (NOT r AND NEXT p(y))",
    "meeting": "find a: p(x) AND ONCE[0,6] EXISTS y. (q(x, y) AND ((NOT q(y, y)) SINCE q(y, z)))",
    "aggregates": "find a: p(x) AND SUM(y OVER ONCE[0,5] (q(x, y) AND point(i)) BY x) > 4",
    "groups": "find a: p(x) AND COUNT(ONCE[0,5] q(x, y) BY x) = t AND t > 1",
    "largest": "find a: p(x) AND m = MAX(y OVER ONCE[0,5] q(x, y) BY x)",
    "built in": "find a: p(x) AND (EVENTUALLY[0,3] q(x, y)) AND point(i) AND time(t) AND i < t * 9",
    "exposed": "find a: EXISTS x. p(x) AND ONCE[0,4] q(x, y)",
    "Boolean": "find a: EXISTS x, y. p(x) AND ONCE[0,4] (q(x, y) AND q(y, x))",
    "closed": "policy a: r IMPLIES EVENTUALLY EXISTS x. p(x) AND ONCE[0,3] q(x, x)",
    "shared": (
        "find a: p(x) AND ONCE[0,5] q(x, y)\n"
        "find b: p(u) AND ONCE[0,5] q(z, u)\n"
        "find c: EXISTS v. p(v) AND ONCE[0,5] (q(v, w) AND ONCE[0,3] q(w, v))\n"
        "find d: p(y) AND EVENTUALLY[0,3] (q(y, x) AND ONCE[0,3] q(x, y))\n"
    ),
}


def random_log(random: Random, points: int) -> Log:
    time_stamp = 0
    found = []
    for _ in range(points):
        time_stamp += random.choice([0, 0, 1, 1, 2])
        found.append(
            (
                time_stamp,
                {
                    "p": frozenset((random.randrange(4),) for _ in range(random.randrange(3))),
                    "q": frozenset(
                        (random.randrange(4), random.randrange(4))
                        for _ in range(random.randrange(3))
                    ),
                    "r": frozenset([()] if random.random() < 0.3 else []),
                },
            )
        )
    return Log(tuple(found), time_stamp, True)


def test_all_kinds_of_states_are_moved() -> None:
    kinds = set()
    for text in OPERATORS.values():
        for state in RelationalMonitor(DECLARED + text).plan.states:
            kinds |= {state.kind, *((state.kind, left.kind) for left in state.lefts)}
    lefts = {("since", "breaks"), ("since", "runs"), ("since", "filters")}
    lefts |= {("until", "breaks"), ("until", "runs")}
    assert kinds == {*STATE_KINDS, *lefts}


@pytest.mark.parametrize("name", OPERATORS)
def test_states_of_operators(name: str) -> None:
    text = DECLARED + OPERATORS[name]
    random = Random(name)

    def some_plan() -> tuple[int, Statistics, int]:
        heavy = {
            ("p", 0): frozenset([random.randrange(4)]),
            ("q", random.randrange(2)): frozenset([random.randrange(4)]),
        }
        rates = {"p": random.random(), "q": random.random()}
        return random.randrange(1, 12), Statistics(rates, heavy), random.randrange(4)

    found = 0
    for _ in range(6):
        log = random_log(random, 24)
        expected = answers_of(Moved(text, "false", (1, Statistics(), 0)), log, {})
        found += len(expected)
        moves = {
            number: (random.choice(["reslice", "restart"]), some_plan())
            for number in range(24)
            if random.random() < 0.3
        }
        assert answers_of(Moved(text, "false", some_plan()), log, moves) == expected
    assert found > 0


@pytest.mark.parametrize("way", ["reslice", "restart"])
def test_texts_are_forgotten_behind_moves(way: str) -> None:
    plans = [
        (slices, Statistics({}, {("q", 1): frozenset(heavy), ("p", 0): frozenset({"u3"})}), 0)
        for slices, heavy in ((3, {"z"}), (5, {"new", "z"}), (2, set()), (7, {"f4", "f5"}))
    ]
    single = RelationalMonitor(FORGETFUL)
    moved = Moved(FORGETFUL, "false", plans[0])
    for number, (time_stamp, database) in enumerate(forgotten_points(240)):
        engine = engine_of(moved.monitor)
        assert isinstance(engine, SlicedEngine)
        for one in engine.engines:
            one.spare_texts = 20
        assert moved.monitor.step(time_stamp, database) == single.step(time_stamp, database)
        if number % 20 == 19:
            (moved.reslice if way == "reslice" else moved.restart)(plans[number // 20 % 4])
        assert len(engine.texts) < 90
    assert engine_of(moved.monitor).found_points == engine_of(single).found_points


def test_one_engine_becomes_slices_and_one_engine_again() -> None:
    text = DECLARED + OPERATORS["shared"]
    log = random_log(Random(5), 20)
    expected = answers_of(Moved(text, "false", (1, Statistics(), 0)), log, {})
    moves = {3: (4, Statistics(), 0), 9: (1, Statistics(), 0), 12: (6, Statistics(), 2)}
    moved = {at: ("restart", plan) for at, plan in moves.items()}
    assert answers_of(Moved(text, "false", (1, Statistics(), 0)), log, moved) == expected


def test_errors_and_counts_move() -> None:
    text = "atom p(x: int, y: int)\nfind a: p(x, y) AND x * y > 3\n"
    first = Moved(text, "false", (3, Statistics(), 0))
    engine = engine_of(first.monitor)
    engine.skips_overflows = True
    first.monitor.step(1, {"p": [(2**62, 3), (5, 5)]})
    assert engine.overflows
    before = engine.overflows
    first.reslice((2, Statistics(), 0))
    assert engine.skips_overflows
    assert engine.overflows == before
    assert engine.found_points == [1]


def test_other_exposed_variables_are_refused() -> None:
    text = DECLARED + "find a: EXISTS x. p(x) AND q(x, y)\n"
    file = parse_policies(text)
    analysis = analyse(file)
    slicing = plan_slices(file, analysis, 4)
    assert slicing.exposed != ((),)
    engine = SlicedEngine(file, analysis, slicing)
    with pytest.raises(ValueError, match="other exposed variables"):
        engine.reslice(plan_slices(file, analysis, 4, exposed=[()]))
    with pytest.raises(SnapshotError, match="other policies"):
        RelationalMonitor(DECLARED + "find a: p(x) AND q(x, y)", slices=4).restore(
            RelationalMonitor(text, slices=4).snapshot()
        )
