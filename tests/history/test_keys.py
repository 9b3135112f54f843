"""The numbers of keys, however they are given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors import KeyNumbers


@given(
    st.lists(
        st.lists(st.sampled_from([0, 1, 7, 300, 1 << 20, 1 << 40, -3]), max_size=6), max_size=5
    ),
    st.sampled_from(["list", "int64", "mixed"]),
)
def test_all_kinds_of_keys_get_the_same_numbers(batches: list[list[int]], kind: str) -> None:
    numbers = KeyNumbers()
    expected: dict[int, int] = {}
    for place, batch in enumerate(batches):
        wanted = [expected.setdefault(key, len(expected)) for key in batch]
        is_list = kind == "list" or (kind == "mixed" and place % 2)
        found = numbers.numbers_of(batch if is_list else np.array(batch, np.int64))
        assert found.dtype == np.uint32
        assert found.tolist() == wanted
    assert numbers.keys == list(expected)


def test_an_unknown_key() -> None:
    with pytest.raises(KeyError):
        KeyNumbers(["a"]).known("b")
