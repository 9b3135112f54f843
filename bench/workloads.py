"""The workloads: formulas, and the random logs they run on.

A log has a *density*. In a dense log each atom that a formula names holds at each event with
probability 1/2. In a sparse one `p` and `request`, which open obligations, hold at one event in a
thousand, `q` and `response` at one in a hundred, so that most lines hold none of them. Atoms that
no formula names, 98 of them in the log of h1, hold at one event in twenty in either density: a
line holds about five.
"""

from __future__ import annotations

from dataclasses import dataclass

DENSITIES = ("sparse", "dense")

PAIR = ("p", "q")
REQUESTS = ("request", "response", *(f"noise{i:02}" for i in range(98)))

_SPARSE = {"p": 1 / 1000, "request": 1 / 1000, "q": 1 / 100, "response": 1 / 100}


@dataclass(frozen=True)
class Workload:
    """A formula with the shape of its logs.

    Attributes:
        atoms: the atoms that occur in the log, of which the formula may name few.
        time_scale: the distance between neighbouring time-stamps.
        one_shape: the workload is defined for dense logs with one event per time-stamp only.
    """

    name: str
    formula: str
    atoms: tuple[str, ...] = PAIR
    time_scale: int = 1
    one_shape: bool = False

    def has_shape(self, density: str, rate: int) -> bool:
        """Whether the workload is defined for logs of this density and event rate."""
        return not self.one_shape or (density, rate) == ("dense", 1)


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
        Workload("h1", "request IMPLIES EVENTUALLY[0,3600] response", atoms=REQUESTS),
        Workload("n1", "ALWAYS[0,3600] (p IMPLIES EVENTUALLY[0,60] q)", one_shape=True),
        Workload("n2", "ONCE[0,3600] EVENTUALLY[0,60] p", one_shape=True),
    ]
}


def probability(atom: str, density: str) -> float:
    """How often the atom holds at an event of a log of this density."""
    if atom not in _SPARSE:
        return 1 / 20
    return _SPARSE[atom] if density == "sparse" else 1 / 2
