"""Contenders are checked before they are timed."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench import ROOT, commands, pace
from bench import policies as bench_policies
from bench.beside import beside
from bench.catalogue import MEASURES
from bench.clocks import SHARE, clocks, with_shares
from bench.commands import BenchmarkError, TookTooLong
from bench.compare import Case, Comparison
from bench.contenders import CONTENDERS, Mtlmon, binary, contender, script
from bench.families import FAMILIES
from bench.formulas import nested
from bench.keyed import KEYS, keyed, table
from bench.library import seconds_to_feed
from bench.logs import random_log
from bench.piles import piles
from bench.verdicts import read_verdicts, require_agreement
from bench.workloads import PAIR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet

    from bench.contenders import Contender
    from bench.report import Row

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


def _contenders() -> Iterator[ParameterSet]:
    for name in CONTENDERS:
        if name not in ("reelay", "rtamt"):
            # a group compiles it once
            marks = [pytest.mark.xdist_group("ceiling")] if name == "ceiling" else []
            yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(_contenders()))
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


# Its future is unbounded, so an event takes milliseconds after some hundred of them.
_SLOW = "(q EQUIV EVENTUALLY[500,*) p) SINCE (EVENTUALLY[400,2500] q)"


def test_the_pace_of_a_run_that_does_not_end() -> None:
    log = random_log(PAIR, "dense", 1, 20_000, seed=1)
    found = pace.measured("local", _SLOW, log.path(), 0.5)
    assert 0 < found.events < 20_000
    assert 0.5 <= found.seconds < 2
    assert f"stopped after {found.events:,} events in {found.seconds:.1f} s" == str(found)


def test_the_pace_of_a_run_that_ends() -> None:
    log = random_log(PAIR, "dense", 1, 5000, seed=1)
    assert pace.measured("local", "EVENTUALLY[0,5] p", log.path(), 30).events == 5000


def test_the_pace_of_a_run_that_fails(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("@3\n@2\n")
    with pytest.raises(BenchmarkError, match="time-stamp"):
        pace.measured("local", "p", log, 30)


def test_rows_of_runs_that_do_not_end_have_a_speed() -> None:
    log = random_log(PAIR, "dense", 1, 20_000, seed=1)
    comparison = Comparison([Mtlmon("local")], repeats=2, limit=1)
    (row,) = comparison.rows([Case({"case": 1}, _SLOW, log)])
    assert row["case"] == 1
    assert 0 < int(row["stopped after"]) < 20_000
    assert 0 < float(row["M events/s"]) < 0.02
    assert float(row["ns per event"]) == pytest.approx(1e3 / float(row["M events/s"]))
    took, stopped = comparison.notes
    assert took.endswith("took more than 1 s")
    assert "stopped after" in stopped


@pytest.mark.dear("benchmarks")
def test_a_warm_up_leaves_out_the_first_events() -> None:
    """The head of this log needs dd, whose import takes longer than the rest."""
    log = random_log(PAIR, "dense", 1000, 20_000, seed=1)
    formula = str(nested(2))
    for warm_up, is_left_out in ((0, False), (10_000, True)):
        comparison = Comparison([Mtlmon("local")], repeats=1, limit=_LIMIT, warm_up=warm_up)
        (row,) = comparison.rows([Case({"case": 1}, formula, log)])
        assert ("start ms" in row) is is_left_out
        if is_left_out:
            assert float(row["start ms"]) > 0


def test_processor_time_is_that_of_all_processes() -> None:
    busy = "i = 0\nwhile i < 3_000_000: i += 1"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    busy_run = commands.run([sys.executable, "-c", child], limit=60)
    # only time may pass
    idle_run = commands.run([sys.executable, "-c", "import time; time.sleep(0.5)"], limit=60)
    assert busy_run.cpu_seconds > idle_run.cpu_seconds
    assert idle_run.cpu_seconds < 0.5 <= idle_run.seconds


def test_the_share_of_the_engine_is_above_f0_of_the_same_log() -> None:
    def row(workload: str, clock: str, **times: float) -> Row:
        of_log: Row = {"density": "dense", "rate": 1, "clock": clock, "contender": "local"}
        return {**of_log, "workload": workload, **times}

    time = "CPU ns per event"
    rows = with_shares(
        [
            row("f0", "equal", **{time: 10.0}),
            row("f1", "equal", **{time: 15.0}),
            row("f0", "uniform", **{time: 11.0}),
            row("f1", "uniform", **{time: 111.0}),
            row("f2", "uniform"),
        ]
    )
    assert [found.get(SHARE) for found in rows] == [0, 5, 0, 100, None]


@pytest.mark.dear("benchmarks")
def test_clocks() -> None:
    settings = replace(
        MEASURES["clocks"].defaults, workloads=("f1",), rates=(30,), events=300, repeats=1
    )
    rows = clocks(settings)["rows"]
    assert [(row["clock"], row["workload"]) for row in rows] == [
        (clock, name) for clock in ("equal", "uniform", "exponential") for name in ("f0", "f1")
    ]
    assert all(SHARE in row for row in rows)


@pytest.mark.dear("benchmarks")
def test_beside_a_peer() -> None:
    settings = replace(
        MEASURES["beside"].defaults,
        workloads=("f3",),
        rates=(1000,),
        events=300,
        repeats=1,
        peers=(binary(f"other={script()} {{formula}} {{log}}"),),
    )
    rows = beside(settings)["rows"]
    assert [(row["formula"], row["rate"], row["clock"]) for row in rows[:4]] == [
        ("f3", 1000, "equal"),
        *(("f3 × 100", 1, clock) for clock in ("equal", "uniform", "exponential")),
    ]
    for row in rows:
        assert float(row["other by local"]) == float(row["other s"]) / float(row["local s"])
        assert ("by equal clock" in row) == (row["clock"] != "equal")


@pytest.mark.dear("benchmarks")
def test_piles_by_name_rate_and_density() -> None:
    settings = replace(
        MEASURES["piles"].defaults,
        match="until",
        rates=(1000,),
        densities=("dense",),
        events=2000,
        repeats=1,
    )
    rows = piles(settings)["rows"]
    assert [row["size"] for row in rows] == [2, 3, 4, 6, 8]
    assert {(row["pile"], row["density"], row["rate"]) for row in rows} == {
        ("until nest", "dense", 1000)
    }


@pytest.mark.dear("benchmarks")
def test_outputs() -> None:
    settings = replace(
        MEASURES["outputs"].defaults,
        workloads=("f1",),
        densities=("dense",),
        rates=(1,),
        events=300,
        repeats=1,
    )
    rows = MEASURES["outputs"].function(settings)["rows"]
    assert [row["contender"] for row in rows] == [
        "local", "local, --resolve", "local, >", "local, -o",
    ]  # fmt: skip


def test_redirected_output_and_the_option_write_the_same(tmp_path: Path) -> None:
    log = random_log(PAIR, "dense", 3, 300, seed=1).path()
    texts = []
    for name, who in {
        "shell": Mtlmon("local", redirected=tmp_path / "shell"),
        "option": Mtlmon("local", options=("-o", str(tmp_path / "option"))),
    }.items():
        commands.run(who.command("EVENTUALLY[0,5] p", log), limit=60)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1] != ""


@pytest.mark.dear("benchmarks")
def test_keyed() -> None:
    settings = replace(MEASURES["keyed"].defaults, events=2000, repeats=1)
    rows = keyed(settings)["rows"]
    assert [row["rows"] for row in rows] == [2000, 2000]


@pytest.mark.dear("benchmarks")
def test_many_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_policies, "COUNTS", (2, 40))
    settings = replace(MEASURES["policies"].defaults, events=2000, repeats=1)
    rows = bench_policies.policies(settings)["rows"]
    assert [row["policies"] for row in rows] == [2, 40] * len(bench_policies.KINDS)


def test_the_table_of_keys() -> None:
    made = table(20_000, seed=1)
    times = made["ts"].to_numpy()
    gaps = np.diff(times)
    assert gaps.min() == 0
    assert gaps.mean() == pytest.approx(10, rel=0.03)
    assert len(set(made["key"].to_pylist())) == KEYS
    assert made.equals(table(20_000, seed=1))
    assert not made.equals(table(20_000, seed=2))


def test_arrays_are_fed_in_turn() -> None:
    log = random_log(PAIR, "dense", 1, 300, seed=1)
    seconds = seconds_to_feed({"a": ("p", log), "b": ("EVENTUALLY[0,5] q", log)}, 2, "both")
    assert list(seconds) == ["a", "b"]


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


def test_windows_of_streams_are_compared_and_timed() -> None:
    settings = replace(MEASURES["streams"].defaults, events=2000, repeats=1)
    rows = MEASURES["streams"].function(settings)["rows"]
    assert len(rows) == 29
    assert all(float(row["mtlmon M rows/s"]) > 0 for row in rows)
