"""What histories say at the end of a log is what the rows that are left say, and the time known.

Rows come late, are taken back and corrected, and time passes without them. However long rows wait,
the verdicts at the end are those of the direct evaluator for the rows that are left in the order of
time, and for the time that has passed for sure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from mtlmon import History, RelationalHistory, RelationalMonitor, parse
from mtlmon.policy import PolicyFile, parse_policies
from tests.doors import AnswerChanges
from tests.history.comparing import push
from tests.reference.changelog import Collapsed
from tests.reference.evaluator import evaluate
from tests.reference.first_order import Log, Row, violations
from tests.reference.history import Arrival, Insert, Retraction
from tests.reference.kept_rows import Kept, kept_rows
from tests.sampling import thinned
from tests.traces import MODES, Advance, prefix_of

FORMULAS = (
    "p IMPLIES EVENTUALLY[0,5] q",
    "NOT NEXT[3,8] q",
    "p UNTIL[0,6] q",
    "ALWAYS[1,4] p",
    "EVENTUALLY[2,9] (p AND q)",
    "p SINCE[0,7] q",
    "PREVIOUS[1,3] p",
)
POLICIES = (
    "FORALL x. p(x) IMPLIES EVENTUALLY[0,5] q(x)",
    "FORALL x. p(x) IMPLIES NEXT[0,4] q(x)",
    "FORALL x. q(x) IMPLIES NOT (p(x) UNTIL[0,6] q(x))",
    "FORALL x. p(x) IMPLIES ONCE[0,6] q(x)",
)
LETTERS = [frozenset(letter) for letter in ("", "p", "p", "q", "pq")]


def test_the_rules() -> None:
    """Rationale: a row that was taken back says nothing of the time, and `advance` does.

    Row b is taken back, c is corrected to an earlier time, and d comes too late: what is left is at
    12 and 10 at last, although time has come to 40.
    """
    rows = [Insert(10, frozenset("q"), id="c"), Insert(12, frozenset("p"), id="a")]
    arrivals: list[Arrival] = [
        Insert(12, frozenset("p"), id="a"),
        Insert(40, frozenset(), id="b"),
        Insert(38, frozenset("q"), id="c"),
        Insert(10, frozenset("q"), id="c"),
        Insert(9, frozenset(), id="d"),
        Retraction("b"),
    ]
    assert kept_rows(arrivals, 30) == Kept(rows, 0)
    for passed in ([30], [30, 14], [14, 30]):
        more = [*arrivals, *map(Advance, passed)]
        assert kept_rows(more, 30) == Kept(rows, 30)
    assert kept_rows(arrivals, 30).steps()[-1] == Advance(12)
    assert kept_rows([*arrivals, Advance(30)], 30).steps()[-1] == Advance(30)


def arrivals_of(source: random.Random, lateness: int) -> list[Arrival]:
    """A small log in which retractions and corrections come in time."""
    now = clock = 0
    present: dict[str, Insert] = {}
    arrivals: list[Arrival] = []
    for number in range(source.randrange(2, 12)):
        clock += source.choice([0, 1, 1, 2, 3, 5, 12])
        time_stamp = max(0, clock - source.choice([0, 0, 0, 1, 2, 4, 9]))
        kind = source.random()
        new = Insert(time_stamp, source.choice(LETTERS), id=f"i{number}")
        if kind < 0.15:
            arrivals.append(Advance(time_stamp))
            now = max(now, time_stamp)
            continue
        in_time = [
            name
            for name, row in present.items()
            if max(now, time_stamp) - row.time_stamp <= lateness
        ]
        if kind < 0.4 and in_time:
            # often the last one, which has shown most of the time
            name = source.choice([*in_time, max(in_time, key=lambda one: present[one].time_stamp)])
            if kind < 0.3:
                arrivals.append(Retraction(name))
                del present[name]
                continue
            new = new._replace(id=name)
        if kind > 0.9:
            new = new._replace(id=None)
        now = max(now, time_stamp)
        arrivals.append(new)
        if now - time_stamp <= lateness and new.id is not None:
            present[new.id] = new
    if source.random() < 0.5:
        arrivals.append(Advance(max(0, now + source.choice([-9, -3, -1, 0, 1, 3, 60]))))
    return arrivals


def batches_of(source: random.Random, arrivals: Sequence[Arrival]) -> list[Sequence[Arrival]]:
    cuts = sorted({0, len(arrivals), *(source.randrange(len(arrivals) + 1) for _ in range(3))})
    return [arrivals[first:last] for first, last in pairwise(cuts)]


def check_formula(source: random.Random) -> None:
    lateness = source.choice([5, 20, 100])
    arrivals = arrivals_of(source, lateness)
    formula = parse(source.choice(FORMULAS))
    kept = kept_rows(arrivals, lateness)
    values = evaluate(formula, prefix_of(kept.steps()))
    wanted = Counter(
        (row.time_stamp, value)
        for row, value in zip(kept.rows, values, strict=True)
        if value is not None
    )
    for mode in MODES:
        for wait in (0, lateness // 2, lateness):
            spacing = source.choice([0, 1, 2])
            history = History(formula, mode, lateness=lateness, wait=wait, _spacing=spacing)
            collapsed = Collapsed()
            for batch in batches_of(source, arrivals):
                for line in push(history, batch, False):
                    collapsed.read(line)
                if source.random() < 0.2:
                    snapshot = history.snapshot()
                    history = History(formula, mode, lateness=lateness, wait=wait)
                    history.restore(snapshot)
            for line in history.finish():
                collapsed.read(line)
            found = ((name, collapsed.value(name)) for name in collapsed.verdicts)
            known = Counter((name[1][0], value) for name, value in found if value is not None)
            assert known == wanted, (arrivals, formula, mode, lateness, wait)


def check_policy(source: random.Random) -> None:
    lateness = source.choice([5, 20, 100])
    arrivals = arrivals_of(source, lateness)
    file = parse_policies(source.choice(POLICIES))
    kept = kept_rows(arrivals, lateness)
    wanted = answers_of(file, kept)
    for wait in (0, lateness // 2, lateness):
        options = {"lateness": lateness, "wait": wait, "ids": True, "verdicts": "all"}
        history = RelationalHistory(file, **options, _spacing=2)  # type: ignore[arg-type]
        latest: set[tuple[int, int, Row]] = set()
        for batch in batches_of(source, arrivals):
            changes = history.push(
                [(getattr(one, "time_stamp", 0), database_of(one)) for one in batch],
                ids=[getattr(one, "id", None) for one in batch],
                operations=[operation_of(one) for one in batch],
            )
            note(latest, changes)
            if source.random() < 0.2:
                snapshot = history.snapshot()
                history = RelationalHistory(file, **options)  # type: ignore[arg-type]
                history.restore(snapshot)
        note(latest, history.finish())
        found = Counter((time_stamp, values) for time_stamp, _, values in latest)
        assert found == wanted, (arrivals, str(file.policies[0].formula), lateness, wait)


def note(latest: set[tuple[int, int, Row]], changes: AnswerChanges) -> None:
    """Let the latest answers be those after some changes."""
    for operation, answer in changes:
        values = tuple((answer.valuation or {}).values())
        one = answer.time_stamp, answer.offset, values
        if operation == "delete":
            latest.remove(one)
        else:
            latest.add(one)


def answers_of(file: PolicyFile, kept: Kept) -> Counter[tuple[int, Row]]:
    """What is answered: a monitor of the rows in order says where, and the evaluator with what."""
    steps = kept.steps()
    points = tuple((row.time_stamp, database_of(row)) for row in kept.rows)
    said = violations(file.policies[0].formula, Log(points, steps[-1].time_stamp, closed=False))
    monitor = RelationalMonitor(file, verdicts="all")
    found = [one for time_stamp, database in points for one in monitor.step(time_stamp, database)]
    found += monitor.advance(steps[-1].time_stamp)
    wanted: Counter[tuple[int, Row]] = Counter()
    for place in {one.point for one in found}:
        values = said[place]
        assert not values.undecided
        wanted.update((points[place][0], one) for one in values.satisfying or {()})
    return wanted


def database_of(arrival: Arrival) -> dict[str, list[tuple[str]]]:
    if not isinstance(arrival, Insert):
        return {}
    return {name: [("x",)] for name in sorted(arrival.letter)}


def operation_of(arrival: Arrival) -> str:
    if isinstance(arrival, Insert):
        return "+"
    return "advance" if isinstance(arrival, Advance) else "-"


@pytest.mark.parametrize("check", [check_formula, check_policy])
def test_random_logs(check: object, pytestconfig: pytest.Config) -> None:
    """With `--exhaustive 2`, ten thousand logs; each with several waits."""
    assert callable(check)
    level: int = pytestconfig.getoption("--exhaustive")
    for seed in thinned(range([300, 300, 10_000, 100_000][level])):
        check(random.Random(f"kept rows {seed}"))
