"""A batch is prepared by another thread while the one before it is checked: nobody can tell."""

from __future__ import annotations

import random
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import ipc  # noqa: E402

import mtlmon  # noqa: E402
from mtlmon.errors import TableError  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.doors import (  # noqa: E402
    KeyTable,
    number_rows,
)
from tests.doors import checking_idle_keys as idle_keys  # noqa: E402
from tests.doors import tables_events as events  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLICIES = """\
key k
atom high = x > 6
stream seen = count[0,20](x > 2)
stream most = max[0,30](x)
policy few: seen < 2
policy small: most < 9
policy grows per g: sum[5,15](x) < 40
policy answered: high IMPLIES EVENTUALLY[0,9] x = 0
policy quiet on every 10: count[0,20]() < 4
"""


@pytest.fixture(autouse=True)
def _two_restless_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There are processors and bytes for two threads, which take turns as often as they can."""
    monkeypatch.setattr(events, "processor_count", lambda: 2)
    monkeypatch.setattr(events, "_LARGE", 0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def rows(seed: int, count: int) -> Any:
    chosen = random.Random(seed)
    clock = 0
    found = []
    for number in range(count):
        clock += chosen.choice([0, 0, 1, 1, 2])
        key = number // 10 + chosen.randrange(12)
        found.append({"ts": clock, "k": key, "g": key % 40, "x": chosen.randrange(10)})
    return pa.Table.from_pylist(found)


def saved(table: Any, path: Path, size: int) -> Path:
    """Save rows as a file of small batches."""
    with ipc.new_file(path, table.schema) as file:
        for batch in table.to_batches(max_chunksize=size):
            file.write_batch(batch)
    return path


def verdicts(source: Any, policies: str, **options: Any) -> list[str]:
    with mtlmon.check(policies, source, **options) as check:
        return list(map(str, check.to_arrow().to_pylist()))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 99), st.integers(5, 60), st.sampled_from(["all", "false", "first"]), st.data()
)
def test_verdicts_are_the_same(
    tmp_path: Path, seed: int, size: int, wanted: str, data: st.DataObject
) -> None:
    table = rows(seed, 300)
    lines = POLICIES.splitlines()
    kept = data.draw(st.sets(st.sampled_from(range(4, len(lines))), min_size=1))
    policies = "\n".join([*lines[:4], *(lines[place] for place in sorted(kept))])
    expected = verdicts(table, policies, verdicts=wanted, end_time="last")
    log = saved(table, tmp_path / "log.arrow", size)
    assert verdicts(log, policies, verdicts=wanted, end_time="last") == expected


def test_keys_are_forgotten_between_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are prepared ahead as long as there are few keys, and so have right numbers."""
    table = rows(1, 3000)
    policies = "\n".join(POLICIES.splitlines()[:7])
    expected = sorted(verdicts(table, policies))
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 40)
    check = mtlmon.check(policies, saved(table, tmp_path / "log.arrow", 30))
    submitted = 0
    original = events.TableEvents.prepare_next

    def counted(self: events.TableEvents) -> None:
        nonlocal submitted
        submitted += 1
        original(self)

    monkeypatch.setattr(events.TableEvents, "prepare_next", counted)
    assert sorted(map(str, check.to_arrow().to_pylist())) == expected
    assert "idle ones were forgotten" in check.summary
    assert 20 < submitted < 100


def test_errors_come_after_the_verdicts_before_them(tmp_path: Path) -> None:
    table = rows(2, 200)
    times = table["ts"].to_pylist()
    times[157] = None
    broken = table.set_column(0, "ts", pa.array(times, pa.int64()))
    check = mtlmon.check("policy one: x > 6", saved(broken, tmp_path / "log.arrow", 10))
    found: list[dict[str, Any]] = []
    with check, pytest.raises(TableError, match="158"):
        for batch in check.batches():
            found += batch.to_pylist()
    assert len(found) == 157


def test_a_log_that_is_abandoned_while_a_batch_is_prepared(tmp_path: Path) -> None:
    log = saved(rows(3, 200), tmp_path / "log.arrow", 10)
    with open_tables(log, ("p",), predicates={}) as tables, pytest.raises(TableError):
        next(tables)
    with open_tables(log, (), key="k") as tables:
        next(tables)
        tables.prepare_next()


def test_events_come_in_order_and_once(tmp_path: Path) -> None:
    table = rows(4, 200)
    found: list[tuple[int, int]] = []
    tables = open_tables(saved(table, tmp_path / "log.arrow", 7), (), key="k")
    for number, batch in enumerate(tables):
        assert batch.numbers is not None
        found += zip(batch.time_stamps.tolist(), batch.numbers.tolist(), strict=True)
        if number % 3:
            tables.prepare_next()
    assert [time for time, _ in found] == table["ts"].to_pylist()
    assert tables.keys is not None
    texts = [int(tables.keys.key(number)[0]) for _, number in found]
    assert texts == table["k"].to_pylist()


def test_keys_are_read_while_others_are_added() -> None:
    """Texts stay where a reader may be looking at them."""
    keys = KeyTable(1)
    first = [f"key {number} " + "x" * 50 for number in range(1000)]
    numbers = number_rows(keys, [pa.array(first)])
    keys.read_beside(True)
    before = keys.held_bytes
    has_ended = threading.Event()

    def add() -> None:
        for place in range(40):
            texts = [f"{place} {number} " + "y" * 50 for number in range(2000)]
            number_rows(keys, [pa.array(texts)])
        has_ended.set()

    adding = threading.Thread(target=add)
    adding.start()
    expected = keys.column(numbers, 0)
    while not has_ended.is_set():
        assert keys.column(numbers, 0) == expected
    adding.join()
    assert keys.column(numbers, 0) == expected
    assert keys.key(999) == (first[999],)
    # What is no longer in use counts until nobody can be reading it.
    held = keys.held_bytes
    keys.read_beside(False)
    assert before < keys.held_bytes < held
    kept = np.full(len(keys), 2**32 - 1, np.uint32)
    kept[500] = 0
    keys.keep(kept.tobytes())
    assert keys.key(0) == (first[500],)
