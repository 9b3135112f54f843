"""Late and corrected rows for policies with variables: --lateness."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.cli.process import Live, mtlmon
from tests.cli.test_lateness import Command, read_table
from tests.cli.test_lateness_kills import compare_with_kills
from tests.run.both import check_both
from tests.sampling import thinned

POLICIES = """\
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,9] approve(f)
policy soon: FORALL f. approve(f) IMPLIES EVENTUALLY[0,6] EXISTS u. publish(u, f)
policy twice: NOT EXISTS f. approve(f) AND PREVIOUS approve(f)
find both: publish(u, f) AND (ONCE[1,20] publish(v, f)) AND NOT u = v
"""
TABLE = """\
time "ts"
atom publish(user: text, file: text) = what = "publish"
atom approve(file: text) = what = "approve"
"""


def make_log(path: Path, source: random.Random, count: int, late: float = 0.1) -> list[str]:
    """Write a log of late rows; return the lines of events, as they come."""
    now = 100
    rows = []
    for _ in range(count):
        now += source.random() < 0.5
        stamp = now - (source.randrange(40) if source.random() < late else 0)
        user, file = source.choice("abc"), f"f{source.randrange(6)}"
        rows.append((stamp, source.choice(["publish", "approve"]), user, file))
    if path.suffix == ".csv":
        lines = [f"{stamp},{what},{user},{file}" for stamp, what, user, file in rows]
        path.write_text("\n".join(["ts,what,user,file", *lines, ""]))
        return lines
    lines = [
        f"@{stamp} {what}({f'{user}, ' if what == 'publish' else ''}{file})"
        for stamp, what, user, file in rows
    ]
    path.write_text("\n".join([*lines, ""]))
    return lines


def latest(
    output: Path, form: str, with_variables: Collection[str] | None = None, key: str = "user"
) -> Sequence[object]:
    """The verdicts and answers that hold at last.

    Args:
        output: the changes, as lines or as a table.
        form: its format.
        with_variables: the policies with variables; by default all.
        key: the column of the key of the others.
    """
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
        name: tuple[object, ...]
        if with_variables is None or row["policy"] in with_variables:
            name = tuple(values.values())
            assert (name in last) == (row["op"] == "delete")
        else:
            name = row["policy"], row.get(key), row["time"], row["offset"]
        if row["op"] == "delete":
            del last[name]
        else:
            last[name] = tuple(values.values())
    return sorted(last.values(), key=repr)


def admitted(lines: list[str], lateness: int) -> list[str]:
    """The lines that come in time, in the order of time."""
    now, kept = 0, []
    for line in lines:
        stamp = int(line.lstrip("@").split("," if "," in line[:6] else " ")[0])
        if now - stamp <= lateness:
            kept.append((stamp, line))
        now = max(now, stamp)
    return [line for _, line in sorted(kept, key=lambda row: row[0])]


@pytest.mark.parametrize(
    ("suffix", "form", "verdicts"),
    [("log", "text", "all"), ("log", "jsonl", "false"), ("csv", "csv", "false")],
)
def test_the_latest_lines_are_those_of_the_rows_in_order(
    suffix: str, form: str, verdicts: str, tmp_path: Path
) -> None:
    log, policies, output = (tmp_path / name for name in (f"log.{suffix}", "p.mtl", "out"))
    policies.write_text((TABLE if suffix == "csv" else "") + POLICIES)
    lines = make_log(log, random.Random(f"{suffix} {verdicts}"), 150)
    ordered = tmp_path / f"ordered.{suffix}"
    header = ["ts,what,user,file"] if suffix == "csv" else []
    ordered.write_text("\n".join([*header, *admitted(lines, 30), ""]))
    options = ["--verdicts", verdicts, str(policies)]
    wanted = mtlmon(*options, str(ordered))
    # a pipe is read line by line where that matters; a block at once is one batch
    pieces = tmp_path / "pieces"
    with Live(
        "--lateness",
        "30",
        *options,
        "--format" if suffix == "csv" else "--verdicts",
        "csv" if suffix == "csv" else verdicts,
    ) as live:
        text = log.read_text()
        for first in range(0, len(text), 900):
            live.send(text[first : first + 900])
        ended = live.end()
    pieces.write_text(ended.output)
    assert latest(pieces, "text") == sorted(wanted.output.splitlines())
    assert ended.status == wanted.status == 1
    done = mtlmon(
        "--lateness", "30", "--output-format", form, "-o", str(output), *options, str(log)
    )
    assert done.status == 1
    if form == "text":
        assert latest(output, form) == sorted(wanted.output.splitlines())
    else:
        found = latest(output, form)
        written = ["--output-format", form, "-o", str(output), *options, str(ordered)]
        assert mtlmon(*written).status == 1
        rows = [tuple(row.values()) for row in read_table(output, form).to_pylist()]
        # 1 is not 1.0
        assert list(map(repr, found)) == sorted(map(repr, rows))


def test_the_changes_of_each_line(tmp_path: Path) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text(POLICIES.splitlines()[0] + "\n")
    with Live("--lateness", "50", str(policies)) as live:
        for text, lines in (
            ("@100 publish(ann, f1)\n", ["approved\t100:0 false (u=ann, f=f1)", "!@50"]),
            ("@99 approve(f1)\n", ["approved\t!x100:0 false (u=ann, f=f1)"]),
            (
                "@100 publish(bob, f2) publish(eve, f2)\n",
                ["approved\t100:1 false (u=bob, f=f2)", "approved\t100:1 false (u=eve, f=f2)"],
            ),
            ("@200\n", ["!@150"]),
        ):
            live.send(text)
            assert [str(live.read_line()) for _ in lines] == lines
        assert live.end().status == 1


def test_rows_that_are_taken_back(tmp_path: Path) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text(TABLE + POLICIES.splitlines()[0] + "\n")
    options = ["--lateness", "60", "--op", "op", "--id", "id", "--format", "csv", str(policies)]
    with Live(*options) as live:
        live.send("ts,op,id,what,user,file\n")
        for text, lines in (
            ("100,+,1,approve,max,f1\n", ["!@40"]),
            ("105,+,2,publish,ann,f1\n", ["!@45"]),
            ("0,-,1,,max,f1\n", ["approved\t105:0 false (u=ann, f=f1)"]),
            ("104,+,3,approve,max,f1\n", ["approved\t!x105:0 false (u=ann, f=f1)"]),
            ("80,+,3,approve,max,f1\n", ["approved\t!105:0 false (u=ann, f=f1)"]),
            (
                "105,+,2,publish,ann,f2\n",
                ["approved\t!x105:0 false (u=ann, f=f1)", "approved\t105:1 false (u=ann, f=f2)"],
            ),
        ):
            live.send(text)
            assert [str(live.read_line()) for _ in lines] == lines
        assert live.end().status == 1


@pytest.mark.parametrize("slices", [[], ["--slices", "3"]], ids=["", "slices"])
@pytest.mark.parametrize("name", ["log", "csv"])
def test_latest_answers_survive_kills(name: str, slices: list[str], tmp_path: Path) -> None:
    source = random.Random(name)
    log, policies, late = tmp_path / f"log.{name}", tmp_path / "p.mtl", tmp_path / "late"
    policies.write_text((TABLE if name == "csv" else "") + POLICIES)
    make_log(log, source, 900)
    form = "csv" if name == "csv" else "text"
    output = tmp_path / "out"
    arguments = ["--lateness", "30", "--late", str(late), "--output-format", form, "--wait", "2"]
    arguments += [*slices, "-o", str(output), str(policies)]
    _, resumed = compare_with_kills(
        arguments, log, output, late, lambda output: latest(output, form)
    )
    other = mtlmon(*resumed, *arguments, "--lateness", "31", str(log))
    assert "it was made with another --lateness" in other.errors
    other = mtlmon(*resumed, *arguments, "--slices", "2", str(log))
    assert "it was made with other --slices" in other.errors


WITH_SLICES = {
    "all": (POLICIES, ["--verdicts", "all"]),
    "tables": (POLICIES, ["--output-format", "jsonl"]),
    "first": (POLICIES, ["--verdicts", "first"]),
    "stamps": (POLICIES.replace("policy twice", "policy more"), ["--time-points", "stamp"]),
    "rows": (POLICIES, ["--rows", "--wait", "3"]),
    "summary": (POLICIES, ["--fail-on-vacuous", "--verdicts", "none"]),
    "explained": (POLICIES, ["--explain"]),
    "beside others": (f"policy plain: NOT count[0,5]() > 5\n{POLICIES}", ["--end-time", "inf"]),
    "keys": (
        "policy one per user: FORALL f. publish(u, f) IMPLIES NOT ONCE[1,9] publish(v, f)\n",
        ["--end-time", "last"],
    ),
    "streams": (
        'stream lately = count[0,4](what = "approve")\natom many(file: text) = lately > 1\n'
        "policy one: FORALL f. many(f) IMPLIES ONCE[1,9] EXISTS u. publish(u, f)\n",
        [],
    ),
}


# Text logs have no columns, as keys, streams and time-stamps of verdicts need them.
NEED_COLUMNS = {"keys", "streams", "stamps"}


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        *((kind, "csv") for kind in WITH_SLICES),
        *((kind, "log") for kind in WITH_SLICES if kind not in NEED_COLUMNS),
    ],
)
def test_slices_say_what_one_engine_says(
    kind: str, suffix: str, tmp_path: Path, command: Command
) -> None:
    """With all corrections, byte for byte."""
    text, options = WITH_SLICES[kind]
    policies, log = tmp_path / "p.mtl", tmp_path / f"log.{suffix}"
    policies.write_text((TABLE if suffix == "csv" else "") + text)
    for seed in thinned(range(4)):
        lines = make_log(log, random.Random(f"{kind} {seed}"), 120)
        given = ["--lateness", "30", *options]
        if suffix == "csv" and kind not in ("explained", "stamps"):
            # each tenth row is taken back a while later
            rows = [f"{line},+,{number}" for number, line in enumerate(lines)]
            for number in range(0, 100, 10):
                rows.insert(number + 20, f"{lines[number]},-,{number}")
            log.write_text("\n".join(["ts,what,user,file,op,id", *rows, ""]))
            given += ["--op", "op", "--id", "id", "--on-error", "skip"]
        wanted = command(*given, policies, log)
        assert wanted.status in (0, 1)
        for slices in (1, 2, 5):
            done = command(*given, "--slices", slices, "--threads", 2, policies, log)
            assert (done.status, done.output) == (wanted.status, wanted.output)
            said = [line for line in done.errors.splitlines() if " runs in one slice" not in line]
            assert said == wanted.errors.splitlines()
        if kind in ("explained", "summary", "tables"):
            continue
        check_both(policies, log, *given, "--slices", "3")
        form = "text" if suffix == "log" else suffix
        with Live(*given, "--slices", "3", "--format", form, str(policies)) as live:
            for line in log.read_text().splitlines(keepends=True):
                live.send(line)
            ended = live.end()
        assert ended.status == wanted.status
        if kind not in ("first", "rows"):
            # which corrections there are depends on what is read at once
            (tmp_path / "at once").write_text(wanted.output)
            (tmp_path / "by line").write_text(ended.output)
            assert latest(tmp_path / "by line", "text") == latest(tmp_path / "at once", "text")


@pytest.mark.parametrize("more", ["", 'policy plain: NOT what = "p"\n'])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_variables_are_called_like_columns_of_changes(more: str, form: str, tmp_path: Path) -> None:
    policies, log, output = (tmp_path / name for name in ("p.mtl", "log.csv", "out"))
    policies.write_text(
        'atom p(user) = what = "p"\n'
        f"policy one: p(op) IMPLIES PREVIOUS p(op)\n{more}"
        "policy two: p(revision) IMPLIES NOT PREVIOUS EXISTS u. p(u)\n"
    )
    log.write_text("ts,user,what\n1,ann,p\n9,bob,p\n7,eve,q\n20,joe,p\n")
    options = ["--lateness", "10", "--output-format", form, "-o", str(output), str(policies)]
    assert mtlmon(*options, str(log)).status == 1
    rows = [row for row in read_table(output, form).to_pylist() if row["policy"] != "plain"]
    assert {row["op"] for row in rows} <= {"insert", "delete"}
    assert {(row["policy"], row["var_op"] or row["var_revision"]) for row in rows} == {
        *(("one", name) for name in ("ann", "bob", "joe")),
        ("two", "joe"),
    }


def test_the_summary_counts_what_was_judged_again(tmp_path: Path, command: Command) -> None:
    """With and without others beside policies with variables; lines of a file come at once."""
    log = tmp_path / "log"
    log.write_text("@100 p(1)\n" + "".join(f"@{stamp}\n" for stamp in range(101, 160)))
    policies = tmp_path / "p.mtl"
    for others in ("", "policy b: NOT r\n"):
        policies.write_text(f"policy a: p(x) IMPLIES EVENTUALLY[0,9] q(x)\n{others}")
        saved, output = tmp_path / f"saved{len(others)}", tmp_path / f"out{len(others)}"
        options = ["--lateness", 99, "--checkpoint", saved, "--resume", "-o", output]
        done = command(*options, "--summary", policies, log)
        assert re.search(r"judged again +0 ", done.errors)
        with log.open("a") as more:
            more.write("@105 q(1)\n")
        done = command(*options, "--summary", policies, log)
        found = re.search(r"judged again +(\d+) ", done.errors)
        assert found is not None, done.errors
        assert 0 < int(found[1]) <= 124
