"""What explains the violations at the end of a log whose rows are taken back, or late by key.

The rows that count at the end are those of a log in the order of time, and its violations are
explained as a run explains them that never saw the others. This holds for every part of a log that
grows, of which each run goes on from the checkpoint of the one before.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon
from tests.cli.late_runs import HEADER, PLAIN_HEADER, Row, history_of, rows_of
from tests.cli.process import Ended
from tests.cli.test_late_runs import PLAIN, TABLES

Command = Callable[..., Ended]

MESSAGES = 'key k\npolicy a "{v} of {k}": p IMPLIES EVENTUALLY[0,5] q\n'
KEYED = {name: "key k\n" + text.replace("%s", "") for name, text in PLAIN.items()}


def with_rows(text: str, log: Path) -> str:
    """An explanation with the cells of rows in place of their numbers."""
    lines = log.read_text().splitlines()

    def row(found: re.Match[str]) -> str:
        return f"<{','.join(lines[int(found[1]) - 1].split(',')[:5])}>"

    return re.sub(rf"{re.escape(str(log))}:(\d+)", row, text)


class Runs:
    """Explains the violations of a log that grows, and of its rows in the order of time."""

    def __init__(self, source: random.Random, command: Command, directory: Path) -> None:
        self.source = source
        self.command = command
        self.by_key = source.random() < 0.3
        kinds = KEYED if self.by_key else {**TABLES, "messages": MESSAGES}
        self.kind = source.choice(list(kinds))
        self.policies = directory / "p.mtl"
        self.policies.write_text(kinds[self.kind])
        self.has_ids = not self.by_key or source.random() < 0.5
        self.wait = source.choice([0, 0, 1, 0.5])
        is_first = self.kind != "next" and source.random() < 0.2
        self.verdicts = ["--verdicts", "first" if is_first else "all"]
        self.log, self.ordered = directory / "log", directory / "ordered"
        self.reasons = directory / "reasons.txt"
        self.output, self.saved = directory / "out", directory / "saved"
        # explanations that are compared
        self.count = 0

    def check(self) -> None:
        lateness = self.source.choice([0, 4, 9, 25, 80])
        rows = rows_of(self.source, lateness, corrects=self.has_ids)
        if self.by_key:
            # one that lets time pass would need a key
            rows = [row for row in rows if row.op != "advance"]
        late: list[object] = ["--lateness", lateness, "--wait", int(lateness * self.wait)]
        late += ["--clock", "key"] if self.by_key else []
        late += ["--op", "op", "--id", "id"] if self.has_ids else []
        saved = ["-o", self.output, "--checkpoint", self.saved, "--resume"]
        ends = {self.source.randrange(1, len(rows) + 1) for _ in range(3)} | {len(rows)}
        for end in sorted(ends):
            header = HEADER if self.has_ids else PLAIN_HEADER
            texts = [row.cells if self.has_ids else row.plain for row in rows[:end]]
            self.log.write_text(header + "".join(texts))
            done, found = self.explained(self.log, *late, *saved)
            if done.status == 1:
                wanted = self.wanted(rows[:end], lateness)
                assert found == wanted
                self.count += found.count("violates")
                assert self.in_python(late) == wanted

    def explained(self, log: Path, *options: object) -> tuple[Ended, str]:
        """The run, and what it explains."""
        self.reasons.write_text("")
        done = self.command(
            *("--format", "csv", "--explain", "--explain-limit", "100", *self.verdicts),
            *("--explain-output", self.reasons, *options, self.policies, log),
        )
        assert done.status in (0, 1), done.errors
        assert done.errors.count("came too late to be checked") <= 1
        return done, with_rows(self.reasons.read_text(), log)

    def in_python(self, options: list[object]) -> str:
        """What `mtlmon.check` explains."""
        names = [str(one).removeprefix("--") for one in options]
        keywords: dict[str, Any] = dict(zip(names[::2], names[1::2], strict=True))
        keywords["verdicts"] = self.verdicts[1]
        self.reasons.write_text("")
        run = mtlmon.check(
            *(self.policies, self.log),
            **keywords,
            format="csv",
            explain_limit=100,
            explain_output=str(self.reasons),
        )
        assert run.finish().status == 1
        return with_rows(self.reasons.read_text(), self.log)

    def wanted(self, rows: list[Row], lateness: int) -> str:
        """What explains the violations of the rows in the order of time."""
        history = history_of(rows, lateness, by_key=self.by_key)
        some = history.rows.values()
        self.ordered.write_text(PLAIN_HEADER + "".join(row.plain for row in some))
        has_ticks = self.kind in ("ticks", "changes")
        time = history.now if has_ticks else history.passed
        last = max((row.ts for row in some), default=-1)
        passed = ["--end-time", time - 1] if time > last else []
        return self.explained(self.ordered, *passed)[1]


@pytest.mark.parametrize("first", range(4))
def test_reasons_are_those_of_the_rows_that_count(
    first: int, tmp_path: Path, command: Command, pytestconfig: pytest.Config
) -> None:
    """With `--exhaustive`, thousands of logs."""
    level: int = pytestconfig.getoption("--exhaustive")
    count = 0
    for seed in range(first, 20 * 10 ** (level - 1), 4):
        directory = tmp_path / str(seed)
        directory.mkdir()
        runs = Runs(random.Random(f"late reasons {seed}"), command, directory)
        runs.check()
        count += runs.count
    assert count


def test_rows_that_equal_a_retraction_do_not_count(tmp_path: Path, command: Command) -> None:
    """Without ids, the last one of equal rows is taken back, and the reason lacks it."""
    log = tmp_path / "log.csv"
    rows = ["1,+,true,false", "2,+,false,true", "2,-,false,true", "9,+,false,false"]
    log.write_text("\n".join(["ts,op,p,q", *rows, ""]))
    formula = ["-e", "p IMPLIES EVENTUALLY[0,5] q", log]
    done = command("--lateness", "9", "--op", "op", "--explain", "--verdicts", "none", *formula)
    assert done.status == 1
    assert "violates" in done.errors
    assert "9:0" in done.errors
    assert "2:0" not in done.errors
    shown = command("--lateness", "9", "--op", "op", "-C", "1", "--verdicts", "none", *formula)
    assert f"\n{log}:2:1,+,true,false\n{log}-3-2,+,false,true\n" in shown.errors


def test_rows_that_count_for_some_keys_only_are_not_explained(
    tmp_path: Path, command: Command
) -> None:
    """The second row is late for card 1, and in time for user b, so there is no one log."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("policy a per user: NOT p\npolicy b per card: NOT p\n")
    log.write_text("ts,user,card,p\n50,a,1,true\n10,b,1,true\n")
    late = ["--lateness", "9", "--clock", "key", "--explain", policies, log]
    done = command(*late)
    assert done.status == 1
    assert "violates" not in done.errors
    assert done.errors == (
        "mtlmon: violations are not explained: some rows count for policies with one key, and not "
        "for those with another\nmtlmon: 1 row came too late to be checked\n"
    )
    log.write_text("ts,user,card,p\n50,a,1,true\n10,b,2,true\n")
    assert command(*late).errors.count("violates") == 4


def test_what_is_wrong_with_a_log_is_told_beside_reasons(tmp_path: Path, command: Command) -> None:
    log, late = tmp_path / "log.csv", tmp_path / "late.csv"
    rows = ["50,+,a,true", "1,+,b,true", ",+,c,true", "50,-,d,", "50,+,e,true", "50,-,e,"]
    log.write_text("\n".join(["ts,op,id,p", *rows, ""]))
    done = command(
        *("--lateness", "9", "--op", "op", "--id", "id", "--late", late, "--on-error", "skip"),
        *("--explain", "-e", "NOT p", log),
    )
    assert done.errors.count("violates") == 1
    assert done.errors.count("1 row came too late to be checked") == 1
    assert done.errors.count("1 retraction found no row") == 1
    assert done.errors.count("skipped 1 row") == 1
    assert late.read_text() == "ts,op,id,p\n1,+,b,true\n"


def test_only_rows_that_the_run_has_read_count(tmp_path: Path, command: Command) -> None:
    """The run stops at the first violation; the retraction behind it is no row."""
    log = tmp_path / "log.csv"
    rows = [f"{t},+,i{t},{'true' if t == 3 else 'false'}\n" for t in range(60)]
    log.write_text("ts,op,id,p\n" + "".join(rows) + "5,-,i59,\n5,-,i58,true\n")
    done = command(
        *("--lateness", "2", "--op", "op", "--id", "id", "--verdicts", "first", "--explain"),
        *("-e", "NOT p", log),
    )
    assert done.output == "3:0 false\n"
    assert done.errors.startswith(f"at {log}:5\n3:0 violates NOT p\n")
    assert "too late" not in done.errors


def test_reasons_must_be_wanted_from_the_start(tmp_path: Path, command: Command) -> None:
    """A checkpoint without them does not have which rows count."""
    log, output, saved = (tmp_path / name for name in ("log.csv", "out", "saved"))
    log.write_text("ts,op,id,p\n50,+,a,true\n")
    run = ["--lateness", "9", "--op", "op", "-o", output, "--checkpoint", saved, "--resume"]
    run += ["--id", "id", "-e", "NOT p", log]
    assert command(*run).status == 1
    assert "--explain or --context" in command("--explain", *run).errors
