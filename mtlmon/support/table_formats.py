"""Recognises the formats of tables by the names of their files."""

from __future__ import annotations

__all__ = ["COMPRESSIONS", "FORMATS", "FORMAT_NAMES", "LINES", "table_format"]

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
}
"""The format of a table for each file name extension."""

FORMAT_NAMES = tuple(dict.fromkeys(FORMATS.values()))

LINES = "lines"
"""The format of text files whose lines a pattern reads."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""The compression for each extension that can follow the format's."""


def table_format(path: str) -> tuple[str, str | None] | None:
    """Return the format and the compression of a table, or None if its name does not tell them.

    >>> table_format("log.csv.gz")
    ('csv', 'gzip')
    """
    name = path.rpartition("/")[2].lower()
    compression = None
    for ending, found in COMPRESSIONS.items():
        if name.endswith(ending):
            compression = found
            name = name.removesuffix(ending)
            break
    stem, point, last = name.rpartition(".")
    format = FORMATS.get(point + last) if stem else None
    return None if format is None else (format, compression)
