"""`mtlmon.check` on a file that grows: with `follow=True`, until `end_log` is called."""

from __future__ import annotations

import gc
import os
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mtlmon
from tests.cli.process import wait_until
from tests.sampling import thinned

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

TEXT = [f"@{time} {'p' if time % 3 else 'q'}\n" for time in range(40)]
ROWS = [f"@{time} in({time % 4}) p\n" for time in range(40)]
CELLS = [f"{time},{'ab'[time % 2]},{'true' if time % 3 else 'false'}\n" for time in range(40)]
LATE = [CELLS[time ^ 3] for time in range(40)]
PATTERN = [f"{time} {'p' if time % 3 else 'other'}\n" for time in range(40)]
KEYED = "key user\npolicy f: p IMPLIES ONCE[1,3] NOT p\n"
VARIABLES = "policy twice: FORALL x. in(x) IMPLIES NOT ONCE[1,4] in(x)\n"

LOGS: dict[str, tuple[str, str, list[str], str, dict[str, Any]]] = {
    "text": ("log", "", TEXT, "policy late: p IMPLIES EVENTUALLY[1,2] q\n", {}),
    "variables": ("log", "", ROWS, VARIABLES, {}),
    "csv": ("csv", "ts,user,p\n", CELLS, KEYED, {}),
    "not told": ("dat", "ts,user,p\n", CELLS, KEYED, {"rows": True}),
    "windows": ("csv", "ts,user,p\n", CELLS, "policy w: count[0,3](p) < 3\n", {"key": "user"}),
    "late": ("csv", "ts,user,p\n", LATE, KEYED, {"lateness": 10}),
    "waiting": ("csv", "ts,user,p\n", LATE, KEYED, {"wait": 10}),
    "a pattern": (
        "txt", "", PATTERN, "policy late: p IMPLIES EVENTUALLY[1,2] NOT p\n",
        {"pattern": r"(?P<ts>\d+) (?P<what>\w+)", "event": "what"},
    ),
}  # fmt: skip


def told(run: mtlmon.Run) -> list[dict[str, Any]]:
    return [dict(answer) for answer in run]


def outcome(answers: list[dict[str, Any]]) -> Any:
    """What is said at the end; with corrections, what is said meanwhile depends on the batches."""
    if not any("op" in one for one in answers):
        return [{**one, "file": None} for one in answers]
    latest = {}
    for one in answers:
        if one["time"] is not None:
            latest[one["user"], one["time"], one["offset"]] = (
                one["op"] != "delete" and one["verdict"]
            )
    return latest


def append(path: Path, lines: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(lines)


def collected(run: mtlmon.Run) -> tuple[list[dict[str, Any]], Callable[[], None]]:
    """The answers so far, which a thread takes, and what waits for the end of the run."""
    answers: list[dict[str, Any]] = []

    def take() -> None:
        for answer in run:
            answers.append(dict(answer))

    thread = threading.Thread(target=take)
    thread.start()
    return answers, thread.join


@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_is_followed_is_checked_as_a_whole_one(name: str, tmp_path: Path) -> None:
    """In a file that is renamed and begun anew, with a line that comes in two parts."""
    ending, header, lines, policies, options = LOGS[name]
    whole, log = tmp_path / f"whole.{ending}", tmp_path / f"app.{ending}"
    whole.write_text(header + "".join(lines))
    # a log that is followed is recognised by its first line
    known: dict[str, Any] = {"format": "csv"} if name == "not told" else {}
    of_whole = mtlmon.check(policies, whole, **known, **options)
    expected = told(of_whole)
    assert expected
    append(log, [header, *lines[:15], lines[15][:2]])
    run = mtlmon.check(policies, log, follow=True, **options)
    answers, join = collected(run)
    append(log, [lines[15][2:], *lines[16:25]])
    # so that all of it has been read when the file is another one
    wait_until(lambda: reading_place(log) == log.stat().st_size)
    log.rename(tmp_path / "before")
    append(log, [header, *lines[25:]])
    wait_until(lambda: reading_place(log) == log.stat().st_size)
    run.end_log()
    join()
    assert outcome(answers) == outcome(expected)
    assert run.status == of_whole.status
    assert run.messages == [f"{log} has been replaced: going on with the new file"]


def reading_place(log: Path) -> int:
    """How far this process has read a file."""
    for one in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(one) == str(log):
                return int(Path("/proc/self/fdinfo", one.name).read_text().split()[1])
        except OSError:
            continue
    return -1


def test_answers_come_while_the_log_grows(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    run = mtlmon.check("p IMPLIES NEXT q", log, follow=True, format="text")
    assert run.messages == [f"{log} does not exist yet: waiting for it"]
    append(log, ["@1 p\n@2 q\n"])
    assert [answer.time for answer in (next(run), next(run))] == [1, 2]
    append(log, ["@3 p\n@4 p\n"])
    answer = next(run)
    assert (answer.time, answer.verdict) == (3, False)
    run.end_log()
    assert told(run) == [] and run.status == 1


def test_time_passes_while_a_log_is_silent(tmp_path: Path) -> None:
    log, output = tmp_path / "app.log", tmp_path / "out"
    append(log, [f"@{int(time.time())} p\n"])
    formula = "unit s\npolicy late: p IMPLIES EVENTUALLY[0,1] q\n"
    run = mtlmon.check(formula, log, follow=True, idle="100ms", output=output)
    thread = threading.Thread(target=run.finish)
    thread.start()
    wait_until(lambda: output.exists() and output.read_text().endswith(" false\n"))
    run.end_log()
    thread.join()
    assert run.status == 1


def test_a_checkpoint_of_a_log_that_is_followed(tmp_path: Path) -> None:
    """A run goes on in the file that it was in, although that has another name by now."""
    log, state, output = (tmp_path / name for name in ("app.csv", "state", "out.jsonl"))
    asked: dict[str, Any] = {"follow": True, "checkpoint": state, "output": output}
    asked |= {"output_format": "jsonl", "resume": True}
    for part in range(4):
        append(log, ["ts,user,p\n"] * (part in (0, 2)) + CELLS[10 * part : 10 * part + 10])
        run = mtlmon.check(KEYED, log, **asked)
        run.end_log()
        run.finish()
        if part == 1:
            log.rename(tmp_path / "app.csv.1")
    (tmp_path / "whole.csv").write_text("ts,user,p\n" + "".join(CELLS))
    expected = tmp_path / "expected.jsonl"
    mtlmon.check(KEYED, tmp_path / "whole.csv", output=expected, output_format="jsonl").finish()
    assert output.read_text() == expected.read_text() != ""


def test_nothing_is_left_of_a_run_that_is_dropped(tmp_path: Path) -> None:
    def held() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    log = tmp_path / "app.csv"
    append(log, ["ts,user,p\n", *CELLS])
    # what the first run opens for all
    with closing(mtlmon.check(KEYED, log, follow=True)) as run:
        next(run)
    del run
    before = held()
    for step in range(4):
        run = mtlmon.check(KEYED, log, follow=True)
        if step:
            next(run)
        if step == 2:
            run.close()
        if step == 3:
            run.end_log()
            run.finish()
        del run
        # threads that read ahead end a little later
        wait_until(lambda: held() == before)


def test_nothing_is_left_where_policies_are_wrong(tmp_path: Path) -> None:
    log = tmp_path / "app.csv"
    append(log, ["ts,user,p\n", *CELLS])
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for wrong in ("p AND", "policy f: missing(x)\n"):
        with pytest.raises(mtlmon.MtlmonError):
            mtlmon.check(wrong, log, follow=True)
        assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


def test_a_pipe_that_is_full_does_not_keep_a_run_from_closing(tmp_path: Path) -> None:
    log, before = tmp_path / "app.log", threading.active_count()
    append(log, TEXT[:1] * 400_000)
    run = mtlmon.check("p", log, follow=True)
    next(run)
    run.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("events", "options", "message"),
    thinned(
        [
            (["a.log", "b.log"], {}, "follow=True is for one log"),
            ("-", {}, "follow needs files: standard input cannot be followed"),
            ("a.parquet", {}, "and parquet has none"),
            ("a.csv.gz", {}, "and gzip has none"),
            ("a.log", {"output": "a.log"}, "a.log is both the log and the file for the verdicts"),
            ("a.log", {"idle": "1s"}, "idle is for answers in a file"),
            ("/", {}, "follow /: this is not a file"),
        ]
    ),
)
def test_what_cannot_be_followed(events: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(mtlmon.RunError) as caught:
        mtlmon.check("p", events, follow=True, **options)
    assert message in str(caught.value)


def test_only_a_log_that_is_followed_has_to_be_ended() -> None:
    import pyarrow as pa

    table = pa.table({"ts": [1], "p": [True]})
    with pytest.raises(mtlmon.RunError, match="add follow=True"):
        mtlmon.check("p", table).end_log()
    with pytest.raises(mtlmon.RunError, match="give the path of a file"):
        mtlmon.check("p", table, follow=True)
    with pytest.raises(TypeError, match="takes True or False"):
        mtlmon.check("p", "a.log", follow="a.log")  # type: ignore[arg-type]
    assert len(told(mtlmon.check("p", table, follow=False))) == 1
