"""Tables that are not read to their end, or asked about by other threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.tables import (  # noqa: E402
    open_tables,
    table_files,
)
from tests.doors import (  # noqa: E402
    ByteStream,
    Dialect,
    text_blocks,
)
from tests.sampling import thinned  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mtlmon.tables import TableEvents

# Garbage is collected where Python 3.11 and 3.12 hold a lock that waiting for threads takes.
ABANDONING = """
import gc, sys, threading
from mtlmon.tables import open_tables
gc.disable()
next(open_tables(sys.argv[1], ("p",)))
sys.setprofile(
    lambda frame, event, _: frame.f_code.co_name == "_maintain_shutdown_locks" and gc.collect()
)
thread = threading.Thread(target=int)
thread.start()
thread.join()
print("done")
"""


@pytest.fixture
def _restless_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_memory_is_cleaned_up_without_waiting(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,p\n" + "".join(f"{number},true\n" for number in range(9)))
    done = subprocess.run(
        [sys.executable, "-c", ABANDONING, str(log)], capture_output=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"done\n", b"")


@pytest.fixture
def _memory_of_its_own() -> Iterator[None]:
    """Arrow's memory is counted apart from what other tests may still hold."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    yield
    pa.set_memory_pool(before)


@pytest.mark.usefixtures("_memory_of_its_own")
def test_blocks_are_in_memory_of_arrow(tmp_path: Path) -> None:
    """Its threads let go of it without Python's lock, which aborts a process that is at its end."""
    text = b"ts,p\n" + b"1,true\n" * 200_000
    log = tmp_path / "log.csv"
    log.write_bytes(b"\xef\xbb\xbf" + text)
    before = pa.total_allocated_bytes()
    (file,) = table_files(log)
    with ByteStream(file) as stream:
        blocks = list(text_blocks(stream, Dialect().syntax_of("csv")))
    assert b"".join(block.text.tobytes() for block in blocks) == text
    assert pa.total_allocated_bytes() - before >= len(text)
    parts = [block.part(1, 3) for block in blocks if block.row_count > 1]
    assert [part.text.tobytes() for part in parts] == [b"1,true\n" * 2] * len(parts)
    del blocks
    # a part keeps the whole, it is no copy
    assert pa.total_allocated_bytes() - before >= len(text)
    del parts
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize("sort", [False, True])
def test_closing_closes_files_at_once(tmp_path: Path, sort: bool) -> None:
    logs = [tmp_path / f"{number}.csv" for number in range(3)]
    for number, log in enumerate(logs):
        log.write_text(f"ts,p\n{number},true\n")
    # Arrow opens a pipe for signals once, with the first table of a process
    list(open_tables(logs[0], ("p",)))
    before = len(os.listdir("/proc/self/fd"))
    tables = open_tables(logs, ("p",), sort=sort)
    next(tables)
    tables.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(tables) == []
    tables.close()


@pytest.mark.usefixtures("_restless_threads")
def test_how_far_reading_is_may_be_asked_at_any_time(tmp_path: Path) -> None:
    numbers = thinned(range(600))
    for number in numbers:
        (tmp_path / f"{number:03}.csv").write_text(f"ts,p\n{number},true\n")
    is_done = threading.Event()

    def ask(tables: TableEvents) -> int:
        place = 0
        while not is_done.is_set():
            place = tables.bytes_read
        return place

    with open_tables(tmp_path, ("p",)) as tables, ThreadPoolExecutor(3) as executor:
        asking = [executor.submit(ask, tables) for _ in range(3)]
        assert sum(map(len, tables)) == len(numbers)
        is_done.set()
        assert tables.size is not None
        assert all(0 <= one.result() <= tables.size for one in asking)
    assert tables.bytes_read == tables.size
