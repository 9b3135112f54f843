"""Many mutants in one text of each source: a number chooses one, and those reached are known.

To compile a unit, to start Python and to collect tests take longer than the tests that notice most
mutants, so all of that is done once for many. Where a text has mutants, it asks `is_mutant` for
each of them: that notes that the place was reached, and is true for the one that was chosen. With
number 0, nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.native import Token, column_of, lines_with_roles

STATE = "mtlmon_mutants"
# which mutant, and a file with a byte for each that has been reached; processes inherit both
CHOSEN = "MTLMON_MUTANT"
REACHED = "MTLMON_REACHED"
_ASKED = "is_mutant"

_NATIVE_PRELUDE = f"""
cdef object mutant_state = __import__("{STATE}")
cdef int* chosen_mutant = <int*><size_t>mutant_state.chosen_address
cdef unsigned char* reached_mutants = <unsigned char*><size_t>mutant_state.reached_address
cdef inline bint {_ASKED}(int number) noexcept nogil:
    reached_mutants[number] = 1
    return chosen_mutant[0] == number

"""
_PRELUDE = f"from {STATE} import {_ASKED}\n\n"
_CONDITIONAL = ("if", "elif", "while")
# What cannot stand in a branch of its own.
_OTHERS = ("else", "try", "with", "except", "finally", "def", "cdef", "class", "@", "async")
_OTHERS_OF_NATIVE = ("for", "assert")
_BEFORE_CODE = ("from", "import", "cimport")
# how Cython says where something is wrong
_ERROR = re.compile(r"^(\S+\.py?xi?):(\d+):\d+: ", re.MULTILINE)
_CHOICE = re.compile(rf"{_ASKED}\((\d+)\)")

_Line = list[Token]


def state_of(count: int) -> str:
    """The text of the module `STATE`, for mutants with numbers up to `count`."""
    return f"""\
import ctypes
import mmap
import os

if file := os.environ.get("{REACHED}"):
    with open(file, "r+b") as opened:
        reached = mmap.mmap(opened.fileno(), 0)
else:
    reached = mmap.mmap(-1, {count} + 1)
first_reached = ctypes.c_char.from_buffer(reached)
reached_address = ctypes.addressof(first_reached)
chosen = ctypes.c_int(int(os.environ.get("{CHOSEN}", "0")))
chosen_address = ctypes.addressof(chosen)


def {_ASKED}(number):
    reached[number] = 1
    return number == chosen.value
"""


def has_choice(original: str, mutant: Mutant) -> bool:
    """Whether a mutant can be chosen while a program runs: not if it changes what is declared."""
    return bool(_switched(original, {1: mutant})[1])


def is_in_function(original: str, mutant: Mutant) -> bool:
    """Whether a change has its effect when something is called, not when its module is imported."""
    start, end, _ = _change(original, mutant.text)
    return any(
        role == "code" and line[0].start <= start and end <= line[-1].end
        for line, role in lines_with_roles(original)
    )


def switched(
    originals: Mapping[Path, str], unit: Path, mutants: Mapping[int, Mutant]
) -> dict[Path, str]:
    """The texts with mutants by their numbers; each must have a choice.

    Args:
        originals: the texts of all sources that have mutants, and of the unit.
        unit: the source that is compiled, which may include the others.
        mutants: of any of the sources.
    """
    by_source: dict[Path, dict[int, Mutant]] = {unit: {}}
    for number, mutant in mutants.items():
        by_source.setdefault(mutant.source, {})[number] = mutant
    texts = {source: _switched(originals[source], some)[0] for source, some in by_source.items()}
    start = _first_code(texts[unit])
    prelude = _PRELUDE if unit.suffix == ".py" else _NATIVE_PRELUDE
    texts[unit] = texts[unit][:start] + prelude + texts[unit][start:]
    return texts


def blamed(messages: str, texts: Mapping[Path, str]) -> set[int]:
    """The numbers of mutants that are where a compiler's messages say that something is wrong."""
    found: set[int] = set()
    for name, line in _ERROR.findall(messages):
        lines = texts.get(Path(name), "").splitlines()
        # a mutant stands below what chooses it, or in the same line
        near = lines[max(0, int(line) - 2) : int(line)]
        found |= {int(number) for one in near for number in _CHOICE.findall(one)}
    return found


def _switched(original: str, mutants: Mapping[int, Mutant]) -> tuple[str, set[int]]:
    """A text, and the numbers of those mutants that are in it."""
    taken: set[int] = set()
    variants: dict[int, list[tuple[int, str]]] = {}
    lines: list[_Line] = []
    for number, mutant in mutants.items():
        is_python = mutant.source.suffix == ".py"
        lines = lines or [
            line
            for line, role in lines_with_roles(original, every=is_python)
            if is_python or role == "code"
        ]
        start, end, new = _change(original, mutant.text)
        place = _place(lines, start, end)
        if place is None:
            continue
        first, last = lines[place][0].start, lines[place][-1].end
        changed = original[first:start] + new + original[end:last]
        if _written(original, lines[place], [(0, changed)], is_python=is_python) is not None:
            taken.add(number)
            variants.setdefault(place, []).append((number, changed))
    text = original
    for place in sorted(variants, reverse=True):
        written = _written(original, lines[place], variants[place], is_python=is_python)
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


def _written(
    source: str, line: _Line, variants: Sequence[tuple[int, str]], *, is_python: bool
) -> str | None:
    """A line with its variants, each with its number; None if it cannot have them."""
    own = source[line[0].start : line[-1].end]
    word = line[0].text
    if line[-1].text == ":" and (word in _CONDITIONAL or (word == "for" and is_python)):
        start = len(word) if word != "for" else _behind(line, "in")
        if any(one[:start] != own[:start] or one[-1] != ":" for _, one in variants):
            return None
        if word == "for":
            values = [(number, f"({one[start:-1]})") for number, one in variants]
            return f"{own[:start]} {_chosen(values, f'({own[start:-1]})')}:"
        conditions = [(number, f"not not ({one[start:-1]})") for number, one in variants]
        return f"{word} {_chosen(conditions, f'not not ({own[start:-1]})')}:"
    if word == "cdef":
        return _declared(line, own, variants)
    others = (*_CONDITIONAL, *_OTHERS, *(() if is_python else _OTHERS_OF_NATIVE))
    if word in others or line[-1].text == ":":
        return None
    space = " " * column_of(source, line)
    branches = "".join(
        f"{'el' if place else ''}if {_ASKED}({number}):\n{space}    {one}\n{space}"
        for place, (number, one) in enumerate(variants)
    )
    return f"{branches}else:\n{space}    {own}"


def _declared(line: _Line, own: str, variants: Sequence[tuple[int, str]]) -> str | None:
    """A declaration of one variable with a value, which is one of several."""
    equal = _behind(line, "=")
    if not equal or _behind(line, ",") or any(one[:equal] != own[:equal] for _, one in variants):
        return None
    values = [(number, f"({one[equal:]})") for number, one in variants]
    return f"{own[:equal]} {_chosen(values, f'({own[equal:]})')}"


def _behind(line: _Line, text: str) -> int:
    """Where a line goes on behind the first such token that is in no bracket, 0 if it has none."""
    depth = 0
    for token in line:
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.text == text:
            return token.end - line[0].start
    return 0


def _chosen(variants: Sequence[tuple[int, str]], original: str) -> str:
    before = "".join(f"({one}) if {_ASKED}({number}) else " for number, one in variants)
    return f"({before}({original}))"


def _first_code(source: str) -> int:
    """Where the first line begins that is no text and no import."""
    for line, _ in lines_with_roles(source, every=True):
        is_text = len(line) == 1 and line[0].kind == "string"
        if not is_text and line[0].text not in _BEFORE_CODE:
            return source.rfind("\n", 0, line[0].start) + 1
    return len(source)
