"""JSON lines: what is no object, and columns that no row has."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon  # noqa: E402
from mtlmon import TableError  # noqa: E402
from mtlmon.policy import parse_policies  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.doors import (  # noqa: E402
    LINES_OF_TEXT,
    object_rows,
)
from tests.tables.reading import all_rows, keyed, read  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

P, NONE = frozenset("p"), frozenset[str]()

# What stands in a line, and whether the line is one object.
LINES = {
    "null": (b"null", False),
    "null, then an object": (b'null{"ts":2}', False),
    "null, then an object with atoms": (b'null{"ts":2,"p":true}', False),
    "null after an object": (b'{"ts":2,"p":true}null', False),
    "null between objects": (b'{"ts":2}null{"ts":2}', False),
    "a number": (b"17", False),
    "a text": (b'"ts"', False),
    "a Boolean": (b"true", False),
    "an array": (b"[1]", False),
    "an array of an object": (b'[{"ts":2,"p":true}]', False),
    "two objects": (b'{"ts":2}{"ts":2,"p":true}', False),
    "two objects with a carriage return between": (b'{"ts":2}\r{"ts":2}', False),
    "an object and a word": (b'{"ts":2} x', False),
    "an object and a comma": (b'{"ts":2},', False),
    "a comment": (b'{"ts":2}//x', False),
    "a byte order mark": (b'\xef\xbb\xbf{"ts":2}', False),
    "a NUL byte before it": (b'\0{"ts":2}', False),
    "a NUL byte behind it": (b'{"ts":2}\0', False),
    "a NUL byte in a text": (b'{"ts":2,"z":"\0"}', False),
    "a brace": (b"{", False),
    "the other brace": (b"}", False),
    "braces the wrong way round": (b"}{", False),
    "no end": (b'{"ts":2', False),
    "a text without its end": (b'{"ts":2,"z":"}', False),
    "an array without its end": (b'{"ts":2,"z":[{}', False),
    "half a surrogate pair": (b'{"ts":2,"z":"\\ud800"}', False),
    "half a surrogate pair as a name": (b'{"ts":2,"\\udc00":1}', False),
    "a number beyond floats": (b'{"ts":2,"z":1e999}', False),
    "a time twice": (b'{"ts":2,"ts":2}', False),
    "an atom twice": (b'{"ts":2,"p":true,"p":false}', False),
    "a comma too many": (b'{"ts":2,}', False),
    "blanks around it": (b' \t{"ts":2} \t\r', True),
    "a deep array": (b'{"ts":2,"z":' + b"[" * 200_000 + b"]" * 200_000 + b"}", True),
    "a deep object": (b'{"z":' * 200_000 + b"1" + b"}" * 200_000, False),
    "a deep array as an atom": (b'{"ts":2,"p":' + b"[" * 9000 + b"]" * 9000 + b"}", False),
    "a long number": (b'{"ts":2,"z":' + b"9" * 100_000 + b"}", True),
    "a long number as time": (b'{"ts":' + b"9" * 5000 + b"}", False),
    "another column twice": (b'{"ts":2,"z":1,"z":2}', True),
}

CHILD = """
import sys
from mtlmon import MtlmonError
from mtlmon.tables import open_tables
for path in sys.argv[1:]:
    rows = []
    with open_tables(path, ("p",), on_error="skip") as tables:
        for batch in tables:
            rows += zip(batch.time_stamps.tolist(), batch.letters[:, 0].tolist())
    with open_tables(path, ("p",)) as strict:
        try:
            list(strict)
            row = 0
        except MtlmonError as error:
            row = error.row
    print(tables.rows, tables.skipped, rows, row, flush=True)
"""


def test_lines_that_are_no_object(tmp_path: Path) -> None:
    """Some of them end the process within the library that reads them, hence another one; and
    none may become an event. Each stands first, between other lines, and last.
    """
    good = [b'{"ts":1,"p":true}', b'{"ts":3,"p":false}']
    expected = []
    paths = []
    for number, (line, is_one) in enumerate(LINES.values()):
        for place in range(3):
            # a byte order mark may begin a file
            is_object = is_one or (place == 0 and line.startswith(b"\xef\xbb\xbf"))
            path = tmp_path / f"{number}-{place}.jsonl"
            lines = [*good[:place], line, *good[place:]]
            path.write_bytes(b"\n".join(lines) + b"\n" * (place % 2))
            times = [(1, 1), (3, 0)]
            if is_object:
                # the time 2 is out of order before the first and behind the last event
                times.insert(place, (2, 0))
            skipped = int(not is_object)
            if is_object and place == 0:
                times, skipped = [(2, 0), (3, 0)], 1
            elif is_object and place == 2:
                times, skipped = [(1, 1), (3, 0)], 1
            bad = (2 if place == 0 else place + 1) if is_object else place + 1
            bad = 0 if is_object and place == 1 else bad
            paths.append(path)
            expected.append(f"3 {skipped} {times} {bad}")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, check=False
    )
    names = [f"{name} at {place}" for name in LINES for place in range(3)]
    found = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, ""), names[len(found)]
    assert dict(zip(names, found, strict=True)) == dict(zip(names, expected, strict=True))


def test_what_says_which_line_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"ts":1,"p":true}\n\n  \nnull\n{"ts":2,"p":true}{"ts":2}\n{"ts":3}\n')
    with open_tables(path, ("p",), on_error="skip") as tables:
        assert all_rows(tables, ("p",)) == [(1, P), (3, NONE)]
        assert [str(error) for error in tables.errors] == [
            f"{path}:4: not a JSON object",
            f"{path}:5: more than one JSON object in the line",
        ]
        assert (tables.rows, tables.skipped) == (4, 2)
    path.write_text("\n \t \n")
    assert read(path, "p") == []
    path.write_text('null\n{"ts":1}\n')
    with pytest.raises(TableError, match=r"log.jsonl:1: .* in JSON lines each line is one object$"):
        read(path, "p")


def test_many_lines_that_are_no_object(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    count = 200_000
    path.write_text("null\n" * count + '{"ts":1,"p":true}\n' + "[]\n" * count)
    with open_tables(path, ("p",), on_error="skip") as tables:
        assert all_rows(tables, ("p",)) == [(1, P)]
        assert tables.skipped == 2 * count
        assert [error.line for error in tables.errors] == list(range(1, 11))


@pytest.mark.parametrize("seed", range(12))
def test_bad_rows_among_others(seed: int, tmp_path: Path) -> None:
    """Wherever bad rows are, and however many, the others are read, and the first are named."""
    source = random.Random(seed)
    share = source.choice([0.01, 0.2, 0.9])
    bad = [
        '{"ts":%d,"n":"x7"}',
        '{"ts":%d,"n":true}',
        '{"ts":%d,"n":[7]}',
        "null%d",
        '{"ts":%d',
        "",
    ]
    good = {
        '{"ts":%d,"n":7}': P,
        '{"ts":%d,"n":" 07"}': P,
        '{"ts":%d,"n":1}': NONE,
        '{"ts":%d,"n":null}': NONE,
        '{"ts":%d}': NONE,
    }
    lines = ['{"ts":0,"n":7}'] * 1000
    expected, faults = [(0, P)] * 1000, []
    for time in range(1, 400):
        form = source.choice(bad if source.random() < share else [*good])
        lines.append(form % time if form else form)
        if form in good:
            expected.append((time, good[form]))
        elif form:
            faults.append(len(lines))
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    predicates = parse_policies("atom p = n > 4\npolicy x: p").predicates
    with open_tables(path, ("p",), predicates=predicates, on_error="skip") as tables:
        assert all_rows(tables, ("p",)) == expected
        assert tables.skipped == len(faults)
        assert [error.line for error in tables.errors] == faults[:10]
    seen = []
    with open_tables(path, ("p",), predicates=predicates) as tables:
        try:
            for batch in tables:
                seen += batch.time_stamps.tolist()
        except TableError as error:
            assert error.line == faults[0]
    assert seen == [time for time, _ in expected if not faults or time < faults[0] - 999]


def test_lines_against_python(tmp_path: Path) -> None:
    """Lines put together from pieces: what Python reads as an object is a row, and nothing else."""
    source = random.Random(5)
    pieces = ['{"ts":1}', '{"p":[{}]}', "null", " ", "\r", "{", "}", "[", "]", ",", '"', '"{"', "1"]
    for number in range(60):
        lines = ["".join(source.choices(pieces, k=source.randrange(5))) for _ in range(60)] + [
            '{"ts":5}'
        ]
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes("\n".join(lines).encode())
        rows = [line for line in lines if line.strip(" \t\r")]
        objects = [_object(line) for line in rows]
        with open_tables(path, (), on_error="skip", sort=True) as tables:
            stamps = [stamp for stamp, _ in all_rows(tables, ())]
            assert tables.rows == len(rows)
        times = [row["ts"] for row in objects if row is not None and "ts" in row]
        assert stamps == sorted(times)
        text = path.read_bytes()
        starts = LINES_OF_TEXT.row_starts(text, len(text))
        assert len(starts) - 1 == object_rows(text, len(text))[0] == len(rows)


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


ABSENT = [
    # of the event column
    ({"event": "wht"}, "policy x: a", "no row has a column 'wht' for the names of events; did you "
     "mean 'what'?"),
    ({}, "policy x: y", "no row has a column 'y' for the atom y; if one column names the events, "
     "say which with event=. Columns: 'ts', 'what', 'n', 'user', 'o'"),
    ({}, "atom a = m > 3\npolicy x: a", "no row has a column 'm' for the predicates"),
    ({}, "atom a = usr = \"x\"\npolicy x: a", "no row has a column 'usr' for the predicates; did "
     "you mean 'user'?"),
    ({"event": "o.x"}, "policy x: a", "no row has a column 'o.x' for the names of events"),
    ({"event": "z"}, "policy x: a", "no row has a column 'z' for the names of events; did you mean "
     "'o.z'?"),
    ({}, "atom a = z > 3\npolicy x: a", "no row has a column 'z' for the predicates; did you mean "
     "`o.z`?"),
    ({"event": "what", "key": "z"}, "policy x: a", "no column 'z' for the key; did you mean 'o.z'"),
    ({"event": "what", "key": "usr"}, "policy x: a", "no column 'usr' for the key; did you mean "
     "'user'?"),
    ({"event": "what", "time": "at"}, "policy x: a", "no column 'at' for the times"),
]  # fmt: skip


@pytest.mark.parametrize("options, policies, message", ABSENT)
def test_columns_that_no_row_has(
    options: dict[str, Any], policies: str, message: str, tmp_path: Path
) -> None:
    """Rows need not have all columns, but a column that none has is a mistake, as in CSV; what the
    rows say is said before.
    """
    path = tmp_path / "log.jsonl"
    row = {"ts": 1, "what": "a", "n": 7, "user": "ann", "o": {"z": None}}
    path.write_text(f"{json.dumps(row)}\n" * 3 + '{"ts": 2, "ok": false}\n')
    with mtlmon.check(policies, path, **options) as check:
        verdicts = []
        with pytest.raises(TableError) as caught:
            for batch in check.batches():
                verdicts += batch.column("time").to_pylist()
    assert message in str(caught.value)
    assert verdicts == ([] if "key" in options or "time" in options else [1, 1, 1, 2])
    with (
        mtlmon.check(policies, path, on_error="skip", **options) as check,
        pytest.raises(TableError, match="no row has a column"),
    ):
        check.to_arrow()
    path.write_text("")
    with mtlmon.check(policies, path, **options) as check:
        assert len(check.to_arrow()) == 0


def test_columns_that_some_row_has(tmp_path: Path) -> None:
    """Null is a value; a column may begin late, in another file, or be written with escapes."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"ts": 1}\n' * 100_000 + '{"ts": 1, "what": null}\n')
    assert len(read(path, "p", event="what")) == 100_001
    path.write_text('{"ts": 1}\n{"ts": 1, "\\u00fcber": null}\n')
    assert read(path, "p", event="über") == [(1, NONE)] * 2
    path.write_text('{"ts": 1}\n{"ts": 1, "a": {"b" : null}}\n')
    assert read(path, "p", event="a.b") == [(1, NONE)] * 2
    other = tmp_path / "other.jsonl"
    other.write_text('{"ts": 2, "what": ["p"]}\n')
    assert read([path, other], "p", event="what") == [(1, NONE), (1, NONE), (2, P)]
    # the name of a column as a value is not the column
    path.write_text('{"ts": 1, "z": "what", "a": {"what": 1}, "b": "\\"what\\": 1"}\n')
    with pytest.raises(TableError, match="no row has a column 'what'"):
        read(path, "p", event="what")


def test_a_column_that_only_objects_in_many_rows_have(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"ts": 1, "a": {"what": "p"}}\n' * 1000)
    with pytest.raises(TableError, match=r"no row has a column 'what'.*did you mean 'a.what'"):
        read(path, "p", event="what")


def test_objects_and_what_is_in_them(tmp_path: Path) -> None:
    """A column can be used beside one within it, in any order of their names."""
    path = tmp_path / "log.jsonl"
    lines = ['{"ts": 1, "a": {"b": {"c": 1}, "d": 2}}', '{"ts": 2, "a": null}', '{"ts": 3}']
    lines += ['{"ts": 4, "a": {"b": null}}', '{"ts": 5, "a": {}}']
    path.write_text("\n".join(lines))
    for terms in permutations(["a is null", "`a.b` is not null", "`a.b.c` = 1"]):
        policies = f"atom p = {' or '.join(terms)}\npolicy x: p"
        with mtlmon.check(policies, path) as check:
            verdicts = check.to_arrow().column("verdict").to_pylist()
        assert verdicts == [True, True, True, False, False], terms
    with (
        mtlmon.check("policy x: `a.d` = 2", path, key="a") as check,
        pytest.raises(TableError, match="cannot write the key of 'a' as text: its values are obj"),
    ):
        check.to_arrow()
    # where most values are texts, objects are at fault, and so is what is looked for in them
    path.write_text('{"ts": 1, "a": "x"}\n{"ts": 2, "a": "y"}\n{"ts": 3, "a": {"b": 1}}\n')
    with (
        mtlmon.check('policy x: a = "x" OR `a.b` = 1', path) as check,
        pytest.raises(TableError, match="column 'a': an object instead of a string"),
    ):
        check.to_arrow()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ('[{"ts": 1}, {"ts": 2}]', "jq -c '.[]' makes such lines of an array"),
        ('[\n{"ts": 1}\n]\n', "jq -c '.[]' makes such lines of an array"),
        ('{\n "ts": 1\n}\n', "jq -c . makes such lines"),
    ],
)
def test_json_that_is_not_in_lines(text: str, advice: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(TableError) as caught:
        read(path, "p")
    assert str(caught.value).endswith(f"each line is one object; {advice}")


def test_atoms_that_no_row_has(tmp_path: Path) -> None:
    """Rows may name only the atoms that hold: then one that never holds is in no row. Where some
    are false, rows say of each atom whether it holds.
    """
    path = tmp_path / "log.jsonl"
    path.write_text('{"ts": 1, "p": true}\n{"ts": 2}\n')
    with open_tables(path, ("p", "error")) as tables:
        assert all_rows(tables, ("p", "error")) == [(1, P), (2, NONE)]
        assert tables.unseen_atoms == ("error",)
    path.write_text('{"ts": 1, "p": true}\n{"ts": 2, "eror": false}\n')
    with pytest.raises(TableError, match="for the atom error; did you mean 'eror'"):
        read(path, "p error")


def test_a_key_that_no_row_has_and_rows_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"ts": 1, "p": true, "user": "a"}\n' * 100_000)
    with open_tables(path, ("p",), key="usr", on_error="skip") as tables:
        with pytest.raises(TableError, match="no row has a column 'usr' for the key; did you mean"):
            list(tables)
        assert tables.skipped == 100_000
        assert (
            str(tables.errors[0]) == f"{path}:1: no column 'usr' for the key; did you mean 'user'?"
        )


def test_predicates_on_columns_of_later_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"ts": 1}\n' * 100_000 + '{"ts": 2, "n": 5}\n')
    predicates = parse_policies("atom p = n > 3\npolicy x: p").predicates
    assert read(path, "p", predicates=predicates)[-1] == (2, P)
    assert keyed(path, "p", predicates=predicates, key="n", on_error="skip") == [(("5",), 2, P)]
