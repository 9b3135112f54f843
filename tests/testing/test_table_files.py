"""Files of tables as traces: failures name the row of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlmon.errors import TableError, UnknownAtomWarning, ViolationError
from mtlmon.testing import assert_holds, check, policies

CSV = """\
ts,user,request,response,latency
0,ann,true,false,3
2,bob,true,false,4
5,ann,false,true,9
9,bob,false,true,2
"""
RESPONSE = "request IMPLIES EVENTUALLY[0,5] response"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("orders.csv").write_text(CSV)
    return tmp_path


def test_the_row_of_a_violation() -> None:
    assert_holds("request IMPLIES EVENTUALLY[0,7] response", "orders.csv", at_end="closed")
    with pytest.raises(ViolationError, match=r"^2:0 .*\nin orders\.csv:3\nfor user = bob\n"):
        assert_holds(RESPONSE, Path("orders.csv"), key="user")
    with pytest.raises(ViolationError, match=r"\nin orders\.csv:4\n\n(.*\n)*  > 5:0  .*latency=9"):
        assert_holds("latency < 5", "orders.csv")
    assert check(RESPONSE, "orders.csv", key="user").keys[("bob")].violations == [(2, 0)]


def test_windows_of_keys() -> None:
    policy = "unit s\npolicy slow per user: sum[0,1m](latency) < 10"
    with pytest.raises(ViolationError) as caught:
        assert_holds(policy, "orders.csv")
    report = str(caught.value)
    assert "in orders.csv:4\nfor user = ann\n" in report
    assert "sum[0,1m](latency)=12" in report
    assert "2:0" not in report


def test_declarations_of_policies(directory: Path) -> None:
    Path("log.jsonl").write_text(
        '{"at": "2024-05-01T12:00:00Z", "what": "pay"}\n'
        '{"at": "2024-05-01T12:00:09Z", "what": "ship"}\n'
    )
    Path("shop.mtl").write_text(
        'unit s\ntime "at"\nevent "what"\n'
        "policy soon: pay IMPLIES EVENTUALLY[0,5s] ship\n"
        "policy paid: ship IMPLIES ONCE pay\n"
    )
    soon, paid = policies("shop.mtl")
    assert_holds(paid, "log.jsonl")
    with pytest.raises(ViolationError, match=r"\nin log\.jsonl:1\n"):
        assert_holds(soon, "log.jsonl")
    Path("shop.mtl").write_text('event "what"\ntime "at"\nunit s\npolicy a: NOT shop')
    with pytest.warns(UnknownAtomWarning, match="'shop', .* did you mean 'ship'"):
        assert_holds(policies("shop.mtl")[0], "log.jsonl")


def test_a_pattern() -> None:
    Path("app.log").write_text("1 start\n# note\n2 stop\n")
    policy = 'pattern "^(?P<ts>[0-9]+) (?P<what>[a-z]+)"\nevent "what"\npolicy a: NOT stop'
    with pytest.raises(ViolationError, match=r"\nin app\.log:3\n"):
        assert_holds(policy, "app.log")


def test_files_of_other_formats_and_many_rows() -> None:
    count = 200_000
    table = pa.table({"ts": range(count), "p": [number != 150_000 for number in range(count)]})
    pq.write_table(table, "big.parquet")
    for keep in 100, None:
        with pytest.raises(ViolationError, match=r"\nin big\.parquet row 150001\n"):
            assert_holds("p", "big.parquet", keep=keep)


@pytest.mark.parametrize(
    ("formula", "text", "message"),
    [
        ("p AND q", "ts,p\n0,true\n", "column 'q'"),
        ("p", "ts,p\n5,true\n4,true\n", r"bad\.csv:3: .* out of order: add wait='5s' if [^,]*$"),
        ("p", "ts,p\nnoon,true\n", r"bad\.csv"),
    ],
)
def test_files_that_are_refused(formula: str, text: str, message: str) -> None:
    Path("bad.csv").write_text(text)
    with pytest.raises(TableError, match=message):
        assert_holds(formula, "bad.csv")


def test_more_atoms_than_a_word_has_bits() -> None:
    names = [f"p{number}" for number in range(70)]
    Path("wide.csv").write_text(
        ",".join(["ts", *names]) + "\n1" + ",true" * 70 + "\n2" + ",true" * 69 + ",false\n"
    )
    formula: Any = " AND ".join(names)
    assert check(formula, "wide.csv").violations == [(2, 0)]


def test_policies_with_variables() -> None:
    Path("shop.mtl").write_text(
        "atom slow(user) = latency > 3\npolicy calm: NOT (slow(u) AND ONCE[1,5] slow(v))"
    )
    policy = policies("shop.mtl")[0]
    with pytest.raises(
        ViolationError, match=r"^5:0 .*\n(.*\n)?in orders\.csv:4\nfor u = ann, v = bob"
    ):
        assert_holds(policy, "orders.csv")
