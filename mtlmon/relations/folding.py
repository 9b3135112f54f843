"""Aggregates of groups that a program of Python defines, with `register_aggregate`.

The states of the records that are valid are combined one after the other, in the order in which the
records have begun. A state takes as many calls as there are records behind the first one that has
come or gone since the last one: so it depends on the records alone, and not on those before, as it
could where floats are taken off again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from math import isnan
from typing import TYPE_CHECKING, Any

from mtlmon.streams.own_values import OwnError, call, is_of_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy.predicates.own_aggregates import OwnAggregate

__all__ = ["Folds"]


class _Fold:
    """The records of a group that are valid.

    Attributes:
        places: their places in the order of all records.
        states: for the first ones, the state of each with all before it.
    """

    __slots__ = ("places", "states")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.states: list[Any] = []


class Folds:
    """Computes an aggregate for each group; it is what `native.OwnAggregate` calls.

    Args:
        own: the aggregate.
        values: the values of records in their order.
        places: for each record, its place in this order.

    Attributes:
        results: the different results, by their numbers.
    """

    def __init__(self, own: OwnAggregate, values: Sequence[Any], places: Sequence[int]) -> None:
        self.results: list[Any] = []
        self._own = own
        self._values = values
        self._places = places
        self._lifted: dict[int, Any] = {}
        self._folds: dict[int, _Fold] = {}
        self._numbers: dict[Any, int] = {}

    def enter(self, group: int, row: int) -> None:
        """Take in a record that begins."""
        fold = self._folds.setdefault(group, _Fold())
        place = self._places[row]
        del fold.states[bisect_left(fold.places, place) :]
        insort(fold.places, place)
        self._lifted[place] = self._call("lift", self._own.lift, self._values[place])

    def leave(self, group: int, row: int) -> None:
        """Take out a record that ends."""
        fold = self._folds[group]
        index = bisect_left(fold.places, self._places[row])
        del fold.states[index:]
        del self._lifted[fold.places.pop(index)]

    def now(self, group: int) -> int:
        """Return the number of a result, equal ones for equal results; -1 for null."""
        fold = self._folds.get(group)
        if fold is None or not fold.places:
            return -1
        states = fold.states
        for place in fold.places[len(states) :]:
            state = self._lifted[place]
            if states:
                state = self._call("combine", self._own.combine, states[-1], state)
            states.append(state)
        result = self._call("lower", self._own.lower, states[-1])
        if result is None:
            return -1
        if not is_of_kind(result, self._own.kind):
            raise OwnError(
                f"lower of aggregate {self._own.name} gives {result!r}, which is not "
                f"{self._own.kind.words}"
            )
        key = None if isinstance(result, float) and isnan(result) else result
        if key not in self._numbers:
            self._numbers[key] = len(self.results)
            self.results.append(result)
        return self._numbers[key]

    def _call(self, what: str, function: Any, *arguments: Any) -> Any:
        return call(f"{what} of aggregate {self._own.name}", function, *arguments)
