"""Guess the format of a file that was passed as a text log, from a line that is not valid."""

from __future__ import annotations

import re
from typing import NamedTuple

from mtlmon.support.ready_patterns import fitting_pattern

__all__ = ["OUT_OF_ORDER", "Guess", "guess_format"]


class Guess(NamedTuple):
    """The format that a line seems to have.

    Attributes:
        words: the end of a message about the line.
        format: the matching table format, as named in options; None if there is none.
        pattern: the name of the matching pattern for lines; None if there is none.
        advice: what to do on the command line, if the format alone does not tell.
    """

    words: str
    format: str | None = None
    advice: str | None = None
    pattern: str | None = None


_MAGIC = {
    b"PAR1": Guess("this is a Parquet file", "parquet"),
    b"ARROW1": Guess("this is an Arrow file", "arrow"),
    b"\xff\xff\xff\xff": Guess("this looks like an Arrow stream", "arrow"),
    b"\x1f\x8b": Guess(
        "this is compressed by gzip", None, "decompress it first, as in gzip -dc LOG | mtlmon ..."
    ),
    b"\x28\xb5\x2f\xfd": Guess(
        "this is compressed by zstd", None, "decompress it first, as in zstd -dc LOG | mtlmon ..."
    ),
    b"\xfd7zXZ\x00": Guess(
        "this is compressed by xz", None, "decompress it first, as in xz -dc LOG | mtlmon ..."
    ),
    b"PK\x03\x04": Guess(
        "this looks like a spreadsheet or an archive",
        None,
        "save the sheet as CSV, or take the log out of the archive",
    ),
    b"BZh": Guess(
        "this is compressed by bzip2", None, "decompress it first, as in bzip2 -dc LOG | mtlmon ..."
    ),
}
_JSON = Guess("this looks like JSON", "jsonl")
_JSON_ARRAY = Guess(
    "this looks like an array of JSON, and lines of JSON hold one object each",
    None,
    "jq -c '.[]' makes such lines, for --format jsonl",
)
_XML = Guess("this looks like XML, as event logs of XES are", "xes")
_CSV = Guess("this looks like the header of a CSV file", "csv")
_TSV = Guess("this looks like the header of a table with tabs", "tsv")
_OTHER_LOG = Guess(
    "this looks like the log of another program",
    None,
    "read its lines with --pattern, as in --pattern syslog, or turn them into '@17 request "
    "response' or into a table, see docs/recipes.md",
)
OUT_OF_ORDER = Guess("this line steps back in time")
"""The guess for a time-stamp below an earlier one; options say what to do about that."""

_SYSLOG = re.compile(
    rb"<\d+>|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d|"
    rb"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d{1,3}(?:\.\d{1,3}){3} "
)
_NAME = rb"\"?[A-Za-z_][\w .-]*\"?"


def guess_format(line: bytes, number: int) -> Guess | None:
    """Guess the format of a line without a time-stamp.

    Args:
        line: the line that cannot be read.
        number: the line number, from 1; magic bytes and headers come first in a file.

    >>> guess_format(b'{"ts": 1}', 7).words
    'this looks like JSON'
    """
    text = line.lstrip(b"\xef\xbb\xbf \t").rstrip()
    if number == 1:
        for magic, guess in _MAGIC.items():
            if line.startswith(magic):
                return guess
        for separator, guess in ((b",", _CSV), (b"\t", _TSV)):
            if re.fullmatch(rb"%b(?:%b%b)+" % (_NAME, separator, _NAME), text):
                return guess
        if text.startswith((b"<?xml", b"<log")):
            return _XML
    if text.startswith(b"{"):
        return _JSON
    if text.startswith(b"[") and text[1:].lstrip()[:1] in (b"", b"{"):
        return _JSON_ARRAY
    if pattern := fitting_pattern(text.decode(errors="replace")):
        advice = f"read its lines with --pattern {pattern}"
        return Guess(_OTHER_LOG.words, None, advice, pattern)
    return _OTHER_LOG if _SYSLOG.match(text) else None
