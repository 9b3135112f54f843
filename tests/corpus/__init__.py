"""The corpus: named cases in data files, each with a reason to exist.

A file holds an array of tables `[[case]]` with these keys:

name        unique in the corpus
rationale   why the verdicts are what they are, and what would go wrong otherwise
formula     in any spelling that the parser reads
trace       one string for each step: `@TS atom atom ...` is an event, `advance TS` is time passing
end         optional: a time-stamp, "last" or "inf"; no end time when missing
verdicts    one string for each step with the lines it earns, separated by ", "; if `end` is given,
            one more for the lines that the end of the log earns
naive, local, global
            the same for one mode, where it differs from `verdicts`
may         optional: the equivalences of `local` mode that an engine need not find, because they
            do not follow from equal Boolean functions of what lies beyond the time-stamp. One of
            their time-points may be merged earlier or later instead, or get its Boolean value, when
            that is known

`check_output` and `check_lines` compare what a run wrote with what a case expects.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.properties import Ledger, Output, check_same_values
from tests.traces import MODES, EndTime, Mode, TimePoint, Trace, parse_step
from tests.verdicts import parse_verdict

DIRECTORY = Path(__file__).parent
_KEYS = {"name", "rationale", "formula", "trace", "end", "verdicts", *MODES, "may"}


class Case(NamedTuple):
    """One case.

    Attributes:
        expected: for each mode, what a run's output must be.
        may: the time-points that `local` mode need not merge as it is expected.
    """

    name: str
    rationale: str
    formula: str
    trace: Trace
    end_time: EndTime
    expected: dict[Mode, Output]
    may: frozenset[TimePoint]


def check_output(case: Case, mode: Mode, output: Output) -> None:
    """Checks what a run wrote, moment by moment.

    Raises:
        AssertionError: it is not what the case expects.
    """
    expected = case.expected[mode]
    free = _free(case, mode)
    assert tuple(_without(free, lines) for lines in output) == tuple(
        _without(free, lines) for lines in expected
    )
    if free:
        for lines in output:
            points = [parse_verdict(line).point for line in lines]
            assert points == sorted(points), f"{lines}: not in time-point order"
        check_same_values(output, expected)
        _check_classes(case, mode, [line for lines in output for line in lines])


def check_lines(case: Case, mode: Mode, lines: Sequence[str], *, ordered: bool = True) -> None:
    """Checks what a run wrote, where it is not known which moment a line belongs to.

    Args:
        case: the case that was run.
        mode: the mode it was run in.
        lines: all lines.
        ordered: whether their order counts.

    Raises:
        AssertionError: they are not what the case expects.
    """
    expected = [line for rows in case.expected[mode] for line in rows]
    free = _free(case, mode)
    others, expected_others = _without(free, lines), _without(free, expected)
    if not ordered:
        others, expected_others = tuple(sorted(others)), tuple(sorted(expected_others))
    assert others == expected_others
    _check_classes(case, mode, lines)


def _free(case: Case, mode: Mode) -> frozenset[TimePoint]:
    return case.may if mode == "local" else frozenset()


def _without(free: frozenset[TimePoint], lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if parse_verdict(line).point not in free)


def _check_classes(case: Case, mode: Mode, lines: Iterable[str]) -> None:
    """In the end, values are those expected, and only what is of one class was merged."""
    found, expected = Ledger(), Ledger()
    found.write(lines)
    expected.write(line for rows in case.expected[mode] for line in rows)
    assert found.values() == expected.values()
    for verdict in found.verdicts.values():
        if verdict.reference is not None:
            roots = expected.root(verdict.point), expected.root(verdict.reference)
            assert roots[0] == roots[1], f"{verdict}: expected to differ"


def load_cases(directory: Path = DIRECTORY) -> list[Case]:
    """All cases of all files of a directory.

    Raises:
        ValueError: an entry is malformed or a name is not unique.
    """
    cases = [case for path in sorted(directory.glob("*.toml")) for case in _load_file(path)]
    names = [case.name for case in cases]
    if len(set(names)) != len(names):
        raise ValueError(f"names used twice: {sorted({n for n in names if names.count(n) > 1})}")
    return cases


def _load_file(path: Path) -> Iterator[Case]:
    with path.open("rb") as file:
        entries = tomllib.load(file)["case"]
    for entry in entries:
        try:
            yield _read_entry(entry)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path.name}: {entry.get('name')}: {error!r}") from error


def _read_entry(entry: dict[str, Any]) -> Case:
    unknown = set(entry) - _KEYS
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    if not entry["rationale"].strip():
        raise ValueError("no rationale")
    trace = tuple(parse_step(line) for line in entry["trace"])
    expected: dict[Mode, tuple[tuple[str, ...], ...]] = {}
    for mode in MODES:
        rows = entry[mode] if mode in entry else entry["verdicts"]
        if len(rows) != len(trace) + ("end" in entry):
            raise ValueError(f"{mode}: {len(rows)} rows of verdicts for {len(trace)} steps")
        lines = [tuple(filter(None, row.split(", "))) for row in rows]
        expected[mode] = (*lines, *([] if "end" in entry else [()]))
    optional = entry.get("may", [])
    if not set(optional) <= {line for lines in expected["local"] for line in lines}:
        raise ValueError("`may` has a line that `local` does not have")
    verdicts = [parse_verdict(line) for line in optional]
    if any(verdict.reference is None for verdict in verdicts):
        raise ValueError("`may` has a line that is no equivalence")
    return Case(
        entry["name"],
        entry["rationale"],
        entry["formula"],
        trace,
        entry.get("end"),
        expected,
        frozenset(verdict.point for verdict in verdicts),
    )
