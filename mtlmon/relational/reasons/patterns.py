"""Which rows of the log a conjunct of a policy looks at, once its variables have values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.first_order.terms import terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.relational.keyed import HERE as KEY_OF_ROW
from mtlmon.relational.preparation import value_of_constant
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import STRICT
from mtlmon.syntax.printer import written_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.cells import Value
    from mtlmon.relational.preparation import PreparedLet
    from mtlmon.syntax.formula import Formula

__all__ = ["HERE", "Pattern", "Region", "patterns_of"]


class Region(NamedTuple):
    """Some time-points around one, the *origin*: a range of distances, and one of numbers.

    A bound is None where there is none. If a policy has a key, only the time-points of the key are
    numbered.

    Attributes:
        earliest: how far time-stamps are behind that of the origin at least; negative before it.
        latest: how far they are behind it at most.
        first: how many time-points behind the origin they begin; negative before it.
        last: how many time-points behind it they end.
    """

    earliest: int | None
    latest: int | None
    first: int | None
    last: int | None

    def shifted(self, other: Region) -> Region:
        """Return the region around all of the time-points that another one has."""
        return Region(*(_sum(one, two) for one, two in zip(self, other, strict=True)))

    def has(self, distance: int, number: int) -> bool:
        """Whether a time-point belongs to it, by its distance and number from the origin."""
        return (
            (self.earliest is None or distance >= self.earliest)
            and (self.latest is None or distance <= self.latest)
            and (self.first is None or number >= self.first)
            and (self.last is None or number <= self.last)
        )

    def covers(self, other: Region) -> bool:
        """Whether it has all time-points that another one has."""
        return all(
            mine is None or (one is not None and (one >= mine if is_least else one <= mine))
            for mine, one, is_least in zip(self, other, (True, False) * 2, strict=True)
        )


HERE = Region(0, 0, 0, 0)


class Pattern(NamedTuple):
    """Rows of an atom at some time-points.

    Attributes:
        atom: the name of the atom.
        arguments: the value that each argument has, or None for any.
        equal: pairs of places of arguments that are equal to each other.
        region: where the rows are looked for.
    """

    atom: str
    arguments: tuple[Value | None, ...]
    equal: tuple[tuple[int, int], ...]
    region: Region

    def matches(self, row: tuple[Value, ...]) -> bool:
        """Whether a row fits."""
        return all(
            wanted is None or wanted == value
            for wanted, value in zip(self.arguments, row, strict=True)
        ) and all(row[one] == row[other] for one, other in self.equal)

    def covers(self, other: Pattern) -> bool:
        """Whether it has all rows that another pattern has."""
        return (
            self.atom == other.atom
            and self.region.covers(other.region)
            and set(self.equal) <= set(other.equal)
            and all(
                one is None or one == two
                for one, two in zip(self.arguments, other.arguments, strict=True)
            )
        )


NO_LETS: Mapping[str, PreparedLet] = {}


class _Part(NamedTuple):
    """A part of a formula that is looked at.

    Attributes:
        formula: the part.
        region: where it is looked at.
        values: the values of its variables that are known.
        within: the lets that it belongs to, with the region of what they depend on.
    """

    formula: Formula
    region: Region
    values: Mapping[str, Value]
    within: Mapping[str, Region]


def patterns_of(
    formula: Formula,
    valuation: Mapping[str, Value],
    relations: Mapping[str, tuple[Kind, ...]],
    made: frozenset[str],
    lets: Mapping[str, PreparedLet] = NO_LETS,
) -> list[Pattern]:
    """Return the patterns of all atoms of a formula, each once.

    Args:
        formula: the formula in normal form, without lets, whose bound variables are named apart.
        valuation: the values of variables that are known.
        relations: the kinds of the arguments of each atom with arguments.
        made: the atoms that are no rows of the log.
        lets: the lets that use themselves, each of which stands for what its formula looks at.
    """
    found: dict[Pattern, None] = {}
    of_lets: dict[Pattern, None] = {}
    # what lets have been looked at, for which values, and where
    seen: set[tuple[str, tuple[Value | None, ...], Region]] = set()
    stack = [_Part(formula, HERE, valuation, {})]
    while stack:
        node, region, values, within = stack.pop()
        name = node.name or ""
        if name in lets and node.operator in (ops.ATOM, ops.PREDICATE):
            # what a let is depends on what it was at any earlier time-point
            region = within.get(name, region)
            pattern = _pattern(node, values, lets[name].kinds, region)
            if (name, pattern.arguments, region) in seen:
                continue
            seen.add((name, pattern.arguments, region))
            pairs = zip(lets[name].names, pattern.arguments, strict=True)
            own = {parameter: value for parameter, value in pairs if value is not None}
            earlier = region._replace(earliest=None, first=None)
            stack.append(_Part(lets[name].formula, region, own, {name: earlier, **within}))
        elif node.operator in (ops.ATOM, ops.PREDICATE):
            if name not in made and written_name(name) != KEY_OF_ROW:
                kinds = relations[name] if node.operator is ops.PREDICATE else ()
                (of_lets if within else found)[_pattern(node, values, kinds, region)] = None
        else:
            stack += [
                _Part(part, region.shifted(other), values, within)
                for part, other in reversed(list(_parts(node)))
            ]
    # lets look for rows in many ways, of which the widest ones are shown
    wide = [
        one for one in of_lets if not any(two is not one and two.covers(one) for two in of_lets)
    ]
    return list(dict.fromkeys([*found, *wide]))


def _pattern(
    node: Formula, valuation: Mapping[str, Value], kinds: tuple[Kind, ...], region: Region
) -> Pattern:
    arguments: list[Value | None] = []
    places: dict[str, int] = {}
    equal: list[tuple[int, int]] = []
    for place, (term, kind) in enumerate(zip(terms_of(node), kinds, strict=True)):
        value: Value | None = None
        if term.operator is terms.CONSTANT:
            value = value_of_constant(term.value, kind)
        elif term.operator is terms.VARIABLE:
            value = valuation.get(term.name)
            if value is None and term.name in places:
                equal.append((places[term.name], place))
            places[term.name] = place
        arguments.append(value)
    return Pattern(node.name or "", tuple(arguments), tuple(equal), region)


def _parts(node: Formula) -> Iterator[tuple[Formula, Region]]:
    """Yield the operands, with where each is looked at."""
    operator = node.operator
    if node.interval is None:
        for operand in node.operands:
            yield operand, HERE
        return
    lower, upper = node.interval.lower, node.interval.upper
    if operator in (ops.PREVIOUS, ops.NEXT) or node.value == STRICT:
        # strict, they are those of a key
        wanted, step = Region(lower, upper, 1, 1), Region(0, upper, 0, 1)
    else:
        wanted, step = Region(lower, upper, 0, None), Region(0, upper, 0, None)
    if operator.is_past:
        wanted, step = _mirrored(wanted), _mirrored(step)
    *left, right = node.operands
    for operand in left:
        yield operand, step
    yield right, wanted


def _mirrored(region: Region) -> Region:
    earliest, latest, first, last = (None if bound is None else -bound for bound in region)
    return Region(latest, earliest, last, first)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
