"""Scripts with which shells complete the command: bash, zsh and fish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.cli.command_line import Option, options_of, subcommands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["bash", "fish", "zsh"]


def bash() -> str:
    """The script for bash: `eval "$(mtlmon --generate complete-bash)"`."""
    return _BASH.format(
        subcommands=" ".join(one.name for one in subcommands() if one.name),
        options="\n".join(
            f"        {one.name or '*'}) options='{_all_names(options_of(one.parser))}' ;;"
            for one in sorted(subcommands(), key=lambda one: not one.name)
        ),
        values="\n".join(
            f"        {_bash_pattern(one.name, option)}) {_bash_value(option)} ;;"
            for one in subcommands()
            for option in options_of(one.parser)
            if option.value is not None
        ),
    )


_BASH = """\
# bash completion of mtlmon, written by: mtlmon --generate complete-bash
_mtlmon_files() {{
    local IFS=$'\\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen -f -- "$1"))
}}

_mtlmon() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    local subcommand='' options word
    COMPREPLY=()
    # bash has `=` as a word of its own
    if [[ $current == = ]]; then
        current=''
    elif [[ $previous == = ]] && ((COMP_CWORD > 1)); then
        previous=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    for word in {subcommands}; do
        if ((COMP_CWORD > 1)) && [[ ${{COMP_WORDS[1]}} == "$word" ]]; then subcommand=$word; fi
    done
    case "$subcommand $previous" in
{values}
    esac
    case $subcommand in
{options}
    esac
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
        return
    fi
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W '{subcommands}' -- "$current"))
    fi
    _mtlmon_files "$current"
}}
complete -F _mtlmon mtlmon
"""


def _bash_pattern(subcommand: str, option: Option) -> str:
    return " | ".join(f"'{subcommand} {name}'" for name in option.names)


def _bash_value(option: Option) -> str:
    if option.choices:
        return f"""COMPREPLY=($(compgen -W '{" ".join(option.choices)}' -- "$current")); return"""
    return """_mtlmon_files "$current"; return""" if option.is_file else "return"


def _all_names(options: Iterable[Option]) -> str:
    return " ".join(name for option in options for name in option.names)


def zsh() -> str:
    """The script for zsh, a file `_mtlmon` in a directory of `$fpath`."""
    described = " ".join(
        f"{one.name}\\:{_zsh_escaped(_short(one.summary), ' :()').replace(chr(39), '')}"
        for one in subcommands()
        if one.name
    )
    cases = "\n".join(
        f"        {one.name or '*'})\n            specs=(\n"
        + "".join(f"                {spec}\n" for spec in _zsh_specs(options_of(one.parser)))
        + "            )\n            ;;"
        for one in sorted(subcommands(), key=lambda one: not one.name)
    )
    names = "|".join(one.name for one in subcommands() if one.name)
    return _ZSH.format(described=described, cases=cases, subcommands=names)


_ZSH = """\
#compdef mtlmon
# zsh completion of mtlmon, written by: mtlmon --generate complete-zsh

_mtlmon_first() {{
    _alternative 'subcommands:subcommand:(({described}))' 'files:policy:_files'
}}

_mtlmon() {{
    local -a specs
    local subcommand=''
    if ((CURRENT > 2)); then subcommand=$words[2]; fi
    case $subcommand in
{cases}
    esac
    case $subcommand in
        {subcommands})
            shift words
            ((CURRENT--))
            _arguments -s -S $specs '*:file:_files'
            ;;
        *)
            _arguments -s -S $specs '1:policy:_mtlmon_first' '*:log:_files'
            ;;
    esac
}}

if [[ $funcstack[1] == _mtlmon ]]; then
    _mtlmon "$@"
else
    compdef _mtlmon mtlmon
fi
"""


def _zsh_specs(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        value = ""
        if option.value is not None:
            action = "_files" if option.is_file else " "
            if option.choices:
                action = f"({' '.join(option.choices)})"
            value = f":{_zsh_escaped(option.value, ':')}:{action}"
        text = f"[{_zsh_escaped(_short(option.text), '[]')}]"
        others = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
        for name in option.names:
            prefix = "*" if option.is_repeated else others
            yield _quoted(f"{prefix}{name}{text}{value}")


def _zsh_escaped(text: str, special: str) -> str:
    for character in "\\" + special:
        text = text.replace(character, "\\" + character)
    return text


def fish() -> str:
    """The script for fish: `mtlmon --generate complete-fish | source`."""
    lines = ["# fish completion of mtlmon, written by: mtlmon --generate complete-fish"]
    names = " ".join(one.name for one in subcommands() if one.name)
    first = "test (count (commandline -opc)) -eq 1"
    for one in subcommands():
        condition = f"not __fish_seen_subcommand_from {names}"
        if one.name:
            condition = f"__fish_seen_subcommand_from {one.name}"
            lines.append(
                f"complete -c mtlmon -n {_quoted(first)} -a {one.name} "
                f"-d {_quoted(_short(one.summary))}"
            )
        for option in options_of(one.parser):
            words = ["complete -c mtlmon -n", _quoted(condition)]
            for name in option.names:
                words.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
            if option.choices:
                words += ["-x -a", _quoted(" ".join(option.choices))]
            elif option.is_file:
                words.append("-r -F")
            elif option.value is not None:
                words.append("-x")
            words += ["-d", _quoted(_short(option.text))]
            lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def _short(text: str) -> str:
    """The first part of a text."""
    return text.partition(";")[0].partition(" (")[0]


def _quoted(text: str) -> str:
    """A word of a shell; fish, too, takes it, as there are no backslashes before quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
