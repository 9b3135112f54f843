"""One call at a time uses an object; another one is refused, and changes nothing.

Two ways to get there: a call from what a method iterates over, in its own thread and in another
one; and all methods at once from several threads, which is where memory would be corrupted.
"""

from __future__ import annotations

import random
import re
import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest

from mtlmon import InUseError, MtlmonError
from tests.public_objects import CASES, Case, call, methods_of

_SECONDS = 0.4
_THREADS = 4
# what a method raises where its own arguments are to blame
_FINE = (MtlmonError, KeyError, StopIteration)


def _attempts(case: Case, made: Any, wanted: type[BaseException]) -> list[str]:
    """Call all methods that are guarded; return those that did not raise that error."""
    wrong = []
    for name in methods_of(made):
        if name in case.free | {"__repr__"}:
            continue
        try:
            call(case, made, name, random.Random(1), 60)
        except wanted as error:
            if not re.match(r"the (?!None)[\w' ]+ is in use: ", str(error)):
                wrong.append(f"{name} does not say what is in use: {error}")
            continue
        except Exception as error:
            wrong.append(f"{name}: {error!r}")
        else:
            wrong.append(f"{name}: no error")
    return wrong


@pytest.mark.parametrize("is_other", [False, True], ids=["same thread", "other thread"])
def test_a_call_within_a_call_is_refused(is_other: bool) -> None:
    tried = 0
    for name, case in CASES.items():
        if case.hold is None:
            continue
        wrong: list[str] = []

        def inside(made: Any, case: Case = case, wrong: list[str] = wrong) -> None:
            def attempt() -> None:
                wrong.extend(_attempts(case, made, InUseError))

            if not is_other:
                attempt()
                return
            thread = threading.Thread(target=attempt)
            thread.start()
            thread.join()

        made = case.hold(inside)
        assert wrong == [], name
        # and now it is free
        case.works(made, random.Random(1), 61)
        tried += 1
    assert tried > 8


def test_what_needs_no_guard_answers_within_a_call() -> None:
    for name, case in CASES.items():
        if case.hold is None:
            continue

        def inside(made: Any, case: Case = case) -> None:
            for free in sorted(case.free | {"__repr__"}):
                call(case, made, free, random.Random(1), 60)

        assert case.free <= set(methods_of(case.hold(inside))), name


def _storm(case: Case, seed: int) -> Counter[str]:
    """Call all methods of one object from several threads; count what is raised."""
    made = case.make()
    names = methods_of(made)
    outcomes: Counter[str] = Counter()
    stop = time.monotonic() + _SECONDS
    last = stop - 0.1 * _SECONDS

    def work(number: int) -> None:
        source = random.Random(seed * _THREADS + number)
        while time.monotonic() < stop:
            name = source.choice(names)
            if name in case.ends and (time.monotonic() < last or source.random() < 0.9):
                continue
            # of all threads together, times mostly grow
            now = 100 + int(1e4 * (time.monotonic() - stop + _SECONDS))
            try:
                call(case, made, name, source, now)
            except _FINE as error:
                outcomes[type(error).__name__] += 1
            except Exception as error:
                outcomes[f"{name} raises {type(error).__name__}: {error}"] += 1
            else:
                outcomes["ok"] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        case.works(made, random.Random(1), 10**9)
    except InUseError:
        raise
    except _FINE:
        # it has ended
        pass
    return outcomes


def test_all_methods_in_several_threads() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    refused = 0
    try:
        for number, (name, case) in enumerate(CASES.items()):
            if not case.is_native:
                continue
            outcomes = _storm(case, number)
            assert not [one for one in outcomes if " raises " in one], name
            assert outcomes["ok"], name
            refused += outcomes["InUseError"]
    finally:
        sys.setswitchinterval(interval)
    assert refused


@pytest.mark.parametrize("slices", [2])
def test_slices_in_several_threads(slices: int) -> None:
    from tests.public_objects import relational_monitor

    case = CASES["RelationalMonitor"]._replace(make=lambda: relational_monitor(slices))
    outcomes = _storm(case, 1)
    assert not [one for one in outcomes if " raises " in one]
    assert outcomes["ok"]
