"""Arrays of verdicts: records, objects, tables."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pyarrow
import pytest

from mtlmon import Monitor, MtlmonError, resolve
from mtlmon.verdict_arrays import EQUIVALENT, FALSE, TRUE, VerdictArray, verdict_type

ROWS = [
    (1, 1, 1, 0, EQUIVALENT),
    (3, 0, 0, 0, TRUE),
    (1, 0, 0, 0, FALSE),
]


@pytest.fixture
def verdicts() -> VerdictArray:
    monitor = Monitor("p IMPLIES EVENTUALLY[1,2] q")
    fed = monitor.feed([1, 1, 3, 4], {"p": [True, True, False, True], "q": [False] * 4})
    assert [str(verdict) for verdict in fed] == ["1:1 = 1:0", "3:0 true", "1:0 false"]
    return fed


def test_records(verdicts: VerdictArray) -> None:
    assert verdicts.records.tolist() == ROWS
    assert verdicts.records.dtype == verdict_type()
    assert verdicts.time_stamp.tolist() == [1, 3, 1]
    assert verdicts.offset.tolist() == [1, 0, 0]
    assert verdicts.kind.tolist() == [EQUIVALENT, TRUE, FALSE]
    assert verdicts.reference_time_stamp.tolist() == [1, 0, 0]
    assert verdicts.reference_offset.tolist() == [0, 0, 0]


def test_no_byte_is_left_to_chance(verdicts: VerdictArray) -> None:
    empty = np.zeros(len(ROWS), verdict_type())
    empty[:] = ROWS
    assert verdicts.records.tobytes() == empty.tobytes()


def test_objects(verdicts: VerdictArray) -> None:
    assert len(verdicts) == 3
    equivalent, true, false = verdicts
    assert equivalent.ref == (1, 0)
    assert (true.value, false.value, equivalent.value) == (True, False, None)
    assert (verdicts[0], verdicts[-1], verdicts[np.int64(1)]) == (equivalent, false, true)
    assert list(verdicts[1:]) == [true, false]
    assert list(verdicts[::-2]) == [false, equivalent]
    assert list(verdicts[verdicts.kind == FALSE]) == [false]
    assert list(verdicts[[2, 0]]) == [false, equivalent]
    with pytest.raises(IndexError):
        verdicts[3]
    assert equivalent == Monitor("EVENTUALLY[0,5] p").feed([1, 1], [0, 0])[0]
    assert pickle.loads(pickle.dumps(list(verdicts))) == list(verdicts)


def test_iteration_over_more_than_a_chunk() -> None:
    verdicts = Monitor("p").feed(np.arange(5000) // 7, np.arange(5000) % 2)
    assert [verdict.time_stamp for verdict in verdicts] == [i // 7 for i in range(5000)]
    assert [verdict.value for verdict in verdicts] == [bool(i % 2) for i in range(5000)]
    assert repr(verdicts) == (
        "<VerdictArray of 5000 verdicts: "
        "0:0 false, 0:1 true, 0:2 false, 0:3 true, 0:4 false, 0:5 true, ...>"
    )


def test_one_after_the_other(verdicts: VerdictArray) -> None:
    both = verdicts[:1] + verdicts[1:]
    assert both == verdicts
    assert both != verdicts[1:]
    assert both != list(verdicts)
    with pytest.raises(TypeError):
        verdicts + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        hash(verdicts)


def test_as_numpy_array(verdicts: VerdictArray) -> None:
    assert np.asarray(verdicts) is verdicts.records
    copy = np.array(verdicts)
    assert copy is not verdicts.records
    assert VerdictArray(copy) == verdicts
    joined = VerdictArray(np.concatenate([verdicts, verdicts]))
    assert joined == verdicts + verdicts
    assert list(joined) == 2 * list(verdicts)
    untyped = np.asarray(verdicts, dtype=object)
    assert untyped.tolist() == ROWS
    with pytest.raises(ValueError, match="are a copy"):
        verdicts.__array__(np.dtype(object), copy=False)


@pytest.mark.parametrize("records", [[1], np.zeros(2), np.zeros(2, "i8,i8")])
def test_other_arrays_are_no_verdicts(records: Any) -> None:
    with pytest.raises(MtlmonError, match=r"one-dimensional array with the fields|holds float64"):
        VerdictArray(records)


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("time_stamp", 2**63 - 1),
        ("offset", 2**64 - 1),
        ("reference_time_stamp", 2**63 - 1),
        ("reference_offset", 2**64 - 1),
        ("kind", 2),
    ],
)
def test_values_of_other_types_are_in_range(name: str, largest: int) -> None:
    def records(kind: str, *values: int) -> Any:
        layout = [(one, kind if one == name else "u1") for one in verdict_type().names or ()]
        array = np.zeros(len(values), layout)
        array[name] = values
        return array

    assert VerdictArray(records("u8", 0, largest)).records[name].tolist() == [0, largest]
    wrong = [records("i8", 0, -1)]
    if largest < 2**64 - 1:
        wrong.append(records("u8", largest, largest + 1))
    for one in wrong:
        value = one[name][1]
        message = f"verdict 1 of the array: {name} {value} is not from 0 to {largest}"
        with pytest.raises(MtlmonError, match=message):
            VerdictArray(one)


def test_verdicts_have_one_dimension() -> None:
    with pytest.raises(MtlmonError, match="has 2 dimensions"):
        VerdictArray(np.zeros((2, 2), verdict_type()))


def test_resolving_gives_an_array_again(verdicts: VerdictArray) -> None:
    assert list(map(str, resolve(verdicts))) == ["3:0 true", "1:0 false", "1:1 false"]
    in_order = resolve(verdicts, in_order=True)
    assert isinstance(in_order, VerdictArray)
    assert list(map(str, in_order)) == ["1:0 false", "1:1 false", "3:0 true"]


def test_pickles(verdicts: VerdictArray) -> None:
    assert pickle.loads(pickle.dumps(verdicts)) == verdicts


def test_to_arrow(verdicts: VerdictArray) -> None:
    batch = verdicts.to_arrow()
    assert batch.to_pydict() == {
        "time_stamp": [1, 3, 1],
        "offset": [1, 0, 0],
        "kind": ["equivalent", "true", "false"],
        "reference_time_stamp": [1, None, None],
        "reference_offset": [0, None, None],
    }
    batch.validate(full=True)
    assert pyarrow.record_batch(verdicts).equals(batch)
    assert verdicts[:0].to_arrow().num_rows == 0


def test_to_pandas(verdicts: VerdictArray) -> None:
    frame = verdicts.to_pandas()
    assert frame["time_stamp"].tolist() == [1, 3, 1]
    assert frame["kind"].tolist() == ["equivalent", "true", "false"]
    assert frame.query("kind == 'false'")[["time_stamp", "offset"]].to_numpy().tolist() == [[1, 0]]
    assert frame["reference_offset"].isna().tolist() == [False, True, True]
    assert frame["reference_offset"].dtype == "Int64"
    assert frame.dtypes.astype(str).tolist()[:3] == ["int64", "int64", "category"]
    assert len(verdicts[:0].to_pandas()) == 0


@pytest.mark.parametrize("module", ["pyarrow", "pandas"])
def test_what_is_not_installed_is_named(
    verdicts: VerdictArray, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of None is how Python itself marks a module that cannot be imported."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MtlmonError, match=r"pip install 'mtlmon\[(arrow|pandas)\]'"):
        verdicts.to_arrow() if module == "pyarrow" else verdicts.to_pandas()
