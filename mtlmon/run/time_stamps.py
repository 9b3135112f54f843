"""The notation of times in lines for people: as the log has them, or in ISO 8601."""

from __future__ import annotations

from mtlmon.syntax.bounds import UNITS
from mtlmon.text.byte_writer import ByteWriter
from mtlmon.text.native import IsoWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.run.relations import Output
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.columns.times import Times

__all__ = ["IsoTimes", "TimedAnswers", "iso_times", "time_texts", "unit_and_dates"]


class LocalTimes:
    """Writes the times of a table for people: in the notation and time zone of the table.

    Args:
        times: the notation.
    """

    def __init__(self, times: Times) -> None:
        self.times = times

    @property
    def is_plain(self) -> bool:
        """Whether the table has the time-stamps themselves; known once rows have been read."""
        return self.times.is_plain

    def texts(self, time_stamps: Iterable[int]) -> list[str]:
        """Return time-stamps in the notation of the table."""
        return self.times.local_texts(time_stamps)


class IsoTimes:
    """Writes time-stamps in ISO 8601, in UTC.

    Args:
        times: the notation of a table; None for a text log.
        unit: the unit of the time-stamps of a text log.
    """

    def __init__(self, times: Times | None, unit: str | None) -> None:
        self.times = times
        self.given_unit = unit
        # is made when a time is written, as the unit is known then
        self.iso_writer: IsoWriter | None = None

    @property
    def unit(self) -> str | None:
        """The unit of time-stamps; None if it is not known."""
        if self.times is None:
            return self.given_unit
        known = self.times.resolution or self.times.unit
        return known if known is not None or self.times.is_plain else "s"

    @property
    def is_plain(self) -> bool:
        """Whether time-stamps stay as they are, as their unit is not known."""
        return self.unit is None

    @property
    def writer(self) -> IsoWriter:
        """Writes the times, if their unit is known."""
        if self.iso_writer is None:
            assert self.unit is not None
            self.iso_writer = IsoWriter(UNITS[self.unit])
        return self.iso_writer

    def texts(self, time_stamps: Iterable[int]) -> list[str]:
        """Return time-stamps in ISO 8601; those beyond the year 9999 stay as they are."""
        return self.writer.texts(time_stamps)

    def lines(self, lines: bytes, fields: int) -> bytes:
        """Return lines of text with times in place of time-stamps, behind so many fields."""
        return lines if not lines or self.is_plain else self.writer.lines(lines, fields)


def iso_times(options: RunSpec, times: Times | None) -> IsoTimes | None:
    """Return what writes times in lines of text, or None for time-stamps.

    Args:
        options: the options of the run.
        times: the notation of a table; None for a text log.
    """
    return IsoTimes(times, options.times.unit) if options.output.time_stamps == "iso" else None


def time_texts(options: RunSpec, times: Times | None) -> TimeTexts | None:
    """Return what writes times on terminals and in explanations, or None for time-stamps.

    The arguments are those of `iso_times`.
    """
    if options.output.time_stamps is None and times is not None:
        return LocalTimes(times)
    return iso_times(options, times)


def unit_and_dates(options: RunSpec, times: Times | None) -> tuple[str | None, bool]:
    """Return the unit of time-stamps, if it is known, and whether the log has dates.

    Call this once rows have been read. The arguments are those of `iso_times`.
    """
    if times is None:
        return options.times.time_stamp_unit, False
    return times.resolution or times.unit, not times.is_plain


class TimedAnswers:
    """Writes the lines of policies with variables with times that people read.

    Args:
        lines: writes the lines.
        place: how many fields are before the time-point.
        times: writes the times.
    """

    def __init__(self, lines: Output, place: int, times: IsoTimes) -> None:
        self.writer = ByteWriter()
        self.lines = lines
        self.place = place
        self.times = times

    def put(self, answers: AnswerBlock) -> None:
        """Write answers, and forget them."""
        self.lines.put(answers)
        text = self.times.lines(self.lines.writer.take(), self.place)
        self.writer.write(memoryview(text))

    def close(self) -> None:
        """Do nothing: lines need no end."""
