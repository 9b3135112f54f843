"""The values of streams of text logs, against those of tables with the same events."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended, Live
from tests.doors import checking_text_logs as text_logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

STREAMS = """\
unit s
relation limits = table "limits.csv" valid [from, to) key what
relation quiet  = limits where most is null select what as what
let   both = p AND "a b"
stream seen = seen.last(or: 0) + 1
stream often = count[0,5s](p)
stream gap = ts - ts.last() on both
let   since = NOT q SINCE[0,9s] p
stream waits = count[0,1m](since)
stream mean = avg[0,20s](often) every 10s
stream parts = count[0,10s](q) per often as id until q
stream limit = if exists quiet then 0 else limits[if both then "both" else "one"].most
stream above = count[0,1m](often > limits["one"].most)
stream held = limits["both"].most every 20s
"""
LATER = "stream after = coalesce(seen.next(2), 0)\n"
LIMITS = "what,from,to,most\none,0,40,1\none,40,,3\nboth,20,100,2\nboth,100,120,\n"
ATOMS = ("p", "q", "a b")


def events(seed: int, count: int) -> list[tuple[int, tuple[str, ...]]]:
    draw = random.Random(seed)
    time, found = 3, []
    for _ in range(count):
        time += draw.choice([0, 0, 1, 2, 7, 31])
        found.append((time, tuple(name for name in ATOMS if draw.random() < 0.4)))
    return found


def write(path: Path, some: list[tuple[int, tuple[str, ...]]]) -> tuple[Path, Path]:
    """Write a text log and a table with the same events, and a table of limits."""
    (path / "limits.csv").write_text(LIMITS)
    text, table = path / "events.log", path / "events.csv"
    with text.open("w") as file:
        for time, names in some:
            shown = " ".join(json.dumps(name) if " " in name else name for name in names)
            file.write(f"@{time} {shown} other\n")
    with table.open("w") as file:
        file.write(f"ts,{','.join(ATOMS)}\n")
        for time, names in some:
            file.write(f"{time},{','.join(str(name in names).lower() for name in ATOMS)}\n")
    return text, table


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("end", [(), ("--end-time", "last"), ("--end-time", "inf")])
@pytest.mark.parametrize("later", ["", LATER])
def test_values_are_those_of_the_table(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    end: tuple[str, ...],
    later: str,
) -> None:
    monkeypatch.setattr(text_logs, "_BLOCK_BYTES", 64)
    streams = tmp_path / "s.mtl"
    streams.write_text(STREAMS + later)
    text, table = write(tmp_path, events(seed, 40))
    wanted = command("streams", *end, streams, table)
    assert wanted.status == 0
    assert len(wanted.output.splitlines()) > 40
    done = command("streams", *end, streams, text)
    assert (done.status, done.output) == (0, wanted.output)
    assert done.errors == wanted.errors.replace(" rows ", " lines ")
    for form in ("csv", "parquet"):
        outputs = []
        for log in (text, table):
            target = tmp_path / f"values.{form}"
            command("streams", *end, "--output-format", form, "-o", target, streams, log)
            outputs.append(target.read_bytes())
        assert outputs[0] == outputs[1]


def test_events_whose_values_overflow(command: Command, tmp_path: Path) -> None:
    streams, log = tmp_path / "s.mtl", tmp_path / "log"
    streams.write_text(f"stream n = {2**63 - 3} + count[0,9](p)\n")
    log.write_text("@1 p\n@2 p\n@3 p\n@4\n@20\n")
    done = command("streams", streams, log)
    assert done.status == 2
    assert done.output.splitlines()[-1] == f'{{"time":2,"n":{2**63 - 1}}}'
    assert "log: at time-stamp 3: " in done.errors
    assert "--on-error skip leaves such events out" in done.errors
    done = command("streams", "--on-error", "skip", streams, log)
    times = [json.loads(line)["time"] for line in done.output.splitlines()]
    assert (done.status, times) == (0, [1, 2, 4, 20])
    assert "skipped 1 line that could not be read" in done.errors


def test_lines_that_cannot_be_read(command: Command, tmp_path: Path) -> None:
    streams, log = tmp_path / "s.mtl", tmp_path / "log"
    streams.write_text("stream n = count[0,9](p)\n")
    log.write_text("@1 p\n@0 p\n@3")
    done = command("streams", streams, log)
    assert (done.status, done.output) == (2, '{"time":1,"n":1}\n')
    assert "log:2:2: " in done.errors
    done = command("streams", "--on-error", "skip", streams, log)
    assert (done.status, done.output) == (0, '{"time":1,"n":1}\n{"time":3,"n":1}\n')


def test_what_is_noted(command: Command, tmp_path: Path) -> None:
    streams, log = tmp_path / "s.mtl", tmp_path / "log"
    streams.write_text("unit s\nassume rate <= 1/s\nstream n = count[0,9](eror)\n")
    log.write_text("@1 error\n@1\n")
    done = command("streams", "--summary", streams, log)
    assert "the log breaks 'assume rate <= 1/s': more than 1 row at time-stamp 1" in done.errors
    assert "no event has the atom eror; did you mean error?" in done.errors
    assert done.errors.count("\nrows                2\n") == 1


def test_a_live_pipe(tmp_path: Path) -> None:
    """The values at a line are written before the next one comes."""
    streams = tmp_path / "s.mtl"
    streams.write_text("stream n = count[0,5](p)\n")
    with Live("streams", str(streams), "-") as live:
        for line, time, count in [("@1 p", 1, 1), ("@1", 1, 1), ("@5 p", 5, 2)]:
            live.send(f"{line}\n")
            assert live.read_line() == f'{{"time":{time},"n":{count}}}'
        assert live.end() == Ended(0, "", "")
