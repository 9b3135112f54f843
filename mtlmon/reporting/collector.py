"""Collects the verdicts on a policy, possibly millions, for a report."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from mtlmon.analysis.reach import decision_delay
from mtlmon.errors import MtlmonError, UndecidedError
from mtlmon.explanation.trace import Wording
from mtlmon.explanation.words import formula_text
from mtlmon.reporting.data import (
    Explanation,
    KeyCount,
    KeyReport,
    PolicyReport,
    UndecidedTimePoint,
    Violation,
)
from mtlmon.reporting.explanations import explanation_of
from mtlmon.reporting.histogram import TimeHistogram
from mtlmon.support.copies import NotCopied
from mtlmon.syntax.bounds import require_unit
from mtlmon.syntax.interval import MAXIMUM_BOUND
from mtlmon.syntax.parser import parse
from mtlmon.verdicts.arrays import EQUIVALENT, TRUE, VerdictArray, as_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    from mtlmon.engine.pending import PendingTimePoint
    from mtlmon.explanation.proof import Proof
    from mtlmon.syntax.formula import Formula

__all__ = ["Collector"]

_FORMULA_CHARACTERS = 4000
# The key of a time-point in a stream without keys.
_NO_KEY = -1
# The largest number of intervals in a timeline.
_INTERVALS = 100

_Integer = TypeVar("_Integer", np.int64, np.uint64)

_Point: TypeAlias = "tuple[int, int, int]"
"""Time-stamp, number of the key, and offset; time-points are shown in this order."""


class _Description(NamedTuple):
    """What is known of a violation; the names are those of `Violation`."""

    row: str | None = None
    message: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    rows_of_values: Mapping[str, Sequence[str]] = MappingProxyType({})


class Collector(NotCopied):
    """Takes the verdicts on one policy and keeps what a report shows of them.

    Memory does not grow with the number of verdicts. It takes 24 bytes for each number of a key up
    to the largest that has a violation.

    Args:
        formula: the formula of the policy, or its text; the report shows it as it is written.
        name: the name of the policy, if it has one.
        number: the number of the policy in the report, from 1; it must be unique in a report.
        unit: the unit of the time-stamps, a key of `mtlmon.syntax.bounds.UNITS`, if it is known.
        violations: how many violations the report lists.
        keys: how many keys it lists.
        undecided: how many undecided time-points it lists.
        text: what the policy means, in words.
        severity: how serious a violation is, in a word.

    Raises:
        FormulaError: the text is not a formula.
        UnitError: the unit is unknown.
    """

    def __init__(
        self,
        formula: Formula | str,
        name: str | None = None,
        *,
        number: int = 1,
        unit: str | None = None,
        violations: int = 100,
        keys: int = 20,
        undecided: int = 50,
        text: str = "",
        severity: str | None = None,
    ) -> None:
        if unit is not None:
            require_unit(unit)
        if isinstance(formula, str):
            formula = parse(formula, unit=unit)
        self.formula = formula
        self.name = name
        self.text = text
        self.severity = severity
        self.number = number
        self.true = 0
        self.false = 0
        self.undecided = 0
        self._delay = decision_delay(formula)
        self._unit = unit
        self._histogram = TimeHistogram(unit)
        self._keys: _KeyCounts | None = None
        self._key_limit = keys
        self._violations = _FirstPoints(violations)
        self._undecided = _FirstPoints(undecided)
        self._explanations: dict[_Point, Explanation] = {}
        self._described: dict[_Point, _Description] = {}
        self._first: int | None = None
        self._last: int | None = None

    def add(self, verdicts: VerdictArray | NDArray[np.void], keys: ArrayLike | None = None) -> None:
        """Take Boolean verdicts.

        Equivalences must have been resolved by `mtlmon.resolve` or `mtlmon.Resolution`.

        Args:
            verdicts: the verdicts in any order, with each time-point only once.
            keys: if there are several traces, the number of the trace of each verdict, from 0.

        Raises:
            MtlmonError: a verdict is an equivalence, or `keys` is not such an array.
        """
        records = as_records(np.asarray(verdicts))
        if (records["kind"] == EQUIVALENT).any():
            index = int(np.argmax(records["kind"] == EQUIVALENT))
            raise MtlmonError(
                f"verdict {index} is an equivalence: reports take Boolean verdicts, which "
                "mtlmon.Resolution makes of them"
            )
        numbers = self._key_numbers(keys, len(records))
        if not len(records):
            return
        true_count = int(np.count_nonzero(records["kind"] == TRUE))
        self.add_true(true_count)
        self.cover(int(records["time_stamp"].min()), int(records["time_stamp"].max()))
        if true_count < len(records):
            is_false = records["kind"] != TRUE
            chosen = records[is_false]
            self._add_false(
                chosen["time_stamp"],
                chosen["offset"],
                None if numbers is None else numbers[is_false],
            )

    def add_violations(
        self, time_stamps: ArrayLike, offsets: ArrayLike, keys: ArrayLike | None = None
    ) -> None:
        """Take only the false time-points; count the others with `add_true`.

        Args:
            time_stamps: an array of integers.
            offsets: an array of integers of the same length.
            keys: the numbers of the traces, as for `add`.

        Raises:
            MtlmonError: the arrays differ in length, or are not arrays of such integers.
        """
        times = _integers(time_stamps, np.int64, "time_stamps")
        points = _integers(offsets, np.uint64, "offsets", len(times))
        self._add_false(times, points, self._key_numbers(keys, len(times)))

    def add_true(self, count: int) -> None:
        """Count time-points that are true."""
        self.true += count

    def add_undecided(
        self,
        time_stamps: ArrayLike,
        offsets: ArrayLike,
        keys: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        """Take time-points that have no verdict at the end of the log.

        Args:
            time_stamps: an array of integers.
            offsets: an array of integers of the same length.
            keys: the numbers of the traces, as for `add`.
            weights: how many time-points each of them stands for; by default 1.

        Raises:
            MtlmonError: the arrays differ in length, or are not arrays of such integers.
        """
        times = _integers(time_stamps, np.int64, "time_stamps")
        points = _integers(offsets, np.uint64, "offsets", len(times))
        numbers = self._key_numbers(keys, len(times))
        if weights is None:
            together = np.ones(len(times), np.int64)
        else:
            together = _integers(weights, np.int64, "weights", len(times))
        self.undecided += int(together.sum())
        self._undecided.add(times, points, numbers, together)

    def add_pending(self, pending: Iterable[PendingTimePoint], key: int | None = None) -> None:
        """Take what `Monitor.pending` lists at the end of the log.

        Args:
            pending: the undecided time-points.
            key: the number of the trace, if there are several.
        """
        points = list(pending)
        self.add_undecided(
            [point.time_stamp for point in points],
            np.array([point.offset for point in points], np.uint64),
            None if key is None else [key] * len(points),
            [point.weight for point in points],
        )

    def cover(self, first: int, last: int) -> None:
        """Extend the time of the report to that of events, whether they have verdicts or not.

        Args:
            first: the time-stamp of the first event.
            last: the time-stamp of the last event.
        """
        self._first = first if self._first is None else min(first, self._first)
        self._last = last if self._last is None else max(last, self._last)

    def first_violations(self, limit: int | None = None) -> list[tuple[int, int, int | None]]:
        """Return at most `limit` of the first violations; by default all that the report lists.

        Returns:
            For each the time-stamp, the offset and the number of the key, or None without keys.
        """
        return [
            (time_stamp, offset, None if key == _NO_KEY else key)
            for (time_stamp, key, offset), _ in self._violations.points()[:limit]
        ]

    def snapshot(self) -> dict[str, Any]:
        """Return what has been taken as a value for JSON, for `restore`.

        Explanations are left out, and undecided time-points, as these are known at the end.
        """
        return {
            "true": self.true,
            "false": self.false,
            "first": self._first,
            "last": self._last,
            "histogram": self._histogram.snapshot(),
            "keys": None if self._keys is None else self._keys.snapshot(),
            "violations": self._violations.snapshot(),
            "described": [
                [*point, one.row, one.message, one.values, dict(one.rows_of_values)]
                for point, one in self._described.items()
            ],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue with what a collector for the same policy has taken; this one must be new."""
        self.true, self.false = snapshot["true"], snapshot["false"]
        self._first, self._last = snapshot["first"], snapshot["last"]
        self._histogram.restore(snapshot["histogram"])
        if snapshot["keys"] is not None:
            self._keys = _KeyCounts()
            self._keys.restore(snapshot["keys"])
        self._violations.restore(snapshot["violations"])
        for *point, row, message, values, rows in snapshot["described"]:
            time_stamp, key, offset = point
            known = _Description(row, message, tuple(map(tuple, values)), rows)
            self._described[time_stamp, key, offset] = known

    def explain(
        self,
        time_stamp: int,
        offset: int,
        key: int | None,
        proof: Proof | UndecidedError,
        details: Sequence[str] = (),
    ) -> None:
        """Explain one of the first violations.

        Args:
            time_stamp: the time-stamp of the time-point.
            offset: its number within the time-stamp.
            key: the number of its trace, if there are several.
            proof: the proof that `mtlmon.explain` returns, or the error that it raises.
            details: lines about the time-point, such as values.
        """
        number = _NO_KEY if key is None else key
        name = f"policy-{self.number}-why-{time_stamp}-{offset}-{number}"
        self._explanations[time_stamp, number, offset] = explanation_of(proof, name, details)

    def describe(
        self,
        time_stamp: int,
        offset: int,
        key: int | None,
        *,
        row: str | None = None,
        message: str | None = None,
        values: Sequence[tuple[str, str]] = (),
        rows_of_values: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Tell what is known of one of the first violations.

        Args:
            time_stamp: the time-stamp of the time-point.
            offset: its number within the time-stamp.
            key: the number of its trace, if there are several.
            row: the file and the line that it is about, as in `access.jsonl:1207`.
            message: what the policy's message says of it.
            values: values that the policy reads at the time-point, each as a name and a text.
            rows_of_values: for values of windows, by their names, the rows that they are about.
        """
        number = _NO_KEY if key is None else key
        known = _Description(row, message, tuple(values), rows_of_values)
        self._described[time_stamp, number, offset] = known

    def report(
        self,
        key: Callable[[int], str] | Sequence[str] | None = None,
        *,
        key_columns: Sequence[str] = (),
        key_count: int | None = None,
    ) -> PolicyReport:
        """Return the results so far.

        Args:
            key: the texts of keys by number, as a function or a sequence; without it, numbers are
                shown.
            key_columns: the columns that form the keys, if policies have different keys.
            key_count: the number of all keys, if policies have different keys.
        """
        name_of = _naming(key)
        keys = None if self._keys is None else self._keys.report(self._key_limit, name_of)
        if keys is not None and key_columns:
            keys = replace(keys, columns=tuple(key_columns), count=key_count)
        return PolicyReport(
            name=self.name,
            text=self.text,
            severity=self.severity,
            formula=formula_text(self.formula, _FORMULA_CHARACTERS, Wording(self._unit)),
            true=self.true,
            false=self.false,
            undecided=self.undecided,
            timeline=self._histogram.timeline(self._first, self._last, _INTERVALS),
            keys=keys,
            violations=tuple(
                Violation(
                    point[0],
                    point[2],
                    None if point[1] == _NO_KEY else name_of(point[1]),
                    self._explanations.get(point),
                    **self._described.get(point, _Description())._asdict(),
                )
                for point, _ in self._violations.points()
            ),
            undecided_time_points=tuple(
                UndecidedTimePoint(
                    time_stamp,
                    offset,
                    None if number == _NO_KEY else name_of(number),
                    None if self._delay is None else min(time_stamp + self._delay, MAXIMUM_BOUND),
                    weight,
                )
                for (time_stamp, number, offset), weight in self._undecided.points()
            ),
        )

    def _add_false(
        self,
        time_stamps: NDArray[np.int64],
        offsets: NDArray[np.uint64],
        keys: NDArray[np.int64] | None,
    ) -> None:
        self.false += len(time_stamps)
        self._histogram.add(time_stamps)
        self._violations.add(time_stamps, offsets, keys)
        if keys is not None and self._keys is not None:
            self._keys.add(keys, time_stamps)

    def _key_numbers(self, keys: ArrayLike | None, count: int) -> NDArray[np.int64] | None:
        """The numbers of keys as an array; if they are given, the report has keys."""
        if keys is None:
            return None
        numbers = _integers(keys, np.int64, "keys", count)
        if self._keys is None:
            self._keys = _KeyCounts()
        return numbers


class _FirstPoints:
    """The first time-points of many, in order, each with a weight."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.time_stamps = np.zeros(0, np.int64)
        self.keys = np.zeros(0, np.int64)
        self.offsets = np.zeros(0, np.uint64)
        self.weights = np.zeros(0, np.int64)

    def add(
        self,
        time_stamps: NDArray[np.int64],
        offsets: NDArray[np.uint64],
        keys: NDArray[np.int64] | None,
        weights: NDArray[np.int64] | None = None,
    ) -> None:
        if keys is None:
            keys = np.full(len(time_stamps), _NO_KEY)
        if weights is None:
            weights = np.ones(len(time_stamps), np.int64)
        if len(self.time_stamps) and len(self.time_stamps) == self.limit:
            # few batches have an earlier time-point than those that are kept
            is_early = time_stamps <= self.time_stamps[-1]
            if not is_early.any():
                return
            time_stamps, offsets = time_stamps[is_early], offsets[is_early]
            keys, weights = keys[is_early], weights[is_early]
        time_stamps = np.concatenate([self.time_stamps, time_stamps])
        offsets = np.concatenate([self.offsets, offsets])
        keys = np.concatenate([self.keys, keys])
        order = np.lexsort((offsets, keys, time_stamps))[: self.limit]
        self.time_stamps, self.offsets = time_stamps[order], offsets[order]
        self.keys, self.weights = keys[order], np.concatenate([self.weights, weights])[order]

    def snapshot(self) -> list[list[int]]:
        arrays = (self.time_stamps, self.offsets, self.keys, self.weights)
        return [array.tolist() for array in arrays]

    def restore(self, snapshot: list[list[int]]) -> None:
        stamps, offsets, keys, weights = snapshot
        self.add(
            np.array(stamps, np.int64),
            np.array(offsets, np.uint64),
            np.array(keys, np.int64),
            np.array(weights, np.int64),
        )

    def points(self) -> list[tuple[_Point, int]]:
        points = zip(
            self.time_stamps.tolist(), self.keys.tolist(), self.offsets.tolist(), strict=True
        )
        return list(zip(points, self.weights.tolist(), strict=True))


class _KeyCounts:
    """Exact counts of the violations of keys, in arrays indexed by the numbers of keys."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)
        self.first = np.zeros(0, np.int64)
        self.last = np.zeros(0, np.int64)

    def add(self, keys: NDArray[np.int64], time_stamps: NDArray[np.int64]) -> None:
        if not len(keys):
            return
        self._extend(int(keys.max()) + 1)
        numbers, counts = np.unique(keys, return_counts=True)
        self.counts[numbers] += counts
        np.minimum.at(self.first, keys, time_stamps)
        np.maximum.at(self.last, keys, time_stamps)

    def _extend(self, size: int) -> None:
        if size <= len(self.counts):
            return
        # double the arrays, so that keys that come one by one do not copy them each time
        more = max(size, 2 * len(self.counts)) - len(self.counts)
        self.counts = np.concatenate([self.counts, np.zeros(more, np.int64)])
        self.first = np.concatenate([self.first, np.full(more, MAXIMUM_BOUND)])
        self.last = np.concatenate([self.last, np.zeros(more, np.int64)])

    def snapshot(self) -> list[list[int]]:
        numbers = np.flatnonzero(self.counts)
        return [one.tolist() for one in (numbers, *self._columns(numbers))]

    def restore(self, snapshot: list[list[int]]) -> None:
        numbers = np.array(snapshot[0], np.int64)
        self._extend(int(numbers.max(initial=-1)) + 1)
        self.counts[numbers], self.first[numbers], self.last[numbers] = snapshot[1:]

    def _columns(self, numbers: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        return (one[numbers] for one in (self.counts, self.first, self.last))

    def report(self, limit: int, name_of: Callable[[int], str]) -> KeyReport:
        """The keys with most violations; ties are in the order of the first violation."""
        numbers = np.flatnonzero(self.counts)
        order = np.lexsort((numbers, self.first[numbers], -self.counts[numbers]))[:limit]
        return KeyReport(
            len(numbers),
            tuple(
                KeyCount(
                    name_of(number),
                    int(self.counts[number]),
                    int(self.first[number]),
                    int(self.last[number]),
                )
                for number in numbers[order].tolist()
            ),
        )


def _naming(key: Callable[[int], str] | Sequence[str] | None) -> Callable[[int], str]:
    if key is None:
        return str
    return key if callable(key) else key.__getitem__


def _integers(
    values: ArrayLike, kind: type[_Integer], name: str, count: int | None = None
) -> NDArray[_Integer]:
    """Convert values to an array of the given type, without negative integers.

    Raises:
        MtlmonError: the values are not such integers, or their number is not `count`.
    """
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise MtlmonError(
            f"{name} are a one-dimensional array of integers, not of type {array.dtype} with "
            f"{array.ndim} dimensions"
        )
    if count is not None and len(array) != count:
        raise MtlmonError(f"{len(array)} {name} for {count} time-points: expected one for each")
    if len(array):
        least, most = int(array.min()), int(array.max())
        if least < 0 or most > np.iinfo(kind).max:
            wrong = least if least < 0 else most
            raise MtlmonError(f"{name}: {wrong} is not from 0 to {np.iinfo(kind).max}")
    return array.astype(kind, copy=False)
