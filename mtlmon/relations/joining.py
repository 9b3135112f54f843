"""Joins and semijoins: pairs of records that are valid at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_texts
from mtlmon.arrays.ordering import order_of
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import columns
from mtlmon.policy.predicates.kinds import NUMBERS, equal_as_texts
from mtlmon.relations.conditions import conjunction, conjuncts
from mtlmon.relations.multiplicity import timeline
from mtlmon.relations.native import Multiplicities, Numbering, Pairs, Timeline
from mtlmon.relations.numbering import numbered
from mtlmon.relations.records import Records, take
from mtlmon.relations.rowwise import Expressions, computed, is_true
from mtlmon.relations.typing import kind_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate

# How many pairs are looked at together.
_PAIRS = 1 << 20


class _Matches(NamedTuple):
    """Pairs of rows, and while both are valid, in order of start."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def joined(
    left: Records,
    right: Records,
    on: Predicate,
    names: Sequence[str],
    schema: pa.Schema,
    expressions: Expressions,
) -> Records:
    """Return the pairs of records for which a condition is true, while both are valid."""
    found = _matches(left, _renamed(right, names), on, expressions)
    both = (*take(left.columns, found.left), *take(right.columns, found.right))
    return Records(schema, both, found.starts, found.ends)


def semijoined(
    left: Records,
    right: Records,
    on: Predicate,
    names: Sequence[str],
    expressions: Expressions,
) -> Records:
    """Return the left records while there is a right one for which a condition is true."""
    found = _matches(left, _renamed(right, names), on, expressions)
    count = len(found.starts)
    times = Timeline(found.starts, found.ends, None, order_of(found.ends), count)
    rows = found.left.astype(np.uint32)
    pieces = Multiplicities("once", times, Numbering(rows, count), count)
    return Records(
        left.schema,
        take(left.columns, np.frombuffer(pieces.values, np.uint32).astype(np.int64)),
        np.frombuffer(pieces.starts, np.int64),
        np.frombuffer(pieces.ends, np.int64),
    )


def while_present(left: Records, present: Records) -> Records:
    """Return records while an equal one of others is valid, which are there once at a time."""
    both = [pa.concat_arrays(sides) for sides in zip(left.columns, present.columns, strict=True)]
    numbers, count = numbered(both, len(left) + len(present))
    found = _pairs(left, present, numbers, count)
    return Records(left.schema, take(left.columns, found.left), found.starts, found.ends)


def _renamed(records: Records, names: Sequence[str]) -> Records:
    fields = zip(names, records.schema.types, strict=True)
    return Records(pa.schema(list(fields)), records.columns, records.starts, records.ends)


def _matches(left: Records, right: Records, on: Predicate, expressions: Expressions) -> _Matches:
    keys, rest = expressions.once(
        "keys",
        [on],
        [left.schema, right.schema],
        lambda: _keys(left.schema, right.schema, on, expressions.environment),
    )
    numbers, count = _numbered_keys(left, right, keys, expressions)
    return _pairs(left, right, numbers, count, rest, expressions)


def _pairs(
    left: Records,
    right: Records,
    numbers: NDArray[np.uint32],
    count: int,
    rest: Predicate | None = None,
    expressions: Expressions | None = None,
) -> _Matches:
    """The pairs of records with equal numbers below a count that meet the rest of a condition."""
    pairs = Pairs(
        timeline(left, has_ends=False),
        Numbering(numbers[: len(left)], len(left)),
        timeline(right, has_ends=False),
        Numbering(numbers[len(left) :], len(right)),
        count,
    )
    parts = list(_checked(left, right, pairs, rest, expressions))
    lefts, rights = (
        np.concatenate([part[side] for part in parts]) if parts else np.empty(0, np.int64)
        for side in (0, 1)
    )
    return _Matches(
        lefts,
        rights,
        np.maximum(left.starts[lefts], right.starts[rights]),
        np.minimum(left.ends[lefts], right.ends[rights]),
    )


def _checked(
    left: Records,
    right: Records,
    pairs: Pairs,
    condition: Predicate | None,
    expressions: Expressions | None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The pairs of rows that meet a condition, some at a time."""
    schema = pa.schema([*left.schema, *right.schema])
    has_more = True
    while has_more:
        has_more = pairs.find(_PAIRS)
        lefts = np.frombuffer(pairs.left, np.uint32).astype(np.int64)
        rights = np.frombuffer(pairs.right, np.uint32).astype(np.int64)
        if condition is not None and expressions is not None:
            wanted = set(columns(condition.expression))
            both = Records(
                schema,
                tuple(
                    column.take(pa.array(rows)) if name in wanted else pa.nulls(len(rows))
                    for side, rows in ((left, lefts), (right, rights))
                    for name, column in side.by_name.items()
                ),
                lefts,
                lefts,
            )
            is_met = is_true(both, condition, expressions)
            lefts, rights = lefts[is_met], rights[is_met]
        yield lefts, rights


def _keys(
    left: pa.Schema, right: pa.Schema, on: Predicate, environment: Environment
) -> tuple[list[tuple[Predicate, Predicate]], Predicate | None]:
    """Split a condition into expressions that must be equal on both sides, and the rest."""
    keys: list[tuple[Predicate, Predicate]] = []
    rest: list[Expression] = []
    for part in conjuncts(on.expression):
        sides = _key(left, right, part)
        if sides is not None:
            one, other = map(on.with_expression, sides)
            kinds = {kind_in(left, one, environment), kind_in(right, other, environment)}
            # equality of some kinds is more than that of values of one type, or of their texts
            if len(kinds) == 1 or _are_alike(*kinds):
                keys.append((one, other))
                continue
        rest.append(part)
    return keys, on.with_expression(conjunction(rest)) if rest else None


def _are_alike(one: Kind, other: Kind) -> bool:
    """Whether values of different kinds are equal if their canonical texts are."""
    names = {one.name, other.name}
    # decimals are compared with floats as floats
    return equal_as_texts(one, other) or (names <= NUMBERS and names != {"decimal", "float"})


def _key(
    left: pa.Schema, right: pa.Schema, part: Expression
) -> tuple[Expression, Expression] | None:
    """The expressions on both sides of an equality of the left and the right relation."""
    if part.operator is not ops.EQUAL:
        return None
    for one, other in (part.operands, part.operands[::-1]):
        names, other_names = set(columns(one)), set(columns(other))
        if names and other_names and names <= set(left.names) and other_names <= set(right.names):
            return one, other
    return None


def _numbered_keys(
    left: Records,
    right: Records,
    keys: Sequence[tuple[Predicate, Predicate]],
    expressions: Expressions,
) -> tuple[NDArray[np.uint32], int]:
    """Number the keys of both relations; what has none has the number behind the last."""
    count = len(left) + len(right)
    both: list[pa.Array] = []
    for one, other in keys:
        sides = [
            computed(records, {"": part}, expressions)[""]
            for records, part in ((left, one), (right, other))
        ]
        if sides[0].type != sides[1].type:
            sides = [canonical_texts(_without_nan(one)).cast(pa.large_string()) for one in sides]
        both.append(pa.concat_arrays(sides))
    numbers, limit = numbered(both, count)
    for column in both:
        # nothing is equal to null or NaN
        is_nothing = column.is_null(nan_is_null=True)
        if is_nothing.true_count:
            numbers[is_nothing.to_numpy(zero_copy_only=False)] = limit
    return numbers, limit


def _without_nan(column: pa.Array) -> pa.Array:
    """A column with null for NaN, which equals nothing, and has a text."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
