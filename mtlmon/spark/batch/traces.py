"""Monitors partitions that are traces, on executors: lines of text, pairs or rows."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon._core import Monitor
from mtlmon.checking.text_logs import TextBatch
from mtlmon.drive.native import TextMonitor
from mtlmon.engine.native import read_atoms
from mtlmon.errors import EventTypeError, MtlmonError, TableError
from mtlmon.spark.batch.text_traces import TextTrace
from mtlmon.spark.common.events import event_source
from mtlmon.spark.common.monitoring import RowMonitors
from mtlmon.spark.common.trace_monitors import TraceMonitors
from mtlmon.verdicts.arrays import VerdictArray, verdict_type
from mtlmon.verdicts.native import Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtlmon._core import Verdict
    from mtlmon.spark.common.events import EventSource, OnError
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.common.row_counts import Reporter
    from mtlmon.spark.common.trace_monitors import EndTime, Found

# The number of elements that are taken from Spark at a time.
_BLOCK = 4096

_NO_STARTS = np.array([], np.uint32)


class Columns(NamedTuple):
    """Arguments of `event_source`, which say how rows become events."""

    time: str | None
    atoms: dict[str, str] | None
    event: str | None
    separator: str
    time_unit: str | None
    resolution: str | None
    on_error: OnError = "stop"
    time_zone: str | None = None


class PartitionTrace:
    """Monitors the elements of a partition; picklable, for `mapPartitionsWithIndex`.

    Args:
        policies: the policies to monitor.
        resolve: as for `monitor_partitions`.
        end_time: as for `monitor_partitions`.
        columns: how rows become events.
        reporter: sends counts of rows to the driver.
    """

    def __init__(
        self,
        policies: Policies,
        resolve: bool,
        end_time: EndTime,
        columns: Columns,
        reporter: Reporter | None = None,
    ) -> None:
        self._policies = policies
        self._resolve = resolve
        self._end_time = end_time
        self._columns = columns
        self._reporter = reporter

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[Any]:
        """Yield the verdicts of a partition, in a form that depends on its first element.

        Raises:
            EventTypeError: the type of an element is not that of an event.
            LogError, TableError, TimeStampError, EventError: an element is not an event.
        """
        rest = iter(elements)
        try:
            first = next(rest)
        except StopIteration:
            return iter(())
        whole = chain([first], rest)
        place = f"partition {index}"
        if isinstance(first, str | bytes | bytearray):
            return self._lines(whole, place, isinstance(first, str))
        if isinstance(first, tuple):
            if hasattr(first, "__fields__"):
                return self._rows(whole, place)
            if len(first) == 2:
                return self._pairs(whole, place)
        raise EventTypeError(
            f"{place}: an event is a line of a log, a pair (time_stamp, atoms) or a Row, not "
            f"{type(first).__name__}"
        )

    def _lines(self, lines: Iterator[Any], place: str, is_text: bool) -> Iterator[Any]:
        """Convert lines of a log to lines of verdicts: texts to texts, and bytes to bytes."""
        policies = self._policies
        blocks = _loads(lines, place, is_text)
        if policies.has_conditions:
            yield from self._computed_lines(blocks, place, is_text)
            return
        monitors = []
        for policy in policies.policies:
            monitor = Monitor(policy.program, policies.mode)
            text = TextMonitor(monitor, path=place, resolve=self._resolve)
            monitors.append((_prefix(policies, policy.name), text))
        for loaded in blocks:
            for prefix, text in monitors:
                text.load(loaded)
                yield from _written(text, prefix, is_text)
        for prefix, text in monitors:
            text.end(self._end_time)
            yield from _written(text, prefix, is_text)

    def _computed_lines(self, blocks: Iterator[bytes], place: str, is_text: bool) -> Iterator[Any]:
        """Do the same where conditions, streams or ticks have to be computed."""
        trace = TextTrace(self._policies, place)
        for found in self._computed(trace, (one for part in blocks for one in trace.load(part))):
            prefix = _prefix(self._policies, found.name)
            for verdict in VerdictArray(np.frombuffer(found.records, verdict_type())):
                line = f"{prefix}{verdict}"
                yield line if is_text else line.encode()

    def _computed(self, trace: TextTrace, parts: Iterator[TextBatch]) -> Iterator[Found]:
        """Yield the verdicts on the parts of a trace, and on its end."""
        monitors = TraceMonitors(self._policies, self._resolve, self._end_time)
        for part in chain(parts, trace.end(self._end_time)):
            yield from monitors.feed(part, _NO_STARTS)
        yield from monitors.finish(trace.clock or 0)

    def _pairs(self, pairs: Iterator[Any], place: str) -> Iterator[Any]:
        """Convert pairs to verdicts, with the name of the policy if there are several."""
        policies = self._policies
        if policies.has_conditions:
            trace = TextTrace(policies, place)
            for found in self._computed(trace, _loaded_pairs(trace, pairs, place)):
                yield from self._named(found.name, found.records)
            return
        monitors = [
            (policy.name, Monitor(policy.program, policies.mode), Resolution())
            for policy in policies.policies
        ]
        for block, done in _blocks_of_pairs(pairs, place):
            for name, monitor, resolution in monitors:
                verdicts = _verdicts(monitor, block, place, done)
                yield from self._given(name, resolution, verdicts)
        for name, monitor, resolution in monitors:
            yield from self._given(name, resolution, monitor.finish(self._end_time))

    def _given(
        self, name: str | None, resolution: Resolution, verdicts: Sequence[Verdict]
    ) -> Iterable[Any]:
        if self._resolve:
            verdicts = resolution.push(verdicts)
        return verdicts if len(self._policies.policies) == 1 else [(name, one) for one in verdicts]

    def _rows(self, rows: Iterator[Any], place: str) -> Iterator[Any]:
        """Convert rows to verdicts, with the name of the policy if there are several."""
        source = self.source(place)._replace(reporter=self._reporter)
        monitors = RowMonitors(source, self._resolve, self._end_time)
        same = np.array([], np.uint32)
        try:
            done = 0
            while block := list(islice(rows, _BLOCK)):
                _check_rows(block, source, done)
                done += len(block)
                events = monitors.read(_batch(monitors.columns, block))
                for piece in monitors.pieces(events, same):
                    for found in monitors.feed(piece, same):
                        yield from self._named(found.name, found.records)
            for piece in monitors.rest():
                for found in monitors.feed(piece, same):
                    yield from self._named(found.name, found.records)
            for found in monitors.finish():
                yield from self._named(found.name, found.records)
        finally:
            monitors.report()

    def _named(self, name: str | None, records: bytes) -> Iterator[Any]:
        is_alone = len(self._policies.policies) == 1
        for verdict in VerdictArray(np.frombuffer(records, verdict_type())):
            yield verdict if is_alone else (name, verdict)

    def source(self, place: str) -> EventSource:
        """Return how rows become events."""
        columns = self._columns
        return event_source(
            self._policies,
            time=columns.time,
            atoms=columns.atoms,
            event=columns.event,
            separator=columns.separator,
            time_unit=columns.time_unit,
            resolution=columns.resolution,
            time_zone=columns.time_zone,
            place=place,
            on_error=columns.on_error,
        )


def _loads(lines: Iterator[Any], place: str, is_text: bool) -> Iterator[bytes]:
    """Yield parts of a log of lines.

    Raises:
        EventTypeError: a line has another type than the first one.
    """
    kinds = (str,) if is_text else (bytes, bytearray)
    done = 0
    while block := list(islice(lines, _BLOCK)):
        _check_types(block, kinds, "line of text" if is_text else "line of bytes", place, done)
        done += len(block)
        yield "\n".join([*block, ""]).encode() if is_text else b"\n".join([*block, b""])


def _blocks_of_pairs(
    pairs: Iterator[Any], place: str
) -> Iterator[tuple[list[tuple[int, Any]], int]]:
    """Yield blocks of pairs, each with the number of the pairs before it.

    Raises:
        EventTypeError: an element is no pair.
    """
    done = 0
    while block := list(islice(pairs, _BLOCK)):
        _check_types(block, (tuple, list), "pair", place, done)
        yield block, done
        done += len(block)


def _verdicts(
    monitor: Monitor, block: Sequence[tuple[int, Any]], place: str, done: int
) -> list[Verdict]:
    """Return the verdicts that a block of pairs brings.

    Raises:
        TableError: a pair is not an event.
    """
    try:
        return list(monitor(block))
    except MtlmonError as error:
        number = getattr(error, "index", None)
        if number is None:
            raise
        raise TableError(
            f"{error}; the event is {block[number]!r}", path=place, row=done + number + 1
        ) from None


def _loaded_pairs(trace: TextTrace, pairs: Iterator[Any], place: str) -> Iterator[TextBatch]:
    """Yield pairs as events, with all that is computed of them.

    Raises:
        EventTypeError, TableError: an element is not an event.
        MtlmonError: integers overflow.
    """
    # refuses what is not an event
    check = Monitor("true")
    places = {name: place for place, name in enumerate(trace.atoms)}
    known, words = places.keys(), max(1, (len(places) + 63) // 64)
    for block, done in _blocks_of_pairs(pairs, place):
        _verdicts(check, block, place, done)
        letters = (sum(1 << places[one] for one in read_atoms(atoms) & known) for _, atoms in block)
        masks = b"".join(letter.to_bytes(8 * words, "little") for letter in letters)
        times = np.array([time_stamp for time_stamp, _ in block], np.int64).tobytes()
        yield from trace.take(TextBatch(times, masks, trace.atoms))


def _check_types(
    block: Sequence[Any], kinds: tuple[type, ...], name: str, place: str, done: int
) -> None:
    """Check that all elements have the same form as the first one of the partition.

    Raises:
        EventTypeError: an element has another form.
    """
    for number, element in enumerate(block, done + 1):
        if not isinstance(element, kinds):
            raise EventTypeError(
                f"{place}: element {number} is of type {type(element).__name__}, and the first one "
                f"is a {name}: elements are all of one form"
            )


def _check_rows(block: Sequence[Any], source: EventSource, done: int) -> None:
    """Check that all elements are rows with the selected columns.

    Raises:
        EventTypeError, TableError: an element is not such a row.
    """
    _check_types(block, (tuple,), "Row", source.place, done)
    fields = None
    for number, row in enumerate(block, done + 1):
        if getattr(row, "__fields__", None) == fields and fields is not None:
            continue
        fields = getattr(row, "__fields__", None)
        if fields is None:
            raise EventTypeError(
                f"{source.place}: element {number} is a tuple without names of columns, and the "
                "first one is a Row: elements are all of one form"
            )
        source.selection.require(fields, f"{source.place}: row {number}")


def _prefix(policies: Policies, name: str | None) -> str:
    """The beginning of lines with verdicts of a policy; empty if there is only one policy."""
    return "" if len(policies.policies) == 1 else f"{name}\t"


def _written(text: TextMonitor, prefix: str, is_text: bool) -> Iterator[Any]:
    """Yield the lines of verdicts for the loaded block."""
    more = True
    while more:
        more = text.run()
        lines = text.writer.take()
        if is_text:
            yield from (prefix + line for line in lines.decode().splitlines())
        else:
            before = prefix.encode()
            yield from (before + line for line in lines.splitlines())


def _batch(names: Sequence[str], rows: Sequence[Any]) -> pa.RecordBatch:
    """Convert rows of pyspark to a record batch with some of their columns."""
    return pa.RecordBatch.from_pydict({name: [row[name] for row in rows] for name in names})
