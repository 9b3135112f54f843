"""Hunts for counterexamples: random formulas with variables on random logs, against the reference.

python -m tests.relational.soak --seconds 60 --seed 1

Faster than hypothesis, with longer logs, and saved and restored anywhere. The first counterexample
is cut down by dropping time-points, rows and parts of the formula while anything still fails, then
printed as a policy file and a log.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from mtlmon import Formula
from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.policy import parse_policies
from mtlmon.relational import Answer, RelationalMonitor
from tests.doors import engine_of, postorder
from tests.reference.first_order import Database, Let, Log, Row, answers

DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
ATOMS = {"p": 1, "q": 2, "r": 0}
PAST = ["[0,0]", "[0,1]", "[1,2]", "[0,3]", "[0,*)", "[2,*)"]
_SHAPES = [
    "and",
    "and",
    "compare",
    "not",
    "or",
    "past",
    "past",
    "future",
    "since",
    "since",
    "until",
    "exists",
    "count",
    "aggregate",
    "join",
    "outside",
    "outside",
]
FUTURE = ["[0,0]", "[0,1]", "[1,2]", "[0,3]"]
EARLIER = ["[1,1]", "[1,2]", "[1,*)", "[2,*)"]

Found = tuple[str, frozenset[str]]
"""The text of a formula, and its free variables."""


class Example(NamedTuple):
    """A formula, a log, and the time-points behind which the engine is saved and restored.

    The formula can use the let `l`, which uses itself; `let` has its parameters and its formula.
    """

    formula: str
    log: Log
    cuts: frozenset[int]
    let: tuple[str, str] | None = None

    @property
    def policies(self) -> str:
        """The policy file."""
        let = "" if self.let is None else f"let l({self.let[0]}) = {self.let[1]}\n"
        return f"{DECLARED}{let}find f: {self.formula}\n"


class Generator:
    """Draws examples.

    Args:
        seed: of the random numbers.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        # how many arguments the let has that can be used, and whether nothing looks ahead
        self.width = 0
        self.is_past = False
        self.bound = 0

    def example(self, length: int = 8) -> Example:
        chance = self.random
        let = self.recursion() if chance.random() < 0.4 else None
        formula, _ = self.formula(chance.choice([1, 2, 2, 3, 3]))
        self.width = 0
        points: list[tuple[int, Database]] = []
        gaps = chance.choice([[0, 1], [0, 0, 1, 2], [1], [0, 1, 4]])
        time_stamp, density = 0, chance.choice([0.3, 0.6, 0.9])
        for _ in range(chance.randint(1, length)):
            time_stamp += chance.choice(gaps)
            points.append((time_stamp, self.database(density)))
        log = Log(tuple(points), time_stamp + chance.choice([0, 1, 9]), chance.random() < 0.5)
        cuts = frozenset(number for number in range(length) if chance.random() < 0.2)
        return Example(formula, log, cuts, let)

    def recursion(self) -> tuple[str, str]:
        """A let that uses itself: its parameters, and its formula."""
        chance = self.random
        names = chance.choice(["x", "x, y", "y, x"])
        width = len(names.split(", "))
        first = self.exactly(*self.formula(chance.choice([0, 0, 1])), names)
        self.width, self.is_past = width, True
        text, own = self.formula(chance.choice([1, 1, 2]))
        if "l(" not in text:
            text, own = f"({text}) AND l({', '.join('xyz'[:width])})", own | {*"xyz"[:width]}
        kind = chance.choice(["PREVIOUS", "PREVIOUS", "ONCE", "SINCE"])
        earlier = chance.choice(EARLIER)
        if kind == "PREVIOUS":
            used = f"(PREVIOUS{chance.choice(PAST)} ({text}))"
        elif kind == "ONCE":
            used = f"(ONCE{earlier} ({text}))"
        else:
            self.width = 0
            left = self.left(1, own)
            if chance.random() < 0.3:
                used = f"(PREVIOUS l({', '.join('xyz'[:width])}))"
                left = f"({left} OR {self.within(used, frozenset('xyz'[:width]), own)})"
            used = f"({left} SINCE{earlier} ({text}))"
        self.width, self.is_past = 0, False
        if chance.random() < 0.5:
            word = chance.choice(["", "", "NOT "])
            other, more = self.formula(chance.choice([0, 1]))
            if word:
                used, own = f"(({other}) AND NOT {self.within(used, own, more)})", more
            else:
                used, own = f"({used} AND ({other}))", own | more
        found = f"(({first}) OR ({self.exactly(used, own, names)}))"
        self.width = width
        return names, found

    def within(self, text: str, own: frozenset[str], names: frozenset[str]) -> str:
        """A formula with no other free variables than these."""
        return self.exists(own - names, text)

    def exists(self, names: frozenset[str], text: str) -> str:
        """EXISTS of variables, which get names of their own."""
        if not names:
            return f"({text})"
        bound = []
        for name in sorted(names):
            self.bound += 1
            bound.append(f"{name[0]}{self.bound}")
            text = re.sub(rf"\b{name}\b", bound[-1], text)
        return f"(EXISTS {', '.join(bound)}. ({text}))"

    def exactly(self, text: str, own: frozenset[str], names: str) -> str:
        """A formula with exactly these free variables."""
        wanted = names.split(", ")
        found = self.within(text, own, frozenset(wanted))
        for name in wanted:
            if name not in own:
                found = f"({found} AND p({name}))"
        return found

    def database(self, density: float) -> Database:
        chance = self.random
        found: dict[str, frozenset[Row]] = {}
        for name, width in ATOMS.items():
            rows: set[Row] = set()
            while chance.random() < density / 2:
                rows.add(tuple(chance.randint(0, 2) for _ in range(width)))
                density *= 0.8
            found[name] = frozenset(rows)
        return found

    def formula(self, depth: int) -> Found:
        """A formula that binds its free variables, mostly."""
        chance = self.random
        if depth == 0:
            return self.leaf()
        text, names = self.formula(depth - 1)
        shape = chance.choice(_SHAPES)
        if self.is_past and shape in {"future", "until", "outside", "count"}:
            shape = "and"
        if shape == "and":
            other, others = self.formula(depth - 1)
            return f"(({text}) AND ({other}))", names | others
        if shape == "compare" and names:
            left, right = (chance.choice([*sorted(names), "1"]) for _ in range(2))
            return f"(({text}) AND {left} {chance.choice(['<', '=', '>='])} {right})", names
        if shape == "not":
            return f"(({text}) AND NOT {self.filter(depth, names)})", names
        if shape == "or":
            return f"(({text}) OR ({self.fitted(depth, names)}))", names
        if shape == "past":
            operator = chance.choice(["ONCE", "ONCE", "PREVIOUS"])
            return f"({operator}{chance.choice(PAST)} ({text}))", names
        if shape == "future":
            operator = chance.choice(["EVENTUALLY", "EVENTUALLY", "NEXT"])
            return f"({operator}{chance.choice(FUTURE)} ({text}))", names
        if shape in {"since", "until"}:
            left = self.left(depth, names)
            word, bounds = ("SINCE", PAST) if shape == "since" else ("UNTIL", FUTURE)
            return f"({left} {word}{chance.choice(bounds)} ({text}))", names
        if shape == "exists" and names:
            name = chance.choice(sorted(names))
            return self.exists(frozenset({name}), text), names - {name}
        if shape == "count":
            word, bounds = chance.choice([("HISTORICALLY", PAST), ("ALWAYS", FUTURE)])
            counted = f"({word}{chance.choice(bounds)} {self.filter(depth, names)})"
            return f"(({text}) AND {chance.choice(['', 'NOT '])}{counted})", names
        if shape == "aggregate":
            by = sorted(name for name in names if chance.random() < 0.5)
            groups = f" BY {', '.join(by)}" if by else ""
            aggregate = f"COUNT({text}{groups})"
            if names and chance.random() < 0.5:
                word = chance.choice(["SUM", "SUM", "MAX", "MIN", "AVG"])
                aggregate = f"{word}({chance.choice(sorted(names))} OVER {text}{groups})"
            other = chance.choice(["1", "0", *by, *by])
            compared = f"({aggregate} {chance.choice(['<', '=', '>', '!='])} {other})"
            if chance.random() < 0.6:
                # COUNT and SUM of nothing are 0 for values that another conjunct binds
                binding = [f"{name} in (0, 1, 7)" for name in by]
                drivers = " AND ".join([*binding, chance.choice(["", "NOT "]) + compared])
                return f"({drivers})", frozenset(by)
            return compared, frozenset(by)
        if shape == "outside":
            asked = self.operator(depth - 1)
            extra = frozenset(re.findall(r"\b[xyz]\b", asked)) - names
            if chance.random() < 0.8:
                asked = self.exists(extra, asked)
                extra = frozenset()
            word = chance.choice(["", "NOT "])
            return f"(({text}) AND {word}{asked})", names | extra
        driver, own = self.leaf()
        held, others = self.leaf()
        left = chance.choice(["", f"{self.left(1, others)} SINCE "])
        word = "" if left else "ONCE "
        joined = f"ONCE{chance.choice(PAST)} (({driver}) AND ({left}{word}({held})))"
        return f"(({text}) AND {chance.choice(['', 'NOT '])}({joined}))", names | own | others

    def operator(self, depth: int) -> str:
        """An operator whose operands need not bind their variables."""
        chance = self.random
        is_past = chance.random() < 0.6
        bounds = PAST if is_past else FUTURE
        kind = chance.choice(["in", "in", "binary", "binary", "binary", "next", "always"])
        if kind == "binary":
            left, right = self.loose(depth), self.loose(depth)
            if chance.random() < 0.6:
                right, _ = self.leaf()
            return f"({left} {'SINCE' if is_past else 'UNTIL'}{chance.choice(bounds)} {right})"
        word = {
            "in": ("ONCE", "EVENTUALLY"),
            "next": ("PREVIOUS", "NEXT"),
            "always": ("HISTORICALLY", "ALWAYS"),
        }[kind][0 if is_past else 1]
        return f"({word}{chance.choice(bounds)} {self.loose(depth)})"

    def loose(self, depth: int) -> str:
        """A formula that need not bind its variables."""
        chance = self.random
        shape = chance.choice(["leaf", "not", "compare", "and", "and", "or", "exists", "operator"])
        if shape == "compare":
            left, right = chance.sample("xyz1", 2)
            return f"({left} {chance.choice(['<', '=', '>='])} {right})"
        if depth > 0 and shape in {"and", "or"}:
            return f"({self.loose(depth - 1)} {shape.upper()} {self.loose(depth)})"
        if depth > 0 and shape == "exists":
            return f"(EXISTS w. (q(w, {chance.choice('xyz')}) AND {self.loose(depth - 1)}))"
        if depth > 0 and shape == "operator":
            return self.operator(depth - 1)
        text, _ = self.leaf()
        return f"(NOT {text})" if shape == "not" else text

    def leaf(self) -> Found:
        chance = self.random
        first, second = chance.choice("xyz"), chance.choice("xyz_1")
        pair = f"q({first}, {second})"
        text = chance.choice([f"p({first})", pair, pair, f"q({second}, {first})"])
        if self.width and chance.random() < 0.4:
            text = f"l({first})" if self.width == 1 else f"l({first}, {second})"
        if chance.random() < 0.1:
            return "r", frozenset()
        return text, frozenset(re.findall(r"\b[xyz]\b", text))

    def filter(self, depth: int, names: frozenset[str]) -> str:
        """A formula with no other free variables."""
        text, own = self.formula(depth - 1)
        return self.exists(own - names, text)

    def left(self, depth: int, names: frozenset[str]) -> str:
        """The left side of SINCE or UNTIL."""
        chance = self.random
        found = chance.choice(["", "NOT ", "NOT "]) + self.filter(depth, names)
        if chance.random() < 0.3:
            found = f"({found} {chance.choice(['OR', 'AND'])} {self.filter(1, names)})"
        return found

    def fitted(self, depth: int, names: frozenset[str]) -> str:
        """A formula with exactly these free variables."""
        text = self.filter(depth, names)
        own = set(re.findall(r"\b[xyz]\b", text))
        for name in sorted(names):
            if name not in own:
                text = f"({text} AND p({name}))"
        return text


def read(example: Example) -> tuple[Formula, dict[str, Let]]:
    """The formula of an example, and its let."""
    file = parse_policies(example.policies)
    lets = {name: Let(own, file.lets[name]) for name, own in file.parameters.items()}
    return file.policies[0].formula, lets


def check(example: Example) -> bool:
    """Compare the engine with the reference; return whether the formula can be evaluated.

    Raises:
        AssertionError: they disagree.
    """
    _, log, cuts, _ = example
    try:
        monitor = RelationalMonitor(example.policies)
        names = monitor.plan.named_policies[0].variables
    except FormulaError:
        return False
    found: list[set[Row]] = [set() for _ in log.points]
    try:
        for number, (time_stamp, database) in enumerate(log.points):
            take(monitor.step(time_stamp, database), names, found)
            if number in cuts:
                saved = monitor.snapshot()
                monitor = RelationalMonitor(example.policies)
                monitor.restore(saved)
                assert monitor.snapshot() == saved, "a snapshot changes when it is restored"
        clock = max(log.clock, engine_of(monitor).clock)
        take(monitor.advance(clock), names, found)
        if log.closed:
            take(monitor.finish(), names, found)
    except MtlmonError as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    known = engine_of(monitor).answered_points[0]
    formula, lets = read(example)
    variables = set(re.findall(r"\b[wxyz]\d*\b", example.policies))
    types = dict.fromkeys(variables, int)
    expected = answers(formula, log, names, types=types, lets=lets)
    for point, rows in enumerate(found):
        if point < known:
            assert not expected[point].undecided, f"time-point {point} is answered too early"
            wanted = set(map(typed, expected[point].satisfying))
            assert set(map(typed, rows)) == wanted, f"time-point {point}: {rows}, not {wanted}"
        else:
            assert not rows, f"time-point {point} has rows, but no answer"
    assert known == len(log.points) or not log.closed, "time-points of a log that ended are open"
    return True


def typed(row: Row) -> tuple[tuple[type, object], ...]:
    """A row whose 1 differs from 1.0 and True."""
    return tuple((type(value), value) for value in row)


def take(given: list[Answer], names: tuple[str, ...], found: list[set[Row]]) -> None:
    """Sort answers by their time-points."""
    for answer in given:
        row = tuple(answer.valuation[name] for name in names)
        rows = found[answer.point]
        assert row not in rows, "an answer occurs twice"
        rows.add(row)


def fails(example: Example) -> str | None:
    """What is wrong with an example, or None."""
    try:
        check(example)
    except AssertionError as error:
        return str(error) or "an assertion failed"
    return None


def smaller(example: Example) -> Iterator[Example]:
    """Examples with a part less."""
    formula, log, cuts, let = example
    if cuts:
        yield example._replace(cuts=frozenset())
    for number, (time_stamp, database) in enumerate(log.points):
        before, behind = log.points[:number], log.points[number + 1 :]
        yield example._replace(log=log._replace(points=before + behind))
        for name, rows in database.items():
            for row in rows:
                less = {**database, name: frozenset(rows) - {row}}
                points = (*before, (time_stamp, less), *behind)
                yield example._replace(log=log._replace(points=points))
    read_formula, lets = read(example)
    if let is not None:
        yield example._replace(let=None)
        for node in postorder(lets["l"].formula):
            text = str(node)
            if len(text) < len(let[1]):
                yield example._replace(let=(let[0], text))
    for node in postorder(read_formula):
        text = str(node)
        if len(text) < len(formula):
            yield example._replace(formula=text)


def cut_down(example: Example) -> Example:
    """The smallest example that is found by dropping parts while it fails."""
    for other in smaller(example):
        if fails(other):
            return cut_down(other)
    return example


def shown(example: Example) -> str:
    """An example as a policy file and a log."""
    lines = [example.policies]
    for time_stamp, database in example.log.points:
        words = [
            f"{name}({', '.join(map(str, row))})"
            for name, rows in database.items()
            for row in sorted(rows)
        ]
        lines.append(" ".join([f"@{time_stamp}", *words]))
    ends = "ends" if example.log.closed else "goes on"
    lines.append(f"# the log {ends} at {example.log.clock}; saved behind {sorted(example.cuts)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: 1)")
    arguments = parser.parse_args()
    generator = Generator(arguments.seed)
    compared = refused = 0
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        example = generator.example()
        if (message := fails(example)) is not None:
            found = cut_down(example)
            print(f"{fails(found) or message}\n\n{shown(found)}")
            return 1
        if check(example):
            compared += 1
        else:
            refused += 1
    print(f"{compared} formulas compared, {refused} refused, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
