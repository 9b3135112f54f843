"""The exit status depends on how serious the violated policies are, and verdicts say so."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended
from tests.doors import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]


def files(tmp_path: Path, text: str, log: str = "@1 p\n@2 q\n") -> tuple[Path, Path]:
    policies, events = tmp_path / "rules.mtl", tmp_path / "events.log"
    policies.write_text(text)
    events.write_text(log)
    return policies, events


@pytest.mark.parametrize("least", SEVERITIES)
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("formula", ["NOT p", "NOT p(x)"])
def test_order(command: Command, tmp_path: Path, severity: str, least: str, formula: str) -> None:
    text = f"policy a severity {severity}: {formula}\n"
    log = "@1 p\n" if formula == "NOT p" else "@1 p(1)\n"
    done = command("--fail-on", least, *files(tmp_path, text, log))
    assert done.output.startswith("a\t1:0 false")
    expected = int(SEVERITIES.index(severity) >= SEVERITIES.index(least))
    assert (done.status, done.errors) == (expected, "")


def test_several_policies(command: Command, tmp_path: Path) -> None:
    text = "policy a severity low: NOT p\npolicy b severity high: p OR q\n"
    assert command(*files(tmp_path, text)).status == 1
    assert command("--fail-on", "medium", *files(tmp_path, text)).status == 0
    text += "policy c: NOT q\n"
    assert command("--fail-on", "critical", *files(tmp_path, text)).status == 1
    both = "policy a severity low: NOT p\npolicy b severity low: NOT q(x)\n"
    for least, status in ("low", 1), ("high", 0):
        given = files(tmp_path, both, "@1 p q(1)\n")
        assert command("--fail-on", least, *given).status == status


def test_no_severity(command: Command, tmp_path: Path) -> None:
    _, log = files(tmp_path, "")
    assert command("--fail-on", "high", "-e", "NOT p", log).status == 1
    assert command("--fail-on", "high", "-e", "p OR q", log).status == 0


def test_other_words(command: Command, tmp_path: Path) -> None:
    given = files(tmp_path, "policy a severity urgent: NOT p\n")
    assert command(*given).status == 1
    done = command("--fail-on", "high", *given)
    assert done.status == 2
    assert done.errors == (
        "mtlmon: policy a has severity urgent, which --fail-on cannot compare: write info, low, "
        "medium, high or critical\n"
    )


# ---- columns of verdicts ---------------------------------------------------------------------

ROWS = "ts,user,p,q\n1,a,true,false\n1,b,false,true\n3,a,false,false\n9,b,true,true\n"


def verdicts(done: Ended) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.output.splitlines()]


def cells(done: Ended) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(done.output)))


@pytest.mark.parametrize("options", [[], ["--rows"], ["--verdicts", "false"], ["--resolve"]])
def test_columns(command: Command, tmp_path: Path, options: list[str]) -> None:
    """Lines of native code, and rows of tables, with and without keys, rows and times as texts."""
    text = (
        "policy a \"no 'p', é\" severity high: p IMPLIES EVENTUALLY[0,3] q\n"
        "policy b severity low: NOT q\npolicy c: p OR q\n"
    )
    rules, events = files(tmp_path, text, "@1 p\n@1 q\n@3\n@9 p q\n")
    table = tmp_path / "events.csv"
    table.write_text(ROWS)
    dates = tmp_path / "dates.csv"
    dates.write_text(ROWS.replace("\n1,", "\n2024-01-01,").replace("\n3,", "\n2024-01-02,"))
    for given in [events], [table], [table, "--key", "user"], [dates, "--on-error", "skip"]:
        lines = command("--output-format", "jsonl", *options, rules, *given)
        found = verdicts(lines)
        assert found
        for one in found:
            assert list(one)[-2:] == ["severity", "text"]
            assert one["severity"] == {"a": "high", "b": "low", "c": None}[str(one["policy"])]
            is_emitted = one["policy"] == "a" and one["verdict"] is False
            assert one["text"] == ("no 'p', é" if is_emitted else None)
        rows = cells(command("--output-format", "csv", *options, rules, *given))
        assert [
            {
                name: "" if value is None else json.dumps(value).strip('"')
                for name, value in one.items()
                if name != "text"
            }
            for one in found
        ] == [{name: value for name, value in one.items() if name != "text"} for one in rows]
        assert [one["text"] or "" for one in found] == [one["text"] for one in rows]
        # what is not declared is no column, and lines of text stay as they are
        bare = command("--output-format", "jsonl", *options, "-e", "NOT p", *given)
        assert "severity" not in bare.output


def test_only_what_is_declared(command: Command, tmp_path: Path) -> None:
    rules, events = files(tmp_path, "policy a severity urgent: NOT p\n")
    assert [list(one)[-1] for one in verdicts(command("--output-format", "jsonl", rules, events))]
    for text, last in [
        ("policy a severity urgent: NOT p\n", "severity"),
        ('policy a "words": NOT p\n', "text"),
        ("policy a: NOT p\n", "reference"),
        ("policy a severity urgent: NOT p(x)\n", "severity"),
        ('find a "words": p(x)\n', "text"),
        ("policy a: NOT p(x)\n", "x"),
    ]:
        rules, events = files(tmp_path, text, "@1 p(1)\n" if "(x)" in text else "@1 p\n@2 q\n")
        found = verdicts(command("--output-format", "jsonl", rules, events))
        assert [list(one)[-1] for one in found] == [last] * len(found)
        assert found[0].get("text", "words") == "words"


def test_names_that_are_taken(command: Command, tmp_path: Path) -> None:
    """Columns that were there before keep their names."""
    rules, table = tmp_path / "rules.mtl", tmp_path / "events.csv"
    rules.write_text('policy a "told" per text, severity severity low: NOT p\n')
    table.write_text("ts,text,severity,p\n1,words,urgent,true\n")
    members = {
        "severity": "urgent",
        "text": "words",
        "policy_severity": "low",
        "policy_text": "told",
    }
    (found,) = verdicts(command("--output-format", "jsonl", rules, table))
    assert {name: found[name] for name in members} == members
    rules.write_text(
        'atom seen(text, severity) = p\npolicy a "told" severity low: NOT seen(text, severity)\n'
    )
    (found,) = verdicts(command("--output-format", "jsonl", rules, table))
    assert {name: found[name] for name in members} == members
    rules.write_text(f'policy c "more" per text severity high: NOT p\n{rules.read_text()}')
    found, other = verdicts(command("--output-format", "jsonl", rules, table))
    expected = {"key_text": "words", "policy_severity": "high", "policy_text": "more"}
    assert {name: found[name] for name in expected} == expected
    assert {name: other[name] for name in members} == members
    assert list(found) == list(other)
