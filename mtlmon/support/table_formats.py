"""Recognises the formats of tables by the names of their files, and compression by first bytes."""

from __future__ import annotations

__all__ = [
    "BINARY_FORMATS",
    "COMPRESSIONS",
    "COMPRESSION_BYTES",
    "FORMATS",
    "FORMAT_NAMES",
    "LINES",
    "compression_of",
    "may_be_compressed",
    "table_format",
]

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xes": "xes",
}
"""The format of a table for each file name extension."""

FORMAT_NAMES = tuple(dict.fromkeys(FORMATS.values()))

BINARY_FORMATS = ("parquet", "arrow")
"""The formats of files that have no lines."""

LINES = "lines"
"""The format of text files whose lines a pattern reads."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
"""The compression for each extension that can follow the format's."""

# The first bytes of compressed files; no text of a table begins like this.
_MARKS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}
# of bz2, followed by a digit and the mark of a block or of the end
_BZ2 = b"BZh"
_BZ2_NEXT = b"1AY&SY", b"\x17rE8P\x90"
# what logrotate and others add to the name of a log
_ROTATED = r"\.[0-9]{1,6}$|[-.][0-9]{4}-?[0-9]{2}-?[0-9]{2}(?:-?[0-9]+)?$"
COMPRESSION_BYTES = 10
"""How many of the first bytes tell the compression."""


def compression_of(first: bytes) -> str | None:
    """Return the compression of a file, "gzip", "zstd", "bz2", "xz" or None, by its first bytes.

    >>> compression_of(b"\\x1f\\x8b\\x08")
    'gzip'
    """
    if first.startswith(_BZ2) and first[4:COMPRESSION_BYTES] in _BZ2_NEXT:
        return "bz2"
    return next((name for mark, name in _MARKS.items() if first.startswith(mark)), None)


def may_be_compressed(first: bytes) -> bool:
    """Whether more bytes are needed to decide whether this is the start of compressed data."""
    marks = [*_MARKS, _BZ2]
    return any(mark.startswith(first) or first.startswith(mark) for mark in marks)


def table_format(path: str) -> tuple[str, str | None] | None:
    """Return the format and the compression of a table, or None if its name does not tell them.

    Numbers and dates behind the extension are those of logs that were rotated.

    >>> table_format("log.csv.gz"), table_format("log.jsonl.1"), table_format("log.csv-20240501.xz")
    (('csv', 'gzip'), ('jsonl', None), ('csv', 'xz'))
    """
    name = path.rpartition("/")[2].lower()
    compression = None
    # `log.csv.gz.1` is a file that was rotated once more
    name = _unrotated(name)
    for ending, found in COMPRESSIONS.items():
        if name.endswith(ending):
            compression = found
            name = _unrotated(name.removesuffix(ending))
            break
    stem, point, last = name.rpartition(".")
    format = FORMATS.get(point + last) if stem else None
    return None if format is None else (format, compression)


def _unrotated(name: str) -> str:
    """Return the name of a log without what is added to it when it is rotated."""
    # PERF: `re` takes 5 ms to import
    if not name.rstrip("\n")[-1:].isdecimal():
        return name
    import re

    return re.sub(_ROTATED, "", name)
