"""The clause `for D`: how it is read, what it means on ticks and rows, and what is said of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from mtlmon.errors import FormulaError
from mtlmon.policy import load_policies, parse_policies
from mtlmon.testing import assert_holds
from tests.cli.process import mtlmon as command
from tests.reference.lasting import lasting
from tests.sampling import thinned

Rows = list[dict[str, Any]]


@pytest.mark.parametrize(
    ("text", "written", "formula"),
    [
        ("policy p for 5: up", "up, for 5", "(ONCE[0,5] up) OR NOT ONCE[5,*) true"),
        ("unit s\npolicy p for 2m: up", "up, for 2m", "(ONCE[0,120] up) OR NOT ONCE[120,*) true"),
        ("const w = 7\npolicy p for w: up", "up, for 7", "(ONCE[0,7] up) OR NOT ONCE[7,*) true"),
        ("policy p for 0: up", "up, for 0", "(ONCE[0,0] up) OR NOT ONCE true"),
        (
            "trigger t on every 60 for 5: count[0,9]() > 2",
            'NOT "count[0,9]() > 2", for 5',
            '(ONCE[0,5] NOT "count[0,9]() > 2") OR NOT ONCE[5,*) true',
        ),
        (
            'policy p "a" per k on rows where x > 5 for 5 at most 1% severity high: up',
            "up, for 5",
            "(ONCE[0,5] up) OR NOT ONCE[5,*) true",
        ),
        ("policy p on rows where `for` for 5: up", "up, for 5", None),
    ],
)
def test_how_it_is_read(text: str, written: str, formula: str | None) -> None:
    file = parse_policies(text)
    (policy,) = file.policies
    assert policy.demand(file.unit) == written
    assert formula is None or str(policy.formula) == formula


def test_columns_may_be_called_like_the_clause() -> None:
    file = parse_policies("stream for = row.for\npolicy for: for > 2 and for.last(or: 0) > 3")
    assert file.columns == ("for",)
    assert parse_policies("policy p: for IMPLIES x").log_atoms == ("for", "x")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("policy p for x: up", "expected a length of time, found 'x'", (1, 14)),
        ("policy p for 5s: up", "5s has a unit, but the unit of the stream's", (1, 14)),
        ("policy p for 5 on every 2: up", "expected ':' (before it can be, in this", (1, 16)),
        ("policy p severity high for 5: up", "expected ':' (before it can be, in this", (1, 24)),
        ("find f for 5: up(x)", "expected ':' (before it can be, in this order: a text", (1, 8)),
    ],
)  # fmt: skip
def test_errors(text: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_policies(text)
    assert caught.value.message.startswith(message)
    assert (caught.value.line, caught.value.column) == place


def test_several_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.mtl").write_text("unit s\nlet good = up\npolicy p for 5s: good")
    file = load_policies([tmp_path / "one.mtl", tmp_path / "two.mtl"])
    assert [one.demand("s") for one in file.policies] == [
        '"one:good", for 5s',
        '"two:good", for 5s',
    ]


def random_rows(source: random.Random) -> Rows:
    clock, rows = source.randrange(9), []
    for _ in range(source.choice([3, 30, 90])):
        clock += source.choice([0, 0, 1, 1, 2, 7, 30])
        up = source.choice([0, 0, 0, 1, None])
        rows.append({"ts": clock, "host": source.choice("ab"), "up": up})
    return rows


def batches_of(rows: Rows, source: random.Random) -> pa.RecordBatchReader:
    kinds = {"ts": pa.int64(), "host": pa.string(), "up": pa.int64()}
    schema = pa.schema(list(kinds.items()))
    table = pa.Table.from_pylist(rows, schema)
    return pa.RecordBatchReader.from_batches(
        schema, table.to_batches(max_chunksize=source.choice([1, 5, 50]))
    )


def on_rows(rows: Rows) -> list[tuple[int, bool]]:
    """The time-points of a trace, and whether the host is up; it is no failure if that is null."""
    return [(row["ts"], row["up"] != 0) for row in rows]


def on_zeros(rows: Rows) -> list[tuple[int, bool]]:
    return [(row["ts"], row["up"] is None) for row in rows if row["up"] in (0, None)]


def on_ticks(rows: Rows, end: int) -> list[tuple[int, bool]]:
    """Likewise at ticks; `.hold()` passes over null."""
    found = []
    for tick in range(-(-rows[0]["ts"] // 4) * 4, end, 4):
        seen = [row["up"] for row in rows if row["ts"] <= tick and row["up"] is not None]
        found.append((tick, not seen or seen[-1] != 0))
    return found


@pytest.mark.parametrize("verdicts", ["all", "false"])
@pytest.mark.parametrize("lateness", [None, "0"])
@pytest.mark.parametrize("length", [0, 4, 9])
def test_verdicts_and_messages(length: int, lateness: str | None, verdicts: Any) -> None:
    """Those of the definition; messages with values are at violations, also where ticks repeat."""
    text = f"""\
key host
trigger rows for {length}: up = 0 message "{{host}} {{up}}"
trigger zeros on rows where up = 0 or up is null for {length}: up = 0 message "{{host}} {{up}}"
trigger ticks on every 4 for {length}: up.hold() = 0 message "{{host}} {{up.hold()}}"
policy demand for {length}: not up = 0 message "down"
"""
    violated = 0
    for seed in thinned(range(12)):
        source = random.Random(seed)
        rows = random_rows(source)
        wanted: dict[tuple[str, str], list[tuple[int, bool]]] = {}
        for host in dict.fromkeys(row["host"] for row in rows):
            own = [row for row in rows if row["host"] == host]
            points = {
                "rows": on_rows(own),
                "zeros": on_zeros(own),
                "ticks": on_ticks(own, rows[-1]["ts"]),
                "demand": on_rows(own),
            }
            for policy, found in points.items():
                times = [time for time, _ in found]
                values = lasting([value for _, value in found], times, length)
                wanted[policy, host] = [
                    (time, value is True)
                    for time, value in zip(times, values, strict=True)
                    if verdicts == "all" or value is False
                ]
        options: dict[str, Any] = {} if lateness is None else {"lateness": lateness}
        answers = mtlmon.check(text, batches_of(rows, source), verdicts=verdicts, **options)
        said: dict[tuple[str, str], list[tuple[int, bool]]] = {key: [] for key in wanted}
        for row in answers.to_arrow().to_pylist():
            policy, host = row["policy"], row["host"]
            said[policy, host].append((row["time"], row["verdict"]))
            message = {"demand": "down"}.get(policy, f"{host} 0")
            assert row["message"] == (None if row["verdict"] else message)
            violated += not row["verdict"]
        for key, found in said.items():
            assert sorted(found) == sorted(wanted[key]), (seed, key)
    assert violated


def test_checkpoints_keep_messages(tmp_path: Path) -> None:
    """A run that is interrupted anywhere has the same messages."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(
        "key host\n"
        'trigger ticks on every 4 for 9: up.hold() = 0 message "{host} {up.hold()}"\n'
        'trigger zeros on rows where up = 0 for 9: up = 0 message "{host} {up}"\n'
    )
    lines = ["0,a,0", "1,b,0", "9,a,0", "13,b,0", "30,a,0", "31,b,1", "44,a,1", "47,b,0"]
    options = ["--output-format", "jsonl", "--verdicts", "false"]
    log.write_text("\n".join(["ts,host,up", *lines, ""]))
    whole = command(*options, str(rules), str(log))
    assert whole.output.count("a 0") > 5, whole.errors
    for cut in range(1, len(lines)):
        checkpoint, output = tmp_path / f"state{cut}", tmp_path / f"out{cut}"
        run = [*options, "--checkpoint", str(checkpoint), "-o", str(output), str(rules), str(log)]
        for count in (cut, len(lines)):
            log.write_text("\n".join(["ts,host,up", *lines[:count], ""]))
            ended = command(*run)
            assert ended.status in {0, 1}, ended.errors
        assert sorted(output.read_text().splitlines()) == sorted(whole.output.splitlines())


def test_what_people_read(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text('unit s\npolicy p "hosts answer" for 1m: up\npolicy q(h) for 1m: up\n')
    rules.write_text(
        'unit s\natom down(host) = up = 0\npolicy p "hosts answer" for 1m: up = 1\n'
        "policy q for 1m: NOT down(host)\n"
    )
    log.write_text("ts,host,up\n0,a,0\n60,a,0\n")
    assert "for 1m\n" in command("check-policy", str(rules)).output
    explained = command("--explain", "--verdicts", "false", str(rules), str(log))
    assert "policy p\nhosts answer\nviolated for 1m\n" in explained.errors
    assert "policy q\nviolated for 1m\nat " in explained.errors
    assert "60:0 violates NOT down(host)\n  host = a\n" in explained.errors


def test_assertions_say_how_long() -> None:
    rows = [{"ts": 0, "up": 0}, {"ts": 60, "up": 0}]
    with pytest.raises(AssertionError, match="60:0 violates p, for 1m\n") as caught:
        assert_holds(
            parse_policies("unit s\npolicy p for 1m: up = 1"), pa.Table.from_pylist(rows), time="ts"
        )
    assert "up = 1 fails at every time-point up to 1m back" in str(caught.value)
