"""How the policies of a run divide a log into traces.

Policies whose keys have the same columns form a *partition*, with a table of keys and numbers of
traces of its own. A policy can also have events of its own, each with the index of the row that it
comes with: `set_positions` brings the events of all policies into one order first. Without such
events, the row is the position, and nothing is computed.
"""

from __future__ import annotations

from mtlmon.support.lean_typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.arrays.native import KeyTable

__all__ = ["Partitions", "TraceKeys", "partitions_of"]


class Partitions(NamedTuple):
    """The partitions of a log into traces, each by the values of some key columns.

    Attributes:
        columns: the key columns of each partition, in the order in which policies first use them; a
            partition without key columns is a single trace.
        of_policies: for each policy, the number of its partition.
        all_columns: all key columns, in order of first mention.
    """

    columns: tuple[tuple[str, ...], ...]
    of_policies: tuple[int, ...]
    all_columns: tuple[str, ...]

    @property
    def places(self) -> list[list[int]]:
        """For each partition, the indices of its columns in `all_columns`."""
        return [[self.all_columns.index(name) for name in columns] for columns in self.columns]


class TraceKeys(NamedTuple):
    """The keys of the traces that verdicts are about.

    Attributes:
        partitions: the partitions of the run.
        tables: for each partition, the keys by the number of the trace, or None if there is only
            one trace.
    """

    partitions: Partitions
    tables: tuple[KeyTable | None, ...]

    @classmethod
    def of_one_partition(
        cls, policy_count: int, keys: KeyTable | None, columns: Iterable[str]
    ) -> TraceKeys:
        """Return the keys of policies that share one partition."""
        names = tuple(columns)
        return cls(Partitions((names,), (0,) * policy_count, names), (keys,))

    @classmethod
    def of_log(cls, partitions: Partitions, tables: Sequence[KeyTable | None]) -> TraceKeys:
        """Return the keys of a log, which may have other partitions behind those of the run."""
        return cls(partitions, tuple(tables[: len(partitions.columns)]))

    def has_keys(self, policy: int) -> bool:
        """Whether a policy has a trace per key."""
        return self.tables[self.partitions.of_policies[policy]] is not None

    def text(self, policy: int, number: int) -> str:
        """Return the key of a policy's trace as text."""
        table = self.tables[self.partitions.of_policies[policy]]
        return "" if table is None else ", ".join(table.key(number))


def partitions_of(
    keys: Iterable[tuple[str, ...] | None],
    default: Iterable[str] = (),
    *,
    others: Iterable[tuple[str, ...]] = (),
) -> Partitions:
    """Return the partitions of policies.

    Args:
        keys: the key columns of each policy, or None if it names none.
        default: the key columns of the policies that name none.
        others: the key columns of partitions that something else needs.
    """
    of_run = tuple(default)
    found = [of_run if key is None else key for key in keys]
    columns = tuple(dict.fromkeys([*found, *others]))
    # The default is mentioned before the policies.
    mentioned = [*([of_run] if of_run in columns else []), *columns]
    return Partitions(
        columns,
        tuple(columns.index(one) for one in found),
        tuple(dict.fromkeys(name for names in mentioned for name in names)),
    )
