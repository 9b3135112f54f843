"""Histories of time-points with rows, compared with their reference after every batch."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.relational.slicing import plan_slices
from tests.doors import (
    GONE,
    NEW,
    Corrections,
    PointHistory,
    RelationalEngine,
    SlicedEngine,
    atom_numbers,
    from_cell,
    plan,
    point_rows,
    valid_analysis,
)
from tests.reference.history import Arrival, EqualRetraction, Insert, Retraction
from tests.reference.late_relations import Answer, database_of, known_after
from tests.traces import Advance, EndTime

ADVANCED = {Insert: 0, Retraction: 1, EqualRetraction: 1, Advance: 2}

POLICIES = [
    "FORALL u. p(u) IMPLIES ONCE[0,5] q(u)",
    "FORALL u. p(u) IMPLIES EVENTUALLY[0,4] q(u)",
    "policy one: FORALL u. p(u) IMPLIES NEXT q(u)\npolicy two: FORALL u. NOT (p(u) AND q(u))",
    "FORALL u. p(u) IMPLIES (NOT q(u)) SINCE r(u)",
    "policy a: FORALL u. p(u) IMPLIES PREVIOUS[0,3] (q(u) OR r(u))\n"
    "policy b: NOT EXISTS u. p(u) AND ONCE[1,6] q(u)",
    "FORALL u. r(u) IMPLIES NOT (p(u) UNTIL[0,5] q(u))",
    "ALWAYS ((EXISTS u. p(u)) IMPLIES EVENTUALLY EXISTS v. q(v))",
    "FORALL u. p(u) IMPLIES ONCE[0,2] PREVIOUS q(u)",
    "FORALL u. r(u) IMPLIES HISTORICALLY[0,2] (p(u) IMPLIES EVENTUALLY[0,1] q(u))",
    "FORALL u. p(u) IMPLIES NOT COUNT(ONCE[0,6] (q(u) AND point(i)) BY u) >= 2",
    'FORALL u, v. p(u) AND q(v) AND NOT u = "a" IMPLIES (ONCE (r(u) AND NOT r("b"))) OR r(v)',
    "let l(u) = p(u) OR (PREVIOUS l(u)) AND NOT q(u)\npolicy one: FORALL u. r(u) IMPLIES NOT l(u)",
    "let l(u) = p(u) OR ((EXISTS v. ONCE[1,4] l(v)) AND q(u) AND EVENTUALLY[0,3] r(u))\n"
    "policy one: FORALL u. r(u) IMPLIES PREVIOUS NOT l(u)",
]


def history_of(
    file: PolicyFile,
    lateness: int | None,
    *,
    sweeps: bool = False,
    slices: int = 0,
    threads: int = 1,
    **options: Any,
) -> PointHistory:
    """A history for the policies of a file; `sweeps` says that it forgets texts all the time."""
    analysis = valid_analysis(file, None)
    made = plan(file, analysis)
    if slices:
        slicing = plan_slices(file, analysis, slices)
        sliced = SlicedEngine(file, analysis, slicing, threads, rebalances=False)
        options["slices"], made = sliced, sliced.plan

    def prepare(engine: RelationalEngine | SlicedEngine) -> None:
        if sweeps:
            for one in [engine] if isinstance(engine, RelationalEngine) else engine.engines:
                one.spare_texts = 0

    return PointHistory(made, lateness=lateness, wants_holding=True, prepare=prepare, **options)


def push(history: PointHistory, batch: Sequence[Arrival]) -> list[int]:
    """Give a batch to a history; return the indices of what comes too late."""
    numbers = atom_numbers(history.plan)
    for arrival in batch:
        database = {}
        time_stamp = 0
        if isinstance(arrival, Insert | EqualRetraction):
            database = database_of(arrival.letter)
        if not isinstance(arrival, Retraction):
            time_stamp = arrival.time_stamp
        history.arrivals.add(time_stamp, point_rows(history.plan, numbers, database))
    codes = np.array([ADVANCED[type(arrival)] for arrival in batch], np.uint8)
    ids = [one.id if isinstance(one, Insert | Retraction) else None for one in batch]
    is_plain = not codes.any()
    refused = history.push(
        Corrections(None if is_plain else codes, None if is_plain and not any(ids) else ids)
    )
    return [int(place) for place in refused]


def as_read(arrival: Arrival, names: set[str]) -> Arrival:
    """The same with the rows that policies read: events are equal if these are."""
    if not isinstance(arrival, Insert | EqualRetraction):
        return arrival
    kept = frozenset(text for text in arrival.letter if text.partition("(")[0] in names)
    return arrival._replace(letter=kept)


class Latest:
    """What a changelog says at last."""

    def __init__(self, history: PointHistory) -> None:
        self.answers: set[Answer] = set()
        self.ever: set[Answer] = set()
        self.bound = 0
        self.history = history

    def take(self) -> None:
        """Take what has changed, which must fit what was said before."""
        history = self.history
        made = history.plan
        for one in history.changes():
            policy = made.named_policies[one.policy]
            values = tuple(
                from_cell(cell, kind, made.texts)
                for cell, kind in zip(one.cells, policy.kinds, strict=False)
            )
            answer = (policy.name, one.time_stamp, one.offset, one.kind == 0, values)
            assert one.time_stamp >= self.bound, (answer, self.bound)
            if one.change == GONE:
                self.answers.remove(answer)
            else:
                assert answer not in self.answers
                assert (answer in self.ever) == (one.change != NEW), answer
                self.answers.add(answer)
                self.ever.add(answer)
        bound = history.final_below()
        assert bound >= self.bound
        self.bound = bound
        counts = history.chunked.counts
        for number, policy in enumerate(history.plan.named_policies):
            own = {one[1:4] for one in self.answers if one[0] == policy.name}
            assert counts.answered[number] == len({point[:2] for point in own})
            assert counts.found[number] == sum(is_violated for *_, is_violated in own)


def compare(
    file: PolicyFile,
    batches: Sequence[Sequence[Arrival]],
    lateness: int | None,
    *,
    end_time: EndTime = None,
    spacing: int = 2,
    interrupt: int | None = None,
    by_stamp: bool = False,
    sweeps: bool = False,
    wait: int = 0,
    slices: int = 0,
    threads: int = 1,
) -> PointHistory:
    """Check a history after every batch; where events wait, at the end."""
    read = {atom.name for atom in plan(file, valid_analysis(file, None)).named_atoms}
    batches = [[as_read(arrival, read) for arrival in batch] for batch in batches]
    arrivals = [arrival for batch in batches for arrival in batch]
    equality = any(isinstance(one, EqualRetraction) for one in arrivals)
    corrects = any(isinstance(one, Retraction) or getattr(one, "id", None) for one in arrivals)

    def make() -> PointHistory:
        return history_of(
            file,
            lateness,
            equality=equality,
            corrects=corrects,
            spacing=spacing,
            by_stamp=by_stamp,
            sweeps=sweeps,
            wait=wait,
            slices=slices,
            threads=threads,
        )

    history = make()
    latest = Latest(history)
    refused: list[int] = []
    done = 0
    for number, batch in enumerate(batches):
        refused += [done + place for place in push(history, batch)]
        done += len(batch)
        latest.take()
        known = known_after(file, arrivals[:done], lateness, equality=equality, by_stamp=by_stamp)
        assert wait or latest.answers == known.answers
        assert tuple(refused) == known.refused
        assert known.final_below is None or latest.bound <= known.final_below
        if number == interrupt:
            snapshot = history.snapshot()
            latest.history = history = make()
            history.restore(snapshot)
            assert history.snapshot() == snapshot
    history.finish(end_time)
    latest.bound = 0
    latest.take()
    known = known_after(file, arrivals, lateness, end_time, equality=equality, by_stamp=by_stamp)
    assert latest.answers == known.answers
    return history


def random_batches(
    random: Random, *, count: int = 14, ids: bool = False, equality: bool = False
) -> list[list[Arrival]]:
    """Random arrivals in random batches."""
    now = 0
    arrivals: list[Arrival] = []
    rows = [f"{name}({value})" for name in "pqr" for value in "abc"]
    for _ in range(count):
        now += random.choice([0, 0, 1, 2, 4])
        time_stamp = max(0, now - random.choice([0, 0, 0, 1, 2, 5, 9]))
        letter = frozenset(random.sample(rows, random.choice([0, 1, 1, 2])))
        choice = random.random()
        if ids and choice < 0.2:
            arrivals.append(Retraction(random.choice("123")))
        elif equality and choice < 0.2 and arrivals:
            known = [one for one in arrivals if isinstance(one, Insert)]
            if known:
                one = random.choice(known)
                arrivals.append(EqualRetraction(one.time_stamp, one.letter))
        elif choice < 0.27:
            # perhaps less far than an event that is taken back later
            arrivals.append(Advance(random.choice([now, time_stamp])))
        else:
            name = random.choice("1234567") if ids and random.random() < 0.6 else None
            arrivals.append(Insert(time_stamp, letter, "", name))
    batches: list[list[Arrival]] = []
    while arrivals:
        size = random.choice([1, 1, 2, 3, 5])
        batches.append(arrivals[:size])
        arrivals = arrivals[size:]
    return batches


def file_of(text: str) -> PolicyFile:
    """The policies of a file."""
    return parse_policies(text)
