"""Atoms and streams of text logs, with the relations of tables that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mtlmon.checking.text_streams import TextStreams
from mtlmon.policy.needs import needs_of
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates.environment import UTC, Environment
from mtlmon.policy.predicates.time_points import Changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.tables.looking_up import GivenRelations

__all__ = ["text_streams"]


def text_streams(
    file: PolicyFile,
    names: Sequence[str],
    unit: str | None,
    path: str,
    at_ticks: Mapping[When, Sequence[str]] | None = None,
    shown: Mapping[When, Sequence[str]] | None = None,
    *,
    values: Sequence[str] = (),
    on_error: Literal["stop", "skip"] | None = None,
    given: GivenRelations | None = None,
    memory: MemoryLimit | None = None,
) -> TextStreams:
    """Return what computes atoms and streams for the batches of a text log.

    Args:
        file: the policy file that defines them.
        names: the names of the atoms to compute.
        unit: the unit of the time-stamps, if it is known.
        path: the name of the log in messages.
        at_ticks: the names of the atoms to compute at ticks, by the period of these, or the
            changes that they are.
        shown: as for `TextStreams`.
        values: the names of the streams whose values batches have.
        on_error: as for `TextStreams`.
        given: what was read of relations before; None to read their tables here.
        memory: the memory limit of the run, which counts the records of relations.

    Raises:
        MtlmonError: a table cannot be read, or a relation is not of tables or not valid.
    """
    at_ticks = at_ticks or {}
    all_names = [*names, *(name for some in at_ticks.values() for name in some)]
    every_shown = [name for some in (shown or {}).values() for name in some]
    needs = needs_of(file, all_names, [*values, *every_shown])
    relations: Mapping[str, Relation] = {}
    changing = [when.relation for when in at_ticks if isinstance(when, Changes)]
    if needs.relations or changing:
        # imported on use, as few files have relations
        from mtlmon.tables.looking_up import known_relations

        environment = Environment(
            time=DEFAULT_TIME, unit=unit, zone=file.zone or UTC, has_columns=False
        )
        relations = known_relations(
            file, needs.relations, environment, changing=changing, given=given, memory=memory
        )
    return TextStreams(
        file,
        names,
        at_ticks,
        needs.log_atoms,
        unit,
        path,
        shown,
        values=values,
        relations=relations,
        on_error=on_error,
    )
