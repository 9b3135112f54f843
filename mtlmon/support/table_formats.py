"""The formats of tables, and how names of files tell them."""

from __future__ import annotations

__all__ = ["COMPRESSIONS", "FORMATS", "FORMAT_NAMES", "table_format"]

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
"""The format of a table by the ending of its name."""

FORMAT_NAMES = tuple(dict.fromkeys(FORMATS.values()))

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""The compression by what stands behind that ending."""


def table_format(path: str) -> tuple[str, str | None] | None:
    """The format and the compression of a table, by its name; None if that tells neither.

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
