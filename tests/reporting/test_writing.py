"""Reports as files."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from mtlmon.errors import ReportError
from mtlmon.reporting import ReportData, render, write_report

DATA = ReportData([], title="é")


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    for before in None, "something else, and longer than a page " * 10_000:
        if before is not None:
            path.write_text(before, encoding="utf-8")
        write_report(DATA, path)
        assert path.read_text(encoding="utf-8") == render(DATA)
    assert os.listdir(tmp_path) == ["report.html"]


def test_who_may_read_it_is_decided_as_for_any_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_report(DATA, tmp_path / "report.html")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o640


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "report.html", tmp_path / "link.html"
    target.write_text("before", encoding="utf-8")
    link.symlink_to(target)
    write_report(DATA, link)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == render(DATA)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_report(DATA, pipe)
    reader.join()
    assert read == [render(DATA)]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_no_file_of_somebody_else_is_written_to(tmp_path: Path) -> None:
    """In a directory that others can write to, they could put a link where the report begins."""
    victim = tmp_path / "victim"
    victim.write_text("of value", encoding="utf-8")
    for name in f".report.html.{os.getpid()}.tmp", ".report.html.tmp", "report.html.tmp":
        (tmp_path / name).symlink_to(victim)
    before = set(os.listdir(tmp_path))
    write_report(DATA, tmp_path / "report.html")
    assert victim.read_text(encoding="utf-8") == "of value"
    assert set(os.listdir(tmp_path)) == before | {"report.html"}


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("r" * 250 + ".html")
    write_report(DATA, path)
    assert os.listdir(tmp_path) == [path.name]


def test_what_cannot_be_written_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    for name in "missing/report.html", "directory", "n\x00ul":
        with pytest.raises(ReportError, match="cannot write"):
            write_report(DATA, f"{tmp_path}/{name}")
    assert os.listdir(tmp_path) == ["directory"]
    assert os.listdir(tmp_path / "directory") == []
