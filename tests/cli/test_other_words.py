"""First words and options of other tools, and misspelt ones: each error says what to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.errors import LogError
from mtlmon.testing import check
from tests.cli.process import Ended
from tests.doors import problem_of

FIRST_WORDS = {
    "check": "no word is needed: mtlmon POLICY LOG",
    "explain": "mtlmon --explain POLICY LOG",
    "report": "mtlmon --report report.html POLICY LOG",
    "validate": "did you mean 'mtlmon check-policy'?",
    "check_policy": "did you mean 'mtlmon check-policy'?",
    "chek-policy": "did you mean 'mtlmon check-policy'?",
    "tail": "mtlmon --follow LOG POLICY",
    "help": "did you mean 'mtlmon --help'?",
}
OPTIONS = {
    "-formula": "mtlmon FILE LOG",
    "-sig": "(did you mean --signature?)",
    "-log": "the log is named behind the policy",
    "-negate": "(did you mean --negate?)",
    "-no_rw": "leave it out",
    "--pastify": "leave it out",
    "--robustness": "there is no robustness",
    "--csv-in": "the log is named behind the policy",
    "--csv-time-column": "(did you mean --time?)",
    "--group-by": "(did you mean --key?)",
    "--watermark": "(did you mean --wait?)",
    "--latenes": "(did you mean --lateness?)",
    "--time_zone": "(did you mean --time-zone?)",
    "--nonsense": "unrecognized arguments: --nonsense (see",
}


@pytest.mark.parametrize("word", FIRST_WORDS)
def test_first_words(word: str, command: Callable[..., Ended], tmp_path: Path) -> None:
    ended = command(word, tmp_path / "x.log")
    assert ended.status == 2
    assert ended.errors == f"mtlmon: cannot read {word}: no such file; {FIRST_WORDS[word]}\n" or (
        FIRST_WORDS[word] in ended.errors
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_options(option: str, command: Callable[..., Ended]) -> None:
    ended = command(option, "-e", "p")
    assert ended.status == 2
    assert OPTIONS[option] in ended.errors


def test_rows_that_step_back(command: Callable[..., Ended], tmp_path: Path) -> None:
    """Each subcommand recommends the options that it has."""
    (tmp_path / "x.csv").write_text("ts,p\n5,true\n3,true\n", encoding="utf-8")
    (tmp_path / "x.log").write_text("@5 p\n@3 p\n", encoding="utf-8")
    (tmp_path / "x.mtl").write_text("stream n = count[0,5](p)\n", encoding="utf-8")
    for name in "x.csv", "x.log":
        ended = command("-e", "p", tmp_path / name)
        assert ended.status == 2
        for option in "--sort", "--wait 5s", "--lateness 5s":
            assert option in ended.errors
        ended = command("streams", tmp_path / "x.mtl", tmp_path / name)
        assert ended.status == 2 and "--sort" in ended.errors and "--wait 5s" in ended.errors
        assert "--lateness" not in ended.errors


def test_lines_that_step_back_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("@5 p\n@3 p\n", encoding="utf-8")
    with pytest.raises(LogError) as caught:
        check("p", path)
    message = problem_of(caught.value).message
    assert "--sort" in message
    assert "--wait" not in message and "--lateness" not in message


def test_files_of_rtlola(command: Callable[..., Ended], tmp_path: Path) -> None:
    path = tmp_path / "x.lola"
    path.write_text('input x: Int64\noutput y := x + 1\ntrigger y > 3 "many"\n', encoding="utf-8")
    ended = command(path, tmp_path / "x.csv")
    assert ended.status == 2
    assert "x.lola:1:7: " in ended.errors
    assert "inputs are the columns of a log" in ended.errors
    assert "stream NAME = EXPRESSION for output" in ended.errors
