"""Logs of MonPoly whose time-points come late: what holds at last, and what each one changes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cli.process import Live
from tests.cli.process import mtlmon as command
from tests.doors import MonPolyEvents
from tests.run.both import check_both
from tests.sampling import thinned

SIGNATURE = "p(x:int)\nq(x:int, y:string)\nr()\n"
FORMULAS = [
    "q(x,y) IMPLIES ONCE [0,5] p(x)",
    "q(x,y) IMPLIES EVENTUALLY [0,4] p(x)",
    "p(x) IMPLIES (NOT r() SINCE [0,9] EXISTS y. q(x,y))",
    "p(x) IMPLIES PREVIOUS [0,5] (r() OR p(x))",
    "p(x) IMPLIES NEXT [0,*] (r() OR p(x))",
]


def log_of(source: random.Random, count: int) -> str:
    """A log with time-points of several lines, some of which come late."""
    now, found = 50, []
    for _ in range(count):
        now += source.choice([0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        rows = source.sample(["p(1)", "p(2)", 'q(1,"a b")', "q(2,c) (1,d)", "r()"], 2)
        parts = [f"@{stamp}", *rows[: source.randrange(3)]]
        found.append(source.choice([" ", "\n  "]).join(parts) + source.choice(["\n", ";\n"]))
    return "".join(found)


def latest(folder: Path, changes: str) -> list[str]:
    """The lines that hold at last."""
    (folder / "changes").write_text(changes)
    lines = command("latest", str(folder / "changes")).output.splitlines()
    return sorted(line for line in lines if not line.startswith("!@"))


@pytest.mark.parametrize("number", range(len(FORMULAS)))
def test_what_holds_is_that_of_time_points_that_wait(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each part of a log, each by another run."""
    names = ("s.sig", "f.mfotl", "log", "out", "saved", "late")
    signature, formula, log, out, saved, late = (tmp_path / name for name in names)
    signature.write_text(SIGNATURE)
    formula.write_text(FORMULAS[number])
    for seed in thinned(range(4)):
        points = log_of(random.Random(f"{number} {seed}"), 40).split("@")[1:]
        given = ["--signature", str(signature), "--negate", *[["--verdicts", "all"], []][seed % 2]]
        given += ["--nonewlastts"] if seed > 1 else []
        corrects = ["--lateness", "7", *[[], ["--wait", "2"], ["--slices", "2"], []][seed]]
        # batches as they come from a pipe
        monkeypatch.setattr(MonPolyEvents, "most_events", 3)
        saved.unlink(missing_ok=True)
        for count in (15, 16, len(points)):
            log.write_text("".join(f"@{point}" for point in points[:count]))
            kept = ["--checkpoint", str(saved), "--resume", "-o", str(out), "--late", str(late)]
            done = command(*given, *corrects, *kept, str(formula), str(log))
            wanted = command(*given, "--wait", "7", str(formula), str(log))
            assert done.status == wanted.status, done.errors
            assert latest(tmp_path, out.read_text()) == sorted(wanted.output.splitlines())
            # those that are refused are whole, with all of their lines
            refused = f"{late.read_text().count('@')} time-point"
            assert refused in f"{done.errors} 0 time-point"
            assert refused in f"{wanted.errors} 0 time-point"
        monkeypatch.undo()
        check_both(formula, log, *given, *corrects)


def test_the_changes_of_each_time_point(tmp_path: Path) -> None:
    """A time-point ends where the next one begins; the log's end shows that nothing follows."""
    signature, formula = tmp_path / "s.sig", tmp_path / "f.mfotl"
    signature.write_text(SIGNATURE)
    formula.write_text(FORMULAS[0])
    options = ["--signature", str(signature), "--negate", "--lateness", "20"]
    with Live(*options, str(formula)) as live:
        for text, lines in (
            ("@30 q(1,a)\n", []),
            ("  q(2,b)\n", []),
            ("@28 p(2)\n", ["!@10", "30:0 false (x=1, y=a)", "30:0 false (x=2, y=b)"]),
            ("p(1)\n@40\n", ["!x30:0 false (x=1, y=a)", "!x30:0 false (x=2, y=b)"]),
        ):
            live.send(text)
            assert sorted(str(live.read_line()) for _ in lines) == sorted(lines)
        assert live.end().status == 0


def test_a_time_point_begins_a_line(tmp_path: Path) -> None:
    """As where time-points wait, so that those that come too late are lines of their own."""
    signature, formula, log = tmp_path / "s.sig", tmp_path / "f.mfotl", tmp_path / "log"
    signature.write_text(SIGNATURE)
    formula.write_text(FORMULAS[0])
    log.write_text("@5 p(1)\n@9 p(1) @4 q(1,a)\n")
    for given in ("--lateness", "--wait"):
        options = ["--signature", str(signature), "--negate", given, "5", str(formula), str(log)]
        done = command(*options)
        assert done.status == 2
        assert f"{log}:2:9: a time-point must begin a line" in done.errors


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--output-format", "monpoly"],
            "no line for values that do not violate a policy any more",
        ),
        (["--clock", "key"], "--clock key does not work with policies with variables"),
    ],
)
def test_what_is_refused(given: list[str], message: str, tmp_path: Path) -> None:
    signature, formula = tmp_path / "s.sig", tmp_path / "f.mfotl"
    signature.write_text(SIGNATURE)
    formula.write_text(FORMULAS[0])
    options = ["--signature", str(signature), "--negate", "--lateness", "5"]
    done = command(*options, *given, str(formula), "/dev/null")
    assert done.status == 2
    assert message in done.errors
