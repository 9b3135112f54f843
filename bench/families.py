"""The ten property families of Timescales, with logs that satisfy them.

Timescales (D. Ulus, RV 2019) is a benchmark for monitors of past metric temporal logic: patterns
such as "p is absent between q and r", with a bound that scales, and traces on which the property
holds at every point. The patterns are its; the logs are made here, from a period of segments per
family. Two of its formulas are changed. Response in past form excludes *every* open p within the
bound, so that it fails at p itself; here only a p that is open for longer is excluded. Future forms
have the unbounded EVENTUALLY and UNTIL bounded by the longest period there is, and both forms are
judged at each time-point: the future form without its leading ALWAYS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.logs import Log, piece_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.logs import Piece

FORMS = ("past", "future")
BOUNDS = (10, 100, 1000)

_FORMAT = 1
_MOST_REPETITIONS = 7


@dataclass(frozen=True)
class Segment:
    """Some events in a row.

    Attributes:
        atoms: hold at each of them; one with a question mark holds at about half of them.
        length: least and most events for a bound; the length is drawn between them.
    """

    atoms: str
    length: Callable[[int], tuple[int, int]]


@dataclass(frozen=True)
class Family:
    """A property with a bound, and the period of its logs.

    Attributes:
        past, future: the formulas for a bound.
        atoms: of both formulas.
        start, repeated, end: a period is the start, the middle once to seven times, the end; none
            is repeated where the middle is empty.
    """

    name: str
    past: Callable[[int], str]
    future: Callable[[int], str]
    atoms: str
    start: tuple[Segment, ...] = ()
    repeated: tuple[Segment, ...] = ()
    end: tuple[Segment, ...] = ()

    def formula(self, form: str, bound: int) -> str:
        """The formula of that form (one of FORMS)."""
        return self.past(bound) if form == "past" else self.future(bound)

    def log(self, bound: int, events: int, seed: int) -> Log:
        """A log with one event per time-stamp, cut off after so many events."""
        name = f"{self.name}-b{bound}-n{events}-s{seed}-v{_FORMAT}"
        return Log(
            name,
            tuple(self.atoms),
            events,
            lambda: self._pieces(bound, events, seed),
            counts=True,
        )

    def _pieces(self, bound: int, events: int, seed: int) -> Iterator[Piece]:
        import numpy as np

        generator = np.random.default_rng(seed)
        first, middle, last = (len(part) for part in (self.start, self.repeated, self.end))
        template = [
            *range(first),
            *(list(range(first, first + middle)) * _MOST_REPETITIONS),
            *range(first + middle, first + middle + last),
        ]
        # The repetition that a place of the template belongs to; those of the ends always stay.
        repetition = np.repeat(
            np.arange(_MOST_REPETITIONS + 2) - 1,
            [first, *([middle] * _MOST_REPETITIONS), last],
        )
        repetition[len(template) - last :] = -1
        segments = self.start + self.repeated + self.end
        least, most = np.array([segment.length(bound) for segment in segments]).T
        always = np.array([[_holds(s, atom) for atom in self.atoms] for s in segments])
        maybe = np.array([[f"{atom}?" in s.atoms for atom in self.atoms] for s in segments])
        periods = max(1, piece_events(tuple(self.atoms)) // (8 * max(1, int(least.sum()))))
        done = 0
        while done < events:
            repetitions = generator.integers(1, _MOST_REPETITIONS + 1, (periods, 1))
            kinds = np.tile(template, (periods, 1))[repetition < repetitions]
            lengths = generator.integers(least[kinds], most[kinds] + 1)
            rows = np.repeat(kinds, lengths)[: events - done]
            coins = generator.integers(0, 2, (len(rows), len(self.atoms)), np.uint8).astype(bool)
            yield np.arange(done, done + len(rows)), always[rows] | maybe[rows] & coins
            done += len(rows)


def _holds(segment: Segment, atom: str) -> bool:
    return atom in segment.atoms and f"{atom}?" not in segment.atoms


def _one(atoms: str) -> Segment:
    return Segment(atoms, lambda bound: (1, 1))


def _bound(atoms: str) -> Segment:
    return Segment(atoms, lambda bound: (bound, bound))


def _gap(atoms: str = "") -> Segment:
    """Fewer events than the bound."""
    return Segment(atoms, lambda bound: (0, bound - 1))


def _late(atoms: str = "") -> Segment:
    """Fewer events than the bound, but not fewer than the lower bound."""
    return Segment(atoms, lambda bound: (_lower(bound), bound - 1))


def _lower(bound: int) -> int:
    return 3 * bound // 10


def _longest(bound: int) -> int:
    """An upper bound of the time between q and the next r, with seven repetitions in between."""
    return 10 * bound


def _past_response(bound: int) -> str:
    return f"((s IMPLIES ONCE[{_lower(bound)},{bound}] p) AND NOT ((NOT s) SINCE[{bound + 1},*] p))"


def _before_r(bound: int) -> str:
    return f"EVENTUALLY[0,{bound}] r"


_BETWEEN_PAST = "(r AND NOT q AND ONCE q)"


def _between_future(bound: int) -> str:
    return f"(q AND NOT r AND EVENTUALLY[0,{bound}] r)"


FAMILIES = {
    family.name: family
    for family in [
        Family(
            "absence_after_q",
            lambda b: f"HISTORICALLY ((ONCE[0,{b}] q) IMPLIES ((NOT p) SINCE q))",
            lambda b: f"q IMPLIES ALWAYS[0,{b}] NOT p",
            "pq",
            (_one("q"), _bound(""), _bound("p?")),
        ),
        Family(
            "absence_before_r",
            lambda b: f"HISTORICALLY (r IMPLIES HISTORICALLY[0,{b}] NOT p)",
            lambda b: f"({_before_r(b)}) IMPLIES ((NOT p) UNTIL[0,{b}] r)",
            "pr",
            (_bound("p?"), _bound(""), _one("r")),
        ),
        Family(
            "absence_between_q_and_r",
            lambda b: f"HISTORICALLY ({_BETWEEN_PAST} IMPLIES ((NOT p) SINCE[{_lower(b)},{b}] q))",
            lambda b: f"{_between_future(b)} IMPLIES ((NOT p) UNTIL[{_lower(b)},{b}] r)",
            "pqr",
            (_one("q"), _late(), _one("r"), _one("p?")),
        ),
        Family(
            "always_after_q",
            lambda b: f"HISTORICALLY ((ONCE[0,{b}] q) IMPLIES (p SINCE q))",
            lambda b: f"q IMPLIES ALWAYS[0,{b}] p",
            "pq",
            (_one("pq"), _bound("p"), _bound("p?")),
        ),
        Family(
            "always_before_r",
            lambda b: f"HISTORICALLY (r IMPLIES HISTORICALLY[0,{b}] p)",
            lambda b: f"({_before_r(b)}) IMPLIES (p UNTIL[0,{b}] r)",
            "pr",
            (_bound("p?"), _bound("p"), _one("pr")),
        ),
        Family(
            "always_between_q_and_r",
            lambda b: f"HISTORICALLY ({_BETWEEN_PAST} IMPLIES (p SINCE[{_lower(b)},{b}] q))",
            lambda b: f"{_between_future(b)} IMPLIES (p UNTIL[{_lower(b)},{b}] r)",
            "pqr",
            (_one("pq"), _late("p"), _one("pr"), _one("")),
        ),
        Family(
            "recurrence_globally",
            lambda b: f"HISTORICALLY ONCE[0,{b}] p",
            lambda b: f"EVENTUALLY[0,{b}] p",
            "p",
            (_one("p"), _gap()),
        ),
        Family(
            "recurrence_between_q_and_r",
            lambda b: f"HISTORICALLY ({_BETWEEN_PAST} IMPLIES ((ONCE[0,{b}] (p OR q)) SINCE q))",
            lambda b: (
                f"{_between_future(_longest(b))}"
                f" IMPLIES ((ONCE[0,{b}] (p OR q)) UNTIL[0,{_longest(b)}] r)"
            ),
            "pqr",
            (_one("q"),),
            (_gap(), _one("p")),
            (_gap(), _one("r"), _gap()),
        ),
        Family(
            "response_globally",
            lambda b: f"HISTORICALLY {_past_response(b)}",
            lambda b: f"p IMPLIES EVENTUALLY[{_lower(b)},{b}] s",
            "ps",
            (_one("p"), _late(), _one("s")),
        ),
        Family(
            "response_between_q_and_r",
            lambda b: f"HISTORICALLY ({_BETWEEN_PAST} IMPLIES ({_past_response(b)} SINCE q))",
            lambda b: (
                f"{_between_future(_longest(b))} IMPLIES (p IMPLIES EVENTUALLY[{_lower(b)},{b}] s)"
            ),
            "pqrs",
            (_one("q"), _one("")),
            (_one("p"), _late(), _one("s"), _one("")),
            (_one("r"),),
        ),
    ]
}
