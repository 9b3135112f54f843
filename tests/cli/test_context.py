"""The options --context, --before-context and --after-context: rows around violations."""

from __future__ import annotations

import gzip
import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import mtlmon
from tests.doors import context_lines

if TYPE_CHECKING:
    from pathlib import Path


def expected(
    name: str, rows: list[str], first: int, wanted: set[int], before: int, after: int
) -> str:
    """Which rows are shown: those at most so far from a wanted one; groups are apart by a gap."""
    shown = [
        number
        for number in range(first, first + len(rows))
        if any(-before <= number - one <= after for one in wanted)
    ]
    text = ""
    for place, number in enumerate(shown):
        if place and number > shown[place - 1] + 1:
            text += "--\n"
        mark = ":" if number in wanted else "-"
        text += f"{name}{mark}{number}{mark}{rows[number - first]}\n"
    return text


@pytest.mark.parametrize("seed", range(40))
def test_rows_around_others(seed: int) -> None:
    source = random.Random(seed)
    count = source.randrange(1, 30)
    rows = [f"row {number}" for number in range(count)]
    wanted = set(source.sample(range(count), source.randrange(1, min(count, 6) + 1)))
    before, after = source.randrange(4), source.randrange(4)
    texts = ((number, f"{row}\r\n".encode()) for number, row in enumerate(rows))
    lines = context_lines("a", texts, wanted, before, after, is_first=True)
    assert "".join(f"{line}\n" for line in lines) == expected("a", rows, 0, wanted, before, after)


def test_text_logs(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rows = ["# begin", "@1 p", "", "@2 q", "@3 q", "@3 q", "@9 p"]
    path.write_text("\n".join(rows))
    done = mtlmon("-C", "1", "-e", "NOT p", str(path))
    assert done.output == "1:0 false\n2:0 true\n3:0 true\n3:1 true\n9:0 false\n"
    assert done.errors == expected(str(path), rows, 1, {2, 7}, 1, 1)
    only = mtlmon("--after-context", "2", "--verdicts", "none", "-e", "NOT p", str(path))
    assert (only.output, only.errors) == ("", expected(str(path), rows, 1, {2, 7}, 0, 2))
    mixed = mtlmon("-C", "2", "-B", "0", "-e", "NOT p", str(path))
    assert mixed.errors == only.errors


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "lines"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_tables(tmp_path: Path, format: str, is_packed: bool) -> None:
    """Also equivalences: all rows of a time-stamp are violations."""
    options = ["--key", "u", "--end-time", "inf", "-B", "1", "--explain-limit", "500"]
    names, text = [], ""
    clock = 0
    for file in range(2):
        rows, wanted = [], set()
        for number in range(1, 40):
            clock += number % 3 == 0
            user, value = f"u{number % 4}", int(number % 9 == 0) + (number % 5 == 0)
            if format == "jsonl":
                rows.append(f'{{"ts": {clock}, "u": "{user}", "v": {value}}}')
            else:
                rows.append(("\t" if format == "tsv" else ",").join((str(clock), user, str(value))))
            if value:
                # the header is the first line
                wanted.add(number + (format in ("csv", "tsv")))
        if format in ("csv", "tsv"):
            rows.insert(0, "ts,u,v".replace(",", "\t" if format == "tsv" else ","))
        data = "\n".join([*rows, ""]).encode()
        suffix = ".txt" if format == "lines" else f".{format}"
        path = tmp_path / f"{file}{suffix}{'.gz' if is_packed else ''}"
        path.write_bytes(gzip.compress(data) if is_packed else data)
        names.append(str(path))
        text += "--\n" if text else ""
        text += expected(str(path), rows, 1, wanted, 1, 0)
    if format == "lines":
        options += ["--pattern", r"^(?P<ts>\d+),(?P<u>\w+),(?P<v>\d+)"]
    done = mtlmon(*options, "-e", "v = 0", *names)
    assert done.errors == text
    assert all(line.count("\t") == 1 for line in done.output.splitlines())


@pytest.mark.parametrize("sign", [",", ";"])
def test_quoted_line_feeds_and_sorted_rows(sign: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('ts,v,what\n5,1,"a\nb"\n\n2,0,x\n3,1,y\n'.replace(",", sign))
    done = mtlmon("-C", "0", "--sort", "--delimiter", sign, "-e", "v = 0", str(path))
    lines = [f'{path}:2:5,1,"a', f'{path}:3:b"', "--", f"{path}:6:3,1,y"]
    assert done.errors.splitlines() == [line.replace(",", sign) for line in lines]


def test_limits_and_ticks(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,v\n1,1\n6,1\n11,1\n")
    rules = tmp_path / "rules.mtl"
    rules.write_text("policy a: v = 0\npolicy b on every 5: count[0,1](TRUE) < 1\n")
    done = mtlmon("-C0", "--explain-limit", "4", str(rules), str(log))
    assert done.errors == f"{log}:2:1,1\n{log}:3:6,1\n{log}:4:11,1\n"
    few = mtlmon("-C0", "--explain-limit", "1", str(rules), str(log))
    assert few.errors == (
        f"{log}:2:1,1\n"
        "mtlmon: the rows above are those of 1 violation; there are more (--explain-limit)\n"
    )
    rules.write_text("policy b on every 5: count[0,4](TRUE) < 1\n")
    ticks = mtlmon("-C0", "--end-time", "10", str(rules), str(log))
    assert ticks.errors == "mtlmon: 2 violations at ticks, which are no rows\n"


def test_what_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,v\n1,1\n")

    def refused(*arguments: str, why: str) -> None:
        done = mtlmon(*arguments, log="@1 p\n")
        assert (done.status, done.output) == (2, "")
        assert why in done.errors
        assert done.errors.count("\n") == 1

    refused("-C", "1", "-e", "NOT p", why="<stdin> cannot be read a second time; save")
    refused("-C", "x", "-e", "NOT p", str(log), why="'x' is not an integer from 0 to 999999999")
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(log), tmp_path / "log.parquet")
    refused("-C1", "-e", "v = 0", str(tmp_path / "log.parquet"), why="log.parquet is read as parq")
