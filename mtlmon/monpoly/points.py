"""Passes time-points of MonPoly's logs to the engine of policies with variables.

The log's end is one more time-point; `RelationalRun.end_with_point` leaves its answers out. A
checkpoint is at the beginning of the first time-point that is not complete, so it needs no state of
the reader but numbers of lines.
"""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING

from mtlmon.errors import LogError, SnapshotError
from mtlmon.monpoly.logs import Place
from mtlmon.relational.cells import number_texts, to_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.monpoly.logs import LogReader, TimePoint
    from mtlmon.monpoly.plain import PlainLines
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan

_AT_ONCE = 256
# How long a part of a time-point can be that is read again with the next block.
_LONGEST = 1 << 20


class PointFeeder:
    """Adds time-points to those that wait for an engine.

    Args:
        made: the plan of the engine.
        points: these time-points.
    """

    def __init__(self, made: Plan, points: PointBlock) -> None:
        self._points = points
        self._texts = made.texts
        # The number of each atom, the kinds of its arguments, and which of these are texts.
        self._atoms: dict[str, tuple[int, tuple[Kind, ...], list[int]]] = {}
        for number, atom in enumerate(made.named_atoms):
            places = [place for place, kind in enumerate(atom.kinds) if kind.name == "text"]
            self._atoms[atom.name] = number, atom.kinds, places

    @property
    def is_empty(self) -> bool:
        """Whether no time-points wait."""
        return not len(self._points)

    def add(self, points: Sequence[TimePoint]) -> None:
        """Add time-points.

        PERF: a run of the command over 100,000 time-points with four texts each takes 1.45 s of
        processor time this way, and 1.75 s if each text is numbered by itself.
        """
        texts = [
            str(row[place])
            for point in points
            for name, given in point.rows.items()
            if name in self._atoms
            for row in given
            for place in self._atoms[name][2]
        ]
        numbers = iter(number_texts(self._texts, texts))
        for point in points:
            rows: list[tuple[int, list[int]]] = []
            for name, given in point.rows.items():
                if name not in self._atoms:
                    # only a LET that nothing uses has it
                    continue
                atom, kinds, _ = self._atoms[name]
                for row in given:
                    cells = [
                        next(numbers) if kind.name == "text" else to_cell(value, kind, self._texts)
                        for value, kind in zip(row, kinds, strict=True)
                    ]
                    # the reader of the log lets nothing pass that has no cell
                    rows.append((atom, [cell for cell in cells if cell is not None]))
            self._points.add(point.time_stamp, rows)


class PointReader:
    """Reads a log from blocks of bytes into the time-points that wait for an engine.

    Args:
        log: reads the log.
        feeder: takes its time-points.
        plain: reads the plain lines at the beginning of the log, if there are any.

    Attributes:
        point_count: the number of time-points that were read.
        lines: what reads the log.
        keeps_text: whether `unfinished` is asked for; set it before the first block.
    """

    def __init__(
        self, log: LogReader, feeder: PointFeeder, plain: PlainLines | None = None
    ) -> None:
        self._log = self.lines = log
        self._feeder = feeder
        self._plain = plain
        # Whether all lines so far have been plain, and what stands behind the last of them.
        self._is_plain = plain is not None
        self._rest = b""
        self._has_lines = False
        self._points: Iterator[TimePoint] = iter(())
        self._other_count = 0
        self._error: LogError | None = None
        self._has_end = False
        # PERF: a time-point of many blocks would be copied with each of them
        self.keeps_text = False
        # What has been loaded, from the beginning of a time-point on, and where that is.
        self._text, self._begun = b"", 0

    @property
    def unfinished(self) -> bytes:
        """What has been read behind the position: the time-point that is not complete."""
        return self._text[self.position - self._begun :]

    def load_unfinished(self, text: bytes) -> None:
        """Take that again, behind `restore`."""
        self.load(memoryview(text))
        while self.read():
            pass

    @property
    def point_count(self) -> int:
        return self._other_count + (0 if self._plain is None else self._plain.point_count)

    @property
    def position(self) -> int:
        """How many bytes of the log have been read, up to the beginning of a time-point."""
        return self._place.position

    @property
    def last_time_stamp(self) -> int:
        """The last time-stamp before the position."""
        return self._place.last

    @property
    def _place(self) -> Place:
        if self._plain is not None and (self._is_plain or self._has_lines):
            return self._plain.place
        return self._log.place

    @property
    def is_settled(self) -> bool:
        """Whether there can be a snapshot: no time-points or error wait, and it is not the end."""
        return self._feeder.is_empty and self._error is None and not self._has_end

    def snapshot(self) -> bytes:
        """Return what is known after the first `position` bytes of the log, for `restore`."""
        is_plain = self._is_plain or self._has_lines
        return json.dumps([is_plain, self.point_count, *self._place]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; the next block to load is the log from `position` on.

        Raises:
            SnapshotError: the bytes are no snapshot of such a reader.
        """
        try:
            is_plain, count, *numbers = json.loads(snapshot)
            place = Place(*numbers)
        except (TypeError, ValueError):
            raise SnapshotError("the snapshot is of a log that is not one of MonPoly") from None
        self._other_count = count
        self._begun = place.position
        self._is_plain = is_plain and self._plain is not None
        if self._plain is not None:
            self._plain.begin_at(place)
        self._log.begin_at(place)

    def load(self, block: memoryview) -> None:
        """Take a block of the log, whose time-points `read` will add."""
        data = bytes(block)
        if self.keeps_text:
            self._text, self._begun = self.unfinished + data, self.position
        if self._plain is not None and self._is_plain:
            data = self._rest + data
            end = self._plain.load(data)
            self._has_lines = end > 0
            self._log.pass_over(data, end, self._plain.last_time_stamp)
            self._rest = data[end:]
            self._is_plain = len(self._rest) < _LONGEST and b"@" not in self._rest[1:]
            if self._is_plain:
                # a part of one time-point, which may be plain with the next block
                return
            data, self._rest = self._rest, b""
        self._points = self._log.feed(data)

    def load_end(self) -> None:
        """Say that the log ends."""
        self._has_end = True
        self._points = chain(self._log.feed(self._rest), self._log.finish())
        self._rest = b""

    def read(self, most: int = _AT_ONCE) -> bool:
        """Add up to `most` time-points; return whether there may be more in the block.

        Raises:
            LogError: a time-point cannot be read. Those before it have been added by earlier calls.
        """
        if self._has_lines:
            assert self._plain is not None
            self._has_lines = self._plain.read(most)
            return self._has_lines or not self._is_plain
        if self._error is not None:
            raise self._error
        points: list[TimePoint] = []
        try:
            points.extend(islice(self._points, most))
        except LogError as error:
            # what comes before is checked first
            self._error = error
        if self._error is not None and not points:
            raise self._error
        self._feeder.add(points)
        self._other_count += len(points)
        return len(points) == most or self._error is not None
