"""What is read of windows of other instances is as of the reading row or tick."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import check as check_log
from mtlmon.errors import PolicyError, SnapshotError
from tests.cli.process import mtlmon
from tests.doors import streams_native as native
from tests.streams.programs import Row, all_ticks_computed, evaluated
from tests.streams.test_due_ticks import filled
from tests.streams.test_instance_ticks import in_batches, wanted_of
from tests.streams.test_templates import CUTS, FOLDS, SCHEMA, File, rows
from tests.streams.test_ticks import require_same

CASES = [
    case
    for name in ("windows_of_now.toml", "calls.toml")
    for case in tomllib.loads(Path(__file__).with_name(name).read_text())["case"]
]


def log_of(texts: list[str]) -> list[Row]:
    found: list[Row] = []
    for text in texts:
        time, *cells = (None if cell == "-" else int(cell) for cell in text.split())
        row = dict.fromkeys(SCHEMA.names) | dict(zip("kmi", cells, strict=True))
        assert time is not None
        found.append((time, 0, row))
    return found


@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_named_cases(case: dict[str, Any], size: int) -> None:
    file, log = File(case["streams"]), log_of(case["rows"])
    program = file.program()
    reference = file.reference()
    found: list[dict[str, Any] | None] = []
    for place in range(0, len(log), size):
        snapshot = program.snapshot()
        program = file.program()
        program.restore(snapshot)
        found += evaluated(program, log[place : place + size], SCHEMA)
    judged = [reference.row(*row) for row in log]
    overflows = case.get("overflows", [])
    assert [place for place, row in enumerate(found) if row is None] == overflows
    assert [place for place, row in enumerate(judged) if row is None] == overflows
    for name, values in case["values"].items():
        wanted = [None if value != value else value for value in values]  # noqa: PLR0124
        for rows_of in (found, judged):
            assert [None if row is None else row[name] for row in rows_of] == wanted, name


WINDOWS = ["count[0,3]()", "count[2,7](row.b)", "sum[0,4](i)", "avg[0,9](f)", "max[1,4](i)"]
WINDOWS += ["distinct[0,6](s)", "median[0,9](i)", "sum[0,3](i, or: 0) - 1", "count[3,*)()"]
WINDOWS += ["if any[0,2](row.b) then 4 else count[0,8]()", "last[0,3](i)", "i.hold()"]


ENDS = [" until row.b", " until age() > 4", " until silence() >= 3 or row.b"]


@st.composite
def files(draw: st.DrawFn) -> File:
    """Windows of instances that are read at rows and at ticks."""

    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    per = one(["per k as p", "per t as p"]) + one(["", " from row.b", *ENDS])
    known, other = ("x[1]", "x[m]") if "per k" in per else ('x["a"]', "x[s]")
    held = "x[m.hold()]" if "per k" in per else "x[s.hold()]"
    return File(
        f"stream x = {one(WINDOWS)} {per}\n"
        f"stream y = {one([*WINDOWS, 'x', 'x * 2', 'sum[0,6](x)'])} {per}\n"
        f"stream w = {one([*FOLDS, other])}\n"
        f"stream c = {one([*FOLDS, known, *([held] if 'i.hold' not in per else [])])} every 2\n"
        f"stream e = {one([*FOLDS, known])} every {one(['3', '10'])}\n"
    )


@given(files(), rows(), CUTS, st.integers(0, 3), st.booleans(), st.booleans())
def test_ticks_at_which_windows_change_are_due(
    file: File, log: list[Row], cuts: list[int], saved: int, only_due: bool, can_leave_out: bool
) -> None:
    until = log[-1][0] + 12 if log else 7
    try:
        file.program()
    except PolicyError as error:
        # a stream that is held is read at ticks where it can be only
        assert "is looked up at rows" in str(error)
        return
    wanted = wanted_of(file, log, until)
    found, ticks = in_batches(
        file, log, cuts, saved, until, only_due=only_due, can_leave_out=can_leave_out
    )
    require_same((found, filled(ticks, wanted[1]) if only_due else ticks), wanted, file)


OVERFLOWING = [2**62, 2**62, -(2**62), 2**63 - 1, 1, 0, -1]


@given(rows(), CUTS, st.data())
def test_integers_overflow_where_they_are_read(
    log: list[Row], cuts: list[int], data: st.DataObject
) -> None:
    text = data.draw(
        st.sampled_from(
            [
                "stream x = sum[0,4](i) per k\nstream w = count(x > 0 over x)",
                "stream x = sum[1,4](i) * 3 per k\nstream w = max(x over x)",
                "stream x = sum[0,6](i) per k\nstream w = max(x - 1 over x)\nstream v = x[m]",
            ]
        )
    )
    for _, _, row in log:
        row["i"] = data.draw(st.sampled_from(OVERFLOWING))
    file = File(text)
    found, _ = in_batches(file, log, cuts, 1, log[-1][0] + 1 if log else 1, only_due=False)
    wanted, _ = wanted_of(file, log, log[-1][0] + 1 if log else 1)
    require_same((found, []), (wanted, []), file)


def instances_of(*numbers: tuple[int, int]) -> native.Instances:
    """Instances with these keys, of these traces, each begun at a row of time 0."""
    table = native.Instances([False])
    found = np.empty(len(numbers), np.uint32)
    keys = np.array([key for _, key in numbers], np.int64)
    traces = np.array([trace for trace, _ in numbers], np.uint32)
    table.begin()
    batch = native.Batch(np.zeros(len(numbers), np.int64), traces, len(numbers))
    table.run(batch, [keys], [None], None, None, None, None, found)
    assert found.tolist() == list(range(len(numbers)))
    table.begin()
    return table


def found_by(
    changed: native.ChangedInstances,
    table: native.Instances,
    events: list[tuple[int, int, int | None]],
) -> list[tuple[int, int]]:
    """The times and instances that are found for times, traces, and numbers of instances."""
    times = np.array([time for time, _, _ in events], np.int64)
    traces = np.array([trace for _, trace, _ in events], np.uint32)
    own = np.array([2**32 - 1 if one is None else one for _, _, one in events], np.uint32)
    batch = native.Batch(times, traces, len(events))
    found = changed.find(table, batch, own)
    pairs = zip(
        np.frombuffer(found[0], np.int64).tolist(),
        np.frombuffer(found[3], np.uint32).tolist(),
        strict=True,
    )
    return list(pairs)


def test_changes_wait_for_a_row_of_their_trace() -> None:
    table = instances_of((0, 1), (0, 2), (1, 1))
    changed = native.ChangedInstances([6])
    changed.begin()
    assert found_by(changed, table, [(1, 0, 0), (2, 1, 2), (3, 0, 1)]) == [(1, 0), (2, 2), (3, 1)]
    changed.begin()
    snapshot = changed.snapshot()
    # at 9, both of trace 0 have changed; at 20, a row of trace 1 finds the one of trace 1 only
    events: list[tuple[int, int, int | None]] = [(20, 1, None), (21, 0, 1)]
    assert found_by(changed, table, events) == [(20, 2), (21, 0), (21, 1)]
    changed.undo()
    assert changed.snapshot() == snapshot
    assert found_by(changed, table, events[:1]) == [(20, 2)]
    waiting = changed.snapshot()
    assert waiting != snapshot
    other = native.ChangedInstances([6])
    other.restore(waiting, table)
    assert other.snapshot() == waiting
    for one in (changed, other):
        assert sorted(found_by(one, table, events[1:])) == [(21, 0), (21, 1)]


def test_damaged_snapshots_are_refused() -> None:
    table = instances_of((0, 1), (1, 2))
    changed = native.ChangedInstances([1, 6])
    changed.begin()
    found_by(changed, table, [(1, 0, 0), (2, 1, 1), (3, 1, None)])
    snapshot = changed.snapshot()
    refused = 0
    for place in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[place] ^= 0x7F
        other = native.ChangedInstances([1, 6])
        try:
            other.restore(bytes(damaged), table)
        except SnapshotError:
            refused += 1
            continue
        found_by(other, table, [(90, 0, None), (91, 1, None)])
    assert refused > 2
    with pytest.raises(ValueError, match="a delay is above 0"):
        native.ChangedInstances([0])


POLICIES = """\
unit s
key shop
stream freq = count[0,1m]() per product
stream mean = avg[0,2m](amount) per product as id until gone = id
trigger hot: any(freq > 3 over freq) message "{max(freq over freq)}"
trigger dear: max(mean over mean) > 6
policy known: NOT freq[wanted] > 2
trigger silent on every 30s: all(freq = 0 over freq)
trigger often on every 1m: freq["p1"] > 2 message "{sum(freq over freq)} in all"
"""


def made_rows(count: int) -> list[dict[str, Any]]:
    chosen = random.Random(4)
    clock, found = 0, []
    for _ in range(count):
        clock += chosen.choice([0, 1, 2, 5, 5, 40])
        found.append(
            {
                "ts": clock,
                "shop": f"s{chosen.randrange(3)}",
                "product": chosen.choice([None, "p1", "p1", "p2", "p3"]),
                "amount": chosen.choice([None, 1, 5, 9]),
                "gone": chosen.choice([None, None, None, "p2", "p1"]),
                "wanted": chosen.choice(["p1", "p2", "p9"]),
            }
        )
    return found


def test_tables_in_any_blocks() -> None:
    table = pa.Table.from_pylist(made_rows(400))

    def verdicts(size: int, **options: Any) -> list[str]:
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))
        found = check_log(POLICIES, reader, verdicts="false", end_time="last", **options)
        return sorted(map(str, found.to_arrow().to_pylist()))

    with all_ticks_computed():
        wanted = verdicts(400)
    for policy in ("hot", "dear", "known", "silent", "often"):
        assert any(f"'policy': '{policy}'" in one for one in wanted), policy
    for size in (1, 7, 400):
        assert verdicts(size) == wanted
    assert verdicts(7, on_error="skip") == wanted


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    rows_of = made_rows(200)
    names = list(rows_of[0])
    lines = [",".join(names)]
    lines += [
        ",".join("" if row[one] is None else str(row[one]) for one in names) for row in rows_of
    ]
    (tmp_path / "p.mtl").write_text(POLICIES)
    log = tmp_path / "log.csv"
    log.write_text("\n".join(lines) + "\n")
    policies, output, state = (str(tmp_path / one) for one in ("p.mtl", "out", "state"))
    whole = mtlmon("--verdicts", "false", "--end-time", "last", policies, str(log))
    assert whole.output
    arguments = ["--verdicts", "false", "--checkpoint", state, "-o", output, policies, str(log)]
    log.write_text("\n".join(lines[:100]) + "\n")
    mtlmon(*arguments)
    log.write_text("\n".join(lines) + "\n")
    done = mtlmon("--resume", "--end-time", "last", *arguments)
    assert done.status == 1, done.errors
    assert Path(output).read_text() == whole.output


def test_snapshots_of_another_form_are_refused() -> None:
    file = File("stream n = count[0,3]() per k\nstream w = max(n over n)")
    program = file.program()
    evaluated(program, [(0, 0, dict.fromkeys(SCHEMA.names) | {"k": 1})], SCHEMA)
    snapshot = program.snapshot()
    file.program().restore(snapshot)
    with pytest.raises(SnapshotError, match="another version"):
        file.program().restore(snapshot.replace(b"STREAMS-7", b"STREAMS-6", 1))
    held = File("stream n = i.hold() per k\nstream w = max(n over n)")
    with pytest.raises(SnapshotError, match="other streams"):
        held.program().restore(snapshot)


@pytest.mark.parametrize("window", ["count[3,*)()", "distinct[3,*)(i)", "median[3,*)(i)"])
def test_a_snapshot_is_the_same_once_it_is_restored(window: str) -> None:
    """Also where kernels have more room than there are instances."""
    file = File(f"stream x = {window} per k")
    program = file.program()
    for number in range(12):
        evaluated(program, log_of([f"{number} {number} - 1"]), SCHEMA)
        snapshot = program.snapshot()
        other = file.program()
        other.restore(snapshot)
        assert other.snapshot() == snapshot
