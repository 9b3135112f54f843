"""Late and corrected rows for files that have policies with variables and others: --lateness."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live, mtlmon
from tests.cli.test_lateness import Command, read_table
from tests.cli.test_lateness_conditions import TABLE as DEPENDING
from tests.cli.test_lateness_conditions import rows_of as conditional_rows
from tests.cli.test_lateness_kills import compare_with_kills
from tests.cli.test_lateness_relations import TABLE, admitted, latest, make_log
from tests.cli.test_lateness_report import text_of
from tests.cli.test_mixed_first import KEYED, RULES, rows_of
from tests.cli.test_mixed_policies import TABLE_ATOMS

POLICIES = {
    "log": """\
policy busy: count[0,9]() < 7
policy soon: quick IMPLIES EVENTUALLY[0,6] slow
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,9] approve(f)
find both: publish(u, f) AND (ONCE[1,20] publish(v, f)) AND NOT u = v
""",
    "csv": f"""\
{TABLE}
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,9] approve(f)
policy busy per user: count[0,9]() < 4
policy soon: what = "approve" IMPLIES EVENTUALLY[0,6] what = "publish"
policy steady per user on rows where file = "f1": PREVIOUS[0,5] what = "approve"
""",
}


WITH_VARIABLES = {"approved", "both", "one", "two"}


def make_mixed_log(path: Path, source: random.Random, count: int) -> list[str]:
    """Write a log of late rows; return the lines of events, as they come."""
    lines = make_log(path, source, count)
    if path.suffix == ".log":
        lines = [f"{line} {source.choice(['quick', 'slow', ''])}".strip() for line in lines]
        path.write_text("\n".join([*lines, ""]))
    return lines


@pytest.mark.parametrize(("suffix", "form"), [("log", "text"), ("csv", "csv"), ("csv", "text")])
def test_latest_lines_survive_kills(suffix: str, form: str, tmp_path: Path) -> None:
    source = random.Random(suffix)
    log, file = tmp_path / f"log.{suffix}", tmp_path / "p.mtl"
    output, late = tmp_path / "out", tmp_path / "late"
    file.write_text(POLICIES[suffix])
    lines = make_mixed_log(log, source, 500)
    options = ["--resolve", "--verdicts", "all"] if form == "csv" else []
    arguments = ["--lateness", "30", "--late", str(late), "--output-format", form, "--wait", "2"]
    arguments += [*options, "-o", str(output), str(file)]
    found, _ = compare_with_kills(
        arguments, log, output, late, lambda path: latest(path, form, WITH_VARIABLES)
    )
    header = ["ts,what,user,file"] if suffix == "csv" else []
    log.write_text("\n".join([*header, *admitted(lines, 30), ""]))
    wanted = mtlmon(*options, "--output-format", form, "-o", str(output), str(file), str(log))
    assert wanted.status == 1
    if form == "text":
        assert found == sorted(output.read_text().splitlines())
    else:
        rows = read_table(output, form).to_pylist()
        assert found == sorted((tuple(row.values()) for row in rows), key=repr)


def test_the_changes_of_each_line(tmp_path: Path) -> None:
    """Of policies without variables first, and a bound that holds for all of them."""
    file = tmp_path / "p.mtl"
    file.write_text(POLICIES["csv"])
    options = ["--lateness", "60", "--op", "op", "--id", "id", "--rows", "--verdicts", "false"]
    with Live(*options, "--format", "csv", str(file)) as live:
        live.send("ts,op,id,what,user,file\n")
        for text, lines in (
            ("100,+,1,approve,max,f2\n", ["!@34"]),
            (
                "105,+,2,publish,ann,f1\n",
                [
                    "steady\tann\t105:0 false\t<stdin>:3",
                    "approved\t\t105:0 false (u=ann, f=f1)\t<stdin>:3",
                ],
            ),
            (
                "108,+,3,approve,max,f1\n",
                ["steady\tmax\t108:0 false\t<stdin>:4"],
            ),
            (
                "98,+,3,approve,max,f1\n",
                [
                    "soon\t\t98:0 false\t<stdin>:5",
                    "steady\tmax\t!x108:0\t<stdin>:4",
                    "steady\tmax\t98:0 false\t<stdin>:5",
                    "approved\t\t!x105:0 false (u=ann, f=f1)\t<stdin>:3",
                ],
            ),
            (
                "0,-,3,,max,\n",
                [
                    "soon\t\t!x98:0\t<stdin>:5",
                    "steady\tmax\t!x98:0\t<stdin>:5",
                    "approved\t\t!105:0 false (u=ann, f=f1)\t<stdin>:3",
                ],
            ),
        ):
            live.send(text)
            for line in lines:
                while (found := str(live.read_line())).startswith("!@") and line[:2] != "!@":
                    pass
                assert found == line
        assert live.end().status == 1


def test_rows_that_are_refused_are_written_once(tmp_path: Path, command: Command) -> None:
    file, log, late = tmp_path / "p.mtl", tmp_path / "log.csv", tmp_path / "late"
    file.write_text(POLICIES["csv"])
    log.write_text("ts,what,user,file\n100,approve,max,f1\n50,publish,ann,f1\n")
    done = command("--lateness", 9, "--late", late, "--summary", file, log)
    assert late.read_text() == "ts,what,user,file\n50,publish,ann,f1\n"
    assert "1 row came too late" in done.errors
    assert done.status == 1


@pytest.mark.parametrize("later", ["@82 t(a)\n", "@82 t(a)\n@80\n", ""])
def test_a_run_that_goes_on_knows_the_largest_time(
    later: str, tmp_path: Path, command: Command
) -> None:
    """The ticks before it are over, also where all lines behind the checkpoint are late."""
    file, log, output = (tmp_path / name for name in ("p.mtl", "log", "out"))
    file.write_text(
        "policy ticks on every 4: ALWAYS[0,8] (count[0,6](p) < 3)\n"
        "policy known: FORALL k. s(k) IMPLIES ONCE[0,6] t(k)\n"
    )
    options = ["--lateness", 20, "--verdicts", "all", file, log]
    kept = ["--checkpoint", tmp_path / "saved", "--resume", "-o", output]
    for part in ("", "@81\n", f"@81\n{later}"):
        log.write_text(f"@64 p\n@88 s(a)\n{part}")
        assert command(*kept, *options).status in (0, 1)
    wanted = command(*options).output.splitlines()
    assert "ticks\t76:0 true" in wanted
    assert latest(output, "text") == sorted(line for line in wanted if "!" not in line)


def late_lines(seed: int, *, is_table: bool) -> list[str]:
    """Lines of a log whose violations are rare, some of which come late."""
    source = random.Random(seed)
    rows = [row for part in range(8) for row in rows_of(seed + 100 * part)]
    now, lines = 20, []
    for _, kind, value, atoms in rows:
        now += source.choice([0, 0, 1, 3])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        if is_table:
            held = (str(name in atoms).lower() for name in ("ask", "reply", "noise"))
            lines.append(",".join([str(stamp), kind, value, *held]) + "\n")
        else:
            lines.append(f"@{stamp} {kind}({value}) {' '.join(atoms)}\n")
    return lines


@pytest.mark.parametrize("form", ["log", "csv", "stamps", "keys"])
def test_the_first_violation_is_that_of_rows_that_wait(
    form: str, tmp_path: Path, command: Command
) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / ("l.log" if form == "log" else "l.csv")
    saved, output = tmp_path / "saved", tmp_path / "out"
    declared = [] if form == "log" else TABLE_ATOMS
    rules.write_text("\n".join([*declared, *(KEYED if form == "keys" else RULES), ""]))
    found = set()
    for seed in range(10):
        lines = late_lines(seed, is_table=form != "log")
        lines = lines[: 6 if seed % 3 == 0 else 40]
        header = [] if form == "log" else ["ts,kind,x,ask,reply,noise\n"]
        log.write_text("".join(header + lines))
        options = ["--verdicts", "first", *(["--end-time", "inf"] if seed % 2 else [])]
        options += ["--time-points", "stamp"] if form == "stamps" else []
        wanted = command("--wait", 6, *options, rules, log)
        done = command("--lateness", 6, *options, rules, log)
        assert (done.status, done.output) == (wanted.status, wanted.output), seed
        is_open = "is undecided at the end" in wanted.errors
        assert ("is undecided at the end" in done.errors) == is_open
        found.add((wanted.output.split("\t")[0], is_open))
        # row by row, which begins again in between
        kept = ["--checkpoint", saved, "--resume", "-o", output]
        for count in (len(lines) // 3, len(lines) // 2, len(lines)):
            log.write_text("".join(header + lines[:count]))
            last = [] if count == len(lines) or "inf" not in options else ["--end-time", "0"]
            done = command("--lateness", 6, *options, *last, *kept, rules, log)
        assert (done.status, output.read_text()) == (wanted.status, wanted.output), seed
        saved.unlink()
        output.unlink()
    assert len(found) > 2


CONDITIONS = f"""\
{DEPENDING}
policy three per user: count[0,9](n > 3) < 2
policy four: many > 1 IMPLIES EVENTUALLY[0,6] what = "seen"
policy five on every 5: count[0,9](n > 2) < 4
policy six per user on rows where total > 9: PREVIOUS what = "seen"
"""


@pytest.mark.parametrize("kind", ["plain", "stamp", "rows", "ids"])
def test_atoms_with_variables_depend_on_other_rows(
    kind: str, tmp_path: Path, command: Command
) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    head = "ts,op,id,what,user,file,n\n"
    file.write_text(CONDITIONS)
    options = ["--verdicts", "all", "--resolve"]
    options += ["--time-points", "stamp"] if kind == "stamp" else []
    options += ["--rows", "--output-format", "jsonl"] if kind == "rows" else []
    form = "jsonl" if kind == "rows" else "text"
    for seed in range(2):
        source = random.Random(f"{kind} {seed}")
        rows = conditional_rows("csv", source, 50)
        kept = rows
        if kind == "ids":
            removed = set(source.sample(range(40), 12))
            # the rows of one time-stamp have names of their own
            rows = [f"{100 + k},{row.split(',', 1)[1]}" for k, row in enumerate(rows)]
            kept = [row for k, row in enumerate(rows) if k not in removed]
            # a retraction goes to the key of its row
            again = [",".join(["0", "-", *row.split(",")[2:]]) for row in rows if row not in kept]
            rows = rows[:42] + again + rows[42:]
        saved, output = tmp_path / f"saved{seed}", tmp_path / f"out{seed}"
        late = ["--lateness", 60 if kind == "ids" else 7, *options]
        late += ["--op", "op", "--id", "id"] if kind == "ids" else []
        for count in (5, 30, len(rows)):
            log.write_text(head + "".join(rows[:count]))
            going_on = ["--checkpoint", saved, "--resume", "-o", output]
            done = command(*late, *going_on, file, log)
            assert done.status < 2, done.errors
        log.write_text(head + "".join(kept))
        other = tmp_path / f"other{seed}"
        wanted = command("--wait", 7, *options, "-o", other, file, log)
        assert done.status == wanted.status
        if kind == "rows":
            table = read_table(other, form).to_pylist()
            assert latest(output, form, WITH_VARIABLES) == sorted(
                (tuple(row.values()) for row in table), key=repr
            )
        else:
            assert latest(output, form, WITH_VARIABLES) == sorted(other.read_text().splitlines())


def test_answers_are_kept_until_all_is_final(tmp_path: Path, command: Command) -> None:
    """Those with variables are final at once, and those without only later."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text(
        "policy known: p(x) IMPLIES q(x)\npolicy later: a IMPLIES EVENTUALLY[0,50] b\n"
    )
    with Live("--lateness", "5", "--verdicts", "first", str(rules)) as live:
        for stamp in (1, 3, 9, 20, 30, 40, 50):
            live.send(f"@{stamp} {'a p(k)' if stamp == 1 else 'p(k)'}\n")
        live.send("@48 b\n@70\n@80\n@100\n")
        assert live.read_line() == "known\t1:0 false (x=k)"
        assert live.end().status == 1
    log.write_text("@1 a p(k)\n@60\n@70\n")
    done = command("--lateness", 5, "--verdicts", "first", rules, log)
    assert done.output == "later\t1:0 false\n"


def test_a_report_says_what_holds_at_the_end(tmp_path: Path, command: Command) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    page, other = tmp_path / "page.html", tmp_path / "other.html"
    rules.write_text("\n".join([*TABLE_ATOMS, *KEYED, ""]))
    header, lines = "ts,kind,x,ask,reply,noise\n", late_lines(4, is_table=True)
    # the violation of this row goes, as another one comes before it
    lines += ["200,p,a,false,true,false\n", "199,q,a,false,true,false\n"]
    log.write_text(header + "".join(admitted(lines, 6)))
    assert command("--verdicts", "none", "--report", other, rules, log).status == 1
    given = ["--verdicts", "false", "--format", "csv", str(rules)]
    with Live("--lateness", "6", "--report", str(page), *given) as live:
        live.send(header + "".join(lines[:-1]))
        while (line := live.read_line()) != "known\t\t200:0 false (x=a)":
            assert line is not None
        live.send(lines[-1])
        assert live.end().status == 1
    counts = r"(?:false|true|undecided|valuations) [\d,]+|\d+:\d+ (?:x = \w|key \w)|matched at \d+"
    found, wanted = (re.findall(counts, text_of(one)) for one in (page, other))
    assert found == wanted
    assert len(wanted) >= 20
    text = text_of(page)
    names = [rule.split(": ")[0].split()[1] for rule in RULES if not rule.startswith("find")]
    assert re.findall(rf"\b({'|'.join(names)}) [✓✗]", text)[: len(names)] == names
    assert text.count("Rows that came late") == 1
    assert "Policy known: 1 violation taken back" in text
    done = command("--verdicts", "first", "--lateness", 6, "--report", page, rules, log)
    assert done.status == 1
    assert re.findall(counts, text_of(page)) == wanted


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--clock", "key"], "policies with variables")],
)
def test_what_is_refused(options: list[str], words: str, tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    file.write_text(POLICIES["log"])
    log.write_text("@1 approve(a)\n")
    done = command("--lateness", 5, *options, file, log)
    assert done.status == 2
    assert done.errors.startswith(f"mtlmon: --clock key does not work with {words}")
    # the advice works: rows that wait have no clock for each key
    assert "leave --clock out" in done.errors
    assert "--consistency strong" not in done.errors
    assert command("--lateness", 5, file, log).status < 2


def test_answers_are_written_once_if_they_are_explained(tmp_path: Path, command: Command) -> None:
    """The rows are checked once more for that, which is no output of the run."""
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    file.write_text(POLICIES["log"])
    make_mixed_log(log, random.Random(5), 60)
    for form in [], ["--output-format", "jsonl"], ["--verdicts", "all"], ["--verdicts", "first"]:
        wanted = command("--lateness", 9, *form, file, log)
        assert wanted.status == 1
        for emitted in "--explain", "--context=1":
            done = command("--lateness", 9, *form, emitted, file, log)
            assert (done.status, done.output) == (1, wanted.output)
            assert len(done.errors) > len(wanted.errors)


def test_a_run_that_goes_on_has_the_same_kinds_of_policies(
    tmp_path: Path, command: Command
) -> None:
    file, log, saved = (tmp_path / name for name in ("p.mtl", "log", "saved"))
    log.write_text("@1\n@2\n")
    lines = POLICIES["log"].splitlines(keepends=True)
    given = ["--lateness", 5, "--checkpoint", saved, "-o", tmp_path / "out", file, log]
    kinds = [lines[:2], lines[2:], lines]
    for before in kinds:
        for after in kinds:
            saved.unlink(missing_ok=True)
            file.write_text("".join(before))
            assert command(*given).status < 2
            file.write_text("".join(after))
            done = command("--resume", *given)
            assert ("made for policies of another kind" in done.errors) == (before != after)
            assert (done.status == 2) == (before != after)


@pytest.mark.parametrize("names", [["plain"], ["variables"], ["plain", "variables"]])
def test_policies_that_were_never_triggered_are_named(
    names: list[str], tmp_path: Path, command: Command
) -> None:
    """As in a run in order, which fails as well."""
    rules = {
        "plain": "policy plain: quick IMPLIES slow\n",
        "variables": "policy variables: FORALL u, f. publish(u, f) IMPLIES approve(f)\n",
    }
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    file.write_text("".join(rules[name] for name in names))
    log.write_text("@1 slow\n@9 slow\n")
    for options in ([], ["--lateness", 5]):
        done = command("--fail-on-vacuous", *options, file, log)
        assert done.status == 1
        assert re.findall(r"policy (\w+) was never triggered \(--fail", done.errors) == names
