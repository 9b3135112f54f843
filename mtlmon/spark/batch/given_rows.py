"""The rows that a caller gives to a function that monitors policies, with variables and without.

Each kind has a plan of its own in Spark. The plans read the same rows, and their verdicts are one
union. Where rows are skipped, both must skip the same ones, as on one machine: each then reads what
the other reads as well, *beside* its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.relational.atoms import used_atoms
from mtlmon.spark.batch.relations import prepared_relations
from mtlmon.spark.common.events import event_source, require_predicates
from mtlmon.spark.common.frames import require_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from mtlmon.policy import PolicyFile
    from mtlmon.spark.common.atom_rows import RelationSource
    from mtlmon.spark.common.events import EventSource, OnError, RowSource
    from mtlmon.spark.common.policies import Policies

__all__ = ["GivenRows", "PreparedRelations", "has_both_kinds"]

_NO_SKIPPING = (
    "such rows cannot be skipped beside policies with variables, which know nothing of other rows"
)

PreparedRelations = tuple["RelationSource", "DataFrame"]
"""How rows become rows of atoms, and the rows; see `prepared_relations`."""


def has_both_kinds(file: PolicyFile | None) -> bool:
    """Return whether there are policies with variables and others."""
    return file is not None and len({one.is_first_order for one in file.policies}) > 1


class GivenRows(NamedTuple):
    """The rows that a caller gives, and how they are read.

    Attributes:
        df: the rows.
        function: the name of the function, for errors.
        time: the others are the arguments of the function.
    """

    df: DataFrame
    function: str
    time: str | None
    atoms: Mapping[str, str] | None
    event: str | None
    event_separator: str
    time_unit: str | None
    resolution: str | None
    on_error: OnError

    def relations(
        self,
        file: PolicyFile,
        atoms: Mapping[str, str] | None,
        beside: RowSource | None = None,
    ) -> PreparedRelations:
        """Prepare the rows for policies with variables.

        Args:
            file: the policies.
            atoms: the predicates that the caller gives for these policies.
            beside: what else a row has to be an event for; None if there is nothing.

        Raises:
            PolicyError, MtlmonError: see `prepared_relations`.
        """
        return prepared_relations(
            self.df,
            file,
            time=self.time,
            atoms=atoms,
            event=self.event,
            event_separator=self.event_separator,
            time_unit=self.time_unit,
            resolution=self.resolution,
            on_error=self.on_error,
            function=self.function,
            beside=beside,
        )

    def sources(
        self, policies: Policies, keys: Sequence[str], file: PolicyFile | None
    ) -> tuple[EventSource, PreparedRelations | None]:
        """Return how rows become events, and what is prepared for policies with variables.

        Args:
            policies: the policies without variables.
            keys: all key columns.
            file: the policies of both kinds; None if none has variables.

        Raises:
            PolicyError, TableError, MtlmonError: an argument is invalid, or a column is missing.
        """
        require_predicates(self.atoms)
        own_atoms, relation_atoms = self.atoms, self.atoms
        if file is not None:
            # those of atoms that no policy has are given to both kinds, so that they are refused
            given, own, used = dict(self.atoms or {}), policies.atoms, used_atoms(file)
            own_atoms = {name: given[name] for name in given if name in own or name not in used}
            relation_atoms = {
                name: given[name] for name in given if name in used or name not in own
            }
        source = event_source(
            policies,
            time=self.time,
            keys=keys,
            atoms=own_atoms,
            event=self.event,
            separator=self.event_separator,
            time_unit=self.time_unit,
            resolution=self.resolution,
            on_error=self.on_error,
        )
        require_columns(self.df, source.selection, source.place)
        if file is None:
            return source, None
        if self.on_error != "skip":
            return source, self.relations(file, relation_atoms)
        # both kinds skip the same rows
        prepared = self.relations(file, relation_atoms, source)
        relations = prepared[0]
        alone = relations.source._replace(beside=None, reporter=None)
        beside = source.reading_beside(relations._replace(source=alone))
        return beside._replace(no_skipping=_NO_SKIPPING), prepared
