"""A name that occurs twice in a row is an error, in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet  # noqa: E402

from mtlmon import check as check_log  # noqa: E402
from mtlmon.errors import MtlmonError, TableError  # noqa: E402
from tests.cli.process import mtlmon  # noqa: E402
from tests.tables.begun import events_of  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

POLICY = "policy p: x > 2"

# rationale: which of both is meant is not known, and the verdict depends on it
LOGFMT = """\
ts=1 x=3 msg="x=1 x=2" xx=1 ax=1
ts=2 x=1 x=100
ts=3 x=1 msg="a b" y x=1
ts=4 msg="said \\"x=5\\"" x=4
ts=5 ts=6 x=3
ts=7 y=1 y=2 x=3
"""


def test_lines_of_pairs(tmp_path: Path) -> None:
    log = tmp_path / "log.log"
    log.write_text(LOGFMT)
    with pytest.raises(TableError, match=r"log:2: column 'x': the line has it twice; on_error"):
        check_log(POLICY, str(log), pattern="logfmt").to_arrow()
    check = check_log(POLICY, str(log), pattern="logfmt", on_error="skip")
    assert check.to_arrow()["time"].to_pylist() == [1, 4, 7]
    assert [(error.line, error.column) for error in events_of(check).errors] == [
        (2, "x"),
        (3, "x"),
        (5, "ts"),
    ]
    ended = mtlmon("--pattern", "logfmt", "-e", "x > 2", str(log))
    assert ended.status == 2 and "the line has it twice" in ended.errors


def test_lines_of_pairs_in_many_blocks(tmp_path: Path) -> None:
    log = tmp_path / "log.log"
    lines = [f"ts={k} x={k}{' x=0' if k % 1000 == 7 else ''} {'z' * 50}" for k in range(60_000)]
    log.write_text("\n".join(lines))
    check = check_log(POLICY, str(log), pattern="logfmt", on_error="skip")
    check.to_arrow()
    assert events_of(check).skipped == 60 and events_of(check).rows == 60_000
    assert [error.line for error in events_of(check).errors[:3]] == [8, 1008, 2008]


@pytest.mark.parametrize(
    "row",
    [
        '{"ts": 1, "x": 1, "x": 100}',
        '{"ts": 1, "ts": 2, "x": 3}',
        '{"ts": 1, "x": 3, "k": "a", "k": "a"}',
    ],
)
def test_objects(tmp_path: Path, row: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(f'{{"ts": 0, "x": 3, "k": "a"}}\n{row}\n{{"ts": 2, "x": 3, "k": "a"}}\n')
    with pytest.raises(TableError, match=r"log\.jsonl:2: column '.*': the row has it twice"):
        check_log(POLICY, str(log), key="k").to_arrow()
    check = check_log(POLICY, str(log), key="k", on_error="skip")
    assert check.to_arrow().num_rows == 2 and events_of(check).skipped == 1


def test_headers_patterns_and_schemas(tmp_path: Path) -> None:
    header = tmp_path / "log.csv"
    header.write_text("ts,x,x\n1,1,100\n")
    lines = tmp_path / "log.log"
    lines.write_text("1 1 100\n")
    table = pa.table([[1], [1], [100]], names=["ts", "x", "x"])
    parquet.write_table(table, tmp_path / "log.parquet")
    pattern = r"(?P<ts>\d+) (?P<x>\d+) (?P<x>\d+)"
    for source, given in (
        (str(header), None),
        (str(lines), pattern),
        (str(tmp_path / "log.parquet"), None),
        (table, None),
    ):
        with pytest.raises(MtlmonError, match="2 columns are called 'x': rename all but one"):
            check_log(POLICY, source, pattern=given).to_arrow()


def test_attributes_of_events(tmp_path: Path) -> None:
    time = '<date key="time:timestamp" value="2024-05-01T08:00:00Z"/>'
    one, two = (f'<int key="x" value="{number}"/>' for number in (3, 4))
    events = [one, one + two, one, one + one]
    text = "".join(f"<event>{event}{time}</event>" for event in events)
    log = tmp_path / "log.xes"
    log.write_text(f'<log xmlns="http://www.xes-standard.org/"><trace>{text}</trace></log>')
    with pytest.raises(TableError, match="column 'x': the row has it twice"):
        check_log(f"unit s\n{POLICY}", str(log)).to_arrow()
    check = check_log(f"unit s\n{POLICY}", str(log), on_error="skip")
    assert check.to_arrow().num_rows == 2 and events_of(check).skipped == 2


# rationale: both ways of writing a column occur in one log, and each row means what it says
DOTTED = [
    ('{"ts": 1, "a.b": 3}', True),
    ('{"ts": 2, "a": {"b": 4, "c": 1}}', True),
    ('{"ts": 3, "a": {"b": 1}}', False),
    ('{"ts": 4, "a": {"b": 3}, "a.b": 3}', True),
    ('{"ts": 5, "a": {"b": null}, "a.b": 5}', True),
    ('{"ts": 6, "a": {}, "a.b": 1}', False),
    ('{"ts": 7, "a": {"b": 7}, "a.b": null}', True),
    ('{"ts": 8}', False),
]


@pytest.mark.parametrize("first", range(len(DOTTED)))
def test_names_with_dots_and_within_objects(tmp_path: Path, first: int) -> None:
    rows = [*DOTTED[first:], *DOTTED[:first]]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{row}\n" for row, _ in rows))
    found = check_log("policy p: `a.b` > 2", str(log), sort=True).to_arrow()
    assert found["verdict"].to_pylist() == [verdict for _, verdict in DOTTED]


def test_other_ways_of_writing_a_name_in_later_blocks(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    ways = ('{"ts": %d, "a.b": 3, "x": "%s"}\n', '{"ts": %d, "a": {"b": 3}, "x": "%s"}\n')
    for one, other in (ways, ways[::-1]):
        lines = [one % (number, "z" * 100) for number in range(40_000)]
        lines[39_990] = other % (39_990, "")
        log.write_text("".join(lines))
        check = check_log("policy p: `a.b` > 2", str(log))
        check.to_arrow()
        assert check.counts["p"].false == 0


def test_both_ways_with_different_values(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rows = [row for row, _ in DOTTED]
    log.write_text("\n".join([*rows[:4], '{"ts": 5, "a": {"b": 3}, "a.b": 4}', *rows[5:]]))
    message = r"log\.jsonl:5: the row has a\.b and b in a with different values"
    with pytest.raises(TableError, match=message):
        check_log("policy p: `a.b` > 2", str(log)).to_arrow()
    check = check_log("policy p: `a.b` > 2", str(log), on_error="skip")
    assert check.to_arrow().num_rows == 7 and events_of(check).skipped == 1


def test_flat_names_beside_values_of_their_first_part(tmp_path: Path) -> None:
    """Where nothing is within an object, `a` may be anything."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"ts": 1, "a": 5, "a.b": 3}\n{"ts": 2, "a": "x", "a.b": 1, "b": 2}\n')
    found = check_log("policy p: `a.b` > 2", str(log)).to_arrow()
    assert found["verdict"].to_pylist() == [True, False]
