"""Tables checked against policies with variables and without, against the command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from mtlmon import check as check_log
from mtlmon.errors import MtlmonError
from tests.cli.process import mtlmon
from tests.cli.test_mixed_policies import MIXED, TABLE_ATOMS, table_lines

if TYPE_CHECKING:
    from pathlib import Path

KEYED = [
    *TABLE_ATOMS,
    "key kind",
    *MIXED,
    "policy few: count[0,4]() < 3",
    "policy own per x: NOT ask",
    'trigger told per x: kind = "p" message "{kind} of {x} at {ts}"',
]


def rows_of(command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in command.splitlines()]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([], {}),
        (["--verdicts", "all"], {"verdicts": "all"}),
        (["--verdicts", "false", "--resolve"], {"verdicts": "false", "resolve": True}),
        (["--end-time", "inf", "--advance-every", "3"], {"end_time": "inf", "advance_every": 3}),
        (["--key", "x"], {"key": "x"}),
        (["--time-points", "stamp"], {"time_points": "stamp"}),
    ],
)
def test_rows_are_those_of_the_command(
    tmp_path: Path, given: list[str], named: dict[str, Any]
) -> None:
    lines = table_lines(21, 60)
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    text = "\n".join([*KEYED, ""])
    rules.write_text(text)
    log.write_text("\n".join([*lines, ""]))
    done = mtlmon("--output-format", "jsonl", *given, str(rules), str(log))
    wanted = rows_of(done.output)
    assert {row["policy"] for row in wanted} >= {"known", "own", "told", "few"}
    with check_log(text, str(log), **named) as check:
        found = check.to_arrow()
    assert found.column_names == list(wanted[0])
    assert found.to_pylist() == wanted
    names = ["answered", "known", "soon", "noisy", "quiet", "few", "own", "told"]
    assert list(check.counts) == names
    violating = {row["time"] for row in wanted if row["policy"] == "known" and not row["verdict"]}
    assert check.counts["known"].false >= len(violating) > 0
    stamps = {line.partition(",")[0] for line in lines[1:]}
    points = len(stamps) if "time_points" in named else 60
    assert (check.counts["known"].events, check.counts["quiet"].events) == (points, 60)


@pytest.mark.parametrize("points", ["row", "stamp"])
def test_batches_change_nothing(tmp_path: Path, points: Literal["row", "stamp"]) -> None:
    text = "\n".join([*KEYED, ""])
    log = tmp_path / "log.csv"
    log.write_text("\n".join([*table_lines(22, 40), ""]))
    whole = check_log(text, str(log), time_points=points).to_arrow()
    from pyarrow import csv

    table = csv.read_csv(log)
    for size in 1, 7:
        pieces = table.to_batches(max_chunksize=size)
        reader = pa.RecordBatchReader.from_batches(table.schema, pieces)
        check = check_log(text, reader, time_points=points)
        assert check.to_arrow().to_pylist() == whole.to_pylist()


def test_what_comes_before_an_error_is_known(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,kind,x,ask,reply,noise\n1,p,a,true,true,true\n0,p,b,true,true,true\n")
    check = check_log("\n".join([*TABLE_ATOMS, *MIXED, ""]), str(log), verdicts="false")
    found: list[str] = []
    with pytest.raises(MtlmonError, match="time"):
        for batch in check.batches():
            found += batch.column("policy").to_pylist()
    assert found == ["quiet", "known", "noisy"]


def test_no_verdicts_are_wanted() -> None:
    rows = pa.table({"ts": [1], "kind": ["p"], "x": ["a"], "noise": [True]})
    text = "\n".join([*TABLE_ATOMS, MIXED[1], "policy quiet: NOT noise\n"])
    check = check_log(text, rows, verdicts="none")
    assert check.to_arrow().num_rows == 0
    assert (check.counts["known"].false, check.counts["quiet"].false) == (1, 1)
    empty = check_log(text, rows.slice(0, 0))
    assert {"policy", "time", "x"} <= {*empty.to_arrow().column_names}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"time_points": "day"}, "time_points='day': it is one of 'row', 'stamp'"),
        ({"mode": "global"}, "mode='global' is for policies without variables"),
    ],
)
def test_what_does_not_work_yet(named: dict[str, Any], message: str) -> None:
    rows = pa.table({"ts": [1], "kind": ["p"], "x": ["a"], "noise": [True]})
    with pytest.raises(MtlmonError, match=message):
        check_log("\n".join([*TABLE_ATOMS, *MIXED, ""]), rows, **named)
