"""The report on a run that corrects verdicts, beside that on the rows in order."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.process import Ended, Live, mtlmon

Command = Callable[..., Ended]

RULES = """\
unit s
policy answered: ask IMPLIES EVENTUALLY[0,5] reply
policy follows: reply IMPLIES ONCE[0,9] ask
policy either: ask SINCE[0,20] (reply OR EVENTUALLY stop)
"""


def text_of(page: Path) -> str:
    """The words of a page."""
    text = re.sub(r"<(style|script|svg)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def results(page: Path) -> list[tuple[str, ...]]:
    """For each policy, its counts, and the time-points that are listed as violations."""
    found = []
    for part in text_of(page).split(" per ip ")[1:]:
        counts = re.findall(r"(?:false|true|undecided|triggered) ([\d,]+)", part)
        listed = re.findall(r"(\d+:\d+) key (\w+)", part)
        found.append((*counts, *map(" ".join, sorted(set(listed)))))
    return found


def rows(seed: int) -> list[tuple[int, str, str]]:
    """Times, keys and events as they come, up to six seconds late."""
    source = random.Random(seed)
    found = [
        (time, source.choice("ab"), source.choice(["ask", "reply", "stop", "none", "none"]))
        for time in range(100, 160)
    ]
    return sorted(found, key=lambda row: row[0] + source.choice([0, 0, 0, 6]))


@pytest.mark.parametrize("seed", range(2))
def test_a_report_says_what_holds_at_the_end(seed: int, tmp_path: Path, command: Command) -> None:
    rules, log, page = tmp_path / "rules.mtl", tmp_path / "log.csv", tmp_path / "page.html"
    rules.write_text(f'time "time"\nevent "what"\nkey ip\n{RULES}')
    header, late = "time,ip,what\n", rows(seed)
    lines = [f"{time},{ip},{what}\n" for time, ip, what in late]
    log.write_text(header + "".join(sorted(lines)))
    wanted_page = tmp_path / "wanted.html"
    assert command("--verdicts", "none", "--report", wanted_page, rules, log).status == 1
    asked = ["--lateness", "6s", "--format", "csv", "--report", str(page), str(rules)]
    with Live(*asked) as live:
        live.send(header + lines[0])
        # it has begun
        shown = [live.read_line()]
        for line in lines[1:]:
            live.send(line)
            # so that most lines are judged by themselves
            while (shown_line := live.read_line(0.02)) is not None:
                shown.append(shown_line)
        ended = live.end()
    assert ended.status == 1, ended.errors
    shown += ended.output.splitlines()
    changes = [one for one in shown if one and "\t!" in one and "!@" not in one]
    assert changes
    assert results(page) == results(wanted_page)
    text = text_of(page)
    emitted = re.findall(r"Policy (\w+): (\d+) verdicts? changed, 0 withdrawn", text)
    assert sum(int(count) for _, count in emitted) == len(changes)
    now, late_count = 0, 0
    for time, *_ in late:
        late_count += time < now
        now = max(now, time)
    assert f"Rows that came late: {late_count} taken in, 0 refused." in text
    assert "Nothing is explained, as the verdicts were corrected" in text


def test_withdrawn_verdicts(tmp_path: Path, command: Command) -> None:
    log, page = tmp_path / "log.csv", tmp_path / "page.html"
    log.write_text("ts,do,event\n1,+,p\n3,+,\n3,-,\n9,+,p\n")
    asked = ["--lateness", "5", "--op", "do", "--event", "event", "-e", "p"]
    done = command("--report", page, *asked, log)
    assert (done.status, done.errors) == (0, "")
    assert re.search(r"✗ false 0 .*✓ true 2 ", text_of(page))


def test_the_place_of_a_report_is_checked(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@1 p\n")
    done = command("--lateness", "5", "--report", tmp_path / "no" / "page.html", "-e", "p", log)
    assert done.status == 2
    assert "cannot write" in done.errors
    assert "there is no directory" in done.errors
    done = command("--lateness", "5", "--report", log, "-e", "p", log)
    assert done.status == 2
    assert log.read_text() == "@1 p\n"


VARIABLES = """\
unit s
policy answered at most 60%: FORALL u. ask(u) IMPLIES EVENTUALLY[0,5] reply(u)
policy follows: FORALL u. reply(u) IMPLIES ONCE[0,9] ask(u)
find pairs: ask(u) AND ONCE[0,3] reply(u)
"""


def results_with_values(page: Path) -> list[tuple[object, ...]]:
    """For each policy, its counts, and the violations that are listed, with their values."""
    text = re.sub(r"Policy \w+: [^.]* end of the run\.", "", text_of(page))
    found: list[tuple[object, ...]] = []
    for name in ("answered", "follows"):
        part = re.split(rf"\b{name}\b", text, maxsplit=2)[2]
        counts = re.findall(r"(?:false|true|undecided) ([\d,]+)", part)[:3]
        listed = re.findall(r"(\d+:\d+) (u = \w+)", part)
        found.append((counts, sorted(set(listed))))
    return found


def test_a_report_on_policies_with_variables(tmp_path: Path, command: Command) -> None:
    rules, log, page = tmp_path / "rules.mtl", tmp_path / "log", tmp_path / "page.html"
    rules.write_text(VARIABLES)
    source = random.Random(1)
    arrivals = [
        (time, f"@{time} {source.choice(['ask', 'reply'])}({source.choice('ab')})\n")
        for time in range(100, 170)
    ]
    # a violation at once
    arrivals[0] = 100, "@100 reply(a)\n"
    late = arrivals[:1]
    late += sorted(arrivals[1:], key=lambda row: row[0] + source.choice([0, 0, 0, 15]))
    log.write_text("".join(line for _, line in arrivals))
    wanted_page = tmp_path / "wanted.html"
    assert command("--verdicts", "none", "--report", wanted_page, rules, log).status == 1
    with Live("--lateness", "15s", "--report", str(page), str(rules)) as live:
        live.send(late[0][1])
        # it has begun
        assert live.read_line() is not None
        for _, line in late[1:]:
            live.send(line)
            live.read_line(0.01)
        ended = live.end()
    assert ended.status == 1, ended.errors
    assert results_with_values(page) == results_with_values(wanted_page)
    text = text_of(page)
    assert re.search(r"Policy \w+: \d+ violations? taken back", text)
    matched = r"Find pairs matched at \d+ time-points"
    assert re.findall(matched, text) == re.findall(matched, text_of(wanted_page)) != []
    assert "Nothing is explained, as the verdicts were corrected" in text
    # a file is one batch: nothing changes
    log.write_text("".join(line for _, line in late))
    assert command("--lateness", "15s", "--report", page, rules, log).status == 1
    assert results_with_values(page) == results_with_values(wanted_page)
    assert "taken back" not in text_of(page)


REPORTED = {
    "one policy": "policy answered: ask IMPLIES EVENTUALLY[0,5] reply\n",
    "variables": "policy follows: FORALL u. reply(u) IMPLIES ONCE[0,9] ask(u)\n",
    "both kinds": "policy calm: NOT stop\npolicy follows: FORALL u. reply(u) IMPLIES ONCE ask(u)\n",
}


# Lines around violations are those of policies without variables.
EXPLAINED = [
    (name, asked)
    for name in REPORTED
    for asked in (["--explain"], ["-C", "1"], ["--explain", "--verdicts", "none"])
    if name == "one policy" or "-C" not in asked
]


@pytest.mark.parametrize(("name", "asked"), EXPLAINED)
def test_a_report_beside_explanations(
    name: str, asked: list[str], tmp_path: Path, command: Command
) -> None:
    rules, log, page = tmp_path / "rules.mtl", tmp_path / "log", tmp_path / "page.html"
    rules.write_text(f"unit s\n{REPORTED[name]}")
    log.write_text("@10 ask(ann)\n@30 reply(bob) stop\n@28 ask(eve)\n")
    if name == "one policy":
        log.write_text("@10 ask\n@30 stop\n@28 ask\n")
    own = ["--lateness", "9s", "--end-time", "last", rules, log]
    wanted = command(*asked, *own)
    assert wanted.status == 1, wanted.errors
    assert wanted.errors
    assert command(*asked, "--report", page, *own) == wanted
    is_apart = "explained apart from this report" in text_of(page)
    assert is_apart == ("--explain" in asked)
    assert ("Nothing is explained" in text_of(page)) != is_apart


def test_a_pipe_is_not_explained_beside_a_report(tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    with Live("--lateness", "9", "--explain", "--report", page, "-e", "p") as live:
        ended = live.end()
    assert ended.status == 2
    assert "cannot explain: <stdin> cannot be read a second time" in ended.errors


MESSAGES = """\
key ip
stream asks = count[0,5s](what = "ask")
trigger many: asks > 2 message "{ip} asked {asks} times"
policy follows: what = "reply" IMPLIES ONCE[0,9s] what = "ask" message "no ask"
policy later: what = "ask" IMPLIES EVENTUALLY[0,5s] what = "reply" message "no reply"
"""
ASKED = 'atom asked(ip) = what = "ask"\npolicy seen per none: asked(x) IMPLIES x = "a"\n'


@pytest.mark.parametrize("more", ["", ASKED], ids=["alone", "beside"])
@pytest.mark.parametrize("seed", range(3))
def test_messages_are_those_of_the_rows_in_order(
    seed: int, tmp_path: Path, command: Command, more: str
) -> None:
    rules, log, page = tmp_path / "rules.mtl", tmp_path / "log.csv", tmp_path / "page.html"
    rules.write_text(f'unit s\ntime "time"\n{MESSAGES}{more}')
    lines = [f"{time},{ip},{what}\n" for time, ip, what in rows(seed)]
    log.write_text("time,ip,what\n" + "".join(lines))
    found = []
    for given in (["--lateness", "6s"], ["--wait", "6s"]):
        done = command(*given, "--verdicts", "none", "--report", page, rules, log)
        assert (done.status, done.errors) == (1, "")
        found.append(listed_messages(page))
    assert found[0] == found[1]
    assert {text for _, text in found[0]} > {"no ask", "no reply"}
    assert any("asked" in text for _, text in found[0])


def listed_messages(page: Path) -> list[tuple[str, str]]:
    """The time-points that are listed as violations, and their messages."""
    text = page.read_text()
    return re.findall(r'(\d+:\d+)(?:(?!\d+:\d+).)*?<p class="message">([^<]*)</p>', text, re.DOTALL)


def test_a_report_on_a_pipe_has_messages(tmp_path: Path) -> None:
    rules, page = tmp_path / "rules.mtl", tmp_path / "page.html"
    rules.write_text('unit s\npolicy p: NOT a message "{ts}"\npolicy q: NOT a message "plain"\n')
    given = ["--lateness", "5s", "--report", str(page), str(rules)]
    assert mtlmon(*given, log="@1 a\n@3 b\n@2 a\n").status == 1
    assert page.read_text().count('<p class="message">plain</p>') == 2
    assert listed_messages(page)[:2] == [("1:0", "1"), ("2:0", "2")]
