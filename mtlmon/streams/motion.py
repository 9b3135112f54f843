"""How fast values at ticks change with the time alone, and so when a comparison can change.

`ts - seen.hold()` grows by 1 in a unit of time. So if it is 20 now, `ts - seen.hold() > 300` stays
false for 280 units, unless a row changes `seen`. Such a comparison is a *crossing*: the difference
of its sides is known to change no faster than some rate, and the result stays as it is until the
difference has reached 0.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, columns
from mtlmon.streams.layer import Part
from mtlmon.streams.time_changes import SLOW
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.environment import Environment


class Motion(NamedTuple):
    """How a value changes with the time, while nothing else does.

    Attributes:
        lower: how much it grows in a unit of time at least, below 0 if it falls.
        upper: how much it grows in a unit of time at most.
        slack: how far it may be from a value that changes so, because it is rounded.
    """

    lower: float
    upper: float
    slack: float

    @property
    def fastest(self) -> float:
        """How much it changes in a unit of time at most."""
        return max(abs(self.lower), abs(self.upper))

    def times(self, factor: float) -> Motion:
        """Return the motion of a multiple."""
        ends = sorted([self.lower * factor, self.upper * factor])
        return Motion(ends[0], ends[1], self.slack * abs(factor))


STILL = Motion(0.0, 0.0, 0.0)
# Operators whose value is that of an operand, or lies between those of two, by the first of these.
_CHOICES = {ops.IF: 1, ops.COALESCE: 0, ops.LEAST: 0, ops.GREATEST: 0}
_LOGIC = frozenset({ops.AND, ops.OR, ops.NOT, ops.IS_NULL, ops.IS_NOT_NULL})
_COMPARISONS = frozenset(ops.COMPARISONS.values())


class Crossing(NamedTuple):
    """A difference that changes something where it reaches 0.

    Attributes:
        part: the difference.
        motion: how it changes.
        is_limit: whether it is no difference, but a whole number that must fit into 64 bits.
    """

    part: Part
    motion: Motion
    is_limit: bool = False


class Motions:
    """Finds how the columns at ticks change with the time alone.

    Args:
        environment: the time column and the units.
        schema: the columns of the rows.

    Attributes:
        crossings: the crossings in expressions, by the period of their ticks.
        moving: by period and name, the columns that change at every tick.
        slow: parts of expressions that depend on time alone, but rarely change, by period.
    """

    def __init__(self, environment: Environment, schema: pa.Schema) -> None:
        self._time = environment.time
        self._of_time = _motion_of_time(environment, schema)
        self.crossings: dict[int, list[Crossing]] = {}
        self.moving: dict[tuple[int, str], Motion] = {}
        self.slow: dict[int, list[Part]] = {}

    def add(self, period: int, parts: Mapping[str, Part]) -> list[Part]:
        """Find how expressions at ticks change, whose columns have been added before.

        Returns:
            Those of which it is not known.
        """
        unknown = []
        for name, part in parts.items():
            motion = self._motion_of(part, period)
            if motion is None:
                unknown.append(part)
            elif motion != STILL:
                self.moving[period, name] = motion
        return unknown

    def copy(self, column: str, period: int, copied: str, other_period: int) -> None:
        """Let the column of another period have the values of a column."""
        if (period, column) in self.moving:
            self.moving[other_period, copied] = self.moving[period, column]

    def _motion_of(self, part: Part, period: int) -> Motion | None:
        found: dict[int, Motion | None] = {}
        # greatest parts that rarely change are like columns
        stack: list[tuple[Expression, bool]] = [(part.expression, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                operands = [found[id(operand)] for operand in node.operands]
                known = [one for one in operands if one is not None]
                found[id(node)] = None
                if len(known) == len(operands):
                    found[id(node)] = self._motion(node, known, part, period)
            elif id(node) not in found:
                if node.operator in SLOW and columns(node) == (self._time,):
                    self.slow.setdefault(period, []).append(Part(node, part.origin))
                    found[id(node)] = STILL
                    continue
                stack.append((node, True))
                stack += [(operand, False) for operand in node.operands]
        return found[id(part.expression)]

    def _motion(
        self, node: Expression, operands: list[Motion], part: Part, period: int
    ) -> Motion | None:
        """Return the motion of a node from those of its operands; None if it is not known."""
        operator = node.operator
        if operator in ops.COLUMNS:
            if node.name == self._time:
                return self._of_time
            return self.moving.get((period, node.name), STILL)
        if all(motion == STILL for motion in operands) or operator in _LOGIC:
            return STILL
        crossings = self.crossings.setdefault(period, [])
        if operator in _COMPARISONS:
            difference = Expression(ops.SUBTRACT, node.operands, None, node.span)
            motion = _difference(*operands)
            if motion.lower == motion.upper == 0:
                # two values that move alike are rounded at different times
                return None
            crossings.append(Crossing(Part(difference, part.origin), motion))
            return STILL
        found = _arithmetic(node, operands)
        if found is not None and operator in ops.ARITHMETIC:
            crossings.append(Crossing(Part(node, part.origin), found, is_limit=True))
        return found


def _arithmetic(node: Expression, operands: list[Motion]) -> Motion | None:
    operator = node.operator
    if operator in _CHOICES:
        chosen = operands[_CHOICES[operator] :]
        return Motion(
            min(one.lower for one in chosen),
            max(one.upper for one in chosen),
            2 * max(one.slack for one in chosen),
        )
    if operator is ops.ADD:
        one, other = operands
        return _difference(one, other.times(-1))
    if operator is ops.SUBTRACT:
        return _difference(*operands)
    if operator is ops.NEGATE:
        return operands[0].times(-1)
    if operator is ops.ABS:
        (one,) = operands
        return Motion(-one.fastest, one.fastest, one.slack)
    if operator in {ops.MULTIPLY, ops.DIVIDE}:
        left, right = (_number(operand) for operand in node.operands)
        if operator is ops.MULTIPLY and left is not None:
            return operands[1].times(left)
        if right is not None and operator is ops.MULTIPLY:
            return operands[0].times(right)
        if right:
            return operands[0].times(1 / right)
    return None


def _difference(one: Motion, other: Motion) -> Motion:
    # differences of times are rounded to whole units
    slack = one.slack + other.slack + 1
    return Motion(one.lower - other.upper, one.upper - other.lower, slack)


def _number(node: Expression) -> float | None:
    """The value of a constant; None for what is not a number."""
    sign = 1
    while node.operator is ops.NEGATE:
        (node,) = node.operands
        sign = -sign
    value = node.value
    if node.operator is not ops.CONSTANT or isinstance(value, bool):
        return None
    return sign * float(value) if isinstance(value, int | Decimal) else None


def _motion_of_time(environment: Environment, schema: pa.Schema) -> Motion | None:
    """Return how the time column changes; None if its values are coarser than time-stamps."""
    time, unit = environment.time, environment.unit
    if time is None or time not in schema.names:
        return None
    kind = schema.field(time).type
    if pa.types.is_timestamp(kind):
        return Motion(1.0, 1.0, 0.0) if unit and UNITS[kind.unit] <= UNITS[unit] else None
    own = environment.time_unit or unit
    if kind not in {pa.int64(), pa.float64()}:
        return None
    if unit is None or own is None or unit == own:
        return Motion(1.0, 1.0, 0.0)
    factor = UNITS[unit] / UNITS[own]
    return Motion(factor, factor, 1.0)
