"""What `mtlmon.check` is given, and what it says of it in the words of Python."""

from __future__ import annotations

import ast
import gc
import os
import re
from pathlib import Path
from typing import Any

import pytest

import mtlmon
from tests.doors import CheckOptions, run_keywords

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

_check: Any = mtlmon.check

PLAIN = "policy a: p"
VARIABLES = "atom P(k) = p\npolicy a: NOT P(k)"
BOTH = f"{VARIABLES}\npolicy b: x < 4"
KINDS = [PLAIN, VARIABLES, BOTH]


def table() -> Any:
    values = {"ts": [1, 2, 9], "k": ["a", "b", "a"], "p": [True, False, True], "x": [3, 4, 5]}
    return pa.table(values)


# ---- logs that are read once -------------------------------------------------------------------


@pytest.mark.parametrize("policies", KINDS)
@pytest.mark.parametrize("asked", [{}, {"lateness": 3}])
def test_reasons_need_a_log_that_can_be_read_again(policies: str, asked: dict[str, Any]) -> None:
    run = mtlmon.check(policies, table().to_reader(), explain=True, **asked)
    with pytest.raises(mtlmon.RunError, match="a RecordBatchReader is read only once; give a tab"):
        run.finish()
    assert mtlmon.check(policies, table(), explain=True, **asked).finish().explanations


@pytest.mark.parametrize("policies", KINDS)
@pytest.mark.parametrize("asked", [{}, {"lateness": 3}])
def test_a_report_on_a_log_that_is_read_once(
    policies: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    run = mtlmon.check(policies, table().to_reader(), report=page, **asked)
    assert run.has_violation
    assert "<html" in page.read_text()


def test_what_was_decided_comes_before_an_error_of_the_source() -> None:
    def batches() -> Any:
        yield from table().to_batches(max_chunksize=2)[:1]
        raise ValueError("boom")

    run = mtlmon.check(PLAIN, pa.RecordBatchReader.from_batches(table().schema, batches()))
    assert [next(run).time for _ in range(2)] == [1, 2]
    with pytest.raises(mtlmon.TableError, match="boom"):
        next(run)
    with pytest.raises(mtlmon.RunError, match=r"the run has ended with an error: .*boom"):
        _ = run.has_violation


# ---- parts of a run ----------------------------------------------------------------------------


@pytest.mark.parametrize("policies", KINDS)
def test_a_run_that_is_read_in_parts(policies: str) -> None:
    whole = mtlmon.check(policies, table()).to_arrow()
    run = mtlmon.check(policies, table())
    first = dict(next(run))
    assert [first, *run.to_arrow().to_pylist()] == whole.to_pylist()
    run = mtlmon.check(policies, table())
    first = dict(next(run))
    rest = [row for batch in run.batches() for row in batch.to_pylist()]
    assert [first, *rest] == whole.to_pylist()
    assert list(run) == []
    assert run.to_arrow().num_rows == 0


def test_a_closed_run_does_not_say_that_nothing_is_violated() -> None:
    run = mtlmon.check(PLAIN, table())
    with run:
        next(run)
    for ask in ("has_violation", "summary"):
        with pytest.raises(mtlmon.RunError, match="the run was closed before its end"):
            getattr(run, ask)
    for call in (run.finish, run.to_arrow, run.to_pandas):
        with pytest.raises(mtlmon.RunError, match="the run was closed before its end"):
            call()
    assert repr(run) == "<Run, closed>"


def test_a_run_that_is_left_alone_closes_its_files(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("@1 p\n" * 200_000)
    gc.collect()
    before = os.listdir("/proc/self/fd")
    run = mtlmon.check("p", log)
    next(run)
    assert len(os.listdir("/proc/self/fd")) > len(before)
    del run
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_the_summary_is_that_of_the_run_and_not_of_its_reasons() -> None:
    run = mtlmon.check(PLAIN, table(), lateness=3, explain=True)
    assert "revisions" in run.summary


def test_policies_from_standard_input_leave_it_open(tmp_path: Path) -> None:
    policies = tmp_path / "rules.mtl"
    policies.write_text(PLAIN)
    kept = os.dup(0)
    try:
        with policies.open() as file:
            os.dup2(file.fileno(), 0)
        assert mtlmon.check(["-"], table()).has_violation
        os.fstat(0)
    finally:
        os.dup2(kept, 0)
        os.close(kept)


# ---- arguments that are wrong ------------------------------------------------------------------


@pytest.mark.parametrize(
    "policies", [3, None, b"p", [3], {"p"}, [mtlmon.parse("p")]], ids=lambda one: repr(one)[:20]
)
def test_policies_of_other_types(policies: Any) -> None:
    with pytest.raises(TypeError, match="policies are a text, a Formula, a PolicyFile, the path"):
        _check(policies, table())


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"set": 3}, "a dictionary of constants by their names, not 3"),
        ({"set": {3: 3}}, "a dictionary of constants by their names"),
        ({"key": 3}, "a text or a list of texts, not 3"),
        ({"key": [3]}, r"a text or a list of texts, not \[3\]"),
        ({"null_values": 3}, "a text or a list of texts, not 3"),
        ({"output": b"x"}, "a path, not b'x'"),
        ({"lateness": 1.5}, "a number or a text, not 1.5"),
    ],
)
def test_options_of_other_types(given: dict[str, Any], wanted: str) -> None:
    (word,) = given
    with pytest.raises(TypeError, match=rf"check\({word}=...\) takes {wanted}"):
        _check("p", table(), **given)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    same = tmp_path / "rules.mtl"
    same.write_text(PLAIN)
    for policies, log, message in (
        ([], table(), "no policies: name a file"),
        ([same, same], table(), "given twice"),
        (Path("rules\0"), table(), "cannot read .*null byte"),
        (VARIABLES, "log\0", "cannot read .*null byte|read as text"),
        (["p AND q"], table(), "a formula itself is given as a text, not in a list"),
        ("\ud800", table(), "the formula is not UTF-8"),
        (PLAIN, [], "no log: name one, or give a table"),
        (PLAIN, b"log", "a table is the name of a file or has __arrow_c_stream__.*not bytes"),
    ):
        with pytest.raises(mtlmon.MtlmonError, match=message):
            _check(policies, log).finish()


def test_a_length_that_needs_a_unit_names_its_option() -> None:
    with pytest.raises(
        mtlmon.MtlmonError, match=r"lateness='3s' needs the unit .*: add time_unit='s'"
    ):
        mtlmon.check(PLAIN, table(), lateness="3s").finish()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"ts": 1, "p": true}', "this looks like JSON: add format='jsonl'$"),
        ("ts,p,q", ": add format='csv'$"),
        ("@3 p\n@1 p", "below the one before it, 3 .*: add sort=True .*, or lateness='5s'"),
        ("Jan 12 06:30:00 host sshd[1]: Accepted", "read its lines with pattern='syslog'$"),
    ],
)
def test_lines_that_cannot_be_read(text: str, message: str, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(f"{text}\n")
    with pytest.raises(mtlmon.LogError, match=message):
        mtlmon.check("p", log).finish()


def test_numbers_of_other_libraries() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    assert mtlmon.check(PLAIN, table(), lateness=numpy.int64(3)).has_violation


# ---- messages ----------------------------------------------------------------------------------


def messages() -> list[str]:
    """The texts of the modules of runs that name options."""
    found = []
    for path in sorted(Path(run_keywords.__file__).parent.glob("*.py")):
        if path.name == "keywords.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(one.value) if isinstance(one, ast.Constant) else "3s" for one in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if "\n" not in text and re.search(r"(?<!\w)--?[a-z]", text):
                found.append(text)
    return found


def test_no_message_speaks_of_the_command() -> None:
    found = messages()
    assert len(found) > 90
    for text in found:
        shown = run_keywords.in_python(text)
        assert not re.search(r"(?<!\w)--?[a-z]|mtlmon |\bFILE\b", shown), shown
        for word in CheckOptions.__annotations__:
            # a value is joined to its option, and quoted
            pair = rf"\b{word}=(?!'[^']*'|\d+\b(?!\w)|True\b|PATH\b|N\b|COLUMN\b)"
            assert not re.search(pair, shown), shown


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("add its format, for instance --format csv", "add its format, for instance format='csv'"),
        ("leave --clock out", "leave clock out"),
        ("as in --lateness 5m", "as in lateness='5m'"),
        ("--pattern reads lines: leave out --format", "pattern reads lines: leave out format"),
        ("with --pattern, as in --pattern syslog", "with pattern, as in pattern='syslog'"),
        ("--wait 5 is longer than --lateness 3s:", "wait=5 is longer than lateness='3s':"),
        ("add --slices N, or leave it out", "add slices=N, or leave it out"),
        ("use --rows to find rows", "use rows=True to find rows"),
        ("does not work with --sort: that", "does not work with sort: that"),
        ("add --checkpoint FILE", "add checkpoint=PATH"),
        ("add -o FILE", "add output=PATH"),
        ("add --event COLUMN (see mtlmon --help)", "add event=COLUMN"),
        ("--on-error skip only counts them", "on_error='skip' only counts them"),
        ("cannot read my--sort.csv", "cannot read my--sort.csv"),
        ("cannot read --elsewhere", "cannot read --elsewhere"),
    ],
)
def test_options_in_messages(message: str, wanted: str) -> None:
    assert run_keywords.in_python(message) == wanted
