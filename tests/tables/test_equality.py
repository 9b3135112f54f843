"""Which values are equal, in columns whose values have types: in all mechanisms that compare.

The expected values are written by hand: numbers are equal by their exact value, texts by their
characters, and a text equals a number, or true or false, if it is the canonical text of it.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import numpy as np  # noqa: E402
from pyarrow import ipc, parquet  # noqa: E402

from mtlmon import (  # noqa: E402
    TableError,
    query,
)
from mtlmon import check as check_log  # noqa: E402
from mtlmon.policy import parse_policies  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.cli.process import mtlmon  # noqa: E402
from tests.doors import LookUp, formats_rows  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

# Values of JSON, and whether they are equal.
PAIRS: list[tuple[str, str, bool]] = [
    ("7", "7", True),
    ("7", "8", False),
    ("7", "7.0", True),
    ("7", "7e0", True),
    ("0", "-0.0", True),
    ("70", "7e1", True),
    ("7", '"7"', True),
    ("7", '"007"', False),
    ("7", '" 7"', False),
    ("7.0", '"7.0"', False),
    ('"7"', '"7.0"', False),
    ('"007"', '"007"', True),
    ('"A1"', '"a1"', False),
    ('"é"', '"\\u00e9"', True),
    ('"é"', '"e\\u0301"', False),
    ("1.5", '"1.5"', True),
    ("1.50", "1.5", True),
    ("1.5", "1.25", False),
    ("true", '"true"', True),
    ("true", "1", False),
    ("true", "true", True),
    ("true", "false", False),
    ("0.1", "1e-1", True),
    ("0.1", "0.10000000000000001", False),
    ("1e-7", "0.0000001", True),
    ("12345678901", "12345678901", True),
    ("12345678901", "12345678902", False),
    ("9007199254740993", "9007199254740992", False),
    ("9007199254740993.0", "9007199254740993", True),
    ("9007199254740993.0", "9007199254740992", False),
    ("1234567890123456789", "1234567890123456788", False),
    ("12345678901234567890", "12345678901234567891", False),
    ("12345678901234567890", '"12345678901234567890"', True),
    ("100000000000000000000", "1e20", True),
]

POLICIES = {
    "key": "policy x: b IMPLIES ONCE a",
    "variable": """
        atom left(pair, id) = event = "a"
        atom right(pair, id) = event = "b"
        policy x: right(p, v) IMPLIES ONCE left(p, v)
    """,
    "last": "policy x: b IMPLIES id = id.last()",
    "distinct": "policy x: b IMPLIES distinct[0,1](id) = 1",
    "instance": """
        stream seen = count[0,1]() per id
        policy x: b IMPLIES seen[id] = 2
    """,
    "look-up": """
        relation known = table "TABLE" valid [from, to) key pair, id
        policy x: b IMPLIES exists known[pair, id]
    """,
}
# how many rows come before the pairs, so that they are not in the first block
_MANY = 30_000
_PADDING = '{"ts": 0, "pair": -1, "event": "c", "id": %d, "more": "%s"}'


def rows_of(pairs: list[tuple[str, str, bool]]) -> list[str]:
    """The rows: at time 2k the left value of pair k, and at 2k+1 the right one."""
    return [
        f'{{"ts": {2 * k + place}, "pair": {k}, "event": "{"ab"[place]}", "id": {pair[place]}}}'
        for k, pair in enumerate(pairs)
        for place in (0, 1)
    ]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def known_table(folder: Path) -> Path:
    """A table with the left values of all pairs."""
    lines = [
        f'{{"from": 0, "to": null, "pair": {k}, "id": {one[0]}}}' for k, one in enumerate(PAIRS)
    ]
    return write(folder / "known.jsonl", lines)


def options_of(mechanism: str) -> dict[str, Any]:
    key = {"key": ["pair", "id"], "variable": [], "look-up": []}.get(mechanism, ["pair"])
    return {"key": key} | ({} if mechanism == "variable" else {"event": "event"})


def unequal(check: Any) -> list[tuple[str, str]]:
    """The pairs that are not equal, by the verdicts of their second rows."""
    with check:
        table = check.to_arrow()
    times = table.column("time").to_pylist()
    verdicts = table.column("verdict").to_pylist()
    false = {time // 2 for time, one in zip(times, verdicts, strict=True) if not one}
    return [PAIRS[k][:2] for k in sorted(false)]


UNEQUAL = [one[:2] for one in PAIRS if not one[2]]


@pytest.mark.parametrize("position", ["first", "later", "next file", "other order"])
@pytest.mark.parametrize("mechanism", POLICIES)
def test_values_of_json(mechanism: str, position: str, tmp_path: Path) -> None:
    rows = rows_of(PAIRS)
    padding = [_PADDING % (k % 1000, "x" * 30) for k in range(_MANY)]
    logs = {
        "first": [rows],
        "later": [[*padding, *rows]],
        "next file": [rows[:1], padding[:0] + rows[1:]],
        "other order": [rows[:-21], rows[-21:]],
    }[position]
    paths = [write(tmp_path / f"{k}.jsonl", lines) for k, lines in enumerate(logs)]
    policies = POLICIES[mechanism].replace("TABLE", str(known_table(tmp_path)))
    assert unequal(check_log(policies, paths, **options_of(mechanism))) == UNEQUAL


@pytest.mark.parametrize("mechanism", ["key", "variable", "last"])
def test_values_of_json_in_a_pipe_and_a_log_that_grows(mechanism: str, tmp_path: Path) -> None:
    """What a run says does not depend on how much of a log there is when it begins."""
    (tmp_path / "rules.mtl").write_text(POLICIES[mechanism])
    options = options_of(mechanism)
    arguments = ["--format", "jsonl", "--verdicts", "false", str(tmp_path / "rules.mtl")]
    for name in ("key", "event"):
        value = options.get(name)
        if value:
            arguments += [f"--{name}", value if isinstance(value, str) else ",".join(value)]
    rows = rows_of(PAIRS)
    found = mtlmon(*arguments, "-", log="\n".join(rows) + "\n")
    assert found.errors.count("Traceback") == 0
    lines = found.output.splitlines()
    assert len(lines) == len(UNEQUAL)
    log, output = tmp_path / "log.jsonl", tmp_path / "verdicts"
    options_of_run = ["-o", str(output), "--checkpoint", str(tmp_path / "state"), "--resume"]
    # 7, then 7.0 and later "7" and true come behind a checkpoint
    for count in (1, 5, 13, 38, len(rows)):
        write(log, rows[:count])
        ended = mtlmon(*arguments, *options_of_run, str(log))
        assert ended.status in {0, 1}, ended.errors
    assert output.read_text().splitlines() == lines


@pytest.mark.parametrize("key", ["k", "id"])
def test_a_log_that_grows_by_values_of_other_types(key: str, tmp_path: Path) -> None:
    """Neither keys nor ids that rows are taken back by depend on types, and nor do checkpoints."""
    rules = "unit s\npolicy x: b IMPLIES id = id.last()\npolicy y: b IMPLIES ONCE a\n"
    (tmp_path / "rules.mtl").write_text(rules)
    form = '{"ts": %d, "k": "a", "event": "%s", "id": %s, "op": "%s", "oid": %s}'
    rows = [
        form % row
        for row in (
            (1, "a", "7", "+", "1"),
            (2, "b", "12345678901", "+", "2"),
            (3, "b", "7.0", "+", "3"),
            (3, "b", "7", "-", '"3"'),
            (4, "b", "1.5", "+", "4"),
            (5, "b", '"7"', "+", "5.0"),
            (6, "b", "7e0", "+", "6"),
            (5, "b", "7", "-", "5"),
        )
    ]
    log, output = tmp_path / "log.jsonl", tmp_path / "verdicts"
    arguments = ["--key", key, "--event", "event", "--op", "op", "--id", "oid", "--lateness", "2"]
    arguments += [str(tmp_path / "rules.mtl"), str(log)]
    write(log, rows)
    whole = mtlmon(*arguments)
    assert whole.errors == ""
    state = ["-o", str(output), "--checkpoint", str(tmp_path / "state"), "--resume"]
    for count in (2, 3, 5, 6, len(rows)):
        write(log, rows[:count])
        assert mtlmon(*state, *arguments).errors == ""
    latest = [mtlmon("latest", "-", log=one).output for one in (whole.output, output.read_text())]
    assert latest[0] == latest[1] != ""


def test_uses_of_numbers_do_not_change_the_keys(tmp_path: Path) -> None:
    """A text among numbers is read as a number where one is asked for, and is a key of its own."""
    values = ["7", '"007"', '" 7 "', "7.0", '"8"', '""', "null", "1e1"]
    lines = [f'{{"ts": {k}, "id": {one}}}' for k, one in enumerate(values) if one != "null"]
    path = write(tmp_path / "log.jsonl", lines)
    with check_log("policy x: id < 8", path, key="id") as check:
        found = check.to_arrow().select(["id", "verdict"]).to_pylist()
    assert [(row["id"], row["verdict"]) for row in found] == [
        ("7", True),
        ("007", True),
        (" 7 ", True),
        ("7", True),
        ("8", False),
        ("", False),
        ("10", False),
    ]


@pytest.mark.parametrize("value", ['"x"', "true", "[7]", '{"a": 7}'])
def test_what_is_no_number(value: str, tmp_path: Path) -> None:
    """It is an error of its row, wherever it is, and whatever is before it."""
    good = ['{"ts": 1, "id": 7}', '{"ts": 2, "id": "8"}']
    bad = f'{{"ts": 2, "id": {value}}}'
    for place in range(3):
        path = write(tmp_path / "log.jsonl", [*good[:place], bad, *good[place:]])
        file = parse_policies("atom small = id < 8\npolicy x: small")
        with open_tables(path, ["small"], policies=file, on_error="skip") as tables:
            assert sum(map(len, tables)) == 2
            assert [error.line for error in tables.errors] == [place + 1]
        with pytest.raises(TableError, match=f"log.jsonl:{place + 1}: column 'id': .* instead of"):
            check_log("policy x: id < 8", path).to_arrow()


@pytest.mark.parametrize("block_bytes", [24, 30, 48, 70])
@pytest.mark.parametrize(
    ("values", "rules", "expected"),
    [
        (['"007"', "null", "10", "null", "7.5"], "policy x: id < 8", [0, 4]),
        (["null", '"x"', "null", "true", "null"], 'policy x: id = "x"', [1]),
        (["null", "7", "null", '" 8"', "null"], "policy x: id.last(or: 0) < id", [1, 3]),
        (["null", '"t"', "null", "false", "null"], "policy x: id", [1]),
        (["null", "null", "7", "null", "7.5"], "policy x: max[0,9](id) > 7", [4]),
    ],
)
def test_values_in_blocks_of_few_rows(
    values: list[str],
    rules: str,
    expected: list[int],
    block_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks can have nulls only, behind and before values of any types."""
    monkeypatch.setattr(formats_rows, "FIRST_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(formats_rows, "BLOCK_BYTES", block_bytes)
    lines = [f'{{"ts": {k}, "id": {one}}}' for k, one in enumerate(values)]
    path = write(tmp_path / "log.jsonl", lines)
    with check_log(rules, path) as check:
        table = check.to_arrow()
    assert table.filter(table.column("verdict")).column("time").to_pylist() == expected


# Values of times and events, and the time-stamps of rows with an event p or 7 that can be read.
TIMES_AND_EVENTS: list[tuple[list[tuple[str, str]], list[int]]] = [
    ([("1", '"p"'), ('"2"', '"p"'), ('" 3 "', '"q"'), ("4", '"p"')], [1, 2, 4]),
    ([("1", "7"), ("2", '"7"'), ("3", "7.0"), ("4", '"007"'), ("5", "true")], [1, 2, 3]),
    ([('"x"', '"p"'), ("null", '"p"'), ("3", '"p"'), ('"4"', '"p"')], [3, 4]),
    ([("1", '"p"'), ('"1970-01-01T00:00:02Z"', '"p"'), ("3", '"p"')], [1, 3]),
    ([('"1970-01-01T00:00:01Z"', '"p"'), ("2", '"p"'), ('"1970-01-01 00:00:03"', '"p"')], [1, 3]),
    ([("1", '"p"'), ("2", '{"a": 7}'), ("true", '"p"'), ("4", '"p"')], [1, 4]),
]


@pytest.mark.parametrize(("rows", "expected"), TIMES_AND_EVENTS)
def test_times_and_events_of_json(
    rows: list[tuple[str, str]], expected: list[int], tmp_path: Path
) -> None:
    """Each value has a type of its own; the first time says whether times are numbers."""
    lines = [f'{{"ts": {time}, "event": {event}}}' for time, event in rows]
    more = [f'{{"ts": {expected[-1]}, "event": "c", "more": "{"x" * 60}"}}'] * _MANY
    rules = 'policy x: not (event = "p") and not (event = "7")'
    for cut in range(len(lines) + 1):
        logs = [lines[:cut], lines[cut:]]
        paths = [write(tmp_path / f"{k}.jsonl", one) for k, one in enumerate(logs)]
        with check_log('NOT p AND NOT "7"', paths, event="event", on_error="skip") as check:
            table = check.to_arrow()
        found = table.filter(pa.compute.invert(table.column("verdict"))).column("time").to_pylist()
        assert found == expected
        with check_log(rules, paths, on_error="skip") as check:
            table = check.to_arrow()
        found = table.filter(pa.compute.invert(table.column("verdict"))).column("time").to_pylist()
        assert found == expected
    path = write(tmp_path / "later.jsonl", lines + more + lines[-1:])
    with check_log('NOT p AND NOT "7"', path, event="event", on_error="skip") as check:
        table = check.to_arrow()
    found = table.filter(pa.compute.invert(table.column("verdict"))).column("time").to_pylist()
    assert found[: len(expected)] == expected


@pytest.mark.parametrize("is_json", [False, True])
def test_the_first_time_decides_in_which_form_times_are(is_json: bool, tmp_path: Path) -> None:
    """It does not depend on how many rows there are at first."""
    texts = ["x", "5", *["1970-01-01T00:00:06Z"] * 300, "7"]
    for number, order in enumerate((texts, [texts[0], *texts[2:]])):
        cut_at = (1, 2, 40, len(order))
        for cut in cut_at:
            paths = []
            for k, part in enumerate((order[:cut], order[cut:])):
                path = tmp_path / f"{number}-{cut}-{k}.{'jsonl' if is_json else 'csv'}"
                if is_json:
                    write(path, [f'{{"ts": "{one}", "p": true}}' for one in part])
                else:
                    write(path, ["ts,p", *(f"{one},1" for one in part)])
                paths.append(path)
            with check_log("p", paths, on_error="skip") as check:
                found = check.to_arrow().column("time").to_pylist()
            assert found == ([5, 7] if number == 0 else [6] * 300)


DECLARED = [
    ("int", ["7", '"007"', "7.0", '" 7"', "7.5", '"x"'], ["7"] * 4),
    ("float", ["7", '"007"', "7.5", '"7.50"', "true"], ["7", "7", "7.5", "7.5"]),
    ("decimal", ["1.10", '"1.1"', "1.1e0", '"z"', "[1]"], ["1.1"] * 3),
    ("text", ["7", '"007"', "7.0", "true", '{"a": 1}'], ["7", "007", "7", "true"]),
    ("bool", ["true", '"TRUE"', "1", '"f"', '"no"'], ["true", "true", "true", "false"]),
    (
        "time",
        ['"2024-05-01T10:00:00"', '"2024-05-01 10:00:00.000"', "5", '"x"'],
        ["2024-05-01 10:00:00"] * 2,
    ),
]


@pytest.mark.parametrize(("kind", "values", "keys"), DECLARED)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_declared_types_of_json(
    kind: str, values: list[str], keys: list[str], is_reversed: bool, tmp_path: Path
) -> None:
    """What is not of the declared type is an error of its row, and others are equal by value."""
    order = -1 if is_reversed else 1
    lines = [f'{{"ts": {k}, "id": {one}}}' for k, one in enumerate(values[::order])]
    path = write(tmp_path / "log.jsonl", lines)
    rules = f"column id: {kind}\npolicy x: ts >= 0"
    with check_log(rules, path, key="id", on_error="skip") as check:
        assert check.to_arrow().column("id").to_pylist() == keys[::order]


# Columns of types, with the value 7, or 7 and another one.
COLUMNS = {
    "int64": pa.array([7, 8]),
    "int8": pa.array([7, 8], pa.int8()),
    "uint64": pa.array([7, 8], pa.uint64()),
    "float": pa.array([7.0, 8.5]),
    "float32": pa.array([7.0, 8.5], pa.float32()),
    "decimal": pa.array([Decimal("7.00"), Decimal("8.50")]),
    "text": pa.array(["7", "8.50"]),
    "large text": pa.array(["7", "8.50"], pa.large_string()),
    "dictionary": pa.array(["7", "8.50"]).dictionary_encode(),
    "dictionary of integers": pa.array([7, 8]).dictionary_encode(),
    "other text": pa.array(["007", "7.0"]),
}
SEVENS = [name for name in COLUMNS if name != "other text"]


def stored(table: Any, path: Path, format: str) -> Any:
    """The table in a file, or as an object."""
    if format == "parquet":
        parquet.write_table(table, path.with_suffix(".parquet"))
        return path.with_suffix(".parquet")
    if format == "arrow":
        with ipc.new_file(path.with_suffix(".arrow"), table.schema) as writer:
            writer.write_table(table)
        return path.with_suffix(".arrow")
    return table


# All pairs in one format, and in the others those with one type.
FORMATS_OF_PAIRS = [
    (format, left, right)
    for format in ("parquet", "arrow", "object")
    for left, right in product(COLUMNS, repeat=2)
    if format == "parquet" or "int64" in (left, right)
]


@pytest.mark.parametrize(("format", "left", "right"), FORMATS_OF_PAIRS)
def test_keys_of_columns_with_types(format: str, left: str, right: str, tmp_path: Path) -> None:
    """The same key can have one type in a table, and another in the next one."""
    tables = [
        stored(
            pa.table({"ts": [time], "event": [name], "id": COLUMNS[one].slice(0, 1)}), path, format
        )
        for time, name, one, path in (
            (1, "a", left, tmp_path / "left"),
            (2, "b", right, tmp_path / "right"),
        )
    ]
    with check_log("policy x: b IMPLIES ONCE a", tables, key="id", event="event") as check:
        found = check.to_arrow().column("verdict").to_pylist()
    is_same = left == right or "other text" not in (left, right)
    assert found == [True, is_same]


@pytest.mark.parametrize(("left", "right"), [*product(COLUMNS, repeat=2)])
def test_columns_with_types_in_look_ups_and_conditions(
    left: str, right: str, tmp_path: Path
) -> None:
    known = pa.table({"from": [0, 0], "to": pa.nulls(2, pa.int64()), "id": COLUMNS[left]})
    path = stored(known, tmp_path / "known", "parquet")
    log = pa.table({"ts": [1], "id": COLUMNS[right].slice(0, 1), "o": COLUMNS[left].slice(0, 1)})
    policies = f"""
        relation known = table "{path}" valid [from, to) key id
        policy look_up: exists known[id]
        policy condition: id = o
        policy other: not (id != o)
    """
    with check_log(policies, log) as check:
        found = check.to_arrow().column("verdict").to_pylist()
    is_same = left == right or "other text" not in (left, right)
    assert found == [is_same] * 3


@pytest.mark.parametrize(("left", "right"), [*product(COLUMNS, repeat=2)])
def test_variables_of_columns_with_types(left: str, right: str) -> None:
    """A variable is an argument of two atoms, whose columns have different types."""
    first = pa.array([0, 0])
    columns = {"u": COLUMNS[left].take(first), "w": COLUMNS[right].take(first)}
    log = pa.table({"ts": [1, 2], "event": ["a", "b"], **columns})
    policies = """
        atom left(u) = event = "a"
        atom right(w) = event = "b"
        policy x: right(p) IMPLIES ONCE left(p)
    """
    with check_log(policies, log) as check:
        found = check.to_arrow().column("p").to_pylist()
    is_same = left == right or "other text" not in (left, right)
    assert found == ([] if is_same else ["007" if right == "other text" else "7"])


@pytest.mark.parametrize(
    ("left", "right"),
    [("int64", "text"), ("float", "text"), ("decimal", "int64"), ("int64", "float"),
     ("other text", "int64"), ("dictionary", "float")],
)  # fmt: skip
def test_columns_with_types_in_joins(left: str, right: str, tmp_path: Path) -> None:
    known = pa.table({"from": [0, 0], "to": pa.nulls(2, pa.int64()), "id": COLUMNS[left]})
    path = stored(known, tmp_path / "known", "parquet")
    log = pa.table({"ts": [1, 2], "id": COLUMNS[right]})
    rules = f"""
        relation known = table "{path}" valid [from, to)
        relation both = rows join known on id = known_id select id as id
    """
    found = query(rules, "both", log).to_pylist()
    assert len(found) == (0 if "other text" in (left, right) else 1 + (left == right))


@pytest.mark.parametrize("format", ["parquet", "arrow", "object"])
def test_order_of_tables_with_other_types(format: str, tmp_path: Path) -> None:
    """Integers in one table, and floats in another one, mean the same in either order."""
    whole = pa.table({"ts": [1], "x": [7]})
    tables = [
        stored(whole, tmp_path / "whole", format),
        stored(pa.table({"ts": [1], "x": [7.5]}), tmp_path / "fractions", format),
    ]
    for order in (tables, tables[::-1]):
        with check_log("policy x: x < 7.2 and x = x.last(or: 7)", order) as check:
            found = check.to_arrow().column("verdict").to_pylist()
        assert found == ([True, False] if order is tables else [False, False])
    texts = stored(pa.table({"ts": [1], "x": ["007"]}), tmp_path / "texts", format)
    for order in ([tables[0], texts], [texts, tables[0]]):
        with pytest.raises(TableError, match=r"column 'x': of type .* make the types"):
            check_log("policy x: x = x.last()", order).to_arrow()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_keys_of_frames(library: str) -> None:
    """pandas writes integers beside missing ones as floats, which are no other keys."""
    frames = pytest.importorskip(library)
    left = frames.DataFrame({"ts": [1], "event": ["a"], "id": [7]})
    right = frames.DataFrame({"ts": [2, 3], "event": ["b", "b"], "id": [7.0, 7.5]})
    with check_log("policy x: b IMPLIES ONCE a", [left, right], key="id", event="event") as check:
        assert check.to_arrow().column("verdict").to_pylist() == [True, True, False]


def test_neighbours_of_look_ups() -> None:
    """Integers above 2^53 are not the floats next to them."""
    large = 2**53
    known = pa.table({"start": [0, 0], "end": [9, 9], "id": [large + 1, large], "n": [1, 2]})
    floats = pa.array([float(large), 7.5, float("nan"), None])
    found = LookUp(known, ["id"]).find(np.ones(4, np.int64), [floats])
    assert found.tolist() == [1, -1, -1, -1]
