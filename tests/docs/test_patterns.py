"""The policies of the page on patterns hold exactly on the traces that the page says in words."""

from __future__ import annotations

import random
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest

from mtlmon import Monitor, resolve
from mtlmon.policy import parse_policies
from tests.docs import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mtlmon import Formula

    Event = frozenset[str]
    Trace = list[Event]
    Pattern = Callable[[Trace], bool]

ATOMS = "pqrs"


def _policies(title: str) -> dict[str, Formula]:
    (text,) = (block.text for block in pages.blocks("patterns.md") if block.title == title)
    return {one.name or "": one.formula for one in parse_policies(text).policies}


def places(atom: str, trace: Trace) -> list[int]:
    """Where an atom is."""
    return [place for place, event in enumerate(trace) if atom in event]


# Occurrence, and order

OCCURRENCE: dict[str, Pattern] = {
    "absence": lambda trace: not places("p", trace),
    "universality": lambda trace: len(places("p", trace)) == len(trace),
    "existence": lambda trace: bool(places("p", trace)),
    "at_most_twice": lambda trace: len(places("p", trace)) <= 2,
    "begins": lambda trace: "p" in trace[0],
}


def precedence(trace: Trace) -> bool:
    return all(any(s <= p for s in places("s", trace)) for p in places("p", trace))


def response(trace: Trace) -> bool:
    return all(any(p <= s for s in places("s", trace)) for p in places("p", trace))


def succession(trace: Trace) -> bool:
    backwards = all(any(p <= s for p in places("p", trace)) for s in places("s", trace))
    return response(trace) and backwards


def alternate_precedence(trace: Trace) -> bool:
    """Between a place of p, or the beginning, and the next one there is an s.

    It may be at the event of the former.
    """
    found = places("p", trace)
    return all(
        any(before <= s < after for s in places("s", trace))
        for before, after in pairwise([0, *found])
    )


def alternate_response(trace: Trace) -> bool:
    """Between a place of p and the next one, or the end, there is an s.

    It may be at the event of the latter.
    """
    found = [*places("p", trace), len(trace)]
    return all(
        any(before < s <= after for s in places("s", trace)) for before, after in pairwise(found)
    )


def coexistence(trace: Trace) -> bool:
    return bool(places("p", trace)) == bool(places("s", trace))


ORDER: dict[str, Pattern] = {
    "precedence": precedence,
    "response": response,
    "succession": succession,
    "chain_precedence": lambda trace: all(
        p > 0 and "s" in trace[p - 1] for p in places("p", trace)
    ),
    "chain_response": lambda trace: all("s" in event for event in _behind(trace)),
    "alternate_precedence": alternate_precedence,
    "alternate_response": alternate_response,
    "responded_existence": lambda trace: not places("p", trace) or bool(places("s", trace)),
    "coexistence": coexistence,
    "not_coexistence": lambda trace: not (places("p", trace) and places("s", trace)),
    "not_succession": lambda trace: (
        not any(p <= s for p in places("p", trace) for s in places("s", trace))
    ),
}


def _behind(trace: Trace) -> Iterable[Event]:
    """The event behind each p; an empty one behind the last."""
    return ([*trace, frozenset[str]()][p + 1] for p in places("p", trace))


# Parts of traces


def before(trace: Trace) -> Iterator[Trace]:
    for r in places("r", trace)[:1]:
        yield trace[:r]


def after(trace: Trace) -> Iterator[Trace]:
    for q in places("q", trace)[:1]:
        yield trace[q:]


def from_each(trace: Trace, takes_open: bool) -> Iterator[Trace]:
    for q in places("q", trace):
        ends = [r for r in places("r", trace) if r >= q]
        if ends:
            yield trace[q : ends[0]]
        elif takes_open:
            yield trace[q:]


def between(trace: Trace) -> Iterator[Trace]:
    # an event with both does not begin a part
    yield from (part for part in from_each(trace, False) if part)


def until(trace: Trace) -> Iterator[Trace]:
    yield from (part for part in from_each(trace, True) if part)


SCOPES = {"before": before, "after": after, "between": between, "until": until}
PARTS: dict[str, Pattern] = {
    "absence": OCCURRENCE["absence"],
    "existence": OCCURRENCE["existence"],
    "precedence": precedence,
    "response": response,
}


def _scoped(name: str) -> Pattern:
    pattern, scope = name.split("_")
    return lambda trace: all(map(PARTS[pattern], SCOPES[scope](trace)))


def _holds(formula: Formula, trace: Trace) -> bool:
    events = [(time, sorted(event)) for time, event in enumerate(trace)]
    monitor = Monitor(formula)
    verdicts = [*monitor(events), *monitor.finish("inf")]
    values = [verdict.value for verdict in resolve(verdicts)]
    assert len(values) == len(trace)
    return all(values)


def _traces(atoms: str, longest: int) -> Iterator[Trace]:
    """All traces up to a length, and some longer ones."""
    events = [
        frozenset(atom for atom, is_in in zip(atoms, bits, strict=True) if is_in)
        for bits in product((False, True), repeat=len(atoms))
    ]
    for length in range(1, longest + 1):
        yield from map(list, product(events, repeat=length))
    source = random.Random(1)
    for _ in range(150):
        yield [
            frozenset(atom for atom in atoms if source.random() < 0.25)
            for _ in range(source.randint(4, 12))
        ]


CASES = [
    *(("occurrence.mtl", name, OCCURRENCE[name], "p", 6) for name in OCCURRENCE),
    *(("order.mtl", name, ORDER[name], "ps", 4) for name in ORDER),
    *(
        ("scopes.mtl", f"{pattern}_{scope}", _scoped(f"{pattern}_{scope}"), atoms, longest)
        for pattern, atoms, longest in (
            ("absence", "pqr", 3),
            ("existence", "pqr", 3),
            ("precedence", "pqrs", 2),
            ("response", "pqrs", 2),
        )
        for scope in SCOPES
    ),
]


@pytest.mark.parametrize(
    ("title", "name", "pattern", "atoms", "longest"), CASES, ids=[case[1] for case in CASES]
)
def test_policy_has_the_pattern(
    title: str, name: str, pattern: Pattern, atoms: str, longest: int
) -> None:
    formula = _policies(title)[name]
    found = set()
    for trace in _traces(atoms, longest):
        expected = pattern(trace)
        assert _holds(formula, trace) == expected, [sorted(event) for event in trace]
        found.add(expected)
    assert found == {False, True}


@pytest.mark.parametrize("title", ["occurrence.mtl", "order.mtl", "scopes.mtl"])
def test_every_policy_is_compared(title: str) -> None:
    assert set(_policies(title)) == {case[1] for case in CASES if case[0] == title}
