"""MonPoly's output, by the reference of first-order formulas.

The reference would try all values of its type for each variable. Here a variable has the values of
the columns and terms that it meets, which are all that it can have if the formula can be evaluated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from mtlmon import Formula
from mtlmon.monpoly import MonPolyPolicy, TimePoint
from tests.doors import (
    MAXIMUM_BOUND,
    Expression,
    aggregates_of,
    free_variables,
    postorder,
    quantified,
    terms_of,
    variables_of,
)
from tests.doors import predicates_operators as terms
from tests.doors import syntax_operators as ops
from tests.reference.first_order import FRESH, FirstOrder, Let, Log, Scalar, is_fresh

Key = tuple[str, int]


def expected_output(
    policy: MonPolyPolicy, points: Sequence[TimePoint], *, adds_last: bool = True
) -> str:
    """What MonPoly writes for a formula and a log.

    Args:
        policy: the formula.
        points: the time-points of the log.
        adds_last: whether a last time-point with the largest time-stamp follows.
    """
    read = [(point.time_stamp, point.rows) for point in points]
    if adds_last:
        read.append((MAXIMUM_BOUND, {}))
    found = decided(policy, Log(tuple(read), read[-1][0] if read else 0, closed=adds_last))
    kinds = [kind for _, kind in policy.columns]
    lines: list[str] = []
    for number, (point, rows) in enumerate(zip(points, found, strict=False)):
        if rows is None:
            break
        lines.append(line_of(point.time_stamp, number, rows, kinds))
    return "".join(lines)


def line_of(
    time_stamp: int, time_point: int, rows: Iterable[tuple[Any, ...]], types: Sequence[str]
) -> str:
    """Write the rows of a time-point, with a line feed; nothing if there are none.

    Args:
        time_stamp: its time-stamp.
        time_point: its number, from 0.
        rows: the valuations, each with a value for each of the types.
        types: int, float, string or regexp, in the order of the variables; without variables, an
            empty row means that the formula holds.
    """
    ordered = sorted(rows)
    if not ordered:
        return ""
    if not types:
        return f"@{time_stamp} (time point {time_point}): true\n"
    writers = [_WRITERS[kind] for kind in types]
    written = " ".join(
        f"({','.join([write(value) for write, value in zip(writers, row, strict=True)])})"
        for row in ordered
    )
    return f"@{time_stamp} (time point {time_point}): {written}\n"


def _quoted(text: Any) -> str:
    """Write a text in quotes, unless it begins and ends with some."""
    written = str(text)
    return written if len(written) > 1 and written[0] == written[-1] == '"' else f'"{written}"'


_WRITERS: dict[str, Callable[[Any], str]] = {
    "int": str,
    "float": lambda value: f"{value:g}",
    "string": _quoted,
    "regexp": lambda value: f"r{_quoted(value)}",
}


def decided(policy: MonPolyPolicy, log: Log) -> list[list[tuple[Scalar, ...]] | None]:
    """The valuations that are reported at each time-point; None where that is not decided."""
    (stated,) = policy.file.policies
    formula = stated.formula if stated.is_find else Formula(ops.NOT, (stated.formula,))
    lets = {
        name: Let(parameters, policy.file.lets[name])
        for name, parameters in policy.file.parameters.items()
    }
    domains = Domains(formula, log, lets).found()
    evaluator = FirstOrder(log, domains, lets)
    names = [name for name, _ in policy.columns]
    points = range(len(log.points))
    satisfying: list[list[tuple[Scalar, ...]]] = [[] for _ in points]
    undecided: set[int] = set()
    for values in product(*(domains[name] for name in names)):
        column = evaluator.under(formula, dict(zip(names, values, strict=True)))
        for number in points:
            if column.at[number] is None:
                undecided.add(number)
            elif column.at[number]:
                assert not is_fresh(values), (values, number)
                satisfying[number].append(values)
    return [None if number in undecided else satisfying[number] for number in points]


class Domains:
    """The values of each variable of a formula and its lets."""

    def __init__(self, formula: Formula, log: Log, lets: dict[str, Let]) -> None:
        self.log = log
        self.lets = lets
        self.nodes = [
            node
            for root in (formula, *(let.formula for let in lets.values()))
            for node in postorder(root)
        ]
        self.parents: dict[Key, Key] = {}
        self.values: dict[Key, dict[Scalar, None]] = defaultdict(dict)
        for node in self.nodes:
            self.meet(node)
        for node in self.nodes:
            for name in (*quantified(node), *free_variables(node)[id(node)]):
                self.root((name, -1))
            for aggregate in aggregates_of(node):
                operand = node.operands[aggregate.aggregate.formula]
                for name in free_variables(operand)[id(operand)]:
                    self.root((name, -1))

    def root(self, key: Key) -> Key:
        while self.parents.setdefault(key, key) != key:
            key = self.parents[key]
        return key

    def join(self, one: Key, other: Key) -> None:
        self.parents[self.root(one)] = self.root(other)

    def meet(self, node: Formula) -> None:
        """Note which variables have the values of which columns."""
        for term in terms_of(node):
            if term.operator is terms.EQUAL and all(
                side.operator is terms.VARIABLE for side in term.operands
            ):
                left, right = term.operands
                self.join((left.name, -1), (right.name, -1))
        if node.operator is ops.PREDICATE:
            name = node.name or ""
            for place, argument in enumerate(terms_of(node)):
                column: Key = (f"{name}()", place)
                if name in self.lets:
                    column = (self.lets[name].parameters[place], -1)
                if argument.operator is terms.VARIABLE:
                    self.join((argument.name, -1), column)

    def found(self) -> dict[str, list[Scalar]]:
        """The values by the name of the variable."""
        for i, (time_stamp, database) in enumerate(self.log.points):
            rows: dict[str, Iterable[tuple[Scalar, ...]]] = {**database}
            rows |= {"point": [(i,)], "time": [(time_stamp,)]}
            for name, own in rows.items():
                for row in own:
                    for place, value in enumerate(row):
                        self.values[self.root((f"{name}()", place))][value] = None
        bindings = [
            (node, variable, other)
            for node in self.nodes
            for term in terms_of(node)
            for variable, other in _bindings(term)
        ]
        for _ in range(len(bindings) + 1):
            before = sum(map(len, self.values.values()))
            domains = self.domains()
            evaluator = FirstOrder(self.log, domains, self.lets)
            for node, variable, other in bindings:
                has_formula = any(part.operator in terms.OF_FORMULAS for part in postorder(other))
                points = range(len(self.log.points)) if has_formula else range(1)
                names = variables_of(other)
                for values in product(*(domains[name] for name in names)):
                    if is_fresh(values):
                        continue
                    valuation = dict(zip(names, values, strict=True))
                    for i in points:
                        found: Any = evaluator.value(node, other, valuation, i)
                        if isinstance(found, int | float | str):
                            self.values[self.root((variable, -1))][found] = None
            if before == sum(map(len, self.values.values())):
                break
        return self.domains()

    def domains(self) -> dict[str, list[Scalar]]:
        names = [name for name, place in list(self.parents) if place < 0]
        found: dict[str, list[Scalar]] = {}
        for name in names:
            values = list(self.values[self.root((name, -1))])
            kinds = set(map(type, values)) or {int}
            found[name] = [*values, *(FRESH[kind] for kind in kinds)]
        return found


def _bindings(term: Expression) -> Iterator[tuple[str, Expression]]:
    """The variables that a comparison may bind, each with what it equals."""
    if term.operator is not terms.EQUAL:
        return
    for one, other in (term.operands, term.operands[::-1]):
        if one.operator is terms.VARIABLE and other.operator is not terms.VARIABLE:
            yield one.name, other
