"""Logs whose rows come late, part by part, against the rows in the order of time.

After every part, the latest verdicts are those of the rows so far, with the names that these have
got: a time-point keeps its name, and that of a row that was taken back is not used again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon.checking.text_logs as lines
import mtlmon.tables.formats.rows as blocks
from tests.cli.late_runs import HEADER, History, Row, history_of, renamed, rows_of
from tests.cli.process import Ended

Command = Callable[..., Ended]

PLAIN = {
    "plain": "policy a: p IMPLIES EVENTUALLY[0,5] q\npolicy b%s: p SINCE[0,7] q\n",
    "past": "policy a: NOT (p AND PREVIOUS q)\npolicy b%s: ONCE[2,6] (p AND NEXT[0,4] q)\n",
    "nested": "policy a: ALWAYS[0,6] (p IMPLIES EVENTUALLY[0,3] q)\n"
    "policy b%s: (EVENTUALLY[1,4] p) UNTIL[0,7] (PREVIOUS[0,3] q)\n",
    "windows": "stream n = count[0,6](p)\npolicy a: n < 2\npolicy b%s: NEXT (p OR NOT q)\n",
}
ANSWERS = (
    "policy a: FORALL k. pa(k) IMPLIES EVENTUALLY[0,6] EXISTS v. qa(k, v)\n"
    "find c: qa(k, v) AND PREVIOUS[0,5] pa(j)\n"
)
TEXTS = {
    **{name: text.replace("%s", "") for name, text in PLAIN.items()},
    "variables": f"atom pa(k: text)\natom qa(k: text, v: int)\n{ANSWERS}",
}
TABLES = {
    **{name: "key k\n" + text.replace("%s", " per none") for name, text in PLAIN.items()},
    "keys": "key k\n" + PLAIN["plain"].replace("%s", ""),
    "variables": f"atom pa(k: text) = p\natom qa(k: text, v: int) = q\n{ANSWERS}",
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
        is_whole = " per none" in kinds[self.kind]
        self.whole = ["a", "c"] if self.kind == "variables" else ["b"] if is_whole else []
        # all verdicts, or equivalences as they are
        self.options: list[object] = ["--verdicts", "all"]
        self.options += ["--resolve"] if source.random() < 0.5 else []
        self.options += ["--format", "csv"] if self.is_table else []
        self.log, self.ordered = directory / "log", directory / "ordered"
        self.output, self.late = directory / "out", directory / "late"

    def check(self) -> None:
        lateness = self.source.choice([0, 4, 9, 25])
        rows = rows_of(self.source, lateness, corrects=self.corrects)
        late: list[object] = ["--lateness", lateness, "--late", self.late, "-o", self.output]
        late += ["--op", "op", "--id", "id"] if self.corrects else []
        late += ["--checkpoint", self.output.with_name("saved"), "--resume"]
        ends = {self.source.randrange(1, len(rows) + 1) for _ in range(3)} | {len(rows)}
        for end in sorted(ends):
            header = HEADER if self.corrects else self.header
            texts = [row.cells if self.corrects else self.text(row) for row in rows[:end]]
            self.log.write_text(header + "".join(texts))
            done = self.command(*self.options, *late, self.policies, self.log)
            assert done.status in (0, 1), done.errors
            history = history_of(rows[:end], lateness)
            if history.rows:
                assert self.latest() == self.wanted(history)
            refused = [texts[number] for number in history.refused]
            assert self.late.read_text() == (header if refused else "") + "".join(refused)

    @property
    def header(self) -> str:
        return HEADER.replace(",op,id", "") if self.is_table else ""

    def text(self, row: Row) -> str:
        return row.plain if self.is_table else row.line(has_values=self.kind == "variables")

    def latest(self) -> list[str]:
        return sorted(self.command("latest", self.output).output.splitlines())

    def wanted(self, history: History) -> list[str]:
        rows = history.rows.values()
        self.ordered.write_text(self.header + "".join(map(self.text, rows)))
        last = max(row.ts for row in rows)
        passed = ["--end-time", history.passed - 1] if history.passed > last else []
        done = self.command(*self.options, *passed, self.policies, self.ordered)
        assert done.status in (0, 1), done.errors
        return renamed(done.output.splitlines(), history, self.whole)


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
