"""Tables with bytes changed, cut and spliced: `python -m tests.tables.fuzz SECONDS [SEED]`.

Each file is read by the command in a process that reads many of them. What must not happen is a
signal, an internal fault, or rows that are missing without an error; what does is printed, and the
file kept in the directory that the last line names.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
from pyarrow import ipc, parquet

from tests.tables.test_formats import write

FORMATS = ["csv", "tsv", "jsonl", "parquet", "arrow", "feather", "csv.gz", "jsonl.zst", "arrow.gz"]
SECONDS = 20
_ASKED = [
    ["-e", "p"],
    ["-e", "p", "--sort"],
    ["-e", "in", "--event", "what", "--key", "user"],
    ["-e", "in", "--event", "tags", "--key", "user,ts", "--output-format", "jsonl"],
    ["-e", "in", "--event", "code", "--key", "n,when", "--output-format", "parquet"],
    ["-e", "p", "--time", "when", "--resolution", "ms", "--key", "code", "--output-format", "csv"],
    ["-e", "p", "--time", "price", "--time-unit", "s", "--key", "view"],
    ["-e", "in", "--event", "view", "--key", "price"],
    ["n.mtl", "--key", "n"],
]
_POLICY = 'atom a = n > 3\natom b = n < 7 AND price > 1\natom c = user = "u"\npolicy x: a OR b OR c'
_CHILD = """
import os, sys
from mtlmon.cli import main
for line in sys.stdin:
    path, *asked = line.rstrip("\\n").split("\\x1f")
    with open("stderr", "w") as errors, open("stdout", "w") as output:
        sys.stderr, sys.stdout = errors, output
        os.dup2(output.fileno(), 1)
        status = main([*asked, path])
        sys.stdout = sys.__stdout__
    os.write(3, b"%d\\n" % status)
"""


def table(source: random.Random) -> Any:
    """Rows with columns of many types."""
    count = source.choice([1, 40, 300])
    times = sorted(source.randrange(1000) for _ in range(count))
    columns = {
        "ts": pa.array(times, pa.int64()),
        "p": pa.array([source.choice([True, False, None]) for _ in times]),
        "what": pa.array([source.choice(["in", "out", "in|out", None, "ü"]) for _ in times]),
        "user": pa.array([source.choice(["u", "user number two", None, "x"]) for _ in times]),
        "n": pa.array([source.choice([1, 5, -(2**62), None]) for _ in times], pa.int64()),
        "price": pa.array([source.choice([1.5, 2.0, 1e300, None]) for _ in times]),
    }
    return pa.table(columns)


def with_types(rows: Any, source: random.Random) -> Any:
    """The same with columns that only formats with types have."""
    count = rows.num_rows
    texts = [source.choice(["in", "out", None, "a long text of many bytes"]) for _ in range(count)]
    views = pa.array(texts, pa.large_string())
    if hasattr(pa, "string_view"):
        views = views.cast(pa.string_view())
    unit = source.choice(["s", "ms", "us", "ns"])
    decimals = pa.array(range(count), pa.int64()).cast(pa.decimal128(30, 5))
    return (
        rows.append_column("tags", pa.array([[t, "in"] for t in texts], pa.list_(pa.string())))
        .append_column("code", pa.array(texts, pa.string()).dictionary_encode())
        .append_column("view", views)
        .append_column("when", pa.array(range(count), pa.int64()).cast(pa.timestamp(unit, "UTC")))
        .set_column(rows.schema.names.index("price"), "price", decimals)
    )


def write_file(path: Path, source: random.Random) -> int:
    """A file of a table; returns how many rows it has."""
    rows = table(source)
    ending = path.name.split(".")[1]
    if ending in ("csv", "tsv", "jsonl"):
        write(rows, path)
        return int(rows.num_rows)
    rows = with_types(rows, source)
    if ending == "parquet":
        plain = rows.set_column(
            rows.schema.names.index("view"), "view", rows["view"].cast(pa.string())
        )
        parquet.write_table(
            plain,
            path,
            row_group_size=source.choice([7, 50, 1000]),
            write_page_checksum=source.random() < 0.3,
            use_dictionary=source.random() < 0.5,
            data_page_version=source.choice(["1.0", "2.0"]),
            compression=source.choice(["none", "snappy", "zstd"]),
        )
        return int(rows.num_rows)
    if path.name.endswith(".gz"):
        write(rows, path)
        return int(rows.num_rows)
    compression = source.choice([None, "lz4", "zstd"])
    options = ipc.IpcWriteOptions(compression=compression)
    make = ipc.new_file if ending == "feather" else ipc.new_stream
    with make(path, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=source.choice([7, 100, 1000]))
    return int(rows.num_rows)


def changed(content: bytes, source: random.Random) -> bytes:
    """Some bytes changed, cut, moved or doubled."""
    found = bytearray(content)
    for _ in range(source.choice([1, 1, 1, 2, 5])):
        if not found:
            break
        kind = source.randrange(8)
        place = source.randrange(len(found))
        # what footers and metadata say is at the end and the beginning
        if source.random() < 0.5:
            place = source.choice([place % 600, max(0, len(found) - 1 - place % 1500)])
            place = min(place, len(found) - 1)
        length = source.choice([1, 4, 8, 60])
        other = source.randrange(len(found))
        if kind <= 2:
            found[place] ^= 1 << source.randrange(8)
        elif kind == 3:
            found[place] = source.choice([0, 1, 255, 127, 128, 10, 13, 34, 44, 123, 91, 110])
        elif kind == 4:
            del found[place : place + length]
        elif kind == 5:
            found[place:place] = found[other : other + length]
        elif kind == 6:
            value = source.choice([0, -1, 2**31 - 1, -(2**31), 2**40])
            found[place : place + 8] = value.to_bytes(8, "little", signed=True)
        elif source.random() < 0.3:
            del found[place:]
    return bytes(found)


class Reader:
    """A process that runs the command on one file after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._start()

    def _start(self) -> None:
        # descriptor 3 is where it says how each run ended
        script = f"exec {sys.executable} -c '{_CHILD}' 3>&1 >/dev/null 2>crash"
        self.process = subprocess.Popen(
            ["bash", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._directory,
        )

    def run(self, path: Path, asked: list[str]) -> int:
        """The exit status; negative if the process was ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\x1f".join([str(path), *asked]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return int(line)
        self.process.wait()
        status = -abs(int(self.process.returncode))
        self._start()
        return status


def main(seconds: float, seed: int) -> int:
    """Hunt for so long; returns how many files broke something."""
    directory = Path(mkdtemp(prefix="mtlmon-fuzz-"))
    (directory / "n.mtl").write_text(_POLICY)
    source = random.Random(seed)
    reader = Reader(directory)
    end = time.monotonic() + seconds
    runs = bad = 0
    while time.monotonic() < end:
        ending = source.choice(FORMATS)
        good = directory / f"good.{ending}"
        rows = write_file(good, source)
        content = good.read_bytes()
        for _ in range(10):
            path = directory / f"log.{ending}"
            path.write_bytes(changed(content, source))
            asked = [*source.choice(_ASKED), "--summary"]
            if source.random() < 0.5:
                asked += ["--on-error", "skip"]
            status = reader.run(path, asked)
            runs += 1
            errors = (directory / "stderr").read_text()
            what = None
            if status not in (0, 1, 2):
                what = f"status {status}: {errors.strip()[-200:]}"
            elif status != 2 and ending.partition(".")[0] in ("parquet", "arrow", "feather"):
                found = _rows(errors)
                if found is not None and found < rows:
                    what = f"{found} of {rows} rows"
            if what is not None:
                bad += 1
                kept = directory / f"bad-{bad}.{ending}"
                path.rename(kept)
                print(f"{kept} {' '.join(asked)}: {what}", flush=True)
    print(f"{runs} runs, {bad} bad, seed {seed}, in {directory}")
    return bad


def _rows(summary: str) -> int | None:
    """How many rows were read or skipped, by what the command says."""
    found = re.search(r"^rows +([\d,]+)", summary, re.MULTILINE)
    return None if found is None else int(found[1].replace(",", ""))


if __name__ == "__main__":
    asked_seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    asked_seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    sys.exit(main(asked_seconds, asked_seed) > 0)
