"""Keys that streams remember stay, and the others go, whatever numbers they get."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from tests.doors import checking_idle_keys as idle_keys
from tests.tables.begun import check_of

POLICIES = """\
key k
stream seen = count[0,20](x > 2)
stream most = max[0,30](x)
stream before = x.last(or: 0)
policy few: seen < 2
policy small: most < 9
policy grows per g: sum[5,15](x) < 40
"""
ONES_THAT_REMEMBER = POLICIES + "policy jumps: x - before < 6\n"


def _rows(seed: int) -> pa.Table:
    chosen = random.Random(seed)
    clock = 0
    rows = []
    for number in range(3000):
        clock += chosen.choice([0, 0, 1, 1, 2])
        key = number // 10 + chosen.randrange(12)
        if chosen.random() < 0.05:
            key = chosen.randrange(300)
        rows.append({"ts": clock, "k": key, "g": key % 40, "x": chosen.randrange(10)})
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize(("text", "forgets"), [(POLICIES, True), (ONES_THAT_REMEMBER, False)])
@pytest.mark.parametrize("seed", range(3))
def test_forgotten_keys_change_no_verdict(
    text: str, forgets: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(seed)
    kept = mtlmon.check(text, rows)
    expected = sorted(map(str, kept.to_arrow().to_pylist()))
    assert sum(check_of(kept).keys_forgotten) == 0
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 8)
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=50))
    forgetting = mtlmon.check(text, reader)
    found = sorted(map(str, forgetting.to_arrow().to_pylist()))
    assert found == expected
    assert (check_of(forgetting).keys_forgotten[0] > 0) is forgets
