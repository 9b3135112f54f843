"""The subcommand check-policy, seen from outside, and policy files for text logs."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.cli.process import mtlmon

FILE = """\
unit s
atom fast = speed > 120 and plate != "TEST"
let warned = ONCE[0,5m] warning
policy limit: fast IMPLIES warned
policy answer: request IMPLIES EVENTUALLY[0,5s] answer
atom spare = true
"""
ROWS = "ts,speed,plate,warning\n1,99.5,AB,true\n2,130.5,TEST,false\n"


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.mtl"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def _tables(folder: Path) -> list[Path]:
    """The same table in all formats."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    from pyarrow import csv, feather, parquet

    (folder / "log.csv").write_text(ROWS)
    (folder / "log.tsv").write_text(ROWS.replace(",", "\t"))
    (folder / "log.CSV.gz").write_bytes(gzip.compress(ROWS.encode()))
    table = csv.read_csv(folder / "log.csv")
    parquet.write_table(table, folder / "log.parquet")
    feather.write_feather(table, folder / "log.feather")
    packed = gzip.compress((folder / "log.feather").read_bytes())
    (folder / "log.arrow.gz").write_bytes(packed)
    with pa.ipc.new_stream(folder / "log.arrows", table.schema) as stream:
        stream.write_table(table)
    line = '{"ts": 1, "speed": 99.5, "plate": "AB", "warning": true}\n'
    # longer than the part whose types are looked at
    (folder / "log.jsonl").write_text(line * 30_000)
    return sorted(path for path in folder.iterdir() if path.stem.startswith("log"))


def test_a_file_is_explained(rules: str) -> None:
    done = mtlmon("check-policy", rules)
    assert (done.status, done.errors) == (0, "")
    assert done.output.startswith("Policy limit\n============\n\nFormula, with all parentheses\n")
    assert "\n  fast IMPLIES (ONCE[0,300] warning)\n" in done.output
    assert "at some time-point up to 300 s (5 m) back" in done.output
    assert "\n\nPolicy answer\n=============\n" in done.output
    assert done.output.endswith(
        "\n\nAtoms defined by predicates\n"
        '  fast = speed > 120 and plate != "TEST"\n'
        "    columns: speed, plate\n"
        "  spare = true  (in no policy)\n"
        "    no columns\n"
    )


def test_a_formula_is_explained_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "f.mtl"
    path.write_text("p UNTIL[0,5] q")
    done = mtlmon("check-policy", str(path))
    assert done == mtlmon("--explain-formula", str(path))
    assert mtlmon("check-policy", "-", log="p UNTIL[0,5] q") == done


def test_types_are_those_of_the_log(rules: str, tmp_path: Path) -> None:
    tables = _tables(tmp_path)
    assert len(tables) == 8
    for table in tables:
        done = mtlmon("check-policy", rules, str(table))
        assert done.status == 0, done.errors
        assert "\n    columns: speed (double), plate (string)\n" in done.output
        assert done.errors.splitlines() == [
            f"mtlmon: atom {name} is neither defined in the file nor a column of true and false: "
            "it has to be the name of an event"
            for name in ("request", "answer")
        ]


def test_all_errors_are_shown(tmp_path: Path) -> None:
    _tables(tmp_path)
    path = tmp_path / "rules.mtl"
    path.write_text(
        "atom a = sped > 1 and plate > 5\natom b = speed + \natom c = plate in (1)\n"
        "policy x: p q\npolicy y: worning\n"
    )
    done = mtlmon("check-policy", str(path), str(tmp_path / "log.csv"))
    assert (done.status, done.output) == (2, "")
    heads = [line.partition("rules.mtl:")[2] for line in done.errors.splitlines()]
    assert [head for head in heads if head] == [
        "1:10: atom a: there is no column sped",
        "1:23: atom a: '>' compares column plate of type string with the number 5",
        "2:17: expected a value, found the end",
        "3:10: atom c: 'in' compares column plate of type string with the number 1",
        "4:13: expected an operator or the end, found 'q'",
    ]
    assert done.errors.count("hint: did you mean speed?") == 1
    path.write_text("policy y: worning\n")
    done = mtlmon("check-policy", str(path), str(tmp_path / "log.csv"))
    assert done.status == 0
    assert done.errors.endswith("the name of an event; did you mean warning?\n")


def test_streams_with_instances_have_their_clauses(tmp_path: Path) -> None:
    path = tmp_path / "f.mtl"
    path.write_text(
        "stream s = s.last(or: 0) + 1 per k as id from a > 1 until b = id\npolicy x: s[5] > 3"
    )
    done = mtlmon("check-policy", str(path))
    clauses = "  s = s.last(or: 0) + 1\n    an integer, per k as id, from a > 1, until b = id\n"
    assert clauses in done.output


def test_what_cannot_be_read(rules: str, tmp_path: Path) -> None:
    help_text = " (see mtlmon check-policy --help)\n"
    assert mtlmon("check-policy") == (2, "", f"mtlmon: no policy file: name one{help_text}")
    done = mtlmon("check-policy", rules, "a", "b")
    assert done == (2, "", f"mtlmon: several logs (a, b): name one at a time{help_text}")
    done = mtlmon("check-policy", rules, "-")
    assert done == (2, "", f"mtlmon: the log must be a file, not standard input{help_text}")
    assert mtlmon("check-policy", str(tmp_path / "none")).status == 2
    done = mtlmon("check-policy", rules, str(tmp_path / "none.csv"))
    assert done.errors == f"mtlmon: cannot read {tmp_path}/none.csv: No such file or directory\n"
    for name in ("x.txt", "x.parquet", "x.arrow", "x.csv", "x.jsonl", "x.csv.gz"):
        (tmp_path / name).write_bytes(b"" if name == "x.csv" else b"\xff\xfe{")
        done = mtlmon("check-policy", rules, str(tmp_path / name))
        assert (done.status, done.output) == (2, "")
        assert done.errors.startswith("mtlmon: ")
        assert f"{tmp_path}/{name}" in done.errors
        assert done.errors.count("\n") == 1
    assert mtlmon("check-policy", "--help").output.startswith(
        "usage: mtlmon check-policy [options]"
    )


def test_the_subcommand_is_only_the_first_word(tmp_path: Path) -> None:
    path = tmp_path / "check-policy"
    path.write_text("p")
    assert mtlmon(str(path), log="@1 p\n") == (0, "1:0 true\n", "")


def test_a_text_log_takes_units_and_lets(tmp_path: Path) -> None:
    path = tmp_path / "f.mtl"
    path.write_text("unit s\na IMPLIES soon\nlet b = c")
    assert mtlmon(str(path), log="@1 soon\n").output == "1:0 true\n"
    path.write_text("a IMPLIES EVENTUALLY[0,1m] b\nunit s")
    assert mtlmon(str(path), log="@1 a\n@61 b\n") == (0, "1:0 true\n61:0 true\n", "")
    assert "60 s (1 m) ahead" in mtlmon("--explain-formula", str(path)).output
    done = mtlmon("--unit", "ms", str(path), log="@1 a\n")
    assert (done.status, done.output) == (2, "")
    assert "f.mtl:2:6: the file declares the unit s, but ms was asked for" in done.errors


def test_a_text_log_has_no_columns(rules: str, tmp_path: Path) -> None:
    done = mtlmon(rules, log="@1 a\n")
    message = (
        "uses columns of a table, but the log is read as text: add its format, for "
        "instance --format csv"
    )
    assert done == (2, "", f"mtlmon: {rules} {message}\n")
    path = tmp_path / "f.mtl"
    path.write_text("policy x: p")
    assert mtlmon(str(path), log="@1 p\n") == (0, "x\t1:0 true\n", "")


def test_atoms_are_names_where_the_file_says_which_column_has_them(tmp_path: Path) -> None:
    path, log = tmp_path / "f.mtl", tmp_path / "log.csv"
    log.write_text("ts,what\n1,p\n")
    path.write_text("policy x: p")
    assert "it has to be the name of an event" in mtlmon("check-policy", str(path), str(log)).errors
    path.write_text('event "what"\npolicy x: p')
    assert mtlmon("check-policy", str(path), str(log)).errors == ""


def test_types_of_odd_tables(rules: str, tmp_path: Path) -> None:
    """What the monitor passes over or reads must not keep types from being found; libraries that
    look for types themselves end the process at null, and at deep arrays.
    """
    good = b'{"speed": 1.5, "plate": "x"}'
    deep = b'{"speed": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    lines = [b"null", b'null{"speed": 1}', deep, b"[1]", b"", good, b'{"speed": 2, "pla']
    for table, content in {
        "odd.jsonl": b"\n".join(lines),
        "mark.jsonl": b"\xef\xbb\xbf" + good,
        "odd.csv": b"speed,plate\n1.5,x\n7\n\xff\n8,x,\xfe\n",
        "odd.tsv": b'\xef\xbb\xbfspeed\tplate\n1.5\t"a\nb"\n',
    }.items():
        (tmp_path / table).write_bytes(content)
        done = mtlmon("check-policy", rules, str(tmp_path / table))
        assert done.status == 0, done.errors
        assert "\n    columns: speed (double), plate (string)\n" in done.output
    (tmp_path / "null.jsonl").write_bytes(b"null\n" + deep)
    done = mtlmon("check-policy", rules, str(tmp_path / "null.jsonl"))
    assert (done.status, done.output) == (2, "")
    assert "null.jsonl: cannot be read as jsonl: no line in its beginning" in done.errors


def test_columns_within_objects(tmp_path: Path) -> None:
    """`a.b` is a column for the monitor, and so for the check."""
    (tmp_path / "log.jsonl").write_text('{"ts": 1, "car": {"speed": 7}}\n')
    (tmp_path / "rules.mtl").write_text("atom fast = `car.speed` > 5\npolicy p: fast\n")
    done = mtlmon("check-policy", str(tmp_path / "rules.mtl"), str(tmp_path / "log.jsonl"))
    assert "columns: `car.speed` (int64)" in done.output, done.errors
    assert (
        mtlmon(str(tmp_path / "rules.mtl"), str(tmp_path / "log.jsonl")).output == "p\t1:0 true\n"
    )


def test_streams_conditions_and_clauses_are_shown(tmp_path: Path) -> None:
    policies = tmp_path / "rules.mtl"
    policies.write_text(
        "unit s\nstream fails = count[0,2m](status = 401)\nstream before = x.last()\n"
        'policy few "not too often" per ip at most 2%: fails < 3 and status < 500\n'
        "policy all per none: before is null\n"
    )
    table = tmp_path / "log.csv"
    table.write_text("ts,ip,status,x\n1,a,200,2.5\n")
    ended = mtlmon("check-policy", str(policies), str(table))
    assert (ended.status, ended.errors) == (0, "")
    assert "not too often\nkey: ip\nat most 2% violations\n" in ended.output
    assert "key: none\n" in ended.output
    shown = ended.output.split("Conditions in formulas\n")[1]
    conditions, streams, memory = re.split("\n\n(?:Streams|Memory, .*)\n", shown)
    assert conditions.splitlines() == [
        "  fails < 3",
        "    no columns",
        "  status < 500",
        "    columns: status (int64)",
        "  before is null",
        "    no columns",
    ]
    assert streams.splitlines() == [
        "  fails = count[0,120](status = 401)",
        "    an integer",
        "  before = x.last()",
        "    a text",
    ]
    # as mtlmon analyze says it, at each policy what it remembers and how much
    of_window = (
        re.escape("    count[0,120](status = 401)") + " +rows of the last 2m +no limit a key.*"
    )
    assert any(re.fullmatch(of_window, line) for line in memory.splitlines())
    assert "  policy few: rows of each ip" in memory.splitlines()
    assert "  policy all: rows of the log" in memory.splitlines()
    ended = mtlmon("check-policy", str(policies))
    assert "  before = x.last()\n    its type depends on the columns\n" in ended.output


def test_types_of_streams_are_checked_with_the_table(tmp_path: Path) -> None:
    policies = tmp_path / "rules.mtl"
    policies.write_text("stream s = avg[0,5](path)\npolicy p: s > 3 and count[0,5](path) > 2\n")
    table = tmp_path / "log.csv"
    table.write_text("ts,path\n1,a\n")
    ended = mtlmon("check-policy", str(policies), str(table))
    assert ended.status == 2
    assert "rules.mtl:1:21: stream s: avg takes numbers, not column path of type string" in (
        ended.errors
    )


FIRST_ORDER = """\
unit s
atom publish(user, file) = what = "publish"
atom approve(manager: text, file: text)
policy approved "four eyes": FORALL u, f. publish(u, f) IMPLIES ONCE[0,7d] EXISTS m. approve(m, f)
find often: COUNT(ONCE[0,1d] publish(u, f) BY u) > 3
policy plain: login IMPLIES ONCE token
"""


def test_policies_with_variables_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "rules.mtl"
    path.write_text(FIRST_ORDER, encoding="utf-8")
    result = mtlmon("check-policy", str(path))
    assert result.status == 0
    assert result.output.startswith(
        "Policy approved\n===============\n\nfour eyes\n\nFormula, with all parentheses\n"
    )
    assert "every u (of the type of its column), f (a text) that violates it" in result.output
    assert "1. u and f from the rows of publish(u, f)" in result.output
    kept = "2. keep what fulfils NOT ONCE[0,604800] EXISTS m. approve(m, f), looked up by f\n"
    assert kept in result.output
    assert "Cost\n  1 look-up for each row of publish(u, f)\n" in result.output
    assert "rows of f, up to 604800 s (7 d) back" in result.output
    assert "Find often\n==========" in result.output
    assert "COUNT counts equal rows of a window once: add point(i)" in result.output
    assert "Policy plain\n" in result.output
    assert "approve(manager (a text), file (a text))" in result.output
    assert 'the rows where what = "publish"' in result.output
    explained = mtlmon("--explain-formula", str(path))
    assert explained.output == result.output


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("p(x)", "Cost\n  no look-ups for each row of p(x)\n"),
        ("p(x) AND q(y)", "Cost\n  no look-ups for each row of p(x) joined with q(y)\n"),
        ("p(x) AND ONCE q(y)", "each time-point lists all rows of ONCE q(y), as no event gives y"),
        ("ONCE p(x)", "each time-point lists all rows of ONCE p(x), as no event gives x a value"),
        ("p(x) AND ONCE r(x, y)", "2. y looked up in ONCE r(x, y) by x\n"),
        ("p(x) AND COUNT(ONCE r(x, y) BY x) > 3", "> 3, looked up by x\n"),
        ("COUNT(ONCE r(x, y) BY x) > 3", "each time-point lists all groups of COUNT(ONCE r(x, y)"),
    ],
)
def test_costs_of_policies_with_variables(formula: str, words: str) -> None:
    result = mtlmon("--explain-formula", "-e", f"find f: {formula}")
    assert words in result.output
    assert ("Remarks" in result.output) is ("lists" in words or "COUNT" in formula)


def test_policies_with_variables_are_checked_with_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    path, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    text = 'atom p(x) = y > 1\npolicy q: p(u) IMPLIES startswith(u, "a")\n'
    path.write_text(f"column x: int\n{text}")
    log.write_text("ts,x,y\n1,2,3\n")
    result = mtlmon("check-policy", str(path), str(log))
    assert result.status == 2
    assert "startswith takes a text" in result.errors
    # cells are texts where nothing asks for more
    path.write_text(text)
    result = mtlmon("check-policy", str(path), str(log))
    assert result.status == 0
    assert "every u (a text) that violates it" in result.output


def test_variables_that_nothing_binds(tmp_path: Path) -> None:
    path = tmp_path / "leak.mtl"
    path.write_text("policy leak: publish(u, f) IMPLIES EXISTS g. NOT approve(g, f)\n")
    for arguments in (["check-policy", str(path)], ["--explain-formula", str(path)]):
        result = mtlmon(*arguments)
        assert result.status == 2
        assert "nothing says which values 'g' may take in 'NOT approve(g, f)'" in result.errors


def test_parentheses_that_say_how_an_older_version_read_a_file(tmp_path: Path) -> None:
    old = tmp_path / "old.mtl"
    old.write_text(
        "unit s  # ONCE a AND b\n"
        "let far = ONCE[0,5s] a AND ONCE b\n"
        "policy p: c OR d SINCE x > 3 AND far\n"
        "policy v: FORALL u. pay(u) IMPLIES ONCE approve(u) AND NOT ONCE back(u) SINCE new(u)\n"
        "policy fine: a IMPLIES b UNTIL c\n"
    )
    refused = mtlmon("check-policy", str(old))
    assert refused.status == 2
    assert "there are two readings" in refused.errors
    done = mtlmon("check-policy", "--parentheses", str(old))
    assert (done.status, done.errors) == (0, "")
    assert done.output == (
        "unit s  # ONCE a AND b\n"
        "let far = ONCE[0,5s] (a AND ONCE b)\n"
        "policy p: (c OR d) SINCE (x > 3 AND far)\n"
        "policy v: FORALL u. pay(u) IMPLIES "
        "ONCE (approve(u) AND NOT ONCE (back(u) SINCE new(u)))\n"
        "policy fine: a IMPLIES b UNTIL c\n"
    )
    new = tmp_path / "new.mtl"
    new.write_text(done.output)
    assert mtlmon("check-policy", "--parentheses", str(new)).output == done.output
    two = mtlmon("check-policy", "--parentheses", str(new), "log.csv")
    assert (two.status, two.output) == (2, "")


def test_atoms_in_streams_are_in_policies(tmp_path: Path) -> None:
    policies = tmp_path / "rules.mtl"
    policies.write_text(
        "unit s\natom bad = x > 5\natom spare = x > 6\nstream n = count[0,9](bad)\n"
        "stream m = count[0,9](spare)\npolicy p on every 1m severity low: n.hold() < 3\n"
    )
    output = mtlmon("check-policy", str(policies)).output
    assert "  bad = x > 5\n" in output
    assert "  spare = x > 6  (in no policy)\n" in output
    assert "\non every 1m\nseverity low\n" in output


def test_atoms_with_arguments_that_no_policy_uses(tmp_path: Path) -> None:
    """Runs read no columns for them; check-policy checks them."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    text = 'atom ask(u) = k = "a"\natom other(u, n) = v > 1\npolicy p: FORALL u. NOT ask(u)\n'
    rules.write_text(text)
    log.write_text("ts,k,u,n,v\n1,a,x,3,4\n")
    assert mtlmon(str(rules), str(log)).output == "p\t1:0 false (u=x)\n"
    done = mtlmon("check-policy", str(rules), str(log))
    assert (done.status, done.errors) == (0, "")
    assert "  other(u (a text), n (a text))\n" in done.output
    rules.write_text(text.replace("v >", "z >"))
    assert mtlmon(str(rules), str(log)).status == 1
    assert "there is no column z" in mtlmon("check-policy", str(rules), str(log)).errors
