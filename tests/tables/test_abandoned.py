"""Tables that are not read to their end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.tables import open_tables

if TYPE_CHECKING:
    from pathlib import Path

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


def test_memory_is_cleaned_up_without_waiting(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,p\n" + "".join(f"{number},true\n" for number in range(9)))
    done = subprocess.run(
        [sys.executable, "-c", ABANDONING, str(log)], capture_output=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"done\n", b"")


@pytest.mark.parametrize("sort", [False, True])
def test_closing_closes_files_at_once(tmp_path: Path, sort: bool) -> None:
    logs = [tmp_path / f"{number}.csv" for number in range(3)]
    for number, log in enumerate(logs):
        log.write_text(f"ts,p\n{number},true\n")
    before = len(os.listdir("/proc/self/fd"))
    tables = open_tables(logs, ("p",), sort=sort)
    next(tables)
    tables.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(tables) == []
    tables.close()
