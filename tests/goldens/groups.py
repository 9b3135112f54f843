"""The commands that are recorded: those of the tests' own generators, in groups.

A group is a function of a recorder and a number of seeds. Each seed stands for a few cases.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TypeVar

from hypothesis import Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from pyarrow import csv
from pytest import MonkeyPatch

from mtlmon import parse
from tests.checking import test_history_check
from tests.checking.late_streams import program
from tests.cli import (
    kills,
    test_kills,
    test_lateness_kills,
    test_mixed_kills,
    test_relation_kills,
    test_same_output,
    test_table_kills,
)
from tests.cli.test_late_runs import TABLES, TEXTS, Runs
from tests.corpus import load_cases
from tests.docs import pages
from tests.engines import Job, command_line
from tests.goldens.recording import Recorder
from tests.properties import has_advance
from tests.relational import soak as relational
from tests.relations import test_texts, texts
from tests.soak import SHORT, Generator
from tests.traces import MODES, Event

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
HERE = Path()
LATE_ROWS = 400
# tests with kills, and the names of their cases
KILLED = [
    *(
        (tests.test_killed_runs_write_what_an_undisturbed_one_does, tests.RUNS)
        for tests in (test_kills, test_table_kills, test_relation_kills)
    ),
    (test_relation_kills.test_killed_runs_over_tables, test_relation_kills.TABLE_RUNS),
    (test_mixed_kills.test_killed_runs_over_text, test_mixed_kills.RUNS),
    (test_mixed_kills.test_killed_runs_over_tables, test_mixed_kills.TABLE_RUNS),
    (test_table_kills.test_killed_runs_over_rows_that_come_late, ["csv", "jsonl"]),
]
# What may be asked of a run. Not all of it goes with all policies and logs, and then what is
# recorded is the message.
ASKED = """
--output-format jsonl; --output-format csv -o out.csv; --output-format parquet -o out.parquet;
--color always; --verdicts all; --verdicts boolean; --verdicts false --fail-on medium;
--verdicts first; --verdicts none --summary; --resolve; --mode global; --mode naive --resolve;
--explain; --explain-output why.html --explain-limit 3; --explain-output why.jsonl --rows;
--report report.html; --rows; --rows --explain --output-format jsonl; -C 1; -A 1 --rows;
-B 2 --output-format csv; --time-stamps iso --unit s; --time-stamps iso --explain;
--end-time last --summary; --end-time inf --fail-on-vacuous; --advance-every 3; --slices 3;
--slices 2 --report report.html; --max-rows 1; --time-points stamp; --key k --on-error skip;
--checkpoint saved -o out --output-format jsonl
"""
# ... and of rows that come late.
ASKED_LATE = """
--consistency strong; --consistency strong --explain; --consistency strong --report report.html;
--consistency weak --late late; --wait 2 --late late; --wait 3 --summary --on-error skip;
--clock key; --wait 2 --clock key --summary; --op op --summary; --on-error skip
"""


def docs(recorder: Recorder, seeds: int) -> None:
    """The commands of the documentation and the README; pages on Spark have none."""
    for page in ["../README.md", *pages.names()]:
        if not page.startswith("spark"):
            with recorder.case(f"docs/{page.removeprefix('../')}"):
                list(pages.run(page, without="spark", console=recorder.console))
    with recorder.case("docs/examples"):
        shutil.copytree(ROOT / "examples", "examples")
        for log in sorted([*Path("examples").glob("*.log"), *Path("examples").glob("*.csv")]):
            recorder.command(log.with_suffix(".mtl"), log)


def corpus(recorder: Recorder, seeds: int) -> None:
    """The corpus in all modes."""
    for case in load_cases():
        if not has_advance(case.trace):
            with recorder.case(f"corpus/{case.name}"):
                for mode in MODES:
                    job = Job(parse(case.formula), case.trace, mode, case.end_time)
                    recorder.command(*command_line(job, HERE))


def formulas(recorder: Recorder, seeds: int) -> None:
    """Random formulas on logs of text."""
    for seed in range(seeds):
        formula, steps, end = Generator(seed).example(2 * SHORT)
        events = [step for step in steps if isinstance(step, Event)]
        source = random.Random(f"formulas {seed}")
        with recorder.case(f"formulas/{seed}"):
            given = command_line(Job(formula, events, source.choice(MODES), end), HERE)
            done = recorder.command(*given)
            for asked in some(source, ASKED, 2):
                recorder.command(*given, *asked)
            Path("verdicts").write_text(done.output)
            recorder.command("resolve", "verdicts")
            recorder.command("resolve", "--in-order", "--verdicts", "false", "verdicts")
            recorder.command("--explain-formula", "formula.mtl")


def variables(recorder: Recorder, seeds: int) -> None:
    """Random formulas with variables on logs of text."""
    for seed in range(seeds):
        source = random.Random(f"variables {seed}")
        shown = relational.shown(relational.Generator(seed).example(16))
        policies, _, log = shown.partition("\n\n")
        with recorder.case(f"variables/{seed}"):
            Path("p.mtl").write_text(f"{policies}\n")
            Path("log").write_text(log[: log.index("#")])
            for asked in [[], *some(source, ASKED, 3)]:
                recorder.command(*asked, "p.mtl", "log")
            recorder.command("check-policy", "p.mtl")


def tables(recorder: Recorder, seeds: int) -> None:
    """Policies with keys, windows, ticks, relations and variables, on tables and on lines."""
    for seed in range(2 * seeds):
        is_text = seed % 2 == 1
        make = test_same_output.text_case_of if is_text else test_same_output.case_of
        case = make(seed)
        source = random.Random(f"tables {seed}")
        with recorder.case(f"tables/{seed} ({'text' if is_text else 'csv'})"):
            ways = test_same_output.Ways(case, is_text, HERE, recorder.command, MonkeyPatch())
            for asked in [[], *some(source, ASKED, 4)]:
                ways.of_file(case.rows, *asked)
            ways.of_file(test_same_output.late(source, case.rows, 50), "--sort")
            ways.of_file(test_same_output.late(source, case.rows, 9), "--wait", "3", "--late", "l")
            recorder.command("check-policy", "p.mtl")
            form = source.choice(["text", "json"])
            recorder.command(
                "analyze", "--format", form, "p.mtl", *([] if is_text else [ways.name])
            )
            recorder.command("streams", *([] if is_text else ["--key", "k"]), "p.mtl", ways.name)


def queries(recorder: Recorder, seeds: int) -> None:
    """Records of relations, and policies that look them up."""
    files = drawn(st.tuples(texts.files(), texts.rows_of_log(), texts.records_of_limits()), seeds)
    for seed, (declared, rows, limits) in enumerate(files):
        source = random.Random(f"queries {seed}")
        with recorder.case(f"queries/{seed}"):
            path = test_texts.write(HERE, declared, limits, "policy p: p")
            csv.write_csv(test_texts.log_of(rows), "log.csv")
            form = source.choice(["csv", "jsonl", "parquet"])
            for one in declared:
                output = ["--output-format", form, "-o", f"{one.name}.{form}"]
                recorder.command("query", *output, path, one.name, "log.csv")
            recorder.command("check-policy", path, "log.csv")


def late(recorder: Recorder, seeds: int) -> None:
    """Rows that come late, are taken back and replaced; logs that grow, with checkpoints."""
    kinds = [*((True, name) for name in TABLES), *((False, name) for name in TEXTS)]
    for seed in range(seeds):
        with recorder.case(f"late/{seed}"):
            sources = (random.Random(f"late {seed} {number}") for number in count())
            made = (Runs(source, recorder.command, HERE) for source in sources)
            wanted = kinds[seed % len(kinds)]
            runs = next(one for one in made if (one.is_table, one.kind) == wanted)
            runs.check()
            recorder.command("resolve", "--changelog", "out")
            options = [str(one) for one in runs.options]
            options += ["--op", "op", "--id", "id"] if runs.corrects else []
            more_late(recorder, runs.source, [*options, "p.mtl", "log"])
        source = random.Random(f"late streams {seed}")
        with recorder.case(f"late streams/{seed}"):
            Path("p.mtl").write_text(program(source).text)
            csv.write_csv(test_history_check.table(test_history_check.late_rows(seed)), "log.csv")
            more_late(recorder, source, ["p.mtl", "log.csv"])


def more_late(recorder: Recorder, source: random.Random, given: list[str]) -> None:
    lateness = ["--lateness", source.choice(["3", "9"])]
    recorder.command(*lateness, "--late", "late", *given)
    both = zip(some(source, ASKED_LATE, 3), some(source, ASKED, 3), strict=True)
    for asked, other in both:
        recorder.command(*lateness, *asked, *given)
        recorder.command(*lateness, *asked, *other, *given)


def killed(recorder: Recorder, seeds: int) -> None:
    """Runs that are killed and started again, until they come to their end."""
    for test, names in KILLED:
        for name in [*names][:seeds]:
            place = f"{test.__module__.rpartition('.')[2]}/{test.__name__}/{name}"
            with recorder.case(place) as folder, recorder.killed_runs():
                test(name, folder)
    for name, (policies, log, options, form) in [*test_lateness_kills.RUNS.items()][:seeds]:
        with recorder.case(f"test_lateness_kills/{name}"):
            Path("p.mtl").write_text(policies)
            source, every = random.Random(name), str(LATE_ROWS // 20)
            test_lateness_kills.make_log(Path(log), source, LATE_ROWS)
            given = ["--lateness", "50", "--late", "late", "--output-format", form, *options]
            given += ["-o", "out", "p.mtl"]
            recorder.command(*given, log)
            given += ["--resume", "--checkpoint", "saved", "--checkpoint-every", every]
            with recorder.killed_runs():
                # Between two checkpoints and reading a file: the next run begins at the first of
                # them, and so even tells the same changes.
                kills.run_killed(given, Path(log), Path("saved"), 1, source, can_pipe=False)
            if form == "text":
                recorder.command("latest", "out")


def some(source: random.Random, choices: str, count: int) -> list[list[str]]:
    """Some of the things that may be asked of a run."""
    return [one.split() for one in source.sample(choices.split(";"), count)]


def drawn(strategy: st.SearchStrategy[T], count: int) -> list[T]:
    """Examples of a strategy, always the same."""
    found: list[T] = []

    @seeded(0)
    @settings(max_examples=count, database=None, phases=[Phase.generate], deadline=None)
    @given(strategy)
    def collect(example: T) -> None:
        found.append(example)

    collect()
    return found


GROUPS: dict[str, Callable[[Recorder, int], None]] = {
    one.__name__: one for one in (docs, corpus, formulas, variables, tables, queries, late, killed)
}
