"""The reader of changelogs: blocks of bytes in, rows out.

Lines are those of verdicts (`5:0 true`, `5:1 = 5:0`), and changes of what was said before:
`!5:0 false`, `!5:1 = 5:0`, `!5:0` (open again), `!x5:1` (its event was retracted) and `!@17` (final
below 17). Fields may precede each, followed by a tab each; a bound without fields is that of all.
A last field such as `@42` may follow: the line was written when the log had come to time-stamp 42.

Lines about policies with variables have values (`5:0 false (u=bob)`, `5:0 match (u=bob)`). A change
of such a policy is about a line: `!x5:0 false (u=bob)` and `!x5:0 true` say that it does not hold
any more, and the same with `!` that it holds again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.errors import LogError
from mtlmon.text.excerpt import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HOW_TO_SAY", "ChangelogLines", "Kind", "Row", "UnfitLineError"]

HOW_TO_SAY = "mtlmon --lateness D --arrival writes changelogs for --as-of"
"""How changelogs get what `--as-of` needs."""

LARGEST_TIME_STAMP = 2**63 - 1
LARGEST_OFFSET = 2**64 - 1
LONGEST_LINE = 1 << 20

# Lines with a verdict, and any others. `findall` reads 16 million bytes in a second, and no loop of
# Python's sees a line before it is a tuple.
_LINE = re.compile(
    rb"^(?:((?:[^\n]*\t)?)(!?)([0-9]{1,19}):([0-9]{1,18})"
    rb" (?:(true|false)|= ([0-9]{1,19}):([0-9]{1,18}))(?:\t@([0-9]{1,19}))?\r?|([^\n]+))$",
    re.MULTILINE,
)
_ARRIVAL = re.compile(rb"\t@([0-9]{1,19})$")
_DIGITS = re.compile(rb"[0-9]+")
# what stands behind a time-point of a policy with variables, or of a find
_ANSWER = re.compile(rb" (?:(false|match) \(.*\)|match)")


class Kind:
    """What a line says: plain numbers, since a member of an enumeration takes longer to find."""

    VERDICT = 0
    OPEN = 1
    WITHDRAWN = 2
    FINAL = 3
    GONE = 4
    ANSWER = 5
    NO_ANSWER = 6


Row = tuple[int, bytes, bool, int, int, bool | None, "tuple[int, int] | bytes | None"]
"""One line: what it says, the fields with a tab behind each, whether it begins with `!`, time-stamp
and offset of the time-point (the bound and 0 if it is one), the Boolean verdict or None, and the
time-point that it is equivalent to or None.

Of an answer with values (`ANSWER`, or `NO_ANSWER` if it does not hold any more), the last one is
what stands behind the time-point; `GONE` is a verdict without values that does not hold any more.

A plain tuple: a named one costs 0.3 microseconds more.
"""


class UnfitLineError(Exception):
    """A line cannot come after those before it; the message says why."""


class _Fault(Exception):
    """A line cannot be read."""

    def __init__(self, message: str, place: int) -> None:
        self.message = message
        self.place = place


class ChangelogLines:
    """Reads the lines of a changelog.

    Args:
        path: the name of the changelog in error messages.
        as_of: how far the log had come when the last line was written that counts; None if all do.

    Attributes:
        path: the name.
        arrival: how far the log had come when the row was written that was read last; None if that
            is not said.
        line_count: the number of complete lines before the loaded ones.
    """

    def __init__(self, path: str = "<verdicts>", as_of: int | None = None) -> None:
        self.path = path
        self.arrival: int | None = None
        self._as_of = as_of
        self.line_count = 0
        self._text = b""
        self._carry = b""
        # the row that was read last, counted from 0
        self._number = -1

    def load(self, block: bytes) -> None:
        """Load what follows. The rows of earlier blocks must have been read.

        Raises:
            LogError: a line is too long.
        """
        self.line_count += self._text.count(b"\n")
        whole, line_feed, self._carry = (self._carry + block).rpartition(b"\n")
        self._text = whole + line_feed
        if len(self._carry) > LONGEST_LINE:
            number = self.line_count + self._text.count(b"\n") + 1
            message, column = describe("a line of more than 1 MiB", self._carry, 0)
            raise LogError(message, path=self.path, line=number, column=column)

    def load_end(self) -> None:
        """End the last line, if its line feed is missing."""
        self.load(b"\n" if self._carry else b"")

    def rows(self) -> Iterator[Row]:
        """The rows of the loaded lines that count; blank lines have none.

        Raises:
            LogError: a line cannot be read; raised behind the rows before it.
        """
        text = self._text
        for self._number, found in enumerate(_LINE.findall(text)):
            prefix, mark, time, offset, value, *reference, arrival, other = found
            line = other.removesuffix(b"\r")
            if line:
                line, arrival = _without_arrival(line)
                row = self._parsed(line)
                if self._counts(arrival):
                    yield row
            elif not other:
                if not self._counts(arrival):
                    continue
                time_stamp = int(time)
                if time_stamp <= LARGEST_TIME_STAMP:
                    if value:
                        is_true = value == b"true"
                        yield (
                            Kind.VERDICT,
                            prefix,
                            mark == b"!",
                            time_stamp,
                            int(offset),
                            is_true,
                            None,
                        )
                        continue
                    name = (time_stamp, int(offset))
                    earlier = (int(reference[0]), int(reference[1]))
                    if earlier < name:
                        yield (Kind.VERDICT, prefix, mark == b"!", *name, None, earlier)
                        continue
                yield self._parsed(_without_arrival(self._line()[0])[0])

    def _counts(self, arrival: bytes) -> bool:
        """Whether a line counts that was written at a time, or does not say when."""
        self.arrival = int(arrival) if arrival else None
        if self._as_of is None:
            return True
        if self.arrival is None:
            raise self.failure("this line does not say when it was written: " + HOW_TO_SAY)
        return self.arrival <= self._as_of

    def failure(self, message: str) -> LogError:
        """The error of the row that was read last."""
        line, number = self._line()
        line, _ = _without_arrival(line)
        message, column = describe(message, line, line.rfind(b"\t") + 1)
        return LogError(message, path=self.path, line=number, column=column)

    def _line(self) -> tuple[bytes, int]:
        """The line of the row that was read last, without its end, and its number."""
        for number, match in enumerate(_LINE.finditer(self._text)):
            if number == self._number:
                before = self._text.count(b"\n", 0, match.start())
                return match[0].removesuffix(b"\r"), self.line_count + before + 1
        raise AssertionError("no row has been read")

    def _parsed(self, line: bytes) -> Row:
        try:
            return parse(line)
        except _Fault as fault:
            is_at_end = fault.place >= len(line)
            found = "the end of the line" if is_at_end else "{character}"
            message, column = describe(fault.message.replace("{found}", found), line, fault.place)
            _, number = self._line()
            raise LogError(message, path=self.path, line=number, column=column) from None


def _without_arrival(line: bytes) -> tuple[bytes, bytes]:
    """A line without its arrival, and that, which is empty if there is none."""
    found = _ARRIVAL.search(line)
    return (line, b"") if found is None else (line[: found.start()], found[1])


def parse(line: bytes) -> Row:
    """Read one line, without its end."""
    if line.startswith(b"{") and line.endswith(b"}"):
        raise _Fault("changelogs are lines of text, such as '!5:0 true', and no JSON lines", 0)
    if line.startswith(b"policy,") and b",time," in line:
        raise _Fault("changelogs are lines of text, such as '!5:0 true', and no tables", 0)
    place = line.rfind(b"\t") + 1
    prefix = line[:place]
    is_change = line.startswith(b"!", place)
    place += is_change
    if is_change and line.startswith(b"@", place):
        time_stamp, place = _number(line, place + 1, "a time-stamp", LARGEST_TIME_STAMP, "2^63-1")
        _expect_end(line, place)
        return (Kind.FINAL, prefix, is_change, time_stamp, 0, None, None)
    is_withdrawn = is_change and line.startswith(b"x", place)
    time_stamp, offset, place = _time_point(line, place + is_withdrawn)
    if (answer := _ANSWER.fullmatch(line, place)) is not None:
        kind = Kind.NO_ANSWER if is_withdrawn else Kind.ANSWER
        value = False if answer[1] == b"false" else None
        return (kind, prefix, is_change, time_stamp, offset, value, line[place:])
    if is_withdrawn and line[place:] in (b" true", b" false"):
        value = line.endswith(b"true")
        return (Kind.GONE, prefix, is_change, time_stamp, offset, value, None)
    if is_withdrawn:
        _expect_end(line, place)
        return (Kind.WITHDRAWN, prefix, is_change, time_stamp, offset, None, None)
    if is_change and place == len(line):
        return (Kind.OPEN, prefix, is_change, time_stamp, offset, None, None)
    for word, value in ((b" true", True), (b" false", False)):
        if line.startswith(word, place):
            _expect_end(line, place + len(word))
            return (Kind.VERDICT, prefix, is_change, time_stamp, offset, value, None)
    if not line.startswith(b" = ", place):
        raise _Fault("expected ' true', ' false' or ' = TIME-STAMP:OFFSET', found {found}", place)
    place += 3
    if not _DIGITS.match(line, place):
        raise _Fault("expected the time-point that this one is equivalent to, found {found}", place)
    *reference, place = _time_point(line, place)
    if tuple(reference) >= (time_stamp, offset):
        raise _Fault("a time-point is equivalent to an earlier one", place - 1)
    _expect_end(line, place)
    earlier = (reference[0], reference[1])
    return (Kind.VERDICT, prefix, is_change, time_stamp, offset, None, earlier)


def _time_point(line: bytes, place: int) -> tuple[int, int, int]:
    """Read `ts:offset`; return both, and the place after it."""
    time_stamp, place = _number(line, place, "a time-stamp", LARGEST_TIME_STAMP, "2^63-1")
    if not line.startswith(b":", place):
        raise _Fault("expected ':' between time-stamp and offset, found {found}", place)
    offset, place = _number(line, place + 1, "an offset", LARGEST_OFFSET, "2^64-1")
    return time_stamp, offset, place


def _number(line: bytes, place: int, what: str, largest: int, text: str) -> tuple[int, int]:
    match = _DIGITS.match(line, place)
    if match is None:
        raise _Fault(f"expected {what}, found {{found}}", place)
    if len(match[0]) > 20 or int(match[0]) > largest:
        raise _Fault(f"{what} is an integer from 0 to {text}", place)
    return int(match[0]), match.end()


def _expect_end(line: bytes, place: int) -> None:
    if place != len(line):
        raise _Fault("expected the end of the line, found {found}", place)
