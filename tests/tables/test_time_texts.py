"""Time columns of texts, which expressions read as times where they need them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import check as check_log
from mtlmon.errors import MtlmonError
from tests.cli.process import mtlmon

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

POLICIES = """
unit s
time "at"
stream gap = at - at.last()
policy seldom: gap is null OR gap >= 3
policy early: hour(at) < 7 AND at < "2024-05-03T06:10:20Z"
trigger silent on every 4s: at - at.hold() > 2 message "{at - at.hold()}"
"""
_START = datetime(2024, 5, 3, 6, 10, tzinfo=UTC)


@given(st.lists(st.integers(0, 6_000), min_size=1, max_size=12), st.booleans())
def test_texts_mean_what_timestamps_do(distances: list[int], is_sorted: bool) -> None:
    times: list[datetime] = []
    for distance in distances:
        last = times[-1] if times else _START
        times.append(last + timedelta(milliseconds=distance))
    found = []
    for column in (
        pa.array(times, pa.timestamp("us", "UTC")),
        pa.array([time.isoformat() for time in times]),
        pa.array([time.isoformat() for time in times]).dictionary_encode(),
    ):
        checked = check_log(POLICIES, pa.table({"at": column}), sort=is_sorted)
        found.append(checked.to_arrow().to_pylist())
    assert found[0]
    assert found[1] == found[2] == found[0]


def test_texts_stay_texts_where_nothing_needs_times() -> None:
    rows = pa.table({"at": ["2024-05-03T06:10:00Z", "2024-05-03T06:10:09Z"]})
    text = 'unit s\ntime "at"\npolicy one: startswith(at, "2024") AND at < "2024-05-03T06:10:05"\n'
    verdicts = check_log(text, rows).to_arrow().to_pylist()
    assert [one["verdict"] for one in verdicts] == [True, False]


def test_a_column_is_not_both() -> None:
    rows = pa.table({"at": ["2024-05-03T06:10:00Z"]})
    text = 'unit s\ntime "at"\npolicy one: startswith(at, "2024") AND hour(at) = 6\n'
    with pytest.raises(MtlmonError, match="hour takes a time, not column at of type string"):
        check_log(text, rows).to_arrow()


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.mtl"
    path.write_text(POLICIES)
    return path


def test_json_lines_are_checked_as_csv_is(rules: Path, tmp_path: Path) -> None:
    times = [(_START + timedelta(seconds=2.4 * number)).isoformat() for number in range(9)]
    lines, cells = tmp_path / "log.jsonl", tmp_path / "log.csv"
    lines.write_text("".join(json.dumps({"at": time}) + "\n" for time in times))
    cells.write_text("at\n" + "".join(f"{time}\n" for time in times))
    one, other = (
        mtlmon("--output-format", "jsonl", str(rules), str(log)) for log in (lines, cells)
    )
    assert one.output
    assert one == other
    one, other = (mtlmon("streams", str(rules), str(log)) for log in (lines, cells))
    assert one.output
    assert one == other
    for command in ("check-policy", "analyze"):
        assert not mtlmon(command, str(rules), str(lines)).errors


def test_times_in_a_format(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "access.log"
    rules.write_text(
        'unit s\npattern "combined"\npolicy one: hour(time) = 6 AND time - time.hold() = 0\n'
    )
    line = '1.2.3.4 - - [03/May/2024:%s] "GET / HTTP/1.1" 200 12 "-" "x"\n'
    log.write_text(line % "06:10:00 +0000" + line % "08:21:00 +0200" + line % "07:00:00 +0000")
    done = mtlmon(str(rules), str(log))
    assert [one.split()[-1] for one in done.output.splitlines()] == ["true", "true", "false"]


def test_a_bad_time_is_named_as_it_is_written(rules: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"at": "2024-05-03T06:10:00Z"}\n{"at": "soon"}\n')
    done = mtlmon(str(rules), str(log))
    assert "'soon' is not a time of ISO 8601" in done.errors
