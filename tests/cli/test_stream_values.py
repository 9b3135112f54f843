"""The subcommand that writes the values of streams."""

from __future__ import annotations

import csv
import json
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet  # noqa: E402

from mtlmon.policy import parse_policies  # noqa: E402
from tests.cli.process import Ended, Live, mtlmon  # noqa: E402
from tests.doors import Expression  # noqa: E402
from tests.doors import predicates_operators as ops  # noqa: E402
from tests.reference import streams as reference  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

STREAMS = """\
key k
stream seen = seen.last(or: 0) + 1
stream large = count[0,3](x > 4)
stream mean: float = avg[0,5](y)
stream before = s.last() on x > 2
stream twice = large * 2 + seen
policy p: large < 3
"""
NAMES = ["seen", "large", "mean", "before", "twice"]
TEXTS = ["", "a", 'q"\\', "é\n", "7"]


def log(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows in the order of time; cells other than the key may be null."""
    draw = random.Random(seed)
    time_stamp = 0
    rows = []
    for _ in range(count):
        time_stamp += draw.choice([0, 1, 1, 2, 7])
        cells = {"x": draw.randrange(9), "y": draw.uniform(-9, 9), "s": draw.choice(TEXTS)}
        rows.append(
            {
                "ts": time_stamp,
                "k": draw.choice("abc"),
                **{name: None if draw.random() < 0.1 else cell for name, cell in cells.items()},
            }
        )
    return rows


def expected(text: str, rows: list[dict[str, Any]], key: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows that the command should write, by the reference evaluator."""
    file = parse_policies(text)
    program = reference.Program(
        {name: Expression(ops.STREAM, (), name) for name in file.streams},
        {
            name: reference.StreamText(
                stream.expression, None if stream.clock is None else stream.clock.condition
            )
            for name, stream in file.streams.items()
        },
    )
    traces: dict[tuple[Any, ...], int] = {}
    found = []
    for row in rows:
        trace = traces.setdefault(tuple(row[name] for name in key), len(traces))
        values = program.row(row["ts"], trace, row)
        assert values is not None
        found.append({"time": row["ts"], **{name: str(row[name]) for name in key}, **values})
    return found


def write_log(path: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("key", [("k",), ("k", "x"), ()])
def test_values_are_those_of_the_reference(
    command: Command, tmp_path: Path, seed: int, key: tuple[str, ...]
) -> None:
    rows = [row for row in log(seed, 60) if None not in [row[name] for name in key]]
    text = STREAMS if key == ("k",) else STREAMS.replace("key k\n", "")
    streams, table = tmp_path / "s.mtl", tmp_path / "log.parquet"
    streams.write_text(text)
    write_log(table, rows)
    options = ["--key", ",".join(key)] if key else []
    wanted = expected(text, rows, key)
    assert any(row["before"] is not None for row in wanted)

    done = command("streams", *options, streams, table)
    assert (done.status, done.errors) == (0, "")
    assert [json.loads(line) for line in done.output.splitlines()] == wanted

    output = tmp_path / "values.parquet"
    done = command("streams", *options, "--output-format", "parquet", "-o", output, streams, table)
    assert done == Ended(0, "", "")
    assert parquet.read_table(output).to_pylist() == wanted

    output = tmp_path / "values.csv"
    done = command("streams", *options, "--output-format", "csv", "-o", output, streams, table)
    assert done == Ended(0, "", "")
    with output.open(newline="", encoding="utf-8") as file:
        header, *cells = csv.reader(file)
    assert header == ["time", *key, *NAMES]
    mean = header.index("mean")
    for line, row in zip(cells, wanted, strict=True):
        values = ["" if value is None else str(value) for value in row.values()]
        assert line[mean] == values[mean] or float(line[mean]) == row["mean"]
        assert line[:mean] + line[mean + 1 :] == values[:mean] + values[mean + 1 :]


def test_names_that_are_taken_and_times_as_texts(command: Command, tmp_path: Path) -> None:
    streams, table = tmp_path / "s.mtl", tmp_path / "log.csv"
    streams.write_text("stream time = x\nstream user = x > 1\nstream when = ts\n")
    table.write_text("ts,time,user,x\n2024-05-03T06:00:00Z,7,ann,2\n")
    done = command("streams", "--key", "time,user", streams, table)
    assert json.loads(done.output) == {
        "time": 1714716000,
        "time_text": "2024-05-03T06:00:00Z",
        "key_time": "7",
        "user": "ann",
        "stream_time": "2",
        "stream_user": True,
        "when": "2024-05-03T06:00:00Z",
    }


def test_numbers_in_json(command: Command, tmp_path: Path) -> None:
    streams, table = tmp_path / "s.mtl", tmp_path / "log.parquet"
    streams.write_text("stream v = f\n")
    floats = [1.0, -0.0, 1e16, 1e-300, 0.1, -2.5e22, math.nan, math.inf, -math.inf, None]
    write_log(table, [{"ts": 1, "f": one} for one in floats])
    done = command("streams", streams, table)
    values = [json.loads(line)["v"] for line in done.output.splitlines()]
    assert [str(value) for value in values[:6]] == [str(value) for value in floats[:6]]
    assert values[6:] == [None] * 4


def test_a_type_that_changes(command: Command, tmp_path: Path) -> None:
    """Files of one log can have different types; nothing here asks for numbers."""
    streams, output = tmp_path / "s.mtl", tmp_path / "values"
    streams.write_text("stream v = x\n")
    (tmp_path / "a.csv").write_text("ts,x\n1,\n")
    (tmp_path / "b.csv").write_text("ts,x\n2,3\n")
    (tmp_path / "c.csv").write_text("ts,x\n3,0.5\n")
    write_log(tmp_path / "d.parquet", [{"ts": 4, "x": "no"}])
    logs = [*(tmp_path / f"{name}.csv" for name in "abc"), tmp_path / "d.parquet"]
    done = command("streams", "--output-format", "csv", streams, *logs)
    assert done == Ended(0, 'time,v\n1,\n2,"3"\n3,"0.5"\n4,"no"\n', "")
    asked = ["streams", "--output-format", "parquet", "-o", output, streams]
    assert command(*asked, *logs[:3]) == Ended(0, "", "")
    assert parquet.read_table(output)["v"].to_pylist() == [None, "3", "0.5"]
    assert command(*asked, *logs) == Ended(0, "", "")
    assert parquet.read_table(output)["v"].to_pylist() == [None, "3", "0.5", "no"]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_log_without_rows(command: Command, tmp_path: Path, form: str) -> None:
    streams, table, output = tmp_path / "s.mtl", tmp_path / "log.csv", tmp_path / "values"
    streams.write_text(STREAMS)
    table.write_text("ts,k,x,y,s\n")
    done = command("streams", "--output-format", form, "-o", output, streams, table)
    assert done == Ended(0, "", "")
    if form == "jsonl":
        assert output.read_text() == ""
    elif form == "csv":
        assert output.read_text() == "time,k,seen,large,mean,before,twice\n"
    else:
        assert parquet.read_table(output).column_names == ["time", "k", *NAMES]


def test_rows_that_cannot_be_read(command: Command, tmp_path: Path) -> None:
    streams, table = tmp_path / "s.mtl", tmp_path / "log.csv"
    streams.write_text("stream total = sum[0,*)(x)\n")
    table.write_text(f"ts,x\n1,{2**63 - 1}\n2,1\n3,-1\n")
    done = command("streams", streams, table)
    assert done.status == 2
    assert done.output == f'{{"time":1,"total":{2**63 - 1}}}\n'
    assert "log.csv:3" in done.errors or "row 2" in done.errors
    done = command("streams", "--on-error", "skip", streams, table)
    assert done.status == 0
    assert done.output.splitlines()[1:] == [f'{{"time":3,"total":{2**63 - 2}}}']
    assert "skipped 1 row" in done.errors


def test_a_live_pipe(tmp_path: Path) -> None:
    """The values at a row are written before the next row comes."""
    streams = tmp_path / "s.mtl"
    streams.write_text("key k\nstream n = n.last(or: 0) + 1\n")
    with Live("streams", "--format", "jsonl", str(streams), "-") as live:
        for time_stamp, key, count in [(1, "a", 1), (1, "b", 1), (5, "a", 2)]:
            live.send(f'{{"ts": {time_stamp}, "k": "{key}"}}\n')
            assert live.read_line() == f'{{"time":{time_stamp},"k":"{key}","n":{count}}}'
        assert live.end() == Ended(0, "", "")


def test_a_limit_on_memory(command: Command, tmp_path: Path) -> None:
    streams, table = tmp_path / "s.mtl", tmp_path / "log.parquet"
    streams.write_text("key k\nstream n = n.last(or: 0) + 1\n")
    write_log(table, [{"ts": number, "k": number} for number in range(30_000)])
    done = command("streams", "--max-memory", "100K", streams, table)
    assert done.status == 2
    assert "--max-memory" in done.errors
    assert command("streams", "--max-memory", "100M", streams, table).status == 0


def test_streams_from_standard_input(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    table.write_text("ts\n3\n")
    done = mtlmon("streams", "-", str(table), log="stream n = count[0,5]()")
    assert done == Ended(0, '{"time":3,"n":1}\n', "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no policy file: name one"),
        (["{s}"], "no log: name one, or - for standard input"),
        (["{s}", "log"], "cannot read log: No such file or directory"),
        (["{columns}", "{l}"], "columns.mtl uses columns of a table, but the log is read as text"),
        (["{keys}", "{l}"], "keys.mtl declares the key of a table, but the log is read as text"),
        (["{s}", "{l}", "--key", "x"], "l.log is read as a text log"),
        (["{s}", "{l}", "{m}"], "m.log): name one at a time"),
        (["-", "-", "--format", "csv"], "streams and log cannot both come from standard input"),
        (["{s}", "none.csv"], "cannot read none.csv"),
        (["none.mtl", "log.csv"], "cannot read none.mtl"),
        (["{s}", "{t}", "--key", "z"], "no column 'z' for the key"),
        (["{s}", "{t}", "--tim", "z"], "did you mean --time?"),
        (["{empty}", "{t}"], "declares no streams: write stream NAME = EXPRESSION"),
        (["{ticks}", "{t}"], "stream b is every 10s, but x is of rows"),
        (["{instances}", "{t}"], "c has no value at the ticks of an instance"),
        (["{s}", "{t}", "-o", "{t}"], "is both the log and the file for the verdicts"),
    ],
)
def test_errors(command: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    files = {
        "s": "stream a = count[0,5]()\n",
        "t": "ts\n1\n",
        "l": "@1 p\n",
        "m": "@1 p\n",
        "empty": "policy p: q\n",
        "ticks": "unit s\nstream b = count[0,5]() + x every 10s\n",
        "columns": "stream a = count[0,5](x > 1)\n",
        "keys": "key x\nstream a = count[0,5]()\n",
        "instances": "stream c = 1 every 10\nstream d = c per ts every 10\n",
    }
    paths = {}
    for name, text in files.items():
        suffix = {"t": "csv", "l": "log", "m": "log"}.get(name, "mtl")
        paths[name] = tmp_path / f"{name}.{suffix}"
        paths[name].write_text(text)
    done = command("streams", *(one.format(**paths) for one in arguments))
    assert (done.status, done.output) == (2, "")
    assert message in done.errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stream v: int = x / 2", "1:17: stream v: this is a number, not an integer"),
        ("stream v: text = sum[0,5](x)", "1:18: stream v: this is an integer, not a text"),
        ("stream v: int = v.last(or: 0) + 0.5 * x", "stream v: this is a number, not an integer"),
    ],
)
def test_a_declared_type_that_does_not_fit(
    command: Command, tmp_path: Path, text: str, message: str
) -> None:
    """Runs say what check-policy says."""
    streams, table = tmp_path / "s.mtl", tmp_path / "log.csv"
    streams.write_text(f"{text}\npolicy p: v{'[1]' * ('per' in text)} is null\n")
    table.write_text("ts,x,y\n1,2,1\n2,4,1\n")
    for subcommand in ([], ["streams"], ["check-policy"]):
        done = command(*subcommand, streams, table)
        assert (done.status, done.output) == (2, "")
        assert message in done.errors


def test_the_declared_type(command: Command, tmp_path: Path) -> None:
    streams, table = tmp_path / "s.mtl", tmp_path / "log.csv"
    streams.write_text("stream v: float = x\nstream w = x\n")
    table.write_text("ts,x\n1,3\n")
    assert command("streams", streams, table).output == '{"time":1,"v":3.0,"w":"3"}\n'
