"""The messages of verdicts that rows which come late can change.

Messages are made where the atoms of rows and ticks are computed, so a row that is computed again
has its message made again. One that has changed is a change of its violation, even if the verdict
is what it was.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.shown import ValueRows
from mtlmon.history.changes import UPDATED, change_type
from mtlmon.support.snapshot_parts import damaged
from mtlmon.verdicts.arrays import FALSE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy import Policy
    from mtlmon.policy.messages import ShownMessage
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.late_computing import Computed

    # policy, number of the trace, time-stamp, and offset
    Name = tuple[int, int, int, int]

__all__ = ["LateMessages"]

_MESSAGE_BYTES = 250
# So many messages more than twice those that were left make it worth looking for old ones.
_SPARE_MESSAGES = 4096


class LateMessages:
    """The messages of the violations of policies for as long as rows can change them.

    Args:
        policies: the policies of the check.
        partition_of: for each policy, the number of its partition.
        when: for each, at which rows or ticks it has time-points.
    """

    def __init__(
        self, policies: Sequence[Policy], partition_of: Sequence[int], when: Sequence[When]
    ) -> None:
        self._fixed: dict[int, str] = {}
        self._with_values: dict[int, tuple[int, When, str, ShownMessage]] = {}
        for number, policy in enumerate(policies):
            if (message := policy.message) is None:
                continue
            if message.text is not None:
                self._fixed[number] = message.text
            else:
                atom = next(iter(policy.formula.atoms), "")
                self._with_values[number] = partition_of[number], when[number], atom, message
        # those of time-points that can violate their policies, and of those that do
        self._known: dict[Name, str | None] = {}
        self._emitted: dict[Name, str | None] = {}
        # by policy, those that have changed since they were emitted
        self._changed: dict[int, set[Name]] = {}
        self._swept = 0

    def has_values(self, policy: int) -> bool:
        """Whether the message of a policy has values."""
        return policy in self._with_values

    def taker_of(self, partition: int) -> Callable[[Computed], None] | None:
        """Return what makes the messages of a partition; None if there are none with values."""
        found = [
            (number, when, atom, message)
            for number, (own, when, atom, message) in self._with_values.items()
            if own == partition
        ]
        return partial(self._add, found) if found else None

    def _add(
        self, messages: Sequence[tuple[int, When, str, ShownMessage]], computed: Computed
    ) -> None:
        """Make the messages of rows or ticks that can violate their policies."""
        when, names, atoms, held, shown = computed
        for policy, own, atom, message in messages:
            if own != when or not len(held):
                continue
            places = np.arange(len(held))
            if message.violations is not None:
                is_violation = shown[message.violations].to_numpy(zero_copy_only=False)
                places = np.flatnonzero(is_violation == True)  # noqa: E712
            elif not message.is_later:
                places = np.flatnonzero(held[:, atoms.index(atom)])
            values = ValueRows(shown, places.tolist())
            columns = (names.traces[places], names.time_stamps[places], names.offsets[places])
            rows = zip(*(column.tolist() for column in columns), strict=True)
            for index, (trace, time_stamp, offset) in enumerate(rows):
                self.note((policy, trace, time_stamp, offset), message.at(values.row(index)))

    def note(self, name: Name, message: str | None) -> None:
        """Let a time-point have a message, if it violates its policy."""
        self._known[name] = message
        if name in self._emitted and self._emitted[name] != message:
            self._changed.setdefault(name[0], set()).add(name)

    def revised(self, policy: int, records: NDArray[np.void]) -> NDArray[np.void]:
        """Return the changes of a policy, with those of messages alone.

        Args:
            policy: the number of the policy.
            records: the changes of its verdicts, of `change_type()`.
        """
        if policy not in self._with_values:
            return records
        names = (records[name].tolist() for name in ("trace", "time_stamp", "offset", "kind"))
        for *own, kind in zip(*names, strict=True):
            name = (policy, *own)
            if kind == FALSE:
                self._emitted[name] = self._known.get(name)
            else:
                self._emitted.pop(name, None)
        changed = [
            name
            for name in sorted(self._changed.pop(policy, ()))
            if name in self._emitted and self._emitted[name] != self._known[name]
        ]
        if not changed:
            return records
        more = np.zeros(len(changed), change_type())
        for place, name in enumerate(changed):
            self._emitted[name] = self._known[name]
            _, more["trace"][place], more["time_stamp"][place], more["offset"][place] = name
        more["kind"] = more["former"] = FALSE
        more["operation"] = UPDATED
        return np.concatenate([records, more])

    def take(self, policy: int, number: int, time_stamp: int, offset: int) -> str | None:
        """Return the message of a violation.

        Args:
            policy: the number of the policy.
            number: the number of the trace.
            time_stamp: the time-stamp.
            offset: the offset of the time-point.
        """
        if policy in self._fixed:
            return self._fixed[policy]
        return self._emitted.get((policy, number, time_stamp, offset))

    def forget(self, final_below: Callable[[int], NDArray[np.int64] | None]) -> None:
        """Forget messages that do not change any more, if there may be many.

        Args:
            final_below: tells for each policy the time below which its verdicts are final, of all
                traces or of each; None if there is none.
        """
        if len(self._known) + len(self._emitted) <= 2 * self._swept + _SPARE_MESSAGES:
            return
        bounds = {policy: final_below(policy) for policy in self._with_values}

        def stays(name: Name) -> bool:
            own = bounds[name[0]]
            if own is None:
                return True
            return name[2] >= int(own[0] if len(own) == 1 else own[name[1]])

        self._known = {name: text for name, text in self._known.items() if stays(name)}
        self._emitted = {name: text for name, text in self._emitted.items() if stays(name)}
        self._swept = len(self._known) + len(self._emitted)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that messages take, about."""
        return len(self._known) * _MESSAGE_BYTES

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`; all changes have been emitted."""
        parts = [list(own.items()) for own in (self._known, self._emitted)]
        return json.dumps([*parts, self._swept]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            known, emitted, self._swept = json.loads(snapshot)
            self._known = {_name(*name): message for name, message in known}
            self._emitted = {_name(*name): message for name, message in emitted}
        except (ValueError, TypeError):
            raise damaged() from None


def _name(policy: int, number: int, time_stamp: int, offset: int) -> Name:
    return int(policy), int(number), int(time_stamp), int(offset)
