"""The command on policies with variables: text logs, tables, options."""

from __future__ import annotations

import csv
import html
import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.policy import parse_policies
from tests.cli.process import Ended, Live, mtlmon, piped, shell
from tests.doors import free_variables
from tests.reference.first_order import Let, Log, answers, is_fresh, violations

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., Ended]

PUBLISHED = """\
unit s
atom approve(manager: text, file: text)
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,7d] EXISTS m. approve(m, f)
find late: publish(u, f) AND (NOT ONCE approve(u, f)) AND EVENTUALLY[0,100] approve(u, f)
"""
EVENTS = """\
@10 approve(mallory, f1)
@20 publish(alice, f1)
@20 publish(bob, "f 2")(al, f3) approve(x, f3); # two rows
@30 other(x) approve(bob, "f 2")
@200
"""
VIOLATION = 'approved\t20:1 false (u=bob, f="f 2")\n'
MATCH = 'late\t20:1 match (u=bob, f="f 2")\n'
ON_TABLES = """\
unit s
atom publish(user, file) = what = "publish"
atom approve(manager = user, file) = what = "approve"
"""
POLICIES = PUBLISHED[PUBLISHED.index("policy") :]
TABLE = """\
ts,what,user,file
10,approve,mallory,f1
20,publish,alice,f1
20,publish,bob,f 2
20,publish,,f 2
30,approve,bob,f 2
200,stop,,
"""


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, Path]:
    """A policy file and a text log."""
    (tmp_path / "rules.mtl").write_text(PUBLISHED)
    (tmp_path / "events.log").write_text(EVENTS)
    return tmp_path / "rules.mtl", tmp_path / "events.log"


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """A policy file and a table."""
    (tmp_path / "tables.mtl").write_text(ON_TABLES + POLICIES)
    (tmp_path / "events.csv").write_text(TABLE)
    return tmp_path / "tables.mtl", tmp_path / "events.csv"


def test_valuations_are_written(command: Command, published: tuple[Path, Path]) -> None:
    done = command(*published)
    assert (done.status, done.output) == (1, VIOLATION + MATCH)
    assert command("--verdicts", "none", *published) == (1, "", "")
    assert command("--resolve", *published).output == done.output


def test_time_points_without_violations_are_written_on_request(
    command: Command, published: tuple[Path, Path]
) -> None:
    for verdicts in "all", "boolean":
        lines = command("--verdicts", verdicts, *published).output.splitlines()
        own = [line for line in lines if line.startswith("approved")]
        assert own == [
            "approved\t10:0 true",
            "approved\t20:0 true",
            VIOLATION.rstrip(),
            "approved\t30:0 true",
            "approved\t200:0 true",
        ]
        assert [line for line in lines if line.startswith("late")] == [MATCH.rstrip()]


def test_a_find_is_no_violation(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "find.mtl", tmp_path / "log"
    rules.write_text("find all: p(x, _)\n")
    log.write_text("@1 p(b, 1)(a, 2)(a, 3)\n@1\n@2 p(c, 1)\n")
    wanted = ["all\t1:0 match (x=a)", "all\t1:0 match (x=b)", "all\t2:0 match (x=c)"]
    assert command(rules, log) == (0, "\n".join([*wanted, ""]), "")
    assert command("--verdicts", "first", rules, log).output.splitlines() == wanted[:2]


def test_the_first_violation_ends_the_run(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "first.mtl", tmp_path / "log"
    rules.write_text("policy a: NOT p(x)\npolicy b: q(x) IMPLIES EVENTUALLY[0,5] r(x)\n")
    log.write_text("@1 q(c)\n@2 p(b)(a) q(d)\n@3 r(d)\n@9 p(z)\n@x\n")
    done = command("--verdicts", "first", rules, log)
    assert (done.status, done.output) == (1, "b\t1:0 false (x=c)\n")
    # of one time-point, the first policy
    log.write_text("@2 p(b)(a) q(d)\n@3 r(z)\n@9\n@x\n")
    done = command("--verdicts", "first", rules, log)
    assert (done.status, done.output) == (1, "a\t2:0 false (x=a)\na\t2:0 false (x=b)\n")
    # what is undecided before it is said
    log.write_text("@1 q(c)\n@2 p(b)\n")
    done = command("--verdicts", "first", rules, log)
    assert (done.status, done.output) == (1, "")
    assert "2:0 is violated, but a time-point before it is undecided" in done.errors
    done = command("--verdicts", "first", "--end-time", "inf", rules, log)
    assert done.output == "b\t1:0 false (x=c)\n"


@pytest.mark.parametrize(
    ("end_time", "wanted"),
    [
        ([], ""),
        (["last"], ""),
        (["25"], "q\t20:0 false (x=a)\n"),
        (["inf"], "q\t20:0 false (x=a)\n"),
    ],
)
def test_the_end_of_the_log_decides_what_it_says(
    command: Command, tmp_path: Path, end_time: list[str], wanted: str
) -> None:
    rules, log = tmp_path / "end.mtl", tmp_path / "log"
    rules.write_text("policy q: p(x) IMPLIES EVENTUALLY[1,5] q(x)\n")
    log.write_text("@20 p(a)\n@24\n")
    given = ["--end-time", *end_time] if end_time else []
    done = command(*given, rules, log)
    assert (done.status, done.output) == (bool(wanted), wanted)


def test_tables_of_answers_have_a_column_for_each_variable(
    command: Command, published: tuple[Path, Path], tmp_path: Path
) -> None:
    done = command("--output-format", "jsonl", *published)
    violation, match = map(json.loads, done.output.splitlines())
    assert violation == {
        "policy": "approved", "time": 20, "offset": 1, "verdict": False, "reference": None,
        "u": "bob", "f": "f 2",
    }  # fmt: skip
    assert match == violation | {"policy": "late", "verdict": True}
    done = command("--output-format", "csv", "--verdicts", "all", *published)
    rows = list(csv.DictReader(done.output.splitlines()))
    assert [row["u"] for row in rows if row["policy"] == "approved"] == ["", "", "bob", "", ""]
    from pyarrow import parquet

    path = tmp_path / "answers.parquet"
    command("--output-format", "parquet", "-o", path, *published)
    assert parquet.read_table(path)["f"].to_pylist() == ["f 2", "f 2"]


def test_one_column_for_variables_of_two_types(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "types.mtl", tmp_path / "log"
    rules.write_text("policy a: NOT p(x)\npolicy b: NOT (q(x) AND x > 3)\n")
    log.write_text("@1 p(a) q(4)\n")
    assert command(rules, log).output == "a\t1:0 false (x=a)\nb\t1:0 false (x=4)\n"
    done = command("--output-format", "csv", rules, log)
    assert done.status == 1
    found = list(csv.DictReader(done.output.splitlines()))
    assert [(one["policy"], one["x"]) for one in found] == [("a", "a"), ("b", "4")]


def test_rows_of_tables_are_rows_of_atoms(command: Command, tables: tuple[Path, Path]) -> None:
    done = command(*tables)
    assert (done.status, done.output) == (1, VIOLATION + MATCH)
    assert "left out 1 row of atoms, because an argument is null" in done.errors
    rules, table = tables
    assert command("--format", "csv", "--summary", rules, table).output == done.output


def test_rows_of_one_time_stamp_can_be_one_time_point(
    command: Command, tables: tuple[Path, Path]
) -> None:
    done = command("--time-points", "stamp", *tables)
    assert done.output == (VIOLATION + MATCH).replace("20:1", "20:0")
    lines = command("--time-points", "stamp", "--verdicts", "all", *tables).output.splitlines()
    assert len([line for line in lines if line.startswith("approved")]) == 4


def test_time_points_of_one_stamp_have_no_number(
    command: Command, tables: tuple[Path, Path]
) -> None:
    rules, table = tables
    rules.write_text(ON_TABLES + "let at(u, i) = publish(u, _) AND point(i)\nfind a: at(u, i)\n")
    assert (
        command(rules, table).output == "a\t20:0 match (u=alice, i=1)\na\t20:1 match (u=bob, i=2)\n"
    )
    done = command("--time-points", "stamp", rules, table)
    assert done.status == 2
    assert "point(i) cannot tell them apart" in done.errors
    assert "hint: give the atom a column that does" in done.errors


@pytest.mark.parametrize("form", ["tsv", "jsonl", "parquet", "arrow"])
def test_all_formats_of_tables_are_read(
    command: Command, tables: tuple[Path, Path], form: str
) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import feather, parquet

    rules, path = tables
    table = arrow_csv.read_csv(path, convert_options=arrow_csv.ConvertOptions(
        strings_can_be_null=True, null_values=[""]
    ))  # fmt: skip
    log = path.with_suffix(f".{form}")
    if form == "tsv":
        log.write_text(TABLE.replace(",", "\t"))
    elif form == "jsonl":
        log.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    elif form == "parquet":
        parquet.write_table(table, log)
    else:
        feather.write_feather(
            table.set_column(2, "user", table["user"].dictionary_encode()), str(log)
        )
    assert isinstance(table, pa.Table)
    assert command(rules, log).output == VIOLATION + MATCH


def test_arguments_have_the_types_of_columns_and_windows(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "types.mtl", tmp_path / "log.csv"
    rules.write_text(
        "unit s\n"
        "atom paid(user, amount, half = amount / 2, at = when, ok) = amount > 1\n"
        "stream paid_so_far = count[0,10s](amount > 0)\n"
        "atom busy(user, n = paid_so_far) = paid_so_far > 0\n"
        "find seen: paid(u, a, h, t, o)\n"
        "find many: busy(u, n) AND n > 2\n"
    )
    log.write_text(
        "ts,user,amount,when,ok\n"
        "1,ann,3,2026-01-31T12:30:00,true\n"
        "5,bob,0.5,2026-01-31T12:30:00,true\n"
        "8,ann,7.25,2026-02-01T00:00:00,false\n"
    )
    done = command(rules, log)
    assert done.errors == ""
    assert done.output.splitlines() == [
        "seen\t1:0 match (u=ann, a=3, h=1.5, t=2026-01-31T12:30:00, o=true)",
        "seen\t8:0 match (u=ann, a=7.25, h=3.625, t=2026-02-01T00:00:00, o=false)",
        "many\t8:0 match (u=ann, n=3)",
    ]


def test_a_live_log_is_answered_line_by_line(published: tuple[Path, Path]) -> None:
    with Live(str(published[0])) as live:
        live.send("@10 publish(eve, f)\n")
        assert live.read_line() == "approved\t10:0 false (u=eve, f=f)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--mode", "global"], "--mode global is for policies without variables: leave it out"),
    ],
)
def test_what_does_not_work_yet_is_refused(
    command: Command, published: tuple[Path, Path], given: list[str], message: str
) -> None:
    done = command(*given, *published)
    assert done.status == 2
    assert message in done.errors


EXPLAINED = """\
policy approved
at LOG:3
20:1 violates FORALL u, f. publish(u, f) IMPLIES ONCE[0,7d] EXISTS m. approve(m, f)
  u = bob, f = "f 2"

✓ publish(u, f)
  └─ 20:1 publish(bob, "f 2") (LOG:3)
✗ ONCE[0,7d] EXISTS m. approve(m, f)
  └─ no approve(_, "f 2") in the 7d before

"""


def test_violations_are_explained(command: Command, published: tuple[Path, Path]) -> None:
    rules, log = published
    done = command("--explain", rules, log)
    explained = EXPLAINED.replace("LOG", str(log))
    assert (done.status, done.output, done.errors) == (1, VIOLATION + MATCH, explained)
    # whatever is written, and from the beginning of standard input
    for given in ["--verdicts", "none"], ["--verdicts", "first"], ["--output-format", "jsonl"]:
        assert command(*given, "--explain", rules, log).errors == explained
    piped = shell("$M --explain $1 - < $2", str(rules), str(log))
    assert piped.errors == EXPLAINED.replace("LOG", "<stdin>")
    piped = shell("cat $2 | $M --explain $1 -", str(rules), str(log))
    assert piped.status == 2
    assert "cannot explain: <stdin> cannot be read a second time" in piped.errors


def test_witnesses_and_rows_of_tables_are_explained(
    command: Command, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    rules, log = tables
    rules.write_text(
        f"{ON_TABLES}policy p: NOT (approve(m, f) AND EVENTUALLY[0,20] publish(u, f))\n"
    )
    wanted = f"""\
policy p
at {log}:2
10:0 violates NOT (approve(m, f) AND EVENTUALLY[0,20s] publish(u, f))
  m = mallory, f = f1, u = alice

✓ approve(m, f)
  └─ 10:0 approve(mallory, f1) ({log}:2)
✓ EVENTUALLY[0,20s] publish(u, f)
  └─ 20:0 publish(alice, f1) ({log}:3, 10s after)
"""
    done = command("--explain", rules, log)
    assert done.errors.startswith("mtlmon: left out 1 row")
    assert done.errors.partition("\n")[2] == f"{wanted}\n"
    # of the rows of one time-stamp, the first one is named
    done = command("--explain", "--time-points", "stamp", rules, log)
    wanted = wanted.replace(f"({log}:3, ", "(").replace(f" ({log}:2)", "")
    assert done.errors.partition("\n")[2] == f"{wanted}\n"
    rules.write_text(f"{ON_TABLES}policy p: NOT EXISTS f. publish(u, f) AND ONCE approve(_, f)\n")
    page = tmp_path / "why.html"
    command("--explain", "--explain-output", page, "--explain-limit", "1", rules, log)
    assert "with f = f1" in page.read_text()
    assert "└─ 10:0 approve(mallory, f1)" in page.read_text()


def test_explanations_go_on_from_a_checkpoint(published: tuple[Path, Path], tmp_path: Path) -> None:
    rules, log = published
    log.write_text("".join(EVENTS.splitlines(keepends=True)[:3]))
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    given = ["--checkpoint", checkpoint, "-o", output, "--resume", "--explain", rules, log]
    arguments = list(map(str, given))
    explained = EXPLAINED.replace("LOG", str(log))
    assert mtlmon(*arguments).errors == explained
    log.write_text(EVENTS)
    assert mtlmon(*arguments).errors == explained
    arguments.remove("--explain")
    assert "it was made with --explain" in mtlmon(*arguments).errors


def test_reports_have_valuations(command: Command, published: tuple[Path, Path]) -> None:
    rules, log = published
    page = rules.parent / "page.html"
    for given, events in ([], 5), (["--verdicts", "none", "--on-error", "skip"], 5):
        done = command("--report", page, *given, rules, log)
        assert done.status == 1
        text = html.unescape(re.sub(r"<[^>]*>", " ", page.read_text()))
        words = " ".join(text.split())
        row = EVENTS.splitlines().index(next(one for one in EVENTS.splitlines() if '"f 2"' in one))
        shown = f'u = bob, f = "f 2" row {log}:{row + 1} '
        assert (
            f'{shown}✓ publish(u, f) └─ 20:1 publish(bob, "f 2") ({log}:{row + 1}) ✗ ONCE' in words
        )
        assert "✗ false 1 20.00 %" in words
        assert "✓ true 4 80.00 %" in words
        assert "violating valuations 1" in words
        assert "Find late matched at 1 time-point." in words
        assert f"Events {events}" in words
    piped = shell("cat $2 | $M --report $3 $1 -", str(rules), str(log), str(page))
    assert piped.status == 1
    assert "the log could not be read a second time" in page.read_text()


def test_rows_are_sorted_on_request(command: Command, tables: tuple[Path, Path]) -> None:
    rules, log = tables
    wanted = command(rules, log)
    header, *rows = TABLE.splitlines()
    log.write_text("\n".join([header, *rows[4:], *rows[:4], ""]))
    assert command(rules, log).status == 2
    assert command("--sort", rules, log) == wanted
    # time passes for all values with each row
    assert command("--sort", "--advance-every", "5", rules, log) == wanted


def test_the_rows_of_a_time_point_are_limited(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("policy a: NOT (p(x) AND q(y) AND EVENTUALLY[0,3] r(x))\nfind b: p(x)\n")
    log.write_text("@1 p(1)\n@2 p(1)(2)(3) q(1)(2)(3) r(1)\n@9\n")
    wanted = command(rules, log)
    assert wanted.output.count("\n") == 7
    assert command("--max-rows", "9", rules, log) == wanted
    done = command("--max-rows", "8", rules, log)
    assert done.status == 2
    assert done.output == "b\t1:0 match (x=1)\n"
    assert done.errors == (
        "mtlmon: policy a makes more rows at time-point 2:0 than the 8 of --max-rows\n"
    )
    rules.write_text("find a: p(x) AND ONCE (p(x) AND q(y))\nfind b: ONCE q(y)\n")
    done = command("--max-rows", "2", rules, log)
    assert "a part of find a makes more rows at time-point 2:0 than the 2 of" in done.errors
    done = command("--max-rows", "2", "-e", "p AND q", log)
    assert "--max-rows is for policies with variables: leave it out" in done.errors


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("policy a per user: NOT p(x)\n", "policy a is per user, but the log is read as text"),
        ("atom p(x) = y > 3\npolicy a: NOT p(x)\n", "says which rows of a table are rows of p"),
        ("policy a: p(x) IMPLIES NOT row.y = 3\n", "uses columns of a table, but the log is read"),
        ("policy a: p(x) IMPLIES q(y)\n", "nothing says which values"),
    ],
)
def test_what_does_not_fit_a_text_log_is_refused(
    command: Command, tmp_path: Path, rules: str, message: str
) -> None:
    (tmp_path / "rules.mtl").write_text(rules)
    (tmp_path / "log").write_text("@1 p(1)\n")
    done = command(tmp_path / "rules.mtl", tmp_path / "log")
    assert done.status == 2
    assert message in done.errors


@pytest.mark.parametrize("given", [[], ["--slices", "2"]])
@pytest.mark.parametrize("more", ["", "policy quiet: NOT noise\n"], ids=["alone", "mixed"])
def test_logs_that_break_an_assumption(
    command: Command, tmp_path: Path, given: list[str], more: str
) -> None:
    """Text logs and tables are told of in the same way, once."""
    rules, log, table = (tmp_path / name for name in ("rules.mtl", "log", "log.csv"))
    assumed = "unit ms\nassume rate <= 2/s\nassume rate <= 9/s\nassume keys <= 1\n"
    stamps = [0, 999, 1000, 1500, 1999, 2500, 2501, 2502]
    log.write_text("".join(f"@{stamp} p(a) p(b) p(c)\n" for stamp in stamps))
    table.write_text("ts,x,noise\n" + "".join(f"{stamp},a,false\n" for stamp in stamps))
    for own, declared in (log, ""), (table, "atom p(x) = x is not null\n"):
        rules.write_text(f"{assumed}{declared}find a: p(x)\n{more}")
        done = command("--summary", *given, rules, own)
        lines = [one for one in done.errors.splitlines() if "assum" in one]
        message = "the log breaks 'assume rate <= 2/s': more than 2 rows from 1000 to 1999"
        assert lines[0] == f"mtlmon: {message}"
        assert re.fullmatch("broken +1 +assumptions of the policy file", lines[1])
        assert len(lines) == 2


def test_atoms_of_tables_need_a_condition(command: Command, tables: tuple[Path, Path]) -> None:
    rules, table = tables
    rules.write_text("atom p(user)\npolicy a: NOT p(x)\n")
    done = command(rules, table)
    assert f"{rules}:1:6: nothing says which rows of a table are rows of p" in done.errors
    assert "hint: declare it with a condition: atom p(user) = CONDITION" in done.errors
    rules.write_text("policy a: NOT p(x)\n")
    assert "atom p(COLUMN1) = CONDITION" in command(rules, table).errors


def test_time_points_of_stamps_need_variables(command: Command, tables: tuple[Path, Path]) -> None:
    done = command("--time-points", "stamp", "-e", "p", tables[1])
    assert done.status == 2
    assert "--time-points is for policies with variables: leave it out" in done.errors


def test_bad_lines_have_a_place_or_are_skipped(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("policy a: NOT (p(x) AND x > 3)\n")
    log.write_text("@1 p(5)\n@2 p(y)\n@3 p(7)\n")
    done = command(rules, log)
    assert (done.status, done.output) == (2, "a\t1:0 false (x=5)\n")
    assert done.errors.startswith(f"mtlmon: {log}:2:6: y is not an integer")
    done = command("--on-error", "skip", "--summary", rules, log)
    assert (done.status, done.output) == (1, "a\t1:0 false (x=5)\na\t3:0 false (x=7)\n")
    assert "skipped 1 line that could not be read" in done.errors


def test_overflows_have_a_time_stamp_or_are_left_out(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("policy a: NOT (p(x) AND x + 1 > 3)\n")
    log.write_text(f"@1 p(5)\n@2 p({(1 << 63) - 1})\n@3 p(7)\n")
    done = command(rules, log)
    assert (done.status, done.output) == (2, "a\t1:0 false (x=5)\n")
    assert "at time-stamp 2, time-point 1 of the log: x + 1 overflows 64 bits" in done.errors
    done = command("--on-error", "skip", rules, log)
    assert (done.status, done.output) == (1, "a\t1:0 false (x=5)\na\t3:0 false (x=7)\n")
    assert "1 value left out, as integers overflow" in done.errors


def test_atoms_that_never_occur_are_named(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("policy a: publish(x) AND time(_) IMPLIES ONCE aproved(x)\n")
    log.write_text("@1 publish(a) approved(a)\n")
    assert "no event has the atom aproved; did you mean approved?" in command(rules, log).errors


def test_the_summary_counts_time_points(command: Command, published: tuple[Path, Path]) -> None:
    errors = command("--summary", *published).errors
    counts, _, triggered = errors.rpartition("\n\n")
    assert triggered.startswith("approved: ")
    assert [line.split() for line in counts.splitlines()[-3:]] == [
        ["policy", "time-points", "violated", "matched"],
        ["approved", "5", "1"],
        ["late", "4", "1"],
    ]


def test_a_limit_of_memory_stops_the_run(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("policy a: p(x) IMPLIES ONCE q(x)\n")
    log.write_text("".join(f"@{k} q(value{k})\n" for k in range(50_000)))
    done = command("--max-memory", "1M", rules, log)
    assert done.status == 2
    assert "--max-memory" in done.errors


# Against the reference: random logs, as text and as tables.

RULES = """\
atom p(x: int, y: text) = kind = "p"
atom q(x: int) = kind = "q"
let both(x) = p(x, "a") AND ONCE[0,2] q(x)
policy past: FORALL y, x. p(x, y) IMPLIES q(x) SINCE[0,4] q(x)
policy ahead: p(x, y) IMPLIES EVENTUALLY[0,2] (q(x) OR p(x, "b"))
find counted: COUNT(ONCE[0,3] p(x, y) BY y) > 1 AND p(z, y)
find named: both(x)
find closed: q(_) AND NOT PREVIOUS p(_, _)
"""


Points = list[tuple[int, dict[str, list[tuple[Any, ...]]]]]


def random_points(source: random.Random) -> Points:
    points: Points = []
    time_stamp = 0
    for _ in range(source.randrange(12)):
        time_stamp += source.choice([0, 0, 1, 3])
        p = [(source.randrange(3), source.choice("abc,")) for _ in range(source.randrange(3))]
        q = [(source.randrange(3),) for _ in range(source.randrange(2))]
        points.append((time_stamp, {"p": p, "q": q}))
    return points


def expected(points: Points) -> list[str]:
    """The lines of all policies, each by itself."""
    file = parse_policies(RULES, "<rules>")
    lets = {name: Let(names, file.lets[name]) for name, names in file.parameters.items()}
    types = {"x": int, "z": int, "y": str}
    log = Log(tuple(points), closed=True)
    lines = []
    for policy in file.policies:
        if policy.is_find:
            names = free_variables(policy.formula)[id(policy.formula)]
            found = answers(policy.formula, log, types=types, lets=lets)
        else:
            names = ("y", "x") if policy.name == "past" else ("x", "y")
            found = violations(policy.formula, log, names, types=types, lets=lets)
        offset = 0
        for place, ((time_stamp, _), one) in enumerate(zip(points, found, strict=True)):
            offset = offset + 1 if place and points[place - 1][0] == time_stamp else 0
            rows = sorted(one.satisfying)
            assert not any(map(is_fresh, rows))
            for row in rows:
                values = [
                    f'{name}="{value}"' if value == "," else f"{name}={value}"
                    for name, value in zip(names, row, strict=True)
                ]
                word = "match" if policy.is_find else "false"
                shown = f" ({', '.join(values)})" if values else ""
                lines.append(f"{policy.name}\t{time_stamp}:{offset} {word}{shown}")
    return lines


def by_policy(output: str) -> list[str]:
    order = ["past", "ahead", "counted", "named", "closed"]
    return sorted(output.splitlines(), key=lambda line: order.index(line.partition("\t")[0]))


@pytest.mark.parametrize("seed", range(25))
def test_answers_are_those_of_the_reference(command: Command, tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    points = random_points(source)
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text(RULES.replace(' = kind = "p"', "").replace(' = kind = "q"', ""))
    with log.open("w") as file:
        for time_stamp, rows in points:
            items = [f'p({x}, "{y}")' for x, y in rows["p"]] + [f"q({x})" for (x,) in rows["q"]]
            source.shuffle(items)
            file.write(f"@{time_stamp} {' '.join(items)}\n")
    done = command("--end-time", "inf", rules, log)
    assert by_policy(done.output) == expected(points)
    # as a table, whose rows of one time-stamp are one time-point
    merged: dict[int, dict[str, list[tuple[Any, ...]]]] = {}
    rules.write_text(RULES)
    table = tmp_path / "log.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "kind", "x", "y"])
        for time_stamp, rows in points:
            own = merged.setdefault(time_stamp, {"p": [], "q": []})
            writer.writerow([time_stamp, "other", 0, "other"])
            for name, some in rows.items():
                own[name] += some
                for row in some:
                    writer.writerow([time_stamp, name, *row, *[""] * (2 - len(row))])
    done = command("--end-time", "inf", "--time-points", "stamp", rules, table)
    assert done.errors.startswith("mtlmon: the log has no events") if not points else True
    assert by_policy(done.output) == expected(sorted(merged.items()))


def test_pieces_of_a_pipe_change_nothing(published: tuple[Path, Path]) -> None:
    rules, log = published
    text = log.read_text()
    assert piped(str(rules), pieces=[text[:30], text[30:]]).output == VIOLATION + MATCH


MANY = 30_000


def many_rows(folder: Path) -> Path:
    """A table with more texts than are kept, several of them at each time-stamp."""
    log = folder / "many.csv"
    rows = [f"{k // 3},{'qp'[k % 2]},user {k}" for k in range(MANY)]
    log.write_text("\n".join(["ts,kind,x", *rows, ""]))
    return log


@pytest.mark.parametrize("more", ["", "policy plain: kind = 'q' IMPLIES ONCE kind = 'q'\n"])
@pytest.mark.parametrize("given", [[], ["--time-points", "stamp"], ["--verdicts", "first"]])
def test_texts_that_are_forgotten_change_nothing(
    command: Command, tmp_path: Path, given: list[str], more: str
) -> None:
    if more and given:
        return
    rules = tmp_path / "many.mtl"
    rules.write_text(
        'atom p(x) = kind = "p"\natom q(x) = kind = "q"\n'
        "policy other: p(x) IMPLIES EVENTUALLY[0,3] (q(x) AND NOT q(x))\n"
        "policy late: p(x) AND q(x) IMPLIES EVENTUALLY[0,9000] q(x)\n" + more.replace("'", '"')
    )
    done = command("--end-time", "inf", *given, rules, many_rows(tmp_path))
    found = [line.split(" (x=")[1][:-1] for line in done.output.splitlines() if "(x=" in line]
    of_other = [
        line.split(" (x=")[1][:-1]
        for line in done.output.splitlines()
        if line.startswith("other") and "(x=" in line
    ]
    violating = [(k // 3, f'"user {k}"') for k in range(MANY) if k % 2]
    if given == ["--time-points", "stamp"]:
        # equal rows are one, and those of a time-point are sorted
        violating = sorted(set(violating), key=lambda one: (one[0], one[1]))
    users = [user for _, user in violating]
    if given == ["--verdicts", "first"]:
        assert found == users[:1]
    else:
        assert of_other == users


SLICED = """\
atom p(x: int)
atom q(x: int, y: text)
policy a: p(x) IMPLIES EVENTUALLY[0,3] q(x, _)
find b: p(x) AND ONCE[0,2] q(x, y)
find c: COUNT(ONCE[0,1] q(x, y)) > 3
find d: EXISTS y. p(x) AND ONCE[0,4] (q(_, y) AND q(x, y))
"""


@pytest.fixture
def sliced(tmp_path: Path) -> tuple[Path, Path]:
    """A policy file and a long text log."""
    rng = random.Random(7)
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text(SLICED)
    with log.open("w") as file:
        for number in range(40_000):
            row = f"q({rng.randrange(9)}, f{rng.randrange(3)})"
            file.write(f"@{number // 3} p({rng.randrange(9)}) {row}\n")
    return rules, log


@pytest.mark.parametrize("verdicts", ["false", "all", "first", "none"])
def test_slices_change_nothing(command: Command, sliced: tuple[Path, Path], verdicts: str) -> None:
    wanted = command("--verdicts", verdicts, *sliced)
    for options in (["2"], ["5", "--slice-seed", "3"], ["3", "--threads", "1"], ["1"]):
        done = command("--verdicts", verdicts, "--slices", *options, *sliced)
        assert done.output == wanted.output
        assert done.status == wanted.status
    done = command("--slices", "2", *sliced)
    assert done.errors == (
        "mtlmon: find c runs in one slice: it has no variables to split rows by\n"
    )


# No slice needs all time-points for these.
SPARSE = """\
atom p(x: int)
atom q(x: int, y: text)
find a: p(x) AND PREVIOUS q(x, y)
find b: p(x) AND (p(x) SINCE[0,9] q(x, _)) AND point(i) AND time(t)
policy c: q(x, y) IMPLIES NOT NEXT p(x)
policy d: p(x) IMPLIES EVENTUALLY[0,3] q(x, _)
find e: q(x, y) AND COUNT(ONCE[0,4] (q(x, y) AND point(i)) BY x, y) > 1
"""


@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
def test_slices_that_skip_time_points(command: Command, tmp_path: Path, form: str) -> None:
    source = random.Random(7)
    lines = []
    for k in range(3000):
        rows = [f"p({source.randrange(6)})" for _ in range(source.randrange(2))]
        rows += [f"q({source.randrange(6)}, {source.choice('ab')})"] * source.randrange(2)
        lines.append(" ".join([f"@{k // 3}", *rows]))
    rules, log = tmp_path / "sparse.mtl", tmp_path / "log.txt"
    rules.write_text(SPARSE)
    log.write_text("\n".join(lines) + "\n")
    wanted = command("--output-format", form, rules, log)
    assert wanted.status == 1
    assert len(wanted.output) > 10_000
    for options in (["2"], ["16"], ["4", "--threads", "1", "--slice-seed", "5"]):
        done = command("--output-format", form, "--slices", *options, rules, log)
        assert done.output == wanted.output
        assert done.status == wanted.status
        assert done.errors == wanted.errors


def test_slices_of_a_log_with_an_error(command: Command, sliced: tuple[Path, Path]) -> None:
    rules, log = sliced
    with log.open("a") as file:
        file.write("@20000 p(1) q(2)\n")
    wanted = command(rules, log)
    assert wanted.status == 2
    done = command("--slices", "3", rules, log)
    assert done.output == wanted.output
    assert done.errors.endswith(wanted.errors)
    skipped = command("--on-error", "skip", "--slices", "3", rules, log)
    assert skipped.output == command("--on-error", "skip", rules, log).output


def test_slices_of_a_pipe_answer_at_once(sliced: tuple[Path, Path]) -> None:
    with Live("--slices", "3", str(sliced[0])) as live:
        live.send("@1 q(1, f)\n@1 p(1)\n")
        assert live.read_line() == "b\t1:1 match (x=1, y=f)"


@pytest.mark.parametrize("points", ["row", "stamp"])
def test_slices_of_tables(command: Command, tables: tuple[Path, Path], points: str) -> None:
    wanted = command("--time-points", points, *tables)
    assert wanted.output
    done = command("--slices", "4", "--time-points", points, *tables)
    assert done.output == wanted.output
    assert done.status == wanted.status


def test_slices_beside_policies_without_variables(
    command: Command, sliced: tuple[Path, Path]
) -> None:
    rules, log = sliced
    rules.write_text(SLICED + "policy e: p IMPLIES EVENTUALLY[0,2] q\n")
    wanted = command(rules, log)
    done = command("--slices", "3", rules, log)
    assert done.output == wanted.output


def test_checkpoints_of_slices(sliced: tuple[Path, Path], tmp_path: Path) -> None:
    rules, log = map(str, sliced)
    wanted = mtlmon(rules, log).output
    lines = Path(log).read_text().splitlines(keepends=True)
    output = tmp_path / "out"
    kept = ["--checkpoint", str(tmp_path / "kept"), "-o", str(output), "--slices", "3"]
    Path(log).write_text("".join(lines[:25_000]))
    mtlmon(*kept, rules, log)
    Path(log).write_text("".join(lines))
    other = mtlmon("--resume", *kept[:-2], rules, log)
    assert other.status == 2
    assert "it was made with --slices 3, so add --slices N; any number will do" in other.errors
    mtlmon("--resume", *kept, rules, log)
    assert output.read_text() == wanted


def test_checkpoints_continue_with_other_slices(sliced: tuple[Path, Path], tmp_path: Path) -> None:
    rules, log = map(str, sliced)
    wanted = mtlmon(rules, log)
    lines = Path(log).read_text().splitlines(keepends=True)
    output = tmp_path / "out"
    kept = ["--checkpoint", str(tmp_path / "kept"), "-o", str(output), "--resume"]
    steps = [[], ["--slices", "3"], ["--slices", "5", "--slice-seed", "2"], ["--slices", "1"]]
    for number, options in enumerate(steps, 1):
        Path(log).write_text("".join(lines[: 10_000 * number]))
        done = mtlmon(*kept, *options, rules, log)
        assert done.status in (0, 1), done.errors
    assert output.read_text() == wanted.output


def test_slices_are_explained(command: Command, sliced: tuple[Path, Path]) -> None:
    rules, _ = sliced
    wanted = [
        "Slices\n  4 of 4, by the values of x in 4 parts\n",
        "  a row of p, by x: 1 slice\n  a row of q, by x: 1 slice\n"
        "  time-points without rows do not matter\n",
        "  one: it has no variables to split rows by\n",
    ]
    for done in (
        command("--explain-formula", "--slices", "4", rules),
        command("check-policy", "--slices", "4", rules),
    ):
        assert done.status == 0
        for text in wanted:
            assert text in done.output


def test_slices_are_for_variables(command: Command, sliced: tuple[Path, Path]) -> None:
    _, log = sliced
    done = command("--slices", "2", "-e", "p AND q", log)
    assert "--slices is for policies with variables: leave it out" in done.errors
    done = command("--slice-seed", "2", *sliced)
    assert "--slice-seed is for slices: add --slices N, or leave it out" in done.errors
    done = command("--slices", "2000", *sliced)
    assert done.errors == "mtlmon: the number of slices is from 1 to 1024, not 2000\n"


def test_reports_list_what_is_undecided(command: Command, tmp_path: Path) -> None:
    rules, log, page = (tmp_path / name for name in ("rules.mtl", "log", "page.html"))
    rules.write_text(
        "policy soon: p(x) IMPLIES EVENTUALLY[0,30] q(x)\n"
        "policy next: p(x) IMPLIES NEXT q(x)\n"
        "policy past: p(x) IMPLIES ONCE q(x)\n"
    )
    log.write_text("@10 p(a)\n@20 q(a)\n@20 p(b)\n@35 p(c)\n")
    for given in [], ["--slices", "2"]:
        command("--report", page, *given, rules, log)
        text = html.unescape(re.sub(r"<[^>]*>", " ", page.read_text()))
        words = " ".join(text.split())
        assert words.count("had no verdict when the log ended") == 2
        listed = re.findall(r"\b(\d+:\d) (\d+|no limit) 1 time-point", words)
        untils = {"10:0": "40", "20:0": "50", "20:1": "50", "35:0": "65"}
        assert listed == [*untils.items(), ("35:0", "no limit")]
        assert "4 time-points had no verdict" in words
        command("--report", page, "--end-time", "inf", *given, rules, log)
        assert "had no verdict" not in page.read_text()
