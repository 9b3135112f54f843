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
    from collections.abc import Iterable, Sequence

    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.checking.partitions import TraceKeys
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.drive.native import VerdictRows
    from mtlmon.policy import Policy
    from mtlmon.policy.limits import Tally
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.run.spec import Output, RunSpec

__all__ = ["Outcome", "PeopleAnswers", "PeopleVerdicts", "Style", "has_colours", "show_outcome"]

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


class PeopleLines:
    """Writes a line for each violation and match: row, time, policy, key or values, and what it is.

    That is the message of a trigger, else the text of the policy, else its formula.

    Args:
        policies: the policies.
        times: writes times, or None for time-stamps.
        options: the options of the run.

    Attributes:
        counts: how many lines each policy has.
    """

    lines = None

    def __init__(
        self, policies: Sequence[Policy], times: TimeTexts | None, options: RunSpec
    ) -> None:
        self.writer = ByteWriter()
        self.policies = policies
        self.times = times
        self.style = Style(options)
        unit = options.times.time_stamp_unit
        self.whats = [policy.text or policy.demand(unit) for policy in policies]
        self.counts = [0] * len(policies)

    def names(self, time_stamps: Sequence[int], offsets: Iterable[int]) -> list[str]:
        """Return the names of time-points, or their times as people write them."""
        if time_stamps and self.times is not None and not self.times.is_plain:
            return self.times.texts(time_stamps)
        return [f"{stamp}:{offset}" for stamp, offset in zip(time_stamps, offsets, strict=True)]

    def line(self, place: str, number: int, value: str | None, what: str | None = None) -> str:
        """Return a line.

        Args:
            place: the row, if that is known, and the time.
            number: the number of the policy.
            value: the key or the values of variables; None if there are none.
            what: the message of a trigger, if there is one.
        """
        style, policy = self.style, self.policies[number]
        self.counts[number] += 1
        mark = (style.found, GREEN) if policy.is_find else (style.violated, RED)
        before = [mark, (place, FAINT)]
        before += [] if policy.name is None else [(policy.name, BOLD)]
        before += [] if value is None else [(value, CYAN)]
        return style.line(before, what or self.whats[number])

    def write(self, lines: Iterable[str]) -> None:
        """Write lines."""
        self.writer.write(memoryview("".join(lines).encode("utf-8", "backslashreplace")))

    def close(self) -> None:
        """Do nothing: lines need no end."""

    @property
    def first_place(self) -> tuple[int, RowPlace] | None:
        """The time-stamp and the row of the earliest violation, if that is known."""
        return None

    def outcome(self, tallies: Sequence[Tally]) -> Outcome:
        """Return what came out of a run over the whole log; `tallies` are of the policies."""
        first = self.first_place
        pairs = list(zip(self.policies, self.counts, strict=True))
        matches = [count for policy, count in pairs if policy.is_find]
        return Outcome(
            [count for policy, count in pairs if not policy.is_find],
            any(one.has_failed for one in tallies),
            sum(one.counts.undecided for one in tallies),
            sum(matches) if matches else None,
            None if first is None else (first[0], first[1].row, str(first[1])),
        )


class PeopleVerdicts(PeopleLines):
    """Writes the violations of policies without variables.

    Args:
        check: the check whose verdicts are written; they are the violations, resolved.
        keys: the keys of the traces.
        times: writes times, or None for time-stamps.
        options: the options of the run.
    """

    def __init__(
        self, check: LogCheck, keys: TraceKeys, times: TimeTexts | None, options: RunSpec
    ) -> None:
        super().__init__(check.policies, times, options)
        self.check = check
        self.keys = keys

    def put(self, rows: VerdictRows) -> None:
        """Write the verdicts as lines, and remove them from the rows."""
        tracker, messages, keys = self.check.row_tracker, self.check.messages, self.keys
        places = None if tracker is None else tracker.found(rows)
        parts = rows.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32).tolist() for part in parts[1:])
        stamps, offsets = records["time_stamp"].tolist(), records["offset"].tolist()
        names = self.names(stamps, offsets)
        if tracker is not None and places is not None:
            # ticks are not rows
            for k in np.flatnonzero(places.has_row).tolist():
                names[k] = f"{tracker.files.place(places.files[k], places.rows[k])}  {names[k]}"
        every = zip(names, policies, numbers, stamps, offsets, strict=True)
        self.write(
            self.line(
                name,
                policy,
                keys.text(policy, number) if keys.has_keys(policy) else None,
                None if messages is None else messages.take(policy, number, stamp, offset),
            )
            for name, policy, number, stamp, offset in every
        )

    @property
    def first_place(self) -> tuple[int, RowPlace] | None:
        tracker = self.check.row_tracker
        return None if tracker is None else tracker.first_violation


class PeopleAnswers(PeopleLines):
    """Writes the violations and matches of policies with variables.

    Args:
        plan: the plan of the policies.
        policies: the policies.
        times: writes times, or None for time-stamps.
        options: the options of the run.
        point_rows: the rows of time-points; None if they are not known.
    """

    def __init__(
        self,
        plan: Plan,
        policies: Sequence[Policy],
        times: TimeTexts | None,
        options: RunSpec,
        point_rows: PointRows | None,
    ) -> None:
        super().__init__(policies, times, options)
        self.plan = plan
        # the first one of several rows would not be the one that a line is about
        self.rows = point_rows if options.log.time_points == "row" else None
        # the time-point and time-stamp of the earliest violation, and its row
        self.first: tuple[int, int, RowPlace] | None = None

    def put(self, answers: AnswerBlock) -> None:
        """Write answers, and forget them."""
        from mtlmon.relational.running import HOLDS

        found = [one for one in answers.take() if one[1] != HOLDS]
        names = self.names([one[2] for one in found], [one[3] for one in found])
        if self.rows is not None:
            for k, (policy, _, time_stamp, _, point, _) in enumerate(found):
                place = self.rows.place_of(point)
                names[k] = f"{place}  {names[k]}"
                is_violation = not self.policies[policy].is_find
                if is_violation and (self.first is None or point < self.first[0]):
                    self.first = point, time_stamp, place
        self.write(
            self.line(name, number, self.values(number, cells))
            for name, (number, _, _, _, _, cells) in zip(names, found, strict=True)
        )

    def values(self, number: int, cells: tuple[int, ...]) -> str | None:
        """Return the values of an answer of a policy as text; None if it has no variables."""
        from mtlmon.relational.cells import valuation, values_of

        policy = self.plan.named_policies[number]
        return valuation(policy, values_of(cells, policy.kinds, self.plan.texts), "=") or None

    @property
    def first_place(self) -> tuple[int, RowPlace] | None:
        return None if self.first is None else self.first[1:]


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
