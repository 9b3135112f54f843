"""Slices that do not get all time-points: the answers, one by one, of an engine that does."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from mtlmon.errors import FormulaError, MtlmonError, PolicyError, RowError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.slicing import plan_slices
from tests.doors import RelationalEngine, SlicedEngine, plan, to_cell
from tests.reference.first_order import Database
from tests.relational.soak import DECLARED, Generator

Cells = tuple[int, int, int, int, int, tuple[int, ...]]
Points = list[tuple[int, Database]]


class Case(NamedTuple):
    """Policies and a log.

    Attributes:
        text: the policy file.
        points: the time-points.
        sizes: how many of them each block has; the last one has the rest.
        ends: what is known about time behind the last one: the clock, and whether the log ends.
        holding: whether time-points without violations are answered.
        cuts: the blocks behind which the engine is saved and restored, and gets other slices.
    """

    text: str
    points: Points
    sizes: list[int]
    ends: tuple[int, bool]
    holding: bool
    cuts: frozenset[int] = frozenset()


def add(engine: RelationalEngine | SlicedEngine, points: Points) -> None:
    numbers = {atom.name: number for number, atom in enumerate(engine.plan.named_atoms)}
    kinds = {atom.name: atom.kinds for atom in engine.plan.named_atoms}
    for time_stamp, database in points:
        rows: list[tuple[int, list[int]]] = []
        for name, some in database.items():
            if name not in numbers:
                continue
            for row in sorted(some):
                cells = [
                    to_cell(value, kind, engine.texts)
                    for value, kind in zip(row, kinds[name], strict=True)
                ]
                rows.append((numbers[name], [cell for cell in cells if cell is not None]))
        engine.points.add(time_stamp, rows)


class Run:
    """The answers of an engine, block by block.

    Attributes:
        found: the answers of each block, and behind them those at the end.
        failed: the error, and how many time-points had been read.
    """

    def __init__(self, case: Case, slices: int | None, *, is_ahead: bool = False) -> None:
        self.case = case
        self.slices = slices
        self.is_ahead = is_ahead
        self.found: list[list[Cells]] = []
        self.failed: tuple[str, int, int] | None = None
        self.engine = self.made()
        try:
            self.run()
        except RowError as error:
            self.found.append(self.engine.answers.take())
            self.failed = (str(error), self.engine.point_count, self.engine.clock)
        if isinstance(self.engine, SlicedEngine):
            self.engine.close()

    def made(self) -> RelationalEngine | SlicedEngine:
        file = parse_policies(self.case.text)
        analysis = analyse(file)
        engine: RelationalEngine | SlicedEngine
        if self.slices is None:
            made = plan(file, analysis)
            engine = RelationalEngine(made, made.texts)
        else:
            engine = SlicedEngine(file, analysis, plan_slices(file, analysis, self.slices))
            engine.is_ahead = self.is_ahead
        engine.wants_holding = self.case.holding
        return engine

    def reslice(self, engine: SlicedEngine, slices: int) -> None:
        file = parse_policies(self.case.text)
        exposed = engine.slicing.exposed
        engine.reslice(plan_slices(file, analyse(file), slices, exposed=exposed))

    def run(self) -> None:
        first = 0
        sizes = [*self.case.sizes, len(self.case.points)]
        is_same = True
        for number, size in enumerate(sizes):
            add(self.engine, self.case.points[first : first + size])
            first += size
            self.engine.advance()
            self.found.append(self.engine.answers.take())
            if number in self.case.cuts and not self.is_ahead:
                saved = self.engine.snapshot()
                self.engine = self.made()
                self.engine.restore(saved)
                if is_same:
                    assert self.engine.snapshot() == saved
                if isinstance(self.engine, SlicedEngine):
                    self.reslice(self.engine, 1 + (number + len(sizes)) % 5)
                    is_same = False
        clock, is_closed = self.case.ends
        if self.is_ahead:
            assert isinstance(self.engine, SlicedEngine)
            self.engine.settle()
            self.found.append(self.engine.answers.take())
        self.engine.end(max(clock, self.engine.clock), False)
        self.found.append(self.engine.answers.take())
        if is_closed:
            self.engine.end(self.engine.clock, True)
            self.found.append(self.engine.answers.take())
        self.counts = self.engine.answered_points


def same(case: Case, slices: int) -> None:
    """Slices give the answers of one engine, at the same moments."""
    expected = Run(case, None)
    found = Run(case, slices)
    assert found.found == expected.found
    assert found.failed == expected.failed
    ahead = Run(case, slices, is_ahead=True)
    assert [one for some in ahead.found for one in some] == [
        one for some in expected.found for one in some
    ]
    if expected.failed is None:
        assert found.counts == ahead.counts == expected.counts


def is_readable(text: str) -> bool:
    try:
        file = parse_policies(text)
        analysis = analyse(file)
        if analysis.errors or len(analysis.policies) != len(file.policies):
            return False
        plan(file, analysis)
    except (FormulaError, PolicyError):
        return False
    return True


def drawn(generator: Generator) -> Case:
    """Policies, most of which do not hold at time-points without rows, on a log with few rows."""
    chance = generator.random
    lines = []
    for number in range(chance.choice([1, 2, 2, 3])):
        formula, names = generator.formula(chance.choice([1, 1, 1, 2, 2, 3]))
        if chance.random() < 0.9:
            driver = f"q(x, {chance.choice('xyz')})" if chance.random() < 0.5 else "p(x)"
            formula = f"{driver} AND ({formula})"
        if chance.random() < 0.15:
            formula = f"({formula}) AND point({chance.choice(['i', *sorted(names)])})"
        word = chance.choice(["find f{}: {}", "policy f{}: NOT ({})"])
        lines.append(word.format(number, formula))
    if chance.random() < 0.2:
        lines.append("policy g: r IMPLIES EVENTUALLY EXISTS u. p(u)")
    if chance.random() < 0.2:
        lines.append("find h: (EXISTS x. p(x)) AND EVENTUALLY EXISTS x. p(x) AND r")
    text = DECLARED + "\n".join(lines) + "\n"
    gaps = chance.choice([[0, 1], [0, 0, 1, 2], [1], [0, 1, 4], [0]])
    time_stamp, density = 0, chance.choice([0.2, 0.5, 0.9])
    points: Points = []
    for _ in range(chance.randint(1, 30)):
        time_stamp += chance.choice(gaps)
        points.append((time_stamp, generator.database(density)))
    sizes = [chance.choice([1, 1, 2, 5, 9]) for _ in range(chance.randint(0, 6))]
    cuts = frozenset(number for number in range(7) if chance.random() < 0.3)
    ends = time_stamp + chance.choice([0, 1, 9]), chance.random() < 0.7
    return Case(text, points, sizes, ends, chance.random() < 0.4, cuts)


def compare_some(seed: int, count: int) -> tuple[int, int]:
    """Compare random cases; return how many there were, and in how many slices lacked some."""
    generator = Generator(seed)
    compared = sparse = 0
    while compared < count:
        case = drawn(generator)
        if not is_readable(case.text):
            continue
        slices = generator.random.choice([1, 2, 3, 4, 16])
        try:
            same(case, slices)
        except MtlmonError as error:
            raise AssertionError(f"{error}\n{case}") from error
        except AssertionError as error:
            raise AssertionError(f"{slices} slices: {case}") from error
        compared += 1
        file = parse_policies(case.text)
        sparse += not all(plan_slices(file, analyse(file), slices).whole(holding=case.holding))
    return compared, sparse


@pytest.mark.parametrize("seed", range(4))
def test_random_policies(seed: int) -> None:
    _, sparse = compare_some(seed, 60)
    assert sparse > 10


def test_an_error_comes_where_one_engine_finds_it() -> None:
    """A late block fails; what was found before it, and no more, is answered."""
    text = """
    atom p(x: int, y: int)
    atom q(x: int, z: int)
    find a: p(x, y) AND (EVENTUALLY[0,2] q(x, z)) AND y * z > 3
    find b: q(x, z)
    """
    points: Points = [
        (0, {"p": [(1, 2**62), (5, 1)]}),
        (1, {"q": [(1, 3), (5, 9)]}),
        (2, {"q": [(7, 7)]}),
        (2, {"p": [(5, 2)]}),
        (3, {"q": [(8, 8)]}),
        (3, {"q": [(5, 5)]}),
        (9, {"q": [(9, 9)]}),
    ]
    for sizes in ([], [1] * 7, [3], [4], [5, 1]):
        case = Case(text, points, sizes, (20, True), False)
        expected = Run(case, None)
        assert expected.failed is not None
        assert expected.failed[1:] == (5, 3)
        same(case, 4)


def test_previous_and_next_compare_numbers() -> None:
    """The rows of two slices are at neighbouring time-points, or not."""
    text = """
    atom p(x: text)
    atom q(x: text)
    find before: p(x) AND PREVIOUS q(x)
    find behind: p(x) AND NEXT q(x)
    policy none: p(x) IMPLIES NOT NEXT PREVIOUS p(x)
    """
    names = [f"u{k}" for k in range(8)]
    points: Points = []
    for k, name in enumerate(names):
        points += [(k, {"q": [(name,)]}), (k, {"p": [(name,)]})]
        points += [(k, {"p": [(names[k - 1],)]})] * (k % 3) + [(k, {"q": [(name,)]})]
    for sizes in ([], [1] * 40, [2] * 20, [5] * 4):
        same(Case(text, points, sizes, (20, True), False), 4)
    file = parse_policies(text.replace("policy none", "# "))
    assert not any(plan_slices(file, analyse(file), 4).whole())


def test_a_left_side_ends_where_a_slice_has_no_rows() -> None:
    text = (
        DECLARED
        + """
    find a: p(x) AND (p(x) SINCE q(x, _))
    find b: q(x, _) AND (p(x) UNTIL[0,9] q(x, x))
    find c: p(x) AND ((p(x) AND NOT q(x, x)) SINCE[0,5] q(y, x))
    find d: p(x) AND ONCE[0,4] EXISTS y. (q(x, y) AND (p(y) SINCE q(y, z)))
    """
    )
    file = parse_policies(text)
    assert not any(plan_slices(file, analyse(file), 4).whole())
    generator = Generator(3)
    points: Points = [(k // 4, generator.database(0.9)) for k in range(120)]
    for sizes in ([], [1] * 120, [7] * 20):
        case = Case(text, points, sizes, (200, True), False, frozenset({3, 9}))
        assert sum(map(len, Run(case, None).found)) > 40
        same(case, 4)


def test_which_slices_get_all_time_points() -> None:
    def whole(*policies: str, holding: bool = False) -> list[bool]:
        file = parse_policies(DECLARED + "\n".join(policies))
        return plan_slices(file, analyse(file), 4).whole(holding=holding)

    assert whole("find a: p(x) AND ONCE q(x, _)") == [False] * 4
    assert whole("find a: p(x) AND ONCE q(x, _)", holding=True) == [True, False, False, False]
    assert whole("find a: ONCE p(x)") == [True] * 4
    # policies in one slice: those of the second and the fourth look at all time-points
    lone = [
        "find a: COUNT(p(x)) > 1",
        "find b: NOT EXISTS x. p(x)",
        "find c: EXISTS x. p(x) AND p(2)",
        "find d: (EXISTS x. p(x)) AND EVENTUALLY EXISTS x. p(x) AND r",
    ]
    assert whole(*lone) == [True, True, False, True]


if __name__ == "__main__":
    import sys

    print(compare_some(int(sys.argv[1]), int(sys.argv[2])))
