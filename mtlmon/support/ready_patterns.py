"""Patterns for the lines of well-known logs, by name."""

from __future__ import annotations

import re
from typing import NamedTuple

from mtlmon.errors import MtlmonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class ReadyPattern(NamedTuple):
    """A pattern for a well-known log.

    Attributes:
        regex: the regular expression; None for pairs as in `level=info user="ann lee"`, whose names
            are the columns, and for lines of JSON.
        time: the column of times; None for the default.
        time_format: how times are written, as for `Times`; None for ISO 8601 or numbers.
        may_have_no_year: whether times may be written without a year, so that the year in which the
            log begins can stand behind the name.
        time_unit: the unit of times that are numbers; None for the default.
        fields: for lines of JSON, the names of columns whose fields are called otherwise; None for
            other lines.
    """

    regex: str | None
    time: str | None
    time_format: str | None = None
    may_have_no_year: bool = False
    time_unit: str | None = None
    fields: Mapping[str, str] | None = None


_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"

# ISO 8601, or without a year as in `May  1 12:30:00`.
_SYSLOG_TIME = (
    r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]\S+|"
    rf"(?:{_MONTHS}) [ 0-9][0-9] [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.,][0-9]+)?)"
)
_SYSLOG_FORMAT = "iso|%b %d %H:%M:%S%.f"
_SYSLOG_HEAD = rf"^(?:<(?P<priority>[0-9]+)>)?{_SYSLOG_TIME} (?P<host>\S+) "
# The text between quotes, and a part of it without blanks; a backslash escapes.
_QUOTED = r'(?:[^"\\]|\\.)*'
_QUOTED_WORD = r'(?:[^\s"\\]|\\\S)+'

_READY = {
    "combined": ReadyPattern(
        # A user is what somebody has typed in, who may have typed blanks and brackets.
        r"^(?P<client>\S+) \S+ (?P<user>\S.*?) \[(?P<time>[^\[\]]+)\] "
        rf'"(?:(?P<method>[A-Z]+) (?P<path>{_QUOTED_WORD})(?: (?P<protocol>{_QUOTED}))?'
        rf'|{_QUOTED})" '
        r"(?P<status>[0-9]{3}) (?:(?P<bytes>[0-9]+)|-)"
        rf'(?: "(?P<referrer>{_QUOTED})" "(?P<agent>{_QUOTED})")?',
        "time",
        "%d/%b/%Y:%H:%M:%S %z",
    ),
    "nginx_error": ReadyPattern(
        r"^(?P<time>[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9:]{8}) \[(?P<level>[a-z]+)\] "
        r"(?P<pid>[0-9]+)#(?P<thread>[0-9]+): (?:\*(?P<connection>[0-9]+) )?(?P<message>.*?)"
        r"(?:, client: (?P<client>[^,]+))?(?:, server: (?P<server>[^,]*))?"
        # nginx writes the quotes of a request as they are
        r'(?:, request: "(?P<method>[A-Z]+) (?P<path>.*?)(?: HTTP/[0-9.]+)?")?'
        r'(?:, upstream: "(?P<upstream>[^"]*)")?(?:, host: "(?P<host>[^"]*)")?'
        r'(?:, referrer: "(?P<referrer>.*?)")?$',
        "time",
        "%Y/%m/%d %H:%M:%S",
    ),
    # Before 2.4, Apache writes neither modules nor processes, and clients without ports.
    "apache_error": ReadyPattern(
        rf"^\[[A-Z][a-z]{{2}} (?P<time>(?:{_MONTHS}) [ 0-9][0-9] [0-9:]{{8}}(?:\.[0-9]+)? "
        r"[0-9]{4})\] "
        r"\[(?:(?P<module>[^\]:]*):)?(?P<level>[a-z0-9]+)\] "
        r"(?:\[pid (?P<pid>[0-9]+)(?::tid (?P<thread>[0-9]+))?\] )?"
        r"(?:\[client (?P<client>[^\]\s]*?[^:\]\s])(?::(?P<port>[0-9]+))?\] )?"
        r"(?:(?P<code>AH[0-9]{5}): )?(?P<message>.*)$",
        "time",
        "%b %d %H:%M:%S%.f %Y",
    ),
    "journald": ReadyPattern(
        None,
        "time",
        time_unit="us",
        fields={
            "time": "__REALTIME_TIMESTAMP",
            "host": "_HOSTNAME",
            "program": "SYSLOG_IDENTIFIER",
            "pid": "_PID",
            "priority": "PRIORITY",
            "unit": "_SYSTEMD_UNIT",
            "message": "MESSAGE",
        },
    ),
    # syslogd writes its version behind its name: `syslogd 1.4.1: restart.`
    "syslog": ReadyPattern(
        rf"{_SYSLOG_HEAD}(?P<program>[^\s:\[]+)(?: (?P<version>[0-9][^\s:\[]*))?"
        r"(?:\[(?P<pid>[0-9]+)\])?: (?P<message>.*)$",
        "time",
        _SYSLOG_FORMAT,
        may_have_no_year=True,
    ),
    # The user is whatever somebody has typed in, so the client is what stands behind the last
    # ` from `. rsyslog writes one line for equal ones that follow each other.
    "sshd": ReadyPattern(
        rf"{_SYSLOG_HEAD}sshd[^\s:\[]*(?:\[(?P<pid>[0-9]+)\])?: "
        r"(?:message repeated (?P<repeated>[0-9]+) times: \[ ?)?"
        r"(?P<result>Accepted|Failed) (?P<method>\S+) for (?:(?P<invalid>invalid) user )?"
        r"(?P<user>.*) from (?P<client>\S+) port (?P<port>[0-9]+)(?: ssh2.*|\])?$",
        "time",
        _SYSLOG_FORMAT,
        may_have_no_year=True,
    ),
    # Mail that was rejected, with its code, and logins that failed.
    "postfix": ReadyPattern(
        rf"{_SYSLOG_HEAD}postfix[^\s:\[]*(?:\[(?P<pid>[0-9]+)\])?: "
        r"(?:(?:(?P<queue>[0-9A-Za-z]+): )?reject: (?P<stage>[A-Z]+) from "
        r"|warning: )(?P<name>[^\s\[]+)\[(?P<client>[^\]]+)\](?::[0-9]+)?: "
        r"(?:(?P<code>[0-9]{3}) )?(?P<message>.*)$",
        "time",
        _SYSLOG_FORMAT,
        may_have_no_year=True,
    ),
    "logfmt": ReadyPattern(None, None),
}

READY = {
    **_READY,
    "common": _READY["combined"],
    "apache": _READY["combined"],
    "nginx": _READY["combined"],
}
"""The patterns by name. The year in which a log begins can stand behind a name: `syslog:2024`."""

NAMES = tuple(f"{name}[:YEAR]" if one.may_have_no_year else name for name, one in READY.items())
"""How the names are written."""

_YEAR = re.compile("[0-9]{4}")
_FIRST_YEAR = 1970


def ready_pattern(pattern: str) -> ReadyPattern | None:
    """Return the pattern that has a name; None if this is a regular expression.

    Raises:
        MtlmonError: what stands behind the name is not a year.
    """
    name, colon, year = pattern.partition(":")
    found = READY.get(name)
    if found is None or (colon and not found.may_have_no_year):
        return None
    if not colon:
        return found
    if not _YEAR.fullmatch(year) or int(year) < _FIRST_YEAR:
        raise MtlmonError(
            f"{year!r} is not the year in which a log of {name} begins: write {name}:2024, for "
            "instance"
        )
    return found._replace(time_format=f"{found.time_format}:{year}")


def split_patterns(patterns: str) -> list[str]:
    """Return the patterns of a text that has one on each line."""
    return patterns.split("\n")


def fitting_pattern(line: str) -> str | None:
    """Return the name of a pattern that matches a line; None if there is none."""
    if line.startswith("{") and '"__REALTIME_TIMESTAMP"' in line:
        return "journald"
    names = (name for name, one in READY.items() if one.regex and re.search(one.regex, line))
    return next(names, None)
