"""Changelogs in tables: verdicts, and later corrections of them; the latest verdicts of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.ordering import check_collations, column_named
from mtlmon.spark.common.verdicts import COLUMNS as VERDICT
from mtlmon.spark.common.verdicts import LATE_ATOMS, POLICY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATION = "op"
"""The column that says what has happened to the verdict of a time-point, one of `OPERATIONS`."""

REVISION = "revision"
"""The column with the number of the change, above those of all earlier ones of the trace."""

FINAL = "final"
"""The column with the time below which no row of a later batch is about the policy."""

ARRIVAL = "arrival"
"""The column with how far the log had come when the change was told, if that is wanted."""

IS_FINAL = "is_final"
"""The column of the latest verdicts that says whether a verdict cannot change any more."""

COLUMNS = (OPERATION, REVISION, FINAL)
"""The columns of a changelog, beside those of verdicts: the first is a text, others are numbers."""

OPERATIONS = ("insert", "update", "delete")
"""What can happen to a verdict, in the order of the numbers in `mtlmon.history.changes`."""


def latest_verdicts(changelog: DataFrame, *, as_of: int | None = None) -> DataFrame:
    """Return the latest verdict of each time-point of a changelog.

    Args:
        changelog: what a stream has written so far, with the columns of `monitor_stream` with a
            `lateness`, in this order; not streaming.
        as_of: take in only the rows that were written when the log had come to this time-stamp, or
            before: what was known then. The changelog is one of `arrival=True`.

    Returns:
        The newest revision of each time-point that has a verdict, with the columns of verdicts,
        `revision`, `arrival` if the changelog has it, and `is_final`, which says whether the
        verdict cannot change any more; with `as_of`, whether that was known then.
        Equivalences stay: `resolve_verdicts` resolves them. For policies with variables, these are
        all valuations that violate them or match.

    Raises:
        MtlmonError: a column is missing; `as_of` is no time-stamp.
    """
    from pyspark.sql import functions as F

    names = changelog.columns
    missing = [name for name in (POLICY, "time", "offset", *COLUMNS) if name not in names]
    if missing:
        raise MtlmonError(
            f"a changelog has the columns of monitor_stream with a lateness, and {missing[0]!r} is "
            "missing"
        )
    if as_of is not None:
        if isinstance(as_of, bool) or not isinstance(as_of, int):
            raise MtlmonError(f"as_of is a time-stamp, a number, not {as_of!r}")
        if names[names.index(FINAL) + 1 :][:1] != [ARRIVAL]:
            raise MtlmonError(
                f"the changelog does not say when it was written: as_of needs the column {ARRIVAL} "
                "of monitor_stream(..., arrival=True), behind the others"
            )
        changelog = changelog.where(column_named(ARRIVAL) <= as_of)
    check_collations(list(changelog.schema))
    point = names[names.index(POLICY) : names.index("offset") + 1]
    # the values of variables are part of the name of what violates a policy
    end = names.index(LATE_ATOMS if LATE_ATOMS in names else OPERATION)
    variables = [name for name in names[names.index("offset") + 1 : end] if name not in VERDICT]
    named = [*point, *variables]
    rest = [name for name in names if name not in (*named, LATE_ATOMS)]
    changes = changelog.where(column_named(OPERATION).isNotNull())
    newest = F.max_by(F.struct(*map(column_named, rest)), column_named(REVISION))
    # pyspark cannot look up columns whose names contain dots
    found = changes.groupBy(*map(column_named, named)).agg(newest.alias(_NEWEST))
    found = found.where(column_named(_NEWEST)[OPERATION] != OPERATIONS[2])
    of_policies = changelog.groupBy(column_named(POLICY).alias(_POLICY))
    bounds = of_policies.agg(F.max(FINAL).alias(_BOUND))
    is_same = column_named(POLICY).eqNullSafe(column_named(_POLICY))
    found = found.join(F.broadcast(bounds), is_same, "left")
    is_final = F.coalesce(column_named("time") < column_named(_BOUND), F.lit(False))
    kept = [name for name in names if name not in (OPERATION, FINAL, LATE_ATOMS)]
    return found.select(
        *(
            column_named(name)
            if name in named
            else column_named(_NEWEST).getField(name).alias(name)
            for name in kept
        ),
        is_final.alias(IS_FINAL),
    )


_NEWEST, _POLICY, _BOUND = "mtlmon_newest", "mtlmon_policy", "mtlmon_bound"
