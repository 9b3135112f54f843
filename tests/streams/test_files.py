"""Policy files with windows, streams and lets, on tables in files, against plain loops."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from pyarrow import csv, parquet

from mtlmon import check as check_log
from mtlmon.errors import MtlmonError
from tests.cli.kills import run_killed
from tests.cli.process import mtlmon
from tests.doors import checking_idle_keys as idle_keys
from tests.doors import checking_text_logs as text_logs
from tests.doors import cli_command as command
from tests.doors import formats_rows as blocks
from tests.tables.begun import events_of

POLICIES = """\
unit s
zone "Europe/Berlin"
key  user
const limit = 3

atom   failed   = status = 401 and path = "/login"
stream fails    = count[0,1m](failed)
stream requests = requests.last(or: 0) + 1
stream before   = amount.last(or: 0)
stream large    = amount on amount > 500
let    hot      = fails >= limit
let    restless = hot AND PREVIOUS hot

policy once: NOT (hot AND NOT PREVIOUS hot)
policy recovers: hot IMPLIES EVENTUALLY[0,40s] status = 200
policy restless: count[0,2m](restless) < 2
policy jumps: not amount - before >= 600
policy grows: large >= large.last() or status = 200
policy many: requests <= 25
policy average: avg[5s,1m](latency, or: 0.0) < 1.25
policy all per none: count[0,5s](failed) < 3
policy spread per path, host: distinct[0,30s](user) < 4
policy hours: hour(ts) >= 8 and hour(ts) < 18 or weekday(ts) in ("sat", "sun") or not failed
policy plain: failed IMPLIES ONCE[0,2m] status = 200
"""
PARTITIONS = {"all": (), "spread": ("path", "host")}
Row = dict[str, Any]


class Verdict(NamedTuple):
    """What the command says of a row."""

    policy: str
    user: str | None
    path: str | None
    host: str | None
    time: int
    offset: int
    verdict: bool


def make_rows(count: int, seed: int = 5) -> list[Row]:
    source = random.Random(seed)
    time = 1_714_700_000
    rows = []
    for number in range(count):
        time += source.choice([0, 0, 1, 2, 7, 30])
        if number % 50 == 49:
            time += 7200
        rows.append(
            {
                "ts": time,
                "user": f"u{source.randrange(6)}",
                "host": source.choice(["a", "b"]),
                "path": source.choice(["/login", "/login", "/home"]),
                "status": source.choice([401, 401, 200, 500]),
                "amount": source.choice([None, source.randrange(1000), source.randrange(1000)]),
                "latency": source.choice([None, source.randrange(200) / 64]),
            }
        )
    return rows


def at_rows(times: Sequence[int], row: int, lower: int, upper: int) -> list[int]:
    """The rows of a trace that a row's window [lower, upper] holds."""
    return [j for j in range(row + 1) if lower <= times[row] - times[j] <= upper]


def verdicts_of(policy: str, trace: Sequence[Row]) -> list[bool]:
    """The verdicts of a policy on the rows of one trace."""
    times = [row["ts"] for row in trace]
    count = len(trace)
    failed = [row["status"] == 401 and row["path"] == "/login" for row in trace]
    ok = [row["status"] == 200 for row in trace]
    hot = [sum(failed[j] for j in at_rows(times, i, 0, 60)) >= 3 for i in range(count)]
    restless = [i > 0 and hot[i] and hot[i - 1] for i in range(count)]
    result = []
    for i in range(count):
        amounts = [row["amount"] for row in trace[:i] if row["amount"] is not None]
        amount = trace[i]["amount"]
        if policy == "once":
            value = not (hot[i] and not (i > 0 and hot[i - 1]))
        elif policy == "recovers":
            later = [j for j in range(i, count) if times[j] - times[i] <= 40]
            value = not hot[i] or any(ok[j] for j in later)
        elif policy == "restless":
            value = sum(restless[j] for j in at_rows(times, i, 0, 120)) < 2
        elif policy == "jumps":
            before = amounts[-1] if amounts else 0
            value = amount is None or amount - before < 600
        elif policy == "grows":
            large = [one for one in amounts if one > 500]
            is_large = amount is not None and amount > 500
            value = ok[i] or (is_large and bool(large) and amount >= large[-1])
        elif policy == "many":
            value = i + 1 <= 25
        elif policy == "average":
            seen = [trace[j]["latency"] for j in at_rows(times, i, 5, 60)]
            known = [one for one in seen if one is not None]
            value = not known or sum(known) / len(known) < 1.25
        elif policy == "all":
            value = sum(failed[j] for j in at_rows(times, i, 0, 5)) < 3
        elif policy == "spread":
            value = len({trace[j]["user"] for j in at_rows(times, i, 0, 30)}) < 4
        elif policy == "hours":
            local = datetime.fromtimestamp(times[i], ZoneInfo("Europe/Berlin"))
            value = 8 <= local.hour < 18 or local.weekday() >= 5 or not failed[i]
        else:
            value = not failed[i] or any(ok[j] for j in at_rows(times, i, 0, 120))
        result.append(value)
    return result


NAMES = [line.split()[1].rstrip(":") for line in POLICIES.splitlines() if line[:6] == "policy"]


def expected(rows: Sequence[Row], names: Sequence[str] = NAMES) -> list[Verdict]:
    found = []
    for policy in names:
        key = PARTITIONS.get(policy, ("user",))
        traces: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in rows:
            traces[tuple(row[name] for name in key)].append(row)
        for values, trace in traces.items():
            own = dict(zip(key, values, strict=True))
            seen: dict[int, int] = defaultdict(int)
            for row, value in zip(trace, verdicts_of(policy, trace), strict=True):
                columns = own.get("user"), own.get("path"), own.get("host")
                found.append(Verdict(policy, *columns, row["ts"], seen[row["ts"]], value))
                seen[row["ts"]] += 1
    return sorted(found, key=str)


def verdicts(table: pa.Table) -> list[Verdict]:
    return sorted(
        (Verdict(*(row.get(name) for name in Verdict._fields)) for row in table.to_pylist()),
        key=str,
    )


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def write(rows: Sequence[Row], path: Path, group: int = 37) -> str:
    table = table_of(rows)
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=group)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


ROWS = make_rows(300)
EXPECTED = expected(ROWS)


def test_the_rows_tell_policies_apart() -> None:
    """Each policy is true at some rows and false at others."""
    for name in NAMES:
        assert {one.verdict for one in EXPECTED if one.policy == name} == {False, True}, name


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("size", [64, 1 << 10, 1 << 18])
def test_files(suffix: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "FIRST_BLOCK_BYTES", size)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    path = write(ROWS, tmp_path / f"log.{suffix}", max(1, size // 64))
    found = check_log(POLICIES, path, resolve=True, end_time="inf").to_arrow()
    assert verdicts(found) == EXPECTED


@pytest.mark.parametrize("size", [1, 3, 50, 1000])
def test_batches(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the check would forget the keys that its monitors need no more."""
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 1)
    table = table_of(ROWS)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))
    assert verdicts(check_log(POLICIES, reader, resolve=True, end_time="inf").to_arrow()) == (
        EXPECTED
    )


def test_rows_can_be_sorted() -> None:
    times = [row["ts"] for row in ROWS]
    # rows with equal times keep their order
    order = sorted(range(len(ROWS)), key=lambda place: -times[place])
    table = table_of([ROWS[place] for place in order])
    found = check_log(POLICIES, table, resolve=True, end_time="inf", sort=True).to_arrow()
    assert verdicts(found) == EXPECTED


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_command(suffix: str, tmp_path: Path) -> None:
    policies, report, out = tmp_path / "p.mtl", tmp_path / "r.html", tmp_path / "v.parquet"
    policies.write_text(POLICIES)
    path = write(ROWS, tmp_path / f"log.{suffix}")
    options = ["--resolve", "--end-time", "inf", "--report", str(report)]
    options += ["-o", str(out), "--output-format", "parquet"]
    done = mtlmon(*options, "--summary", str(policies), path)
    assert done.status == 1, done.errors
    assert verdicts(parquet.read_table(out)) == EXPECTED
    page = report.read_text()
    for name in NAMES:
        false = sum(not one.verdict for one in EXPECTED if one.policy == name)
        assert name in page
        assert str(false) in page


def test_explanations_name_rows_that_violate(tmp_path: Path) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text(POLICIES)
    rows = ROWS[:100]
    path = write(rows, tmp_path / "log.csv")
    options = ["--end-time", "inf", "--verdicts", "false", "--explain", "--explain-limit", "1000"]
    done = mtlmon(*options, str(policies), path)
    assert done.status == 1, done.errors
    wanted = [f"{one.time}:{one.offset}" for one in expected(rows) if not one.verdict]
    said = [line.split(" ")[0] for line in done.errors.splitlines() if " violates " in line]
    assert sorted(said) == sorted(wanted)
    shown = [line.split("\t")[-1].split(" ")[0] for line in done.output.splitlines()]
    assert sorted(shown) == sorted(wanted)


def test_constants_can_be_set_for_a_run(tmp_path: Path) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text(POLICIES)
    path = write(ROWS, tmp_path / "log.csv")
    done = mtlmon("--set", "limit=100000", "--verdicts", "false", str(policies), path)
    names = {line.split("\t")[0] for line in done.output.splitlines()}
    assert names == set(NAMES) - {"once", "recovers", "restless"}


SUMS = """\
unit s
key user
stream total = sum[0,1m](amount)
policy small: total < 3000
policy count per none: count[0,1m](amount > 0) < 4
policy twice: amount * 2 < 100000
"""


def kept_rows(rows: Sequence[Row]) -> tuple[list[Row], list[int]]:
    """The rows on which no integer overflows, where the others are none; and the others."""
    kept: list[Row] = []
    refused = []
    for number, row in enumerate(rows):
        own = [one for one in kept if one["user"] == row["user"] and row["ts"] - one["ts"] <= 60]
        total = sum(one["amount"] for one in [*own, row] if one["amount"] is not None)
        double = 2 * (row["amount"] or 0)
        if all(-(2**63) <= value < 2**63 for value in (total, double)):
            kept.append(row)
        else:
            refused.append(number)
    return kept, refused


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("size", [64, 1 << 18])
def test_rows_that_overflow_are_no_rows(
    suffix: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "FIRST_BLOCK_BYTES", size)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    source = random.Random(2)
    rows = make_rows(200)
    for row in rows:
        if source.random() < 0.3:
            row["amount"] = source.choice([2**62, 2**62 - 1, -(2**62), 2**61, -(2**63)])
    kept, refused = kept_rows(rows)
    assert len(refused) > 10
    path = write(rows, tmp_path / f"log.{suffix}", max(1, size // 64))
    wanted = check_log(SUMS, table_of(kept), resolve=True).to_arrow()
    check = check_log(SUMS, path, resolve=True, on_error="skip")
    assert check.to_arrow().to_pylist() == wanted.to_pylist()
    assert events_of(check).skipped == len(refused)
    with pytest.raises(MtlmonError, match="overflows 64 bits") as raised:
        check_log(SUMS, path, resolve=True).to_arrow()
    place = f":{refused[0] + (2 if suffix == 'csv' else 1)}: "
    assert place in str(raised.value) or suffix == "parquet"
    totals = defaultdict(list)
    for row in kept:
        totals[row["user"]].append(row)
    smalls = [row for row in wanted.to_pylist() if row["policy"] == "small"]
    for user, trace in totals.items():
        found = [row["verdict"] for row in smalls if row["user"] == user]
        times = [row["ts"] for row in trace]
        for i, verdict in enumerate(found):
            amounts = [trace[j]["amount"] for j in at_rows(times, i, 0, 60)]
            known = [one for one in amounts if one is not None]
            assert verdict == (bool(known) and sum(known) < 3000)


TWO_TYPES: list[tuple[list[Any], list[Any], str | None]] = [
    ([1, 2], [3, 4], None),
    ([1.5, 2.0], [3.25, 4.0], None),
    ([None, None], [3, 4], None),
    ([None, None], [1.5, 4.0], None),
    ([1, 4], [None, None], None),
    ([1.5, 4.0], [None, None], None),
    ([1, 2], [3.5, 4.0], None),
]


@pytest.mark.parametrize(("first", "second", "message"), TWO_TYPES)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_files_with_columns_of_two_types(
    first: list[Any], second: list[Any], message: str | None, suffix: str, tmp_path: Path
) -> None:
    paths = []
    for number, values in enumerate((first, second)):
        rows = [{"ts": 10 * number + i, "x": value} for i, value in enumerate(values)]
        paths.append(write(rows, tmp_path / f"{number}.{suffix}"))
    text = "unit s\npolicy p: sum[0,1h](x) < 6\npolicy q: x.hold() >= 4 AND max[0,*](x) = 4"
    if message is not None:
        with pytest.raises(MtlmonError, match=message):
            check_log(text, paths).to_arrow()
        return
    found = check_log(text, paths).to_arrow().to_pylist()
    values = first + second
    seen = [[one for one in values[: i + 1] if one is not None] for i in range(4)]
    wanted = {"p": [bool(one) and sum(one) < 6 for one in seen]}
    wanted["q"] = [bool(one) and one[-1] >= 4 and max(one) == 4 for one in seen]
    for name, own in wanted.items():
        assert [row["verdict"] for row in found if row["policy"] == name] == own


@pytest.mark.parametrize("name", ["sum", "avg", "min", "max", "first", "last", "var", "median"])
def test_columns_without_values(name: str) -> None:
    """A column has no type before its first value."""
    table = pa.table({"ts": [1, 2], "x": pa.nulls(2)})
    more = pa.table({"ts": [3, 4], "x": [2.0, 2.0]})
    text = f"unit s\npolicy p: {name}[0,9](x) is null\npolicy q: {name}[0,9](x, or: 5) = 5"
    for tables in ([table, more], [table, more, table.set_column(0, "ts", pa.array([5, 6]))]):
        found = check_log(text, tables).to_arrow()["verdict"].to_pylist()
        empty = 3 if name == "var" else 2
        assert found[: 2 * empty] == [True] * 2 * empty
        assert found[2 * empty] is False
        assert len(found) == 2 * sum(len(one) for one in tables)


def test_rows_without_a_value_do_not_shift_the_other_atoms(tmp_path: Path) -> None:
    """Atoms of the row itself have been read before streams refuse rows."""
    rows = [(1, 2**62, "a"), (2, 2**62, "b"), (3, 1, "c"), (4, 1, "b")]
    path = tmp_path / "log.csv"
    path.write_text("ts,x,e\n" + "".join(f"{ts},{x},{e}\n" for ts, x, e in rows))
    policies = tmp_path / "p.mtl"
    policies.write_text(
        'unit s\nevent "e"\npolicy s: sum[0,9](x) > 0\npolicy x: x = 1\npolicy e: c\n'
        "policy n: count[0,9](b) = 1\n"
    )
    done = mtlmon("--on-error", "skip", "--verdicts", "boolean", str(policies), str(path))
    found: dict[str, list[str]] = defaultdict(list)
    for line in done.output.splitlines():
        found[line.split("\t")[0]].append(line.split("\t")[-1])
    assert found == {
        "s": ["1:0 true", "3:0 true", "4:0 true"],
        "x": ["1:0 false", "3:0 true", "4:0 true"],
        "e": ["1:0 false", "3:0 true", "4:0 false"],
        "n": ["1:0 false", "3:0 false", "4:0 true"],
    }
    assert "skipped 1 row" in done.errors
    assert f"{path}:3: sum[0,9](x) overflows 64 bits" in done.errors
    done = mtlmon("--verdicts", "boolean", str(policies), str(path))
    assert done.status == 2
    assert done.output.splitlines() == [f"{name}\t1:0 {found[name][0][4:]}" for name in "sxen"]
    assert f"{path}:3: sum[0,9](x) overflows 64 bits" in done.errors


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_killed_runs_write_what_an_undisturbed_one_does(suffix: str, tmp_path: Path) -> None:
    source = random.Random(suffix)
    policies, output, checkpoint = (tmp_path / one for one in ("p.mtl", "output", "state"))
    policies.write_text(f"{POLICIES}\npolicy small: sum[0,1h](amount) < 100000\n")
    rows = make_rows(4_000, 3)
    for row in rows:
        if source.random() < 0.02:
            row["amount"] = 2**62
    log = Path(write(rows, tmp_path / f"log.{suffix}", 200))
    arguments = ["--on-error", "skip", "--resolve", "--summary", "-o", str(output), str(policies)]
    arguments = ["--format", suffix, *arguments]
    expected = mtlmon(*arguments, str(log))
    assert expected.status == 1, expected.errors
    assert "overflows 64 bits" in expected.errors
    verdicts = output.read_bytes()
    output.unlink()
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "200"]
    can_pipe = suffix != "parquet"
    run_killed([*resumed, *arguments], log, checkpoint, 3, source, can_pipe=can_pipe)
    assert output.read_bytes() == verdicts


TEXT_POLICIES = """\
unit s
zone "Europe/Berlin"
let hot = count[0,10s](failed) >= 3
stream quiet = ts - ts.last(or: 0)
policy once: NOT (hot AND NOT PREVIOUS hot)
policy gap: quiet <= 2
policy answered: hot IMPLIES EVENTUALLY[0,5s] ok
policy hours: hour(ts) >= 8 OR NOT failed
policy restless: count[0,20s](hot) < 4
"""


def text_verdicts(events: Sequence[tuple[int, list[str]]]) -> dict[str, list[bool]]:
    times = [time for time, _ in events]
    failed = ["failed" in atoms for _, atoms in events]
    count = len(events)
    hot = [sum(failed[j] for j in at_rows(times, i, 0, 10)) >= 3 for i in range(count)]
    zone = ZoneInfo("Europe/Berlin")
    found: dict[str, list[bool]] = defaultdict(list)
    for i in range(count):
        later = [j for j in range(i, count) if times[j] - times[i] <= 5]
        found["once"].append(not hot[i] or (i > 0 and hot[i - 1]))
        found["gap"].append(times[i] - (times[i - 1] if i else 0) <= 2)
        found["answered"].append(not hot[i] or any("ok" in events[j][1] for j in later))
        found["hours"].append(datetime.fromtimestamp(times[i], zone).hour >= 8 or not failed[i])
        found["restless"].append(sum(hot[j] for j in at_rows(times, i, 0, 20)) < 4)
    return found


def make_text(source: random.Random, count: int) -> list[tuple[int, list[str]]]:
    time, events = 1_714_711_900, []
    for _ in range(count):
        time += source.choice([0, 0, 1, 1, 2, 3, 9])
        events.append((time, [name for name in ("failed", "ok", "more") if source.random() < 0.4]))
    return events


def text_of(events: Sequence[tuple[int, list[str]]]) -> str:
    return "".join(f"@{time} {' '.join(atoms)}\n" for time, atoms in events)


@pytest.mark.parametrize("size", [24, 100, 1 << 16])
def test_text_logs(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_logs, "_BLOCK_BYTES", size)
    policies, log, output = (tmp_path / name for name in ("p.mtl", "events.log", "output"))
    policies.write_text(TEXT_POLICIES)
    events = make_text(random.Random(size), 400)
    log.write_text(text_of(events))
    options = ["--resolve", "--end-time", "inf", "-o", str(output)]
    assert command.main([*options, str(policies), str(log)]) == 1
    found: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for line in output.read_text().splitlines():
        name, _, rest = line.partition("\t")
        point, _, verdict = rest.partition(" ")
        found[name].append((point, verdict == "true"))
    seen: dict[int, int] = defaultdict(int)
    points = []
    for time, _ in events:
        points.append(f"{time}:{seen[time]}")
        seen[time] += 1
    for name, values in text_verdicts(events).items():
        assert set(values) == {False, True}, name
        order = [dict(found[name])[point] for point in points]
        assert order == values, name


def test_killed_runs_over_a_text_log(tmp_path: Path) -> None:
    source = random.Random(4)
    policies, log, output, checkpoint = (tmp_path / name for name in ("p.mtl", "log", "o", "state"))
    policies.write_text(TEXT_POLICIES)
    log.write_text(text_of(make_text(source, 4_000)))
    arguments = ["--resolve", "-o", str(output), str(policies)]
    assert mtlmon(*arguments, str(log)).status == 1
    verdicts = output.read_bytes()
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "200"]
    run_killed([*resumed, *arguments], log, checkpoint, 3, source)
    assert output.read_bytes() == verdicts


def test_time_between_rows_is_compared_with_a_length_of_time() -> None:
    rows = pa.table({"at": [datetime(2024, 5, 3, 6, minute) for minute in (10, 21, 22, 42)]})
    file = """
    const most = 10m
    stream gap = at - at.last()
    policy less: gap <= most or gap.last() is null
    policy more: 10m < gap implies gap in (11m, 20min)
    """
    for resolution in ("s", "m"):
        checked = check_log(file, rows, time="at", resolution=resolution)
        verdicts = checked.to_arrow().to_pylist()
        found = {
            name: [row["verdict"] for row in verdicts if row["policy"] == name]
            for name in ("less", "more")
        }
        assert found == {"less": [True, True, True, False], "more": [True] * 4}
    with pytest.raises(MtlmonError, match="10m has a unit, but the unit"):
        check_log(file, rows, time="at")
