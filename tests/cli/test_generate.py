"""The manual page and the scripts with which shells complete the command."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.process import mtlmon
from tests.doors import SUBCOMMANDS, manual, options_of, subcommands
from tests.doors import cli_completion as completion

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = Path(__file__).parents[2] / "share"
MADE: dict[str, tuple[str, Callable[[], str]]] = {
    "man": ("man/man1/mtlmon.1", manual),
    "complete-bash": ("bash-completion/completions/mtlmon", completion.bash),
    "complete-zsh": ("zsh/site-functions/_mtlmon", completion.zsh),
    "complete-fish": ("fish/vendor_completions.d/mtlmon.fish", completion.fish),
}


@pytest.mark.parametrize("what", MADE)
def test_installed_file_is_up_to_date(what: str) -> None:
    name, make = MADE[what]
    kept = (SHARE / name).read_text(encoding="utf-8")
    assert kept == make(), f"write it anew: mtlmon --generate {what} > share/{name}"


@pytest.mark.parametrize("what", MADE)
def test_command_writes_it(what: str) -> None:
    assert mtlmon("--generate", what).output == MADE[what][1]()


def test_command_and_its_description_have_the_same_subcommands() -> None:
    assert ("", *SUBCOMMANDS) == tuple(one.name for one in subcommands())


def test_usage_of_the_command_names_every_subcommand() -> None:
    usage = subcommands()[0].parser.format_usage()
    assert [name for name in SUBCOMMANDS if f"mtlmon {name} [options]" not in usage] == []


def test_manual_has_every_option() -> None:
    text = manual().replace("\\-", "-")
    for one in subcommands():
        options = options_of(one.parser)
        assert options
        for option in options:
            for name in option.names:
                assert f"\\fB{name}\\fR" in text


def test_manual_has_no_line_that_roff_takes_for_a_request() -> None:
    requests = {line.split(" ")[0] for line in manual().splitlines() if line[:1] in ".'"}
    assert requests == {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["mtlmon", "re"], {"resolve", "report.mtl"}),
        (
            ["mtlmon", ""],
            {
                *("resolve", "latest", "check-policy", "streams", "query", "analyze", "serve"),
                *("a b.mtl", "report.mtl"),
            },
        ),
        (["mtlmon", "--mo"], {"--mode"}),
        (["mtlmon", "--mode", ""], {"local", "global", "naive"}),
        (["mtlmon", "--mode", "=", "gl"], {"global"}),
        (["mtlmon", "--mode", "="], {"local", "global", "naive"}),
        (["mtlmon", "-e", "r"], set[str]()),
        (["mtlmon", "--report", "r"], {"report.mtl"}),
        (["mtlmon", "report.mtl", ""], {"a b.mtl", "report.mtl"}),
        (["mtlmon", "resolve", "--re"], {"--reach"}),
        (["mtlmon", "report.mtl", "--reso"], {"--resolve", "--resolution"}),
        (["mtlmon", "analyze", "--format", ""], {"text", "json"}),
        (["mtlmon", "analyze", "resolve", "--r"], set[str]()),
    ],
)
def test_bash_completes(words: list[str], expected: set[str], tmp_path: Path) -> None:
    for name in ("a b.mtl", "report.mtl"):
        (tmp_path / name).touch()
    script = completion.bash() + (
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mtlmon; '
        '((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"; true'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *words],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    assert set(done.stdout.splitlines()) == expected


@pytest.mark.parametrize("make", [completion.zsh, completion.fish])
def test_script_names_every_option(make: Callable[[], str]) -> None:
    text = make()
    for one in subcommands():
        options = options_of(one.parser)
        assert options
        for option in options:
            for name in option.names:
                assert (
                    (name in text) or (f" -l {name[2:]} " in text) or (f" -s {name[1:]} " in text)
                )
