"""Lines of text as rows: the named groups of a regular expression are the columns."""

from __future__ import annotations

import gzip
import random
import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError, TableError
from mtlmon.tables import check_tables, open_tables
from mtlmon.tables.formats.line_patterns import READY, line_pattern
from tests.cli.process import Ended, Live, mtlmon

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
        found = check_tables(file.name, POLICY, pattern=PATTERN, key="who")
        if any(lines) and not table.num_rows:
            with pytest.raises(TableError, match="no line matches the pattern; the first one is"):
                found.to_arrow()
            return
        verdicts = found.to_arrow().to_pylist()
        assert found.events.rows == table.num_rows
        assert found.events.unmatched == sum(bool(line) for line in lines) - table.num_rows
    if table.num_rows and table["n"].null_count < table.num_rows:
        assert verdicts == check_tables(table, POLICY, key="who").to_arrow().to_pylist()


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
    streams.write_text('pattern "(?P<ts>[0-9]+) (?P<n>.*)"\nstream last = n.last()\n')
    found = mtlmon("streams", str(streams), "-", log="1 4\n2 x\n")
    assert found.output == '{"time":1,"last":null}\n{"time":2,"last":"4"}\n'


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
    assert ended.output == "a\t1:0 true\na\t3:0 true\n\ufffd\t4:0 true\na\t5:0 false\n"
    assert "skipped 2 rows" in ended.errors and "<stdin>:8: column 'ts'" in ended.errors


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
        assert line_pattern(name) == ready.regex
        assert re.compile(ready.regex).groups == len(re.compile(ready.regex).groupindex)
