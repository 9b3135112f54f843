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
from mtlmon.policy.predicates.instants import read_instant  # noqa: E402
from mtlmon.tables import Times  # noqa: E402

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
    assert stamps(Times(None, "%b %d %H:%M:%S"), ["Feb 29 00:00:01"]) == [
        (365 + 365 + 31 + 28) * 86400 + 1
    ]
    assert stamps(Times(None, "%H:%M"), ["01:30"]) == [5400]
    assert stamps(Times(None, "%s.%f", "ms"), ["1700000000.1234"]) == [1700000000123]
    assert stamps(Times(None, "%T"), ["00:00:61", "1:2:3", "x"])[1] == 3723
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


def test_a_time_format_is_not_pickled() -> None:
    """It holds a pointer into its own bytes, which Cython would have written out as a string."""
    import pickle

    from mtlmon.tables.native import TimeFormat

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
