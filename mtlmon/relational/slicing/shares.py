"""Integer shares of a hypercube: how many parts the values of each variable are split into.

This is Algorithm 2 of J. Schneider et al., "Scalable Online First-Order Monitoring": all vectors of
shares whose product is at most the number of slices are compared. A row of an atom goes to one part
of each variable that the atom has, and to all parts of the others.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["Load", "best_shares", "expected_load"]


class Load(NamedTuple):
    """How many rows an atom has, and which variables they have values of.

    Attributes:
        rate: the number of rows, in any unit.
        variables: the numbers of the variables.
    """

    rate: float
    variables: frozenset[int]


def best_shares(
    loads: Sequence[Load], variables: int, slices: int, fixed: Collection[int] = ()
) -> tuple[int, ...]:
    """Return the shares with the least load of a slice, and of those the most even ones.

    Args:
        loads: one for each atom in the formula.
        variables: the number of variables.
        slices: the product of the shares is at most this.
        fixed: the variables whose share is 1.
    """
    total = sum(load.rate for load in loads) or 1.0
    best = (1,) * variables
    # rounded, so that the order of atoms does not decide between equal costs
    least = round(expected_load(loads, best) / total, 12), 1
    for shares in _vectors(variables, slices, frozenset(fixed)):
        cost = round(expected_load(loads, shares) / total, 12), max(shares, default=1)
        if cost < least:
            best, least = shares, cost
    return best


def expected_load(loads: Sequence[Load], shares: Sequence[int]) -> float:
    """Return how many rows a slice is expected to get, in the unit of the rates."""
    return sum(load.rate / prod(shares[one] for one in load.variables) for load in loads)


def _vectors(count: int, product: int, fixed: frozenset[int]) -> Iterator[tuple[int, ...]]:
    """Yield the vectors of a product of at most `product`, in lexicographic order."""
    if count == 0:
        yield ()
        return
    stack: list[tuple[tuple[int, ...], int]] = [((), product)]
    while stack:
        shares, left = stack.pop()
        place = len(shares)
        if place == count:
            yield shares
            continue
        most = 1 if place in fixed else left
        stack += [((*shares, share), left // share) for share in range(most, 0, -1)]
