"""Policies with variables whose atoms depend on other rows, with rows that come late."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import Command
from tests.doors import checking_late_partitions as late_partitions
from tests.run.both import check_both

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


def answers_of(output: Path) -> list[str]:
    """The lines that hold at last."""
    live: dict[str, None] = {}
    for line in output.read_text().splitlines():
        policy, tab, verdict = line.partition("\t")
        if policy.startswith("!@"):
            continue
        plain = policy + tab + verdict.removeprefix("!").removeprefix("x")
        if verdict.startswith("!x"):
            del live[plain]
        else:
            assert plain not in live
            live[plain] = None
    return sorted(live)


def left_out(errors: str) -> list[str]:
    return [line for line in errors.splitlines() if "left out" in line]


@pytest.mark.parametrize("kind", ["text", "csv", "stamp", "arguments", "arguments, stamp"])
def test_answers_are_those_of_the_rows_in_order(
    kind: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each part of a log, each by another run."""
    monkeypatch.setattr(late_partitions, "_SPARE_ROWS", 4)
    file, log = tmp_path / "p.mtl", tmp_path / ("log" if kind == "text" else "log.csv")
    head = "" if kind == "text" else "ts,op,id,what,user,file,n\n"
    file.write_text(ARGUMENTS if "arguments" in kind else TABLE if head else TEXT)
    for seed in range(3):
        source = random.Random(f"{kind} {seed}")
        rows = rows_of(kind, source, 60)
        options = ["--verdicts", "all", *(["--time-points", "stamp"] if "stamp" in kind else [])]
        late = [[], ["--wait", 3], ["--slices", 3]][seed]
        saved, output = tmp_path / f"saved{seed}", tmp_path / f"out{seed}"
        kept = ["--checkpoint", saved, "--resume", "-o", output]
        for count in (5, 6, 30, 31, len(rows)):
            log.write_text(head + "".join(rows[:count]))
            done = command("--lateness", 7, *late, *kept, *options, file, log)
            wanted = command("--wait", 7, *options, file, log)
            assert answers_of(output) == sorted(wanted.output.splitlines())
            assert done.status == wanted.status
            if "arguments" in kind:
                assert left_out(done.errors) == left_out(wanted.errors)
        if "arguments" in kind:
            check_both(file, log, "--lateness", "7", *map(str, late), *options)


@pytest.mark.parametrize("text", [TABLE, ARGUMENTS], ids=["conditions", "arguments"])
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
        assert answers_of(output) == sorted(wanted.output.splitlines())


def test_arguments_of_rows_that_are_equal(tmp_path: Path, command: Command) -> None:
    """Beside a policy without variables; rows without ids are taken back."""
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(f"{ARGUMENTS}policy plain: total < 60\n")
    head = "ts,op,what,user,file,n\n"
    for seed in range(4):
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
            for lines in (answers_of(output), wanted.output.splitlines())
        )
        assert found == expected


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "relation sums = rows valid 5 group select sum(n) as s\natom p(n = sums[].s) = n > 0",
            "look values up in sums, which is made of rows, as p",
        ),
        (
            "relation sums = rows valid 5 group select sum(n) as s\natom p(n: int) = sums[].s > 1",
            "look values up in sums, which is made of rows",
        ),
    ],
)
def test_what_is_refused(text: str, words: str, tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(f'time "ts"\n{text}\npolicy one: FORALL n. NOT p(n)\n')
    log.write_text("ts,n\n1,1\n")
    done = command("--lateness", 5, file, log)
    assert done.status == 2
    assert done.errors.startswith("mtlmon: --lateness does not work yet with")
    assert words in done.errors
    assert command("--lateness", 5, "--consistency", "strong", file, log).status < 2


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
