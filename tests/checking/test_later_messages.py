"""Messages with values of rows that later rows decide, against the rows of the verdicts."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mtlmon import check as check_log
from mtlmon.errors import MemoryLimitError
from tests.checking.relaying import relayed
from tests.cli.process import mtlmon
from tests.doors import checking_idle_keys as idle_keys
from tests.tables.begun import check_of

RULES = """\
key user
atom ask = what = "ask"
atom reply = what = "reply"
policy answered: ask IMPLIES EVENTUALLY[0,5] reply message "{user}/{n}"
policy quiet: NOT (reply AND (ONCE[0,3] ask) AND NOT ALWAYS[1,4] ask) message "{n} of {what}"
policy followed: (NEXT[0,6] ask) OR ask message "n {n:.1f}"
trigger alone per none: ask and not (EVENTUALLY[1,2] ask) message "{user} {n}"
policy later: n > 2 IMPLIES EVENTUALLY[0,3] n.last(or: 0) > 1 message "{n}"
"""
MESSAGES = {
    "answered": "{user}/{n}",
    "quiet": "{n} of {what}",
    "followed": "n {n:.1f}",
    "alone": "{user} {n}",
    "later": "{n}",
}

Rows = list[dict[str, Any]]


def random_rows(source: random.Random, count: int, users: str) -> Rows:
    clock, rows = 0, []
    for number in range(count):
        clock += source.choice([0, 0, 1, 1, 2, 7])
        what = source.choice(["ask", "reply", "-"])
        rows.append({"ts": clock, "user": source.choice(users), "what": what, "n": number % 7})
    return rows


def expected(rows: Rows, found: Rows) -> list[str | None]:
    """The message of each verdict: that of its row, if it is violated."""
    named: dict[tuple[str | None, int, int], dict[str, Any]] = {}
    counts: Counter[tuple[str | None, int]] = Counter()
    for row in rows:
        for user in (row["user"], None):
            named[user, row["ts"], counts[user, row["ts"]]] = row
            counts[user, row["ts"]] += 1
    return [
        MESSAGES[one["policy"]].format_map(named[one["user"], one["time"], one["offset"]])
        if one["verdict"] is False
        else None
        for one in found
    ]


@pytest.mark.parametrize("verdicts", ["all", "false", "first"])
@pytest.mark.parametrize("mode", ["local", "naive"])
def test_messages_are_those_of_the_rows(
    verdicts: Any, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 2)
    emitted: Counter[str] = Counter()
    for seed in range(30):
        source = random.Random(seed)
        rows = random_rows(
            source, source.choice([5, 40, 120]), source.choice(["u", "uvw", "abcdefgh"])
        )
        table = pa.Table.from_pylist(rows)
        parts, first = [], 0
        while first < len(rows):
            size = source.choice([1, 3, 50])
            parts.append(table.slice(first, size))
            first += size
        end: Any = source.choice([None, "last", "inf"])
        options: dict[str, Any] = {"verdicts": verdicts, "mode": mode, "end_time": end}
        found = check_log(RULES, parts, **options).to_arrow().to_pylist()
        assert [one["message"] for one in found] == expected(rows, found), seed
        emitted.update(one["policy"] for one in found if one["message"] is not None)
    assert set(emitted) == set(MESSAGES) or verdicts == "first"
    assert emitted


def test_keys_that_get_other_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 8)
    paths = []
    for number in range(12):
        stamps = range(20 * number, 20 * number + 20)
        lines = [f"{one},{'w' if one % 3 else 'u'}{one},{one}" for one in stamps]
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(["ts,user,n", *lines, ""]))
        paths.append(str(path))
    text = "atom late = n % 3 = 0\natom q = n < 0\n"
    text += 'policy p per user: late IMPLIES EVENTUALLY[0,90] q message "{user} {n}"\n'
    check = check_log(text, paths, end_time="inf", verdicts="false")
    found = check.to_arrow().to_pylist()
    assert check_of(check).keys_forgotten[0] > 50
    assert [one["message"] for one in found] == [f"u{n} {n}" for n in range(0, 240, 3)]


def test_the_first_violation_is_told_much_later() -> None:
    """An earlier time-point is undecided for long, while rows go on."""
    table = pa.table({"ts": range(0, 200, 2), "n": range(100)})
    text = "policy long: n = 0 IMPLIES EVENTUALLY[0,150] n = 70\n"
    text += 'policy short: n = 1 IMPLIES EVENTUALLY[0,3] n = 99 message "{n}"\n'
    (found,) = check_log(text, table.to_batches(5), verdicts="first").to_arrow().to_pylist()
    assert (found["policy"], found["time"], found["message"]) == ("short", 2, "1")


@pytest.mark.parametrize(
    "policy",
    [
        'policy p: slow IMPLIES EVENTUALLY[0,3] ok message "{slows} slow"',
        'policy p: slow IMPLIES EVENTUALLY[0,3] ok message "1 slow"',
        'policy p: slow IMPLIES ok message "{slows} slow"',
        'trigger p: slow and not ok message "{slows} slow"',
    ],
)
def test_messages_of_text_logs(policy: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(f"stream slows = count[0,5](slow)\n{policy}\n")
    arguments = ["--verdicts", "false", "--output-format", "jsonl", str(rules)]
    done = mtlmon(*arguments, log="@1 slow ok\n@2 ok\n@9 slow\n@20 q\n")
    (found,) = map(json.loads, done.output.splitlines())
    assert (found["time"], found["message"]) == (9, "1 slow")


@pytest.mark.parametrize("verdicts", ["false", "first"])
def test_messages_go_on(tmp_path: Path, verdicts: Any) -> None:
    """They are in snapshots, until their rows are decided."""
    for seed in range(6):
        rows = random_rows(random.Random(seed), 40, "uvw")
        paths = []
        for first in range(0, len(rows), 8):
            path = tmp_path / f"{seed}-{first}.csv"
            lines = [",".join(map(str, row.values())) for row in rows[first : first + 8]]
            path.write_text("\n".join(["ts,user,what,n", *lines, ""]))
            paths.append(str(path))
        found = check_log(RULES, paths, verdicts=verdicts).to_arrow().to_pylist()
        assert [one["message"] for one in found] == expected(rows, found)
        assert any(one["message"] for one in found)
        again = relayed(paths, RULES, verdicts)
        assert [one["message"] for one in again] == expected(rows, again)
        assert len(again) >= len(found)


def test_what_is_decided_is_forgotten() -> None:
    """Each of many rows could violate the policy; few of them wait."""
    count = 30_000
    text = 'policy p: n >= 0 IMPLIES EVENTUALLY[0,5] n = 1 message "{n}"'
    table = pa.table(
        {
            "ts": [number // 2 for number in range(count)],
            "n": [number % 3 for number in range(count)],
        }
    )
    for batches, fits in [(table.to_batches(1_000), True), ([table], False)]:
        check = check_log(text, batches, verdicts="false", max_memory="1M")
        if fits:
            assert check.to_arrow().num_rows == 0
        else:
            # those of a batch are kept together
            with pytest.raises(MemoryLimitError):
                check.to_arrow()
