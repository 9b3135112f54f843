"""The option --time-stamps: times in ISO 8601 in lines, on terminals and in explanations."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

START = 1_714_550_400
LOG = f"@{START} p r(7)\n@{START} p\n@{START + 1} q r(8)\n@{START + 9} p q\n@{START + 99}\n"
TABLE = """\
ts,user,p,q
2024-05-01T08:00:00Z,3:0,true,false
2024-05-01T08:00:00Z,ann,true,false
2024-05-01T08:00:01Z,3:0,false,true
2024-05-01T08:00:09Z,ann,true,true
"""
POLICIES = "policy a: p IMPLIES EVENTUALLY[0,5] q\npolicy b: NOT q\n"
VALUES = "policy v: r(x) IMPLIES x = 7\nfind w: r(x)\n"
KEYED = "policy a per user: p IMPLIES EVENTUALLY[0,5] q\npolicy b: NOT q\n"


def log_for(policies: str) -> str:
    """The log, without rows if no policy reads these."""
    return LOG if VALUES in policies else re.sub(r"r\(.\)", "", LOG)


def iso(stamp: int) -> str:
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def readable(lines: str) -> str:
    """The lines with times of this century in place of time-stamps."""
    return re.sub(r"(?<!\S)(\d{9,}):(?=\d)", lambda found: f"{iso(int(found[1]))}:", lines)


@pytest.mark.parametrize("options", [[], ["--rows"], ["--verdicts", "all"], ["--resolve"]])
@pytest.mark.parametrize("policies", [POLICIES, VALUES, POLICIES + VALUES])
def test_text_logs(command: Command, tmp_path: Path, policies: str, options: list[str]) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    rules.write_text(f"unit s\n{policies}")
    log.write_text(log_for(policies))
    if "--resolve" in options and policies == VALUES:
        options = []
    raw = command(*options, rules, log)
    assert "false" in raw.output
    assert command("--time-stamps", "raw", *options, rules, log) == raw
    done = command("--time-stamps", "iso", *options, rules, log)
    assert done == raw._replace(output=readable(raw.output))
    assert done.output != raw.output
    # without a name, and lines of native code
    log.write_text(log_for(""))
    options = ["--unit", "s", "-e", "EVENTUALLY[0,50] q", str(log)]
    raw = command(*options)
    assert " = " in raw.output
    assert command("--time-stamps", "iso", *options).output == readable(raw.output)


@pytest.mark.parametrize("rows", [[], ["--rows"]])
def test_tables(command: Command, tmp_path: Path, rows: list[str]) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.csv"
    log.write_text(TABLE)
    for policies in KEYED, f"atom r(user) = q\n{KEYED}policy v: NOT r(x)\n":
        rules.write_text(policies)
        raw = command(*rows, rules, log)
        assert "a\t3:0\t1714550400:0 true" in raw.output
        done = command("--time-stamps", "iso", *rows, rules, log)
        assert done == raw._replace(output=readable(raw.output))
        assert "a\t3:0\t2024-05-01T08:00:00Z:0 true" in done.output


def test_units(command: Command, tmp_path: Path) -> None:
    log, table = tmp_path / "events.log", tmp_path / "events.csv"
    log.write_text("@0 p\n@1714550400250 p\n@9223372036854775807 p\n")
    options = ["--time-stamps", "iso", "--unit", "ms", "-e", "p", log]
    assert command(*options).output == (
        "1970-01-01T00:00:00Z:0 true\n2024-05-01T08:00:00.25Z:0 true\n9223372036854775807:0 true\n"
    )
    # numbers whose unit nobody knows
    table.write_text("ts,p\n1714550400,true\n")
    options = ["--time-stamps", "iso", "-e", "p", table]
    assert command(*options).output == f"{START}:0 true\n"
    for known in "--time-unit", "--resolution":
        assert command(known, "s", *options).output == f"{iso(START)}:0 true\n"


def test_people(command: Command, tmp_path: Path) -> None:
    rules, log, table = tmp_path / "rules.mtl", tmp_path / "events.log", tmp_path / "events.csv"
    rules.write_text(f"unit s\n{POLICIES}{VALUES}")
    log.write_text(LOG)
    table.write_text(TABLE)
    people = ["--color", "always"]
    raw = command(*people, rules, log)
    done = command(*people, "--time-stamps", "iso", rules, log)
    # a person needs no offset
    expected = re.sub(r"(?<=  )(17\d{8}):\d+", lambda found: iso(int(found[1])), plain(raw.output))
    assert plain(done.output) == expected
    assert expected.count("2024-05-01T08:00:0") > 3
    rules.write_text(KEYED)
    shown = plain(command(*people, rules, table).output)
    assert shown.count("  2024-05-01T08:00:") > 1
    assert plain(command(*people, "--time-stamps", "iso", rules, table).output) == shown
    raw = command(*people, "--time-stamps", "raw", rules, table)
    assert re.findall(r"  (\S+):0  b ", plain(raw.output)) == [f"{START + 1}", f"{START + 9}"]


def plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.mark.parametrize("policies", [POLICIES, VALUES, POLICIES + VALUES])
def test_explanations(command: Command, tmp_path: Path, policies: str) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    rules.write_text(f"unit s\n{policies}")
    log.write_text(log_for(policies))
    options = ["--explain", "--verdicts", "none"]
    raw = command(*options, rules, log).errors
    done = command(*options, "--time-stamps", "iso", rules, log).errors
    assert "".join(re.split("(?m)^time .*\n", done)) == raw
    found = re.findall(r"(?m)^time (\S+)\n(?:at .*\n)?(\d+):\d+ violates", done)
    assert found
    assert found == [(iso(int(stamp)), stamp) for _, stamp in found]
    assert len(found) == raw.count(" violates ")


def test_refusals(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    log.write_text(log_for(""))
    for options, error in [
        ([], "--time-stamps iso needs the unit of the time-stamps, which count from 1970: add"),
        (["--output-format", "csv"], "--time-stamps iso is for lines of text: JSON lines and"),
    ]:
        done = command("--time-stamps", "iso", *options, "-e", "p", log)
        assert (done.status, done.output) == (2, "")
        assert done.errors.startswith(f"mtlmon: {error}")
    assert command("--time-stamps", "raw", "--output-format", "csv", "-e", "p", log).status == 1


LOCAL = """\
ts,p
2024-03-31T01:59:59.5,true
2024-03-31T03:00:00,false
2024-03-31T03:00:09,true
"""


def test_people_see_the_time_zone_of_the_log(command: Command, tmp_path: Path) -> None:
    """And programs see times in UTC."""
    log, page, why = tmp_path / "events.csv", tmp_path / "page.html", tmp_path / "why.jsonl"
    log.write_text(LOCAL)
    options = ["--time-zone", "Europe/Berlin first", "--resolution", "ms", "-e", "NOT p", log]
    first, second = "2024-03-31T01:59:59.5+01:00", "2024-03-31T03:00:09+02:00"
    shown = plain(command("--color", "always", *options).output)
    assert re.findall(r"csv:\d+  (\S+)", shown) == [first, second]
    explained = command("--explain", "--verdicts", "none", *options).errors
    assert re.findall(r"(?m)^time (.*)$", explained) == [first, second]
    stamps = ["1711846799500", "1711846809000"]
    assert re.findall(r"(?m)^(\d+):0 violates", explained) == stamps
    raw = command("--explain", "--verdicts", "none", "--time-stamps", "raw", *options).errors
    assert raw == re.sub("(?m)^time .*\n", "", explained)
    iso = command("--explain", "--verdicts", "none", "--time-stamps", "iso", *options).errors
    assert re.findall(r"(?m)^time (.*)$", iso) == ["2024-03-31T00:59:59.5Z", "2024-03-31T01:00:09Z"]
    output = command("--output-format", "jsonl", "--verdicts", "false", *options).output
    assert '"time":1711846799500,"time_text":"2024-03-31T00:59:59.5Z"' in output
    command("--explain-output", why, "--report", page, *options)
    assert '"time": 1711846799500' in why.read_text()
    text = page.read_text()
    assert "2024-03-31 01:59:59.500 to 03:00:09.000 (Europe/Berlin)" in text
    assert 'datetime="2024-03-31T01:59:59.500+01:00"' in text


def test_the_page_has_the_time_zone_of_hours(command: Command, tmp_path: Path) -> None:
    """If the log says nothing of its own, and policies agree."""
    log, page = tmp_path / "events.log", tmp_path / "page.html"
    log.write_text(f"@{START} p\n")
    rules = [tmp_path / "a.mtl", tmp_path / "b.mtl"]
    for zones, shown in (
        (["Europe/Berlin", "Europe/Berlin"], "2024-05-01 10:00:00 (Europe/Berlin)"),
        (["Europe/Berlin", "Asia/Tokyo"], "2024-05-01 08:00:00 (UTC)"),
    ):
        for rule, zone in zip(rules, zones, strict=True):
            rule.write_text(f'unit s\nzone "{zone}"\npolicy {rule.stem}: NOT p\n')
        command("--report", page, *(word for rule in rules for word in ("--policy", rule)), log)
        assert shown in page.read_text()
