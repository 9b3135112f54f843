"""The loops over changelogs: text in, text out, with the interface of the native loops."""

# PERF: 3 microseconds a line, 0.45 of them in the regular expression and 0.5 in making rows. Named
# tuples as rows took 0.3 more. `TextResolver`, which is native but knows no changes, takes 0.1.

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.changelog.lines import ChangelogLines, Kind, UnfitLineError
from mtlmon.changelog.points import Points
from mtlmon.engine.native import MemoryLimit
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from mtlmon.changelog.lines import Row
    from mtlmon.changelog.points import Point

__all__ = ["ChangelogLoop", "LatestVerdicts", "ResolvedChanges"]

_WORDS = {True: b" true", False: b" false", None: b""}
# How many rows are taken in before the caller can write, look for signals and check the memory.
_ROWS_AT_ONCE = 4096


class ChangelogLoop:
    """Reads a changelog.

    Args:
        path: its name in messages.
        verdicts: which verdicts to write: "all", "false" or "none".
        memory: the limit on what is held; None means no limit.
        as_of: which lines count, as `ChangelogLines` takes it.

    Attributes:
        lines: reads the changelog.
        writer: holds what is written until it is flushed.
        memory: the limit, which also knows how much is held.
        true_count: the number of time-points that are true.
        false_count: the number of those that are false.
        open_count: the number of time-points that are open although something was said of them.
        bound: verdicts below this time-stamp are final.
    """

    is_stopped = False

    def __init__(
        self,
        *,
        path: str = "<verdicts>",
        verdicts: Literal["all", "false", "none"] = "all",
        memory: MemoryLimit | None = None,
        as_of: int | None = None,
    ) -> None:
        self.lines = ChangelogLines(path, as_of)
        self.writer = ByteWriter()
        self.memory = MemoryLimit() if memory is None else memory
        self.points = Points()
        self.true_count = self.false_count = self.open_count = 0
        self._wanted = {"all": (True, False, None), "false": (False,), "none": ()}[verdicts]
        self._rows: Iterator[Row] = iter(())
        self._written: list[bytes] = []
        self._is_ended = False
        self._take: Callable[[Row], object] = self.points.take

    @property
    def bound(self) -> int:
        return self.points.bound

    @property
    def event_count(self) -> int:
        """The number of time-points that have a Boolean verdict."""
        return self.true_count + self.false_count

    def load(self, block: memoryview) -> None:
        """Load a block of bytes for `run`."""
        self.lines.load(bytes(block))
        self._rows = self.lines.rows()

    def load_end(self) -> None:
        """End the text: `run` then reads a last line that has no line feed."""
        self.lines.load_end()
        self._rows = self.lines.rows()

    def unload(self) -> None:
        """Release the block; nothing of it is held."""

    def end(self, end_time: object = None) -> None:
        """End the text: `run` then writes what is left; `end_time` is ignored."""
        self._is_ended = True

    def run(self) -> bool:
        """Process part of what is loaded; return whether there is more to do.

        Raises:
            LogError: a line cannot be read, or cannot come after those before it. The writer has
                what was known before it.
            MemoryLimitError: more memory is held than allowed.
        """
        count = 0
        try:
            for count, row in enumerate(self._rows, 1):
                if row[0] == Kind.FINAL:
                    self.settle(row[3], row[1])
                else:
                    self._take(row)
                if count == _ROWS_AT_ONCE:
                    break
            if self._is_ended and count < _ROWS_AT_ONCE:
                self.settle(None)
        except UnfitLineError as error:
            raise self.lines.failure(str(error)) from None
        finally:
            self.writer.write(b"".join(self._written))
            self._written.clear()
            self.memory.note("in_order", self.points.held_bytes)
        self.memory.check()
        return count == _ROWS_AT_ONCE

    def settle(self, bound: int | None, prefix: bytes = b"") -> None:
        """Forget the time-points below a bound, or all at the end, and count them.

        Args:
            bound: the bound; None at the end.
            prefix: the fields of the time-points that are meant; without fields, all are.
        """
        for points in self.points.drop(bound, prefix):
            self.write_settled(points)
            for point in points:
                if point.answers is not None and point.value is None:
                    self.false_count += point.is_violated
                elif point.value is not None:
                    self.true_count += point.value
                    self.false_count += not point.value
                elif point.reference is not None:
                    self.open_count += 1

    def write_settled(self, points: Iterable[Point]) -> None:
        """Write the time-points of one time, of which no more comes."""


class LatestVerdicts(ChangelogLoop):
    """Collapses a changelog into the latest verdict of each time-point, in order of time.

    Args:
        path: the name of the changelog in messages.
        verdicts: which verdicts to write: "all", "false" or "none".
        memory: the limit on what is held; None means no limit.
        resolve: whether to write Boolean verdicts in place of equivalences.
        only_final: whether to write only what can no longer change.
        as_of: which lines count, as `ChangelogLines` takes it.

    Attributes:
        left_out: the number of verdicts that were not written because they may still change.
    """

    def __init__(
        self,
        *,
        path: str = "<verdicts>",
        verdicts: Literal["all", "false", "none"] = "all",
        resolve: bool = False,
        only_final: bool = False,
        memory: MemoryLimit | None = None,
        as_of: int | None = None,
    ) -> None:
        super().__init__(path=path, verdicts=verdicts, memory=memory, as_of=as_of)
        self.left_out = 0
        self._resolve = resolve
        self._only_final = only_final

    def settle(self, bound: int | None, prefix: bytes = b"") -> None:
        if bound is None and self._only_final:
            for points in self.points.drop(None):
                self.left_out += sum(point.value is not None for point in points)
                for point in points:
                    self.left_out += sum((point.answers or {}).values())
            return
        super().settle(bound, prefix)

    def write_settled(self, points: Iterable[Point]) -> None:
        for point in points:
            reference = None if self._resolve else point.reference
            name = b"%s%d:%d" % (point.prefix, point.time_stamp, point.offset)
            if reference is not None:
                if None in self._wanted and not reference.is_withdrawn:
                    self._written.append(
                        b"%s = %d:%d\n" % (name, reference.time_stamp, reference.offset)
                    )
            elif point.value is not None and point.value in self._wanted:
                self._written.append(b"%s%s\n" % (name, _WORDS[point.value]))
            if point.answers is not None and self._wanted:
                self._written += [
                    b"%s%s\n" % (name, text)
                    for text in sorted(point.answers)
                    if point.answers[text]
                ]


class ResolvedChanges(ChangelogLoop):
    """Makes of a changelog one without equivalences.

    A revision of a time-point gives lines for those that are equivalent to it. With `verdicts`
    "false", a line is written if the verdict is or was false.
    """

    held_count = 0

    def __init__(
        self,
        *,
        path: str = "<verdicts>",
        verdicts: Literal["all", "false", "none"] = "all",
        memory: MemoryLimit | None = None,
    ) -> None:
        super().__init__(path=path, verdicts=verdicts, memory=memory)
        self.points = Points(self.changed)
        self._take = self.take

    def take(self, row: Row) -> None:
        """Take in a row about a time-point."""
        start = len(self._written)
        self._take_in(row)
        self._mark(start)

    def _mark(self, start: int) -> None:
        """Let lines say when their row was written, if it says so."""
        if (arrival := self.lines.arrival) is not None:
            new = self._written[start:]
            self._written[start:] = [b"%s\t@%d\n" % (line[:-1], arrival) for line in new]

    def _take_in(self, row: Row) -> None:
        point = self.points.take(row)
        text = row[6]
        if isinstance(text, bytes) and self._wanted:
            mark = b"!x" if row[0] == Kind.NO_ANSWER else b"!" if row[2] else b""
            self._written.append(
                b"%s%s%d:%d%s\n" % (point.prefix, mark, point.time_stamp, point.offset, text)
            )
        if row[0] == Kind.GONE and row[5] in self._wanted:
            self._written.append(
                b"%s!x%d:%d%s\n" % (row[1], point.time_stamp, point.offset, _WORDS[row[5]])
            )
        if row[0] == Kind.WITHDRAWN and point.is_written and self._wanted:
            self._written.append(b"%s!x%d:%d\n" % (point.prefix, point.time_stamp, point.offset))

    def settle(self, bound: int | None, prefix: bytes = b"") -> None:
        before = self.points.bound_of(prefix)
        super().settle(bound, prefix)
        if bound is not None and bound > before and self._wanted:
            start = len(self._written)
            self._written.append(b"%s!@%d\n" % (prefix, bound))
            self._mark(start)

    def changed(self, point: Point, before: bool | None) -> None:
        """Write the verdict of a time-point, unless it is withdrawn."""
        if point.is_withdrawn:
            return
        if point.value in self._wanted or before in self._wanted:
            mark = b"!" if point.is_written else b""
            word = _WORDS[point.value]
            self._written.append(
                b"%s%s%d:%d%s\n" % (point.prefix, mark, point.time_stamp, point.offset, word)
            )
        point.is_written = True
