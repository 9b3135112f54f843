"""The first violation of policies with variables and others, on a log whose events come late.

It is the earlier violation of both kinds, once it is below the bound of what is final for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtlmon.checking.changes import Bound, PolicyChanges
from mtlmon.checking.late_first import FirstAnswer, FirstChanges
from mtlmon.checking.late_valuations import ChangedAnswers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking.late_first import Name
    from mtlmon.checking.late_mixed import MixedChange
    from mtlmon.checking.late_valuations import ValuationCheck

__all__ = ["FirstOfHistories"]


class FirstOfHistories:
    """Finds the first violation of all policies, in the order of `tables.first_of_both`.

    Args:
        finds: for each policy with variables whether it is a find.
        has_keys: whether the policies without variables divide the log by keys.
        by_stamp: whether all rows of one time-stamp are one time-point of those with variables.

    Attributes:
        is_known: whether the first violation has been told.
        open_before: its time-stamp and offset at the end of the log, if one before it is undecided.
    """

    def __init__(self, finds: Sequence[bool], *, has_keys: bool, by_stamp: bool) -> None:
        self._plain = FirstChanges(has_keys=has_keys)
        self._others = FirstAnswer(finds, has_others=True)
        # without a common order within a time-stamp, policies without variables come first there
        self._parts = 1 if has_keys or by_stamp else 2
        self.is_known = False
        self.open_before: tuple[int, int] | None = None

    def note(self, changes: PolicyChanges | ChangedAnswers) -> None:
        """Note changes that were taken."""
        if self.is_known:
            return
        if isinstance(changes, PolicyChanges):
            self._plain.note(changes)
        else:
            self._others.note(changes.changes)

    def below(self, bound: int, others: ValuationCheck) -> list[MixedChange]:
        """Return what tells the first violation, if it is known now, or nothing.

        Args:
            bound: the time below which all verdicts and answers are final.
            others: the policies with variables.
        """
        found = self._plain.earliest, self._others.earliest
        if self.is_known or all(one is None or one[0] >= bound for one in found):
            return []
        return [Bound(bound), self._told(others)]

    def end(self, undecided: Name | None, others: ValuationCheck) -> list[MixedChange]:
        """End the log; return what tells the first violation, or nothing.

        Args:
            undecided: time-stamp, offset and policy of the earliest undecided time-point of the
                policies without variables, or None.
            others: the policies with variables.
        """
        own, other = self._plain.earliest, self._others.earliest
        first = own if self._is_plain else other
        if self.is_known or first is None:
            return []
        open_others = self._others.earliest_open(others.history)
        point = first[: self._parts]
        if self._is_plain:
            is_open = undecided is not None and self._plain.is_open(undecided)
            is_open |= open_others is not None and open_others[: self._parts] < point
        else:
            is_open = undecided is not None and undecided[: self._parts] <= point
            is_open |= open_others is not None and open_others < first
        if is_open:
            self.open_before = first[0], first[1]
            return []
        return [self._told(others)]

    @property
    def _is_plain(self) -> bool:
        """Whether the earliest violation is one of a policy without variables."""
        own, other = self._plain.earliest, self._others.earliest
        return own is not None and (other is None or own[: self._parts] <= other[: self._parts])

    def _told(self, others: ValuationCheck) -> MixedChange:
        self.is_known = True
        if self._is_plain:
            return self._plain.tell()
        return ChangedAnswers(self._others.tell(others.history), others.revision, None)

    def parts(self) -> list[Any]:
        """Return what `restore` needs."""
        return [self.is_known, self._plain.parts(), self._others.parts()]

    def restore(self, parts: Sequence[Any]) -> None:
        """Go on from what `parts` has returned; nothing must have been noted."""
        self.is_known, own, others = parts
        self._plain.go_on(own)
        self._others.restore(others)
