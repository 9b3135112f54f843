"""Reports by the command."""

from __future__ import annotations

import hashlib
import html
import re
import signal
from pathlib import Path

import pytest

from tests.cli.process import Live
from tests.cli.process import mtlmon as run

FORMULA = "request IMPLIES EVENTUALLY[0,5] response"
LOG = (
    "@18 tick\n@20 request\n@22\n@25\n@26 response\n@40 request\n@40 request\n@50\n"
    "@52 request\n@52 request\n"
)

POINTS = [("20:0", 2), ("40:0", 6), ("40:1", 7)]
"""The violations, with their lines."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "events.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def words(path: Path) -> str:
    """The text of a report without its pictures."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"<(style|script|svg)\b.*?</\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [("local", "all"), ("local", "none"), ("global", "false"), ("naive", "boolean")],
)
def test_what_is_written_stays_and_a_report_is_added(
    log: Path, tmp_path: Path, mode: str, verdicts: str
) -> None:
    report = tmp_path / "report.html"
    arguments = ("--mode", mode, "--verdicts", verdicts, "-e", FORMULA, str(log))
    assert run("--report", str(report), *arguments) == run(*arguments)
    text = words(report)
    assert "The policy is violated: 3 violations." in text
    assert "✗ false 3 30.00 % ✓ true 5 50.00 % … undecided 2 20.00 %" in text
    assert "from 18 to 52. The highest bar shows 2 violations: 40." in text
    found = [rf"{point} row {log}:{line} ✗ {point} " for point, line in POINTS]
    assert re.search(".* ".join(found), text)
    assert "52:0 57" in text
    assert f"Mode {mode}" in text


MESSAGES = """
unit s
key user
stream fails = count[0,60s](not ok)
trigger burst: fails > 2 message "{user} failed {fails} times"
policy fine: ok message "{user} <failed>"
"""


@pytest.mark.parametrize(
    "output",
    [
        ("--verdicts", "none"),
        ("--color", "always"),
        ("--output-format", "jsonl"),
        ("--output-format", "csv", "--verdicts", "false"),
        (),
    ],
)
def test_messages_of_a_log_from_a_pipe(tmp_path: Path, output: tuple[str, ...]) -> None:
    (tmp_path / "rules.mtl").write_text(MESSAGES)
    report = tmp_path / "report.html"
    # two violations at one time, and more than are listed
    rows = ["1,ann", "1,bob", "2,ann", "2,ann", "2,ann", *(f"{time},bob" for time in range(9, 300))]
    log = "ts,user,ok\n" + "".join(f"{row},false\n" for row in rows)
    arguments = (str(tmp_path / "rules.mtl"), "--format", "csv", *output)
    with_report = run("--report", str(report), *arguments, log=log)
    assert with_report == run(*arguments, log=log)
    text = report.read_text(encoding="utf-8")
    found = [html.unescape(one) for one in re.findall('class="message">([^<]*)', text)]
    bursts, others = found[:100], found[100:]
    assert bursts[:3] == ["ann failed 3 times", "ann failed 4 times", "bob failed 3 times"]
    assert others[:6] == [f"{user} <failed>" for user in ("ann", "bob", "ann", "ann", "ann", "bob")]
    assert (len(bursts), len(others)) == (100, 100)


def test_a_pipe(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run("--report", str(report), "--verdicts", "false", "-e", FORMULA, log=LOG)
    assert done == (1, "20:0 false\n40:0 false\n", "")
    text = words(report)
    assert "3 violations" in text
    assert "Nothing is explained, as the log could not be read a second time." in text
    assert report.read_text(encoding="utf-8").count("<svg") == 1


def test_policies_are_shown_as_they_are_written(tmp_path: Path) -> None:
    report, log, policies = (tmp_path / name for name in ("report.html", "log.csv", "cars.mtl"))
    content = (
        b"\xef\xbb\xbfunit s\nkey car\nconst limit = 100  # km/h\natom fast = speed > limit\n"
        b'policy slow "Nobody is fast" at most 2 severity high: ONCE[0,7d] (NOT fast)\n'
        b"policy never on every 1m: TRUE\n"
    )
    policies.write_bytes(content)
    log.write_text("ts,car,speed\n0,a,130\n1,b,90\n1,b,130\n2,c,130\n", encoding="utf-8")
    arguments = ("--verdicts", "none", "--set", "limit=120", str(policies), str(log))
    assert run("--report", str(report), *arguments).status == 0
    text = words(report)
    assert "No policy is violated more often than it may be: 2 violations." in text
    assert (
        "slow ✓ tolerated Nobody is fast ONCE[0,7d] (NOT fast) "
        "severity high violations at most 2 per car "
        "Definitions const limit = 100 set to 120 atom fast = speed > limit ✗ false 2 "
    ) in text
    assert " TRUE per car on every 1m " in text
    digest = hashlib.sha256(content).hexdigest()[:12]
    assert f"Policy file {policies}, revision {digest} Unit s Constants limit=120 Command" in text


def test_several_policy_files(log: Path, tmp_path: Path) -> None:
    report, one, two = (tmp_path / name for name in ("report.html", "one.mtl", "two.mtl"))
    one.write_text("let a = request\npolicy x: NOT a", encoding="utf-8")
    two.write_text("let a = tick\npolicy x: NOT a", encoding="utf-8")
    options = ("--policy", str(one), "--policy", str(two), "--report", str(report))
    assert run(*options, "--verdicts", "none", str(log)).status == 1
    text = words(report)
    assert f"one:x ✗ violated NOT a file {one} Definitions let a = request " in text
    assert f"two:x ✗ violated NOT a file {two} Definitions let a = tick " in text


def test_rows_and_values_of_all_listed_violations(tmp_path: Path) -> None:
    report, log, policies = (tmp_path / name for name in ("report.html", "log.csv", "cars.mtl"))
    policies.write_text(
        "key car\nstream mean = avg[0,9](speed)\natom fast = mean > limit\n"
        "policy slow: NOT fast OR ONCE[0,3] rain = 1\n"
        'trigger hot on rows where rain = 0: speed > 190 message "{car} at {speed}"\n'
        "policy ticks on every 10: any[0,9](speed < 150)\n",
        encoding="utf-8",
    )
    rows = [(time, "ab"[time % 2], 101 + time, 100, int(time == 40)) for time in range(100)]
    lines = ["ts,car,speed,limit,rain", *(",".join(map(str, row)) for row in rows)]
    log.write_text("\n".join(lines), encoding="utf-8")
    arguments = ("--verdicts", "none", "--explain-limit", "2", str(policies), str(log))
    assert run("--report", str(report), *arguments).status == 1
    text = words(report)
    # explained, not explained, and what has to be unfolded
    for time, car, _, _, rain in rows:
        if rain or (41 <= time <= 43 and car == "a"):
            continue
        window = [number for number in range(max(0, time - 9), time + 1) if rows[number][1] == car]
        mean = sum(rows[number][2] for number in window) / len(window)
        places = " , ".join(f"{log}:{number + 2}" for number in window)
        assert (
            f" {time}:0 key {car} row {log}:{time + 2} limit 100 rain 0 mean {mean} ( {places} ) "
        ) in text
    assert f" 99:0 key b row {log}:101 b at 200 speed 200 " in text
    assert f" 60:0 key a any[0,9](speed < 150) false last row {log}:62, at the same time " in text
    # explanations change nothing else
    listed = r'<li id="(policy-\d-violation-\d+)">.*?<bdi class="key">([^<]*:\d+)</bdi>'
    pages = []
    for limit in "1", "100":
        run("--report", str(report), *arguments[:3], limit, *arguments[4:])
        page = report.read_text(encoding="utf-8")
        pages.append(
            (re.findall(listed, page), re.findall("<dl class=.values.>.*?</dl>", page, re.S))
        )
    assert pages[0] == pages[1]
    assert len(pages[0][1]) == 116


def test_rows_beside_policies_with_variables(log: Path, tmp_path: Path) -> None:
    report, policies = tmp_path / "report.html", tmp_path / "both.mtl"
    policies.write_text(
        "policy plain: NOT request\npolicy rows: publish(u) IMPLIES ONCE approve(u)\n",
        encoding="utf-8",
    )
    log.write_text(f"# a comment\n{LOG}@60 publish(ann)\n", encoding="utf-8")
    assert run("--report", str(report), "--verdicts", "none", str(policies), str(log)).status == 1
    text = words(report)
    for point, line in [*POINTS, ("52:0", 9), ("52:1", 10)]:
        assert f" {point} row {log}:{line + 1} ✗ {point} NOT request" in text
    assert f" 60:0 u = ann row {log}:12 ✓ publish(u) " in text


def test_an_interrupted_run(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    with Live("--report", str(report), "--verdicts", "false", "-e", FORMULA) as live:
        live.send(LOG)
        assert live.read_line() == "20:0 false"
        live.process.send_signal(signal.SIGINT)
        assert live.end().status == 130
    text = words(report)
    assert "The run was interrupted: the log may go on." in text
    assert "3 violations" in text


def test_no_violation(log: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run("--report", str(report), "-e", "tick OR NOT tick", str(log))
    assert done.status == 0
    assert "The policy holds: no violation was found." in words(report)


def test_an_empty_log(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert run("--report", str(report), "-e", "p").status == 0
    assert "There were no events to judge." in words(report)


def test_only_the_first_violation(log: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run("--report", str(report), "--verdicts", "first", "-e", FORMULA, str(log))
    assert (done.status, done.output) == (1, "20:0 false\n")
    text = words(report)
    assert "The policy is violated: 1 violation." in text
    assert "read up to the earliest violation" in text


def test_end_time_limit_and_units(log: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    options = ("--end-time", "inf", "--explain-limit", "1", "--unit", "s")
    formula = "request IMPLIES EVENTUALLY[0,5s] response"
    assert run("--report", str(report), *options, "-e", formula, str(log)).status == 1
    text = words(report)
    assert "5 violations" in text
    assert "… undecided 0" in text
    assert "no event follows the log" in text
    assert "18 to 52 s" in text
    assert report.read_text(encoding="utf-8").count("<svg") == 2


def test_dates(tmp_path: Path) -> None:
    report, log = tmp_path / "report.html", tmp_path / "events.log"
    log.write_text("@1700000000 p\n@1700000000\n@1700003600 p\n", encoding="utf-8")
    assert run("--report", str(report), "--unit", "s", "-e", "p", str(log)).status == 1
    assert "2023-11-14 22:13:20 to 23:13:20 (UTC)" in words(report)


def test_many_violations_over_several_blocks(tmp_path: Path) -> None:
    report, log = tmp_path / "report.html", tmp_path / "events.log"
    lines = [f"@{number // 3} {'p' if number % 10 else ''} and other\n" for number in range(60_000)]
    log.write_text("".join(lines), encoding="utf-8")
    done = run("--report", str(report), "--verdicts", "none", "-e", "p", str(log))
    assert (done.status, done.output) == (1, "")
    text = words(report)
    assert "6,000 violations" in text
    assert "✓ true 54,000" in text
    assert "from 0 to 19999." in text


def test_a_late_violation_that_is_not_explained_has_its_row(tmp_path: Path) -> None:
    """The log is read again further than explanations need."""
    report, log = tmp_path / "report.html", tmp_path / "events.log"
    lines = [f"@{number} {'p' if number in (3, 99_999) else ''}\n" for number in range(100_000)]
    log.write_text("".join(lines), encoding="utf-8")
    options = ("--report", str(report), "--explain-limit", "1", "--verdicts", "none")
    assert run(*options, "-e", "NOT p", str(log)).status == 1
    text = words(report)
    assert f" 3:0 row {log}:4 ✗ 3:0 NOT p" in text
    assert f" 99999:0 row {log}:100000 " in text


def test_skipped_lines(tmp_path: Path) -> None:
    report, log = tmp_path / "report.html", tmp_path / "events.log"
    log.write_text(LOG.replace("@22", "@22\nbad\n@3"), encoding="utf-8")
    run("--report", str(report), "--on-error", "skip", "-e", FORMULA, str(log))
    text = words(report)
    assert "Skipped 2 lines that could not be read." in text
    assert "3 violations" in text


def test_a_log_that_cannot_be_read_leaves_the_report_before(tmp_path: Path) -> None:
    report, log = tmp_path / "report.html", tmp_path / "events.log"
    report.write_text("before", encoding="utf-8")
    log.write_text("@1 p\nbad\n", encoding="utf-8")
    assert run("--report", str(report), "-e", "p", str(log)).status == 2
    assert report.read_text(encoding="utf-8") == "before"


def test_no_file_is_overwritten(log: Path, tmp_path: Path) -> None:
    formula, out = tmp_path / "policy.mtl", tmp_path / "out"
    formula.write_text(FORMULA, encoding="utf-8")
    for path in log, formula, out:
        done = run("--report", str(path), "-o", str(out), str(formula), str(log))
        assert done.status == 2
        assert "cannot hold the report: this run uses it for something else" in done.errors
    assert log.read_text(encoding="utf-8") == LOG
    assert formula.read_text(encoding="utf-8") == FORMULA


def test_what_cannot_be_written_is_known_before_anything_is_read(log: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    done = run("--report", str(missing / "report.html"), "-e", FORMULA, str(log))
    assert (done.status, done.output) == (2, "")
    assert f"there is no directory {missing}" in done.errors
    done = run("--report", str(tmp_path), "-e", FORMULA, str(log))
    assert (done.status, done.output) == (2, "")
    assert "it is a directory" in done.errors
