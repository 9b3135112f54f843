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

from tests.mutation.building import Shadow
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
from tests.mutation.switched import switched
from tests.mutation.testing import Limits, run_tests

_ROOT = Path(__file__).resolve().parents[2]
_SLOW = Limits(600, 3600)
# enough for most tests, few and all; a run that comes to the limit is judged by what the original
# takes
_USUAL_FEW = Limits(25, 600)
_USUAL = Limits(150, 1800)
# Most mutants are noticed by any of the cases of a test; with a seed properties have fewer, too.
_FEW = ("--every=12", "--hypothesis-seed=1")

# what tests take on the original, once that has been asked
_USED: dict[tuple[str, ...], float] = {}


class _Worker:
    """What a process needs for one mutant after the other."""

    current: _Worker

    def __init__(self, directory: str) -> None:
        self.shadow = Shadow(_ROOT, Path(tempfile.mkdtemp(dir=directory)))

    @classmethod
    def start(cls, directory: str) -> None:
        cls.current = cls(directory)

    def test(self, module: Module, mutants: list[Mutant], last: str) -> list[Result]:
        """Test mutants of one module, as many as can be with one compilation."""
        if not module.is_native:
            return self._one_by_one(module, mutants, last)
        text, together = switched(module.originals[mutants[0].source], mutants)
        alone = [one for one in mutants if one not in together]
        return self._halved(module, together, last, text) + self._one_by_one(module, alone, last)

    def _halved(
        self, module: Module, mutants: list[Mutant], last: str, text: str | None = None
    ) -> list[Result]:
        """Test mutants that can be in one text, in two parts if this one does not compile."""
        if len(mutants) < 2:
            return self._one_by_one(module, mutants, last)
        text = text or switched(module.originals[mutants[0].source], mutants)[0]
        if self.shadow.put(mutants[0].source, text):
            return self._results(module, mutants, last, text)
        half = len(mutants) // 2
        return self._halved(module, mutants[:half], last) + self._halved(
            module, mutants[half:], last
        )

    def _one_by_one(self, module: Module, mutants: list[Mutant], last: str) -> list[Result]:
        found = []
        for mutant in mutants:
            if self.shadow.put(mutant.source, mutant.text):
                found += self._results(module, [mutant], last, mutant.text)
            else:
                found.append(result_of(module, mutant, "invalid"))
        return found

    def _results(self, module: Module, mutants: list[Mutant], last: str, text: str) -> list[Result]:
        """Test mutants whose text is in its place; they have the numbers from 1."""
        try:
            return [
                self._result(module, mutant, last, text, number)
                for number, mutant in enumerate(mutants, 1)
            ]
        finally:
            self.shadow.remove(mutants[0].source)

    def _result(self, module: Module, mutant: Mutant, last: str, text: str, number: int) -> Result:
        used = 0.0
        for stage, tests in _stages(module, mutant, last).items():
            reached = stage
            run = run_tests(_ROOT, self.shadow.path, tests, _limits(tests), number)
            used += run.used
            if run.outcome == "timeout" and tests not in _USED:
                self.shadow.remove(mutant.source)
                self._time_original(tests)
                self.shadow.put(mutant.source, text)
                run = run_tests(_ROOT, self.shadow.path, tests, _limits(tests), number)
                used += run.used
            if run.outcome != "passed":
                break
        return result_of(module, mutant, run.outcome, run.by, reached, used)

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


def _test(module: Module, mutants: list[Mutant], last: str) -> list[Result]:
    return _Worker.current.test(module, mutants, last)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=".ci/mutate",
        description="Put small faults into the code, one at a time, and see whether tests notice.",
        epilog="Runs that are interrupted go on where they were. Survivors are shown with their "
        "change; those that are no fault belong in tests/mutation/equivalent.toml.",
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
    parser.add_argument("--retry", action="store_true", help="test survivors of former runs again")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("build/mutation.jsonl"),
        metavar="FILE",
        help="where results are kept, one JSON line a mutant (default: build/mutation.jsonl)",
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
        failing = _Worker(directory).failing(tests)
    for one in results:
        if one.by in failing:
            journal.add(replace(one, outcome="doubtful"))
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
        options.processes, get_context("fork"), _Worker.start, (directory,)
    ) as pool:
        try:
            for module in modules:
                for result in _results(module, options, journal, equivalents, pool):
                    results.append(result)
                    if time.monotonic() > deadline:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            pool.shutdown(cancel_futures=True)
            print("\ninterrupted; the same command goes on from here")
    return results


def _results(
    module: Module,
    options: argparse.Namespace,
    journal: Journal,
    equivalents: Equivalents,
    pool: ProcessPoolExecutor,
) -> Iterator[Result]:
    """Those of as many mutants as wanted, in an order that the seed decides.

    What does not compile is not counted, so there is a next batch until enough are. The batches
    are the same however many processes work on them.
    """
    found = module.shuffled(f"{options.seed}:{module.name}") if options.sample else module.mutants
    order = (mutant for mutant in found if options.only in mutant.before)
    wanted = options.sample or len(module.mutants)
    while wanted and (batch := [*islice(order, wanted)]):
        untested = []
        for mutant in batch:
            known = journal.known.get(mutant.identity)
            if equivalents.has(module, mutant):
                known = result_of(module, mutant, "equivalent")
            elif known and known.outcome in ("equivalent", "doubtful"):
                known = None
            elif known and known.outcome == "passed":
                is_open = options.retry or not known.has_reached(options.until)
                known = None if is_open else known
            if known:
                if known.is_counted:
                    wanted -= 1
                    yield known
            else:
                untested.append(mutant)
        by_identity = {mutant.identity: mutant for mutant in untested}
        tested = [
            pool.submit(_test, module, some, options.until)
            for some in _shares(module, untested, options.processes)
        ]
        for future in as_completed(tested):
            for result in future.result():
                _show(module, by_identity[result.mutant], result)
                journal.add(result)
                if result.is_counted:
                    wanted -= 1
                    yield result


def _shares(module: Module, mutants: list[Mutant], processes: int) -> list[list[Mutant]]:
    """What is tested at a time: a native module is compiled once for as many as possible."""
    if not module.is_native:
        return [[mutant] for mutant in mutants]
    size = max(1, -(-len(mutants) // processes))
    return [mutants[start : start + size] for start in range(0, len(mutants), size)]


def _show(module: Module, mutant: Mutant, result: Result) -> None:
    place = f"{result.source}:{result.line}"
    print(f"{result.outcome:10} {place} {result.operator} {result.by}", flush=True)
    if result.outcome == "passed":
        print(mutant.diff(module.originals[mutant.source]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
