"""What was known when: changelogs with --arrival, and mtlmon latest --as-of."""

from __future__ import annotations

import json
from itertools import accumulate, groupby
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

import mtlmon
from mtlmon import parse
from tests.cli.process import Live
from tests.cli.process import mtlmon as command
from tests.cli.test_continuous_queries import NAMES, RULES, late_rows, rows_of, text_of
from tests.cli.test_lateness import FORMULAS, late_events, line_of
from tests.cli.test_lateness import text_of as log_of
from tests.reference.changelog import holds
from tests.reference.history import monitored, states_of
from tests.run.test_live import POLICIES, Row, checked, cut, given_rows, plain
from tests.sampling import thinned

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# the columns that do not tell what a change is about
_NO_NAMES = {
    "verdict",
    "reference",
    "message",
    "text",
    "severity",
    "op",
    "revision",
    "final",
    "arrival",
}


@pytest.fixture
def rules(tmp_path: Path) -> str:
    (tmp_path / "limits.csv").write_text("k,from,to,most\na,0,100,3\na,100,,5\nb,50,,2\n")
    path = tmp_path / "rules.mtl"
    path.write_text(RULES)
    return str(path)


def by_arrival(output: str) -> dict[int, list[str]]:
    """The lines of a changelog without their arrival, by it."""
    found: dict[int, list[str]] = {}
    for line in output.splitlines():
        said, _, arrival = line.rpartition("\t@")
        found.setdefault(int(arrival), []).append(said)
    return found


@pytest.mark.parametrize("formula", FORMULAS)
def test_lines_of_an_arrival_lead_to_what_the_log_said_then(formula: str, tmp_path: Path) -> None:
    """However many rows are read at once: of a file, all are."""
    log = tmp_path / "log"
    for seed in thinned(range(3)):
        events = late_events(seed)
        clocks = list(accumulate((event.time_stamp for event in events), max))
        batches = [
            [event for event, _ in group]
            for _, group in groupby(zip(events, clocks, strict=True), key=lambda pair: pair[1])
        ]
        states = states_of(batches, 6, monitored(parse(formula)))
        log.write_text(log_of(events))
        done = command("--lateness", "6", "--arrival", "-e", formula, str(log))
        lines = by_arrival(done.output)
        groups = [lines.get(clock, []) for clock in dict.fromkeys(clocks)]
        assert sum(map(len, groups)) == len(done.output.splitlines())
        holds(groups, states)
        for number, clock in enumerate(dict.fromkeys(clocks)):
            if number % 7:
                continue
            asked = ("latest", "--resolve", "--as-of", str(clock))
            values = {name: states[number].value(name) for name in states[number].verdicts}
            wanted = [
                f"{time}:{offset} {'true' if value else 'false'}"
                for (_, (time, offset)), value in sorted(values.items())
                if value is not None
            ]
            assert command(*asked, log=done.output).output.splitlines() == wanted


def test_a_pipe_says_what_a_file_says() -> None:
    events = late_events(5)
    given = ("--lateness", "6", "--arrival", "--resolve", "-e", FORMULAS[0])
    whole = by_arrival(command(*given, log=log_of(events)).output)
    with Live(*given) as live:
        for event in events:
            live.send(f"{line_of(event)}\n")
        piped = by_arrival(live.end().output)
    assert {clock: sorted(lines) for clock, lines in piped.items()} == {
        clock: sorted(lines) for clock, lines in whole.items()
    }


def folded(answers: Iterable[Row], as_of: int) -> dict[Any, Any]:
    """What a table of changes says at a time: verdicts and values that violate policies."""
    known: dict[Any, Any] = {}
    for row in answers:
        if row["arrival"] > as_of:
            continue
        name = tuple((one, str(cell)) for one, cell in row.items() if one not in _NO_NAMES)
        if row["op"] == "delete":
            known.pop(name, None)
        else:
            known[name] = row["verdict"], row.get("message")
    return known


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("formula", {"key": "k", "resolve": True}),
        ("formula", {"key": "k", "clock": "key", "resolve": True}),
        ("plain", {"resolve": True, "wait": 2}),
        ("keyed", {"resolve": True}),
        ("variables", {}),
        ("variables", {"slices": 3}),
        ("both", {"resolve": True}),
    ],
)
def test_every_host_says_the_same_at_every_time(name: str, options: Row, tmp_path: Path) -> None:
    for seed in thinned(range(4)):
        rows, chance = given_rows(seed, late=True), Random(seed)
        asked = {"lateness": 4, "arrival": True, **options}
        clocks = list(accumulate((row["ts"] for row in rows), max))
        whole = plain(checked(POLICIES[name], [rows], asked))
        pieces = plain(checked(POLICIES[name], cut(rows, chance), asked))
        live = mtlmon.live(POLICIES[name], **asked)
        fed: list[Row] = []
        for row, clock in zip(rows, clocks, strict=True):
            new = plain(live.feed(row))
            assert {one["arrival"] for one in new} <= {clock}
            fed += new
            if chance.random() < 0.1:
                live = mtlmon.live(POLICIES[name], **asked, snapshot=live.snapshot())
        fed += plain(live.end())
        assert whole
        for clock in dict.fromkeys(clocks):
            assert folded(whole, clock) == folded(pieces, clock) == folded(fed, clock)
        assert len({len(folded(whole, clock)) for clock in clocks}) > 3


def corrected_rows(seed: int) -> list[Row]:
    """Rows of which some take others back or replace them, and some only let time pass."""
    chance, found = Random(seed), list[Row]()
    for number, row in enumerate(given_rows(seed, late=True)):
        found.append({**row, "op": "+", "id": f"r{number}"})
        if chance.random() < 0.2:
            known = chance.choice([one for one in found[-12:] if one["op"] == "+"])
            back: Row = {"op": "-", "ts": row["ts"] + 50}
            found.append({**known, "q": True, **(back if chance.random() < 0.5 else {})})
        if chance.random() < 0.05:
            found.append({**row, "op": "advance", "id": None})
    return found


@pytest.mark.parametrize("name", ["plain", "variables"])
def test_rows_that_are_taken_back(name: str) -> None:
    """The time of a retraction is none of the log."""
    asked: Row = {"lateness": 4, "arrival": True, "op": "op", "id": "id", "on_error": "skip"}
    asked["resolve"] = name == "plain"
    for seed in thinned(range(3)):
        rows = corrected_rows(seed)
        assert {row["op"] for row in rows} == {"+", "-", "advance"}
        clocks = list(accumulate((row["ts"] for row in rows if row["op"] != "-"), max))
        whole = plain(checked(POLICIES[name], [rows], asked))
        assert {row["arrival"] for row in whole} <= set(clocks)
        live = mtlmon.live(POLICIES[name], **asked)
        fed = [one for row in rows for one in plain(live.feed(row))] + plain(live.end())
        for clock in dict.fromkeys(clocks):
            assert folded(whole, clock) == folded(fed, clock)
        assert whole
        assert name == "variables" or {row["op"] for row in fed} == {"insert", "update", "delete"}


@pytest.mark.parametrize("name", NAMES)
def test_records_as_of_a_time(name: str, rules: str, tmp_path: Path) -> None:
    """They are those of the rows until then, as far as they have begun."""
    rows = late_rows(rows_of(6, 120), 15, 7)
    log, output = tmp_path / "late.csv", tmp_path / "out.jsonl"
    log.write_text(text_of(rows))
    asked = ["query", "--lateness", "15", "--arrival"]
    done = command(*asked, "-o", str(output), rules, name, str(log))
    assert (done.status, done.errors) == (0, "")
    clocks = list(accumulate((time for time, _ in rows), max))
    for clock in [*list(dict.fromkeys(clocks))[::9], clocks[-1]]:
        known = [row for row, own in zip(rows, clocks, strict=True) if own <= clock]
        log.write_text(text_of(sorted(known, key=lambda row: row[0])))
        wanted = command("query", rules, name, str(log)).output.splitlines()
        latest = command("latest", "--as-of", str(clock), str(output)).output.splitlines()
        # at the end of the log, all are told
        begun = [one for one in wanted if json.loads(one)["start"] <= clock or clock == clocks[-1]]
        assert sorted(latest) == sorted(begun)


def test_records_of_programs_have_their_arrival(rules: str) -> None:
    rows = [{"ts": 1, "k": "a", "kind": "open", "v": 1}, {"ts": 9, "k": "b", "kind": "open"}]
    rows.append({"ts": 5, "k": "a", "kind": "close", "v": 2})
    table = pa.Table.from_pylist(rows)
    text = 'relation s = rows valid until kind = "close" per k where kind = "open" select k as k'
    found = mtlmon.query(text, "s", table, lateness=10, arrival=True).to_pylist()
    assert [(one["start"], one["end"], one["arrival"]) for one in found] == [
        (1, None, 1),
        (1, 5, 9),
        (9, None, 9),
    ]
    named = text.replace("k as k", "k as arrival")
    plain_records = mtlmon.query(named, "s", table, lateness=10)
    assert [one["arrival"] for one in plain_records] == ["a", "b"]
    with pytest.raises(mtlmon.MtlmonError, match="a column 'arrival' besides"):
        mtlmon.query(named, "s", table, lateness=10, arrival=True).to_arrow()


def test_a_column_of_records_is_no_arrival(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    revision = {"start": 1, "end": 4, "arrival": 7, "op": "insert", "revision": 1, "final": 5}
    path.write_text(json.dumps({**revision, "old_end": None}) + "\n")
    assert command("latest", str(path)).output == '{"start":1,"end":4,"arrival":7}\n'
    refused = command("latest", "--as-of", "9", str(path))
    assert refused.status == 2
    assert refused.errors == (
        f"mtlmon: {path}:1:1: this revision does not say when it was told: mtlmon --lateness D "
        "--arrival writes changelogs for --as-of\n"
    )


LINES = "@100 ask\n@107\n@102 reply\n@200\n"
GIVEN = ("--lateness", "60", "--arrival", "-e", "ask IMPLIES EVENTUALLY[0,5] reply")


def test_formats_of_a_changelog(tmp_path: Path) -> None:
    text = command(*GIVEN, log=LINES).output
    assert text.splitlines() == [
        "!@35\t@100",
        *("100:0 false\t@107", "107:0 true\t@107", "!@42\t@107"),
        *("!100:0 true\t@107", "102:0 true\t@107"),
        *("200:0 true\t@200", "!@135\t@200"),
    ]
    wanted = [(100, 107), (107, 107), (100, 107), (102, 107), (200, 200)]
    lines = command(*GIVEN, "--output-format", "jsonl", log=LINES).output.splitlines()
    assert [(row["time"], row["arrival"]) for row in map(json.loads, lines)] == wanted
    head, *_, last = command(*GIVEN, "--output-format", "csv", log=LINES).output.splitlines()
    assert (head.split(",")[-1], last.split(",")[-1]) == ("arrival", "200")
    path = tmp_path / "out.parquet"
    command(*GIVEN, "--output-format", "parquet", "-o", str(path), log=LINES)
    assert pq.read_table(path)["arrival"].to_pylist() == [arrival for _, arrival in wanted]
    iso = command(*GIVEN, "--unit", "s", "--time-stamps", "iso", log=LINES).output
    assert iso.splitlines()[0] == "!@1970-01-01T00:00:35Z\t@1970-01-01T00:01:40Z"


def test_what_else_reads_a_changelog() -> None:
    text = command(*GIVEN, log="@100 ask\n" + LINES).output
    resolved = command("resolve", "--changelog", log=text)
    assert "!100:1 true\t@107" in resolved.output.splitlines()
    for given in ((), ("--as-of", "107"), ("--as-of", "150", "--final")):
        from_resolved = command("latest", *given, log=resolved.output)
        assert from_resolved.output == command("latest", "--resolve", *given, log=text).output
    ended = command(*GIVEN, "--end-time", "300", log="@100 ask\n").output
    assert ended.splitlines() == ["!@35\t@100", "100:0 false\t@300"]


@pytest.mark.parametrize(
    ("arguments", "log", "error"),
    [
        (
            ("latest", "--as-of", "3"),
            "1:0 true\n",
            "mtlmon: <stdin>:1:1: this line does not say when it was written: mtlmon --lateness D "
            "--arrival writes changelogs for --as-of (1:0 true)\n",
        ),
        (
            ("latest",),
            "1:0 true\t@2\n!@3\t@4\nk\t!2:0 true\t@4\n",
            "mtlmon: <stdin>:3:3: verdicts below 3 are final (k\\t!2:0 true)\n",
        ),
        (
            ("latest", "--as-of", "last"),
            "",
            "mtlmon: argument --as-of: 'last' is not an integer from 0 to 9223372036854775807 "
            "(see mtlmon latest --help)\n",
        ),
        (
            ("--arrival", "-e", "p"),
            "",
            "mtlmon: --arrival says when changes were told: let late rows change what was told, "
            "with --lateness 5m (see mtlmon --help)\n",
        ),
    ],
)
def test_errors(arguments: tuple[str, ...], log: str, error: str) -> None:
    done = command(*arguments, log=log)
    assert (done.status, done.errors) == (2, error)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """What follows a checkpoint has the arrivals that it has without one."""
    log, output, state = (tmp_path / name for name in ("log", "out", "state"))
    events = late_events(8)
    given = (*GIVEN[:-1], FORMULAS[2], "--checkpoint", str(state), "-o", str(output), str(log))
    log.write_text(log_of(events[:30]))
    with Live(*given[:-1], "--checkpoint-every", "5") as live:
        for event in events[:30]:
            live.send(f"{line_of(event)}\n")
        live.wait_until_read()
        live.process.terminate()
        live.process.wait()
    log.write_text(log_of(events))
    resumed = command("--resume", *given)
    assert resumed.status in (0, 1), resumed.errors
    whole = command(*GIVEN[:-1], FORMULAS[2], str(log)).output
    for clock in {event.time_stamp for event in events}:
        asked = ("latest", "--resolve", "--as-of", str(clock))
        found = command(*asked, log=output.read_text()).output
        assert found == command(*asked, log=whole).output
