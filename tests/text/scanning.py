"""A reader of text logs written for obviousness: one line at a time, one character at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Event = tuple[int, int]

QUOTED = r'"(?:[^"\\\n]|\\["\\])+"'
PLAIN = r'[^\x00-\x20\x7f()",]+'
NAME = rf"(?:{QUOTED}|{PLAIN})"
ITEM = re.compile(rf"(?:{NAME}|\({NAME}\)|{NAME}\(\))(?=[ \t]|\Z)")
STAMP = re.compile(r"@([0-9]+)(?=[ \t]|\Z)")


def read_log(
    data: bytes, atoms: Sequence[str], *, skip_errors: bool = False
) -> tuple[list[Event], list[int]]:
    """The events before the first bad line and the numbers of the bad lines met.

    Without `skip_errors` reading ends at the first bad line.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    events: list[Event] = []
    bad: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.removesuffix("\r").lstrip(" \t")
        if content == "" or content.startswith("#"):
            continue
        event = read_line(content, atoms)
        if event is None or (events and event[0] < events[-1][0]):
            bad.append(number)
            if not skip_errors:
                break
        else:
            events.append(event)
    return events, bad


def read_line(line: str, atoms: Sequence[str]) -> Event | None:
    """The event of a line without leading blanks, None if it cannot be read."""
    stamp = STAMP.match(line)
    if stamp is None or int(stamp[1]) >= 1 << 63:
        return None
    names = set()
    place = stamp.end()
    while (place := skip_blanks(line, place)) < len(line):
        item = ITEM.match(line, place)
        if item is None:
            return None
        names.add(name_of(item[0]))
        place = item.end()
    return int(stamp[1]), letter_of(names, atoms)


def skip_blanks(line: str, place: int) -> int:
    while place < len(line) and line[place] in " \t":
        place += 1
    return place


def name_of(item: str) -> str:
    item = item.removesuffix("()")
    if item.startswith("("):
        item = item[1:-1]
    if item.startswith('"'):
        item = re.sub(r"\\(.)", r"\1", item[1:-1])
    return item


def letter_of(names: Iterable[str], atoms: Sequence[str]) -> int:
    present = set(names)
    return sum(1 << index for index, atom in enumerate(atoms) if atom in present)
