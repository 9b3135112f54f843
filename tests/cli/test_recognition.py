"""The format of a log on standard input is recognised by its first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from pyarrow import csv, feather, ipc, parquet

from tests.cli.process import Ended, Live, mtlmon, shell
from tests.doors import (
    Input,
    LogFile,
    format_of,
    is_enough,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table({"ts": list(range(30_000)), "p": [number % 7 > 0 for number in range(30_000)]})
LINES = [f"{number}:0 {'true' if number % 7 else 'false'}\n" for number in range(30_000)]


def content(format: str) -> bytes:
    sink = io.BytesIO()
    if format == "csv":
        csv.write_csv(ROWS, sink)
    elif format == "tsv":
        csv.write_csv(ROWS, sink, csv.WriteOptions(delimiter="\t"))
    elif format == "jsonl":
        for row in ROWS.to_pylist():
            sink.write(f'{{"ts":{row["ts"]},"p":{str(row["p"]).lower()}}}\n'.encode())
    elif format == "parquet":
        parquet.write_table(ROWS, sink)
    elif format == "arrow":
        feather.write_feather(ROWS, sink)
    elif format == "arrows":
        with ipc.new_stream(sink, ROWS.schema) as writer:
            writer.write_table(ROWS)
    else:
        for row in ROWS.to_pylist():
            sink.write(f"@{row['ts']}{' p' if row['p'] else ''}\n".encode())
    return sink.getvalue()


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def run(arguments: list[str], path: Path, *, is_pipe: bool) -> Ended:
    if is_pipe:
        return mtlmon(*arguments, log=path.read_bytes())
    return shell('$M "${@:2}" < "$1"', str(path), *arguments)


@pytest.mark.parametrize("is_pipe", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "text",
        "csv",
        "tsv",
        "jsonl",
        "arrow",
        "arrows",
        "parquet",
        "csv.gz",
        "jsonl.zst",
        "tsv.bz2",
        "csv.xz",
        "arrow.xz",
        "arrow.gz",
        "arrows.zst",
    ],
)
def test_formats_on_standard_input(tmp_path: Path, name: str, is_pipe: bool) -> None:
    format, _, compression = name.partition(".")
    log = tmp_path / "log"
    data = content(format)
    log.write_bytes(COMPRESSED[compression](data) if compression else data)
    ended = run(["-e", "p"], log, is_pipe=is_pipe)
    if name == "parquet" and is_pipe:
        assert ended.status == 2 and "Parquet is read from files" in ended.errors
        return
    assert ended == Ended(1, "".join(LINES), "")


def test_each_reader_gets_what_has_been_looked_at(tmp_path: Path) -> None:
    """Several policies, checkpoints, policies with variables, values of streams, explanations."""
    policy = tmp_path / "p.mtl"
    policy.write_text("policy a: p\npolicy b: once p\n")
    for log in ("@1 p\n@2 q\n", "ts,p\n1,true\n2,false\n", '{"ts":1,"p":true}\n{"ts":2}\n'):
        ended = mtlmon("--verdicts", "false", str(policy), log=log)
        assert ended == Ended(1, "a\t2:0 false\n", "")
        ended = mtlmon("-e", "p", "--checkpoint", f"{tmp_path}/s", "-o", f"{tmp_path}/v", log=log)
        assert ended.status == 1
        assert (tmp_path / "v").read_text() == "1:0 true\n2:0 false\n"
    policy.write_text("atom p(x)\npolicy c: FORALL x. p(x) IMPLIES ONCE[1,5] p(x)\n")
    ended = mtlmon(str(policy), log="@1 p(3)\n@2 p(3) p(4)\n")
    assert ended.status == 1 and "2:0 false (x=4)" in ended.output
    policy.write_text("stream n = ts.last()\n")
    ended = mtlmon("streams", str(policy), "-", log="ts,p\n1,true\n2,false\n")
    assert ended == Ended(0, '{"time":1,"n":null}\n{"time":2,"n":1}\n', "")
    ended = mtlmon("streams", str(policy), "-", log="@1 p\n")
    assert ended == Ended(0, '{"time":1,"n":null}\n', "")


def test_the_settings_of_a_policy_file_for_tables(tmp_path: Path) -> None:
    policy = tmp_path / "p.mtl"
    policy.write_text('time "at"\nkey user\npolicy a: n > 2\n')
    ended = mtlmon(str(policy), log="at,user,n\n1,ann,3\n2,bob,1\n")
    assert ended == Ended(1, "a\tann\t1:0 true\na\tbob\t2:0 false\n", "")
    ended = mtlmon(str(policy), log="@1 p\n")
    assert (
        ended.status == 2 and "declares the key of a table, but the log is read as" in ended.errors
    )
    policy.write_text('pattern "(?P<ts>[0-9]+),(?P<n>[0-9]+)"\npolicy a: n > 2\n')
    ended = mtlmon(str(policy), log="1,3\n2,1\n")
    assert ended.output == "a\t1:0 true\na\t2:0 false\n"


def test_what_an_option_says_counts() -> None:
    ended = mtlmon("--format", "text", "-e", "p", log='{"ts": 1}\n')
    assert ended.status == 2 and "this looks like JSON: add --format jsonl" in ended.errors
    ended = mtlmon("--pattern", "^(?P<ts>.),(?P<p>.*)", "-e", "p", log="1,true\n")
    assert ended.output == "1:0 true\n"


def test_lines_that_are_no_table() -> None:
    ended = mtlmon("-e", "p", log="what\n")
    assert ended.errors == "mtlmon: <stdin>:1:1: expected '@' and a time-stamp, not 'w' (what)\n"
    assert mtlmon("-e", "p", log="").errors == "mtlmon: the log has no events\n"
    for name, compress in COMPRESSED.items():
        log = compress(b"@1 p\n")
        ended = mtlmon("-e", "p", log=log)
        assert ended.status == 2 and "not a table by its first line" in ended.errors, name
        assert "decompress it first" in ended.errors


def test_a_live_pipe_is_recognised_by_its_first_line() -> None:
    with Live("-e", "p") as live:
        live.send('{"ts":1,')
        assert live.read_line(0.1) is None
        live.send('"p":true}\n')
        assert live.read_line() == "1:0 true"
        live.send('{"ts":2,"p":false}\n')
        assert live.read_line() == "2:0 false"
        assert live.end() == Ended(1, "", "")
    with Live("-e", "p") as live:
        live.send("@1 p\n")
        assert live.read_line() == "1:0 true"
        assert live.end() == Ended(0, "", "")


def test_how_much_of_a_log_is_enough() -> None:
    for begin in (b"@", b"\n @", b"a\n", b"PAR1", b"\x1f\x8b", b"\xff\xff\xff\xff", b"BZh91AY&SY"):
        assert is_enough(begin)
    for begin in (b"", b"a,b", b"\n", b"\x1f", b"PAR", b"BZh9", b"{"):
        assert not is_enough(begin)
    found = [format_of(one) for one in (b"a,b\n1,2\n", b"a\tb\n", b'{"a', b"@1 {\n", b"[", b"x y")]
    assert found == ["csv", "tsv", "jsonl", None, None, None]


def test_what_has_been_looked_at_is_given_back_in_pieces() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"@1 p\n")
    stream = Input(reader, "<pipe>")
    assert stream.look(is_enough, 1) == b"@1 p\n"
    os.write(writer, b"@2 q\n")
    os.close(writer)
    log = LogFile(reader, stream.name, input=stream)
    block = bytearray(2)
    found = b""
    while log.has_begun:
        found += block[: log.read_ready(memoryview(block))]
    assert found == b"@1 p\n"
    assert stream.take_begin() == b"" and log.read_ready(memoryview(block)) == 2
    assert bytes(block) == b"@2"
    log.close()
    # the run does not own it
    os.close(reader)


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ('::1 - - [01/May/2024:12:00:00 +0000] "GET / HTTP/1.1" 200 5\n', "--pattern combined, "),
        ("ts,size\n1,5\n", "--format csv (this looks like the header of a CSV file)"),
        ('{"ts": 1, "size": 5}\n', "--format jsonl (this looks like JSON)"),
        ("@1 p\n", "its format, for instance --format csv"),
        ("", "its format, for instance --format csv"),
        ("hello\n", "its format, for instance --format csv"),
        (
            '[{"size": 1}]\n',
            "this looks like an array of JSON, and lines of JSON hold one object "
            "each: jq -c '.[]' makes such lines",
        ),
        ("PK\x03\x04", "this looks like a spreadsheet or an archive: save the sheet as CSV, or "),
    ],
)
@pytest.mark.parametrize("arguments", [["-e", "size > 4"], ["--key", "size", "-e", "p"]])
def test_errors_say_how_to_read_a_log(
    arguments: list[str], log: str, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "events.log"
    path.write_text(log)
    done = mtlmon(*arguments, str(path))
    assert (done.status, done.output) == (2, "")
    add = "" if advice.startswith("this") else "add "
    assert f" is read as {'a text log' if '--key' in arguments else 'text'}: {add}{advice}" in (
        done.errors
    )


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    done = mtlmon("-e", "size > 4", str(tmp_path / "none.log"))
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith("mtlmon: cannot read ")
    assert "none.log: No such file or directory" in done.errors
