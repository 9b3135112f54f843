"""`RelationalHistory`: policies with variables on events that come late or are taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mtlmon.engine.guarding import Guard, guarded
from mtlmon.errors import EventError, MtlmonError, PolicyError, SnapshotError
from mtlmon.history.history import count_of, require_ids
from mtlmon.history.operations import ADVANCE, INSERT, RETRACT, Corrections, operation_codes
from mtlmon.relational.analysis import valid_analysis, valid_keyed_file
from mtlmon.relational.correcting.points import PointHistory
from mtlmon.relational.key_names import key_values, names_of
from mtlmon.relational.monitor import Answer, answer_of, atom_numbers, point_rows
from mtlmon.relational.output.changed_lines import ChangedAnswerLines
from mtlmon.relational.planning import plan
from mtlmon.support.snapshot_parts import damaged, sealed, unsealed
from mtlmon.support.time_stamps import checked_time_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

    from mtlmon.policy import PolicyFile
    from mtlmon.relational.correcting.points import ChangedAnswer
    from mtlmon.relational.key_names import Key

    # its time-stamp, the cells of its rows, and its keys
    _Event = tuple[int, list[tuple[int, list[int]]], list[Key]]

__all__ = ["AnswerChange", "AnswerChanges", "RelationalHistory"]

_OPERATIONS: tuple[Literal["insert", "again", "delete"], ...] = ("insert", "again", "delete")
"""What has become of answers: the words for NEW, AGAIN and GONE."""

_KIND = b"mtlmon relational history 2\n"


class AnswerChange(NamedTuple):
    """An answer that is there now and was not, or that was there and is not.

    Attributes:
        operation: "insert" if it was never there before, "again" if it was, "delete" if it is not
            there any more.
        answer: the answer; its `point` is 0.
    """

    operation: Literal["insert", "again", "delete"]
    answer: Answer


class AnswerChanges:
    """What a batch has changed: a sequence of `AnswerChange`, by policy and time-point.

    Attributes:
        changes: the changes.
        lines: the same as lines: `5:0 false (u=bob)`, `!x5:0 false (u=bob)` where it is not there
            any more, `!5:0 false (u=bob)` where it is there again, and `!@17` if all below 17 is
            final since this batch.
        final_below: no answer below this time-stamp can change any more; None if that is no more
            than before the batch.
        refused: the indices of the events of the batch that came too late, which change nothing.
    """

    def __init__(
        self,
        changes: list[AnswerChange],
        lines: list[str],
        final_below: int | None,
        refused: list[int],
    ) -> None:
        self.changes = changes
        self.lines = lines
        self.final_below = final_below
        self.refused = refused

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[AnswerChange]:
        return iter(self.changes)


class RelationalHistory:
    """Monitors the policies with variables of a file on events that may come late.

    The history is what has come so far, in the order of time; events of one time-stamp keep the
    order in which they came. After every batch, the answers are those that a `RelationalMonitor`
    gives for it. A late event takes the next free offset of its time-stamp, among the events of its
    key if the policy has one, so no time-point ever gets another name.

    Args:
        policy: a policy file as `parse_policies` returns it, or its text.
        lateness: as for `History`; so are the others.
        wait: likewise.
        equality: whether events without ids can be retracted, by their time-stamp and the rows that
            policies read.
        ids: whether events have ids, by which they can be retracted.
        unmatched: as for `History`.
        verdicts: as for `RelationalMonitor`.

    Raises:
        PolicyError: a policy cannot be evaluated, or there is one without variables.

    >>> history = RelationalHistory("publish(u, f) IMPLIES ONCE[0,10] approve(f)", lateness=60)
    >>> history.push([(100, {"publish": [("ann", "f1"), ("bob", "f2")]})]).lines
    ['100:0 false (u=ann, f=f1)', '100:0 false (u=bob, f=f2)', '!@40']
    >>> history.push([(95, {"approve": [("f2",)]})]).lines  # late
    ['!x100:0 false (u=bob, f=f2)']
    """

    def __init__(
        self,
        policy: PolicyFile | str,
        *,
        lateness: int | None,
        wait: int = 0,
        equality: bool = False,
        ids: bool = False,
        unmatched: Literal["count", "error"] = "count",
        verdicts: Literal["false", "all"] = "false",
        _spacing: int = 0,
    ) -> None:
        if isinstance(policy, str):
            from mtlmon.policy import parse_policies

            policy = parse_policies(policy)
        if verdicts not in ("false", "all"):
            raise MtlmonError(f"verdicts is 'false' or 'all', not {verdicts!r}")
        if unmatched not in ("count", "error"):
            raise MtlmonError(f"unmatched is 'count' or 'error', not {unmatched!r}")
        if not policy.policies or not all(one.is_first_order for one in policy.policies):
            raise PolicyError(
                "the file has a policy without variables, or none", hint="use History for these"
            )
        self._equality = bool(equality)
        self._has_ids = bool(ids)
        self._unmatched = unmatched
        self._emitted_unmatched = 0
        self._file = valid_keyed_file(policy, policy.key or ())
        self._lateness = lateness
        self._wait = wait
        self._verdicts: Literal["false", "all"] = verdicts
        self._spacing = _spacing
        self._guard = Guard("history")
        self._use(self._new_points())
        self._emitted = 0

    def _new_points(self) -> PointHistory:
        return PointHistory(
            plan(self._file, valid_analysis(self._file, None)),
            lateness=self._lateness,
            wait=self._wait,
            equality=self._equality,
            corrects=self._has_ids,
            wants_holding=self._verdicts == "all",
            spacing=self._spacing,
            names=names_of(self._file),
        )

    def _use(self, points: PointHistory) -> None:
        self._points = points
        self._numbers = atom_numbers(points.plan)
        self._lines = ChangedAnswerLines(points.plan)

    @guarded
    def push(
        self,
        events: Iterable[tuple[int, Mapping[str, Iterable[Sequence[object]]]]],
        *,
        ids: Sequence[Hashable] | None = None,
        operations: Sequence[str] | None = None,
        keys: Sequence[Mapping[str, str] | None] | None = None,
    ) -> AnswerChanges:
        """Take a batch of events, in the order in which they come, and return what they change.

        Args:
            events: for each event, its time-stamp, and the rows of each atom, as for
                `RelationalMonitor.step`.
            ids: the id of each event; None for events without one.
            operations: what each row does, as for `History.push`.
            keys: for policies with a key, that of each event, as for `RelationalMonitor.step`.
                Retractions by an id can have None.

        Raises:
            EventTypeError, TimeStampError: a time-stamp is not an integer from 0 to 2^63-1.
            EventError: a retraction has no id, although they are not allowed without; or there are
                not as many ids, operations or keys as events; or retractions have waited in vain;
                or an event is one too many in an interval given to `complete`, and is left out.
            TypeError, ValueError, OverflowError: a row does not have the arguments of its atom, or
                an event has no key.
            MtlmonError: integers overflow, or an operator would remember too much.
        """
        events = list(events)
        of_events = [None] * len(events) if keys is None else list(keys)
        if len(of_events) != len(events):
            raise EventError(f"{len(of_events)} keys for {len(events)} events")
        names = None if ids is None else list(ids)
        if names is not None and len(names) != len(events):
            raise EventError(f"{len(names)} ids for {len(events)} events")
        if names is not None and not self._has_ids and any(one is not None for one in names):
            raise EventError("events have ids: make the history with ids=True")
        codes = None if operations is None else operation_codes(operations, len(events))
        if codes is not None and not self._equality:
            require_ids(codes, names)
        known = self._points.names
        given: list[_Event] = []
        for place, ((time_stamp, database), key) in enumerate(zip(events, of_events, strict=True)):
            has_id = names is not None and names[place] is not None
            code = INSERT if codes is None else codes[place]
            event: _Event = checked_time_stamp(time_stamp), [], []
            if known is None:
                event[1].extend(point_rows(self._points.plan, self._numbers, database))
            elif key is not None or not (code == ADVANCE or (code == RETRACT and has_id)):
                event[2].extend(key_values(known.used, key))
                event[1].extend(point_rows(self._points.plan, self._numbers, database, key))
            given.append(event)
        for time_stamp, rows, _ in given:
            self._points.arrivals.add(time_stamp, rows)
        of_names = None if known is None else [values for _, _, values in given]
        first = int(self._points.leader.numbers_of_next(1)[0])
        refused = self._points.push(Corrections(codes, names), of_names)
        for number, reason in self._points.leader.take_rejected():
            time_stamp = given[number - first][0]
            raise EventError(
                f"the event at index {number - first}, of time {time_stamp}, {reason}; the others "
                "have been taken",
                index=number - first,
            )
        return self._changes(refused.tolist())

    @guarded
    def advance(self, time_stamp: int) -> AnswerChanges:
        """Let time pass without an event."""
        self._points.pass_time(checked_time_stamp(time_stamp))
        return self._changes([])

    @guarded
    def complete(self, start: int, end: int, count: int) -> AnswerChanges:
        """Say how many events there are in an interval of time, as for `History.complete`.

        Raises:
            EventError: there are more events than that already; or `start` is so late that some of
                the events may have been forgotten.
        """
        start, end = checked_time_stamp(start), checked_time_stamp(end)
        if not self._points.count_events(start, end, count_of(count, "count")):
            raise EventError(
                f"events from {start} on may be forgotten already, as such late ones are refused: "
                "say earlier how many there are"
            )
        return self._changes([])

    @guarded
    def finish(self, end_time: int | Literal["last", "inf"] | None = None) -> AnswerChanges:
        """End the log: judge what waits, and then what the end decides. No event can follow.

        Args:
            end_time: what is known about the time after the last event, as for `Monitor.finish`.
        """
        self._points.finish(end_time)
        return self._changes([])

    @guarded
    def latest(self) -> list[Answer]:
        """The answers as they are now, by policy and time-point, without forgotten ones."""
        return self._answers(self._points.renamed(self._points.latest()))

    @guarded
    def final_below(self) -> int:
        """The time-stamp below which no answer can change any more."""
        return self._points.final_below()

    @guarded
    def snapshot(self) -> bytes:
        """Return the history as bytes, for `restore` in any process, without the policies.

        Raises:
            SnapshotError: the log has ended, or an id is neither an integer nor a text.
        """
        return self._snapshot()

    def _snapshot(self) -> bytes:
        return sealed(_KIND, self._points.snapshot())

    @guarded
    def restore(self, snapshot: Buffer) -> None:
        """Go on from a snapshot of another history of the same policies and arguments.

        Raises:
            SnapshotError: the bytes are not such a snapshot; the history is unchanged.
        """
        points = self._new_points()
        body = unsealed(_KIND, bytes(snapshot))
        try:
            points.restore(body)
            emitted = points.final_below()
        except SnapshotError:
            raise
        except (MtlmonError, ValueError, LookupError, TypeError, OverflowError) as error:
            raise damaged() from error
        self._use(points)
        self._emitted = emitted
        self._emitted_unmatched = self._unmatched_count

    @guarded
    def __reduce__(self) -> tuple[Callable[..., RelationalHistory], tuple[object, ...]]:
        chosen = {
            "lateness": self._lateness,
            "wait": self._wait,
            "equality": self._equality,
            "ids": self._has_ids,
            "unmatched": self._unmatched,
            "verdicts": self._verdicts,
            "_spacing": self._spacing,
        }
        return _again, (self._file, chosen, self._snapshot())

    @property
    def _unmatched_count(self) -> int:
        return self._points.leader.counter("unmatched")

    @property
    @guarded
    def counters(self) -> dict[str, int]:
        """Counters of what has been done so far: for diagnosis, not for decisions.

        refused, waiting, retracted, duplicates, unmatched and awaited are as for `History`;
        replayed_events and early_stops, too; held_bytes is the memory for all that is remembered.
        """
        counters = self._points.leader.counters
        names = ("refused", "waiting", "retracted", "duplicates", "unmatched", "awaited")
        return {
            **{name: counters[name] for name in names},
            "replayed_events": self._points.chunked.replayed,
            "early_stops": self._points.chunked.early_stops,
            "held_bytes": self._points.byte_count,
        }

    def _changes(self, refused: list[int]) -> AnswerChanges:
        changes = self._points.renamed(self._points.changes())
        lines = [line.decode().removesuffix("\n") for line in self._lines.lines(changes)]
        bound = self._points.final_below()
        emitted = bound if bound > self._emitted else None
        if emitted is not None:
            self._emitted = emitted
            lines.append(f"!@{emitted}")
        in_vain = self._unmatched_count - self._emitted_unmatched
        if in_vain and self._unmatched == "error":
            self._emitted_unmatched += in_vain
            what = "retraction has" if in_vain == 1 else "retractions have"
            raise EventError(f"{in_vain} {what} waited for an event in vain")
        made = [
            AnswerChange(_OPERATIONS[one.change], answer)
            for one, answer in zip(changes, self._answers(changes), strict=True)
        ]
        return AnswerChanges(made, lines, emitted, refused)

    def _answers(self, changes: Sequence[ChangedAnswer]) -> list[Answer]:
        made = self._points.plan
        return [
            answer_of(made, one.policy, one.kind, one.time_stamp, one.offset, one.cells)
            for one in changes
        ]


def _again(file: PolicyFile, chosen: dict[str, Any], snapshot: bytes) -> RelationalHistory:
    """Return a history that goes on from a snapshot, for copies and pickles."""
    history = RelationalHistory(file, **chosen)
    history.restore(snapshot)
    return history
