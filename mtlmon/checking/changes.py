"""Changes of the verdicts of several policies and keys, and what writes them as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from mtlmon.checking.outputs import TextOutput
from mtlmon.drive.native import VerdictRows
from mtlmon.history.changes import INSERTED, UPDATED, WITHDRAWN
from mtlmon.text.byte_writer import ByteWriter
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.late_origins import LateOrigins
    from mtlmon.checking.outputs import LineTimes, Writer
    from mtlmon.checking.partitions import TraceKeys

__all__ = [
    "KINDS_OF",
    "Bound",
    "ChangeLines",
    "ChangeOutput",
    "ChangedRows",
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


class Bound(NamedTuple):
    """Verdicts below a time-stamp are final.

    Attributes:
        time_stamp: the time-stamp.
        policy: the policy whose verdicts are meant; None if all are, of all keys.
        trace: the number of the key whose verdicts are meant; None if all are.
    """

    time_stamp: int
    policy: int | None = None
    trace: int | None = None


class ChangedRows:
    """Changes and bounds that have not been taken out yet, in their order."""

    def __init__(self) -> None:
        self._rows: list[PolicyChanges | Bound] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: PolicyChanges | Bound) -> None:
        """Add changes or a bound behind the others."""
        self._rows.append(row)

    def taken(self) -> list[PolicyChanges | Bound]:
        """Remove all changes and bounds, and return them."""
        rows, self._rows = self._rows, []
        return rows


class ChangeOutput(Protocol):
    """Takes changes and converts them to bytes."""

    @property
    def writer(self) -> Writer:
        """Holds the bytes to be written."""

    def put(self, rows: ChangedRows) -> None:
        """Convert changes and bounds, and remove them from the rows."""

    def close(self) -> None:
        """Write the end of the file to the writer; nothing follows."""


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
    """

    def __init__(
        self,
        names: Sequence[str | None],
        keys: TraceKeys,
        selection: str,
        times: LineTimes | None = None,
        origins: LateOrigins | None = None,
    ) -> None:
        self.writer = ByteWriter()
        self._lines = TextOutput(names, keys, origins, times)
        # what bounds are about is no row
        self._bounds = TextOutput(names, keys, times=times)
        self._origins = origins
        self._selection = selection

    def put(self, rows: ChangedRows) -> None:
        """Write changes and bounds, and remove them from the rows."""
        for row in rows.taken():
            if isinstance(row, Bound):
                if self._selection != "first":
                    self._write_bound(row)
                continue
            changes = row._replace(records=selected(row.records, self._selection))
            if len(changes.records):
                self._write(changes)

    def _write(self, changes: PolicyChanges) -> None:
        text = _text(self._lines, verdict_rows(changes))
        operations = changes.records["operation"]
        if not (operations != INSERTED).any():
            self.writer.write(text)
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
        self.writer.write(b"".join(lines))

    def _write_bound(self, bound: Bound) -> None:
        """Write a bound, behind the fields of a policy and a key if it is only about these."""
        rows = VerdictRows()
        rows.add_false(bound.time_stamp, 0, bound.trace or 0, bound.policy or 0)
        start, tab, verdict = _text(self._bounds, rows).rpartition(b"\t")
        if bound.policy is None:
            start = tab = b""
        self.writer.write(b"%b%b!@%b\n" % (start, tab, verdict.removesuffix(b":0 false\n")))

    def close(self) -> None:
        """Do nothing: lines need no end."""


def _text(output: TextOutput, rows: VerdictRows) -> bytes:
    output.put(rows)
    return output.writer.take()
