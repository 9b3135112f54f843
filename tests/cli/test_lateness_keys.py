"""Late rows of policies with variables for each key: what the changes leave."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import read_table
from tests.cli.test_lateness_relations import latest
from tests.cli.test_lateness_report import text_of
from tests.sampling import thinned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.process import Ended

    Command = Callable[..., Ended]

RULES = """
unit s
key ip
atom read(f) = what = "read"
atom open(f) = what = "open"
policy again: read(f) IMPLIES PREVIOUS open(f)
policy owned: read(f) IMPLIES (NOT read(f) SINCE open(f))
policy kept: read(f) IMPLIES (read(f) SINCE open(f))
policy followed: open(f) IMPLIES NEXT[0,3] read(f)
policy whole per none: read(f) IMPLIES PREVIOUS open(f)
"""


def rows_of(seed: int) -> list[str]:
    """Random rows, some of which come late."""
    source = random.Random(seed)
    latest, rows = 0, []
    for _ in range(source.randint(1, 14)):
        latest += source.choice([0, 0, 1, 2])
        stamp = max(0, latest - source.choice([0, 0, 0, 1, 2, 3]))
        rows.append(f"{stamp},{source.choice('ab')},{source.choice(['open', 'read'])},"
                    f"{source.choice('xy')}")  # fmt: skip
    return rows


def write(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(["ts,ip,what,f", *rows, ""]))
    return path


def latest_lines(command: Command, folder: Path, output: str) -> list[str]:
    """The lines of the answers that a changelog leaves."""
    changes = folder / "changes"
    changes.write_text(output)
    lines = command("latest", changes).output.splitlines()
    return sorted(line for line in lines if not line.startswith("!@"))


BESIDE = 'atom reads = what = "read"\npolicy quiet: reads IMPLIES PREVIOUS NOT reads\n'
# with a key that no policy with variables has, which have one that no other policy has
OTHER_KEY = BESIDE.replace("quiet:", "quiet per f:")
NO_KEY = BESIDE.replace("quiet:", "quiet per none:")
MORE = pytest.mark.parametrize(
    "more", ["", BESIDE, OTHER_KEY, NO_KEY], ids=["alone", "beside", "other", "none"]
)


@MORE
@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--verdicts", "all"],
        ["--time-points", "stamp"],
        ["--verdicts", "all", "--time-points", "stamp"],
    ],
)
def test_the_latest_answers_are_those_of_the_sorted_log(
    command: Command, tmp_path: Path, given: list[str], more: str
) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(RULES + more)
    given = [*given, "--end-time", "inf"]
    revised = 0
    for seed in range(20):
        rows = rows_of(seed)
        places = sorted(random.Random(seed).sample(range(len(rows) + 1), 1)) * 2
        parts = [rows[: places[0]], rows[places[0] :]]
        logs = [write(tmp_path / f"{k}.csv", part) for k, part in enumerate(parts) if part]
        late = command(*given, "--lateness", "9s", rules, *logs)
        assert not late.errors
        revised += "!x" in late.output
        whole = write(tmp_path / "whole.csv", rows)
        expected = command(*given, "--sort", rules, whole).output.splitlines()
        assert latest_lines(command, tmp_path, late.output) == sorted(expected)
        # a run that goes on, wherever the log ended
        kept, out, log = tmp_path / "kept", tmp_path / "out", tmp_path / "log.csv"
        kept.unlink(missing_ok=True)
        for part in (parts[0], rows):
            write(log, part)
            resumed = [*given, "--lateness", "9s", "--checkpoint", kept, "--resume", "-o", out]
            assert command(*resumed, rules, log).status in (0, 1)
        assert latest_lines(command, tmp_path, out.read_text()) == sorted(expected)
    assert revised


@MORE
@pytest.mark.parametrize("by", ["row", "stamp"])
def test_explanations_and_reports_are_those_of_the_sorted_log(
    command: Command, tmp_path: Path, by: str, more: str
) -> None:
    rules, log, page = tmp_path / "rules.mtl", tmp_path / "log.csv", tmp_path / "page.html"
    rules.write_text(RULES + more)
    for seed in range(12):
        write(log, rows_of(seed))
        given = ["--verdicts", "none", "--end-time", "inf", "--time-points", by, "--explain"]
        given += [str(rules), str(log)]
        late = command("--lateness", "9s", "--report", page, *given)
        found = emitted(page)
        ordered = command("--sort", "--report", page, *given)
        assert (late.status, late.errors) == (ordered.status, ordered.errors)
        assert found == emitted(page)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_tables_have_the_columns_of_all_keys(command: Command, tmp_path: Path, form: str) -> None:
    rules, out = tmp_path / "rules.mtl", tmp_path / "out"
    rules.write_text(RULES + OTHER_KEY)
    given = ["--verdicts", "all", "--resolve", "--end-time", "inf", "--output-format", form]
    with_variables = {"again", "owned", "kept", "followed", "whole"}
    for seed in range(6):
        log = write(tmp_path / "log.csv", rows_of(seed))
        assert command("--lateness", "9s", *given, "-o", out, rules, log).status in (0, 1)
        columns = read_table(out, form).column_names
        found = latest(out, form, with_variables, key="key_f")
        assert command("--sort", *given, "-o", out, rules, log).status in (0, 1)
        wanted = read_table(out, form)
        assert columns == [*wanted.column_names, "op", "revision", "final"]
        assert {"ip", "key_f", "f"} <= {*columns}
        rows = [tuple(row.values()) for row in wanted.to_pylist()]
        assert list(map(repr, found)) == sorted(map(repr, rows))


def emitted(page: Path) -> list[str]:
    """What a report says of each policy: counts, violations over time, and the first of them."""
    return re.findall(
        r"(?:false|true|undecided|triggered|violating valuations) [\d,]+"
        r"|Time Violations [\d ]+|\d+:\d+ (?:ip = \w, )?f = \w",
        text_of(page),
    )


def test_rows_that_are_taken_back(command: Command, tmp_path: Path) -> None:
    """Once ann's open is taken back, her read has no previous row, whatever bob has done."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(RULES.split("policy owned", maxsplit=1)[0])
    rows = ["1,1,+,ann,open,x", "2,2,+,bob,open,x", "3,3,+,ann,read,x", "1,1,-,ann,open,x"]
    log.write_text("\n".join(["ts,id,op,ip,what,f", *rows, ""]))
    done = command("--lateness", "9s", "--op", "op", "--id", "id", rules, log)
    assert "again\tann\t3:0 false (f=x)" in latest_lines(command, tmp_path, done.output)


def test_a_row_of_another_key_is_not_taken_back(command: Command, tmp_path: Path) -> None:
    """Rows that no policy reads differ by their keys at least."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(
        f"{RULES.split('policy', maxsplit=1)[0]}policy p: read(f) IMPLIES ONCE open(f)\n"
    )
    log.write_text("ts,op,ip,what,f\n1,+,ann,walk,x\n1,+,bob,walk,x\n1,-,ann,walk,x\n")
    done = command("--lateness", "9s", "--op", "op", "--verdicts", "all", rules, log)
    assert latest_lines(command, tmp_path, done.output) == ["p\tbob\t1:0 true"]


@pytest.mark.parametrize("more", ["", BESIDE], ids=["alone", "beside"])
def test_time_points_that_lose_rows_of_keys(command: Command, tmp_path: Path, more: str) -> None:
    """All rows of a time-stamp are one time-point, which a key has as long as one row is its."""
    rules, log, out, kept = (tmp_path / name for name in ("rules.mtl", "log.csv", "out", "kept"))
    rules.write_text(RULES + more)
    given = ["--verdicts", "all", "--time-points", "stamp", *(["--resolve"] if more else [])]
    for seed in thinned(range(20)):
        source = random.Random(seed)
        rows: list[str] = []
        left: dict[int, str] = {}
        for number in range(source.randint(5, 25)):
            stamp, ip, f = source.randrange(8), source.choice("ab"), source.choice("xy")
            row = f"{stamp},{ip},{source.choice(['open', 'read'])},{f}"
            if left and source.random() < 0.35:
                gone = source.choice([*left])
                rows.append(f"{left.pop(gone)},{gone},-")
                continue
            left[number] = row
            rows.append(f"{row},{number},+")
        kept.unlink(missing_ok=True)
        for count in sorted({source.randrange(1, len(rows)), len(rows)}):
            log.write_text("\n".join(["ts,ip,what,f,id,op", *rows[:count], ""]))
            resumed = [*given, "--checkpoint", kept, "--resume", "-o", out]
            done = command("--lateness", "9s", "--op", "op", "--id", "id", *resumed, rules, log)
            assert done.status in (0, 1), done.errors
        expected = command(*given, "--sort", rules, write(log, [*left.values()]))
        # offsets of other policies are not given again
        found, wanted = (
            [line for line in lines if not line.startswith("quiet")]
            for lines in (
                latest_lines(command, tmp_path, out.read_text()),
                sorted(expected.output.splitlines()),
            )
        )
        assert found == wanted


def test_a_late_row_brings_a_key_to_a_time_point(tmp_path: Path) -> None:
    """The policy holds at 5 as before, but now bob has a time-point there, too, and then not."""
    rules = tmp_path / "rules.mtl"
    rules.write_text(RULES.partition("policy owned")[0])
    options = ["--lateness", "9s", "--verdicts", "all", "--time-points", "stamp"]
    with Live(*options, "--op", "op", "--id", "id", "--format", "csv", str(rules)) as live:
        live.send("ts,ip,what,f,id,op\n")
        for text, lines in (
            ("5,ann,open,x,1,+\n", ["again\tann\t5:0 true"]),
            ("5,bob,open,x,2,+\n", ["again\tbob\t5:0 true"]),
            ("5,bob,read,x,3,+\n", ["again\tbob\t!x5:0 true", "again\tbob\t5:0 false (f=x)"]),
            ("5,bob,read,x,3,-\n", ["again\tbob\t!x5:0 false (f=x)", "again\tbob\t!5:0 true"]),
            ("5,bob,open,x,2,-\n", ["again\tbob\t!x5:0 true"]),
        ):
            live.send(text)
            assert sorted(str(live.read_line()) for _ in lines) == sorted(lines)
        assert live.end().status == 0


def test_what_is_refused(command: Command, tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text(RULES)
    log = write(tmp_path / "log.csv", rows_of(1))
    done = command("--lateness", "9s", "--clock", "key", rules, log)
    assert done.status == 2
    assert "so the log has one time" in done.errors
