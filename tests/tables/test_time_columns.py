"""Times whose parts are in several columns: those of one column with the joined texts."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from pyarrow import csv, feather, parquet

from mtlmon import check as check_log
from mtlmon.errors import MtlmonError, PolicyError, TableError
from mtlmon.policy import parse_policies
from mtlmon.tables import open_tables
from tests.cli.process import mtlmon
from tests.tables.begun import events_of

if TYPE_CHECKING:
    from pathlib import Path

POLICY = """
unit s
policy few: count[0,60s](n > 2) < 3
policy early: {hour} < 12 implies n > 0
policy day: {day} is not null
"""


def parts_of(seed: int) -> pa.Table:
    generator = random.Random(seed)
    time, rows = dt.datetime(2024, 2, 28, 23, 59), []
    for _ in range(40):
        time += dt.timedelta(seconds=generator.choice([0, 1, 25, 4000]))
        rows.append({"d": str(time.date()), "t": str(time.time()), "n": generator.randrange(5)})
    return pa.Table.from_pylist(rows)


def joined(table: pa.Table) -> pa.Table:
    pairs = zip(table["d"].to_pylist(), table["t"].to_pylist(), strict=True)
    texts = [None if None in pair else f"{pair[0]} {pair[1]}" for pair in pairs]
    return table.append_column("at", pa.array(texts, pa.string()))


def written(table: pa.Table, format: str, path: Path) -> str:
    name = str(path / f"log.{format}")
    if format == "csv":
        csv.write_csv(table, name)
    elif format == "jsonl":
        import json

        lines = [
            json.dumps({key: cell for key, cell in row.items() if cell is not None})
            for row in table.to_pylist()
        ]
        (path / "log.jsonl").write_text("".join(f"{line}\n" for line in lines))
    elif format == "parquet":
        parquet.write_table(table, name)
    else:
        feather.write_feather(table, name)
    return name


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("sort", [False, True])
def test_parts_of_times_are_joined(tmp_path: Path, format: str, sort: bool) -> None:
    table = parts_of(len(format) + sort)
    path = written(joined(table), format, tmp_path)
    one = POLICY.format(hour="hour(at)", day="d")
    several = POLICY.format(hour="hour(`d,t`)", day="d")
    expected = check_log(one, path, time="at", sort=sort).to_arrow()
    for time in ("d,t", " d , t", ("d", "t")):
        found = check_log(several, path, time=time, sort=sort)
        assert found.to_arrow().equals(expected), time
    from_file = f'time "d, t"\n{several}'
    assert check_log(from_file, path, sort=sort).to_arrow().equals(expected)
    policy = tmp_path / "p.mtl"
    policy.write_text(several)
    options = ["--sort"] if sort else []
    lines = mtlmon("--time", "d,t", *options, str(policy), path)
    policy.write_text(one)
    assert lines == mtlmon("--time", "at", *options, str(policy), path)
    assert lines.output.count("\n") == expected.num_rows


def test_typed_parts() -> None:
    times = [dt.time(8), dt.time(8, 0, 0, 250_000)]
    table = pa.table({"d": [dt.date(2024, 5, 1)] * 2, "t": times, "n": [1, 2]})
    with open_tables(table, [], time="d,t", resolution="ms") as tables:
        stamps = [stamp for batch in tables for stamp in batch.time_stamps.tolist()]
    assert stamps == [1_714_550_400_000, 1_714_550_400_250]


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_row_without_a_part_has_no_time(tmp_path: Path, format: str) -> None:
    table = parts_of(1).slice(0, 3)
    table = table.set_column(1, "t", pa.array([*table["t"].to_pylist()[:2], None], pa.string()))
    path = written(table, format, tmp_path)
    policy = "unit s\npolicy p: n >= 0"
    with pytest.raises(TableError, match=r"the time column 'd,t' is empty in this row"):
        check_log(policy, path, time="d,t").to_arrow()
    found = check_log(policy, path, time="d,t", on_error="skip")
    assert found.to_arrow().num_rows == 2 and events_of(found).skipped == 1


def test_lines_of_logs(tmp_path: Path) -> None:
    """Columns of patterns, and a format of strptime for the joined text."""
    log = "a Dec 10 06:55:46\nb Dec 10 06:55:48\n"
    pattern = r"^(?P<who>\S+) (?P<month>\S+) (?P<day>\S+) (?P<time>\S+)"
    asked = ["--pattern", pattern, "--time", "month,day,time", "--time-format", "%b %d %H:%M:%S"]
    ended = mtlmon(*asked, "-e", 'who = "a"', log=log)
    assert ended.output == "124354546:0 true\n124354548:0 false\n"
    pairs = 'd=2024-05-01 t=08:00 n=1\nd=2024-05-01 n=3\nn=2 t="08:01" d=2024-05-01\n'
    ended = mtlmon("--pattern", "logfmt", "--time", "d,t", "-e", "n > 1", log=pairs)
    assert ended.output == "1714550400:0 false\n1714550460:0 true\n"
    assert "1 line did not match" in ended.errors


def test_check_policy_knows_the_joined_column(tmp_path: Path) -> None:
    path = written(parts_of(2), "csv", tmp_path)
    policy = tmp_path / "p.mtl"
    policy.write_text(f'time "d, t"\n{POLICY.format(hour="hour(`d,t`)", day="d")}')
    assert mtlmon("check-policy", str(policy), path).status == 0
    policy.write_text('unit s\ntime "d,u"\npolicy p: hour(`d,u`) = 1')
    ended = mtlmon("check-policy", str(policy), path)
    assert ended.status == 2 and "there is no column `d,u`" in ended.errors


def test_names_that_cannot_be_columns(tmp_path: Path) -> None:
    path = written(parts_of(3), "csv", tmp_path)
    for time, message in (
        ("d,,t", "have an empty name"),
        (",", "have an empty name"),
        ("d,d", "name a column twice"),
    ):
        with pytest.raises(MtlmonError, match=message):
            check_log("policy p: n > 0", path, time=time).finish()
        with pytest.raises(PolicyError, match=message):
            parse_policies(f'time "{time}"\npolicy p: n > 0')
    with pytest.raises(TableError, match="no column 'e' for the times"):
        check_log("policy p: n > 0", path, time="d,e").to_arrow()
