"""Patterns for the lines of well-known logs, by name."""

from __future__ import annotations

import re
from typing import NamedTuple

from mtlmon.errors import MtlmonError


class ReadyPattern(NamedTuple):
    """A pattern for a well-known log.

    Attributes:
        regex: the regular expression; None for pairs as in `level=info user="ann lee"`, whose names
            are the columns.
        time: the column of times; None for the default.
        time_format: how times are written, as for `Times`; None for ISO 8601 or numbers.
        lacks_year: whether times have no year, so that it has to be told.
        year: the year of the log, if it had to be told.
    """

    regex: str | None
    time: str | None
    time_format: str | None = None
    lacks_year: bool = False
    year: str | None = None


_ISO_TIME = r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]\S+)"
_PROGRAM = r"(?P<program>[^\s:\[]+)(?:\[(?P<pid>[0-9]+)\])?: (?P<message>.*)$"

READY = {
    "combined": ReadyPattern(
        r"^(?P<client>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "
        r'"(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<protocol>[^"]*))?" '
        r"(?P<status>[0-9]{3}) (?:(?P<bytes>[0-9]+)|-)"
        r'(?: "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)")?',
        "time",
        "%d/%b/%Y:%H:%M:%S %z",
    ),
    "nginx_error": ReadyPattern(
        r"^(?P<time>[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9:]{8}) \[(?P<level>[a-z]+)\] "
        r"(?P<pid>[0-9]+)#(?P<thread>[0-9]+): (?:\*(?P<connection>[0-9]+) )?(?P<message>.*?)"
        r"(?:, client: (?P<client>[^,]+))?(?:, server: (?P<server>[^,]*))?"
        r'(?:, request: "(?P<method>[A-Z]+) (?P<path>[^ "]*)[^"]*")?'
        r'(?:, upstream: "(?P<upstream>[^"]*)")?(?:, host: "(?P<host>[^"]*)")?'
        r'(?:, referrer: "(?P<referrer>[^"]*)")?$',
        "time",
        "%Y/%m/%d %H:%M:%S",
    ),
    "syslog": ReadyPattern(
        rf"^(?:<(?P<priority>[0-9]+)>)?{_ISO_TIME} (?P<host>\S+) {_PROGRAM}", "time"
    ),
    "rfc3164": ReadyPattern(
        r"^(?:<(?P<priority>[0-9]+)>)?(?P<time>[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}) "
        rf"(?P<host>\S+) {_PROGRAM}",
        "time",
        "%Y %b %d %H:%M:%S",
        lacks_year=True,
    ),
    "sshd": ReadyPattern(
        rf"^(?:<[0-9]+>)?{_ISO_TIME} (?P<host>\S+) sshd[^\s:\[]*(?:\[(?P<pid>[0-9]+)\])?: "
        r"(?P<result>Accepted|Failed) (?P<method>\S+) for (?:(?P<invalid>invalid) user )?"
        r"(?P<user>\S*) from (?P<client>\S+) port (?P<port>[0-9]+)",
        "time",
    ),
    "logfmt": ReadyPattern(None, None),
}
"""The patterns by name. The year of a log stands behind the name: `rfc3164:2024`."""

NAMES = tuple(f"{name}:YEAR" if one.lacks_year else name for name, one in READY.items())
"""How the names are written."""

_YEAR = re.compile("[0-9]{4}")


def ready_pattern(pattern: str) -> ReadyPattern | None:
    """Return the pattern that has a name; None if this is a regular expression.

    Raises:
        MtlmonError: the times have no year, and none is told.
    """
    name, colon, year = pattern.partition(":")
    found = READY.get(name)
    if found is None or (colon and not found.lacks_year):
        return None
    if not found.lacks_year:
        return found
    if not _YEAR.fullmatch(year):
        raise MtlmonError(
            f"times of {name} have no year: write that of the log behind the name, as in "
            f"{name}:2024"
        )
    return found._replace(year=year)
