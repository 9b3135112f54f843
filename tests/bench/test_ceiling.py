"""The ceiling does what a monitor cannot do without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.ceiling import load_native

# a group compiles it once
pytestmark = pytest.mark.xdist_group("ceiling")


def test_ceiling_writes_a_line_for_each_event(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.write_bytes(b"# c\n@0 p\n@3 q\n@3\n@4 x")
    source, target = os.open(log, os.O_RDONLY), os.open(out, os.O_WRONLY | os.O_CREAT)
    load_native().Ceiling().copy(source, target)
    os.close(source)
    os.close(target)
    assert [line.split()[0] for line in out.read_text().splitlines()] == [
        "0:0", "3:0", "3:1", "4:0",
    ]  # fmt: skip
