"""Late and corrected rows for files that have policies with variables and others: --lateness."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live, mtlmon
from tests.cli.test_lateness import Command, read_table
from tests.cli.test_lateness_kills import compare_with_kills
from tests.cli.test_lateness_relations import TABLE, admitted, make_log

POLICIES = {
    "log": """\
policy busy: count[0,9]() < 7
policy soon: quick IMPLIES EVENTUALLY[0,6] slow
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,9] approve(f)
find both: publish(u, f) AND (ONCE[1,20] publish(v, f)) AND NOT u = v
""",
    "csv": f"""\
key user
{TABLE}
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,9] approve(f)
policy busy: count[0,9]() < 4
policy soon per none: what = "approve" IMPLIES EVENTUALLY[0,6] what = "publish"
policy steady on rows where file = "f1": PREVIOUS[0,5] what = "approve"
""",
}


def make_mixed_log(path: Path, source: random.Random, count: int) -> list[str]:
    """Write a log of late rows; return the lines of events, as they come."""
    lines = make_log(path, source, count)
    if path.suffix == ".log":
        lines = [f"{line} {source.choice(['quick', 'slow', ''])}".strip() for line in lines]
        path.write_text("\n".join([*lines, ""]))
    return lines


def latest(output: Path, form: str) -> Sequence[object]:
    """The verdicts and answers that hold at last."""
    if form == "text":
        found = mtlmon("latest", str(output))
        assert found.status < 2, found.errors
        return sorted(found.output.splitlines())
    last: dict[tuple[object, ...], object] = {}
    final = revision = 0
    for row in read_table(output, form).to_pylist():
        assert row["revision"] >= revision
        assert row["time"] >= final
        revision, final = row["revision"], row["final"] or 0
        values = {name: row[name] for name in row if name not in {"op", "revision", "final"}}
        if row["policy"] in {"approved", "both"}:
            name = tuple(values.values())
            assert (name in last) == (row["op"] == "delete")
        else:
            name = row["policy"], row.get("user"), row["time"], row["offset"]
        if row["op"] == "delete":
            del last[name]
        else:
            last[name] = tuple(values.values())
    return sorted(last.values(), key=repr)


@pytest.mark.parametrize(("suffix", "form"), [("log", "text"), ("csv", "csv"), ("csv", "text")])
def test_latest_lines_survive_kills(suffix: str, form: str, tmp_path: Path) -> None:
    source = random.Random(suffix)
    log, file = tmp_path / f"log.{suffix}", tmp_path / "p.mtl"
    output, late = tmp_path / "out", tmp_path / "late"
    file.write_text(POLICIES[suffix])
    lines = make_mixed_log(log, source, 500)
    options = ["--resolve", "--verdicts", "all"] if form == "csv" else []
    arguments = ["--lateness", "30", "--late", str(late), "--output-format", form, "--wait", "2"]
    arguments += [*options, "-o", str(output), str(file)]
    found, _ = compare_with_kills(arguments, log, output, late, lambda path: latest(path, form))
    header = ["ts,what,user,file"] if suffix == "csv" else []
    log.write_text("\n".join([*header, *admitted(lines, 30), ""]))
    wanted = mtlmon(*options, "--output-format", form, "-o", str(output), str(file), str(log))
    assert wanted.status == 1
    if form == "text":
        assert found == sorted(output.read_text().splitlines())
    else:
        rows = read_table(output, form).to_pylist()
        assert found == sorted((tuple(row.values()) for row in rows), key=repr)


def test_the_changes_of_each_line(tmp_path: Path) -> None:
    """Of policies without variables first, and a bound that holds for all of them."""
    file = tmp_path / "p.mtl"
    file.write_text(POLICIES["csv"])
    options = ["--lateness", "60", "--op", "op", "--id", "id", "--rows", "--verdicts", "false"]
    with Live(*options, "--format", "csv", str(file)) as live:
        live.send("ts,op,id,what,user,file\n")
        for text, lines in (
            ("100,+,1,approve,max,f2\n", ["!@34"]),
            (
                "105,+,2,publish,ann,f1\n",
                [
                    "steady\tann\t105:0 false\tstdin:2",
                    "approved\t\t105:0 false (u=ann, f=f1)\tstdin:2",
                ],
            ),
            (
                "108,+,3,approve,max,f1\n",
                ["steady\tmax\t108:0 false\tstdin:3"],
            ),
            (
                "98,+,3,approve,max,f1\n",
                [
                    "soon\t\t98:0 false\tstdin:4",
                    "steady\tmax\t!x108:0\tstdin:3",
                    "steady\tmax\t98:0 false\tstdin:4",
                    "approved\t\t!x105:0 false (u=ann, f=f1)\tstdin:2",
                ],
            ),
            (
                "0,-,3,,max,\n",
                [
                    "soon\t\t!x98:0\tstdin:4",
                    "steady\tmax\t!x98:0\tstdin:4",
                    "approved\t\t!105:0 false (u=ann, f=f1)\tstdin:2",
                ],
            ),
        ):
            live.send(text)
            for line in lines:
                while (found := str(live.read_line())).startswith("!@") and line[:2] != "!@":
                    pass
                assert found == line
        assert live.end().status == 1


def test_rows_that_are_refused_are_written_once(tmp_path: Path, command: Command) -> None:
    file, log, late = tmp_path / "p.mtl", tmp_path / "log.csv", tmp_path / "late"
    file.write_text(POLICIES["csv"])
    log.write_text("ts,what,user,file\n100,approve,max,f1\n50,publish,ann,f1\n")
    done = command("--lateness", 9, "--late", late, "--summary", file, log)
    assert late.read_text() == "ts,what,user,file\n50,publish,ann,f1\n"
    assert "1 row came too late" in done.errors
    assert done.status == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--verdicts", "first"], "--verdicts first and files"),
        (["--report", "r.html"], "--report and files"),
        (["--clock", "key"], "--clock key for policies with variables"),
    ],
)
def test_what_is_refused(options: list[str], words: str, tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    file.write_text(POLICIES["log"])
    log.write_text("@1 approve(a)\n")
    done = command("--lateness", 5, *options, file, log)
    assert done.status == 2
    assert done.errors.startswith(f"mtlmon: --lateness does not work yet with {words}")
