"""The policies without variables of a run: a `LogCheck`, its output and what it has found."""

from __future__ import annotations

from itertools import islice, repeat

from mtlmon.checking.partitions import TraceKeys
from mtlmon.run.endings import note_untriggered, note_waiting
from mtlmon.run.failure import RunError
from mtlmon.run.judges import SMALLEST_STEP_EVENTS, Judge, NoWriter, Told
from mtlmon.run.report import key_rows, plural, policy_remarks, verdict_counts
from mtlmon.run.snapshot_parts import POLICIES, damaged, joined_parts, require_same, split_parts
from mtlmon.run.table_output import continue_table
from mtlmon.support.lean_typing import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.outputs import Output
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.text_logs import TextBatch, TextLog
    from mtlmon.drive.native import VerdictRows
    from mtlmon.policy.limits import Tally
    from mtlmon.run.files import Writer
    from mtlmon.run.found_verdicts import FoundVerdicts
    from mtlmon.run.judges import Point
    from mtlmon.run.people import Outcome, PeopleVerdicts
    from mtlmon.run.pump import EndTime
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.outputs import BatchOutput
    from mtlmon.tables.verdicts import VerdictTable
    from mtlmon.tables.violations import Judged

    Source = TextLog | TableEvents

__all__ = ["FormulaJudge"]

LEAST_PARTS = 3
"""How many parts a snapshot has at least."""


class FormulaJudge(Judge):
    """Checks policies without variables, and converts the verdicts to bytes.

    Args:
        check: the check that monitors the events.
        source: the log.
        output: converts verdicts to bytes; None if no verdicts are wanted.
        found: collects violations for explanations and the report; None if neither is wanted.
        options: the options of the run.
    """

    def __init__(
        self,
        check: LogCheck,
        source: Source,
        output: Output | None,
        found: FoundVerdicts | None,
        options: RunSpec,
    ) -> None:
        self.check = check
        self.memory = check.memory
        self.source = source
        self.keys = TraceKeys.of_log(check.partitions, source.key_tables)
        self.output = output
        self._found = found
        self.options = options
        self._writer: Writer = NoWriter() if output is None else output.writer
        if output is not None and output.lines is not None:
            check.deliver_to(output.lines)

    @property
    def is_stopped(self) -> bool:
        return self.check.is_stopped

    @property
    def position(self) -> int:
        return self.check.position

    @property
    def event_count(self) -> int:
        return self.check.event_count

    @property
    def keys_forgotten(self) -> int:
        return sum(self.check.keys_forgotten)

    @property
    def writer(self) -> Writer:
        return self._writer

    # ---- the work --------------------------------------------------------------------------

    def feed(self, batch: TextBatch | EventBatch, cuts: Sequence[int]) -> Iterator[None]:
        return self.check.feed(batch, self.source, cuts)

    def take(self, position: int | None) -> None:
        if self._found is not None:
            self._found.take()
        if self.output is not None and len(self.check.verdicts):
            self.output.put(self.check.verdicts)

    def next_due(self, limit: int) -> int:
        return self.check.next_due(self.source, limit)

    def pass_time(self, time_stamp: int) -> Iterator[None]:
        return self.check.pass_time(self.source, time_stamp)

    def end(self, end_time: EndTime) -> Iterator[None]:
        if not self.check.is_stopped:
            yield from self.check.end(self.source, end_time)

    def finish(self) -> None:
        if self.output is not None:
            self.output.close()

    def close(self) -> None:
        self.check.close()

    def work_in_small_steps(self, events: int) -> None:
        self.check.slice_events = min(self.check.slice_events, max(SMALLEST_STEP_EVENTS, events))

    # ---- the first violation ---------------------------------------------------------------

    @property
    def first_point(self) -> Point | None:
        first = self.check.first
        return None if first is None else (first.time_stamp, first.offset)

    def can_precede(self, point: Point, parts: int, *, or_meet: bool, seen: int) -> bool:
        check = self.check
        if check.position < seen and not check.is_stopped:
            return True
        has_keys = any(table is not None for table in self.source.key_tables)
        if (has_keys or check.has_ticks) and check.clock is not None and check.clock <= point[0]:
            # another row or tick of the time-stamp may still violate a policy
            return True
        known = [one[:parts] for one in (check.earliest_pending, self.first_point) if one]
        return any(one < point[:parts] or (or_meet and one == point[:parts]) for one in known)

    def forget_untaken(self) -> None:
        if self.check.row_tracker is not None:
            self.check.row_tracker.found(self.check.verdicts)

    def hold_first(self) -> None:
        self.check.emits_first = False

    def emit_first(self) -> None:
        self.check.emit_first()

    def open_first(self) -> tuple[str, str] | None:
        if self.check.open_first is None:
            return None
        first, earliest = self.check.open_first
        return (
            f"{first.time_stamp}:{first.offset} is false",
            f"a time-point of time-stamp {earliest}",
        )

    # ---- what is told ----------------------------------------------------------------------

    @property
    def tallies(self) -> list[Tally]:
        return self.check.tallies

    def judged(self) -> Judged:
        from mtlmon.tables.violations import Judged

        table = cast("VerdictTable", cast("BatchOutput[VerdictRows]", self.output).table)
        return Judged(self.check.policies, table.message, keys=table.key_columns)

    def told(self, found: VerdictRows) -> Iterator[Told]:
        import numpy as np

        from mtlmon.verdicts.arrays import FALSE, verdict_type

        check, tracker, messages = self.check, self.check.row_tracker, self.check.messages
        rows = None if tracker is None else tracker.found(found).rows.tolist()
        parts = found.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32).tolist() for part in parts[1:])
        points = zip(records["time_stamp"].tolist(), records["offset"].tolist(), strict=True)
        values = (records["kind"] != FALSE).tolist()
        every = zip(policies, numbers, points, values, rows or repeat(-1), strict=False)
        for policy, number, point, value, row in every:
            message = None if value or messages is None else messages.take(policy, number, *point)
            name, key = check.policies[policy].name, self.keys.text(policy, number)
            yield Told(name, number, *point, value, row if row >= 0 else None, key, message or "")

    def undecided(self, policy: int, most: int) -> Iterator[Told]:
        name = self.check.policies[policy].name
        points = (
            Told(name, number, *point[:2], None, key=self.keys.text(policy, number))
            for number in self.check.pending_keys(policy)
            for point in self.check.pending(policy, number)
        )
        return islice(points, most)

    def key_count(self, policy: int) -> int:
        partition = self.check.partitions.of_policies[policy]
        return self.check.key_counts[partition] if self.keys.has_keys(policy) else 0

    def require_violations(self) -> None:
        if not self.check.has_all_violations:
            raise RunError(
                "violations() needs the verdict of every row, also where it follows from an "
                "equivalence: add resolve=True, or mode='naive', and leave out verdicts='none'"
            )

    def outcome(self) -> Outcome:
        return cast("PeopleVerdicts", self.output).outcome(self.tallies)

    def report_end(self, *, is_complete: bool) -> None:
        host = self.options.host
        if is_complete:
            note_waiting(self.source.waiting_rows, self.source.row_name, host)
        note_untriggered(self, self.options)
        is_told = self.options.judging.resolve and not host.shows_undecided
        if not (is_complete and is_told):
            return
        if undecided := sum(counts.undecided for counts in self.check.counts):
            points = plural(undecided, "time-point")
            host.note(f"{points} undecided at the end of the log (see --end-time)")

    def log_rows(self, events: tuple[str, int, str]) -> list[tuple[str, int, str]]:
        return [events]

    def own_rows(self) -> list[tuple[str, int, str]]:
        return key_rows(self.check, self.source)

    def summary(self) -> tuple[list[tuple[str, int, str]], str]:
        policies, counts = self.check.policies, self.check.counts
        used = policy_remarks(self.tallies)
        if len(counts) == 1 and not policies[0].text:
            ((_, true, false),) = counts
            undecided = counts[0].undecided
            return [("true", true, ""), ("false", false, ""), ("undecided", undecided, "")], used
        own = [(one.true, one.false, one.undecided) for one in counts]
        return [], f"\n\n{verdict_counts(policies, own, 'undecided')}{used}"

    @property
    def first_row(self) -> RowPlace | None:
        tracker = self.check.row_tracker
        first = None if tracker is None else tracker.first_violation
        return None if first is None else first[1]

    @property
    def found(self) -> FoundVerdicts | None:
        return self._found

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        # not between the ticks before a row
        return not self.check.is_within_row

    def snapshot(self) -> bytes:
        """Return the settings, check, keys and violations as bytes for `restore`."""
        import json

        found = None if self._found is None else self._found.snapshot()
        settings = [value for _, value in self.settings()]
        parts = [
            json.dumps(settings).encode(),
            self.check.snapshot(),
            json.dumps(found).encode(),
            *(b"" if keys is None else keys.snapshot() for keys in self.source.key_tables),
        ]
        return joined_parts(POLICIES, parts)

    def restore(self, snapshot: bytes, output_size: int) -> None:
        import json

        settings, check, found, *tables = split_parts(snapshot, POLICIES, LEAST_PARTS)
        require_same(self.settings(), json.loads(settings))
        self.check.restore(check)
        if self.check.needs_all_ticks:
            self.source.only_due_ticks(False)
        if len(tables) != len(self.source.key_tables):
            raise damaged()
        counts = self.check.key_counts
        for keys, table, count in zip(self.source.key_tables, tables, counts, strict=True):
            if keys is not None:
                keys.restore(table)
                if len(keys) < count:
                    raise damaged()
        if self._found is not None:
            self._found.restore(json.loads(found))
        continue_table(self.output, output_size, self.options)

    def settings(self) -> list[tuple[str, object]]:
        """Return the settings that must not change, each with the words for an error message."""
        options = self.options
        return [
            options.log.setting,
            *options.output.settings,
            *options.reporting.settings,
            ("with other keys", list(map(list, self.check.partitions.columns))),
        ]
