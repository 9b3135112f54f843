"""Logs on their way through the policies of a check, for the pump; also with checkpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mtlmon.checking import TextLog
from mtlmon.cli.failure import Failure, note
from mtlmon.cli.pump import LogEnds
from mtlmon.cli.report import plural
from mtlmon.errors import SnapshotError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mtlmon.checking import LogCheck
    from mtlmon.checking.outputs import Output
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.cli.arguments import Options
    from mtlmon.cli.files import Writer
    from mtlmon.cli.findings import Findings
    from mtlmon.cli.pump import EndTime
    from mtlmon.tables import TableEvents
    from mtlmon.tables.events import EventBatch

    Source = TextLog | TableEvents

__all__ = ["PolicyWork", "unreadable"]

# after so many rows of a live log a column that none of them has is worth a word
ABSENT_ROWS = 100
SMALLEST_STEP_EVENTS = 1 << 8

MAGIC = b"mtlmon policies\x01"
PARTS = 4
SIZE_BYTES = 8
"""Of the size of each part of a snapshot."""


class NoWriter:
    """Where verdicts go that nobody wants."""

    def __len__(self) -> int:
        return 0

    def take(self) -> bytes:
        return b""

    def flush(self, file_descriptor: int, /) -> None:
        """Write nothing."""


class PolicyWork:
    """The events of logs on their way through a check.

    output: what makes bytes of verdicts; None when nothing is to be written.
    findings: what remembers violations for explanations, if that is wanted.
    logs: what the files of the log are, by name.

    Attributes:
        is_complete: the log was read to its end.
    """

    def __init__(
        self,
        check: LogCheck,
        source: Source,
        output: Output | None,
        findings: Findings | None,
        logs: Mapping[str, os.stat_result],
        options: Options,
    ) -> None:
        self.check = check
        self.source = source
        self.output = output
        self.findings = findings
        self.logs: Iterable[os.stat_result] = logs.values()
        self.name = next(iter(logs)) if len(logs) == 1 else f"the {plural(len(logs), 'log')}"
        self.options = options
        self.writer: Writer = NoWriter() if output is None else output.writer
        self.is_complete = False
        self.batches: Iterator[TextBatch | EventBatch] = iter(source)
        # the last row, which no line feed ends
        self.tail: TextBatch | EventBatch | None = None
        self.has_ended = False
        self.has_noted_absent = source.size is not None or isinstance(source, TextLog)

    @property
    def wait(self) -> Callable[[int], None]:
        """Called before reading from a log that may have nothing to read yet."""
        assert self.source.wait is not None
        return self.source.wait

    @wait.setter
    def wait(self, wait: Callable[[int], None]) -> None:
        self.source.wait = wait

    @property
    def is_stopped(self) -> bool:
        return self.check.is_stopped

    @property
    def event_count(self) -> int:
        return self.check.position

    @property
    def bytes_read(self) -> int:
        return self.source.bytes_read

    # ---- the work --------------------------------------------------------------------------

    def read(self) -> Iterator[None]:
        while not self.check.is_stopped and (batch := self.next_batch()) is not None:
            if batch.is_tail:
                self.tail = batch
                return
            yield from self.feed(batch)
            self.note_absent()

    def next_batch(self) -> TextBatch | EventBatch | None:
        """The next events; None at the end of the log.

        Raises Failure when the log cannot be read.
        """
        try:
            return next(self.batches, None)
        except OSError as error:
            raise unreadable(error) from None

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        for _ in self.check.feed(batch, self.source):
            self.take()
            yield

    def end(self, end_time: EndTime) -> Iterator[None]:
        self.has_ended = True
        while self.tail is not None:
            batch, self.tail = self.tail, None
            yield from self.feed(batch)
            if not self.check.is_stopped:
                self.tail = self.next_batch()
        if not self.check.is_stopped:
            self.check.end(self.source, end_time)
            self.take()
            yield
        self.is_complete = not self.check.is_stopped

    def take(self) -> None:
        """Take out the verdicts."""
        if self.findings is not None:
            self.findings.take()
        if self.output is not None and len(self.check.verdicts):
            self.output.put(self.check.verdicts)

    def note_absent(self) -> None:
        """Say of a live log, whose end may never come, which columns its rows do not have."""
        source = self.source
        if self.has_noted_absent or isinstance(source, TextLog) or source.rows < ABSENT_ROWS:
            return
        self.has_noted_absent = True
        for message in source.absent_columns:
            note(message)

    def finish(self) -> None:
        """Give the writer the verdicts that are left, and what ends the file."""
        self.take()
        if self.output is not None:
            self.output.close()

    def close(self) -> None:
        self.check.close()

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self.check.position

    @property
    def amount(self) -> str:
        return plural(self.check.position, "event")

    @property
    def is_settled(self) -> bool:
        return not self.has_ended

    def settle(self) -> bool:
        return False

    def log_digest(self) -> bytes:
        assert self.source.digest is not None
        return self.source.digest.up_to(self.check.position)

    def snapshot(self) -> bytes:
        keys = b"" if self.source.keys is None else self.source.keys.snapshot()
        findings = None if self.findings is None else self.findings.snapshot()
        settings = [value for _, value in self.settings()]
        parts = [
            json.dumps(settings).encode(),
            self.check.snapshot(),
            keys,
            json.dumps(findings).encode(),
        ]
        return MAGIC + b"".join(len(one).to_bytes(SIZE_BYTES, "big") + one for one in parts)

    def restore(self, snapshot: bytes, output_size: int) -> None:
        settings, check, keys, findings = parts_of(snapshot)
        for (what, value), before in zip(self.settings(), json.loads(settings), strict=True):
            if value != before:
                raise SnapshotError(f"it was made {what}")
        self.check.restore(check)
        if self.source.keys is not None:
            self.source.keys.restore(keys)
            if len(self.source.keys) < self.check.key_count:
                raise damaged()
        if self.findings is not None:
            self.findings.restore(json.loads(findings))
        if output_size and self.options.output_format == "csv":
            from mtlmon.tables.outputs import CsvOutput

            assert isinstance(self.output, CsvOutput)
            self.output.has_header = True

    def settings(self) -> list[tuple[str, object]]:
        """What must be as it was, with the words that say that it is not."""
        options = self.options
        return [
            ("from tables" if not options.is_table else "from a text log", options.is_table),
            ("with another --output-format", options.output_format),
            ("with other columns of --key", options.key_columns),
            (f"with{'out' if options.explain else ''} --explain", options.explain),
        ]

    def skip(self) -> Iterator[None]:
        yield from self.source.skip(self.check.position)
        assert self.source.digest is not None
        if self.source.digest.size < self.check.position:
            raise LogEnds

    def work_in_small_steps(self, events: int) -> None:
        self.check.slice_events = min(self.check.slice_events, max(SMALLEST_STEP_EVENTS, events))


def parts_of(snapshot: bytes) -> list[bytes]:
    """The parts that `PolicyWork.snapshot` has joined.

    Raises SnapshotError when these are not such parts.
    """
    if not snapshot.startswith(MAGIC):
        raise SnapshotError("it was made by a run over a text log with a single policy")
    parts = []
    place = len(MAGIC)
    while place < len(snapshot):
        first = place + SIZE_BYTES
        place = first + int.from_bytes(snapshot[place:first], "big")
        parts.append(snapshot[first:place])
    if len(parts) != PARTS or place != len(snapshot):
        raise damaged()
    return parts


def damaged() -> SnapshotError:
    return SnapshotError("the snapshot is damaged: it does not describe a state")


def unreadable(error: OSError) -> Failure:
    name = f" {error.filename}" if error.filename else " the log"
    return Failure(f"cannot read{name}: {error.strerror or error}")
