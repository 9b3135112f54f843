"""Rows that correct others: --op and --id."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mtlmon import parse
from tests.cli.process import Ended, Live, mtlmon
from tests.reference.changelog import holds
from tests.reference.history import (
    Arrival,
    EqualRetraction,
    Insert,
    Retraction,
    monitored,
    states_of,
)
from tests.traces import Advance

Command = Callable[..., Ended]

FORMULAS = (
    "ask IMPLIES EVENTUALLY[0,5] reply",
    "reply IMPLIES ONCE[0,3] ask",
    "ask SINCE reply",
    "(PREVIOUS ask) OR EVENTUALLY reply",
)
LATENESS = 9


def rows_of(seed: int, *, keys: Sequence[str] = ("",), has_ids: bool = True) -> list[Arrival]:
    """Rows as they come: some are late, and some correct others or take them back."""
    source = random.Random(seed)
    now = 100
    rows: list[Arrival] = []
    inserts: list[Insert] = []
    for _ in range(60):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(12) if source.random() < 0.3 else 0)
        letter = frozenset(name for name in ("ask", "reply") if source.random() < 0.4)
        kind = source.random()
        if kind < 0.1:
            rows.append(Advance(now))
        elif kind < 0.25 and has_ids:
            rows.append(Retraction(str(source.randrange(12))))
        elif kind < 0.25 and inserts:
            rows.append(EqualRetraction(*source.choice(inserts[-6:])[:3]))
        else:
            name = str(source.randrange(12)) if has_ids and source.random() < 0.8 else None
            inserts.append(Insert(stamp, letter, source.choice(keys), name))
            rows.append(inserts[-1])
    return rows


def table_of(rows: list[Arrival]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["ts", "op", "id", "who", "what"])
    for row in rows:
        if isinstance(row, Insert):
            what = "|".join(sorted(row.letter))
            writer.writerow([row.time_stamp, "+", row.id, row.key or "x", what])
        elif isinstance(row, EqualRetraction):
            what = "|".join(sorted(row.letter))
            writer.writerow([row.time_stamp, "-", "", row.key or "x", what])
        elif isinstance(row, Retraction):
            writer.writerow([99999, "D", row.id, "y", "reply"])
        else:
            writer.writerow([row.time_stamp, "advance", "", "z", ""])
    return text.getvalue()


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("formula", FORMULAS)
def test_tables(formula: str, has_ids: bool, tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log.csv"
    for seed, keys in enumerate((("",), ("a", "b"))):
        rows = rows_of(seed, keys=keys, has_ids=has_ids)
        log.write_text(table_of(rows))
        done = command(
            *("--lateness", LATENESS, "--op", "op", "--event", "what", "--on-error", "skip"),
            *(("--id", "id") if has_ids else ()),
            *(("--key", "who") if len(keys) > 1 else ()),
            *("-e", formula, log),
        )
        judge = monitored(parse(formula))
        states = states_of([rows], LATENESS, judge, end_time=None, equality=not has_ids)
        now = max(row.time_stamp for row in rows if isinstance(row, Insert | Advance))
        # At the end of a log, all keys have the time of the log.
        ended = states_of([[*rows, Advance(now)]], LATENESS, judge, equality=not has_ids)
        lines = [line.removeprefix("\t") for line in done.output.splitlines()]
        holds([lines], [ended[-1] if len(keys) > 1 else states[-1]], exactly=True)
        at_end = states_of([rows], LATENESS, judge, end_time="inf", equality=not has_ids)
        unmatched = at_end[-1].unmatched
        assert (f"{unmatched} retraction" in done.errors) == (unmatched > 0)


def test_a_live_pipe_withdraws_time_points() -> None:
    options = ("--format", "csv", "--lateness", "60", "--op", "op", "--id", "id", "--event", "what")
    with Live(*options, "-e", "ask IMPLIES EVENTUALLY[0,5] reply") as live:
        for text, lines in (
            ("ts,op,id,what\n100,+,a,ask\n", []),
            ("103,+,r,reply\n", ["100:0 true", "103:0 true", "!@38"]),
            ("0,-,r,\n", ["!x103:0", "!100:0"]),
            ("107,+,r,reply\n", ["!100:0 false", "107:0 true", "!@42"]),
            ("104,insert,r,reply\n", ["!x107:0", "!100:0 true", "104:0 true"]),
            ("190,advance,,\n", ["!@125"]),
        ):
            live.send(text)
            assert sorted(str(live.read_line()) for _ in lines) == sorted(lines)


def test_tables_of_changes(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        '{"ts": 100, "id": 7, "op": "+", "p": true}\n'
        '{"ts": 101, "id": null, "op": null, "p": false}\n'
        '{"ts": 102, "id": 7, "op": "-", "p": null}\n'
    )
    options = ("--lateness", 60, "--op", "op", "--id", "id", "-e", "p")
    assert command(*options, log).output == "101:0 false\n!@41\n"
    changes = ("--output-format", "csv", "--consistency", "strong")
    done = command(*options, *changes, log)
    assert done.output.splitlines()[1].endswith(',101,0,false,,"insert",2,41')


@pytest.mark.parametrize(
    ("policy", "at_end"),
    [
        ("policy a: p IMPLIES EVENTUALLY[0,5] q\n", "30:0 false"),
        ("stream n = count[0,9](p)\npolicy a: n < 1 OR EVENTUALLY[0,5] q\n", "30:0 false"),
        (
            "atom pa(k: text) = p\natom qa(k: text) = q\n"
            "policy a: FORALL k. pa(k) IMPLIES EVENTUALLY[0,5] EXISTS j. qa(j)\n",
            "30:0 false (k=x)",
        ),
    ],
)
@pytest.mark.parametrize("waits", [(), ("--consistency", "strong")])
def test_a_row_that_was_taken_back_is_not_the_end_of_the_log(
    policy: str, at_end: str, waits: tuple[str, ...], tmp_path: Path, command: Command
) -> None:
    """Rationale: it has never come, so it says nothing of the time after the rows before it.

    At the end of a log, the time of all keys is that of the last row; it was that of row 90.
    """
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    has_key = "FORALL" not in policy
    file.write_text(f"{'key k' if has_key else ''}\n{policy}")
    rows = "ts,op,id,k,p,q\n30,+,1,x,true,false\n33,+,2,y,false,false\n90,+,3,y,false,false\n"
    options = ("--lateness", 500, *waits, "--op", "op", "--id", "id", "--verdicts", "false")
    said = f"a\tx\t{at_end}" if has_key else f"a\t{at_end}"
    for more, lines in (
        ("", [said]),
        ("0,-,3,y,,\n", []),
        ("0,-,3,y,,\n36,+,4,y,false,false\n", [said]),
        ("0,-,1,x,,\n0,-,2,x,,\n0,-,3,x,,\n", []),
    ):
        log.write_text(rows + more)
        done = command(*options, file, log)
        assert [one for one in done.output.splitlines() if "@" not in one] == lines, more


POLICIES = {
    "plain": "policy a: p IMPLIES EVENTUALLY[0,5] q\n",
    "windows": "stream n = count[0,9](p)\npolicy a: n < 1 OR EVENTUALLY[0,5] q\n",
    "chosen": "policy a on rows where p: EVENTUALLY[1,5] q\n",
    "beside ticks": "policy a: p IMPLIES EVENTUALLY[0,5] q\n"
    "policy t on every 1: count[0,9]() >= 0\n",
    "variables": "atom pa(k: text) = p\natom qa(k: text) = q\n"
    "policy a: FORALL k. pa(k) IMPLIES EVENTUALLY[0,5] EXISTS j. qa(j)\n",
    "both": "atom pa(k: text) = p\natom qa(k: text) = q\n"
    "policy a: p IMPLIES EVENTUALLY[0,5] q\n"
    "policy v: FORALL k. pa(k) IMPLIES EVENTUALLY[0,5] EXISTS j. qa(j)\n",
}


@pytest.mark.parametrize("waits", [(), ("--wait", 20), ("--consistency", "strong")])
@pytest.mark.parametrize("kind", POLICIES)
def test_rows_that_let_time_pass_count_whatever_is_taken_back(
    kind: str, waits: tuple[object, ...], tmp_path: Path, command: Command
) -> None:
    """Rationale: row 40 has never come, so only `advance` shows how far time has passed.

    The answer to row 10 may come up to 15. So the time of an `advance` to 16 or later decides, also
    if it is below 40 and comes before or after that row is taken back; to 15, nothing is decided.
    """
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(POLICIES[kind])
    options = ("--lateness", 100, *waits, "--op", "op", "--id", "id", "--verdicts", "false")
    first = "ts,op,id,k,p,q\n10,+,a,x,true,false\n"
    row, back, end = "40,+,b,x,false,false\n", "0,-,b,,,\n", ("--end-time", 14)
    for rows, more, is_violated in (
        (row + back, (), False),
        (row + back, ("--end-time", 14), False),
        (row + back, ("--end-time", 15), True),
        (row + back, ("--end-time", "last"), True),
        (row + back + "60,advance,,,,\n", (), True),
        (row + back + "16,advance,,,,\n", (), True),
        (row + back + "15,advance,,,,\n", (), False),
        (row + "16,advance,,,,\n" + back, (), True),
        (row + "15,advance,,,,\n" + back, (), False),
        ("16,advance,,,,\n" + row + back, (), True),
        (row + "40,advance,,,,\n" + back, end, True),
    ):
        log.write_text(first + rows)
        done = command(*options, *more, file, log)
        said = [line for line in done.output.splitlines() if "@" not in line]
        names = {line.partition("\t")[0] for line in said}
        violated = {"a", "v"} if kind == "both" else {"a"}
        assert names == (violated if is_violated else set()), rows
        assert done.status == is_violated


@pytest.mark.parametrize("waits", [(), ("--wait", 7), ("--consistency", "strong")])
def test_ticks_that_a_row_has_shown_to_be_over_remain(
    waits: tuple[object, ...], tmp_path: Path, command: Command
) -> None:
    """Rationale: time that has passed stays passed for ticks, however long rows wait.

    Row 35 is taken back. The ticks of 10, 20 and 30 are over all the same, and 40 is not.
    """
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text("policy t on every 10: count[0,9](p) > 0\n")
    log.write_text("ts,op,id,p\n5,+,a,true\n35,+,b,true\n0,-,b,\n")
    options = ("--lateness", 50, *waits, "--op", "op", "--id", "id")
    done = command(*options, file, log)
    said = [line for line in done.output.splitlines() if "@" not in line]
    assert said == ["t\t10:0 true", "t\t20:0 false", "t\t30:0 false"]


def test_errors(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,op,id,p\n1,+,a,true\n2,-,b,false\n9,update,a,true\n")
    options = ("--lateness", 5, "--op", "op", "--id", "id", "-e", "p")
    done = command(*options, log)
    assert (done.status, done.output) == (2, "1:0 true\n")
    assert (
        f"{log}:4: column 'op': 'update' is none of +, I, insert, -, D, retract, advance"
        in done.errors
    )
    log.write_text("ts,op,id,p\n1,+,a,true\n2,-,b,false\n9,+,a,true\n")
    done = command(*options, log)
    assert (done.status, "1 retraction has found no row in time" in done.errors) == (2, True)
    # What was decided before that is written.
    assert done.output == "1:0 true\n!@4\n"
    assert "say how late they may be" in command("--op", "op", "-e", "p", log).errors
    assert (
        "no column 'missing'" in command("--lateness", 5, "--op", "missing", "-e", "p", log).errors
    )
    text = tmp_path / "log"
    text.write_text("@1 p\n")
    errors = command("--lateness", 5, "--op", "op", "-e", "p", text).errors
    assert "--op works on tables" in errors


@pytest.mark.parametrize("first", ["a", "b"])
def test_retractions_that_find_no_row_for_one_policy(
    first: str, tmp_path: Path, command: Command
) -> None:
    """For a policy, those rows are equal in which all is equal that it reads."""
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies = ["policy a: p\n", "policy b: q\n"]
    file.write_text("".join(policies if first == "a" else reversed(policies)))
    log.write_text("ts,p,q,op\n5,true,true,+\n5,true,false,-\n90,true,true,+\n")
    done = command("--lateness", 9, "--op", "op", file, log)
    assert (done.status, "1 retraction has found no row in time" in done.errors) == (2, True)
    done = command("--lateness", 9, "--op", "op", "--on-error", "skip", file, log)
    assert (done.status, "1 retraction found no row" in done.errors) == (0, True)


KEYED = {
    "plain": "policy a: p IMPLIES EVENTUALLY[0,5] q\npolicy b per none: NEXT[0,9] NOT p\n",
    "streams": (
        "policy a on every 5: count[0,9](p) < 2\nstream seen = q.last(or: false)\n"
        "policy b: seen OR p\n"
    ),
    "relations": (
        "relation sums = rows valid 7 group k select count() as n\npolicy a: sums[k].n < 3\n"
        "policy b on changes of sums: count[0,9](p) < 2\n"
    ),
    "variables": "atom pa(k: text) = p\npolicy a: FORALL k. pa(k) IMPLIES EVENTUALLY[0,6] pa(k)\n",
    "both": (
        "stream n = count[0,4](q)\natom pa(k: text) = p and n < 2\n"
        "policy a per none: FORALL k. pa(k) IMPLIES NEXT[0,6] pa(k)\n"
        "policy b: p IMPLIES NEXT q\n"
    ),
}
KEYED_ROWS = """\
3,{},,,advance,
4,a,true,false,+,i1
5,b,true,true,+,i2
5,a,true,false,+,i3
7,{},,,advance,
6,b,false,true,+,i4
0,{},,,-,i2
12,a,false,true,+,i5
12,{},,,-,i3
40,{},,,advance,
"""


@pytest.mark.parametrize("kind", KEYED)
def test_rows_that_are_not_about_a_key_need_none(
    kind: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What advances time, and what takes an id back, in blocks of any size."""
    from tests.doors import formats_rows as reading

    policies, output, saved = tmp_path / "p.mtl", tmp_path / "out", tmp_path / "saved"
    policies.write_text(f"key k\n{KEYED[kind]}")
    log, with_keys = tmp_path / "log.csv", tmp_path / "keys.csv"
    for path, key in ((log, ""), (with_keys, "a")):
        path.write_text("ts,k,p,q,op,id\n" + KEYED_ROWS.replace("{}", key))
    options = ["--lateness", 20, "--op", "op", "--id", "id", "--verdicts", "all", "-o", output]
    wanted = command(*options[:-2], policies, with_keys)
    assert wanted.output
    assert command(*options[:-2], policies, log) == wanted
    output.write_text(wanted.output)
    lines = sorted(command("latest", output).output.splitlines())
    for size in (50, 90):
        for name in ("BLOCK_BYTES", "FIRST_BLOCK_BYTES"):
            monkeypatch.setattr(reading, name, size)
        kept = ("--checkpoint", saved, "--resume", "--checkpoint-every", 1)
        output.unlink(missing_ok=True)
        saved.unlink(missing_ok=True)
        for _ in range(2):
            assert command(*options, *kept, policies, log).status == wanted.status
            assert sorted(command("latest", output).output.splitlines()) == lines


def test_other_rows_need_a_key(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log.csv"
    options = ["--lateness", 9, "--op", "op", "-e", "NOT p", "--key", "k"]
    for row, clock, has_id, is_needed in (
        ("5,,,advance,", "all", False, False),
        ("5,,,advance,", "key", False, True),
        ("5,,,-,i1", "all", True, False),
        ("5,,,-,i1", "key", True, False),
        ("5,,true,-,i1", "all", False, True),
        ("5,,,+,i2", "all", True, True),
    ):
        log.write_text(f"ts,k,p,op,id\n5,a,true,+,i1\n{row}\n")
        more = ["--clock", clock, *(["--id", "id"] if has_id else [])]
        done = command(*options, *more, log)
        assert ("the key column 'k' is empty in this row" in done.errors) == is_needed, row
        assert (done.status == 2) == is_needed


def test_a_key_whose_only_row_takes_another_one_back(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,k,p,op,id\n1,a,true,+,i1\n0,b,,-,i1\n9,a,true,+,i2\n")
    options = ("--lateness", 5, "--clock", "key", "--key", "k", "--op", "op", "--id", "id")
    done = command(*options, "-e", "NOT p", log)
    assert (done.status, done.output) == (1, "a\t9:0 false\na\t!@4\n")


@pytest.mark.parametrize("row", ["-,,,3,", "+,2,,3,5"])
def test_a_row_without_the_key_that_it_needs(row: str, tmp_path: Path) -> None:
    """Only what takes back an id, or advances the time of all keys, is about no key."""
    (tmp_path / "log.csv").write_text(f"op,id,k,ts,x\n+,1,a,1,5\n{row}\n")
    options = ["--lateness", "10", "--op", "op", "--id", "id", "--key", "k"]
    file = str(tmp_path / "log.csv")
    done = mtlmon(*options, "-e", "policy p: x < 9", file)
    assert done.status == 2
    assert done.errors.startswith(f"mtlmon: {file}:3: ")
    assert "'k' is empty" in done.errors
