"""Times of ISO 8601 in place of time-stamps, compared with Python's `datetime`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors import UNITS, IsoWriter

YEAR_10000 = 253_402_300_800
LARGEST = 2**63 - 1
SECOND = 10**9


def reference(stamp: int, unit: int) -> str:
    """The text of a time, written from what ISO 8601 says."""
    seconds, rest = divmod(stamp * unit, SECOND)
    if seconds >= YEAR_10000:
        return str(stamp)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


@st.composite
def stamps(draw: st.DrawFn, unit: int) -> int:
    """Time-stamps near midnights, ends of years and of what ISO 8601 writes, and any others."""
    last = min(LARGEST, YEAR_10000 * SECOND // unit + 1000)
    day = draw(st.integers(0, YEAR_10000 // 86400)) * 86400 * SECOND // unit
    near = draw(st.sampled_from([0, day, last, LARGEST])) + draw(st.integers(-1500, 1500))
    return draw(st.sampled_from([min(max(near, 0), LARGEST), draw(st.integers(0, last))]))


@pytest.mark.parametrize("unit", UNITS)
@given(data=st.data())
def test_texts(unit: str, data: st.DataObject) -> None:
    length = UNITS[unit]
    given_stamps = data.draw(st.lists(stamps(length), max_size=20))
    expected = [reference(stamp, length) for stamp in given_stamps]
    assert IsoWriter(length).texts(given_stamps) == expected


def test_every_day() -> None:
    """All days of 400 years, after which the calendar repeats, and some of every year."""
    first = date(1970, 1, 1).toordinal()
    days = list(range(146_097 + 800))
    for year in range(1970, 10_000):
        march = date(year, 3, 1).toordinal() - first
        days += [march - 2, march - 1, march, date(year, 12, 31).toordinal() - first]
    texts = [f"{date.fromordinal(first + day)}T00:00:00Z" for day in days]
    last = YEAR_10000 // 86400 - 1
    found = IsoWriter(UNITS["d"]).texts([*days, last, last + 1, last + 2])
    assert found == [*texts, "9999-12-31T00:00:00Z", "2932897", "2932898"]


@pytest.mark.parametrize(
    ("stamp", "unit", "text"),
    [
        (0, "ns", "1970-01-01T00:00:00Z"),
        (1, "ns", "1970-01-01T00:00:00.000000001Z"),
        (LARGEST, "ns", "2262-04-11T23:47:16.854775807Z"),
        (951_782_399_999, "ms", "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "ms", "2000-02-29T00:00:00Z"),
        (4_107_542_400, "s", "2100-03-01T00:00:00Z"),
        (YEAR_10000 - 1, "s", "9999-12-31T23:59:59Z"),
        (YEAR_10000, "s", "253402300800"),
        (LARGEST, "d", "9223372036854775807"),
    ],
)
def test_edges(stamp: int, unit: str, text: str) -> None:
    assert reference(stamp, UNITS[unit]) == text
    assert IsoWriter(UNITS[unit]).texts([0, stamp, stamp]) == [reference(0, 1), text, text]


def test_bad_units() -> None:
    for length in 0, 3, SECOND + 1, 7 * 10**8:
        with pytest.raises(ValueError, match=f"a unit of {length} ns"):
            IsoWriter(length)
    for stamp in -1, 2**64:
        with pytest.raises(OverflowError):
            IsoWriter(1).texts([stamp])


def iso(text: str) -> str:
    return re.sub(r"<(\d+)>", lambda found: reference(int(found[1]), SECOND), text)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("<1>:0 true", 0),
        ("<7>:1 = <5>:0\ta:1", 0),
        ("a\t\t<7>:1 = <7>:0", 2),
        ("3:0 = 2:0\t9:9\t<3>:0 false (x=4:4, y= = 1:1)", 2),
        ('<3>:0 false (x="= 1:1")', 0),
        ("<1714550400>:18446744073709551615 = <253402300800>:18446744073709551615", 0),
        # what is no time-point stays as it is
        ("", 0),
        ("1:0 true", 1),
        (":0 true", 0),
        ("99999999999999999999:0 true", 0),
        ("<1>:", 0),
        ("<1>:0 = 2", 0),
        ("<1>:0 = ", 0),
        ("12", 0),
        ("a\t12", 1),
    ],
)
def test_lines(line: str, fields: int) -> None:
    writer = IsoWriter(SECOND)
    raw, expected = re.sub("[<>]", "", line), iso(line)
    for count, end in (1, ""), (1, "\n"), (2, "\n"):
        given_lines = f"{raw}\n" * (count - 1) + raw + end
        expected_lines = f"{expected}\n" * (count - 1) + expected + end
        assert writer.lines(given_lines.encode(), fields) == expected_lines.encode()
    assert writer.lines(b"", fields) == b""


TIME_POINTS = st.tuples(st.integers(0, LARGEST), st.integers(0, 2**64 - 1))
ENDINGS = st.sampled_from(["", "\tlog:7", "\t1:2 = 3:4", " (x=1:1)"])


@given(
    rows=st.lists(
        st.tuples(TIME_POINTS, st.sampled_from([" true", " false"]) | TIME_POINTS, ENDINGS)
    ),
    fields=st.integers(0, 2),
    unit=st.sampled_from(list(UNITS)),
)
def test_random_lines(
    rows: list[tuple[tuple[int, int], str | tuple[int, int], str]], fields: int, unit: str
) -> None:
    length = UNITS[unit]
    raw, expected = "", ""
    for (stamp, offset), value, ending in rows:
        label = "5:6\t" * fields
        raw += f"{label}{stamp}:{offset}"
        expected += f"{label}{reference(stamp, length)}:{offset}"
        if isinstance(value, str):
            raw, expected = raw + value, expected + value
        else:
            raw += f" = {value[0]}:{value[1]}"
            expected += f" = {reference(value[0], length)}:{value[1]}"
        raw, expected = f"{raw}{ending}\n", f"{expected}{ending}\n"
    assert IsoWriter(length).lines(raw.encode(), fields) == expected.encode()
