"""Changes of verdicts and of answers with values, and what writes them as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.checking.outputs import TextOutput
from mtlmon.drive.native import VerdictRows
from mtlmon.history.changes import INSERTED, UPDATED, WITHDRAWN
from mtlmon.text.byte_writer import ByteWriter
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.late_origins import LateOrigins
    from mtlmon.checking.partitions import TraceKeys
    from mtlmon.relational.correcting.points import ChangedAnswer
    from mtlmon.relational.output.changed_lines import LineTimes

__all__ = [
    "KINDS_OF",
    "Bound",
    "Change",
    "ChangeLines",
    "ChangedAnswers",
    "PolicyChanges",
    "selected",
    "verdict_rows",
]

KINDS_OF: dict[str, tuple[int, ...]] = {
    "all": (FALSE, TRUE, EQUIVALENT),
    "boolean": (FALSE, TRUE),
    "false": (FALSE,),
    "first": (FALSE,),
    "none": (),
}
"""The kinds of verdicts that `--verdicts` selects; with "first", there is one change at most."""


class PolicyChanges(NamedTuple):
    """What a batch has changed of the verdicts of a policy.

    Attributes:
        policy: the number of the policy.
        records: an array of `mtlmon.history.changes.change_type()`.
        revision: the number of the batch.
    """

    policy: int
    records: NDArray[np.void]
    revision: int


class ChangedAnswers(NamedTuple):
    """What a batch has changed of the answers of policies with variables.

    Attributes:
        changes: the changes, by policy and time-point.
        revision: the number of the batch.
    """

    changes: Sequence[ChangedAnswer]
    revision: int


class Bound(NamedTuple):
    """Verdicts and answers below a time-stamp are final.

    Attributes:
        time_stamp: the time-stamp.
        policy: the policy whose verdicts are meant; None if all are, of all keys.
        trace: the number of the key whose verdicts are meant; None if all are.
    """

    time_stamp: int
    policy: int | None = None
    trace: int | None = None


Change = PolicyChanges | ChangedAnswers | Bound
"""What a check finds: changes of one kind of policies, or how far they are final."""


def selected(records: NDArray[np.void], selection: str) -> NDArray[np.void]:
    """Return the changes to write: those for which the old or the new verdict would be written.

    Args:
        records: the changes.
        selection: the verdicts to write, one of `KINDS_OF`.
    """
    if selection == "all":
        return records
    kinds = KINDS_OF[selection]
    chosen: NDArray[np.void] = records[
        np.isin(records["kind"], kinds) | np.isin(records["former"], kinds)
    ]
    return chosen


def verdict_rows(changes: PolicyChanges, none: int = FALSE) -> VerdictRows:
    """Return the verdicts after changes; where there is none any more, of this kind."""
    records = changes.records
    verdicts = np.zeros(len(records), verdict_type())
    for name in verdict_type().names or ():
        verdicts[name] = records[name]
    verdicts["kind"][records["operation"] > UPDATED] = none
    rows = VerdictRows()
    rows.add(verdicts.view(np.uint8), np.ascontiguousarray(records["trace"]), changes.policy)
    return rows


class ChangeLines:
    """Writes the lines of a changelog, with the fields for policies and keys that verdicts have.

    Args:
        names: the names of the policies, in order.
        keys: the keys of the traces.
        selection: the verdicts to write, one of `KINDS_OF` but not "none".
        times: writes times in place of time-stamps; None for time-stamps.
        origins: finds the rows of verdicts, which are written behind them as `TAB file:row`; None
            to write none.
        answers: returns the lines of answers with values; None if there are none.
        has_arrival: whether lines end with how far the log had come, as `TAB @time-stamp`.

    Attributes:
        arrival: how far the log has come.
    """

    def __init__(
        self,
        names: Sequence[str | None],
        keys: TraceKeys,
        selection: str,
        times: LineTimes | None = None,
        origins: LateOrigins | None = None,
        answers: Callable[[ChangedAnswers], bytes] | None = None,
        *,
        has_arrival: bool = False,
    ) -> None:
        self.arrival = 0
        self._has_arrival = has_arrival
        self.writer = ByteWriter()
        self._lines = TextOutput(names, keys, origins, times)
        # what bounds are about is no row
        self._bounds = TextOutput(names, keys)
        self._times = times
        self._origins = origins
        self._selection = selection
        self._answers = answers

    def put(self, rows: Sequence[Change]) -> None:
        """Write changes and bounds."""
        for row in rows:
            if isinstance(row, Bound):
                if self._selection != "first":
                    self._write_bound(row)
                continue
            if isinstance(row, ChangedAnswers):
                assert self._answers is not None
                self._tell(self._answers(row))
                continue
            changes = row._replace(records=selected(row.records, self._selection))
            if len(changes.records):
                self._write(changes)

    def _write(self, changes: PolicyChanges) -> None:
        text = _text(self._lines, verdict_rows(changes))
        operations = changes.records["operation"]
        if not (operations != INSERTED).any():
            self._tell(text)
            return
        lines = text.splitlines(keepends=True)
        has_row = np.zeros(len(lines), np.bool_)
        if self._origins is not None:
            # ticks have none
            has_row = self._origins.found(verdict_rows(changes)).has_row
        for place in np.flatnonzero(operations != INSERTED).tolist():
            line, row = lines[place], b"\n"
            if has_row[place]:
                line, tab, row = line.rpartition(b"\t")
                row = tab + row
            start, tab, verdict = line.rpartition(b"\t")
            verdict = verdict.removesuffix(b"\n")
            if operations[place] > UPDATED:
                verdict = verdict.removesuffix(b" false")
            mark = b"!x" if operations[place] == WITHDRAWN else b"!"
            lines[place] = b"".join([start, tab, mark, verdict, row])
        self._tell(b"".join(lines))

    def _write_bound(self, bound: Bound) -> None:
        """Write a bound, behind the fields of a policy and a key if it is only about these."""
        fields = b""
        if bound.policy is not None:
            rows = VerdictRows()
            rows.add_false(0, 0, bound.trace or 0, bound.policy)
            fields = _text(self._bounds, rows).removesuffix(b"0:0 false\n")
        self._tell(b"%b!@%b\n" % (fields, self._time(bound.time_stamp)))

    def _time(self, time_stamp: int) -> bytes:
        """A time as lines have it."""
        if self._times is None or self._times.is_plain:
            return b"%d" % time_stamp
        (text,) = self._times.texts([time_stamp])
        return text.encode()

    def _tell(self, lines: bytes) -> None:
        """Write whole lines."""
        if self._has_arrival:
            lines = lines.replace(b"\n", b"\t@%b\n" % self._time(self.arrival))
        self.writer.write(lines)

    def close(self) -> None:
        """Do nothing: lines need no end."""


def _text(output: TextOutput, rows: VerdictRows) -> bytes:
    output.put(rows)
    return output.writer.take()
