"""Finds what the atoms of a policy file need: columns, atoms of the log, other rows."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import columns, typed_columns
from mtlmon.policy.predicates.time_points import is_later
from mtlmon.syntax.printer import atom_text
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mtlmon.policy.definitions import Policy
    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.time_points import Changes

_REMEMBERING = frozenset(
    {ops.STREAM, ops.ATOM, ops.LET, ops.OVER, ops.INSTANCE, *ops.WINDOWS, *ops.OFFSETS.values()}
)


class Needs(NamedTuple):
    """What some atoms and streams of a policy file need.

    Attributes:
        columns: the columns of the table, in order of first occurrence.
        typed_columns: the same as they are read, which can be in several ways, as in
            `mtlmon.policy.predicates.expression.typed_columns`.
        log_atoms: the atoms that the log itself must provide.
        remembering: the atoms that depend on other rows or on atoms of the log, in order; the
            others depend on the columns of their row only.
        streams: the streams, in no particular order.
        later_values: the later values that rows wait for, as text, in order.
        atoms: the atoms that the file defines, also those by way of others, in no particular order.
        relations: the relations that are looked up, in order of first occurrence, each with its
            columns that look-ups name.
        look_ups: the look-ups themselves, in no particular order.
    """

    columns: tuple[str, ...]
    typed_columns: tuple[str, ...]
    log_atoms: tuple[str, ...]
    remembering: tuple[str, ...]
    streams: frozenset[str]
    later_values: tuple[str, ...]
    atoms: frozenset[str]
    relations: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    look_ups: tuple[Expression, ...] = ()


def needs_of(file: PolicyFile, names: Iterable[str], streams: Sequence[str] = ()) -> Needs:
    """Find what atoms and streams need, also by way of the streams, lets and atoms in them.

    Args:
        file: the policy file.
        names: the names of atoms; those that the file does not define come from the log.
        streams: the names of streams, and of expressions in `PolicyFile.shown`.
    """
    wanted = tuple(dict.fromkeys(names))
    read: list[Expression] = []
    log_atoms: dict[str, None] = {}
    later_values: set[str] = set()
    relations: dict[str, dict[str, None]] = {}
    look_ups: dict[Expression, None] = {}
    remembering = [
        name
        for name in wanted
        if name in file.atoms and remembers(file, file.atoms[name].expression)
    ]
    seen: set[tuple[str, str]] = set()
    stack = [("stream", name) for name in reversed(streams)]
    stack += [("atom", name) for name in reversed(wanted)]
    while stack:
        kind, name = stack.pop()
        if (kind, name) in seen:
            continue
        seen.add((kind, name))
        if kind == "let":
            stack += [("atom", one) for one in reversed(file.lets[name].atoms)]
        elif kind == "atom" and name not in file.atoms:
            log_atoms[name] = None
        else:
            found: list[tuple[str, str]] = []
            for expression in _expressions(file, kind, name):
                for node in postorder(expression):
                    if node.operator is ops.COLUMN:
                        read.append(node)
                    elif is_later(node):
                        later_values.add(str(node))
                    elif node.operator in _KINDS:
                        found.append((_KINDS[node.operator], node.name))
                    elif node.operator in ops.LOOK_UPS:
                        look_ups[node] = None
                        relation, column, _, keys = node.looked_up
                        own = relations.setdefault(relation, {})
                        own |= dict.fromkeys(keys or ())
                        own |= {} if column is None else {column: None}
                    elif node.operator is ops.OVER:
                        found.append(("stream", node.over.stream))
            stack += reversed(found)
    found_streams = frozenset(
        name for kind, name in seen if kind == "stream" and name in file.streams
    )
    later = tuple(sorted(later_values))
    found_atoms = frozenset(name for kind, name in seen if kind == "atom" and name in file.atoms)
    return Needs(
        columns(*read),
        typed_columns(*read),
        tuple(log_atoms),
        tuple(remembering),
        found_streams,
        later,
        found_atoms,
        {name: tuple(own) for name, own in relations.items()},
        tuple(look_ups),
    )


def _remembers(file: PolicyFile, node: Expression) -> bool:
    """Whether the value of a node depends on other rows or on atoms of the log."""
    if node.operator not in ops.LOOK_UPS:
        return node.operator in _REMEMBERING
    from mtlmon.policy.validity.declared import reads_rows

    owner, name = file.owner_of(node.looked_up.relation)
    return reads_rows(owner.intervals, name)


def remembers(file: PolicyFile, expression: Expression) -> bool:
    """Whether the value of an expression depends on other rows or on atoms of the log."""
    return any(_remembers(file, node) for node in postorder(expression))


def remembers_itself(expression: Expression) -> bool:
    """Whether it does so by itself, and not only by look-ups in relations of rows."""
    return any(node.operator in _REMEMBERING for node in postorder(expression))


def looked_up_in(file: PolicyFile) -> tuple[str, ...]:
    """Return the relations in which anything in a file looks values up, each once.

    Those whose changes are time-points of policies are among them.
    """
    from mtlmon.policy.renaming import expressions_of

    found = dict.fromkeys(
        node.looked_up.relation
        for node in postorder(*expressions_of(file))
        if node.operator in ops.LOOK_UPS
    )
    return tuple(found | dict.fromkeys(one.relation for one in changes_in(file)))


def queried_in(file: PolicyFile) -> tuple[str, ...]:
    """Return the relations of a file of which no other relation is made."""
    parts = {name for relation in file.intervals.values() for name, _ in relation.others}
    return tuple(name for name in file.intervals if name not in parts)


def changes_in(file: PolicyFile) -> tuple[Changes, ...]:
    """Return the changes of relations that are time-points of a file's policies, each once."""
    from mtlmon.policy.predicates.time_points import Changes

    periods = (policy.clock.period for policy in file.policies if policy.clock is not None)
    return tuple(dict.fromkeys(one for one in periods if isinstance(one, Changes)))


def later_values_of(file: PolicyFile, policy: Policy) -> tuple[str, ...]:
    """Return the later values that the rows of a policy wait for, as text, in order."""
    clock = policy.clock
    atoms = [*policy.formula.atoms, *([clock.atom] if clock and clock.atom else [])]
    shown = () if policy.message is None else policy.message.needed
    return needs_of(file, atoms, shown).later_values


_KINDS = {ops.STREAM: "stream", ops.ATOM: "atom", ops.LET: "let", ops.INSTANCE: "stream"}


def _expressions(file: PolicyFile, kind: str, name: str) -> Iterator[Expression]:
    """The expressions of an atom or a stream."""
    if kind == "atom":
        yield file.atoms[name].expression
    elif name in file.streams:
        yield from file.streams[name].expressions
    elif name in file.shown:
        yield file.shown[name]


def meant_equivalences(file: PolicyFile) -> dict[str, str]:
    """Return a hint for each name that formulas compare with another, as in `p = q`.

    If there are no such columns, atoms are meant, which EQUIV compares.
    """
    hints: dict[str, str] = {}
    for name in file.conditions:
        expression = file.atoms[name].expression
        if expression.operator is ops.EQUAL and all(
            operand.operator is ops.COLUMN for operand in expression.operands
        ):
            names = [operand.name for operand in expression.operands]
            compared = " EQUIV ".join(map(atom_text, names))
            hints |= {
                name: f'events are compared with {compared}, and a text is "{name}"'
                for name in names
            }
    return hints


def refuse_first_order(policies: Iterable[Policy]) -> None:
    """Refuse first-order policies and finds, where only others can be evaluated.

    Raises:
        MtlmonError: there is one.
    """
    for policy in policies:
        if policy.is_first_order:
            name = "the policy" if policy.name is None else f"policy {policy.name}"
            if policy.is_find:
                name = f"find {policy.name}"
            what = "looks for values" if policy.is_find else "has variables"
            raise MtlmonError(
                f"{name} {what}, so it is over all events of a log and not over a trace: use the "
                "command, mtlmon.check, RelationalMonitor or mtlmon.spark.monitor"
            )
