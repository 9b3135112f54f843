"""The rules in examples/rules on generated logs, against queries in SQL that say the same.

The files name where the numbers come from. A rule that counts is true at a row of its kind if at
least so many rows of this kind and key lie in the window that ends there.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from mtlmon.policy import parse_policies

RULES = Path(__file__).parents[2] / "examples" / "rules"


class Count(NamedTuple):
    """A rule that counts rows: which, how far back, how many, and of which key."""

    condition: str
    seconds: int
    least: int
    key: str = "ip"
    counted: str | None = None

    @property
    def query(self) -> str:
        """The condition of SQL for the rows where the rule fires."""
        counted = f"count(*) FILTER ({self.counted or self.condition})"
        return f"{self.condition} AND {counted} {over(self.seconds, self.key)} >= {self.least}"


def over(seconds: int, key: str) -> str:
    """The window of the rows of a key."""
    parts = f"PARTITION BY {key} " if key else ""
    return f"OVER ({parts}ORDER BY ts RANGE BETWEEN {seconds} PRECEDING AND CURRENT ROW)"


def is_event(*names: str) -> str:
    return f"event IN ({', '.join(repr(name) for name in names)})"


def once(condition: str, seconds: int, key: str) -> str:
    return f"bool_or({condition}) {over(seconds, key)}"


def distinct(value: str, seconds: int, key: str) -> str:
    return f"count(DISTINCT {value}) {over(seconds, key)}"


FAILED = is_event("auth_failed", "pam_failed", "ftp_failed")
INJECTION = "regexp_matches(url, '(?i)select(%20|[+])|union(%20|[+])|xp_cmdshell')"
TRAVERSAL = "(contains(url, '../..') OR contains(url, '%00') OR contains(url, 'cmd.exe'))"
SCRIPTING = "regexp_matches(url, '(?i)%3cscript|script%3e|src=javascript')"
CMS = "method = 'POST' AND (contains(url, 'wp-login.php') OR starts_with(url, '/administrator'))"
TRIED = f"CASE WHEN {is_event('logon_failed')} THEN user END"
PARTS = ("logon_failed", "weak_ticket", "password_reset")
COMBINED = " AND ".join(once(is_event(part), 600, "host") for part in PARTS)

# For each file: the queries of its rules. Those of `STEPS` need columns that are computed first.
EXPECTED: dict[str, dict[str, str | Count]] = {
    "logins": {
        "lookups": Count(is_event("reverse_lookup_failed"), 360, 6),
        "timeouts": Count(is_event("login_timeout"), 360, 6, ""),
        "invalid_users": Count(is_event("invalid_user"), 120, 8),
        "crc": Count(is_event("crc_attack"), 120, 3, "", is_event("corrupted_bytes")),
        "denied": Count(is_event("denied_user"), 120, 8, ""),
        "failures": Count(is_event("auth_failed"), 360, 8),
        "pam": Count(is_event("pam_failed"), 180, 8),
        "ftp_logins": Count(is_event("ftp_failed"), 120, 8),
        "ftp_sessions": Count(is_event("ftp_connect"), 60, 12),
        "any_program": Count(FAILED, 160, 12),
        "outbreak": Count(is_event("virus"), 360, 8, ""),
        "broken_in": f"{is_event('accepted')} AND {once('step', 240, 'ip')}",
    },
    "web": {
        "scan": Count("status BETWEEN 400 AND 499", 90, 14),
        "injections": Count(INJECTION, 120, 8),
        "attacks": Count(TRAVERSAL, 120, 10),
        "scripts": Count(SCRIPTING, 120, 10),
        "unsupported": Count("status = 501", 120, 14),
        "broken": Count("status = 500", 120, 14),
        "unavailable": Count("status = 503", 120, 14),
        "cms": Count(CMS, 30, 8),
        "posts": Count("method = 'POST'", 20, 8),
        "many_pages": f"{distinct('url', 60, 'ip')} >= 15",
        "much_data": f"sum(bytes) {over(300, 'ip, host')} > 100000",
        "successful": f"({INJECTION} OR {TRAVERSAL} OR {SCRIPTING}) AND status = 200",
    },
    "mail": {
        "relaying": Count("code = 554", 90, 8),
        "rejected": Count("code = 550", 120, 8),
        "no_domain": Count("code = 450", 120, 8),
        "pipelining": Count("code = 503", 120, 8),
        "no_address": Count("code = 504", 120, 8),
        "listed": Count("blocked", 120, 8),
        "sasl": Count("code = 535", 120, 8),
    },
    "hosts": {
        "persistence": f"{is_event('launchctl_load')} AND "
        + once(is_event("daemon_written"), 60, "host"),
        "roasting": Count(is_event("weak_ticket"), 60, 2, "host"),
        "subscription": f"{is_event('wmi_binding')} AND {once('step', 300, 'host')}",
        "reset": f"{is_event('password_reset')} AND {once(is_event('network_login'), 300, 'user')}",
        "guessing": Count(is_event("logon_failed"), 300, 5),
        "spraying": f"{is_event('logon_failed')} AND {distinct(TRIED, 300, 'ip')} >= 4",
        "combination": "step AND NOT lag(step, 1, false) OVER (PARTITION BY host ORDER BY ts)",
    },
}
STEPS = {
    "logins": Count(is_event("auth_failed"), 360, 8).query,
    "web": "true",
    "mail": "true",
    "hosts": "true",
}
STEPS_OF_RULES = {
    "subscription": f"{is_event('wmi_consumer')} AND {once(is_event('wmi_filter'), 300, 'host')}",
    "combination": COMBINED,
}

KINDS: dict[str, dict[str, list[Any]]] = {
    "logins": {
        "event": [
            *("reverse_lookup_failed", "login_timeout", "invalid_user", "crc_attack"),
            *("corrupted_bytes", "denied_user", "auth_failed", "pam_failed", "ftp_failed"),
            *("ftp_connect", "virus", "accepted", "other"),
        ],
    },
    "web": {
        "status": [200, 200, 301, 404, 403, 500, 501, 503],
        "method": ["GET", "POST"],
        "url": [
            *("/a?q=select%20x", "/b?q=1+UNION+2", "/../../etc/passwd", "/c%00", "/d?%3Cscript"),
            *("/wp-login.php", "/administrator/x", *(f"/page/{number}" for number in range(30))),
        ],
        "bytes": [None, 100, 5_000, 9_000],
    },
    "mail": {"code": [554, 550, 450, 503, 504, 535], "blocked": [True, False, None]},
    "hosts": {
        "event": [
            *("launchctl_load", "daemon_written", "weak_ticket", "wmi_binding", "wmi_consumer"),
            *("wmi_filter", "password_reset", "network_login", "logon_failed", "other", "other"),
        ],
        "user": [f"u{number}" for number in range(6)],
    },
}


def make_log(name: str, count: int) -> pa.Table:
    """Rows at different times: quiet ones, and bursts of one kind of row from one address."""
    source = Random(name)
    kinds = KINDS[name]
    time = 1_700_000_000
    rows: list[dict[str, Any]] = []
    burst: dict[str, Any] = {}
    pause = 30
    for number in range(count):
        if number % 60 == 0:
            # a burst repeats some of the values, at its own speed
            repeated = source.sample(list(kinds), source.randrange(len(kinds) + 1))
            burst = {column: source.choice(kinds[column]) for column in repeated}
            burst |= {"ip": f"192.0.2.{source.randrange(3)}", "host": f"h{source.randrange(2)}"}
            pause = source.choice([1, 1, 4, 10, 60])
        if number % 900 == 0:
            time += 10_000
        time += source.randrange(1, 2 * pause + 1)
        row = {column: source.choice(values) for column, values in kinds.items()}
        row |= {"ip": f"192.0.2.{source.randrange(6)}", "host": f"h{source.randrange(4)}"}
        if source.random() < 0.85:
            row |= burst
        rows.append({"ts": time, **row})
    return pa.Table.from_pylist(rows)


# What sshd, PAM and others write, as the columns of the patterns of logins.mtl.
MESSAGES = {
    "reverse_lookup_failed": {"message": "reverse mapping failed - POSSIBLE BREAK-IN ATTEMPT!"},
    "login_timeout": {"message": "Timeout before authentication for 192.0.2.1"},
    "invalid_user": {"message": "Invalid user bob from 192.0.2.1"},
    "crc_attack": {"message": "deattack: crc32 compensation attack"},
    "corrupted_bytes": {"message": "Corrupted check bytes on input."},
    "denied_user": {"message": "User bob not allowed because not listed in AllowUsers"},
    "auth_failed": {"result": "Failed"},
    "pam_failed": {"message": "pam_unix(su:auth): authentication failure"},
    "ftp_failed": {"program": "vsftpd", "message": "[bob] FAIL LOGIN"},
    "ftp_connect": {"program": "vsftpd", "message": "CONNECT: Client"},
    "virus": {"message": "/tmp/x: Eicar FOUND"},
    "accepted": {"result": "Accepted"},
    "other": {"message": "Server listening on port 22"},
}


def read_by_pattern(name: str, log: pa.Table) -> pa.Table:
    """The log with the columns of the patterns that the rules of a file name."""
    names = {"ts": "time", "ip": "client", "url": "path"}
    if name == "hosts":
        return log
    rows = log.to_pylist()
    for row in rows:
        for before, after in names.items():
            if before in row:
                row[after] = row.pop(before)
        if name == "logins":
            known = dict.fromkeys(("program", "message", "result", "invalid"))
            row.update(known, **MESSAGES[row.pop("event")])
        elif name == "web":
            row["user"] = row.pop("host")
        else:
            said = ["blocked using zen.example"] if row.pop("blocked") else []
            said += ["SASL LOGIN authentication failed"] if row["code"] == 535 else []
            row["message"] = "; ".join(said)
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("name", EXPECTED)
def test_rules_find_what_queries_find(name: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    log = make_log(name, 12_000)
    text = (RULES / f"{name}.mtl").read_text()
    rules = [policy.name or "" for policy in parse_policies(text).policies]
    assert rules == list(EXPECTED[name]), "a rule without a query"
    text_rules = re.sub("(?m)^pattern .*", "", text)
    check = mtlmon.check(
        text_rules,
        read_by_pattern(name, log),
        time="ts" if name == "hosts" else "time",
        verdicts="false",
    )
    found: dict[str, list[int]] = {rule: [] for rule in rules}
    for row in check.to_arrow().to_pylist():
        found[row["policy"]].append(row["time"])
    for rule, expected in EXPECTED[name].items():
        condition = expected.query if isinstance(expected, Count) else expected
        step = STEPS_OF_RULES.get(rule, STEPS[name])
        query = (
            f"SELECT ts FROM (SELECT ts, {condition} AS is_hit FROM "
            f"(SELECT *, {step} AS step FROM log)) WHERE is_hit ORDER BY ts"
        )
        wanted = [time for (time,) in duckdb.sql(query).fetchall()]
        assert 3 <= len(wanted) < len(log) // 2, (rule, len(wanted))
        assert sorted(found[rule]) == wanted, rule
        assert check.counts[rule].false == len(wanted)


def test_there_are_thirty_rules() -> None:
    assert sum(map(len, EXPECTED.values())) >= 30
