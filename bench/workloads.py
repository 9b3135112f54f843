"""The workloads: formulas, and the random logs they run on.

A log has a *density*: how often each atom holds. In a `dense` log every atom that a formula names
holds at half of the events. In a `sparse` one `p` and `request`, which open obligations, hold at
one event in a thousand, `q` and `response` at one in a hundred, so that most lines hold none of
them. More densities are for nested formulas: `p50-q2`, where q comes late, `p50-q0.1`, where it
comes very late, `p90-q10`, and `outage`, where p holds at every event and q and r at none.
Atoms that no formula names hold at one event in twenty, in wide logs at every event.
"""

from __future__ import annotations

from dataclasses import dataclass

PAIR = ("p", "q")
TRIPLE = ("p", "q", "r")
REQUESTS = ("request", "response", *(f"noise{i:02}" for i in range(98)))

_OPENING = ("p", "request")
_CLOSING = ("q", "r", "response")

# How often atoms hold that open obligations, and atoms that close them.
DENSITIES = {
    "sparse": (1 / 1000, 1 / 100),
    "dense": (1 / 2, 1 / 2),
    "p50-q2": (1 / 2, 1 / 50),
    "p50-q0.1": (1 / 2, 1 / 1000),
    "p90-q10": (9 / 10, 1 / 10),
    "outage": (1.0, 0.0),
}
PLAIN_DENSITIES = ("sparse", "dense")


@dataclass(frozen=True)
class Workload:
    """A formula with the shape of its logs.

    Attributes:
        atoms: the atoms that occur in the log, of which the formula may name few.
        alphabet: a name for these atoms; workloads of one alphabet share logs.
        time_scale: the distance between neighbouring time-stamps.
        densities: those that the workload is defined for.
        only_rate: the only event rate that it is defined for, None for any.
    """

    name: str
    formula: str
    atoms: tuple[str, ...] = PAIR
    alphabet: str = "pair"
    time_scale: int = 1
    densities: tuple[str, ...] = PLAIN_DENSITIES
    only_rate: int | None = None

    def has_shape(self, density: str, rate: int) -> bool:
        """Whether the workload is defined for logs of this density and event rate."""
        return density in self.densities and self.only_rate in (None, rate)


_SCALE = 100_000

WORKLOADS = {
    workload.name: workload
    for workload in [
        Workload("f0", "p"),
        Workload("f1", "EVENTUALLY[0,5] p"),
        Workload("f2", "p UNTIL[0,5] q"),
        Workload("f3", "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)"),
        Workload("f4a", "ONCE[0,10] p"),
        Workload("f4b", "p SINCE[2,8] q"),
        Workload("f5", "ALWAYS[0,4] (p IMPLIES ONCE[0,7] q)"),
        Workload("g1", f"EVENTUALLY[0,{5 * _SCALE}] p", time_scale=_SCALE),
        Workload("g2", f"p UNTIL[0,{5 * _SCALE}] q", time_scale=_SCALE),
        Workload("g4", f"p SINCE[{2 * _SCALE},{8 * _SCALE}] q", time_scale=_SCALE),
        Workload("h1", "request IMPLIES EVENTUALLY[0,3600] response", REQUESTS, "h1"),
        Workload(
            "n1",
            "ALWAYS[0,3600] (p IMPLIES EVENTUALLY[0,60] q)",
            densities=("dense", "p50-q2", "p90-q10"),
            only_rate=1,
        ),
        Workload(
            "n1/60",
            "ALWAYS[0,60] (p IMPLIES EVENTUALLY[0,1] q)",
            densities=("dense", "p50-q2", "p90-q10"),
            only_rate=1,
        ),
        Workload("n2", "ONCE[0,3600] EVENTUALLY[0,60] p", densities=("dense",), only_rate=1),
        Workload("n2/60", "ONCE[0,60] EVENTUALLY[0,1] p", densities=("dense",), only_rate=1),
    ]
}

SCALED = {"g1": "f1", "g2": "f2", "g4": "f4b"}
"""Workloads with large constants, and those that they are the same as but for the time scale."""

WIDE_FORMULA = "request IMPLIES EVENTUALLY[0,3600] response"


def wide_atoms(width: int) -> tuple[str, ...]:
    """The atoms of a wide log: all but the first two hold at every event."""
    return ("request", "response", *(f"extra{i:03}" for i in range(width - 2)))


def probability(atom: str, density: str) -> float:
    """How often the atom holds at an event of a log of this density."""
    opening, closing = DENSITIES[density]
    if atom in _OPENING:
        return opening
    if atom in _CLOSING:
        return closing
    return 1.0 if atom.startswith("extra") else opening if atom.startswith("a") else 1 / 20
