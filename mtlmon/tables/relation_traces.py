"""The traces of policies with variables: the whole log, or the rows of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtlmon.relational.key_names import KeyNames
from mtlmon.relational.keyed import keys_of_atoms, keys_of_others
from mtlmon.tables.opening import open_tables
from mtlmon.tables.relations import RelationRows, shown_arguments, table_atoms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.key_points import KeyPoints
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.tables.events import TableEvents
    from mtlmon.tables.formats.files import Tables

__all__ = ["RelationTraces", "relation_events"]


class RelationTraces:
    """Makes time-points of the rows of a log for policies with variables, and names them.

    Args:
        file: the policies, as `keyed_file` returns them.
        shown: for each atom, the names that batches show the values of its arguments under.
        columns: the key columns of each partition of the log, or None for one that is not for these
            policies; by default, those of the policies.

    Attributes:
        columns: the key columns of each partition.
        whole: the partition that is the whole log, or any if no policy needs that.
    """

    def __init__(
        self,
        file: PolicyFile,
        shown: Mapping[str, Sequence[str]],
        columns: Sequence[tuple[str, ...] | None] | None = None,
    ) -> None:
        keys = keys_of_others(file)
        places = list(dict.fromkeys(keys) if columns is None else columns)
        self.columns = [() if one is None else one for one in places]
        self._shown = shown
        self._defined = {*file.atoms, *file.relations}
        self._of_policies = [places.index(key) if key else None for key in keys]
        self._of_atoms = {name: places.index(key) for name, key in keys_of_atoms(file).items()}
        self.whole = places.index(()) if () in places else 0

    @property
    def has_keys(self) -> bool:
        """Whether a policy has a key."""
        return any(one is not None for one in self._of_policies)

    def partition_of(self, atom: str) -> int:
        """Return the partition of the log whose rows an atom of the policies reads."""
        return self._of_atoms[atom]

    @property
    def shown(self) -> list[dict[When, list[str]]]:
        """For each partition, the names of the values that batches show."""
        found: list[dict[When, list[str]]] = [{0: []} for _ in self.columns]
        self.add_shown(found)
        return found

    def add_shown(self, shown: Sequence[dict[When, list[str]]]) -> None:
        """Add the names of the values of atoms to those that batches show in each partition."""
        for name, values in self._shown.items():
            own = shown[self._of_atoms[name]]
            own[0] = list(dict.fromkeys([*own.get(0, ()), *values]))

    def add_atoms(self, needed: Sequence[dict[When, list[str]]], names: Sequence[str]) -> None:
        """Add the atoms of the policies to those that are needed of each partition."""
        for name in names:
            own = needed[self._of_atoms[name]]
            own[0] = list(dict.fromkeys([*own.get(0, ()), name]))

    def late_names(self) -> KeyNames[int]:
        """Return what names time-points of keys where rows may come late, by partitions."""
        return KeyNames(self._of_policies)

    def rows(
        self,
        made: Plan,
        points: PointBlock,
        tables: Sequence[KeyTable | None] | None,
        *,
        by_stamp: bool,
        texts: KeyTable | None = None,
        conditional: Sequence[str] = (),
        computed: Sequence[str] = (),
    ) -> tuple[RelationRows, KeyPoints | None]:
        """Return what makes time-points of batches, and what names them for keys, if any has one.

        Args:
            made: the plan of the policies.
            points: gets the time-points.
            tables: the keys of each partition of the log, by number; None if something else names
                time-points.
            by_stamp: whether all rows of one time-stamp are one time-point.
            texts: numbers the texts of time-points; by default, those of the plan.
            conditional: the names of the atoms that are conditional.
            computed: the names of those whose rows somebody else makes.
        """
        names = None
        if self.has_keys and tables is not None:
            from mtlmon.checking.key_points import KeyPoints

            names = KeyPoints(made, self._of_policies, tables, self._of_atoms, by_stamp=by_stamp)
        atoms = table_atoms(made, self._shown, conditional, self._of_atoms, computed, self._defined)
        rows = RelationRows(
            atoms,
            points,
            made.texts if texts is None else texts,
            by_stamp=by_stamp,
            partition=self.whole,
            names=names,
        )
        return rows, names


def relation_events(
    tables: Tables | Sequence[Tables],
    file: PolicyFile,
    names: Sequence[str],
    options: dict[str, Any],
) -> tuple[TableEvents, RelationTraces]:
    """Open tables for the atoms of policies with variables.

    Args:
        tables: as `open_tables` takes them.
        file: the policies.
        names: the atoms that they use.
        options: the options of `open_tables`, which take precedence over what the file says.

    Returns:
        The events, and what makes time-points of them.
    """
    shown = shown_arguments(file, names)
    traces = RelationTraces(file, shown)
    if file.time is not None:
        options.setdefault("time", file.time)
    if file.event is not None:
        options.setdefault("event", file.event)
    if file.pattern is not None:
        options.setdefault("pattern", file.pattern)
    events = open_tables(
        tables, names, policies=file, partitions=traces.columns, shown=traces.shown, **options
    )
    return events, traces
