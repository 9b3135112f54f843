"""Options and profiles of the test run."""

from __future__ import annotations

import gc
import math
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.loops import Loops
from tests.sampling import STRIDE, has_all_cases, thinned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
# for builds that are slow
settings.register_profile("brief", settings.get_profile("ci"), max_examples=50)
# for mutants: that a test fails is enough, the smallest example takes minutes
settings.register_profile(
    "unshrunk",
    settings.get_profile("ci"),
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)
settings.register_profile("hunt", settings.get_profile("ci"), derandomize=False, max_examples=20000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Spark's Java is short-lived here: without its second compiler two fifths less of the processors
# are busy (98 s against 57 s for the tests of `monitor` and of plans).
# It starts a program for each file whose permissions it sets, which is cheaper by `vfork`.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", JAVA_OPTIONS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        type=int,
        default=int(os.environ.get("MTLMON_EXHAUSTIVE", "1")),
        metavar="LEVEL",
        help="how far the exhaustive run over small models goes, 0 to 3 (default: 1)",
    )
    parser.addoption(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="run only every Nth case of a test, and with --hypothesis-seed 1/N of its examples "
        "(default: 1, all)",
    )
    parser.addoption(
        "--first",
        type=int,
        default=0,
        metavar="K",
        help="begin with case K of each test, from 0, or with the first again if there are fewer",
    )
    parser.addoption(
        "--part",
        default="1/1",
        metavar="K/N",
        help="run the Kth of N parts of the tests (default: 1/1, all)",
    )
    parser.addoption(
        "--every-of",
        action="append",
        default=[],
        metavar="FILE=N",
        help="run every Nth case of this file if --every says fewer; may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    STRIDE.every = config.getoption("--every")
    STRIDE.first = config.getoption("--first") % STRIDE.every
    if _has_seed(config):
        # draws that fit no property are no fault of the commit whose seed it is
        luck = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
        settings.register_profile(
            "seeded", settings(), derandomize=False, database=None, suppress_health_check=luck
        )
        settings.load_profile("seeded")
    config.addinivalue_line(
        "markers", "dear(kind): tests of a kind that take long are cases of one test for --every"
    )


def _has_seed(config: pytest.Config) -> bool:
    """Whether a seed says what hypothesis draws, and so what another run does not."""
    return config.getoption("--hypothesis-seed", default=None) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose cases for `--every`, and spread those with Spark over two groups, file by file."""
    files: dict[str, int] = {}
    with_spark: set[str] = set()
    for item in items:
        marker = item.get_closest_marker("xdist_group")
        has_group = marker is not None and marker.args == ("spark",)
        if has_group or "spark" in getattr(item, "fixturenames", ()):
            half = files.setdefault(item.location[0], len(files)) % 2
            item.add_marker(pytest.mark.xdist_group(f"spark {half}"), append=False)
            with_spark.add(item.nodeid)
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, bracket, _ = item.nodeid.partition("[")
        if dear := item.get_closest_marker("dear"):
            name = dear.args[0]
        elif item.nodeid in with_spark and not bracket:
            name = f"{item.location[0]} with Spark"
        cases.setdefault(name, []).append(item)
    own = dict(one.rsplit("=", 1) for one in config.getoption("--every-of"))
    ids: set[int] = set()
    for name, some in cases.items():
        every = min(STRIDE.every, int(own.get(name.partition("::")[0], STRIDE.every)))
        # jobs of Spark take long; still, each test of a file has its turn soon
        taken = thinned(some, 3 if name.endswith(" with Spark") else every)
        ids.update(id(item) for item in taken)
        share = len(some) / len(taken) / every
        if share < 1 and _has_seed(config):
            _take_fewer_examples(some[0], share)
    part, parts = map(int, config.getoption("--part").split("/"))
    for number, item in enumerate(items):
        if number % parts != part - 1:
            ids.discard(id(item))
    if len(ids) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in ids])
        items[:] = [item for item in items if id(item) in ids]


def _take_fewer_examples(item: pytest.Item, share: float) -> None:
    """Let a property of hypothesis take a share of its examples; another seed has others.

    Those of parameters have fewer already, and give the rest of the share.
    """
    test: Any = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    if getattr(test, "is_hypothesis_test", False):
        known = test._hypothesis_internal_use_settings  # which may be given only once
        test._hypothesis_internal_use_settings = settings(
            known, max_examples=math.ceil(known.max_examples * share)
        )


def pytest_collection_finish() -> None:
    """Let the collector of cycles skip what lives until the end: thousands of tests and modules.

    PERF: without this, tests that make many objects, or collect often, take at least twice as long
    in a run of all tests as alone.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail tests whose loops have run over nothing in all examples of hypothesis."""
    test = getattr(item, "obj", None)
    if not hasattr(test, "hypothesis") or not has_all_cases() or settings().max_examples < 200:
        return (yield)
    loops = Loops(test)
    try:
        result = yield
    finally:
        loops.end()
    if loops.unseen and sys.gettrace() is None:
        pytest.fail(f"no example has come to the loops at lines {sorted(loops.unseen)}")
    return result


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two threads. All tests that ask for it are of the group `spark`, which runs in
    two processes, so that there are no more than two.
    """
    pytest.importorskip("pyspark")
    from mtlmon import MtlmonError
    from mtlmon.spark import session, use_java
    from tests.forking import Server

    try:
        use_java()
    except MtlmonError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("spark")
    options = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.ui.showConsoleProgress": "false",
    }
    forks = Server("spark") if sys.platform == "linux" else None
    # a context reads it as it starts; processes that tests start do without
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", str(forks.program) if forks else sys.executable)
        started = session(options)
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()
    if forks:
        forks.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser, whose tests run in a stage of their own."""
    from tests.browsers import chromium

    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = chromium()
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()
