"""The command on files with policies with variables and without."""

from __future__ import annotations

import csv
import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet

from tests.cli.process import Ended, mtlmon, piped
from tests.doors import LogCheck, checking_text_logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

ORDINARY = ["policy answered: ask IMPLIES EVENTUALLY[0,2] reply", "policy quiet: NOT noise"]
WITH_VARIABLES = [
    "policy known: p(x) IMPLIES ONCE[0,5] q(x)",
    "find soon: p(x) AND EVENTUALLY[0,3] q(x)",
    "find noisy: noise AND EXISTS x. p(x)",
]
MIXED = [ORDINARY[0], *WITH_VARIABLES, ORDINARY[1]]
TABLE_ATOMS = ['atom p(x) = kind = "p"', 'atom q(x) = kind = "q"']


def text_lines(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    lines = []
    time_stamp = 0
    for _ in range(count):
        time_stamp += source.choice([0, 0, 1, 3])
        items = [name for name in ("ask", "reply", "noise()", "other") if source.random() < 0.3]
        items += [f"{name}({source.choice('ab')})" for name in "pqr" if source.random() < 0.4]
        source.shuffle(items)
        lines.append(f"@{time_stamp} {' '.join(items)}")
    return lines


def table_lines(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    lines = ["ts,kind,x,ask,reply,noise"]
    time_stamp = 0
    for _ in range(count):
        time_stamp += source.choice([0, 0, 1, 3])
        marks = [source.choice(["true", "false"]) for _ in range(3)]
        lines.append(",".join([str(time_stamp), source.choice("pqr"), source.choice("ab"), *marks]))
    return lines


def outputs(
    command: Command, folder: Path, rules: list[str], lines: list[str], *given: str | Path
) -> str:
    file = folder / "rules.mtl"
    log = folder / ("log.csv" if lines[0].startswith("ts,") else "log")
    declared = TABLE_ATOMS if log.suffix else []
    file.write_text("\n".join([*declared, *rules, ""]))
    log.write_text("\n".join([*lines, ""]))
    done = command(*given, file, log)
    assert done.status in (0, 1), done.errors
    return done.output


COMPUTED = [
    "stream asked = count[0,4](ask)",
    "atom busy = asked > 1",
    "policy calm: busy IMPLIES ONCE[0,3] reply",
    "policy few: asked < 3",
]


@pytest.mark.parametrize(
    ("lines", "more"),
    [(text_lines(1, 14), []), (text_lines(14, 14), COMPUTED), (table_lines(2, 14), [])],
    ids=["text", "computed", "table"],
)
@pytest.mark.parametrize("given", [[], ["--verdicts", "all"], ["--end-time", "inf"]])
def test_lines_come_event_by_event(
    command: Command, tmp_path: Path, lines: list[str], more: list[str], given: list[str]
) -> None:
    """What is new at an event is new of the policies without variables, then of the others."""
    header = int(lines[0].startswith("ts,"))
    before = {"ordinary": "", "others": "", "mixed": ""}
    for count in range(header + 1, len(lines) + 1):
        is_end = count == len(lines)
        if given[:1] == ["--end-time"] and not is_end:
            continue
        parts = {
            "ordinary": [*ORDINARY, *more],
            "others": WITH_VARIABLES,
            "mixed": [*MIXED, *more],
        }
        plain = [re.sub(r"[pqr]\([ab]\)", "", line) for line in lines]
        now = {
            name: outputs(
                command,
                tmp_path,
                rules,
                (plain if name == "ordinary" else lines)[:count],
                *given,
            )
            for name, rules in parts.items()
        }
        if given[:1] == ["--end-time"]:
            assert sorted(now["mixed"].splitlines()) == sorted(
                (now["ordinary"] + now["others"]).splitlines()
            )
            return
        new = {name: now[name].removeprefix(before[name]) for name in now}
        assert new["mixed"] == new["ordinary"] + new["others"]
        before = now


def test_rows_of_a_time_stamp_are_there_once_a_later_one_comes(
    command: Command, tmp_path: Path
) -> None:
    """For policies with variables; to the others, each row is a time-point."""
    lines = table_lines(13, 30)
    stamps = [line.partition(",")[0] for line in lines]
    given = ["--time-points", "stamp"]
    wanted, before = [], ["", ""]
    for count in range(2, len(lines) + 1):
        complete = stamps.index(stamps[count - 1])
        now = [
            outputs(command, tmp_path, ORDINARY, lines[:count]),
            outputs(command, tmp_path, WITH_VARIABLES, lines[:complete], *given),
        ]
        wanted += [new.removeprefix(old) for new, old in zip(now, before, strict=True)]
        before = now
    last = outputs(command, tmp_path, WITH_VARIABLES, lines, *given)
    wanted.append(last.removeprefix(before[1]))
    assert outputs(command, tmp_path, MIXED, lines, *given) == "".join(wanted)
    assert last.count("\n") > 5
    page = tmp_path / "explained.txt"
    explains: list[str | Path] = ["--explain", "--explain-limit", "99", "--explain-output", page]
    outputs(command, tmp_path, MIXED, lines, *given, *explains)
    text = page.read_text()
    outputs(command, tmp_path, WITH_VARIABLES, lines, *given, *explains)
    found = re.split(r"^(?=policy known)", page.read_text(), flags=re.MULTILINE)
    assert len(found) > 2
    assert all(one.strip() in text for one in found)


@pytest.mark.parametrize("every", [2, 5])
def test_rows_of_a_time_stamp_may_be_cut_by_checkpoints(tmp_path: Path, every: int) -> None:
    """They are one time-point all the same, and keep their first row."""
    lines = table_lines(17, 16)
    # a row without a value is left out once
    lines[5:5] = [f"{lines[5].partition(',')[0]},p,,true,true,true"]
    given = ["--time-points", "stamp", "--verdicts", "all", "--rows"]
    out, kept = tmp_path / "out", tmp_path / "kept"
    emitted = ""
    for count in range(1, len(lines) + 1, every):
        own: list[str | Path] = [*given, "-o", out, "--checkpoint", kept, "--resume"]
        log = tmp_path / "log.csv"
        log.write_text("\n".join([*lines[: count if count + every <= len(lines) else None], ""]))
        rules = tmp_path / "rules.mtl"
        rules.write_text("\n".join([*TABLE_ATOMS, "policy few: count[0,4]() < 3", *MIXED, ""]))
        done = process(*own, rules, log)
        assert done.status in (0, 1), done.errors
        emitted = done.errors
    done = process(*given, rules, log)
    assert out.read_text() == done.output
    assert "left out 1 row of atoms" in done.errors
    assert "left out 1 row of atoms" in emitted


AT_TICKS = [
    *COMPUTED,
    "policy alive on every 1: count[0,2](ask) + count[0,2](reply) > 0",
    "policy rises: asked.next(or: 9) > asked",
    'trigger told: asked > 1 message "{asked} asked"',
]


def test_time_points_of_other_clocks_are_in_their_place(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ticks split the events of a block, and the rows of policies with variables are ahead."""
    lines = text_lines(15, 60)
    lines += [line.replace("@", "@9") for line in text_lines(16, 20)]
    stamps = [int(line.split()[0].removeprefix("@")) for line in lines]
    lines = [line for _, line in sorted(zip(stamps, lines, strict=True), key=lambda one: one[0])]
    given = ["--output-format", "jsonl", "--end-time", "inf"]
    found = outputs(command, tmp_path, [*MIXED, *AT_TICKS], lines, *given)
    rows = [json.loads(line) for line in found.splitlines()]
    plain = [re.sub(r"[pqr]\([ab]\)", "", line) for line in lines]
    alone = outputs(command, tmp_path, [*ORDINARY, *AT_TICKS], plain, *given)
    wanted = [json.loads(line) for line in alone.splitlines()]
    others = {"known", "soon", "noisy"}
    own = [{**row} for row in rows if row["policy"] not in others]
    assert all(row.pop("x") is None for row in own)
    assert own == wanted
    assert any(row.get("message") for row in own)
    # what a row has said is behind what policies without variables have said of it
    places = {(row["policy"], row["time"], row["offset"]): k for k, row in enumerate(rows)}
    noisy = [one for one in places if one[0] == "noisy"]
    assert noisy
    for name, *point in noisy:
        assert places["few", point[0], point[1]] < places[name, point[0], point[1]]
        later = [k for (one, *own), k in places.items() if one == "few" and own > point]
        assert places[name, point[0], point[1]] < min(later, default=len(rows))
    monkeypatch.setattr(checking_text_logs, "_BLOCK_BYTES", 50)
    assert outputs(command, tmp_path, [*MIXED, *AT_TICKS], lines, *given) == found


def test_explanations_of_computed_atoms(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("\n".join([*MIXED, *COMPUTED, ""]))
    log.write_text("@1 ask\n@2 ask p(a)\n@2 reply ask\n")
    done = command("--explain", "--verdicts", "false", rules, log)
    assert (
        f"policy few\nat {log}:3\nasked was 3: {log}:1, {log}:2, {log}:3\n2:1 violates"
        in done.errors
    )
    assert "x = a" in done.errors


def test_what_overflows_ends_the_run(command: Command, tmp_path: Path) -> None:
    """Nothing is said of the events from there on, by either kind of policies."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    grows = "stream n = if ask then n.last(or: 1) * 4294967296 else n.last(or: 1)"
    rules.write_text(f"{grows}\nfind all: p(x)\npolicy few: n < 5\n")
    log.write_text("@1 p(a)\n@2 ask p(b)\n@3 ask p(c)\n@4 p(d)\n")
    for more in [], ["--on-error", "skip"]:
        done = command("--verdicts", "false", *more, rules, log)
        assert done.status == 2
        assert done.output.splitlines() == [
            "all\t1:0 match (x=a)",
            "few\t2:0 false",
            "all\t2:0 match (x=b)",
        ]
        assert "at time-stamp 3: " in done.errors
        assert "--on-error" not in done.errors


@pytest.mark.parametrize("size", [10, 10_000])
def test_what_comes_before_an_error_of_either_kind_is_told(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("policy quiet: NOT ask\nfind many: p(x)\n")
    log.write_text("@1 ask p(a)\n@2 p(b)\n@2 ask\n@3 ask p(a)(b)\n@4 ask p(a)\n")
    monkeypatch.setattr(checking_text_logs, "_BLOCK_BYTES", size)
    done = command("--max-rows", "1", "--verdicts", "false", rules, log)
    assert done.status == 2
    assert "more rows at time-point 3:0 than the 1 of --max-rows" in done.errors
    lines = ["quiet\t1:0 false", "many\t1:0 match (x=a)", "many\t2:0 match (x=b)"]
    assert done.output.splitlines() == [*lines, "quiet\t2:1 false"]
    first = command("--max-rows", "1", "--verdicts", "first", rules, log)
    assert (first.status, first.output) == (1, "quiet\t1:0 false\n")
    rules.write_text(f"{TABLE_ATOMS[0]}\npolicy quiet: NOT ask\nfind many: p(x)\n")
    table = tmp_path / "log.csv"
    rows = ["ts,kind,x,ask", "1,p,a,true", "2,p,a,true", "2,p,b,true", "3,p,c,true", "4,p,d,true"]
    table.write_text("\n".join([*rows, ""]))
    stamps = ["--max-rows", "1", "--time-points", "stamp", "--verdicts", "false"]
    done = command(*stamps, rules, table)
    assert done.output.splitlines() == [
        "quiet\t1:0 false",
        "quiet\t2:0 false",
        "many\t1:0 match (x=a)",
        "quiet\t2:1 false",
    ]


def test_pieces_change_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = text_lines(3, 60)
    whole = outputs(command, tmp_path, MIXED, lines, "--verdicts", "all")
    made = LogCheck.__init__

    def in_small_slices(self: LogCheck, *arguments: object, **named: object) -> None:
        made(self, *arguments, **named)  # type: ignore[arg-type]
        self.slice_events = 7

    monkeypatch.setattr(LogCheck, "__init__", in_small_slices)
    assert outputs(command, tmp_path, MIXED, lines, "--verdicts", "all") == whole
    text = (tmp_path / "log").read_text()
    given = ["--verdicts", "all", str(tmp_path / "rules.mtl")]
    assert piped(*given, pieces=[text[:100], text[100:]]).output == whole


def test_each_kind_has_its_default_of_verdicts(command: Command, tmp_path: Path) -> None:
    lines = ["@1 p(a) q(a) ask reply", "@9 p(b)"]
    wanted = ["answered\t1:0 true", "answered\t9:0 true", "known\t9:0 false (x=b)"]
    assert outputs(command, tmp_path, MIXED[:2], lines).splitlines() == wanted
    wanted.insert(1, "known\t1:0 true")
    for verdicts in "all", "boolean":
        found = outputs(command, tmp_path, MIXED[:2], lines, "--verdicts", verdicts)
        assert found.splitlines() == wanted
    found = outputs(command, tmp_path, MIXED[:2], lines, "--verdicts", "false")
    assert found.splitlines() == wanted[-1:]


def test_any_violation_is_one(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("\n".join([*MIXED, ""]))
    for line, status in [("p(a) q(a)", 0), ("noise", 1), ("p(a)", 1)]:
        log.write_text(f"@1 {line}\n")
        assert command("--verdicts", "none", rules, log).status == status


def test_the_summary_has_all_policies(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("\n".join([*MIXED, ""]))
    log.write_text("@1 p(a) typo\n@2 x(\n")
    done = command("--summary", "--on-error", "skip", rules, log)
    assert "skipped 1 line that could not be read" in done.errors
    assert "no event has the atoms ask, reply, noise, q" in done.errors
    words = [line.split()[:1] for line in done.errors.splitlines()]
    for name in ("answered", "quiet", "known", "soon", "noisy"):
        assert [name] in words


@pytest.mark.parametrize(
    ("given", "rules", "message"),
    [
        (["--time-points", "stamp"], [], "--time-points stamp works on tables, but"),
        ([], ["policy late: x > 3"], "uses columns of a table, but the log is read as text"),
    ],
)
def test_what_does_not_work_yet_is_refused(
    command: Command, tmp_path: Path, given: list[str], rules: list[str], message: str
) -> None:
    file, log = tmp_path / "rules.mtl", tmp_path / "log"
    file.write_text("\n".join([*MIXED, *rules, ""]))
    log.write_text("@1 p(a)\n")
    done = command(*given, file, log)
    assert done.status == 2
    assert message in done.errors


REMEMBERING = [
    "stream asked = count[0,6](ask)",
    "atom busy = asked > 1",
    "policy calm: busy IMPLIES EVENTUALLY[0,3] reply",
    "policy alive on every 2: count[0,5](ask) > 0",
    "policy rising: ask IMPLIES asked.next(or: 0) < 3",
]


@pytest.mark.parametrize("block", [17, 150, 1 << 16])
def test_computed_atoms_go_on_from_checkpoints(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Streams are computed again, from the beginning of the log."""
    monkeypatch.setattr(checking_text_logs, "_BLOCK_BYTES", block)
    rules, log, output, kept = (tmp_path / name for name in ("rules", "log", "output", "kept"))
    rules.write_text("\n".join([*MIXED, *REMEMBERING, ""]))
    given = ["--verdicts", "all", "--resolve", "--output-format", "jsonl"]
    for seed in range(4):
        text = "".join(f"{line}\n" for line in text_lines(seed, 60))
        log.write_text(text)
        expected = command(*given, rules, log)
        assert expected.status == 1, expected.errors
        kept.unlink(missing_ok=True)
        resumed = ["--checkpoint", kept, "--checkpoint-every", "9", "--resume", "-o", output]
        source = random.Random(seed)
        for size in (*sorted(source.sample(range(len(text)), 4)), len(text)):
            log.write_text(text[: text.rfind("\n", 0, size) + 1])
            done = command(*resumed, *given, rules, log)
            assert done.status in (0, 1), done.errors
        assert output.read_text() == expected.output
        assert (done.status, done.errors) == (expected.status, expected.errors)


@pytest.mark.parametrize("lines", [text_lines(4, 30), table_lines(5, 30)], ids=["text", "table"])
@pytest.mark.parametrize("verdicts", ["all", "false", None])
def test_tables_have_the_rows_of_lines(
    command: Command, tmp_path: Path, lines: list[str], verdicts: str | None
) -> None:
    given = ["--resolve", *([] if verdicts is None else ["--verdicts", verdicts])]
    wanted = outputs(command, tmp_path, MIXED, lines, *given).splitlines()
    found = outputs(command, tmp_path, MIXED, lines, *given, "--output-format", "jsonl")
    rows = [json.loads(line) for line in found.splitlines()]
    assert [line_of(row) for row in rows] == wanted
    text = outputs(command, tmp_path, MIXED, lines, *given, "--output-format", "csv")
    cells = list(csv.DictReader(text.splitlines()))
    assert list(cells[0]) == list(rows[0]) == [*COLUMNS, "x"]
    plain = [
        [
            "" if value is None else str(value).replace("True", "true").replace("False", "false")
            for value in row.values()
        ]
        for row in rows
    ]
    assert [list(row.values()) for row in cells] == plain
    path = tmp_path / "verdicts.parquet"
    outputs(
        command,
        tmp_path,
        MIXED,
        lines,
        *given,
        "--output-format",
        "parquet",
        "-o",
        path,
    )
    assert parquet.read_table(path).to_pylist() == rows


COLUMNS = ["policy", "time", "offset", "verdict", "reference"]


def line_of(row: dict[str, Any]) -> str:
    """The line of text that says what a row does."""
    is_find = row["policy"] in ("soon", "noisy")
    word = "match" if is_find else str(row["verdict"]).lower()
    values = "" if row["x"] is None else f" (x={row['x']})"
    return f"{row['policy']}\t{row['time']}:{row['offset']} {word}{values}"


def test_a_table_of_no_rows_has_columns(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("\n".join([*MIXED, ""]))
    log.write_text("")
    done = command("--output-format", "csv", rules, log)
    assert done.output == ",".join([*COLUMNS, "x\n"])


def test_messages_are_a_column_beside_those_of_variables(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    trigger = 'trigger t per x: kind = "p" message "{kind} of {x} at {ts}"'
    rules.write_text("\n".join([*TABLE_ATOMS, "find b: p(x)", trigger, ""]))
    log.write_text("ts,kind,x\n1,p,a\n2,q,a\n3,p,b\n")
    given = ["--verdicts", "false", "--output-format", "jsonl"]
    rows = [json.loads(line) for line in command(*given, rules, log).output.splitlines()]
    assert [(row["policy"], row["key_x"], row["x"], row["message"]) for row in rows] == [
        ("t", "a", None, "p of a at 1"),
        ("b", None, "a", None),
        ("t", "b", None, "p of b at 3"),
        ("b", None, "b", None),
    ]
    rules.write_text("\n".join(['atom p(message) = kind = "p"', "find b: p(message)", trigger, ""]))
    log.write_text("ts,kind,message,x\n1,p,hello,a\n")
    rows = [json.loads(line) for line in command(*given, rules, log).output.splitlines()]
    assert [(row["message"], row["trigger_message"]) for row in rows] == [
        (None, "p of a at 1"),
        ("hello", None),
    ]


KEYED = ["key kind", "policy few: count[0,4]() < 3", "policy own per x: NOT ask"]


@pytest.mark.parametrize("given", [["--verdicts", "all"], ["--advance-every", "2"], []])
def test_policies_with_keys_are_checked_beside_others(
    command: Command, tmp_path: Path, given: list[str]
) -> None:
    """Where a line of the ones and of the others come at the same event, the ones are first."""
    lines = table_lines(6, 40)
    others = [KEYED[0], *WITH_VARIABLES]
    parts = {"keyed": KEYED, "others": others, "mixed": [*KEYED, *WITH_VARIABLES]}
    before = dict.fromkeys(parts, "")
    for count in range(2, len(lines)):
        now = {
            name: outputs(command, tmp_path, rules, lines[:count], *given)
            for name, rules in parts.items()
        }
        # the column of the other key
        now["others"] = re.sub(r"\t(\d+:)", r"\t\t\1", now["others"])
        new = {name: now[name].removeprefix(before[name]) for name in now}
        assert new["mixed"] == new["keyed"] + new["others"]
        before = now
    assert before["keyed"]
    assert before["others"]
    # at the end of the log, its clock decides more for each key
    keyed = [*KEYED, ORDINARY[0]]
    mixed = outputs(command, tmp_path, [*keyed, *WITH_VARIABLES], lines, *given).splitlines()
    of_keys = [one for one in mixed if not one.startswith(("known", "soon", "noisy"))]
    assert of_keys == outputs(command, tmp_path, keyed, lines, *given).splitlines()
    assert len(of_keys) < len(mixed)


def test_atoms_read_streams_of_the_key(command: Command, tmp_path: Path) -> None:
    rules = ["key kind", "stream n = count[0,9]()", "atom p(x) = n > 2", "find some: p(x)"]
    file, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    file.write_text("\n".join([*rules, "policy a: NOT ask", ""]))
    log.write_text("ts,kind,x,ask\n1,p,a,false\n2,q,b,false\n3,p,c,false\n4,p,d,false\n")
    done = command("--verdicts", "false", file, log)
    assert done.output == "some\tp\t4:0 match (x=d)\n"
    file.write_text("\n".join(["key none", *rules[1:], "policy a: NOT ask", ""]))
    done = command("--verdicts", "false", file, log)
    assert done.output == "some\t3:0 match (x=c)\nsome\t4:0 match (x=d)\n"


def test_tables_have_columns_of_keys_and_of_variables(command: Command, tmp_path: Path) -> None:
    rules = ["key x", TABLE_ATOMS[0], "policy a: NOT ask", "find b: p(x)"]
    file, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    file.write_text("\n".join([*rules, ""]))
    log.write_text("ts,kind,x,ask\n1,p,u,true\n2,q,v,false\n")
    done = command("--output-format", "jsonl", "--verdicts", "false", file, log)
    rows = [json.loads(line) for line in done.output.splitlines()]
    assert [(row["policy"], row["key_x"], row["x"]) for row in rows] == [
        ("a", "u", None),
        ("b", "u", "u"),
    ]


def test_the_key_can_be_given(command: Command, tmp_path: Path) -> None:
    file, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    file.write_text("\n".join([TABLE_ATOMS[0], "policy a: NOT ask", "find b: p(x)", ""]))
    log.write_text("ts,kind,x,ask\n1,p,u,true\n")
    done = command("--key", "kind", "--verdicts", "false", "--summary", file, log)
    assert done.output == "a\tp\t1:0 false\nb\tp\t1:0 match (x=u)\n"
    assert re.search(r"keys +1 +in memory", done.errors)


def test_text_logs_have_no_keys(command: Command, tmp_path: Path) -> None:
    file, log = tmp_path / "rules.mtl", tmp_path / "log"
    file.write_text("\n".join([*MIXED, "policy a per user: NOT ask", ""]))
    log.write_text("@1 p(a)\n")
    assert "divides the log by the column user" in command(file, log).errors


def explained(text: str) -> list[str]:
    """The explanations among what the command says."""
    return [one for one in text.split("\n\n") if one.startswith(("policy ", "✓", "✗"))]


@pytest.mark.parametrize("lines", [text_lines(7, 25), table_lines(8, 25)], ids=["text", "table"])
def test_explanations_are_those_of_each_kind(
    command: Command, tmp_path: Path, lines: list[str]
) -> None:
    """They come by time-stamp; those without variables come first."""
    emitted: dict[str, list[tuple[str, str]]] = {}
    plain = [re.sub(r"[pqr]\([ab]\)", "", line) for line in lines]
    for name, rules in {"without": ORDINARY, "with": WITH_VARIABLES, "both": MIXED}.items():
        page = tmp_path / "explained.txt"
        given: list[str | Path] = [
            "--explain",
            "--explain-limit",
            "99",
            "--explain-output",
            page,
            "--end-time",
        ]
        own = plain if name == "without" else lines
        outputs(command, tmp_path, rules, own, *given, "inf")
        parts = re.split(r"^(?=policy )", page.read_text(), flags=re.MULTILINE)
        emitted[name] = [(re.findall(r"\b(\d+):\d+", one)[0], one) for one in parts if one]
    assert emitted["without"]
    assert emitted["with"]
    wanted = sorted([*emitted["without"], *emitted["with"]], key=lambda one: int(one[0]))
    assert emitted["both"] == wanted


def test_explanations_have_one_limit(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("\n".join([*MIXED, ""]))
    log.write_text("@1 noise\n@2 p(a)\n@3 noise p(b)\n")
    done = command("--explain", "--explain-limit", "2", rules, log)
    assert "1:0 noise" in done.errors or "quiet" in done.errors
    assert "x = a" in done.errors
    assert "x = b" not in done.errors
    assert done.errors.count("policy quiet") == 1
    assert "explained 2 violations; there are more (--explain-limit)" in done.errors


def test_lines_that_cannot_be_read_are_skipped_again(command: Command, tmp_path: Path) -> None:
    """Those with a wrong number of values have no events in the second pass either."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("policy known: p(x) IMPLIES ONCE q(x)\npolicy quiet: NOT ONCE[0,1] noise\n")
    log.write_text("@1 p(a) noise\n@2 p(a, b)\n@2 q(a)\n@2 p(b) noise\n")
    done = command("--on-error", "skip", "--verdicts", "false", "--explain", rules, log)
    assert done.output.splitlines() == [
        "quiet\t1:0 false",
        "known\t1:0 false (x=a)",
        "quiet\t2:0 false",
        "quiet\t2:1 false",
        "known\t2:1 false (x=b)",
    ]
    assert "2:1 p(b)" in done.errors


@pytest.mark.parametrize("lines", [text_lines(9, 30), table_lines(10, 30)], ids=["text", "table"])
def test_the_report_has_all_policies(command: Command, tmp_path: Path, lines: list[str]) -> None:
    page = tmp_path / "report.html"
    outputs(command, tmp_path, MIXED, lines, "--report", page)
    text = page.read_text()
    sections = re.findall(r'<h2 id="[^"]*">([^<]*)', text)
    names = [name for one in sections if (name := one.strip()) in ("answered", "known", "quiet")]
    assert names == ["answered", "known", "quiet"]
    assert "Find soon matched at" in text
    assert "no q(" in text


def test_reports_are_written_of_logs_without_rows(command: Command, tmp_path: Path) -> None:
    rules, log, page = (tmp_path / name for name in ("rules.mtl", "log.csv", "report.html"))
    rules.write_text("\n".join([*TABLE_ATOMS, *MIXED, ""]))
    log.write_text("ts,kind,x,ask,reply,noise\n")
    assert command("--report", page, rules, log).status == 0
    assert "known" in page.read_text()


def process(*arguments: str | Path) -> Ended:
    """Run the command as a process of its own, which holds files for as long as it lives."""
    return mtlmon(*map(str, arguments))


@pytest.mark.parametrize("lines", [text_lines(11, 60), table_lines(12, 60)], ids=["text", "table"])
@pytest.mark.parametrize("pieces", [(1, 20, 60), (60, 60)])
def test_a_log_that_grows_goes_on_where_it_ended(
    tmp_path: Path, lines: list[str], pieces: tuple[int, ...]
) -> None:
    given = ["--verdicts", "all", "--explain", "--explain-limit", "50"]
    header = int(lines[0].startswith("ts,"))
    out, kept = tmp_path / "out", tmp_path / "kept"
    for count in pieces:
        own: list[str | Path] = [*given, "-o", out, "--checkpoint", kept, "--resume"]
        outputs(process, tmp_path, MIXED, lines[: count + header], *own)
    whole = outputs(process, tmp_path, MIXED, lines, *given)
    assert out.read_text() == whole


def test_checkpoints_are_of_one_kind_of_file(tmp_path: Path) -> None:
    log, out, kept = (tmp_path / name for name in ("log", "out", "kept"))
    log.write_text("@1 p(a) noise\n")
    given: list[str | Path] = ["-o", out, "--checkpoint", kept]
    runs = {"without": ORDINARY, "variables": WITH_VARIABLES, "both": MIXED}
    for before, now, message in [
        ("both", "without", "it was made by a run of policies with variables and without"),
        ("without", "both", "it was made by a run without policies with variables"),
        ("variables", "both", "it was made by a run of policies with variables only"),
    ]:
        rules = tmp_path / "rules.mtl"
        text = "".join(f"{one}\n" for one in runs[before])
        rules.write_text(text)
        log.write_text("@1 noise\n")
        assert process(*given, rules, log).status in (0, 1)
        rules.write_text("".join(f"{one}\n" for one in runs[now]))
        done = process(*given, "--resume", rules, log)
        assert done.status == 2
        assert message in done.errors


def test_the_log_must_be_the_same(tmp_path: Path) -> None:
    """Values of rows count, too, although policies without variables do not see them."""
    out, kept = tmp_path / "out", tmp_path / "kept"
    given: list[str | Path] = ["-o", out, "--checkpoint", kept]
    for lines in [["@1 p(a)", "@2 p(b)"], ["ts,kind,x,ask,reply,noise", "1,p,a,true,true,true"]]:
        outputs(process, tmp_path, MIXED, lines, *given)
        log = tmp_path / ("log.csv" if len(lines[1]) > 9 else "log")
        log.write_text(log.read_text().replace("p(a)", "p(c)").replace("p,a", "p,c"))
        done = process(*given, "--resume", tmp_path / "rules.mtl", log)
        assert done.status == 2
        assert "differ from those that were read" in done.errors
        out.unlink()
        kept.unlink()
