"""Reads the keys of events: values that divide them into traces, each with a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mtlmon.errors import EventTypeError, MtlmonError, TraceError
from mtlmon.support.guesses import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Keys"]


class Keys:
    """The keys of events, numbered in order of first occurrence.

    Args:
        names: the names of the values that make a key.
        kept: the names that conditions are about, which stay in events.

    Raises:
        MtlmonError: a name is given twice, or is not a text.
    """

    def __init__(self, names: str | Sequence[str], kept: Collection[str] = ()) -> None:
        is_name = isinstance(names, str) or not isinstance(names, Iterable)
        self.names: tuple[str, ...] = (names,) if is_name else tuple(names)  # type: ignore[assignment]
        if not self.names or not all(isinstance(name, str) and name for name in self.names):
            raise MtlmonError(f"key is the name of a value of events, or several, not {names!r}")
        if len(set(self.names)) < len(self.names):
            raise MtlmonError(f"key names a value twice: {', '.join(self.names)}")
        self._dropped = frozenset(self.names).difference(kept)
        self._numbers: dict[tuple[object, ...], int] = {}
        self._keys: list[dict[str, object]] = []

    def __getitem__(self, number: int) -> dict[str, object]:
        """The key with a number, as a value for each name."""
        return self._keys[number]

    def number(self, values: tuple[object, ...]) -> int:
        """Return the number of a key.

        Raises:
            EventTypeError: a value cannot be compared by a hash.
        """
        __tracebackhide__ = True
        try:
            known = self._numbers.setdefault(values, len(self._keys))
        except TypeError:
            raise EventTypeError(
                f"{_written(self.names, values)} cannot be a key: keys are texts, numbers and "
                "other values that can be in a set"
            ) from None
        if known == len(self._keys):
            self._keys.append(dict(zip(self.names, values, strict=True)))
        return known

    def split(self, event: object) -> tuple[int, dict[str, object]]:
        """Take the key out of an event.

        Args:
            event: a mapping with the values of the key.

        Returns:
            The number of the key, and the rest of the event.

        Raises:
            EventTypeError: a value is missing.
        """
        __tracebackhide__ = True
        if not isinstance(event, Mapping):
            values = ", ".join(f"{name!r}: ..." for name in self.names)
            raise EventTypeError(
                f"{event!r} has no key: write what holds and the key as a dictionary, as in "
                f"{{'start': True, {values}}}; events of log_events have the fields that fields= "
                "names"
            )
        self.require(event, "the event has no")
        rest = {name: value for name, value in event.items() if name not in self._dropped}
        return self.number(tuple(event[name] for name in self.names)), rest

    def require(self, event: Mapping[Any, object], problem: str) -> None:
        """Require that an event has a key.

        Args:
            event: the values of the event.
            problem: the beginning of the message if a value is missing.

        Raises:
            EventTypeError: a value is missing.
        """
        __tracebackhide__ = True
        for name in self.names:
            if event.get(name) is None:
                guess = did_you_mean(name, [str(one) for one in event])
                raise EventTypeError(f"{problem} {name!r}, which is the key{guess}")

    def missing_in(self, kind: str) -> TraceError:
        """Return the error for a trace whose events have no values.

        Args:
            kind: what the trace is.
        """
        return TraceError(
            f"{kind} has no values that could be the key {', '.join(self.names)}: pass "
            "events with dictionaries, or a table"
        )


def _written(names: Sequence[str], values: Sequence[object]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in zip(names, values, strict=True))
