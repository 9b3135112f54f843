"""Files of tables as traces: failures name the row of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mtlmon
from mtlmon.errors import MtlmonError, TableError, UnknownAtomWarning, ViolationError
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
        ("p", "ts,p\n5,true\n4,true\n", r"bad\.csv:3: .* out of order: add sort=True to"),
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


def test_policies_at_ticks_and_streams_at_ticks() -> None:
    on_ticks = "unit s\npolicy calm on every 3s: count[0,3s](request) < 2"
    with pytest.raises(ViolationError, match=r"^3:0 violates calm\n"):
        assert_holds(on_ticks, "orders.csv")
    assert check(on_ticks, "orders.csv").violations == [(3, 0)]
    stream = "unit s\nstream slow = max[0,9s](latency) every 5s\npolicy a: slow.hold(or: 0) < 4"
    with pytest.raises(ViolationError, match=r"^9:0 .*\n.*\nin orders\.csv:5\n"):
        assert_holds(stream, "orders.csv")


def test_options_of_the_command() -> None:
    Path("other.csv").write_text("at;what\n9;pay|ship\n2;order\nlater;pay\n")
    options: Any = {"delimiter": ";", "event": "what", "time": "at", "on_error": "skip"}
    policy = "unit s\nconst most = 5s\npolicy soon: order IMPLIES EVENTUALLY[0,most] ship"
    result = check(policy, "other.csv", sort=True, set={"most": "7s"}, **options)
    assert (result.event_count, result.violations) == (2, [])
    assert "skipped 1 row that could not be read" in result.messages
    with pytest.raises(ViolationError, match=r"2:0 violates soon\n.*\nin other\.csv:3\n"):
        assert_holds(policy, "other.csv", lateness="7s", **options)
    with pytest.raises(TableError, match="comes too late"):
        assert_holds(policy, "other.csv", lateness="6s", **options)
    assert_holds("true", "other.csv", late="late.csv", wait="6s", unit="s", **options)
    assert Path("late.csv").read_text() == "at;what\n2;order\n"


def test_many_keys_are_reported_at_once() -> None:
    lines = [f"{number},k{number % 50},{number % 7 > 0}" for number in range(500)]
    Path("keys.csv").write_text("\n".join(["ts,k,p", *lines, ""]))
    result = check("p", "keys.csv", key="k")
    assert len(result.keys) == 50
    assert sum(one.false_count for one in result.keys.values()) == result.false_count == 72
    assert "\nin keys.csv:9\nfor k = k7\n" in str(result.keys["k7"])
    assert [one.event_count for one in result.keys.values()] == [10] * 50


@pytest.mark.parametrize("text", [RESPONSE, "policy a per user: NOT (request AND NEXT response)"])
def test_results_are_those_of_a_run(text: str) -> None:
    for end_time in (None, "last", "inf", 11):
        run = mtlmon.check(text, "orders.csv", resolve=True, end_time=end_time)
        wanted = [(one.time, one.offset) for one in run if one.verdict is False]
        (counts,) = run.counts.values()
        result = check(text, "orders.csv", end_time=end_time)
        assert result.violations == sorted(wanted)
        found = result.true_count, result.false_count, result.undecided_count
        assert found == (counts.true, counts.false, counts.undecided)


def test_options_that_a_trace_cannot_obey() -> None:
    trace: Any = [(1, {"p"})]
    with pytest.raises(TypeError, match=r"assert_holds\(slices=...\) is about files and tables"):
        assert_holds("p", trace, slices=2)
    with pytest.raises(TypeError, match=r"check\(\) has no option 'lateness_'; did you mean"):
        check("p", trace, lateness_=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"check\(\) has no option report, which mtlmon.check has"):
        check("p", "orders.csv", report="r.html")  # type: ignore[call-arg]
    with pytest.raises(MtlmonError, match="set= is for the text of a policy file"):
        check(mtlmon.parse("p"), trace, set={"n": 1})
