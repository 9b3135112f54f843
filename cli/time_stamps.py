"""The notation of times in lines for people: as the log has them, or in ISO 8601."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.checking.time_lines import timed_lines
from mtlmon.syntax.bounds import UNITS
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.cli.arguments import Options
    from mtlmon.cli.relations import Output
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.tables.columns.times import Times

__all__ = ["IsoTimes", "TimedAnswers", "time_texts"]


class IsoTimes:
    """Writes time-stamps in ISO 8601, in UTC.

    Args:
        times: the notation of a table; None for a text log.
        unit: the unit of the time-stamps of a text log.
    """

    def __init__(self, times: Times | None, unit: str | None) -> None:
        from mtlmon.support.extras import load_extra

        load_extra("pyarrow", "tables")
        self.times = times
        self.given_unit = unit

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

    def texts(self, time_stamps: Iterable[int]) -> list[str]:
        """Return time-stamps in ISO 8601; those beyond the year 9999 stay as they are."""
        import numpy as np

        from mtlmon.tables.columns.calendar_texts import YEAR_10000, calendar_texts

        assert self.unit is not None
        length = UNITS[self.unit]
        limit = (YEAR_10000 * UNITS["s"] - 1) // length
        stamps = list(time_stamps)
        known = np.array([stamp if stamp <= limit else 0 for stamp in stamps], np.int64)
        texts: list[str] = calendar_texts(known, length).to_pylist()
        return [
            text if stamp <= limit else str(stamp)
            for stamp, text in zip(stamps, texts, strict=True)
        ]


def time_texts(options: Options, times: Times | None) -> TimeTexts | None:
    """Return what writes times in lines of text, or None for time-stamps.

    Args:
        options: the options of the command line.
        times: the notation of a table; None for a text log.
    """
    if options.time_stamps == "iso":
        return IsoTimes(times, options.unit)
    return times if options.for_people and options.time_stamps is None else None


class TimedAnswers:
    """Writes the lines of policies with variables with times that people read.

    Args:
        lines: writes the lines.
        place: how many fields are before the time-point.
        times: writes the times.
    """

    def __init__(self, lines: Output, place: int, times: TimeTexts) -> None:
        self.writer = ByteWriter()
        self.lines = lines
        self.place = place
        self.times = times

    def put(self, answers: AnswerBlock) -> None:
        """Write answers, and forget them."""
        self.lines.put(answers)
        text = timed_lines(self.lines.writer.take(), self.place, self.times)
        self.writer.write(memoryview(text))

    def close(self) -> None:
        """Do nothing: lines need no end."""
