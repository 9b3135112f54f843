"""`check_tables` of earlier versions, as a run of `mtlmon.check`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from mtlmon.engine.guarding import guarded
from mtlmon.run.library import Run, advised, started
from mtlmon.support.stack_levels import levels_inside
from mtlmon.tables.given_options import OF_EVENTS, require_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from mtlmon.checking.log_check import LogCheck
    from mtlmon.run.formula_judge import FormulaJudge
    from mtlmon.run.judging import PolicyWork
    from mtlmon.run.keywords import CheckOptions
    from mtlmon.run.library import Policies
    from mtlmon.tables.events import TableEvents
    from mtlmon.tables.formats.files import Tables

__all__ = ["TableCheck", "check_tables"]

_OWN = (
    "mode",
    "bdd",
    "verdicts",
    "resolve",
    "end_time",
    "advance_every",
    "max_memory",
    "time_points",
    "rows",
    "vacuous",
    "key",
)


class TableCheck(Run):
    """A run whose iterator gives record batches, as that of earlier versions did."""

    @guarded
    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    @property
    def log_check(self) -> LogCheck:
        """The monitors, if policies have no variables."""
        return cast("FormulaJudge", cast("PolicyWork", self._host.judging).pace).check

    @property
    def events(self) -> TableEvents:
        """The events that the rows are read as."""
        return cast("TableEvents", cast("PolicyWork", self._host.judging).source)

    @property
    def remarks(self) -> list[str]:
        """Remarks about values that may be meant differently, by the rows so far."""
        return list(self.events.remarks)


def check_tables(
    tables: Tables | Sequence[Tables], policies: Policies, **options: Any
) -> TableCheck:
    """Check policies on tables in one pass: `mtlmon.check` in the words of earlier versions.

    Args:
        tables: as `mtlmon.check` takes them.
        policies: likewise.
        options: those of `mtlmon.check` that `check_tables` had. Empty cells are null, also beside
            other `null_values`.

    Raises:
        MtlmonError: the arguments are contradictory or unknown, or a formula is not valid.
        OSError: a file cannot be opened.
    """
    require_known("check_tables", options, (*OF_EVENTS, *_OWN))
    warnings.warn(
        "check_tables(tables, policies, ...) is now mtlmon.check(policies, tables, ...), whose "
        "batches() are the record batches",
        DeprecationWarning,
        stacklevel=levels_inside(),
    )
    made = spec, steps, _, _ = started(
        "check_tables", policies, tables, cast("CheckOptions", options)
    )
    try:
        with advised(spec):
            # opens the files
            next(steps)
    except Exception as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    return TableCheck(*made)
