"""The named cases of policies with variables, by all that runs policies, and by the reference."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mtlmon
from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.relational import analyse
from mtlmon.testing import check, policies
from tests.cli.process import mtlmon as mtlmon_command
from tests.reference.first_order import Database, Let, Log, Row, answers, violations
from tests.reference.lasting import demanded, lasting_rows
from tests.relational.cases import CASES, Case, load

_ROWS = re.compile(r"([A-Za-z_]\w*)((?:\s*\([^)]*\))*)")


def test_the_names_are_unique() -> None:
    assert len(CASES) == len(load())


class Written(NamedTuple):
    """A case in files, with the options for it."""

    policy: Path
    log: Path
    options: dict[str, str]


def written(case: Case, folder: Path) -> Written:
    """Write the files of a case."""
    policy, log = folder / "policy.mtl", folder / ("case.csv" if case.table else "case.log")
    log.write_text("\n".join([*case.log, *case.table, ""]))
    options = {"end_time": "inf"}
    if case.signature:
        signature, policy = folder / "case.sig", folder / "policy.mfotl"
        signature.write_text(case.signature)
        options = {"signature": str(signature)}
    policy.write_text(case.policy)
    return Written(policy, log, options)


def by_command(case: Case, folder: Path, *options: str) -> tuple[list[str], str]:
    """Run the command on a case; return the lines, and the error if there is one."""
    policy, log, own = written(case, folder)
    given = [f"--{name.replace('_', '-')}={value}" for name, value in own.items()]
    ended = mtlmon_command(*options, *given, str(policy), str(log))
    return ended.output.splitlines(), ended.errors if ended.status == 2 else ""


def by_check(case: Case, folder: Path, **options: Any) -> tuple[list[str], str]:
    """Do the same with `mtlmon.check`."""
    policy, log, own = written(case, folder)
    output, error = folder / "answers.txt", ""
    given: Any = {**own, **options, "output": output}
    try:
        mtlmon.check(policy, log, **given).finish()
    except mtlmon.MtlmonError as found:
        error = str(found)
    return output.read_text().splitlines() if output.exists() else [], error


Host = Callable[[Case, Path], tuple[list[str], str]]
HOSTS: dict[str, Host] = {
    "command": by_command,
    "slices": lambda case, folder: by_command(case, folder, "--slices", "2"),
    "check": by_check,
}
"""What runs policies: every case runs on all of them."""


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.refused])
def test_answers(name: str, host: str, tmp_path: Path) -> None:
    case = CASES[name]
    lines, error = HOSTS[host](case, tmp_path)
    assert lines == list(case.answers), error
    assert case.error in error
    assert bool(error) is bool(case.error), error


PLAIN = [name for name, case in CASES.items() if not (case.signature or case.error or case.refused)]


@pytest.mark.parametrize("name", PLAIN)
def test_answers_that_late_rows_may_change(name: str, tmp_path: Path) -> None:
    """Without late rows, the last word on each time-point is what the run in order says."""
    changes = tmp_path / "changes"
    lines, error = by_command(CASES[name], tmp_path, "--lateness", "5", "-o", str(changes))
    assert (lines, error) == ([], "")
    latest = mtlmon_command("latest", str(changes)).output.splitlines()
    assert sorted(latest) == sorted(CASES[name].answers)


@pytest.mark.parametrize("name", [name for name in PLAIN if not CASES[name].table])
def test_lines_that_are_given_one_by_one(name: str, tmp_path: Path) -> None:
    policy, log, options = written(CASES[name], tmp_path)
    given: Any = options
    run = mtlmon.live(policy, text=True, **given)
    found = [one for line in CASES[name].log for one in run.feed(f"{line}\n")]
    assert [*found, *run.end()] == list(mtlmon.check(policy, log, **given))


@pytest.mark.parametrize("name", PLAIN)
def test_assertions(name: str, tmp_path: Path) -> None:
    """The assertions of tests find the same violations in the log."""
    case = CASES[name]
    policy, log, _ = written(case, tmp_path)
    file = parse_policies(case.policy)
    if all(one.is_find for one in file.policies):
        return
    for one in policies(policy):
        found = check(one, log, at_end="closed", unknown="ignore")
        own = [line.split("\t") for line in case.answers]
        wanted = {
            words[-1].partition(" ")[0]
            for words in own
            if " false" in words[-1] and words[0] in (one.name, words[-1])
        }
        assert {f"{stamp}:{offset}" for stamp, offset in found.violations} == wanted


@pytest.mark.parametrize(
    "options",
    [(), ("--slices", "2"), ("--lateness", "5"), ("--slices", "2", "--lateness", "5")],
)
def test_nothing_follows_the_largest_time_stamp(options: tuple[str, ...], tmp_path: Path) -> None:
    """A log that is complete up to there has ended: nothing comes next, whoever judges it."""
    policy, log = tmp_path / "policy.mtl", tmp_path / "case.log"
    policy.write_text("atom p(x: int)\natom q(x: int)\npolicy result: p(x) IMPLIES NEXT q(x)\n")
    log.write_text("@5 p(1)\n")
    ended = mtlmon_command(*options, "--end-time", str(2**63 - 1), str(policy), str(log))
    assert ended.output == "result\t5:0 false (x=1)\n", ended.errors


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    lines, error = by_command(CASES[name], tmp_path)
    assert not lines
    for part in CASES[name].refused:
        assert part in error


def database_of(line: str) -> tuple[int, Database]:
    """A time-point of a log whose values are integers."""
    stamp, _, rest = line.partition(" ")
    database: dict[str, list[Row]] = {}
    for name, given in _ROWS.findall(rest):
        rows = re.findall(r"\(([^)]*)\)", given) or [""]
        for row in rows:
            database.setdefault(name, []).append(tuple(map(int, re.findall(r"-?\d+", row))))
    return int(stamp.removeprefix("@")), database


def referred(file: PolicyFile, log: Log) -> list[str]:
    """The lines that the reference finds."""
    lets = {name: Let(names, file.lets[name]) for name, names in file.parameters.items()}
    found = []
    offsets = [
        (stamp, sum(1 for other, _ in log.points[:place] if other == stamp))
        for place, (stamp, _) in enumerate(log.points)
    ]
    for one in analyse(file).policies:
        find = answers if one.policy.is_find else violations
        every = find(demanded(file, one.policy), log, one.reported, lets=lets)
        times = [stamp for stamp, _ in log.points]
        every = lasting_rows(every, times, one.policy.lasting)
        for (stamp, offset), here in zip(offsets, every, strict=True):
            assert not here.undecided
            for row in here.satisfying:
                pairs = zip(one.reported, row, strict=True)
                words = ", ".join(f"{name}={value}" for name, value in pairs)
                word = "match" if one.policy.is_find else "false"
                shown = f" ({words})" if words else ""
                name = "" if one.policy.name is None else f"{one.policy.name}\t"
                found.append(f"{name}{stamp}:{offset} {word}{shown}")
    return found


def _has_integers_only(case: Case) -> bool:
    values = [word for line in case.log for row in re.findall(r"\(([^)]*)\)", line)
              for word in re.split(r",\s*", row)]  # fmt: skip
    return all(re.fullmatch(r"-?\d+", word) for word in values)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, case in CASES.items()
        if case.log
        and not case.signature
        and not case.error
        and _has_integers_only(case)
        # to the reference, it is built in
        and "atom point" not in case.policy
    ],
)
def test_the_reference(name: str) -> None:
    case = CASES[name]
    log = Log(tuple(map(database_of, case.log)))
    assert sorted(referred(parse_policies(case.policy), log)) == sorted(case.answers)


def row_of(what: str, f: int) -> Database:
    """The rows that atoms have of a row of a table; `ask` has no arguments."""
    row: Row = () if what == "ask" else (f,)
    return {what: [row]}


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.table and not case.refused]
)
def test_the_reference_of_each_key(name: str) -> None:
    """What it finds in the rows of each key alone, which have the columns ts, k, what and f."""
    case = CASES[name]
    file = parse_policies(case.policy)
    rows = [line.split(",") for line in case.table[1:]]
    found = []
    for policy in file.policies:
        alone = parse_policies(case.policy)
        alone.policies = tuple(one for one in alone.policies if one.name == policy.name)
        key = file.key if policy.key is None else policy.key
        for value in dict.fromkeys(k for _, k, _, _ in rows) if key else [None]:
            points = tuple(
                (int(ts), row_of(what, int(f))) for ts, k, what, f in rows if value in (None, k)
            )
            for line in referred(alone, Log(points)):
                label, _, rest = line.partition("\t")
                found.append(f"{label}\t{value or ''}\t{rest}")
    assert sorted(found) == sorted(case.answers)
