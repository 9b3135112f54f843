"""The rows that verdicts are about: all formats, keys, clocks, orders, batches and snapshots."""

from __future__ import annotations

import gc
import io
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon import MtlmonError, SnapshotError
from tests.checking.relaying import relayed
from tests.doors import Names, Origins, RowFile, RowPlaces, RowTracker, VerdictRows, VerdictTable
from tests.doors import checking_idle_keys as idle_keys
from tests.doors import checking_late_origins as late_origins
from tests.reference.row_numbers import LogRow, files_of_rows, time_points
from tests.tables.begun import check_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

POLICIES = """\
policy response per user: p IMPLIES EVENTUALLY[0,4] q
policy whole: q IMPLIES EVENTUALLY[0,3] p
policy both per user, host: NEXT (p OR ALWAYS[0,6] q)
policy past per host: ONCE[0,3] p
policy chosen per user on rows where host = "x": p IMPLIES EVENTUALLY[0,9] q
policy ticks per user on every 5: count[0,5](user = "a") < 3
"""
KEYS: dict[str, Callable[[LogRow], tuple[str | None, str | None]]] = {
    "response": lambda row: (row.user, None),
    "whole": lambda row: (None, None),
    "both": lambda row: (row.user, row.host),
    "past": lambda row: (None, row.host),
    "chosen": lambda row: (row.user, None),
}


@st.composite
def some_files(draw: st.DrawFn) -> list[list[LogRow]]:
    """The rows of some files, in order of time but for those that cannot be read."""
    clock = 0
    files = []
    for number in range(draw(st.integers(1, 3))):
        rows: list[LogRow] = []
        for _ in range(draw(st.integers(0, 12))):
            clock += draw(st.sampled_from([0, 0, 1, 2, 7]))
            time_stamp = draw(st.sampled_from([clock, clock, clock, None]))
            user, host = draw(st.sampled_from("abc")), draw(st.sampled_from("xy"))
            names = draw(st.frozensets(st.sampled_from("pq")))
            rows.append(LogRow(f"{number}.csv", len(rows) + 1, time_stamp, user, host, names))
        files.append(rows)
    return files


def write(files: list[list[LogRow]], directory: Path) -> list[str]:
    """Write the files; return their paths."""
    paths = []
    for number, rows in enumerate(files):
        path = directory / f"{number}.csv"
        lines = ["ts,user,host,e"]
        for row in rows:
            stamp = "" if row.time_stamp is None else str(row.time_stamp)
            lines.append(f"{stamp},{row.user},{row.host},{'|'.join(sorted(row.names))}")
        path.write_text("\n".join(lines) + "\n")
        paths.append(str(path))
    return paths


def check(paths: list[str], **options: Any) -> list[dict[str, Any]]:
    options = {"event": "e", "on_error": "skip", "end_time": "last", **options}
    rows: list[dict[str, Any]] = mtlmon.check(POLICIES, paths, **options).to_arrow().to_pylist()
    return rows


def hold_rows(
    found: list[dict[str, Any]], files: list[list[LogRow]], paths: list[str], *, is_sorted: bool
) -> None:
    """Require that each verdict has the row of its time-point."""
    rows = files_of_rows(files, is_sorted=is_sorted)
    points = {name: time_points(rows, key) for name, key in KEYS.items()}
    for one in found:
        if one["policy"] == "ticks":
            assert (one["file"], one["row"]) == (None, None)
            continue
        trace = one["user"], one["host"]
        file, number = points[one["policy"]][trace, one["time"], one["offset"]]
        # behind the header
        assert (one["file"].rpartition("/")[2], one["row"]) == (file, number + 1)
        assert one["file"] in paths


@given(
    some_files(),
    st.sampled_from(["all", "boolean", "false", "first"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 3]),
    st.sampled_from(["local", "global", "naive"]),
    st.sampled_from([None, "last", "inf"]),
    st.integers(0, 9),
)
def test_rows_of_any_files(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[LogRow]],
    verdicts: str,
    is_resolved: bool,
    is_sorted: bool,
    every: int | None,
    mode: str,
    end_time: Any,
    seed: int,
) -> None:
    if is_sorted:
        random.Random(seed).shuffle(files)
        for rows in files:
            order = random.Random(seed).sample(range(len(rows)), len(rows))
            shuffled = [rows[place] for place in order]
            rows[:] = [
                row._replace(number=number, file=row.file) for number, row in enumerate(shuffled, 1)
            ]
        files[:] = [
            [row._replace(file=f"{number}.csv") for row in rows]
            for number, rows in enumerate(files)
        ]
    paths = write(files, tmp_path_factory.mktemp("rows"))
    options: dict[str, Any] = {
        "verdicts": verdicts,
        "resolve": is_resolved,
        "sort": is_sorted,
        "mode": mode,
        "end_time": end_time,
        "advance_every": every,
    }
    found = check(paths, rows=True, **options)
    hold_rows(found, files, paths, is_sorted=is_sorted)
    plain = [{k: v for k, v in one.items() if k not in ("file", "row")} for one in found]
    assert plain == check(paths, **options)


@pytest.mark.parametrize("has_sorted", [False, True])
def test_memory_is_that_of_undecided_time_points(tmp_path: Path, has_sorted: bool) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,e\n" + "".join(f"{number // 10},q\n" for number in range(20_000)))
    found = mtlmon.check(
        "policy a: p IMPLIES EVENTUALLY[0,9] q", str(path), event="e", rows=True, sort=has_sorted
    )
    found.to_arrow()
    tracker = check_of(found).row_tracker
    assert tracker is not None
    assert not len(tracker._places)
    waiting = mtlmon.check(
        "policy a: EVENTUALLY[0,9] p", str(path), event="e", rows=True, verdicts="false",
        mode="naive",
    )  # fmt: skip
    waiting.to_arrow()
    tracker = check_of(waiting).row_tracker
    assert tracker is not None
    assert len(tracker._places) == 100


def test_frames_count_from_0() -> None:
    table = pa.table({"ts": [1, 1, 5], "p": [True, False, True], "file": ["a", "b", "a"]})
    found = mtlmon.check("policy a: NOT p", table, rows=True, key="file").to_arrow()
    assert found.column_names[:3] == ["policy", "key_file", "time"]
    assert found.to_pylist() == [
        {"policy": "a", "key_file": key, "time": time, "offset": 0, "verdict": verdict,
         "reference": None, "file": None, "row": row}
        for key, time, verdict, row in (("a", 1, False, 0), ("b", 1, True, 1), ("a", 5, False, 2))
    ]  # fmt: skip


def test_an_equivalence_has_the_row_of_its_own_time_point() -> None:
    table = pa.table({"ts": [1, 1, 2], "p": [True, True, False], "q": [False, False, True]})
    found = mtlmon.check("p IMPLIES EVENTUALLY[1,5] q", table, rows=True).to_arrow().to_pylist()
    assert [(one["offset"], one["reference"], one["row"]) for one in found] == [
        (1, "1:0", 1),
        (0, None, 0),
        (0, None, 2),
    ]


def test_no_verdicts_take_no_memory() -> None:
    table = pa.table({"ts": [1, 2], "p": [True, False]})
    found = mtlmon.check("EVENTUALLY p", table, rows=True, verdicts="none")
    assert found.to_arrow().num_rows == 0
    assert check_of(found).row_tracker is not None
    assert not check_of(found).row_tracker.held_bytes


LATER = """\
policy soon per user: host.next(or: "y") = "x" IMPLIES EVENTUALLY[0,4] q
policy far: p IMPLIES user.next(2) = "a"
policy both per user, host: user.next(3, or: "b") = "a" OR PREVIOUS p
policy plain per host: p IMPLIES NEXT q
"""
LATER_KEYS = {"soon": "response", "far": "whole", "both": "both", "plain": "past"}


@given(
    some_files(),
    st.sampled_from(["all", "boolean", "false"]),
    st.booleans(),
    st.sampled_from(["local", "global", "naive"]),
    st.sampled_from([None, "last", "inf"]),
)
def test_rows_that_wait_for_later_values(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[LogRow]],
    verdicts: Any,
    is_resolved: bool,
    mode: Any,
    end_time: Any,
) -> None:
    paths = write(files, tmp_path_factory.mktemp("rows"))
    options: dict[str, Any] = {
        "verdicts": verdicts,
        "resolve": is_resolved,
        "mode": mode,
        "end_time": end_time,
        "event": "e",
        "on_error": "skip",
    }
    check = mtlmon.check(LATER, paths, rows=True, **options)
    found = check.to_arrow().to_pylist()
    named = [{**one, "policy": LATER_KEYS[one["policy"]]} for one in found]
    hold_rows(named, files, paths, is_sorted=False)
    plain = [{k: v for k, v in one.items() if k not in ("file", "row")} for one in found]
    assert plain == mtlmon.check(LATER, paths, **options).to_arrow().to_pylist()
    if end_time == "inf" and verdicts == "all":
        assert len(found) == 4 * sum(row.time_stamp is not None for file in files for row in file)


def test_rows_that_have_waited_cannot_be_left_out(tmp_path: Path) -> None:
    """Those behind them at their time-stamp would get their places."""
    path = tmp_path / "log.csv"
    path.write_text(f"ts,x\n1,1\n1,{2**62}\n1,{2**62}\n1,3\n")
    asked: dict[str, Any] = {"on_error": "skip", "end_time": "inf"}
    policy = "policy a: x + x.next(or: 0) > 9"
    assert mtlmon.check(policy, str(path), **asked).to_arrow().num_rows == 3
    with pytest.raises(MtlmonError, match=r"stamp 1: x \+ .*; such rows cannot be left out"):
        mtlmon.check(policy, str(path), rows=True, **asked).to_arrow()


@pytest.mark.parametrize("verdicts", ["all", "false", "first"])
def test_snapshots(tmp_path: Path, verdicts: str) -> None:
    source = random.Random(verdicts)
    files = []
    clock = 0
    for number in range(9):
        rows = []
        for place in range(1, 15):
            clock += source.choice([0, 1])
            names = frozenset(source.sample("pq", source.randrange(2)))
            user, host = source.choice("abc"), source.choice("xy")
            rows.append(LogRow(f"{number}.csv", place, clock, user, host, names))
        files.append(rows)
    paths = write(files, tmp_path)
    expected = check(paths, rows=True, verdicts=verdicts)
    assert expected
    found = relayed(paths, POLICIES, verdicts, event="e", rows=True, slice_events=5)
    assert found == expected
    hold_rows(found, files, paths, is_sorted=False)


def test_files_are_closed_when_the_first_violation_is_found(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.csv" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text(f"ts,p\n{number},0\n")
    paths = list(map(str, files))
    found = mtlmon.check("p", paths, verdicts="first")
    assert found.to_arrow().num_rows == 1
    opened = [one for one in gc.get_objects() if isinstance(one, io.FileIO) and not one.closed]
    assert not [one for one in opened if one.name in paths]


def test_the_row_of_the_first_violation_is_in_snapshots(tmp_path: Path) -> None:
    """It is known only when the time-point before it is decided, two files later."""
    texts = ["1,a,x,p\n2,a,x,q\n", "3,a,x,\n4,a,x,\n", "9,a,x,q\n12,a,x,q\n"]
    paths = []
    for number, text in enumerate(texts):
        paths.append(str(tmp_path / f"{number}.csv"))
        (tmp_path / f"{number}.csv").write_text(f"ts,user,host,e\n{text}")
    policies = "policy a: p IMPLIES EVENTUALLY[5,9] q\npolicy b: NOT q\n"
    (found,) = relayed(paths, policies, "first", event="e", rows=True, slice_events=5)
    assert (found["policy"], found["time"]) == ("b", 2)
    assert (found["file"], found["row"]) == (paths[0], 3)


@pytest.mark.parametrize("verdicts", ["all", "false"])
def test_keys_that_get_other_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdicts: Any
) -> None:
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 8)
    files: list[list[LogRow]] = []
    for number in range(12):
        rows: list[LogRow] = []
        for place in range(20):
            time_stamp = 20 * number + place
            user = f"u{time_stamp}" if place % 3 else f"w{time_stamp}"
            names = frozenset("p" if place % 3 == 0 else "")
            rows.append(LogRow(f"{number}.csv", place + 1, time_stamp, user, "x", names))
        files.append(rows)
    paths = write(files, tmp_path)
    policies = "policy response per user: p IMPLIES EVENTUALLY[0,90] q\n"
    check = mtlmon.check(policies, paths, event="e", rows=True, end_time="inf", verdicts=verdicts)
    found = [{"host": None, **one} for one in check.to_arrow().to_pylist()]
    assert check_of(check).keys_forgotten[0] > 50
    assert sum(one["verdict"] is False for one in found) == 84
    hold_rows(found, files, paths, is_sorted=False)


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("condition", ['what = "a"', 'count[0,9](what = "b") = 0'])
def test_lines_with_a_pattern(tmp_path: Path, is_sorted: bool, condition: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text("-- begin\n1 a\n\n2 b\n-- middle\n-- again\n3 a\n")
    pattern = r"^(?P<ts>\d+) (?P<what>\w+)"
    check = mtlmon.check(condition, str(path), pattern=pattern, rows=True, sort=is_sorted)
    assert check.to_arrow().column("row").to_pylist() == [2, 4, 7]


def test_damaged_snapshots_are_refused() -> None:
    tracker = RowTracker([0], [None], "all")
    other = RowTracker([0], [None], "all")
    tracker.files.number_of(RowFile("a.csv"))
    tracker._places.add(*arrays(0, [3], [5], [0], [0], [7]))
    snapshot = tracker.snapshot()
    assert other.restore(snapshot + b"more") == len(snapshot)
    assert other.snapshot() == snapshot
    for wrong in (snapshot[:-1], snapshot[:3], snapshot[:20].ljust(len(snapshot), b"\xff")):
        with pytest.raises(SnapshotError):
            RowTracker([0], [None], "all").restore(wrong)
    with pytest.raises(ValueError, match="not a snapshot"):
        RowPlaces().restore(tracker._places.snapshot(), 0, 1)
    with pytest.raises(ValueError, match="not a snapshot"):
        RowPlaces().restore(tracker._places.snapshot(), 1, 0)


def arrays(policy: int, *columns: list[int]) -> tuple[Any, ...]:
    kinds = (np.uint32, np.int64, np.uint32, np.uint32, np.int64)
    made = (np.array(one, kind) for one, kind in zip(columns, kinds, strict=True))
    return policy, len(columns[0]), *made


Point = tuple[int, int, int, int]


def changes(seed: str) -> Iterator[tuple[list[Point], list[Point]]]:
    """What comes and goes, by policy, stream, time-stamp and offset."""
    source = random.Random(seed)
    present: list[Point] = []
    seen: set[Point] = set()
    for turn in range(60):
        size = source.choice([1, 40, 900]) if turn % 20 < 12 else 1
        drawn = {
            (source.randrange(3), source.randrange(9), source.randrange(50), source.randrange(99))
            for _ in range(size)
        }
        come = sorted(drawn - seen)
        seen |= set(come)
        present += come
        go = source.sample(present, source.randrange(len(present) + 1))
        yield come, go
        present = [one for one in present if one not in set(go)]


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_the_table_is_a_dictionary(seed: str) -> None:
    places, known = RowPlaces(), dict[Point, tuple[int, int]]()
    for turn, (come, go) in enumerate(changes(seed)):
        for policy in range(3):
            own = [one for one in come if one[0] == policy]
            known |= {one: (turn, number) for number, one in enumerate(own)}
            columns = [list(one) for one in zip(*own, strict=True)] or [[], [], [], []]
            places.add(*arrays(policy, *columns[1:], [turn] * len(own), [*range(len(own))]))
        rows = VerdictRows()
        for policy, stream, time_stamp, offset in go:
            rows.add_false(time_stamp, offset, stream, policy)
        rows.add_false(2**40, 0, 0, 0)
        files, numbers = places.take(rows, "none" if turn % 7 == 6 else "false")
        found = zip(np.frombuffer(files, np.uint32), np.frombuffer(numbers, np.int64), strict=True)
        if turn % 7 == 6:
            assert (files, numbers, len(rows)) == (b"", b"", 0)
        else:
            assert list(found) == [*(known[one] for one in go), (2**32 - 1, -1)]
        for one in go:
            del known[one]
            assert places.find(*one) is None
        assert all(places.find(*one) == place for one, place in known.items())
        assert len(places) == len(known)
        if turn == 26:
            renumbered = np.array([3, 2**32 - 1, 1, 0, 2, 2**32 - 1, 5, 4, 6], np.uint32)
            places.keep([True, False, False], renumbered.tobytes())
            known = {
                (policy, stream if policy else int(renumbered[stream]), time, offset): place
                for (policy, stream, time, offset), place in known.items()
                if policy or renumbered[stream] < 2**32 - 1
            }
            # Later time-points could be those of streams with the same numbers.
            assert known
            assert len(places) == len(known)
            assert all(places.find(*one) == place for one, place in known.items())
            return


def test_columns_of_rows_come_last() -> None:
    table = VerdictTable(["a"], row_tracker=RowTracker([0], [None], "all"))
    assert table.schema.names[-2:] == ["file", "row"]


def test_rows_that_no_verdict_changes_about_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where verdicts are corrected: of each policy, once that is worth looking through them."""
    monkeypatch.setattr(late_origins, "_SPARE_ROWS", 8)
    kept = late_origins.LateOrigins([0, None, 0])
    final: dict[int, int] = {}
    held = []

    def final_below(policy: int) -> NDArray[np.int64] | None:
        return np.array([final[policy]]) if policy in final else None

    for start in range(0, 2000, 10):
        stamps = np.arange(start, start + 10)
        nothing = np.zeros(10, np.int64)
        names = Names(stamps, nothing.astype(np.uint32), nothing.astype(np.uint64))
        kept.add(0, *names, kept.numbered(Origins([RowFile("log")], None, stamps + 1)))
        kept.forget(final_below)
        held.append(kept.held_bytes)
        final = {0: start, 2: start} if start > 1000 else {0: start}
    # in the first half, all rows of the last policy were held
    assert held[-1] < held[100] / 3
    assert held[100] > held[40]
