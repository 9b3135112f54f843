"""How much of a trace ranges read, and where operators are told what lies beyond."""

from __future__ import annotations

import numpy as np
import pytest

from mtlmon import compile_formula
from tests.cutting.in_memory import Neighbours
from tests.doors import MaskedProgram, make_plan

TIMES = np.array([0, 4, 8, 90, 100, 120, 199, 200, 300, 400, 500, 900], np.int64)


@pytest.mark.parametrize(
    ("formula", "first", "last"),
    [
        ("p", 100, 299),
        ("ONCE[0,5] p", 95, 299),
        ("EVENTUALLY[0,5] p", 100, 304),
        ("ONCE[0,5] EVENTUALLY[0,7] p", 95, 306),
        ("ONCE[3,5] EVENTUALLY[0,7] p", 95, 306),
        ("ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)", 100, 312),
        ("PREVIOUS p", 90, 299),
        ("PREVIOUS[0,5] p", 95, 299),
        ("PREVIOUS PREVIOUS p", 8, 299),
        ("PREVIOUS ONCE[0,5] PREVIOUS p", 8, 299),
        ("NEXT p", 100, 300),
        ("NEXT NEXT true", 100, 400),
        ("(ONCE[0,20] p) AND EVENTUALLY[0,1] q", 80, 300),
        # unbounded operators ask for no more than their lower bound
        ("ONCE p", 100, 299),
        ("ONCE[20,*] p", 81, 299),
        ("p UNTIL q", 100, 299),
        ("p UNTIL[20,*] q", 100, 318),
        ("ONCE (p AND ONCE[0,7] q)", 93, 299),
        ("ONCE[10,*] ONCE[10,*] q", 82, 299),
        ("p SINCE[0,1000000] q", 0, 299),
    ],
)
def test_what_a_range_reads(formula: str, first: int, last: int) -> None:
    plan = make_plan(
        compile_formula(formula), "local", "inf", (0, 900), [100, 300], Neighbours(TIMES)
    )
    assert (int(plan.needs.first[1]), int(plan.needs.last[1])) == (first, last)


def test_operators_over_the_same_operands_share_a_boundary() -> None:
    program = compile_formula("(ONCE[5,*] p) AND (ONCE[9,*] p) AND ONCE p")
    plan = make_plan(program, "local", None, (0, 900), [100, 300], Neighbours(TIMES))
    assert [boundaries.tolist() for boundaries in plan.needs.boundaries] == [[-1, 92, 292]]
    assert plan.levels == 1


def test_ranges_that_the_end_can_reach_are_one() -> None:
    program = compile_formula("EVENTUALLY[0,200] p")
    cuts = [100, 300, 500, 701, 800]
    neighbours = Neighbours(TIMES)
    for end_time, starts in ((None, [0, 100, 300, 500]), ("inf", [0, *cuts])):
        plan = make_plan(program, "local", end_time, (0, 900), cuts, neighbours)  # type: ignore[arg-type]
        assert plan.needs.starts.tolist() == starts


def test_cuts_outside_the_trace_are_ignored() -> None:
    program = compile_formula("p")
    cuts = [-5, 0, 3, 3, 900, 901, 2**63 - 1]
    plan = make_plan(program, "local", None, (0, 900), cuts, Neighbours(TIMES))
    assert plan.needs.starts.tolist() == [0, 3, 900]
    assert plan.levels == 0


def test_levels_are_those_of_operators_with_a_boundary() -> None:
    program = compile_formula("ONCE (p AND ONCE (q AND EVENTUALLY r))")
    neighbours = Neighbours(TIMES)
    assert make_plan(program, "local", "inf", (0, 900), [100], neighbours).levels == 3
    # decided only at the end, however far that is
    assert make_plan(program, "local", None, (0, 900), [100], neighbours).range_count == 1


def test_atoms_of_the_program_come_before_those_of_masks() -> None:
    """In the order of the program, so that letters need not be taken apart."""
    program = compile_formula("(ONCE q) AND (p UNTIL r)")
    plan = make_plan(program, "local", "inf", (0, 900), [100], Neighbours(TIMES))
    masked = MaskedProgram(program, plan.families, plan.cut())
    atoms = masked.builder.program(masked.of(program.root)).atoms
    assert atoms[:3] == program.atoms
    assert len(atoms) == 3 + 2 + 3
