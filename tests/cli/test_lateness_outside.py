"""The command on late rows, judged by the references alone: no run of mtlmon says what is right.

Lines, the first violation, the counts and the violations of a report, for more users than the other
random logs have, while most traces share their chunks with others. Text logs, and policies with
variables, are judged part by part: what has been told and not taken back.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import settings

from mtlmon.policy import PolicyFile, parse_policies
from tests.checking import late_streams, test_late_next, test_late_row_changes, test_late_ticks
from tests.checking.late_streams import resolved, table
from tests.checking.test_history_check import Row, admitted
from tests.cli.test_lateness import Command
from tests.doors import checking_text_logs as text_logs
from tests.doors import formats_rows
from tests.doors import streams_late_computing as late_computing
from tests.formulas import latest_decision
from tests.reference import first_order
from tests.reference import policies as reference
from tests.reference.late import judged_and_refused
from tests.sampling import has_all_cases, thinned
from tests.traces import EndTime

PROGRAMS = {
    "streams": late_streams.program,
    "ticks": test_late_ticks.program,
    "later values": test_late_next.program,
    "changes": test_late_row_changes.program,
}
Found = tuple[list[int], list[tuple[str, ...]]]
USERS = "abcdefghijkl"


class Run(NamedTuple):
    """A log and policies as files, and what the references say of them."""

    file: PolicyFile
    rows: list[Row]
    options: list[object]
    said: reference.Said


def late_rows(source: random.Random, users: str) -> list[Row]:
    """Rows of many users, of which some are late; some users have one row only."""
    now = 100
    rows = []
    for _ in range(source.choice([12, 30, 45])):
        now += source.choice([0, 0, 0, 1, 1, 2])
        stamp = now - (source.randrange(20) if source.random() < 0.6 else 0)
        held = source.random() < 0.4, source.random() < 0.3
        user = source.choice(users)
        rows.append(Row(stamp, user, source.choice("xy"), *held, source.randrange(9)))
    return rows


def runs(kind: str, folder: Path, seeds: range) -> Iterator[Run]:
    for seed in seeds:
        source = random.Random(f"{kind} {seed}")
        rows = late_rows(source, USERS[: source.choice([1, 5, 12])])
        file = PROGRAMS[kind](source)
        end: EndTime = source.choice([None, "last", "inf", 260])
        lateness = source.choice([9, 20, 30])
        taken = sorted(admitted(rows, lateness, ()), key=lambda row: row.ts)
        schemas = {"rows": table([]).schema}
        log = reference.Log([row._asdict() for row in taken], end, {}, schemas)
        policies, arrows = folder / "p.mtl", folder / "log.arrows"
        policies.write_text(file.text)
        with pa.ipc.new_stream(arrows, schemas["rows"]) as writer:
            rest = rows
            while rest:
                size = source.choice([1, 2, 5, 9])
                writer.write_table(table(rest[:size]))
                rest = rest[size:]
        options: list[object] = ["--lateness", lateness, "--mode", source.choice(MODES)]
        options += ["--wait", source.choice([0, 0, 0, 2])]
        options += [] if end is None else ["--end-time", end]
        yield Run(file, rows, [*options, policies, arrows], reference.said_of(file, log))


MODES = ("local", "global", "naive")
ENDS: tuple[EndTime, ...] = ("inf", "inf", "last", 70, 300)


def found_in(page: Path, file: PolicyFile) -> list[Found]:
    """For each policy of a report, its counts, and the time-points listed as violations."""
    text = page.read_text()
    found = []
    for number in range(1, len(file.policies) + 1):
        part = text.partition(f'<section id="policy-{number}"')[2].partition("</section>")[0]
        counts = re.findall(r'<div class="(?:false|true|open)"><dt>.*?<dd>([\d,]+)', part)
        listed = re.findall(r'<li id="policy-\d+-violation-\d+"><code>([\d:]+)</code>(.*)\n', part)
        keys = [(point, *re.findall(r'<bdi class="key">(.*?)</bdi>', of)) for point, of in listed]
        found.append(([int(one.replace(",", "")) for one in counts], sorted(keys)))
    return found


def require_report(run: Run, page: Path) -> None:
    """The counts of a report, and the violations that it lists: the earliest ones, at most 100."""
    for number, (counts, listed) in enumerate(found_in(page, run.file)):
        wanted = reference.counts_of(run.said.values, number)
        assert counts == [wanted[False], wanted[True], wanted[None]]
        false = {
            (f"{time}:{offset}", *([", ".join(key)] if key else [])): time
            for (of, key, (time, offset)), value in run.said.values.items()
            if of == number and value is False
        }
        assert len(set(listed)) == len(listed) == min(100, len(false))
        times = sorted(false.values())[: len(listed)]
        assert sorted(false[one] for one in listed) == times


@pytest.mark.parametrize("kind", list(PROGRAMS))
def test_lines_the_first_violation_and_a_report(
    kind: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ticks are computed few at once
    monkeypatch.setattr(late_computing, "_MOST_TICKS", 5)
    revised = 0
    for run in runs(kind, tmp_path, range(4)):
        page, out = tmp_path / "page.html", tmp_path / "lines"
        done = command("-o", out, "--report", page, *run.options)
        lines = out.read_text().splitlines()
        values = run.said.values
        assert resolved(lines) == reference.lines_of(run.file, values)
        assert done.status == (False in values.values()), done.errors
        require_report(run, page)
        revised += sum("!" in line and "!@" not in line for line in lines)

        emitted = command("--verdicts", "first", *run.options).output.splitlines()
        first = reference.first_of(run.said)
        names = [f"{reference.shown(run.file, name)} false" for name in first.violations]
        if first.is_open or not names:
            assert emitted == []
        else:
            assert len(emitted) == 1
            assert emitted[0] in names
    assert revised > 0


# ---- part by part --------------------------------------------------------------------------------

STREAMS_OF_LINES = """\
stream n = count[0,6](p)
stream top = max[0,5](n)
stream since = coalesce(since.last(), 0) + 1 on p or r
"""
CONDITIONS_OF_LINES = (
    "n > 1",
    "top > 2",
    "count[3,3](q) > 0",
    "count[1,inf](r) > 2",
    "since > 2",
    "n.last(or: 0) < n",
)
FORMULAS_OF_LINES = (
    "p IMPLIES EVENTUALLY[0,5] (q OR a)",
    "ALWAYS[0,4] (a IMPLIES ONCE[0,6] q)",
    "(p SINCE[0,8] b) OR PREVIOUS r",
    "NEXT[0,3] a",
    "NOT (b AND r)",
    "r IMPLIES EVENTUALLY q",
)
FORMULAS_OF_TICKS = (
    "(count[0,9](p) > 0) IMPLIES EVENTUALLY[0,8] (count[0,4](q) > 0)",
    "ALWAYS[0,8] (n.hold(or: 0) < 3)",
)
CLOCKS_OF_LINES = ("", "", " on rows where a", " on rows where p")
DECLARED = {
    "text": "atom s(k: text)\natom t(k: text, v: int)\natom u(x: float)\n",
    "csv": 'atom s(k: text) = what = "s"\natom t(k: text, v: int) = what = "t"\n'
    'atom u(x: float) = what = "u"\n',
}
HEADERS = {"text": "", "csv": "ts,p,q,r,what,k,v,x\n"}
TYPES = {"k": str, "j": str, "v": int, "w": int, "x": float}
WITH_VARIABLES = (
    "policy {}: FORALL k. s(k) IMPLIES EVENTUALLY[0,6] EXISTS v. t(k, v)",
    "policy {}: FORALL k, v. t(k, v) IMPLIES ONCE[0,9] s(k)",
    "policy {}: NOT EXISTS k. s(k) AND PREVIOUS[0,5] s(k)",
    "policy {}: FORALL x. u(x) IMPLIES NEXT[0,4] p",
    "policy {}: FORALL k. s(k) IMPLIES (NOT (EXISTS v. t(k, v) AND v > 1)) SINCE[0,9] q",
    "policy {}: FORALL k, v. t(k, v) AND v < 3 IMPLIES EVENTUALLY[1,7] EXISTS w. t(k, w) AND w > v",
    "policy {} for 6: FORALL k, v. t(k, v) IMPLIES s(k)",
    "policy {} for 4: FORALL k. s(k) IMPLIES EVENTUALLY[0,3] EXISTS v. t(k, v)",
    "policy {} for 5: NOT (EXISTS k. s(k)) OR q",
    "find {}: t(k, v) AND (ONCE[1,6] s(j)) AND NOT k = j",
    "find {}: u(x) AND EVENTUALLY[0,4] (q AND NOT r)",
    "find {}: (EXISTS v. t(k, v)) AND NEXT u(x)",
)


class Line(NamedTuple):
    """A line of a log: its time, the atoms that hold, and the rows of predicates."""

    ts: int
    atoms: dict[str, bool]
    rows: dict[str, list[tuple[Any, ...]]]

    def written(self, form: str) -> str:
        """The line of a text log, or the row of a table, which is of one predicate at most."""
        if form == "csv":
            cells = dict.fromkeys(["what", "k", "v", "x"], "")
            for name, rows in self.rows.items():
                for values in rows:
                    names = {"s": "k", "t": "kv", "u": "x"}[name]
                    cells |= {"what": name, **dict(zip(names, map(str, values), strict=True))}
            row = [self.ts, *self.atoms.values(), *cells.values()]
            return ",".join(map(str, row)).lower() + "\n"
        items = [name for name, holds in self.atoms.items() if holds]
        for name, rows in self.rows.items():
            items += [f"{name}({', '.join(map(str, row))})" for row in rows]
        return f"@{self.ts} {' '.join(items)}\n"


def late_lines(source: random.Random, names: str, most: int) -> list[Line]:
    """Lines of which some are late, a few by too much.

    Args:
        source: what chooses.
        names: the predicates, which may be in a line.
        most: how many rows of them a line has at most.
    """
    now, lines, keys = 50, [], source.choice(["a", "ab", "abc"])
    for _ in range(source.choice([6, 14, 24])):
        now += source.choice([0, 0, 1, 1, 2, 5])
        stamp = now - (source.randrange(12) if source.random() < 0.5 else 0)
        atoms = {name: source.random() < 0.4 for name in "pqr"}
        rows: dict[str, list[tuple[Any, ...]]] = {"s": [], "t": [], "u": []}
        count = min(most, source.choice([0, 1, 1, 2])) if names else 0
        for name in source.choices(names or "s", k=count):
            key, number, size = source.choice(keys), source.randrange(4), source.choice([1.0, 2.5])
            rows[name].append({"s": (key,), "t": (key, number), "u": (size,)}[name])
        lines.append(Line(stamp, atoms, rows))
    return lines


def program_of(source: random.Random, form: str) -> tuple[PolicyFile, list[int]]:
    """A file of policies for logs of a format, and the numbers of those that have variables."""
    policies = [
        f"policy a{number}{source.choice(CLOCKS_OF_LINES)}: {formula}"
        for number, formula in enumerate(source.sample(FORMULAS_OF_LINES, source.choice([0, 2, 3])))
    ]
    if source.random() < 0.3:
        policies.append(f"policy ticks on every 4: {source.choice(FORMULAS_OF_TICKS)}")
    with_variables = source.sample(WITH_VARIABLES, source.choice([0, 1, 2]) if policies else 2)
    policies += [one.format(f"b{number}") for number, one in enumerate(with_variables)]
    atoms = [f"atom {name} = {source.choice(CONDITIONS_OF_LINES)}\n" for name in "ab"]
    file = parse_policies(STREAMS_OF_LINES + "".join(atoms) + DECLARED[form] + "\n".join(policies))
    return file, [len(policies) - len(with_variables) + k for k in range(len(with_variables))]


def emitted(lines: Sequence[str], names: Container[str]) -> dict[tuple[str, str], list[str]]:
    """What has been told of policies and not taken back, by policies and time-points."""
    found: dict[tuple[str, str], list[str]] = {}
    ever = set()
    for line in lines:
        name, _, rest = line.partition("\t")
        if name not in names:
            continue
        point, _, said = rest.partition(" ")
        own = found.setdefault((name, point.lstrip("!x")), [])
        if point.startswith("!x"):
            own.remove(said)
        else:
            assert said not in own, line
            own.append(said)
            assert point.startswith("!") == ((name, point.lstrip("!"), said) in ever), line
            ever.add((name, point.lstrip("!"), said))
    return found


def require_answers(
    file: PolicyFile,
    number: int,
    lines: Sequence[Line],
    end: EndTime,
    found: dict[tuple[str, str], list[str]],
) -> int:
    """Judge what has been told of a policy with variables; return at how many time-points.

    Args:
        file: the policies.
        number: the number of the policy.
        lines: those that came in time, in the order of time.
        end: how the log ends.
        found: what has been told.
    """
    clock = reference.Log([{"ts": line.ts} for line in lines], end).clock
    points = [
        (line.ts, {**line.rows, **{name: [()] for name, holds in line.atoms.items() if holds}})
        for line in lines
    ]
    log = first_order.Log(tuple(points), clock, end == "inf")
    policy = file.policies[number]
    reach = latest_decision(policy.formula)
    count = 0
    for place, wanted in enumerate(reference.answers_of(file, number, log, TYPES)):
        time = lines[place].ts
        name = f"{time}:{sum(one.ts == time for one in lines[:place])}"
        said = sorted(found.pop((str(policy.name), name), []))
        is_due = reach is not None and time + reach < clock
        if "NEXT" in str(policy.formula):
            # with variables, it waits for a time-point also where that would come too late
            is_due = is_due and place + 1 < len(lines)
        # what is decided for some values alone waits for the others
        assert said == wanted if said or is_due or end == "inf" else not said
        count += bool(said)
    return count


@pytest.mark.parametrize("first", range(2))
@pytest.mark.parametrize("form", ["text", "csv"])
def test_parts_of_logs(
    form: str, first: int, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on after each part has told what the references say of the lines so far."""
    # a line or a few are a batch
    size = 20 if first % 2 else 60
    monkeypatch.setattr(text_logs, "_BLOCK_BYTES", size)
    for name in ("BLOCK_BYTES", "FIRST_BLOCK_BYTES"):
        monkeypatch.setattr(formats_rows, name, size)
    answered = revised = 0
    for seed in thinned(range(first, 16, 2)):
        source = random.Random(f"parts {form} {seed}")
        file, with_variables = program_of(source, form)
        others = [one for one in range(len(file.policies)) if one not in with_variables]
        names = [
            {str(file.policies[one].name) for one in some} for some in (with_variables, others)
        ]
        lines = late_lines(source, "sttu" if with_variables else "", 1 if form == "csv" else 2)
        lateness = source.choice([4, 9, 20])
        folder = tmp_path / str(seed)
        folder.mkdir()
        policies, log, out = (folder / name for name in ("p.mtl", "log", "out"))
        policies.write_text(file.text)
        given: list[object] = ["--lateness", lateness, "--mode", source.choice(MODES)]
        given += ["--format", form, "--verdicts", "all", "-o", out, policies, log]
        kept = ["--checkpoint", folder / "saved", "--resume"]
        ends = sorted({source.randrange(1, len(lines) + 1) for _ in range(3)} | {len(lines)})
        for count, end in [*((one, None) for one in ends), (len(lines), source.choice(ENDS))]:
            texts = [line.written(form) for line in lines[:count]]
            log.write_text(HEADERS[form] + "".join(texts))
            asked = kept if end is None else ["--end-time", end]
            done = command(*given, *asked)
            assert done.status in (0, 1), done.errors
            changes = out.read_text().splitlines()
            taken, _ = judged_and_refused([(line.ts, line) for line in lines[:count]], lateness)
            in_order = [line for _, line in taken]
            found = emitted(changes, names[0])
            for number in with_variables:
                answered += require_answers(file, number, in_order, end, found)
            assert not any(found.values())
            rows = [{"ts": line.ts, **line.atoms} for line in in_order]
            said = reference.said_of(file, reference.Log(rows, end), others)
            own = [line for line in changes if line.partition("\t")[0] in names[1]]
            assert resolved(own) == reference.lines_of(file, said.values)
            revised += sum("!" in line and "!@" not in line for line in changes)
    assert answered > 20 or not has_all_cases()
    assert revised > 5 or not has_all_cases()


LONG = """\
key user
policy calm: count[0,40](ask) < 4
policy answered: ask IMPLIES EVENTUALLY[3,30] reply
policy equal: count[7,7](reply) < 1
"""
# far more where somebody hunts
ROWS_OF_LONG = 10_000 if settings().max_examples <= 200 else 100_000


def said_of_long(rows: list[Row]) -> list[str]:
    """The verdicts of `LONG` on rows in the order of time that no others follow, by counting."""
    found = []
    for user in sorted({row.user for row in rows}):
        own = [row for row in rows if row.user == user]
        times = [row.ts for row in own]
        asks = [0, *accumulate(row.ask for row in own)]
        replies = [0, *accumulate(row.reply for row in own)]
        for place, row in enumerate(own):
            offset = place - bisect_left(times, row.ts)
            # the rows up to this one whose times are in a window
            asked = asks[place + 1] - asks[bisect_left(times, row.ts - 40)]
            equal = [bisect(times, row.ts - 7) for bisect in (bisect_left, bisect_right)]
            later = [bisect_left(times, row.ts + 3), bisect_right(times, row.ts + 30)]
            said = {
                "calm": asked < 4,
                "answered": not row.ask or replies[later[1]] > replies[later[0]],
                "equal": replies[equal[1]] == replies[equal[0]],
            }
            found += [
                f"{name}\t{user}\t{row.ts}:{offset} {str(value).lower()}"
                for name, value in said.items()
            ]
    return sorted(found)


def test_a_long_log(tmp_path: Path, command: Command) -> None:
    source = random.Random(ROWS_OF_LONG)
    rows, now = [], 1000
    for number in range(ROWS_OF_LONG):
        now += source.choice([0, 1, 1, 2])
        late = source.randrange(300) if source.random() < 0.02 else 0
        held = source.random() < 0.4, source.random() < 0.3
        # some users come once in a while only
        user = source.choice(USERS if number % 7 else USERS[:2])
        rows.append(Row(now - late, user, "x", *held, 0))
    policies, arrows, out = (tmp_path / name for name in ("p.mtl", "log.arrows", "lines"))
    policies.write_text(LONG)
    with pa.ipc.new_stream(arrows, table([]).schema) as writer:
        for first in range(0, len(rows), 50):
            writer.write_table(table(rows[first : first + 50]))
    asked = ["--lateness", 250, "--end-time", "inf", "-o", out, policies, arrows]
    assert command(*asked).status == 1
    lines = out.read_text().splitlines()
    assert sum("\t!" in line and "!@" not in line for line in lines) > 20
    taken = admitted(rows, 250, ())
    assert len(taken) < len(rows)
    assert resolved(lines) == said_of_long(sorted(taken, key=lambda row: row.ts))
