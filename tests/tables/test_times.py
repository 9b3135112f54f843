"""Times of every type and notation, against exact arithmetic and Python's own calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon import MtlmonError  # noqa: E402
from mtlmon.tables import Times  # noqa: E402
from tests.doors import read_instant  # noqa: E402

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
LARGEST = 2**63 - 1


def stamps(times: Times, values: Any, data_type: Any = None) -> list[int | str]:
    """The time-stamps, or what is wrong."""
    column = values if isinstance(values, pa.Array) else pa.array(values, data_type)
    found, faults = times.read(column)
    if faults is None:
        return list(found.tolist())
    return [
        times.message(column, place, int(fault)) if fault else stamp
        for place, (stamp, fault) in enumerate(zip(found.tolist(), faults, strict=True))
    ]


def exact(value: Fraction | int, unit: int, resolution: int) -> int | None:
    """The time-stamp of a number of units, None if there is none."""
    stamp = Fraction(value) * unit // resolution
    return int(stamp) if value >= 0 and stamp <= LARGEST else None


numbers = st.one_of(
    st.integers(-3, 10**6).map(str),
    st.integers(0, 2**64).map(str),
    st.decimals(-1, 10**19, allow_nan=False, allow_infinity=False, places=9).map(str),
    st.decimals(0, 10**10, allow_nan=False, allow_infinity=False).map(str),
    st.floats(0, 1e12).map(repr),
    st.from_regex(r"[-+]?0{0,3}[0-9]{1,12}(\.[0-9]{0,25})?([eE][-+]?[0-9]{1,2})?", fullmatch=True),
)


@given(
    st.lists(numbers, min_size=1, max_size=5),
    st.sampled_from(list(UNITS)),
    st.sampled_from(list(UNITS)),
    st.booleans(),
)
def test_numbers_in_texts(texts: list[str], unit: str, resolution: str, is_large: bool) -> None:
    column = pa.array(texts, pa.large_string() if is_large else pa.string())
    found = stamps(Times(unit, None, resolution), column)
    for text, stamp in zip(texts, found, strict=True):
        value = Fraction(Decimal(text))
        expected = exact(value, UNITS[unit], UNITS[resolution]) if value < 2**64 else None
        assert (None if isinstance(stamp, str) else stamp) == expected, text


@given(
    st.lists(st.one_of(st.none(), st.integers(-5, LARGEST)), max_size=5),
    st.sampled_from([None, *UNITS]),
    st.sampled_from(list(UNITS)),
)
def test_whole_numbers(values: list[int | None], unit: str | None, resolution: str) -> None:
    found = stamps(Times(unit, None, resolution), values, pa.int64())
    for value, stamp in zip(values, found, strict=True):
        expected = None
        if value is not None:
            expected = exact(value, UNITS[unit] if unit else 1, UNITS[resolution] if unit else 1)
        assert (None if isinstance(stamp, str) else stamp) == expected


def test_numbers_of_other_types() -> None:
    for data_type in (pa.int8(), pa.uint16(), pa.int32(), pa.uint64()):
        assert stamps(Times(), [1, 2, 100], data_type) == [1, 2, 100]
    assert stamps(Times(), [1, 2**64 - 1], pa.uint64())[1] == "18446744073709551615 is above 2^63-1"
    decimals = [Decimal("1700000000.123456789"), Decimal("0.000000001")]
    data_type = pa.decimal128(38, 9)
    assert stamps(Times("s", None, "ns"), decimals, data_type) == [1700000000123456789, 1]
    # floats stand for the decimal number that was written
    floats = [1700000000.123, 0.1, 2.0, 1e9, float("nan"), float("inf")]
    found = stamps(Times("s", None, "ms"), floats, pa.float64())
    assert found == [1700000000123, 100, 2000, 10**12, "nan is not a number", "inf is not a number"]
    assert stamps(Times(), [1.0, 1.5], pa.float64())[0] == 1
    assert "1.5 is not a whole number" in str(stamps(Times(), [1.0, 1.5], pa.float64())[1])


zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    datetime(1969, 12, 30), datetime(9999, 12, 30), timezones=st.one_of(st.none(), zones)
)


def nanoseconds_of(moment: datetime) -> int:
    since = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000


@given(st.lists(moments, min_size=1, max_size=5), st.sampled_from(list(UNITS)))
def test_iso_8601(values: list[datetime], resolution: str) -> None:
    found = stamps(Times(None, "iso", resolution), [value.isoformat() for value in values])
    for value, stamp in zip(values, found, strict=True):
        expected = exact(nanoseconds_of(value), 1, UNITS[resolution])
        assert (None if isinstance(stamp, str) else stamp) == expected


@given(
    st.from_regex(
        r"\d{3}[0-9]-[01]\d-[0-3]\d([T ][0-2]\d:[0-5]\d(:[0-6]\d([.,]\d{1,10})?)?"
        r"( ?(Z|z|[+-][0-2]\d(:?[0-6]\d)?))?)?",
        fullmatch=True,
    )
)
def test_iso_8601_as_predicates_read_it(text: str) -> None:
    (found,) = stamps(Times(None, "iso", "ns"), [text])
    instant = read_instant(text)
    expected = None if instant is None else exact(instant[0], 1, 1)
    assert (None if isinstance(found, str) else found) == expected


FORMATS = [
    "%Y-%m-%d %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %B %Y %I:%M:%S.%f %p",
    "%y%m%dT%H%M%S",
    "%m/%d/%Y %H:%M",
    "[%A %j of %Y at %H:%M:%S %%]",
]


@pytest.mark.parametrize("format", FORMATS)
@given(
    st.lists(
        st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31), timezones=zones),
        min_size=1,
        max_size=3,
    )
)
def test_formats(format: str, values: list[datetime]) -> None:
    texts = [value.strftime(format) for value in values]
    found = stamps(Times(None, format, "us"), texts)
    for text, stamp in zip(texts, found, strict=True):
        expected = exact(nanoseconds_of(datetime.strptime(text, format)), 1, 1000)
        assert (None if isinstance(stamp, str) else stamp) == expected


def test_formats_that_say_less() -> None:
    assert stamps(Times(None, "%b %d %H:%M:%S"), ["Mar  1 00:00:01"]) == [
        (365 + 365 + 366 + 31 + 28) * 86400 + 1
    ]
    assert stamps(Times(None, "%H:%M"), ["01:30"]) == [5400]
    assert stamps(Times(None, "%s.%f", "ms"), ["1700000000.1234"]) == [1700000000123]
    assert stamps(Times(None, "%T"), ["00:00:61", "1:2:3", "x"])[1] == 3723
    assert stamps(Times(None, "%T%.f", "ms"), ["1:2:3", "1:2:3.5", "1:2:4,25"])[1:] == [
        3723500,
        3724250,
    ]
    assert "not a time of the format '%T'" in str(stamps(Times(None, "%T"), ["x"])[0])
    # numbers that are read by a format
    assert stamps(Times(None, "%Y%m%d"), [19700102], pa.int64()) == [86400]


def test_dates_and_timestamps() -> None:
    moment = datetime(2024, 5, 1, 12, 30, 0, 500_000)
    seconds = nanoseconds_of(moment) // 10**9
    for unit in ("ms", "us", "ns"):
        column = pa.array([moment, None], pa.timestamp(unit))
        assert stamps(Times(None, None, "ms"), column) == [seconds * 1000 + 500, "no time"]
        assert stamps(Times(), column) == [seconds, "no time"]
    assert stamps(Times(), [moment], pa.timestamp("us", "Europe/Berlin")) == [seconds]
    day = moment.date()
    assert stamps(Times(), [day], pa.date32()) == [seconds // 86400 * 86400]
    assert stamps(Times(), [day], pa.date64()) == [seconds // 86400 * 86400]
    early = datetime(1969, 12, 31, 23)
    assert "is before 1970" in str(stamps(Times(), [early], pa.timestamp("s"))[0])
    with pytest.raises(MtlmonError, match="no times in values of type bool"):
        Times().read(pa.array([True]))


def test_what_stands_first_tells_the_notation() -> None:
    times = Times()
    assert stamps(times, [None, None], pa.string()) == ["no time", "no time"]
    assert stamps(times, ["", "2024-05-01", "17"])[1:] == [
        1714521600,
        "'17' is not a time of ISO 8601, as 2024-05-01T12:30:00Z; time_format= says how times are "
        "written",
    ]
    times = Times("ms")
    assert stamps(times, ["17", "2024-05-01"]) == [17, "'2024-05-01' is not a number"]
    dictionary = pa.array(["5", "7", "5"]).dictionary_encode()
    assert stamps(Times(), dictionary) == [5, 7, 5]


def test_time_stamps_back_to_texts() -> None:
    cases = [
        (Times(), ["17"], ["17"]),
        (Times("s", None, "ms"), ["1.25", "3", "0.0625"], ["1.25", "3", "0.062"]),
        (Times("ms", None, "s"), ["1999"], ["1000"]),
        (Times(None, None, "ms"), ["2024-05-01T12:30:00.5+02:00"], ["2024-05-01T10:30:00.5Z"]),
        (Times(), ["2024-05-01"], ["2024-05-01T00:00:00Z"]),
        (Times(None, "%d.%m.%Y %H:%M"), ["01.05.2024 12:30"], ["01.05.2024 12:30"]),
    ]
    for times, texts, expected in cases:
        found, _ = times.read(pa.array(texts))
        assert times.texts(found.tolist()) == expected


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("%H:%M %p", "%H is an hour from 0 to 23, which has no %p beside it: write %I"),
        ("%H %I %p", "%H is an hour from 0 to 23"),
        ("%Y-%m-%d %I:%M", "%I is an hour from 1 to 12: write %p for AM or PM, or %H"),
        ("%d.%m.%Y %M %p", "%p is AM or PM of an hour from 1 to 12: write %I for that"),
        ("%d %H:%M", "%d is a day of a month: write %m or %b for that"),
        ("%b %H:%M", "there is an hour, but no day: write %d"),
        ("%b %d:1969", "a log does not begin in 1969"),
    ],
)
def test_formats_that_are_not_clear(format: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        Times(None, format)


def test_second_60_is_the_next_second() -> None:
    iso = ["2016-12-31T23:59:59Z", "2016-12-31T23:59:60Z", "2016-12-31T23:59:60.25Z", "2017-01-01"]
    assert stamps(Times(None, None, "ms"), iso) == [
        1483228799000,
        1483228800000,
        1483228800250,
        1483228800000,
    ]
    assert stamps(Times(None, "%Y%m%d %H%M%S"), ["20161231 235960"]) == [1483228800]
    assert stamps(Times(None, "%H:%M:%S"), ["23:59:60"]) == [86400]
    # with the offset of India, the leap second is in another minute
    assert stamps(Times(), ["2017-01-01T05:29:60+05:30"]) == [1483228800]
    assert "not a time" in str(stamps(Times(), ["2016-12-31T23:59:61Z"])[0])


DAY = 86400
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("format", "texts", "expected"),
    [
        # rationale: the response comes 4 s after the request; the rows are in order
        ("%H:%M:%S", ["23:59:58", "00:00:02"], [DAY - 2, DAY + 2]),
        # rationale: a step back of 12 h is not more than half the cycle, so it is out of order
        ("%H:%M:%S", ["12:00:00", "00:00:00"], [DAY // 2, 0]),
        ("%H:%M:%S", ["12:00:01", "00:00:00"], [DAY // 2 + 1, DAY]),
        # rationale: what comes late from before midnight is of the day before, as 24 h later would
        # be the other reading
        ("%H:%M:%S", ["23:59:58", "00:00:02", "23:59:59", "00:00:03"], [-2, 2, -1, 3]),
        # rationale: a log with two rows a day is in order, although it steps far ahead
        ("%H:%M", ["00:05", "22:00", "00:05", "22:00"], [300, 79200, DAY + 300, DAY + 79200]),
        ("%I:%M %p", ["11:59 PM", "12:01 AM"], [DAY - 60, DAY + 60]),
        # rationale: where not even the hour is written, the cycle is an hour
        ("%M:%S", ["59:58", "00:02"], [3598, 3602]),
        ("%b %d %H:%M:%S", ["Dec 31 23:59:50", "Jan  1 00:00:05"], [-10, 5]),
        # rationale: without a year, February has 28 days in every year
        ("%b %d", ["Feb 28", "Mar 1", "Feb 28", "Mar 1"], [58 * DAY, 59 * DAY] * 2),
        ("%b %d", ["Jul 31", "Jan 29"], [211 * DAY, 28 * DAY]),
        ("%b %d", ["Aug 1", "Jan 29"], [212 * DAY, YEAR + 28 * DAY]),
        ("%j", ["365", "001"], [364 * DAY, YEAR]),
    ],
)
def test_years_and_days_that_are_not_written(
    format: str, texts: list[str], expected: list[int]
) -> None:
    base = 1096 * DAY if "%b" in format or "%j" in format else 0
    if min(expected) < 0:
        base += YEAR if base else DAY
    found = stamps(Times(None, format), texts)
    assert found == [base + one for one in expected]
    # rationale: nothing depends on blocks
    times = Times(None, format)
    assert [stamp for text in texts for stamp in stamps(times, [text])] == found


def test_a_first_year_that_is_told() -> None:
    times = Times(None, "%b %d %H:%M:%S:2023")
    texts = [
        "Feb 28 00:00:00",
        "Dec 31 23:59:59",
        "Feb 29 00:00:00",
        "Feb 29 00:00:00",
        "Mar 1 0:0:0",
    ]
    moments = ["2023-02-28", "2023-12-31T23:59:59", "2024-02-29", "2024-02-29", "2024-03-01"]
    assert stamps(times, texts) == stamps(Times(), moments)
    assert times.cycles == ("year", 1)
    assert times.texts(stamps(Times(), ["2024-02-29T01:00:00"])) == ["Feb 29 01:00:00"]  # type: ignore[arg-type]
    found = stamps(Times(None, "%b %d:2023"), ["Jan 1", "Feb 29", "Mar 1"])
    assert found[1] == "'Feb 29' does not exist: its year is not a leap year"
    assert found[2] == stamps(Times(), ["2023-03-01"])[0]
    (message,) = stamps(Times(None, "%b %d"), ["Feb 29"])
    assert "say in which year the log begins, as in time_format='%b %d:2024'" in str(message)


@given(st.lists(st.integers(0, 43_199), min_size=2, max_size=20), st.integers(0, DAY - 1))
def test_rows_in_order_go_on_day_after_day(steps: list[int], start: int) -> None:
    """Whatever the steps, as long as they are below half a day."""
    expected = np.cumsum([start, *steps]).tolist()
    texts = [f"{one // 3600 % 24:02}:{one // 60 % 60:02}:{one % 60:02}" for one in expected]
    assert stamps(Times(None, "%H:%M:%S"), texts) == expected


def test_a_time_format_is_not_pickled() -> None:
    """It holds a pointer into its own bytes, which Cython would have written out as a string."""
    import pickle

    from tests.doors import TimeFormat

    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(TimeFormat("%Y-%m-%d"))


@given(
    st.sampled_from(list(UNITS)),
    st.lists(st.integers(0, 253_402_300_799 * 10**9), min_size=1),
    st.sampled_from([1, 1000, 10**9, 3600 * 10**9]),
)
def test_times_of_day_are_those_of_datetime(unit: str, instants: list[int], step: int) -> None:
    """Whole arrays of times are written as single ones are."""
    nanoseconds = UNITS[unit]
    time_stamps = [min(one // step * step, 2**63 - 1) // nanoseconds for one in instants]
    times = Times("ns", "iso", unit)
    expected = []
    for one in time_stamps:
        seconds, rest = divmod(one * nanoseconds, 10**9)
        moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
        fraction = f".{rest:09}".rstrip("0").rstrip(".")
        expected.append(f"{moment.isoformat()}{fraction}Z")
    assert times.text_array(np.array(time_stamps)).to_pylist() == expected
    assert times.texts(time_stamps) == expected


def test_years_that_iso_8601_does_not_have() -> None:
    times = Times("s", "iso", "s")
    assert times.texts([253_402_300_799, 253_402_300_800]) == [
        "9999-12-31T23:59:59Z",
        "253402300800000000000",
    ]
