"""What a log breaks of the assumptions of its policy file, where rows come late: --lateness."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon
from tests.cli import process
from tests.cli.late_runs import HEADER, Row, history_of, rows_of
from tests.cli.test_lateness import Command
from tests.run.both import check_both
from tests.sampling import thinned

LIMITS = "unit s\nassume rate <= {}/s\nassume rate <= {}/m\n"
KEYED = LIMITS + "key k\nassume rate per key <= {}/s\nassume keys <= {}\n"
FILES = {
    "plain": KEYED + "policy one: p IMPLIES ONCE[0,5] q\n",
    "streams": KEYED + "policy one: count[0,5](p) < 3\npolicy two per none: max[0,5](v) < 9\n",
    "two keys": KEYED + "policy one: p IMPLIES ONCE[0,5] q\npolicy two per v: NOT p\n",
    "variables": KEYED
    + "atom pa(u = k) = p\natom qa(u = k, w = v) = q\n"
    + "policy one: FORALL u. pa(u) IMPLIES ONCE[0,5] EXISTS w. qa(u, w)\n",
    "variables per key": KEYED
    + "atom qa(w = v) = q\npolicy one per k: FORALL w. qa(w) IMPLIES NOT ONCE[1,5] qa(w)\n",
    "both": KEYED
    + "atom pa(u = k) = p\npolicy one: FORALL u. pa(u) IMPLIES ONCE[1,5] pa(u)\n"
    + "policy two: p IMPLIES ONCE[0,5] q\n",
}
CASES = range(12)


def limited(text: str, source: random.Random) -> str:
    return text.format(source.randint(1, 4), source.randint(3, 20), source.randint(1, 3), 2)


def broken_in(messages: Sequence[str]) -> list[str]:
    emitted = [one.removeprefix("mtlmon: ") for one in messages]
    return [one for one in emitted if one.startswith("the log breaks ")]


def broken_in_order(policies: Path, ordered: Path, command: Command) -> list[str]:
    """What the run in order says of a log; the exit status of assumptions alone is none."""
    done = command(policies, ordered)
    assert done.status < 2, done.errors
    return broken_in(done.errors.splitlines())


def write_ordered(path: Path, rows: Sequence[Row], lateness: int) -> None:
    history = history_of(rows, lateness).rows.values()
    path.write_text("".join(["ts,k,p,q,v\n", *(row.plain for row in history)]))


@pytest.mark.parametrize("number", thinned(CASES))
@pytest.mark.parametrize("kind", FILES)
def test_assumptions_are_judged_on_the_log_as_it_is_in_the_end(
    kind: str, number: int, tmp_path: Path, command: Command
) -> None:
    """By command and library, at once and row by row, and by runs that go on from states."""
    source = random.Random(f"{kind} {number}")
    policies, log, ordered = (tmp_path / name for name in ("p.mtl", "log.csv", "ordered.csv"))
    policies.write_text(limited(FILES[kind], source))
    lateness, corrects = source.choice([0, 2, 6, 30]), number % 2 == 1
    rows = rows_of(source, lateness, corrects=corrects)
    options = ["--lateness", str(lateness), "--verdicts", "false", "--on-error", "skip"]
    header = "ts,k,p,q,v\n"
    if corrects:
        options, header = [*options, "--op", "op", "--id", "id"], HEADER
    lines = [row.cells if corrects else row.plain for row in rows]
    log.write_text("".join([header, *lines]))
    write_ordered(ordered, rows, lateness)
    wanted = broken_in_order(policies, ordered, command)
    check_both(policies, log, *options)
    done = command(*options, policies, log)
    assert broken_in(done.errors.splitlines()) == wanted
    with process.Live(*options, "--format", "csv", str(policies)) as live:
        for line in [header, *lines]:
            live.send(line)
        ended = live.end()
    assert broken_in(ended.errors.splitlines()) == wanted
    assert ended.status == done.status


@pytest.mark.parametrize("number", thinned(CASES))
@pytest.mark.parametrize("kind", FILES)
def test_runs_go_on_from_states(kind: str, number: int, tmp_path: Path, command: Command) -> None:
    """A row that an earlier run has read counts, and what it has said is not said again."""
    source = random.Random(f"{kind} {number}")
    policies, ordered = tmp_path / "p.mtl", tmp_path / "ordered.csv"
    policies.write_text(limited(FILES[kind], source))
    lateness = source.choice([0, 2, 6, 30])
    rows = rows_of(source, lateness, corrects=False)
    write_ordered(ordered, rows, lateness)
    run, emitted = mtlmon.live(policies, lateness=lateness), list[str]()
    for row in rows:
        values = {"ts": row.ts, "k": row.key, "p": row.p, "q": row.q, "v": row.v}
        list(run.feed(values))
        if source.random() < 0.4:
            emitted += run.messages
            run = mtlmon.live(policies, snapshot=run.snapshot(), lateness=lateness)
    list(run.end())
    assert broken_in([*emitted, *run.messages]) == broken_in_order(policies, ordered, command)


@pytest.mark.parametrize("number", thinned(CASES))
def test_equal_rows_are_taken_back_without_ids(
    number: int, tmp_path: Path, command: Command
) -> None:
    source = random.Random(number)
    policies, log, ordered = (tmp_path / name for name in ("p.mtl", "log.csv", "ordered.csv"))
    policies.write_text(limited(KEYED, source) + "policy one: p IMPLIES ONCE[0,5] q\n")
    lines, alive, now = [], list[tuple[int, str, str]](), 50
    for _ in range(source.randint(4, 40)):
        now += source.choice([0, 0, 1, 2])
        recent = [row for row in alive if now - row[0] <= 5]
        if recent and source.random() < 0.3:
            row = source.choice(recent)
            # of equal rows the last one goes
            del alive[len(alive) - 1 - alive[::-1].index(row)]
            lines.append("{},{},{},-\n".format(*row))
            continue
        row = (
            now - source.choice([0, 0, 1, 4]),
            source.choice("abc"),
            source.choice(["true,false", "false,true"]),
        )
        alive.append(row)
        lines.append("{},{},{},+\n".format(*row))
    log.write_text("".join(["ts,k,p,q,op\n", *lines]))
    alive.sort(key=lambda row: row[0])
    ordered.write_text("".join(["ts,k,p,q\n", *("{},{},{}\n".format(*row) for row in alive)]))
    done = command("--lateness", 9, "--op", "op", policies, log)
    assert done.status < 2, done.errors
    found = broken_in(done.errors.splitlines())
    assert found == broken_in_order(policies, ordered, command)


@pytest.mark.parametrize("number", thinned(CASES))
@pytest.mark.parametrize("has_values", [False, True], ids=["plain", "variables"])
def test_text_logs(number: int, has_values: bool, tmp_path: Path, command: Command) -> None:
    source = random.Random(number)
    policies, log, ordered = (tmp_path / name for name in ("p.mtl", "log", "ordered"))
    policy = "policy one: p IMPLIES ONCE[0,5] q\n"
    if has_values:
        policy = "policy one: FORALL u. pa(u) IMPLIES ONCE[0,5] EXISTS w. qa(u, w)\n"
    policies.write_text(limited(LIMITS, source) + policy)
    rows = rows_of(source, 4, corrects=False)
    log.write_text("".join(row.line(has_values=has_values) for row in rows))
    kept = history_of(rows, 4).rows.values()
    ordered.write_text("".join(row.line(has_values=has_values) for row in kept))
    done = command("--lateness", 4, "--summary", policies, log)
    wanted = broken_in_order(policies, ordered, command)
    assert broken_in(done.errors.splitlines()) == wanted
    counted = [line.split()[1] for line in done.errors.splitlines() if line.startswith("broken")]
    assert counted == ([str(len(wanted))] if wanted else [])


def test_an_assumption_is_told_once_its_rows_are_final(tmp_path: Path) -> None:
    """Not at the row that is one too many, as it could be taken back."""
    policies = tmp_path / "p.mtl"
    policies.write_text("unit s\nassume rate <= 1/s\npolicy one: p\n")
    run = mtlmon.live(policies, lateness=5)
    for time, count in ((1, 0), (1, 0), (6, 0), (7, 1)):
        list(run.feed({"ts": time, "p": True}))
        assert len(broken_in(run.messages)) == count
    run = mtlmon.live(policies, lateness=5)
    list(run.feed([{"ts": 1, "p": True}] * 2))
    list(run.pass_time(6))
    assert not broken_in(run.messages)
    list(run.pass_time(7))
    assert len(broken_in(run.messages)) == 1


def test_explanations_do_not_say_it_again(tmp_path: Path, command: Command) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log"
    policies.write_text("unit s\nassume rate <= 1/s\npolicy one: p\n")
    log.write_text("@1 p\n@1\n@9 p\n")
    done = command("--lateness", 5, "--explain", policies, log)
    assert done.status == 1
    assert len(broken_in(done.errors.splitlines())) == 1


def test_keys_have_no_clocks_of_their_own(tmp_path: Path, command: Command) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("unit s\nkey k\nassume rate <= 1/s\npolicy one: p\n")
    log.write_text("ts,k,p\n1,a,true\n")
    done = command("--lateness", 5, "--clock", "key", policies, log)
    assert (done.status, done.output) == (2, "")
    assert "--clock key does not work with assumptions about the log" in done.errors
