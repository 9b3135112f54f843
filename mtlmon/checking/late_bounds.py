"""About how much memory histories need, which remember events so that late ones can come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.analysis.reach import decision_delay
from mtlmon.checking.shared_rows import LEAST_SHARING
from mtlmon.history.native import event_bytes, trace_bytes
from mtlmon.policy.needs import needs_of, remembers
from mtlmon.policy.predicates.time_points import when_in_units
from mtlmon.relations.revised import LEAST_SPACING
from mtlmon.streams import bounds
from mtlmon.streams.bounds import TEXT_BYTES, Kept
from mtlmon.streams.round_rows import WHOLE_SPACING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.relations.bounds import KeptChanges, KeptRecords, SaidRecords
    from mtlmon.streams.bounds import Load

    class OfRows(Protocol):
        """A relation of the rows of a log."""

        @property
        def kept(self) -> Sequence[KeptRecords]:
            """What is kept between batches."""

        @property
        def kept_changes(self) -> Sequence[KeptChanges]:
            """What is kept of its changes."""

        @property
        def kept_answer(self) -> KeptChanges:
            """What its records are made of that go on at one time."""

        @property
        def extent(self) -> SaidRecords:
            """What it has over some time."""

        @property
        def schemas(self) -> tuple[pa.Schema, pa.Schema]:
            """The columns that it reads, and its own."""


__all__ = [
    "changes_of_rows",
    "changes_of_table",
    "history_kept",
    "ids_kept",
    "late_rows_kept",
    "query_kept",
    "relation_kept",
    "said_within",
]

_NO_RATE = "nothing limits the rows that late ones can change: add assume rate per key <= N/s"
_NO_RATE_OF_LOG = "nothing limits the rows that late ones can change: add assume rate <= N/s"
_NO_KEYS = "nothing limits the keys: add assume keys <= N"
_NO_DELAY = "nothing limits how long verdicts wait: give each future operator an upper bound"
_NO_END = "records that are kept until a row ends them have no limit: valid 1d has one"
# The rows of queries that are evaluated again although they are final, and the records, as
# `Revisions` has them.
_SPARE_QUERY_ROWS = 64
_SPARE_QUERY_RECORDS = 1_024
# How many spans of batches of relations are apart, as `RevisedRelations` has them; a span takes
# some bytes, too.
_MOST_SPANS = 17
_SPAN_BYTES = 2_048
# The words of a pending time-point in a state.
_WORDS = 3
# What the chunks of rows take, as `RoundRows` has them: what a row takes beside its columns and
# atoms, the share of a row in a state of the whole program, and what a chunk with it takes.
_NAME_BYTES = 20
_STATE_BYTES = 24
_CHUNK_BYTES = 1024
# The same where each trace has states: the rows of the first chunk of a trace that could be
# forgotten, what a row takes with its share of states and chunks, and a trace itself. As many rows
# as there are, and some more, are kept although they have gone.
_ROWS_OF_TRACE = 16
_PLACE_BYTES = 100
_TRACE_BYTES = 400
_SPARE_ROWS = 4_096
# A tick takes its time and its trace.
_TICK_BYTES = 12
# The bytes of an id: in a dictionary of Python with room for more, with its number and what is
# known of its event.
_ID_BYTES = 320
# The same of what a row has been, by which equal rows are found.
_CONTENT_BYTES = 512


class Counted(NamedTuple):
    """How many records or changes there are at most.

    Attributes:
        number: how many; None if there is no limit.
        reason: why there is none.
    """

    number: int | None
    reason: str = ""


def said_within(said: SaidRecords, load: Load, length: int, more: int = 0) -> Counted:
    """Return how many records a relation of rows has within a length of time.

    Args:
        said: what it has.
        load: the rows of the log.
        length: the length, in time units.
        more: how many rows there are before this time that have records, too.
    """
    if said.reason:
        return Counted(None, said.reason)
    count = said.of_tables
    for span in said.spans:
        rows = None if span is None else load.rows(length + span)
        if rows is None:
            return Counted(None, _NO_END if span is None else _NO_RATE_OF_LOG)
        count += rows + more
    return Counted(count)


def changes_of_rows(said: SaidRecords, load: Load, length: int) -> Counted:
    """Return how often a relation of rows changes within a length of time."""
    found = said_within(said, load, length)
    return found if found.number is None else Counted(2 * found.number)


def changes_of_table(times: NDArray[np.int64], length: int) -> Counted:
    """Return how many of the times of changes, in order, are within a length of time."""
    behind = np.searchsorted(times, times + np.int64(length), "right")
    return Counted(int((behind - np.arange(len(times))).max(initial=0)))


def relation_kept(relation: OfRows, load: Load, lateness: int, remembered: int | None) -> Kept:
    """Return what a relation of rows keeps at most so that late rows can change it.

    Args:
        relation: the relation.
        load: the rows of the log.
        lateness: how late rows may be, in time units.
        remembered: how many records all relations of rows remember at once; None for no limit.
    """
    name, words = "--lateness", "rows that late ones can change, and records"
    rows = load.rows(lateness)
    if rows is None:
        return Kept(name, words, None, None, _NO_RATE_OF_LOG)
    if remembered is None:
        return Kept(name, words, None, None, _NO_END)
    # a chunk can have twice as many before it is cut, and so much can be below the bound
    room = max(LEAST_SPACING, remembered)
    more = 2 * room + bounds.LARGEST_BATCH
    said = said_within(relation.extent, load, lateness, more)
    now = said_within(relation.extent, load, 0)
    if said.number is None or now.number is None:
        return Kept(name, words, None, None, said.reason or now.reason)
    read, own = relation.schemas
    of_row = sum(_width(kind) for kind in read.types) + _NAME_BYTES
    of_record = sum(_width(kind) for kind in own.types) + 2 * _NAME_BYTES
    chunks = (rows + more) // room + 2
    # what is valid where spans and chunks are cut is in both, and each chunk has a state
    of_states = sum(
        (bounds.records_within(one, load) or 0) * (one.number_bytes + TEXT_BYTES * one.texts)
        for one in relation.kept
    )
    total = (rows + more) * of_row + (said.number + (chunks + _MOST_SPANS) * now.number) * of_record
    total += chunks * (_CHUNK_BYTES + of_states) + _MOST_SPANS * _SPAN_BYTES
    return Kept(name, f"{rows:,} {words}", total, total)


def query_kept(relation: OfRows, load: Load, lateness: int) -> Kept:
    """Return what a query keeps at most so that late rows can revise its records.

    These are the rows that are not final, and the records that were told and are not.

    Args:
        relation: what is asked for.
        load: the rows of the log.
        lateness: how late rows may be, in time units.
    """
    name, words = "--lateness", "rows that late ones can change, and records"
    rows = load.rows(lateness)
    if rows is None:
        return Kept(name, words, None, None, _NO_RATE_OF_LOG)
    more = bounds.LARGEST_BATCH + _SPARE_QUERY_ROWS
    said, reason = bounds.numbers_within(relation.kept_answer, load, rows, lateness)
    if said is None:
        return Kept(name, words, None, None, reason)
    told = said.valid + said.begun + _SPARE_QUERY_RECORDS
    read, own = relation.schemas
    of_row = sum(_width(kind) for kind in read.types) + _NAME_BYTES
    of_record = sum(_width(kind) for kind in own.types) + 2 * _NAME_BYTES
    # rows in order of time are copies of those that have come
    total = 2 * (rows + more) * of_row + told * of_record
    return Kept(name, f"{rows:,} {words}", total, total)


def history_kept(
    file: PolicyFile,
    policy: Policy,
    load: Load,
    lateness: int,
    pending: int | None,
    changes: Callable[[int], Counted] | None = None,
) -> Kept:
    """Return about how much the histories of a policy's traces remember.

    Rows, or ticks, are remembered while late ones can change their verdicts. What windows and
    streams need comes on top, as `late_rows_kept` says, and so do ids.

    Args:
        file: the policies.
        policy: one of them.
        load: the rows of the log.
        lateness: how late rows may be, in time units.
        pending: how many time-points of a trace are pending at once; None if nothing limits them.
        changes: for a policy on changes, how many there are at most within a length of time.
    """
    formula = policy.formula
    name = "--lateness"
    delay = decision_delay(formula)
    if delay is None:
        return Kept(name, "all rows", None, None, _NO_DELAY)
    length = lateness + delay
    period = _period_of(file, policy)
    if changes is not None:
        # each is in one trace
        rows, reason = changes(length)
        all_rows = rows
        words = f"change{'' if rows == 1 else 's'} that late rows can concern"
    elif period is not None:
        rows, reason = length // period + 1, ""
        all_rows = None if load.traces is None else load.traces * rows
        words = "ticks that late rows can change"
    else:
        rows, reason = load.rows_of_trace(length), _NO_RATE
        all_rows = load.rows(length)
        words = "rows that late ones can change"
    if rows is None:
        return Kept(name, words, None, None, reason)
    of_event = event_bytes(len(formula.atoms))
    of_trace = trace_bytes(len(formula.atoms), _WORDS * min(rows, pending or 0))
    per_key = of_trace + rows * of_event
    words = f"{rows:,} {words}"
    if load.traces is None or all_rows is None:
        return Kept(name, words, per_key, None, _NO_KEYS)
    return Kept(name, words, per_key, load.traces * of_trace + all_rows * of_event)


def late_rows_kept(
    file: PolicyFile,
    policies: Sequence[Policy],
    schema: pa.Schema,
    load: Load,
    lateness: int,
    states: Sequence[Kept],
    changes: Sequence[Counted] = (),
    *,
    by_trace: bool,
) -> Kept | None:
    """Return about what is remembered of rows on which windows and streams depend.

    Args:
        file: the policies.
        policies: those of one partition.
        schema: the columns of the log.
        load: the rows of the log.
        lateness: how late rows may be, in time units.
        states: what the streams and windows of the partition keep.
        changes: how many changes of relations there are within the lateness, for each relation
            whose changes are time-points.
        by_trace: whether each trace has states of its own.

    Returns:
        The rows with their atoms, and the states between them. If no atom depends on other rows,
        the names of rows that several policies share; None if there are none.
    """
    names = [name for policy in policies for name in _atoms_of(file, policy)]
    periods = [period for policy in policies if (period := _period_of(file, policy)) is not None]
    has_ticks = bool(periods or changes)
    depends = has_ticks or any(remembers(file, file.atoms[name].expression) for name in names)
    if not depends and len(policies) < LEAST_SHARING:
        return None
    name = "--lateness"
    words = "rows on which windows and streams depend" if depends else "rows that policies share"
    rows = load.rows_of_trace(lateness)
    if rows is None:
        return Kept(name, words, None, None, _NO_RATE)
    needs = needs_of(file, names)
    columns = [field for field in schema if field.name.partition("\0")[0] in needs.columns]
    of_row = sum(_width(field.type) for field in columns) + len(needs.log_atoms) + len(names)
    of_row += _NAME_BYTES
    of_ticks = sum((lateness // period + 1) * (_TICK_BYTES + len(names)) for period in set(periods))
    of_changes = 0
    for counted in changes:
        if counted.number is None:
            return Kept(name, words, None, None, counted.reason)
        of_changes += counted.number * (_TICK_BYTES + len(names))

    def kept(rows: int, traces: int, state: int) -> int:
        # the history that admits rows knows each by a number
        own = rows * event_bytes(1) + traces * (of_ticks + trace_bytes(1))
        if not depends:
            return own
        # the first chunk of all rows, or of a trace, may have rows that could be forgotten; of the
        # states one is at the end, one where rows are computed again, and one between chunks
        more = 3 * state
        if by_trace:
            held = rows + min(traces, rows) * _ROWS_OF_TRACE
            more += traces * _TRACE_BYTES + held * _PLACE_BYTES
        else:
            # rows that come together stay together
            held = rows + WHOLE_SPACING + bounds.LARGEST_BATCH + state // _STATE_BYTES
            more += _CHUNK_BYTES + held * (_PLACE_BYTES + _CHUNK_BYTES // WHOLE_SPACING)
        return own + of_changes + more + (2 * held + _SPARE_ROWS) * of_row

    of_states = [one.per_key for one in states]
    for one in states:
        if one.per_key is None:
            return Kept(name, words, None, None, one.reason)
    per_key = kept(rows, 1, sum(size for size in of_states if size is not None))
    words = f"{rows:,} {words}"
    all_rows = load.rows(lateness)
    if load.traces is None or all_rows is None:
        return Kept(name, words, per_key, None, _NO_KEYS)
    total = 0
    for one in states:
        if one.total is None:
            return Kept(name, words, per_key, None, one.reason)
        total += min(one.total, load.traces * (one.per_key or 0))
    return Kept(name, words, per_key, kept(all_rows, load.traces, total))


def ids_kept(load: Load, lateness: int, *, depends: bool) -> Kept:
    """Return about how much the ids of rows take, which are known for twice the lateness.

    Args:
        load: the rows of the log.
        lateness: how late rows may be, in time units.
        depends: whether atoms depend on other rows.
    """
    rows = load.rows_of_trace(2 * lateness)
    words = "ids of rows that can be taken back"
    if rows is None:
        return Kept("--id", words, None, None, _NO_RATE)
    of_row = _ID_BYTES + TEXT_BYTES + (_CONTENT_BYTES if depends else 0)
    words = f"{rows:,} {words}"
    all_rows = load.rows(2 * lateness)
    if all_rows is None:
        return Kept("--id", words, rows * of_row, None, _NO_KEYS)
    return Kept("--id", words, rows * of_row, all_rows * of_row)


def _atoms_of(file: PolicyFile, policy: Policy) -> list[str]:
    """The atoms of a policy that the file declares, and the one that chooses its rows."""
    clock = policy.clock
    names = [*policy.formula.atoms, *([clock.atom] if clock and clock.atom else [])]
    return [name for name in names if name in file.atoms]


def _period_of(file: PolicyFile, policy: Policy) -> int | None:
    """The period of the ticks of a policy, in time units; None if it is on rows."""
    clock = policy.clock
    if clock is None or clock.period is None or clock.waits:
        return None
    when = when_in_units(clock.period, file.environment.unit)
    return when if isinstance(when, int) else None


def _width(kind: pa.DataType) -> int:
    """The bytes of a cell."""
    try:
        bits: int = kind.bit_width
    except ValueError:
        # a text has no width of its own
        return TEXT_BYTES + 8
    return max(1, bits // 8) + 1
