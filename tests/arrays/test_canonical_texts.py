"""The canonical texts of values of columns: equal values of any types have the same."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.doors import canonical_number, canonical_texts  # noqa: E402

EXAMPLES = [
    (pa.array([7, -7, None]), ["7", "-7", None]),
    (pa.array([7.0, -0.0, 0.1, 1e20, 1e40, 1e-7, 1234567890123456.5, float("nan")]),
     ["7", "0", "0.1", "100000000000000000000", "1e+40", "1e-7", "1234567890123456.5", "nan"]),
    (pa.array([2.0**60]), [str(2**60)]),
    (pa.array([Decimal("7.00"), Decimal("1.50"), Decimal("0.00")]), ["7", "1.5", "0"]),
    (pa.array([Decimal("0.00000001")]), ["1e-8"]),
    (pa.array([True, False, None]), ["true", "false", None]),
    (pa.array([0, 1_500_000], pa.timestamp("us")),
     ["1970-01-01 00:00:00", "1970-01-01 00:00:01.5"]),
    (pa.array([0, 600], pa.timestamp("s")), ["1970-01-01 00:00:00", "1970-01-01 00:10:00"]),
    (pa.array([0], pa.timestamp("ms", "Europe/Berlin")), ["1970-01-01 00:00:00Z"]),
    (pa.array([0], pa.timestamp("s", "Europe/Berlin")), ["1970-01-01 00:00:00Z"]),
    (pa.array([0, 600_120], pa.time32("ms")), ["00:00:00", "00:10:00.12"]),
    (pa.array([0, 600], pa.time32("s")), ["00:00:00", "00:10:00"]),
    (pa.array([0], pa.date32()), ["1970-01-01"]),
    (pa.array(["007", " 7"]), ["007", " 7"]),
    (pa.array([7.0, 7.5, 7.0]).dictionary_encode(), ["7", "7.5", "7"]),
]  # fmt: skip


@pytest.mark.parametrize(("array", "texts"), EXAMPLES)
def test_texts_of_values(array: Any, texts: list[str | None]) -> None:
    assert canonical_texts(array).to_pylist() == texts


def test_texts_of_floats_are_those_of_single_numbers() -> None:
    numbers = [7.0, -0.0, 0.1, 0.10000000000000001, 1.25, 12345678901.0, 2.0**53, 1e20]
    numbers += [x * 10.0**e for x in (1.5, -3, 0.1) for e in range(-30, 40)]
    found = canonical_texts(pa.array(numbers)).to_pylist()
    assert found == [canonical_number(one) for one in numbers]
    for value, text in zip(numbers, found, strict=True):
        assert float(text) == value
        assert not value.is_integer() or abs(value) >= 1e38 or int(text) == value


@given(
    st.lists(st.integers(-(10**60) + 1, 10**60 - 1) | st.integers(-999, 999), min_size=1),
    st.integers(-3, 70),
    st.integers(0, 50),
)
def test_texts_of_decimals_are_those_of_single_numbers(
    numbers: list[int], scale: int, zeros: int
) -> None:
    numbers = [one // 10**zeros * 10**zeros for one in numbers]
    decimals = [Decimal((one < 0, [*map(int, str(abs(one)))], -scale)) for one in numbers]
    found = canonical_texts(pa.array(decimals, pa.decimal256(76, scale))).to_pylist()
    assert [Decimal(text) for text in found] == decimals
    assert found == [canonical_number(one) for one in decimals]


@given(st.integers(-(10**40), 10**40), st.integers(0, 40), st.integers(0, 9))
def test_numbers_have_one_text(number: int, scale: int, zeros: int) -> None:
    """The same number with more zeros has the same text, and whole ones are in digits."""
    text = canonical_number(Decimal(f"{number}e-{scale}"))
    assert Decimal(text) == Decimal(f"{number}e-{scale}")
    assert canonical_number(Decimal(f"{number}{'0' * zeros}e-{scale + zeros}")) == text
    if abs(number) < 10**38:
        assert canonical_number(number) == str(number)
    if scale == 0:
        assert canonical_number(number) == text
