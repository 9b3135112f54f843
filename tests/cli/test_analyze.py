"""The subcommand analyze, seen from outside, and its bound against the memory of a process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, environment, mtlmon

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

FILE = """\
unit s
key ip
assume rate per key <= 2/s
assume keys <= 1000
stream fails = count[0,2m](status = 401)
policy brute: fails < 8
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.mtl"
    path.write_text(FILE)
    return path


def test_bounds_are_written_for_people(rules: Path) -> None:
    ended = mtlmon("analyze", str(rules))
    assert (ended.status, ended.errors) == (0, "")
    lines = ended.output.splitlines()
    assert lines[:4] == [
        "assumed: rate per key <= 2/s, keys <= 1000",
        "",
        "stream fails: rows of each ip",
        "  count[0,120](status = 401)  rows of the last 2m  11.4 KiB a key  12.6 MiB in all",
    ]
    assert "policy brute: rows of each ip" in lines
    assert lines[-1].startswith("in all: at most ")


def test_bounds_are_written_for_programs(rules: Path) -> None:
    ended = mtlmon("analyze", "--format", "json", str(rules))
    found = json.loads(ended.output)
    assert found["assumptions"][1] == {"subject": "keys", "limit": 1000, "unit": None}
    kinds = [bound["kind"] for bound in found["bounds"]]
    assert kinds == ["stream", "policy", "keys"]
    assert found["bytes"] == sum(bound["bytes"] for bound in found["bounds"])
    assert found["bounds"][0]["kept"][0]["hint"] is None


def test_a_limit_decides_the_status(rules: Path) -> None:
    for limit, status, side in (("1GiB", 0, "within"), ("1M", 1, "above")):
        ended = mtlmon("analyze", "--limit", limit, str(rules))
        assert ended.status == status
        assert f", {side} the limit of " in ended.output


def test_without_a_bound_there_are_hints(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(FILE.replace("assume", "# assume"))
    ended = mtlmon("analyze", str(rules))
    assert ended.status == 1
    assert ended.output.endswith(
        "in all: no limit\n\n"
        "hint: nothing limits the rows of a window: add assume rate <= N/s\n"
        "hint: nothing limits the keys: add assume keys <= N\n"
    )
    assert mtlmon("analyze", "--format", "json", str(rules)).status == 1


def test_windows_at_ticks_without_panes_have_hints(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    whole = {"quantile": "x, 0.9", "median": "x", "integral": "x", "var": "x", "distinct": "x"}
    streams = [
        f"stream s{number} = {name}[0,60]({argument}) every 10\n"
        for number, (name, argument) in enumerate(whole.items())
    ]
    used = " or ".join(f"s{number} > 1" for number in range(len(whole)))
    rules.write_text(f"unit s\n{''.join(streams)}policy p on every 10: {used}\n")
    ended = mtlmon("analyze", str(rules))
    assert ended.status == 1
    hints = [line for line in ended.output.splitlines() if line.startswith("hint: ")]
    panes = "where min, max and avg keep panes: add assume rate <= N/s"
    assert hints == [
        f"hint: quantile keeps every row, {panes}",
        f"hint: median keeps every row, {panes}",
        f"hint: integral keeps every row, {panes}",
        f"hint: distinct keeps a row for each value in a pane, {panes}",
    ]
    rules.write_text(rules.read_text() + "assume rate <= 10/s\n")
    assert mtlmon("analyze", str(rules)).status == 0


RESTLESS = """\
unit s
key ip
stream p99 = quantile[0,5m](latency, 0.99) every 1m
stream worst = median[0,61m](p99) every 1m
stream ema = 0.5 * sum[1m,1h](ema, or: 0.0) + latency.hold() every 1m
stream seen = ts on latency > 1
stream gap = ts - seen.hold() every 1m
policy fine on every 1m: gap < 60 and p99 < 3
policy p on every 1m: worst < 3 and ema < 4 and gap % 3 = 2
"""


def test_what_computes_every_tick_is_named(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(RESTLESS)
    lines = [
        "every tick of each ip is computed: (ts - seen.hold()) % 3 = 2 changes with the time at "
        "ticks that are not known",
        "every tick of each ip is computed because of stream ema: a stream reads itself by "
        "sum[60,3600](ema, or: 0.0)",
        "every tick of each ip is computed because of stream worst: median[0,3660](p99) looks at "
        "ticks",
    ]
    ended = mtlmon("analyze", str(rules))
    found = [line for line in ended.output.splitlines() if "every tick" in line]
    assert sorted(found) == [f"hint: {line}" for line in sorted(lines)]
    ended = mtlmon("analyze", "--format", "json", str(rules))
    assert sorted(json.loads(ended.output)["hints"]) == sorted(lines)
    ended = mtlmon("check-policy", str(rules))
    found = [line for line in ended.output.splitlines() if "every tick" in line]
    assert sorted(found) == [f"  {line}" for line in sorted(lines)]
    # one trace only, and a file whose ticks cost what changes
    rules.write_text(RESTLESS.replace("key ip\n", ""))
    assert "every tick" not in mtlmon("analyze", str(rules)).output
    rules.write_text("".join(RESTLESS.splitlines(True)[:-1]))
    assert "every tick" not in mtlmon("analyze", str(rules)).output


def test_computed_columns_are_not_named(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(
        "stream s = n * 2 per k\nstream t = count[0,9]() per k\n"
        "policy x: any(s > 3 over s)\npolicy y: s[5] > 3\npolicy z: any(t > 3 over t)"
    )
    ended = mtlmon("analyze", str(rules))
    assert "s.hold()" in ended.output
    assert "row." not in ended.output


def test_a_single_formula_and_a_text_log_have_bounds(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text("p IMPLIES EVENTUALLY[0,5] q")
    ended = mtlmon("analyze", str(rules))
    assert ended.status == 0
    assert "  monitor  1 obligation" not in ended.output
    assert ended.output.startswith(
        "policy: rows of the log\n  monitor  6 obligations, 12 time-points"
    )


def test_options_of_the_file_can_be_replaced(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text("const n = 2\nassume rate <= 3/s\npolicy p: count[0,60]() < n\n")
    ended = mtlmon("analyze", str(rules))
    assert ended.status == 2
    assert "assumes a rate, but the unit of the time-stamps is not known" in ended.errors
    ended = mtlmon("analyze", "--unit", "s", "--set", "n=3", str(rules))
    assert ended.status == 0
    ended = mtlmon("analyze", "--unit", "s", "--key", "ip", str(rules))
    assert ended.status == 1


def test_policies_with_variables_have_no_bound(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text("unit s\npolicy v: FORALL a. e(a) IMPLIES ONCE[0,4] f(a)\n")
    assert mtlmon("analyze", str(rules)) == (
        2,
        "",
        "mtlmon: policy v has variables, and memory is bounded without them only: mtlmon "
        "check-policy says what such policies remember\n",
    )
    assert "Remembered" in mtlmon("check-policy", str(rules)).output


def test_errors_have_their_place(tmp_path: Path, rules: Path) -> None:
    assert mtlmon("analyze").errors == (
        "mtlmon: no policy file: name one (see mtlmon analyze --help)\n"
    )
    assert mtlmon("analyze", str(rules), "a", "b").status == 2
    assert mtlmon("analyze", str(rules), "-").status == 2
    assert mtlmon("analyze", "--limit", "much", str(rules)).status == 2
    assert mtlmon("analyze", str(tmp_path / "none")).status == 2
    table = tmp_path / "log.csv"
    table.write_text("ts,ip\n1,a\n")
    ended = mtlmon("analyze", str(rules), str(table))
    assert ended.status == 2
    assert "there is no column status" in ended.errors
    rules.write_text("stream s = x\npolicy p: s > 1 AND lower(s) = y")
    assert "name a table" in mtlmon("analyze", str(rules)).errors
    assert mtlmon("analyze", "--help").output.startswith("usage: mtlmon analyze [options]")


def peak(*arguments: str) -> int:
    """The largest number of bytes that a process of the command has in memory."""
    process = subprocess.Popen([*COMMAND, *arguments], env=environment(), stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1)
    return usage.ru_maxrss * 1024


@pytest.mark.parametrize(
    ("columns", "fault", "hint"),
    [
        (None, "whose type is not known", "name a table"),
        ("ts,ip,state", "which the table does not have", "the columns are ts, ip, state"),
    ],
)
def test_columns_of_relations_come_from_a_table(
    columns: str | None, fault: str, hint: str, tmp_path: Path
) -> None:
    rules, table = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(
        'unit s\nrelation r = rows where contains(status, "failed") valid 1m\n'
        "policy a: NOT exists r\n"
    )
    files = [str(rules)]
    if columns is not None:
        table.write_text(f"{columns}\n1,b,c\n")
        files.append(str(table))
    ended = mtlmon("analyze", *files)
    assert ended.status == 2
    assert f"relation r reads column status, {fault}\n" in ended.errors
    assert f"hint: {hint}\n" in ended.errors


def test_a_process_with_many_keys_stays_near_the_bound(tmp_path: Path) -> None:
    keys = 100_000
    rules = tmp_path / "rules.mtl"
    rules.write_text(
        f"unit s\nkey ip\nassume rate per key <= 1/s\nassume keys <= {keys}\n"
        "stream fails = count[0,5s](status = 401)\n"
        "stream mean = avg[0,5s](latency)\n"
        "policy p: fails < 8 AND (mean > 2.0 IMPLIES EVENTUALLY[0,5s] status = 200)\n"
    )
    header = "ts,ip,status,latency\n"
    log, empty = tmp_path / "log.csv", tmp_path / "empty.csv"
    empty.write_text(f"{header}1,10.0.0.1,200,0.5\n")
    with log.open("w") as file:
        file.write(header)
        for time in range(1, 6):
            for key in range(keys):
                file.write(
                    f"{time},10.0.{key >> 8}.{key & 255},{200 + key % 2 * 201},{key % 7}.5\n"
                )
    bound = json.loads(mtlmon("analyze", "--format", "json", str(rules), str(log)).output)["bytes"]
    options = ("--verdicts", "none", str(rules))
    assert peak(*options, str(log)) - peak(*options, str(empty)) <= 1.5 * bound


def test_relations_read_columns_of_a_log_as_numbers(tmp_path: Path) -> None:
    """Cells of CSV are texts until an expression of the relation reads them."""
    path = tmp_path / "p.mtl"
    path.write_text(
        "unit s\nassume rate <= 2/s\nrelation fast = rows where speed > 3 valid 5 select k as k\n"
        "policy none: NOT exists fast[k]\n"
    )
    (tmp_path / "log.csv").write_text("ts,k,speed\n1,a,4\n")
    done = mtlmon("analyze", str(path), str(tmp_path / "log.csv"))
    assert (done.status, done.errors) == (0, "")
    assert "relation fast" in done.output
