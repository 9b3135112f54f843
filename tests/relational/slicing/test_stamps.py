"""Timelines of stamps: engines answer as with one time-point for each time-stamp with rows."""

from __future__ import annotations

from random import Random

import pytest

from mtlmon.errors import SnapshotError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.slicing import plan_slices
from tests.doors import KeyTable, Plan, RelationalEngine, Timeline, plan

DECLARED = "atom p(x: int)\natom q(x: int, y: int)\natom name(x: text)\n"
POLICIES = [
    "find a: p(x) AND ONCE[1,4] q(x, y)",
    "find a: p(x) AND EVENTUALLY[0,4] q(x, y)",
    "find a: p(x) AND EVENTUALLY[0,3] (q(x, y) AND EVENTUALLY[1,4] p(y))",
    "find a: p(x) AND ONCE[0,3] (q(x, y) AND EVENTUALLY[0,3] p(y))",
    "find a: p(x) AND ((NOT p(y)) UNTIL[0,5] q(x, y))",
    "find a: p(x) AND ONCE[0,6] EXISTS y. (q(x, y) AND ((NOT q(y, y)) SINCE q(y, z)))",
    "find a: p(x) AND COUNT(ONCE[0,25] q(x, y) BY x) = t AND t > 1",
    "let l(x) = q(x, x) OR (p(x) AND ONCE[1,9] l(x))\nfind a: l(x) AND EVENTUALLY[0,4] q(x, y)",
    "let l(x) = q(x, x) OR (p(x) AND (EXISTS y. ONCE[1,9] l(y)) AND EVENTUALLY[0,4] p(x))\n"
    "find a: p(y) AND q(x, y) AND EVENTUALLY[0,3] l(x)",
]


def planned(text: str) -> tuple[Plan, bool]:
    file = parse_policies(DECLARED + text)
    analysis = analyse(file)
    slicing = plan_slices(file, analysis, 1, exposed=[()] * len(analysis.policies))
    return plan(file, analysis, prepared=slicing.prepared), slicing.is_of_stamps


def restored(made: Plan, engine: RelationalEngine, is_of_stamps: bool) -> RelationalEngine:
    texts = KeyTable(1)
    texts.restore(made.texts.snapshot())
    found = RelationalEngine(made, texts, is_of_stamps=is_of_stamps)
    found.restore(engine.snapshot())
    return found


@pytest.mark.parametrize("text", POLICIES)
def test_answers_are_those_of_other_timelines(text: str) -> None:
    made, is_of_stamps = planned(text)
    assert is_of_stamps
    names = [one.name for one in made.named_atoms]
    p, q = names.index("p"), names.index("q")
    draw = Random(text)
    found: dict[bool, list[tuple[int, tuple[int, ...]]]] = {False: [], True: []}
    engines = {kind: RelationalEngine(made, made.texts, is_of_stamps=kind) for kind in found}
    for time_stamp in range(60):
        rows = [(p, (draw.randrange(3),)), (q, (draw.randrange(3), draw.randrange(3)))]
        rows = draw.sample(rows, draw.randrange(3))
        clock = 2 * time_stamp + draw.choice([1, 2])
        is_saved = draw.random() < 0.2
        for kind, engine in engines.items():
            if rows:
                engine.points.add(2 * time_stamp, rows)
                engine.advance()
            engine.end(clock, False)
            due = engine.next_due()
            found[kind] += [(one[2], one[-1]) for one in engine.answers.take()]
            if kind and due is not None:
                assert due > engine.clock
            if is_saved:
                engines[kind] = restored(made, engine, kind)
    for kind, engine in engines.items():
        engine.end(200, True)
        found[kind] += [(one[2], one[-1]) for one in engine.answers.take()]
    assert sorted(found[True]) == sorted(found[False]) != []


def test_what_timelines_of_stamps_refuse() -> None:
    made, is_of_stamps = planned("find a: p(x) AND PREVIOUS q(x, y)")
    assert not is_of_stamps
    made, _ = planned("find a: p(x) AND NEXT p(x)")
    with pytest.raises(ValueError, match="compares the numbers of time-points"):
        Timeline(made, True)
    made, _ = planned(POLICIES[1])
    timeline = Timeline(made, True)
    with pytest.raises(ValueError, match="without rows are not listed"):
        timeline.waiting(0, 3)
    engine = RelationalEngine(made, made.texts, is_of_stamps=True)
    engine.points.add(4, [])
    engine.points.add(4, [])
    with pytest.raises(ValueError, match="time-stamps decrease"):
        engine.advance()
    with pytest.raises(SnapshotError):
        Timeline(made).restore(timeline.snapshot())
    with pytest.raises(SnapshotError):
        timeline.restore(Timeline(made).snapshot())


def test_engines_join_those_of_the_same_time() -> None:
    made, _ = planned("find a: name(x) AND ONCE[0,4] name(x)")
    engine = RelationalEngine(made, made.texts, is_of_stamps=True)
    engine.end(3, False)
    timeline = Timeline(made, True)
    with pytest.raises(ValueError, match="of another time"):
        engine.join(made.texts, timeline)
    timeline.advance(3, False)
    with pytest.raises(ValueError, match="one column"):
        engine.join(KeyTable(2), timeline)
    engine.join(made.texts, timeline)
    with pytest.raises(ValueError, match="of another time"):
        engine.join(made.texts, timeline)
    engine.leave()
    assert restored(made, engine, True).clock == 3
