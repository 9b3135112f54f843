"""Contenders are checked before they are timed."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest

from bench import ROOT, commands
from bench.commands import BenchmarkError, TookTooLong
from bench.compare import Case, Comparison
from bench.contenders import CONTENDERS, Mtlmon, binary, contender
from bench.families import FAMILIES
from bench.logs import random_log
from bench.verdicts import read_verdicts, require_agreement
from bench.workloads import PAIR

if TYPE_CHECKING:
    from pathlib import Path

    from bench.contenders import Contender

_LIMIT = 60.0


def _compare(who: Contender, formula: str = "EVENTUALLY[0,5] p") -> Comparison:
    log = random_log(PAIR, "dense", 1, 500, seed=1)
    comparison = Comparison([Mtlmon("local"), who], repeats=1, limit=_LIMIT)
    rows = comparison.rows([Case({"case": 1}, formula, log)])
    assert {row["contender"] for row in rows} <= {"local", who.name}
    return comparison


def _script(tmp_path: Path, text: str) -> Contender:
    path = tmp_path / "peer.py"
    path.write_text(text)
    return binary(f"peer={sys.executable} {path} {{formula}} {{log}}")


def test_equivalences_are_resolved() -> None:
    lines = ["5:1 = 5:0", "noise", "5:2 = 5:1", "5:0 true", "6:0 false", "7:1 = 7:0"]
    assert read_verdicts(lines) == {(5, 0): True, (5, 1): True, (5, 2): True, (6, 0): False}


def test_agreement() -> None:
    ours = {(i, 0): True for i in range(10)}
    require_agreement(ours, ours | {(10, 0): False}, "peer")
    with pytest.raises(BenchmarkError, match="3:0 is False, mtlmon says True"):
        require_agreement(ours, ours | {(3, 0): False}, "peer")
    with pytest.raises(BenchmarkError, match="8 time-points only"):
        require_agreement(ours, {(i, 0): True for i in range(8)}, "peer")


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name not in ("reelay", "rtamt")])
def test_contenders(name: str) -> None:
    assert not _compare(contender(name)).notes


def test_a_peer_by_its_command() -> None:
    script, *_ = Mtlmon("naive").command("p", "-")
    assert not _compare(binary(f"peer={script} --mode naive {{formula}} {{log}}")).notes


def test_a_peer_that_errs(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="mtlmon says"):
        _compare(_script(tmp_path, "for i in range(500): print(f'{i}:0 false')"))


def test_a_peer_that_fails(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no such luck"):
        _compare(
            _script(tmp_path, "import sys\nprint('no such luck', file=sys.stderr)\nsys.exit(3)")
        )


@pytest.mark.parametrize(
    "text", ["peer", "=a {formula} {log}", "local=a {formula} {log}", "a={log}"]
)
def test_bad_peers(text: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        binary(text)


def test_commands_that_take_too_long_are_stopped() -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(TookTooLong):
        commands.run(sleep, limit=0.2)


@pytest.mark.parametrize("name", ["reelay", "rtamt"])
@pytest.mark.parametrize("family", FAMILIES)
def test_monitors_from_pypi_agree(name: str, family: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    comparison = Comparison([contender(name)], repeats=1, limit=_LIMIT)
    form = "past" if name == "reelay" else "future"
    log = FAMILIES[family].log(10, 300, seed=1)
    rows = comparison.rows([Case({"case": 1}, FAMILIES[family].formula(form, 10), log)])
    assert [row["contender"] for row in rows] == [name]
    assert not comparison.notes


def test_monitors_that_count_are_kept_from_other_time_stamps() -> None:
    comparison = Comparison([contender("reelay")], repeats=1, limit=_LIMIT)
    log = random_log(PAIR, "dense", 10, 100, seed=1)
    assert not comparison.rows([Case({"case": 1}, "ONCE[0,5] p", log)])
    assert "counts events" in comparison.notes[0]


def test_the_checkout_is_not_in_the_way() -> None:
    assert str(ROOT) not in sys.path
