"""Finds out as values of which type the expressions of a file read columns.

Cells of CSV and other text have no types, so how they are used says what they are. What orders,
adds or compares with a number reads numbers; conditions read Booleans, and functions of time read
times; all other uses read texts. This follows from the file alone, before any row is read, and for
each use by itself: other uses of a column read it as they need it. A stream and a parameter have
one type in a file, and a variable and an argument of an atom have one in a policy: that of numbers
if one use needs them.
"""

from __future__ import annotations

from mtlmon.policy.definitions import Argument, Clock
from mtlmon.policy.first_order.readings import names_in, set_arguments
from mtlmon.policy.first_order.terms import (
    aggregates_of,
    free_in,
    quantified,
    terms_of,
    variables_of,
)
from mtlmon.policy.messages import is_of_numbers
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import (
    FLOATS,
    NUMBER,
    ORDERED,
    ORDERED_FLOATS,
    Expression,
    TypedColumn,
)
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.templates import grouped_by, keys_of
from mtlmon.support.disjoint_sets import DisjointSets
from mtlmon.syntax import operators as formula_ops
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from mtlmon.policy.definitions import Policy
    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.policy.validity.declared import DeclaredRelation
    from mtlmon.syntax.formula import Formula

__all__ = ["DECLARED", "compared_columns", "set_column_types", "typed_predicate"]

# Families of types. What has several is of the first of these, and what does not fit it is an
# error where types are checked. What is ordered, or is the time, is so unless something says more.
_TIME, _BOOLEAN, _TEXT = "time", "bool", "text"
_FAMILIES = (NUMBER, _TIME, _BOOLEAN, _TEXT)
_FAMILY_OF = {
    "text": _TEXT,
    **dict.fromkeys(("int", "float", "decimal"), NUMBER),
    **{"bool": _BOOLEAN, "time": _TIME},
}
DECLARED = tuple(_FAMILY_OF)
"""The types that a file can declare for a column."""
_OF_SIGNATURE = {
    **dict.fromkeys(("number", "integer", "float"), NUMBER),
    **{"time": _TIME, "boolean": _BOOLEAN, "text": _TEXT},
}
_COMPARISONS = frozenset({ops.EQUAL, ops.NOT_EQUAL, *ops.ORDERINGS, ops.IN, ops.NOT_IN})
# what compares values, beside = and !=
_COMPARING = frozenset({ops.WINDOW_DISTINCT, ops.INSTANCE, *ops.LOOK_UPS})
# what columns are read as that are arguments of atoms
_OF_ARGUMENT: dict[str | None, str] = {NUMBER: FLOATS, ORDERED: ORDERED_FLOATS}
_OF_NUMBERS = frozenset(
    {
        *("sum", "avg", "var", "stddev", "median", "quantile", "integral"),
        *("increase", "rate", "resets", "mad", "rank", "histogram_quantile"),
    }
)

_Slot = int
if TYPE_CHECKING:
    _Names: TypeAlias = "dict[str, _Slot] | _Columns"


class _Slots(DisjointSets):
    """Values of which some are the same, and others only of the same family of types."""

    def __init__(self) -> None:
        super().__init__()
        self._families: list[set[str]] = []
        self._declared: list[str | None] = []
        self._alike: list[tuple[_Slot, _Slot]] = []

    def new(self, *families: str) -> _Slot:
        self._families.append(set(families))
        self._declared.append(None)
        return self.add_set()

    def add(self, slot: _Slot, family: str | None) -> None:
        """Say that values are of a family, if it is not None."""
        if family is not None:
            self._families[self.root(slot)].add(family)

    def declare(self, slot: _Slot, data_type: str | None) -> None:
        """Say what the file declares values to be, if it does."""
        if data_type is not None:
            root = self.root(slot)
            self._declared[root] = self._declared[root] or data_type
            self._families[root].add(_FAMILY_OF[data_type])

    def same(self, one: _Slot, other: _Slot) -> None:
        """Say that two values are the same."""
        left, right = self.root(one), self.root(other)
        if left != right:
            self.unite(left, right)
            self._families[left] |= self._families[right]
            self._declared[left] = self._declared[left] or self._declared[right]

    def alike(self, slots: Sequence[_Slot]) -> None:
        """Say that values are of one family."""
        self._alike += [(slots[0], other) for other in slots[1:]]

    def settle(self) -> None:
        """Let values that are alike have the families of each other."""
        self._spread(is_ordered=False)
        self._spread(is_ordered=True)

    def _spread(self, *, is_ordered: bool) -> None:
        """Spread families; or that values are ordered, to those of which nothing else is known."""
        users: dict[_Slot, list[_Slot]] = {}
        for one, other in self._alike:
            left, right = self.root(one), self.root(other)
            users.setdefault(left, []).append(right)
            users.setdefault(right, []).append(left)
        waiting = list(users)
        while waiting:
            slot = waiting.pop()
            own = self._families[slot]
            spread = own & {ORDERED} if is_ordered else own - {ORDERED}
            for other in users.get(slot, ()):
                known = self._families[other]
                if not spread <= known and not (is_ordered and known):
                    known |= spread
                    waiting.append(other)

    def type(self, slot: _Slot) -> str | None:
        """Return as what a column with these values is read; None for its cells as they are."""
        root = self.root(slot)
        if (declared := self._declared[root]) is not None:
            return declared
        families = self._families[root]
        found = next((one for one in _FAMILIES if one in families), None)
        if found is None and ORDERED in families:
            return ORDERED
        return None if found == _TEXT else found


class _Columns:
    """The columns of a relation over validity intervals, of which those are known that are used.

    Args:
        slots: makes slots for columns.
        known: the columns by name, if all of them are known.
        joined: the relations that it joins.
        name: the name of the second one, which may stand before the names of its columns.
    """

    def __init__(
        self,
        slots: _Slots,
        known: dict[str, _Slot] | None = None,
        joined: tuple[_Columns, ...] = (),
        name: str = "",
    ) -> None:
        self.slots: dict[str, _Slot] = known or {}
        self._all = slots
        self._joined = joined
        self._prefix = f"{name}_"

    def __contains__(self, _name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> _Slot:
        if name not in self.slots:
            self.slots[name] = self._all.new()
            for one in self._joined:
                self._all.same(self.slots[name], one[name])
            if self._joined and name.startswith(self._prefix):
                of_other = self._joined[1][name.removeprefix(self._prefix)]
                self._all.same(self.slots[name], of_other)
        return self.slots[name]


class _Reading:
    """How a policy reads the columns of its atoms.

    Attributes:
        policy: the policy; None for atoms that no policy uses.
        of_node: for each atom with arguments, the slots of the columns in these.
    """

    def __init__(self, policy: Policy | None) -> None:
        self.policy = policy
        self.of_node: dict[str, dict[int, _Slot]] = {}


class _Finder:
    def __init__(self, file: PolicyFile) -> None:
        self.file = file
        self.slots = _Slots()
        # by the `id` of nodes of expressions, which the file keeps
        self.of_node: dict[int, _Slot] = {}
        self.streams = {name: self.slots.new() for name in file.streams}
        self.parameters: dict[str, dict[str, _Slot]] = {}
        self.keys: dict[str, list[_Slot]] = {}
        # the arguments of atoms and lets, as the policy has them that is taken in
        self.arguments: dict[str, list[_Slot]] = {}
        self.readings: list[_Reading] = []
        self.intervals: dict[str, _Columns] = {}
        # of the rows of the log under the path None, and of tables
        self.sources: dict[str | None, _Columns] = {}
        # the columns of relations that are united, or compared
        self.united: list[tuple[_Columns, _Columns]] = []

    def find(self) -> None:
        """Take in all expressions and formulas of the file."""
        file = self.file
        of_keys: dict[tuple[Expression, ...], list[_Slot]] = {}
        for name, stream in file.streams.items():
            # streams with the same keys have the same instances
            of_new = [self.slots.new() for _ in stream.per]
            self.keys[name] = of_keys.setdefault(keys_of(stream.per), of_new)
            self.parameters[name] = {
                parameter: slot
                for (_, parameter), slot in zip(stream.per, self.keys[name], strict=True)
                if parameter is not None
            }
        if file.intervals:
            self.read_intervals()
        for name, stream in file.streams.items():
            own = self.parameters[name]
            self.slots.declare(self.streams[name], stream.kind)
            self.slots.same(self.streams[name], self.expression(stream.expression, own))
            for (key, _), slot in zip(stream.per, self.keys[name], strict=True):
                self.slots.same(slot, self.expression(key, {}))
            on = None if stream.clock is None else stream.clock.condition
            for condition in (on, stream.start, stream.end):
                self.condition(condition, own)
        for predicate in file.atoms.values():
            self.condition(predicate.expression, {})
        for expression in file.shown.values():
            self.expression(expression, {})
        for policy in file.policies:
            if policy.clock is not None:
                self.condition(policy.clock.condition, {})
            if policy.message is not None:
                formats, names = policy.message.message.formats, policy.message.names
                for form, name in zip(formats, names, strict=True):
                    if is_of_numbers(form):
                        self.slots.add(self.expression(file.shown[name], {}), ORDERED)
        self.relations()
        self.unite()
        self.slots.settle()

    def relations(self) -> None:
        """Take in atoms with arguments, and the formulas that use them, each by itself."""
        file = self.file
        for relation in file.relations.values():
            self.condition(relation.condition, {})
        if not file.relations:
            return
        policies = [policy for policy in file.policies if policy.is_first_order]
        for policy in policies:
            self.read_by(policy, names_in(file, policy.formula))
        used = {name for reading in self.readings for name in reading.of_node}
        self.read_by(None, [name for name in file.relations if name not in used])

    def read_by(self, policy: Policy | None, names: Sequence[str]) -> None:
        """Take in the atoms and lets with arguments of a policy, or some that no policy uses."""
        file = self.file
        reading = _Reading(policy)
        self.readings.append(reading)
        self.arguments = {}
        of_others = self.of_node
        for name in names:
            if name not in file.relations:
                continue
            relation = file.relations[name]
            self.of_node = reading.of_node[name] = {}
            self.arguments[name] = [self.slots.new() for _ in relation.arguments]
            for slot, argument in zip(self.arguments[name], relation.arguments, strict=True):
                self.slots.declare(slot, argument.kind)
                if argument.expression is not None:
                    self.slots.same(slot, self.expression(argument.expression, {}))
        self.of_node = of_others
        lets = [name for name in names if name in file.parameters]
        for name in lets:
            self.arguments[name] = [self.slots.new() for _ in file.parameters[name]]
        for name in lets:
            slots = zip(file.parameters[name], self.arguments[name], strict=True)
            self.formula(file.lets[name], dict(slots))
        if policy is not None:
            self.formula(policy.formula, {})

    def read_intervals(self) -> None:
        """Take in the relations over validity intervals, each after those that it is made of."""
        file = self.file
        waiting = list(reversed(file.intervals))
        while waiting:
            relation = file.intervals[waiting[-1]]
            missing = [name for name, _ in relation.others if name not in self.intervals]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if relation.name not in self.intervals:
                self.intervals[relation.name] = self.interval(relation)

    def interval(self, relation: DeclaredRelation) -> _Columns:
        """Take in a relation over validity intervals, and return its columns."""
        from mtlmon.policy.validity.declared import (
            Combine,
            Group,
            Named,
            Select,
            TableOf,
            ValidTo,
            ValidUntil,
        )

        source = relation.source
        if isinstance(source, Named):
            found = self.intervals[source.name]
        else:
            path = source.shown if isinstance(source, TableOf) else None
            found = self.sources.setdefault(path, _Columns(self.slots))
        for step in relation.steps:
            if isinstance(step, Select):
                own = {name: self.expression(one, found) for name, one in step.columns}
                found = _Columns(self.slots, own)
            elif isinstance(step, Group):
                values = {name: self.expression(one, found) for name, one in step.computed}
                own = {name: values[name] if name in values else found[name] for name in step.keys}
                for one in step.aggregates:
                    of = [] if one.argument is None else [self.expression(one.argument, found)]
                    own[one.name] = self.aggregated(one.word, of)
                found = _Columns(self.slots, own)
            elif isinstance(step, Combine):
                other = self.intervals[step.relation]
                if step.word in {"join", "semijoin"}:
                    both = _Columns(self.slots, {}, (found, other), step.relation)
                    self.condition(step.condition, both)
                    found = both if step.word == "join" else found
                else:
                    self.united.append((found, other))
            elif isinstance(step, ValidTo):
                self.own_end(step.end, found)
            elif isinstance(step, ValidUntil) and self.is_declared_time(step.condition):
                self.own_end(step.condition, found)
            else:
                self.condition(getattr(step, "condition", None), found)
        return found

    def own_end(self, end: Expression, names: _Columns) -> None:
        """Take in the column with the ends of records: time-stamps, unless it is declared."""
        slot = self.expression(end, names)
        if end.name not in self.file.column_types:
            self.slots.add(slot, NUMBER)

    def is_declared_time(self, condition: Expression) -> bool:
        """Whether a condition is a column that is declared to be a time or a time-stamp."""
        is_column = condition.operator in ops.COLUMNS
        return is_column and self.file.column_types.get(condition.name) in ("int", "time")

    def unite(self) -> None:
        """Let the columns of united relations be the same, as far as anything uses them."""
        is_done = False
        while not is_done:
            is_done = True
            for one, other in self.united:
                names = {*one.slots, *other.slots}
                is_done &= len(names) == len(one.slots) == len(other.slots)
                for name in sorted(names):
                    self.slots.same(one[name], other[name])

    def types_of(self, path: str | None) -> dict[str, str]:
        """Return the types of the columns of a table, or of the rows for relations."""
        columns = self.sources.get(path)
        # what is declared holds for the columns of tables, too
        found = {} if path is None else dict(self.file.column_types)
        for name, slot in () if columns is None else columns.slots.items():
            declared = self.file.column_types.get(name)
            data_type = declared or self.slots.type(slot)
            if data_type is not None and not (path is None and name == self._time):
                found[name] = data_type
        return found

    @property
    def _time(self) -> str | None:
        return self.file.environment.time

    def formula(self, formula: Formula, parameters: dict[str, _Slot]) -> None:
        """Take in a formula with variables."""
        scope = {name: self.slots.new() for name in free_in(formula)}
        stack = [(formula, scope | parameters)]
        while stack:
            node, scope = stack.pop()
            if names := quantified(node):
                scope = scope | {name: self.slots.new() for name in names}
            if not terms_of(node):
                stack += ((operand, scope) for operand in node.operands)
                continue
            here = dict(scope)
            for aggregate in aggregates_of(node):
                operand = node.operands[aggregate.aggregate.formula]
                groups = aggregate.aggregate.by or ()
                own = {
                    name: scope[name] if name in groups and name in scope else self.slots.new()
                    for name in free_in(operand)
                }
                here |= {
                    name: own[name]
                    for one in aggregate.operands
                    for name in variables_of(one)
                    if name in own
                }
                stack.append((operand, own))
            found = [self.expression(term, here) for term in terms_of(node)]
            if node.operator is formula_ops.PREDICATE and node.name in self.arguments:
                for slot, one in zip(self.arguments[node.name], found, strict=True):
                    self.slots.same(slot, one)

    def condition(self, expression: Expression | None, names: _Names) -> None:
        """Take in an expression that is true or false, if there is one."""
        if expression is not None:
            self.slots.add(self.expression(expression, names), _BOOLEAN)

    def expression(self, root: Expression, names: _Names) -> _Slot:
        """Take in an expression; return what has its values.

        Args:
            root: the expression.
            names: the parameters or variables in it, or the columns of a relation.
        """
        # one node may stand in several expressions, with other variables
        done: dict[int, _Slot] = {}
        for node in postorder(root):
            operands = [done[id(operand)] for operand in node.operands]
            done[id(node)] = self.node(node, operands, names)
        return done[id(root)]

    def node(self, node: Expression, operands: list[_Slot], names: _Names) -> _Slot:
        operator = node.operator
        if operator in ops.COLUMNS and isinstance(names, _Columns):
            return names[node.name]
        if operator in ops.COLUMNS:
            return self.column(node)
        if operator is ops.CONSTANT:
            return self.slots.new(*_family_of(node.constant))
        if operator in {ops.PARAMETER, ops.VARIABLE}:
            return names[node.name] if node.name in names else self.slots.new()
        if operator is ops.STREAM:
            return self.streams[node.name]
        if operator in {ops.ATOM, ops.LET}:
            return self.slots.new(_BOOLEAN)
        if operator is ops.INSTANCE:
            for operand, key in zip(operands, self.keys.get(node.name, ()), strict=False):
                self.slots.alike([operand, key])
            return self.streams[node.name]
        if operator in ops.OFFSETS.values():
            for family in _family_of(node.offset.default):
                self.slots.add(operands[0], family)
            return operands[0]
        if operator in ops.WINDOWS or operator is ops.OVER or operator in ops.OF_FORMULAS:
            return self.aggregate(node, operands)
        if operator in _COMPARISONS:
            return self.comparison(node, operands)
        if operator in {ops.IF, ops.COALESCE, ops.LEAST, ops.GREATEST}:
            return self.choice(node, operands)
        if operator is ops.SUBTRACT:
            # of times, too
            self.order(operands)
            return self.slots.new(NUMBER)
        if operator in ops.ARITHMETIC or operator in ops.OF_FLOATS:
            self.all_are(operands, NUMBER)
            return self.slots.new(NUMBER)
        if operator is ops.OWN_FUNCTION:
            own = node.own_function
            for operand, kind in zip(operands, own.arguments, strict=True):
                self.slots.add(operand, _OF_SIGNATURE[kind.name])
            return self.slots.new(_OF_SIGNATURE[own.kind.name])
        if operator in ops.CONVERTING:
            for operand, wanted in zip(operands, operator.signature[:-1], strict=True):
                self.slots.add(operand, _OF_SIGNATURE[wanted])
            return self.slots.new(_OF_SIGNATURE[operator.signature[-1]])
        if operator in ops.CALLS:
            self.slots.add(operands[0], _OF_SIGNATURE[operator.signature[0]])
            return self.slots.new(_OF_SIGNATURE[operator.signature[-1]])
        if operator in {ops.AND, ops.OR, ops.NOT}:
            self.all_are(operands, _BOOLEAN)
        if operator in ops.LOOK_UPS:
            return self.look_up(node)
        if operator is ops.WILDCARD:
            return self.slots.new()
        if operator in ops.TIMES:
            return self.slots.new(NUMBER)
        return self.slots.new(_BOOLEAN)

    def look_up(self, node: Expression) -> _Slot:
        """Take in a look-up: its column has a type, and its keys where they equal constants."""
        relation, column, _, keys = node.looked_up
        known = self.intervals.get(relation)
        if known is None:
            return self.slots.new()
        for operand, key in zip(node.operands, keys or (), strict=False):
            if operand.operator is ops.CONSTANT:
                for family in _family_of(operand.constant):
                    self.slots.add(known[key], family)
        return self.slots.new(_BOOLEAN) if column is None else known[column]

    def column(self, node: Expression) -> _Slot:
        """A slot for each place where a column stands: each use is by itself."""
        if id(node) not in self.of_node:
            slot = self.of_node[id(node)] = self.slots.new()
            declared = self.file.column_types.get(node.name)
            if declared is not None:
                self.slots.add(slot, _FAMILY_OF[declared])
            elif node.name == self._time:
                self.slots.add(slot, ORDERED)
        return self.of_node[id(node)]

    def aggregate(self, node: Expression, operands: list[_Slot]) -> _Slot:
        operator = node.operator
        if operator is ops.OVER:
            word = node.over.aggregate
            keys = self.keys.get(node.over.stream, [])
            stream = self.file.streams.get(node.over.stream)
            numbers = () if stream is None else grouped_by(node, stream.per) or ()
            for operand, number in zip(operands[1:], numbers, strict=False):
                self.slots.alike([operand, keys[number]])
            operands = operands[:1]
        elif operator in ops.OF_FORMULAS:
            word = node.aggregate.word.lower()
        else:
            word = operator.word
        if operator is ops.MACHINE:
            result = self.slots.new(_OF_SIGNATURE[node.machine.kind.name])
            for operand, declared in zip(operands, node.machine.types, strict=False):
                self.slots.add(operand, _FAMILY_OF[declared])
        elif operator is ops.WINDOW_OWN:
            own = node.window.own
            self.all_are(operands, ORDERED)
            result = self.slots.new(*([] if own is None else [_OF_SIGNATURE[own.kind.name]]))
        else:
            result = self.aggregated(word, operands)
        if operator in ops.WINDOWS:
            for family in _family_of(node.window.default):
                self.slots.add(result, family)
        return result

    def aggregated(self, word: str, operands: list[_Slot]) -> _Slot:
        """Take in an aggregate of an operand, and return what has its values."""
        if word == "count":
            self.all_are(operands, _BOOLEAN)
            return self.slots.new(NUMBER)
        if word in {"any", "all"}:
            self.all_are(operands, _BOOLEAN)
            return self.slots.new(_BOOLEAN)
        if word in {"distinct", "changes"}:
            return self.slots.new(NUMBER)
        if word in _OF_NUMBERS:
            self.all_are(operands, NUMBER)
            return self.slots.new(NUMBER)
        if word in {"min", "max"}:
            self.all_are(operands, ORDERED)
        return operands[0]

    def comparison(self, node: Expression, operands: list[_Slot]) -> _Slot:
        operator = node.operator
        if operator in {ops.IN, ops.NOT_IN}:
            for value in node.members:
                for family in _family_of(value):
                    self.slots.add(operands[0], family)
        elif operator not in ops.ORDERINGS:
            self.slots.alike(operands)
        else:
            self.order(operands)
            for one, slot in zip(node.operands, operands, strict=True):
                value = one.constant if one.operator is ops.CONSTANT else None
                if isinstance(value, str) and read_instant(value) is not None:
                    self.slots.add(slot, _TIME)
        return self.slots.new(_BOOLEAN)

    def choice(self, node: Expression, operands: list[_Slot]) -> _Slot:
        if node.operator is ops.IF:
            self.slots.add(operands[0], _BOOLEAN)
            operands = operands[1:]
        result = self.slots.new()
        for operand in operands:
            self.slots.same(result, operand)
        if node.operator in {ops.LEAST, ops.GREATEST}:
            self.slots.add(result, ORDERED)
        return result

    def order(self, operands: list[_Slot]) -> None:
        self.all_are(operands, ORDERED)
        self.slots.alike(operands)

    def all_are(self, operands: Iterable[_Slot], family: str) -> None:
        for operand in operands:
            self.slots.add(operand, family)

    def typed(self, root: Expression, of_node: Mapping[int, _Slot] | None = None) -> Expression:
        """Return an expression that says as what it reads its columns.

        Args:
            root: the expression.
            of_node: the slots of its columns if it is an argument of an atom; otherwise those of
                the file.
        """
        slots = self.of_node if of_node is None else of_node
        done: dict[int, Expression] = {}
        for node in postorder(root):
            operands = tuple(done[id(operand)] for operand in node.operands)
            found = node
            if node.operator in ops.COLUMNS:
                declared = self.file.column_types.get(node.name)
                data_type = declared or self.slots.type(slots[id(node)])
                if of_node is not None and declared is None:
                    data_type = _OF_ARGUMENT.get(data_type, data_type)
                if data_type is not None and node.name != self._time:
                    name = TypedColumn(node.name, data_type)
                    found = Expression(node.operator, (), name, node.span)
            elif any(one is not other for one, other in zip(operands, node.operands, strict=True)):
                found = Expression(node.operator, operands, node.value, node.span)
            done[id(node)] = found
        return done[id(root)]

    def typed_arguments(self, reading: _Reading) -> dict[str, tuple[Argument, ...]]:
        """Return the arguments of atoms as a policy reads them."""
        return {
            name: tuple(
                one
                if one.expression is None
                else Argument(one.name, self.typed(one.expression, of_node), one.kind, one.place)
                for one in self.file.relations[name].arguments
            )
            for name, of_node in reading.of_node.items()
        }

    def optional(self, expression: Expression | None) -> Expression | None:
        return None if expression is None else self.typed(expression)

    def clock(self, clock: Clock | None) -> Clock | None:
        if clock is None or clock.condition is None:
            return clock
        return Clock(self.typed(clock.condition), clock.period, clock.atom)


def _family_of(value: object) -> list[str]:
    """The family of a constant; none for null."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [_BOOLEAN]
    return [_TEXT if isinstance(value, str) else NUMBER]


def compared_columns(file: PolicyFile, *roots: Expression) -> tuple[str, ...]:
    """Return the columns of which values are compared with each other, read as they are.

    Args:
        file: the policy file.
        roots: expressions of the file.
    """
    found: list[Expression] = []
    for root in roots:
        for node in postorder(root):
            operands = node.operands
            is_equality = node.operator in {ops.EQUAL, ops.NOT_EQUAL}
            if is_equality:
                is_compared = all(one.operator is not ops.CONSTANT for one in operands)
            else:
                is_compared = node.operator in _COMPARING
            found += operands if is_compared else ()
    for stream in file.streams.values():
        found += [key for key, _ in stream.per]
    for relation in file.relations.values():
        found += [one.expression for one in relation.arguments if one.expression is not None]
    seen: set[str] = set()
    names: dict[str, None] = {}
    while found:
        for node in postorder(found.pop()):
            if node.operator is ops.STREAM and node.name in file.streams and node.name not in seen:
                seen.add(node.name)
                found.append(file.streams[node.name].expression)
            elif node.operator in ops.COLUMNS and not isinstance(node.name, TypedColumn):
                names[node.name] = None
    return tuple(names)


def typed_predicate(predicate: Predicate) -> Predicate:
    """Return a predicate that says as what it reads its columns, as `set_column_types` does."""
    from mtlmon.policy.policy_file import PolicyFile

    file = PolicyFile(predicate.text, predicate.source, None)
    file.atoms[""] = predicate
    set_column_types(file)
    return file.atoms[""]


def set_column_types(file: PolicyFile) -> None:
    """Let the expressions of a file that has been read say as what they read their columns.

    The names of columns in them become `TypedColumn`, except where cells are read as they are.
    """
    finder = _Finder(file)
    finder.find()
    for name, predicate in file.atoms.items():
        file.atoms[name] = predicate.with_expression(finder.typed(predicate.expression))
    for stream in file.streams.values():
        stream.expression = finder.typed(stream.expression)
        stream.per = tuple((finder.typed(key), name) for key, name in stream.per)
        stream.clock = finder.clock(stream.clock)
        stream.start = finder.optional(stream.start)
        stream.end = finder.optional(stream.end)
    for relation in file.relations.values():
        relation.condition = finder.optional(relation.condition)
    read = [(one.policy, finder.typed_arguments(one)) for one in finder.readings]
    set_arguments(file, read)
    file.replace_shown(finder.typed)
    for policy in file.policies:
        policy.clock = finder.clock(policy.clock)
    file.row_types = finder.types_of(None)
    file.table_types = {path: finder.types_of(path) for path in finder.sources if path is not None}
