"""Policies on rows that wait for later values, where verdicts are corrected."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import Command
from tests.cli.test_lateness_kills import check_killed_run
from tests.doors import formats_rows as table_rows

POLICY = "key user\npolicy calm: v.next() - v < 5\n"


def test_a_late_row_is_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "p.mtl"
    file.write_text(POLICY)
    with Live("--lateness", "60", "--format", "csv", "--rows", str(file)) as live:
        live.send("ts,user,v\n")
        for row, line in (
            ("100,x,1", None),
            ("110,x,9", "calm\tx\t100:0 false\t<stdin>:2"),
            ("104,x,4", "calm\tx\t!100:0 true\t<stdin>:2"),
            (None, "calm\tx\t104:0 false\t<stdin>:4"),
            ("107,x,8", "calm\tx\t!104:0 true\t<stdin>:4"),
            (None, "calm\tx\t107:0 true\t<stdin>:5"),
        ):
            if row is not None:
                live.send(f"{row}\n")
            while line is not None and (found := str(live.read_line())).startswith("!@"):
                pass
            assert line is None or found == line
        done = live.end()
    assert done.errors == (
        "mtlmon: 1 row still waits for later values at the end of the log (see --end-time inf)\n"
    )


def test_options_beside_later_values(tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(POLICY)
    log.write_text("ts,user,v\n100,x,1\n110,x,9\n104,x,2\n107,x,7\n")
    done = command("--lateness", 60, "--end-time", "inf", "--explain", file, log)
    assert done.status == 1
    assert "104:0 violates" in done.errors
    verdicts = ["100:0 true", "104:0 false", "107:0 true", "110:0 false"]
    assert [line for line in done.output.splitlines() if "@" not in line] == [
        f"calm\tx\t{verdict}" for verdict in verdicts
    ]
    done = command("--lateness", 60, "--clock", "key", file, log)
    assert done.status == 2
    assert "does not work where rows wait for later values, as in policy calm" in done.errors


RELATIONS = {
    # each on its own, in one partition
    "beside": "policy a: v.next() > v - 3\npolicy b: sums[k].n < 3\n",
    "both": "policy a: sums[k].s < v.next() + 18\npolicy b: sums[k].n < 3 or v.next() > 5\n",
    "whole": (
        "policy a: most[].m < v.next(2, or: 3) + 6\n"
        "policy b per none: v > 6 implies most[].n + v.next() < 9\n"
    ),
}


@pytest.mark.parametrize("kind", list(RELATIONS))
def test_later_values_and_relations_of_rows(
    kind: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small batches, with keys that have rows rarely."""
    monkeypatch.setattr(table_rows, "FIRST_BLOCK_BYTES", 40)
    monkeypatch.setattr(table_rows, "BLOCK_BYTES", 40)
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    output, saved = tmp_path / "out", tmp_path / "saved"
    file.write_text(
        "unit s\nkey k\n"
        "relation sums = rows valid 7s group k select sum(v) as s, count() as n\n"
        f"relation most = rows valid 5s group select max(v) as m, count() as n\n{RELATIONS[kind]}"
    )
    changes = 0
    for seed in range(12):
        source = random.Random(f"{kind} {seed}")
        lateness, now, rows = source.choice([4, 9]), 50, []
        for _ in range(source.choice([12, 30])):
            now += source.choice([0, 1, 1, 2, 9])
            stamp = now - (source.randrange(lateness + 2) if source.random() < 0.4 else 0)
            rows.append(f"{stamp},{source.choice('aaab')},{source.randrange(10)}\n")
        end = ["--end-time", "inf"] if seed % 2 else []
        options = ["--resolve", "--lateness", f"{lateness}s"]
        output.unlink(missing_ok=True)
        if seed % 3:
            log.write_text("ts,k,v\n" + "".join(rows))
            done = command(*options, *end, "-o", output, file, log)
        else:
            saved.unlink(missing_ok=True)
            for count in (len(rows) // 2, len(rows)):
                log.write_text("ts,k,v\n" + "".join(rows[:count]))
                some = end if count == len(rows) else []
                kept = ["--checkpoint", saved, "--resume", "-o", output]
                done = command(*options, *some, *kept, file, log)
        wanted = command("--resolve", "--wait", f"{lateness}s", *end, file, log)
        assert done.status == wanted.status
        final = 0
        for line in output.read_text().splitlines():
            if line.startswith("!@"):
                final = int(line[2:])
            else:
                name = line.rpartition("\t")[2].split(":")[0]
                assert int(name.strip("!x")) >= final
                changes += "!" in name
        found = command("latest", output)
        assert sorted(found.output.splitlines()) == sorted(wanted.output.splitlines())
    assert changes


def test_a_row_waits_again_although_its_chunk_was_cut(tmp_path: Path) -> None:
    """Look-ups need no rows from far below those that can come, but a row may wait since then."""
    file = tmp_path / "p.mtl"
    file.write_text(
        "key k\nrelation sums = rows valid 7 group k select sum(v) as s\n"
        "policy a: sums[k].s < v.next()\n"
    )
    options = ["--lateness", "10", "--op", "op", "--id", "id", "--format", "csv"]
    with Live(*options, str(file)) as live:
        live.send("ts,k,v,op,id\n10,b,3,+,1\n40,b,5,+,2\n")
        for row, expected in (
            ("45,a,1,+,3", "a\tb\t10:0 true"),
            ("48,a,1,+,4", None),
            ("49,a,1,+,5", "a\ta\t45:0 false"),
            ("50,a,1,+,6", "a\ta\t48:0 false"),
            ("40,b,5,-,2", "a\tb\t!x10:0"),
        ):
            live.send(f"{row}\n")
            while expected is not None and (line := live.read_line()) != expected:
                assert line is not None
                assert line.startswith("!@")
        assert live.end().status == 1


def test_the_first_violation_is_the_earliest_of_all(tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text("policy calm per none: v.next(2) < 9 OR NEXT[0,1] v.next() > 2\n")
    emitted = 0
    for seed in range(8):
        source = random.Random(seed)
        now, rows = 100, []
        for _ in range(40):
            now += source.choice([0, 1, 2])
            rows.append(f"{now - source.choice([0, 0, 0, 1, 4])},{source.randrange(10)}\n")
        log.write_text("ts,v\n" + "".join(rows))
        for end in ([], ["--end-time", "inf"]):
            every = command("--wait", 6, *end, file, log).output.splitlines()
            false = [line for line in every if line.endswith("false")]
            found = command("--lateness", 6, "--verdicts", "first", *end, file, log)
            assert found.output.splitlines() == false[:1]
            assert found.status == bool(false)
            emitted += bool(false)
    assert emitted > 8


def test_a_row_that_waits_at_the_end_may_be_the_first(tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text("key user\npolicy calm: v.next() - v < 5\n")
    log.write_text("ts,user,v\n104,x,1\n103,y,1\n105,x,9\n")
    done = command("--lateness", 60, "--verdicts", "first", file, log)
    assert (done.status, done.output) == (1, "")
    assert "104:0 is false, but a time-point of time-stamp 103 is undecided" in done.errors
    log.write_text("ts,user,v\n104,x,1\n103,y,1\n105,x,9\n106,y,2\n")
    done = command("--lateness", 60, "--verdicts", "first", file, log)
    assert (done.status, done.output) == (1, "calm\tx\t104:0 false\n")


def test_a_run_that_is_killed_has_the_same_rows(tmp_path: Path, command: Command) -> None:
    policies = (
        "key user\nstream big = v on v > 4\n"
        "policy one per host: big.next(2) > v IMPLIES EVENTUALLY[0,9] b\n"
        "policy two: a IMPLIES v.next(or: 0) < 9\n"
        "policy three per none: count[0,9](a) < 9\n"
    )
    check_killed_run(tmp_path, policies, 2, command)


def test_verdicts_become_final_as_time_goes_on(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon after no row can come before the next one; that is found for some rows at a time."""
    from tests.doors import formats_rows as reading

    for name in ("BLOCK_BYTES", "FIRST_BLOCK_BYTES"):
        monkeypatch.setattr(reading, name, 200)
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("unit s\npolicy a: v.next() > 2\n")
    log.write_text("ts,v\n" + "".join(f"{10 * k},{k % 7}\n" for k in range(500)))
    output = command("--lateness", 1000, "--verdicts", "all", policies, log).output
    emitted, last = 0, 0
    for line in output.splitlines():
        if line.startswith("!@"):
            emitted += 1
            # a block has about 20 rows
            assert last - 1500 < int(line[2:]) <= last - 800
        else:
            last = int(line.partition("\t")[2].partition(":")[0])
    assert emitted > 12


@pytest.mark.parametrize(
    "condition",
    [
        "x.next() > 1 OR true",
        "true OR s > 1",
        "NOT (x.next() > 1 AND false)",
        "x.next() > 1 IMPLIES true",
        "ONCE (x.next() > 1 OR true)",
        "(x.next() > 1 OR true) AND x > 0",
        "(EVENTUALLY[0,3] (x.next() > 1)) OR true",
    ],
)
@pytest.mark.parametrize(
    "options", [(), ("--lateness", 5), ("--lateness", 5, "--wait", 2), ("--fail-on-vacuous",)]
)
def test_rows_wait_for_values_on_which_no_verdict_depends(
    condition: str, options: tuple[object, ...], tmp_path: Path, command: Command
) -> None:
    """Rationale: rows wait for what a policy reads, as they do where another condition decides.

    Such conditions are no part of the compiled formula, so rows had nothing to wait for.
    """
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(f"stream s = x.next()\npolicy a: {condition}\npolicy b: x.next() > 1\n")
    log.write_text("ts,x\n1,2\n2,3\n3,1\n")
    done = command(*options, file, log)
    assert [line for line in done.output.splitlines() if line[:2] == "a\t"] == [
        *("a\t1:0 true", "a\t2:0 true")
    ]
    assert "1 row still waits for later values" in done.errors
    done = command(*options, "--end-time", "inf", file, log)
    assert done.output.count("a\t3:0 true") == 1


def test_reasons_with_conditions_on_which_no_verdict_depends(
    tmp_path: Path, command: Command
) -> None:
    """Rationale: the condition holds, so it is not the reason; at ticks, it was not known."""
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    log.write_text("ts,x\n1,2\n2,3\n3,5\n")
    for policy in (
        "x > 0 AND false",
        "x.next() > 0 AND false",
        "on every 1: count[0,5]() > 0 AND false",
    ):
        file.write_text(f"policy a{'' if policy[:2] == 'on' else ':'} {policy}\n")
        for options in ((), ("--lateness", 5)):
            done = command(*options, "--explain", file, log)
            assert done.status == 1
            assert "false does not hold" in done.errors
