"""The command: chooses mutants, has them tested, prints survivors and scores."""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.mutation.building import Shadow
from tests.mutation.modules import Module, chosen, find_modules
from tests.mutation.mutants import Mutant
from tests.mutation.results import (
    KILLED,
    SURVIVED,
    Equivalents,
    Journal,
    Result,
    folder_table,
    result_of,
    score_table,
)
from tests.mutation.switched import has_choice, is_in_function
from tests.mutation.testing import Recording, outcomes, record

Place = tuple[Module, Mutant]

_ROOT = Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "tests" / "mutation" / "results.jsonl"
_FEW_FILES = 8


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=".ci/mutate",
        description="Put small faults into the code, one at a time, and see whether tests notice.",
        epilog="All mutants are built at once, and the tests run once without any, which shows "
        "which of them reach which mutants; then each mutant is tested with some of those. "
        "Runs that are interrupted go on where they were, and what is known of lines that "
        "are as they were is not tested again. Survivors are shown with their change; those that "
        "are no fault belong in tests/mutation/equivalent.toml.",
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="which ones; all if none")
    parser.add_argument("--list", action="store_true", help="show the modules")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only changes to lines with this text"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="test N mutants a module, not all")
    parser.add_argument(
        "--hours", type=float, default=1e6, metavar="H", help="stop after H hours as if interrupted"
    )
    parser.add_argument("--seed", default="1", help="chooses the sample (default: 1)")
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="test N mutants at a time"
    )
    parser.add_argument(
        "--every",
        type=int,
        default=9,
        metavar="N",
        help="use every Nth case of a test, and 1/N of the examples of properties (default: 9)",
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="K", help="begin with case K of each test"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=20,
        metavar="S",
        help="test a mutant with as many tests as take so long without it (default: 20)",
    )
    parser.add_argument(
        "--tests",
        action="append",
        metavar="PATH",
        help="a folder or file of tests, or several; all if not given",
    )
    parser.add_argument(
        "--known", action="store_true", help="test nothing; show what is known of the mutants"
    )
    parser.add_argument("--retry", action="store_true", help="test survivors of former runs again")
    parser.add_argument(
        "--results",
        type=Path,
        default=_RESULTS,
        metavar="FILE",
        help="where results are kept, one JSON line a mutant "
        f"(default: {_RESULTS.relative_to(_ROOT)})",
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="where to build, and to leave what was built"
    )
    return parser.parse_args()


def _interrupt(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    options = _arguments()
    signal.signal(signal.SIGTERM, _interrupt)
    modules = chosen(find_modules(_ROOT), options.modules)
    if options.list:
        print(*(module.name for module in modules), sep="\n")
        return 0
    journal = Journal(options.results)
    known, untested = _sample(modules, options, journal)
    results = [*known]
    if untested and not options.known:
        if options.directory:
            options.directory.mkdir(parents=True, exist_ok=True)
            results += _tested(untested, options, journal, options.directory)
        else:
            with tempfile.TemporaryDirectory(prefix="mutants.") as directory:
                results += _tested(untested, options, journal, Path(directory))
        journal.tidy()
    by_module: dict[str, list[Result]] = {}
    for one in results:
        if one.is_counted:
            by_module.setdefault(one.module, []).append(one)
    print(f"\n{score_table(by_module)}\n\n{folder_table(by_module)}")
    return int(any(one.outcome in SURVIVED for one in results))


def _sample(
    modules: Sequence[Module], options: argparse.Namespace, journal: Journal
) -> tuple[list[Result], list[Place]]:
    """What is known of the mutants that are wanted, and those of which nothing is."""
    known: list[Result] = []
    untested: list[Place] = []
    # the dearest to read first
    modules = sorted(modules, key=lambda one: -sum(map(len, one.originals.values())))
    with ProcessPoolExecutor(options.processes, get_context("fork")) as pool:
        found = [pool.submit(_sample_of, one, options, journal) for one in modules]
        for module, one in zip(modules, found, strict=True):
            some, mutants = one.result()
            known += some
            untested += [(module, mutant) for mutant in mutants]
    # so that a part of the time is spent on a part of each folder
    random.Random(options.seed).shuffle(untested)
    return known, untested


def _sample_of(
    module: Module, options: argparse.Namespace, journal: Journal
) -> tuple[list[Result], list[Mutant]]:
    equivalents = Equivalents()
    retried = {"equivalent", "doubtful"}
    if options.retry and not options.known:
        retried.update(SURVIVED)
    known: list[Result] = []
    untested: list[Mutant] = []
    counted = 0
    found = module.shuffled(f"{options.seed}:{module.name}") if options.sample else module.mutants
    for mutant in found:
        if options.sample and counted == options.sample:
            break
        if options.only not in mutant.before:
            continue
        result = journal.known(module, mutant)
        if equivalents.has(module, mutant):
            result = result_of(module, mutant, "equivalent")
        elif result and result.outcome in retried:
            result = None
        if result is None:
            if not has_choice(module.originals[mutant.source], mutant):
                continue
            untested.append(mutant)
        else:
            known.append(result)
            if result.outcome in SURVIVED:
                _show(module, mutant, result)
        counted += result is None or result.is_counted
    return known, untested


def _tested(
    places: Sequence[Place], options: argparse.Namespace, journal: Journal, directory: Path
) -> list[Result]:
    """Build mutants, and have them tested. Each result is written at once."""
    deadline = time.monotonic() + 3600 * options.hours
    by_number = dict(enumerate(places, 1))
    results: dict[int, Result] = {}

    def note(number: int, outcome: str, by: str = "") -> None:
        module, mutant = by_number[number]
        results[number] = result_of(module, mutant, outcome, by)
        journal.add(results[number])
        _show(module, mutant, results[number])

    _say(f"building {len(places)} mutants")
    shadow = Shadow(_ROOT, directory)
    mutants = {number: mutant for number, (_, mutant) in by_number.items()}
    for number in sorted(shadow.put(mutants, options.processes)):
        note(number, "invalid")
    _say("running the tests without any")
    arguments = [
        f"--every={options.every}",
        f"--first={options.first}",
        "--hypothesis-seed=1",
        "--ignore=tests/mutation",
        *(options.tests or ["tests"]),
    ]
    recording = record(directory, arguments, len(places), options.processes)
    _say(f"{len(recording.seconds)} tests reach mutants; {len(recording.failing)} of no use")
    for name in recording.failing:
        print(f"fails without a mutant: {name}")
    asked: dict[int, dict[str, Any]] = {}
    for number in set(by_number) - set(results):
        tests = _tests_of(number, by_number, recording, options.seconds)
        if tests["tests"]:
            asked[number] = tests
        else:
            note(number, "unreached")
    _say(f"testing {len(asked)} mutants")
    try:
        for one in outcomes(directory, arguments, asked, options.processes):
            note(**one)
            if time.monotonic() > deadline:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("\ninterrupted; the same command goes on from here")
    _withdraw(results, directory, arguments, options.processes, journal)
    return [*results.values()]


def _tests_of(
    number: int, places: Mapping[int, Place], recording: Recording, seconds: float
) -> dict[str, Any]:
    """What a session is to do with a mutant."""
    module, mutant = places[number]
    is_alone = number in recording.at_import or not is_in_function(
        module.originals[mutant.source], mutant
    )
    near = [number]
    if is_alone:
        # tests of the module: the change is made before they begin
        near = [one for one, (_, other) in places.items() if other.source == mutant.source]
        if not any(one in recording.reached for one in near):
            near = [one for one, (other, _) in places.items() if other is module]
    # these are collected for it alone
    tests = recording.tests_of(near, seconds, _FEW_FILES if is_alone else None)
    used = sum(recording.seconds[name] for name in tests)
    return {
        "tests": tests,
        "is_alone": is_alone,
        "seconds": 4 * used + 10,
        "patience": 30 * used + 60,
    }


def _withdraw(
    results: dict[int, Result],
    directory: Path,
    arguments: Sequence[str],
    processes: int,
    journal: Journal,
) -> None:
    """Tell results from which nothing follows: the test fails without the mutant, too."""
    tests = sorted({one.by for one in results.values() if one.outcome in KILLED and "::" in one.by})
    first = max(results, default=0) + 1
    asked = {
        number: {"tests": [name], "is_alone": False, "seconds": 600, "patience": 1800}
        for number, name in enumerate(tests, first)
    }
    _say(f"running {len(tests)} tests that noticed mutants without any")
    for one in outcomes(directory, arguments, asked, processes):
        if one["outcome"] == "passed":
            continue
        name = tests[one["number"] - first]
        print(f"fails without a mutant: {name}")
        for number, result in results.items():
            if result.by == name:
                results[number] = replace(result, outcome="doubtful")
                journal.add(results[number])


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _show(module: Module, mutant: Mutant, result: Result) -> None:
    place = f"{result.source}:{result.line}"
    print(f"{result.outcome:10} {place} {result.operator} {result.by}", flush=True)
    if result.outcome in SURVIVED:
        print(mutant.diff(module.originals[mutant.source]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
