"""Answers about events that come late or are taken back."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy import parse_policies
from tests.doors import Corrections, atom_numbers, point_rows
from tests.reference.history import Arrival, Insert, Retraction
from tests.relational.correcting.comparing import (
    POLICIES,
    compare,
    file_of,
    history_of,
    random_batches,
)
from tests.relational.formulas import safe_formulas
from tests.sampling import thinned
from tests.traces import Advance


@pytest.mark.parametrize("number", range(len(POLICIES)))
@pytest.mark.parametrize("kind", ["late", "ids", "equality"])
@pytest.mark.parametrize("slices", [0, 3])
def test_answers_are_those_of_the_events_in_order(number: int, kind: str, slices: int) -> None:
    file = file_of(POLICIES[number])
    for seed in thinned(range(6)):
        random = Random(f"{number} {kind} {seed}")
        batches = random_batches(random, ids=kind == "ids", equality=kind == "equality")
        compare(
            file,
            batches,
            random.choice([3, 6, 50]),
            end_time=random.choice([None, "last", "inf", 60]),
            spacing=random.choice([1, 2, 3, 5]),
            interrupt=random.randrange(len(batches)),
            by_stamp=seed % 3 == 2 and "point(" not in POLICIES[number],
            sweeps=seed % 2 == 0,
            wait=2 if kind == "late" and seed > 3 else 0,
            slices=slices,
            threads=1 + seed % 2,
        )


def test_a_time_point_depends_on_the_one_before_however_long_ago_it_was() -> None:
    """So what looks at one before reaches further than its window."""
    file = file_of("FORALL u. p(u) IMPLIES ONCE[0,2] PREVIOUS q(u)")
    batches = [
        [Insert(0, frozenset()), Insert(100, frozenset()), Insert(101, frozenset({"p(a)"}))],
        [Insert(300, frozenset()), Insert(301, frozenset())],
        [Insert(1, frozenset({"q(a)"}))],
    ]
    history = compare(file, batches, None, spacing=1)
    # what comes long after that does not
    assert history.chunked.early_stops == 1


def test_a_time_point_has_another_name_although_the_state_is_what_it_was() -> None:
    """The event at 0 is replaced by one that makes no difference, after its violation is known."""
    file = file_of("FORALL u. q(u) IMPLIES EVENTUALLY[0,3] (p(u) AND r(u))")
    batches = [
        [Insert(0, frozenset({"q(a)"}), id="i"), Insert(1, frozenset()), Insert(9, frozenset())],
        [Insert(0, frozenset({"q(a)", "p(b)"}), id="i")],
    ]
    for spacing in (1, 2, 9):
        compare(file, batches, None, spacing=spacing)


def test_time_does_not_pass_where_a_refused_event_was_as_late() -> None:
    """The event at 5 is refused, as the one with its id can be taken back no more."""
    file = file_of("FORALL u. p(u) IMPLIES EVENTUALLY[0,1] q(u)")
    rows: list[Arrival] = [Insert(0, frozenset({"p(a)"}), id="i"), Insert(5, frozenset(), id="i")]
    compare(file, [[*rows, Advance(5)]], 3)
    compare(file, [[*rows, Advance(5)], [Advance(6)]], 3)


DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


@given(
    st.lists(safe_formulas(aggregates=True), min_size=1, max_size=3),
    st.integers(0, 2**32),
    st.integers(2, 7),
    st.integers(1, 3),
)
@settings(max_examples=60)
def test_slices_correct_what_one_engine_corrects(
    formulas: list[Formula], seed: int, slices: int, spacing: int
) -> None:
    """Random formulas; after each batch, the changes are the same."""
    words = ["find", "policy"]
    text = DECLARED + "".join(
        f"{words[k % 2]} f{k}: {'NOT ' * (k % 2)}({one})\n" for k, one in enumerate(formulas)
    )
    try:
        file = parse_policies(text)
        options: dict[str, Any] = {"spacing": spacing, "corrects": True}
        single = history_of(file, 9, **options)
        sliced = history_of(file, 9, slices=slices, **options)
    except (FormulaError, PolicyError):
        # no variables, or nothing that binds them
        assume(False)
    random = Random(seed)
    now, ids = 0, 0
    for _ in range(random.randrange(1, 9)):
        batch: list[tuple[int, dict[str, list[tuple[int, ...]]], str, int]] = []
        for _ in range(random.randrange(1, 4)):
            now += random.choice([0, 1, 1, 3])
            if ids and random.random() < 0.25:
                batch.append((0, {}, str(random.randrange(ids)), 1))
                continue
            database: dict[str, list[tuple[int, ...]]] = {
                "p": [(random.randrange(3),) for _ in range(random.randrange(3))],
                "q": [
                    (random.randrange(3), random.randrange(3)) for _ in range(random.randrange(3))
                ],
            }
            batch.append((max(0, now - random.choice([0, 0, 2, 5])), database, str(ids), 0))
            ids += 1
        found = []
        for history in (single, sliced):
            numbers = atom_numbers(history.plan)
            for time_stamp, database, _, _ in batch:
                known = {name: rows for name, rows in database.items() if name in numbers}
                history.arrivals.add(time_stamp, point_rows(history.plan, numbers, known))
            codes = np.array([code for *_, code in batch], np.uint8)
            history.push(Corrections(codes, [name for _, _, name, _ in batch]))
            found.append((history.changes(), history.final_below()))
        assert found[0] == found[1]
    for history in (single, sliced):
        history.finish("inf" if seed % 2 else None)
    assert single.changes() == sliced.changes()
    assert single.chunked.counts.found.tolist() == sliced.chunked.counts.found.tolist()


PAST = "FORALL u. p(u) IMPLIES ONCE[0,5] q(u)"
FUTURE = "FORALL u. p(u) IMPLIES EVENTUALLY[0,50] q(u)"


def event(time_stamp: int, *rows: str, id: str | None = None) -> Arrival:
    return Insert(time_stamp, frozenset(rows), id=id)


@pytest.mark.parametrize(
    ("text", "batches"),
    [
        # a late one comes between what is forgotten and the rest, where one was taken back
        (
            PAST,
            [
                [event(1), event(2), event(40), event(50, id="i"), event(55), event(56)],
                [Retraction("i")],
                [event(57)],
                [event(50, "p(a)")],
            ],
        ),
        # one of the first chunk that is kept has another name than its place, and is told again
        (
            PAST,
            [
                [event(35), event(36), event(39)],
                [event(40, "p(a)", id="i"), event(40, "p(b)"), event(49)],
                [Retraction("i")],
                [event(57)],
                [event(50, "q(a)")],
                [event(58, "p(a)")],
            ],
        ),
        # an undecided one is before all that is kept
        (
            FUTURE,
            [
                [event(30, id="i"), event(30, "p(a)"), event(40)],
                [Retraction("i")],
                [event(60), event(62)],
                [event(63)],
                [event(90), event(95)],
            ],
        ),
        # the event at the bound is taken back, and the one below it is not
        (
            PAST,
            [
                [event(9), event(10), event(46, "p(b)", id="h"), event(47, "p(a)", id="i")],
                [event(57)],
                [Retraction("h"), Retraction("i")],
            ],
        ),
    ],
)
@pytest.mark.parametrize("spacing", [1, 2, 3])
def test_what_is_forgotten_is_not_needed(
    text: str, batches: list[list[Arrival]], spacing: int
) -> None:
    compare(file_of(text), batches, 10, spacing=spacing)
    compare(file_of(text), batches, 10, spacing=spacing, interrupt=2)


def test_chunks_below_the_bound_are_forgotten() -> None:
    batches: list[list[Arrival]] = [[event(time, "p(a)")] for time in range(40)]
    chunked = compare(file_of(PAST), batches, 10, spacing=1).chunked
    # the first one that an event can still come into
    assert [chunk.start for chunk in chunked.chunks] == list(range(29, 40))
    chunked = compare(file_of(PAST), [*batches, [event(90)], [event(91)]], 10, spacing=1).chunked
    assert [chunk.start for chunk in chunked.chunks] == [90, 91]
    chunked = compare(file_of(PAST), [*batches, [event(90)]], 10, spacing=1).chunked
    assert [chunk.start for chunk in chunked.chunks] == [90]
