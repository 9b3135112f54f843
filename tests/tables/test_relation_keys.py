"""Tables with policies with variables for each key: what is said of the rows of each key alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon import RelationalMonitor
from mtlmon.errors import MtlmonError, PolicyError
from tests.doors import keyed_file

_ATOMS = """
unit s
atom read(f) = what = "read"
atom open(f) = what = "open"
atom closes = what = "close"
let held(f) = NOT closes SINCE open(f)
"""
_POLICIES = """
policy again: read(f) IMPLIES PREVIOUS open(f)
policy recent: read(f) IMPLIES ONCE[0,3] open(f)
policy owned: read(f) IMPLIES held(f)
policy followed: open(f) IMPLIES NEXT[0,4] read(f)
policy ended: open(f) IMPLIES EVENTUALLY[0,3] (closes AND NOT read(f))
policy few: COUNT(ONCE[0,4] (read(f) AND time(t))) <= 2
policy never: EXISTS f. read(f) OR open(f)
policy kept: read(f) IMPLIES (read(f) SINCE[0,5] open(f))
find twice: read(f) AND PREVIOUS read(f)
find large: read(f) AND big AND NOT PREVIOUS big
"""

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "step": st.sampled_from([0, 0, 1, 2]),
            "ip": st.sampled_from(["a", "b", "c d"]),
            "host": st.sampled_from(["x", "y"]),
            "what": st.sampled_from(["read", "open", "close"]),
            "f": st.sampled_from(["1", "2"]),
            "big": st.booleans(),
        }
    ),
    max_size=10,
)
_TEXTS = ("ip", "host", "what", "f")
_SCHEMA = pa.schema(
    [("ts", pa.int64()), *((name, pa.string()) for name in _TEXTS), ("big", pa.bool_())]
)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    time, found = 0, []
    for row in rows:
        time += row["step"]
        found.append({**row, "ts": time})
    return pa.Table.from_pylist(found, schema=_SCHEMA)


def answers(table: pa.Table, text: str, **options: Any) -> list[dict[str, Any]]:
    found = mtlmon.check(text, table, **options).to_arrow().to_pylist()
    return [{name: value for name, value in one.items() if value is not None} for one in found]


def by_content(rows: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted(sorted(row.items()) for row in rows)


@settings(max_examples=60)
@given(
    rows=ROWS,
    key=st.sampled_from([["ip"], ["host", "ip"]]),
    verdicts=st.sampled_from(["false", "all"]),
    time_points=st.sampled_from(["row", "stamp"]),
    end_time=st.sampled_from(["last", "inf"]),
)
def test_each_key_by_itself(
    rows: list[dict[str, Any]], key: list[str], verdicts: str, time_points: str, end_time: Any
) -> None:
    table = table_of(rows)
    options: dict[str, Any] = {"verdicts": verdicts, "time_points": time_points}
    text = f"key {', '.join(key)}\n{_ATOMS}{_POLICIES}"
    found = answers(table, text, end_time=end_time, **options)
    if end_time == "last" and rows:
        # all keys share the clock of the log
        end_time = table.column("ts").to_pylist()[-1]
    keys = dict.fromkeys(tuple(row[name] for name in key) for row in rows)
    expected, in_the_end = [], []
    for one in keys:
        named = dict(zip(key, one, strict=True))
        own = [row for row in table.to_pylist() if all(row[name] == named[name] for name in key)]
        alone = pa.Table.from_pylist(own, schema=_SCHEMA)
        part = answers(alone, _ATOMS + _POLICIES, end_time=end_time, **options)
        expected += [{**row, **named} for row in part]
        part = answers(alone, _ATOMS + _POLICIES, end_time="inf", **options)
        in_the_end += [{**row, **named} for row in part]
    if end_time != "inf":
        # what looks ahead to another row of a key is answered once time has passed its interval
        ahead = [row for row in found if row["policy"] == "followed"]
        assert all(row in in_the_end for row in ahead)
        found, expected = (
            [row for row in some if row["policy"] != "followed"] for some in (found, expected)
        )
    assert by_content(found) == by_content(expected)
    times = [row["time"] for row in found if row["policy"] == "recent"]
    assert times == sorted(times)


@settings(max_examples=60)
@given(rows=ROWS, slices=st.sampled_from([None, 2]), cut=st.integers(0, 10))
def test_monitor_and_command_agree(
    rows: list[dict[str, Any]], slices: int | None, cut: int
) -> None:
    """A monitor that is fed in two parts, and saved between them, finds what a check does."""
    table = table_of(rows)
    text = f"key ip\n{_ATOMS}{_POLICIES}"
    monitor = RelationalMonitor(text, slices=slices)
    found = monitor.feed(table.slice(0, cut))
    saved = monitor.snapshot()
    monitor = RelationalMonitor(text, slices=slices)
    monitor.restore(saved)
    found += monitor.feed(table.slice(cut))
    found += monitor.finish()
    named = [{"policy": one.policy, "time": one.time_stamp, "offset": one.offset,
              "ip": one.key[0], **one.valuation} for one in found]  # fmt: skip
    expected = answers(table, text, end_time="inf")
    wanted = [{name: value for name, value in row.items() if name != "verdict"} for row in expected]
    assert by_content(named) == by_content(wanted)


def test_a_policy_without_a_key_is_over_the_whole_log() -> None:
    rows = [
        {"step": 1, "ip": ip, "host": "x", "what": what, "f": "1"}
        for ip, what in [("a", "open"), ("b", "read"), ("a", "read")]
    ]
    text = f"key ip\n{_ATOMS}policy whole per none: read(f) IMPLIES PREVIOUS open(f)\n"
    text += "policy own: read(f) IMPLIES PREVIOUS open(f)\n"
    text += "policy hosts per host: read(f) IMPLIES PREVIOUS open(f)\n"
    found = [(row["policy"], row.get("ip"), row.get("host"), row["time"])
             for row in answers(table_of(rows), text)]  # fmt: skip
    assert found == [
        ("own", "b", None, 2), ("whole", None, None, 3), ("hosts", None, "x", 3)
    ]  # fmt: skip


def test_a_step_has_a_key() -> None:
    monitor = RelationalMonitor("key ip\npolicy own: read(f) IMPLIES PREVIOUS open(f)")
    assert monitor.step(1, {"open": [("x",)]}, key={"ip": "a"}) == []
    (found,) = monitor.step(1, {"read": [("x",)]}, key={"ip": "b"})
    assert (found.key, found.valuation) == (("b",), {"f": "x"})
    assert monitor.step(2, {"read": [("x",)]}, key={"ip": "a"}) == []
    with pytest.raises(ValueError, match="the policy has the key ip"):
        monitor.step(3, {"read": [("x",)]})
    with pytest.raises(TypeError, match="the key ip is a text"):
        monitor.step(3, {}, key={"ip": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("policy p: read(f) IMPLIES NEXT read(f)", "NEXT looks ahead without bound"),
        ("policy p: EVENTUALLY EXISTS f. read(f)", "EVENTUALLY looks ahead without bound"),
        ("find p: read(f) AND point(i)", "the number of a time-point says nothing"),
        ("find p: EXISTS i. read(f) AND point(i) AND i > 3", "says nothing"),
        ("let n(i) = point(i)\nfind p: EXISTS i. read(f) AND n(i) AND i > 3", "says nothing"),
        ("find p: EXISTS i. read(i) AND point(i)", "says nothing"),
        ("find p: EXISTS f. read(f) AND point(3)", "says nothing"),
    ],
)
def test_what_cannot_be_said_of_keys_is_refused(policy: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        mtlmon.check(f"key ip\n{_ATOMS}{policy}\n", table_of([]))
    mtlmon.check(f"{_ATOMS}{policy}\n", table_of([]))


def test_rows_without_a_key_are_unusable(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,ip,what,f\n1,,read,x\n")
    with pytest.raises(MtlmonError, match="ip"):
        mtlmon.check(f"key ip\n{_ATOMS}policy p: read(f) IMPLIES open(f)\n", log).to_arrow()


def test_a_file_is_rewritten_once() -> None:
    from mtlmon.policy import parse_policies

    file = parse_policies("key ip\npolicy own: read(f) IMPLIES PREVIOUS open(f)")
    keyed = keyed_file(file, ("ip",))
    assert keyed is not file
    assert keyed_file(keyed, ("ip",)) is keyed


def test_a_find_can_be_over_the_whole_log() -> None:
    table = pa.table({"ts": [1, 2, 3], "u": ["a", "b", "b"], "x": [5, 5, 6]})
    text = "key u\natom seen(x) = x > 0\nfind whole per none: seen(x) AND PREVIOUS seen(x)\n"
    text += "find own: seen(x) AND ONCE[1,9] seen(_)\n"
    with mtlmon.check(text, table) as check:
        rows = check.to_arrow().to_pylist()
    assert [(row["policy"], row["u"], row["time"], row["x"]) for row in rows] == [
        ("whole", None, 2, 5),
        ("own", "b", 3, 6),
    ]


def test_not_a_number_is_a_key() -> None:
    """As for policies without variables; the reference is the same policy without an argument."""
    table = pa.table(
        {"ts": [1, 2, 3], "k": [float("nan"), 1.5, float("nan")], "x": [1, 1, 1], "f": [True] * 3}
    )
    text = "key k\natom seen(x) = f\npolicy own: seen(x) IMPLIES ONCE[1,5] seen(x)\n"
    text += "policy plain: f IMPLIES ONCE[1,5] f\n"
    for time_points in ("row", "stamp"):
        options = {"time_points": time_points}
        found = [(row["policy"], row["k"], row["time"]) for row in answers(table, text, **options)
                 if row["verdict"] is not True]  # fmt: skip
        assert ("own", "nan", 1) in found
        assert ("own", "nan", 3) not in found
        assert [row[1:] for row in found if row[0] == "own"] == [
            row[1:] for row in found if row[0] == "plain"
        ]
