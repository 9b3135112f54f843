"""Rows of the answers of policies with variables: --rows and --context, with others or alone."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from mtlmon import check as check_log
from tests.cli.process import mtlmon
from tests.cli.test_context import expected
from tests.cli.test_mixed_policies import MIXED, TABLE_ATOMS, WITH_VARIABLES
from tests.doors import TextWork, checking_text_logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.test_mixed_policies import Command

CLOSED = "policy closed: noise IMPLIES EVENTUALLY EXISTS x. q(x)"
ALONE = [*WITH_VARIABLES, CLOSED]
BOTH = [*MIXED, CLOSED]
Places = dict[int, list[tuple[str, int]]]


def text_log(folder: Path, seed: int) -> tuple[Path, Places]:
    """A log with lines that are no time-points, and the rows of its time-stamps."""
    source = random.Random(seed)
    log, lines, time_stamp = folder / "a log", [], 0
    places: Places = defaultdict(list)
    for number in range(1, 60):
        kind = source.choice(["row", "row", "row", "comment", "empty", "bad"])
        if kind != "row":
            lines.append({"comment": "# p(a)", "empty": "", "bad": "@1 p("}[kind])
            continue
        time_stamp += source.choice([0, 0, 1, 3])
        places[time_stamp].append((str(log), number))
        items = [name for name in ("ask", "reply", "noise") if source.random() < 0.3]
        items += [f"{name}({source.choice('ab')})" for name in "pq" if source.random() < 0.4]
        lines.append(f"@{time_stamp} {' '.join(items)}")
    log.write_text("\n".join(lines))
    return log, places


def tables(folder: Path, seed: int) -> tuple[list[Path], Places]:
    """Two tables, the second one later, and the rows of their time-stamps."""
    source = random.Random(seed)
    places: Places = defaultdict(list)
    logs, time_stamp = [folder / "a.csv", folder / "b.csv"], 0
    for log in logs:
        lines = ["ts,kind,x,ask,reply,noise"]
        for number in range(2, 31):
            time_stamp += source.choice([0, 0, 1, 3])
            places[time_stamp].append((str(log), number))
            marks = [source.choice(["true", "false", "false"]) for _ in range(3)]
            kind, x = source.choice("pqr"), source.choice("ab")
            lines.append(",".join([str(time_stamp), kind, x, *marks]))
        log.write_text("\n".join([*lines, ""]))
    return logs, places


def with_rows(output: str, places: Places, *, by_stamp: bool) -> Iterator[str]:
    """Lines of text, with the rows behind them."""
    others = ("answered", "quiet")
    for line in output.splitlines():
        name = line.partition("\t")[0]
        time_stamp, offset = map(int, re.findall(r"\t(\d+):(\d+) ", line)[0])
        of_stamp = by_stamp and name not in others
        file, row = places[time_stamp][0 if of_stamp else offset]
        yield f"{line}\t{file}:{row}"


@pytest.mark.parametrize("rules", [ALONE, BOTH], ids=["alone", "mixed"])
@pytest.mark.parametrize("form", ["text", "table", "stamps", "slices"])
@pytest.mark.parametrize("verdicts", ["all", "false", "first"])
def test_rows_are_behind_answers(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rules: list[str],
    form: str,
    verdicts: str,
) -> None:
    file = tmp_path / "rules.mtl"
    is_text = form in ("text", "slices")
    file.write_text("\n".join([*([] if is_text else TABLE_ATOMS), *rules, ""]))
    has_found = False
    for seed in range(2):
        logs, places = tables(tmp_path, seed)
        if is_text:
            log, places = text_log(tmp_path, seed)
            logs = [log]
        given = ["--verdicts", verdicts, "--resolve", "--on-error", "skip", "--end-time", "inf"]
        given += {"stamps": ["--time-points", "stamp"], "slices": ["--slices", "2"]}.get(form, [])
        plain = command(*given, file, *logs).output
        has_found |= bool(plain)
        wanted = list(with_rows(plain, places, by_stamp=form == "stamps"))
        assert command("--rows", *given, file, *logs).output.splitlines() == wanted
        found = command("--rows", "--output-format", "jsonl", *given, file, *logs).output
        rows = [json.loads(line) for line in found.splitlines()]
        ends = [line.rpartition("\t")[2] for line in wanted]
        assert [f"{row['file']}:{row['row']}" for row in rows] == ends
        with monkeypatch.context() as small:
            small.setattr(checking_text_logs, "_BLOCK_BYTES", 50)
            small.setattr(TextWork, "block_bytes", 50)
            again = command("--rows", *given, file, *logs).output
        assert again.splitlines() == wanted
    assert has_found


@pytest.mark.parametrize("rules", [ALONE, BOTH], ids=["alone", "mixed"])
@pytest.mark.parametrize("form", ["text", "table"])
def test_a_later_run_goes_on(tmp_path: Path, rules: list[str], form: str) -> None:
    file, out, kept = (tmp_path / name for name in ("rules.mtl", "out", "kept"))
    file.write_text("\n".join([*([] if form == "text" else TABLE_ATOMS), *rules, ""]))
    log = text_log(tmp_path, 7)[0] if form == "text" else tables(tmp_path, 7)[0][0]
    lines = log.read_text().splitlines()
    given = ["--rows", "--on-error", "skip", "--verdicts", "all", "--explain", str(file), str(log)]
    emitted = ""
    for count in (20, len(lines)):
        log.write_text("\n".join([*lines[:count], ""]))
        done = mtlmon("--checkpoint", str(kept), "--resume", "-o", str(out), *given)
        assert done.status in (0, 1), done.errors
        emitted = done.errors
    whole = mtlmon(*given)
    assert out.read_text() == whole.output
    places = re.findall(r"^at (.*)$", whole.errors, flags=re.MULTILINE)
    assert places
    assert re.findall(r"^at (.*)$", emitted, flags=re.MULTILINE) == places
    without = [one for one in given if one != "--rows"]
    done = mtlmon("--checkpoint", str(kept), "--resume", "-o", str(out), *without)
    assert done.status == 2


@pytest.mark.parametrize("rules", [ALONE, BOTH], ids=["alone", "mixed"])
@pytest.mark.parametrize("form", ["text", "table", "stamps"])
def test_rows_around_violations(
    command: Command, tmp_path: Path, rules: list[str], form: str
) -> None:
    file = tmp_path / "rules.mtl"
    file.write_text("\n".join([*([] if form == "text" else TABLE_ATOMS), *rules, ""]))
    logs = [text_log(tmp_path, 3)[0]] if form == "text" else tables(tmp_path, 3)[0]
    given = ["--on-error", "skip", "--verdicts", "false", "--resolve", "--end-time", "inf"]
    given += ["--time-points", "stamp"] if form == "stamps" else []
    lines = command("--rows", *given, file, *logs).output.splitlines()
    wanted: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        if " match" not in line:
            name, _, row = line.rpartition("\t")[2].rpartition(":")
            wanted[name].add(int(row))
    text = ""
    for log in logs:
        rows = log.read_text().splitlines()
        text += "--\n" if text and wanted[str(log)] else ""
        text += expected(str(log), rows, 1, wanted[str(log)], 1, 0)
    done = command("-B", "1", "--explain-limit", "999", *given, file, *logs)
    assert text in done.errors
    few = command("-B", "1", "--explain-limit", "1", *given[:4], file, *logs)
    assert "the rows above are those of 1 violation; there are more" in few.errors


def test_columns_of_the_same_names(command: Command, tmp_path: Path) -> None:
    file, log = tmp_path / "rules.mtl", tmp_path / "log"
    file.write_text("policy a: p(file) IMPLIES q(file)\n")
    log.write_text("@1 p(u)\n")
    done = command("--rows", "--output-format", "csv", file, log)
    assert done.output.splitlines() == [
        "policy,time,offset,verdict,reference,var_file,file,row",
        f'"a",1,0,false,,"u","{log}",1',
    ]


@pytest.mark.parametrize("rules", [ALONE, BOTH], ids=["alone", "mixed"])
@pytest.mark.parametrize("verdicts", ["false", "first"])
def test_data_frames_have_indices(tmp_path: Path, rules: list[str], verdicts: str) -> None:
    logs, places = tables(tmp_path, 5)
    text = "\n".join([*TABLE_ATOMS, *rules, ""])
    from pyarrow import csv

    frame = csv.read_csv(logs[0])
    single = pa.RecordBatchReader.from_batches(frame.schema, frame.to_batches(max_chunksize=1))
    by_name = check_log(text, str(logs[0]), rows=True, verdicts=verdicts)  # type: ignore[arg-type]
    named = by_name.to_arrow().to_pylist()
    assert named
    for row in named:
        assert (row["file"], row["row"]) == places[row["time"]][row["offset"]]
    for one in frame, single:
        check = check_log(text, one, rows=True, verdicts=verdicts)  # type: ignore[arg-type]
        found = check.to_arrow().to_pylist()
        assert [{**row, "file": None, "row": row["row"] - 2} for row in named] == found
