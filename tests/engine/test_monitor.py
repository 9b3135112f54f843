"""The monitor from Python: what it takes, what it refuses, what it tells."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import mtlmon
from mtlmon import Monitor, MtlmonError, TimeStampError, Verdict, parse

LARGEST = 2**63 - 1


def lines(verdicts: list[Verdict]) -> list[str]:
    return [str(verdict) for verdict in verdicts]


def test_fields_of_verdicts() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    assert monitor.step(3) == []
    (equivalent,) = monitor.step(3)
    assert (equivalent.time_stamp, equivalent.offset) == (3, 1)
    assert (equivalent.kind, equivalent.value, equivalent.ref) == ("equivalent", None, (3, 0))
    true, present = monitor.step(4, {"p"})
    assert (true.time_stamp, true.offset) == (3, 0)
    assert (true.kind, true.value, true.ref) == ("true", True, None)
    assert present != true
    assert Monitor("false").step(1)[0].value is False
    assert repr(equivalent) == "<Verdict 3:1 = 3:0>"


def test_verdicts_are_equal_when_they_say_the_same() -> None:
    first, second = (Monitor("p").step(7, {"p"})[0] for _ in range(2))
    assert first == second
    assert len({first, second}) == 1
    assert first != Monitor("p").step(7)[0]
    with pytest.raises(TypeError):
        Verdict()


def test_formulas_come_as_text_tree_or_program() -> None:
    formula = parse("p SINCE[0,5] q")
    program = Monitor(formula).program
    for source in ("p SINCE[0,5] q", formula, program):
        assert lines(Monitor(source).step(0, ["q"])) == ["0:0 true"]


@pytest.mark.parametrize("time_stamp", [-1, LARGEST + 1, 4, -(2**70)])
def test_bad_time_stamps_leave_the_state_unchanged(time_stamp: int) -> None:
    monitor = Monitor("(EVENTUALLY[0,5] p) AND NEXT (q OR PREVIOUS p)")
    monitor.step(5, {"p"})
    before = monitor.pending
    with pytest.raises(TimeStampError, match=str(time_stamp)):
        monitor.step(time_stamp, {"q"})
    assert monitor.pending == before
    undisturbed = Monitor("(EVENTUALLY[0,5] p) AND NEXT (q OR PREVIOUS p)")
    undisturbed.step(5, {"p"})
    assert lines(monitor.step(6, {"q"})) == lines(undisturbed.step(6, {"q"}))


@pytest.mark.parametrize("time_stamp", [1.5, "1", None, Decimal(3), np.float64(3)])
def test_time_stamps_are_integers(time_stamp: object) -> None:
    with pytest.raises(TypeError, match="integer"):
        Monitor("p").step(time_stamp)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="integer"):
        Monitor("p").advance(time_stamp)  # type: ignore[arg-type]


def test_integers_of_numpy_are_time_stamps() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    assert lines(monitor.step(np.int64(3))) == []
    assert lines(monitor.advance(np.int64(4))) == []
    assert lines(monitor.finish(np.int64(LARGEST))) == ["3:0 false"]


@pytest.mark.parametrize("atoms", ["pq", b"pq"])
def test_a_string_is_no_collection_of_atoms(atoms: Any) -> None:
    with pytest.raises(TypeError, match=r"one string b?'pq'"):
        Monitor("p").step(1, atoms)


@pytest.mark.parametrize("formula", [None, 5, b"p"])
def test_other_objects_are_no_formulas(formula: Any) -> None:
    with pytest.raises(TypeError, match="a formula is a text"):
        Monitor(formula)


def test_verdicts_pickle() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    monitor.step(3)
    for verdict in monitor.step(3) + monitor.step(4, {"p"}):
        assert pickle.loads(pickle.dumps(verdict)) == verdict


def test_an_error_while_reading_atoms_leaves_the_state_unchanged() -> None:
    monitor = Monitor("p")
    with pytest.raises(TypeError):
        monitor.step(1, [["p"]])  # type: ignore[list-item]
    assert lines(monitor.step(0, {"p"})) == ["0:0 true"]


def test_atoms_that_use_the_monitor_while_they_are_read_are_refused() -> None:
    monitor = Monitor("p")

    def atoms() -> Iterator[str]:
        yield "p"
        monitor.step(7)

    with pytest.raises(MtlmonError, match="is in use"):
        monitor.step(3, atoms())
    assert lines(monitor.step(2, {"p"})) == ["2:0 true"]


def test_unknown_modes_and_back_ends() -> None:
    with pytest.raises(MtlmonError, match="unknown mode 'lokal'; choose one of"):
        Monitor("p", "lokal")  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="unknown BDD back end"):
        Monitor("p", bdd="buddy")  # type: ignore[arg-type]


def test_local_is_global_for_unbounded_formulas() -> None:
    assert Monitor("ALWAYS p").mode == "global"
    assert Monitor("ALWAYS p", "naive").mode == "naive"
    assert Monitor("ALWAYS[0,5] NEXT p").mode == "local"


def test_pending_lists_those_that_will_get_a_boolean_verdict() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    for time_stamp in (1, 1, 2, 7):
        monitor.step(time_stamp)
    assert monitor.pending == [(2, 0), (7, 0)]


def test_advance() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    monitor.step(1)
    assert lines(monitor.advance(6)) == []
    assert lines(monitor.advance(7)) == ["1:0 false"]
    assert lines(monitor.advance(3)) == []
    with pytest.raises(TimeStampError):
        monitor.step(6, {"p"})
    assert lines(monitor.step(7, {"p"})) == ["7:0 true"]
    with pytest.raises(TimeStampError):
        monitor.advance(-1)


@pytest.mark.parametrize(
    ("end_time", "expected"),
    [
        (None, []),
        (0, []),
        ("last", ["1:0 false"]),
        (9, ["1:0 false", "4:0 false"]),
        (8, ["1:0 false"]),
        ("inf", ["1:0 false", "4:0 false", "6:0 false"]),
        (LARGEST, ["1:0 false", "4:0 false", "6:0 false"]),
    ],
)
def test_finish(end_time: object, expected: list[str]) -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    for time_stamp in (1, 4, 6):
        monitor.step(time_stamp)
    assert lines(monitor.finish(end_time)) == expected  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="finished"):
        monitor.step(100)
    with pytest.raises(MtlmonError, match="finished"):
        monitor.finish()


@pytest.mark.parametrize("end_time", ["never", 1.5, -1, LARGEST + 1])
def test_finish_refuses_other_ends(end_time: object) -> None:
    monitor = Monitor("p")
    with pytest.raises((MtlmonError, TypeError), match=r"end.time"):
        monitor.finish(end_time)  # type: ignore[arg-type]
    assert lines(monitor.step(0)) == ["0:0 false"]


def test_iteration_is_lazy_and_does_not_finish() -> None:
    monitor = Monitor("PREVIOUS p")
    verdicts = monitor(iter([(0, {"p"}), (1, ())]))
    assert str(next(verdicts)) == "0:0 false"
    assert str(next(verdicts)) == "1:0 true"
    assert list(verdicts) == []
    assert lines(monitor.step(2)) == ["2:0 false"]


def test_unknown_atoms_are_ignored() -> None:
    assert lines(Monitor("p").step(0, {"q", "p", "r"})) == ["0:0 true"]


def test_the_largest_time_stamps_and_bounds() -> None:
    monitor = Monitor(f"(EVENTUALLY[0,{LARGEST}] p) AND NOT ONCE[{LARGEST},{LARGEST}] p")
    assert monitor.step(0, {"p"}) != []
    assert lines(monitor.step(LARGEST)) == ["9223372036854775807:0 false"]


def test_representations() -> None:
    monitor = Monitor("p")
    monitor.step(1)
    assert repr(monitor) == "<Monitor in mode local after 1 events, 0 pending>"
    assert repr(monitor.program) == "<Program of 2 instructions over 1 atoms>"
    assert mtlmon.__version__
