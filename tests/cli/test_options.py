"""What each option does, seen from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

import mtlmon as package
from tests.cli.process import mtlmon
from tests.doors import cli_streams as streams
from tests.doors import parse_arguments

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
UNTIL = "p UNTIL[0,5] q"
LOG = "@1 p\n@1 p\n@2 p\n@3 q\n@4 p\n@20\n"


@pytest.mark.parametrize("name", ["approval", "response", "deployment"])
def test_examples(name: str) -> None:
    done = mtlmon(str(EXAMPLES / f"{name}.mtl"), str(EXAMPLES / f"{name}.log"))
    assert done.output == (EXAMPLES / f"{name}.verdicts").read_text(encoding="utf-8")
    assert (done.status, done.errors) == (1, "")


def test_modes() -> None:
    formula = "EVENTUALLY[0,9] q"
    log = "@1\n@1\n@2\n@2\n@3 q\n"
    solved = ["1:0 true", "1:1 true", "2:0 true", "2:1 true", "3:0 true"]
    outputs = {
        mode: mtlmon("--mode", mode, "-e", formula, log=log).output.splitlines()
        for mode in ("local", "global", "naive")
    }
    assert outputs["naive"] == solved
    assert outputs["local"] == ["1:1 = 1:0", "2:1 = 2:0", "1:0 true", "2:0 true", "3:0 true"]
    assert "1:1 = 1:0" in outputs["global"]
    for mode in outputs:
        resolved = mtlmon("--mode", mode, "--resolve", "-e", formula, log=log)
        assert resolved.output.splitlines() == solved


def test_resolving_says_what_stays_open() -> None:
    done = mtlmon("--resolve", "-e", "EVENTUALLY[0,9] q", log="@1 q\n@5\n@5\n@6\n")
    assert done == (
        0,
        "1:0 true\n",
        "mtlmon: 3 time-points undecided at the end of the log (see --end-time)\n",
    )
    done = mtlmon("--resolve", "--end-time", "14", "-e", "EVENTUALLY[0,9] q", log="@5\n@6\n@6\n")
    assert done.errors == (
        "mtlmon: no event has the atom q\n"
        "mtlmon: 2 time-points undecided at the end of the log (see --end-time)\n"
    )


@pytest.mark.parametrize("bdd", ["auto", "autoref"])
def test_back_ends(bdd: str) -> None:
    formula = "((p UNTIL[0,5] q) OR EVENTUALLY[0,3] (q AND NEXT p)) IFF (ALWAYS[0,4] p)"
    options = ("--mode", "global", "-e", formula)
    one, other = mtlmon(*options, log=LOG), mtlmon("--bdd", bdd, *options, log=LOG)
    assert one == other


@pytest.mark.parametrize(
    ("verdicts", "lines"),
    [
        ("all", ["1:1 = 1:0", "1:0 true", "2:0 true", "3:0 true", "4:0 false", "20:0 false"]),
        ("boolean", ["1:0 true", "2:0 true", "3:0 true", "4:0 false", "20:0 false"]),
        ("false", ["4:0 false", "20:0 false"]),
        ("first", ["4:0 false"]),
        ("none", []),
    ],
)
def test_verdicts(verdicts: str, lines: list[str]) -> None:
    done = mtlmon("--verdicts", verdicts, "-e", UNTIL, log=LOG)
    assert done.output.splitlines() == lines
    assert (done.status, done.errors) == (1, "")


def test_first_says_when_it_cannot_know() -> None:
    done = mtlmon(
        "--verdicts", "first", "-e", "NOT bad AND EVENTUALLY[0,5] q", log="@1\n@2 bad\n@2 q"
    )
    assert done == (1, "2:0 false\n", "")
    done = mtlmon("--verdicts", "first", "-e", "NOT q AND EVENTUALLY[0,5] p", log="@1\n@2 q\n")
    assert done.status == 1
    assert done.output == ""
    assert done.errors == (
        "mtlmon: no event has the atom p\n"
        "mtlmon: 2:0 is false, but 1:0 before it is undecided at the end of the log "
        "(see --end-time)\n"
    )


def test_first_does_not_read_on() -> None:
    done = mtlmon("--verdicts", "first", "-e", "p", log="@1 p\n@2\n" + "@3\n" * 1_000_000 + "bad")
    assert done == (1, "2:0 false\n", "")


@pytest.mark.parametrize(
    ("end_time", "lines", "status"),
    [
        ("0", ["2:0 true"], 0),
        ("last", ["2:0 true"], 0),
        ("8", ["2:0 true", "3:0 false"], 1),
        ("9223372036854775807", ["2:0 true", "3:0 false"], 1),
        ("inf", ["2:0 true", "3:0 false"], 1),
    ],
)
def test_end_time(end_time: str, lines: list[str], status: int) -> None:
    done = mtlmon("--end-time", end_time, "-e", "EVENTUALLY[0,5] q", log="@2 q\n@3\n")
    assert done.output.splitlines() == lines
    assert done.status == status


@pytest.mark.parametrize("end_time", ["x", "-1", "1.5", "9223372036854775808", "", "9" * 5000])
def test_bad_end_time(end_time: str) -> None:
    done = mtlmon(f"--end-time={end_time}", "-e", "p")
    assert done.status == 2
    assert "is not 'last', 'inf' or an integer from 0 to 9223372036854775807" in done.errors
    assert done.errors.count("\n") == 1


def test_unit() -> None:
    log = "@0 p\n@120000 q\n@120001 q\n"
    for unit, bound in ("ms", "2m"), ("ms", "120s"), ("us", "120ms"):
        done = mtlmon("--unit", unit, "-e", f"q IMPLIES ONCE[0,{bound}] p", log=log)
        assert done.output == "0:0 true\n120000:0 true\n120001:0 false\n"
    done = mtlmon("-e", "ONCE[0,2m] p", log=log)
    assert done.status == 2
    assert done.errors.startswith("mtlmon: <formula>:1:")


def test_on_error() -> None:
    log = "@5 p\nbad\n@4 p\n@6 p,\n@6 p\n"
    done = mtlmon("-e", "p", log=log)
    assert done == (2, "5:0 true\n", "mtlmon: <stdin>:2:1: expected '@' and a time-stamp, not 'b'"
                    " (bad)\n")  # fmt: skip
    done = mtlmon("--on-error", "skip", "-e", "p", log=log)
    assert done == (
        0,
        "5:0 true\n6:0 true\n",
        "mtlmon: skipped 3 lines that could not be read\n",
    )


def test_output_file(tmp_path: Path) -> None:
    out = tmp_path / "verdicts"
    out.write_text("something longer that was there before\n" * 9)
    done = mtlmon("-o", str(out), "-e", UNTIL, log=LOG)
    assert done == (1, "", "")
    assert out.read_text() == mtlmon("-e", UNTIL, log=LOG).output


def test_a_bad_formula_leaves_the_output_file_alone(tmp_path: Path) -> None:
    out = tmp_path / "verdicts"
    out.write_text("precious")
    assert mtlmon("-o", str(out), "-e", "p AND", log=LOG).status == 2
    assert mtlmon("-o", str(out), "-e", "p", str(tmp_path / "no.log")).status == 2
    assert out.read_text() == "precious"


def test_summary() -> None:
    done = mtlmon("--summary", "-e", UNTIL, log=LOG + "@20 p\nbad\n")
    assert done.status == 2
    done = mtlmon("--summary", "--on-error", "skip", "-e", UNTIL, log=LOG + "@20 p\nbad\n")
    lines = done.errors.splitlines()
    assert lines[0] == "mtlmon: skipped 1 line that could not be read"
    table = {line[:12].strip(): line[12:].split() for line in lines[1:]}
    assert list(table) == [
        "events", "seconds", "true", "false", "undecided", "peak pending", "peak memory", "skipped",
    ]  # fmt: skip
    assert [table[name][0] for name in ("events", "true", "false", "undecided", "skipped")] == [
        "7", "4", "2", "1", "1",
    ]  # fmt: skip
    assert table["seconds"][-1] == "events/s"
    assert mtlmon("--no-summary", "-e", UNTIL, log=LOG).errors == ""


def test_atoms_that_never_occurred() -> None:
    done = mtlmon("-e", 'p AND NOT q OR "a b"', log="@1 p\n")
    assert done == (0, "1:0 true\n", 'mtlmon: no event has the atoms q, "a b"\n')
    names = " OR ".join(f"x{k}" for k in range(30))
    assert mtlmon("-e", names, log="@1\n").errors == (
        "mtlmon: no event has the atoms x0, x1, x2, x3, x4, x5, x6, x7, x8, x9 and 20 more\n"
    )


def test_unbounded_formulas_run_as_global() -> None:
    done = mtlmon("-e", "p UNTIL q", log="@1 p\n@2 p\n@3 q\n")
    assert done == (
        0,
        "2:0 = 1:0\n1:0 true\n3:0 true\n",
        "mtlmon: the formula's future is unbounded: mode local works as global here\n",
    )
    assert mtlmon("--mode", "global", "-e", "p UNTIL q", log="@3 p q").errors == ""


def test_operators_that_cannot_decide_are_mentioned(tmp_path: Path) -> None:
    always, eventually = "; ALWAYS without a bound is never true", "; EVENTUALLY without a bound"
    policies = tmp_path / "x.mtl"
    for formula, words in (
        ("G p", always),
        ("ALWAYS[3,*] p", always),
        ("F p", eventually),
        ("q IMPLIES EVENTUALLY p", eventually),
        ("p UNTIL q", "works as global here\n"),
    ):
        assert words in mtlmon("-e", formula, log="@1 p\n").errors
        policies.write_text(f"policy a: q\npolicy b: {formula}\n", encoding="utf-8")
        assert words in mtlmon(str(policies), log="@1 p\n").errors
    for more in (["--end-time", "inf", "-e", "G p"], ["-e", "G[0,5] p"], ["-e", "NOT ONCE p"]):
        assert "without a bound" not in mtlmon(*more, log="@1 p\n").errors


def test_formulas_without_a_bound_on_time_are_mentioned(tmp_path: Path) -> None:
    slow = "ALWAYS ((EVENTUALLY[0,5] p) EQUIV q)"
    emitted = "an event can take long, the more so the longer windows are"
    unbounded = (
        "mtlmon: the formula's future is unbounded: mode local works as global here; ALWAYS "
        "without a bound is never true before the end of the log: leave it out, as each "
        "time-point has a verdict of its own, or add --end-time inf if nothing follows\n"
    )
    line = f"mtlmon: {emitted}, and nothing bounds the time (see --explain-formula)\n"
    assert mtlmon("-e", slow, log="@1 p q\n").errors == unbounded + line
    assert mtlmon("--mode", "global", "-e", slow, log="@1 p q\n").errors == ""
    assert mtlmon("--explain-formula", "-e", slow).output.endswith(f"  time         {emitted}\n")
    assert emitted not in mtlmon("--explain-formula", "-e", "ALWAYS[0,9] EVENTUALLY[0,5] p").output
    policies = tmp_path / "policies.mtl"
    policies.write_text(f"policy fine: p\npolicy slow: {slow}\n", encoding="utf-8")
    assert f"mtlmon: of slow: {emitted}, and" in mtlmon(str(policies), log="@1 p q\n").errors
    assert emitted in mtlmon("check-policy", str(policies)).output


def test_progress_needs_a_terminal() -> None:
    assert mtlmon("--progress", "-e", UNTIL, log=LOG).errors == ""


def test_explain_formula() -> None:
    done = mtlmon("--explain-formula", "--unit", "s", "-e", "p UNTIL[0,5s] q")
    assert (done.status, done.errors) == (0, "")
    assert "p UNTIL[0,5] q" in done.output
    assert "pending" in done.output
    assert mtlmon("--explain-formula", "-", log="p").status == 0


@pytest.mark.parametrize(
    ("options", "formula", "line"),
    [
        ((), "p UNTIL[0,5] q", "expressions  none of its operators waits for another"),
        (
            ("--mode", "naive"),
            "p UNTIL[0,5] NEXT q",
            "network  its future is bounded, and it has 2 operators that can wait",
        ),
        (
            ("--mode", "global"),
            "p UNTIL[0,5] q",
            "expressions  mode global compares time-points of different time-stamps",
        ),
        ((), "p UNTIL q", "expressions  its future is unbounded"),
        ((), "p EQUIV NEXT q", "expressions  none of its operators waits for another"),
        (
            (),
            "EVENTUALLY[0,5] (p EQUIV NEXT q)",
            "network  its future is bounded, and it has 2 operators that can wait; NEXT q is used"
            " both as it is and negated, so verdicts can come later than in mode global",
        ),
    ],
)
def test_explain_formula_says_which_engine_runs_it(
    options: tuple[str, ...], formula: str, line: str, tmp_path: Path
) -> None:
    done = mtlmon("--explain-formula", *options, "-e", formula)
    assert done.output.endswith(f"\n\nEngine\n  {line}\n")
    path = tmp_path / "policies.mtl"
    path.write_text(f"policy x: {formula}\npolicy y: ONCE p\n")
    done = mtlmon("--explain-formula", *options, str(path))
    assert f"\n\nEngine\n  {line}\n\nPolicy y\n" in done.output


def test_version() -> None:
    assert mtlmon("-V") == mtlmon("--version") == (0, f"mtlmon {package.__version__}\n", "")


def test_help() -> None:
    done = mtlmon("--help")
    assert (done.status, done.errors) == (0, "")
    assert done.output.startswith("usage: mtlmon [options] FORMULA_FILE [LOG ...]\n")
    for words in (
        "mtlmon [options] -e FORMULA [LOG ...]",
        "--mode {local,global,naive}",
        "--verdicts {all,boolean,false,first,none}",
        "--resolve",
        "-o FILE",
        "--end-time {TS,last,inf}",
        "--unit {ns,us,ms,s,m,h,d}",
        "--on-error {stop,skip}",
        "--bdd {auto,cudd,autoref}",
        "--summary, --no-summary",
        "--progress",
        "--explain-formula",
        "--version",
        "examples:",
        "exit status: 0 no violation, 1 a violation",
    ):
        assert words in done.output
    assert max(map(len, done.output.splitlines())) <= 100


def test_files_and_options_in_any_order(tmp_path: Path) -> None:
    formula, log = tmp_path / "f.mtl", tmp_path / "x.log"
    formula.write_bytes("\ufeff# a policy\np UNTIL[0,5] q\n".encode())
    log.write_text(LOG)
    expected = mtlmon("-e", UNTIL, log=LOG)
    for arguments in (
        [str(formula), str(log)],
        [str(formula), "--mode", "local", str(log)],
        [str(log), "-e", UNTIL],
        ["--mode=local", "--", str(formula), str(log)],
        ["-e", UNTIL, "--", str(log)],
    ):
        assert mtlmon(*arguments) == expected
    assert mtlmon(str(formula), log=LOG) == expected
    assert mtlmon(str(formula), "-", log=LOG) == expected
    assert mtlmon("-", str(log), log=UNTIL) == expected


def test_misspelt_atoms_are_noticed(tmp_path: Path) -> None:
    """The scanner passes over other names, so the head of the log tells which there are."""
    log = tmp_path / "x.log"
    log.write_text('# a\n@1 error "a b"\n@2 (request)\n' + "@3 request()\n" * 9)
    policies = tmp_path / "p.mtl"
    policies.write_text("policy one: NOT eror\n")
    for asked in ["-e", "NOT eror"], [str(policies)]:
        done = mtlmon("--verdicts", "none", *asked, str(log))
        assert done.errors == "mtlmon: no event has the atom eror; did you mean error?\n"
    done = mtlmon("--verdicts", "none", "-e", "NOT (eror OR requst OR ab OR zzz)", str(log))
    assert done.errors == (
        "mtlmon: no event has the atoms eror, requst, ab, zzz; did you mean error for eror, "
        'request for requst, "a b" for ab?\n'
    )
    # The line that is cut at the end of the head says nothing, and what follows it neither.
    log.write_text("@1 " + "x" * 70_000 + "\n@2 error\n")
    done = mtlmon("--verdicts", "none", "-e", "NOT eror", str(log))
    assert done.errors == "mtlmon: no event has the atom eror\n"


def test_subcommand_of_streams_has_the_options_that_the_command_has() -> None:
    """Functions that both share read them."""
    # with what is not plain, so that the parser reads them all
    command = parse_arguments(["--progress", "p.mtl", "log.csv"])
    _, own = streams.parse_arguments(["p.mtl", "log.csv"])
    assert vars(command.log).items() >= vars(own.log).items()
    assert vars(command.times).items() >= vars(own.times).items()
    # not the default of the command
    assert (command.output.format, own.output.format) == ("text", "jsonl")
