"""Violations for a person at a terminal: a line for each, in colour, and the outcome of the run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.run.host import is_terminal
from mtlmon.run.report import plural
from mtlmon.syntax.report import escaped, shorten
from mtlmon.text.byte_writer import ByteWriter
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking import LogCheck, TraceKeys
    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.drive.native import VerdictRows
    from mtlmon.run.spec import Output, RunSpec

__all__ = ["Outcome", "PeopleOutput", "Style", "has_colours", "outcome_of", "show_outcome"]

# The numbers of colours and styles, as terminals know them.
BOLD, FAINT, RED, GREEN, CYAN = "1", "2", "1;31", "1;32", "36"
LEAST_REASON = 20


def has_colours(output: Output) -> bool:
    """Whether to use colours, by the option, or else by the terminal and `$NO_COLOR`."""
    if output.color != "auto":
        return output.color == "always"
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(sys.stdout) and not is_plain


class Style:
    """Marks and colours that the output can show.

    Args:
        options: the options of the run.

    Attributes:
        width: the columns of the terminal, or None if lines can be of any length.
    """

    def __init__(self, options: RunSpec) -> None:
        self.has_colours = has_colours(options.output)
        self.width: int | None = None
        if is_terminal(sys.stdout):
            self.width = os.get_terminal_size(sys.stdout.fileno()).columns or None
        encoding = "ascii" if sys.stdout is None else sys.stdout.encoding
        try:
            "✗✓•".encode(encoding)
            self.violated, self.holds, self.found = "✗", "✓", "•"
        except (LookupError, UnicodeEncodeError):
            self.violated, self.holds, self.found = "x", "+", "*"

    def __call__(self, text: str, *colours: str) -> str:
        """Return a text in colours; what does not print is escaped."""
        text = escaped(text)
        if not self.has_colours or not text:
            return text
        return f"\x1b[{';'.join(colours)}m{text}\x1b[0m"

    def line(self, before: Sequence[tuple[str, str]], what: str) -> str:
        """Return a line, shortened to the width of the terminal.

        Args:
            before: the first texts of the line, each with its colour.
            what: the last text.
        """
        what = escaped(what)
        if self.width is not None:
            used = sum(len(escaped(text)) + 2 for text, _ in before)
            what = shorten(what, max(LEAST_REASON, self.width - used))
        return "  ".join([*(self(text, colour) for text, colour in before), what]) + "\n"


class PeopleOutput:
    """Writes a line for each violation: row, time, policy, key and what is violated.

    What is violated is the message of a trigger, else the text of the policy, else its formula.

    Args:
        check: the check whose verdicts are written; they are the violations, resolved.
        keys: the keys of the traces.
        times: writes times, or None for time-stamps.
        options: the options of the run.
    """

    lines = None

    def __init__(
        self, check: LogCheck, keys: TraceKeys, times: TimeTexts | None, options: RunSpec
    ) -> None:
        self.writer = ByteWriter()
        self.check = check
        self.keys = keys
        self.times = times
        self.style = Style(options)
        self.whats = [policy.text or str(policy.written) for policy in check.policies]

    def put(self, rows: VerdictRows) -> None:
        """Write the verdicts as lines, and remove them from the rows."""
        tracker = self.check.row_tracker
        places = None if tracker is None else tracker.found(rows)
        parts = rows.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32).tolist() for part in parts[1:])
        stamps, offsets = records["time_stamp"].tolist(), records["offset"].tolist()
        names = [f"{stamp}:{offset}" for stamp, offset in zip(stamps, offsets, strict=True)]
        if self.times is not None and not self.times.is_plain:
            names = self.times.texts(stamps)
        if tracker is not None and places is not None:
            # ticks are not rows
            for k in np.flatnonzero(places.has_row).tolist():
                names[k] = f"{tracker.files.place(places.files[k], places.rows[k])}  {names[k]}"
        text = "".join(
            self.line(*one) for one in zip(names, policies, numbers, stamps, offsets, strict=True)
        )
        self.writer.write(memoryview(text.encode("utf-8", "backslashreplace")))

    def line(self, place: str, policy: int, number: int, time_stamp: int, offset: int) -> str:
        """Return the line of a violation at a place: its row, if that is known, and its time."""
        style = self.style
        name = self.check.policies[policy].name
        key = self.keys.text(policy, number) if self.keys.has_keys(policy) else None
        what = self.whats[policy]
        if self.check.messages is not None:
            what = self.check.messages.take(policy, number, time_stamp, offset) or what
        before = [(style.violated, RED), (place, FAINT)]
        before += [] if name is None else [(name, BOLD)]
        before += [] if key is None else [(key, CYAN)]
        return style.line(before, what)

    def close(self) -> None:
        """Do nothing: lines need no end."""


class Outcome(NamedTuple):
    """What came out of a run over a whole log.

    Attributes:
        violations: for each policy, how often it is violated.
        has_failed: whether a policy is violated more often than it may be.
        undecided: how many verdicts are still open.
        matches: how often a `find` has found something; None if there is none.
        first: the time-stamp and the row of the earliest violation, and this with its file; None if
            it is not known.
    """

    violations: list[int]
    has_failed: bool
    undecided: int
    matches: int | None = None
    first: tuple[int, int, str] | None = None

    def joined(self, other: Outcome) -> Outcome:
        """Return the outcome for the policies of both."""
        matches = [one.matches for one in (self, other) if one.matches is not None]
        firsts = [one.first for one in (self, other) if sum(one.violations)]
        return Outcome(
            self.violations + other.violations,
            self.has_failed or other.has_failed,
            self.undecided + other.undecided,
            sum(matches) if matches else None,
            # if one of them is not known, neither is the earlier one
            None if not firsts or None in firsts else min(one for one in firsts if one),
        )


def outcome_of(check: LogCheck) -> Outcome:
    """Return the outcome for policies without variables."""
    tracker = check.row_tracker
    found = None if tracker is None else tracker.first_violation
    return Outcome(
        [one.false for one in check.counts],
        any(one.has_failed for one in check.tallies),
        sum(one.undecided for one in check.counts),
        first=None if found is None else (found[0], found[1].row, str(found[1])),
    )


def show_outcome(outcome: Outcome, event_count: int, options: RunSpec) -> None:
    """Say on standard output what came out of a run over a whole log.

    Raises:
        ClosedPipe: the reader has closed the pipe.
        WriteFailure: it cannot be written.
    """
    style = Style(options)
    counts = outcome.violations
    total, violated = sum(counts), sum(map(bool, counts))
    events = f"in {plural(event_count, 'event')}"
    matches = "" if outcome.matches is None else plural_of(outcome.matches, "match", "matches")
    if total:
        whose = "" if len(counts) == 1 else f" of {violated:,} of {len(counts):,} policies"
        mark, color = (style.violated, RED) if outcome.has_failed else (style.holds, GREEN)
        enough = "" if outcome.has_failed else ", no more than allowed"
        text = style(f"{mark} {plural(total, 'violation')}{whose} {events}{enough}", color)
        if outcome.first is not None and total > 1:
            text += f", first at {escaped(outcome.first[2])}"
    elif counts:
        text = style(f"{style.holds} no violation {events}", GREEN)
    else:
        text, matches = style(f"{style.found} {matches} {events}", GREEN), ""
    if matches:
        text += f", {matches}"
    if outcome.undecided:
        text += style(f", {plural(outcome.undecided, 'time-point')} undecided", FAINT)
    options.host.show(f"{text}\n")


def plural_of(count: int, one: str, others: str) -> str:
    """Return a number and what is counted."""
    return f"{count:,} {one if count == 1 else others}"
