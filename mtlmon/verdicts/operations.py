"""Operations on verdicts: resolve equivalences, find violations, count.

A stream of verdicts is any iterable of them. The stream that calling a monitor returns,
`monitor(events)`, also tells which time-points are pending, so that ordered output waits no longer
than necessary.

>>> from mtlmon import Monitor, Summary, first, resolve, violations
>>> events = [(1, ["p"]), (1, ["p"]), (2, ["q"]), (9, ["p"]), (9, []), (20, ["q"])]
>>> def verdicts():
...     return Monitor("p IMPLIES EVENTUALLY[0,5] q")(events)
>>> [str(verdict) for verdict in verdicts()]
['1:1 = 1:0', '1:0 true', '2:0 true', '9:1 true', '9:0 false', '20:0 true']
>>> [str(verdict) for verdict in resolve(verdicts(), in_order=True)]
['1:0 true', '1:1 true', '2:0 true', '9:0 false', '9:1 true', '20:0 true']
>>> [str(verdict) for verdict in violations(verdicts())]
['9:0 false']
>>> str(first(verdicts()))
'9:0 false'
>>> print(Summary(verdicts()))
time-points  6
true         5   83.33 %
false        1   16.67 %  first 9:0
undecided    0    0.00 %
equivalent   1   16.67 %  answered by way of an earlier time-point
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, SupportsIndex, overload

from mtlmon.engine.native import GuardedIterator
from mtlmon.support.copies import NotCopied
from mtlmon.verdicts.native import (
    Resolution,
    ResolvedVerdicts,
    VerdictCounter,
    VerdictStream,
    first_violation,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon._core import Monitor, Verdict
    from mtlmon.verdicts.arrays import VerdictArray

__all__ = [
    "Resolution",
    "Summary",
    "first",
    "resolve",
    "violations",
]


@overload
def resolve(  # type: ignore[overload-overlap]  # an array is an iterable too
    verdicts: VerdictArray,
    *,
    in_order: bool = False,
    reach: int | None = None,
    max_memory: SupportsIndex | str | None = None,
) -> VerdictArray: ...
@overload
def resolve(
    verdicts: NDArray[np.void],
    *,
    in_order: bool = False,
    reach: int | None = None,
    max_memory: SupportsIndex | str | None = None,
) -> NDArray[np.void]: ...
@overload
def resolve(
    verdicts: Iterable[Verdict],
    *,
    in_order: bool = False,
    reach: int | None = None,
    max_memory: SupportsIndex | str | None = None,
) -> ResolvedVerdicts: ...
def resolve(
    verdicts: VerdictArray | NDArray[np.void] | Iterable[Verdict],
    *,
    in_order: bool = False,
    reach: int | None = None,
    max_memory: SupportsIndex | str | None = None,
) -> VerdictArray | NDArray[np.void] | ResolvedVerdicts:
    """Return the Boolean verdict of every time-point, as early as it is known.

    Args:
        verdicts: an iterable of verdicts, or an array of them: a `VerdictArray`, or a numpy array
            with the same fields (`mtlmon.verdicts.arrays`).
        in_order: whether to return verdicts in the order of time-points. A verdict then waits until
            nothing before it is undecided. `monitor(events)` provides this information; for other
            iterables it follows from the reach. Without a reach, all verdicts wait for the end.
        reach: no verdict of the formula waits longer than this for its events, in time units
            (`mtlmon.analysis.reach.decision_delay`).
        max_memory: how much memory the open time-points and the waiting verdicts may take: a number
            of bytes, or a text such as "500M"; None means no limit.

    Returns:
        An iterator, whose `open_count` says how many equivalences are not resolved yet; of an
        array, an array. Time-points that stay undecided do not occur.

    Raises:
        MtlmonError: an equivalence refers to a time-point that is not earlier, or a verdict comes
            after later ones that the reach has already released.
        MemoryLimitError: more than `max_memory` is held. All verdicts resolved until then have been
            returned; for an array, they are in the exception's attribute `verdicts`.
    """
    # If this module was never imported, nothing is an array, and importing it takes long.
    arrays = sys.modules.get("mtlmon.verdicts.arrays")
    if arrays is not None and isinstance(verdicts, arrays.VerdictArray):
        resolved_records = resolve(verdicts.records, in_order=in_order, max_memory=max_memory)
        return arrays.VerdictArray(resolved_records)  # type: ignore[no-any-return]
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(verdicts, numpy.ndarray):
        return ResolvedVerdicts(verdicts, in_order=in_order, reach=reach, max_memory=max_memory)
    from mtlmon.verdicts.arrays import in_time_point_order

    resolved = Resolution(max_memory=max_memory).push_array(verdicts)
    return in_time_point_order(resolved) if in_order else resolved


def violations(
    verdicts: Iterable[Verdict], *, in_order: bool = False, reach: int | None = None
) -> Iterator[Verdict]:
    """The false verdicts of a stream, with equivalences resolved; arguments as in `resolve`."""
    return ResolvedVerdicts(verdicts, in_order=in_order, reach=reach, only_false=True)


def first(verdicts: Iterable[Verdict], *, reach: int | None = None) -> Verdict | None:
    """The earliest violation, or None if there is none.

    For `monitor(events)`, and with a reach as in `resolve`, reading stops as soon as nothing before
    the violation is undecided; otherwise it stops at the end of the stream. Time-points before the
    violation that are undecided at the end do not count.
    """
    return first_violation(verdicts, reach)


class Summary(NotCopied):
    """Counts of verdicts, with equivalences resolved. `str(summary)` is a small table.

    Args:
        verdicts: the verdicts to count; `update` counts more.

    >>> from mtlmon import Monitor, Summary
    >>> monitor, summary = Monitor("EVENTUALLY[0,5] p"), Summary()
    >>> for verdict in summary.watch(monitor([(0, []), (0, []), (9, ["p"]), (10, []), (10, [])])):
    ...     print(verdict)
    0:1 = 0:0
    0:0 false
    9:0 true
    10:1 = 10:0
    >>> summary.true, summary.false, summary.undecided
    (1, 2, 2)
    """

    def __init__(self, verdicts: Iterable[Verdict] = ()) -> None:
        self._counter = VerdictCounter()
        self._monitor: Monitor | None = None
        self.update(verdicts)

    def update(self, verdicts: Iterable[Verdict]) -> None:
        """Count the verdicts of a stream."""
        self._note_source(verdicts)
        self._counter.update(verdicts)

    def watch(self, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
        """Count the verdicts of a stream while passing them through."""
        return GuardedIterator(self._watch(verdicts), "iterator of verdicts")

    def _watch(self, verdicts: Iterable[Verdict]) -> Generator[Verdict, None, None]:
        self._note_source(verdicts)
        for verdict in verdicts:
            self._counter.add(verdict)
            yield verdict

    def _note_source(self, verdicts: Iterable[Verdict]) -> None:
        if isinstance(verdicts, VerdictStream):
            self._monitor = verdicts.monitor

    @property
    def true(self) -> int:
        """The number of true time-points, including equivalent ones."""
        return self._counter.true_count

    @property
    def false(self) -> int:
        """The number of false time-points, including equivalent ones."""
        return self._counter.false_count

    @property
    def undecided(self) -> int:
        """The number of time-points that have no value yet.

        For a monitor's stream, these are all such time-points; for other streams, only those that
        equivalences mention.
        """
        pending = self._counter.reference_count
        if self._monitor is not None:
            pending = self._monitor.counters["pending"]
        return self._counter.open_count + pending

    @property
    def equivalent(self) -> int:
        """The number of time-points whose verdict was an equivalence."""
        return self._counter.equivalent_count

    @property
    def total(self) -> int:
        """The number of all time-points."""
        return self.true + self.false + self.undecided

    @property
    def first_violation(self) -> Verdict | None:
        """The verdict of the earliest false time-point, or None if there is none."""
        return self._counter.first_violation

    def __str__(self) -> str:
        earliest = self.first_violation
        place = "" if earliest is None else f"first {earliest.time_stamp}:{earliest.offset}"
        rows = [
            ("true", self.true, ""),
            ("false", self.false, place),
            ("undecided", self.undecided, ""),
            ("equivalent", self.equivalent, "answered by way of an earlier time-point"),
        ]
        total = self.total
        width = len(f"{total:,}")
        lines = [f"time-points  {total:,}"]
        for name, count, remark in rows:
            share = f"{count / total:9.2%}".replace("%", " %") if total else ""
            lines.append(f"{name:<11}  {count:>{width},}{share}  {remark}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The counts as a table, which notebooks show."""
        from mtlmon.support.html_tables import html_table

        total = self.total
        counts = {
            "true": self.true,
            "false": self.false,
            "undecided": self.undecided,
            "equivalent": self.equivalent,
        }
        rows = [
            (name, f"{count:,}", f"{count / total:.2%}" if total else "")
            for name, count in counts.items()
        ]
        first = self.first_violation
        note = "" if first is None else f"first violation: {first.time_stamp}:{first.offset}"
        return html_table((f"{total:,} time-points", "count", "part"), rows, note)

    def __repr__(self) -> str:
        return f"<Summary: {self.true} true, {self.false} false, {self.undecided} undecided>"
