"""The first violation where some policies have variables, against all verdicts."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from pyarrow import csv

import mtlmon
from tests.cli.test_mixed_policies import TABLE_ATOMS
from tests.doors import LogCheck, checking_text_logs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.test_mixed_policies import Command

WITHOUT = ["answered", "quiet"]
WITH = ["known", "later", "closed"]
RULES = [
    "policy known: p(x) AND reply IMPLIES ONCE[0,9] q(x)",
    "policy answered: ask IMPLIES EVENTUALLY[0,2] reply",
    "find soon: p(x) AND EVENTUALLY[0,3] q(x)",
    "policy later: p(x) IMPLIES EVENTUALLY[0,9] q(x)",
    "policy quiet: NOT (noise AND ask)",
    "policy closed: noise IMPLIES EVENTUALLY EXISTS x. q(x)",
]
# those without variables are for each kind
KEYED = [
    rule.replace(":", " per kind:", 1) if rule.split(":")[0].split()[1] in WITHOUT else rule
    for rule in RULES
]
Point = tuple[int, int]


def rows_of(seed: int) -> list[tuple[int, str, str, list[str]]]:
    """Random rows: time-stamp, kind, value, and the atoms without arguments that hold."""
    source = random.Random(seed)
    time_stamp, rows = 0, []
    share = source.choice([0.1, 0.3])
    for _ in range(source.randint(1, 12)):
        time_stamp += source.choice([0, 0, 1, 3])
        kind = "p" if source.random() < share else source.choice("qr")
        atoms = [name for name in ("ask", "noise") if source.random() < share / 2]
        atoms += ["reply"] if source.random() < 0.8 else []
        rows.append((time_stamp, kind, source.choice("ab"), atoms))
    return rows


def write_log(folder: Path, seed: int, form: str) -> Path:
    log = folder / f"log.{form}"
    if form == "log":
        lines = [f"@{t} {k}({x}) {' '.join(some)}" for t, k, x, some in rows_of(seed)]
    else:
        names = ("ask", "reply", "noise")
        lines = ["ts,kind,x,ask,reply,noise"]
        for t, k, x, some in rows_of(seed):
            lines.append(",".join([str(t), k, x, *(str(n in some).lower() for n in names)]))
    log.write_text("\n".join([*lines, ""]))
    return log


def expected(
    found: list[dict[str, Any]], seed: int, *, keyed: bool = False, by_stamp: bool = False
) -> tuple[str, int, int] | None:
    """The policy and time-point of the first violation, by the verdicts of all time-points."""
    verdicts: dict[tuple[str, str, int, int], bool] = {}
    for row in found:
        if row["policy"] != "soon":
            place = (row["policy"], row.get("kind") or "", row["time"], row["offset"])
            verdicts[place] = row["verdict"] and verdicts.get(place, True)
    points: list[tuple[int, int, str, int]] = []
    counted: Counter[int] = Counter()
    of_keys: Counter[tuple[str, int]] = Counter()
    numbers: dict[str, int] = {}
    for time_stamp, kind, *_ in rows_of(seed):
        numbers.setdefault(kind, len(numbers))
        points.append((time_stamp, counted[time_stamp], kind, of_keys[kind, time_stamp]))
        counted[time_stamp] += 1
        of_keys[kind, time_stamp] += 1
    # each place with the order in which it may be the first
    places: list[tuple[tuple[int, ...], tuple[str, str, int, int]]] = []
    is_by_time = keyed or by_stamp
    for time_stamp, offset, kind, own in points:
        for number, name in enumerate(WITHOUT):
            if keyed:
                order: tuple[int, ...] = (time_stamp, 0, number, numbers[kind], own)
                places.append((order, (name, kind, time_stamp, own)))
            else:
                order = (time_stamp, 0, offset, number) if by_stamp else (time_stamp, offset, 0)
                places.append(
                    (order if by_stamp else (*order, number), (name, "", time_stamp, offset))
                )
        for number, name in enumerate(WITH):
            if by_stamp and offset:
                continue
            order = (time_stamp, 1, offset) if is_by_time else (time_stamp, offset, 1)
            places.append(((*order, number), (name, "", time_stamp, offset)))
    places.sort()
    for k, (order, place) in enumerate(places):
        if place not in verdicts:
            return None
        if not verdicts[place]:
            # with keys, rows of one time-stamp have no order
            same = [
                one
                for other, one in places[k:]
                if keyed and other[:2] == order[:2] == (order[0], 0)
            ]
            return None if any(one not in verdicts for one in same) else (place[0], *place[2:])
    return None


@pytest.mark.parametrize("end_time", ["none", "inf"])
@pytest.mark.parametrize("form", ["log", "csv", "stamps", "keys"])
def test_it_is_that_of_all_verdicts(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, end_time: str
) -> None:
    rules = tmp_path / "rules.mtl"
    declared = [] if form == "log" else TABLE_ATOMS
    rules.write_text("\n".join([*declared, *(KEYED if form == "keys" else RULES), ""]))
    given = ["--output-format", "jsonl", *(["--end-time", "inf"] if end_time == "inf" else [])]
    given += ["--time-points", "stamp"] if form == "stamps" else []
    outcomes: Counter[str | None] = Counter()
    for seed in range(24 if form == "log" else 16):
        log = write_log(tmp_path, seed, "log" if form == "log" else "csv")
        done = command(*given, "--verdicts", "all", "--resolve", rules, log)
        rows = [json.loads(line) for line in done.output.splitlines()]
        wanted = expected(rows, seed, keyed=form == "keys", by_stamp=form == "stamps")
        first = command(*given, "--verdicts", "first", rules, log)
        found = [json.loads(line) for line in first.output.splitlines()]
        assert {(row["policy"], row["time"], row["offset"]) for row in found} == (
            set() if wanted is None else {wanted}
        ), seed
        # all valuations of the time-point
        policy = None if wanted is None else wanted[0]
        of_point = [row for row in rows if (row["policy"], row["time"], row["offset"]) == wanted]
        assert found == of_point if policy in WITH else len(found) == (policy is not None)
        is_violated = any(not row["verdict"] for row in rows if row["policy"] != "soon")
        assert first.status == is_violated
        assert ("is undecided at the end of the log" in first.errors) == (
            is_violated and wanted is None
        )
        with monkeypatch.context() as small:
            small.setattr(checking_text_logs, "_BLOCK_BYTES", 17)
            again = command(*given, "--verdicts", "first", rules, log)
        assert (again.output, again.status) == (first.output, first.status)
        if form != "log":
            table = csv.read_csv(log)
            single = table.to_batches(max_chunksize=1)
            for tables in str(log), pa.RecordBatchReader.from_batches(table.schema, single):
                check = mtlmon.check(
                    rules.read_text(),
                    tables,
                    verdicts="first",
                    end_time="inf" if end_time == "inf" else None,
                    time_points="stamp" if form == "stamps" else "row",
                )
                assert check.to_arrow().to_pylist() == found
        outcomes[policy] += 1
    for policies in {None}, {*WITHOUT}, {*WITH}:
        assert policies & {*outcomes}


def test_blocks_change_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither does what comes behind the first violation, in the same block or not."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    made = LogCheck.__init__

    def in_small_slices(self: LogCheck, *arguments: object, **named: object) -> None:
        made(self, *arguments, **named)  # type: ignore[arg-type]
        self.slice_events = 1

    severe = "policy known severity high: p(x) AND noise IMPLIES ONCE[0,1] q(x)"
    rules.write_text("\n".join([severe, "policy quiet severity low: NOT ask", ""]))
    log.write_text("@1 q(a)\n@2 p(a) noise\n@3 ask\n@4 p(b) noise\n@5 ask\n")
    given = ["--verdicts", "first", "--fail-on", "high", rules, log]
    done = command(*given)
    assert (done.status, done.output) == (0, "quiet\t3:0 false\n")
    monkeypatch.setattr(checking_text_logs, "_BLOCK_BYTES", 9)
    monkeypatch.setattr(LogCheck, "__init__", in_small_slices)
    assert command(*given) == done
    log.write_text("@1 q(a)\n@2 p(a) noise\n@4 p(b) noise\n@5 ask\n")
    done = command(*given)
    assert (done.status, done.output) == (1, "known\t4:0 false (x=b)\n")


def test_policies_without_variables_come_first_at_a_time_point(
    command: Command, tmp_path: Path
) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("\n".join(["policy known: p(x) IMPLIES q(x)", RULES[1], ""]))
    log.write_text("@1 ask p(a)\n@2 p(b)\n@9 p(c)\n")
    assert command("--verdicts", "first", rules, log).output == "answered\t1:0 false\n"
    log.write_text("@1 ask p(a)\n@2 p(b)\n@3 reply\n@9 ask\n")
    assert command("--verdicts", "first", rules, log).output == "known\t1:0 false (x=a)\n"


def test_pieces_of_a_block_are_seen_one_after_another(command: Command, tmp_path: Path) -> None:
    """Where there are many ticks between rows, those with variables have seen all rows before."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    ticks = "policy alive on every 1: count[0,2](ask) < 9"
    rules.write_text(f"{ticks}\npolicy known: p(x) IMPLIES q(x)\npolicy quiet: NOT ask\n")
    log.write_text("@1 q(a)\n@200000 ask p(a)\n")
    assert command("--verdicts", "first", rules, log).output == "quiet\t200000:0 false\n"


def test_a_lone_find_is_no_violation(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text("find some: p(x)\npolicy quiet: NOT ask\n")
    log.write_text("@1 p(a)\n@2 ask\n")
    assert command("--verdicts", "first", rules, log).output == "quiet\t2:0 false\n"
    log.write_text("@1 p(a)\n@2 p(b)\n")
    done = command("--verdicts", "first", rules, log)
    assert (done.status, done.output) == (0, "")


def test_only_the_first_is_explained_and_reported(command: Command, tmp_path: Path) -> None:
    rules, log, page = (tmp_path / name for name in ("rules.mtl", "log", "report.html"))
    rules.write_text("policy known: p(x) IMPLIES q(x)\npolicy quiet: NOT ask\n")
    for line, wanted, other in [
        ("@1 p(a)\n@2 ask", "x = a", "policy quiet"),
        ("@1 ask\n@2 p(a)", "policy quiet", "x = a"),
    ]:
        log.write_text(f"{line}\n")
        done = command("--verdicts", "first", "--explain", "--report", page, rules, log)
        assert wanted in done.errors
        assert other not in done.errors
        assert "there are more" not in done.errors
        assert page.read_text()


def texts_of(log: Path) -> list[bytes]:
    """The log up to each of its rows, and up to some place before its end."""
    lines = log.read_bytes().splitlines(keepends=True)
    is_text = log.suffix == ".log"
    whole = [b"".join(lines[:count]) for count in range(1 if is_text else 2, len(lines) + 1)]
    return [*whole, *(one[: -2 if is_text else -1] for one in whole)]


@pytest.mark.parametrize("form", ["log", "rows", "csv", "stamps", "keys"])
def test_a_run_goes_on_from_a_checkpoint(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Wherever a log ended before, also behind the first violation of one kind of policies."""
    is_text = form in {"log", "rows"}
    rules = tmp_path / "rules.mtl"
    declared = [] if is_text else TABLE_ATOMS
    rules.write_text("\n".join([*declared, *(KEYED if form == "keys" else RULES), ""]))
    given = ["--verdicts", "first"]
    given += ["--rows", "--explain"] if form == "rows" else ["--output-format", "jsonl"]
    given += ["--time-points", "stamp"] if form == "stamps" else []
    resumed = [*given, "--checkpoint", tmp_path / "kept", "--checkpoint-every", "1", "--resume"]
    resumed += ["-o", tmp_path / "out"]
    monkeypatch.setattr(checking_text_logs, "_BLOCK_BYTES", 17)
    violated: Counter[bool] = Counter()
    for seed in range(10):
        log = write_log(tmp_path, seed, "log" if is_text else "csv")
        expected = command(*given, rules, log)
        violated[expected.output != ""] += 1
        whole = log.read_bytes()
        for text in random.Random(seed).sample(texts_of(log), 3):
            (tmp_path / "kept").unlink(missing_ok=True)
            for part in text, whole:
                log.write_bytes(part)
                done = command(*resumed, rules, log)
                assert done.status in (0, 1), done.errors
            assert (tmp_path / "out").read_text() == expected.output
            assert (done.status, done.errors) == (expected.status, expected.errors)
    assert violated[True]
    assert violated[False]
