"""Policies with variables for each key: their formulas are those of a log of all keys.

`key principal` makes a trace of the rows of each principal. Such a policy means what it would mean
for each of these traces alone. Here its formula gets a variable for each column of the key, and its
atoms get the columns as arguments. Temporal operators look at the time-points of the key: `ONCE f`
is `ONCE (here(k) AND f)`, and `f SINCE g` is `(here(k) IMPLIES f) SINCE (here(k) AND g)`, where the
atom `here` has a row for each row of the log. `here` is left out where an atom beside it says as
much. PREVIOUS and NEXT are a strict SINCE and UNTIL. Aggregates are `BY` the key as well.

So one engine evaluates a policy for all keys, and what it remembers is looked up by the key.
Slices, snapshots and late events know nothing of keys. What is left is at the edges: batches have a
partition for each key, whose streams atoms read (`tables/relation_traces`), and answers get the
names that time-points have among those of the key (`checking/key_points`; where events come late,
`key_names`, and `correcting/holding` for what holds at all rows of a time-stamp).
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import PolicyError
from mtlmon.policy.definitions import Argument, Relation
from mtlmon.policy.first_order.terms import (
    Terms,
    comparison,
    free_variables,
    predicate,
    quantified,
    terms_of,
)
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Aggregate, Expression, TypedColumn
from mtlmon.relational.atoms import HERE, is_built_in, used_atoms
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import FALSE, STRICT, TRUE, Formula
from mtlmon.syntax.printer import key_width, name_of_key_reading, written_name
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.syntax.formula import Span

__all__ = [
    "HERE",
    "has_keys",
    "key_of",
    "key_of_run",
    "keyed_file",
    "keys_of_atoms",
    "keys_of_others",
    "without_keys",
]


def has_keys(file: PolicyFile, key: Sequence[str] = ()) -> bool:
    """Whether a first-order policy is for each key.

    Args:
        file: the policies.
        key: the columns of the key of the run.
    """
    return any(one.is_first_order and key_of(one, key) for one in file.policies)


def keyed_file(file: PolicyFile, key: Sequence[str] = ()) -> PolicyFile:
    """Return the file with formulas over the log of all keys, for policies that have a key.

    Args:
        file: the policies.
        key: the columns of the key of the run, which policies have that do not name their own.

    Raises:
        PolicyError: a policy looks ahead without bound, or at the numbers of time-points.
    """
    if not has_keys(file, key):
        return file
    found = copy(file)
    found.relations = dict(file.relations)
    found.lets = dict(file.lets)
    found.parameters = dict(file.parameters)
    rewriters: dict[tuple[str, ...], _Rewriter] = {}
    policies = []
    for policy in file.policies:
        columns = key_of(policy, key)
        if not policy.is_first_order or not columns:
            policies.append(policy)
            continue
        if columns not in rewriters:
            rewriters[columns] = _Rewriter(file, found, columns)
        policies.append(rewriters[columns].policy(policy))
    found.policies = tuple(policies)
    return found


def without_keys(formula: Formula) -> Formula:
    """Return a formula of all keys as it would be for one, for people to read."""
    nodes = postorder(formula)
    keys: set[object] = set()
    for node in nodes:
        if node.operator is ops.PREDICATE and (width := key_width(node.name or "")):
            keys |= {term.value for term in terms_of(node)[-width:]}
    if not keys:
        return formula
    done: dict[int, Formula] = {}
    for node in nodes:
        done[id(node)] = _without_key(node, tuple(done[id(one)] for one in node.operands), keys)
    return done[id(formula)]


def _without_key(node: Formula, operands: tuple[Formula, ...], keys: set[object]) -> Formula:
    operator = node.operator
    if operator is ops.PREDICATE and written_name(node.name or "") == HERE:
        return TRUE
    if terms_of(node):
        width = key_width(node.name or "")
        arguments = terms_of(node)[: len(terms_of(node)) - width]
        found = tuple(_term_without_key(one, keys) for one in arguments)
        if not found:
            return Formula(ops.ATOM, (), None, written_name(node.name or ""), node.span)
        name = written_name(node.name or "") if width else node.name
        return Formula(operator, operands, None, name, node.span, Terms(*found))
    if operator is ops.NOT and operands[0].operator is ops.TRUE:
        return FALSE
    if operator in (ops.AND, ops.OR):
        nothing = ops.TRUE if operator is ops.AND else ops.FALSE
        left = [one for one in operands if one.operator is not nothing]
        if len(left) == 1:
            return left[0]
    if node.value == STRICT:
        neighbour = ops.PREVIOUS if operator is ops.SINCE else ops.NEXT
        return Formula(neighbour, operands[1:], node.interval, None, node.span)
    return _of(node, *operands)


def _term_without_key(term: Expression, keys: set[object]) -> Expression:
    operands = tuple(_term_without_key(one, keys) for one in term.operands)
    value = term.value
    if term.operator in terms.OF_FORMULAS:
        word, number, by, is_of_rows = term.aggregate
        groups = tuple(name for name in by or () if name not in keys)
        value = Aggregate(word, number, groups or None, is_of_rows)
    return Expression(term.operator, operands, value, term.span)


def key_of_run(file: PolicyFile, given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the key of a run of a file: the given columns, else those of the file."""
    if given is None:
        return file.key or ()
    return (given,) if isinstance(given, str) else tuple(given)


def keys_of_others(file: PolicyFile) -> list[tuple[str, ...]]:
    """Return the columns of the key of each policy with variables; () for those without.

    Args:
        file: the policies, as `keyed_file` returns them.
    """
    policies = [one for one in file.policies if one.is_first_order]
    return [(one.key or ()) if one.key_variables else () for one in policies]


def keys_of_atoms(file: PolicyFile) -> dict[str, tuple[str, ...]]:
    """Return the columns of the key of each atom of the policies with variables.

    Args:
        file: the policies, as `keyed_file` returns them.
    """
    found: dict[str, tuple[str, ...]] = {}
    alone = copy(file)
    for policy in file.policies:
        if policy.is_first_order:
            alone.policies = (policy,)
            key = (policy.key or ()) if policy.key_variables else ()
            # what the log says of rows is the same in all traces
            found |= {name: key for name in used_atoms(alone) if name not in found}
    return found


def key_of(policy: Policy, key: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the key of a policy; () if its formula is one of all keys already.

    Args:
        policy: the policy.
        key: the columns of the key of the run, which policies have that do not name their own.
    """
    if policy.key_variables:
        return ()
    return tuple(key) if policy.key is None else policy.key


class _Part(NamedTuple):
    """A formula of the log of all keys.

    Attributes:
        formula: the formula.
        is_here: whether it holds only for keys of rows of the time-point.
        is_not_here: whether NOT of it does.
        binds: whether it says which keys there are, by itself.
        not_binds: whether NOT of it does.
    """

    formula: Formula
    is_here: bool = False
    is_not_here: bool = False
    binds: bool = False
    not_binds: bool = False

    @property
    def negated(self) -> _Part:
        return _Part(_not(self.formula), self.is_not_here, self.is_here, self.not_binds, self.binds)


_ALWAYS = Expression(terms.CONSTANT, (), True)


class _Rewriter:
    """Rewrites the policies with one key.

    Args:
        file: the file.
        target: a copy, which gets the atoms and lets.
        columns: the columns of the key.
    """

    def __init__(self, file: PolicyFile, target: PolicyFile, columns: tuple[str, ...]) -> None:
        self.file = file
        self.target = target
        self.columns = columns
        # no variable of a file has a blank
        self.variables = tuple(f"{name} key" for name in columns)
        self.key = tuple(Expression(terms.VARIABLE, (), name) for name in self.variables)
        self.arguments = tuple(self._argument(name) for name in columns)
        self._here = self._atom(Relation(HERE, (), _ALWAYS, 0))
        # the lets in which numbers of time-points are refused where they matter
        self._checked: set[str] = set()

    def _argument(self, column: str) -> Argument:
        declared = self.file.column_types.get(column)
        name = column if declared is None else TypedColumn(column, declared)
        return Argument(column, Expression(terms.COLUMN, (), name), "text", 0, is_key=True)

    def _atom(self, relation: Relation) -> str:
        """Declare an atom with the key as its last arguments; return its name."""
        own = name_of_key_reading(relation.name, self.columns)
        if own not in self.target.relations:
            arguments = (*relation.arguments, *self.arguments)
            self.target.relations[own] = Relation(
                own,
                arguments,
                relation.condition,
                relation.place,
                is_declared=relation.is_declared,
            )
        return own

    def here(self, span: Span | None = None) -> Formula:
        return predicate(self._here, *self.key, span=span)

    def policy(self, policy: Policy) -> Policy:
        """Return the policy for all keys."""
        found = copy(policy)
        found.key = self.columns
        found.key_variables = self.variables
        names: list[str] = []
        body = policy.formula
        while body.operator is ops.FORALL and not policy.is_find:
            names += quantified(body)
            body = body.operands[0]
        self._refuse_numbers(body, is_reported=True)
        if policy.is_find:
            found.formula = self.present(self.part(body))
            return found
        part = self.part(body)
        formula = part.formula
        if not part.is_not_here:
            # what is asked is asked of the time-points of the key
            here = self.here(body.span)
            if body.operator is ops.IMPLIES:
                left, right = formula.operands
                formula = _of(body, _both(here, left), right)
            else:
                formula = Formula(ops.IMPLIES, (here, formula), None, None, body.span)
        if names:
            formula = Formula(ops.FORALL, (formula,), None, None, policy.formula.span, tuple(names))
        found.formula = formula
        return found

    def let(self, name: str) -> str:
        """Declare a let with the key as its last parameters; return its name."""
        own = name_of_key_reading(name, self.columns)
        if own not in self.target.parameters:
            # it may use itself
            self.target.parameters[own] = (*self.file.parameters[name], *self.variables)
            self.target.lets[own] = self.present(self.part(self.file.lets[name]))
        return own

    def present(self, part: _Part) -> Formula:
        """The formula where it holds for keys of rows of the time-point."""
        return part.formula if part.is_here else _both(self.here(part.formula.span), part.formula)

    def asked(self, part: _Part) -> Formula:
        """The formula where it is asked only at time-points of the key."""
        if part.is_not_here:
            return part.formula
        span = part.formula.span
        return Formula(ops.OR, (_not(self.here(span)), part.formula), None, None, span)

    def part(self, formula: Formula) -> _Part:
        """Rewrite a formula."""
        done: dict[int, _Part] = {}
        for node in postorder(formula):
            done[id(node)] = self._rewritten(node, [done[id(one)] for one in node.operands], done)
        return done[id(formula)]

    def _rewritten(self, node: Formula, parts: list[_Part], done: dict[int, _Part]) -> _Part:
        operator = node.operator
        if operator in (ops.ATOM, ops.PREDICATE):
            return self._of_atom(node, parts)
        if operator is ops.COMPARISON:
            operands = tuple(map(self._of_aggregate, parts))
            return _Part(comparison(self._term(*terms_of(node)), operands, node.span))
        if operator in (ops.TRUE, ops.FALSE):
            return _Part(node)
        if operator.is_temporal:
            return self._of_temporal(node, parts, done)
        if operator is ops.NOT:
            (part,) = parts
            return part.negated._replace(formula=_of(node, part.formula))
        found = _of(node, *(one.formula for one in parts))
        if operator is ops.EXISTS:
            return _Part(found, parts[0].is_here, False, parts[0].binds)
        if operator is ops.FORALL:
            return _Part(found, False, parts[0].is_not_here, False, parts[0].not_binds)
        if operator is ops.IFF:
            return _Part(found)
        one, other = (parts[0].negated, parts[1]) if operator is ops.IMPLIES else parts
        if operator is ops.AND:
            one, other = one.negated, other.negated
        # an OR of both
        whole = _Part(
            found,
            one.is_here and other.is_here,
            one.is_not_here or other.is_not_here,
            one.binds and other.binds,
            one.not_binds or other.not_binds,
        )
        return whole.negated._replace(formula=found) if operator is ops.AND else whole

    def _of_atom(self, node: Formula, parts: list[_Part]) -> _Part:
        name = node.name or ""
        arguments = tuple(map(self._term, terms_of(node)))
        if name in self.file.parameters:
            return _Part(self._predicate(self.let(name), arguments, node, parts), True, False, True)
        if node.operator is ops.PREDICATE and is_built_in(self.file, name):
            return _Part(Formula(node.operator, (), None, name, node.span, Terms(*arguments)))
        relation = self.file.relations.get(name)
        if relation is not None:
            own = self._atom(relation)
        elif name in self.file.atoms:
            own = self._atom(Relation(name, (), self.file.atoms[name].expression, 0))
        else:
            # what the log says of a row: it is asked of the rows that have a row of this atom
            own = self._atom(Relation(name, (), _ALWAYS, 0))
        return _Part(self._predicate(own, arguments, node, parts), True, False, True)

    def _predicate(
        self, name: str, arguments: tuple[Expression, ...], node: Formula, parts: list[_Part]
    ) -> Formula:
        operands = tuple(map(self._of_aggregate, parts))
        return predicate(name, *arguments, *self.key, formulas=operands, span=node.span)

    def _of_aggregate(self, part: _Part) -> Formula:
        """The formula of an aggregate, which is asked at time-points of the key."""
        return part.formula if part.binds else self.present(part)

    def _term(self, term: Expression) -> Expression:
        """A term, whose aggregates are by the key as well."""
        operands = tuple(map(self._term, term.operands))
        value = term.value
        if term.operator in terms.OF_FORMULAS:
            word, number, by, is_of_rows = term.aggregate
            value = Aggregate(word, number, (*(by or ()), *self.variables), is_of_rows)
        return Expression(term.operator, operands, value, term.span)

    def _of_temporal(self, node: Formula, parts: list[_Part], done: dict[int, _Part]) -> _Part:
        operator = node.operator
        if operator.is_future and node.interval is not None and not node.interval.is_bounded:
            raise self._error(
                node,
                f"{operator.word} looks ahead without bound, which a policy with variables cannot "
                f"for each {', '.join(self.columns)}: another row of the key may never come",
                f"give it an interval: {operator.word}[0,b]",
            )
        *_, right = parts
        if operator in (ops.ONCE, ops.EVENTUALLY):
            return _Part(_of(node, self.present(right)), binds=True)
        if operator in (ops.HISTORICALLY, ops.ALWAYS):
            return _Part(_of(node, self.asked(right)), not_binds=True)
        if operator in (ops.PREVIOUS, ops.NEXT):
            binary = ops.SINCE if operator is ops.PREVIOUS else ops.UNTIL
            operands = (_not(self.here(node.span)), self.present(right))
            found = Formula(binary, operands, node.interval, None, node.span, STRICT)
            return _Part(found, binds=True)
        if operator in (ops.SINCE, ops.UNTIL):
            left = self._conjuncts(node.operands[0], done)
            return _Part(_of(node, left, self.present(right)), binds=True)
        if operator is ops.WEAK_UNTIL:
            # g RELEASE (f OR g)
            other, one = (done[id(part)] for part in node.operands)
            both = Formula(ops.OR, (other.formula, one.formula), None, None, node.span)
            right = _Part(both, is_not_here=other.is_not_here or one.is_not_here)
            operator = ops.RELEASE
        else:
            one = parts[0]
        operands = (self.present(one), self.asked(right))
        return _Part(Formula(operator, operands, node.interval, None, node.span), not_binds=True)

    def _conjuncts(self, left: Formula, done: dict[int, _Part]) -> Formula:
        """The left side of SINCE or UNTIL, of which each conjunct is asked by itself."""
        stack, found = [left], []
        while stack:
            part = stack.pop()
            if part.operator is ops.AND:
                stack += reversed(part.operands)
            else:
                found.append(part if part.operator is ops.TRUE else self.asked(done[id(part)]))
        whole = found[0]
        for one in found[1:]:
            whole = _both(whole, one)
        return whole

    def _numbers(self, formula: Formula) -> set[str]:
        """The variables that are numbers of time-points."""
        found: set[str] = set()
        for node in postorder(formula):
            name = node.name or ""
            if node.operator is not ops.PREDICATE:
                continue
            if name in self.file.parameters:
                inner = self._numbers_of_lets[name]
                parameters = self.file.parameters[name]
            elif name == "point" and is_built_in(self.file, name):
                inner, parameters = {""}, ("",)
            else:
                continue
            found |= {
                term.name
                for term, parameter in zip(terms_of(node), parameters, strict=True)
                if parameter in inner and term.operator is terms.VARIABLE
            }
        return found

    @cached_property
    def _numbers_of_lets(self) -> dict[str, set[str]]:
        """The parameters of each let that are numbers of time-points."""
        self._numbers_of_lets = found = {name: set[str]() for name in self.file.parameters}
        while True:
            # a let may use itself
            before = dict(found)
            found |= {name: self._numbers(self.file.lets[name]) for name in found}
            if found == before:
                return found

    def _refuse_numbers(self, formula: Formula, *, is_reported: bool = False) -> None:
        """Refuse formulas for which it matters what number a time-point has.

        Those of the log of all keys are others than those of the rows of a key.
        """
        numbers = self._numbers(formula)
        free = free_variables(formula)
        for node in postorder(formula):
            name = node.name or ""
            if node.operator is ops.PREDICATE and name in self.file.parameters:
                if name not in self._checked:
                    self._checked.add(name)
                    self._refuse_numbers(self.file.lets[name])
            elif self._shows_numbers(node, numbers) or (
                is_reported and node is formula and numbers.intersection(free[id(node)])
            ):
                raise self._error(
                    node,
                    f"with the key {', '.join(self.columns)}, the number of a time-point says "
                    "nothing: it counts the rows of all keys",
                    "point(i) can tell rows apart in an aggregate, or be compared with point(j)",
                )

    def _shows_numbers(self, node: Formula, numbers: set[str]) -> bool:
        """Whether more matters of numbers of time-points than which of them is earlier."""
        if node.operator is ops.PREDICATE and node.name == "point":
            plain = (terms.VARIABLE, terms.WILDCARD)
            if is_built_in(self.file, "point"):
                return any(term.operator not in plain for term in terms_of(node))
        for term in terms_of(node):
            used = [one for one in postorder(term) if one.operator is terms.VARIABLE]
            if not numbers.intersection(one.name for one in used):
                continue
            is_order = term.operator in terms.COMPARISONS.values() and all(
                one.operator is terms.VARIABLE and one.name in numbers for one in term.operands
            )
            if not is_order:
                return True
        return False

    def _error(self, node: Formula, message: str, hint: str) -> Exception:
        return formula_error(
            self.file.text,
            0 if node.span is None else node.span.start,
            message,
            source=self.file.source,
            hint=hint,
            kind=PolicyError,
        )


def _of(node: Formula, *operands: Formula) -> Formula:
    """The operator of a formula, of other operands."""
    return Formula(node.operator, operands, node.interval, node.name, node.span, node.value)


def _both(one: Formula, other: Formula) -> Formula:
    return Formula(ops.AND, (one, other), None, None, other.span)


def _not(formula: Formula) -> Formula:
    return Formula(ops.NOT, (formula,), None, None, formula.span)
