"""Logs whose rows come late, part by part, against the rows in the order of time.

After every part, the latest verdicts are those of the rows so far, with the names that these have
got: a time-point keeps its name, and that of a row that was taken back is not used again. A row
that is taken back while it waits has never had a name. The time at the end of the log is that of
the last row that is left, or of an `advance` row; for ticks, it is that of any row.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.late_runs import (
    HEADER,
    PLAIN_HEADER,
    History,
    Row,
    history_of,
    renamed,
    rows_of,
    unnumbered,
    with_counts,
)
from tests.cli.process import Ended
from tests.doors import checking_text_logs as lines
from tests.doors import formats_rows as blocks

Command = Callable[..., Ended]

PLAIN = {
    "plain": "policy a: p IMPLIES EVENTUALLY[0,5] q\npolicy b%s: p SINCE[0,7] q\n",
    "past": "policy a: NOT (p AND PREVIOUS q)\npolicy b%s: ONCE[2,6] (p AND NEXT[0,4] q)\n",
    "nested": "policy a: ALWAYS[0,6] (p IMPLIES EVENTUALLY[0,3] q)\n"
    "policy b%s: (EVENTUALLY[1,4] p) UNTIL[0,7] (PREVIOUS[0,3] q)\n",
    "windows": "stream n = count[0,6](p)\npolicy a: n < 2\npolicy b%s: NEXT (p OR NOT q)\n",
    "chosen": "stream n = count[0,6](p)\npolicy a on rows where q: p OR EVENTUALLY[0,5] p\n"
    "policy b%s on rows where n > 1: EVENTUALLY[1,6] p\n",
}
TICKS = "policy t on every 4: count[0,9](p) > 0 IMPLIES EVENTUALLY[0,8] (count[0,4](q) > 0)\n"
ANSWERS = (
    "policy a: FORALL k. pa(k) IMPLIES EVENTUALLY[0,6] EXISTS v. qa(k, v)\n"
    "find c: qa(k, v) AND PREVIOUS[0,5] pa(j)\n"
)
TEXTS = {
    **{name: text.replace("%s", "") for name, text in PLAIN.items()},
    "ticks": TICKS + PLAIN["plain"].replace("%s", ""),
    "variables": f"atom pa(k: text)\natom qa(k: text, v: int)\n{ANSWERS}",
}
TABLES = {
    **{name: "key k\n" + text.replace("%s", " per none") for name, text in PLAIN.items()},
    "keys": "key k\n" + PLAIN["plain"].replace("%s", ""),
    "ticks": "key k\n" + TICKS + PLAIN["plain"].replace("%s", " per none"),
    "next": "key k\npolicy a: v.next() > v\npolicy b per none: p IMPLIES EVENTUALLY[0,5] q\n",
    "look-ups": "key k\nrelation r = rows valid 6 group k select sum(v) as s\n"
    "policy a: EVENTUALLY[0,5] r[k].s > 9\npolicy b per none: p SINCE[0,7] q\n",
    "changes": "key k\nrelation r = rows valid 5 where p select k as k, v as v\n"
    "policy t on changes of r: EVENTUALLY[0,9] exists r[k = k.hold()]\npolicy a: NEXT[0,3] q\n",
    "variables": f"atom pa(k: text) = p\natom qa(k: text, v: int) = q\n{ANSWERS}",
    "both": f"key k\natom pa(k: text) = p\natom qa(k: text, v: int) = q\n{ANSWERS}"
    "policy b: p IMPLIES EVENTUALLY[0,5] q\n",
}


class Runs:
    """Runs the command on a log that grows, and on the rows in the order of time."""

    def __init__(self, source: random.Random, command: Command, directory: Path) -> None:
        self.source = source
        self.command = command
        self.is_table = source.random() < 0.6
        kinds = TABLES if self.is_table else TEXTS
        self.kind = source.choice(list(kinds))
        self.corrects = self.is_table and source.random() < 0.7
        self.policies = directory / "p.mtl"
        self.policies.write_text(kinds[self.kind])
        self.whole = {
            "variables": ["a", "c"],
            "both": [],
            "keys": [],
            "changes": [],
        }.get(self.kind, ["b"])
        # all verdicts, or equivalences as they are
        self.options: list[object] = ["--verdicts", "all"]
        self.wait = source.choice(["none", "none", "all", "some"])
        self.options += ["--resolve"] if source.random() < 0.5 or self.wait == "some" else []
        self.options += ["--format", "csv"] if self.is_table else []
        self.log, self.ordered = directory / "log", directory / "ordered"
        self.output, self.late = directory / "out", directory / "late"

    def check(self) -> None:
        lateness = self.source.choice([0, 4, 9, 25, 80])
        wait = {"none": 0, "all": lateness, "some": lateness // 2}[self.wait]
        rows = rows_of(self.source, lateness, corrects=self.corrects)
        late: list[object] = ["--lateness", lateness, "--late", self.late, "-o", self.output]
        late += ["--wait", wait] if wait else []
        late += ["--op", "op", "--id", "id"] if self.corrects else []
        if self.corrects and self.source.random() < 0.5:
            rows = with_counts(self.source, rows, lateness)
            late += ["--complete", "since,n"]
        late += ["--checkpoint", self.output.with_name("saved"), "--resume"]
        ends = {self.source.randrange(1, len(rows) + 1) for _ in range(3)} | {len(rows)}
        for end in sorted(ends):
            header = HEADER if self.corrects else self.header
            texts = [row.cells if self.corrects else self.text(row) for row in rows[:end]]
            self.log.write_text(header + "".join(texts))
            done = self.command(*self.options, *late, self.policies, self.log)
            assert done.status in (0, 1), done.errors
            history = history_of(rows[:end], lateness)
            found, wanted = self.latest(), self.wanted(history, has_names=not wait)
            if wait not in (0, lateness):
                # a row that is taken back has a name or not
                found, wanted = unnumbered(found), unnumbered(wanted)
            assert found == wanted
            refused = [texts[number] for number in history.refused]
            assert self.late.read_text() == (header if refused else "") + "".join(refused)
            assert ("than were counted" in done.errors) == bool(history.incomplete)

    @property
    def header(self) -> str:
        return PLAIN_HEADER if self.is_table else ""

    def text(self, row: Row) -> str:
        return row.plain if self.is_table else row.line(has_values=self.kind == "variables")

    def latest(self) -> list[str]:
        return sorted(self.command("latest", self.output).output.splitlines())

    def wanted(self, history: History, *, has_names: bool) -> list[str]:
        rows = history.rows.values()
        if not rows:
            return []
        self.ordered.write_text(self.header + "".join(map(self.text, rows)))
        last = max(row.ts for row in rows)
        lines: list[str] = []
        for names, time in (("abc", history.passed), ("t", history.now)):
            if names == "t" and self.kind not in ("ticks", "changes"):
                continue
            passed = ["--end-time", time - 1] if time > last else []
            done = self.command(*self.options, *passed, self.policies, self.ordered)
            assert done.status in (0, 1), done.errors
            lines += [line for line in done.output.splitlines() if line.partition("\t")[0] in names]
        ticks = [line for line in lines if line[0] == "t"]
        others = [line for line in lines if line[0] != "t"]
        return sorted(ticks + (renamed(others, history, self.whole) if has_names else others))


@pytest.mark.parametrize("first", range(4))
def test_every_part_comes_to_the_rows_in_order(
    first: int,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """With `--exhaustive`, thousands of logs."""
    level: int = pytestconfig.getoption("--exhaustive")
    for seed in range(first, 20 * 10 ** (level - 1), 4):
        source = random.Random(f"late runs {seed}")
        size = source.choice([40, 80, 200, 1 << 18])
        for name in ("BLOCK_BYTES", "FIRST_BLOCK_BYTES"):
            monkeypatch.setattr(blocks, name, size)
        monkeypatch.setattr(lines, "_BLOCK_BYTES", size)
        directory = tmp_path / str(seed)
        directory.mkdir()
        Runs(source, command, directory).check()
