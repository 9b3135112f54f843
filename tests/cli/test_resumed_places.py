"""A resumed run goes on at its place in a file, and reads nothing before it again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.kills import without_speed
from tests.doors import ReadPart, formats_rows, run_read_parts
from tests.doors import checking_text_logs as text_logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.process import Ended
    from tests.doors import LogMark

PLAIN = """\
policy answered: request IMPLIES EVENTUALLY[0,9] answer
policy calm: NOT ((ONCE[0,3] request) AND answer)
policy late: answer IMPLIES ONCE[0,5] request
"""
VARIABLES = """\
policy known: FORALL u. answered(u) IMPLIES ONCE[0,9] asked(u)
"""
OF_TABLES = """\
atom asked(user) = event = "asked"
atom answered(user) = event = "answered"
policy known: FORALL u. answered(u) IMPLIES ONCE[0,9] asked(u)
"""
SUMMARY = ["--summary", "--resolve"]
SKIPPING = ["--on-error", "skip", *SUMMARY]

# policies, format of the log, options; whether some lines cannot be read
RUNS: dict[str, tuple[str, str, list[str], bool]] = {
    "formula": ("request IMPLIES EVENTUALLY[0,9] answer", "text", SKIPPING, True),
    "first": ("EVENTUALLY[0,2] request", "text", ["--verdicts", "first"], False),
    "policies": (PLAIN, "text", SKIPPING, True),
    "rows": (PLAIN, "text", ["--rows", *SUMMARY], False),
    "in json": (PLAIN, "text", ["--output-format", "jsonl", "--explain"], False),
    "waiting": (PLAIN, "text", ["--wait", "3", *SKIPPING], True),
    "late": (PLAIN, "text", ["--lateness", "9", "--end-time", "last"], False),
    "variables": (VARIABLES, "text", ["--on-error", "skip", "--summary"], True),
    "mixed": (PLAIN + VARIABLES, "text", ["--summary"], False),
    "streams": (
        PLAIN + "stream many = count[0,9](request)\nstream none = count[0,9](answer)\n"
        "atom busy = many > 2\npolicy some: busy IMPLIES ONCE[0,9] answer\n",
        "text",
        SUMMARY,
        False,
    ),
    "csv": (PLAIN, "csv", SKIPPING, True),
    "keys": (PLAIN, "csv", ["--key", "user", "--rows", *SKIPPING], True),
    "columns": (
        PLAIN + "atom large = amount > 500\npolicy small: large IMPLIES EVENTUALLY[0,4] answer\n",
        "csv",
        ["--key", "user", "--output-format", "jsonl", *SKIPPING],
        True,
    ),
    "table of variables": (OF_TABLES, "csv", ["--on-error", "skip", "--summary"], True),
    "mixed table": (PLAIN + OF_TABLES, "csv", ["--summary"], False),
    "json": (PLAIN, "jsonl", ["--key", "user", *SKIPPING], True),
    "json with types": (
        PLAIN + "atom large = amount > 500\npolicy small: large IMPLIES EVENTUALLY[0,4] answer\n",
        "jsonl",
        ["--rows", *SKIPPING],
        True,
    ),
    "json of variables": (OF_TABLES, "jsonl", ["--on-error", "skip", "--summary"], True),
    "lines": (
        PLAIN.replace("request", "asks").replace("answer", "tells")
        + 'atom asks = what = "asked"\natom tells = what = "answered"\n',
        "lines",
        ["--pattern", r"^(?P<ts>\d+) (?P<what>\S+) (?P<user>\S+)", "--key", "user", *SUMMARY],
        True,
    ),
}


def lines_of(source: random.Random, run: str) -> list[str]:
    """The lines of a log, of which some cannot be read; a table begins with a header."""
    policies, form, _, has_bad = RUNS[run]
    has_variables = "FORALL" in policies
    lines = []
    time = 0
    for number in range(300):
        time += source.choice((0, 0, 1, 2))
        user = source.choice(("ann", "bob", "\u00e9va"))
        request, answer = source.random() < 0.3, source.random() < 0.3
        # columns become floats in the middle of the log
        amount = source.randint(0, 999) if number < 150 else source.random() * 999
        if has_bad and source.random() < 0.05:
            lines.append("nothing")
        if form == "text":
            atoms = ["request"] * request + ["answer"] * answer
            if has_variables:
                marks = " ".join(atoms) if "request" in policies else ""
                asked = f"asked({user})" if request else ""
                answered = f"answered({user})" if answer else ""
                lines.append(f"@{time} {marks} {asked} {answered}")
            else:
                early = source.randint(0, 2) if run in ("waiting", "late") else 0
                lines.append(" ".join((f"@{max(0, time - early)}", *atoms)))
        elif form == "csv":
            event = source.choice(("request", "answer", "asked", "answered"))
            lines.append(
                f"{time},{event},{str(request).lower()},{str(answer).lower()},{user},{amount}"
            )
        elif form == "lines":
            what = source.choice(("asked", "answered"))
            lines.append(f"{time} {what} {user}")
        else:
            event = source.choice(("request", "answer", "asked", "answered"))
            lines.append(
                f'{{"event": "{event}", "ts": {time}, "request": {str(request).lower()}, '
                f'"answer": {str(answer).lower()}, "user": "{user}", "amount": {amount}}}'
            )
    return [f"{line}\n" for line in lines]


READ_AGAIN = {"waiting", "streams"}
"""The runs whose rows wait, or whose values may depend on other rows."""

HEADER = "ts,event,request,answer,user,amount\n"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and edges of some lines, so that small logs have many of them."""
    monkeypatch.setattr(text_logs, "_BLOCK_BYTES", 300)
    monkeypatch.setattr(formats_rows, "FIRST_BLOCK_BYTES", 400)
    monkeypatch.setattr(formats_rows, "BLOCK_BYTES", 300)
    monkeypatch.setattr(run_read_parts, "HEAD_BYTES", 128)
    monkeypatch.setattr(run_read_parts, "TAIL_BYTES", 128)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("run", RUNS)
def test_a_run_that_is_cut_anywhere(
    command: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    policies, form, options, _ = RUNS[run]
    seek = ReadPart.seek
    sought = []

    def noted(self: ReadPart, mark: LogMark) -> bool:
        is_sought = seek(self, mark)
        if is_sought and mark.edges is not None:
            sought.append(mark.edges.size)
        return is_sought

    monkeypatch.setattr(ReadPart, "seek", noted)
    source = random.Random(run)
    rules, log, output, checkpoint, whole = (
        tmp_path / name for name in ("rules.mtl", "log", "output", "checkpoint", "whole")
    )
    rules.write_text(policies)
    lines = lines_of(source, run)
    head = HEADER if form == "csv" else ""
    given = [rules, *options]
    if form not in ("text", "lines"):
        given += ["--format", form]
    log.write_text(head + "".join(lines))
    expected = command(*given, "-o", whole, log)
    assert expected.status in (0, 1), expected.errors
    resumed = [*given, "-o", output, "--checkpoint", checkpoint, "--resume", log]
    cut = 0
    while cut < len(lines):
        cut += source.choice((1, 2, 7, 20, 40))
        log.write_text(head + "".join(lines[:cut]))
        every = source.choice(("1", "10", "1000"))
        done = command(*resumed, "--checkpoint-every", every)
        assert done.status in (0, 1), done.errors

    def written(path: Path) -> list[str]:
        if run == "late":
            # which revisions come before the last ones depends on what is read at once
            return sorted(command("latest", path).output.splitlines())
        return path.read_text().splitlines()

    assert bool(sought) == (run not in READ_AGAIN)
    assert sought == sorted(sought)
    if sought and run != "first":
        assert sought[-1] > 0.8 * log.stat().st_size
    assert written(output) == written(whole)
    assert done.status == expected.status
    assert without_speed(done.errors) == without_speed(expected.errors)
    # nothing is left to do
    assert command(*resumed).status == expected.status
    assert written(output) == written(whole)


# ---- what is compared, and what is not read -----------------------------------------------------

# what is not compared lies between the first 64 and the last 8 KiB, and not in the last block
LONG = 300_000


def long_log(form: str) -> bytes:
    if form == "csv":
        return b"ts,p,q\n" + b"".join(b"%d,true,%d\n" % (n, n % 2) for n in range(LONG))
    return b"".join(b"@%d p%s\n" % (n, b" q" if n % 2 else b"") for n in range(LONG))


# whether the log may be cut at any line that has been read, and which options there are
WAYS: dict[str, tuple[str, list[str]]] = {
    "text": ("text", []),
    "several": ("text", ["--explain"]),
    "variables": ("text", ["-e", "r(x) IMPLIES ONCE s(x)"]),
    "csv": ("csv", []),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_middle_is_not_read_again(
    command: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(formats_rows, "FIRST_BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(formats_rows, "BLOCK_BYTES", 1 << 17)
    form, options = WAYS[way]
    log, output, checkpoint = (tmp_path / name for name in ("log", "output", "checkpoint"))
    whole = long_log(form)
    more = b"%d,true,\n" % LONG if form == "csv" else b"@%d p\n" % LONG
    log.write_bytes(whole)
    given = [] if "-e" in options else ["-e", "p IMPLIES EVENTUALLY[0,1] q"]
    resumed = [
        *given, *options, "--format", form, "--verdicts", "false", "-o", output,
        "--checkpoint", checkpoint, "--resume", log,
    ]  # fmt: skip
    assert command(*resumed).status in (0, 1)
    verdicts, kept = output.read_bytes(), checkpoint.read_bytes()

    def resumed_on(content: bytes) -> Ended:
        output.write_bytes(verdicts)
        checkpoint.write_bytes(kept)
        log.write_bytes(content)
        return command(*resumed)

    def changed(place: int) -> bytes:
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]

    # a line that nobody could read
    middle = len(whole) // 3
    done = resumed_on(whole[:middle] + b"\xff" * 9 + whole[middle + 9 :] + more)
    assert done.status in (0, 1), done.errors
    # a copy is as good
    log.unlink()
    assert resumed_on(whole + more).status in (0, 1)
    for content, why in [
        (changed(20), "differ from those that were read"),
        (changed(60_000), "differ from those that were read"),
        (whole[: whole.index(b"\n", len(whole) - 40) + 1], "within the"),
        (whole[: len(whole) // 2], "within the"),
        (b"", "within the"),
    ]:
        done = resumed_on(content + (more if len(content) == len(whole) else b""))
        assert done.status == 2, why
        assert why in done.errors
        assert done.errors.count("\n") == 1
        assert (output.read_bytes(), checkpoint.read_bytes()) == (verdicts, kept)
    if form == "text":
        place = whole.rindex(b" p", 0, len(whole) - 2_000)
        done = resumed_on(whole[:place] + b" r" + whole[place + 2 :] + more)
        assert (done.status, "differ from those that were read" in done.errors) == (2, True)
