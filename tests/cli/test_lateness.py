"""Verdicts that late rows correct: --lateness and --consistency."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import pytest

from mtlmon import parse
from tests.cli.process import Ended, Live
from tests.reference.changelog import Collapsed, holds
from tests.reference.history import Insert, evaluated, monitored, states_of
from tests.reference.late import judged_and_refused
from tests.traces import EndTime

Command = Callable[..., Ended]

FORMULAS = (
    "ask IMPLIES EVENTUALLY[0,5] (reply OR stop)",
    "ALWAYS[0,4] (ask IMPLIES EVENTUALLY[1,6] reply)",
    "stop IMPLIES ONCE[0,3] ask",
    "ask SINCE reply",
    "(PREVIOUS ask) OR EVENTUALLY reply",
)


def late_events(seed: int, count: int = 60) -> list[Insert]:
    """Events as they come: some are late, and some are more than 6 late."""
    source = random.Random(seed)
    now = 100
    events = []
    for _ in range(count):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        names = [name for name in ("ask", "reply", "stop") if source.random() < 0.3]
        events.append(Insert(stamp, frozenset(names)))
    return events


def line_of(event: Insert) -> str:
    return " ".join([f"@{event.time_stamp}", *sorted(event.letter)])


def text_of(events: list[Insert]) -> str:
    return "".join(f"{line_of(event)}\n" for event in events)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_file(formula: str, tmp_path: Path, command: Command) -> None:
    log, late = tmp_path / "log", tmp_path / "late"
    ends: tuple[EndTime, ...] = (None, "last", "inf", 400)
    for seed, end in enumerate(ends):
        events = late_events(seed)
        log.write_text(text_of(events))
        options = [] if end is None else ["--end-time", end]
        done = command("--lateness", 6, "--late", late, *options, "-e", formula, log)
        states = states_of([events], 6, monitored(parse(formula)), end_time=end)
        # What is read at once and the end of the log are two batches.
        holds([done.output.splitlines()], [states[-1]], exactly=True)
        values = [states[-1].value(name) for name in states[-1].verdicts]
        assert done.status == (1 if False in values else 0), done.errors
        refused = [events[number] for number in states[-1].refused]
        assert late.read_text() == text_of(refused)
        lines = f"{len(refused)} line{'s' if len(refused) > 1 else ''}"
        if refused:
            assert f"{lines} came too late to be checked (see {late})" in done.errors


def test_a_live_pipe_tells_the_changes_of_each_line() -> None:
    with Live("--lateness", "60", "-e", "ask IMPLIES EVENTUALLY[0,5] reply") as live:
        for text, lines in (
            ("@100 ask\n", ["!@35"]),
            ("@107\n", ["100:0 false", "107:0 true", "!@42"]),
            ("@102 reply\n", ["!100:0 true", "102:0 true"]),
            ("@200\n", ["200:0 true", "!@135"]),
        ):
            live.send(text)
            assert [live.read_line() for _ in lines] == lines


def test_a_named_policy(tmp_path: Path, command: Command) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text("unit s\npolicy answered: ask IMPLIES EVENTUALLY[0,5s] reply\n")
    log = tmp_path / "log"
    log.write_text("@100 ask\n@107\n@102 reply\n")
    done = command("--lateness", "1m", "--wait", "2s", policies, log)
    assert done == (
        0,
        "answered\t100:0 true\nanswered\t102:0 true\n!@42\nanswered\t107:0 true\n",
        "",
    )


SELECTED = {
    "all": [
        ["!@35"],
        ["100:1 = 100:0"],
        ["100:0 false", "107:0 true", "!@42"],
        ["!100:0 true", "101:0 true"],
        ["!@135"],
    ],
    "boolean": [
        ["!@35"],
        [],
        ["100:0 false", "107:0 true", "!@42"],
        ["!100:0 true", "101:0 true"],
        ["!@135"],
    ],
    "false": [["!@35"], [], ["100:0 false", "!@42"], ["!100:0 true"], ["!@135"]],
}


@pytest.mark.parametrize("selection", SELECTED)
def test_selected_verdicts(selection: str) -> None:
    """A change is written if the old or the new verdict would be."""
    formula = "ask IMPLIES EVENTUALLY[0,5] reply"
    with Live("--lateness", "60", "--verdicts", selection, "-e", formula) as live:
        for line, wanted in zip(
            ("@100 ask", "@100 ask", "@107", "@101 reply", "@200 ask"),
            SELECTED[selection],
            strict=True,
        ):
            live.send(f"{line}\n")
            assert [live.read_line() for _ in wanted] == wanted


def test_strong_and_weak_are_orders(tmp_path: Path, command: Command) -> None:
    """Strong is `--wait`, and weak refuses all that is late."""
    events = late_events(1)
    rows = [(event.time_stamp, line_of(event)) for event in events]
    log, ordered = tmp_path / "log", tmp_path / "ordered"
    log.write_text(text_of(events))
    for consistency, wait in (("strong", 6), ("weak", 0)):
        judged, refused = judged_and_refused(rows, wait)
        ordered.write_text("".join(f"{row}\n" for _, row in judged))
        wanted = command("-e", FORMULAS[0], ordered)
        for options in (["--lateness", 6, "--consistency", consistency], ["--wait", wait]):
            done = command(*options, "-e", FORMULAS[0], log)
            assert (done.status, done.output) == wanted[:2], done.errors
            assert f"{len(refused)} line" in done.errors
    middle = command("--lateness", 6, "--consistency", "middle", "-e", FORMULAS[0], log)
    assert middle == command("--lateness", 6, "-e", FORMULAS[0], log)
    [state] = states_of([events], 6, evaluated(parse(FORMULAS[0])))
    holds([middle.output.splitlines()], [state])


def test_the_summary_counts_corrections(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@100 p\n@109\n@101 q\n@20\nbad\n")
    done = command(
        *("--lateness", 9, "--summary", "--verdicts", "none", "--on-error", "skip"),
        *("-e", "p IMPLIES EVENTUALLY[0,5] q", log),
    )
    assert (done.status, done.output) == (0, "")
    assert "1 line came too late to be checked" in done.errors
    assert "skipped 1 line that could not be read" in done.errors
    for line in (
        r"events +4",
        r"late +1  that came after later ones",
        r"judged again +0  time-points",
        r"revisions +0  of verdicts",
        r"skipped +1  that cannot be read",
        r"too late +1  that were not checked",
        r"true +3",
    ):
        assert re.search(f"^{line}$", done.errors, re.MULTILINE), line


def test_bad_lines_have_places(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@100 p\n@99 p\n@x p\n")
    done = command("--lateness", 9, "-e", "p", log)
    assert done.status == 2
    assert done.output == "99:0 true\n100:0 true\n!@91\n"
    assert done.errors.startswith(f"mtlmon: {log}:3:2: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--consistency", "weak"], "--consistency is about rows that come late: say how late"),
        (
            ["--lateness", "5", "--wait", "2", "--consistency", "middle"],
            "--consistency says how long rows wait: leave it or --wait out",
        ),
        (["--lateness", "5", "--wait", "6"], "--wait 6 is longer than --lateness 5"),
        (["--lateness", "5s"], "--lateness 5s needs the unit of the time-stamps: add --unit s"),
        (["--lateness", "5", "--sort"], "--lateness does not work with --sort"),
        (
            ["--lateness", "5", "--signature", "s", "--output-format", "monpoly"],
            "--lateness does not work with --output-format monpoly",
        ),
        (
            ["--lateness", "5", "--idle", "5s", "--clock", "key"],
            "--clock key does not work with --idle: ",
        ),
        (
            ["--clock", "key"],
            "--clock says how the lateness of rows is measured: say how",
        ),
        (
            ["--lateness", "5", "--consistency", "strong", "--clock", "key"],
            "--clock is only for verdicts that are corrected: with --consistency strong",
        ),
    ],
)
def test_refused_options(
    options: list[str], message: str, tmp_path: Path, command: Command
) -> None:
    log = tmp_path / "log"
    log.write_text("@1 p\n")
    done = command(*options, "-e", "p", log)
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith(f"mtlmon: {message}"), done.errors


# ---- several policies, and tables --------------------------------------------------------------

TEXTS = """\
policy answered: ask IMPLIES EVENTUALLY[0,5] (reply OR stop)
policy nested: ALWAYS[0,4] (ask IMPLIES EVENTUALLY[1,6] reply)
policy past: stop IMPLIES ONCE[0,3] ask
"""


def collapsed(output: str) -> list[str]:
    changelog = Collapsed()
    for line in output.splitlines():
        changelog.read(line)
    return sorted(
        f"{key}\t{verdict}" for (key, _), verdict in changelog.verdicts.items() if verdict
    )


def test_several_policies_on_a_text_log(tmp_path: Path, command: Command) -> None:
    policies, log, ordered = tmp_path / "p.mtl", tmp_path / "log", tmp_path / "ordered"
    policies.write_text(TEXTS)
    for seed, end in enumerate(("last", "inf", "400")):
        events = late_events(seed)
        log.write_text(text_of(events))
        rows = [(event.time_stamp, line_of(event)) for event in events]
        judged, refused = judged_and_refused(rows, 6)
        ordered.write_text("".join(f"{row}\n" for _, row in judged))
        wanted = command("--end-time", end, policies, ordered)
        with Live("--lateness", "6", "--end-time", end, str(policies)) as live:
            for line in text_of(events).splitlines(keepends=True):
                live.send(line)
            done = live.end()
        assert collapsed(done.output) == sorted(wanted.output.splitlines())
        assert done.status == wanted.status
        assert f"{len(refused)} line" in done.errors
        bounds = [line for line in done.output.splitlines() if "@" in line]
        assert bounds
        assert all(line.startswith("!@") for line in bounds)


TABLE = """\
key host
atom slow = millis > 500
policy answered severity high: ask IMPLIES EVENTUALLY[0,5] reply
policy rarely at most 20% severity low: reply IMPLIES NOT slow
policy whole per none: ask IMPLIES ONCE[0,9] reply
policy pair per user, host: ALWAYS[0,3] (slow IMPLIES EVENTUALLY[0,4] reply)
"""


def table_rows(seed: int, count: int = 80) -> list[tuple[int, str]]:
    """Rows of CSV as they come, with their time-stamps."""
    source = random.Random(seed)
    rows = []
    for event in late_events(seed, count):
        host, user = source.choice(["a,b", "c"]), source.choice("xyz")
        held = ",".join(str(name in event.letter).lower() for name in ("ask", "reply"))
        cells = f'{event.time_stamp},"{host}",{user},{held},{source.choice([20, 900])}'
        rows.append((event.time_stamp, cells))
    return rows


HEADER = "ts,host,user,ask,reply,millis\n"


def csv_of(rows: list[tuple[int, str]]) -> str:
    return HEADER + "".join(f"{row}\n" for _, row in rows)


def test_tables(tmp_path: Path, command: Command) -> None:
    """The same rows as CSV, JSON lines, Parquet and lines of a pattern, with keys."""
    policies, sorted_log, late = tmp_path / "p.mtl", tmp_path / "sorted.csv", tmp_path / "late"
    policies.write_text(TABLE)
    rows = table_rows(1)
    judged, refused = judged_and_refused(rows, 6)
    sorted_log.write_text(csv_of(judged))
    wanted = command("--end-time", "last", policies, sorted_log)
    logs = [tmp_path / name for name in ("log.csv", "log.jsonl", "log.parquet", "log.arrow")]
    logs[0].write_text(csv_of(rows))
    read = pyarrow.csv.read_csv(logs[0])
    logs[1].write_text("".join(f"{json.dumps(row)}\n" for row in read.to_pylist()))
    pyarrow.parquet.write_table(read, logs[2])
    pyarrow.feather.write_feather(read, logs[3], compression="uncompressed")
    for log in logs:
        done = command(
            *("--lateness", 6, "--late", late, "--end-time", "last", "--summary", policies, log)
        )
        assert collapsed(done.output) == sorted(wanted.output.splitlines()), done.errors
        assert done.status == wanted.status
        assert len(late.read_text().splitlines()) == len(refused) + (log == logs[0])
        assert re.search(rf"^too late +{len(refused)} ", done.errors, re.MULTILINE)
        assert re.search(r"^late +[1-9]", done.errors, re.MULTILINE)
    assert json.loads(late.read_text().splitlines()[0])["ts"] == refused[0][0]
    command("--lateness", 6, "--late", late, policies, logs[0])
    assert late.read_text() == csv_of(refused)
    pattern = (
        r"^(?P<ts>\d+),\"(?P<host>.*)\",(?P<user>\w),(?P<ask>\w+),(?P<reply>\w+),(?P<millis>\d+)"
    )
    done = command(
        *("--lateness", 6, "--end-time", "last", "--pattern", pattern, policies, logs[0])
    )
    assert collapsed(done.output) == sorted(wanted.output.splitlines()), done.errors


def test_strong_tables_are_sorted_ones(tmp_path: Path, command: Command) -> None:
    """Byte for byte, and rows in order have no revisions."""
    policies, log, sorted_log = (tmp_path / name for name in ("p.mtl", "log.csv", "sorted.csv"))
    policies.write_text(TABLE)
    for seed in range(3):
        rows = table_rows(seed)
        log.write_text(csv_of(rows))
        sorted_log.write_text(csv_of(judged_and_refused(rows, 6)[0]))
        for options in ([], ["--output-format", "csv", "--end-time", "last"], ["--resolve"]):
            wanted = command("--sort", *options, policies, sorted_log)
            done = command("--lateness", 6, "--consistency", "strong", *options, policies, log)
            assert done[:2] == wanted[:2]
        done = command("--lateness", 6, "--summary", policies, sorted_log)
        lines = [line for line in done.output.splitlines() if not line.startswith("!@")]
        assert sorted(lines) == sorted(command(policies, sorted_log).output.splitlines())
        assert re.search("^revisions +0 ", done.errors, re.MULTILINE)


@pytest.mark.parametrize("clock", ["all", "key"])
def test_a_live_table(clock: str, tmp_path: Path, command: Command) -> None:
    """Each line is a batch, and mtlmon latest makes of the changes what a sorted log has."""
    policies, sorted_log, changes = tmp_path / "p.mtl", tmp_path / "log.csv", tmp_path / "changes"
    policies.write_text(TABLE)
    emitted = [
        (20, "20,c,x,true,false,20"),
        (30, "30,c,x,false,false,20"),
        (24, "24,c,x,false,true,900"),
    ]
    rows = table_rows(2)
    sorted_log.write_text(csv_of(sorted([*emitted, *rows], key=lambda row: row[0])))
    wanted = command("--end-time", "last", policies, sorted_log)
    options = ["--lateness", "9", "--clock", clock, "--end-time", "last", "--format", "csv"]
    lines: list[str | None] = []
    with Live(*options, str(policies)) as live:
        live.send(HEADER)
        for (_, row), line in zip(
            emitted,
            ("whole\t\t\t20:0 false", "answered\tc\t\t20:0 false", "answered\tc\t\t!20:0 true"),
            strict=True,
        ):
            live.send(f"{row}\n")
            while not lines or lines[-1] != line:
                lines.append(live.read_line())
        for _, row in rows:
            live.send(f"{row}\n")
        done = live.end()
    changes.write_text("".join(f"{line}\n" for line in lines) + done.output)
    assert done.status == wanted.status
    prefix = "" if clock == "all" else "pair\tc\tx\t"
    assert any(line.startswith(f"{prefix}!@") for line in done.output.splitlines())
    latest = command("latest", changes)
    assert sorted(latest.output.splitlines()) == sorted(wanted.output.splitlines())
    assert latest.status == 1


def test_tables_of_changes(tmp_path: Path, command: Command) -> None:
    """The last row of each time-point is what a table of verdicts has."""
    policies, output = tmp_path / "p.mtl", tmp_path / "out"
    log, sorted_log = tmp_path / "log.csv", tmp_path / "sorted.csv"
    policies.write_text(TABLE.replace("key host", "key op").replace("user, host", "user, op"))
    header = HEADER.replace("host", "op")
    rows = table_rows(3)
    log.write_text(header + csv_of(rows).removeprefix(HEADER))
    judged, _ = judged_and_refused(rows, 6)
    sorted_log.write_text(header + csv_of(judged).removeprefix(HEADER))
    columns = ["policy", "key_op", "user", "time", "offset", "verdict", "reference", "severity"]
    for form in ("jsonl", "csv", "parquet"):
        options = ["--output-format", form, "-o", output, "--end-time", "last", policies]
        command(*options, sorted_log)
        wanted = read_table(output, form)
        wanted = wanted.rename_columns(["key_op" if n == "op" else n for n in wanted.schema.names])
        command("--lateness", 6, *options, log)
        found = read_table(output, form)
        assert set(found.schema.names) == {*columns, "op", "revision", "final"}
        last = {tuple(row[n] for n in columns[:5]): row for row in found.to_pylist()}
        kept = [{n: row[n] for n in columns} for row in last.values() if row["op"] != "delete"]
        assert sorted(map(str, kept)) == sorted(map(str, wanted.select(columns).to_pylist()))
        assert command("latest", output).status == 2


def read_table(path: Path, form: str) -> pyarrow.Table:
    if form == "csv":
        return pyarrow.csv.read_csv(path)
    return pyarrow.json.read_json(path) if form == "jsonl" else pyarrow.parquet.read_table(path)


def test_how_often_a_policy_may_be_violated(tmp_path: Path, command: Command) -> None:
    """The exit status is that of the latest verdicts, also for shares and severities."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    cases = 0
    for seed in range(12):
        rows = table_rows(seed, 30)
        log.write_text(csv_of(rows))
        for text, options in (
            ("policy few at most 55%: ask IMPLIES EVENTUALLY[0,5] reply", []),
            ("policy some at most 18: ALWAYS[0,3] (ask IMPLIES EVENTUALLY[0,9] reply)", []),
            ("policy low severity low: ask", ["--fail-on", "high"]),
            ("policy low severity high: ask", ["--fail-on", "high"]),
            ("policy never: (ask AND reply AND NOT ask) IMPLIES ask", ["--fail-on-vacuous"]),
        ):
            policies.write_text(f"key host\n{text}\n")
            sorted_log = tmp_path / "sorted.csv"
            sorted_log.write_text(csv_of(sorted(rows, key=lambda row: row[0])))
            wanted = command(*options, policies, sorted_log)
            done = command("--lateness", 99, *options, policies, log)
            assert done.status == wanted.status, (text, done.errors)
            cases += wanted.status
    assert 12 < cases < 48


def test_lengths_of_time_have_the_unit_of_the_table(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,a\n2024-05-01 10:00:00,true\n2024-05-01 10:00:09,true\n")
    options = ["--lateness", "8s", "--wait", "2s"]
    done = command(*options, "-e", "a", log)
    assert done.output == "1714557600:0 true\n!@1714557601\n1714557609:0 true\n"
    done = command(*options, "--time-stamps", "iso", "-e", "a", log)
    assert done.output.splitlines()[1] == "!@2024-05-01T10:00:01Z"
    done = command("--lateness", "1s", "--wait", "2s", "-e", "a", log)
    assert done.status == 2
    assert "--wait 2s is longer than --lateness 1s" in done.errors
    done = command("--lateness", "20ms", "-e", "a", log)
    assert "--lateness 20ms is not a whole number of the time-stamps' unit, s" in done.errors
    log.write_text("ts,a\n5,true\n")
    done = command("--lateness", "8s", "-e", "a", log)
    assert "--lateness 8s needs the unit of the time-stamps: add --time-unit s" in done.errors


def test_memory_has_a_limit(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"@{k} p\n" for k in range(20_000)))
    done = command("--lateness", 10**6, "--max-memory", "1M", "-e", "ONCE[0,5] p", log)
    assert done.status == 2
    assert "the memory limit of 1 MiB is exceeded" in done.errors
    done = command("--lateness", 10, "--max-memory", "8M", "--summary", "-e", "ONCE[0,5] p", log)
    assert done.status == 0
    assert "peak memory" in done.errors


@pytest.mark.parametrize("policy", ["p IMPLIES ONCE q", "FORALL x. p(x) IMPLIES ONCE q(x)"])
def test_a_text_log_needs_no_arrow(policy: str, tmp_path: Path) -> None:
    """It is imported where atoms depend on other rows, or tables are read or written."""
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    file.write_text(f"policy a: {policy}\n")
    log.write_text("@1\n@5 p(a)\n@3 q(a)\n" if "(" in policy else "@1\n@5 p\n@3 q\n")
    script = (
        "import sys; from mtlmon.cli import main; main(sys.argv[1:]);"
        "sys.exit('pyarrow' in sys.modules)"
    )
    given = [sys.executable, "-c", script, "--lateness", "9", str(file), str(log)]
    done = subprocess.run(given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
