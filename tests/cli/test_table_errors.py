"""What the command says of tables, options and policies that do not go together."""

from __future__ import annotations

import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import COMMAND, SECONDS, Ended, environment, mtlmon, shell
from tests.doors import support_option_names as option_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

FILES = {
    "log.csv": "ts,p,user\n1,true,ann\n2,maybe,bob\n3,true,ann\n",
    "good.csv": "ts,p,user\n1,true,ann\n3,true,ann\n",
    "header.csv": "ts,p\n",
    "empty.csv": "",
    "empty.jsonl": "",
    "no-time.csv": "ts,p\n1,true\n,true\n",
    "falling.csv": "ts,p\n5,true\n3,true\n",
    "ragged.csv": "ts,p\n5,true\n6\n7,true,4\n",
    "bad.jsonl": '{"ts":1,"p":true}\n{"ts":2,"p":\n{"ts":3}\n[1]\n',
    "pretty.jsonl": '{"ts":1,\n "p":true}\n{"ts":2,\n "p":true}\n',
    "array.jsonl": '[{"ts":1}]\n',
    "huge.csv": "ts,p\n99999999999999999999,true\n",
    "huge.jsonl": '{"ts":99999999999999999999,"p":true}\n',
    "size.csv": "ts,size\n1,9223372036854775807\n2,3\n",
    "semicolons.csv": "ts;p\n1;true\n",
    "twice.csv": "ts,p,p\n1,true,false\n",
    "latin.csv": "ts,p\n1,tr\udcfce\n",
    "damaged.csv.gz": "\x1f\udc8b\x08\0\0\0\0\0\0\0\0",
    "damaged.parquet": "PAR1 and no more",
    "x.log": "@1 p\n",
    "unit.mtl": "unit s\npolicy x: p\n",
    "find.mtl": "find q: p(x)\n",
    "two.mtl": "policy x: p\npolicy y: NOT p\n",
    "size.mtl": "atom large = size + 1 > 5\npolicy x: large\n",
    "text.mtl": 'column size: int\natom large = size > "5"\npolicy x: large\n',
}
SKIP = "; --on-error skip leaves such rows out"
CASES = [
    # options
    ("-e p --key user x.log", "--key works on tables, but x.log is read as a text log: add its "
     "format, for instance --format csv (see mtlmon --help)"),
    ("-e p --event-separator ; x.log", "--event-separator works on tables, but x.log is read as a "
     "text log: add its format, for instance --format csv (see mtlmon --help)"),
    ("--time-points stamp find.mtl x.log", "--time-points stamp works on tables, but x.log is read "
     "as a text log: add its format, for instance --format csv (see mtlmon --help)"),
    ("-e p --event-separator ; log.csv", "--event-separator needs the column of event names: add "
     "--event COLUMN (see mtlmon --help)"),
    ("-e p --unit s --resolution ms log.csv", "--unit s and --resolution ms contradict each other: "
     "both give the unit of time-stamps; the unit of the time column is --time-unit "
     "(see mtlmon --help)"),
    ("-e p --key user,,p log.csv", "argument --key: 'user,,p' has an empty name of a column "
     "(see mtlmon --help)"),
    ("-e p --key user,user log.csv", "the key column 'user' is given twice: name each column once"),
    ("-e p --advance-every 0 log.csv", "argument --advance-every: '0' is not an integer from 1 on "
     "(see mtlmon --help)"),
    ("-e p --checkpoint c -o out --sort log.csv", "--checkpoint does not work with --sort: no row "
     "is checked before all are read, so a later run could save nothing; sort the log first "
     "(see mtlmon --help)"),
    ("-e p --output-format parquet --checkpoint c -o out x.log", "--checkpoint does not work with "
     "--output-format parquet: such a file cannot be cut and continued; write jsonl or csv, and "
     "convert that once the log is read (see mtlmon --help)"),
    ("-e p --checkpoint log.csv -o out log.csv", "log.csv cannot hold the checkpoint: "
     "this run uses it for something else"),
    ("-e p --time-format %Q log.csv", "time format '%Q': '%Q' is not among the directives ..."),
    # files
    ("-e p none.csv", "cannot read none.csv: No such file or directory"),
    ("-e p none*.csv", "none*.csv: no file matches this pattern"),
    ("-e p .", "array.jsonl:1: not a JSON object: in JSON lines each line is one "
     "object; jq -c '.[]' makes such lines of an array"),
    ("-e p sub", "sub: no table in this directory, whose name ends in .csv, ..."),
    ("-e p x.log x.log", "several text logs (x.log, x.log): name one at a time "
     "(see mtlmon --help)"),
    ("-e p log.csv x.log", "x.log: the name does not tell the format: say it with --format, "
     "one of csv, tsv, jsonl, parquet, arrow, xes"),
    ("-e p damaged.parquet", "damaged.parquet: not parquet, or damaged: ..."),
    ("-e p damaged.csv.gz", "damaged.csv.gz: the gzip data is damaged or incomplete..."),
    ("-e p -o log.csv ./log.csv", "log.csv is both the log and the file for the verdicts"),
    ("-e p -o good.csv log.csv good.csv", "good.csv is both the log and the file for the verdicts"),
    ("-o unit.mtl unit.mtl log.csv", "unit.mtl is both the formula and the file for the verdicts"),
    ("-e p --report log.csv log.csv", "log.csv cannot hold the report: this run uses it for "
     "something else"),
    ("-e p -o none/x log.csv", "cannot write none/x: No such file or directory"),
    # columns
    ("-e q header.csv", "header.csv: no column 'q' for the atom q; if one column names the "
     "events, say which with --event. Columns: 'ts', 'p'"),
    ("-e p --time when log.csv", "log.csv: no column 'when' for the times. Columns: 'ts', 'p', "
     "'user'"),
    ("-e p --key usr log.csv", "log.csv: no column 'usr' for the key; did you mean 'user'?"),
    ("-e p --event uesr log.csv", "log.csv: no column 'uesr' for the names of events; did you "
     "mean 'user'?"),
    ("-e p semicolons.csv", "semicolons.csv: no column 'ts', only 'ts;p': cells end at commas in "
     "CSV and at tabs in TSV, not at ';'; --delimiter ';' says that they end there"),
    ("-e p twice.csv", "twice.csv: 2 columns are called 'p': rename all but one"),
    # rows, and the verdicts earned before them
    ("-e p log.csv", "log.csv:3: column 'p': 'maybe' is neither true nor false" + SKIP, "1:0 true"),
    ("-e p no-time.csv", "no-time.csv:3: the time column 'ts' is empty in this row" + SKIP,
     "1:0 true"),
    ("-e p falling.csv", "falling.csv:3: column 'ts': time-stamp 3 comes after 5, so the rows are "
     f"out of order{option_names.order_advice(option_names.COMMAND)}", "5:0 true"),
    ("-e p ragged.csv", "ragged.csv:3: 1 cell instead of 2, as in the header" + SKIP, "5:0 true"),
    ("-e p bad.jsonl", "bad.jsonl:2: not a JSON object" + SKIP, "1:0 true"),
    ("-e p pretty.jsonl", "pretty.jsonl:1: not a JSON object: in JSON lines each line is one "
     "object"),
    ("-e p array.jsonl", "array.jsonl:1: not a JSON object: in JSON lines each line is one "
     "object; jq -c '.[]' makes such lines of an array"),
    ("-e p huge.csv", "huge.csv:2: column 'ts': '99999999999999999999' is above 2^63-1" + SKIP),
    ("-e p huge.jsonl", "huge.jsonl:1: column 'ts': 99999999999999999999 is above 2^63-1" + SKIP),
    ("-e p latin.csv", "latin.csv:2: ..."),
    ("size.mtl size.csv", "size.csv:2: atom large: ..."),
    # policies
    ("size.mtl x.log", "size.mtl uses columns of a table, but the log is read as "
     "text: add its format, for instance --format csv"),
    ("-e a=b x.log", "the formula uses columns of a table, but the log is read as text: add its "
     "format, for instance --format csv; events are compared with a EQUIV b, and a text is \"a\""),
    ("-e a=b log.csv", "log.csv: no column 'a' for the predicates; events are compared with a "
     "EQUIV b, and a text is \"a\". Columns: ..."),
    ("text.mtl size.csv", "text.mtl:2:14: atom large: '>' compares column size of type int64 with "
     "the text \"5\"..."),
    ("unit.mtl --resolution ms log.csv", "unit.mtl:1:6: the file declares the unit s, but ms was "
     "asked for..."),
    ("-e EVENTUALLY[0,5s]p log.csv", "<formula>:1:14: 5s has a unit, but the unit of the stream's "
     "time-stamps is not declared..."),
]  # fmt: skip


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_errors(command: Command, case: tuple[str, ...]) -> None:
    arguments, message, *verdicts = case
    done = command(*arguments.split())
    assert (done.status, done.output) == (2, "".join(f"{line}\n" for line in verdicts))
    begin, _, more = message.partition("...")
    assert not more
    if "..." in message:
        assert done.errors.startswith(f"mtlmon: {begin}")
    else:
        assert done.errors == f"mtlmon: {message}\n"


@pytest.mark.usefixtures("_files")
def test_rows_are_skipped(command: Command) -> None:
    asked = ["--on-error", "skip", "-e", "p"]
    assert command(*asked, "ragged.csv") == Ended(
        0, "5:0 true\n",
        "mtlmon: skipped 2 rows that could not be read\n"
        "mtlmon:   ragged.csv:3: 1 cell instead of 2, as in the header\n"
        "mtlmon:   ragged.csv:4: 3 cells instead of 2, as in the header\n",
    )  # fmt: skip
    assert command(*asked, "bad.jsonl") == Ended(
        1, "1:0 true\n3:0 false\n",
        "mtlmon: skipped 2 rows that could not be read\n"
        "mtlmon:   bad.jsonl:2: not a JSON object\n"
        "mtlmon:   bad.jsonl:4: not a JSON object\n",
    )  # fmt: skip
    done = command(*asked, "huge.csv")
    assert (done.status, done.output) == (0, "")
    done = command("--on-error", "skip", "size.mtl", "size.csv")
    assert (done.status, done.output) == (1, "x\t2:0 false\n")


@pytest.mark.usefixtures("_files")
def test_logs_without_rows(command: Command) -> None:
    for name in "header.csv", "empty.csv", "empty.jsonl":
        assert command("-e", "p", name) == Ended(0, "", "mtlmon: the log has no events\n")
    # what the policy says about no row at all needs no column either
    assert command("-e", "TRUE", "good.csv") == Ended(0, "1:0 true\n3:0 true\n", "")


@pytest.mark.usefixtures("_files")
def test_units_of_bounds(command: Command) -> None:
    """The unit of time-stamps is that of the column of times, if nothing else is said."""
    asked = ["--time-unit", "ms", "good.csv", "--verdicts", "false"]
    for unit, time_stamps in {"": "1", "unit ms\n": "1", "unit us\n": "1000"}.items():
        with open("bound.mtl", "w") as file:
            file.write(f"{unit}policy x: EVENTUALLY[1ms,1ms] p")
        done = command("--end-time", "last", "bound.mtl", *asked)
        assert done == Ended(1, f"x\t{time_stamps}:0 false\n", "")
    assert command("-e", "EVENTUALLY[1ms,1ms] p", *asked).output == "1:0 false\n"


@pytest.mark.usefixtures("_files")
def test_streams_that_cannot_be_used() -> None:
    done = shell("$M -e p log.csv > /dev/full")
    assert done == Ended(2, "", "mtlmon: cannot write standard output: No space left on device\n")
    done = shell("$M --output-format parquet -e p -o /dev/full good.csv")
    assert done == Ended(2, "", "mtlmon: cannot write /dev/full: No space left on device\n")
    done = shell("$M --format csv -e p <&-")
    assert done == Ended(2, "", "mtlmon: cannot read standard input: it is closed\n")
    done = shell("cat good.csv | $M --explain --format csv -e 'NOT p'")
    message = "cannot explain: <stdin> cannot be read a second time; save the log to a file first"
    assert done == Ended(2, "", f"mtlmon: {message}\n")
    done = mtlmon("--key", "user", "-e", "p", log="@1 p\n")
    message = (
        "--key works on tables, but standard input is read as a text log: add its format, for "
        "instance --format csv (see mtlmon --help)"
    )
    assert done == Ended(2, "", f"mtlmon: {message}\n")


@pytest.mark.usefixtures("_files")
def test_a_terminal_gets_no_parquet() -> None:
    leader, follower = pty.openpty()
    done = subprocess.run(
        [*COMMAND, "--output-format", "parquet", "-e", "p", "good.csv"],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.PIPE,
        check=False,
        timeout=SECONDS,
        env=environment(),
    )
    message = b"cannot write Parquet to a terminal: add -o FILE"
    assert (done.returncode, done.stderr) == (2, b"mtlmon: " + message + b"\n")
    os.close(leader)
    os.close(follower)
