"""Arrays of verdicts resolve as verdict objects do, however they are cut."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from mtlmon import Monitor, MtlmonError, Resolution, Verdict, resolve
from mtlmon.verdict_arrays import verdict_type

KINDS = {"false": 0, "true": 1, "equivalent": 2}


def as_array(verdicts: list[Verdict]) -> NDArray[np.void]:
    rows = [(v.time_stamp, v.offset, *(v.ref or (0, 0)), KINDS[v.kind]) for v in verdicts]
    return np.array(rows, verdict_type())


def points(array: NDArray[np.void]) -> list[tuple[int, int, bool]]:
    return [(int(v["time_stamp"]), int(v["offset"]), bool(v["kind"])) for v in array]


def random_verdicts(seed: int) -> list[Verdict]:
    chance = random.Random(seed)
    rate = chance.choice([1, 5, 50])
    events = [(k // rate, ["p"] if chance.random() < 0.03 else []) for k in range(600)]
    mode = chance.choice(["local", "global"])
    return list(Monitor("EVENTUALLY[1,6] p", mode)(events, chance.choice([None, "inf"])))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_arrays_resolve_as_objects_do(seed: int) -> None:
    verdicts = random_verdicts(seed)
    array = as_array(verdicts)
    one_by_one = [(v.time_stamp, v.offset, v.value) for v in resolve(verdicts)]
    assert points(resolve(array)) == one_by_one
    assert points(resolve(array, in_order=True)) == sorted(one_by_one)
    chance = random.Random(seed)
    for in_order in (False, True):
        resolution = Resolution(in_order=in_order, reach=6)
        pieces, start = [], 0
        while start < len(array):
            end = start + chance.randrange(1, 90)
            pieces += points(resolution.push_array(array[start:end]))
            start = end
        pieces += [(v.time_stamp, v.offset, bool(v.value)) for v in resolution.finish()]
        assert pieces == (sorted(one_by_one) if in_order else one_by_one)


def test_arrays_with_a_monitor_behind_them() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    resolution = Resolution(in_order=True, monitor=monitor)
    verdicts = monitor.step(0) + monitor.step(3) + monitor.step(4, {"p"})[::-1]
    assert points(resolution.push_array(as_array(verdicts))) == [
        (0, 0, True),
        (3, 0, True),
        (4, 0, True),
    ]


def test_fields_of_other_widths_and_orders() -> None:
    other = np.dtype(
        [
            ("kind", "i4"),
            ("note", "U3"),
            ("offset", "u2"),
            ("time_stamp", "u4"),
            ("reference_offset", "u8"),
            ("reference_time_stamp", ">i8"),
        ]
    )
    array = np.zeros(2, other)
    array["time_stamp"] = 7
    array["offset"] = [1, 0]
    array["kind"] = [2, 0]
    array["reference_time_stamp"] = [7, 0]
    assert points(resolve(array)) == [(7, 0, False), (7, 1, False)]
    assert points(resolve(array[::-1])) == [(7, 0, False)]
    assert len(resolve(np.zeros(0, verdict_type()))) == 0
    assert resolve(array).dtype == verdict_type()


def test_results_may_be_changed() -> None:
    resolved = resolve(np.zeros(3, verdict_type()))
    resolved["kind"] = 1
    assert resolved["kind"].sum() == 3


def test_bad_arrays() -> None:
    good = np.zeros(3, verdict_type())
    resolution = Resolution()
    with pytest.raises(MtlmonError, match=r"the fields time_stamp, .*; this one has 1 dimensions"):
        resolution.push_array(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="has 2 dimensions"):
        resolution.push_array(good.reshape(1, 3))
    floats = np.zeros(3, [(n, "f8") for n in verdict_type().names or ()])
    with pytest.raises(MtlmonError, match="the field time_stamp holds float64, not integers"):
        resolution.push_array(floats)
    for name, value, message in [
        ("kind", 3, "verdict 1 of the array: 3 is not a kind of verdict"),
        ("kind", 2, "verdict 1 of the array: a time-point is equivalent to an earlier one"),
        ("time_stamp", -1, "verdict 1 of the array: its time-stamp is not from 0 to 2"),
    ]:
        bad = good.copy()
        bad[name][1] = value
        with pytest.raises(MtlmonError, match=message):
            resolution.push_array(bad)
    assert resolution.open_count == 0
    wide = np.zeros(1, [(n, "i8") for n in verdict_type().names or ()])
    wide["kind"] = 257
    with pytest.raises(MtlmonError, match="verdict 0 of the array: kind 257 is not from 0 to 2"):
        resolution.push_array(wide)
    wide["kind"] = 1
    wide["offset"] = -1
    with pytest.raises(MtlmonError, match="verdict 0 of the array: offset -1 is not from 0"):
        resolution.push_array(wide)
