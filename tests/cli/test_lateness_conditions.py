"""Policies with variables whose atoms depend on other rows, with rows that come late."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import Command
from tests.cli.test_lateness_keys import latest_lines
from tests.doors import checking_late_partitions as late_partitions
from tests.doors import tables_arrivals
from tests.run.both import check_both
from tests.sampling import thinned

TEXT = """\
atom busy = count[0,9](quick) >= 2
atom often = count[0,4](approve) > 1
policy one: FORALL u, f. publish(u, f) AND busy IMPLIES ONCE[0,9] seen(f)
policy two: FORALL f. seen(f) AND NOT often IMPLIES EVENTUALLY[0,4] EXISTS u. publish(u, f)
"""
TABLE = """\
time "ts"
stream total = total.last(or: 0) + n
stream many = count[0,9](n > 2)
atom publish(user: text, file: text) = what = "publish" and many >= 2
atom seen(file: text) = what = "seen"
atom busy = total > 20 and n > 1
policy one: FORALL u, f. publish(u, f) AND NOT busy IMPLIES ONCE[0,9] seen(f)
find two: seen(f) AND PREVIOUS[0,5] EXISTS u. publish(u, f)
"""


ARGUMENTS = """\
time "ts"
stream total = total.last(or: 0) + n
stream mean = avg[1,2](n)
stream lately = count[0,4](n > 2)
stream before = user.last()
atom publish(user: text, sum = total) = what = "publish"
atom seen(file: text, n: int, mean = mean) = what = "seen"
atom follows(user: text, before = before) = lately > 1
atom busy = total > 20 and n > 1
policy one: FORALL u, s. publish(u, s) AND s > 40
  IMPLIES ONCE[0,9] EXISTS f, n, m. seen(f, n, m) AND m > 2.0
policy two: FORALL u, v. follows(u, v) IMPLIES u = v OR busy OR EVENTUALLY[0,4] follows(v, u)
find three: seen(f, n, m) AND PREVIOUS[0,5] EXISTS u. publish(u, s) AND s > 10
"""

LOOK_UPS = """\
time "ts"
relation lately = rows valid 5 group user select sum(n) as s
relation readers = rows valid until what = "publish" per file where n > 2 select file as file
stream total = total.last(or: 0) + n
atom publish(user: text, file: text) = what = "publish" and lately[user].s > 4
atom seen(file: text, sum = lately[user].s) = what = "seen"
atom open(file: text) = exists readers[file]
atom busy = total > 20 and n > 1
policy one: FORALL u, f. publish(u, f) AND NOT busy
  IMPLIES ONCE[0,9] EXISTS s. seen(f, s) AND s > 3
policy two: FORALL f, s. seen(f, s) AND s > 4 IMPLIES EVENTUALLY[0,4] open(f)
find three: open(f) AND PREVIOUS[0,5] EXISTS u. publish(u, f)
find sums: seen(f, s)
"""
KEYS = """\
time "ts"
key user
stream total = total.last(or: 0) + n
stream many = count[0,9](n > 2)
stream before = file.last()
atom publish(file: text, sum = total) = what = "publish" and many >= 1
atom seen(file: text) = what = "seen" and total > 3
atom follows(file: text, before = before) = many < 4
atom busy = total > 12 and n > 1
policy one: FORALL f, s. publish(f, s) AND NOT busy IMPLIES ONCE[0,9] seen(f)
policy two per file: FORALL s. publish("f", s) AND s > 9 IMPLIES busy OR EVENTUALLY[0,4] busy
policy three per none: FORALL f, s. publish(f, s) AND s > 20 IMPLIES PREVIOUS[0,5] seen(f)
find four: follows(f, g) AND PREVIOUS[0,5] follows(g, f)
find sums: publish(f, s)
find before per none: follows(f, g)
"""
KEYED_LOOK_UPS = (
    KEYS.replace(
        "stream many", "relation lately = rows valid 5 group file select sum(n) as s\nstream many"
    )
    .replace("many >= 1", "lately[file].s > 4")
    .replace("sum = total", "sum = lately[file].s")
)
TEXTS = {
    "text": TEXT,
    "csv": TABLE,
    "arguments": ARGUMENTS,
    "look-ups": LOOK_UPS,
    "keys": KEYS,
    "keyed look-ups": KEYED_LOOK_UPS,
}
BESIDE = """\
policy plain per none: total < 60
"""
BESIDE_LOOKING = """\
policy looking per file: exists lately or n < 2
"""


def rows_of(kind: str, source: random.Random, count: int) -> list[str]:
    now, rows = 100, []
    for number in range(count):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        user, file, n = source.choice("ab"), source.choice("fgh"), source.randrange(6)
        what = source.choice(["publish", "seen"])
        if kind == "text":
            words = f"publish({user}, {file})" if what == "publish" else f"seen({file})"
            marks = [name for name in ("quick", "approve") if source.random() < 0.3]
            rows.append(" ".join([f"@{stamp}", words, *marks]) + "\n")
        else:
            rows.append(f"{stamp},+,{number},{what},{user},{file},{n}\n")
    return rows


def left_out(errors: str) -> list[str]:
    return [line for line in errors.splitlines() if "left out" in line]


@pytest.mark.parametrize("seed", thinned(range(4)))
@pytest.mark.parametrize("kind", [*TEXTS])
def test_answers_are_those_of_the_rows_in_order(
    kind: str, seed: int, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each part of a log, each by another run, alone and beside other policies."""
    monkeypatch.setattr(late_partitions, "_SPARE_ROWS", 4)
    # batches as they come from a pipe
    monkeypatch.setattr(tables_arrivals, "_MOST_ROWS", 5)
    file, log = tmp_path / "p.mtl", tmp_path / ("log" if kind == "text" else "log.csv")
    head = "" if kind == "text" else "ts,op,id,what,user,file,n\n"
    beside = (
        ["", "", BESIDE, BESIDE_LOOKING if "look-ups" in kind else BESIDE][seed] if head else ""
    )
    file.write_text(TEXTS[kind] + beside)
    rows = rows_of(kind, random.Random(f"{kind} {seed}"), 60)
    options = ["--verdicts", "all", "--resolve"][: 3 if beside else 2]
    options += ["--time-points", "stamp"] if seed == 1 and head and "key" not in kind else []
    late = [[], ["--wait", 3], ["--slices", 3], []][seed]
    saved, output = tmp_path / "saved", tmp_path / "out"
    kept = ["--checkpoint", saved, "--resume", "-o", output]
    for count in (6, 31, len(rows)):
        log.write_text(head + "".join(rows[:count]))
        done = command("--lateness", 7, *late, *kept, *options, file, log)
        wanted = command("--wait", 7, *options, file, log)
        assert done.status == wanted.status, done.errors
        assert latest_lines(command, tmp_path, output.read_text()) == sorted(
            wanted.output.splitlines()
        )
        assert left_out(done.errors) == left_out(wanted.errors)

    monkeypatch.undo()
    check_both(file, log, "--lateness", "7", *map(str, late), *options)


@pytest.mark.parametrize("text", [*TEXTS.values()][1:], ids=[*TEXTS][1:])
def test_rows_that_are_taken_back(text: str, tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(text)
    head = "ts,op,id,what,user,file,n\n"
    for seed in range(4):
        source = random.Random(seed)
        stamps = source.sample(range(100, 400), 60)
        rows: list[str] = []
        left: dict[str, str] = {}
        for row, stamp in zip(rows_of("csv", source, 60), stamps, strict=True):
            cells = [str(stamp), *row.split(",")[1:]]
            cells[2] = source.choice("ijklmnopqrst")
            if source.random() < 0.3 and cells[2] in left:
                # what else it says does not matter
                cells[0], cells[1] = "0", "-"
                del left[cells[2]]
            else:
                left[cells[2]] = ",".join(cells)
            rows.append(",".join(cells))
        output, saved = tmp_path / f"out{seed}", tmp_path / f"saved{seed}"
        options = ["--lateness", 900, "--op", "op", "--id", "id", "-o", output]
        for count in (20, 21, len(rows)):
            log.write_text(head + "".join(rows[:count]))
            done = command(*options, "--checkpoint", saved, "--resume", file, log)
            assert done.status in (0, 1), done.errors
        log.write_text(head + "".join(left.values()))
        wanted = command("--wait", 900, file, log)
        assert latest_lines(command, tmp_path, output.read_text()) == sorted(
            wanted.output.splitlines()
        )


@pytest.mark.parametrize("kind", ["arguments", "look-ups", "keyed look-ups"])
def test_arguments_of_rows_that_are_equal(kind: str, tmp_path: Path, command: Command) -> None:
    """Beside a policy without variables; rows without ids are taken back."""
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(f"{TEXTS[kind]}{BESIDE}")
    head = "ts,op,what,user,file,n\n"
    for seed in thinned(range(4)):
        source = random.Random(seed)
        rows, left = list[str](), list[tuple[int, str]]()
        for row in rows_of("csv", source, 50):
            stamp, _, _, rest = row.split(",", 3)
            if left and source.random() < 0.2:
                own = source.choice(left)
                # the last one of those that are equal
                del left[len(left) - 1 - left[::-1].index(own)]
                rows.append(f"{own[0]},-,{own[1]}")
                continue
            left.append((int(stamp), rest))
            rows.append(f"{stamp},+,{rest}")
        output = tmp_path / f"out{seed}"
        log.write_text(head + "".join(rows))
        given = ["--verdicts", "false"]
        done = command("--lateness", 900, "--op", "op", *given, "-o", output, file, log)
        assert done.status in (0, 1), done.errors
        left.sort(key=lambda one: one[0])
        log.write_text("ts,what,user,file,n\n" + "".join(f"{one},{rest}" for one, rest in left))
        wanted = command(*given, file, log)
        # offsets of rows that were taken back are not given again
        found, expected = (
            sorted(re.sub(r"\b(\d+):\d+ ", r"\1 ", line) for line in lines)
            for lines in (
                latest_lines(command, tmp_path, output.read_text()),
                wanted.output.splitlines(),
            )
        )
        assert found == expected


class Case(NamedTuple):
    """Rows that come one by one, and the lines that hold at last, with or without waiting."""

    rationale: str
    policies: str
    rows: Sequence[str]
    lines: Sequence[str]


CASES = {
    "a late row makes an atom of another row": Case(
        "The late row is valid at 12, where bob publishes more than the limit of 5: 4 and 3 are 7.",
        """
relation lately = rows valid 5 group user select sum(n) as s
atom big(user: text) = lately[user].s > 5
policy one: NOT big(u)
""",
        ["12,w,bob,f,4", "20,w,ann,f,1", "11,w,bob,f,3"],
        ["one\t12:0 false (u=bob)"],
    ),
    "a late row changes an argument of another row": Case(
        "At 12 the sum is 4 before the late row, and 7 with it: another answer in its place.",
        """
relation lately = rows valid 5 group user select sum(n) as s
atom total(user: text, s = lately[user].s) = n > 2
find sums: total(u, s)
""",
        ["12,w,bob,f,4", "20,w,ann,f,1", "11,w,bob,f,3"],
        ["sums\t11:0 match (u=bob, s=3)", "sums\t12:0 match (u=bob, s=7)"],
    ),
    "rows of one time-stamp see each other": Case(
        "All rows of 12 are valid then, also for the first of them. So it waits until time passes.",
        """
relation lately = rows valid 5 group user select sum(n) as s
atom total(user: text, s = lately[user].s) = n > 2
find sums: total(u, s)
""",
        ["12,w,bob,f,4", "12,w,bob,f,3"],
        ["sums\t12:0 match (u=bob, s=7)", "sums\t12:1 match (u=bob, s=7)"],
    ),
    "an atom counts rows of the key for one policy and all rows for another": Case(
        """An atom asks for its condition among the rows of the key. That the same atom has rows
        for the whole log, too, does not matter: bob reads twice, the second time as the fourth.""",
        """
key user
stream reads = count[0,9]()
atom many(n: int, reads = reads) = reads > 1
policy own: many(n, m) IMPLIES n = m
policy whole per none: many(n, m) IMPLIES n = m
""",
        ["1,r,ann,f,5", "4,r,bob,f,7", "3,r,ann,f,2", "2,r,bob,f,5"],
        [
            "own\tbob\t4:0 false (n=7, m=2)",
            "whole\t\t2:0 false (n=5, m=2)",
            "whole\t\t3:0 false (n=2, m=3)",
            "whole\t\t4:0 false (n=7, m=4)",
        ],
    ),
    "a window of a key reaches over rows of others": Case(
        """The late row of ann at 2 is her first one, so 6 has two of hers within 4. Those of bob,
        which lie between, do not count, and the offset is that among her rows.""",
        """
key user
stream reads = count[0,4]()
atom many(file: text) = reads > 1
policy own: NOT many(f)
""",
        ["5,r,bob,f,1", "6,r,bob,g,1", "6,r,ann,f,1", "2,r,ann,f,1"],
        ["own\tann\t6:0 false (f=f)", "own\tbob\t6:0 false (f=g)"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, tmp_path: Path, command: Command) -> None:
    """By a run in order, by one that corrects, and by one that gets the lines one by one."""
    _, policies, rows, lines = CASES[name]
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(f'time "ts"{policies}')
    text = "".join(f"{row}\n" for row in ("ts,what,user,file,n", *rows))
    log.write_text(text)
    assert sorted(command("--wait", 20, file, log).output.splitlines()) == sorted(lines)
    late = command("--lateness", 20, file, log)
    assert latest_lines(command, tmp_path, late.output) == sorted(lines)
    with Live("--lateness", "20", "--format", "csv", str(file)) as live:
        for line in text.splitlines():
            live.send(f"{line}\n")
        output = live.end().output
    assert latest_lines(command, tmp_path, output) == sorted(lines)


def test_the_arguments_of_each_line(tmp_path: Path) -> None:
    file = tmp_path / "p.mtl"
    file.write_text(
        'time "ts"\nstream total = total.last(or: 0) + n\natom p(user: text, sum = total) = n > 0\n'
        "policy one: FORALL u, s. p(u, s) IMPLIES s < 5\n"
    )
    with Live("--lateness", "50", "--format", "csv", str(file)) as live:
        live.send("ts,user,n\n")
        for text, lines in (
            ("100,ann,4\n", ["!@50"]),
            ("105,bob,2\n", ["one\t105:0 false (u=bob, s=6)", "!@55"]),
            ("101,eve,1\n", ["one\t101:0 false (u=eve, s=5)", "one\t!x105:0 false (u=bob, s=6)"]),
        ):
            live.send(text)
            found = [str(live.read_line()) for _ in lines]
            assert sorted(found) == sorted(lines)
        assert live.read_line() == "one\t105:0 false (u=bob, s=7)"
        assert live.end().status == 1


def test_the_changes_of_each_line(tmp_path: Path) -> None:
    file = tmp_path / "p.mtl"
    file.write_text(
        "atom busy = count[0,9](quick) >= 2\n"
        "policy one: FORALL u. publish(u) AND busy IMPLIES seen(u)\n"
    )
    with Live("--lateness", "50", str(file)) as live:
        for text, lines in (
            ("@100 quick\n", ["!@50"]),
            ("@105 publish(ann)\n", ["!@55"]),
            ("@99 quick\n", ["one\t105:0 false (u=ann)"]),
            ("@98 quick publish(bob)\n", []),
            ("@97 quick\n", ["one\t98:0 false (u=bob)"]),
        ):
            live.send(text)
            assert [str(live.read_line()) for _ in lines] == lines
        assert live.end().status == 1


@pytest.mark.parametrize("atom", ["p(n: int) = after > 0", "p(n: int = after) = n > 0"])
def test_later_values_are_refused_as_without_lateness(
    atom: str, tmp_path: Path, command: Command
) -> None:
    """No option lets atoms with arguments read later rows, so the error does not name one."""
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(f"stream after = n.next(or: 0)\natom {atom}\npolicy one: FORALL n. NOT p(n)\n")
    log.write_text("ts,n\n1,1\n")
    plain = command(file, log)
    assert (plain.status, plain.output) == (2, "")
    assert command("--lateness", 5, file, log).errors == plain.errors
