"""The command on files of MonPoly."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.kills import check_killed_runs
from tests.cli.process import Ended, Live, mtlmon
from tests.monpoly.own_cases import CASES, SIGNATURE, Case, written

Command = Callable[..., Ended]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """A signature, a formula and a log."""
    contents = {
        "a.sig": "publish(user: string, file: string)\napprove(file: string)\n",
        "a.mfotl": "publish(u, f) IMPLIES ONCE[0,7d] approve(f)\n",
        "a.log": "@10 approve(f1)\n@20 publish(alice, f1)(bob, f2)\n@30 publish(bob,f2)\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    signature, formula, log = (str(tmp_path / name) for name in contents)
    return signature, formula, log


def run_case(case: Case, folder: Path, command: Command, *arguments: str) -> Ended:
    for name, content in {"a.sig": SIGNATURE, "a.mfotl": case.formula, "a.log": case.log}.items():
        (folder / name).write_text(content)
    paths = (str(folder / "a.mfotl"), str(folder / "a.log"))
    given = [*arguments, *(["--negate"] if case.negate else [])]
    options = ("--output-format", "monpoly", "--signature", str(folder / "a.sig"))
    return command("--no-summary", *options, *given, *paths)


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, tmp_path: Path, command: Command) -> None:
    case = CASES[name]
    ended = run_case(case, tmp_path, command)
    assert ended.output == written(case)
    assert ended.errors == ("" if case.log else "mtlmon: the log has no events\n")
    assert ended.status == (1 if case.negate and case.output else 0)


def test_the_end_of_the_log_can_be_left_open(tmp_path: Path, command: Command) -> None:
    case = Case("EVENTUALLY[0,5] p(x)", "@0 p(1)\n@4\n@6\n", "")
    ended = run_case(case, tmp_path, command, "--nonewlastts")
    assert (ended.status, ended.output) == (0, "@0 (time point 0): (1)\n")


def test_what_is_earned_before_an_error_is_written(tmp_path: Path, command: Command) -> None:
    case = Case("p(x)", "@0 p(1)\n@4\n@3 p(2)\n@5 p(3)", "")
    ended = run_case(case, tmp_path, command)
    assert (ended.status, ended.output) == (2, "@0 (time point 0): (1)\n")
    assert "a.log:3:2: the time-stamp 3 is below the one before, 4" in ended.errors
    ended = run_case(case, tmp_path, command, "--on-error", "skip")
    assert (ended.status, ended.output) == (
        0,
        "@0 (time point 0): (1)\n@5 (time point 2): (3)\n",
    )
    assert "skipped 1 time-point that could not be read" in ended.errors


def test_wanted_verdicts_and_the_summary(tmp_path: Path, command: Command) -> None:
    case = Case("p(x) IMPLIES r()", "@0 p(1)\n@4 p(2) p(3)\n", "", negate=True)
    assert run_case(case, tmp_path, command, "--verdicts", "first")[:2] == (
        1,
        "@0 (time point 0): (1)\n",
    )
    assert run_case(case, tmp_path, command, "--verdicts", "none")[:2] == (1, "")
    ended = run_case(case, tmp_path, command, "--summary")
    assert "time-points         2\n" in ended.errors
    assert "time-points  violated  matched\n                  2         2\n" in ended.errors


def test_other_formats(tmp_path: Path, command: Command) -> None:
    case = Case("t(y, x) SINCE t(y, x)", '@0 t("a b",1)\n@0 t(c,2)\n', "")

    def output(*arguments: str) -> str:
        return run_case(case, tmp_path, command, *arguments).output

    assert output("--output-format", "text") == ('0:0 match (y="a b", x=1)\n0:1 match (y=c, x=2)\n')
    assert output("--output-format", "csv").splitlines()[1:] == [
        ',0,0,true,,"a b",1',
        ',0,1,true,,"c",2',
    ]
    assert '"y":"c","x":2' in output("--output-format", "jsonl").replace(" ", "")


def test_the_time_point_behind_the_log_has_no_answers(tmp_path: Path, command: Command) -> None:
    """Nothing is violated in the log, but the time-point behind it would be."""
    for formula in ("ONCE[0,5] r()", "ONCE[0,5] EXISTS x. p(x)"):
        case = Case(formula, "@0 r() p(1)\n@4\n", "", negate=True)
        for wanted in ("first", "false"):
            ended = run_case(case, tmp_path, command, "--verdicts", wanted)
            assert ended == (0, "", "")
    case = Case("NOT ONCE[0,5] r()", "@0 r()\n@4\n", "")
    for wanted in ("first", "all"):
        assert run_case(case, tmp_path, command, "--verdicts", wanted) == (0, "", "")
    ended = run_case(case, tmp_path, command, "--summary", "--output-format", "text")
    assert "                  2                  0\n" in ended.errors


def test_integers_that_overflow(tmp_path: Path, command: Command) -> None:
    case = Case("p(x) AND y = x * x", f"@0 p(3)\n@4 p({2**62})\n@5 p(1)\n", "")
    ended = run_case(case, tmp_path, command)
    assert (ended.status, ended.output) == (2, "@0 (time point 0): (3,9)\n")
    assert "overflows 64 bits" in ended.errors
    ended = run_case(case, tmp_path, command, "--on-error", "skip")
    assert ended.output == "@0 (time point 0): (3,9)\n@5 (time point 2): (1,1)\n"
    assert "1 value left out" in ended.errors


def test_dividing_by_zero_is_an_error(tmp_path: Path, command: Command) -> None:
    case = Case("p(x) AND y = 6 / x", "@0 p(3)\n@4 p(0)\n@5 p(1)\n", "")
    ended = run_case(case, tmp_path, command)
    assert (ended.status, ended.output) == (2, "@0 (time point 0): (3,2)\n")
    assert "point 1 of the log: 6 / x cannot be computed with 6, 0" in ended.errors


def test_functions_that_need_arrow(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = run_case(CASES["conversions of texts"], tmp_path, command)
    assert (ended.status, ended.output) == (2, "")
    assert "pip install 'mtlmon[tables]'" in ended.errors
    assert run_case(CASES["an atom"], tmp_path, command).status == 0


def test_a_live_pipe(tmp_path: Path) -> None:
    """A semicolon completes a time-point, else the next one does."""
    for name, content in {"a.sig": SIGNATURE, "a.mfotl": "ONCE[0,5] p(x)"}.items():
        (tmp_path / name).write_text(content)
    files = ("--signature", str(tmp_path / "a.sig"), str(tmp_path / "a.mfotl"), "-")
    with Live("--output-format", "monpoly", *files) as live:
        live.send("@0 p(1);\n")
        assert live.read_line() == "@0 (time point 0): (1)"
        live.send("@1 p(2)\n")
        live.send("p(3) @2\n")
        assert live.read_line() == "@1 (time point 1): (1) (2) (3)"
        assert live.end() == (0, "@2 (time point 2): (1) (2) (3)\n", "")


@given(st.binary(max_size=30), st.binary(max_size=30))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_files_are_read_or_refused(
    tmp_path: Path, command: Command, formula: bytes, log: bytes
) -> None:
    (tmp_path / "a.sig").write_text(SIGNATURE)
    (tmp_path / "a.mfotl").write_bytes(b"p(x) AND " + formula)
    (tmp_path / "a.log").write_bytes(b"@1 p(1)\n@" + log)
    for name in ("a.mfotl", "good.mfotl"):
        (tmp_path / "good.mfotl").write_text("p(x)")
        paths = (str(tmp_path / name), str(tmp_path / "a.log"))
        ended = command("--signature", str(tmp_path / "a.sig"), *paths)
        assert ended.status in {0, 2}
        assert "internal fault" not in ended.errors


def test_a_formula_is_refused_with_its_place(files: tuple[str, str, str], command: Command) -> None:
    signature, formula, log = files
    Path(formula).write_text("publish(u, f)\nAND approved(f)")
    ended = command("--signature", signature, formula, log)
    assert ended.status == 2
    assert f"{formula}:2:5: the signature has no relation approved" in ended.errors
    assert "hint: did you mean approve?" in ended.errors


def test_a_signature_is_refused_with_its_place(
    files: tuple[str, str, str], command: Command
) -> None:
    signature, formula, log = files
    Path(signature).write_text("publish(user: text)")
    ended = command("--signature", signature, formula, log)
    assert ended.status == 2
    assert f"{signature}:1:15: there is no type text" in ended.errors


def test_what_nothing_binds_is_refused(files: tuple[str, str, str], command: Command) -> None:
    signature, formula, log = files
    ended = command("--signature", signature, formula, log)
    assert ended.status == 2
    assert "the formula: one side of OR binds" in ended.errors or "nothing says" in ended.errors


def test_variables_that_hide_others_have_their_names_in_errors(
    tmp_path: Path, command: Command
) -> None:
    signature, formula, log = (tmp_path / name for name in ("sig", "formula", "log"))
    signature.write_text("p(x: int) q(x: int, y: int)")
    log.write_text("@1 p(1) q(1,0)\n")
    given = "--signature", signature, formula, log
    formula.write_text("p(x) AND (EXISTS x. NOT p(x))")
    ended = command(*given)
    assert "nothing says which values 'x' may take in 'NOT p(x)'" in ended.errors
    assert "as in p(x) AND NOT p(x); or did you mean NOT EXISTS x. p(x)?" in ended.errors
    formula.write_text("p(x) AND (EXISTS x, y. q(x, y) AND x / y > 1)")
    assert "x / y cannot be computed with 1, 0" in command(*given).errors
    formula.write_text("p(x) IMPLIES NOT (EXISTS x. p(x))")
    ended = command("--negate", "--explain", *given)
    assert "1:0 violates p(x) IMPLIES NOT EXISTS x. p(x)\n" in ended.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--end-time", "inf"], "--nonewlastts leaves its end open"),
        (["--unit", "ms"], "time-stamps are seconds there"),
        (["--mode", "global"], "--mode does not work with --signature"),
        (["--idle", "1s"], "a time-point ends where the next one begins; a line with"),
        (["--format", "csv"], "not for tables"),
        (
            ["--time-stamps", "iso", "--output-format", "monpoly"],
            "--time-stamps iso does not work with --output-format monpoly: that form has the num",
        ),
    ],
)
def test_options_that_do_not_work(
    files: tuple[str, str, str], command: Command, arguments: list[str], message: str
) -> None:
    signature, formula, log = files
    ended = command(*arguments, "--negate", "--signature", signature, formula, log)
    assert ended.status == 2
    assert message in ended.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.mfotl"], "a.mfotl is a formula of MonPoly"),
        (["--negate", "-e", "p"], "--negate is for files of MonPoly"),
        (["--nonewlastts", "-e", "p"], "--nonewlastts is for files of MonPoly"),
        (["--output-format", "monpoly", "-e", "p"], "add --signature FILE"),
    ],
)
def test_options_that_need_a_signature(
    command: Command, arguments: list[str], message: str
) -> None:
    ended = command(*arguments)
    assert ended.status == 2
    assert message in ended.errors


def test_a_formula_is_explained(files: tuple[str, str, str], command: Command) -> None:
    signature, formula, log = files
    ended = command("--negate", "--explain-formula", "--signature", signature, formula, log)
    assert (ended.status, ended.errors) == (0, "")
    assert "rows of publish(u, f)" in ended.output


def test_slices_of_a_log_of_monpoly(command: Command, tmp_path: Path) -> None:
    signature, formula, log = (tmp_path / name for name in ("f.sig", "f.mfotl", "f.log"))
    signature.write_text("p(int)\nq(int,int)\n")
    formula.write_text("p(x) AND ONCE [0,5) q(x,y)\n")
    log.write_text('@1 q(1,2)(3,4)\n@2 p(1)(3)\n@5 p(3) q(1,1)\n@6 p("1")\n')
    options = ["--signature", signature, "--output-format", "monpoly", formula, log]
    wanted = command(*options)
    assert wanted.output.count("\n") == 3
    assert command("--slices", "3", *options) == wanted


def test_times_that_people_read(files: tuple[str, str, str], command: Command) -> None:
    signature, formula, log = files
    options = ["--negate", "--time-stamps", "iso", "--signature", signature]
    ended = command(*options, "--explain", formula, log)
    time = "1970-01-01T00:00:"
    assert ended.output == f"{time}20Z:0 false (u=bob, f=f2)\n{time}30Z:0 false (u=bob, f=f2)\n"
    assert f"time {time}20Z\n20:0 violates" in ended.errors


@pytest.mark.parametrize("seed", range(6))
def test_left_sides_are_counted_as_in_policy_files(
    seed: int, files: tuple[str, str, str], tmp_path: Path, command: Command
) -> None:
    """The same log in the lines of mtlmon, for the same policy."""
    signature, formula, log = files
    policies, lines = tmp_path / "p.mtl", tmp_path / "lines"
    policies.write_text(
        "unit s\natom publish(u: text, f: text)\natom approve(f: text)\n"
        "policy formula: publish(u, f) IMPLIES ONCE[0,7d] approve(f)\n"
    )
    source, now, written = random.Random(seed), 0, list[str]()
    for _ in range(20):
        now += source.choice([0, 1, 90_000])
        rows = [f"approve(f{source.randrange(3)})" for _ in range(source.randrange(2))]
        for _ in range(source.choice([0, 0, 1, 2]) if seed else 0):
            rows.append(f"publish(u{source.randrange(3)},f{source.randrange(3)})")
        written.append(f"@{now} {' '.join(rows)}")
    for path in (Path(log), lines):
        path.write_text("\n".join([*written, ""]))
    options = ["--fail-on-vacuous", "--summary", "--verdicts", "false"]
    wanted = command(*options, policies, lines)
    for slices in ([], ["--slices", "3"]):
        given = [*options, *slices, "--negate", "--signature", signature]
        ended = command(*given, formula, log)
        assert ended.status == wanted.status
        found = [one for one in ended.errors.splitlines() if " triggered" in one]
        own = [one.replace("policy formula", "the formula") for one in wanted.errors.splitlines()]
        assert found == [one for one in own if " triggered" in one]
        assert found
        saved = ["--checkpoint", str(tmp_path / f"state{len(slices)}"), "--resume"]
        half = tmp_path / "half.log"
        half.write_text("\n".join([*written[:10], ""]))
        command("--nonewlastts", *saved, *given, "-o", str(tmp_path / "out"), formula, str(half))
        half.write_text("\n".join([*written, ""]))
        again = command(*saved, *given, "-o", str(tmp_path / "out"), formula, str(half))
        assert again.status == wanted.status
        assert [one for one in again.errors.splitlines() if " triggered" in one] == found
    ended = command("--fail-on-vacuous", "--signature", signature, formula, log)
    assert ended.status == 2
    assert "add --negate if the formula is one" in ended.errors


CLOSED = Case(
    'EVENTUALLY[0,5] t("a b",7)',
    '@0 t("a b",7)\n@4\n@6 t(c,7) t("a b",7)\n@7\n',
    "",
    negate=True,
)
OPEN = Case(
    "p(x) IMPLIES NEXT ONCE EXISTS y. q(x, y)",
    "@0 p(1) # one\n@4 q(1,5)\n@6 p(2)(3);\n\n@7 q(3,5)\n",
    "",
    negate=True,
)


def test_explanations_say_what_the_log_has(tmp_path: Path, command: Command) -> None:
    ended = run_case(OPEN, tmp_path, command, "--explain")
    assert (ended.status, ended.output) == (1, "@6 (time point 2): (2)\n")
    assert "6:0 violates p(x) IMPLIES NEXT ONCE" in ended.errors
    assert "x = 2" in ended.errors
    assert "no q(2, _)" in ended.errors
    assert "x = 3" not in ended.errors
    # a formula without variables is found to be violated, too
    ended = run_case(CLOSED, tmp_path, command, "--explain", "--explain-limit", "1")
    assert ended.output == "@7 (time point 3): true\n"
    assert '7:0 violates EVENTUALLY[0,5s] t("a b", 7)' in ended.errors
    assert "in the 5s after" in ended.errors


def test_formulas_that_are_no_policies_are_not_explained(tmp_path: Path, command: Command) -> None:
    ended = run_case(Case("p(x)", "@0 p(1)\n", ""), tmp_path, command, "--explain")
    assert ended.status == 2
    assert "--explain explains violations: add --negate" in ended.errors


@pytest.mark.parametrize("case", [OPEN, CLOSED], ids=["open", "closed"])
def test_the_report_lists_violations(case: Case, tmp_path: Path, command: Command) -> None:
    pytest.importorskip("jinja2", reason="jinja2 (mtlmon[report]) is not installed")
    page = tmp_path / "report.html"
    ended = run_case(case, tmp_path, command, "--report", str(page))
    (line,) = ended.output.splitlines()
    text = page.read_text()
    assert f"<code>{line[1]}:0</code>" in text
    assert "no q(" in text or "no t(" in text
    # the time-point behind the log is none of it
    assert "9223372036854775807" not in text
    page.unlink()
    open_end = run_case(case, tmp_path, command, "--nonewlastts", "--report", str(page))
    assert "undecided" in page.read_text()
    assert open_end.output in ("", ended.output)


def test_the_report_counts_what_a_formula_finds(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("jinja2", reason="jinja2 (mtlmon[report]) is not installed")
    page = tmp_path / "report.html"
    run_case(Case("p(x)", "@0 p(1)\n@1 p(1)\n", ""), tmp_path, command, "--report", str(page))
    assert "The find matched at 2 time-points." in page.read_text()


LOG_ROWS = ["p(%d)", "q(%d,1)(7,2)", "p(%d)(2)", 'q("%d", 5)', "p(%d) # a comment", "p(%d,1)"]


def long_log(source: random.Random, count: int) -> bytes:
    """Plain lines, then others, of which some cannot be read."""
    time_stamp, lines = 0, []
    for number in range(count):
        time_stamp += source.choice([0, 0, 1, 4])
        rows = LOG_ROWS[:3] if number < count // 2 else LOG_ROWS
        row = source.choice(rows) % source.randrange(9)
        lines.append(f"@{time_stamp} {row}")
    return "\n".join(lines).encode()


@pytest.mark.parametrize("given", [[], ["--slices", "2"], ["--output-format", "text"]])
def test_killed_runs_write_what_an_undisturbed_one_does(tmp_path: Path, given: list[str]) -> None:
    source = random.Random(f"{given}")
    formula = "p(x) IMPLIES ONCE[0,6] EXISTS y. q(x, y)"
    names = ("a.sig", "a.mfotl", "log", "output")
    signature, path, log, output = (tmp_path / name for name in names)
    signature.write_text(SIGNATURE)
    path.write_text(formula)
    log.write_bytes(long_log(source, 5_000))
    arguments = ["--signature", str(signature), "--negate", "--output-format", "monpoly"]
    arguments += ["--on-error", "skip", "--summary", *given, "-o", str(output), str(path)]
    expected, _ = check_killed_runs(arguments, log, output, source, every="250", kills=2)
    assert expected.status == 1
    assert "skipped" in expected.errors


def test_a_checkpoint_is_of_one_kind_of_log(tmp_path: Path) -> None:
    signature, path, own, log, output, kept = (
        str(tmp_path / name) for name in ("a.sig", "a.mfotl", "own.mtl", "log", "output", "kept")
    )
    Path(signature).write_text("p(x: string)\n")
    Path(path).write_text("p(x)")
    Path(own).write_text("find q: p(x)\n")
    Path(log).write_text("@1 p(a)\n@2\n")
    given = ["--checkpoint", kept, "-o", output, log]
    of_monpoly = ["--signature", signature, path]
    assert mtlmon(*of_monpoly, *given).status == 0
    ended = mtlmon("--resume", own, *given)
    assert "it was made from a log of MonPoly" in ended.errors
    assert mtlmon(own, *given).status == 0
    ended = mtlmon("--resume", *of_monpoly, *given)
    assert "it was made from another kind of log" in ended.errors


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("q(a, b) AND (c = a / b)", "a / b cannot be computed with 1, 0"),
        ("q(a, b) AND (c = (a + 1) MOD (b * b))", "(a + 1) MOD (b * b) cannot be computed"),
        ("q(a, b) AND (c = f2i(i2f(a) / i2f(b)))", "f2i(i2f(a) / i2f(b)) cannot be computed"),
    ],
)
def test_errors_of_calculations_have_the_words_of_the_formula(
    formula: str, words: str, tmp_path: Path, command: Command
) -> None:
    """Neither the names by which variables are told apart, nor those of functions within."""
    ended = run_case(Case(formula, "@0 q(1,0)\n", "q(int,int)"), tmp_path, command)
    assert ended.status == 2
    assert words in ended.errors
