"""Policies `at most 20%` in tests: as often as the command allows, and never in the middle."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.testing import LiveMonitor, VacuousError, ViolationError, assert_holds, check
from tests.cli.process import mtlmon

pytest_plugins = ["pytester"]

SHARE = "unit s\npolicy low at most 20%: latency < 5"

BODIES = [
    "p",
    "p IMPLIES q",
    "p IMPLIES EVENTUALLY[0,3] q",
    "ALWAYS[0,1] (p IMPLIES q)",
    "HISTORICALLY[0,2] p",
    "(p AND EVENTUALLY[0,4] q) IMPLIES NEXT[0,3] q",
]
LIMITS = ["10%", "25%", "40%", "60%", "0", "2", "7"]


def latencies(slow: int, count: int) -> list[tuple[int, dict[str, Any]]]:
    return [(at, {"latency": 9 if at < slow else 1}) for at in range(count)]


def traces(seed: int) -> list[tuple[int, dict[str, Any]]]:
    source = random.Random(seed)
    time = 0
    rows = []
    for _ in range(source.choice([5, 12, 30])):
        time += source.choice([0, 1, 1, 2])
        values = {name: source.random() < 0.7 for name in ("p", "q")}
        rows.append((time, values | {"k": source.choice("ab")}))
    return rows


def failures_of_command(file: str, trace: list[tuple[int, dict[str, Any]]], tmp: Path) -> set[str]:
    """The names of the policies that the summary of the command says are violated too often."""
    log = "".join(json.dumps({"ts": at} | row) + "\n" for at, row in trace)
    path = tmp / "log.jsonl"
    path.write_text(log, encoding="utf-8")
    (tmp / "policy.mtl").write_text(file, encoding="utf-8")
    ended = mtlmon(
        "--policy", str(tmp / "policy.mtl"), str(path), "--end-time", "last", "--summary"
    )
    failed = set(re.findall(r"^(\w+): .*: too many\)", ended.errors, re.MULTILINE))
    assert ended.status == bool(failed), ended.errors
    return failed


@pytest.mark.parametrize("seed", range(6))
def test_what_the_command_allows(seed: int, tmp_path: Path) -> None:
    trace = traces(seed)
    head = 'unit s\ntime "ts"\n' + ("key k\n" if seed % 2 else "")
    policies = {
        f"x{number}": (limit, f"policy x{number} at most {limit}: {body}\n")
        for number, (body, limit) in enumerate(product(BODIES, LIMITS))
    }
    file = head + "".join(text for _, text in policies.values())
    failed = failures_of_command(file, trace, tmp_path)
    assert 0 < len(failed) < len(policies)
    options: Any = {"at_end": "undecided-ok", "end_time": "last", "unknown": "ignore"}
    for name, (limit, text) in policies.items():
        policy = head + text
        expected = name in failed
        result = check(policy, trace, **options)
        assert result.holds is not expected, text
        assert (result.failure is not None) is expected
        asserted = outcome(partial(assert_holds, policy, trace, **options))
        assert (asserted is not None) is expected
        if limit.endswith("%") and expected:
            # with a number, reading stops earlier
            assert str(asserted) == str(result.failure)
        live = outcome(partial(feed, LiveMonitor(policy, **options), trace))
        assert (live is not None) is expected


def feed(monitor: LiveMonitor, trace: list[tuple[int, dict[str, Any]]]) -> None:
    for at, row in trace:
        monitor.step(at, row)
    monitor.close()


def outcome(run: Callable[[], None]) -> ViolationError | None:
    try:
        run()
    except ViolationError as error:
        return error
    return None


def test_a_share() -> None:
    assert_holds(SHARE, latencies(6, 30))
    result = check(SHARE, latencies(6, 30))
    assert result.holds
    assert result.failure is None
    assert result.false_count == 6
    assert len(result.violations) == 6
    with pytest.raises(ViolationError) as caught:
        assert_holds(SHARE, latencies(7, 30))
    text = str(caught.value)
    assert text.startswith("low: 7 of 30 violated (23.3%, at most 20%: too many); the first one")
    assert "\n\n0:0 violates low\n" in text
    assert caught.value.time_point == (0, 0)


def test_only_the_end_decides_about_a_share() -> None:
    monitor = LiveMonitor(SHARE)
    for at, row in latencies(7, 29):
        monitor.step(at, row)
    assert monitor.violation is None
    assert monitor.take_violation() is None
    with pytest.raises(ViolationError, match="7 of 29"):
        monitor.close()
    assert monitor.take_violation() is not None


def test_a_number_is_exceeded_at_once() -> None:
    policy = "policy few at most 2: p"
    monitor = LiveMonitor(policy)
    for at in range(2):
        monitor.step(at, {"p": False})
    assert monitor.violation is None
    with pytest.raises(ViolationError, match=r"^few: 3 of 3 violated .*at most 2: too many"):
        monitor.step(2, {"p": False})
    read = []

    def events() -> Any:
        for at in range(9):
            read.append(at)
            yield at, {"p": False}

    with pytest.raises(ViolationError, match="3 of 3"):
        assert_holds(policy, events())
    assert len(read) == 3


def test_variables() -> None:
    policy = "policy x at most 50%: pay(id) IMPLIES ONCE order(id)"
    # the share is one of payments: at one time-point, two of three
    trace: Any = [
        (0, {"order": [("a",)]}),
        (1, {"pay": [("a",), ("b",), ("c",)]}),
        *((at, {}) for at in range(2, 9)),
    ]
    with pytest.raises(ViolationError, match="x: 2 of 3 violated"):
        assert_holds(policy, trace)
    assert_holds(policy.replace("50%", "70%"), trace)
    assert_holds(policy.replace("50%", "1"), trace)
    with pytest.raises(ViolationError, match="of 9 violated"):
        assert_holds("policy x at most 5%: NOT pay(_)", trace)


def test_keys_share_a_limit() -> None:
    policy = "key k\npolicy x at most 1: p"
    trace: Any = [(0, {"k": 1, "p": False}), (1, {"k": 2, "p": True}), (2, {"k": 2, "p": True})]
    result = check(policy, trace)
    assert result.holds
    assert all(one.holds for one in result.keys.values())
    trace[1][1]["p"] = False
    result = check(policy, trace)
    assert not result.holds
    assert [one.holds for one in result.keys.values()] == [False, False]


def test_undecided_time_points_and_left_sides_still_fail() -> None:
    policy = "policy x at most 90%: p IMPLIES EVENTUALLY[0,9] q"
    with pytest.raises(ViolationError, match="undecided") as caught:
        assert_holds(policy, [(0, {"p": True, "q": False}), (30, {"p": True, "q": False})])
    assert caught.value.is_undecided
    with pytest.raises(VacuousError):
        assert_holds(policy, [(0, {"p": False, "q": False})], vacuous="error")


def test_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        POLICY = "unit s\\npolicy low at most 20%: latency < 5"

        def feed(monitor, slow):
            for at in range(30):
                monitor.step(at, {"latency": 9 if at < slow else 1})

        def test_kept(mtl_monitor):
            feed(mtl_monitor(POLICY), 6)

        def test_too_many(mtl_monitor):
            feed(mtl_monitor(POLICY), 7)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E *ViolationError: low: 7 of 30 violated (23.3%, at most 20%: too many)*"]
    )
