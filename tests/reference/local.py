"""The verdicts of `naive` and `local` mode for bounded formulas, straight from the definition.

Written for obviousness, not for speed. At every moment (an event has been read, time has passed, or
the log has ended) everything that is not yet decided is computed again:

1. Kleene's three values of each subformula at each time-point, by the definition of its operator.
   `naive` mode answers the time-points at which the formula itself has a value.
2. For each time-stamp, what lies outside it. A SINCE or PREVIOUS depends on what lies before the
   time-stamp through a single value, and an UNTIL or NEXT on what lies after it: the value that it
   would have just outside, with distances counted from this time-stamp. Kleene's value of that is
   true, false or unknown, so each temporal subformula has at most one unknown for a time-stamp.
3. Within the time-stamp, the value of each subformula at each time-point as a Boolean function of
   these unknowns: a truth table. All distances within a time-stamp are 0, so no window matters.
4. `local` mode answers a time-point with a Boolean if its function is constant. Otherwise, if an
   earlier time-point of the same time-stamp without a verdict has the same function, it answers
   with an equivalence to the earliest of these.

The equivalences are those that `local` mode must find. It may find more: those that follow from
relations between unknowns, or from what the unknowns themselves depend on.

The Boolean values are those that every engine gives, at the same moments, if the formula is unate
(`folding.is_unate`). This also holds in `local` mode if the formula is mixed on top only
(`folding.is_mixed_on_top`), thanks to a relation between unknowns that counts for Boolean verdicts:
of two open windows of one family, the one that ends first implies the other.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.interval import Interval
from tests.reference.evaluator import Truth, every, negation, some
from tests.reference.folding import folded, looks_ahead, subformulas
from tests.traces import MAXIMUM_TIME_STAMP, Mode, Prefix, TimePoint, time_points
from tests.verdicts import Verdict

UNKNOWN_LIMIT = 16
"""A truth table of more unknowns is not built."""

Table = int
"""A truth table: bit n is the value under assignment n, whose bit k is the value of unknown k."""


class TooManyUnknownsError(Exception):
    """The truth tables of a time-stamp would have too many rows."""


class Block(NamedTuple):
    """The time-points of one time-stamp, as far as they were read: from `first` to `last`."""

    time_stamp: int
    first: int
    last: int


class LocalEvaluator:
    """One run: the prefixes of a stream in, verdicts out.

    Args:
        formula: a bounded formula.
        mode: `naive` or `local`.
    """

    def __init__(self, formula: Formula, mode: Mode) -> None:
        assert mode != "global"
        self.mode = mode
        self.formula = folded(formula)
        self.subformulas = subformulas(self.formula)
        self.temporal = [f for f in self.subformulas if f.interval is not None]
        self.flat = {f for f in self.temporal if not any(map(looks_ahead, f.operands))}
        self.values: dict[Formula, list[Truth]] = {f: [] for f in self.subformulas}
        self.answered: set[int] = set()
        self.prefix = Prefix((), 0)
        self.times: list[int] = []

    def verdicts(self, prefix: Prefix) -> list[Verdict]:
        """The verdicts that become due when the stream is known up to here.

        Args:
            prefix: what is known now; it extends what was known before.
        """
        self.prefix = prefix
        self.times = [event.time_stamp for event in prefix.events]
        for formula in self.subformulas:
            self.update(formula)
        points = time_points(prefix.events)
        found: dict[int, Verdict] = {}
        if self.mode == "naive":
            for i, value in enumerate(self.values[self.formula]):
                if i not in self.answered and value is not None:
                    found[i] = Verdict(points[i], value, None)
        else:
            for block in self.open_blocks():
                found |= self.verdicts_within(block, points)
        self.answered |= set(found)
        return [found[i] for i in sorted(found)]

    # 1. Kleene's values at time-points.

    def update(self, formula: Formula) -> None:
        """Compute the values that are not decided yet; what is decided stays."""
        values = self.values[formula]
        values += [None] * (len(self.times) - len(values))
        for i, value in enumerate(values):
            if value is None:
                values[i] = self.value(formula, i)

    def value(self, formula: Formula, i: int) -> Truth:
        operands = [self.values[operand] for operand in formula.operands]
        match formula.operator.name, operands:
            case "TRUE", []:
                return True
            case "FALSE", []:
                return False
            case "ATOM", []:
                return formula.name in self.prefix.events[i].atoms
            case "NOT", [f]:
                return negation(f[i])
            case "AND", [f, g]:
                return every([f[i], g[i]])
            case _:
                return self.temporal_value(formula, i, self.times[i])

    def temporal_value(self, formula: Formula, start: int, time: int) -> Truth:
        """The value at a time-point `start`, but with distances counted from `time`."""
        operands = [self.values[operand] for operand in formula.operands]
        interval = formula.interval
        assert interval is not None
        match formula.operator.name, operands:
            case "PREVIOUS", [f]:
                return self.previous(f, interval, start)
            case "NEXT", [f]:
                return self.next(f, interval, start)
            case "SINCE", [f, g]:
                return self.since(f, g, interval, start, time)
            case "UNTIL", [f, g]:
                return self.until(f, g, interval, start, time)
        raise AssertionError(f"{formula} is not folded")

    def previous(self, f: list[Truth], interval: Interval, i: int) -> Truth:
        if i == 0:
            return False
        return every([self.times[i] - self.times[i - 1] in interval, f[i - 1]])

    def next(self, f: list[Truth], interval: Interval, i: int) -> Truth:
        if i + 1 == len(self.times):
            return self.unread(interval, self.times[i])
        return every([self.times[i + 1] - self.times[i] in interval, f[i + 1]])

    def since(
        self, f: list[Truth], g: list[Truth], interval: Interval, start: int, time: int
    ) -> Truth:
        """Whether some j <= start is a witness: g at j, f at every k with j < k <= start."""
        result: Truth = False
        f_so_far: Truth = True
        for j in range(start, -1, -1):
            distance = time - self.times[j]
            if distance in interval:
                result = some([result, every([f_so_far, g[j]])])
            f_so_far = every([f_so_far, f[j]])
            if result is True or f_so_far is False or _is_beyond(distance, interval):
                break
        return result

    def until(
        self, f: list[Truth], g: list[Truth], interval: Interval, start: int, time: int
    ) -> Truth:
        """Whether some j >= start is a witness: g at j, f at every k with start <= k < j.

        No witness comes if the window would begin beyond the largest time-stamp.
        """
        result: Truth = False
        f_so_far: Truth = True
        for j in range(start, len(self.times)):
            distance = self.times[j] - time
            if distance in interval:
                result = some([result, every([f_so_far, g[j]])])
            f_so_far = every([f_so_far, f[j]])
            if result is True or f_so_far is False or _is_beyond(distance, interval):
                return result
        begins = time + interval.lower <= MAXIMUM_TIME_STAMP
        return some([result, every([f_so_far, begins, self.unread(interval, time)])])

    def unread(self, interval: Interval, time: int) -> Truth:
        """Whether a time-point still to come is at a distance in the interval: unknown or False."""
        if self.prefix.closed or _is_beyond(self.prefix.clock - time, interval):
            return False
        return None

    # 2. What lies outside a time-stamp.

    def open_blocks(self) -> list[Block]:
        """The time-stamps that have time-points without a verdict."""
        blocks: dict[int, Block] = {}
        for i, time in enumerate(self.times):
            blocks[time] = Block(time, blocks[time].first if time in blocks else i, i)
        return [
            block
            for block in blocks.values()
            if not self.answered.issuperset(range(block.first, block.last + 1))
        ]

    def outside(self, formula: Formula, block: Block) -> Truth:
        """The value before the block (SINCE, PREVIOUS) or after it (UNTIL, NEXT).

        PREVIOUS and NEXT have it at the block's first and last time-point, because they skip the
        present one themselves.
        """
        starts = {
            ops.PREVIOUS: block.first,
            ops.NEXT: block.last,
            ops.SINCE: block.first - 1,
            ops.UNTIL: block.last + 1,
        }
        return self.temporal_value(formula, starts[formula.operator], block.time_stamp)

    def is_implied(self, f: Formula, g: Formula, block: Block) -> bool:
        """Whether f's unknown implies g's: both windows are open, and f's does not end later."""
        if f.operator is not ops.UNTIL or f.operands != g.operands or not {f, g} <= self.flat:
            return False
        assert f.interval is not None
        assert g.interval is not None
        passed = self.prefix.clock - block.time_stamp
        if passed < max(f.interval.lower, g.interval.lower):
            return False
        return not _is_beyond(upper_bound(f.interval), g.interval)

    # 3. Boolean functions within a time-stamp.

    def functions(self, block: Block) -> tuple[list[Table], Table]:
        """The formula's function at each time-point of the block, and the permitted assignments."""
        known = {f: self.outside(f, block) for f in self.temporal}
        unknowns = [f for f, value in known.items() if value is None]
        if len(unknowns) > UNKNOWN_LIMIT:
            raise TooManyUnknownsError(f"{len(unknowns)} unknowns: {self.formula}")
        true = (1 << (1 << len(unknowns))) - 1
        outside = {f: true if value else 0 for f, value in known.items()}
        outside |= {f: variable(k, len(unknowns)) for k, f in enumerate(unknowns)}
        columns: dict[Formula, list[Table]] = {}
        for f in self.subformulas:
            operands = [columns[operand] for operand in f.operands]
            columns[f] = self.column(f, operands, block, true, outside.get(f, 0))
        permitted = true
        for f in unknowns:
            for g in unknowns:
                if f is not g and self.is_implied(f, g, block):
                    permitted &= (true ^ outside[f]) | outside[g]
        return columns[self.formula], permitted

    def column(
        self,
        formula: Formula,
        operands: list[list[Table]],
        block: Block,
        true: Table,
        beside: Table,
    ) -> list[Table]:
        """The functions of a subformula; `beside` is that of its value outside the block."""
        events = self.prefix.events[block.first : block.last + 1]
        here = formula.interval is None or 0 in formula.interval
        match formula.operator.name, operands:
            case "TRUE", []:
                return [true for _ in events]
            case "FALSE", []:
                return [0 for _ in events]
            case "ATOM", []:
                return [true if formula.name in event.atoms else 0 for event in events]
            case "NOT", [f]:
                return [true ^ x for x in f]
            case "AND", [f, g]:
                return [x & y for x, y in zip(f, g, strict=True)]
            case "PREVIOUS", [f]:
                return [beside, *(x if here else 0 for x in f[:-1])]
            case "NEXT", [f]:
                return [*(x if here else 0 for x in f[1:]), beside]
            case "SINCE", [f, g]:
                return _unfolded(f, g, here, beside)
            case "UNTIL", [f, g]:
                return _unfolded(f[::-1], g[::-1], here, beside)[::-1]
        raise AssertionError(f"{formula} is not folded")

    # 4. Verdicts.

    def verdicts_within(self, block: Block, points: list[TimePoint]) -> dict[int, Verdict]:
        found: dict[int, Verdict] = {}
        earliest: dict[Table, int] = {}
        functions, permitted = self.functions(block)
        for i, function in enumerate(functions, block.first):
            if i in self.answered:
                continue
            if function & permitted in (0, permitted):
                found[i] = Verdict(points[i], function & permitted != 0, None)
            elif function in earliest:
                found[i] = Verdict(points[i], None, points[earliest[function]])
            else:
                earliest[function] = i
        return found


def _unfolded(f: list[Table], g: list[Table], here: bool, beside: Table) -> list[Table]:
    """`f SINCE g` in the order of time: g now, or f now and the same one time-point before."""
    column, value = [], beside
    for x, y in zip(f, g, strict=True):
        value = (y if here else 0) | (x & value)
        column.append(value)
    return column


@cache
def variable(k: int, count: int) -> Table:
    """The truth table of unknown k of so many."""
    return sum(1 << assignment for assignment in range(1 << count) if assignment >> k & 1)


def upper_bound(interval: Interval) -> int:
    assert interval.upper is not None, "a bounded formula"
    return interval.upper


def _is_beyond(distance: int, interval: Interval) -> bool:
    return interval.upper is not None and distance > interval.upper
