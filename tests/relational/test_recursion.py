"""Lets that use themselves: random ones, in slices, for each key, with explanations and late rows.

Named cases are in `cases/recursion.toml`; what becomes of late rows is in `correcting`.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy import parse_policies
from mtlmon.relational import Answer, RelationalMonitor, analyse
from mtlmon.relational.slicing import Statistics, plan_slices
from tests.doors import engine_of, keyed_file
from tests.reference.first_order import Let
from tests.relational import soak
from tests.relational.slicing.test_moving import Moved, answers_of
from tests.relational.test_keyed import KeyedLog, agree, keyed_logs
from tests.relational.test_reasons import check_explanations

_STATISTICS = st.tuples(st.integers(0, 9), st.frozensets(st.integers(0, 2), max_size=1)).map(
    lambda drawn: Statistics({"p": float(drawn[0]), "q": 2.0}, {("p", 0): drawn[1]})
)
_PLANS = st.tuples(st.integers(1, 5), _STATISTICS, st.integers(0, 3))


def example_of(seed: int) -> soak.Example:
    """An example whose formula uses the let, and can be evaluated."""
    generator = soak.Generator(seed)
    while True:
        example = generator.example(5)
        if example.let is None or "l(" not in example.formula or len(example.policies) > 600:
            continue
        try:
            RelationalMonitor(example.policies)
        except FormulaError:
            continue
        return example


def examples() -> st.SearchStrategy[soak.Example]:
    return st.integers(0, 2**32).map(example_of)


@given(examples())
@settings(max_examples=60)
def test_answers_are_those_of_the_reference(example: soak.Example) -> None:
    assert soak.check(example)


# PERF: a new engine for each slice and row takes most of the time
@given(
    examples(),
    _PLANS,
    st.dictionaries(st.integers(0, 3), st.tuples(st.sampled_from(["reslice", "restart"]), _PLANS)),
    st.sampled_from(["false", "all"]),
)
@settings(max_examples=30)
def test_slices(
    example: soak.Example,
    plan: tuple[int, Statistics, int],
    moves: dict[int, tuple[str, tuple[int, Statistics, int]]],
    verdicts: str,
) -> None:
    text = example.policies
    single = Moved(text, verdicts, (1, Statistics(), 0))
    expected = answers_of(single, example.log, {})
    assert answers_of(Moved(text, verdicts, plan), example.log, moves) == expected


def formula_and_let(example: soak.Example) -> tuple[str, dict[str, Let]]:
    """The let of an example as text, and as the reference takes it."""
    assert example.let is not None
    _, lets = soak.read(example)
    return f"let l({example.let[0]}) = {example.let[1]}\n", lets


@given(examples(), keyed_logs(5), st.frozensets(st.integers(0, 5), max_size=2),
       st.sampled_from([None, 2]))  # fmt: skip
@settings(max_examples=30)
def test_keys(
    example: soak.Example, log: KeyedLog, cuts: frozenset[int], slices: int | None
) -> None:
    text, lets = formula_and_let(example)
    formula, _ = soak.read(example)
    try:
        errors = analyse(keyed_file(parse_policies(example.policies), ("k",))).errors
    except PolicyError:
        # NEXT without a bound
        assume(False)
    assume(not errors)
    agree(formula, log, cuts, slices, text=text, lets=lets)


@given(examples(), st.lists(st.integers(0, 3), max_size=2))
@settings(max_examples=30)
def test_reasons(example: soak.Example, sizes: list[int]) -> None:
    text, lets = formula_and_let(example)
    formula, _ = soak.read(example)
    check_explanations(formula, example.log, sizes, text=text, lets=lets)


def test_what_is_said_of_such_a_let() -> None:
    """Policies that read its atoms as other types have a let each, with the types in both."""
    text = """
    atom p(x: int)
    let l(x) = (p(x) AND q(x)) OR x in (1, 2) AND PREVIOUS l(x)
    let m(y) = r(y) OR PREVIOUS m(y)
    find a: l(x) AND m(y)
    find b: m(y) AND y > 1.5
    find c: m(y)
    """
    analysis = analyse(parse_policies(text))
    assert not analysis.errors
    kinds = {name: [kind.name for kind in one.kinds] for name, one in analysis.recursions.items()}
    assert len(kinds) == 3
    assert sorted(kinds.values()) == [["float"], ["integer"], ["text"]]


ROWS = "@1 p(1) q(1)\n@2 q(1)\n@3 q(2)\n@5 q(1)\n"


@pytest.mark.parametrize(
    "let",
    [
        "p(x) OR (PREVIOUS l(x)) AND q(x)",
        "p(x) OR (PREVIOUS l(x)) AND EVENTUALLY[0,2] q(x)",
        "p(x) OR ((NOT q(x)) SINCE[1,3] l(x))",
    ],
)
def test_what_is_undecided_waits(let: str) -> None:
    """Time that passes decides as much as time-points that come."""
    text = f"atom p(x: int)\natom q(x: int)\nlet l(x) = {let}\nfind f: l(x)\n"
    every, slowly = RelationalMonitor(text), RelationalMonitor(text)
    found, others = [], []

    def pass_time(until: int) -> list[Answer]:
        """Let time pass from one moment at which that matters to the next one."""
        given = []
        while (due := engine_of(slowly).next_due()) is not None and due <= until:
            given += slowly.advance(due)
        return given

    for time_stamp, rows in ((1, "pq"), (2, "q"), (3, ""), (6, "q"), (6, "p"), (9, "")):
        database = {name: [(1,)] for name in rows}
        found += every.step(time_stamp, database)
        others += [*pass_time(time_stamp), *slowly.step(time_stamp, database)]
    found += every.advance(20)
    others += pass_time(20)
    assert found == others
    assert engine_of(every).answered_points == engine_of(slowly).answered_points == [6]


def test_a_policy_whose_let_is_everywhere_runs_in_one_slice() -> None:
    text = """
    let reaches(x, y) = edge(x, y) OR EXISTS z. (PREVIOUS reaches(x, z)) AND edge(z, y)
    let open(u, s) = login(u, s) OR (PREVIOUS open(u, s)) AND NOT logout(u, s)
    find a: reaches(x, y)
    find b: open(u, s)
    """
    file = parse_policies(text)
    everywhere, split = plan_slices(file, analyse(file), 4).policies
    assert everywhere.remark == "no atom has one of its variables"
    assert not split.remark
    # each row goes to one slice
    assert all(len(split.all_parts(one, 0)) == 1 for one in split.atoms)


def test_a_name_of_a_let_is_no_row_of_the_log() -> None:
    """Rows of that name are ignored, as those of other lets are."""
    text = "let l(x) = p(x) OR PREVIOUS l(x)\nfind f: l(x)\n"
    monitor = RelationalMonitor(text)
    assert [one.valuation for one in monitor.step(1, {"l": [("a",)], "p": [("b",)]})] == [
        {"x": "b"}
    ]
    assert not re.search("l", "".join(one.name for one in monitor.plan.named_atoms))


def test_a_let_that_is_used_nowhere_is_checked() -> None:
    file = parse_policies("let l(x) = p(x) AND l(x)\nfind f: q(x)\n")
    (error,) = analyse(file).errors
    assert isinstance(error, PolicyError)
    assert "l depends on itself" in str(error)
