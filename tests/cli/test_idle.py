"""Pipes that fall silent: with --idle, time goes on by the clock of the machine."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live, mtlmon, wait_until
from tests.doors import CheckpointFile

if TYPE_CHECKING:
    from pathlib import Path


def row(time_stamp: float, **cells: object) -> str:
    return json.dumps({"ts": int(time_stamp), **cells}) + "\n"


@pytest.fixture
def policies(tmp_path: Path) -> str:
    path = tmp_path / "p.mtl"
    path.write_text(
        "unit s\nkey k\n"
        "policy alive on every 1s: count[0,2s]() > 0\n"
        "policy answered: p IMPLIES EVENTUALLY[0,2s] q\n"
    )
    return str(path)


def test_ticks_and_deadlines_come_while_a_pipe_is_silent(policies: str) -> None:
    asked = ["--format", "jsonl", "--time-unit", "s", "--idle", "2s", "--verdicts", "false"]
    with Live(*asked, policies) as live:
        now = int(time.time())
        live.send(row(now, k="a", p=True, q=False))
        live.send(row(now, k="b", p=True, q=True))
        # The deadline has passed once nothing can come below now + 3, and the tick at now + 3 comes
        # once nothing can come at its time either. That does not depend on how time gets there.
        wanted = [f"answered\ta\t{now}:0 false"]
        wanted += [f"alive\t{key}\t{now + 3}:0 false" for key in "ab"]
        assert [live.read_line() for _ in wanted] == wanted
        # 4 s later, less two seconds of silence
        assert time.time() >= now + 6
        again = int(time.time())
        live.send(row(again, k="a", p=False, q=False))
        # ticks before the row came or come all the same, and each once
        times: list[int] = []
        while not times or times[-1] < again + 4:
            line = live.read_line()
            assert line is not None
            if "\ta\t" in line and int(line.split("\t")[2].partition(":")[0]) > now + 3:
                times.append(int(line.split("\t")[2].partition(":")[0]))
        assert times == [one for one in range(now + 4, again + 5) if not 0 <= one - again <= 2]
        live.send(row(now + 2, k="a", p=False, q=False))
        ended = live.end()
        assert ended.status == 2
        assert f"time-stamp {now + 2} comes too late: nothing came for some time" in ended.errors
        assert "--sort" not in ended.errors


def test_late_rows_are_left_out(policies: str) -> None:
    asked = ["--format", "jsonl", "--time-unit", "s", "--idle", "500ms", "--on-error", "skip"]
    with Live(*asked, "--verdicts", "false", policies) as live:
        now = int(time.time())
        live.send(row(now - 100, k="a", p=False, q=False))
        assert live.read_line() == f"alive\ta\t{now - 97}:0 false"
        live.send(row(now - 50, k="c", p=True, q=False))
        ended = live.end()
        assert ended.status == 1
        assert "\tc\t" not in ended.output
        assert "skipped" in ended.errors or "left out" in ended.errors


def test_text_logs(tmp_path: Path) -> None:
    formula = "p IMPLIES EVENTUALLY[1,2] q"
    with Live("--idle", "500ms", "--unit", "s", "--verdicts", "false", "-e", formula) as live:
        now = int(time.time())
        live.send(f"@{now} p\n@{now} q\n")
        assert live.read_line() == f"{now}:0 false"
        again = int(time.time())
        live.send(f"@{again + 1} p\n")
        assert live.read_line() == f"{again + 1}:0 false"
        live.send(f"@{now + 1} q\n")
        ended = live.end()
        assert ended.status == 2
        words = f"<stdin>:4:2: time-stamp {now + 1} comes too late: nothing came for some time"
        assert words in ended.errors


def test_text_logs_with_ticks(tmp_path: Path) -> None:
    path = tmp_path / "p.mtl"
    path.write_text(
        "unit s\n"
        "policy alive on every 1s: count[0,1s]() > 0\n"
        "policy answered: p IMPLIES EVENTUALLY[0,1s] q\n"
    )
    asked = ["--idle", "500ms", "--verdicts", "false", "--on-error", "skip", str(path)]
    with Live(*asked) as live:
        now = int(time.time())
        live.send(f"@{now} p\n")
        wanted = [f"answered\t{now}:0 false", f"alive\t{now + 2}:0 false"]
        assert [live.read_line() for _ in wanted] == wanted
        live.send(f"@{now + 1} q\n")
        assert live.read_line() == f"alive\t{now + 3}:0 false"
        ended = live.end()
        assert ended.status == 1
        assert "skipped 1 line" in ended.errors


def test_rows_that_wait_for_later_values(tmp_path: Path) -> None:
    path = tmp_path / "p.mtl"
    path.write_text(
        "unit s\nkey k\n"
        "policy grows: n.next(or: 0) > n\n"
        "policy answered: p IMPLIES EVENTUALLY[0,1s] q\n"
    )
    asked = ["--format", "jsonl", "--time-unit", "s", "--idle", "500ms", "--verdicts", "false"]
    with Live(*asked, str(path)) as live:
        now = int(time.time())
        live.send(row(now, k="a", n=4, p=True, q=False))
        assert live.read_line() == f"answered\ta\t{now}:0 false"
        again = int(time.time()) + 1
        live.send(row(again, k="a", n=3, p=False, q=False))
        assert live.read_line() == f"grows\ta\t{now}:0 false"
        assert live.end().status == 1


def test_relations_change_while_a_pipe_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "p.mtl"
    path.write_text(
        "unit s\nkey k\n"
        "relation slow = rows where n < 4 valid 2s group k select count() as count\n"
        "policy jam on changes of slow: exists slow[k = k.hold()] IMPLIES NEXT[0,1s] true\n"
        "policy row: n < 9\n"
        "policy more: EVENTUALLY[0,1s] slow[k].count > 1\n"
    )
    asked = ["--format", "jsonl", "--time-unit", "s", "--idle", "500ms"]
    with Live(*asked, str(path)) as live:
        now = int(time.time())
        live.send(row(now, k="a", n=3))
        # the row waits for others of its time, which change the relation, too
        assert live.read_line() == f"row\ta\t{now}:0 true"
        # a deadline of rows passes as well
        found = {live.read_line() for _ in range(2)}
        assert found == {f"jam\ta\t{now}:0 false", f"more\ta\t{now}:0 false"}
        assert live.read_line() == f"jam\ta\t{now + 2}:0 true"
        assert time.time() >= now + 2
        again = int(time.time())
        live.send(row(again, k="b", n=9))
        assert live.read_line() == f"row\tb\t{again}:0 false"
        live.send(row(now + 1, k="a", n=3))
        ended = live.end()
        assert ended.status == 2
        assert "comes too late: nothing came for some time" in ended.errors


def test_a_file_is_read_as_ever(policies: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(row(5, k="a", p=True, q=False) + row(9, k="b", p=False, q=False))
    plain = mtlmon(policies, str(log))
    assert plain.status == 1
    assert mtlmon("--idle", "1s", policies, str(log)) == plain


def test_what_does_not_go_together(policies: str, tmp_path: Path) -> None:
    table = ["--format", "jsonl", policies]
    kept = ["--checkpoint", str(tmp_path / "c"), "-o", str(tmp_path / "o")]
    for arguments, words in [
        (["--idle", "10", *table], "argument --idle: '10' is not a length of time"),
        (["--idle", "0s", *table], "argument --idle: '0s' is not a length of time"),
        (["--idle", "1s", "--sort", *table], "--idle does not work with --sort"),
        (
            ["--idle", "1s", "--on-error", "skip", *kept, *table],
            "--idle and --checkpoint do not work with --on-error skip",
        ),
    ]:
        done = mtlmon(*arguments)
        assert done.status == 2
        assert words in done.errors


def test_the_unit_of_time_stamps_must_be_known() -> None:
    with Live("--format", "jsonl", "--idle", "200ms", "-e", "EVENTUALLY[0,5] p") as live:
        live.send(row(time.time(), p=False))
        assert live.read_error().startswith("mtlmon: --idle needs the unit of the time-stamps")
    with Live("--idle", "200ms", "-e", "EVENTUALLY[0,5] p") as live:
        live.send("@5 q\n")
        assert live.read_error().endswith("which count from 1970: add --unit s, for instance")


WITH_VARIABLES = "policy soon: p(x) IMPLIES EVENTUALLY[0,2s] q(x)\nfind some: p(x)\n"


@pytest.mark.parametrize("slices", [[], ["--slices", "2"]])
def test_text_logs_of_policies_with_variables(tmp_path: Path, slices: list[str]) -> None:
    path = tmp_path / "p.mtl"
    path.write_text(f"unit s\n{WITH_VARIABLES}")
    with Live("--idle", "500ms", *slices, str(path)) as live:
        now = int(time.time())
        live.send(f"@{now} p(a)\n@{now} p(b) q(a)\n")
        wanted = [f"some\t{now}:0 match (x=a)", f"some\t{now}:1 match (x=b)"]
        wanted.append(f"soon\t{now}:1 false (x=b)")
        assert [live.read_line() for _ in wanted] == wanted
        again = int(time.time()) + 1
        live.send(f"@{again} p(c)\n")
        assert live.read_line() == f"some\t{again}:0 match (x=c)"
        assert live.read_line() == f"soon\t{again}:0 false (x=c)"
        live.send(f"@{now + 1} q(b)\n")
        ended = live.end()
        assert ended.status == 2
        assert f"time-stamp {now + 1} comes too late: nothing came for some time" in ended.errors


@pytest.mark.parametrize("points", ["row", "stamp"])
def test_tables_of_policies_with_variables(tmp_path: Path, points: str) -> None:
    path = tmp_path / "p.mtl"
    path.write_text(f'unit s\natom p(x) = k = "p"\natom q(x) = k = "q"\n{WITH_VARIABLES}')
    asked = ["--format", "jsonl", "--time-unit", "s", "--idle", "500ms", "--time-points", points]
    with Live(*asked, str(path)) as live:
        now = int(time.time())
        live.send(row(now, k="p", x="a") + row(now, k="p", x="b"))
        places = ["0", "1"] if points == "row" else ["0", "0"]
        wanted = [f"some\t{now}:{places[0]} match (x=a)", f"some\t{now}:{places[1]} match (x=b)"]
        wanted += [one.replace("some", "soon").replace("match", "false") for one in wanted]
        # all rows of a time-stamp are there once time has passed it
        assert [live.read_line() for _ in wanted] == wanted
        live.send(row(now, k="p", x="c"))
        ended = live.end()
        assert ended.status == 2
        assert f"time-stamp {now} comes too late: nothing came for some time" in ended.errors


BOTH = (
    "policy soon: p(x) IMPLIES EVENTUALLY[0,2s] q(x)\n"
    "policy quick: alarm IMPLIES EVENTUALLY[0,1s] reset\n"
    "policy slow: alarm IMPLIES EVENTUALLY[0,3s] reset\n"
)


@pytest.mark.parametrize("slices", [[], ["--slices", "2"]])
def test_text_logs_of_policies_of_both_kinds(tmp_path: Path, slices: list[str]) -> None:
    path = tmp_path / "p.mtl"
    path.write_text(f"unit s\n{BOTH}")
    asked = ["--idle", "500ms", "--verdicts", "false", *slices]
    with Live(*asked, str(path)) as live:
        # all deadlines pass in one step
        now = int(time.time()) - 100
        live.send(f"@{now} p(a) alarm\n@{now} p(b) q(a)\n")
        # in the order of deadlines, whatever kind of policy has them
        wanted = [f"quick\t{now}:0 false", f"soon\t{now}:1 false (x=b)", f"slow\t{now}:0 false"]
        assert [live.read_line() for _ in wanted] == wanted
        live.send(f"@{now + 1} q(b)\n")
        ended = live.end()
        assert ended.status == 2
        assert f"time-stamp {now + 1} comes too late: nothing came for some time" in ended.errors


@pytest.mark.parametrize("points", ["row", "stamp"])
def test_tables_of_policies_of_both_kinds(tmp_path: Path, points: str) -> None:
    path = tmp_path / "p.mtl"
    alive = "policy alive per x on every 1s: count[0,3s]() > 0\n"
    atoms = 'atom p(x) = k = "p"\natom q(x) = k = "q"\n'
    path.write_text(f"unit s\n{atoms}{BOTH}{alive}")
    asked = ["--format", "jsonl", "--time-unit", "s", "--idle", "500ms", "--verdicts", "false"]
    with Live(*asked, "--time-points", points, str(path)) as live:
        now = int(time.time())
        live.send(row(now, k="p", x="a", alarm=True, reset=False))
        wanted = [f"quick\t\t{now}:0 false", f"soon\t\t{now}:0 false (x=a)"]
        wanted += [f"slow\t\t{now}:0 false", f"alive\ta\t{now + 4}:0 false"]
        assert [live.read_line() for _ in wanted] == wanted
        again = int(time.time()) + 1
        live.send(row(again, k="p", x="b", alarm=False, reset=False))
        while (line := live.read_line()) is not None and "soon" not in line:
            assert line.startswith("alive\ta")
        assert line == f"soon\t\t{again}:0 false (x=b)"


def test_policies_that_look_ahead_without_bound(tmp_path: Path) -> None:
    path = tmp_path / "p.mtl"
    # the future without bound is on the right of what time decides first
    path.write_text(
        "unit s\npolicy p: (EVENTUALLY[0,1s] EXISTS x. p(x)) AND EVENTUALLY EXISTS x. q(x)\n"
    )
    with Live("--idle", "500ms", str(path)) as live:
        now = int(time.time())
        live.send(f"@{now} r(a)\n")
        assert live.read_line() == f"p\t{now}:0 false"


@pytest.mark.parametrize("form", ["jsonl", "text"])
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_goes_on_from_its_last_event(tmp_path: Path, form: str, kind: signal.Signals) -> None:
    """What time alone has decided is decided anew, so that no verdict is lost or comes twice."""
    rules, output, other = tmp_path / "p.mtl", tmp_path / "output", tmp_path / "other"
    rules.write_text(
        "unit s\n"
        "policy alive on every 1s: count[0,2s]() > 0\n"
        "policy rare: count[0,9s](p) < 2\n"
        "policy answered: p IMPLIES EVENTUALLY[0,9s] q\n"
    )
    first = int(time.time()) - 60
    events = [(first, True, False), (first, True, True), (first + 20, True, False)]
    later = [(first + 61, True, False), (first + 63, False, True)]

    def lines(some: list[tuple[int, bool, bool]]) -> str:
        if form == "jsonl":
            return "".join(row(at, p=p, q=q) for at, p, q in some)
        return "".join(f"@{at}{' p' * p}{' q' * q}\n" for at, p, q in some)

    checkpoint = tmp_path / "checkpoint"
    asked = ["--format", form, "--idle", "500ms", "-o", str(output), str(rules), "-"]
    asked += ["--checkpoint", str(checkpoint), "--resume", "--checkpoint-every", "1000s"]
    if form == "jsonl":
        asked += ["--time-unit", "s"]

    def is_decided() -> bool:
        """Whether what time decides has been written."""
        return output.exists() and f"alive\t{first + 50}:0 false" in output.read_text()

    for _ in range(2):
        with Live(*asked) as live:
            live.send(lines(events))
            wait_until(is_decided, live.process)
            live.process.send_signal(kind)
            live.process.wait()
            assert (live.process.stderr and live.process.stderr.read()) == b""
        # the checkpoint is of the last event
        saved = CheckpointFile(str(checkpoint)).read()
        assert saved is not None
        written = output.read_bytes()[: saved.verdicts.size].decode()
        assert f"alive\t{first + 19}:0 false" in written
        assert f"alive\t{first + 20}:0" not in written
    done = mtlmon(*asked, log=lines(events + later))
    assert (done.status, done.errors) == (1, "")
    plain = [*asked[:2], *asked[4:]]
    plain[plain.index(str(output))] = str(other)
    plain[plain.index(str(checkpoint))] = str(tmp_path / "another")
    assert mtlmon(*plain, log=lines(events + later)).status == 1
    assert sorted(output.read_text().splitlines()) == sorted(other.read_text().splitlines())


ALIVE = "policy alive per x on every 1s: count[0,3s]() > 0\n"
COMPUTED = "atom busy = count[0,30s](reset) > 4\npolicy calm: p(x) IMPLIES NOT busy\n"


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(
    ("form", "text", "options"),
    [
        ("text", WITH_VARIABLES, []),
        ("text", WITH_VARIABLES, ["--slices", "2"]),
        ("text", BOTH, []),
        ("text", WITH_VARIABLES + COMPUTED, []),
        ("text", BOTH + COMPUTED, []),
        ("jsonl", WITH_VARIABLES, ["--time-points", "row"]),
        ("jsonl", WITH_VARIABLES, ["--time-points", "stamp"]),
        ("jsonl", BOTH + ALIVE, []),
        ("jsonl", BOTH + ALIVE, ["--time-points", "stamp"]),
    ],
)
def test_a_run_of_policies_with_variables_goes_on(
    tmp_path: Path, form: str, text: str, options: list[str], kind: signal.Signals
) -> None:
    rules, output, other = tmp_path / "p.mtl", tmp_path / "output", tmp_path / "other"
    atoms = 'atom p(x) = k = "p"\natom q(x) = k = "q"\n' if form == "jsonl" else ""
    rules.write_text(f"unit s\n{atoms}{text}")
    first = int(time.time()) - 60
    events = [(first, "p", "a"), (first, "p", "b"), (first, "q", "b"), (first + 20, "p", "a")]
    # the next run has not seen time pass the last event
    later = [(first + 20, "p", "b"), (first + 61, "p", "c"), (first + 63, "q", "c")]
    later.append((first + 80, "p", "a"))

    def lines(some: list[tuple[int, str, str]]) -> str:
        if form == "jsonl":
            return "".join(row(at, k=k, x=x, alarm=k == "p", reset=False) for at, k, x in some)
        return "".join(f"@{at} {k}({x}){' alarm' * (x != 'c')} reset\n" for at, k, x in some)

    asked = ["--format", form, "--verdicts", "false", *options, str(rules), "-"]
    if form == "jsonl":
        asked += ["--time-unit", "s"]
    kept = ["--idle", "500ms", "-o", str(output), "--checkpoint", str(tmp_path / "checkpoint")]
    kept += ["--resume", "--checkpoint-every", "1000s", *asked]

    def is_decided() -> bool:
        """Whether what time decides has been written."""
        return output.exists() and f"{first + 20}:0 false (x=a)" in output.read_text()

    for _ in range(2):
        with Live(*kept) as live:
            live.send(lines(events))
            wait_until(is_decided, live.process)
            live.process.send_signal(kind)
            live.process.wait()
            assert (live.process.stderr and live.process.stderr.read()) == b""
    done = mtlmon(*kept, log=lines(events + later))
    assert (done.status, done.errors) == (1, "")
    assert mtlmon("-o", str(other), *asked, log=lines(events + later)).status == 1
    assert sorted(output.read_text().splitlines()) == sorted(other.read_text().splitlines())


ONES = "policy g: FORALL x. q(x) IMPLIES x = 1\n"


@pytest.mark.parametrize(
    ("form", "text", "options"),
    [
        ("text", "policy f: p\npolicy g: NOT p\n", ["--wait", "100s", "--late"]),
        ("text", ONES, ["--wait", "100s"]),
        ("text", f"policy f: p\n{ONES}", ["--wait", "100s"]),
        ("text", "policy f: p\n", ["--lateness", "100s", "--late"]),
        ("jsonl", "policy f: p\npolicy g: count[0,9s]() < 3\n", ["--wait", "100s", "--late"]),
        ("jsonl", "policy f: p\n", ["--wait", "0", "--on-error", "skip"]),
        ("jsonl", "policy f: p\n", ["--lateness", "100s", "--late"]),
    ],
)
def test_rows_that_time_has_refused_stay_refused(
    tmp_path: Path, form: str, text: str, options: list[str]
) -> None:
    """A run that goes on knows them, although the rows alone would not show that."""
    rules, output, late = tmp_path / "p.mtl", tmp_path / "output", tmp_path / "late"
    rules.write_text(f"unit s\n{text}")
    now = int(time.time())
    events, refused = [now - 900, now - 896, now - 896, now - 890], now - 895
    later = [now + 5000, now + 5200, now + 5300]

    def lines(stamps: list[int]) -> str:
        if form == "jsonl":
            return "".join(row(at, p=at % 2 > 0) for at in stamps)
        cell = " q({})" if "q(x)" in text else ""
        return "".join(f"@{at}{' p' * (at % 2)}{cell.format(at % 3)}\n" for at in stamps)

    if "--late" in options:
        options = [*options, str(late)]
    asked = ["--format", form, *options, "--verdicts", "all", str(rules), "-"]
    if form == "jsonl":
        asked += ["--time-unit", "s"]
    kept = ["--idle", "300ms", "-o", str(output), "--checkpoint", str(tmp_path / "checkpoint")]
    kept += ["--resume", "--checkpoint-every", "0.05s", *asked]

    def has(time_stamp: int) -> bool:
        return output.exists() and f"{time_stamp}:0 " in output.read_text()

    for count in range(2):
        with Live(*kept) as live:
            live.send(lines(events))
            wait_until(lambda: has(events[-1]), live.process)
            if not count:
                # until time has passed; a later run knows that it had
                time.sleep(1)
            live.send(lines([refused, *later[:2]]))
            wait_until(lambda: has(later[0]), live.process)
            # until there is a checkpoint
            time.sleep(0.2)
            live.process.kill()
    done = mtlmon(*kept, log=lines([*events, refused, *later]))
    assert "came too late to be checked" in done.errors
    if "--late" in options:
        assert late.read_text() == lines([refused])
    in_order = mtlmon(*asked, log=lines([*events, *later]))
    found, wanted = (
        [one for one in text.splitlines() if not one.startswith("!@")]
        for text in (output.read_text(), in_order.output)
    )
    assert sorted(found) == sorted(wanted)
