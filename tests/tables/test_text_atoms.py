"""Look-ups of text logs in relations of tables, in any batches, against bags at their times."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError, PolicyError
from mtlmon.policy import parse_policies
from tests.doors import NOTHING, Plans, TextBatch, declared_records, text_streams
from tests.reference import relations as reference

if TYPE_CHECKING:
    from pathlib import Path

    from mtlmon.policy import PolicyFile

DECLARED = """
relation limits = table "limits.jsonl" valid [from, to)
relation least = limits group k select min(v) as v, count() as n
relation high = least where v > 1 select k as k
stream fails = count[0,3](p)
atom a = exists limits
atom b = least["x"].v > 0
stream c = any[0,0](p and exists high[k = (if fails > 1 then "x" else "y")])
atom h = c
atom d = least["y"].n.last() = fails
atom e = fails > coalesce(least[lower("X")].v, 2)
stream f = exists limits[v = fails]
atom g = count[0,4](f) > 1
"""
NAMES = ("a", "b", "d", "e", "g", "h")

RECORDS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12) | st.none(), st.sampled_from("xy"))
    .map(lambda one: (*one[:2], one[2]))
    .flatmap(lambda one: st.integers(0, 3).map(lambda v: (*one, v))),
    max_size=5,
)
EVENTS = st.lists(st.tuples(st.integers(0, 14), st.booleans()), max_size=12).map(sorted)


def expected(file: PolicyFile, events: list[tuple[int, bool]]) -> list[set[str]]:
    """The atoms at each event, from what is valid at its time."""
    tables = declared_records(file, "high", {"resolution": None})
    (path,) = tables
    rows = [list(row.values()) for row in tables[path].to_pylist()]
    names = tables[path].schema.names[2:]
    records = [(row[0], inf if row[1] is None else row[1], tuple(row[2:])) for row in rows]
    known = {path: reference.relation(names, [(a, min(b, inf), row) for a, b, row in records])}
    plans = Plans(file, {path: tables[path].schema.remove(0).remove(0)}, NOTHING)
    bags = {name: reference.evaluate(plans.of(name), known) for name in file.intervals}

    def at(name: str, time: int, **keys: Any) -> list[dict[str, Any]]:
        bag = bags[name]
        found = (dict(zip(bag.names, row, strict=True)) for row in bag.snapshot(time).elements())
        return [one for one in found if all(one[key] == value for key, value in keys.items())]

    def one(name: str, column: str, time: int, **keys: Any) -> Any:
        found = at(name, time, **keys)
        return found[0][column] if found else None

    answer: list[set[str]] = []
    last = None
    seen: list[tuple[int, bool, bool]] = []
    for number, (time, p) in enumerate(events):
        fails = sum(q for other, q in events[: number + 1] if time - other <= 3)
        is_high = p and bool(at("high", time, k="x" if fails > 1 else "y"))
        seen.append((time, bool(at("limits", time, v=fails)), is_high))
        v = one("least", "v", time, k="x")
        holds = {
            "a": bool(at("limits", time)),
            "b": v is not None and v > 0,
            "d": last == fails,
            "e": fails > (2 if v is None else v),
            "g": sum(found for other, found, _ in seen if time - other <= 4) > 1,
            "h": any(found for other, _, found in seen if other == time),
        }
        n = one("least", "n", time, k="y")
        last = last if n is None else n
        answer.append({name for name, held in holds.items() if held})
    return answer


@settings(max_examples=40, deadline=None)
@given(RECORDS, EVENTS, st.lists(st.integers(0, 12), max_size=3))
def test_atoms(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[int, int | None, str, int]],
    events: list[tuple[int, bool]],
    cuts: list[int],
) -> None:
    folder = tmp_path_factory.mktemp("text")
    # a record that is valid behind all events gives the columns their types
    rows = [{"from": 90, "to": 91, "k": "x", "v": 0}]
    rows += [{"from": a, "to": b, "k": k, "v": v} for a, b, k, v in records if b is None or a < b]
    (folder / "limits.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = parse_policies(DECLARED, str(folder / "p.mtl"), needs_policy=False)
    streams = text_streams(file, NAMES, None, "log")
    assert streams.atoms.log_atoms == ("p",)
    places = sorted({0, *(min(cut, len(events)) for cut in cuts), len(events)})
    found: list[set[str]] = []
    for start, end in pairwise(places):
        part = events[start:end]
        times = np.array([time for time, _ in part], np.int64).tobytes()
        letters = np.array([p for _, p in part], np.uint64).tobytes()
        for piece in streams.pieces(TextBatch(times, letters, ("p",))):
            bits = piece.letters_of(0)
            found += [{n for n in NAMES if int(row[0]) >> piece.atoms.index(n) & 1} for row in bits]
    assert streams.error is None
    assert found == expected(file, events)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("atom a = exists limits[road]", "there is no column road in a text log"),
        ("atom a = limits[ts].most = 1", "relation limits has no column most"),
        ("atom a = exists limits[k = p]", "there is no column p in a text log"),
        (
            "relation r = rows valid 3\natom a = exists r",
            "relation r reads the rows of the log, but the log is read as text, whose rows have no",
        ),
        (
            'relation t = table "lost.csv" valid [a, b)\natom a = exists t',
            "cannot read .*lost.csv: No such file",
        ),
    ],
)
def test_errors(tmp_path: Path, declared: str, message: str) -> None:
    (tmp_path / "limits.csv").write_text("from,to,k,v\n0,9,x,1\n")
    text = f'relation limits = table "limits.csv" valid [from, to) key k\n{declared}\n'
    file = parse_policies(text, str(tmp_path / "p.mtl"), needs_policy=False)
    batch = TextBatch(np.array([1], np.int64).tobytes(), bytes(8), ())
    with pytest.raises((PolicyError, MtlmonError), match=message):
        list(text_streams(file, ("a",), None, "log").pieces(batch))


def test_several_records_are_an_error_of_the_event(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("from,to,v\n0,9,1\n5,7,2\n")
    text = 'relation limits = table "limits.csv" valid [from, to)\natom a = limits[].v = 1\n'
    file = parse_policies(text, str(tmp_path / "p.mtl"), needs_policy=False)
    times = np.array([4, 6, 7], np.int64).tobytes()
    asked: list[tuple[Literal["stop", "skip"], list[int]]] = [("stop", [4]), ("skip", [4, 7])]
    for on_error, kept in asked:
        streams = text_streams(file, ("a",), None, "log", on_error=on_error)
        found = list(streams.pieces(TextBatch(times, bytes(24), ())))
        assert [time for piece in found for time in piece.time_stamps] == kept
        if on_error == "skip":
            assert (streams.error, streams.skipped) == (None, 1)
            continue
        message = "log: at time-stamp 6: limits[].v is not one value: several records of limits"
        assert str(streams.error).startswith(message)
