"""Turns records of `logging` into events, while they are logged or afterwards."""

from __future__ import annotations

import logging
import re
from operator import index
from string import Formatter
from typing import TYPE_CHECKING, Any, overload

from mtlmon.errors import MtlmonError
from mtlmon.support.atom_names import listed
from mtlmon.syntax.bounds import UNITS
from mtlmon.testing.times import TimeReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.testing.live import LiveMonitor

__all__ = ["Listening", "LogHandler", "LogRule", "log_events"]


class LogRule:
    """A rule that says which log records make an atom true.

    A record matches if it matches all of the arguments that are given.

    Args:
        atom: the name of the atom. Parts in braces are replaced by fields of the record and groups
            of `message`, as in "login_{user}".
        logger: the name of the record's logger, or of an ancestor in the hierarchy of loggers.
        level: the least level, a number or a name.
        message: a regular expression to search for in the record's message.
        fields: the values of fields of the record (attributes, such as those given to `extra=`), or
            functions that say whether a value matches. A record without the field does not match.

    Raises:
        MtlmonError: the level is unknown, the regular expression is invalid, or braces in the name
            of the atom are not closed.

    >>> rule = LogRule("login_{user}", logger="app", message=r"user (?P<user>\\w+) logged in")
    >>> record = logging.LogRecord("app.web", 20, "app.py", 1, "user ada logged in", (), None)
    >>> rule.atom_of(record)
    'login_ada'
    """

    def __init__(
        self,
        atom: str,
        *,
        logger: str = "",
        level: int | str = 0,
        message: str | re.Pattern[str] | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        self.atom = atom
        self.logger = logger
        self.level = read_level(level)
        self.fields = dict(fields or {})
        try:
            self.message = None if message is None else re.compile(message)
            names = [name for _, name, _, _ in Formatter().parse(atom) if name is not None]
        except (re.error, ValueError) as error:
            raise MtlmonError(f"log rule for {atom!r}: {error}") from None
        self._is_template = bool(names)

    def atom_of(self, record: logging.LogRecord) -> str | None:
        """Return the name of the atom that the record makes true, or None if it does not match.

        Raises:
            MtlmonError: the atom's name refers to a field that the record does not have.
        """
        found = self.match(record)
        return None if found is None else found[0]

    def match(self, record: logging.LogRecord) -> tuple[str, dict[str, Any]] | None:
        """Return the atom that the record makes true, and the groups of `message` in its message.

        None if the record does not match.

        Raises:
            MtlmonError: as `atom_of` does.
        """
        if record.levelno < self.level or not self._is_at(record.name):
            return None
        for name, wanted in self.fields.items():
            if name not in record.__dict__:
                return None
            value = record.__dict__[name]
            if not (wanted(value) if callable(wanted) else wanted == value):
                return None
        groups: dict[str, str | Any] = {}
        if self.message is not None:
            match = self.message.search(record.getMessage())
            if match is None:
                return None
            groups = match.groupdict()
        if not self._is_template:
            return self.atom, groups
        try:
            return self.atom.format_map({**record.__dict__, **groups}), groups
        except (LookupError, AttributeError) as error:
            raise MtlmonError(
                f"log rule for {self.atom!r}: the record {record.getMessage()!r} has no field "
                f"{error}"
            ) from None

    def can_give(self, name: str) -> bool:
        """Whether a record can make an atom with this name true."""
        parts = Formatter().parse(self.atom)
        pattern = "".join(
            re.escape(text) + ("" if field is None else ".*") for text, field, _, _ in parts
        )
        return re.fullmatch(pattern, name, re.DOTALL) is not None

    def _is_at(self, name: str) -> bool:
        return not self.logger or name == self.logger or name.startswith(f"{self.logger}.")

    def __repr__(self) -> str:
        return f"<LogRule {self.atom}>"


class LogHandler(logging.Handler):
    """A handler that turns every record that matches a rule into an event.

    The event has the atoms of all rules that match, and the time-stamp of the monitor's clock. The
    handler never raises an exception in the code that logs: the monitor raises violations.

    Args:
        monitor: the monitor, which must have a clock.
        rules: the rules that map records to atoms.
        level: the least level; records below it are ignored.
    """

    def __init__(
        self, monitor: LiveMonitor, rules: Iterable[LogRule], level: int | str = logging.NOTSET
    ) -> None:
        super().__init__(level)
        self.monitor = monitor
        self.rules = tuple(rules)
        # the rules that have had a record
        self.matched: set[LogRule] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Turn the record into an event."""
        try:
            atoms, fields = read_record(record, self.rules, self.matched)
        except Exception as error:
            self.monitor.fail(error)
            return
        if atoms:
            self.monitor.notify(atoms, fields, f"log record {record.getMessage()!r}")


def read_record(
    record: logging.LogRecord, rules: Iterable[LogRule], matched: set[LogRule] | None = None
) -> tuple[frozenset[str], dict[str, object]]:
    """Return the atoms that the record makes true, none if no rule matches, and its fields.

    The named groups of the rules that match are among the fields. These rules are added to
    `matched`.
    """
    fields = dict(record.__dict__)
    atoms = []
    for rule in rules:
        found = rule.match(record)
        if found is not None:
            atoms.append(found[0])
            fields |= found[1]
            if matched is not None:
                matched.add(rule)
    return frozenset(atoms), fields


@overload
def log_events(
    records: Iterable[logging.LogRecord], *rules: LogRule, unit: str = "ms"
) -> list[tuple[int, frozenset[str]]]: ...
@overload
def log_events(
    records: Iterable[logging.LogRecord],
    *rules: LogRule,
    unit: str = "ms",
    fields: str | Sequence[str],
) -> list[tuple[int, dict[str, object]]]: ...
def log_events(
    records: Iterable[logging.LogRecord],
    *rules: LogRule,
    unit: str = "ms",
    fields: str | Sequence[str] = (),
) -> list[tuple[int, frozenset[str]]] | list[tuple[int, dict[str, object]]]:
    """Turn log records, such as pytest's `caplog.records`, into a trace for `assert_holds`.

    Args:
        records: the records; those that match no rule are ignored.
        rules: the rules that map records to atoms; see `LogRule`.
        unit: the unit of the time-stamps, which count from 1970 and are rounded down.
        fields: the names of fields of records, and of groups of `message`, that events should have:
            the key, and values for conditions.

    Returns:
        Pairs (time_stamp, atoms), ordered by time. If fields are given, the atoms are a dictionary
        with those that the record has.

    Raises:
        MtlmonError: the unit is unknown, or a rule refers to a field that a record does not have.
    """
    if unit not in UNITS:
        raise MtlmonError(f"the unit is one of {', '.join(UNITS)}, not {unit!r}")
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    times = TimeReader(unit)
    found = []
    for record in records:
        atoms, values = read_record(record, rules)
        if atoms:
            found.append((index(times.read(record.created)), atoms, values))
    found.sort(key=lambda event: event[0])
    if not names:
        return [(time_stamp, atoms) for time_stamp, atoms, _ in found]
    return [
        (
            time_stamp,
            dict.fromkeys(sorted(atoms), True)
            | {name: values[name] for name in names if name in values},
        )
        for time_stamp, atoms, values in found
    ]


class Listening:
    """A handler that is attached to a logger.

    Args:
        monitor: the monitor that gets the events.
        rules: the rules that map records to atoms.
        logger: the logger, or its name; None for the root logger.
        level: the level that the logger is set to in the meantime, or None.
    """

    def __init__(
        self,
        monitor: LiveMonitor,
        rules: Sequence[LogRule],
        logger: logging.Logger | str | None,
        level: int | str | None,
    ) -> None:
        if not isinstance(logger, logging.Logger):
            logger = logging.getLogger(logger)
        self._target = logger
        self._handler = LogHandler(monitor, rules)
        self._level_before = self._target.level
        self._has_level = level is not None
        if level is not None:
            self._target.setLevel(read_level(level))
        self._least = self._target.getEffectiveLevel()
        self._target.addHandler(self._handler)

    def stop(self) -> None:
        """Remove the handler, and set the level that the logger had before."""
        self._target.removeHandler(self._handler)
        if self._has_level:
            self._target.setLevel(self._level_before)

    def dropped(self, atoms: Sequence[str]) -> str:
        """Say that no record has had an atom, perhaps because the logger drops low levels.

        A program need not log everything that rules look for, so nothing is said if there was any
        such record, if a level has been chosen, or if the logger makes records of level INFO.

        Args:
            atoms: the atoms of the formula.
        """
        least = self._least
        if self._has_level or least <= logging.INFO:
            return ""
        wanted = [
            rule for rule in self._handler.rules if any(rule.can_give(name) for name in atoms)
        ]
        if not wanted or any(rule.level >= least for rule in wanted):
            return ""
        if not self._handler.matched.isdisjoint(wanted):
            return ""
        names = listed([rule.atom for rule in wanted])
        return (
            f"no log record matched the rule for {names}, but the logger "
            f"{self._target.name!r} only makes records from {logging.getLevelName(least)} on: pass "
            "level='INFO' to listen, or the lowest level that the program needs"
        )


def read_level(level: int | str) -> int:
    """Return the number of a level.

    Raises:
        MtlmonError: no level has this name.
    """
    if isinstance(level, str):
        number = logging.getLevelNamesMapping().get(level.upper())
        if number is None:
            raise MtlmonError(f"no level of logging is called {level!r}")
        return number
    return level
