"""Which atoms of a formula a trace has, and what is said about those that it does not have.

A misspelt atom never holds, so that `ALWAYS NOT eror` passes on any trace. Where the trace says
which atoms it knows, one that it does not know is an error. Where events are sets of names, an atom
that never occurs may be right, as `error` in a trace without errors: that is worth a warning.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from mtlmon.errors import MtlmonError, TraceError, UnknownAtomWarning
from mtlmon.support.atom_names import listed
from mtlmon.support.guesses import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mtlmon.testing.recording import Atoms

__all__ = ["SeenNames", "Unknown"]

Unknown = Literal["warn", "error", "ignore"] | None

_CHOICES = (None, "warn", "error", "ignore")
# How many names are remembered: a trace may have a new one in every event.
_MOST_NAMES = 1000
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class SeenNames:
    """The names that events of a trace have had.

    Args:
        atoms: of the formula.
        unknown: "warn", "error" or "ignore"; None for an error where the trace says which atoms it
            knows, and else a warning.

    Attributes:
        missing: the atoms that no event has had, and that the trace does not know otherwise. It is
            one set for good; while it is empty, nothing more need be noted.
        more: gives other names of the trace, where these are not noted event by event.

    Raises:
        MtlmonError: `unknown` is none of these.
    """

    def __init__(self, atoms: Sequence[str], unknown: Unknown = None) -> None:
        if unknown not in _CHOICES:
            raise MtlmonError(f"unknown is 'warn', 'error', 'ignore' or None, not {unknown!r}")
        self._atoms = tuple(atoms)
        self._unknown = unknown
        self._names: dict[str, None] = {}
        self._is_declared = False
        self.missing = set(atoms)
        self.more: Callable[[], Iterable[str]] | None = None

    @property
    def absent(self) -> list[str]:
        """The missing atoms in the order of the formula."""
        return [name for name in self._atoms if name in self.missing]

    def note(self, atoms: Iterable[str]) -> None:
        """Note the names of an event."""
        self.missing.difference_update(atoms)
        if len(self._names) < _MOST_NAMES:
            self._names.update(dict.fromkeys(atoms))

    def note_mapping(self, atoms: Atoms) -> None:
        """Note an event's names, if it is a mapping that also says what does not hold.

        One without false values says no more than a set does.
        """
        if isinstance(atoms, Mapping) and not all(atoms.values()):
            self._is_declared = True
            self.note(atoms)

    def know(self, is_known: Callable[[str], bool]) -> None:
        """Note atoms that may occur, so that it is no mistake if they do not."""
        self.missing.difference_update([name for name in self._atoms if is_known(name)])

    def require(self, known: Sequence[str], problem: str, listing: str) -> list[str]:
        """Check the formula against all that the trace knows, before the first event.

        Args:
            known: the names.
            problem: the beginning of a message about an atom that is not among them.
            listing: the beginning of its sentence about those that there are.

        Returns:
            The atoms that are not among them, and never hold.

        Raises:
            TraceError: an atom is not among them, and that is an error.
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
        # That was all there is to say.
        self.missing.clear()
        return absent

    def finish(
        self, event_count: int, *, has_failed: bool, place: tuple[str, int] | None = None
    ) -> None:
        """Say at the end of a trace which atoms never occurred.

        Args:
            event_count: of the trace; one without events says nothing about names.
            has_failed: there is a failure to report, which hints at names that look alike. No
                warning is needed then.
            place: the file and line that a warning is about; by default where the caller called
                the package.

        Raises:
            TraceError: that is an error.
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

    def names(self) -> list[str]:
        """The names seen, in order of first occurrence."""
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
            warnings.warn(message, UnknownAtomWarning, stacklevel=_levels_inside())
        else:
            warnings.warn_explicit(message, UnknownAtomWarning, *place)


def _guess(absent: Sequence[str], known: Sequence[str]) -> str:
    """The end of a sentence: what was probably meant, if anything is like it."""
    for name in absent:
        if guess := did_you_mean(name, known):
            return guess if len(absent) == 1 else f"{guess[:-1]} for {name!r}?"
    return "."


def _levels_inside() -> int:
    """The `stacklevel` by which `_say` warns about the line that called the package."""
    # PERF: at most once for each trace.
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    return level
