"""The command: chooses mutants, has them tested, prints survivors and scores."""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from tests.mutation.building import Shadow, unit_of
from tests.mutation.modules import CORPUS, Module, chosen, find_modules
from tests.mutation.mutants import Mutant
from tests.mutation.results import (
    STAGES,
    Equivalents,
    Journal,
    Result,
    folder_table,
    result_of,
    score_table,
)
from tests.mutation.switched import blamed, switched
from tests.mutation.testing import Limits, run_tests

Place = tuple[Module, Mutant]

_ROOT = Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "tests" / "mutation" / "results.jsonl"
_SLOW = Limits(600, 3600)
# enough for most tests, few and all; a run that comes to the limit is judged by what the original
# takes
_USUAL_FEW = Limits(25, 600)
_USUAL = Limits(150, 1800)
# Most mutants are noticed by any of the cases of a test; with a seed properties have fewer, too.
_FEW = ("--every=12", "--hypothesis-seed=1")
_MOST_TOGETHER = 40

# what tests take on the original, once that has been asked
_USED: dict[tuple[str, ...], float] = {}


class _Worker:
    """What a process needs for one mutant after the other."""

    current: _Worker

    def __init__(self, directory: str, journal: Journal) -> None:
        self.shadow = Shadow(_ROOT, Path(tempfile.mkdtemp(dir=directory)))
        self.journal = journal

    @classmethod
    def start(cls, directory: str, journal: Journal) -> None:
        cls.current = cls(directory, journal)

    def test(self, places: list[Place], last: str) -> list[Result]:
        """Test mutants of one compiled unit, as many as can be with one compilation."""
        module, _ = places[0]
        if not module.is_native:
            return self._one_by_one(places, last)
        unit = unit_of(_ROOT, places[0][1].source)
        originals = {unit: (_ROOT / unit).read_text()}
        originals |= {one.source: module.originals[one.source] for module, one in places}
        alone: list[Place] = []
        while places:
            texts, taken = switched(originals, unit, [mutant for _, mutant in places])
            by_mutant = {id(mutant): (module, mutant) for module, mutant in places}
            chosen = [by_mutant.pop(id(mutant)) for mutant in taken]
            alone += by_mutant.values()
            if self.shadow.put(texts):
                return self._results(chosen, last, texts) + self._one_by_one(alone, last)
            wrong = blamed(self.shadow.compiler_output(), texts) or {*range(1, len(chosen) + 1)}
            alone += [place for number, place in enumerate(chosen, 1) if number in wrong]
            places = [place for number, place in enumerate(chosen, 1) if number not in wrong]
        return self._one_by_one(alone, last)

    def _one_by_one(self, places: list[Place], last: str) -> list[Result]:
        found = []
        for module, mutant in places:
            texts = {mutant.source: mutant.text}
            if self.shadow.put(texts):
                found += self._results([(module, mutant)], last, texts)
            else:
                found.append(self._written(result_of(module, mutant, "invalid")))
        return found

    def _results(self, places: list[Place], last: str, texts: dict[Path, str]) -> list[Result]:
        """Test mutants whose texts are in their places; they have the numbers from 1."""
        try:
            return [
                self._written(self._result(module, mutant, last, texts, number))
                for number, (module, mutant) in enumerate(places, 1)
            ]
        finally:
            self.shadow.remove(next(iter(texts)))

    def _written(self, result: Result) -> Result:
        """Write a result at once: those of a share that is interrupted stay."""
        self.journal.add(result)
        return result

    def _result(
        self, module: Module, mutant: Mutant, last: str, texts: dict[Path, str], number: int
    ) -> Result:
        for stage, tests in _stages(module, mutant, last).items():
            reached = stage
            run = run_tests(_ROOT, self.shadow.path, tests, _limits(tests), number)
            if run.outcome == "timeout" and tests not in _USED:
                self.shadow.remove(mutant.source)
                self._time_original(tests)
                self.shadow.put(texts)
                run = run_tests(_ROOT, self.shadow.path, tests, _limits(tests), number)
            if run.outcome != "passed":
                break
        return result_of(module, mutant, run.outcome, run.by, reached)

    def _time_original(self, tests: tuple[str, ...]) -> None:
        """Know the limits that the original keeps."""
        original = run_tests(_ROOT, self.shadow.path, tests, _SLOW)
        if original.outcome != "passed":
            raise SystemExit(f"tests fail without a mutant:\n{original.output}")
        _USED[tests] = original.used

    def failing(self, tests: set[str]) -> set[str]:
        """Those of some tests that fail on the original, too."""
        if not tests or self._passes(*sorted(tests)):
            return set()
        return {test for test in tests if not self._passes(test)}

    def _passes(self, *tests: str) -> bool:
        return run_tests(_ROOT, self.shadow.path, tests, _SLOW).outcome == "passed"


def _limits(tests: tuple[str, ...]) -> Limits:
    if tests in _USED:
        return Limits.after(_USED[tests])
    return _USUAL_FEW if tests[: len(_FEW)] == _FEW else _USUAL


def _stages(module: Module, mutant: Mutant, last: str) -> dict[str, tuple[str, ...]]:
    """The tests that a mutant has to pass, those that fail soonest first."""
    nearest = module.tests_of(mutant.source)
    tests = {"few": (*_FEW, *nearest), "nearest": nearest, "corpus": (CORPUS,)}
    wanted = STAGES[: STAGES.index(last) + 1]
    return {stage: tests[stage] for stage in wanted}


def _test(places: list[Place], last: str) -> list[Result]:
    return _Worker.current.test(places, last)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=".ci/mutate",
        description="Put small faults into the code, one at a time, and see whether tests notice.",
        epilog="Runs that are interrupted go on where they were, and what is known of lines that "
        "are as they were is not tested again. Survivors are shown with their change; those that "
        "are no fault belong in tests/mutation/equivalent.toml.",
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="which ones; all if none")
    parser.add_argument("--list", action="store_true", help="show the modules and their tests")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only changes to lines with this text"
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="test N mutants a module, not all; the modules come in an order that the seed decides",
    )
    parser.add_argument(
        "--hours", type=float, metavar="H", help="stop after H hours as if interrupted"
    )
    parser.add_argument("--seed", default="1", help="chooses the sample (default: 1)")
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="test N mutants at a time"
    )
    parser.add_argument(
        "--until",
        choices=STAGES,
        default=STAGES[-1],
        help="stop with a few cases of the nearest tests, or with all of them (default: corpus)",
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
    return parser.parse_args()


def _interrupt(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    options = _arguments()
    signal.signal(signal.SIGTERM, _interrupt)
    modules = chosen(find_modules(_ROOT), options.modules)
    if options.list:
        for module in modules:
            print(f"{module.name:24} {' '.join(module.tests)}")
        return 0
    if options.sample:
        # so that a part of the time is spent on a part of each folder
        random.Random(options.seed).shuffle(modules)
    journal = Journal(options.results)
    with tempfile.TemporaryDirectory(prefix="mutants.") as directory:
        results = _all_results(modules, options, journal, directory)
        tests = {one.by for one in results if one.outcome == "failed" and one.by}
        failing = set() if options.known else _Worker(directory, journal).failing(tests)
    for one in results:
        if one.by in failing:
            journal.add(replace(one, outcome="doubtful"))
    journal.tidy()
    if failing:
        raise SystemExit(f"these tests fail without a mutant, too: {', '.join(sorted(failing))}")
    by_module: dict[str, list[Result]] = {}
    for one in results:
        by_module.setdefault(one.module, []).append(one)
    print(f"\n{score_table(by_module)}\n\n{folder_table(by_module)}")
    return int(any(one.outcome == "passed" for one in results))


def _all_results(
    modules: list[Module], options: argparse.Namespace, journal: Journal, directory: str
) -> list[Result]:
    """Those of all modules, or as many as there is time for."""
    results: list[Result] = []
    deadline = time.monotonic() + 3600 * (options.hours or 1e6)
    equivalents = Equivalents()
    with ProcessPoolExecutor(
        options.processes, get_context("fork"), _Worker.start, (directory, journal)
    ) as pool:
        try:
            for together in _units(modules):
                for result in _results(together, options, journal, equivalents, pool):
                    results.append(result)
                    if time.monotonic() > deadline:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            pool.shutdown(cancel_futures=True)
            print("\ninterrupted; the same command goes on from here")
    return results


def _units(modules: list[Module]) -> list[list[Module]]:
    """The modules, those that are compiled as one unit together."""
    units: dict[Path, list[Module]] = {}
    for module in modules:
        source = module.sources[0]
        units.setdefault(unit_of(_ROOT, source) if module.is_native else source, []).append(module)
    return [*units.values()]


def _results(
    modules: list[Module],
    options: argparse.Namespace,
    journal: Journal,
    equivalents: Equivalents,
    pool: ProcessPoolExecutor,
) -> Iterator[Result]:
    """Those of as many mutants of each module as wanted, in an order that the seed decides.

    What does not compile is not counted, so there is a next batch until enough are. The batches
    are the same however many processes work on them.
    """
    by_name = {module.name: module for module in modules}
    orders: dict[str, Iterator[Mutant]] = {}
    wanted: dict[str, int] = {}
    for name, module in by_name.items():
        found = module.shuffled(f"{options.seed}:{name}") if options.sample else module.mutants
        orders[name] = (mutant for mutant in found if options.only in mutant.before)
        wanted[name] = options.sample or len(module.mutants)
    while batch := [
        (module, mutant)
        for name, module in by_name.items()
        for mutant in islice(orders[name], wanted[name])
    ]:
        untested = []
        for module, mutant in batch:
            known = journal.known(module, mutant)
            if equivalents.has(module, mutant):
                known = result_of(module, mutant, "equivalent")
            elif known and known.outcome in ("equivalent", "doubtful"):
                known = None
            elif known and known.outcome == "passed":
                is_open = options.retry or not known.has_reached(options.until)
                known = None if is_open and not options.known else known
            if known:
                if known.is_counted:
                    wanted[module.name] -= 1
                    if known.outcome == "passed":
                        _show(module, mutant, known)
                    yield known
            elif options.known:
                # others do not take the place of those that are not tested yet
                wanted[module.name] -= 1
            else:
                untested.append((module, mutant))
        by_identity = {mutant.identity: mutant for _, mutant in untested}
        tested = [
            pool.submit(_test, some, options.until) for some in _shares(untested, options.processes)
        ]
        for future in as_completed(tested):
            for result in future.result():
                _show(by_name[result.module], by_identity[result.mutant], result)
                if result.is_counted:
                    wanted[result.module] -= 1
                    yield result


def _shares(places: list[Place], processes: int) -> list[list[Place]]:
    """What is tested at a time: a unit is compiled once for as many as an interruption may cost."""
    if not places or not places[0][0].is_native:
        return [[place] for place in places]
    size = min(_MOST_TOGETHER, max(1, -(-len(places) // processes)))
    return [places[start : start + size] for start in range(0, len(places), size)]


def _show(module: Module, mutant: Mutant, result: Result) -> None:
    place = f"{result.source}:{result.line}"
    print(f"{result.outcome:10} {place} {result.operator} {result.by}", flush=True)
    if result.outcome == "passed":
        print(mutant.diff(module.originals[mutant.source]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
