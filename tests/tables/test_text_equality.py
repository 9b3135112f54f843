"""Which cells of text are equal, in all formats and mechanisms that compare, and as what uses read.

The expected values follow from the contract alone: cells are equal if they are the same characters,
unless the file declares a type, which makes those equal that are the same value of it.
"""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon import MtlmonError, TableError  # noqa: E402
from mtlmon import check as check_log  # noqa: E402
from mtlmon.policy import load_policies, parse_policies  # noqa: E402
from tests.cli.process import mtlmon  # noqa: E402
from tests.doors import (  # noqa: E402
    formats_rows,
    postorder,
)
from tests.tables.begun import events_of  # noqa: E402
from tests.tables.test_equality import POLICIES, options_of  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [
    ("7", "7"),
    ("7", "8"),
    ("7", "007"),
    ("1.0", "1"),
    ("1", "1.00"),
    ("7", " 7"),
    ("7 ", "7"),
    ("ann", "ann "),
    ("TRUE", "true"),
    ("t", "true"),
    ("0", "-0"),
    ("+5", "5"),
    ("1e3", "1000"),
    ("A1", "a1"),
    ("é", "e\u0301"),
    ("0x10", "16"),
    ("12345678901", "12345678902"),
    ("9007199254740993", "9007199254740992"),
    ("12345678901234567890", "12345678901234567891"),
    ("99999999999999999999", "99999999999999999999"),
    ("2024-05-01", "2024-05-01T00:00:00"),
    ("nan", "NaN"),
]
UNEQUAL = [number for number, (left, right) in enumerate(PAIRS) if left != right]
# how many rows come before the pairs, so that they are not in the first block
_MANY = 40_000
_COLUMNS = ("ts", "pair", "event", "id", "more")
_PATTERN = r"^(?P<ts>\d+);(?P<pair>\d+);(?P<event>\w+);(?P<id>[^;]*);"


def written(format: str, rows: list[tuple[str, ...]]) -> str:
    """Rows in a format."""
    if format == "pattern":
        return "".join(";".join(row) + "\n" for row in rows)
    if format == "logfmt":
        return "".join(
            " ".join(f'{name}="{cell}"' for name, cell in zip(_COLUMNS, row, strict=True)) + "\n"
            for row in rows
        )
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter="\t" if format == "tsv" else ",", lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(rows)
    return sink.getvalue()


def rows_of(pairs: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    return [
        (str(2 * k + place), str(k), "ab"[place], pair[place], "x" * 30)
        for k, pair in enumerate(pairs)
        for place in (0, 1)
    ]


def logs_of(format: str, position: str) -> list[str]:
    """The files of a log in which the pairs are at some place."""
    rows = rows_of(PAIRS)
    before = [("0", "99", "c", str(k % 1000), "x" * 30) for k in range(_MANY)]
    logs = {
        "first": [rows],
        "later": [[*before, *rows]],
        "next file": [rows[:3], rows[3:]],
        "other order": [rows[:-21], rows[-21:]],
    }[position]
    return [written(format, one) for one in logs]


def known_table(folder: Path) -> Path:
    """A table with the left values of all pairs."""
    path = folder / "known.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("from", "to", "pair", "id"))
        writer.writerows((0, "", k, left) for k, (left, _) in enumerate(PAIRS))
    return path


# Rows of TSV and logfmt become rows of CSV, whose blocks are enough.
PLACES = [
    (format, position)
    for format in ("csv", "tsv", "logfmt", "pattern")
    for position in ("first", "later", "next file", "other order")
    if position != "later" or format in {"csv", "pattern"}
]


@pytest.mark.parametrize(("format", "position"), PLACES)
@pytest.mark.parametrize("mechanism", POLICIES)
def test_cells(mechanism: str, format: str, position: str, tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate(logs_of(format, position)):
        paths.append(tmp_path / f"{number}.{format}")
        paths[-1].write_text(text, encoding="utf-8")
    options = options_of(mechanism)
    if format in {"logfmt", "pattern"}:
        options["pattern"] = "logfmt" if format == "logfmt" else _PATTERN
    policies = POLICIES[mechanism].replace("TABLE", str(known_table(tmp_path)))
    with check_log(policies, paths, **options) as check:
        found = check.to_arrow().filter(pa.compute.field("verdict") == False)  # noqa: E712
    assert sorted(time // 2 for time in found.column("time").to_pylist()) == UNEQUAL


@pytest.mark.parametrize("mechanism", ["key", "variable", "last"])
def test_cells_of_a_pipe_and_of_a_log_that_grows(mechanism: str, tmp_path: Path) -> None:
    (tmp_path / "rules.mtl").write_text(POLICIES[mechanism])
    options = options_of(mechanism)
    arguments = ["--no-summary", "--verdicts", "false", str(tmp_path / "rules.mtl")]
    for name in ("key", "event"):
        value = options.get(name)
        if value:
            arguments += [f"--{name}", value if isinstance(value, str) else ",".join(value)]
    rows = rows_of(PAIRS)
    lines = mtlmon(*arguments, "--format", "csv", "-", log=written("csv", rows)).output.splitlines()
    assert len(lines) == len(UNEQUAL)
    log, output = tmp_path / "log.csv", tmp_path / "verdicts"
    resumed = ["-o", str(output), "--checkpoint", str(tmp_path / "state"), "--resume", str(log)]
    for count in (1, 4, 9, 30, len(rows)):
        log.write_text(written("csv", rows[:count]), encoding="utf-8")
        ended = mtlmon(*arguments, *resumed)
        assert ended.status in {0, 1}, ended.errors
    assert output.read_text().splitlines() == lines


# For each declared type, cells and whether they are equal; None where a cell is not of the type.
DECLARED: dict[str, list[tuple[str, str, bool | None]]] = {
    "int": [("7", "007", True), ("7", " 7", True), ("7", "8", False), ("7", "A7", None)],
    "float": [("1.0", "1", True), ("1.5", "1.50", True), ("7", "007", True), ("7", "x", None)],
    "decimal": [
        ("1.0", "1", True),
        ("12345678901234567890", "12345678901234567891", False),
        ("12345678901234567890", "12345678901234567890.0", True),
    ],
    "bool": [("TRUE", "true", True), ("t", "1", True), ("true", "F", False), ("true", "no", None)],
    "text": [("7", "007", False), ("7", "7", True)],
}


@pytest.mark.parametrize(
    ("data_type", "left", "right", "is_same"),
    [(name, *one) for name, some in DECLARED.items() for one in some],
)
@pytest.mark.parametrize("is_later", [False, True])
def test_declared_types(
    data_type: str, left: str, right: str, is_same: bool | None, is_later: bool, tmp_path: Path
) -> None:
    """A declaration holds for keys and for all conditions."""
    path = tmp_path / "log.csv"
    before = f"0,c,{left},{'x' * 40}\n" * (_MANY if is_later else 0)
    path.write_text(f"ts,event,id,more\n{before}1,a,{left},\n2,b,{right},\n")
    rules = f"column id: {data_type}\npolicy x: "
    policies: list[tuple[str, Any]] = [
        ("b IMPLIES ONCE a", {"key": "id"}),
        ("b IMPLIES id = id.last()", {}),
    ]
    if data_type == "decimal":
        # streams have floats
        policies.pop()
    for formula, options in policies:
        check = check_log(rules + formula, path, event="event", on_error="skip", **options)
        with check:
            found = check.to_arrow().column("verdict").to_pylist()
        assert found[-1:] == ([True] if is_same is None else [is_same])
        assert events_of(check).skipped == (is_same is None)


@pytest.mark.parametrize("data_type", ["int", "text"])
def test_declared_arguments(data_type: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,what,id\n1,approve,7\n2,pay,007\n3,pay,7\n")
    check = check_log(
        f'atom approve(id: {data_type}) = what = "approve"\n'
        f'atom pay(id: {data_type}) = what = "pay"\n'
        "policy p: pay(x) IMPLIES ONCE approve(x)",
        path,
    )
    found = check.to_arrow().select(["time", "x"]).to_pylist()
    assert found == ([] if data_type == "int" else [{"time": 2, "x": "007"}])


CELLS = ["7", "007", " 8", "8 ", "7.5", "1e1", "", "9007199254740993"]


@pytest.mark.parametrize("position", [0, 3, len(CELLS)])
def test_a_use_as_a_number_changes_no_other_use(position: int, tmp_path: Path) -> None:
    """One policy reads numbers, another one texts: neither depends on the other, or on blocks."""
    path = tmp_path / "log.csv"
    before = [f"{k},5," + "x" * 40 for k in range(_MANY if position else 0)]
    rows = [f"{_MANY + k},{cell}," for k, cell in enumerate(CELLS)]
    rows = rows[position:] + rows[:position] if position < len(CELLS) else rows
    rows = [f"{_MANY + k},{row.split(',', 1)[1]}" for k, row in enumerate(rows)]
    path.write_text("ts,id,more\n" + "\n".join([*before, *rows]) + "\n")
    number, text = "policy n: id < 8", 'policy t: id = "007"'
    expected = {
        "n": [bool(cell.strip()) and Decimal(cell) < 8 for cell in (r.split(",")[1] for r in rows)],
        "t": [row.split(",")[1] == "007" for row in rows],
    }
    for rules in (number, text, f"{number}\n{text}", f"{text}\n{number}"):
        with check_log(rules, path) as check:
            table = check.to_arrow()
        for name, wanted in expected.items():
            own = table.filter(pa.compute.field("policy") == name).column("verdict").to_pylist()
            if name in rules:
                assert own[-len(wanted) :] == wanted


_ATOMS = 'atom approve(id) = event = "a"\natom pay(id) = event = "b"\n'
_LETS = _ATOMS + "let paid(x) = pay(x)\nlet known(x) = ONCE approve(x)\n"
# a policy that reads numbers, and ones that compare texts
_BY_POLICY = {
    "n": "policy n: NOT (pay(x) AND x > 7)",
    "t": "policy t: pay(x) IMPLIES ONCE approve(x)",
    "c": 'policy c: NOT pay("007")',
    "m": "policy m: paid(x) IMPLIES known(x) OR x < 5",
    "s": "policy s: paid(x) IMPLIES known(x)",
    "f": "find f: paid(x) AND NOT known(x)",
}


@pytest.mark.parametrize("number", range(3))
def test_a_use_as_a_number_changes_no_other_policy(number: int, tmp_path: Path) -> None:
    """A variable has one type in its policy; the same atom has texts in others."""
    path = tmp_path / "log.csv"
    cells = [("a", "7"), ("b", "007"), ("b", "7"), ("b", "7.5"), ("b", " 4"), ("b", "")]
    path.write_text("ts,event,id\n" + "".join(f"{k},{e},{i}\n" for k, (e, i) in enumerate(cells)))
    # by hand: in n and m, 007 is 7
    expected: dict[str, list[tuple[int, str | None]]] = {
        "n": [(3, "7.5")],
        "t": [(1, "007"), (3, "7.5"), (4, " 4")],
        "c": [(1, None)],
        "m": [(3, "7.5")],
        "s": [(1, "007"), (3, "7.5"), (4, " 4")],
        "f": [(1, "007"), (3, "7.5"), (4, " 4")],
    }
    names = list(expected)
    orders = [names, names[::-1], names[3:] + names[:3]]
    for names in [orders[number], *([one] for one in expected)]:
        rules = _LETS + "\n".join(_BY_POLICY[name] for name in names)
        (tmp_path / "rules.mtl").write_text(rules)
        done = mtlmon("--no-summary", str(tmp_path / "rules.mtl"), str(path))
        assert "left out 1 row of atoms" in done.errors
        for name in names:
            start = f"{name}\t"
            lines = [one for one in done.output.splitlines() if one.startswith(start)]
            own = [one.removeprefix(start) for one in lines]
            found = [(int(one[0]), one.partition("x=")[2].rstrip(")")) for one in own]
            assert [(at, value.strip('"') or None) for at, value in found] == expected[name]
        # a table has one column for the variables of all policies
        with check_log(rules, path) as check:
            rows = check.to_arrow().to_pylist()
        assert sorted(((one["policy"], one["time"]) for one in rows), key=str) == sorted(
            ((name, time) for name in names for time, _ in expected[name]), key=str
        )
        if len(names) > 1:
            assert {one["x"] for one in rows} == {"7.5", "007", " 4", None}


_SUM = f"""{_ATOMS}
policy n: pay(x) AND x > 3 IMPLIES ONCE approve(x)
policy s: n = SUM(x OVER ONCE[0,9] pay(x)) IMPLIES n < 20
"""


def write_rows(path: Path, rows: list[tuple[int, str, str]]) -> Path:
    """Write rows in the format that the name of a file says."""
    if path.suffix == ".jsonl":
        lines = [f'{{"ts": {ts}, "event": "{event}", "id": {cell}}}' for ts, event, cell in rows]
    elif path.suffix == ".log":
        lines = [f'ts="{ts}" event="{event}" id="{cell}"' for ts, event, cell in rows]
    else:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        lines = [delimiter.join(map(str, row)) for row in [("ts", "event", "id"), *rows]]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".log", ".jsonl"])
def test_fractions_of_variables_may_come_late(suffix: str, tmp_path: Path) -> None:
    """An argument that is read as a number has integers at first; what is said is the same."""
    begin = [(1, "a", "7"), (1, "a", "8"), (2, "b", "7"), (3, "b", "9")]
    end = [(4, "b", "7.5"), (5, "a", "1e1"), (6, "b", "7.0"), (7, "b", "10"), (8, "a", "1.5")]
    # by hand: 9 and 7.5 are not approved; 7, 9, 7.5 and 10 are four values, whose sum is 33.5
    expected = [(3, "n", "9"), (4, "n", "7.5"), *((t, "s", "23.5") for t in (4, 5, 6))]
    expected += [(t, "s", "33.5") for t in (7, 8)]
    (tmp_path / "rules.mtl").write_text(_SUM)
    rules = str(tmp_path / "rules.mtl")
    pattern = ["--pattern", "logfmt"] if suffix == ".log" else []
    base = [*pattern, "--no-summary"]

    def emitted(output: str) -> list[tuple[int, str, str]]:
        found = []
        for line in output.splitlines():
            policy, answer = line.split("\t")
            found.append((int(answer.split(":")[0]), policy, answer.split("=")[1].rstrip(")")))
        return sorted(found)

    whole = write_rows(tmp_path / f"whole{suffix}", begin + end)
    files = [write_rows(tmp_path / f"{k}{suffix}", one) for k, one in enumerate((begin, end))]
    padded = write_rows(
        tmp_path / f"padded{suffix}", begin + [(3, "c", f"{k}") for k in range(_MANY)] + end
    )
    format = [] if suffix == ".log" else ["--format", suffix[1:]]
    for arguments, log in (
        ([str(whole)], ""),
        ([*map(str, files)], ""),
        ([str(padded)], ""),
        ([*format, "-"], whole.read_text()),
        (["--wait", "2", str(whole)], ""),
        (["--slices", "2", str(whole)], ""),
        (["--lateness", "1", "--output-format", "text", str(whole)], ""),
    ):
        done = mtlmon(*base, rules, *arguments, log=log)
        lines = [line for line in done.output.splitlines() if not line.startswith("!")]
        assert emitted("\n".join(lines)) == sorted(expected), (arguments, done.errors)
    output, log_file = tmp_path / "verdicts", tmp_path / f"grown{suffix}"
    state = ["-o", str(output), "--checkpoint", str(tmp_path / "state"), "--resume"]
    for count in (2, 4, 6, 9):
        write_rows(log_file, (begin + end)[:count])
        assert mtlmon(*base, *state, rules, str(log_file)).errors == ""
    assert emitted(output.read_text()) == sorted(expected)
    with check_log(_SUM, files, pattern="logfmt" if pattern else None) as check:
        assert check.to_arrow().column("x").type == pa.float64()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("is_first", [True, False])
def test_integers_that_floats_do_not_tell_apart(
    suffix: str, is_first: bool, tmp_path: Path
) -> None:
    """They are errors of their rows, unless the arguments are declared as integers."""
    long = [(1, "a", "9007199254740993"), (2, "b", "9007199254740992"), (2, "b", "1e300")]
    other = [(1, "a", "1.5"), (2, "b", "1.5")]
    rows = long + other if is_first else other + long
    path = write_rows(tmp_path / f"log{suffix}", sorted(rows, key=lambda row: row[0]))
    rule = "policy n: pay(x) AND x > 1 IMPLIES ONCE approve(x)"
    with check_log(_ATOMS + rule, path, on_error="skip") as check:
        assert check.to_arrow().column("x").to_pylist() == [2.0**53, 1e300]
        (error,) = events_of(check).errors
    assert "is an integer that a float does not tell apart" in str(error)
    assert "declare the argument, as in atom NAME(COLUMN: int)" in str(error)
    declared = _ATOMS.replace("(id)", "(id: int)") + rule
    with check_log(declared, path, on_error="skip") as check:
        assert check.to_arrow().column("x").to_pylist() == [2**53]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".log", ".jsonl"])
@pytest.mark.parametrize("position", ["before", "after", "file before", "file after", "none"])
def test_integers_that_became_floats(suffix: str, position: str, tmp_path: Path) -> None:
    """Where numbers have a point, integers beyond 2^53 can become equal: a remark says so."""
    long = [(1, "a", "9007199254740993"), (2, "b", "9007199254740992")]
    point = [] if position == "none" else [(1, "b", "1.5")]
    halves = [point, long] if position.endswith("before") else [long, point]
    logs = halves if position.startswith("file") else [halves[0] + halves[1]]
    paths = [write_rows(tmp_path / f"{k}{suffix}", one) for k, one in enumerate(logs)]
    rule = "policy p: id != 9007199254740992"
    options: dict[str, Any] = {"pattern": "logfmt"} if suffix == ".log" else {}
    with check_log(rule, paths, sort=True, **options) as check:
        list(check)
        found = [one for one in events_of(check).remarks if "rounded to floats" in one]
    if position == "none":
        assert not found
        return
    (remark,) = found
    assert "integers such as 9007199254740993 were rounded to floats" in remark
    assert remark.endswith("write in the policy file: column id: decimal")
    with check_log(f"column id: decimal\n{rule}", paths, sort=True, **options) as check:
        verdicts = check.to_arrow().column("verdict").to_pylist()
        assert not events_of(check).remarks
    assert sorted(verdicts) == [False, True, True]


def test_names_of_atoms_that_policies_read_differently(tmp_path: Path) -> None:
    """Explanations, errors and descriptions have the name that the file has."""
    path, rules = tmp_path / "log.csv", tmp_path / "rules.mtl"
    path.write_text("ts,event,id\n1,b,8\n")
    rules.write_text(_LETS + "\n".join(_BY_POLICY.values()))
    for arguments in (
        ["--explain"],
        ["--report", str(tmp_path / "report.html")],
        ["--slices", "2"],
    ):
        done = mtlmon(*arguments, str(rules), str(path))
        assert done.status == 1
        assert "\0" not in done.output + done.errors
    assert "\0" not in (tmp_path / "report.html").read_text()
    done = mtlmon("check-policy", str(rules))
    assert "pay(id" in done.output
    assert "\0" not in done.output
    other = tmp_path / "other.mtl"
    other.write_text(_ATOMS + "policy o: pay(x) IMPLIES x < 5")
    joined = load_policies([rules, other])
    assert [str(one.formula) for one in joined.policies[:2]] == [
        'NOT ("rules:pay"(x) AND x > 7)',
        '"rules:pay"(x) IMPLIES ONCE "rules:approve"(x)',
    ]
    with check_log(joined, path) as check:
        names = check.to_arrow().column("policy").to_pylist()
    assert names == ["n", "t", "m", "s", "f", "o"]


def test_types_do_not_depend_on_the_order_of_files(tmp_path: Path) -> None:
    """Integers in one file, numbers with a point in another one, texts in the third."""
    cells = {"m1": ["1", "2"], "m2": ["1.5", "2"], "m3": ["A12", "", "7"]}
    paths = {name: tmp_path / f"{name}.csv" for name in cells}
    for name, values in cells.items():
        paths[name].write_text("ts,id\n" + "".join(f"1,{value}\n" for value in values))
    for order in (["m1", "m2"], ["m2", "m1"]):
        with check_log("policy x: id > 1", [paths[one] for one in order]) as check:
            found = check.to_arrow().column("verdict").to_pylist()
        assert found == [float(cell) > 1 for one in order for cell in cells[one]]
    for order in (["m1", "m3"], ["m3", "m1"]):
        with check_log('policy x: id = "7"', [paths[one] for one in order]) as check:
            found = check.to_arrow().column("verdict").to_pylist()
        assert found == [cell == "7" for one in order for cell in cells[one]]


def test_an_argument_that_is_empty_at_first(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    empty = "".join(f"{k},pay,{'x' * 40},\n" for k in range(_MANY))
    path.write_text(f"ts,what,more,id\n{empty}{_MANY},approve,,7\n{_MANY},pay,,A7\n")
    check = check_log(
        'atom approve(id) = what = "approve"\natom pay(id) = what = "pay"\n'
        "policy p: pay(x) IMPLIES ONCE approve(x)",
        path,
    )
    assert check.to_arrow().column("x").to_pylist() == ["A7"]


@pytest.mark.parametrize("cell", ["x", "7a", "1,5", "true", "0x"])
def test_what_is_no_number_is_an_error_of_its_row(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = ["1,5", f'2,"{cell}"', "3,7.5"]
    path.write_text("ts,id\n" + "\n".join(rows) + "\n")
    with pytest.raises(TableError, match=r"log.csv:3: column 'id': .* is not of type"):
        check_log("policy x: id > 1", path).to_arrow()
    check = check_log("policy x: id > 1", path, on_error="skip")
    assert check.to_arrow().column("verdict").to_pylist() == [True, True]
    assert events_of(check).skipped == 1


# Expressions, and as what they read their columns.
USES = [
    ("x > 1", "x:number"),
    ("x = 1", "x:number"),
    ('x = "1"', "x:"),
    ("x = y", "x: y:"),
    ("x = y + 1", "x:number y:number"),
    ("x < y", "x:ordered y:ordered"),
    ("x = x.last()", "x: x:"),
    ("x > x.last()", "x:ordered x:ordered"),
    ("x.last(or: 0) = y", "x:number y:number"),
    ("sum[0,5](x) > 1", "x:number"),
    ("max[0,5](x) = y", "x:ordered y:ordered"),
    ("distinct[0,5](x) > 1", "x:"),
    ("first[0,5](x) = y", "x: y:"),
    ("x", "x:bool"),
    ("x = true", "x:bool"),
    ("x and not y", "x:bool y:bool"),
    ("x in (1, 2)", "x:number"),
    ('x in ("1", "2")', "x:"),
    ("hour(x) = 1", "x:time"),
    ('x < "2024-05-01T12:00:00"', "x:time"),
    ('x < "m"', "x:"),
    ("lower(x) = y", "x: y:"),
    ("coalesce(x, y) > 1", "x:number y:number"),
    ("if x then y = 1 else z is null", "x:bool y:number z:"),
    ("x > ts", "x:ordered ts:"),
    ("ts - x > 5", "ts: x:ordered"),
    ("y - x > 5", "y:ordered x:ordered"),
    ("y - x > 5 and x < 3", "y:ordered x:ordered x:number"),
    ("x < y + 1", "x:number y:number"),
    ('x > 1 or x = "a"', "x:number x:"),
]


@pytest.mark.parametrize(("condition", "expected"), USES)
def test_what_uses_ask_for(condition: str, expected: str) -> None:
    """The type is that of the expression, whatever the cells."""
    file = parse_policies(f"atom a = {condition}\npolicy p: a")
    found = [
        f"{node.name}:{getattr(node.name, 'type', '')}"
        for node in postorder(file.atoms["a"].expression)
        if node.operator.name == "COLUMN"
    ]
    assert " ".join(found) == expected


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize(
    ("values", "largest"),
    [
        (["bob", "ann"], "bob"),
        (["9", "10"], "10"),
        (["2024-05-02T00:00:00", "2024-05-01T00:00:00"], "2024-05-02T00:00:00"),
        (["", "bob", "ann"], "bob"),
    ],
)
def test_the_first_value_says_what_only_the_order_is_used_of(
    values: list[str], largest: str, is_json: bool, tmp_path: Path
) -> None:
    """Numbers, times and texts have an order; nothing else in the file says what these are."""
    rules, log = tmp_path / "s.mtl", tmp_path / ("log.jsonl" if is_json else "log.csv")
    rules.write_text("stream m = max[0,9](x)\n")
    rows = [(place, value) for place, value in enumerate(values)]
    if is_json:
        objects = [{"ts": place, "x": value or None} for place, value in rows]
        log.write_text("".join(f"{json.dumps(one)}\n" for one in objects))
    else:
        log.write_text("ts,x\n" + "".join(f"{place},{value}\n" for place, value in rows))
    done = mtlmon("streams", str(rules), str(log))
    assert done.errors == ""
    assert str(json.loads(done.output.splitlines()[-1])["m"]) == largest


_TIME = "2024-05-01T12:00:00"


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("block_bytes", [24, 60, 1 << 16])
@pytest.mark.parametrize(
    ("cells", "rules", "expected"),
    [
        # the second has a fraction, and the third no time of day
        ([_TIME, f"{_TIME}.25", "", "2024-05-02"], "policy p: id.last() <= id", [1, 3]),
        ([_TIME, f"{_TIME}.25", "", "2024-05-02"], "policy p: hour(id) = 12", [0, 1]),
        (["9999-12-31T00:00:00", _TIME], "policy p: hour(id) = 0", [0]),
        ([f"{_TIME}.123456789", "", f"{_TIME}.123456790"], "policy p: id.last() < id", [2]),
        # an offset in the second is an error of its row, in whatever block
        ([_TIME, f"{_TIME}+02:00", _TIME], "policy p: hour(id) = 12", [0, 2]),
        ([f"{_TIME}+02:00", _TIME, f"{_TIME}Z"], "policy p: hour(id) = 10", [0]),
        (["", "x", f"{_TIME}Z", f"{_TIME}Z"], "policy p: hour(id) = 12", [2, 3]),
        (["", "b", "a", "c"], "policy p: max[0,9](id) = id", [1, 3]),
    ],
)
def test_the_first_time_says_how_a_column_is_read(
    cells: list[str],
    rules: str,
    expected: list[int],
    block_bytes: int,
    is_json: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not all those of a block, whose fractions, offsets and dates may differ."""
    monkeypatch.setattr(formats_rows, "FIRST_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(formats_rows, "BLOCK_BYTES", block_bytes)
    path = tmp_path / ("log.jsonl" if is_json else "log.csv")
    if is_json:
        objects = [{"ts": k, "id": cell or None} for k, cell in enumerate(cells)]
        path.write_text("".join(f"{json.dumps(one)}\n" for one in objects))
    else:
        path.write_text("ts,id\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    with check_log(rules, path, on_error="skip") as check:
        table = check.to_arrow()
    assert table.filter(table.column("verdict")).column("time").to_pylist() == expected


def test_a_stream_has_one_type() -> None:
    text = 'stream s = x\npolicy p: s > 1\npolicy q: x = "a"'
    file = parse_policies(text)
    assert getattr(file.streams["s"].expression.name, "type", "") == "number"
    assert type(file.atoms['x = "a"'].expression.operands[0].name) is str


@pytest.mark.parametrize(
    ("cells", "remark"),
    [
        ("7 8 007", "column id: '7' and '007' are different values.*: column id: int"),
        ("1.0 2 1", "column id: '1.0' and '1' are different values.*: column id: float"),
        ("007 8 7", "column id: int"),
        ("TRUE true", "column id: bool"),
        ("7 8 9 0", ""),
        ("A7 A07", ""),
    ],
)
@pytest.mark.parametrize("by", ["key", "variable", "stream"])
def test_remark(cells: str, remark: str, by: str, tmp_path: Path) -> None:
    import re

    path = tmp_path / "log.csv"
    path.write_text("ts,id\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells.split())))
    rules = {
        "key": "policy p: ts > 0",
        "variable": "atom a(id) = ts > 0\npolicy p: a(x) IMPLIES ONCE a(x)",
        "stream": "policy p: id = id.last()",
    }[by]
    with check_log(rules, path, key="id" if by == "key" else ()) as check:
        list(check)
        found = events_of(check).remarks
    assert len(found) == bool(remark)
    assert re.search(remark, " ".join(found))
    (tmp_path / "rules.mtl").write_text(rules)
    options = ["--key", "id"] if by == "key" else []
    ended = mtlmon(*options, str(tmp_path / "rules.mtl"), str(path))
    assert bool(remark) == ("different values" in ended.errors)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("column id: number", "there is no type number"),
        ("column id:", "expected a type"),
        ("column id: int\ncolumn id: text", "has a type already"),
    ],
)
def test_declarations_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        parse_policies(f"{text}\npolicy p: id = 1")
