"""The clause `for D` by its definition, on what is said of a policy without it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mtlmon import Formula
from mtlmon.policy import Policy, PolicyFile
from tests.doors import Duration, substitute
from tests.reference.evaluator import Truth
from tests.reference.first_order import Answers

Length = int | Duration | None
"""How long something has to last, in units of time; None if it need not."""


def demanded(file: PolicyFile, policy: Policy) -> Formula:
    """What a policy demands of each time-point, before `for` weakens it."""
    lets = {name: one for name, one in file.lets.items() if name not in file.parameters}
    used = {name: lets[name] for name in policy.written.atoms if name in lets}
    return substitute(policy.written, used) if used else policy.written


def lasting(values: Sequence[Truth], times: Sequence[int], length: Length) -> list[Truth]:
    """The values of a policy: false where all values from `length` before on are false.

    Args:
        values: what is said of the policy without the clause.
        times: the times of the time-points.
        length: the length of time; None if there is no clause.
    """
    if length is None:
        return list(values)
    assert isinstance(length, int)
    found: list[Truth] = []
    for place, time in enumerate(times):
        window = values[_start(times, place, length) : place + 1]
        if times[0] > time - length or True in window:
            found.append(True)
        else:
            found.append(None if None in window else False)
    return found


def lasting_rows(answers: Sequence[Answers], times: Sequence[int], length: Length) -> list[Answers]:
    """Likewise with variables: the values that violate the policy all the time."""
    if length is None:
        return list(answers)
    assert isinstance(length, int)
    found = []
    for place, time in enumerate(times):
        window = answers[_start(times, place, length) : place + 1]
        violating = reduce(frozenset.intersection, (one.satisfying for one in window))
        possible = reduce(
            frozenset.intersection, (one.satisfying | one.undecided for one in window)
        )
        if times[0] > time - length:
            violating = possible = frozenset()
        found.append(Answers(violating, possible - violating))
    return found


def _start(times: Sequence[int], place: int, length: int) -> int:
    """The first time-point that is at most `length` before another one."""
    return next(k for k in range(place + 1) if times[k] >= times[place] - length)
