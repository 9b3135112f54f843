"""About how much memory histories need, which remember events so that late ones can come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.analysis.reach import decision_delay
from mtlmon.history.native import event_bytes, trace_bytes
from mtlmon.policy.needs import remembers
from mtlmon.streams.bounds import Kept

if TYPE_CHECKING:
    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.streams.bounds import Load

__all__ = ["history_kept"]

_NO_RATE = "nothing limits the rows that late ones can change: add assume rate per key <= N/s"
_NO_KEYS = "nothing limits the keys: add assume keys <= N"
_NO_DELAY = "nothing limits how long verdicts wait: give each future operator an upper bound"
_OF_ROWS = (
    "what is remembered of rows on which windows and streams depend is not counted for --lateness"
)
# The words of a pending time-point in a state.
_WORDS = 3


def history_kept(
    file: PolicyFile, policy: Policy, load: Load, lateness: int, pending: int | None
) -> Kept:
    """Return about how much the histories of a policy's traces remember.

    Rows are remembered while late ones can change their verdicts. Ids, of rows that can be taken
    back, come on top.

    Args:
        file: the policies.
        policy: one of them.
        load: the rows of the log.
        lateness: how late rows may be, in time units.
        pending: how many time-points of a trace are pending at once; None if nothing limits them.
    """
    formula = policy.formula
    name = "--lateness"
    atoms = [atom for atom in formula.atoms if atom in file.atoms]
    if any(remembers(file, file.atoms[atom].expression) for atom in atoms):
        return Kept(name, "rows", None, None, _OF_ROWS)
    delay = decision_delay(formula)
    if delay is None:
        return Kept(name, "all rows", None, None, _NO_DELAY)
    length = lateness + delay
    words = "rows that late ones can change"
    rows = load.rows_of_trace(length)
    if rows is None:
        return Kept(name, words, None, None, _NO_RATE)
    of_event = event_bytes(len(formula.atoms))
    of_trace = trace_bytes(len(formula.atoms), _WORDS * min(rows, pending or 0))
    per_key = of_trace + rows * of_event
    words = f"{rows:,} {words}"
    all_rows = load.rows(length)
    if load.traces is None or all_rows is None:
        return Kept(name, words, per_key, None, _NO_KEYS)
    return Kept(name, words, per_key, load.traces * of_trace + all_rows * of_event)
