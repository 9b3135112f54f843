"""Passes time-points of MonPoly's logs to the engine of policies with variables."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from mtlmon.errors import LogError
from mtlmon.relational.cells import to_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.monpoly.logs import LogReader, TimePoint
    from mtlmon.relational.native import RelationalEngine

_AT_ONCE = 256


class PointFeeder:
    """Adds time-points to those that wait for an engine.

    Args:
        engine: the engine.
    """

    def __init__(self, engine: RelationalEngine) -> None:
        self._points = engine.points
        self._texts = engine.texts
        self._atoms = {
            atom.name: (number, atom.kinds) for number, atom in enumerate(engine.plan.named_atoms)
        }

    def add(self, point: TimePoint) -> None:
        """Add a time-point."""
        rows: list[tuple[int, list[int]]] = []
        for name, given in point.rows.items():
            if name not in self._atoms:
                # only a LET that nothing uses has it
                continue
            number, kinds = self._atoms[name]
            for row in given:
                cells = [
                    to_cell(value, kind, self._texts)
                    for value, kind in zip(row, kinds, strict=True)
                ]
                # the reader of the log lets nothing pass that has no cell
                rows.append((number, [cell for cell in cells if cell is not None]))
        self._points.add(point.time_stamp, rows)


class PointReader:
    """Reads a log from blocks of bytes into the time-points that wait for an engine.

    Args:
        log: reads the log.
        feeder: takes its time-points.

    Attributes:
        point_count: the number of time-points that were read.
    """

    def __init__(self, log: LogReader, feeder: PointFeeder) -> None:
        self.point_count = 0
        self._log = log
        self._feeder = feeder
        self._points: Iterator[TimePoint] = iter(())
        self._error: LogError | None = None

    def load(self, block: memoryview) -> None:
        """Take a block of the log, whose time-points `read` will add."""
        self._points = self._log.feed(bytes(block))

    def load_end(self) -> None:
        """Say that the log ends."""
        self._points = self._log.finish()

    def unload(self) -> None:
        """Do nothing: blocks are copied."""

    def read(self) -> bool:
        """Add some time-points; return whether there may be more in the block.

        Raises:
            LogError: a time-point cannot be read. Those before it have been added by earlier calls.
        """
        if self._error is not None:
            raise self._error
        count = self.point_count
        try:
            for point in islice(self._points, _AT_ONCE):
                self._feeder.add(point)
                self.point_count += 1
        except LogError as error:
            if count == self.point_count:
                raise
            # what comes before is checked first
            self._error = error
        return self.point_count - count == _AT_ONCE or self._error is not None
