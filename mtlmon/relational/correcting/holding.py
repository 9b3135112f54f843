"""For which keys nothing violates a policy, where all rows of a time-stamp are one time-point.

An engine says what violates a policy at a time-point, or that nothing does, of all keys. A key with
rows there has an answer of its own: that nothing violates the policy, unless something of this key
does. So a late row may bring an answer although the engine says the same as before.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mtlmon.relational.running import HOLDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from mtlmon.relational.correcting.chunks import Row
    from mtlmon.relational.key_names import Key, KeyNames
    from mtlmon.relational.plan import Plan

__all__ = ["HeldKeys"]


class HeldKeys:
    """Finds these keys, and tells of each by the offset of the first row that it has had there.

    Args:
        made: the plan of the policies.
        names: knows the keys of rows.
    """

    def __init__(self, made: Plan, names: KeyNames[Any]) -> None:
        self._names = names
        self._texts = made.texts
        policies = enumerate(made.named_policies)
        self._widths = {
            number: len(one.key) for number, one in policies if one.key and not one.is_find
        }
        # by policy and time-stamp: how many answers there are of each key, None for that of all
        self._answers: dict[tuple[int, int], Counter[Key | None]] = {}
        self._emitted: dict[tuple[int, int], set[int]] = {}

    def of_keys(
        self,
        net: Mapping[Row, int],
        time_stamps: Iterable[int],
        removed: Mapping[int, Sequence[int]],
    ) -> dict[Row, int]:
        """Return the answers of engines that have changed as those of keys.

        Args:
            net: those of engines, 1 for a new one and -1 for one that is gone.
            time_stamps: where rows have come or gone; some occur several times.
            removed: by time-stamp, the offsets of rows that were taken back.
        """
        found = {}
        touched = {(policy, stamp) for stamp in {*time_stamps} for policy in self._widths}
        touched &= self._answers.keys()
        for row, by in net.items():
            policy, time_stamp, _, kind, cells = row
            width = self._widths.get(policy, 0)
            key = None
            if kind != HOLDS or not width:
                found[row] = by
                key = tuple(self._texts.key(cell)[0] for cell in cells[:width])
            if width:
                touched.add((policy, time_stamp))
                self._answers.setdefault((policy, time_stamp), Counter())[key] += by
        for policy, time_stamp in touched:
            violated = +self._answers[policy, time_stamp]
            now = set[int]()
            if violated:
                first = self._names.present(policy, time_stamp, removed.get(time_stamp, ()))
                now = {offset for key, offset in first.items() if key not in violated}
            before = self._emitted.pop((policy, time_stamp), set())
            if now:
                self._emitted[policy, time_stamp] = now
            if not violated:
                del self._answers[policy, time_stamp]
            for offsets, by in ((before - now, -1), (now - before, 1)):
                found |= {(policy, time_stamp, offset, HOLDS, ()): by for offset in offsets}
        return found

    def forget(self, below: int) -> None:
        """Declare that no answer about a time-stamp below a time changes any more."""
        for own in (self._answers, self._emitted):
            for name in [one for one in own if one[1] < below]:
                del own[name]
