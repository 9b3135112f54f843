"""The exit status depends on how serious the violated policies are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.support.severities import SEVERITIES
from tests.cli.process import Ended

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
