"""What a log breaks of the assumptions of a policy file, where a run goes on from a checkpoint."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.test_late_assumptions import FILES, broken_in, limited
from tests.cli.test_lateness import Command


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_goes_on_counts_from_where_it_was(
    kind: str, seed: int, tmp_path: Path, command: Command
) -> None:
    """Each note is said once, and rows before the checkpoint count."""
    chance = random.Random(f"{kind}{seed}")
    policies, log, state = tmp_path / "p.mtl", tmp_path / "log.csv", tmp_path / "state"
    policies.write_text(limited(FILES[kind], chance))
    time, lines = 0, ["ts,k,p,q,v\n"]
    for _ in range(60):
        time += chance.choice([0, 0, 0, 1, 1, 7])
        truths = [chance.choice(["true", "false"]) for _ in range(2)]
        lines.append(f"{time},{chance.choice('ab')},{','.join(truths)},{chance.randint(1, 4)}\n")
    cuts = sorted(chance.sample(range(1, 60), 2))
    log.write_text("".join(lines))
    wanted = broken_in(command(policies, log).errors.splitlines())
    found: list[str] = []
    for cut in (*cuts, 60):
        log.write_text("".join(lines[: cut + 1]))
        done = command("--checkpoint", state, "--resume", "-o", tmp_path / "out", policies, log)
        assert done.status < 2, done.errors
        found += broken_in(done.errors.splitlines())
    assert found == wanted


def test_assumptions_may_change_between_runs(tmp_path: Path, command: Command) -> None:
    """They change no verdict, so a run goes on, and counts what is new from there on."""
    policies, log, state = tmp_path / "p.mtl", tmp_path / "log.csv", tmp_path / "state"
    log.write_text("ts,p\n1,true\n1,true\n")
    options = ("--checkpoint", state, "--resume", "-o", tmp_path / "out", policies, log)
    found = []
    for assumed in ("assume rate <= 1/s\n", "", "assume rate <= 2/s\n"):
        policies.write_text(f"unit s\n{assumed}policy one: p\n")
        done = command(*options)
        assert done.status == 0, done.errors
        found.append(broken_in(done.errors.splitlines()))
        with log.open("a") as file:
            file.write("1,true\n")
    assert [len(one) for one in found] == [1, 0, 0]
    assert len((tmp_path / "out").read_text().splitlines()) == 4
