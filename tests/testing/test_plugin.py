"""The pytest plugin: what it does to tests that use it, and that it leaves others alone."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import threading

import pytest


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_fine(mtl_monitor):
    monitor = mtl_monitor("request IMPLIES EVENTUALLY[0,5] response")
    monitor.step(1, {"request"})
    monitor.step(6, {"response"})


def test_at_once(mtl_monitor):
    monitor = mtl_monitor("request IMPLIES EVENTUALLY[0,5] response")
    monitor.step(1, {"request"})
    monitor.step(7)  # this line
    raise RuntimeError("not reached")


def test_open_end(mtl_monitor):
    mtl_monitor("request IMPLIES EVENTUALLY[0,5] response").step(1, {"request"})


def test_open_end_is_fine(mtl_monitor):
    monitor = mtl_monitor(
        "EVENTUALLY[0,5] response", at_end="undecided-ok", unknown="ignore"
    )
    monitor.step(1, {"request"})


def test_closed_end(mtl_monitor):
    monitor = mtl_monitor("EVENTUALLY[0,5] response", at_end="closed")
    monitor.step(1, {"request"})


def test_thread(mtl_monitor):
    monitor = mtl_monitor("NOT boom", clock="monotonic")
    in_thread(lambda: monitor.event("boom"))


def test_asyncio(mtl_monitor):
    import asyncio

    async def serve(monitor):
        monitor.event("boom")

    async def main():
        monitor = mtl_monitor("NOT boom", clock="monotonic")
        await asyncio.create_task(serve(monitor))

    asyncio.run(main())


def test_asyncio_with_a_monitor_of_the_test(mtl_monitor):
    import asyncio

    monitor = mtl_monitor("NOT boom", clock="monotonic")

    async def serve():
        try:
            monitor.event("boom")
            monitor.event({"wrong": 7})
        except BaseException:
            print("the program has seen an error")

    async def main():
        await asyncio.create_task(serve())
        print("the program ends")

    asyncio.run(main())


@pytest.mark.xfail(strict=True, raises=AssertionError)
def test_expected(mtl_monitor):
    monitor = mtl_monitor("NOT boom", clock="monotonic")
    in_thread(lambda: monitor.event("boom"))


def test_own_failure(mtl_monitor):
    monitor = mtl_monitor("NOT boom", clock="monotonic")
    mtl_monitor("EVENTUALLY[0,5] p").step(1)
    in_thread(lambda: monitor.event("boom"))
    assert "own" == "failure"


def test_skipped(mtl_monitor):
    mtl_monitor("EVENTUALLY[0,5] p").step(1)
    pytest.skip("in the middle")


def test_several(mtl_monitor):
    mtl_monitor("EVENTUALLY[0,5] p").step(1)
    mtl_monitor("p").close()
    mtl_monitor("EVENTUALLY[0,6] q").step(2)


def test_late_request(request):
    monitor = request.getfixturevalue("mtl_monitor")("EVENTUALLY[0,5] p")
    monitor.step(1)


class TestMethods:
    def test_method(self, mtl_monitor):
        in_thread(lambda: mtl_monitor("false").step(1))
        mtl_monitor("true").step(2)


@pytest.mark.usefixtures("mtl_monitor")
def test_unused():
    pass
"""

OUTCOMES = {"passed": 4, "failed": 9, "skipped": 1, "xfailed": 1, "errors": 1}

LINES = [
    ">       monitor.step(7)  # this line",
    "E       mtlmon.errors.ViolationError: 1:0 violates request IMPLIES EVENTUALLY*",
    "E         > 1:0  request",
    "E       expected: response at some time-point from 1 to 6, because request holds at 1:0",
    "*_ test_open_end _*",
    ">       mtl_monitor(*response*).step(1, {*request*})",
    "E *mtlmon.errors.ViolationError: 1 time-point is undecided at the end: 1:0",
    "*_ test_closed_end _*",
    "E *mtlmon.errors.ViolationError: 1:0 violates EVENTUALLY*",
    "*_ test_thread _*",
    ">       monitor = mtl_monitor(*NOT boom*, clock=*monotonic*)",
    "E *mtlmon.errors.ViolationError: * violates NOT boom",
    "*_ test_asyncio _*",
    "E *mtlmon.errors.ViolationError: * violates NOT boom",
    "*_ test_asyncio_with_a_monitor_of_the_test _*",
    "E *mtlmon.errors.ViolationError: * violates NOT boom",
    "the program ends",
    "*_ test_own_failure _*",
    ">       assert *own*failure*",
    "*- Captured mtl_monitor call -*",
    "* violates NOT boom",
    "*_ test_several _*",
    "E       by EVENTUALLY[[]0,5] p",
    "E       by EVENTUALLY[[]0,6] q",
    "*_ TestMethods.test_method _*",
    "E *mtlmon.errors.ViolationError: 1:0 violates false",
]


def test_in_process(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(**OUTCOMES)
    result.stdout.fnmatch_lines(LINES)
    result.stdout.no_fnmatch_line("the program has seen an error")
    # Nothing of the inside is shown.
    result.stdout.no_fnmatch_line("*plugin.py*")
    result.stdout.no_fnmatch_line("*live.py*")


def test_errors_of_the_test_show_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import numpy
        import pytest

        from mtlmon.testing import LogRule, assert_holds, check

        CALLS = [
            lambda mtl_monitor: mtl_monitor("p AND"),
            lambda mtl_monitor: mtl_monitor("ONCE[0,5s] p"),
            lambda mtl_monitor: mtl_monitor("p", mode="glocal"),
            lambda mtl_monitor: mtl_monitor("p").step(-1),
            lambda mtl_monitor: mtl_monitor("p").step(1, "p"),
            lambda mtl_monitor: mtl_monitor("p").event("p"),
            lambda mtl_monitor: mtl_monitor("p").listen(LogRule("p")),
            lambda mtl_monitor: mtl_monitor("p", at_end="open"),
            lambda mtl_monitor: assert_holds("p", [1]),
            lambda mtl_monitor: check("p", [(2, "p")]),
            lambda mtl_monitor: check("p", [(2, ["p"]), (1, ["p"])]),
            lambda mtl_monitor: assert_holds("p", {"time_stamp": [1]}),
            lambda mtl_monitor: assert_holds("p", (numpy.array([1.5]), numpy.array([1]))),
            lambda mtl_monitor: assert_holds("p", (numpy.array([1]), numpy.array([2]))),
            lambda mtl_monitor: assert_holds("p", "no.log"),
            lambda mtl_monitor: assert_holds("p", __file__),
        ]

        @pytest.mark.parametrize("call", CALLS)
        def test_it(call, mtl_monitor):
            call(mtl_monitor)
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=16)
    result.stdout.no_fnmatch_line("*mtlmon/*.py:*")
    result.stdout.no_fnmatch_line("*_core.pyx*")


def test_in_a_subprocess(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(**OUTCOMES)
    result.stdout.fnmatch_lines(LINES)


def test_unittest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import threading
        import unittest

        import pytest


        class Tests(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def monitors(self, mtl_monitor):
                self.mtl_monitor = mtl_monitor

            def test_bad(self):
                monitor = self.mtl_monitor("NOT boom")
                thread = threading.Thread(target=monitor.step, args=(1, {"boom"}))
                thread.start()
                thread.join()

            def test_good(self):
                self.mtl_monitor("NOT boom", unknown="ignore").step(1)
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*1:0 violates NOT boom"])


def test_the_fixture_is_documented(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--fixtures", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["mtl_monitor*", "*Make monitors of metric temporal logic*"])


def test_it_loads_by_name_where_plugins_are_not_loaded_by_themselves(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("def test_it(mtl_monitor): mtl_monitor('p').step(1, {'p'})")
    result = pytester.runpytest_subprocess("-p", "mtlmon", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_the_entry_point() -> None:
    (entry,) = importlib.metadata.entry_points(group="pytest11", name="mtlmon")
    assert entry.load().__name__ == "_mtlmon_pytest"


def test_runs_that_do_not_use_it_import_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("mtlmon")
            assert "_mtlmon_pytest" in sys.modules
            assert not [name for name in sys.modules if name.startswith("mtlmon")]
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_it_has_no_hooks(pytestconfig: pytest.Config) -> None:
    plugin = pytestconfig.pluginmanager.get_plugin("mtlmon")
    assert pytestconfig.pluginmanager.get_hookcallers(plugin) == []


def test_the_hooks_of_a_test_go_with_it(
    mtl_monitor: object, pytestconfig: pytest.Config, request: pytest.FixtureRequest
) -> None:
    from tests.doors import AtTestEnd

    mine = [
        plugin
        for plugin in pytestconfig.pluginmanager.get_plugins()
        if isinstance(plugin, AtTestEnd)
    ]
    assert [plugin.item for plugin in mine] == [request.node]


def test_the_plugin_imports_pytest_and_nothing_else() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules)\n"
        "import _mtlmon_pytest\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["_mtlmon_pytest"]
