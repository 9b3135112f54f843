"""When rows were, in every format and by every way of reading a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon import check as check_log
from mtlmon.errors import MtlmonError, TableError
from tests.cli.process import mtlmon
from tests.doors import implausible_time
from tests.tables.begun import events_of
from tests.tables.logs_of_times import FORMATS, Log, written

if TYPE_CHECKING:
    from pathlib import Path

RESPONSE = "unit s\npolicy p: request implies EVENTUALLY[0,9] response"


def verdicts(log: Log, policy: str = RESPONSE, **options: Any) -> list[str]:
    """The verdicts of a check by the library, as lines."""
    options = {"event": "what", "end_time": "inf", "pattern": log.pattern, **options}
    rows = check_log(policy, log.path, **options).to_arrow().to_pylist()
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
    assert "times have no year: rows stepped back by more than half a year once" in ended.errors


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
        f"2 rows step back within a time-stamp, the first one at {log.path}:3, and keep "
        "their places: --sort or --resolution ms puts them in order"
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
    check = check_log("unit s\npolicy p: response", parts[0].path, event="what")
    check.to_arrow()
    assert events_of(check).remarks and "2 rows step back" in events_of(check).remarks[0]


ZONE = "Europe/Berlin"
# 12:00 and 12:00:05 in Berlin, once in summer and once with an offset
LOCAL = [("2024-07-01 12:00:00", "request"), ("2024-07-01T10:00:05Z", "response")]
# clocks are put back from 3:00 to 2:00
REPEATED = [
    ("2024-10-27 01:59:00", "other"),
    ("2024-10-27 02:59:00", "request"),
    ("2024-10-27 02:00:30", "response"),
    ("2024-10-27 02:10:00", "other"),
    ("2024-10-27 03:00:00", "other"),
]
WITHIN = "unit s\npolicy p: request implies EVENTUALLY[0,2min] response"


@pytest.mark.parametrize("format", FORMATS)
def test_times_without_an_offset_are_in_a_time_zone(tmp_path: Path, format: str) -> None:
    """As an option, and as a declaration with the same words, which the option replaces."""
    log = written(tmp_path, format, LOCAL)
    expected = ["1719828000:0 true", "1719828005:0 true"]
    assert verdicts(log, time_zone=ZONE) == expected
    declared = f'time zone "{ZONE}"\n{RESPONSE}'
    assert verdicts(log, declared) == expected
    assert verdicts(log, f'time zone "Asia/Tokyo"\n{RESPONSE}', time_zone=ZONE) == expected
    assert verdicts(log, sort=True) == ["1719828005:0 true", "1719835200:0 false"]


@pytest.mark.parametrize("format", FORMATS)
def test_the_hour_that_occurs_twice(tmp_path: Path, format: str) -> None:
    """The response comes 90 s after the request: in the second hour, by the order of rows."""
    log = written(tmp_path, format, REPEATED)
    times = [1729987140, 1729990740, 1729990830, 1729991400, 1729994400]
    expected = [f"{time}:0 true" for time in times]
    assert verdicts(log, WITHIN, time_zone=ZONE) == expected
    assert verdicts(log, WITHIN, time_zone=ZONE, sort=True) == expected
    assert verdicts(log, WITHIN, time_zone=ZONE, wait="5s") == expected


def test_late_rows_in_the_hour_that_occurs_twice(tmp_path: Path) -> None:
    """A row that is no later than rows may be is not of the second hour."""
    rows = [("2024-10-27 02:30:04", "request"), ("2024-10-27 02:30:00", "other")]
    rows += [("2024-10-27 02:00:01", "other"), ("2024-10-27 02:59:50", "other")]
    log = written(tmp_path, "csv", rows)
    first = 1729987200 + 1800
    times = [first, first + 4, first + 1801, first + 1800 + 3590]
    found = verdicts(log, "unit s\npolicy p: request", time_zone=ZONE, wait="5s")
    assert found == [f"{time}:0 {str(time == first + 4).lower()}" for time in times]


def test_which_hour_is_said(tmp_path: Path) -> None:
    log = written(tmp_path, "csv", [REPEATED[2], REPEATED[3]])
    for word, first in (("", 1729987230), (" first", 1729987230), (" second", 1729990830)):
        expected = [f"{first}:0 true", f"{first + 570}:0 true"]
        assert verdicts(log, WITHIN, time_zone=ZONE + word) == expected
        declared = f'time zone "{ZONE}"{word}  # as the logger writes\n{WITHIN}'
        assert verdicts(log, declared) == expected
    with pytest.raises(MtlmonError, match="behind the time zone Europe/Berlin is 'third'"):
        verdicts(log, WITHIN, time_zone=f"{ZONE} third")
    with pytest.raises(MtlmonError, match="there is no time zone 'Mars'"):
        verdicts(log, f'time zone "Mars"\n{WITHIN}')


def test_a_time_that_does_not_exist(tmp_path: Path) -> None:
    log = written(tmp_path, "csv", [("2024-03-31 02:30:00", "request")])
    with pytest.raises(TableError, match="does not exist in Europe/Berlin: clocks are put forward"):
        verdicts(log, time_zone=ZONE)


def test_advice_where_clocks_were_put_back(tmp_path: Path) -> None:
    """Sorting would be wrong, so the advice is not only that."""
    log = written(tmp_path, "csv", REPEATED)
    with pytest.raises(TableError, match=r"name the time zone only, as in time_zone='Europe"):
        verdicts(log, WITHIN)
    with pytest.raises(TableError, match=r"name the time zone only, as in time_zone='Europe"):
        verdicts(log, WITHIN, time_zone=f"{ZONE} second")


def test_the_command_says_which_rows_are_in_a_repeated_hour(tmp_path: Path) -> None:
    log = written(tmp_path, "csv", REPEATED)
    asked = ["--event", "what", "--unit", "s", "--time-zone", ZONE, "-e", "other", log.path]
    ended = mtlmon(*asked)
    assert ended.status == 1 and ended.output.startswith("1729987140:0 true\n1729990740:0 false\n")
    assert (
        "3 rows are in an hour that occurs twice in Europe/Berlin; by the order of rows, 2"
        in ended.errors
    )


def test_formats_of_times_in_a_time_zone(tmp_path: Path) -> None:
    """Without a day, or an unknown year, nobody knows when clocks are changed."""
    log = written(tmp_path, "csv", [("Jul  1 12:00:00", "request")])
    with pytest.raises(
        MtlmonError, match="has no year, so it is not known when clocks are changed"
    ):
        verdicts(log, time_format="%b %d %H:%M:%S", time_zone=ZONE)
    with pytest.raises(MtlmonError, match=r"has no day, so .* leave the time zone out"):
        verdicts(log, time_format="%H:%M:%S", time_zone=ZONE)
    found = verdicts(log, "unit s\npolicy p: request", time_format="%b %d %T:2024", time_zone=ZONE)
    assert found == ["1719828000:0 true"]


def test_relations_of_tables_are_in_the_time_zone_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text(
        "from,to,road,most\n2024-07-01 12:00,2024-07-01 13:00,a,5\n"
        "2024-07-01 13:00,2024-07-02,a,7\n"
    )
    policy = tmp_path / "p.mtl"
    policy.write_text(
        f'unit s\ntime zone "{ZONE}"\n'
        'relation limits = table "limits.csv" valid [from, to) key road\n'
        "policy p: speed = limits[road].most\n"
    )
    log = tmp_path / "log.csv"
    log.write_text("ts,road,speed\n2024-07-01 12:30:00,a,5\n2024-07-01T11:30:00Z,a,7\n")
    found = check_log(policy, str(log)).to_arrow()
    assert found["verdict"].to_pylist() == [True, True]


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_other_columns_of_times_are_in_the_time_zone_as_well(tmp_path: Path, format: str) -> None:
    """A deadline at 13:00 in Berlin is after 12:30 there, and before 11:30 in UTC."""
    rows = [("2024-07-01 12:30:00", "2024-07-01 13:00:00")]
    rows.append(("2024-07-01T11:30:00Z", "2024-07-01 13:00:00"))
    log = written(tmp_path, format, rows)
    policy = f'unit s\ntime zone "{ZONE}"\npolicy p: ts < what'
    found = check_log(policy, log.path).to_arrow()
    assert found["verdict"].to_pylist() == [True, False]


def test_files_of_one_run_have_one_time_zone(tmp_path: Path) -> None:
    from mtlmon.policy import load_policies

    one, two, three = (tmp_path / f"{name}.mtl" for name in "abc")
    one.write_text(f'time zone "{ZONE}"\npolicy a: p')
    two.write_text('time zone "Asia/Tokyo"\npolicy b: p')
    three.write_text("policy c: p")
    assert load_policies([one, three]).time_zone == ZONE
    with pytest.raises(MtlmonError, match="the time zone is"):
        load_policies([one, two])


@pytest.mark.parametrize("year", [1970, 1999, 2024, 2050, 9998])
@pytest.mark.parametrize("zone", [ZONE, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
def test_all_hours_of_a_year_are_those_of_zoneinfo(zone: str, year: int) -> None:
    import datetime as dt
    from zoneinfo import ZoneInfo

    import pyarrow as pa

    from mtlmon.tables import Times

    start = dt.datetime(year, 1, 2)
    moments = [start + dt.timedelta(minutes=30 * number) for number in range(2 * 24 * 364)]
    column = pa.array([moment.isoformat() for moment in moments])
    for word, fold in (("first", 0), ("second", 1)):
        found, faults = Times(zone=f"{zone} {word}").read(column)
        marks = [0] * len(moments) if faults is None else faults.tolist()
        for moment, stamp, mark in zip(moments, found.tolist(), marks, strict=True):
            local = moment.replace(tzinfo=ZoneInfo(zone), fold=fold)
            instant = local.astimezone(dt.UTC)
            if mark:
                assert instant.astimezone(local.tzinfo).replace(tzinfo=None) != moment
            else:
                assert stamp == int(instant.timestamp())


@pytest.mark.parametrize("format", FORMATS)
def test_times_that_are_implausible_for_their_unit(tmp_path: Path, format: str) -> None:
    """Milliseconds as seconds, by which a window of 9 s has 9 ms."""
    log = written(tmp_path, format, [(1714550400000, "request"), (1714550410000, "response")])
    check = check_log(RESPONSE, log.path, event="what", pattern=log.pattern)
    check.to_arrow()
    assert events_of(check).remarks == [
        "the unit of times is s, by which 1714550410000 is in the year 56301: in ms it would be in "
        "2024",
    ]


@pytest.mark.parametrize(
    ("unit", "time", "remark"),
    [
        ("s", 1714550410, None),
        ("s", 9_000, None),
        ("s", 16_000_000_000, None),
        ("s", 1714550410000, "in ms it would be in 2024"),
        ("s", 1714550410000000, "in us it would be in 2024"),
        ("ms", 1714550410000, None),
        ("ms", 1714550410000000, "in us it would be in 2024"),
        (
            "ms",
            1714550410,
            "by which 1714550410 is in the year 1970: in s it would be in 2024",
        ),
        # rationale: clocks of programs count microseconds from their start
        ("us", 1714550410, None),
        ("us", 1714550410000000000, "in ns it would be in 2024"),
        ("d", 1714550410, "in s it would be in 2024"),
        # rationale: a time that stands for no end is in no year
        ("s", 2**62, "is in the year"),
    ],
)
def test_which_units_are_implausible(unit: str, time: int, remark: str | None) -> None:
    found = implausible_time(time, unit)
    assert found is None if remark is None else found is not None and remark in found


def test_text_logs_in_another_unit(tmp_path: Path) -> None:
    log = "@1714550400000 p\n@1714550410000\n"
    remark = "mtlmon: the unit of times is s, by which 1714550410000 is in the year 56301"
    ended = mtlmon("--unit", "s", "-e", "p implies EVENTUALLY[0,9s] p", log=log)
    assert remark in ended.errors
    several = tmp_path / "p.mtl"
    several.write_text("unit s\npolicy a: p\npolicy b: not p")
    assert remark in mtlmon(str(several), log=log).errors
    assert mtlmon("-e", "p", log=log).errors == ""
