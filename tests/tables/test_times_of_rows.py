"""When rows were, in every format and by every way of reading a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.errors import MtlmonError, TableError
from mtlmon.tables import check_tables
from tests.cli.process import mtlmon
from tests.tables.logs_of_times import FORMATS, Log, written

if TYPE_CHECKING:
    from pathlib import Path

RESPONSE = "unit s\npolicy p: request implies EVENTUALLY[0,9] response"


def verdicts(log: Log, policy: str = RESPONSE, **options: Any) -> list[str]:
    """The verdicts of a check by the library, as lines."""
    options = {"event": "what", "end_time": "inf", "pattern": log.pattern, **options}
    rows = check_tables(log.path, policy, **options).to_arrow().to_pylist()
    return [f"{row['time']}:{row['offset']} {str(row['verdict']).lower()}" for row in rows]


NIGHT = [("23:59:58", "request"), ("00:00:02", "response")]
NEW_YEAR = [("Dec 31 23:59:50", "request"), ("Jan  1 00:00:05", "response")]


@pytest.mark.parametrize("format", FORMATS)
def test_times_without_a_day_go_on_after_midnight(tmp_path: Path, format: str) -> None:
    """The response comes four seconds after the request."""
    log = written(tmp_path, format, NIGHT)
    expected = ["86398:0 true", "86402:0 true"]
    assert verdicts(log, time_format="%H:%M:%S") == expected
    assert verdicts(log, time_format="%H:%M:%S", sort=True) == expected
    assert verdicts(log, time_format="%H:%M:%S", wait="5s") == expected


@pytest.mark.parametrize("format", FORMATS)
def test_times_without_a_year_go_on_after_new_year(tmp_path: Path, format: str) -> None:
    """The response comes 15 s after the request, which is too late."""
    log = written(tmp_path, format, NEW_YEAR)
    for year, first in (("", 126_230_390), (":2023", 1_704_067_190)):
        expected = [f"{first}:0 false", f"{first + 15}:0 true"]
        time_format = f"%b %d %H:%M:%S{year}"
        assert verdicts(log, time_format=time_format) == expected
        assert verdicts(log, time_format=time_format, sort=True) == expected


def test_the_command_says_that_rows_went_on_in_the_next_year(tmp_path: Path) -> None:
    log = written(tmp_path, "csv", NEW_YEAR)
    asked = ["--event", "what", "--unit", "s", "--time-format", "%b %d %H:%M:%S"]
    formula = "request implies EVENTUALLY[0,9] response"
    ended = mtlmon(*asked, "-e", formula, log.path)
    assert ended.output == "126230390:0 false\n126230405:0 true\n"
    assert "times have no year: the rows went on in the next year once" in ended.errors


def test_a_small_step_back_is_out_of_order(tmp_path: Path) -> None:
    log = written(tmp_path, "csv", [("12:00:05", "request"), ("12:00:04", "response")])
    with pytest.raises(TableError, match=r"43204 comes after 43205.*add sort=True"):
        verdicts(log, time_format="%H:%M:%S")
    assert verdicts(log, time_format="%H:%M:%S", sort=True) == ["43204:0 true", "43205:0 false"]


def test_a_late_row_from_before_midnight(tmp_path: Path) -> None:
    rows = [*NIGHT, ("23:59:59", "request"), ("00:00:03", "other")]
    log = written(tmp_path, "csv", rows)
    times = [86398, 86399, 86402, 86403]
    expected = [f"{time}:0 true" for time in times]
    assert verdicts(log, time_format="%H:%M:%S", wait="5s") == expected
    assert verdicts(log, time_format="%H:%M:%S", sort=True) == expected
    with pytest.raises(TableError, match="86399 comes after 86402"):
        verdicts(log, time_format="%H:%M:%S")


@pytest.mark.parametrize("format", FORMATS)
def test_second_60_is_the_next_second(tmp_path: Path, format: str) -> None:
    rows = [
        ("2016-12-31T23:59:59Z", "request"),
        ("2016-12-31T23:59:60Z", "response"),
        ("2017-01-01T00:00:05Z", "other"),
    ]
    log = written(tmp_path, format, rows)
    expected = ["1483228799:0 true", "1483228800:0 true", "1483228805:0 true"]
    assert verdicts(log) == expected


def test_formats_that_contradict_themselves(tmp_path: Path) -> None:
    log = written(tmp_path, "csv", [("11:30 PM", "request")])
    with pytest.raises(MtlmonError, match=r"%H is an hour from 0 to 23.*write %I"):
        verdicts(log, time_format="%H:%M %p")
    ended = mtlmon("--time-format", "%H:%M %p", "--event", "what", "-e", "request", log.path)
    assert ended.status == 2 and "write %I" in ended.errors and "Traceback" not in ended.errors


MILLISECONDS = [
    ("2024-05-01T12:00:00.900Z", "response"),
    ("2024-05-01T12:00:00.100Z", "request"),
    ("2024-05-01T12:00:00.500Z", "other"),
    ("2024-05-01T12:00:00.500Z", "response"),
]
PREVIOUS = "unit s\npolicy p: response implies PREVIOUS other"


@pytest.mark.parametrize("options", [{"sort": True}, {"wait": "5s"}, {"wait": 0}])
@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_a_second_are_sorted_by_their_milliseconds(
    tmp_path: Path, format: str, options: dict[str, Any]
) -> None:
    """At .100, .500, .500 and .900; equal times keep their order, so one response has `other`."""
    log = written(tmp_path, format, MILLISECONDS)
    first = 1_714_564_800
    expected = [f"{first}:0 true", f"{first}:1 true", f"{first}:2 true", f"{first}:3 false"]
    assert verdicts(log, PREVIOUS, **options) == expected


@pytest.mark.parametrize("options", [{"sort": True}, {"wait": "5s"}])
def test_numbers_are_sorted_below_the_resolution(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = [(1900, "response"), (1100, "request"), (1500, "other"), (1500, "response")]
    expected = ["1:0 true", "1:1 true", "1:2 true", "1:3 false"]
    for format in FORMATS:
        log = written(tmp_path, format, rows)
        assert verdicts(log, PREVIOUS, time_unit="ms", **options) == expected
    texts = [(f"{time / 1000:.12f}", what) for time, what in rows]
    log = written(tmp_path, "csv", texts)
    assert verdicts(log, PREVIOUS, time_unit="s", **options) == expected


def test_a_step_back_within_a_time_stamp_is_told(tmp_path: Path) -> None:
    """Without sorting, the rows stay as they are, which are no errors."""
    rows = [*MILLISECONDS, ("2024-05-01T12:00:00Z", "other")]
    log = written(tmp_path, "csv", rows)
    ended = mtlmon("--event", "what", "--unit", "s", "-e", "response implies request", log.path)
    assert ended.status == 1
    assert (
        f"2 rows step back within a time-stamp, the first one in {log.path}, line 3, and keep their "
        "places: --sort or --resolution ms puts them in order"
    ) in ended.errors
    ended = mtlmon(
        "--event", "what", "--unit", "s", "--sort", "-e", "response implies request", log.path
    )
    assert "step back" not in ended.errors
    asked = ["--event", "what", "--unit", "s", "--lateness", "9", "-e", "response implies request"]
    ended = mtlmon(*asked, log.path)
    assert "2 rows step back within a time-stamp" in ended.errors
    # from block to block, and by a row whose time is whole
    parts = [written(tmp_path, "arrow", rows)]
    check = check_tables(parts[0].path, "unit s\npolicy p: response", event="what")
    check.to_arrow()
    assert check.events.remarks and "2 rows step back" in check.events.remarks[0]
