"""Finds the columns whose values relations over validity intervals compare with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import columns
from mtlmon.policy.validity.declared import Combine, Group, Select, TableOf

if TYPE_CHECKING:
    from mtlmon.policy.policy_file import PolicyFile


def columns_of_relations_compared(file: PolicyFile) -> frozenset[str]:
    """Return the names of columns by which relations of a file group, join or look values up.

    Columns of different tables may have one name.
    """
    found: set[str] = set()
    # for columns of other names, those that they are
    origins: dict[str, set[str]] = {}
    for relation in file.intervals.values():
        if isinstance(relation.source, TableOf):
            found |= {*relation.source.key}
        for step in relation.steps:
            if isinstance(step, Group):
                found |= {*step.keys, *columns(*(one for _, one in step.computed))}
            elif isinstance(step, Combine) and step.condition is not None:
                names = columns(step.condition)
                found |= {*names, *(one.removeprefix(f"{step.relation}_") for one in names)}
            elif isinstance(step, Select):
                for name, one in step.columns:
                    if one.operator in ops.COLUMNS:
                        origins.setdefault(name, set()).add(str(one.name))
    waiting = list(found)
    while waiting:
        for name in origins.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return frozenset(found)
