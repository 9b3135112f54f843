"""Every way into the engine, as one row each: the same tests run on all of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, NamedTuple

import mtlmon
from mtlmon import Formula, compile_formula, parse
from tests.cli import process
from tests.doors import MOST_VARIABLES, RunAnswer, TextMonitor, policy_label
from tests.feeding import FORMS
from tests.formulas import is_bounded
from tests.properties import Output
from tests.reference.folding import folded, looks_ahead, subformulas
from tests.reference.local import LocalEvaluator
from tests.reference.paper import PaperMonitor
from tests.traces import (
    Advance,
    EndTime,
    Event,
    Mode,
    Step,
    ended,
    format_step,
    prefix_of,
)
from tests.verdicts import json_line

BackEnd = Literal["auto", "cudd", "autoref"]


class Job(NamedTuple):
    """What to monitor, and how."""

    formula: Formula
    steps: Sequence[Step]
    mode: Mode
    end_time: EndTime = None
    bdd: BackEnd = "auto"


MakeMonitor = Callable[[Job], mtlmon.Monitor]
"""What makes the monitor of a job. The same tests run on all monitors that must agree."""


class EntryPoint(NamedTuple):
    """One way in.

    Attributes:
        run: the lines for each step and, last, those for the end of the log. Where the lines cannot
            be told apart by step, they all stand in the last place.
        by_step: whether they can.
        takes_advance: whether time can pass without an event.
    """

    name: str
    run: Callable[[Job], Output]
    by_step: bool
    takes_advance: bool


@lru_cache(maxsize=100_000)
def _program_of(formula: Formula) -> mtlmon.Program:
    return mtlmon.Monitor(formula).program


def make_shared(job: Job) -> mtlmon.Monitor:
    """A monitor of a program that all jobs of the formula share."""
    return mtlmon.Monitor(_program_of(job.formula), mode=job.mode, bdd=job.bdd)


def with_expressions(formula: Formula | str) -> mtlmon.Program:
    """The program of a formula for the engine of expressions, whatever engine is the choice."""
    return _program_for(formula, False)


def with_network(formula: Formula | str) -> mtlmon.Program:
    """The program of a formula for the queue network, whatever engine is the choice.

    The formula must be one that the network can monitor: see `fits_network`.
    """
    return _program_for(formula, True)


@lru_cache(maxsize=100_000)
def _program_for(formula: Formula | str, has_network: bool) -> mtlmon.Program:
    program = compile_formula(parse(formula) if isinstance(formula, str) else formula)
    return mtlmon.Program(
        program.rows, program.root, program.atoms, program.is_bounded, has_network
    )


def fits_network(formula: Formula) -> bool:
    """Whether the queue network can monitor a formula in the modes `local` and `naive`."""
    unknowns = sum(f.interval is not None and looks_ahead(f) for f in subformulas(folded(formula)))
    return is_bounded(formula) and unknowns <= MOST_VARIABLES


def programs_of(formula: Formula, mode: Mode) -> list[mtlmon.Program]:
    """The programs for the engines that can monitor a formula."""
    programs = [with_expressions(formula)]
    if mode != "global" and fits_network(formula):
        programs.append(with_network(formula))
    return programs


def make_with_expressions(job: Job) -> mtlmon.Monitor:
    """A monitor whose engine is that of expressions."""
    return mtlmon.Monitor(with_expressions(job.formula), mode=job.mode, bdd=job.bdd)


def make_with_network(job: Job) -> mtlmon.Monitor:
    """A monitor whose engine is the queue network, if it can monitor the formula."""
    program = _program_for(job.formula, fits_network(job.formula))
    return mtlmon.Monitor(program, mode=job.mode, bdd=job.bdd)


def make_own(job: Job) -> mtlmon.Monitor:
    """A monitor made from the formula."""
    return mtlmon.Monitor(job.formula, mode=job.mode, bdd=job.bdd)


def make_from_text(job: Job) -> mtlmon.Monitor:
    """A monitor made from the formula's text."""
    return mtlmon.Monitor(str(job.formula), mode=job.mode, bdd=job.bdd)


def run_steps(job: Job, make: MakeMonitor = make_shared) -> Output:
    """`Monitor.step`, `advance` and `finish`, one call for each step."""
    monitor = make(job)
    output = []
    for step in job.steps:
        if isinstance(step, Advance):
            verdicts = monitor.advance(step.time_stamp)
        else:
            verdicts = monitor.step(step.time_stamp, step.atoms)
        output.append(tuple(map(str, verdicts)))
    output.append(tuple(map(str, monitor.finish(job.end_time))))
    return tuple(output)


def run_iterator(job: Job, make: MakeMonitor = make_from_text) -> Output:
    """`monitor(events)`."""
    monitor = make(job)
    events = (step for step in job.steps if isinstance(step, Event))
    lines = [str(verdict) for verdict in monitor(events)]
    lines += map(str, monitor.finish(job.end_time))
    return (*((),) * len(job.steps), tuple(lines))


def run_arrays(job: Job, make: MakeMonitor = make_own) -> Output:
    """`Monitor.feed` with batches of a few events, each in another form."""
    monitor = make(job)
    lines: list[str] = []
    batches = _batches(job.steps, [1, 2, 0, 3, 5])
    for batch, form in zip(batches, cycle(FORMS), strict=False):
        if isinstance(batch, Advance):
            lines += map(str, monitor.advance(batch.time_stamp))
        else:
            lines += map(str, FORMS[form](monitor, batch))
    lines += map(str, monitor.finish(job.end_time))
    return (*((),) * len(job.steps), tuple(lines))


def _batches(steps: Sequence[Step], sizes: Sequence[int]) -> Iterator[list[Event] | Advance]:
    """Events in batches of these sizes over and over; an advance ends the batch before it."""
    sizes_left = cycle(sizes)
    batch: list[Event] = []
    size = next(sizes_left)
    for step in steps:
        while isinstance(step, Advance) or len(batch) == size:
            yield batch
            batch, size = [], next(sizes_left)
            if isinstance(step, Advance):
                yield step
                break
        else:
            batch.append(step)
    yield batch


def run_text(job: Job, make: MakeMonitor = make_own) -> Output:
    """The native loop over text, a line at a time."""
    return _run_text(job, make, resolve=False)


def run_resolved(job: Job, make: MakeMonitor = make_own) -> Output:
    """The same, with the Boolean value of every time-point instead of equivalences."""
    return _run_text(job, make, resolve=True)


def _run_text(job: Job, make: MakeMonitor, *, resolve: bool) -> Output:
    monitor = make(job)
    text = TextMonitor(monitor, resolve=resolve)
    output = []
    for step in job.steps:
        text.load(f"{format_step(step)}\n".encode())
        output.append(_lines_of(text))
    text.load_end()
    text.end(job.end_time)
    return (*output, _lines_of(text))


def run_blocks(job: Job, make: MakeMonitor = make_own) -> Output:
    """The same loop, fed with blocks of 3 bytes that end anywhere, the last line unfinished."""
    text = TextMonitor(make(job))
    log = "\n".join(map(format_step, job.steps)).encode()
    lines: list[str] = []
    for start in range(0, len(log), 3):
        text.load(log[start : start + 3])
        lines += _lines_of(text)
    text.load_end()
    lines += _lines_of(text)
    text.end(job.end_time)
    lines += _lines_of(text)
    return (*((),) * len(job.steps), tuple(lines))


def run_json_lines(job: Job, make: MakeMonitor = make_own) -> Output:
    """The same loop, with verdicts as JSON lines, which are turned back into text."""
    monitor = make(job)
    text = TextMonitor(monitor, label=policy_label("n", "jsonl"), format="jsonl")
    text.load("\n".join(map(format_step, job.steps)).encode())
    lines = list(_lines_of(text))
    text.load_end()
    lines += _lines_of(text)
    text.end(job.end_time)
    lines += _lines_of(text)
    found = []
    for line in lines:
        members = json.loads(line)
        value = members["verdict"]
        end = f"= {members['reference']}" if value is None else str(value).lower()
        found.append(f"{members['time']}:{members['offset']} {end}")
    assert lines == [json_line(line, "n") for line in found]
    return (*((),) * len(job.steps), tuple(found))


def _lines_of(text: TextMonitor) -> tuple[str, ...]:
    while text.run():
        pass
    return tuple(text.writer.take().decode().splitlines())


def run_command(job: Job) -> Output:
    """The command line as a process of its own, formula and log as files."""
    with tempfile.TemporaryDirectory() as directory:
        done = process.mtlmon(*command_line(job, Path(directory)))
    assert done.status in (0, 1), done.errors
    return (*((),) * len(job.steps), tuple(done.output.splitlines()))


def command_line(job: Job, directory: Path) -> list[str]:
    """The arguments of the command, after the formula and the log are written there."""
    end = [] if job.end_time is None else ["--end-time", str(job.end_time)]
    formula, log = directory / "formula.mtl", directory / "events.log"
    formula.write_text(f"{job.formula}\n", encoding="utf-8")
    log.write_text("".join(f"{format_step(step)}\n" for step in job.steps), encoding="utf-8")
    return ["--mode", job.mode, "--bdd", job.bdd, *end, str(formula), str(log)]


def run_literally(job: Job) -> Output:
    """The published algorithm, for comparison: it knows neither `advance` nor an end time."""
    monitor = PaperMonitor(job.formula, job.mode)
    output: list[tuple[str, ...]] = []
    for step in job.steps:
        if isinstance(step, Advance):
            output.append(())
        else:
            output.append(tuple(map(str, monitor.step(step.time_stamp, step.atoms))))
    return (*output, ())


def run_check(job: Job) -> Output:
    """`mtlmon.check`, with the log as a file."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "events.log")
        log.write_text("".join(f"{format_step(step)}\n" for step in job.steps), encoding="utf-8")
        run = mtlmon.check(job.formula, log, mode=job.mode, bdd=job.bdd, end_time=job.end_time)
        lines = _answer_lines(run)
    return (*((),) * len(job.steps), lines)


def _answer_lines(answers: Iterable[RunAnswer]) -> tuple[str, ...]:
    """Answers as the command writes them."""
    lines = []
    for one in answers:
        value = f"= {one.reference}" if one.verdict is None else str(one.verdict).lower()
        lines.append(f"{one.time}:{one.offset} {value}")
    return tuple(lines)


def _run_live(job: Job, *, text: bool) -> Output:
    """`mtlmon.live`, which is given rows or lines; every other step, another run goes on."""
    options: dict[str, Any] = {"mode": job.mode, "bdd": job.bdd, "end_time": job.end_time}
    run = mtlmon.live(job.formula, text=text, **options)
    output = []
    for number, step in enumerate(job.steps):
        if number % 2:
            run = mtlmon.live(job.formula, text=text, snapshot=run.snapshot(), **options)
        assert isinstance(step, Event)
        row = {"ts": step.time_stamp, **dict.fromkeys(step.atoms, True)}
        found = run.feed(format_step(step) if text else row)
        output.append(_answer_lines(found))
    return (*output, _answer_lines(run.end()))


def run_live(job: Job) -> Output:
    """`mtlmon.live`, with rows."""
    return _run_live(job, text=False)


def run_live_text(job: Job) -> Output:
    """`mtlmon.live`, with lines of a text log."""
    return _run_live(job, text=True)


@lru_cache(maxsize=4)
def run_by_definition(job: Job) -> Output:
    """The definition of `naive` and `local` mode for bounded formulas, evaluated slowly."""
    evaluator = LocalEvaluator(job.formula, job.mode)
    moments = [prefix_of(job.steps[: k + 1]) for k in range(len(job.steps))]
    moments.append(ended(prefix_of(job.steps), job.end_time))
    return tuple(tuple(map(str, evaluator.verdicts(moment))) for moment in moments)


STEPS = EntryPoint("steps", run_steps, by_step=True, takes_advance=True)
ITERATOR = EntryPoint("iterator", run_iterator, by_step=False, takes_advance=False)
ARRAYS = EntryPoint("arrays", run_arrays, by_step=False, takes_advance=True)
TEXT = EntryPoint("text", run_text, by_step=True, takes_advance=False)
BLOCKS = EntryPoint("blocks", run_blocks, by_step=False, takes_advance=False)
JSON_LINES = EntryPoint("JSON lines", run_json_lines, by_step=False, takes_advance=False)
COMMAND = EntryPoint("command", run_command, by_step=False, takes_advance=False)

CHECK = EntryPoint("check", run_check, by_step=False, takes_advance=False)
# time that passes decides a time-point there once the whole reach of its formula is over
LIVE = EntryPoint("live", run_live, by_step=True, takes_advance=False)
LIVE_TEXT = EntryPoint("live text", run_live_text, by_step=True, takes_advance=False)

ENTRY_POINTS: tuple[EntryPoint, ...] = (
    *(STEPS, ITERATOR, ARRAYS, TEXT, BLOCKS, JSON_LINES, COMMAND),
    *((CHECK, LIVE, LIVE_TEXT) if find_spec("pyarrow") else ()),
)


def flattened(output: Output) -> list[str]:
    """All lines of a run in order."""
    return [line for lines in output for line in lines]
