"""Hunts for counterexamples: random formulas on random traces, everything compared.

python -m tests.soak --seconds 60 --seed 1
python -m tests.soak --local

With `--local`, `naive` and `local` mode are compared with their definition alone, on longer traces
of all event rates: those of the queue network and of the engine of expressions, the snapshots of
the network, and the saved states of both.

Faster than hypothesis, and without its shrinking: the first counterexample is cut down by dropping
steps, atoms and operators while anything still fails, then printed as an entry for the corpus.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle, product

from mtlmon import FALSE, TRUE, Formula, atom
from tests.comparison import (
    compare,
    compare_at_the_end,
    compare_back_ends,
    compare_by_definition,
    compare_engines,
    compare_literally,
    compare_prefixes,
    compare_restored,
    compare_saved,
    shift,
)
from tests.doors import Interval, make
from tests.doors import syntax_operators as ops
from tests.engines import (
    Job,
    MakeMonitor,
    fits_network,
    make_shared,
    run_steps,
    with_expressions,
    with_network,
)
from tests.properties import Timeline
from tests.reference.folding import folded, looks_ahead
from tests.traces import MODES, Advance, EndTime, Event, Mode, Step, Trace, format_step

ATOMS = ("p", "q", "r")
SHORT, LONG = 16, 200
_TEMPORAL = [operator for operator in ops.OPERATORS if operator.is_temporal]
_BOOLEAN = [ops.NOT, ops.AND, ops.OR, ops.IMPLIES, ops.IFF]
_BINARY = [ops.AND, ops.OR, ops.IMPLIES, ops.IFF]
_LEAVES = [*map(atom, ATOMS)] * 3 + [TRUE, FALSE]

Example = tuple[Formula, Trace, EndTime]

Check = Callable[[Example], None]
"""Raises AssertionError if something is wrong with an example."""

RATES = {1: 16, 3: 24, 6: 36, 30: 75}
"""Event rates, and how many events a trace of that rate has."""

GAPS: dict[str, Callable[[random.Random], int]] = {
    "equal": lambda chance: 1,
    "uniform": lambda chance: chance.randint(1, 5),
    "exponential": lambda chance: 1 + int(chance.expovariate(0.5)),
    "leaps": lambda chance: chance.choice([1, 1, 1, 40]),
}
"""How far apart neighbouring time-stamps are."""

INCREMENTS = [[0, 1], [0, 0, 0, 1], [0, 1, 2, 3], [1], [0, 1, 2, 9, 30]]
"""The distances of neighbouring events; of each list, one as often as another."""


class Generator:
    """Draws examples; each draws its own odds first, so that extremes come up."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.unbounded = 0.0
        self.gap: Callable[[], int] = lambda: 1  # how far apart neighbouring events may be

    def example(self, maximum_length: int) -> Example:
        chance = self.random
        increments = chance.choice(INCREMENTS)
        self.gap = lambda: chance.choice(increments)
        largest = chance.choice([1, 2, 4, 8])
        self.unbounded = chance.choice([0.0, 0.0, 0.2, 0.6])
        formula = self.formula(chance.choice([1, 2, 2, 3, 3, 4, 5]), largest)
        if chance.random() < 0.3:
            formula = self.compound(largest)
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

    def rated_example(self, rate: int, gaps: str, length: int | None = None) -> Example:
        """A bounded formula that looks ahead, and a trace of that rate.

        Now and then the trace has time that passes without an event.
        """
        chance = self.random
        self.unbounded = 0.0
        self.gap = lambda: GAPS[gaps](chance) if chance.random() * rate < 1 else 0
        while True:
            largest = chance.choice([1, 2, 4, 8])
            formula = self.formula(chance.choice([2, 2, 3, 3, 4, 5]), largest)
            if chance.random() < 0.3:
                formula = self.compound(largest)
            if looks_ahead(folded(formula)):
                break
        density, advances = chance.choice([0.2, 0.5, 0.8]), chance.choice([0.0, 0.0, 0.1])
        is_regular = chance.random() < 0.5
        clock, steps = 0, list[Step]()
        for i in range(RATES[rate] if length is None else length):
            begins = i % rate == 0 if is_regular else chance.random() * rate < 1
            if begins:
                clock += GAPS[gaps](chance)
            if chance.random() < advances:
                clock += chance.randint(0, 2)
                steps.append(Advance(clock))
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
        if operator in (ops.NEXT, ops.PREVIOUS):
            return make(operator, *operands, interval=self.step_interval(largest))
        lower = chance.choice([0, 0, chance.randint(0, largest)])
        upper = None if chance.random() < self.unbounded else lower + chance.randint(0, largest)
        return make(operator, *operands, interval=Interval(lower, upper))

    def step_interval(self, largest: int) -> Interval:
        """An interval of NEXT or PREVIOUS: events that are neighbours miss it as often as not.

        They miss it on either side: they are too near to each other, or too far apart.
        """
        chance = self.random
        gap = self.gap()
        slack = chance.randint(0, min(2, largest))
        if chance.random() < 0.5:
            lower, upper = max(0, gap - slack), gap + chance.randint(0, 2)
        elif gap > 0 and chance.random() < 0.5:
            lower, upper = max(0, gap - 1 - slack), gap - 1
        else:
            lower = gap + 1 + slack
            upper = lower + chance.randint(0, largest)
        return Interval(lower, None if chance.random() < self.unbounded else upper)


def check(example: Example, *, thorough: bool) -> None:
    """Raises AssertionError if anything promised does not hold for the example."""
    formula, steps, end_time = example
    timeline = Timeline(steps, end_time)
    outputs = compare(formula, timeline)
    compare_literally(formula, timeline, outputs)
    compare_by_definition(formula, timeline, outputs)
    compare_engines(formula, timeline)
    if thorough:
        compare_back_ends(formula, timeline, outputs)
        compare_prefixes(formula, timeline, outputs)


def check_all(example: Example) -> None:
    """Raises AssertionError if anything fails that can be checked on a trace of that length."""
    if len(example[1]) > SHORT:
        compare_at_the_end(*example[:2])
    else:
        check(example, thorough=True)


def check_by_definition(example: Example, *, make: MakeMonitor = make_shared) -> None:
    """Raises AssertionError if `naive` or `local` mode differs from its definition."""
    formula, steps, end_time = example
    modes: tuple[Mode, ...] = ("naive", "local")
    outputs = {mode: run_steps(Job(formula, steps, mode, end_time), make) for mode in modes}
    compare_by_definition(formula, Timeline(steps, end_time), outputs)


def check_both_engines(example: Example) -> None:
    """Raises AssertionError if an engine differs from the definition, or a state has two forms."""
    formula, steps, end_time = example
    check_by_definition(example)
    if not fits_network(formula):
        return
    compare_engines(formula, Timeline(steps, end_time))
    modes: tuple[Mode, ...] = ("naive", "local")
    for mode in modes:
        compare_restored(with_network(formula), steps, mode)
        compare_saved(with_network(formula), steps, mode)
        compare_saved(with_expressions(formula), steps, mode)
        # Beyond 2^48, states have no place in the transition table.
        compare_restored(with_network(formula), shift(Timeline(steps), 2**50).steps, mode)


def failure_of(example: Example, check: Check = check_all) -> str | None:
    """What is wrong with the example; None if nothing is."""
    try:
        check(example)
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


def shrunk(example: Example, check: Check = check_all) -> Example:
    """The smallest example that descent finds to fail as well."""
    while True:
        for candidate in smaller(example):
            if failure_of(candidate, check) is not None:
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


def hunt(generator: Generator, end: float) -> tuple[int, Example | None]:
    """Checks all that is promised; returns how many examples, and the one that failed."""
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
            print(error)
            return count, example
    return count, None


def hunt_by_definition(generator: Generator, end: float) -> tuple[int, Example | None]:
    """Checks `naive` and `local` mode, likewise."""
    count = 0
    for rate, gaps in cycle(product(RATES, GAPS)):
        if time.monotonic() > end:
            break
        example = generator.rated_example(rate, gaps)
        count += 1
        try:
            check_both_engines(example)
        except Exception as error:  # whatever the engine raises is a finding
            print(error)
            return count, example
    return count, None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: 1)")
    parser.add_argument(
        "--local", action="store_true", help="only compare naive and local with their definition"
    )
    arguments = parser.parse_args()
    generator = Generator(arguments.seed)
    end = time.monotonic() + arguments.seconds
    hunting, check = (
        (hunt_by_definition, check_both_engines) if arguments.local else (hunt, check_all)
    )
    count, example = hunting(generator, end)
    if example is None:
        print(f"{count} examples, no counterexample")
        return 0
    if failure_of(example, check):
        example = shrunk(example, check)
    print(f"example {count}:", failure_of(example, check), as_corpus_entry(example), sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
