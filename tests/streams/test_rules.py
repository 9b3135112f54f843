"""Rules of public rule sets, in the language of policies, on generated logs, against SQL.

Two thresholds are those of Wazuh's rules for sshd (8 failures of one address in 120 seconds) and
for web servers (14 errors of clients in 90 seconds). Others have the shape of Elastic's threshold
rules, which count rows or different values per key within a time.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon

POLICIES = """\
unit ms
key  ip

atom   failed  = status = 401
stream tried   = if failed then user else null
let    brute   = count[0,120s](failed) >= 8
let    burst   = count[0,90s](status >= 400 and status < 500) >= 14

policy brute_force: NOT brute
policy alarm: NOT (brute AND NOT PREVIOUS brute)
policy broken_in: NOT (status = 200 AND brute)
policy spraying: distinct[0,5m](tried) < 4
policy web_scan: NOT burst
policy posts: count[0,20s](method = "POST") < 8
policy per_user per user, method: count[0,1m]() <= 4
policy leak: not sum[0,10m](bytes) > 60000
policy slow: not quantile[0,5m](latency, 0.95) > 0.94 or latency is null
policy before: count[1s,1m](failed) < 6
"""

WINDOW = "OVER (PARTITION BY {} ORDER BY ts RANGE BETWEEN {} PRECEDING AND {} PRECEDING)"


def over(upper: int, lower: int = 0, key: str = "ip") -> str:
    return WINDOW.format(key, upper, lower)


FAILS = f"count(*) FILTER (status = 401) {over(120_000)}"
ERRORS = f"count(*) FILTER (status BETWEEN 400 AND 499) {over(90_000)}"
TRIED = "CASE WHEN status = 401 THEN user END"
# The rows that violate a policy, as a column of SQL.
VIOLATIONS = {
    "brute_force": "fails >= 8",
    "alarm": "fails >= 8 AND coalesce(fails_before, 0) < 8",
    "broken_in": "fails >= 8 AND status = 200",
    "spraying": f"count(DISTINCT {TRIED}) {over(300_000)} >= 4",
    "web_scan": f"{ERRORS} >= 14",
    "posts": f"count(*) FILTER (method = 'POST') {over(20_000)} >= 8",
    "per_user": f"count(*) {over(60_000, key='user, method')} > 4",
    "leak": f"sum(bytes) {over(600_000)} > 60000",
    "slow": f"latency IS NOT NULL AND quantile_cont(latency, 0.95) {over(300_000)} > 0.94",
    "before": f"count(*) FILTER (status = 401) {over(60_000, 1000)} >= 6",
}


def make_log(count: int) -> pa.Table:
    """Requests at different times, with bursts of failures from one address."""
    source = random.Random(20)
    time = 1_700_000_000_000
    attacker: str | None = None
    rows: list[dict[str, Any]] = []
    for number in range(count):
        if number % 40 == 0:
            attacker = source.choice([None, None, "192.0.2.1", "192.0.2.2"])
        if number % 300 == 0:
            time += source.randrange(1_000_000)
        is_attack = attacker is not None and source.random() < 0.8
        time += source.randrange(1, 3_000 if is_attack else 15_000)
        rows.append(
            {
                "ts": time,
                "ip": attacker if is_attack else f"192.0.2.{source.randrange(8)}",
                "user": f"u{source.randrange(6)}",
                "method": source.choice(["GET", "GET", "POST"]),
                "status": source.choice(
                    [401, 401, 401, 404, 200] if is_attack else [200, 200, 404]
                ),
                "bytes": source.choice([None, source.randrange(5_000)]),
                "latency": source.choice([None, source.randrange(1024) / 1024]),
            }
        )
    return pa.Table.from_pylist(rows)


def test_rules_find_what_queries_find() -> None:
    duckdb = pytest.importorskip("duckdb")
    log = make_log(6_000)
    check = mtlmon.check(POLICIES, log, verdicts="false")
    found: dict[str, list[int]] = {name: [] for name in VIOLATIONS}
    for row in check.to_arrow().to_pylist():
        found[row["policy"]].append(row["time"])
    counted = f"SELECT *, {FAILS} AS fails FROM log"
    before = "lag(fails) OVER (PARTITION BY ip ORDER BY ts) AS fails_before"
    for name, condition in VIOLATIONS.items():
        query = (
            f"SELECT ts FROM (SELECT *, {condition} AS is_hit FROM "
            f"(SELECT *, {before} FROM ({counted}))) WHERE is_hit ORDER BY ts"
        )
        wanted = [time for (time,) in duckdb.sql(query).fetchall()]
        assert 10 < len(wanted) < len(log) // 2, (name, len(wanted))
        assert sorted(found[name]) == wanted, name
        assert check.counts[name].false == len(wanted)


def test_rules_find_what_pandas_finds() -> None:
    pandas = pytest.importorskip("pandas")
    log = make_log(3_000)
    frame = log.to_pandas()
    frame["at"] = pandas.to_datetime(frame["ts"], unit="ms")
    frame["failed"] = (frame["status"] == 401).astype(float)
    frame["total"] = frame["bytes"].fillna(0)
    groups = frame.set_index("at").groupby("ip")
    # The row that is exactly so old belongs to the window.
    fails = groups["failed"].rolling("120s", closed="both").sum().reset_index()
    totals = groups["total"].rolling("600s", closed="both").sum().reset_index()
    check = mtlmon.check(POLICIES, frame[log.column_names], verdicts="none")
    for _ in check.batches():
        pass
    assert check.counts["brute_force"].false == int((fails["failed"] >= 8).sum()) > 10
    assert check.counts["leak"].false == int((totals["total"] > 60_000).sum()) > 10
