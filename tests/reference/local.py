"""The verdicts of `naive` and `local` mode for bounded formulas, straight from the definition.

Written for obviousness, not for speed. At every moment (an event has been read, time has passed, or
the log has ended) everything that is not yet decided is computed again:

1. The time-points of one time-stamp are a *block*. Within it, the value of each subformula at each
   time-point is a Boolean function, a truth table, of at most one unknown for each temporal
   subformula: its *head*, the value before the block (SINCE, PREVIOUS), or its *tail*, the value
   behind it (UNTIL, NEXT). All distances within a block are 0, so no window matters.
2. To other blocks, the operands of SINCE and UNTIL matter by two functions: whether the left one
   holds throughout the block, and whether the block has a witness, to which the left one leads.
   Those of PREVIOUS and NEXT matter by the function at one time-point. These functions are true,
   false, or not known; from that, heads and tails are decided by the definition of their operator
   over blocks, with three values. What is decided is put into the functions, until nothing more
   follows.
   EVENTUALLY is also true if two blocks of its window have a witness in turn: the earlier one if a
   window of an operator below it brings nothing behind the block, the later one if it does. For
   what it brings to the earlier block, it brings to the later one, too.
3. A time-point has its value when its function is constant. `local` mode answers one whose function
   is not constant with an equivalence to the earliest time-point of its time-stamp without a
   verdict that has the same function, if there is one.

The equivalences are those that `local` mode must find. It may find more: those that follow from
relations between unknowns, or from what the unknowns themselves depend on.

The Boolean values are those of every engine, at the same moments, if the formula is unate
(`folding.is_unate`) or *flat*: no operator that looks ahead is below another temporal one. In a
flat formula a relation between unknowns counts: of two open windows of one family, the one that
ends first implies the other. Other formulas are for the queue network, which knows as much as this
definition: that of two windows over the same operands, the one that ends first implies the other,
matters for EVENTUALLY and what is directly below it. Boolean simplification, as in `global` mode,
may know more of them.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from mtlmon import TRUE, Formula
from tests.doors import Interval
from tests.doors import syntax_operators as ops
from tests.reference.evaluator import Truth, every, some
from tests.reference.folding import folded, is_flat, is_unate, looks_ahead, subformulas
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


class Emitted(NamedTuple):
    """What a block tells others of the operands of one operator: true, false or not known.

    Attributes:
        left: whether the left one holds throughout; of PREVIOUS and NEXT, its value at the
            time-point next to the other block.
        right: whether there is a witness.
    """

    left: Truth
    right: Truth


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
        self.is_flat = is_flat(self.formula)
        self.is_nested_and_mixed = not self.is_flat and not is_unate(self.formula)
        self.answered: set[int] = set()
        self.prefix = Prefix((), 0)
        self.blocks: list[Block] = []
        self.outside: dict[tuple[Formula, int], bool] = {}
        """The heads and tails that are decided, by the time-stamp of their block."""
        self.columns: dict[int, dict[Formula, list[Table]]] = {}
        """The functions of each block, by its time-stamp."""
        self.known_columns: dict[tuple[object, ...], dict[Formula, list[Table]]] = {}

    def verdicts(self, prefix: Prefix) -> list[Verdict]:
        """The verdicts that become due when the stream is known up to here.

        Args:
            prefix: what is known now; it extends what was known before.
        """
        self.prefix = prefix
        self.blocks = self.blocks_of([event.time_stamp for event in prefix.events])
        for block in self.blocks:
            self.columns[block.time_stamp] = self.functions(block)
        while self.decide():
            pass
        points = time_points(prefix.events)
        found: dict[int, Verdict] = {}
        for block in self.blocks:
            found |= self.verdicts_within(block, points)
        self.answered |= set(found)
        return [found[i] for i in sorted(found)]

    def blocks_of(self, times: list[int]) -> list[Block]:
        blocks: dict[int, Block] = {}
        for i, time in enumerate(times):
            blocks[time] = Block(time, blocks[time].first if time in blocks else i, i)
        return list(blocks.values())

    # 1. Functions within a time-stamp.

    def functions(self, block: Block) -> dict[Formula, list[Table]]:
        """The function of each subformula at each time-point of the block."""
        known = {f: self.outside.get((f, block.time_stamp)) for f in self.temporal}
        key = (block, *known.values())
        if key not in self.known_columns:
            self.known_columns[key] = self.columns_of(block, known)
        return self.known_columns[key]

    def columns_of(self, block: Block, known: dict[Formula, Truth]) -> dict[Formula, list[Table]]:
        true, unknowns = self.unknowns(block)
        outside = {f: unknowns.get(f, true if value else 0) for f, value in known.items()}
        columns: dict[Formula, list[Table]] = {}
        for f in self.subformulas:
            operands = [columns[operand] for operand in f.operands]
            columns[f] = self.column(f, operands, block, true, outside.get(f, 0))
        return columns

    def unknowns(self, block: Block) -> tuple[Table, dict[Formula, Table]]:
        """The table of what is always true, and those of the heads and tails not yet decided."""
        names = [f for f in self.temporal if (f, block.time_stamp) not in self.outside]
        if len(names) > UNKNOWN_LIMIT:
            raise TooManyUnknownsError(f"{len(names)} unknowns: {self.formula}")
        tables = {f: variable(k, len(names)) for k, f in enumerate(names)}
        return (1 << (1 << len(names))) - 1, tables

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

    # 2. What lies outside a time-stamp.

    def decide(self) -> bool:
        """Decide the heads and tails that follow from functions; whether there were any."""
        found = {
            (f, block.time_stamp): value
            for f in self.temporal
            for number, block in enumerate(self.blocks)
            if (f, block.time_stamp) not in self.outside
            and (value := self.value_outside(f, number)) is not None
        }
        self.outside |= found
        for block in self.blocks:
            self.columns[block.time_stamp] = self.functions(block)
        return bool(found)

    def value_outside(self, formula: Formula, number: int) -> Truth:
        """The head (SINCE, PREVIOUS) or tail (UNTIL, NEXT) of the block with this number."""
        match formula.operator:
            case ops.PREVIOUS | ops.SINCE:
                return self.witness(formula, number, self.blocks[:number][::-1], False)
            case _:
                time = self.blocks[number].time_stamp
                behind = self.blocks[number + 1 :]
                if self.has_two_halves(formula, number):
                    return True
                return self.witness(formula, number, behind, self.unread(formula, time))

    def has_two_halves(self, formula: Formula, number: int) -> bool:
        """Whether two blocks have a witness of an EVENTUALLY in turn."""
        if not self.is_nested_and_mixed:
            return False
        if_false: set[Formula] = set()
        for block in self.window(formula, number):
            halves = self.halves(formula, block)
            if if_false & halves[True]:
                return True
            if_false |= halves[False]
        return False

    def window(self, formula: Formula, number: int) -> list[Block]:
        """The later blocks in the window of an EVENTUALLY."""
        if formula.operator is not ops.UNTIL or formula.operands[0] != TRUE:
            return []
        assert formula.interval is not None
        time = self.blocks[number].time_stamp
        later = self.blocks[number + 1 :]
        return [block for block in later if block.time_stamp - time in formula.interval]

    def halves(self, formula: Formula, block: Block) -> dict[bool, set[Formula]]:
        """The windows that have begun and decide, by this value, that a block has a witness."""
        true, unknowns = self.unknowns(block)
        found: dict[bool, set[Formula]] = {False: set(), True: set()}
        witness = 0
        for x in self.columns[block.time_stamp][formula.operands[1]]:
            witness |= x
        for inner, x in unknowns.items():
            if inner.operator is ops.UNTIL and not any(map(looks_ahead, inner.operands)):
                assert inner.interval is not None
                if inner.interval.lower == 0:
                    found[False] |= {inner} if witness | x == true else set()
                    found[True] |= {inner} if witness | true ^ x == true else set()
        return found

    def witness(self, formula: Formula, number: int, others: list[Block], unread: Truth) -> Truth:
        """Whether one of the other blocks, the nearest first, has a witness; `unread`: those still
        to come may have one."""
        time = self.blocks[number].time_stamp
        interval = formula.interval
        assert interval is not None
        is_step = formula.operator in (ops.PREVIOUS, ops.NEXT)
        if is_step:
            if not others:
                return unread
            emitted = self.emitted(formula, others[0])
            return every([abs(others[0].time_stamp - time) in interval, emitted.left])
        result: Truth = False
        leads: Truth = True
        for other in others:
            distance = abs(other.time_stamp - time)
            if result is True or leads is False or _is_beyond(distance, interval):
                return result
            emitted = self.emitted(formula, other)
            if distance in interval:
                result = some([result, every([leads, emitted.right])])
            leads = every([leads, emitted.left])
        return some([result, every([leads, unread])])

    def emitted(self, formula: Formula, block: Block) -> Emitted:
        """What a block tells of an operator's operands."""
        true, _ = self.unknowns(block)
        permitted = self.permitted(block) if self.is_nested_and_mixed else true
        operands = [self.columns[block.time_stamp][operand] for operand in formula.operands]

        def known(table: Table) -> Truth:
            table &= permitted
            return None if table not in (0, permitted) else table == permitted

        match formula.operator, operands:
            case ops.PREVIOUS, [f]:
                return Emitted(known(f[-1]), None)
            case ops.NEXT, [f]:
                return Emitted(known(f[0]), None)
            case ops.SINCE, [f, g]:
                return Emitted(known(_throughout(f, true)), known(_unfolded(f, g, True, 0)[-1]))
            case ops.UNTIL, [f, g]:
                witness = _unfolded(f[::-1], g[::-1], True, 0)[-1]
                return Emitted(known(_throughout(f, true)), known(witness))
        raise AssertionError(f"{formula} is not folded")

    def unread(self, formula: Formula, time: int) -> Truth:
        """Whether a time-point still to come is at a distance in the interval: unknown or False.

        None is if the interval would begin beyond the largest time-stamp, but for NEXT.
        """
        interval = formula.interval
        assert interval is not None
        if self.prefix.closed or _is_beyond(self.prefix.clock - time, interval):
            return False
        if formula.operator is ops.UNTIL and time + interval.lower > MAXIMUM_TIME_STAMP:
            return False
        return None

    def is_implied(self, f: Formula, g: Formula, block: Block) -> bool:
        """Whether f's unknown implies g's: both windows are open, and f's does not end later."""
        if f.operator is not ops.UNTIL or f.operands != g.operands:
            return False
        assert f.interval is not None
        assert g.interval is not None
        passed = self.prefix.clock - block.time_stamp
        if passed < max(f.interval.lower, g.interval.lower):
            return False
        return not _is_beyond(upper_bound(f.interval), g.interval)

    # 3. Verdicts.

    def permitted(self, block: Block) -> Table:
        """The assignments of the unknowns that are not ruled out.

        In a flat formula, of two windows the one that ends first implies the other; in another one,
        a window implies an EVENTUALLY above it if a later block has a witness in that case.
        """
        true, unknowns = self.unknowns(block)
        permitted = true
        if self.is_nested_and_mixed:
            number = self.blocks.index(block)
            for f, x in unknowns.items():
                for later in self.window(f, number):
                    for inner in self.halves(f, later)[True] & unknowns.keys():
                        permitted &= true ^ unknowns[inner] | x
            return permitted
        for f, x in unknowns.items():
            for g, y in unknowns.items():
                if self.is_flat and f is not g and self.is_implied(f, g, block):
                    permitted &= (true ^ x) | y
        return permitted

    def verdicts_within(self, block: Block, points: list[TimePoint]) -> dict[int, Verdict]:
        found: dict[int, Verdict] = {}
        if self.answered.issuperset(range(block.first, block.last + 1)):
            return found
        earliest: dict[Table, int] = {}
        permitted = self.permitted(block)
        for i, function in enumerate(self.columns[block.time_stamp][self.formula], block.first):
            if i in self.answered:
                continue
            if function & permitted in (0, permitted):
                found[i] = Verdict(points[i], function & permitted != 0, None)
            elif function in earliest and self.mode == "local":
                found[i] = Verdict(points[i], None, points[earliest[function]])
            else:
                earliest.setdefault(function, i)
        return found


def _throughout(f: list[Table], true: Table) -> Table:
    """The function of "it holds at all time-points"."""
    table = true
    for x in f:
        table &= x
    return table


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
