"""Reports atoms of a formula that a trace does not have.

A misspelt atom never holds, so `ALWAYS NOT eror` passes on any trace. If the trace says which atoms
it knows, an unknown atom is an error. If events are sets of names, an atom that never occurs can be
correct, as `error` in a trace without errors, so this is only a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from mtlmon.errors import MtlmonError, TraceError, UnknownAtomWarning
from mtlmon.support.atom_names import listed
from mtlmon.support.guesses import did_you_mean
from mtlmon.support.stack_levels import levels_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mtlmon.testing.recording import Atoms

__all__ = ["SeenNames", "Unknown"]

Unknown = Literal["warn", "error", "ignore"] | None

_CHOICES = (None, "warn", "error", "ignore")
# How many names are remembered, as a trace can have a new one in every event.
_MOST_NAMES = 1000


class SeenNames:
    """The names that events of a trace have had.

    Args:
        atoms: the atoms of the formula.
        unknown: "warn", "error" or "ignore"; None means an error if the trace says which atoms it
            knows, and a warning otherwise.

    Attributes:
        atoms: the atoms of the formula.
        missing: the atoms that no event has had, and that the trace does not know otherwise. This
            is always the same set object; once it is empty, events need not be noted any more.
        more: a function that returns other names of the trace, if names are not noted event by
            event, or None.

    Raises:
        MtlmonError: `unknown` has another value.
    """

    def __init__(self, atoms: Sequence[str], unknown: Unknown = None) -> None:
        if unknown not in _CHOICES:
            raise MtlmonError(f"unknown is 'warn', 'error', 'ignore' or None, not {unknown!r}")
        self.atoms = tuple(atoms)
        self._unknown = unknown
        self._names: dict[str, None] = {}
        self._is_declared = False
        self.missing = set(atoms)
        self.more: Callable[[], Iterable[str]] | None = None

    @property
    def absent(self) -> list[str]:
        """The missing atoms, in the order of the formula."""
        return [name for name in self.atoms if name in self.missing]

    def note(self, atoms: Iterable[str]) -> None:
        """Note the names of an event."""
        self.missing.difference_update(atoms)
        if len(self._names) < _MOST_NAMES:
            self._names.update(dict.fromkeys(atoms))

    def note_mapping(self, atoms: Atoms) -> None:
        """Note an event's names, if it is a mapping that also says which do not hold.

        A mapping without false values says no more than a set.
        """
        if isinstance(atoms, Mapping) and not all(atoms.values()):
            self._is_declared = True
            self.note(atoms)

    def know(self, is_known: Callable[[str], bool]) -> None:
        """Note atoms that can occur, so that it is not a mistake if they never do."""
        self.missing.difference_update([name for name in self.atoms if is_known(name)])

    def require(self, known: Sequence[str], problem: str, listing: str) -> list[str]:
        """Check the formula's atoms against all names of the trace, before the first event.

        Args:
            known: the names of the trace.
            problem: the beginning of a message about atoms that are not among them.
            listing: the beginning of the sentence that lists the names.

        Returns:
            The atoms that are not among the names, and so never hold.

        Raises:
            TraceError: an atom is not among the names, and that is an error.
        """
        __tracebackhide__ = True
        self.missing.difference_update(known)
        absent = self.absent
        if absent:
            self._say(
                f"{problem} {listed(absent)}, which the formula names{_guess(absent, known)} "
                f"{listing} {listed(known) or 'none'}",
                is_error=self._unknown in (None, "error"),
            )
        # Nothing more is to be reported.
        self.missing.clear()
        return absent

    def finish(
        self, event_count: int, *, has_failed: bool, place: tuple[str, int] | None = None
    ) -> None:
        """Report at the end of a trace which atoms never occurred.

        Args:
            event_count: the number of events; a trace without events says nothing about names.
            has_failed: whether a failure is reported, which has hints at similar names, so that a
                warning is not needed.
            place: the file and line that a warning is about; by default, the line that called the
                package.

        Raises:
            TraceError: an atom never occurred, and that is an error.
        """
        __tracebackhide__ = True
        if not self.missing or not event_count:
            return
        is_error = self._unknown == "error" or (self._unknown is None and self._is_declared)
        if has_failed and not is_error:
            return
        names = self.names()
        absent = self.absent
        noun = "atom" if len(absent) == 1 else "atoms"
        seen = f"Names seen: {listed(names)}." if names else "No event has any atoms."
        self._say(
            f"no event has the {noun} {listed(absent)}, which the formula names"
            f"{_guess(absent, names)} {seen} Pass unknown='ignore' if that is as it should be",
            is_error=is_error,
            place=place,
        )

    def note_dropped(self, message: str, place: tuple[str, int] | None) -> None:
        """Report that records of a log are not made, which could have had atoms; "" if they are.

        The arguments and errors are those of `finish`.
        """
        __tracebackhide__ = True
        if message:
            self._say(message, is_error=self._unknown == "error", place=place)

    def names(self) -> list[str]:
        """Return the names seen, in order of first occurrence."""
        if self.more is not None:
            self._names.update(dict.fromkeys(self.more()))
            self.more = None
        return list(self._names)

    def _say(self, message: str, *, is_error: bool, place: tuple[str, int] | None = None) -> None:
        __tracebackhide__ = True
        if self._unknown == "ignore":
            return
        if is_error:
            raise TraceError(message)
        if place is None:
            warnings.warn(message, UnknownAtomWarning, stacklevel=levels_inside())
        else:
            warnings.warn_explicit(message, UnknownAtomWarning, *place)


def _guess(absent: Sequence[str], known: Sequence[str]) -> str:
    """The end of a sentence: a guess at what was meant, or just a full stop."""
    for name in absent:
        if guess := did_you_mean(name, known):
            return guess if len(absent) == 1 else f"{guess[:-1]} for {name!r}?"
    return "."
