"""The command: chooses mutants, has them tested, prints survivors and scores."""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.mutation.building import Shadow
from tests.mutation.modules import CORPUS, Module, chosen, find_modules
from tests.mutation.mutants import Mutant
from tests.mutation.results import (
    Equivalents,
    Journal,
    Result,
    folder_table,
    result_of,
    score_table,
)
from tests.mutation.testing import Limits, run_tests

_ROOT = Path(__file__).resolve().parents[2]
_SLOW = Limits(600, 3600)

# what tests take, by the tests: many modules of a folder have the same
_USED: dict[tuple[str, ...], float] = {}

Stages = dict[str, tuple[tuple[str, ...], Limits]]


class _Worker:
    """What a process needs for one mutant after the other."""

    current: _Worker

    def __init__(self, directory: str) -> None:
        self.shadow = Shadow(_ROOT, Path(tempfile.mkdtemp(dir=directory)))

    @classmethod
    def start(cls, directory: str) -> None:
        cls.current = cls(directory)

    def test(self, module: Module, mutant: Mutant, stages: Stages) -> Result:
        try:
            if not self.shadow.put(mutant.source, mutant.text):
                return result_of(module, mutant, "invalid")
            used = 0.0
            for stage, (tests, limits) in stages.items():
                reached = stage
                ordered = module.tests_of(mutant.source) if stage == "nearest" else tests
                run = run_tests(_ROOT, self.shadow.path, ordered, limits)
                used += run.used
                if run.outcome != "passed":
                    break
            return result_of(module, mutant, run.outcome, run.by, reached, used)
        finally:
            self.shadow.remove(mutant.source)

    def measure(self, module: Module, tests: tuple[str, ...]) -> float:
        """The seconds of the processor that tests take on the original, compiled as mutants are."""
        source = module.sources[0]
        try:
            if not self.shadow.put(source, module.originals[source]):
                output = self.shadow.compiler_output()
                raise SystemExit(f"{source} does not compile as it is:\n{output}")
            run = run_tests(_ROOT, self.shadow.path, tests, _SLOW)
        finally:
            self.shadow.remove(source)
        if run.outcome != "passed":
            raise SystemExit(f"tests of {module.name} fail without a mutant:\n{run.output}")
        return run.used


def _test(module: Module, mutant: Mutant, stages: Stages) -> Result:
    return _Worker.current.test(module, mutant, stages)


def _measure(module: Module, tests: tuple[str, ...]) -> float:
    return _Worker.current.measure(module, tests)


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
        "--nearest-only", action="store_true", help="do not run the corpus on what survives"
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
    deadline = time.monotonic() + 3600 * (options.hours or 1e6)
    equivalents = Equivalents()
    results: dict[str, list[Result]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="mutants.") as directory,
        ProcessPoolExecutor(
            options.processes, get_context("fork"), _Worker.start, (directory,)
        ) as pool,
    ):
        try:
            for module in modules:
                results[module.name] = []
                for result in _results(module, options, journal, equivalents, pool):
                    results[module.name].append(result)
                    _show(module, result)
                    if time.monotonic() > deadline:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            pool.shutdown(cancel_futures=True)
            print("\ninterrupted; the same command goes on from here")
    print(f"\n{score_table(results)}\n\n{folder_table(results)}")
    return int(any(result.outcome == "passed" for some in results.values() for result in some))


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
    justified = equivalents.of(module)
    order = [mutant for mutant in module.mutants if options.only in mutant.before]
    if options.sample:
        random.Random(f"{options.seed}:{module.name}").shuffle(order)
    wanted = options.sample or len(order)
    stages: Stages = {}
    while order and wanted:
        batch, order = order[:wanted], order[wanted:]
        untested = []
        for mutant in batch:
            known = journal.known.get(mutant.identity)
            if mutant.identity in justified:
                known = result_of(module, mutant, "equivalent")
            elif known and known.outcome == "equivalent":
                known = None
            if known and not (options.retry and known.outcome == "passed"):
                if known.is_counted:
                    wanted -= 1
                    yield known
            else:
                untested.append(mutant)
        if untested and not stages:
            stages = _stages(module, options.nearest_only, pool)
        tested = [pool.submit(_test, module, mutant, stages) for mutant in untested]
        for future in as_completed(tested):
            result = future.result()
            journal.add(result)
            if result.is_counted:
                wanted -= 1
                yield result


def _stages(module: Module, nearest_only: bool, pool: ProcessPoolExecutor) -> Stages:
    stages = {"nearest": module.tests}
    if not nearest_only and CORPUS not in module.tests:
        stages["corpus"] = (CORPUS,)
    measured: Stages = {}
    for stage, tests in stages.items():
        if tests not in _USED:
            _USED[tests] = pool.submit(_measure, module, tests).result()
        used = _USED[tests]
        print(f"# {module.name}, {stage}: {used:.1f} s without a mutant", flush=True)
        measured[stage] = tests, Limits.after(used)
    return measured


def _show(module: Module, result: Result) -> None:
    place = f"{result.source}:{result.line}"
    print(f"{result.outcome:10} {place} {result.operator} {result.by}", flush=True)
    if result.outcome == "passed":
        for mutant in module.mutants:
            if mutant.identity == result.mutant:
                print(mutant.diff(module.originals[mutant.source]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
