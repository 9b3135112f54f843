"""Many mutants of a compiled unit in one text of each of its parts; a number chooses one of them.

Compiling a unit takes longer than the tests that notice most mutants, so it is compiled once for
many. The number is read from the environment when the module is imported; without it, nothing is
changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.native import Token, column_of, lines_with_roles

VARIABLE = "MTLMON_MUTANT"
_NUMBER = "chosen_mutant"
_PRELUDE = f"""
from libc.stdlib cimport atoi as mutant_number_of, getenv as mutant_setting
cdef int {_NUMBER} = 0
if mutant_setting("{VARIABLE}") != NULL:
    {_NUMBER} = mutant_number_of(mutant_setting("{VARIABLE}"))

"""
_CONDITIONAL = ("if", "elif", "while")
# What cannot stand in a branch of its own.
_OTHERS = ("else", "for", "try", "with", "except", "finally", "def", "cdef", "class", "@", "assert")
_BEFORE_CODE = ("from", "import", "cimport")
# how Cython says where something is wrong
_ERROR = re.compile(r"^(\S+\.py?xi?):(\d+):\d+: ", re.MULTILINE)
_CHOICE = re.compile(rf"{_NUMBER} == (\d+)")

_Line = list[Token]


def switched(
    originals: Mapping[Path, str], unit: Path, mutants: Sequence[Mutant]
) -> tuple[dict[Path, str], list[Mutant]]:
    """The texts, and those mutants that are in them; the first of them has the number 1.

    Changes of declarations and of what is known while compiling are left out.

    Args:
        originals: the texts of all sources that have mutants, and of the unit.
        unit: the source that is compiled, which includes the others.
        mutants: of any of the sources.
    """
    by_source: dict[Path, list[Mutant]] = {unit: []}
    for mutant in mutants:
        by_source.setdefault(mutant.source, []).append(mutant)
    texts: dict[Path, str] = {}
    taken: list[Mutant] = []
    for source, some in by_source.items():
        texts[source], own = _switched(originals[source], some, len(taken))
        taken += own
    start = _first_code(texts[unit])
    texts[unit] = texts[unit][:start] + _PRELUDE + texts[unit][start:]
    return texts, taken


def blamed(messages: str, texts: Mapping[Path, str]) -> set[int]:
    """The numbers of mutants that are where a compiler's messages say that something is wrong."""
    found: set[int] = set()
    for name, line in _ERROR.findall(messages):
        lines = texts.get(Path(name), "").splitlines()
        # a mutant stands below what chooses it, or in the same line
        near = lines[max(0, int(line) - 2) : int(line)]
        found |= {int(number) for one in near for number in _CHOICE.findall(one)}
    return found


def _switched(original: str, mutants: Sequence[Mutant], before: int) -> tuple[str, list[Mutant]]:
    """A text, and those mutants that are in it; the first has the number behind `before`."""
    lines = [line for line, role in lines_with_roles(original) if role == "code"]
    taken: list[Mutant] = []
    variants: dict[int, list[tuple[int, str]]] = {}
    for mutant in mutants:
        start, end, new = _change(original, mutant.text)
        place = _place(lines, start, end)
        if place is None:
            continue
        first, last = lines[place][0].start, lines[place][-1].end
        changed = original[first:start] + new + original[end:last]
        if _written(original, lines[place], [(0, changed)]) is not None:
            taken.append(mutant)
            variants.setdefault(place, []).append((before + len(taken), changed))
    text = original
    for place in sorted(variants, reverse=True):
        written = _written(original, lines[place], variants[place])
        assert written is not None
        text = text[: lines[place][0].start] + written + text[lines[place][-1].end :]
    return text, taken


def _change(old: str, new: str) -> tuple[int, int, str]:
    """Where the texts differ: from and to in the old one, and what stands there in the new one."""
    most = min(len(old), len(new))
    start = next((k for k in range(most) if old[k] != new[k]), most)
    most -= start
    same = next((k for k in range(most) if old[-1 - k] != new[-1 - k]), most)
    return start, len(old) - same, new[start : len(new) - same]


def _place(lines: Sequence[_Line], start: int, end: int) -> int | None:
    """Which line has all of a change."""
    for place, line in enumerate(lines):
        if line[0].start <= start and end <= line[-1].end:
            return place
    return None


def _written(source: str, line: _Line, variants: Sequence[tuple[int, str]]) -> str | None:
    """A line with its variants, each with its number; None if it cannot have them."""
    own = source[line[0].start : line[-1].end]
    word = line[0].text
    if word in _CONDITIONAL and line[-1].text == ":":
        if any(not one.startswith(word) or one[-1] != ":" for _, one in variants):
            return None
        conditions = [(number, f"not not ({one[len(word) : -1]})") for number, one in variants]
        return f"{word} {_chosen(conditions, f'not not ({own[len(word) : -1]})')}:"
    if word == "cdef":
        return _declared(line, own, variants)
    if word in (*_CONDITIONAL, *_OTHERS) or line[-1].text == ":":
        return None
    space = " " * column_of(source, line)
    branches = "".join(
        f"{'el' if place else ''}if {_NUMBER} == {number}:\n{space}    {one}\n{space}"
        for place, (number, one) in enumerate(variants)
    )
    return f"{branches}else:\n{space}    {own}"


def _declared(line: _Line, own: str, variants: Sequence[tuple[int, str]]) -> str | None:
    """A declaration of one variable with a value, which is one of several."""
    depth, equal = 0, 0
    for token in line:
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.text == "=" and not equal:
            equal = token.end - line[0].start
        elif depth == 0 and token.text == ",":
            return None
    if not equal or any(one[:equal] != own[:equal] for _, one in variants):
        return None
    values = [(number, f"({one[equal:]})") for number, one in variants]
    return f"{own[:equal]} {_chosen(values, f'({own[equal:]})')}"


def _chosen(variants: Sequence[tuple[int, str]], original: str) -> str:
    before = "".join(f"({one}) if {_NUMBER} == {number} else " for number, one in variants)
    return f"({before}({original}))"


def _first_code(source: str) -> int:
    """Where the first line begins that is no text and no import."""
    for line, _ in lines_with_roles(source, every=True):
        is_text = len(line) == 1 and line[0].kind == "string"
        if not is_text and line[0].text not in _BEFORE_CODE:
            return source.rfind("\n", 0, line[0].start) + 1
    return len(source)
