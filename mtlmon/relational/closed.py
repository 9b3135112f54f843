"""Policies that look ahead without bound: closed formulas become atoms of an ordinary one.

`ALWAYS (request IMPLIES EVENTUALLY EXISTS u. login(u))` has no free variables. Its maximal closed
subformulas with bounded future are evaluated like other policies; what they make true at each
time-point is an event for an ordinary monitor. The verdicts become answers, in order.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

from mtlmon.syntax.formula import Formula, atom
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from mtlmon.engine.native import Verdict

    Point = tuple[int, int]

__all__ = ["ClosedMonitor", "closed_parts", "looks_ahead_without_bound"]


def looks_ahead_without_bound(formula: Formula) -> bool:
    """Whether a formula has EVENTUALLY, ALWAYS or UNTIL without an upper bound."""
    return any(_is_unbounded(node) for node in postorder(formula))


def closed_parts(formula: Formula) -> tuple[Formula, list[Formula]]:
    """Replace the maximal subformulas with bounded future by atoms.

    Args:
        formula: a formula in normal form, without free variables and without unbounded future below
            a quantifier.

    Returns:
        The ordinary formula, and what its atoms stand for, which are called `0`, `1` and so on.
    """
    unbounded: set[int] = set()
    for node in postorder(formula):
        if _is_unbounded(node) or any(id(one) in unbounded for one in node.operands):
            unbounded.add(id(node))
    parts: list[Formula] = []
    made: dict[int, Formula] = {}
    stack = [formula]
    while stack:
        node = stack[-1]
        if id(node) in made:
            stack.pop()
        elif id(node) not in unbounded:
            made[id(node)] = atom(str(len(parts)))
            parts.append(node)
        elif missing := [one for one in node.operands if id(one) not in made]:
            stack.append(missing[0])
        else:
            operands = tuple(made[id(one)] for one in node.operands)
            made[id(node)] = Formula(node.operator, operands, node.interval)
    return made[id(formula)], parts


def _is_unbounded(node: Formula) -> bool:
    interval = node.interval
    # NEXT waits for one time-point, whatever its interval
    is_next = node.operator.name == "NEXT"
    return (
        node.operator.is_future
        and not is_next
        and interval is not None
        and (not interval.is_bounded)
    )


class ClosedMonitor:
    """Monitors an ordinary formula whose atoms are the answers of queries.

    Args:
        formula: the formula, as text.
        part_count: how many atoms it has.

    Attributes:
        answered: how many time-points have a verdict, as have all before them.
    """

    def __init__(self, formula: str, part_count: int) -> None:
        from mtlmon._core import Monitor

        self.answered = 0
        self._monitor = Monitor(formula)
        self._bits = [
            1 << self._monitor.atoms.index(name) if name in self._monitor.atoms else 0
            for name in map(str, range(part_count))
        ]
        # What each part has said about the time-points that the monitor has not seen.
        self._values: list[deque[bool]] = [deque() for _ in self._bits]
        self._times: deque[int] = deque()
        self._clock = 0
        self._last: Point = (-1, 0)
        # The time-points without an answer, in order, and the verdicts of some.
        self._open: deque[Point] = deque()
        self._decided: dict[Point, bool] = {}
        self._same: dict[Point, list[Point]] = {}

    def begin(self, time_stamp: int) -> None:
        """Note a time-point."""
        self._times.append(time_stamp)

    def note(self, part: int, value: bool) -> None:
        """Note what a part says about the next time-point that it has not spoken of."""
        self._values[part].append(value)

    def settle(self, clock: int, is_closed: bool) -> list[tuple[int, int, int, bool]]:
        """Return the verdicts that are known now, and have not been returned.

        Args:
            clock: no time-point with a time-stamp below it comes.
            is_closed: whether none comes at all.

        Returns:
            The time-stamp, offset, number and value of time-points, in order.
        """
        while self._times and all(self._values):
            letter = sum(
                bit
                for bit, values in zip(self._bits, self._values, strict=True)
                if values.popleft()
            )
            time_stamp = self._times.popleft()
            offset = self._last[1] + 1 if self._last[0] == time_stamp else 0
            self._open.append((time_stamp, offset))
            self._last = time_stamp, offset
            self._clock = time_stamp
            self._take(self._monitor.step(time_stamp, letter))
        if is_closed and not self._times:
            self._take(self._monitor.finish("inf"))
        elif (horizon := self._times[0] if self._times else clock) > self._clock:
            self._clock = horizon
            self._take(self._monitor.advance(horizon))
        found = []
        while self._open and self._open[0] in self._decided:
            point = self._open.popleft()
            found.append((*point, self.answered, self._decided.pop(point)))
            self.answered += 1
        return found

    def waiting(self, most: int) -> list[Point]:
        """Return the first time-points without an answer, in order."""
        found = [*self._open]
        last = self._last
        for time_stamp in self._times:
            last = time_stamp, last[1] + 1 if last[0] == time_stamp else 0
            found.append(last)
        return found[:most]

    def _take(self, verdicts: list[Verdict]) -> None:
        """Note verdicts; an equivalence waits for that of its other time-point."""
        for verdict in verdicts:
            point = verdict.time_stamp, verdict.offset
            if verdict.ref is not None:
                self._same.setdefault((verdict.ref[0], verdict.ref[1]), []).append(point)
                continue
            waiting = [point]
            while waiting:
                one = waiting.pop()
                assert verdict.value is not None
                self._decided[one] = verdict.value
                waiting += self._same.pop(one, ())

    @property
    def next_due(self) -> int | None:
        """The least clock at which time alone may bring a verdict, or None.

        While a part has not spoken of a time-point, the verdicts wait for that part.
        """
        return None if self._times else self._monitor.next_change

    def snapshot(self) -> tuple[bytes, bytes]:
        """Return the state as two texts of bytes, for `restore`."""
        own = {
            "answered": self.answered,
            "values": [list(map(int, values)) for values in self._values],
            "times": list(self._times),
            "clock": self._clock,
            "last": self._last,
            "open": list(self._open),
            "decided": sorted([*point, int(value)] for point, value in self._decided.items()),
            "same": sorted([point, sorted(found)] for point, found in self._same.items()),
        }
        return json.dumps(own).encode(), self._monitor.snapshot()

    def restore(self, own: bytes, monitor: bytes) -> None:
        """Continue from a snapshot.

        Raises:
            MtlmonError, ValueError, KeyError, TypeError: these are not those of such a monitor.
        """
        read = json.loads(own)
        self._monitor.restore(monitor)
        values = [deque(map(bool, one)) for one in read["values"]]
        if len(values) != len(self._values):
            raise ValueError("the snapshot has another number of parts")
        self._values = values
        self.answered = int(read["answered"])
        self._times = deque(map(int, read["times"]))
        self._clock = int(read["clock"])
        self._last = _point(read["last"])
        self._open = deque(map(_point, read["open"]))
        self._decided = {_point(one[:2]): bool(one[2]) for one in read["decided"]}
        self._same = {_point(one): [*map(_point, found)] for one, found in read["same"]}


def _point(found: list[int]) -> Point:
    time_stamp, offset = found
    return int(time_stamp), int(offset)
