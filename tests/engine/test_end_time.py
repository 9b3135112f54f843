"""What an end time says of what may follow."""

from __future__ import annotations

from typing import Literal

import pytest

from mtlmon import Monitor, MtlmonError, TimeStampError
from tests.doors import clock_at_end, is_end_of_time

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("end_time", "clock"),
    [
        (None, 7),
        ("last", 8),
        ("inf", None),
        (0, 7),
        (6, 7),
        (7, 8),
        (20, 21),
        (LARGEST - 1, LARGEST),
        (LARGEST, LARGEST + 1),
    ],
)
def test_what_may_follow_an_end(
    end_time: int | Literal["last", "inf"] | None, clock: int | None
) -> None:
    assert clock_at_end(7, end_time) == clock
    assert is_end_of_time(clock) is (end_time in ("inf", LARGEST))


def test_what_is_no_end_time() -> None:
    with pytest.raises(MtlmonError, match="'last', 'inf' or None, not 'first'"):
        clock_at_end(7, "first")  # type: ignore[arg-type]
    with pytest.raises(TimeStampError):
        clock_at_end(7, -1)


@pytest.mark.parametrize("end_time", ["inf", LARGEST])
@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_nothing_is_open_after_the_end_of_time(
    end_time: int | Literal["inf"], mode: Literal["local", "global", "naive"]
) -> None:
    for formula in ("NEXT p", "EVENTUALLY p", "NOT (true UNTIL[3,*) p)"):
        monitor = Monitor(formula, mode)
        verdicts = [*monitor.step(3), *monitor.step(5), *monitor.finish(end_time)]
        assert len(verdicts) == 2
        assert monitor.pending == []
