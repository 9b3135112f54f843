"""Formulas for which undecided time-points pile up, or whose cost once did.

A monitor that keeps an expression for each undecided time-point pays for how many there are and for
how large the expressions become: with windows that have not begun, with nested operators, in long
outages. Each pile grows with one number, which is a bound or a depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from bench.compare import Case, Comparison
from bench.formulas import SIZE_ATOMS, alternation, mixed_nest, of_size, until_nest
from bench.logs import random_log
from bench.workloads import PAIR, PLAIN_DENSITIES, TRIPLE, WORKLOADS
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report import Result, Row
    from bench.settings import Settings

RATES = (1, 30, 1000)
DEPTHS = (2, 3, 4, 6, 8)
BOUNDS = (100, 1000, 10_000)
RULES = 333


@dataclass(frozen=True)
class Pile:
    """A formula that grows with a number, and the logs it is monitored on.

    Attributes:
        formula: of the number.
        sizes: the numbers.
        densities, rates: of the logs, in all combinations.
        atoms: of the logs; `alphabet` is their name, as in `bench.workloads`.
    """

    formula: Callable[[int], str]
    sizes: tuple[int, ...]
    densities: tuple[str, ...]
    rates: tuple[int, ...] = (1,)
    atoms: tuple[str, ...] = PAIR
    alphabet: str = "pair"


def _closed_windows(bound: int) -> str:
    return f"ALWAYS[0,{bound}] (p IMPLIES EVENTUALLY[{3 * bound // 10},{bound}] q)"


def _windows_since_windows(bound: int) -> str:
    return (
        f"(EVENTUALLY[{bound // 6},{bound}] p) SINCE"
        f" (EVENTUALLY[{2 * bound // 15},{5 * bound // 6}] q)"
    )


def _pair_of_windows(bound: int) -> str:
    return f"(EVENTUALLY[0,{bound}] p) AND NOT (EVENTUALLY[0,{bound // 3}] p)"


def _outage(bound: int) -> str:
    return f"ALWAYS[0,{bound}] (p IMPLIES ((EVENTUALLY[0,{bound}] q) OR (EVENTUALLY[0,{bound}] r)))"


PILES = {
    "closed windows": Pile(_closed_windows, BOUNDS, ("p50-q0.1",)),
    "windows since windows": Pile(_windows_since_windows, BOUNDS, PLAIN_DENSITIES),
    "pair of windows": Pile(_pair_of_windows, BOUNDS, ("sparse",)),
    "outage": Pile(_outage, (20, 40, 80, *BOUNDS), ("outage",), (1,), TRIPLE, "triple"),
    "n1": Pile(lambda _: WORKLOADS["n1"].formula, (3600,), WORKLOADS["n1"].densities),
    "alternation": Pile(lambda n: str(alternation(n)), DEPTHS, PLAIN_DENSITIES, RATES),
    "mixed nest": Pile(lambda n: str(mixed_nest(n)), DEPTHS, PLAIN_DENSITIES, RATES),
    "until nest": Pile(lambda n: str(until_nest(n)), DEPTHS, PLAIN_DENSITIES, RATES),
    "rules": Pile(
        lambda n: str(of_size(3 * n, ops.ONCE)), (RULES,), ("sparse",), (1,), SIZE_ATOMS, "size"
    ),
}


def piles(settings: Settings) -> Result:
    """The piles whose names have the wanted words, at the wanted ones of their shapes."""
    comparison = Comparison(settings.all_contenders(), settings.repeats, settings.limit)
    return {"rows": comparison.rows(pile_cases(settings)), "notes": comparison.notes}


def pile_cases(settings: Settings) -> list[Case]:
    """The piles on their logs."""
    cases = []
    for name, pile in PILES.items():
        if settings.match not in name:
            continue
        for size, density, rate in product(pile.sizes, pile.densities, pile.rates):
            if density not in settings.densities or rate not in settings.rates:
                continue
            labels: Row = {"pile": name, "size": size, "density": density, "rate": rate}
            log = random_log(
                pile.atoms, density, rate, settings.events, settings.seed, alphabet=pile.alphabet
            )
            cases.append(Case(labels, pile.formula(size), log))
    return cases
