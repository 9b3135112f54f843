"""Hunts for counterexamples: random formulas on random traces, everything compared.

python -m tests.soak --seconds 60 --seed 1

Faster than hypothesis, and without its shrinking: the first counterexample is cut down by dropping
steps, atoms and operators while anything still fails, then printed as an entry for the corpus.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator

from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import FALSE, TRUE, Formula, atom, make
from mtlmon.syntax.interval import Interval
from tests.comparison import (
    compare,
    compare_at_the_end,
    compare_back_ends,
    compare_literally,
    compare_prefixes,
)
from tests.engines import Job, run_steps
from tests.properties import Timeline
from tests.traces import MODES, Advance, EndTime, Event, Step, Trace, format_step

ATOMS = ("p", "q", "r")
SHORT, LONG = 16, 200
_TEMPORAL = [operator for operator in ops.OPERATORS if operator.is_temporal]
_BOOLEAN = [ops.NOT, ops.AND, ops.OR, ops.IMPLIES, ops.IFF]
_BINARY = [ops.AND, ops.OR, ops.IMPLIES, ops.IFF]
_LEAVES = [*map(atom, ATOMS)] * 3 + [TRUE, FALSE]

Example = tuple[Formula, Trace, EndTime]


class Generator:
    """Draws examples; each draws its own odds first, so that extremes come up."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def example(self, maximum_length: int) -> Example:
        chance = self.random
        largest = chance.choice([1, 2, 4, 8])
        self.unbounded = chance.choice([0.0, 0.0, 0.2, 0.6])
        formula = self.formula(chance.choice([1, 2, 2, 3, 3, 4, 5]), largest)
        if chance.random() < 0.3:
            formula = self.compound(largest)
        increments = chance.choice([[0, 1], [0, 0, 0, 1], [0, 1, 2, 3], [1], [0, 1, 2, 9, 30]])
        advances = chance.choice([0.0, 0.0, 0.3])
        density = chance.choice([0.2, 0.5, 0.8])
        clock, steps = chance.choice([0, 0, 7]), list[Step]()
        for _ in range(chance.randint(1, maximum_length // chance.choice([1, 2, 4]))):
            clock += chance.choice(increments)
            if chance.random() < advances:
                steps.append(Advance(clock))
            else:
                letter = frozenset(name for name in ATOMS if chance.random() < density)
                steps.append(Event(clock, letter))
        return formula, tuple(steps), chance.choice([None, None, "last", "inf", clock + 1])

    def compound(self, largest: int) -> Formula:
        """A Boolean combination of shallow formulas: their outermost obligations meet."""
        chance = self.random
        parts = [self.formula(chance.choice([1, 1, 2]), largest) for _ in range(3)]
        inner = make(chance.choice(_BINARY), parts[0], parts[1])
        return make(chance.choice(_BINARY), inner, parts[2]) if chance.random() < 0.5 else inner

    def formula(self, depth: int, largest: int) -> Formula:
        chance = self.random
        if depth == 0 or chance.random() < 0.1:
            return chance.choice(_LEAVES)
        operator = chance.choice(_TEMPORAL if chance.random() < 0.65 else _BOOLEAN)
        operands = [self.formula(depth - 1, largest) for _ in range(operator.arity)]
        if not operator.is_temporal:
            return make(operator, *operands)
        lower = chance.choice([0, 0, chance.randint(0, largest)])
        upper = None if chance.random() < self.unbounded else lower + chance.randint(0, largest)
        return make(operator, *operands, interval=Interval(lower, upper))


def check(example: Example, *, thorough: bool) -> None:
    """Raises AssertionError if anything promised does not hold for the example."""
    formula, steps, end_time = example
    timeline = Timeline(steps, end_time)
    outputs = compare(formula, timeline)
    compare_literally(formula, timeline, outputs)
    if thorough:
        compare_back_ends(formula, timeline, outputs)
        compare_prefixes(formula, timeline, outputs)


def failure_of(example: Example) -> str | None:
    """What is wrong with the example; None if nothing is."""
    try:
        if len(example[1]) > SHORT:
            compare_at_the_end(*example[:2])
        else:
            check(example, thorough=True)
    except Exception as error:  # whatever the engine raises is a finding
        return f"{type(error).__name__}: {error}"
    return None


def smaller(example: Example) -> Iterator[Example]:
    """Examples a little simpler than this one."""
    formula, steps, end_time = example
    if end_time is not None:
        yield formula, steps, None
    for i in range(len(steps)):
        if len(steps) > 1:
            yield formula, steps[:i] + steps[i + 1 :], end_time
    yield from ((simpler, steps, end_time) for simpler in _simpler(formula))
    for i, step in enumerate(steps):
        if isinstance(step, Event):
            for name in step.atoms:
                poorer = step._replace(atoms=step.atoms - {name})
                yield formula, (*steps[:i], poorer, *steps[i + 1 :]), end_time
        gap = step.time_stamp - (steps[i - 1].time_stamp if i else 0)
        if gap > 0:
            nearer = [s._replace(time_stamp=s.time_stamp - 1) for s in steps[i:]]
            yield formula, (*steps[:i], *nearer), end_time


def _simpler(formula: Formula) -> Iterator[Formula]:
    yield from formula.operands
    if formula.operands:
        yield from (TRUE, FALSE, atom("p"))
    for i, operand in enumerate(formula.operands):
        for other in _simpler(operand):
            operands = (*formula.operands[:i], other, *formula.operands[i + 1 :])
            yield make(formula.operator, *operands, interval=formula.interval)
    interval = formula.interval
    if interval is not None:
        if interval.lower > 0:
            yield make(
                formula.operator,
                *formula.operands,
                interval=Interval(interval.lower - 1, interval.upper),
            )
        if interval.upper is not None and interval.upper > interval.lower:
            yield make(
                formula.operator,
                *formula.operands,
                interval=Interval(interval.lower, interval.upper - 1),
            )


def shrunk(example: Example) -> Example:
    """The smallest example that descent finds to fail as well."""
    while True:
        for candidate in smaller(example):
            if failure_of(candidate) is not None:
                example = candidate
                break
        else:
            return example


def as_corpus_entry(example: Example) -> str:
    """The example with what the engine says now, to be corrected by hand."""
    formula, steps, end_time = example
    lines = ["[[case]]", 'name = ""', 'rationale = ""', f"formula = {json.dumps(str(formula))}"]
    lines.append(f"trace = {json.dumps([format_step(step) for step in steps])}")
    if end_time is not None:
        lines.append(f"end = {json.dumps(end_time)}")
    for mode in MODES:
        try:
            output = run_steps(Job(formula, steps, mode, end_time))
            rows = [", ".join(row) for row in output]
        except Exception as error:  # shown as it is
            rows = [f"{type(error).__name__}: {error}"]
        lines.append(f"{mode} = {json.dumps(rows if end_time is not None else rows[:-1])}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: 1)")
    arguments = parser.parse_args()
    generator = Generator(arguments.seed)
    end = time.monotonic() + arguments.seconds
    count = 0
    while time.monotonic() < end:
        is_long = count % 40 == 39
        example = generator.example(LONG if is_long else SHORT)
        count += 1
        try:
            if is_long:
                compare_at_the_end(*example[:2])
            else:
                check(example, thorough=count % 20 == 0)
        except Exception as error:  # whatever the engine raises is a finding
            example = shrunk(example) if failure_of(example) else example
            print(f"example {count}: {error}\n", failure_of(example), as_corpus_entry(example))
            return 1
    print(f"{count} examples, no counterexample")
    return 0


if __name__ == "__main__":
    sys.exit(main())
