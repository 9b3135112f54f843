"""Convert verdicts of several policies and keys to bytes: lines of text or JSON."""

from __future__ import annotations

from mtlmon.drive.native import PolicyLines
from mtlmon.support.lean_typing import Protocol
from mtlmon.text.byte_writer import ByteWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Literal

    from mtlmon.checking.late_origins import LateOrigins
    from mtlmon.checking.partitions import TraceKeys
    from mtlmon.checking.policy_facts import PolicyFacts
    from mtlmon.checking.row_tracking import RowTracker
    from mtlmon.drive.native import VerdictRows

__all__ = [
    "FIXED",
    "ROW_COLUMNS",
    "JsonLinesOutput",
    "LineTimes",
    "Output",
    "TextOutput",
    "TimeTexts",
    "Writer",
    "unique_columns",
    "unique_key_columns",
]

FIXED = ("policy", "time", "time_text", "offset", "verdict", "reference")
"""The members of a JSON line, and the columns of a table of verdicts, beside the key columns."""

ROW_COLUMNS = ("file", "row")
"""The columns that say which row a verdict is about."""


def unique_key_columns(key_columns: Sequence[str]) -> list[str]:
    """Return names for the key columns that differ from the names of the verdict columns.

    A name that is taken gets the prefix `key_`, repeated until the name is unique.
    """
    return unique_columns(key_columns, FIXED, "key_")


def unique_columns(
    columns: Sequence[str], fixed: Collection[str], prefix: str, *, ignores_case: bool = False
) -> list[str]:
    """Return names for columns that differ from fixed names.

    A name that is taken gets the prefix, repeated until the name is unique. If case is ignored, so
    does the second one of columns that differ in case only.
    """
    key = str.lower if ignores_case else str
    given = {key(name) for name in fixed}
    taken = {*given, *map(key, columns)}
    names = []
    for name in columns:
        unique = name
        while key(unique) in given or (unique != name and key(unique) in taken):
            unique = f"{prefix}{unique}"
        if ignores_case:
            given.add(key(unique))
        taken.add(key(unique))
        names.append(unique)
    return names


class Writer(Protocol):
    """Bytes that wait to be written to a file."""

    def __len__(self) -> int: ...

    def take(self) -> bytes:
        """Remove the bytes and return them."""

    def flush(self, file_descriptor: int, /) -> None:
        """Write the bytes, waiting as long as it takes."""


class Output(Protocol):
    """Takes verdicts and converts them to bytes."""

    @property
    def writer(self) -> Writer:
        """Holds the bytes to be written."""

    @property
    def lines(self) -> PolicyLines | None:
        """The sink for verdicts that need no `put`, or None if all of them need it."""

    def put(self, rows: VerdictRows) -> None:
        """Convert the verdicts, and remove them from the rows."""

    def close(self) -> None:
        """Write the end of the file to the writer; no more verdicts follow."""


class LineTimes(Protocol):
    """The notation of times in lines of text."""

    def lines(self, lines: bytes, fields: int, /) -> bytes:
        """Return lines with times in place of time-stamps, behind so many fields."""


class TimeTexts(Protocol):
    """The notation of times in a log."""

    @property
    def is_plain(self) -> bool:
        """Whether the log has the time-stamps themselves; known once rows have been read."""

    def texts(self, time_stamps: Iterable[int], /) -> list[str]:
        """Return time-stamps in the notation of the log."""


def _policy_lines(
    names: Sequence[str | None],
    keys: TraceKeys | None,
    *,
    format: Literal["text", "jsonl"] = "text",
    key_columns: tuple[bytes, ...] = (),
    endings: list[tuple[bytes, bytes]] | None = None,
) -> PolicyLines:
    if keys is None:
        return PolicyLines(list(names), format=format, endings=endings)
    return PolicyLines(
        list(names),
        list(keys.tables),
        format=format,
        key_columns=key_columns,
        partitions=list(keys.partitions.of_policies),
        places=keys.partitions.places,
        endings=endings,
    )


class TextOutput:
    """Writes lines of the form `[policy TAB][key TAB ...]ts:offset ...[TAB file:row]`.

    Args:
        names: the names of the policies, in order.
        keys: the keys of the traces, or None if there is one trace.
        row_tracker: finds the rows of verdicts, which are written behind them as `TAB file:row`;
            None to write none.
        times: writes times in place of time-stamps; None for time-stamps.
    """

    def __init__(
        self,
        names: Sequence[str | None],
        keys: TraceKeys | None = None,
        row_tracker: RowTracker | LateOrigins | None = None,
        times: LineTimes | None = None,
    ) -> None:
        self._lines = _policy_lines(names, keys)
        self._row_tracker = row_tracker
        self._times = times
        self._timed = ByteWriter()
        has_name = any(name is not None for name in names)
        self._place = has_name + (0 if keys is None else len(keys.partitions.all_columns))
        is_direct = row_tracker is None and times is None
        self.lines: PolicyLines | None = self._lines if is_direct else None
        self.writer: Writer = self._lines.writer if times is None else self._timed

    def put(self, rows: VerdictRows) -> None:
        """Write the verdicts as lines."""
        if self._row_tracker is None:
            self._lines.write(rows)
        else:
            found = self._row_tracker.found(rows)
            files = self._row_tracker.files.prefixes
            self._lines.write(rows, files=files, file_numbers=found.files, row_numbers=found.rows)
        if self._times is not None:
            lines = self._times.lines(self._lines.writer.take(), self._place)
            self._timed.write(memoryview(lines))

    def close(self) -> None:
        """Do nothing: lines need no end."""


class JsonLinesOutput:
    """Writes an object for each verdict, one per line, with a member for each column of a table.

    Args:
        names: the names of the policies, in order.
        keys: the keys of the traces, or None if there is one trace.
        times: the log's notation of times, or None if it has the time-stamps.
        facts: what the file says of the policies, which becomes further members; None for none.
    """

    def __init__(
        self,
        names: Sequence[str | None],
        keys: TraceKeys | None = None,
        times: TimeTexts | None = None,
        facts: PolicyFacts | None = None,
    ) -> None:
        members: tuple[bytes, ...] = ()
        columns: list[str] = []
        if keys is not None and keys.partitions.all_columns:
            import json

            columns = unique_key_columns(keys.partitions.all_columns)
            members = tuple(json.dumps(name).encode() for name in columns)
        endings = None
        if facts is not None:
            endings = facts.endings(facts.columns([*FIXED, *columns]))
        self._lines = _policy_lines(
            names, keys, format="jsonl", key_columns=members, endings=endings
        )
        self.lines: PolicyLines | None = self._lines if times is None else None
        self._times = times
        self._has_time_texts: bool | None = None
        self.writer: Writer = self._lines.writer

    def put(self, rows: VerdictRows) -> None:
        """Write the verdicts as lines."""
        if self._has_time_texts is None:
            self._has_time_texts = self._times is not None and not self._times.is_plain
        if self._times is None or not self._has_time_texts:
            self._lines.write(rows)
            return
        import numpy as np

        time_stamps = np.frombuffer(rows.time_stamps(), np.uint64)
        distinct, places = np.unique(time_stamps, return_inverse=True)
        texts = self._times.texts(distinct.tolist())
        self._lines.write(rows, texts, places.astype(np.uint32))

    def close(self) -> None:
        """Do nothing: lines need no end."""
