"""For how long after a time-point the engine waits before it answers for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.relational.plan import NO_QUERY

if TYPE_CHECKING:
    from mtlmon.relational.plan import Plan, StatePlan

__all__ = ["decision_delays"]


def decision_delays(plan: Plan) -> list[int | None]:
    """Return how long each policy's answers for a time-point wait at most.

    Args:
        plan: the plan of the policies.

    Returns:
        For each policy a time in units of time-stamps: once time has passed that time-stamp, the
        time-point is answered. None if it takes another time-point, or if there is no limit.
    """
    # the queries that a state looks at come before those that look at the state, but for some that
    # need each other's answers about earlier time-points
    delays: list[int | None] = [0] * len(plan.queries)
    before: list[int | None] = []
    while delays != before:
        before = list(delays)
        for number, query in enumerate(plan.queries):
            states = [plan.states[one] for one in query.late_states]
            waits = [_delay(state, delays) for state in states] if query.late is not None else []
            delays[number] = _largest(waits)
    found: list[int | None] = [None] * len(plan.named_policies)
    for query, delay in zip(plan.queries, delays, strict=True):
        # in slices, left sides that are counted come behind the policies
        if query.policy is not None and query.policy < len(found):
            found[query.policy] = delay
    for closed in plan.closed:
        # these policies look ahead without bound
        found[closed.policy] = None
    return found


def _delay(state: StatePlan, delays: list[int | None]) -> int | None:
    """How long after a time-point a state knows what it says there."""
    if state.kind in {"groups", "spans"}:
        # the state whose rows they have is looked at as well
        return 0
    operands = [state.operand, *(left.operand for left in state.lefts)]
    delay = _largest([delays[one] for one in operands if one != NO_QUERY])
    if not state.is_future:
        return delay
    upper = None if state.kind == "neighbour" else state.upper
    return None if delay is None or upper is None else delay + upper


def _largest(delays: list[int | None]) -> int | None:
    """The largest of some times, where None is larger than all others; 0 of none."""
    known = [delay for delay in delays if delay is not None]
    return max(known, default=0) if len(known) == len(delays) else None
