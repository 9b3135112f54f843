"""Policies with variables and others of one file: each kind has a plan of its own in Spark.

The plans read the same rows, and their verdicts are one union. Where rows are skipped, both must
skip the same ones, as on one machine: each then reads what the other reads as well, *beside* its
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.relational.atoms import used_atoms

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mtlmon.policy import PolicyFile
    from mtlmon.spark.common.atom_rows import RelationSource
    from mtlmon.spark.common.events import EventSource

__all__ = ["atoms_of_kinds", "beside_relations", "has_both_kinds"]

_NO_SKIPPING = (
    "such rows cannot be skipped beside policies with variables, which know nothing of other rows"
)


def has_both_kinds(file: PolicyFile | None) -> bool:
    """Return whether there are policies with variables and others."""
    return file is not None and len({one.is_first_order for one in file.policies}) > 1


def atoms_of_kinds(
    atoms: Mapping[str, str] | None, others: Collection[str], file: PolicyFile
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the predicates that a caller gives for policies without variables, and with them.

    Those of atoms that no policy has are in both, so that they are refused.

    Args:
        atoms: the predicates by the name of the atom that each defines.
        others: the atoms of the policies without variables.
        file: the policies.
    """
    given, own = dict(atoms or {}), used_atoms(file)
    return (
        {name: text for name, text in given.items() if name in others or name not in own},
        {name: text for name, text in given.items() if name in own or name not in others},
    )


def beside_relations(source: EventSource, relations: RelationSource) -> EventSource:
    """Return how rows become events for policies without variables, if rows are skipped.

    Args:
        source: how they become events for these policies alone.
        relations: how they become rows of atoms for the others.
    """
    alone = relations.source._replace(beside=None, reporter=None)
    beside = source.reading_beside(relations._replace(source=alone))
    return beside._replace(no_skipping=_NO_SKIPPING)
