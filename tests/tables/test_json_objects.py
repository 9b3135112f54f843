"""JSON lines in the usual form: what is read without the library for JSON is what Python reads."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import numpy as np  # noqa: E402
from pyarrow import json as json_of_arrow  # noqa: E402

from mtlmon import MtlmonError, check  # noqa: E402
from tests.doors import PlainObjects  # noqa: E402

COLUMNS = {
    "t": pa.string(),
    "n": pa.int64(),
    "x": pa.float64(),
    "b": pa.bool_(),
    "a.b": pa.string(),
    "nothing": pa.null(),
}
VALUES: dict[str, list[Any]] = {
    "t": [
        "",
        "a",
        "é…",
        "a text of more than sixteen characters",
        "0123456789abcdef",
        'an "escape"',
        "\b\f\n\r\t\\/\x00\x1f",
        "C:\\users\\é",
        "\u07ff\u0800\uffff\n",
        None,
    ],
    "n": [0, 7, -7, 10**17, -(10**18) + 1, None],
    "x": [0, 0.5, -0.5, 12, -3, 1.25, 123456789.125, 0.1, 99999.99999, None],
    "b": [True, False, None],
    "a.b": ["c", None],
    "nothing": [None],
}
OTHERS = [
    0, -1.5e-7, "", 'a "quoted" text', "tab\t, line\n and \u0001", "\u20ac", True, None, [], {},
    [1, [2.5, "}"], {}], {"t": "inner", "n": [{}]}, "\\",
]  # fmt: skip


def read(text: bytes, columns: dict[str, Any] = COLUMNS) -> dict[str, list[Any]] | None:
    found = PlainObjects().read(np.frombuffer(text, np.uint8), columns)
    if found is None:
        return None
    for name, column in found.items():
        assert column.type == columns[name]
        column.validate(full=True)
    return {name: column.to_pylist() for name, column in found.items()}


def by_python(text: bytes) -> dict[str, list[Any]]:
    rows = [json.loads(line) for line in text.split(b"\n") if line.strip(b" \t\r")]
    return {name: [row.get(name) for row in rows] for name in COLUMNS}


def by_library(text: bytes) -> dict[str, list[Any]]:
    options = json_of_arrow.ParseOptions(
        explicit_schema=pa.schema(list(COLUMNS.items())), unexpected_field_behavior="ignore"
    )
    found = json_of_arrow.read_json(pa.BufferReader(text), parse_options=options)
    return {name: found.column(name).to_pylist() for name in COLUMNS}


def line(source: random.Random) -> str:
    row = {name: source.choice(values) for name, values in VALUES.items()}
    row |= {f"other{k}": source.choice(OTHERS) for k in range(source.randrange(4))}
    names = source.sample(sorted(row), source.randrange(len(row) + 1))
    return json.dumps(
        {name: row[name] for name in names},
        ensure_ascii=source.random() < 0.5,
        separators=source.choice([(",", ":"), (", ", ": "), (" ,\t", " :  ")]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_lines_in_the_usual_form(seed: int) -> None:
    source = random.Random(seed)
    lines = [line(source) for _ in range(source.choice([1, 7, 8, 9, 200]))]
    blanks = ["", " \t", "\r"] * source.randrange(2)
    lines = source.sample(lines + blanks, len(lines) + len(blanks))
    text = source.choice(["\n", "\r\n", " \n"]).join(lines).encode()
    text += source.choice([b"", b"\n"])
    assert read(text) == by_python(text)


def test_blocks_that_are_read_in_parts() -> None:
    source = random.Random(1)
    lines = [line(source) for _ in range(60_000)]
    lines[100] = json.dumps({"z": "z" * 3_000_000, "n": 5})
    text = "\n".join(lines).encode()
    assert len(text) > 6_000_000
    assert read(text) == by_python(text)


def test_changed_lines() -> None:
    """Where a byte is changed, it is read as Python and the library read it, or not at all."""
    source = random.Random(3)
    pieces = ['"', "\\", "{", "}", "[", "]", ",", ":", "0", "1", "-", ".", "e", "E9", "n", "t",
              "null", " ", "\x00", "\x1f", "\x7f", "\\u00e9", '"n":1,', '"t":"x",', "\\ud800",
              "\\x"]  # fmt: skip
    was_read = 0
    for _ in range(6000):
        lines = [line(source) for _ in range(source.randrange(1, 3))]
        changed = lines[0]
        for _ in range(source.randrange(1, 3)):
            first = source.randrange(len(changed) + 1)
            last = first + source.randrange(3)
            changed = changed[:first] + source.choice(pieces) * source.randrange(2) + changed[last:]
        text = "\n".join([changed, *lines[1:]]).encode()
        found = read(text)
        if found is not None:
            was_read += 1
            assert found == by_python(text)
            assert found == by_library(text)
    assert was_read > 1000


@pytest.mark.parametrize(
    "text",
    [
        '{"t": "\\q"}', '{"t": "\\ud83d\\ude00"}', '{"t": "\\u00e"}', '{"t": 1}',
        '{"t": true}', '{"t": []}', '{"t": "a", "t": "b"}', '{"t"}',
        '{"\\u0074": "a"}', '{"n": 1.0}', '{"n": 1e3}', '{"n": -0}', '{"n": 01}', '{"n": "1"}',
        '{"n": 1234567890123456789}', '{"n": +1}', '{"n": }', '{"n": 1 2}', '{"n": tru}',
        '{"x": 1e3}', '{"x": 0.1234567890123456}', '{"x": .5}', '{"x": 1.}', '{"x": NaN}',
        '{"b": 1}', '{"b": "true"}', '{"nothing": 1}', '{"z": 1e999}', '{"z": "\\ud800"}',
        '{"z": "\\q"}', '{"z": [1,]}', '{"z": {1: 2}}', '{"z": tru}', '{"z": 01}', '{"z": "\t"}',
        "[" * 50 + "]" * 50, '{"z": ' + "[" * 50 + "]" * 50 + "}", "null", "7", "{", "}", "{}{}",
        '{"t": "a"} x', '{"t": "a",}', '{"t": "a"', '{"t": "a', '{"t', '{"t":', '{"z": 1', '{"z":',
        '{"z": -', '{"z": "', '{"z": "\\', '{"z": [', '{"z": {"a"', '{"t": n',
    ],
)  # fmt: skip
def test_what_is_unusual_is_not_read(text: str) -> None:
    for before, after in ("", ""), ("", "\n"), ('{"t": "a"}\n', '\n{"n": 1}'):
        assert read(f"{before}{text}{after}".encode()) is None


def test_nothing_to_read() -> None:
    assert read(b"") is None
    assert read(b" \n\r\n") is None
    assert read(b'{"t": "a"}', {}) is None
    assert read(b'{"t": "a"}', {"t": pa.decimal128(38, 18)}) is None
    assert read(b'{"t": "a"}', {f"c{k}": pa.string() for k in range(65)}) is None
    many = {f"c{k}": pa.int64() for k in range(64)}
    row = json.dumps({name: k for k, name in enumerate(many)} | {f"z{k}": k for k in range(90)})
    assert read(f"{row}\n{row}".encode(), many) == {f"c{k}": [k, k] for k in range(64)}


def test_a_block_that_is_unusual_is_left_out_once() -> None:
    reader = PlainObjects()

    def is_read(text: bytes) -> bool:
        return reader.read(np.frombuffer(text, np.uint8), {"t": pa.string()}) is not None

    usual, unusual = b'{"t": "a"}', b'{"t": 1}'
    assert [is_read(usual), is_read(unusual), is_read(usual), is_read(usual)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert [is_read(unusual), *(is_read(usual) for _ in range(3))] == [False, False, False, True]


# What stands in a line in the place of a value, most of it unusual.
ODD = [
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"'),
    *(b'"\\U0041"', b'"\\x41"'),
    *(b'"\xff"', b'"\xc0\xaf"', b'"\xe0\x80\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"'),
    *(b'"\xf0\x9f\x98\x80"', b'"\x00"', b'"\x7f"', b'"\\u2028"', b'"\\/"', b"'x'", b'""', b'"1"'),
    *(b"%d" % (sign * 2**power) for sign in (1, -1) for power in (53, 62, 63, 64, 200)),
    *(b"9" * 15, b"9" * 16, b"9" * 18, b"1" + b"0" * 18, b"1e400", b"-1e400", b"1e-400", b"1E5"),
    *(b"-0", b"-0.0", b"00", b"1.", b".5", b"NaN", b"Infinity", b"tru", b"true", b"null", b"3.0"),
    *(b'["x"]', b"{}", b"[" * 40 + b"]" * 40, b'{"a":' * 40 + b"1" + b"}" * 40),
    *(b"[" * 3000 + b"]" * 3000, b'{"t":"\\ud800"}', b'{"a":1,"a":2}'),
]  # fmt: skip
MEMBERS = [
    b'"\\u0074":"x"',
    b'"\\ud800":1',
    b'"\xff":1',
    b'"":1',
    b'"a\\u0000":1',
    b'"t":"x"',
    b'"z":1',
]
POLICIES = """
atom a = t = "x"
atom b = n > 3
atom c = x < 2.5
stream last = n.hold()
policy p: a OR b
policy q: c OR f
"""


def odd_lines(source: random.Random) -> bytes:
    """Lines in the usual form, of which a few have something that is not."""
    values = {
        "t": [b'"x"', b'"y"', b"null"],
        "n": [b"1", b"7", b"null"],
        "x": [b"1.5", b"3", b"null"],
        "f": [b"true", b"false"],
        "z": [b"1", b'"q"', b"[]"],
    }
    lines = []
    for time in range(source.choice([1, 2, 5, 20])):
        row = {name: source.choice(some) for name, some in values.items()}
        row["ts"], row["k"] = b"%d" % time, b'"k"'
        if source.random() < 0.15:
            row[source.choice(sorted(row))] = source.choice(ODD)
        items = [
            b'"%s":%s' % (name.encode(), value)
            for name, value in row.items()
            if source.random() < 0.97
        ]
        if source.random() < 0.05:
            items.append(source.choice(MEMBERS))
        source.shuffle(items)
        lines.append(b"{" + b",".join(items) + b"}\n")
    return b"".join(lines)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_unusual_is_read_as_the_library_reads_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answers, and the same errors, as if there were no other reader."""

    def found(**options: Any) -> list[object]:
        said: list[object] = []
        try:
            run = check(POLICIES, log, key=["t", "k"], verdicts="all", **options)
            said += [(one.policy, one["t"], one["k"], one.time, one.verdict) for one in run]
            said += run.messages
        except MtlmonError as error:
            said += [type(error), str(error)]
        return said

    log = tmp_path / "log.jsonl"
    for number in range(5):
        log.write_bytes(odd_lines(random.Random(f"{seed} {number}")))
        ours = [found(), found(on_error="skip")]
        with monkeypatch.context() as patched:
            patched.setattr(PlainObjects, "read", lambda *_: None)
            assert [found(), found(on_error="skip")] == ours
