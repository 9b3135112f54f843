"""Event logs of process mining (XES) as tables."""

from __future__ import annotations

import gzip
import random
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from mtlmon import check as check_log
from mtlmon.errors import TableError
from tests.cli.process import mtlmon
from tests.doors import XesRows, formats_xes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICY = """
unit s
policy paid: event_paid implies once[0,1h] event_sent
policy cheap: cost < 40 or vip
policy name: `case:concept:name` is not null
atom event_paid = `concept:name` = "paid"
atom vip = `case:vip`
atom event_sent = `concept:name` = "sent"
"""
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<log xmlns="http://www.xes-standard.org/">\n'


def attribute(tag: str, key: str, value: object, inner: str = "") -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"<{tag} key={quoteattr(key)} value={quoteattr(text)}>{inner}</{tag}>\n"


def log_of(seed: int) -> str:
    """A log whose events are in the order of time, with what rows leave out."""
    generator = random.Random(seed)
    nested = '<string key="cost" value="nested"/>'
    time, text = 0, HEAD + '<global scope="event"><string key="concept:name" value="?"/></global>\n'
    for number in range(generator.randrange(1, 9)):
        text += "<trace>\n" + attribute("string", "concept:name", f'a "{number}" <&> é')
        if generator.random() < 0.8:
            text += attribute("boolean", "vip", generator.random() < 0.3, nested)
        for _ in range(generator.randrange(5)):
            time += generator.choice([0, 1, 1800, 5000])
            day = f"2024-05-{1 + time // 86400:02}T{time // 3600 % 24:02}:{time // 60 % 60:02}"
            text += "<event>" + attribute("string", "concept:name", generator.choice(NAMES), nested)
            text += attribute("date", "time:timestamp", f"{day}:{time % 60:02}.000+00:00")
            if generator.random() < 0.8:
                text += attribute("float", "cost", generator.randrange(900) / 8)
            text += f'<list key="cost"><values>{nested}</values></list></event>\n'
        text += "</trace>\n"
    return text + "</log>\n"


NAMES = ["sent", "paid", "called <&>"]


def table_of(text: str) -> pa.Table:
    """The events that a tree of the whole text has."""
    space = "{http://www.xes-standard.org/}"
    kinds: dict[str, Callable[[str], object]] = {
        "float": float,
        "boolean": lambda value: value == "true",
    }
    rows = []
    for trace in ElementTree.fromstring(text.encode()).iter(f"{space}trace"):
        of_trace = {}
        for one in trace:
            if one.tag != f"{space}event":
                convert = kinds.get(one.tag.removeprefix(space), str)
                of_trace[f"case:{one.get('key')}"] = convert(one.get("value") or "")
        for event in trace.iter(f"{space}event"):
            row: dict[str, object] = dict(of_trace)
            for one in event:
                if one.get("value") is not None:
                    convert = kinds.get(one.tag.removeprefix(space), str)
                    row[str(one.get("key"))] = convert(one.get("value") or "")
            rows.append(row)
    schema = pa.schema(
        [
            ("case:concept:name", pa.string()),
            ("case:vip", pa.bool_()),
            ("concept:name", pa.string()),
            ("time:timestamp", pa.string()),
            ("cost", pa.float64()),
        ]
    )
    return pa.Table.from_pylist(rows, schema)


@pytest.mark.parametrize("seed", range(8))
def test_events_are_those_of_the_tree(tmp_path: Path, seed: int) -> None:
    text = log_of(seed)
    table = table_of(text)
    path = tmp_path / "log.xes.gz"
    path.write_bytes(gzip.compress(text.encode()))
    for key in ((), "case:concept:name"):
        expected = check_log(POLICY, table, time="time:timestamp", key=key).to_arrow()
        found = check_log(POLICY, str(path), key=key)
        if not table.num_rows:
            assert found.to_arrow().num_rows == 0
            continue
        try:
            assert found.to_arrow().equals(expected)
        except TableError as error:
            # of a short log, in which nothing has this column
            name = "case:vip" if "case:vip" in str(error) else "cost"
            assert table[name].null_count == table.num_rows


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_parts_of_a_file_do_not_matter(size: int) -> None:
    text = log_of(3).encode()
    whole, parts = XesRows("a.xes", None), XesRows("a.xes", None)
    whole.add(text)
    block = whole.take()
    assert block is not None
    found, lines = b"", []
    for start in range(0, len(text), size):
        parts.add(text[start : start + size])
        if (some := parts.take()) is not None:
            found += some.buffer.to_pybytes()
            lines += [some.line_of(row) for row in range(some.row_count)]
    whole.end()
    parts.end()
    assert found == block.buffer.to_pybytes() and parts.count == whole.count > 3
    assert lines == [block.line_of(row) for row in range(block.row_count)]
    starts = [one.start() for one in re.finditer(b"<event>", text)]
    assert lines == [1 + text[:start].count(b"\n") for start in starts]


def test_the_command_reads_xes(tmp_path: Path) -> None:
    path = tmp_path / "log.xes"
    path.write_text(log_of(5))
    policy = tmp_path / "p.mtl"
    policy.write_text(POLICY)
    key = ["--key", "case:concept:name"]
    expected = mtlmon(*key, str(policy), str(path))
    assert expected.output.count("\n") == 3 * table_of(log_of(5)).num_rows > 0
    assert mtlmon(*key, str(policy), log=log_of(5)) == expected
    assert mtlmon("check-policy", str(policy), str(path)).status == 0
    # traces come one after the other, so times are seldom in order
    text = log_of(5).replace("2024-05-01T00:00", "2024-06-01T00:00", 1)
    path.write_text(text)
    ended = mtlmon(str(policy), str(path))
    assert ended.status == 2 and "the rows are out of order: add --sort" in ended.errors
    assert mtlmon("--sort", str(policy), str(path)).status in (0, 1)


BOMB = """<?xml version="1.0"?>
<!DOCTYPE log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<log><trace><string key="concept:name" value="&b;"/></trace></log>
"""
EVENT = '<event><date key="time:timestamp" value="2024-05-01T00:00:00Z"/></event>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, ":2: the entity 'a' is declared, and XES has no entities"),
        ('<!DOCTYPE log [<!ENTITY a SYSTEM "/etc/passwd">]><log/>', "the entity 'a' is declared"),
        (
            f"<log><trace>\n{EVENT}",
            ":2: not XML, or not complete: no element found at column 73",
        ),
        ("<log><trace></log>", ":1: not XML, or not complete: mismatched tag at column 15"),
        ("\n<html/>", ":2: the file begins with <html>, but XES with <log>"),
        ("", "no element found"),
        (
            f'<log><trace>{EVENT}\n<string key="a" value="b"/></trace></log>',
            ":2: an attribute of a trace behind its first event",
        ),
        ("<log>" + "<list>" * 2000, "nested more than 1000 deep"),
        (f"<log><trace>{EVENT}</trace></log>", "no row has a column 'x' for the predicates"),
    ],
)
def test_files_that_are_not_xes(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.xes"
    path.write_text(text)
    with pytest.raises(TableError) as caught:
        check_log("policy p: x > 1", str(path)).to_arrow()
    assert message in str(caught.value)


def test_events_before_an_error_count(tmp_path: Path) -> None:
    path = tmp_path / "log.xes"
    path.write_text(f"<log><trace>{EVENT}<event>")
    ended = mtlmon("-e", "`time:timestamp` > `time:timestamp`", str(path))
    assert ended.output == "1714521600:0 false\n" and ended.status == 2


def test_values_that_do_not_fit_their_tag() -> None:
    rows = XesRows("a", None)
    attributes = [
        attribute("int", "a", "12"),
        attribute("int", "b", "1x"),
        attribute("float", "c", "NaN"),
        attribute("boolean", "d", "maybe"),
        attribute("id", "e", "7"),
        '<string key="f"/><string value="g"/>',
        attribute("int", "h", "9" * 30),
    ]
    rows.add(f"<log><event>{''.join(attributes)}</event></log>".encode())
    rows.end()
    block = rows.take()
    assert block is not None
    expected = (
        f'{{"a": 12, "b": "1x", "c": null, "d": "maybe", "e": "7", "f": null, "h": "{"9" * 30}"}}\n'
    )
    assert block.buffer.to_pybytes().decode() == expected


def test_an_attribute_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser keeps it as a whole, so there is a limit."""
    monkeypatch.setattr(formats_xes, "_MOST_BYTES", 1 << 16)
    rows = XesRows("a", ())
    rows.add(b'<log><trace><string key="a" value="')
    with pytest.raises(TableError, match="an attribute of more than 0 MiB"):
        for _ in range(100):
            rows.add(b"x" * 4096)
