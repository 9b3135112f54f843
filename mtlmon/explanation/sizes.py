"""Computes the size of the smallest proof for every subformula at every relevant time-point.

This is dynamic programming from the operands up, over the range of time-points that the explained
time-point depends on. A formula never both holds and fails, so a single number is enough: it is
positive if the formula holds, negative if it fails, with the size of the smallest proof as its
absolute value, and 0 if the trace does not decide the formula.

Operators that are each other's negations, up to the signs of their operands, share their rules:
ALWAYS, HISTORICALLY, RELEASE, TRIGGER and WEAK_UNTIL are computed with all signs inverted.

Values are Kleene's: a verdict that follows only from comparing two undecided subformulas has no
proof, and the error says so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.explanation.windows import WINDOW, Refusal, Windows, refusals, witnesses
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.explanation.trace import Trace
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval
    from mtlmon.syntax.operators import Operator

__all__ = ["AND_SIGNS", "EVERYWHERE", "UNIVERSAL", "Range", "Table", "everywhere_options", "tables"]

EVERYWHERE = -2
"""The choice in a table where constants decide; other choices are WINDOW and positions."""

UNIVERSAL = frozenset({ops.HISTORICALLY, ops.TRIGGER, ops.ALWAYS, ops.RELEASE, ops.WEAK_UNTIL})
"""The operators that fail if there is a witness."""

AND_SIGNS = {ops.AND: (1, 1, 1), ops.OR: (-1, -1, -1), ops.IMPLIES: (-1, 1, -1)}
"""The signs of the result and of the operands that turn AND into the operator."""


class Range(NamedTuple):
    """The positions `first .. last`."""

    first: int
    last: int


class Table:
    """The sizes of the smallest proofs of one subformula.

    Attributes:
        first: the position that the lists begin with.
        sizes: the signed size for each position.
        choices: for operators that look at an interval, the position of the witness or the cut,
            WINDOW or EVERYWHERE; empty for other operators.
        everywhere: the signed size of the proof for every time-point of every stream, or 0.
    """

    __slots__ = ("choices", "everywhere", "first", "sizes")

    def __init__(
        self, first: int, sizes: list[int], everywhere: int, choices: Sequence[int] = ()
    ) -> None:
        self.first = first
        self.sizes = sizes
        self.choices = choices
        self.everywhere = everywhere

    def size(self, position: int | None) -> int:
        """Return the signed size at a position, or everywhere for None; 0 outside the lists."""
        if position is None:
            return self.everywhere
        index = position - self.first
        return self.sizes[index] if 0 <= index < len(self.sizes) else 0


def tables(
    nodes: Sequence[Formula], operands: Sequence[tuple[int, ...]], trace: Trace, wanted: Range
) -> list[Table]:
    """Compute the tables of distinct subformulas.

    Time and memory are linear in the number of subformulas times the number of time-points within
    reach, whatever the bounds of the intervals (apart from the arithmetic on very large sizes).

    Args:
        nodes: the distinct subformulas, operands first; the last is the formula to explain.
        operands: the numbers of the operands of each.
        trace: the trace.
        wanted: the positions at which the formula is to be explained.
    """
    ranges = _ranges(nodes, operands, trace, wanted)
    result: list[Table] = []
    for node, numbers, needed in zip(nodes, operands, ranges, strict=True):
        parts = [result[number] for number in numbers]
        if not node.operands:
            result.append(_leaf(node, trace, needed))
        elif node.interval is None:
            result.append(_boolean(node, parts, needed))
        elif node.operator in (ops.PREVIOUS, ops.NEXT):
            result.append(_step(node, parts[0], trace, needed))
        else:
            result.append(_Sweep(node, parts, trace, needed).table())
    return result


def _ranges(
    nodes: Sequence[Formula], operands: Sequence[tuple[int, ...]], trace: Trace, wanted: Range
) -> list[Range]:
    """The positions at which each subformula can matter; `0 .. -1` if there are none."""
    firsts, lasts = [len(trace)] * len(nodes), [-1] * len(nodes)
    firsts[-1], lasts[-1] = wanted
    for number in range(len(nodes) - 1, -1, -1):
        if firsts[number] > lasts[number]:
            continue
        first, last = _looked_at(nodes[number], trace, firsts[number], lasts[number])
        for operand in operands[number]:
            firsts[operand] = min(firsts[operand], first)
            lasts[operand] = max(lasts[operand], last)
    return [
        Range(first, last) if first <= last else Range(0, -1)
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _looked_at(node: Formula, trace: Trace, first: int, last: int) -> tuple[int, int]:
    """The positions that the operator looks at from the positions `first .. last`."""
    if node.interval is None:
        return first, last
    if node.operator is ops.PREVIOUS:
        return max(first - 1, 0), last - 1
    if node.operator is ops.NEXT:
        return first + 1, min(last + 1, len(trace) - 1)
    times, upper = trace.time_stamps, node.interval.upper
    if node.operator.is_past:
        return (0 if upper is None else bisect_left(times, times[first] - upper, hi=first)), last
    if upper is None:
        return first, len(trace) - 1
    return first, bisect_right(times, times[last] + upper, lo=last) - 1


def _leaf(node: Formula, trace: Trace, wanted: Range) -> Table:
    first, last = wanted
    if node.operator is ops.ATOM:
        sizes = [1 if node.name in letter else -1 for letter in trace.letters[first : last + 1]]
        return Table(first, sizes, 0)
    value = 1 if node.operator is ops.TRUE else -1
    return Table(first, [value] * (last + 1 - first), value)


def _boolean(node: Formula, parts: list[Table], wanted: Range) -> Table:
    first, last = wanted
    columns = [
        [*part.sizes[first - part.first : last + 1 - part.first], part.everywhere] for part in parts
    ]
    if node.operator is ops.NOT:
        sizes = [-size - 1 if size > 0 else size and 1 - size for size in columns[0]]
    elif node.operator is ops.IFF:
        sizes = list(map(_same, *columns))
    else:
        sign, *signs = AND_SIGNS[node.operator]
        left, right = (_signed(column, s) for column, s in zip(columns, signs, strict=True))
        sizes = _signed(list(map(_both, left, right)), sign)
    everywhere = sizes.pop()
    return Table(first, sizes, everywhere)


def _both(left: int, right: int) -> int:
    """The signed size of a conjunction."""
    if left > 0 and right > 0:
        return left + right + 1
    if left < 0 and right < 0:
        return max(left, right) - 1
    return min(left, right) - 1 if left < 0 or right < 0 else 0


def _same(left: int, right: int) -> int:
    """The signed size of an equivalence."""
    if left == 0 or right == 0:
        return 0
    size = abs(left) + abs(right) + 1
    return size if (left > 0) is (right > 0) else -size


def _signed(sizes: list[int], sign: int) -> list[int]:
    return sizes if sign > 0 else [-size for size in sizes]


def _step(node: Formula, part: Table, trace: Trace, wanted: Range) -> Table:
    """The table of PREVIOUS or NEXT."""
    assert node.interval is not None
    everywhere = part.everywhere - 1 if part.everywhere < 0 else 0
    sizes = []
    for position in range(wanted.first, wanted.last + 1):
        neighbour = position + (-1 if node.operator.is_past else 1)
        if 0 <= neighbour < len(trace):
            distance = abs(trace.time_stamps[neighbour] - trace.time_stamps[position])
            size = part.size(neighbour)
            if distance not in node.interval:
                size = -1
            elif size:
                size += 1 if size > 0 else -1
        elif node.operator.is_past:
            size = 0 if trace.is_cut else -1
        else:
            size = 0 if trace.may_grow_within(node.interval, position) else -1
        sizes.append(size or everywhere)
    return Table(wanted.first, sizes, everywhere)


def everywhere_options(
    operator: Operator, interval: Interval
) -> tuple[tuple[tuple[tuple[int, int], ...], int], ...]:
    """Return the ways in which constants decide a temporal operator at every time-point.

    Returns:
        For each way, its premises and the sign of the operator's value. A premise is the number of
        an operand and the sign of its value everywhere.
    """
    if operator in (ops.PREVIOUS, ops.NEXT):
        return ((((0, -1),), -1),)
    sign = -1 if operator in UNIVERSAL else 1
    last = operator.arity - 1
    if operator is ops.WEAK_UNTIL:
        fails: tuple[tuple[tuple[int, int], ...], int] = (((0, -1), (1, -1)), -1)
        return ((((0, 1),), 1), (((1, 1),), 1), *((fails,) if 0 in interval else ()))
    options = [(((last, -sign),), -sign)]
    if 0 in interval:
        options.append((((last, sign),), sign))
    elif last:
        # with a lower bound above 0, the left operand must also hold at the present time-point
        options.append((((0, -sign),), -sign))
    return tuple(options)


class _Sweep:
    """Computes the table of an operator that looks at a whole interval.

    Positions are counted from the far end of what the operator looks at, so that it always looks
    back.
    """

    def __init__(self, node: Formula, parts: list[Table], trace: Trace, wanted: Range) -> None:
        assert node.interval is not None
        self.node = node
        self.parts = parts
        self.trace = trace
        self.wanted = wanted
        self.interval = node.interval
        self.is_past = node.operator.is_past
        self.sign = -1 if node.operator in UNIVERSAL else 1
        self.first, self.last = 0, -1
        if wanted.first <= wanted.last:
            self.first, self.last = _looked_at(node, trace, *wanted)

    def table(self) -> Table:
        everywhere = self.everywhere()
        sizes: list[int] = []
        choices: list[int] = []
        if self.wanted.first <= self.wanted.last:
            sizes, choices = self.swept()
        if everywhere:
            for index, size in enumerate(sizes):
                if size == 0 or abs(everywhere) < abs(size):
                    sizes[index], choices[index] = everywhere, EVERYWHERE
        return Table(self.wanted.first, sizes, everywhere, choices)

    def everywhere(self) -> int:
        best = 0
        for premises, value in everywhere_options(self.node.operator, self.interval):
            sizes = [self.parts[operand].everywhere * sign for operand, sign in premises]
            if min(sizes) > 0 and (best == 0 or 1 + sum(sizes) < abs(best)):
                best = value * (1 + sum(sizes))
        return best

    def swept(self) -> tuple[list[int], list[int]]:
        windows, complete_from = self.windows()
        columns = [self.column(part) for part in self.parts]
        witness, chain, refusal = self.roles(columns, complete_from)
        held, at = witnesses(windows, witness, chain)
        failed, cut_at = refusals(windows, refusal)
        sizes, choices = [], []
        for holds, j, fails, k in zip(held, at, failed, cut_at, strict=True):
            if holds:
                sizes.append(self.sign * (holds + 1))
                choices.append(self.absolute(j))
            else:
                sizes.append(0 if fails is None else -self.sign * (fails + 1))
                choices.append(WINDOW if k == WINDOW else self.absolute(k))
        if not self.is_past:
            sizes.reverse()
            choices.reverse()
        return sizes, choices

    def windows(self) -> tuple[Windows, int]:
        """The windows, and the position from which on they are complete."""
        times = self.trace.time_stamps[self.first : self.last + 1]
        if self.is_past:
            return Windows.of(times, self.wanted.first - self.first, self.interval), 0
        latest = times[-1]
        backwards = [latest - time for time in reversed(times)]
        first = self.last - self.wanted.last
        complete_from = first
        for position in range(self.wanted.last, self.wanted.first - 1, -1):
            if not self.trace.may_grow_within(self.interval, position):
                break
            complete_from += 1
        return Windows.of(backwards, first, self.interval), complete_from

    def column(self, part: Table) -> list[int]:
        """The operand's sizes, with inverted signs for a universal operator."""
        sizes = part.sizes[self.first - part.first : self.last + 1 - part.first]
        return _signed(sizes if self.is_past else sizes[::-1], self.sign)

    def roles(
        self, columns: list[list[int]], complete_from: int
    ) -> tuple[list[int], list[int] | None, Refusal]:
        """The roles of the operands in the existential operator: witness, chain, refusal."""
        if self.node.operator is ops.WEAK_UNTIL:
            # f WEAK_UNTIL g is NOT (NOT g UNTIL (NOT g AND NOT f))
            last, first = columns
            witness = [f + g if f > 0 and g > 0 else 0 for f, g in zip(last, first, strict=True)]
            refusal = Refusal(_failures(last), _failures(first), True, complete_from)
            return witness, _successes(first), refusal
        witness = _successes(columns[-1])
        absent = _failures(columns[-1])
        if self.node.operator.arity == 1:
            return witness, None, Refusal(absent, None, False, complete_from)
        first = columns[0]
        return witness, _successes(first), Refusal(absent, _failures(first), False, complete_from)

    def absolute(self, index: int) -> int:
        return self.first + index if self.is_past else self.last - index


def _successes(sizes: list[int]) -> list[int]:
    return [max(size, 0) for size in sizes]


def _failures(sizes: list[int]) -> list[int]:
    return [-min(size, 0) for size in sizes]
