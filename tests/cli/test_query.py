"""The subcommand `mtlmon query`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from mtlmon import query
from tests.cli.process import mtlmon

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def doors(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text("ts,door\n1,a\n4,b\n30,a\n")
    path = tmp_path / "doors.mtl"
    path.write_text(
        "unit s\nrelation open = rows valid 10s group select count() as n\n"
        "relation doors = rows valid 10s select door as door\n"
        "relation others = rows of other valid 10s select door as door\n"
        "relation timed = rows of other time at\n"
    )
    return path


def test_formats(doors: Path, tmp_path: Path) -> None:
    log = str(tmp_path / "log.csv")
    done = mtlmon("query", str(doors), "open", log)
    assert (done.status, done.errors) == (0, "")
    assert done.output.splitlines()[1] == '{"start":4,"end":11,"n":2}'
    target = tmp_path / "open.csv"
    assert mtlmon("query", "--output-format", "csv", "-o", str(target), str(doors), "open", log)
    assert target.read_text() == "start,end,n\n1,4,1\n4,11,2\n11,14,1\n30,40,1\n"
    target = tmp_path / "open.parquet"
    done = mtlmon("query", "--output-format", "parquet", "-o", str(target), str(doors), "open", log)
    assert done.status == 0
    assert pq.read_table(target).column("n").to_pylist() == [1, 2, 1, 1]


def test_tables_with_names(doors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, patterns of them, and a path that looks like a name."""
    log = tmp_path / "log.csv"
    wanted = mtlmon("query", str(doors), "doors", str(log))
    assert wanted.errors == ""
    for table in (log, tmp_path / "l*.csv"):
        done = mtlmon("query", str(doors), "others", f"other={table}")
        assert (done.output, done.errors) == (wanted.output, "")
    folder = tmp_path / "day=1"
    folder.mkdir()
    log.rename(folder / "log.csv")
    monkeypatch.chdir(tmp_path)
    for path in ("day=1/log.csv", "day=1", "day=*/*.csv"):
        done = mtlmon("query", str(doors), "doors", path)
        assert (done.output, done.errors) == (wanted.output, "")


def test_tables_beside_a_pipe(doors: Path, tmp_path: Path) -> None:
    with doors.open("a") as file:
        file.write("relation both = doors join others on door = others_door select door as door\n")
    log = (tmp_path / "log.csv").read_text()
    named = f"other={tmp_path / 'log.csv'}"
    done = mtlmon("query", "--format", "csv", str(doors), "both", "-", named, log=log)
    assert (done.status, done.errors) == (0, "")
    assert done.output == mtlmon("query", str(doors), "doors", str(tmp_path / "log.csv")).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no policy file: name one (see mtlmon query --help)"),
        (["{rules}"], "no relation: name one after the policy file (see mtlmon query --help)"),
        (["{rules}", "opn", "{log}"], "there is no relation opn; did you mean 'open'?"),
        (
            ["{rules}", "open"],
            "relation open reads the rows of a log: name a table, or - for standard input",
        ),
        (["{rules}", "open", "log={log}"], "relation open reads the rows of a log: name a table"),
        (["{rules}", "open", "{log}", "x={log}"], "no relation reads a table called x: write rows"),
        (["{rules}", "others", "othr={log}"], "no relation reads a table called othr; did you"),
        (["{rules}", "others", "other=-"], "standard input can only be the log: name a file for"),
        (["{rules}", "others", "other=a", "other=b"], "two tables are called other"),
        (["{rules}", "others"], "{rules}:4:27: there is no table other"),
        (["{rules}", "others", "other=no.csv"], "{rules}:4:27: cannot read no.csv: No such"),
        (["{rules}", "timed", "other={log}"], "{rules}:5:26: {log} has no column at"),
        (["{rules}", "open", "-"], "relations read tables, but the log is read as text: add its"),
        (["{rules}", "open", "nothing.csv"], "cannot read nothing.csv: No such file"),
        (
            ["{rules}", "open", "/dev/null"],
            "/dev/null: the name does not tell the format: say it with --format, one of csv,",
        ),
        (["-o", "{log}", "{rules}", "open", "{log}"], "{log} is both the log and the file"),
        (["--max-memory", "9", "{rules}", "open", "{log}"], "the memory limit of 9 bytes is"),
        (["{none}", "open", "{log}"], "{none} declares no relations"),
    ],
)
def test_errors(doors: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "none.mtl").write_text("policy p: a\n")
    names = {name: str(tmp_path / name) for name in ("log.csv", "none.mtl")}
    names = {"rules": str(doors), "log": names["log.csv"], "none": names["none.mtl"]}
    done = mtlmon("query", *(one.format(**names) for one in arguments))
    assert done.status == 2
    assert done.errors.startswith(f"mtlmon: {message.format(**names)}")
    assert (tmp_path / "log.csv").read_text().startswith("ts,door\n")


_RULES = """
unit s
relation busy = rows valid 10
  group id select count() as n
relation limits = table "limits.csv" valid [from, to) key id
relation both = busy
  join limits on id = limits_id
  select id as id, n as n, most as most
"""


@pytest.fixture
def badges(tmp_path: Path) -> Path:
    """A log and a table, whose ids differ in how they are written, and rows over lines."""
    (tmp_path / "rules.mtl").write_text(_RULES)
    (tmp_path / "log.csv").write_text('ts,id,more\n1,7,a\n2,007,"b\nc"\n3,8,"x\n')
    (tmp_path / "limits.csv").write_text("from,to,id,most\n0,,7,\"5\n\"\n0,,09,6\n0,,9,'6'\n")
    return tmp_path


def test_what_there_is_to_say_of_rows(badges: Path) -> None:
    """Texts that differ in how they are written, rows over lines and rows that are left out."""
    rules, log = str(badges / "rules.mtl"), str(badges / "log.csv")
    done = mtlmon("query", "--on-error", "skip", rules, "busy", log)
    notes = done.errors.splitlines()
    assert "mtlmon: 1 row could not be read" in notes
    assert any("log.csv:5: cell 3 begins with a quote" in one for one in notes)
    assert "mtlmon: 1 row spanned several lines" in notes
    assert any("column id: '7' and '007' are different values" in one for one in notes)
    done = mtlmon("query", "--on-error", "skip", "--quote", "lines", rules, "busy", log)
    assert "mtlmon: 2 cells begin with a quote that was read as a character" in done.errors
    done = mtlmon("query", rules, "limits")
    notes = done.errors.splitlines()
    assert f"mtlmon: {badges / 'limits.csv'}: 1 row spanned several lines" in notes
    assert any("column id: '09' and '9' are different values" in one for one in notes)
    assert len(notes) == 2


def test_options_of_cells_hold_for_tables(badges: Path) -> None:
    rules = str(badges / "rules.mtl")
    table = badges / "limits.csv"
    table.write_text("from;to;id;most\n0;;'a;b';1,5\n0;-;c;2\n")
    options = ["--delimiter", ";", "--quote", "'", "--null-values=-"]
    done = mtlmon("query", *options, rules, "limits")
    assert done.errors == ""
    records = [json.loads(line) for line in done.output.splitlines()]
    assert [(one["id"], one["most"]) for one in records] == [("a;b", "1,5"), ("c", "2")]
    (badges / "policy.mtl").write_text(_RULES + "policy p: limits[id].most > 1.7\n")
    log = badges / "log.csv"
    log.write_text("ts;id\n1;'a;b'\n2;c\n")
    options = [*options, "--decimal", ","]
    done = mtlmon("--no-summary", *options, str(badges / "policy.mtl"), str(log))
    assert (done.output, done.errors) == ("p\t1:0 false\np\t2:0 true\n", "")


def test_declared_columns_of_tables(badges: Path) -> None:
    """`column id: int` holds for the log and for tables, and ends the remark."""
    rules, log = badges / "rules.mtl", badges / "log.csv"
    log.write_text("ts,id\n1,7\n2,007\n3,9\n")
    rules.write_text(f"column id: int{_RULES}")
    (badges / "limits.csv").write_text("from,to,id,most\n0,,007,5\n0,,9.0,6\n")
    done = mtlmon("query", str(rules), "both", str(log))
    assert "limits.csv:3: column 'id': '9.0' is not of type int64" in done.errors
    (badges / "limits.csv").write_text("from,to,id,most\n0,,007,5\n0,, 9,6\n")
    done = mtlmon("query", str(rules), "both", str(log))
    assert done.errors == ""
    records = [json.loads(line) for line in done.output.splitlines()]
    assert [(one["start"], one["id"], one["n"]) for one in records] == [
        (1, 7, 1),
        (2, 7, 2),
        (3, 9, 1),
        (11, 7, 1),
    ]


_EXPLAINED = """
unit s
relation limits = table "limits.csv" valid [from, to) key id
relation over = rows join limits on true where id = limits_id and n > most and n < 9 select id as id
policy p: id >= 0
"""
_PLANS = """\
relation over, declared:
  select id as id
    where id = limits_id and n > most and n < 9
      join on true
        rows
        table limits.csv
evaluated, by the rules where into join, on below join:
  coalesce
    select id as id
      join on id = limits_id and n > most
        where n < 9
          rows
        table limits.csv
"""


def test_plans_are_explained(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("id,from,to,most\n1,0,,3\n2,5,,1\n")
    (tmp_path / "log.csv").write_text("ts,id,n\n1,1,5\n4,2,7\n6,2,4\n7,2,10\n")
    rules, log = tmp_path / "rules.mtl", str(tmp_path / "log.csv")
    rules.write_text(_EXPLAINED)
    done = mtlmon("query", "--explain", str(rules), "over", log)
    assert done.errors == f"mtlmon: {_PLANS}"
    assert done.output == mtlmon("query", str(rules), "over", log).output
    assert done.output.splitlines() == [
        '{"start":1,"end":2,"id":"1"}',
        '{"start":6,"end":7,"id":"2"}',
    ]
    found = query(rules, "over", log, explain=True)
    assert found.messages == [_PLANS.rstrip("\n")]
    shown = mtlmon("check-policy", str(rules), log).output
    indented = _PLANS.removeprefix("relation ").replace("\n", "\n  ").rstrip(" ")
    assert f"Plans of relations (see mtlmon query --explain)\n  {indented}" in shown


@pytest.mark.parametrize(
    ("rules", "log", "wanted"),
    [
        # time-stamps, or none for ever; a record that ends before it begins is not there
        ("rows valid [ts, till)", "ts,till,k\n1,5,a\n2,,b\n3,3,c\n", [(1, 5, "a"), (2, None, "b")]),
        ("rows valid for ever", "ts,k\n4,a\n", [(4, None, "a")]),
        # in the unit of the column of times, rounded down
        ("rows valid [ts, till)", "ts,till,k\n1000,5999,a\n", [(1, 5, "a")]),
        # times of the calendar, if the column is declared
        (
            "rows valid [ts, till)\ncolumn till: time",
            "ts,till,k\n2024-01-01T00:00:00Z,2024-01-01T00:01:00Z,a\n",
            [(1704067200, 1704067260, "a")],
        ),
        ("rows valid until till\ncolumn till: int", "ts,till,k\n1,5,a\n", [(1, 5, "a")]),
        # a column of Booleans is a condition, as ever
        (
            "rows valid until till",
            "ts,till,k\n1,false,a\n7,true,b\n",
            [(1, 7, "a"), (7, None, "b")],
        ),
    ],
)
def test_records_have_ends_of_their_own(
    rules: str, log: str, wanted: list[Any], tmp_path: Path
) -> None:
    relation, _, more = rules.partition("\n")
    path = tmp_path / "rules.mtl"
    path.write_text(f"unit s\n{more}\nrelation r = {relation} select k as k\n")
    (tmp_path / "log.csv").write_text(log)
    unit = ["--time-unit", "ms"] if "1000" in log else []
    done = mtlmon("query", *unit, str(path), "r", str(tmp_path / "log.csv"))
    assert done.errors == ""
    found = [tuple(json.loads(line).values()) for line in done.output.splitlines()]
    assert found == wanted
    piped = mtlmon("query", *unit, "--lateness", "9", str(path), "r", "-", log=log)
    told = [tuple(json.loads(line).values())[:3] for line in piped.output.splitlines()]
    assert sorted(told) == sorted(wanted)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("valid [since, till)", "a row's record begins at its time, which is ts"),
        ("valid [ts, k)", "the end of a record is a time-stamp or a time, but k is a text"),
        ("valid [ts, none)", "there is no column"),
        ("valid for now", "expected ever"),
        ("valid [ts till)", "expected ','"),
    ],
)
def test_errors_in_ends(steps: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.mtl"
    path.write_text(f"unit s\ncolumn k: text\nrelation r = rows {steps} select k as k\n")
    (tmp_path / "log.csv").write_text("ts,till,k\n1,5,a\n")
    done = mtlmon("query", str(path), "r", str(tmp_path / "log.csv"))
    assert done.status == 2
    assert message in done.errors


@pytest.mark.parametrize(
    ("steps", "same"),
    [
        ("group k", "select k as k distinct"),
        ("group k, v > 3 as high", "select k as k, v > 3 as high distinct"),
        ("group v * 2 as w select count() as n", "select v * 2 as w group w select count() as n"),
        (
            "group v + 1 as w, k select sum(v) as total, count(v > 2) as n, max(k) as last",
            "select v + 1 as w, k as k, v as v group w, k select sum(v) as total, "
            "count(v > 2) as n, max(k) as last",
        ),
        ("group k select k as who", "select k as k distinct select k as who"),
        ("group none select count() as n", "group select count() as n"),
        ('where v > 0 group k where k = "a"', 'where v > 0 and k = "a" group k'),
    ],
)
def test_groups_by_values(steps: str, same: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.mtl"
    path.write_text(
        f"unit s\nrelation r = rows valid 5 {steps}\nrelation q = rows valid 5 {same}\n"
    )
    log = tmp_path / "log.csv"
    log.write_text("ts,k,v\n1,a,2\n2,a,5\n2,b,1\n4,a,2\n9,,3\n")
    found, wanted = (mtlmon("query", str(path), name, str(log)) for name in "rq")
    assert (found.status, found.errors) == (0, "")
    assert found.output == wanted.output != ""


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("group v + 1 select count() as n", "the value of a group has no name"),
        ("group k, k", "the column k is named twice"),
        ("group v as k, k select count() as n", "the column k is named twice"),
        ("group", "expected columns or select, found the end"),
    ],
)
def test_errors_in_groups(steps: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.mtl"
    path.write_text(f"unit s\nrelation r = rows valid 5 {steps}\n")
    (tmp_path / "log.csv").write_text("ts,k,v\n1,a,2\n")
    done = mtlmon("query", str(path), "r", str(tmp_path / "log.csv"))
    assert done.status == 2
    assert message in done.errors


@pytest.mark.parametrize("values", ["", "1,5,\n2,6,\n"])
def test_joins_of_columns_without_values(tmp_path: Path, values: str) -> None:
    """They have no type whose different values could be counted."""
    (tmp_path / "t.csv").write_text(f"from,to,v\n{values}")
    (tmp_path / "log.csv").write_text("ts,k\n1,a\n2,b\n")
    tables = [f'relation {one} = table "t.csv" valid [from, to)' for one in "abc"]
    joins = "join a on v = k join b on b_v = k join c on c_v = k"
    (tmp_path / "r.mtl").write_text("\n".join(["unit s", *tables, f"relation r = rows {joins}\n"]))
    done = mtlmon("query", str(tmp_path / "r.mtl"), "r", str(tmp_path / "log.csv"))
    assert (done.status, done.output, done.errors) == (0, "", "")
