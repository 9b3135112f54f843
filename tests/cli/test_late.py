"""Rows that come late: --wait, --late and --sort of text logs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.kills import check_killed_runs
from tests.cli.process import SECONDS, Ended, Live, mtlmon, wait_until
from tests.reference.late import judged_and_refused, judged_and_refused_quickly

Command = Callable[..., Ended]

WAIT = 6


def late_rows(seed: int, count: int = 200) -> list[tuple[int, str]]:
    """Rows as they come, with their time-stamps: some come late, and some too late."""
    source = random.Random(seed)
    now = 100
    rows = []
    for number in range(count):
        now += source.choice([0, 0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        items = [name for name in ("ask", "reply", "stop") if source.random() < 0.3]
        items += [f"{name}({source.choice('ab')})" for name in "pq" if source.random() < 0.3]
        rows.append((stamp, f"@{stamp} {' '.join(items)} n{number}".replace("  ", " ")))
    return rows


def text_of(rows: list[tuple[int, str]]) -> str:
    return "".join(f"{row}\n" for _, row in rows)


def without_rows(rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The same rows without atoms that have arguments."""
    return [
        (stamp, " ".join(item for item in row.split() if "(" not in item)) for stamp, row in rows
    ]


ONE = "ask IMPLIES EVENTUALLY[0,5] (reply OR stop)"
SEVERAL = f"""\
policy answered: {ONE}
policy nested: ALWAYS[0,4] (ask IMPLIES EVENTUALLY[1,6] reply)
policy past: stop IMPLIES ONCE[0,3] ask
"""
STREAMS = """\
stream asked = count[0,4](ask)
atom busy = asked > 1
policy calm: busy IMPLIES EVENTUALLY[0,3] reply
policy ticks on every 5: count[0,5](ask) > 0
"""
VARIABLES = "atom p(x)\natom q(x)\nfind open: p(x) AND NOT EVENTUALLY[0,4] q(x)\n"
MIXED = f"{VARIABLES}policy answered: {ONE}\n"

# the policy file, and options
RUNS: dict[str, tuple[str, list[str]]] = {
    "one": (ONE, []),
    "global": (ONE, ["--mode", "global"]),
    "naive": (ONE, ["--mode", "naive", "--end-time", "last"]),
    "resolve": (ONE, ["--resolve", "--end-time", "inf"]),
    "boolean": (ONE, ["--verdicts", "boolean"]),
    "first": (ONE, ["--verdicts", "first"]),
    "jsonl": (ONE, ["--output-format", "jsonl"]),
    "several": (SEVERAL, []),
    "csv": (SEVERAL, ["--output-format", "csv", "--resolve"]),
    "streams": (STREAMS, ["--end-time", "last"]),
    "variables": (VARIABLES, []),
    "slices": (VARIABLES, ["--slices", "2", "--verdicts", "all"]),
    "parted": (VARIABLES, ["--output-format", "jsonl", "--end-time", "last"]),
    "mixed": (MIXED, ["--resolve"]),
    "mixed slices": (MIXED, ["--slices", "2", "--output-format", "csv"]),
}


@pytest.mark.parametrize("name", RUNS)
def test_output_is_that_of_the_sorted_log(name: str, tmp_path: Path, command: Command) -> None:
    text, options = RUNS[name]
    policies = tmp_path / "p.mtl"
    policies.write_text(text)
    for seed in range(4):
        rows = late_rows(seed)
        if "(x)" not in text:
            rows = without_rows(rows)
        log, sorted_log, late = tmp_path / "log", tmp_path / "sorted", tmp_path / "late"
        log.write_text(text_of(rows))
        for wait in (0, WAIT, None):
            judged, refused = judged_and_refused(rows, wait)
            sorted_log.write_text(text_of(judged))
            wanted = command(*options, policies, sorted_log)
            assert wanted.status in (0, 1), wanted.errors
            given = ["--sort"] if wait is None else ["--wait", wait, "--late", late]
            done = command(*options, *given, policies, log)
            assert (done.status, done.output) == wanted[:2], done.errors
            if wait is None:
                assert "too late" not in done.errors
                continue
            if name != "first":
                assert late.read_text() == text_of(refused)
                words = f"{len(refused)} lines came too late to be checked (see {late})"
                assert words in done.errors


def test_without_a_file_late_lines_are_counted(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@5 a\n@9 b\n@4 a\n@7 a\n")
    done = command("--wait", 2, "--summary", "-e", "a OR b", log)
    assert (done.status, done.output) == (0, "5:0 true\n7:0 true\n9:0 true\n")
    assert "mtlmon: 1 line came too late to be checked\n" in done.errors
    assert "too late" in done.errors.split("events", 1)[1]
    several = tmp_path / "p.mtl"
    several.write_text("policy x: a OR b\npolicy y: b\n")
    done = command("--wait", 2, "--summary", several, log)
    assert "mtlmon: 1 line came too late to be checked\n" in done.errors
    assert "too late" in done.errors.split("events", 1)[1]
    # as today
    done = command("-e", "a OR b", log)
    assert done.status == 2
    assert f"{log}:3:2: time-stamp 4 is below the one before it, 9" in done.errors


def test_late_alone_waits_for_nothing(tmp_path: Path, command: Command) -> None:
    log, late = tmp_path / "log", tmp_path / "late"
    log.write_bytes(b"@5 a\r\n@4 b\r\n@5 b\n@3  x")
    done = command("--late", late, "-e", "a OR b", log)
    assert (done.status, done.output) == (0, "5:0 true\n5:1 true\n")
    assert late.read_bytes() == b"@4 b\r\n@3  x\n"


def test_time_to_wait_has_a_unit(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@5000 a\n@9000 b\n@4000 a\n@7000 a\n")
    done = command("--unit", "ms", "--wait", "2s", "-e", "a OR b", log)
    assert done.output == "5000:0 true\n7000:0 true\n9000:0 true\n"
    done = command("--wait", "2s", "-e", "a OR b", log)
    assert done.status == 2
    assert "--wait 2s needs the unit of the time-stamps: add --unit s" in done.errors
    done = command("--unit", "s", "--wait", "500ms", "-e", "a OR b", log)
    assert done.status == 2
    assert "--wait 500ms is not a whole number of the time-stamps' unit, s" in done.errors
    done = command("--wait", "soon", "-e", "a OR b", log)
    assert done.status == 2
    assert "'soon' is not a length of time, as 500ms or 5s, nor a number" in done.errors


def test_options_that_do_not_fit(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@5 a\n")
    done = command("--wait", 2, "--sort", "-e", "a", log)
    assert done.status == 2
    assert "--wait does not work with --sort: that waits for all rows" in done.errors
    done = command("--late", log, "-e", "a", log)
    assert done.status == 2
    assert f"{log} cannot hold late rows: this run uses it for something else" in done.errors
    assert log.read_text() == "@5 a\n"
    done = command("--late", tmp_path / "no" / "late", "-e", "a", log)
    assert done.status == 2
    assert "cannot write" in done.errors


def test_errors_and_rows_have_their_lines_in_the_log(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("# comment\n@5 a\n\n@9 b\n@4 a\n@7 a,b\n@8 a\n")
    for given in ("--sort",), ("--wait", 9), ("--wait", 9, "--rows"):
        done = command(*given, "-e", "a OR b", log)
        assert done.status == 2
        assert f"{log}:6:5: unexpected ','" in done.errors
        assert done.output.startswith("4:0 true")
    done = command("--wait", 9, "--on-error", "skip", "--rows", "-e", "a OR b", log)
    wanted = [(4, 5), (5, 2), (8, 7), (9, 4)]
    assert done.output == "".join(f"{stamp}:0 true\t{log}:{line}\n" for stamp, line in wanted)
    file = tmp_path / "p.mtl"
    file.write_text(VARIABLES)
    log.write_text("@5 p(a)\n@9 q(a)\n@4 p(a\n")
    done = command("--sort", file, log)
    assert f"{log}:3:" in done.errors


def test_explanations_and_context_read_the_log_in_order(tmp_path: Path, command: Command) -> None:
    log, late = tmp_path / "log", tmp_path / "late"
    log.write_text("@5 a\n@9 b\n@6 c\n@2 b\n@20 x\n")
    done = command("--wait", 4, "--late", late, "--explain", "-e", "a IMPLIES NEXT b", log)
    assert done.status == 1
    assert "6" in done.errors
    assert late.read_text() == "@2 b\n"
    done = command("--wait", 4, "--context", 1, "-e", "a IMPLIES NEXT b", log)
    assert f"{log}:1:@5 a" in done.errors


def test_a_live_pipe_sees_each_verdict_once_nothing_earlier_can_come(tmp_path: Path) -> None:
    late = tmp_path / "late"
    given = ["--wait", "3", "--late", str(late), "-e", "a OR b"]
    for more in ([], ["--rows"]):
        with Live(*given, *more) as live:
            live.send("@5 a\n@7 b\n")
            assert live.read_line(0.3) is None
            live.send("@4 a\n@6 x")
            found = [live.read_line()]
            live.send("\n@8 a\n")
            found.append(live.read_line())
            assert [str(one).partition("\t")[0] for one in found] == ["4:0 true", "5:0 true"]
            assert live.read_line(0.1) is None
            live.send("@3 a\n@9 a")
            wait_until(lambda: late.read_text() == "@3 a\n", live.process)
            ended = live.end()
            lines = [line.partition("\t")[0] for line in ended.output.splitlines()]
            assert lines == ["6:0 false", "7:0 true", "8:0 true", "9:0 true"]
            assert ended.status == 1


def shuffled_log(source: random.Random, events: int) -> list[tuple[int, str]]:
    now = 0
    rows = []
    for _ in range(events):
        now += source.random() < 0.3
        stamp = max(0, now - (source.randrange(40) if source.random() < 0.1 else 0))
        names = [name for name in "pqr" if source.random() < 0.3]
        rows.append((stamp, f"@{stamp} {' '.join(names)}"))
    return rows


@pytest.mark.parametrize("text", [ONE.replace("ask", "p").replace("reply", "q"), "several"])
def test_killed_runs_write_what_an_undisturbed_one_does(text: str, tmp_path: Path) -> None:
    source = random.Random(text)
    folder = tmp_path / "out"
    folder.mkdir()
    log, output, late = tmp_path / "log", folder / "output", folder / "late"
    rows = shuffled_log(source, 6_000)
    log.write_text(text_of(rows)[:-1])
    policies = tmp_path / "p.mtl"
    policies.write_text(
        "policy a: p IMPLIES EVENTUALLY[0,20] q\npolicy b: r IMPLIES ONCE[0,9] q\n"
        if text == "several"
        else text
    )
    arguments = ["--wait", "25", "--late", str(late), "-o", str(output), str(policies)]
    check_killed_runs(arguments, log, output, source, every="300", kills=2)
    _, refused = judged_and_refused_quickly(rows, 25)
    assert late.read_text() == text_of(refused)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_long_logs_are_ordered_by_any_number_of_threads(threads: str, tmp_path: Path) -> None:
    rows = shuffled_log(random.Random(threads), 700_000)
    log, sorted_log = tmp_path / "log", tmp_path / "sorted"
    log.write_text(text_of(rows))
    judged, refused = judged_and_refused_quickly(rows, 30)
    sorted_log.write_text(text_of(judged))
    formula = ["-e", "p IMPLIES EVENTUALLY[0,20] q"]
    done = mtlmon("--threads", threads, "--wait", "30", *formula, str(log))
    wanted = mtlmon("--threads", threads, *formula, str(sorted_log))
    assert (done.status, done.output) == wanted[:2]
    assert f"{len(refused)} lines came too late" in done.errors.replace(",", "")


@pytest.mark.parametrize("text", ["p", "policy a: p\npolicy b: q\n", VARIABLES])
def test_lines_that_wait_count_as_memory(text: str, tmp_path: Path, command: Command) -> None:
    log, policies = tmp_path / "log", tmp_path / "p.mtl"
    policies.write_text(text)
    atom = "p(a)" if text == VARIABLES else "p"
    rows = [f"@{9000 - number} {atom}{' x' * 100}\n" for number in range(9000)]
    log.write_text("".join(rows))
    done = command("--max-memory", "1M", "--sort", policies, log)
    assert done.status == 2
    assert "the memory limit of 1 MiB is exceeded" in done.errors
    assert "sorted" in done.errors
    done = command("--max-memory", "50M", "--sort", "--verdicts", "none", policies, log)
    assert done.status in (0, 1)


def test_a_log_that_grows_is_ordered_as_a_whole(tmp_path: Path) -> None:
    log, output, whole = tmp_path / "log", tmp_path / "output", tmp_path / "whole"
    rows = shuffled_log(random.Random(5), 3_000)
    text = text_of(rows)
    given = ["--wait", "25", "-e", "p IMPLIES EVENTUALLY[0,20] q"]
    kept = ["--checkpoint", str(tmp_path / "state"), "--resume", "-o", str(output)]
    for size in (1_000, 1_003, 20_000, len(text)):
        log.write_text(text[:size])
        done = mtlmon(*kept, *given, str(log))
        assert done.status in (0, 1), done.errors
    mtlmon("-o", str(whole), *given, str(log))
    assert output.read_text() == whole.read_text()


VARIABLE_RULE = "unit s\natom p(x)\natom q(x)\nfind late: p(x) AND NOT EVENTUALLY[0,1] q(x)\n"


@pytest.mark.parametrize("text", ["unit s\npolicy late: p IMPLIES EVENTUALLY[0,1] q\n", "find"])
def test_time_that_passes_ends_the_waiting(text: str, tmp_path: Path) -> None:
    has_variables = text == "find"
    policies = tmp_path / "p.mtl"
    policies.write_text(VARIABLE_RULE if has_variables else text)
    late, cell = tmp_path / "late", "(a)" if has_variables else ""
    asked = ["--idle", "500ms", "--wait", "1h", "--late", str(late), "--verdicts", "false"]
    with Live(*asked, str(policies)) as live:
        now = int(time.time())
        live.send(f"@{now - 2} p{cell}\n@{now - 9} p{cell}\n")
        found = [live.read_line() for _ in range(2)]
        names = [str(line).split(" ")[0] for line in found]
        assert names == [f"late\t{now - 9}:0", f"late\t{now - 2}:0"]
        # not late, however long it takes until it is read
        again = int(time.time()) + int(SECONDS)
        live.send(f"@{now - 9} q{cell}\n@{again} q{cell}\n")
        ended = live.end()
        assert ended.status == (0 if has_variables else 1)
        assert late.read_text() == f"@{now - 9} q{cell}\n"
        assert "1 line came too late" in ended.errors


def monpoly_points(seed: int, count: int) -> list[tuple[int, str]]:
    """Time-points of a log of MonPoly, some of which have several lines and come late."""
    points = []
    for stamp, row in late_rows(seed, count):
        items = [item.replace("(", " (") for item in row.split()[1:] if "(" in item]
        first, rest = ("", "") if not items else (items[0], "\n\t".join(items[1:]))
        points.append((stamp, f"@{stamp} {first}" + (f"\n# more\n\t{rest}" if rest else "")))
    return points


def monpoly_files(folder: Path, *, is_policy: bool = False) -> list[str]:
    signature, formula = folder / "s.sig", folder / "f.mfotl"
    signature.write_text("p(x: string)\nq(x: string)\n")
    implied = "IMPLIES" if is_policy else "AND NOT"
    formula.write_text(f"p(x) {implied} EVENTUALLY[0,4] q(x)\n")
    return ["--signature", str(signature), *(["--negate"] if is_policy else []), str(formula)]


def without_comments(text: str) -> str:
    return text.replace("# more\n", "")


MONPOLY: dict[str, list[str]] = {
    "as MonPoly": ["--output-format", "monpoly"],
    "lines": ["--nonewlastts"],
    "slices": ["--slices", "2", "--summary"],
    "explained": ["--explain"],
}


@pytest.mark.parametrize("name", MONPOLY)
def test_logs_of_monpoly_are_put_in_order(name: str, tmp_path: Path, command: Command) -> None:
    files = monpoly_files(tmp_path, is_policy=name == "explained")
    log, sorted_log, late = tmp_path / "log", tmp_path / "sorted", tmp_path / "late"
    for seed in range(4):
        points = monpoly_points(seed, 60)
        log.write_text(text_of(points))
        for wait in (0, WAIT, None):
            judged, refused = judged_and_refused(points, wait)
            sorted_log.write_text(text_of(judged))
            given = ["--sort"] if wait is None else ["--wait", f"{wait}s", "--late", late]
            done = command(*MONPOLY[name], *given, *files, log)
            wanted = command(*MONPOLY[name], *files, sorted_log)
            assert wanted.status in (0, 1), wanted.errors
            assert (done.status, done.output) == wanted[:2], done.errors
            if name == "explained":
                assert done.errors.endswith(wanted.errors)
            if wait is not None:
                assert late.read_text() == without_comments(text_of(refused))
                assert "came too late to be checked (see" in done.errors
            if name == "slices":
                is_summed = "too late" in done.errors.partition("time-points ")[2]
                assert is_summed == (wait is not None)


def test_errors_in_logs_of_monpoly_have_their_lines(tmp_path: Path, command: Command) -> None:
    files = monpoly_files(tmp_path)
    log = tmp_path / "log"
    for text, place, message in [
        ("@5 p(a)\n\n@9 q(a)\n@7 p(b)\n  q(b,c)\n@9\n", "5:8", "a row of q has one value, not 2"),
        ("@5 p(a)\n@7 q(a); @9 p(b)\n", "2:10", "a time-point must begin a line where lines"),
        ('@7 p(a)\n@5 p(b)\n q("b\n")\n', "3:4", "a text must end on its line where lines"),
    ]:
        log.write_text(text)
        for given in [], ["--on-error", "skip"]:
            done = command("--wait", "5", *given, *files, log)
            if given and "must" not in message:
                assert done.status == 0, done.errors
                continue
            assert done.status == 2
            assert f"{log}:{place}: {message}" in done.errors
    done = command(*files, log.with_name("log"))
    assert "below the one before" in done.errors


def test_logs_of_monpoly_go_on_from_checkpoints(tmp_path: Path, command: Command) -> None:
    files = monpoly_files(tmp_path)
    log, output, late = tmp_path / "log", tmp_path / "output", tmp_path / "late"
    given = ["--wait", "6", "--late", late, *files]
    kept = ["--checkpoint", tmp_path / "state", "--resume", "--checkpoint-every", "7"]
    points = monpoly_points(7, 400)
    text = text_of(points)
    for size in (1_000, 1_003, 4_000, len(text)):
        log.write_text(text[:size])
        done = command(*kept, "-o", output, *given, log)
    assert done.status == 0, done.errors
    assert output.read_text() == command(*given, log).output
