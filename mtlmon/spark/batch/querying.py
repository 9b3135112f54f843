"""Evaluates relations over validity intervals on data frames, in parts that do not meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mtlmon.errors import MtlmonError, TableError
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates.kinds import kind_of
from mtlmon.policy.validity.building import Relation
from mtlmon.relations.declared import ROWS, Plans, columns_of_rows
from mtlmon.relations.evaluation import coalesced_plan
from mtlmon.relations.partitioning import partitioning_columns
from mtlmon.relations.typing import Types
from mtlmon.spark.common.atom_rows import spark_schema
from mtlmon.spark.common.events import shown_row
from mtlmon.spark.common.frames import require_at_rest, require_columns
from mtlmon.spark.common.ordering import column_named
from mtlmon.support.option_names import SPARK
from mtlmon.tables.columns.wanted import Selection
from mtlmon.tables.querying import (
    declared_records,
    environment_of,
    evaluated,
    file_of,
    require_relation,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from mtlmon.policy import PolicyFile

__all__ = ["query", "records_of"]

_BATCH = 65_536
_PLACE = "DataFrame"
# The kinds of values that Spark and relations tell apart in the same way.
_EXACT = frozenset({"integer", "text", "boolean", "time"})


def query(
    df: DataFrame,
    policies: PolicyFile | str | os.PathLike[str] | Relation,
    relation: str | None = None,
    *,
    time: str | None = None,
    time_unit: str | None = None,
    resolution: str | None = None,
) -> DataFrame:
    """Evaluate a relation of a policy file on the rows of a data frame.

    The records are those that `mtlmon.query` finds for the same rows. Rows with different values in
    the columns by which a relation groups its records, which it joins for equality, or names
    behind `per`, do not meet: they are evaluated in different tasks, and each task holds its rows
    and records in memory. A relation without such columns is evaluated in a single task. Numbers
    with a fraction do not count as such columns.

    The tables that the file names are read here, and sent to each task.

    Args:
        df: the rows, in any order; not streaming.
        policies: a policy file as `parse_policies` returns it, the text of one, or the path of one
            as an object of `pathlib`; or a relation that `mtlmon.relations` builds.
        relation: the name of the relation, which reads rows of the log, unless it is built.
        time: the column of times: integers, timestamps or dates. By default, the policy file says,
            or it is `ts`.
        time_unit: the unit of times that are integers: "ns", "us", "ms", "s", "m", "h" or "d".
        resolution: the unit of time-stamps; by default the unit of the policy file, or else the
            unit of integers, and seconds for other times.

    Returns:
        The records in no order: `start` and `end`, integers in the unit of the time-stamps, where a
        null is no end, then the columns of the relation.

    Raises:
        MtlmonError: there is no such relation, it is not valid, it does not read the log, or a
            table or column cannot be read.
        OSError: a file cannot be opened.
    """
    require_at_rest(df, "query", "use foreachBatch, or write the rows to a table first")
    if relation is not None and not isinstance(relation, str):
        raise MtlmonError(f"relation is a name, not a {type(relation).__name__}")
    options: dict[str, Any] = {"time": time, "time_unit": time_unit, "resolution": resolution}
    return records_of(df, policies, relation, options)


def records_of(
    df: DataFrame,
    policies: PolicyFile | str | os.PathLike[str] | Relation,
    relation: str | None,
    options: dict[str, Any],
    *,
    mend: str = "remove such rows first",
) -> DataFrame:
    """Return what `query` does, for a data frame at rest.

    Args:
        df: the rows.
        policies: the policies and the relation are as for `query`.
        options: the others.
        mend: what to do with a row that has no time.
    """
    from pyspark.sql import functions as F

    options["option_names"] = SPARK
    if isinstance(policies, Relation):
        relation = policies.shown_name
    elif relation is None:
        raise MtlmonError("name a relation of the policy file")
    file = file_of(policies, options)
    require_relation(file, relation)
    if options.pop("pattern") is not None:
        raise MtlmonError(
            "the policy file has a line with pattern, which is for lines of text: extract columns "
            "first (pyspark.sql.functions.regexp_extract)"
        )
    wanted = columns_of_rows(file, relation)
    if wanted is None:
        raise MtlmonError(
            f"relation {relation} does not read the rows of the log: use mtlmon.query"
        )
    time: str = options["time"] or DEFAULT_TIME
    options["time"] = time
    names, has_all = wanted
    require_rows(df, time, [name for name in df.columns if has_all or name in names])
    whole = df.limit(0).toArrow().schema
    known = declared_records(file, relation, options)
    # find what does not fit the columns here rather than on executors
    evaluated(file, relation, whole.empty_table(), known, **options)
    read = [one for one in whole if has_all or one.name in names]
    rows = df.select(*map(column_named, dict.fromkeys([time, *(one.name for one in read)])))
    schemas = {one: pa.schema(list(table.schema)[2:]) for one, table in known.items()}
    schemas[ROWS] = pa.schema(read)
    environment = environment_of(file, options)
    plans = Plans(file, schemas, environment)
    types = Types(schemas, environment)
    plan = coalesced_plan(plans.of(relation), types)
    exact = [one.name for one in read if kind_of(one.type).name in _EXACT]
    keys = partitioning_columns(plan, ROWS, exact, types)
    columns = plans.schema(relation)
    shown = pa.schema(
        [pa.field("start", pa.int64(), nullable=False), pa.field("end", pa.int64()), *columns]
    )
    schema = pa.schema([whole.field(name) for name in rows.columns])
    part = PartOfRows(file, relation, known, options, schema, shown, mend, is_cut=bool(keys))
    # without the constant, Spark may split the partitions of a join before
    by_keys = (*map(column_named, keys), F.lit(0))
    parts = rows.repartition(*by_keys) if keys else rows.repartition(1)
    return parts.mapInArrow(part, spark_schema(shown))


def require_rows(df: DataFrame, time: str, names: Sequence[str]) -> None:
    """Check that there is a column of times, and that each of some others is the only one.

    Raises:
        TableError: there is none, or another one has the same name.
    """
    hint = "name their column with time=" if time == DEFAULT_TIME else None
    hints = {} if hint is None else {time: hint}
    require_columns(df, Selection(time, None, (), (), (), SPARK, hints, names), _PLACE)


class PartOfRows:
    """Evaluates a relation on a part of the rows; picklable, a function for `mapInArrow`.

    Args:
        file: the policy file.
        relation: the name of the relation.
        known: the tables that the file names.
        options: as for `evaluated`.
        rows: the columns of the rows.
        records: the columns of the result.
        mend: what to do with a row that has no time.
        is_cut: whether there are other parts, so that a part without rows has no records.
    """

    def __init__(
        self,
        file: PolicyFile,
        relation: str,
        known: dict[str, pa.Table],
        options: dict[str, Any],
        rows: pa.Schema,
        records: pa.Schema,
        mend: str,
        *,
        is_cut: bool,
    ) -> None:
        self._file = file
        self._relation = relation
        self._known = known
        self._options = options
        self._rows = rows
        self._records = records
        self._mend = mend
        self._is_cut = is_cut

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Evaluate the relation on the rows of all batches."""
        found = [batch for batch in batches if batch.num_rows]
        if self._is_cut and not found:
            return
        table = pa.Table.from_batches(found, found[0].schema if found else self._rows)
        del found
        try:
            answer = evaluated(
                self._file, self._relation, table, self._known, **self._options, sort=True
            )
        except TableError as error:
            if error.row is None:
                raise
            # rows of parts have no numbers
            message = error.message.partition("; on_error=")[0]
            shown = shown_row(table, error.row - 1)
            raise TableError(
                f"{message}; {self._mend}; the row is {shown}",
                path=_PLACE,
                column=error.column,
            ) from None
        yield from answer.cast(self._records).to_batches(_BATCH)
