"""`mtlmon.query` beside `mtlmon query`, and what its records can do."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import mtlmon
from tests.cli.process import mtlmon as command
from tests.doors import in_python
from tests.run.both import keywords_of

RULES = """unit s
relation open = rows valid 10s group select count() as n
relation doors = rows valid 10s select door as door, at as at
relation limits = table "limits.csv" valid [from, to) key door
const FEW = 2
relation few = rows valid 10s group select count() as n where n < FEW
"""
LOG = "ts,door,at\n1,a,1\n4,b,2\n30,a,x\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "late.csv").write_text("when;door;at\n9;a;1,5\n4;b;\n")
    (tmp_path / "limits.csv").write_text("door,from,to,max\na,0,5,2\nb,3,,1\n")
    path = tmp_path / "rules.mtl"
    path.write_text(RULES)
    return path


@pytest.mark.parametrize(
    "asked",
    [
        "open log.csv",
        "doors log.csv",
        "limits",
        "few log.csv --set FEW=3",
        "doors late.csv --sort --time when --delimiter ; --null-values x",
        "doors log.csv --time-unit ms --resolution s",
        "doors log.csv --on-error skip",
        "open log.csv log.csv --sort",
        "opn log.csv",
        "open",
        "open nothing.csv",
        "open log.csv --max-memory 9",
        "open log.csv --csv-safe",
        "limits --time-format x",
        "few log.csv --set FEWW=3",
    ],
)
def test_both_ways_say_the_same(rules: Path, asked: str) -> None:
    files, keywords = keywords_of(asked.split())
    relation, *logs = files
    paths = [str(rules.with_name(one)) for one in logs]
    rest = asked.split()[len(files) :]
    done = command("query", *rest, str(rules), relation, *paths)
    emitted: list[str] = []
    records: list[dict[str, Any]] = []
    try:
        found = mtlmon.query(rules, relation, paths, **keywords)
        records, emitted = found.to_pylist(), found.messages
    except mtlmon.MtlmonError as error:
        emitted = [str(error)]
        assert done.status == 2
    written = [json.loads(line) for line in done.output.splitlines()]
    assert records == written
    wanted = in_python(done.errors.removeprefix("mtlmon: ").strip())
    if "--csv-safe" in asked:
        # a program has the records, where the command has JSON lines
        assert emitted == ["csv_safe is for answers in a file: add output=PATH"]
        assert wanted.startswith("csv_safe is for CSV: add output_format='csv'")
    elif not paths and emitted:
        # a program has no standard input
        assert emitted == [wanted.replace("name a table, or - for standard input", "give a table")]
    elif "--max-memory" in asked:
        assert "".join(emitted).replace("max_memory=", "max_memory") == wanted
    else:
        assert "\n".join(emitted) == wanted


def test_records_are_a_table(rules: Path) -> None:
    found = mtlmon.query(rules, "open", rules.with_name("log.csv"))
    schema = pa.schema(
        [pa.field("start", pa.int64(), nullable=False), ("end", pa.int64()), ("n", pa.int64())]
    )
    columns = {"start": [1, 4, 11, 30], "end": [4, 11, 14, 40], "n": [1, 2, 1, 1]}
    wanted = pa.table(columns, schema)
    assert found == wanted
    assert found == mtlmon.query(rules, "open", rules.with_name("log.csv"))
    assert found != wanted.slice(1)
    assert pa.table(found) == found.to_arrow() == wanted
    assert found.schema.names == found.column_names == ["start", "end", "n"]
    assert found.num_rows == len(found) == 4
    assert found.column("n").to_pylist() == found["n"].to_pylist() == [1, 2, 1, 1]
    assert found.to_pylist()[1] == {"start": 4, "end": 11, "n": 2}
    assert found.to_pydict()["end"] == [4, 11, 14, 40]
    assert found.sort_by("n").slice(3).to_pylist() == [{"start": 4, "end": 11, "n": 2}]
    assert sum(batch.num_rows for batch in found.batches()) == 4
    # again and again
    for _ in range(2):
        assert [one["n"] for one in found] == [1, 2, 1, 1]
    assert (next(found)["start"], next(found)["start"]) == (1, 4)
    assert (found.status, found.has_violation, found.messages) == (0, False, [])
    assert repr(found).startswith("<Records>\npyarrow.Table\nstart: int64")
    with pytest.raises(AttributeError):
        found.sort_bye("n")
    with pytest.raises(mtlmon.CopyError):
        pickle.dumps(found)


def test_others_take_records_as_a_table(rules: Path) -> None:
    found = mtlmon.query(rules, "open", rules.with_name("log.csv"))
    assert polars.DataFrame(found)["n"].to_list() == [1, 2, 1, 1]
    assert found.to_polars()["n"].to_list() == found.to_pandas()["n"].to_list() == [1, 2, 1, 1]
    sums = duckdb.sql("select sum(n) from found")
    assert sums is not None and sums.fetchall() == [(5,)]
    # a relation of no records has columns
    none = mtlmon.query(
        "relation r = rows where x > 5 select x as y", "r", pa.table({"ts": [1], "x": [2]})
    )
    assert (len(none), none.schema.names) == (0, ["start", "end", "y"])
    assert list(none) == []


def test_answers_of_a_check_are_a_stream_of_arrow() -> None:
    table = pa.table({"ts": [1, 2], "p": [True, False]})
    found = pa.table(mtlmon.check("p", table))
    assert found.column("verdict").to_pylist() == [True, False]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_records_in_a_file(rules: Path, tmp_path: Path, form: Any) -> None:
    target, other = tmp_path / "found", tmp_path / "other"
    found = mtlmon.query(
        rules, "open", rules.with_name("log.csv"), output=target, output_format=form
    )
    done = command(
        "query", "--output-format", form, "-o", str(other), str(rules), "open",
        str(rules.with_name("log.csv")),
    )  # fmt: skip
    assert (done.status, found.status) == (0, 0)
    assert target.read_bytes() == other.read_bytes()
    with pytest.raises(mtlmon.RunError, match="the answers are written to"):
        found.to_pylist()
    assert repr(found) == "<Records, status 0>"
    with pytest.raises(
        mtlmon.RunError, match=r"both the log and the file|both the .* and the file"
    ):
        mtlmon.query(rules, "open", rules.with_name("log.csv"), output=rules.with_name("log.csv"))


def test_the_log_is_known_up_to_a_time() -> None:
    text = "relation r = rows valid for ever select k as k\nrelation pieces = r split 3\n"
    text += "relation t = rows of other valid 5 select k as k\n"
    rows = pa.table({"ts": [1, 5], "k": ["a", "b"]})

    def found(name: str, **options: Any) -> list[tuple[Any, ...]]:
        given = {"rows": rows, "other": rows}
        return [tuple(one.values()) for one in mtlmon.query(text, name, given, **options)]

    assert found("r", end_time="last") == found("r", end_time=3) == [(1, 6, "a"), (5, 6, "b")]
    assert found("r", end_time="inf") == found("r") == [(1, None, "a"), (5, None, "b")]
    assert found("r", end_time=2**63 - 1) == found("r")
    # a record without end has no last piece
    for options in ({}, {"lateness": 2}, {"wait": 2}):
        with pytest.raises(mtlmon.MtlmonError, match=r"pieces: a record without end .*end_time="):
            found("pieces", **options)
        pieces = [(1, 4, "a"), (4, 7, "a"), (5, 8, "b"), (7, 8, "a")]
        said = sorted(one[:3] for one in found("pieces", **options, end_time=7))
        assert said == pieces
    # what reads no log has no last row
    assert found("t", end_time=4) == [(1, 5, "a")]
    with pytest.raises(mtlmon.RunError, match="t reads no log, which would have a last row"):
        found("t", end_time="last")


def test_what_is_no_policy(rules: Path) -> None:
    query: Any = mtlmon.query
    with pytest.raises(TypeError, match="the policies are a text, a PolicyFile"):
        query(3, "open")
    with pytest.raises(TypeError, match="query takes the name of a relation after the policy file"):
        query(rules, rules.with_name("log.csv"))
    with pytest.raises(mtlmon.MtlmonError, match="looks like a path"):
        query("rules.mtl", "open")
    with pytest.raises(mtlmon.RunError, match="cannot read"):
        query(rules.with_name("none.mtl"), "open")
