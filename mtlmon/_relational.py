"""The public monitor of policies with variables, which takes rows and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mtlmon.engine.guarding import guarded
from mtlmon.errors import MtlmonError, TimeStampError
from mtlmon.relational.atoms import refuse_points, require_rows_of_tables, used_atoms
from mtlmon.relational.monitor import RelationalMonitor as MonitorOfRows
from mtlmon.syntax.bounds import LATER

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.relational.monitor import Answer
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.events import TableEvents
    from mtlmon.tables.relation_traces import RelationTraces
    from mtlmon.tables.relations import RelationRows

__all__ = ["RelationalMonitor"]


class RelationalMonitor(MonitorOfRows):
    """Monitors the policies with variables of a file.

    Args:
        policy: a policy file as `parse_policies` returns it, or its text.
        verdicts: "false" for violations and the matches of a `find`, "all" for the time-points
            without violations, too.
        slices: in how many slices the log is monitored, on threads; None for one monitor. The
            answers are the same.
        statistics: what is known of the log, for the plan of the slices.
        slice_seed: other seeds make other hash functions for the slices.
        counts_left_sides: whether `matched` tells how often the left sides of implications are
            matched. Slices do not count that.

    Raises:
        PolicyError: a policy cannot be evaluated, or the file has none with variables.

    >>> monitor = RelationalMonitor("publish(u, f) IMPLIES ONCE[0,10] approve(f)")
    >>> monitor.step(3, {"approve": [("report",)]})
    []
    >>> for answer in monitor.step(5, {"publish": [("alice", "draft"), ("bob", "report")]}):
    ...     print(answer.time_stamp, answer.value, answer.valuation)
    5 False {'u': 'alice', 'f': 'draft'}
    """

    @guarded
    def start(self, schema: pa.Schema) -> None:
        """Take the types of variables from the columns of a table, if nothing has come yet."""
        self._start(schema)

    def _start(self, schema: pa.Schema) -> None:
        if self._engine is None:
            self._use(*self._made(schema))

    def feed(
        self,
        table: Any,
        *,
        time_points: Literal["row", "stamp"] = "row",
        **options: Any,
    ) -> list[Answer]:
        """Take in the rows of tables; the conditions of atoms say which rows are theirs.

        If the monitor has seen nothing yet, the types of variables are those of the columns.

        Args:
            table: a table or files, as `mtlmon.tables.open_tables` takes them.
            time_points: "row" if each row is a time-point, "stamp" if all rows of one time-stamp
                are. Then all rows of a time-stamp must be in one table.
            options: how `open_tables` reads the table, as for `mtlmon.check` without `key`.

        Returns:
            What is known now, in the order of time-points.

        Raises:
            TimeStampError: the first time-stamp is below that of an earlier time-point, or equal
                to it where time-stamps are time-points.
            PolicyError: an atom with arguments has no condition, or a condition does not fit the
                columns.
            MtlmonError: a row cannot be read, or integers overflow.
        """
        from mtlmon.tables.given_options import OF_EVENTS, require_known

        require_known("RelationalMonitor.feed", options, OF_EVENTS)
        with self._guard:
            return self._fed(table, time_points, options)

    def _fed(
        self, table: Any, time_points: Literal["row", "stamp"], options: dict[str, Any]
    ) -> list[Answer]:
        by_stamp = time_points == "stamp"
        if time_points not in {"row", "stamp"}:
            raise MtlmonError(f"time_points is 'row' or 'stamp', not {time_points!r}")
        if by_stamp:
            refuse_points(self._file)
        from mtlmon.tables.relation_traces import relation_events

        names = used_atoms(self._file)
        require_rows_of_tables(self._file, names)
        unit = self._file.unit
        if unit is not None and unit != LATER:
            options.setdefault("resolution", unit)
        events, traces = relation_events(table, self._file, names, options)
        answers: list[Answer] = []
        with events:
            rows: RelationRows | None = None
            for batch in events:
                if rows is None:
                    rows = self._rows_for(events, traces, batch, by_stamp=by_stamp)
                self._name(events, traces, batch, by_stamp=by_stamp)
                rows.load(batch)
                answers += self._taken(rows)
            if rows is not None:
                rows.load_end()
                answers += self._taken(rows)
        return answers

    def _rows_for(
        self,
        events: TableEvents,
        traces: RelationTraces,
        batch: EventBatch,
        *,
        by_stamp: bool,
    ) -> RelationRows:
        """Return what makes time-points of the batches, the first of which is given."""
        self._start(events.schema)
        engine = self._known()
        if len(batch):
            first = int(batch.time_stamps[0])
            self._checked(first)
            if by_stamp and engine.point_count and first == engine.clock:
                raise TimeStampError(
                    f"the time-stamp {first} is that of an earlier time-point: the rows of a "
                    "time-stamp come in one table"
                )
        rows, _ = traces.rows(
            engine.plan, engine.points, None, by_stamp=by_stamp, texts=engine.texts
        )
        return rows

    def _name(
        self, events: TableEvents, traces: RelationTraces, batch: EventBatch, *, by_stamp: bool
    ) -> None:
        """Name the time-points of a batch among those of their keys, if policies have some."""
        names = self._names
        if names is None:
            return
        from mtlmon.checking.key_points import keys_of_rows

        partitions = [traces.columns.index(one) for one in names.used]
        keys = keys_of_rows(batch, partitions, events.key_tables)
        names.add_rows(np.asarray(batch.time_stamps, np.int64), keys, by_stamp=by_stamp)

    def _taken(self, rows: RelationRows) -> list[Answer]:
        """Take in the rows that are loaded."""
        answers: list[Answer] = []
        engine = self._known()
        more = True
        try:
            while more:
                more = rows.read()
                engine.keeps_texts = more
                engine.advance()
                answers += self._answers()
        finally:
            engine.keeps_texts = False
        return answers
