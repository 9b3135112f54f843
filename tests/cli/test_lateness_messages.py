"""Messages of violations in tables, where rows come late, are taken back or let time pass.

The last row of each time-point is that of the log in the order of time, with its message. So a
message that another row changes is written again, even if the verdict stays.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon
from tests.cli.late_runs import HEADER, PLAIN_HEADER, History, history_of, numbers_in_order, rows_of
from tests.cli.process import Ended
from tests.cli.test_lateness_report import listed_messages
from tests.doors import checking_late_messages as late_messages
from tests.doors import checking_late_origins as late_origins
from tests.doors import checking_text_logs as lines
from tests.doors import formats_rows as blocks

Command = Callable[..., Ended]
Verdicts = dict[tuple[Any, ...], tuple[Any, ...]]

TABLES = {
    "rows": 'policy a: NOT p message "{v} of {k}"\npolicy b%s: q message "no q"\n',
    "windows": 'stream n = sum[0,6](v)\npolicy a: n < 9 message "{n}"\n'
    'policy b%s: p message "{v.last()} before {v}"\n',
    "triggers": "trigger a%s: p and count[0,9](q) > 0 "
    'message "{count[0,5](p)} of {last[0,*](k)}"\n',
    "later": 'policy a: p IMPLIES EVENTUALLY[0,5] q message "{v}, {max[0,9](v)}"\n'
    'policy b%s: p IMPLIES EVENTUALLY[0,3] q message "{count[0,4](p)}"\n',
    "chosen": 'policy a on rows where q: NOT p message "{v}, {sum[0,8](v)}"\n'
    'policy b%s on rows where count[0,6](p) > 1: EVENTUALLY[0,3] p message "no p"\n',
    "ticks": 'policy t on every 4: count[0,9](p) < 2 message "{sum[0,9](v)}, {v}"\n'
    'policy b%s: NOT p message "{v}"\n',
    "next": 'policy a: v.next() > v message "{v}, {v.next()}"\npolicy b%s: q message "{v}"\n',
    "look-ups": "relation r = rows valid 6 group k select sum(v) as s\n"
    'policy a: r[k].s < 9 message "{r[k].s} of {k}"\npolicy b%s: NOT q\n',
    "changes": "relation r = rows valid 5 where p select k as k, v as v\n"
    'policy t on changes of r: exists r[k = k.hold()] message "{count[0,5](q)}"\n',
    "instances": 'stream s = count[0,9]() per v\npolicy a: s[v] < 2 message "{s[v]} of {v}"\n',
}
TEXTS = {
    "rows": 'policy a: NOT p message "p"\npolicy b: NOT q message "at {ts}"\n',
    "windows": 'policy a: count[0,6](p) < 2 message "{count[0,9](q)}"\n',
}


class Runs:
    """Runs the command on a log that grows, and on the rows in the order of time."""

    def __init__(self, source: random.Random, command: Command, directory: Path) -> None:
        self.source = source
        self.command = command
        self.is_table = source.random() < 0.85
        kinds = TABLES if self.is_table else TEXTS
        self.kind = source.choice(list(kinds))
        self.corrects = self.is_table and source.random() < 0.6
        self.has_whole = self.is_table and source.random() < 0.5
        text = kinds[self.kind].replace("%s", " per none" if self.has_whole else "")
        self.policies = directory / "p.mtl"
        self.policies.write_text(f"key k\n{text}" if self.is_table else text)
        self.verdicts = source.choice(["all", "false", "boolean"])
        self.wait = source.choice([0, 0, 0, 1])
        self.log, self.ordered = directory / "log", directory / "ordered"
        self.output = directory / "out.jsonl"
        self.format = ["--format", "csv"] if self.is_table else []
        self.updates = 0

    def check(self) -> None:
        lateness = self.source.choice([0, 4, 9, 25, 80])
        rows = rows_of(self.source, lateness, corrects=self.corrects)
        self.wait *= lateness
        late: list[object] = ["--lateness", lateness, "--wait", self.wait]
        late += ["--op", "op", "--id", "id"] if self.corrects else []
        saved = ["-o", self.output, "--checkpoint", self.output.with_name("saved"), "--resume"]
        ends = {self.source.randrange(1, len(rows) + 1) for _ in range(3)} | {len(rows)}
        for end in sorted(ends):
            header = HEADER if self.corrects else self.header
            texts = [
                row.cells if self.corrects else self.text(row.plain, row.line(has_values=False))
                for row in rows[:end]
            ]
            self.log.write_text(header + "".join(texts))
            done = self.run(self.log, *late, *saved)
            assert done.status in (0, 1), done.errors
            history = history_of(rows[:end], lateness)
            wanted = self.wanted(history)
            written = [json.loads(line) for line in self.output.read_text().splitlines()]
            assert self.latest(written) == wanted
            if not self.corrects or end == len(rows):
                keywords = dict(zip(map(str, late[::2]), map(str, late[1::2]), strict=True))
                assert self.latest(self.in_python(keywords)) == wanted

    def run(self, log: Path, *options: object) -> Ended:
        fixed = [*self.format, "--output-format", "jsonl", "--verdicts", self.verdicts, "--resolve"]
        return self.command(*fixed, *options, self.policies, log)

    def in_python(self, options: dict[str, str]) -> list[dict[str, Any]]:
        """What `mtlmon.check` answers."""
        keywords: dict[str, Any] = {name[2:]: value for name, value in options.items()}
        if self.is_table:
            keywords["format"] = "csv"
        keywords |= {"verdicts": self.verdicts, "resolve": True}
        return list(map(dict, mtlmon.check(self.policies, self.log, **keywords)))

    @property
    def header(self) -> str:
        return PLAIN_HEADER if self.is_table else ""

    def text(self, row: str, line: str) -> str:
        return row if self.is_table else line

    def latest(self, rows: list[dict[str, Any]]) -> Verdicts:
        """The latest verdicts and messages, by time-point."""
        found: Verdicts = {}
        for row in rows:
            name = row["policy"], row.get("k"), row["time"], row["offset"]
            known = found.pop(name, None)
            self.updates += known is not None and known[0] is row["verdict"] is False
            if row["op"] != "delete":
                found[name] = row["verdict"], row.get("message")
                # each row says something else
                assert known != found[name]
        return self.wanted_kinds(found)

    def wanted_kinds(self, found: Verdicts) -> Verdicts:
        if self.verdicts != "false":
            return found
        return {name: own for name, own in found.items() if own[0] is False}

    def wanted(self, history: History) -> Verdicts:
        """What a run says of the rows in the order of time, with the names of the others."""
        rows = history.rows.values()
        found: Verdicts = {}
        if not rows:
            return found
        texts = [self.text(row.plain, row.line(has_values=False)) for row in rows]
        self.ordered.write_text(self.header + "".join(texts))
        numbers = numbers_in_order(history)
        last = max(row.ts for row in rows)
        for names, time in (("ab", history.passed), ("t", history.now)):
            passed = ["--end-time", time - 1] if time > last else []
            done = self.run(self.ordered, *passed)
            assert done.status in (0, 1), done.errors
            for line in done.output.splitlines():
                own = json.loads(line)
                if own["policy"] not in names:
                    continue
                key, offset = own.get("k"), own["offset"]
                # a row that is taken back while it waits has no name
                if own["policy"] != "t" and not self.wait:
                    offset = history.names[key, numbers[key, own["time"], offset]]
                name = own["policy"], key, own["time"], offset
                found[name] = own["verdict"], own.get("message")
        return self.wanted_kinds(found)


@pytest.mark.parametrize("first", range(4))
def test_the_latest_messages_are_those_of_the_rows_in_order(
    first: int,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """With `--exhaustive`, thousands of logs."""
    level: int = pytestconfig.getoption("--exhaustive")
    updates = 0
    for seed in range(first, 28 * 10 ** (level - 1), 4):
        source = random.Random(f"late messages {seed}")
        size = source.choice([40, 80, 200, 1 << 18])
        for name in ("BLOCK_BYTES", "FIRST_BLOCK_BYTES"):
            monkeypatch.setattr(blocks, name, size)
        monkeypatch.setattr(lines, "_BLOCK_BYTES", size)
        monkeypatch.setattr(late_messages, "_SPARE_MESSAGES", source.choice([0, 4096]))
        directory = tmp_path / str(seed)
        directory.mkdir()
        runs = Runs(source, command, directory)
        runs.check()
        updates += runs.updates
    assert updates or level == 1


TOTAL = 'unit s\npolicy total: sum[0,9s](v) < 5 message "{sum[0,9s](v)} at {ts}"\n'


def test_a_message_that_a_late_row_changes_is_an_update() -> None:
    """The violation remains one, and what it says is another number."""
    with mtlmon.live(TOTAL, lateness=9) as run:
        told = [dict(answer) for row in ((1, 4), (5, 4), (3, 2)) for answer in run.feed(_row(*row))]
    names = ("time", "verdict", "message", "op", "revision")
    assert [tuple(one[name] for name in names) for one in told] == [
        (1, True, None, "insert", 1),
        (5, False, "8 at 5", "insert", 2),
        (3, False, "6 at 3", "insert", 3),
        (5, False, "10 at 5", "update", 3),
    ]


def _row(ts: int, v: int) -> dict[str, int]:
    return {"ts": ts, "v": v}


def test_a_state_has_the_messages_that_may_change() -> None:
    with mtlmon.live(TOTAL, lateness=9) as run:
        run.feed([_row(1, 4), _row(5, 4)])
        state = run.snapshot()
    with mtlmon.live(TOTAL, lateness=9, snapshot=state) as run:
        told = [(one["time"], one["message"], one["op"]) for one in run.feed(_row(3, 2))]
    assert told == [(3, "6 at 3", "insert"), (5, "10 at 5", "update")]


def test_messages_of_keys_with_their_own_time(tmp_path: Path, command: Command) -> None:
    """Row y is far below row x, but not late for its key."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text('key k\npolicy a: NOT p message "{count[0,9](p)} of {k}"\n')
    log.write_text("ts,k,p\n900,x,true\n5,y,true\n3,y,true\n880,x,true\n")
    done = command("--lateness", 9, "--clock", "key", "--output-format", "jsonl", policies, log)
    found = [json.loads(line) for line in done.output.splitlines()]
    assert {(one["k"], one["time"], one["message"]) for one in found} == {
        ("x", 900, "1 of x"),
        ("y", 5, "2 of y"),
        ("y", 3, "1 of y"),
    }


def test_messages_beside_policies_with_variables(tmp_path: Path, command: Command) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text(
        "atom pa(k: text) = p\natom qa(k: text, v: int) = q\n"
        'policy a: NOT p message "{sum[0,9](v)}"\n'
        "policy b: FORALL k. pa(k) IMPLIES EXISTS v. qa(k, v)\n"
    )
    log.write_text("ts,k,p,q,v\n5,x,true,false,3\n3,y,true,true,4\n")
    late: list[object] = ["--lateness", 9, "--output-format", "", "--verdicts", "false"]
    for late[3] in ("jsonl", "csv"):
        done = command(*late, policies, log)
        assert done.status == 1
        assert '"7"' in done.output
        assert '"4"' in done.output
    late[3] = "jsonl"
    found = [json.loads(line) for line in command(*late, policies, log).output.splitlines()]
    assert [(one["policy"], one["time"]) for one in found] == [("a", 3), ("a", 5), ("b", 5)]


def test_the_first_violation_has_its_last_message(tmp_path: Path, command: Command) -> None:
    """It is written when nothing changes it any more."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text(TOTAL)
    log.write_text("ts,v\n1,4\n5,4\n3,0\n60,0\n90,0\n")
    late = ["--lateness", 9, "--output-format", "jsonl", "--verdicts", "first"]
    (line,) = command(*late, policies, log).output.splitlines()
    assert (json.loads(line)["time"], json.loads(line)["message"]) == (5, "8 at 5")


def test_messages_and_rows_stay_until_all_policies_are_final(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The violation of `a` at 1 is the first one as soon as `b` is decided there, long after."""
    monkeypatch.setattr(late_messages, "_SPARE_MESSAGES", 0)
    monkeypatch.setattr(late_origins, "_SPARE_ROWS", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 20)
    monkeypatch.setattr(blocks, "FIRST_BLOCK_BYTES", 20)
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    text = 'policy a: NOT p message "{v}"\npolicy b: q IMPLIES EVENTUALLY[0,50] NOT q\n'
    answers = "atom pa(v: int) = p\npolicy c: pa(x) IMPLIES EVENTUALLY[0,70] pa(x)\n"
    rows = "".join(f"{t},{str(t > 0).lower()},{str(t != 50).lower()},{t}\n" for t in range(90))
    log.write_text(f"ts,p,q,v\n{rows}")
    for more in ("", answers):
        policies.write_text(text + more)
        late = ["--lateness", 5, "--output-format", "jsonl", "--verdicts", "first", "--rows"]
        (line,) = command(*late, policies, log).output.splitlines()
        found = json.loads(line)
        assert (found["policy"], found["message"], found["row"]) == ("a", "1", 3)


def test_a_report_has_messages_of_rows_that_were_corrected(
    tmp_path: Path, command: Command
) -> None:
    """The first row is taken back, and a later run corrects another one."""
    policies, log, page = tmp_path / "p.mtl", tmp_path / "log.csv", tmp_path / "page.html"
    policies.write_text('policy a: NOT p message "{sum[0,9](v)}"\n')
    rows = ["1,+,a,true,5", "2,+,b,true,6", "1,-,a,,", "4,+,c,true,7", "2,+,b,true,8"]
    rows.append("60,+,d,false,0")
    saved = ["-o", tmp_path / "out", "--checkpoint", tmp_path / "saved", "--resume"]
    for count in (3, 4, 6):
        log.write_text("\n".join(["ts,op,id,p,v", *rows[:count], ""]))
        done = command(
            *("--lateness", 9, "--op", "op", "--id", "id", "--report", page, *saved, policies, log)
        )
        assert done.status == 1
    assert listed_messages(page) == [("2:1", "8"), ("4:0", "15")]
