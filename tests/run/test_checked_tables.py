"""`check_tables` of earlier versions is `mtlmon.check` by another name."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import pytest

import mtlmon
from tests.doors import TableCheck, check_tables

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

PLAIN = "policy a: p IMPLIES EVENTUALLY[0,3] q"
VARIABLES = "atom P(k) = p\npolicy b: NOT P(k)"
BOTH = f"{VARIABLES}\n{PLAIN}\ntrigger c: x > 4 message '{{k}}'\n".replace("'", '"')
KINDS = [PLAIN, VARIABLES, BOTH]


def table() -> Any:
    return pa.table(
        {
            "ts": [1, 2, 9],
            "k": ["a", "b", "a"],
            "p": [True, False, True],
            "q": [False, True, False],
            "x": [3, 4, 5],
        }
    )


def checked(*given: Any, **options: Any) -> TableCheck:
    with pytest.warns(DeprecationWarning, match=r"mtlmon\.check\(policies, tables") as warned:
        found = check_tables(*given, **options)
    assert [one.filename for one in warned] == [__file__]
    return found


@pytest.mark.parametrize("policies", KINDS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key": "k", "verdicts": "all"},
        {"rows": True, "resolve": True},
        {"verdicts": "none"},
        {"verdicts": "first"},
        {"end_time": "inf", "max_memory": "500M", "sort": True, "sort_memory": 1 << 20},
    ],
)
def test_it_says_what_check_says(policies: str, options: dict[str, Any]) -> None:
    wanted = mtlmon.check(policies, table(), **options)
    found = checked(table(), policies, **options)
    batches = list(found)
    assert all(isinstance(one, pa.RecordBatch) for one in batches)
    whole = wanted.to_arrow()
    assert pa.Table.from_batches(batches, found.schema).equals(whole)
    assert found.counts == wanted.counts
    assert checked(table(), policies, **options).to_arrow().equals(whole)
    assert found._repr_html_() == wanted._repr_html_()


def test_attributes_and_remarks() -> None:
    cells = pa.table({"ts": [1, 2], "id": ["7", "007"], "p": [True, False]})
    found = checked(cells, "policy a: p", key="id")
    assert found.events.rows == 0
    found.to_arrow()
    assert found.events.rows == 2
    assert found.log_check.event_count == 2
    assert "'7' and '007' are different" in found.remarks[0]
    frame = table()
    assert checked(frame, VARIABLES, rows=True).violations(frame).num_rows == 2


@pytest.mark.parametrize("policies", KINDS)
def test_a_log_is_read_as_batches_are_asked_for(policies: str) -> None:
    read = 0

    def rows() -> Any:
        nonlocal read
        for number in range(40):
            read += 1
            yield table().slice(0, 1).set_column(0, "ts", [[number]]).to_batches()[0]

    reader = pa.RecordBatchReader.from_batches(table().schema, rows())
    with checked(reader, policies, verdicts="all", resolve=True, mode="local") as found:
        next(found)
        assert read < 10
    with pytest.raises(StopIteration):
        next(found)
    del found
    gc.collect()


def test_errors(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(FileNotFoundError, match="missing"):
        check_tables(tmp_path / "missing.csv", PLAIN)
    with pytest.raises(mtlmon.MtlmonError, match="did you mean 'time'"):
        check_tables(table(), PLAIN, tiem="ts")
    found = checked(table().take([0, 2, 1]), "policy a: p")
    with pytest.raises(mtlmon.TableError, match="2 comes after 9"):
        list(found)
    found = checked(table(), "policy a: x > 9 IMPLIES p", vacuous="error")
    with pytest.raises(mtlmon.MtlmonError, match="policy a was never triggered"):
        list(found)


def test_rows_that_come_too_late() -> None:
    refused: list[bytes] = []
    rows = table().take([1, 0, 2])
    run = mtlmon.check("policy a: p", rows, wait=0, late=refused.append)
    assert [answer.time for answer in run] == [2, 9]
    assert b'"ts": 1' in b"".join(refused) or b'"ts":1' in b"".join(refused)
    assert "1 row came too late to be checked" in run.messages


@pytest.mark.parametrize(
    "text", ["p IMPLIES q", "policy a: NOT P(x)", "policy a: NOT P(x)\npolicy b: p"]
)
def test_counts_of_text_logs(text: str, tmp_path: Path) -> None:
    lines = "@1 p P(1)\n@2 q\n@5 p q P(2)\n"
    (tmp_path / "log").write_text(lines if "P(" in text else re.sub(r" P\(.\)", "", lines))
    run = mtlmon.check(text, tmp_path / "log", verdicts="false", resolve="policy b" in text)
    assert not any(one.events for one in run.counts.values())
    violations = run.to_arrow().num_rows
    assert sum(one.false for one in run.counts.values()) == violations > 0
    assert all(one.events == 3 for one in run.counts.values())
    assert "violation" in (run._repr_html_() or "")
