"""Which engine runs, why, and how long it takes to say so."""

from __future__ import annotations

import pickle
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given

from mtlmon import Formula, Program, atom, compile_formula, parse
from tests import strategies
from tests.doors import (
    MOST_VARIABLES,
    OPERATIONS,
    EngineChoice,
    Interval,
    choose_engine,
    has_time_bound,
    make,
)
from tests.doors import engine_choice as choice
from tests.doors import syntax_operators as ops

MIXED = " is used both as it is and negated, so verdicts can come later than in mode global"
UNNAMED = "an operator that looks ahead"
SOON = Interval(0, 5)
FLAT = "none of its operators waits for another"


def choice_of(formula: Formula | str, mode: Any = "local") -> EngineChoice:
    return choice_for(compile_formula(formula), mode)


def choice_for(program: Program, mode: Any = "local") -> EngineChoice:
    return choose_engine(program.rows, program.root, program.is_bounded, mode, program.atoms)


def conjunction(texts: Sequence[str]) -> str:
    return " AND ".join(f"({text})" for text in texts)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "ALWAYS[0,9] (p IMPLIES EVENTUALLY[0,5] q)",
            "its future is bounded, and it has 2 operators that can wait",
        ),
        (
            "ONCE PREVIOUS NOT EVENTUALLY[0,5] ONCE p",
            "its future is bounded, and it has 3 operators that can wait",
        ),
        # one row, however often it occurs
        (
            "(EVENTUALLY[0,5] p) OR (q AND EVENTUALLY[0,5] p) OR NEXT NEXT p",
            "its future is bounded, and it has 3 operators that can wait",
        ),
    ],
)
def test_the_network_takes(text: str, reason: str) -> None:
    for mode in ("local", "naive"):
        assert choice_of(text, mode) == ("network", reason)


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "p",
        "p SINCE[2,*) PREVIOUS q",
        "EVENTUALLY[0,5] false",
        "NEXT p",
        "p UNTIL[0,5] ONCE q",
        "(EVENTUALLY[0,5] p) OR (q AND EVENTUALLY[0,6] p) OR NEXT q",
        "(EVENTUALLY[0,5] p) EQUIV q",
        "((EVENTUALLY[0,5] p) EQUIV q) AND (r IMPLIES NEXT q) AND NOT EVENTUALLY[1,6] p",
        "(EVENTUALLY[0,5] p) AND ((NEXT p) OR NEXT q)",
        conjunction([f"p{i} IMPLIES EVENTUALLY[0,{i}] q{i}" for i in range(1, 9)]),
        conjunction([f"(NEXT p{i}) OR EVENTUALLY[0,{i}] q{i}" for i in range(6)]),
    ],
)
def test_expressions_take_what_is_not_nested(text: str) -> None:
    assert choice_of(text) == ("expressions", FLAT)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("(EVENTUALLY[0,5] p) EQUIV NEXT q", 2),
        ("((NEXT p) OR EVENTUALLY[0,5] q) AND NOT EVENTUALLY[0,6] q", 3),
        ("((NEXT p) OR NEXT q) AND ((EVENTUALLY[0,5] p) OR EVENTUALLY[2,5] q)", 4),
        (conjunction([f"(NEXT p{i}) OR EVENTUALLY[0,{i}] q{i}" for i in range(5)]), 10),
        (conjunction([f"(NEXT p{i}) EQUIV EVENTUALLY[0,{i}] q{i}" for i in range(6)]), 12),
    ],
)
def test_the_network_takes_functions_of_several_operators(text: str, count: int) -> None:
    """Values are then known as early as in mode `global`, so nothing is said of that."""
    reason = f"its future is bounded, and it has {count} operators that can wait"
    assert choice_of(text) == ("network", reason)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(EVENTUALLY[0,9] p) EQUIV q", "EVENTUALLY[0,9] p"),
        ("(ALWAYS[0,9] p) EQUIV q", "ALWAYS[0,9] p"),
        ("(NOT NEXT p) EQUIV q", "NEXT p"),
        ("(EVENTUALLY[0,1] p) AND NOT EVENTUALLY[0,3] p", "EVENTUALLY p"),
        ("(ALWAYS[0,1] p) AND NOT ALWAYS[0,3] p", "ALWAYS p"),
        ("(ALWAYS[0,1] p) OR EVENTUALLY[0,3] NOT p", "ALWAYS p"),
        ("(p UNTIL[2,3] NEXT q) EQUIV r", "NEXT q"),
        ("EVENTUALLY[0,9] ((EVENTUALLY[0,5] p) EQUIV q)", "EVENTUALLY[0,5] p"),
        ("(EVENTUALLY[0,9] (p OR q)) EQUIV q", "EVENTUALLY[0,9] (p OR q)"),
        ("(ALWAYS[0,9] (p IMPLIES ONCE q)) EQUIV q", "ALWAYS[0,9] (p IMPLIES (ONCE q))"),
        ("(ALWAYS[0,9] (q OR NOT p)) EQUIV r", "ALWAYS[0,9] (p IMPLIES q)"),
        ("(EVENTUALLY[0,9] NOT (p AND q)) EQUIV r", "ALWAYS[0,9] (p AND q)"),
        ("(NEXT HISTORICALLY[1,2] (p SINCE q)) EQUIV r", "NEXT (HISTORICALLY[1,2] (p SINCE q))"),
        ("(NEXT[0,3] PREVIOUS true) EQUIV r", "NEXT[0,3] (PREVIOUS true)"),
        ("(NEXT[0,3] true) EQUIV PREVIOUS true", "NEXT[0,3] true"),
        ("(p RELEASE[0,9] q) EQUIV r", "(NOT p) UNTIL[0,9] (NOT q)"),
        (
            "(ALWAYS[1,10] p) OR "
            "((PREVIOUS[1,7] EVENTUALLY[1,10] p) IMPLIES ((p AND q) OR EVENTUALLY[0,6] p))",
            "EVENTUALLY p",
        ),
        ('(NEXT "a\x1bb") EQUIV q', 'NEXT "a\ufffdb"'),
        # too long to name, or to read in full
        (f"(NEXT ({' OR '.join(f'p{i}' for i in range(40))})) EQUIV q", UNNAMED),
        (f"(NEXT {'p' * 50}{'q' * 50}) EQUIV q", f"NEXT {'p' * 33} ... {'q' * 37}"),
    ],
)
def test_both_polarities_are_named(text: str, name: str) -> None:
    """One operator waits for another, so that they do not go to expressions anyway."""
    program = compile_formula(f"({text}) AND NEXT NEXT w")
    assert choice_for(program).name == "network"
    assert choice_for(program).reason.partition("; ")[2] == name + MIXED
    unnamed = choose_engine(program.rows, program.root, True, "naive")
    assert unnamed.reason.partition("; ")[2] == UNNAMED + MIXED


@pytest.mark.parametrize(
    "text",
    [
        # other families: other operands, or NEXT rather than EVENTUALLY
        "(EVENTUALLY[0,5] p) AND NOT EVENTUALLY[0,5] q",
        "(EVENTUALLY[0,5] p) AND NOT (r UNTIL[0,5] p)",
        "(NEXT[0,5] p) AND NOT EVENTUALLY[0,5] p",
        "(NEXT true) AND NOT EVENTUALLY[1,5] true",
        # ALWAYS waits for NOT p
        "(ALWAYS[0,5] p) AND EVENTUALLY[0,5] p",
        # always negated, on two ways
        "(p IMPLIES NOT EVENTUALLY[0,5] q) AND NOT ONCE EVENTUALLY[0,4] q",
        # operators of the past have no obligations of their own
        "((ONCE p) EQUIV ONCE q) AND (NEXT p) AND NEXT q",
    ],
)
def test_one_polarity_is_for_the_network(text: str) -> None:
    chosen = choice_of(f"({text}) AND NEXT NEXT r")
    assert chosen.name == "network"
    assert MIXED not in chosen.reason


def test_past_operators_are_no_obligations() -> None:
    """An obligation below a past operator of both polarities has both, and is the one named."""
    reason = choice_of("(ONCE EVENTUALLY[0,5] p) EQUIV q").reason
    assert reason.endswith(f"; EVENTUALLY[0,5] p{MIXED}")


def test_the_rules_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MOST_VARIABLES", 6)
    flat = conjunction([f"EVENTUALLY[0,5] p{i}" for i in range(9)])
    many = f"({flat}) AND NEXT NEXT p"
    mixed = "(NEXT NEXT p) AND ((NEXT q) EQUIV p)"
    assert choice_of(flat).reason == FLAT
    unbounded = f"({mixed}) AND EVENTUALLY p"
    assert choice_of(many).reason == "it has 11 operators that can wait, and the network takes 6"
    assert choice_of(mixed).reason.endswith("; NEXT q" + MIXED)
    assert choice_of(unbounded) == ("expressions", "its future is unbounded")
    for text in ("p", flat, many, mixed, unbounded):
        assert choice_of(text, "global") == (
            "expressions",
            "mode global compares time-points of different time-stamps",
        )


def test_unbounded_is_what_the_program_says() -> None:
    assert choice_of("ALWAYS (p IMPLIES EVENTUALLY[0,5] q)").name == "expressions"
    assert choice_of("NEXT NEXT p").name == "network"
    assert choice_of("ONCE EVENTUALLY[0,5] p").name == "network"


@pytest.mark.parametrize(
    "operator", ["EVENTUALLY[0,5] p{}", "NEXT p{}", "NEXT[1,2] p{}", "q{} UNTIL[1,2] p{}"]
)
def test_the_limit(operator: str) -> None:
    texts = [operator.format(i, i) for i in range(MOST_VARIABLES + 1)]
    assert choice_of(conjunction(texts)).reason == FLAT
    # past operators over the future count, those over the past do not
    first, second, _, *others = texts
    fitting = f"({conjunction(others)}) AND (ONCE[0,5] ({first}))"
    assert choice_of(f"{fitting} AND ONCE[0,5] r").name == "network"
    assert choice_of(f"{fitting} AND ({second})").reason.endswith(f"takes {MOST_VARIABLES}")
    assert choice_of(f"ONCE[0,5] ({conjunction(texts[2:])})").name == "network"
    assert choice_of(f"ONCE[0,5] ({conjunction(texts)})").name == "expressions"


def test_rows_that_the_root_does_not_use_do_not_count() -> None:
    rows = [(0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0)]
    rows += [(OPERATIONS.index("UNTIL"), 1, 2, lower, 9, 0) for lower in range(9)]
    assert choose_engine(rows, 2, True, "local").reason == FLAT
    assert choose_engine(rows, 5, True, "local").reason == FLAT


def test_operations_are_numbered_as_in_programs() -> None:
    numbers = {name: getattr(choice, f"_{name}") for name in OPERATIONS}
    assert list(numbers.values()) == list(range(len(OPERATIONS)))


@pytest.mark.parametrize(
    ("text", "local", "global_"),
    [
        ("p", True, True),
        ("(EVENTUALLY[0,5] p) EQUIV EVENTUALLY[2,6] p", True, True),
        ("ALWAYS[0,9] ((EVENTUALLY[0,5] p) EQUIV q)", True, False),
        ("ALWAYS[0,9] (p IMPLIES EVENTUALLY[3,5] q)", True, False),
        # obligations of one family with ordered windows come to one
        ("ALWAYS (p IMPLIES EVENTUALLY[0,5] q)", True, True),
        ("ALWAYS[5,9] EVENTUALLY[10,*) p", True, True),
        ("ALWAYS (p IMPLIES EVENTUALLY[3,5] q)", False, False),
        ("ALWAYS ((EVENTUALLY[0,5] p) EQUIV q)", False, False),
        ("ALWAYS ((EVENTUALLY[0,5] p) OR EVENTUALLY[0,5] q)", False, False),
        (f"NEXT ({conjunction([f'EVENTUALLY[0,5] p{i}' for i in range(12)])})", False, False),
    ],
)
def test_time_that_nothing_bounds(text: str, local: bool, global_: bool) -> None:
    formula = parse(text)
    assert has_time_bound(formula, "local") is has_time_bound(formula, "naive") is local
    assert has_time_bound(formula, "global") is global_


def test_choices_are_pairs() -> None:
    chosen = choice_of("p")
    name, reason = chosen
    assert (chosen.name, chosen.reason) == (name, reason)
    assert pickle.loads(pickle.dumps(chosen)) == chosen
    assert isinstance(pickle.loads(pickle.dumps(chosen)), EngineChoice)


# The rules once more, on rows as a tree: every path from the root by itself.


def paths(program: Program, operand: int, is_negated: bool) -> Iterator[tuple[int, bool]]:
    """The rows at the ends of all paths from an operand, and whether NOT is odd on the path."""
    is_negated ^= bool(operand & 1)
    yield operand >> 1, is_negated
    for below in operands(program, operand >> 1):
        yield from paths(program, below, is_negated)


def operands(program: Program, number: int) -> tuple[int, ...]:
    operation, left, right, *_ = program.rows[number]
    count = {"FALSE": 0, "ATOM": 0, "PREVIOUS": 1, "NEXT": 1}.get(OPERATIONS[operation], 2)
    return (left, right)[:count]


def operation_of(program: Program, number: int) -> str:
    return OPERATIONS[program.rows[number][0]].removeprefix("OUTER_")


def mixed_by_paths(program: Program) -> list[tuple[object, ...]]:
    """The families whose operators end paths of both kinds."""
    ends: dict[tuple[object, ...], set[bool]] = {}
    for number, is_negated in paths(program, program.root, False):
        kind = operation_of(program, number)
        if kind in ("NEXT", "UNTIL"):
            family = (kind, *operands(program, number))
            ends.setdefault(family, set()).add(is_negated)
    return [family for family, kinds in ends.items() if len(kinds) == 2]


def variables_by_paths(program: Program) -> set[int]:
    found = set()
    for number, _ in paths(program, program.root, False):
        kinds = {operation_of(program, below) for below, _ in paths(program, 2 * number, False)}
        if kinds & {"NEXT", "UNTIL"} and operation_of(program, number) != "AND":
            found.add(number)
    return found


def nests_by_paths(program: Program) -> bool:
    variables = variables_by_paths(program)
    return any(
        below in variables
        for number in variables
        for operand in program.rows[number][1:3]
        for below, _ in paths(program, operand, False)
    )


def is_junction(program: Program, operand: int, is_disjunction: bool) -> bool:
    """Whether at each time-point, an operand is a constant or a junction of operators that look
    ahead, negated or not."""
    waiting = [below for below in operands(program, operand >> 1) if looking_ahead(program, below)]
    if len(looking_ahead(program, operand)) <= 1:
        return True
    if len(waiting) == 2 and bool(operand & 1) is not is_disjunction:
        return False
    return all(is_junction(program, below ^ operand & 1, is_disjunction) for below in waiting)


def looking_ahead(program: Program, operand: int) -> set[int]:
    """The rows below an operand that look ahead."""
    below = {number for number, _ in paths(program, operand, False)}
    return {number for number in below if operation_of(program, number) in ("NEXT", "UNTIL")}


def agrees_with_paths(formula: Formula) -> EngineChoice:
    program = compile_formula(formula)
    chosen = choice_for(program)
    if not formula.is_bounded:
        assert chosen.reason == "its future is unbounded"
        return chosen
    mixed, variables = mixed_by_paths(program), variables_by_paths(program)
    if not nests_by_paths(program):
        fits = 2 <= len(variables) <= choice.MOST_VARIABLES if mixed else 4 <= len(variables) <= 10
        is_plain = any(is_junction(program, program.root, kind) for kind in (False, True))
        assert (chosen.name == "network") is (fits and not is_plain)
        assert chosen.reason == FLAT or (chosen.name == "network" and MIXED not in chosen.reason)
        return chosen
    assert f"{len(variables)} operators that" in chosen.reason
    assert (chosen.name == "network") is (len(variables) <= choice.MOST_VARIABLES)
    if chosen.name == "expressions":
        return chosen
    assert chosen.reason.endswith(MIXED) is bool(mixed)
    name = chosen.reason.partition("; ")[2].removesuffix(MIXED)
    if is_named(chosen) and " ... " not in name:
        names_one_of(program, mixed, name)
    return chosen


def is_named(chosen: EngineChoice) -> bool:
    return chosen.reason.endswith(MIXED) and not chosen.reason.endswith(UNNAMED + MIXED)


def names_one_of(program: Program, families: list[tuple[object, ...]], text: str) -> None:
    """The text is a formula whose outermost operator is of one of the families."""
    named = compile_formula(text)
    top = named.root >> 1
    found = (operation_of(named, top), *(written(named, o) for o in operands(named, top)))
    for kind, *below in families:
        if found == (kind, *(written(program, operand) for operand in below)):  # type: ignore[arg-type]
            return
    raise AssertionError(text)


def written(program: Program, operand: int) -> object:
    """An operand as a tree; conjunctions as the set of what they join."""
    number = operand >> 1
    kind = operation_of(program, number)
    _, _, _, lower, upper, index = program.rows[number]
    parts: object = tuple(written(program, below) for below in operands(program, number))
    if kind == "AND":
        parts = frozenset(joined(program, 2 * number))
    name = program.atoms[index] if kind == "ATOM" else ""
    return bool(operand & 1), kind, name, lower, upper, parts


def joined(program: Program, operand: int) -> Iterator[object]:
    if operand & 1 or operation_of(program, operand >> 1) != "AND":
        yield written(program, operand)
        return
    for below in operands(program, operand >> 1):
        yield from joined(program, below)


@given(strategies.formulas())
def test_agreement_with_paths(formula: Formula) -> None:
    agrees_with_paths(formula)


@given(strategies.bounded_formulas())
def test_agreement_with_paths_of_bounded_formulas(formula: Formula) -> None:
    agrees_with_paths(formula)


def test_agreement_with_paths_of_many_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeded, so that each answer is known to be among them."""
    monkeypatch.setattr(choice, "MOST_VARIABLES", 6)
    generator = random.Random(7)
    answers = [agrees_with_paths(random_formula(generator, 5)) for _ in range(1000)]
    reasons = [answer.reason for answer in answers]
    assert sum(map(is_named, answers)) > 100
    assert sum(reason.endswith("the network takes 6") for reason in reasons) > 20
    assert sum(answer.name == "network" for answer in answers) > 200


def test_agreement_with_paths_of_flat_formulas() -> None:
    generator = random.Random(5)
    answers = [agrees_with_paths(flat_formula(generator, size % 13 + 1)) for size in range(300)]
    assert 100 < sum(answer.name == "network" for answer in answers) < 250


def flat_formula(generator: random.Random, size: int) -> Formula:
    """So many operators that look ahead, and none of them waits for another."""
    if size == 1:
        operator = generator.choice([ops.NEXT, ops.EVENTUALLY, ops.ALWAYS, ops.ONCE])
        operand = atom(generator.choice("pqrstu"))
        return make(operator, operand, interval=Interval(0, generator.randint(1, 5)))
    operator = generator.choice([ops.AND, ops.AND, ops.AND, ops.OR, ops.OR, ops.IFF])
    left = generator.randint(1, size - 1)
    return make(operator, flat_formula(generator, left), flat_formula(generator, size - left))


def random_formula(generator: random.Random, depth: int) -> Formula:
    if not depth or generator.random() < 0.1:
        return atom(generator.choice("pqr"))
    operator = generator.choice([operator for operator in ops.OPERATORS if operator.arity])
    lower = generator.randint(0, 3)
    interval = Interval(lower, lower + generator.randint(0, 5)) if operator.is_temporal else None
    below = [random_formula(generator, depth - 1) for _ in range(operator.arity)]
    return make(operator, *below, interval=interval)


def deep(operator: ops.Operator, size: int) -> Formula:
    formula = atom("p")
    for _ in range(size):
        formula = make(operator, make(ops.NOT, formula), interval=SOON)
    return formula


def wide(size: int) -> Formula:
    formula = atom("p")
    for number in range(size):
        formula = make(ops.AND, formula, make(ops.NEXT, atom(f"a{number}"), interval=SOON))
    return formula


def mixed_outside() -> Formula:
    """The one mixed operator is the outermost."""
    mixed = make(ops.IFF, make(ops.NEXT, deep(ops.PREVIOUS, 10_000), interval=SOON), atom("q"))
    return make(ops.NEXT, mixed, interval=SOON)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: deep(ops.PREVIOUS, 10_000), FLAT),
        (lambda: deep(ops.NEXT, 10_000), ".* 10,000 operators .*"),
        (lambda: wide(50_000), FLAT),
        (lambda: make(ops.NEXT, wide(50_000), interval=SOON), ".* 50,001 operators .*"),
        (mixed_outside, f".*{UNNAMED}{MIXED}"),
    ],
    ids=["deep past", "deep future", "wide", "wide below NEXT", "mixed outside"],
)
def test_deep_and_wide_formulas(made: Callable[[], Formula], reason: str) -> None:
    assert re.fullmatch(reason, choice_of(made()).reason)


@pytest.mark.parametrize("levels", [10, 200])
def test_shared_subformulas_are_not_written_out(levels: int) -> None:
    formula = atom("p")
    for number in range(levels):
        formula = make(ops.SINCE, formula, make(ops.AND, formula, atom(f"a{number}")))
    formula = make(ops.NEXT, make(ops.IFF, make(ops.NEXT, formula), atom("q")))
    assert choice_of(formula).reason.endswith(UNNAMED + MIXED)


@pytest.mark.parametrize(
    "text", ["EVENTUALLY[0,{0}] p{0}", "(NEXT p{0}) EQUIV q{0}", "ONCE[0,{0}] p{0}"]
)
def test_steps_grow_with_size_alone(text: str) -> None:
    """Twice the rows, twice the lines of Python that run."""

    def lines(size: int) -> int:
        program = compile_formula(conjunction([text.format(i) for i in range(size)]))
        count = 0

        def tick(frame: object, event: str, _: object) -> Any:
            nonlocal count
            count += event == "line"
            return tick

        previous = sys.gettrace()
        sys.settrace(tick)
        try:
            choice_for(program)
        finally:
            sys.settrace(previous)
        return count

    few = lines(500)
    assert few > 1000
    assert lines(1000) <= 2.05 * few
