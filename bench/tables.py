"""Tables: policies checked on columns, beside what pyarrow alone takes to deliver these columns.

One process, in turn. The policy has two atoms, `p` and `q`, each at random at a tenth of the rows;
there are three other columns that nobody asks for. All verdicts are written, to the null device.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from bench import commands
from bench.compare import progress
from bench.contenders import Mtlmon
from bench.logs import cache_directory
from mtlmon.checking.log_check import LogCheck
from mtlmon.checking.outputs import TextOutput
from mtlmon.checking.partitions import TraceKeys
from mtlmon.policy import parse_policies
from mtlmon.tables import open_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report import Result, Row
    from bench.settings import Settings

ONE = "policy response: p IMPLIES EVENTUALLY[0,5] q"
_PARTS = ("EVENTUALLY[0,5] q", "ONCE[0,10] p", "r SINCE[2,8] q")
_LEFT = ("p", "q", "r", "(p AND q)", "(p AND r)", "(q OR r)", "(p OR q OR r)")
MANY = "\n".join(
    [
        *(f"let part{number} = {part}" for number, part in enumerate(_PARTS)),
        *(
            f"policy number{number}: {_LEFT[number % 7]} IMPLIES part{number % 3}"
            for number in range(20)
        ),
    ]
)
"""Twenty policies that share three subformulas."""

_KEYS = 100_000
_COLUMNS = ["ts", "p", "q"]


def tables(settings: Settings) -> Result:
    """Millions of rows a second, medians over the repeats; each beside what it is compared with."""
    paths = _files(settings.events, settings.seed)
    runs: dict[tuple[str, str], Callable[[], object]] = {
        ("CSV", "mtlmon"): lambda: check(paths["csv"], ONE),
        ("CSV", "compared"): lambda: _drain_csv(paths["csv"]),
        ("JSON lines", "mtlmon"): lambda: check(paths["jsonl"], ONE),
        ("JSON lines", "compared"): lambda: _read_json(paths["jsonl"]),
        ("Parquet", "mtlmon"): lambda: check(paths["parquet"], ONE),
        ("Parquet", "compared"): lambda: _drain_parquet(paths["parquet"]),
        ("Parquet, 100,000 keys", "mtlmon"): lambda: check(paths["parquet"], ONE, "key"),
        ("Parquet, 100,000 keys", "compared"): lambda: check(paths["parquet"], ONE),
        ("Parquet, 20 policies", "mtlmon"): lambda: check(paths["parquet"], MANY),
        ("Parquet, 20 policies", "compared"): lambda: check(paths["parquet"], ONE),
        ("CSV, 20 policies", "mtlmon"): lambda: check(paths["csv"], MANY),
        ("CSV, 20 policies", "compared"): lambda: check(paths["csv"], ONE),
    }
    seconds: dict[tuple[str, str], list[float]] = {name: [] for name in runs}
    for _ in progress(settings.repeats, "tables"):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    rows: list[Row] = []
    for what in dict.fromkeys(name for name, _ in runs):
        ours, other = (
            settings.events / 1e6 / statistics.median(seconds[what, who])
            for who in ("mtlmon", "compared")
        )
        other_name = "one policy" if "policies" in what else "pyarrow"
        if "keys" in what:
            other_name = "without keys"
        rows.append(
            {
                "what": what,
                "M rows/s": ours,
                "compared with": other_name,
                "its M rows/s": other,
                "ratio": ours / other,
            }
        )
    above = {
        format: _peak(paths[format], settings) - _peak(paths[f"empty {format}"], settings)
        for format in ("csv", "parquet")
    }
    notes = [
        f"With 100,000 keys the command takes {above['parquet'] / 1e6:.0f} MB more for the Parquet "
        f"file, and {above['csv'] / 1e6:.0f} MB more for the CSV file, than for ones without rows."
    ]
    return {"rows": rows, "notes": notes}


def _peak(path: Path, settings: Settings) -> int:
    """The peak memory of the command with keys, in bytes."""
    formula = ONE.partition(": ")[2]
    command = Mtlmon("local").command(formula, path)
    arguments = [*command, "--key", "key", "--end-time", "last", "-o", os.devnull]
    runs = [commands.run(arguments, settings.limit) for _ in range(settings.repeats)]
    return int(statistics.median(run.peak_bytes for run in runs))


def check(path: Path, policies: str, key: str | None = None) -> None:
    """Check policies on a table, and write all verdicts."""
    file = parse_policies(policies)
    run = LogCheck(file.policies)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        with open_tables(path, run.atoms, key=() if key is None else key) as source:
            keys = TraceKeys.of_one_partition(len(file.policies), source.keys, source.partitions[0])
            output = TextOutput([policy.name for policy in file.policies], keys)
            for _ in run.run(source, "last"):
                output.put(run.verdicts)
                output.writer.flush(null)
    finally:
        os.close(null)


def _drain_csv(path: Path) -> None:
    options = pa.csv.ConvertOptions(
        include_columns=_COLUMNS, column_types={"p": pa.bool_(), "q": pa.bool_()}
    )
    for _ in pa.csv.open_csv(path, convert_options=options):
        pass


def _read_json(path: Path) -> None:
    schema = pa.schema([("ts", pa.int64()), ("p", pa.bool_()), ("q", pa.bool_())])
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    pa.json.read_json(path, parse_options=options)


def _drain_parquet(path: Path) -> None:
    for _ in pa.parquet.ParquetFile(path).iter_batches(columns=_COLUMNS):
        pass


def _files(events: int, seed: int) -> dict[str, Path]:
    """The same rows in each format, made once."""
    directory = cache_directory()
    paths = {
        name: directory / f"table-{events}-{seed}{'-empty' if is_empty else ''}.{format}"
        for format in ("csv", "jsonl", "parquet")
        for is_empty in (False, True)
        for name in [f"empty {format}" if is_empty else format]
    }
    if all(path.exists() for path in paths.values()):
        return paths
    source = np.random.default_rng(seed)
    table = pa.table(
        {
            "ts": np.arange(events) // 100,
            "key": source.integers(0, _KEYS, events),
            "p": source.random(events) < 0.1,
            "q": source.random(events) < 0.1,
            "r": source.random(events) < 0.5,
            "value": np.round(source.random(events), 6),
        }
    )
    for before, part in (("", table), ("empty ", table.slice(0, 0))):
        pa.csv.write_csv(part, paths[f"{before}csv"])
        pa.parquet.write_table(part, paths[f"{before}parquet"])
    paths["empty jsonl"].touch()
    with paths["jsonl"].open("w", encoding="utf-8") as file:
        for batch in table.to_batches(max_chunksize=1 << 16):
            columns = [column.to_pylist() for column in batch.columns]
            for ts, key, p, q, r, value in zip(*columns, strict=True):
                file.write(
                    f'{{"ts":{ts},"key":{key},"p":{str(p).lower()},"q":{str(q).lower()},'
                    f'"r":{str(r).lower()},"value":{value}}}\n'
                )
    return paths
