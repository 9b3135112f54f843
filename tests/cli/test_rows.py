"""The option --rows: the file and row of every verdict, in all formats and of all logs."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended, Live, mtlmon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

FORMULA = "p IMPLIES EVENTUALLY[0,5] q"
LOG = "# a comment\n@1 p\n\n@1 p\nbad\n@1 q\n@7 p"


def test_text_logs_have_lines(tmp_path: Path) -> None:
    log = tmp_path / "a log\t.txt"
    log.write_text(LOG)
    options = ["--rows", "--on-error", "skip", "--end-time", "inf", "-e", FORMULA]
    done = mtlmon(*options, str(log))
    name = str(log).replace("\t", "\\t")
    expected = ["1:1 = 1:0\tLOG:4", "1:0 true\tLOG:2", "1:2 true\tLOG:6", "7:0 false\tLOG:7"]
    assert done.status == 1
    assert done.output.splitlines() == [line.replace("LOG", name) for line in expected]
    piped = mtlmon(*options, log=LOG)
    assert piped.output.splitlines() == [line.replace("LOG", "<stdin>") for line in expected]
    plain = mtlmon(*options[1:], log=LOG)
    assert [line.partition("\t")[0] for line in expected] == plain.output.splitlines()


@pytest.mark.parametrize("condition", ["", "hour(ts) >= 0 AND "])
def test_other_formats_of_a_text_log(condition: str) -> None:
    formula = f"{condition}({FORMULA})"
    options = ["--rows", "--on-error", "skip", "--unit", "s", "-e", formula, "--resolve"]
    lines = mtlmon(*options, "--output-format", "jsonl", log=LOG).output.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(one["file"], one["row"]) for one in found] == [("<stdin>", row) for row in (2, 4, 6)]
    csv = mtlmon(*options, "--output-format", "csv", log=LOG).output.splitlines()
    assert csv[:2] == ["policy,time,offset,verdict,reference,file,row", ',1,0,true,,"<stdin>",2']


def test_compressed_tables_and_pipes(tmp_path: Path) -> None:
    text = "ts,e\n1,p\n\n2,p\n9,q\n"
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    options = ["--rows", "--event", "e", "--verdicts", "false", "--end-time", "inf", "-e", FORMULA]
    assert mtlmon(*options, str(path)).output == f"1:0 false\t{path}:2\n2:0 false\t{path}:4\n"
    done = mtlmon(*options, "--format", "csv", log=text)
    assert done.output == "1:0 false\t<stdin>:2\n2:0 false\t<stdin>:4\n"


def test_ticks_have_no_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,e\n1,p\n5,q\n6,p\n")
    policies = tmp_path / "rules.mtl"
    policies.write_text("policy a on every 5: count[0,4](TRUE) > 0\npolicy b: NOT q\n")
    done = mtlmon("--rows", "--event", "e", str(policies), str(path))
    assert done.output == (
        f"b\t1:0 true\t{path}:2\nb\t5:0 false\t{path}:3\na\t5:0 true\nb\t6:0 true\t{path}:4\n"
    )


@pytest.mark.parametrize("format", ["text", "csv", "jsonl"])
def test_checkpoints(tmp_path: Path, format: str) -> None:
    log, output = tmp_path / "log.csv", tmp_path / "output"
    rows = [f"{number // 3},u{number % 7},{'pq'[number % 5 == 0]}\n" for number in range(400)]
    options = ["--rows", "--event", "e", "--key", "u", "--output-format", format, "-e", FORMULA]
    service = ["--checkpoint", str(tmp_path / "state"), "--resume", "-o", str(output)]
    for count in (150, 310, 400):
        log.write_text("ts,u,e\n" + "".join(rows[:count]))
        assert mtlmon(*service, *options, str(log)).status in (0, 1)
    assert output.read_text() == mtlmon(*options, str(log)).output
    refused = mtlmon(*service, *options[1:], str(log))
    assert (refused.status, refused.output) == (2, "")
    assert "the snapshot is of another selection of verdicts" in refused.errors


@pytest.mark.parametrize("options", [[], ["--sort"], ["--resolve"]])
def test_rows_that_wait_for_later_values(tmp_path: Path, options: list[str]) -> None:
    """Their verdicts come late, but are about the rows that waited."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text("policy a per u: x < x.next() IMPLIES NOT late\n")
    log.write_text(
        "ts,u,x,late\n1,a,1,true\n1,b,7,false\n1,a,2,true\n3,b,6,true\n3,a,1,true\n4,b,7,false\n"
        "9,a,0,false\n"
    )
    done = mtlmon("--rows", "--verdicts", "false", *options, str(rules), str(log))
    assert (done.status, done.output) == (
        1,
        f"a\ta\t1:0 false\t{log}:2\na\tb\t3:0 false\t{log}:5\n",
    )
    if not options:
        shown = mtlmon("--color", "always", str(rules), str(log)).output
        assert "log.csv:2  1:0" in shown
        assert "log.csv:5  3:0" in shown
    explained = mtlmon("--explain", "--rows", *options, str(rules), str(log)).errors
    assert [line for line in explained.splitlines() if line.startswith("at ")] == [
        f"at {log}:2",
        f"at {log}:5",
    ]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_explanations_and_reports_name_the_rows(tmp_path: Path, is_sorted: bool) -> None:
    """They find rows by reading the log again; verdicts carry them along."""
    names = []
    for file in range(3):
        rows = [
            f"{(30 * file + number) // 3},u{number % 4},h{number % 2},{'pq'[number % 7 < 3]}\n"
            for number in range(30)
        ]
        rows[file] = f"bad,u,h,p\n{rows[file]}"
        names.append(str(tmp_path / f"{file}.csv"))
        (tmp_path / f"{file}.csv").write_text("ts,u,host,e\n" + "".join(rows))
    rules = tmp_path / "rules.mtl"
    rules.write_text(
        "policy a per u: p IMPLIES EVENTUALLY[0,2] q\npolicy b: NEXT[0,0] p\n"
        'policy c per host on rows where e = "q": ONCE[1,3] q\n'
    )
    if is_sorted:
        names.reverse()
    page = tmp_path / "page.html"
    output = tmp_path / "verdicts"
    done = mtlmon(
        "--rows", "--event", "e", "--end-time", "inf", "--on-error", "skip", "--resolve",
        "--verdicts", "false", "--explain", "--explain-limit", "500", "--report", str(page),
        "-o", str(output), *(["--sort"] if is_sorted else []), str(rules), *names,
    )  # fmt: skip
    expected = sorted(line.rpartition("\t")[2] for line in output.read_text().splitlines())
    assert len(expected) > 50
    explained = [line[3:] for line in done.errors.splitlines() if line.startswith("at ")]
    assert sorted(explained) == expected
    assert all(f">{place}</bdi>" in page.read_text() for place in expected)


@pytest.mark.parametrize("format", ["text", "csv"])
def test_a_log_that_is_followed_has_its_name(tmp_path: Path, format: str) -> None:
    log = tmp_path / f"app.{'csv' if format == 'csv' else 'log'}"
    log.write_text("@1 p\n@2 q\n" if format == "text" else "ts,p\n1,true\n2,false\n")
    options = ["--verdicts", "all", "--follow", str(log), "--format", format]
    with Live("--rows", *options, "-e", "p") as live:
        first = 2 if format == "csv" else 1
        assert [live.read_line() for _ in range(2)] == [
            f"1:0 true\t{log}:{first}",
            f"2:0 false\t{log}:{first + 1}",
        ]


def test_the_summary_tells_the_first_violation(command: Command, tmp_path: Path) -> None:
    """Also if an earlier run has found it."""
    log, state = tmp_path / "log.csv", tmp_path / "state"
    log.write_text("ts,p,q\n1,true,false\n1,false,true\n2,true,true\n")
    rules = tmp_path / "rules.mtl"
    rules.write_text("policy a: NOT q\npolicy b: p IMPLIES EVENTUALLY[0,0] NEXT[0,0] q\n")
    done = command("--rows", "--summary", rules, log)
    assert done.errors.endswith(f"\n\nfirst violation at {log}:3\n")
    rows = ["--rows", "--verdicts", "false", "--end-time", "inf"]
    done = command(*rows, "--summary", rules, log)
    assert done.errors.endswith(f"\n\nfirst violation at {log}:3\n")
    assert "first violation" not in command("--summary", rules, log).errors
    assert "first violation" not in command(*rows, "--summary", "-e", "p OR q", log).errors
    kept = ["--checkpoint", state, "--resume", "-o", tmp_path / "verdicts", "--summary", "--rows"]
    command(*kept, rules, log)
    log.write_text(log.read_text() + "9,false,true\n")
    assert command(*kept, rules, log).errors.endswith(f"\n\nfirst violation at {log}:3\n")
