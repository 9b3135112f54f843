"""Files that are no text logs are recognised by the line at which reading stops."""

from __future__ import annotations

import gzip

import pytest

from mtlmon.errors import LogError
from tests.doors import Scanner, guess_format


@pytest.mark.parametrize(
    ("line", "words", "table_format"),
    [
        (b'{"ts": 1, "p": true}', "JSON", "jsonl"),
        (b'  {"ts": 1}', "JSON", "jsonl"),
        (b'[{"ts": 1},', "an array of JSON", None),
        (b"[", "an array of JSON", None),
        (b"ts,user,what", "the header of a CSV file", "csv"),
        (b'\xef\xbb\xbf"ts","user name"\r', "the header of a CSV file", "csv"),
        (b"ts\tuser", "the header of a table with tabs", "tsv"),
        (b"PAR1\x15\x04\x15", "a Parquet file", "parquet"),
        (b"ARROW1\0\0", "an Arrow file", "arrow"),
        (b"\xff\xff\xff\xff\x80", "an Arrow stream", "arrow"),
        (gzip.compress(b"@1 p", mtime=0), "gzip", None),
        (b"\x28\xb5\x2f\xfd\x04", "zstd", None),
        (b"BZh91AY", "bzip2", None),
        (b"PK\x03\x04\x14\0", "a spreadsheet or an archive", None),
        (b"Nov 22 10:00:01 host sshd[1]: x", "the log of another program", None),
        (b"<34>1 2024-05-01T12:00:00Z host", "the log of another program", None),
        (b"2024-05-01T12:00:00Z INFO x", "the log of another program", None),
        (b"[2024-05-01 12:00:00,123] x", "the log of another program", None),
        (b'192.0.2.7 - - [01/May/2024:12:00:00 +0000] "GET /"', "the log of another program", None),
    ],
)
def test_what_a_line_looks_like(line: bytes, words: str, table_format: str | None) -> None:
    guess = guess_format(line, 1)
    assert guess is not None
    assert words in guess.words
    assert guess.format == table_format
    assert (guess.format is None) is (guess.advice is not None)


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        (b'192.0.2.7 - - [01/May/2024:12:00:00 +0000] "GET / HTTP/1.1" 200 5', "combined"),
        (b"2024/05/01 12:00:00 [error] 5#6: *7 open() failed", "nginx_error"),
        (b"Nov 22 10:00:01 host cron[1]: x", "syslog"),
        (b"2024-05-01T12:00:00Z INFO x", None),
        (b"ts,user", None),
    ],
)
def test_patterns_for_well_known_logs(line: bytes, pattern: str | None) -> None:
    guess = guess_format(line, 1)
    assert guess is not None
    assert guess.pattern == pattern
    if pattern is not None:
        assert guess.advice == f"read its lines with --pattern {pattern}"


@pytest.mark.parametrize("line", [b"", b"p q", b"hello, world!", b"1 p", b"# a", b"[warn] x"])
def test_other_lines_are_left_alone(line: bytes) -> None:
    assert guess_format(line, 1) is None


def test_headers_and_magic_bytes_come_first() -> None:
    """In the middle of a log, a line with commas is a slip."""
    assert guess_format(b"ts,user,what", 2) is None
    assert guess_format(b"PAR1", 2) is None
    assert guess_format(b'{"ts": 1}', 2) is not None


def test_the_error_carries_the_guess() -> None:
    scanner = Scanner(("p",), path="x.log")
    scanner.feed(b'@1 p\n{"ts": 2}\n')
    with pytest.raises(LogError, match=r"this looks like JSON$") as caught:
        scanner.finish()
    assert caught.value.guess is not None
    assert caught.value.guess.format == "jsonl"
    # Only where there is no time-stamp: other slips are what they are.
    scanner = Scanner(("p",))
    scanner.feed(b"@{ p\n")
    with pytest.raises(LogError) as caught:
        scanner.finish()
    assert caught.value.guess is None
