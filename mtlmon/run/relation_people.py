"""Violations of policies with variables for a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.relational.cells import valuation, values_of
from mtlmon.relational.running import HOLDS
from mtlmon.run.people import BOLD, CYAN, FAINT, GREEN, RED, Outcome, Style
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.policy.limits import Tally
    from mtlmon.relational import Analysis
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.run.spec import RunSpec

__all__ = ["PeopleAnswers"]


class PeopleAnswers:
    """Writes a line for each violation and match: row, time, policy, values, and text or formula.

    Args:
        plan: the plan of the policies.
        analysis: what is known of them.
        options: the options of the run.
        times: writes times, or None for time-stamps.
        point_rows: the rows of time-points; None if they are not known.
    """

    def __init__(
        self,
        plan: Plan,
        analysis: Analysis,
        options: RunSpec,
        times: TimeTexts | None,
        point_rows: PointRows | None,
    ) -> None:
        self.writer = ByteWriter()
        self.plan = plan
        self.times = times
        # the first one of several rows would not be the one that a line is about
        self.rows = point_rows if options.log.time_points == "row" else None
        self.style = Style(options)
        self.policies = [one.policy for one in analysis.policies]
        self.whats = [one.text or str(one.written) for one in self.policies]
        self.counts = [0] * len(plan.named_policies)
        # the time-point and time-stamp of the earliest violation, and its row
        self.first: tuple[int, int, RowPlace] | None = None

    def put(self, answers: AnswerBlock) -> None:
        """Write answers, and forget them."""
        found = [one for one in answers.take() if one[1] != HOLDS]
        stamps = [one[2] for one in found]
        names = [f"{one[2]}:{one[3]}" for one in found]
        if found and self.times is not None and not self.times.is_plain:
            names = self.times.texts(stamps)
        if self.rows is not None:
            places = [self.rows.place_of(one[4]) for one in found]
            names = [f"{row}  {name}" for name, row in zip(names, places, strict=True)]
            self.note_first(found, places)
        text = "".join(
            self.line(name, answer[0], answer[5]) for name, answer in zip(names, found, strict=True)
        )
        self.writer.write(memoryview(text.encode("utf-8", "backslashreplace")))

    def note_first(
        self,
        found: Sequence[tuple[int, int, int, int, int, tuple[int, ...]]],
        places: Sequence[RowPlace],
    ) -> None:
        """Remember the earliest violation among answers, whose rows are given."""
        for (policy, _, time_stamp, _, point, _), place in zip(found, places, strict=True):
            if self.plan.named_policies[policy].is_find:
                continue
            if self.first is None or point < self.first[0]:
                self.first = point, time_stamp, place

    def line(self, place: str, number: int, cells: tuple[int, ...]) -> str:
        """Return the line of an answer at a place: its row, if that is known, and its time."""
        style, policy = self.style, self.plan.named_policies[number]
        self.counts[number] += 1
        mark = (style.found, GREEN) if policy.is_find else (style.violated, RED)
        before = [mark, (place, FAINT)]
        before += [] if policy.name is None else [(policy.name, BOLD)]
        values = valuation(policy, values_of(cells, policy.kinds, self.plan.texts), "=")
        before += [(values, CYAN)] if values else []
        return style.line(before, self.whats[number])

    def close(self) -> None:
        """Do nothing: lines need no end."""

    def outcome(self, tallies: Sequence[Tally]) -> Outcome:
        """Return what came out of a run that has ended; `tallies` say how often."""
        kinds = [one.is_find for one in self.plan.named_policies]
        first = None
        if self.first is not None:
            _, time_stamp, place = self.first
            first = time_stamp, place.row, str(place)
        pairs = list(zip(kinds, self.counts, strict=True))
        return Outcome(
            [count for is_find, count in pairs if not is_find],
            any(one.has_failed for one in tallies),
            sum(one.counts.undecided for one in tallies),
            sum(count for is_find, count in pairs if is_find) if any(kinds) else None,
            first,
        )
