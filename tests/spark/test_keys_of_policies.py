"""Policies with keys of their own: one data frame with what one per key says."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from mtlmon.errors import MtlmonError
from mtlmon.policy import parse_policies
from mtlmon.spark import (
    RowCounts,
    SkippedRowsWarning,
    monitor,
    monitor_partitions,
    monitor_stream,
    monitor_trace,
)
from tests.spark.streams import state_store, streaming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from mtlmon.policy import PolicyFile

pytestmark = pytest.mark.xdist_group("spark")

POLICIES = {
    "answered": "p IMPLIES EVENTUALLY[0,5] q",
    "nested": "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "past": "p SINCE[2,8] (q AND NEXT[0,1] LARGE)",
    "whole": "q IMPLIES ONCE[0,3] p",
}
KEYS: dict[str, tuple[str, ...] | None] = {
    "answered": None,
    "nested": ("user",),
    "past": ("user", "the.host"),
    "whole": (),
}
SCHEMA = "ts bigint, n bigint, user string, `the.host` int, amount bigint, p boolean, q boolean"


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    with state_store(spark):
        yield


def policy_file(*names: str, has_keys: bool) -> PolicyFile:
    written = (f"policy {name}: {POLICIES[name]}" for name in names or POLICIES)
    file = parse_policies("\n".join(["atom LARGE = amount > 5", *written]))
    for policy in file.policies:
        policy.key = KEYS[str(policy.name)] if has_keys else None
    return file


def frame(spark: SparkSession, seed: int, count: int) -> DataFrame:
    source = random.Random(seed)
    time = 0
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        time += source.choice([0, 0, 1, 2, 9])
        user, host = f"u{source.randrange(9)}", source.randrange(3)
        truth = [source.random() < 0.4 for _ in "pq"]
        rows.append((time, number, user, host, source.randrange(10), *truth))
    source.shuffle(rows)
    return spark.createDataFrame(rows, SCHEMA)


def rows_of(verdicts: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in verdicts.collect()), key=repr)


@pytest.mark.parametrize(
    "options",
    [
        {"resolve": False, "mode": "naive"},
        {"end_time": "last"},
        {"end_time": "inf", "mode": "global"},
    ],
)
def test_one_data_frame_says_what_one_per_key_says(
    spark: SparkSession, options: dict[str, Any]
) -> None:
    rows = frame(spark, 1, 400)
    found = monitor(rows, policy_file(has_keys=True), key="the.host", order_within="n", **options)
    columns = ["time", "offset", "verdict", "reference_time", "reference_offset"]
    assert found.columns == ["policy", "the.host", "user", *columns]
    expected = []
    for name, key in KEYS.items():
        names = ("the.host",) if key is None else key
        file = policy_file(name, has_keys=False)
        alone = monitor(rows, file, key=names or None, order_within="n", **options)
        nothing = dict.fromkeys(found.columns)
        expected += [{**nothing, **row.asDict()} for row in alone.collect()]
    assert rows_of(found) == sorted(expected, key=repr)
    assert len(expected) > 1000


def test_rows_without_one_of_the_keys_are_no_events(spark: SparkSession) -> None:
    """They are skipped for all policies, and counted once."""
    good = frame(spark, 2, 60)
    bad = [(3, 0, None, 1, 1, True, False), (4, 0, "u1", None, 1, True, False)]
    rows = good.union(spark.createDataFrame(bad, SCHEMA))
    counts = RowCounts()
    asked: dict[str, Any] = {"key": "the.host", "order_within": "n", "end_time": "inf"}
    with pytest.warns(SkippedRowsWarning):
        found = monitor(rows, policy_file(has_keys=True), on_error="skip", counts=counts, **asked)
        verdicts = rows_of(found)
    assert verdicts == rows_of(monitor(good, policy_file(has_keys=True), **asked))
    assert counts.skipped == 2


def test_the_key_of_the_call_may_not_be_used(spark: SparkSession) -> None:
    file = policy_file("nested", has_keys=True)
    found = monitor(frame(spark, 3, 20), file, key="the.host", order_within="n")
    assert found.columns[:3] == ["policy", "user", "time"]


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Batch by batch, also where only time decides; late events come once for each key."""
    plain = "ts bigint, user string, host int, amount bigint, p boolean, q boolean"

    def stream_of(
        name: str, file: PolicyFile, key: str | tuple[str, ...] | None
    ) -> list[list[dict[str, Any]]]:
        directory = tmp_path / name
        source = directory / "source"
        source.mkdir(parents=True)
        rows = spark.readStream.schema(plain).json(str(source))
        found = monitor_stream(rows, file, key=key, delay=0)
        generator = random.Random(7)
        batches = []
        with streaming(spark, found, directory, source) as stream:
            time = 0
            for number in range(4):
                sent = []
                for _ in range(12):
                    time += generator.choice([0, 1, 2])
                    row = {"ts": time, "user": f"u{generator.randrange(3)}", "amount": 9}
                    row["host"] = generator.randrange(2)
                    sent.append({**row, **{name: generator.random() < 0.4 for name in "pq"}})
                if number == 3:
                    sent.append({**sent[0], "ts": 1})
                batches.append(stream.send(*sent))
        return batches

    keys = {"answered": ("host",), "nested": ("user",), "past": ("user", "host"), "whole": ()}
    file = policy_file(has_keys=False)
    for policy in file.policies:
        policy.key = None if policy.name == "answered" else keys[str(policy.name)]
    found = stream_of("all", file, "host")
    expected: list[list[dict[str, Any]]] = [[] for _ in found]
    for name, key in keys.items():
        alone = stream_of(name, policy_file(name, has_keys=False), key or None)
        for batch, rows in zip(expected, alone, strict=True):
            batch += [{"user": None, "host": None, **row} for row in rows]
    for batch, rows in zip(found, expected, strict=True):
        # the atoms of a late event are those of all policies
        for row in [*batch, *rows]:
            row["late"] = row["late"] is not None
        assert sorted((sorted(row.items()) for row in batch), key=repr) == sorted(
            (sorted(row.items()) for row in rows), key=repr
        )
    assert sum(row["late"] for row in found[-1]) == 4
    assert sum(map(len, found)) > 100


def test_what_has_one_key_refuses_others(spark: SparkSession) -> None:
    rows = frame(spark, 4, 5)
    for function in monitor_partitions, monitor_trace:
        with pytest.raises(MtlmonError, match="that of 'nested'"):
            function(rows, policy_file(has_keys=True))
    with pytest.raises(MtlmonError, match="a key column is given twice"):
        monitor(rows, policy_file(has_keys=True), key=["user", "user"])


def test_several_files_say_what_each_says_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    texts = {
        "one.mtl": "key user\natom LARGE = amount > 5\npolicy p: LARGE IMPLIES ONCE[0,5] q\n",
        "other.mtl": "atom LARGE = amount < 2\nstream n = count[0,9](p)\n"
        "policy p: LARGE IMPLIES n > 1\npolicy r per `the.host`: EVENTUALLY[0,3] q\n",
    }
    paths = [tmp_path / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    rows = frame(spark, 5, 90)
    for asked in ({}, {"key": "user"}):
        options: dict[str, Any] = {"end_time": "inf", "order_within": "n", **asked}
        found = monitor(rows, paths, **options)
        expected = []
        for path in paths:
            for row in monitor(rows, path, **options).collect():
                name = f"{path.stem}:p" if row.policy == "p" else row.policy
                nothing = dict.fromkeys(found.columns)
                expected.append({**nothing, **row.asDict(), "policy": name})
        assert rows_of(found) == sorted(expected, key=repr)
