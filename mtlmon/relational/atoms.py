"""The atoms that first-order policies use, and what reads them from a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.relational.outside import MOMENT
from mtlmon.support.guesses import nearest
from mtlmon.syntax import operators as ops
from mtlmon.syntax.printer import name_of_rows, name_without_key, written_name
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.plan import Plan
    from mtlmon.syntax.formula import Formula

__all__ = [
    "HERE",
    "cell_word",
    "formula_atoms",
    "key_fields",
    "made_atoms",
    "named_rows",
    "refuse_points",
    "require_rows_of_tables",
    "rows_of_log",
    "used_atoms",
]


HERE = "here "
"""The atom with the key of each row, for policies with a key; no file can have it."""


def used_atoms(file: PolicyFile) -> tuple[str, ...]:
    """Return the names of the atoms of which first-order policies need the rows, in order.

    They are those of `formula_atoms`, and atoms of the log of which these have the rows with a key.
    """
    found: dict[str, None] = {}
    for name in formula_atoms(file):
        found[name] = None
        own = name_without_key(name)
        if own not in (HERE, *file.atoms) and own not in file.relations:
            found[own] = None
    return tuple(found)


def formula_atoms(file: PolicyFile) -> tuple[str, ...]:
    """Return the names of the atoms of first-order policies, also by way of lets, in order.

    Those of the built-in atoms `point` and `time` are not among them.
    """
    names: dict[str, None] = {}
    for formula in formulas_of(file):
        for node in postorder(formula):
            name = node.name
            if name is None or node.operator not in (ops.ATOM, ops.PREDICATE):
                continue
            is_made = node.operator is ops.PREDICATE and is_built_in(file, name)
            if name not in file.parameters and not is_made:
                names[name] = None
    return tuple(names)


def formulas_of(file: PolicyFile) -> Iterator[Formula]:
    """Yield the formulas of first-order policies, and those of the lets that they use."""
    seen: set[str] = set()
    stack = [policy.formula for policy in reversed(file.policies) if policy.is_first_order]
    while stack:
        formula = stack.pop()
        yield formula
        for node in postorder(formula):
            name = node.name
            if name in file.parameters and name not in seen:
                seen.add(name)
                stack.append(file.lets[name])


def is_built_in(file: PolicyFile, name: str) -> bool:
    """Whether an atom with arguments is one that the engine makes."""
    from mtlmon.policy.first_order.declarations import BUILT_IN

    relation = file.relations.get(name)
    return name in BUILT_IN and relation is not None and not relation.is_declared


def made_atoms(file: PolicyFile) -> frozenset[str]:
    """The atoms that have a row at each time-point, which the engine makes."""
    own = (name for name in ("point", "time") if is_built_in(file, name))
    return frozenset({MOMENT, *own})


def refuse_points(file: PolicyFile) -> None:
    """Refuse formulas that look at the numbers of time-points, where these are time-stamps.

    Raises:
        PolicyError: there is one.
    """
    for formula in formulas_of(file):
        for node in postorder(formula):
            if node.operator is ops.PREDICATE and node.name == "point":
                if not is_built_in(file, "point"):
                    continue
                raise formula_error(
                    file.text,
                    0 if node.span is None else node.span.start,
                    "rows of a time-stamp are one time-point: point(i) cannot tell them apart",
                    source=file.source,
                    hint="give the atom a column that does, such as an event's id, and count over "
                    "that",
                    kind=PolicyError,
                )


def require_rows_of_tables(file: PolicyFile, names: Sequence[str]) -> None:
    """Refuse atoms with arguments that have no rows in a table.

    Args:
        file: the policy file.
        names: the names of atoms.

    Raises:
        PolicyError: an atom with arguments has no condition.
    """
    for name in names:
        relation = file.relations.get(name)
        if relation is None or relation.condition is not None:
            continue
        written = written_name(name)
        arguments = ", ".join(
            argument.name if relation.is_declared else f"COLUMN{place}"
            for place, argument in enumerate(relation.arguments, 1)
            if not argument.is_key
        )
        hint = f"declare it with a condition: atom {written}({arguments}) = CONDITION"
        if not relation.is_declared:
            others = file.relations.items()
            declared = [written_name(other) for other, one in others if one.is_declared]
            guess = nearest(written, declared)
            hint = hint if guess is None else f"did you mean {guess}? Else {hint}"
        raise formula_error(
            file.text,
            relation.place,
            f"nothing says which rows of a table are rows of {written}",
            source=file.source,
            hint=hint,
            kind=PolicyError,
        )


def cell_word(kind: Kind) -> str:
    """Return how readers and writers call a kind of values.

    This is "integer", "float", "boolean", "text" or "time"; what nothing says is text.
    """
    if kind.name == "decimal":
        return "float"
    return kind.name if kind.name in {"integer", "float", "boolean", "time"} else "text"


def key_fields(made: Plan, columns: Sequence[str] | None = None) -> list[list[int | None]]:
    """Return for each policy and each column of keys the variable that is in its field, or None.

    Args:
        made: the plan of the policies.
        columns: the columns of keys; by default, those of the policies.
    """
    keys = [one.key for one in made.named_policies]
    if columns is None:
        columns = tuple(dict.fromkeys(name for key in keys for name in key))
    return [[key.index(name) if name in key else None for name in columns] for key in keys]


def rows_of_log(made: Plan, computed: Collection[str] = ()) -> list[tuple[str, tuple[str, ...]]]:
    """Return what `named_rows` does, with the names that the rows of a text log have.

    There are several of a name where policies read its arguments as other types.
    """
    return [(name_of_rows(name), kinds) for name, kinds in named_rows(made, computed)]


def named_rows(made: Plan, computed: Collection[str] = ()) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names of the atoms of a plan, in order, with the words for their arguments.

    Atoms that the engine makes, and those that are computed, get a name that no log has: it begins
    with a line feed.
    """
    built_in = {made.point, made.time}
    return [
        (
            f"\n{atom.name}" if number in built_in or atom.name in computed else atom.name,
            tuple(map(cell_word, atom.kinds)),
        )
        for number, atom in enumerate(made.named_atoms)
    ]
