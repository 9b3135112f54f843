"""Recordings of one build are equal, and a byte that differs is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.goldens.__main__ import record
from tests.goldens.comparing import compare
from tests.goldens.recording import Recorder, read

ONLY = ["formulas"]


def test_recordings_of_one_build_are_equal(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        record(folder, 1, ONLY)
    assert len(read(one / "formulas.jsonl")) > 5
    assert [*compare(one, other, ONLY, 5)] == []
    path = other / "formulas.jsonl"
    lines = path.read_text().splitlines()
    entry = json.loads(lines[1])
    entry["outputs"]["output"] += "7:0 true\n"
    path.write_text("\n".join([lines[0], json.dumps(entry), *lines[3:], ""]))
    head, changed, alone = compare(one, other, ONLY, 5)
    assert head == f"formulas: 1 of {len(lines) - 1} commands differ, 1 are in one"
    assert changed.startswith(f"\n{entry['name']}: --mode")
    assert changed.endswith("\n    +7:0 true")
    assert f"only in {one}" in alone


def test_what_varies_is_not_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with recorder.case("one") as folder:
        log = folder / "log"
        log.write_text("@1 p\n")
        saved = ["--checkpoint", folder / "saved", "-o", folder / "out"]
        recorder.command("--summary", "-e", "p", *saved, log)
        recorder.command("resolve", "out")
        recorder.command("-e", "p", "--report", "report.html", folder / "log")
    first, second, third = recorder.entries
    assert first.name == "one/#1"
    assert "DIR/log" in first.arguments
    assert "seconds ...\n" in first.outputs["errors"]
    assert first.outputs["file out"] == "1:0 true\n"
    assert first.outputs["file saved"] == "a checkpoint"
    # what the first one has written is no input
    assert second.inputs == first.inputs == third.inputs
    assert second.outputs == {"status": "0", "output": "1:0 true\n", "errors": ""}
    assert "<dt>Started</dt><dd>...</dd>" in third.outputs["file report.html"]


def test_a_case_that_fails_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with recorder.case("one"):
        assert not tmp_path, "no such verdict"
    (entry,) = recorder.entries
    assert entry.name == "one/stopped#1"
    assert "no such verdict" in entry.outputs["error"]
