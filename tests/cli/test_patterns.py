"""Lines of text as rows: the named groups of a regular expression are the columns."""

from __future__ import annotations

import gzip
import random
import re
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import check as check_log
from mtlmon.errors import MtlmonError, TableError
from mtlmon.tables import open_tables
from tests.cli.process import Ended, Live, mtlmon
from tests.doors import READY, line_pattern, pair_names, pair_values
from tests.tables.begun import events_of

if TYPE_CHECKING:
    from pathlib import Path

PATTERN = r"^(?P<ts>[0-9]+) (?P<who>\S+)(?: n=(?P<n>[^;]*))?"
POLICY = "policy few: not count[0,5](n > 3) > 1\npolicy seen: n is not null IMPLIES ONCE[0,9] n > 3"
ACCESS = """\
10.0.0.7 - - [23/Nov/2026:04:05:01 +0000] "POST /login HTTP/1.1" 401 12 "-" "curl/8"
10.0.0.7 - ann [23/Nov/2026:04:05:02 +0000] "POST /login HTTP/1.1" 401 -
-- rotated --

10.0.0.9 - - [23/Nov/2026:04:05:02 +0000] "GET / HTTP/1.1" 200 99 "-" "Mozilla, 5.0"
"""
SSH = """\
2026-11-23T04:05:01.5+01:00 web sshd[812]: Failed password for invalid user x from 10.0.0.7 port 22
2026-11-23T04:05:02+01:00 web sshd-session[812]: Accepted publickey for ann from 10.0.0.9 port 4022
2026-11-23T04:05:02+01:00 web sshd[812]: Connection closed by 10.0.0.9
"""


def rows_of(lines: list[str]) -> pa.Table:
    """What Python's regular expressions find in lines, as a table."""
    found = [match for line in lines if (match := re.search(PATTERN, line))]
    return pa.table(
        {
            "ts": [int(match["ts"]) for match in found],
            "who": [match["who"] for match in found],
            "n": pa.array([int(match["n"]) if match["n"] else None for match in found], pa.int64()),
        }
    )


LINES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["ann", "bob", "é"]),
        st.sampled_from(["", " n=", " n=4", " n=5;x", " n=-1", ' n=7;"a,b"', "\t"]),
        st.sampled_from(
            ["{ts} {who}{rest}", "{ts} {who}{rest}", "", "what", "{ts}", "x {ts} {who}"]
        ),
        st.sampled_from(["\n", "\n", "\r\n"]),
    ),
    max_size=30,
)


@given(LINES, st.booleans())
def test_lines_are_rows_of_what_their_groups_match(
    parts: list[tuple[int, str, str, str, str]], has_end: bool
) -> None:
    time, lines, text = 0, [], ""
    for step, who, rest, form, end in parts:
        time += step
        lines.append(form.format(ts=time, who=who, rest=rest))
        text += lines[-1] + end
    if not has_end:
        text = text.rstrip("\r\n")
    table = rows_of(lines)
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("wb", suffix=".log") as file:
        file.write(text.encode())
        file.flush()
        found = check_log(POLICY, file.name, pattern=PATTERN, key="who")
        if any(lines) and not table.num_rows:
            with pytest.raises(TableError, match="no line matches the pattern; the first one is"):
                found.to_arrow()
            return
        verdicts = found.to_arrow().to_pylist()
        assert events_of(found).rows == table.num_rows
        assert events_of(found).unmatched == sum(bool(line) for line in lines) - table.num_rows
    if table.num_rows and table["n"].null_count < table.num_rows:
        assert verdicts == check_log(POLICY, table, key="who").to_arrow().to_pylist()


def test_the_command_reads_lines(tmp_path: Path) -> None:
    """A file says what the pattern is; options take precedence; lines that do not match count."""
    log = tmp_path / "access.log.gz"
    log.write_bytes(gzip.compress(ACCESS.encode()))
    policy = tmp_path / "web.mtl"
    policy.write_text(
        'unit s\npattern "combined"\nkey client\npolicy p: count[0,9](status = 401) < 2\n'
        'policy q: bytes is not null and agent != "x"\n'
    )
    verdicts = (
        "p\t10.0.0.7\t1795406701:0 true\nq\t10.0.0.7\t1795406701:0 true\n"
        "p\t10.0.0.7\t1795406702:0 false\nq\t10.0.0.7\t1795406702:0 false\n"
        "p\t10.0.0.9\t1795406702:0 true\nq\t10.0.0.9\t1795406702:0 true\n"
    )
    note = "mtlmon: 1 line did not match the pattern\n"
    assert mtlmon(str(policy), str(log)) == Ended(1, verdicts, note)
    assert mtlmon(str(policy), log=ACCESS) == Ended(1, verdicts, note)
    ended = mtlmon(
        "--summary", "--key", "who", "--pattern", PATTERN, "-e", "n > 3", log="1 a n=4\nx"
    )
    assert ended.status == 0 and ended.output == "a\t1:0 true\n"
    assert re.search(r"\nother lines +1  that do not match the pattern\n", ended.errors)
    streams = tmp_path / "s.mtl"
    streams.write_text('pattern "(?P<ts>[0-9]+) (?P<n>.*)"\nstream before = n.last()\n')
    found = mtlmon("streams", str(streams), "-", log="1 4\n2 x\n")
    assert found.output == '{"time":1,"before":null}\n{"time":2,"before":"4"}\n'


@pytest.mark.parametrize("size", [1, 40])
def test_a_log_that_goes_on_after_a_checkpoint(tmp_path: Path, size: int) -> None:
    generator = random.Random(size)
    lines = [
        f"{number} {generator.choice('ab')} n={generator.randrange(6)}\n" for number in range(80)
    ]
    lines[7:7] = ["what\n", "\n"]
    log, state, output = tmp_path / "a.log", tmp_path / "state", tmp_path / "verdicts"
    policy = tmp_path / "p.mtl"
    policy.write_text(POLICY)
    asked = ["--pattern", PATTERN, "--key", "who"]
    for end in (size, 41, 82):
        log.write_text("".join(lines[:end]))
        more = ["--checkpoint", str(state), "--resume", "-o", str(output), str(policy), str(log)]
        assert mtlmon(*asked, *more).status in (0, 1)
    assert output.read_text() == mtlmon(*asked, str(policy), str(log)).output


def test_a_line_of_a_live_pipe_does_not_wait() -> None:
    with Live("--pattern", PATTERN, "-e", "n > 3") as live:
        live.send("1 ann n=4\n")
        assert live.read_line() == "1:0 true"
        live.send("2 bob n=")
        assert live.read_line(0.05) is None
        live.send("3\nwhat\n3 bob n=5\n")
        assert live.read_line() == "2:0 false"
        assert live.read_line() == "3:0 true"
        assert live.end() == Ended(1, "", "mtlmon: 1 line did not match the pattern\n")


def test_rows_that_cannot_be_read() -> None:
    log = b"1 a n=4\nwhat\n2 a n=x\n\n3 a n=9\n4 \xff n=9\n5 a n=1\n1 a n=1\n"
    asked = ["--pattern", PATTERN, "--key", "who", "-e", "n > 3"]
    ended = mtlmon(*asked, log=log)
    message = (
        "<stdin>:3: column 'n': 'x' is not of type int64; --on-error skip leaves such rows out"
    )
    assert ended.output == "a\t1:0 true\n" and message in ended.errors
    ended = mtlmon(*asked, "--on-error", "skip", log=log)
    assert ended.output == "a\t1:0 true\na\t3:0 true\na\t5:0 false\n"
    assert "skipped 3 rows" in ended.errors and "<stdin>:8: column 'ts'" in ended.errors


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?P<ts>x", "cannot be used: Invalid regular expression: missing"),
        ("(?P<ts>x) (y)", r"unnamed groups; write \(\?:...\) for groups that are no columns"),
        ("abc", "has no named groups, which are the columns"),
        ("combine", "has no named groups"),
    ],
)
def test_patterns_that_cannot_be_used(pattern: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        line_pattern(pattern)


def test_options_that_contradict_each_other() -> None:
    ended = mtlmon("--pattern", "x", "--format", "csv", "-e", "p")
    assert ended.status == 2 and "--pattern reads lines of text: leave out --format" in ended.errors
    with pytest.raises(MtlmonError, match="not for csv"):
        open_tables("x.log", ["p"], pattern=PATTERN, format="csv")


def test_patterns_with_names() -> None:
    asked = ["--pattern", "sshd", "--key", "client", "-e", 'result = "Accepted" and user != "root"']
    ended = mtlmon(*asked, log=SSH)
    assert ended.output == "10.0.0.7\t1795403101:0 false\n10.0.0.9\t1795403102:0 true\n"
    ended = mtlmon("--pattern", "syslog", "-e", 'program = "sshd" and pid = 812', log=SSH)
    assert ended.output == "1795403101:0 true\n1795403102:0 false\n1795403102:1 true\n"
    for name, ready in READY.items():
        assert line_pattern(name).regexes == (None if ready.regex is None else (ready.regex,))
        if ready.regex is not None:
            assert re.compile(ready.regex).groups == len(re.compile(ready.regex).groupindex)


APACHE = """\
[Wed Oct 11 14:32:52 2000] [error] [client 10.0.0.7] client denied by server configuration: /x
[Fri Sep 09 10:42:29.902022 2011] [core:error] [pid 35:tid 43] [client 10.0.0.9:552] AH00037: no
[Fri Sep 09 10:42:30.5 2011] [:warn] [pid 35] [client 2001:db8::7:552] PHP Warning:  x
[Fri Sep 09 10:42:31 2011] [mpm_event:notice] [pid 1:tid 2] AH00489: resuming
"""


def test_errors_of_apache() -> None:
    names = ["module", "level", "pid", "client", "port", "code", "message"]
    assert open_tables_of(APACHE, "apache_error", names) == [
        (
            971_274_772,
            None,
            "error",
            None,
            "10.0.0.7",
            None,
            None,
            "client denied by server configuration: /x",
        ),
        (1_315_564_949, "core", "error", 35, "10.0.0.9", 552, "AH00037", "no"),
        (1_315_564_950, None, "warn", 35, "2001:db8::7", 552, None, "PHP Warning:  x"),
        (1_315_564_951, "mpm_event", "notice", 1, None, None, "AH00489", "resuming"),
    ]


JOURNAL = """\
{"__REALTIME_TIMESTAMP":"1714566600999999","_HOSTNAME":"web","SYSLOG_IDENTIFIER":"sshd",\
"_PID":"7","PRIORITY":"6","_SYSTEMD_UNIT":"ssh.service","MESSAGE":"said \\"no\\" \\u00e9"}
{"MESSAGE":[104,105,255],"_HOSTNAME":["a","b"],"__REALTIME_TIMESTAMP":"1714566601000000","_UID":"0"}
{"MESSAGE":null,"__REALTIME_TIMESTAMP":"1714566602000000"}
{"MESSAGE":"no time"}
-- Reboot --
[1]
"""


def test_the_journal() -> None:
    """Fields have the names that columns of syslog have, and others their own."""
    names = ["time", "host", "program", "pid", "priority", "unit", "message", "_UID"]
    found = line_pattern("journald").values(
        pa.array(JOURNAL.splitlines(), pa.large_string()), names
    )
    rows = list(zip(*(found[name].to_pylist() for name in names), strict=True))
    first, second = "1714566600999999", "1714566601000000"
    assert rows[:3] == [
        (first, "web", "sshd", "7", "6", "ssh.service", 'said "no" é', None),
        (second, "a", None, None, None, None, "hi\ufffd", "0"),
        ("1714566602000000", *[None] * 7),
    ]
    assert all(row[0] is None for row in rows[3:])
    ended = mtlmon("--pattern", "journald", "-e", 'program = "sshd"', log=JOURNAL)
    assert ended == (
        1,
        "1714566600:0 true\n1714566601:0 false\n1714566602:0 false\n",
        "mtlmon: 3 lines did not match the pattern\n",
    )
    ended = mtlmon("--pattern", "sshd", "-e", 'user = "x"', log=JOURNAL)
    assert "which journald matches" in ended.errors


def test_versions_of_programs_and_mail() -> None:
    log = "May  1 12:30:00 mx syslogd 1.4.1: restart.\nMay  1 12:30:01 mx syslogd 1.4.1#18[7]: x\n"
    assert open_tables_of(log, "syslog", ["program", "version", "pid", "message"]) == [
        (105_107_400, "syslogd", "1.4.1", None, "restart."),
        (105_107_401, "syslogd", "1.4.1#18", 7, "x"),
    ]
    log = (
        "May  1 12:30:00 mx postfix/smtpd[1]: 4B: reject: RCPT from a[10.0.0.7]: 554 5.7.1 x: no\n"
        "May  1 12:30:01 mx postfix/smtps/smtpd[1]: warning: unknown[::1]: SASL LOGIN failed\n"
        "May  1 12:30:02 mx postfix/smtpd[1]: connect from a.b[10.0.0.7]\n"
    )
    assert open_tables_of(log, "postfix", ["stage", "client", "code", "message"]) == [
        (105_107_400, "RCPT", "10.0.0.7", 554, "5.7.1 x: no"),
        (105_107_401, None, "::1", None, "SASL LOGIN failed"),
    ]


SU = r"^(?P<time>\S+ +\S+ \S+) .* (?P<program>su): .*rhost=(?P<client>\S+)"
SEVERAL = f"""\
pattern "sshd"
pattern "{SU.replace(chr(92), chr(92) * 2)}"
key client
policy refused: NOT (program = "su" OR result = "Failed")
"""
MIXED = """\
May  1 12:30:00 mx sshd[1]: Failed password for root from 10.0.0.7 port 22 ssh2
May  1 12:30:01 mx su: failure; rhost=10.0.0.8
May  1 12:30:02 mx cron: x
May  1 12:30:03 mx sshd[1]: Accepted password for rhost=x from 10.0.0.9 port 22 ssh2
"""


def test_several_patterns(tmp_path: Path) -> None:
    """A line has the groups of the first pattern that matches it; others are null."""
    policy = tmp_path / "x.mtl"
    policy.write_text(SEVERAL, encoding="utf-8")
    ended = mtlmon(str(policy), "--pattern", "sshd", "-", log=MIXED)
    assert (ended.status == 2 and "no group" in ended.errors) or "program" in ended.errors
    log = tmp_path / "x.log"
    log.write_text(MIXED, encoding="utf-8")
    ended = mtlmon(str(policy), str(log))
    assert ended == (
        1,
        "refused\t10.0.0.7\t105107400:0 false\nrefused\t10.0.0.8\t105107401:0 false\n"
        "refused\t10.0.0.9\t105107403:0 true\n",
        "mtlmon: 1 line did not match the pattern\n",
    )
    checked = mtlmon("check-policy", str(policy), str(log))
    assert (checked.status, checked.errors) == (0, "")
    # the first one decides, also where both match
    both = [r"(?P<ts>[0-9]+) (?P<a>x)", r"(?P<ts>[0-9]+) (?P<a>.*) (?P<b>y)"]
    text = "1 x\n2 x y\n3 z y\n"
    assert open_tables_of(text, "\n".join(both), ["a", "b"]) == [
        (1, "x", None),
        (2, "x", None),
        (3, "z", "y"),
    ]
    assert open_tables_of(text, "\n".join(both[::-1]), ["a", "b"]) == [
        (1, "x", None),
        (2, "x", "y"),
        (3, "z", "y"),
    ]
    for patterns, words in (
        ("sshd\nlogfmt", "logfmt has all lines of a log"),
        ("sshd\ncombined", "sshd and combined have times of different forms"),
        ("sshd\n(", "the pattern '(' cannot be used"),
        ("sshd\nx", "has no named groups"),
    ):
        with pytest.raises(MtlmonError, match=re.escape(words)):
            line_pattern(patterns)


NGINX = """\
2024/05/01 12:30:00 [error] 31#32: *7 open() "/x, y" failed (2: No such file), client: 10.0.0.7, \
server: localhost, request: "GET /x HTTP/1.1", host: "web"
2024/05/01 12:30:01 [notice] 31#31: signal process started
"""
BSD = """\
<34>Feb 29 23:59:59 web su[7]: failed for ann
Mar  1 00:00:00 web cron: started
"""


def test_errors_of_nginx() -> None:
    table = open_tables_of(NGINX, "nginx_error", ["client", "method", "path", "message", "host"])
    assert table == [
        (1_714_566_600, "10.0.0.7", "GET", "/x", 'open() "/x, y" failed (2: No such file)', "web"),
        (1_714_566_601, None, None, None, "signal process started", None),
    ]


def test_syslog_without_a_year() -> None:
    """The year stands behind the name; without it, years have no 29th of February."""
    found = open_tables_of(BSD, "syslog:2024", ["program", "pid", "message"])
    assert found == [
        (1_709_251_199, "su", 7, "failed for ann"),
        (1_709_251_200, "cron", None, "started"),
    ]
    ended = mtlmon("--pattern", "syslog", "-e", "pid = 7", log=BSD.replace("29", "28"))
    assert ended.output == "99791999:0 true\n99792000:0 false\n"
    ended = mtlmon("--pattern", "syslog", "-e", "pid = 7", log=BSD)
    assert ended.status == 2 and "in which year the log begins, as in syslog:2024" in ended.errors
    for year in ("", "24", "now", "1969"):
        ended = mtlmon("--pattern", f"syslog:{year}", "-e", "pid = 7", log=BSD)
        message = f"'{year}' is not the year in which a log of syslog begins: write syslog:2024"
        assert ended.status == 2 and message in ended.errors
    # a day that the year does not have
    ended = mtlmon("--pattern", "syslog:2023", "-e", "pid = 7", log=BSD)
    assert ended.status == 2 and "'Feb 29 23:59:59' does not exist" in ended.errors


def test_a_log_without_years_that_goes_on_in_the_next_year() -> None:
    log = (
        "Nov 30 23:59:59 web a: x\nDec 31 23:59:59.5 web a: x\nJan  1 00:00:00 web a: x\n"
        "Dec 31 23:59:59 web a: late\nJan  2 00:00:00 web a: x\nOct  1 00:00:00 web a: x\n"
        "Feb  1 00:00:00 web a: x\n"
    )
    times = ["2023-11-30T23:59:59", "2023-12-31T23:59:59.500", "2024-01-01", "2024-01-02"]
    times += ["2024-10-01", "2025-02-01"]
    seconds = [int(datetime.fromisoformat(f"{one}+00:00").timestamp()) for one in times]
    asked = ["--pattern", "syslog:2023", "--on-error", "skip", "-e", 'program = "a"']
    ended = mtlmon(*asked, log=log)
    assert ended.output == "".join(f"{second}:0 true\n" for second in seconds)
    assert "skipped 1 row" in ended.errors
    ended = mtlmon(*asked[:2], "--sort", *asked[4:], log=log)
    seconds.insert(1, seconds[1])
    assert ended.output.count("true") == 7 and f"{seconds[1]}:1 true\n" in ended.output


OPENSSH = """\
Dec 10 06:55:46 lab sshd[200]: Invalid user web from 192.0.2.186
Dec 10 06:55:48 lab sshd[200]: Failed password for invalid user web from 192.0.2.186 port 38926 ssh2
Dec 10 06:55:48 lab sshd[200]: Connection closed by 192.0.2.186 [preauth]
Dec 10 07:13:43 lab sshd[227]: Failed none for invalid user a from b from 192.0.2.7 port 42393 ssh2
Dec 10 07:13:43 lab sshd[227]: message repeated 5 times: [ Failed password for eve \
from 192.0.2.7 port 1 ssh2]
Dec 10 07:13:44 lab cron[228]: Accepted
Dec 10 07:13:44 lab sshd[228]: Accepted publickey for ann from 192.0.2.9 port 42 ssh2: RSA SHA256:x
"""


def test_log_ins_to_openssh(tmp_path: Path) -> None:
    """Who logs in cannot pretend to come from elsewhere by the name of the user."""
    log = tmp_path / "auth.log"
    log.write_text(OPENSSH)
    shown = "{result} {method} {invalid} {user} {client} {port} {repeated}"
    check = check_log(
        f'unit s\natom all = pid > 0\ntrigger t: all message "{shown}"',
        str(log),
        pattern="sshd:2015",
    )
    rows = check.to_arrow().to_pylist()
    assert [row["message"] for row in rows] == [
        "Failed password invalid web 192.0.2.186 38926 null",
        "Failed none invalid a from b 192.0.2.7 42393 null",
        "Failed password null eve 192.0.2.7 1 5",
        "Accepted publickey null ann 192.0.2.9 42 null",
    ]
    assert rows[0]["time"] == 1_449_730_548 and events_of(check).unmatched == 3


def test_access_logs_of_several_names() -> None:
    log = (
        '10.0.0.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326\n'
        '10.0.0.7 - - [10/Oct/2000:13:55:37 -0700] "\\x16\\x03\\"" 400 0 "-" "a\\"b"\n'
    )
    formula = "status = 200 or agent is not null and method is null"
    for name in ("combined", "common", "apache", "nginx"):
        ended = mtlmon("--pattern", name, "-e", formula, log=log)
        assert ended == Ended(0, "971211336:0 true\n971211337:0 true\n", "")


QUOTED_ACCESS = """\
192.0.2.1 - - [10/Oct/2024:13:55:37 +0200] "POST /a\\"b HTTP/1.1" 200 12 "-" "ua"
192.0.2.1 - ann smith [10/Oct/2024:13:55:38 +0200] "POST /a HTTP/1.1" 500 12 "-" "ua"
192.0.2.1 - a [b] "c [10/Oct/2024:13:55:39 +0200] "GET /\\"\\\\ HTTP/1.1" 404 - "-" "u\\"a"
192.0.2.1 - "" [10/Oct/2024:13:55:40 +0200] "GET / H\\"" 404 -
192.0.2.1 - - [10/Oct/2024:13:55:41 +0200] "x\\" GET /" 400 -
"""


def test_quotes_and_blanks_in_access_logs(tmp_path: Path) -> None:
    """A request with an escaped quote had no method and no path, and a user no blank."""
    log = tmp_path / "access.log"
    log.write_text(QUOTED_ACCESS)
    shown = "{user}|{method}|{path}|{protocol}|{status}"
    text = f'unit s\natom all = status > 0\ntrigger t: all message "{shown}"'
    check = check_log(text, str(log), pattern="combined")
    assert [row["message"] for row in check.to_arrow().to_pylist()] == [
        '-|POST|/a\\"b|HTTP/1.1|200',
        "ann smith|POST|/a|HTTP/1.1|500",
        'a [b] "c|GET|/\\"\\\\|HTTP/1.1|404',
        '""|GET|/|H\\"|404',
        "-|null|null|null|400",
    ]
    assert events_of(check).unmatched == 0


def test_quotes_in_errors_of_nginx() -> None:
    """It writes them as they are; they end nothing where other columns follow."""
    line = (
        '2024/05/01 12:30:0{} [error] 1#1: x, client: 10.0.0.7, server: s, request: "GET {}", '
        'host: "web"{}\n'
    )
    log = "".join(
        line.format(second, request, more)
        for second, (request, more) in enumerate(
            [
                ('/a"b HTTP/1.1', ', referrer: "http://x/"y""'),
                ("/c d HTTP/2.0", ""),
                ('/e"', ""),
                ("/ HTTP/1.1", ', referrer: "-"'),
            ]
        )
    )
    found = open_tables_of(log, "nginx_error", ["path", "host", "referrer", "message"])
    assert [row[1:] for row in found] == [
        ('/a"b', "web", 'http://x/"y"', "x"),
        ("/c d", "web", None, "x"),
        ('/e"', "web", None, "x"),
        ("/", "web", "-", "x"),
    ]


def open_tables_of(log: str, pattern: str, names: list[str]) -> list[tuple[object, ...]]:
    """The times of rows and some columns, as conditions and a check of types see them."""
    from tempfile import TemporaryDirectory

    from tests.doors import read_line_schema

    with TemporaryDirectory() as directory:
        path = f"{directory}/x.log"
        with open(path, "w") as file:
            file.write(log)
        shown = " ".join(f"{{{name}}}" for name in names)
        text = (
            f'trigger t: ts_known message "{shown}"\natom ts_known = {names[0]} is not null or true'
        )
        check = check_log(text, path, pattern=pattern)
        rows = check.to_arrow().to_pylist()
        types = read_line_schema(path, pattern)
    found = []
    for row in rows:
        assert row["message"] is not None
        found.append(row)
    texts = cells_in(log, pattern, names)
    for row, cells in zip(found, texts, strict=True):
        shown_cells = " ".join("null" if cell is None else str(cell) for cell in cells)
        assert row["message"] == shown_cells
    for place, name in enumerate(names):
        kinds = {type(cells[place]) for cells in texts} - {type(None)}
        assert kinds <= {int if pa.types.is_integer(types.field(name).type) else str}
    return [(row["time"], *cells) for row, cells in zip(found, texts, strict=True)]


def cells_in(log: str, pattern: str, names: list[str]) -> list[tuple[object, ...]]:
    """The cells of the lines that match, by Python's own regular expressions."""
    regexes = line_pattern(pattern).regexes
    assert regexes is not None
    cells = []
    for line in log.splitlines():
        matches = [found for regex in regexes if (found := re.search(regex, line))]
        if matches:
            groups = matches[0].groupdict()
            texts = [groups.get(name) or None for name in names]
            cells.append(tuple(int(one) if one and one.isdigit() else one for one in texts))
    return cells


PAIRS = """\
ts=1 level=info msg="a user=bob" user=ann
ts=2 msg="say \\"hi\\"" done user="" level=warn user=z
no time
level=info
ts=9 n=4
"""


def test_pairs() -> None:
    lines = pa.array([*PAIRS.splitlines(), ' x="q r"', 'user=a"b ts=9'], pa.large_string())
    found = {name: pair_values(lines, name).to_pylist() for name in ("ts", "user", "msg", "done")}
    assert found == {
        "ts": ["1", "2", None, None, "9", None, None],
        "user": ["ann", None, None, None, None, None, None],
        "msg": ["a user=bob", 'say "hi"', None, None, None, None, None],
        "done": [None, "true", None, None, None, None, None],
    }
    assert pair_names(PAIRS.splitlines()) == [
        "ts",
        "level",
        "msg",
        "user",
        "done",
        "no",
        "time",
        "n",
    ]
    asked = ["--pattern", "logfmt", "-e", 'n > 3 or level = "info" or done']
    ended = mtlmon(*asked, log=PAIRS)
    assert ended.output == "1:0 true\n2:0 true\n9:0 true\n"
    assert "2 lines did not match" in ended.errors
    ended = mtlmon("--pattern", "logfmt", "-e", "nobody > 3", log=PAIRS)
    assert ended.status == 2 and "no line has nobody=..., which is to be a column" in ended.errors
    ended = mtlmon("--pattern", "logfmt", "-e", "`a b` > 3", log=PAIRS)
    assert ended.status == 2 and "names have no blanks" in ended.errors


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "ab", "a.b"]),
            st.one_of(st.none(), st.text('ab= "\\\\\t', max_size=5)),
        ),
        max_size=4,
    )
)
def test_pairs_are_those_that_were_written(pairs: list[tuple[str, str | None]]) -> None:
    written = []
    for name, value in pairs:
        if value is None:
            written.append(name)
        else:
            quoted = value.replace("\\", "\\\\").replace('"', '\\"')
            needs = any(one in value for one in ' "\t\\')
            written.append(f'{name}="{quoted}"' if needs else f"{name}={value}")
    line = pa.array([" ".join(written)], pa.large_string())
    for name in ("a", "b", "ab", "a.b"):
        values = [value for one, value in pairs if one == name]
        first = None if not values else "true" if values[0] is None else values[0] or None
        assert pair_values(line, name).to_pylist() == [first], written


def test_types_of_lines(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(PAIRS)
    policy = tmp_path / "p.mtl"
    policy.write_text("policy p: n > 3 and level > 4")
    ended = mtlmon("check-policy", "--pattern", "logfmt", str(policy), str(log))
    assert ended.status == 2 and "level" in ended.errors and "text" in ended.errors
    policy.write_text('unit s\npattern "logfmt"\npolicy p: count[0,5s](n > 3) < 4')
    ended = mtlmon("check-policy", str(policy), str(log))
    assert ended.status == 0 and "n" in ended.output
    ended = mtlmon("analyze", str(policy), str(log))
    assert "policy p" in ended.output and ended.errors == ""
    ended = mtlmon("analyze", "--pattern", "(?P<x>zz)", str(policy), str(log))
    assert ended.status == 2 and "no line in its beginning matches" in ended.errors


def test_durations_need_no_unit_where_the_pattern_has_a_name(tmp_path: Path) -> None:
    """Time-stamps of such logs are in seconds, if nothing else is said."""
    formula = "count[0,1s](status = 401) < 2"
    lines = mtlmon("--pattern", "combined", "--verdicts", "false", "-e", formula, log=ACCESS)
    assert lines.output == "1795406702:0 false\n1795406702:1 false\n"
    file = tmp_path / "few.mtl"
    file.write_text(f'pattern "combined"\npolicy few: {formula}\n')
    lines = mtlmon("--verdicts", "false", str(file), log=ACCESS)
    assert lines.output == "few\t1795406702:0 false\nfew\t1795406702:1 false\n"
    file.write_text(f'unit ms\npattern "combined"\npolicy few: {formula}\n')
    lines = mtlmon("--verdicts", "false", str(file), log=ACCESS)
    assert lines.output == "few\t1795406702000:0 false\nfew\t1795406702000:1 false\n"
    for pattern in (PATTERN, "logfmt"):
        others = mtlmon("--pattern", pattern, "-e", "count[0,1s]() < 2", log="ts=1 a\n")
        assert "unit of the stream's time-stamps is not declared" in others.errors


def test_an_error_names_a_pattern_that_matches() -> None:
    ended = mtlmon("--pattern", "nginx", "-e", "true", log=BSD)
    assert ended.status == 2
    assert "failed for ann', which syslog matches" in ended.errors
    ended = mtlmon("--pattern", "sshd", "-e", "true", log="what\n")
    assert "no line matches the pattern; the first one is 'what'\n" in ended.errors
