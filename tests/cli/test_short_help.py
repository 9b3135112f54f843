"""What `-h` shows, on one screen."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli.process import mtlmon
from tests.doors import SHORT_HELP, SUBCOMMANDS, options_of, subcommands

PARSERS = {one.parser.prog: one.parser for one in subcommands()}
ALL_OPTIONS = {
    name for parser in PARSERS.values() for option in options_of(parser) for name in option.names
}


@pytest.mark.parametrize("name", SHORT_HELP)
def test_h_is_a_screen_and_help_is_all(name: str) -> None:
    command = name.split()[1:]
    short, whole = mtlmon(*command, "-h"), mtlmon(*command, "--help")
    assert (short.status, short.errors) == (whole.status, whole.errors) == (0, "")
    assert short.output.startswith(f"usage: {name} [options] ")
    lines = short.output.splitlines()
    assert len(lines) <= 30 < len(whole.output.splitlines())
    assert max(map(len, lines)) <= 80
    assert f"{name} --help" in lines[-1]
    for option in options_of(PARSERS[name]):
        assert all(word in whole.output for word in option.names)


def test_every_command_has_one() -> None:
    assert list(SHORT_HELP) == list(PARSERS)
    (commands,) = re.findall(r"^commands:\n(.*)", SHORT_HELP["mtlmon"], re.MULTILINE)
    assert set(commands.strip().split(", ")) == set(SUBCOMMANDS)


@pytest.mark.parametrize("name", SHORT_HELP)
def test_its_options_exist(name: str) -> None:
    text = re.sub(r"'[^']*'", "", SHORT_HELP[name])
    before_examples = text.partition("\nexamples:")[0]
    assert set(re.findall(r"(?<![\w-])--?[a-zC][a-z-]*", before_examples)) <= ALL_OPTIONS
    options = {word: one for one in options_of(PARSERS[name]) for word in one.names}
    listed = re.findall(r"^  (-.+?)(?:  +|$)", text, re.MULTILINE)
    assert len(listed) >= 3
    for written in re.split(r", (?=-)", ", ".join(listed)):
        word, _, value = written.partition(" ")
        option = options[word]
        assert bool(value) == (option.value is not None), word
        if value.startswith("{"):
            assert set(value[1:-1].split(",")) <= set(option.choices), word
        elif value.islower() and option.choices:
            assert value in option.choices


@pytest.mark.parametrize("name", SHORT_HELP)
def test_its_examples_can_be_parsed(name: str) -> None:
    examples = SHORT_HELP[name].partition("examples:\n")[2].partition("\n\n")[0].splitlines()
    assert 2 <= len(examples) <= 4
    for example in examples:
        for command in re.split(r" \| | > ", example):
            words = shlex.split(command)
            if words[0] != "mtlmon":
                continue
            prog = " ".join(words[:2]) if words[1] in SUBCOMMANDS else "mtlmon"
            rest = words[len(prog.split()) :]
            assert PARSERS[prog].parse_known_intermixed_args(rest)[1] == []
