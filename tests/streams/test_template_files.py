"""Policy files with streams per instance, on logs in files, against plain loops and DuckDB."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from mtlmon import check as check_log
from tests.cli.kills import run_killed
from tests.cli.process import mtlmon
from tests.doors import checking_idle_keys as idle_keys
from tests.doors import streams_instances as instances_module
from tests.streams.programs import all_ticks_computed
from tests.streams.test_files import write
from tests.tables.begun import check_of

Row = dict[str, Any]

POLICIES = """\
unit s
key shop
atom   returned = kind = "return"
stream freq     = count[0,1m]() per product
stream views    = views.last(or: 0) + 1 per product as id until gone = id
stream spent    = sum[0,5m](amount) per product as id, client as who from amount > 2
stream most     = max(views over views)
trigger hot: any(freq > 5 over freq) message "{most} views"
policy calm: NOT most.last(or: 0) - most >= 2
policy spent: NOT sum(spent over spent) > 150
policy known: NOT views[wanted] > 4 OR ONCE[0,2m] returned
policy all per none: count(true over freq) <= 13
"""


def make_rows(count: int, seed: int) -> list[Row]:
    chosen = random.Random(seed)
    clock = 0
    found = []
    for _ in range(count):
        clock += chosen.choice([0, 0, 1, 1, 2, 5])
        near = clock // 300
        product = near + chosen.randrange(6)
        found.append(
            {
                "ts": clock,
                "shop": f"s{chosen.randrange(3)}",
                "product": None if chosen.random() < 0.1 else f"p{product}",
                "client": chosen.randrange(3),
                "amount": None if chosen.random() < 0.1 else chosen.randrange(9),
                "gone": f"p{near + chosen.randrange(4) - 2}" if chosen.random() < 0.3 else None,
                "wanted": f"p{near + chosen.randrange(8)}",
                "kind": chosen.choice(["return", "sale", "sale", "sale"]),
            }
        )
    return found


class Shop:
    """What is known of the rows of one shop, or of all."""

    def __init__(self) -> None:
        self.times: dict[str, list[int]] = {}
        self.views: dict[str, int] = {}
        self.amounts: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.most: int | None = None
        self.returns: list[int] = []

    def row(self, row: Row) -> dict[str, bool]:
        """The verdicts on the next row."""
        now, product = row["ts"], row["product"]
        if row["kind"] == "return":
            self.returns.append(now)
        if product is not None:
            self.times.setdefault(product, []).append(now)
            self.views[product] = self.views.get(product, 0) + 1
            key = product, row["client"]
            amount = row["amount"]
            if key in self.amounts or (amount is not None and amount > 2):
                amounts = self.amounts.setdefault(key, [])
                amounts += [] if amount is None else [(now, amount)]
        # `most.last` is the last value that is not null
        before, self.most = self.most, max(self.views.values(), default=None)
        falls = self.most is not None and (before or 0) - self.most >= 2
        if self.most is None:
            self.most = before
        # windows are those of the present row, whatever the product
        counts = [sum(now - one <= 60 for one in times) for times in self.times.values()]
        amounts_of_all = [pair for pairs in self.amounts.values() for pair in pairs]
        spent = sum(amount for time, amount in amounts_of_all if now - time <= 300)
        wanted = self.views.get(row["wanted"], 0)
        self.views.pop(row["gone"], None)
        return {
            "hot": all(one <= 5 for one in counts),
            "calm": not falls,
            "spent": spent <= 150,
            "known": wanted <= 4 or any(now - one <= 120 for one in self.returns),
            "all": len(self.times) <= 13,
        }


def expected(rows: list[Row]) -> list[tuple[str, str | None, int, bool]]:
    shops: dict[str | None, Shop] = {}
    found = []
    for row in rows:
        for name, shop in [(row["shop"], row["shop"]), (None, None)]:
            verdicts = shops.setdefault(shop, Shop()).row(row)
            for policy, verdict in verdicts.items():
                if (policy == "all") is (name is None):
                    found.append((policy, name, row["ts"], verdict))
    return sorted(found, key=str)


def found_in(table: pa.Table) -> list[tuple[str, str | None, int, bool]]:
    names = ("policy", "shop", "time", "verdict")
    return sorted((tuple(row[name] for name in names) for row in table.to_pylist()), key=str)


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("size", [1, 23, 4000])
def test_batches(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances_module, "MOST_ENDED", 3)
    rows = make_rows(900 if size == 1 else 3000, 2)
    table = table_of(rows)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))
    found = found_in(check_log(POLICIES, reader, resolve=True, end_time="inf").to_arrow())
    assert found == expected(rows)
    for policy in () if size == 1 else ("hot", "calm", "spent", "known", "all"):
        assert {one[3] for one in found if one[0] == policy} == {False, True}, policy


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_command(suffix: str, tmp_path: Path) -> None:
    rows = make_rows(2000, 3)
    policies = tmp_path / "p.mtl"
    policies.write_text(POLICIES)
    path = write(rows, tmp_path / f"log.{suffix}")
    done = mtlmon("--resolve", "--verdicts", "false", str(policies), path)
    assert done.status == 1, done.errors
    found = []
    for line in done.output.splitlines():
        policy, shop, verdict = line.split("\t")
        found.append((policy, shop or None, int(verdict.split(":")[0]), False))
    assert sorted(found, key=str) == [one for one in expected(rows) if not one[3]]


def test_killed_runs_write_what_an_undisturbed_one_does(tmp_path: Path) -> None:
    source = random.Random(6)
    policies, output, checkpoint = (tmp_path / one for one in ("p.mtl", "output", "state"))
    policies.write_text(POLICIES)
    log = Path(write(make_rows(4_000, 4), tmp_path / "log.csv"))
    arguments = ["--format", "csv", "--resolve", "-o", str(output), str(policies)]
    assert mtlmon(*arguments, str(log)).status == 1
    verdicts = output.read_bytes()
    output.unlink()
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "200"]
    run_killed([*resumed, *arguments], log, checkpoint, 3, source)
    assert output.read_bytes() == verdicts


AT_TICKS = """\
unit s
key shop
stream pace  = count[0,1m]() per product as id every 10s until gone = id
stream money = sum[0,2m](amount) per product as id every 10s until gone = id
stream seen  = seen.last(or: 0) + 1 per product as id every 20s until gone = id
trigger hot on every 20s: any(pace > 4 over pace) message "{max(pace over pace)}"
policy rows: coalesce(pace[wanted], 0) <= 3
policy money on every 30s: NOT sum(money over money) > 60
policy long: NOT max(seen over seen) >= 6
policy all per none on every 10s: count(pace > 1 over pace) <= 3
"""


@pytest.mark.parametrize("text", [AT_TICKS, AT_TICKS.replace("stream seen", "# ", 1)])
def test_batches_with_ticks(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where streams read themselves, every tick is computed, else the due ones."""
    monkeypatch.setattr(instances_module, "MOST_ENDED", 3)
    if "stream seen" not in text:
        text = text.replace("policy long:", "# ")
    table = table_of(make_rows(400, 2))

    def verdicts(size: int, on_error: Any) -> list[tuple[str, str | None, int, bool]]:
        batches = table.to_batches(max_chunksize=size)
        reader = pa.RecordBatchReader.from_batches(table.schema, batches)
        check = check_log(text, reader, resolve=True, end_time="last", on_error=on_error)
        return found_in(check.to_arrow())

    with all_ticks_computed():
        wanted = verdicts(4000, "stop")
    for policy in {one[0] for one in wanted}:
        assert {one[3] for one in wanted if one[0] == policy} == {False, True}, policy
    for size, on_error in ((1, "stop"), (23, "stop"), (23, "skip"), (4000, "stop")):
        assert verdicts(size, on_error) == wanted


def test_killed_runs_with_ticks(tmp_path: Path) -> None:
    source = random.Random(7)
    policies, output, checkpoint = (tmp_path / one for one in ("p.mtl", "output", "state"))
    text = AT_TICKS.replace("stream seen", "# ", 1).replace("policy long:", "# ")
    policies.write_text(text)
    log = Path(write(make_rows(4_000, 4), tmp_path / "log.csv"))
    arguments = ["--format", "csv", "--resolve", "-o", str(output), str(policies)]
    assert mtlmon(*arguments, str(log)).status == 1
    verdicts = output.read_bytes()
    output.unlink()
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "200"]
    run_killed([*resumed, *arguments], log, checkpoint, 2, source)
    assert output.read_bytes() == verdicts


def test_values_of_streams(tmp_path: Path) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("stream n = count[0,9]() per a\nstream m = n[b]\n")
    log.write_text("ts,a,b\n1,x,x\n2,x,y\n3,y,x\n4,,y\n")
    done = mtlmon("streams", str(policies), str(log))
    assert [json.loads(line) for line in done.output.splitlines()] == [
        {"time": 1, "n": 1, "m": 1},
        {"time": 2, "n": 2, "m": None},
        {"time": 3, "n": 1, "m": 2},
        {"time": 4, "n": None, "m": 1},
    ]


def test_text_logs(tmp_path: Path) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log"
    policies.write_text(
        "stream n = count[0,5]() per ts % 2 as odd until stop\n"
        "policy few: NOT any(n > 2 over n)\n"
        "policy live: count(true over n) = 2\n"
    )
    log.write_text("@1 a\n@2 a\n@3 a\n@5 a\n@6 stop\n@7 a\n")
    done = mtlmon("--verdicts", "false", str(policies), str(log))
    assert done.output.splitlines() == [
        *("live\t1:0 false", "few\t5:0 false", "few\t6:0 false", "live\t7:0 false")
    ]


FORGETFUL = """\
key k
stream n = count[0,20]() per g until ends = g
stream sums = sum[0,9](x) per g as h until ends = h and x > 3
policy few: NOT any(n > 3 over n)
policy small: NOT max(sums over sums) > 22
"""


@pytest.mark.parametrize("text", [FORGETFUL, FORGETFUL.replace("ends = g", "x > 4")])
def test_forgotten_keys_change_no_verdict(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(1)
    rows, clock = [], 0
    for number in range(3000):
        clock += chosen.choice([0, 0, 1, 1, 2])
        key = number // 10 + chosen.randrange(12)
        group = chosen.randrange(2)
        rows.append(
            {"ts": clock, "k": key, "g": group, "x": chosen.randrange(7), "ends": 1 - group}
        )
    text = text.replace("per g until ends = g", "per g as h until ends = h")
    table = pa.Table.from_pylist(rows)
    kept = check_log(text, table)
    wanted = sorted(map(str, kept.to_arrow().to_pylist()))
    assert sum(check_of(kept).keys_forgotten) == 0
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 8)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=50))
    forgetting = check_log(text, reader)
    assert sorted(map(str, forgetting.to_arrow().to_pylist())) == wanted
    assert {"True", "False"} == {one.split("'verdict': ")[1].split(",")[0] for one in wanted}


def test_aggregates_over_instances_are_those_of_duckdb() -> None:
    """Windows are those of each row; a sum over other values is that of their changes."""
    duckdb = pytest.importorskip("duckdb")
    chosen = random.Random(8)
    clock = 0
    rows = []
    for number in range(20_000):
        clock += chosen.choice([1, 1, 2, 30])
        rows.append(
            {
                "number": number,
                "ts": clock,
                "shop": chosen.randrange(4),
                "product": int(chosen.expovariate(0.05)),
                "amount": chosen.randrange(-50, 50),
            }
        )
    table = pa.Table.from_pylist(rows)
    connection = duckdb.connect()
    connection.register("log", table)
    of_product = "PARTITION BY shop, product ORDER BY number"
    of_shop = "PARTITION BY shop ORDER BY number"
    wanted = connection.sql(f"""
        WITH sums AS (
            SELECT *, sum(amount) OVER ({of_product}) AS total FROM log
        ), changes AS (
            SELECT *, total - coalesce(lag(total) OVER ({of_product}), 0) AS change,
                (row_number() OVER ({of_product}) = 1)::INT AS begins
            FROM sums
        ), counts AS (
            SELECT own.number, other.product, count(*) AS n
            FROM log own JOIN log other
                ON own.shop = other.shop AND other.ts BETWEEN own.ts - 600 AND own.ts
            GROUP BY own.number, other.product
        ), windows AS (
            SELECT number, sum(n) AS s, count_if(n > 5) AS hot FROM counts GROUP BY number
        )
        SELECT (
                SELECT n FROM counts
                WHERE counts.number = changes.number AND counts.product = changes.product
            ), s, sum(change) OVER ({of_shop}), sum(begins) OVER ({of_shop}), hot
        FROM changes JOIN windows USING (number) ORDER BY number
    """).fetchall()
    from tests.streams.test_templates import File

    file = File(
        "stream n = count[0,600]() per product\n"
        "stream sums = sum[0,*)(amount) per product\n"
        "stream s = sum(n over n)\n"
        "stream t = sum(sums over sums)\n"
        "stream living = count(true over n)\n"
        "stream hot = count(n > 5 over n)\n"
    )
    batch = table.combine_chunks().to_batches()[0]
    time_stamps = batch["ts"].to_numpy()
    shops = batch["shop"].to_numpy().astype("uint32")
    found = file.program(table.schema).evaluate(batch, time_stamps, shops)
    names = ("n", "s", "t", "living", "hot")
    assert list(zip(*(found[name].to_pylist() for name in names), strict=True)) == wanted
