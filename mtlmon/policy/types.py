"""Finds the types of a file's streams and conditions, with or without the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.environment import UTC
from mtlmon.policy.predicates.expression import NUMBER, ORDERED, TypedColumn
from mtlmon.policy.predicates.inference import find_kinds
from mtlmon.policy.renaming import expressions_of
from mtlmon.support.time_columns import time_columns
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.errors import FormulaError
    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.kinds import Kind


def with_streams(
    file: PolicyFile, environment: Environment, schema: pa.Schema | None = None
) -> tuple[Environment, list[FormulaError]]:
    """Find the types of the values of streams, and check their expressions.

    Args:
        file: the policy file.
        environment: what its expressions stand among, without streams.
        schema: the columns of the table, or None if they are not known yet.

    Returns:
        The environment with the streams, and the errors in the order of the streams.
    """
    streams = {
        name: file.predicate(one.expression, name, "stream") for name, one in file.streams.items()
    }
    declared = {
        name: kinds.DECLARED[one.kind] for name, one in file.streams.items() if one.kind is not None
    }
    found, errors = find_kinds(streams, schema, environment, declared)
    environment = environment._replace(streams=found)
    keys: dict[str, tuple[Kind, ...]] = {}
    for name, stream in file.streams.items():
        of_keys = []
        for key, _ in stream.per:
            part = file.predicate(key, name, "stream")
            of_keys.append(check(part, schema, environment, wanted=None, is_of_one_row=False))
        if stream.per:
            pairs = zip(of_keys, stream.per, strict=True)
            keys[name] = tuple(checked.kinds[id(key)] for checked, (key, _) in pairs)
        errors += [error for checked in of_keys for error in checked.errors]
    environment = environment._replace(keys=keys)
    for name, stream in file.streams.items():
        on = None if stream.clock is None else stream.clock.condition
        own = environment._replace(
            parameters={
                one: kind
                for (_, one), kind in zip(stream.per, keys.get(name, ()), strict=True)
                if one is not None
            }
        )
        for condition in (on, stream.start, stream.end):
            if condition is not None:
                part = file.predicate(condition, name, "stream")
                errors += check(part, schema, own, is_of_one_row=False).errors
    return environment, errors


def guessed_streams(
    file: PolicyFile, environment: Environment, schema: pa.Schema
) -> frozenset[str]:
    """Return the streams whose numbers are integers or floats by the rows that a block has.

    Their values come from cells that are read as numbers, of a type that nothing declares, and
    would be floats if one of these had a fraction.

    Args:
        file: the policy file.
        environment: what its expressions stand among, without streams.
        schema: the columns of a block.
    """
    import pyarrow as pa

    guessed = {
        one.name.read_as
        for one in postorder(*expressions_of(file))
        if one.operator in ops.COLUMNS
        and isinstance(one.name, TypedColumn)
        and one.name.type in {NUMBER, ORDERED}
    }
    places = [
        place
        for place, field in enumerate(schema)
        if field.name in guessed and kinds.kind_of(field.type).name in {"integer", "float", "null"}
    ]
    if not places:
        return frozenset()
    found = []
    for data_type in (pa.int64(), pa.float64()):
        typed = schema
        for place in places:
            typed = typed.set(place, pa.field(schema.field(place).name, data_type))
        found.append(with_streams(file, environment._replace(streams={}), typed)[0].streams)
    return frozenset(
        name
        for name, kind in found[0].items()
        if kind.name == "integer" and found[1][name].name == "float"
    )


def errors_with_columns(
    file: PolicyFile, environment: Environment, schema: pa.Schema
) -> list[FormulaError]:
    """Check all streams and atoms of a file with the columns of a table.

    Args:
        file: the policy file.
        environment: what its expressions stand among, without streams.
        schema: the columns of the table.
    """
    environment, errors = with_streams(file, environment, schema)
    for predicate in file.atoms.values():
        errors += check(predicate, schema, environment, is_of_one_row=False).errors
    return errors


def with_times(file: PolicyFile, environment: Environment, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table with times in the time column, if expressions need them there.

    Texts in the time column are texts for expressions, unless that is an error which is none if
    they are times.

    Args:
        file: the policy file.
        environment: what its expressions stand among.
        schema: the columns of the table.
    """
    schema = _with_joined_times(schema, environment.time)
    place = -1 if environment.time is None else schema.get_field_index(environment.time)
    if place < 0 or kinds.kind_of(schema.field(place).type).name != "text":
        return schema
    import pyarrow as pa

    environment = environment._replace(streams={})
    best, fewest = schema, len(errors_with_columns(file, environment, schema))
    # Texts that times are compared with have an offset if the times have a zone, and else none.
    for zone in (UTC, None):
        if fewest:
            field = pa.field(schema.field(place).name, pa.timestamp("us", zone))
            timed = schema.set(place, field)
            count = len(errors_with_columns(file, environment, timed))
            if count < fewest:
                best, fewest = timed, count
    return best


def _with_joined_times(schema: pa.Schema, time: str | None) -> pa.Schema:
    """Add the column of times that is joined from several ones, if all of these are there."""
    columns = () if time is None else time_columns(time)
    if len(columns) < 2 or time in schema.names or not set(columns) <= set(schema.names):
        return schema
    import pyarrow as pa

    return schema.append(pa.field(time, pa.string()))
