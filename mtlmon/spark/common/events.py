"""Reads rows as events: the driver checks the selected columns, and executors read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa

from mtlmon.checking.time_points import chosen_points
from mtlmon.errors import MtlmonError, TableError
from mtlmon.policy import parse_predicate
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.support.atom_names import listed
from mtlmon.support.option_names import SPARK
from mtlmon.support.time_columns import time_columns
from mtlmon.syntax.durations import Duration
from mtlmon.syntax.printer import written_name
from mtlmon.tables.columns.letters import LetterReader, Letters, environment_of
from mtlmon.tables.columns.times import Times
from mtlmon.tables.columns.usable import RowCheck
from mtlmon.tables.columns.wanted import Selection
from mtlmon.tables.formats.blocks import Block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.arrays.native import EventColumns
    from mtlmon.checking.partitions import Partitions
    from mtlmon.checking.time_points import ChosenPoints
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.common.row_counts import Reporter
    from mtlmon.support.option_names import OptionNames

OnError: TypeAlias = Literal["stop", "skip"]
"""What to do with rows that are not events: raise an error for the first, or skip them."""

HIDDEN = "\0"
"""The prefix of the names of columns that messages do not show."""

_SHOWN = 300
_NO_SKIPPING = (
    "such rows cannot be skipped where policies have different keys, as each key is read by itself"
)
KEPT_ERRORS = 10
"""How many errors of skipped rows are kept for the driver."""


class RowReader(Protocol):
    """Finds the rows that are events."""

    @property
    def errors(self) -> list[str]:
        """The errors of the first rows that were skipped."""

    @property
    def skipped(self) -> int:
        """The number of rows that were skipped."""

    def usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that are events, with all of its columns."""

    def report(self) -> None:
        """Send the counts to the driver when the task has ended or is stopped."""


class RowSource(Protocol):
    """How rows are read; picklable."""

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns that are needed."""

    def reader(self) -> RowReader:
        """Return what finds the rows that are events."""


class EventSource(NamedTuple):
    """How rows become events; picklable.

    Attributes:
        policies: the policies to monitor, with predicates over columns.
        selection: the selected columns and their uses.
        separator: the separator of names in a text in the column of events.
        time_unit: the unit of times, as for `mtlmon.tables.Times`.
        resolution: the unit of time-stamps, as for `mtlmon.tables.Times`.
        place: the name of the rows in messages.
        on_error: what to do with rows that are not events.
        reporter: sends counts of such rows to the driver; None if they are not needed.
        keys: the key columns of the traces; those of the selection are the keys of all policies,
            and no event has a null in any of them.
        counts_skipped: whether this source reports the rows that it skips; one of several sources
            that read the same rows does.
        has_messages: whether verdicts have a column of messages: whether any policy of the run has
            some.
        no_skipping: why a row on which a stream has no value cannot be skipped, or None.
        beside: what else a row has to be an event for; None if there is nothing.
        time_zone: the time zone of texts without an offset; None for the one of the policy file.
    """

    policies: Policies
    selection: Selection
    separator: str
    time_unit: str | None
    resolution: str | None
    place: str
    on_error: OnError = "stop"
    reporter: Reporter | None = None
    keys: tuple[str, ...] = ()
    counts_skipped: bool = True
    has_messages: bool = False
    no_skipping: str | None = None
    beside: RowSource | None = None
    time_zone: str | None = None

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns that are needed."""
        return self.selection.names

    def reader(self) -> EventReader:
        """Return what finds the rows that are events."""
        return EventReader(self)

    def reading_beside(self, beside: RowSource) -> EventSource:
        """Return the same for rows that have to be events for something else, too."""
        selection = self.selection.reading(beside.columns_read)
        return self._replace(selection=selection, beside=beside)

    def times(self) -> Times:
        """The conversion of times to time-stamps."""
        file = self.policies.file
        zone = self.time_zone or (None if file is None else file.time_zone)
        return Times(self.time_unit, None, self.resolution, zone)

    def environment(self) -> Environment:
        """What expressions need to know of the time column, its unit and the zone."""
        file = self.policies.file
        zone = None if file is None else file.zone
        found = environment_of(self.selection, self.times(), zone)
        return found._replace(relations=self.policies.looked_up or {})

    @property
    def has_streams(self) -> bool:
        """Whether something is computed from several rows, or for messages."""
        return self.policies.has_streams


def require_predicates(atoms: object) -> None:
    """Check that predicates are given by their atoms.

    Raises:
        MtlmonError: they are given in another way.
    """
    if atoms is not None and not isinstance(atoms, Mapping):
        raise MtlmonError(
            "atoms is a dictionary with a predicate for each atom, such as "
            f"{{'fast': 'speed > 120'}}, not a {type(atoms).__name__}"
        )


def event_source(
    policies: Policies,
    *,
    time: str | None,
    keys: Sequence[str] = (),
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    separator: str = "|",
    time_unit: str | None = None,
    resolution: str | None = None,
    time_zone: str | None = None,
    place: str = "DataFrame",
    on_error: OnError = "stop",
    options: OptionNames = SPARK,
) -> EventSource:
    """Select the columns that are needed, and check the arguments.

    Args:
        policies: the policies to monitor.
        time: the column of times; None for that of the policy file, or "ts".
        keys: the key columns.
        atoms: more predicates, by the name of the atom that each defines.
        event: the column of names of events; without it and without one in the policy file, atoms
            without a predicate are columns.
        separator: the separator of names in a text in the column of events.
        time_unit: the unit of times that are integers.
        resolution: the unit of time-stamps; by default the unit of the policies.
        time_zone: the time zone of texts without an offset; by default the one of the policy file.
        place: the name of the rows in messages.
        on_error: what to do with rows that are not events.
        options: how messages write arguments.

    Raises:
        PolicyError: a predicate is invalid.
        MtlmonError: an atom has two predicates or is unknown; a unit is unknown; or a column is not
            given by its name.
    """
    require_predicates(atoms)
    hints: dict[str, str] = {}
    declared = None if policies.file is None else policies.file.time
    if time is None and declared is None and (option := options.written("time")) is not None:
        hints[DEFAULT_TIME] = f"name their column with {option}"
    time, event = policies.time_column(time), policies.event_column(event)
    for argument, name in (("time", time), ("event", event), *(("key", key) for key in keys)):
        if name is not None:
            _require_name(argument, name)
    if len(names := time_columns(time)) > 1:
        listed_names = ", ".join(repr(name) for name in names)
        raise MtlmonError(
            f"times in several columns of a data frame, {time!r}: join them in a column first, as "
            f"in df.withColumn('at', concat_ws(' ', {listed_names}))"
        )
    if not separator:
        raise MtlmonError("the separator of event names is empty")
    if on_error not in ("stop", "skip"):
        raise MtlmonError(f"on_error is 'stop' or 'skip', not {on_error!r}")
    predicates = dict(policies.predicates)
    of_file = (*predicates, *policies.remembering)
    of_log = [name for name in policies.atoms if name not in of_file]
    written = {written_name(name) for name in of_file}.difference(of_log)
    for name, text in (atoms or {}).items():
        if name in written:
            raise MtlmonError(f"the atom {name!r} has a predicate in the policy file already")
        if name not in policies.atoms:
            known = listed(list(dict.fromkeys(map(written_name, policies.atoms))))
            raise MtlmonError(f"no policy has an atom {name!r}, only {known}")
        if not isinstance(text, str):
            raise MtlmonError(
                f"the predicate of the atom {name!r} is a {type(text).__name__}: write it as a "
                "text, such as 'speed > 120', or make it a Boolean column called "
                f"{name!r} first (DataFrame.withColumn)"
            )
        predicates[name] = parse_predicate(text, f"<atom {name}>", name)
    policies = policies._replace(predicates=predicates)
    columns = [column for predicate in predicates.values() for column in predicate.columns]
    columns += policies.columns
    defined = {*predicates, *policies.remembering}
    others = [name for name in policies.atoms if name not in defined]
    booleans = () if event is not None else others
    selection = Selection(time, event, keys, booleans, columns, options, hints=hints)
    source = EventSource(
        policies,
        selection,
        separator,
        time_unit,
        resolution or policies.unit,
        place,
        on_error,
        keys=tuple(keys),
        has_messages=policies.has_messages,
        time_zone=time_zone,
    )
    source.times()
    return source


def sources_of(source: EventSource, partitions: Partitions) -> list[EventSource]:
    """Return a source for each partition, with the policies that have its traces.

    All of them read all atoms, so that they agree on which rows are events.

    Args:
        source: the source of all policies, with all key columns.
        partitions: the partitions of the policies.
    """
    policies = source.policies
    no_skipping = source.no_skipping
    if len(partitions.columns) > 1:
        no_skipping = no_skipping or _NO_SKIPPING
    return [
        source._replace(
            policies=policies.chosen(
                [
                    policy
                    for policy, own in zip(policies.policies, partitions.of_policies, strict=True)
                    if own == number
                ]
            ),
            keys=columns,
            counts_skipped=number == 0,
            no_skipping=no_skipping,
        )
        for number, columns in enumerate(partitions.columns)
    ]


def _require_name(argument: str, name: object) -> None:
    """Raise MtlmonError if an argument is not the name of a column."""
    if not isinstance(name, str):
        raise MtlmonError(
            f"{argument} is the name of a column, not a {type(name).__name__}: make an "
            "expression a column of its own first (DataFrame.withColumn)"
        )


def key_names(key: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the key columns that a caller gives.

    Raises:
        MtlmonError: a column is given twice, or not by its name.
    """
    if key is None:
        return ()
    # iterating over a Column would never end
    names = tuple(key) if isinstance(key, Sequence) and not isinstance(key, str) else (key,)
    for name in names:
        _require_name("key", name)
    if len(set(names)) != len(names):
        raise MtlmonError("a key column is given twice")
    return names


class Events(NamedTuple):
    """The events of a batch of rows, with one event for each row.

    Attributes:
        time_stamps: the time-stamps of the events.
        letters: the values of their atoms.
        atoms: the names of the atoms, in the order of the letters.
        rows: the rows of the events, without those that are skipped.

    It is a `mtlmon.checking.time_points.PointBatch`.
    """

    time_stamps: NDArray[np.int64]
    letters: Letters
    atoms: tuple[str, ...]
    rows: pa.RecordBatch

    def events_of(self, atoms: Sequence[str], partition: int = 0) -> EventColumns:
        """Return the events for monitors of a formula with these atoms."""
        return self.letters.events(self.time_stamps, [self.atoms.index(name) for name in atoms])

    def numbers_of(self, partition: int) -> None:
        """Return None: the events have no numbers of traces."""

    def chosen(self, partition: int, clock: Clock) -> ChosenPoints:
        """Return the time-points of a clock."""
        ticks = None
        if clock.period is not None and self.letters.of_ticks:
            assert not isinstance(clock.period, Duration)
            ticks = self.letters.of_ticks[0].get(cast("When", clock.period))
        return chosen_points(self, self.atoms, partition, clock, ticks)

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        """Return the atoms as words of bits, with a row for each event."""
        return self.words()

    def shown_of(self, partition: int) -> Mapping[str, pa.Array]:
        """Return the values to show."""
        return self.letters.shown[0] if self.letters.shown else {}

    def of_rows(self, rows: NDArray[np.int64]) -> Events:
        """Return the events with these indices, without what depends on other rows."""
        is_kept = np.zeros(len(self.time_stamps), np.bool_)
        is_kept[rows] = True
        return self._replace(
            time_stamps=self.time_stamps[is_kept],
            letters=self.letters.of_rows(is_kept),
            rows=self.rows.filter(pa.array(is_kept)),
        )

    def words(self) -> NDArray[np.uint64]:
        """Return the atoms as words of bits, with a row for each event."""
        return self.letters.words(len(self.time_stamps), len(self.atoms))

    def own_words(self) -> NDArray[np.uint64]:
        """Return the atoms that depend on no other row, as `words` does."""
        own = Letters(self.letters.names, self.letters.booleans)
        return own.words(len(self.time_stamps), len(self.atoms))


class RefusedRows:
    """Counts the rows on which a stream has no value, or raises their errors.

    Args:
        source: how rows become events, and what to do with rows that are not.
        errors: takes the errors of the first rows.

    Attributes:
        count: the number of rows.
    """

    def __init__(self, source: EventSource, errors: list[str]) -> None:
        self._source = source
        self._errors = errors
        self.count = 0

    def add(self, batch: pa.RecordBatch, refused: Sequence[tuple[int, str]]) -> None:
        """Skip rows of a batch, each with the reason.

        Raises:
            TableError: rows are not to be skipped, or these cannot be.
        """
        is_skipped = self._source.on_error == "skip"
        why_not = self._source.no_skipping if is_skipped else None
        for row, reason in refused:
            shown = reason if why_not is None else f"{reason}; {why_not}"
            error = row_error(self._source, batch, row, shown)
            if why_not is not None or not is_skipped:
                raise error
            self.count += 1
            if len(self._errors) < KEPT_ERRORS:
                self._errors.append(str(error))


class EventReader:
    """Reads batches of rows as events.

    Attributes:
        skipped: the number of rows that were skipped.
        errors: the errors of the first of them.
        refused: the rows that streams refuse; they are among those that were skipped.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source
        policies, selection = source.policies, source.selection
        self.times = source.times()
        # No event is called like an atom that streams compute.
        read = [f" {name}" if name in policies.remembering else name for name in policies.atoms]
        environment = source.environment()
        letters = LetterReader(read, policies.predicates, selection, source.separator, environment)
        self._check = RowCheck(selection, self.times, letters, source.on_error, False)
        self.errors: list[str] = []
        self.refused = RefusedRows(source, self.errors)
        self._beside = None if source.beside is None else source.beside.reader()

    @property
    def skipped(self) -> int:
        before = 0 if self._beside is None else self._beside.skipped
        return before + self._check.skipped + self.refused.count

    def usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that are events; see `read`."""
        return self.read(batch).rows

    def read(self, batch: pa.RecordBatch) -> Events:
        """Read the events of a batch, which has the selected columns and can have others.

        Raises:
            TableError: a row has no valid time or key, in which case the message shows it; or the
                type of a column does not fit its use.
            PolicyError: a predicate does not fit the types of columns.
        """
        if self._beside is not None:
            batch = self._beside.usable(batch)
        rows = self._check.usable(Block(batch, self._source.place, 0, None))
        if rows.error is not None:
            raise self._of_row(batch, rows.error)
        if self._check.errors:
            room = KEPT_ERRORS - len(self.errors)
            self.errors += [str(self._of_row(batch, one)) for one in self._check.errors[:room]]
            self._check.errors.clear()
        return Events(rows.time_stamps, rows.letters, self._source.policies.atoms, rows.batch)

    def report(self, ties: int = 0, ticks: int = 0) -> None:
        """Send the counts to the driver when the task has ended or is stopped.

        Args:
            ties: the number of ties.
            ticks: the number of ticks that were left out.
        """
        if self._source.reporter is not None:
            skipped = self.skipped if self._source.counts_skipped else 0
            before = [] if self._beside is None else self._beside.errors
            self._source.reporter.report(ties, skipped + ticks, [*before, *self.errors])

    def _of_row(self, batch: pa.RecordBatch, error: TableError) -> TableError:
        assert error.row is not None
        return row_error(self._source, batch, error.row, error.message, error.column)


def row_error(
    source: EventSource, batch: pa.RecordBatch, row: int, message: str, column: str | None = None
) -> TableError:
    """Make the error for a row of a batch; the message shows the row."""
    shown = f"{message}; the row is {shown_row(batch, row)}"
    return TableError(shown, path=source.place, column=column)


def check_schema(source: EventSource, schema: pa.Schema) -> None:
    """Check that the types of columns fit their uses.

    Raises:
        TableError, PolicyError: a type does not fit; the message names the column.
    """
    source.selection.require(schema.names, source.place)
    for name in (source.selection.time_name, *source.selection.keys):
        if pa.types.is_null(schema.field(name).type):
            raise TableError("all values are null", path=source.place, column=name)
    empty = EventReader(source).read(pa.RecordBatch.from_pylist([], schema=schema))
    if source.has_streams:
        from mtlmon.spark.common.trace_streams import TraceStreams

        # policies have different keys, and there are no traces
        for _ in TraceStreams(source._replace(keys=())).add(empty, np.array([], np.uint32)):
            pass


def shown_row(batch: pa.RecordBatch | pa.Table, row: int) -> str:
    """Return the values of a row, for a message of one line."""
    (values,) = batch.slice(row, 1).to_pylist()
    shown = ", ".join(
        f"{name}={value!r}" for name, value in values.items() if not name.startswith(HIDDEN)
    )
    shown = " ".join(shown.split())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
