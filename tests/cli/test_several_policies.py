"""The command on several policy files: --policy A --policy B."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet

from tests.cli.process import Ended, mtlmon

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., Ended]

WEB = """\
unit s
time "t"
key user
const limit = 2
atom failed = path = "/login" and status = 401
stream fails = count[0,2m](failed)
policy brute: fails >= limit IMPLIES EVENTUALLY[0,30] status = 200
trigger often: fails > limit message "{user} failed {fails} times"
"""
SERVER = """\
time "t"
const limit = 1
atom failed = status >= 500
stream fails = count[0,10](failed)
policy brute: NOT fails > limit
policy each per path: failed IMPLIES ONCE[0,60] status = 200
"""
LOG = """\
t,user,path,status
0,u,/login,401
1,u,/login,401
1,v,/login,500
2,u,/login,401
3,v,/x,200
4,u,/x,500
50,u,/x,500
60,v,/login,401
99,v,/login,200
"""


class Files:
    """Two policy files and a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.web = self.write("web.mtl", WEB)
        self.server = self.write("server.mtl", SERVER)
        self.log = self.write("log.csv", LOG)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    @property
    def both(self) -> list[str]:
        return ["--policy", str(self.web), "--policy", str(self.server)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def by_policy(lines: list[str]) -> dict[str, list[list[str]]]:
    """The fields of lines of verdicts without empty ones, by the policy."""
    found: dict[str, list[list[str]]] = {}
    for line in lines:
        name, *fields = line.split("\t")
        found.setdefault(name, []).append([field for field in fields if field])
    return found


@pytest.mark.parametrize("given", [["--resolve"], ["--end-time", "inf", "--verdicts", "false"]])
def test_each_file_says_what_it_says_by_itself(
    command: Command, files: Files, given: list[str]
) -> None:
    both = by_policy(command(*given, *files.both, files.log).output.splitlines())
    web = by_policy(command(*given, files.web, files.log).output.splitlines())
    server = by_policy(command(*given, "--unit", "s", files.server, files.log).output.splitlines())
    wanted = {
        "web:brute": web["brute"],
        "often": web["often"],
        "server:brute": server["brute"],
        "each": server["each"],
    }
    assert both == wanted
    assert all(wanted.values())


def test_one_pass_reads_a_pipe(files: Files) -> None:
    whole = mtlmon(*files.both, str(files.log))
    assert whole.status == 1
    assert mtlmon(*files.both, "--format", "csv", log=LOG) == whole


def test_all_formats_have_the_same_names(command: Command, files: Files) -> None:
    def run(form: str) -> Path:
        output = files.folder / form
        given = ["--verdicts", "false", "--end-time", "inf", "--output-format", form, "-o", output]
        assert command(*given, *files.both, files.log).status == 1
        return output

    names = [line.split("\t")[0] for line in run("text").read_text().splitlines()]
    assert set(names) == {"web:brute", "often", "server:brute", "each"}
    rows = [json.loads(line) for line in run("jsonl").read_text().splitlines()]
    assert [row["policy"] for row in rows] == names
    messages = [row["message"] for row in rows if row["policy"] == "often"]
    assert messages == ["u failed 3 times"] * 3
    read = csv.DictReader(io.StringIO(run("csv").read_text()))
    assert [row["policy"] for row in read] == names
    table = parquet.read_table(run("parquet")).to_pylist()
    assert [row["policy"] for row in table] == names
    assert [(row["user"], row["path"]) for row in table if row["policy"] == "each"] == [
        (None, "/login")
    ]


def test_explanations_and_reports(command: Command, files: Files) -> None:
    report = files.folder / "report.html"
    done = command(
        "--explain", "--report", report, "--verdicts", "none", "--end-time", "inf", *files.both,
        files.log,
    )  # fmt: skip
    assert done.status == 1
    assert "policy server:brute" in done.errors
    assert "server:fails" in done.errors
    assert "web:brute" in report.read_text()


def test_the_key_of_the_command_replaces_those_of_all_files(command: Command, files: Files) -> None:
    lines = command("--resolve", "--key", "path", *files.both, files.log).output.splitlines()
    web = command("--resolve", "--key", "path", files.web, files.log).output.splitlines()
    own = [line for line in lines if line.startswith(("web:brute", "often"))]
    assert [line.removeprefix("web:") for line in own] == web
    files.log.write_text(LOG.replace("user", "who"))
    assert command(*files.both, files.log).status == 2


def test_checkpoints_are_of_these_files_in_this_order(files: Files) -> None:
    def command(*arguments: object) -> Ended:
        return mtlmon(*map(str, arguments))

    output, checkpoint = files.folder / "out", files.folder / "state"
    given = ["--resume", "--checkpoint", checkpoint, "--checkpoint-every", "1", "-o", output]
    whole = command(*files.both, files.log).output
    lines = LOG.splitlines(keepends=True)
    files.log.write_text("".join(lines[:6]))
    assert command(*given, *files.both, files.log).status == 1
    files.log.write_text(LOG)
    done = command(*given, *files.both[2:], *files.both[:2], files.log)
    assert done.status == 2
    assert "cannot resume from" in done.errors
    assert command(*given, files.web, files.log).status == 2
    done = command(*given, "--set", "web:limit=1", *files.both, files.log)
    assert done.status == 2
    assert command(*given, *files.both, files.log).status == 1
    assert output.read_text() == whole


def test_constants_are_set_by_file(command: Command, files: Files) -> None:
    def violated(*given: str) -> set[str]:
        done = command(*given, "--verdicts", "false", *files.both, files.log)
        assert done.status in (0, 1), done.errors
        return {line.split("\t")[0] for line in done.output.splitlines()}

    assert "often" in violated()
    assert "often" not in violated("--set", "web:limit=3")
    assert "server:brute" not in violated("--set", "server:limit=9", "--set", "web:limit=3")
    done = command("--set", "limit=3", *files.both, files.log)
    assert done.status == 2
    assert f"{files.web}:4:7: 2 files have a constant limit" in done.errors
    assert "hint: write web:limit or server:limit" in done.errors


def test_files_that_contradict_each_other(command: Command, files: Files) -> None:
    files.server.write_text(f"# server\nunit ms\n{SERVER}")
    for given in ([], ["check-policy"], ["analyze"], ["streams"]):
        done = command(*given, *files.both, files.log)
        assert (done.status, done.output) == (2, "")
        message = f"{files.server}:2:6: the unit is ms here, but s in line 1 of {files.web}"
        assert message in done.errors
    done = command("--unit", "s", *files.both, files.log)
    assert "the unit is ms here" in done.errors


def test_what_is_refused(command: Command, files: Files) -> None:
    missing = files.folder / "missing.mtl"
    cases: list[tuple[list[object], str]] = [
        (
            ["--policy", files.web, "--policy", files.web],
            f"the policy file {files.web} is given twice: name it once",
        ),
        (
            [*files.both, "--policy", files.folder / ".." / files.folder.name / "web.mtl"],
            "are the same policy file: name it once",
        ),
        ([*files.both, "--policy", missing], f"cannot read {missing}: No such file or directory"),
        (
            ["--policy", files.web, files.server],
            f"{files.server} is a policy file: name each of them with --policy, or none",
        ),
        (
            ["a.csv", files.web, "--summary"],
            f"a.csv is a table, and the policy comes first: mtlmon {files.web} a.csv",
        ),
        (["-e", "p", *files.both], "-e and --policy: write the formula to a file"),
        (["--signature", missing, *files.both], "--signature is for one file of MonPoly: name one"),
        (["--policy", "-", "--policy", files.web, "-"], "cannot both come from standard input"),
        (
            ["-o", files.server, *files.both],
            f"{files.server} is both the formula and the file for the verdicts",
        ),
    ]
    for given, message in cases:
        log = [] if given[-1] == "-" else [files.log]
        done = command(*given, *log)
        assert (done.status, done.output) == (2, "")
        assert message in done.errors
    assert files.server.read_text() == SERVER
    for subcommand in ("check-policy", "analyze", "streams"):
        done = command(subcommand, "--policy", files.web, "--policy", files.web, files.log)
        assert "is given twice" in done.errors
        swapped = command(subcommand, "a.jsonl", files.web).errors
        assert f"the policy comes first: mtlmon {subcommand} {files.web} a.jsonl" in swapped
        assert command(subcommand).errors.startswith("mtlmon: no policy file: name one")


def test_text_logs(command: Command, files: Files) -> None:
    one = files.write("a.mtl", "policy p: ask IMPLIES EVENTUALLY[0,5] reply\n")
    other = files.write("b.mtl", "let ask = ONCE[0,3] noise\npolicy p: NOT ask\n")
    alone = files.write("alone.mtl", "count[0,9](ask) < 2\n")
    log = files.write("log", "@1 ask\n@2 noise\n@8 ask reply\n")
    given = ["--policy", one, "--policy", other, "--policy", alone]
    done = command(*given, log)
    wanted = {
        "a:p": [["2:0 true"], ["1:0 false"], ["8:0 true"]],
        "b:p": [["1:0 true"], ["2:0 false"], ["8:0 true"]],
        "alone": [["1:0 true"], ["2:0 true"], ["8:0 false"]],
    }
    assert by_policy(done.output.splitlines()) == wanted
    done = command(*files.both, log)
    assert f"{files.web} declares the key of a table" in done.errors
    columns = files.write("columns.mtl", "policy p: speed > 3\n")
    done = command(*given, "--policy", columns, log)
    assert f"mtlmon: {columns} uses columns of a table" in done.errors
    keyed = files.write("keyed.mtl", "policy p per user: x\n")
    done = command(*given, "--policy", keyed, log)
    assert f"mtlmon: {keyed} divides the log by the column user" in done.errors


def test_patterns_and_units_hold_for_all_files(command: Command, files: Files) -> None:
    one = files.write("a.mtl", 'pattern "(?P<ts>[0-9]+) (?P<what>.*)"\npolicy p: what = "in"\n')
    other = files.write("b.mtl", 'unit s\npolicy q: ONCE[0,1m] what = "in"\n')
    log = files.write("log", "1 in\n99 out\n")
    for order in ([one, other], [other, one]):
        given = [text for path in order for text in ("--policy", str(path))]
        found = by_policy(command(*given, log).output.splitlines())
        assert found == {"p": [["1:0 true"], ["99:0 false"]], "q": [["1:0 true"], ["99:0 false"]]}


def test_files_with_variables_and_without(command: Command, files: Files) -> None:
    one = files.write("a.mtl", "policy p: ask IMPLIES EVENTUALLY[0,5] reply\n")
    other = files.write("b.mtl", "policy p: FORALL x. in(x) IMPLIES ONCE[0,5] out(x)\n")
    third = files.write("c.mtl", "let old(x) = ONCE in(x)\nfind p: old(x) AND out(x)\n")
    log = files.write("log", "@1 ask in(a)\n@2 out(a)\n@9 in(a)\n")
    given = ["--policy", one, "--policy", other, "--policy", third]
    done = command("--end-time", "inf", *given, log)
    found = by_policy(done.output.splitlines())
    assert found == {
        "a:p": [["2:0 true"], ["1:0 false"], ["9:0 true"]],
        "b:p": [["1:0 false (x=a)"], ["9:0 false (x=a)"]],
        "c:p": [["2:0 match (x=a)"]],
    }
    tables = [
        ("a.mtl", "key k\npolicy p: v > 1 IMPLIES PREVIOUS v = 1\n"),
        ("b.mtl", "atom in(k) = v = 1\npolicy p: FORALL k. NOT in(k)\n"),
    ]
    given = [text for name, rules in tables for text in ("--policy", str(files.write(name, rules)))]
    log = files.write("rows.csv", "ts,k,v\n1,x,1\n2,y,2\n3,x,2\n")
    found = by_policy(command(*given, log).output.splitlines())
    assert found == {
        "a:p": [["x", "1:0 true"], ["y", "2:0 false"], ["x", "3:0 true"]],
        "b:p": [["1:0 false (k=x)"]],
    }
    done = command(*given, files.log.with_name("log"))
    assert done.status == 2
    assert (
        "b.mtl says which rows of a table are rows of in" in done.errors or "a.mtl" in done.errors
    )


def test_check_policy_and_explain_formula(command: Command, files: Files) -> None:
    done = command("check-policy", *files.both, files.log)
    assert (done.status, done.errors) == (0, "")
    for name in ("Policy web:brute", "Policy server:brute", "Policy each", "  web:fails = count"):
        assert name in done.output
    assert "in no policy" not in done.output
    assert command("--explain-formula", *files.both).output.startswith("Policy web:brute\n")
    assert "web:limit" not in done.errors
    done = command("check-policy", "--set", "web:limit=true", *files.both, files.log)
    assert f"{files.web}:7:" in done.errors
    files.server.write_text(f"{SERVER}policy more: nothing > 3 AND (\n")
    files.web.write_text(f"{WEB}policy more: nothing > 3\n")
    done = command("check-policy", *files.both, files.log)
    assert f"{files.server}:7:" in done.errors
    files.server.write_text(SERVER)
    done = command("check-policy", *files.both, files.log)
    assert done.status == 2
    assert f"mtlmon: {files.web}:9:14: there is no column nothing" in done.errors


def test_streams_have_one_key(command: Command, files: Files) -> None:
    done = command("streams", *files.both, files.log)
    assert done.status == 2
    message = f"{files.web} has the key user and {files.server} has no key: values have one key"
    assert message in done.errors
    done = command("streams", "--key", "user", *files.both, files.log)
    row = json.loads(done.output.splitlines()[3])
    assert row == {"time": 2, "user": "u", "web:fails": 3, "server:fails": 0}
    plain = files.write("plain.mtl", "policy p: x\n")
    done = command("streams", "--policy", plain, "--policy", files.write("b.mtl", "x"), files.log)
    assert f"{plain} and {files.folder / 'b.mtl'} declare no streams" in done.errors


def test_constants_that_are_bounds_are_part_of_checkpoints(
    command: Command, tmp_path: Path
) -> None:
    rules, log, output = (tmp_path / name for name in ("rules.mtl", "log", "output"))
    log.write_text("@1 p\n@2\n@5 p\n")
    for policy in ("ONCE[0,w] p", "count[0,w](p) < 2", "n < 2\nstream n = count[0,w](p)"):
        rules.write_text(f"unit s\nconst w = 3s\npolicy one: {policy}\n")
        files = ["-o", output, "--checkpoint", tmp_path / "state", rules, log]
        assert command(*files).status in (0, 1)
        assert command("--resume", "--set", "w=3", *files).status in (0, 1)
        done = command("--resume", "--set", "w=4s", *files)
        assert done.status == 2
        assert "cannot resume" in done.errors


def test_analyze(command: Command, files: Files) -> None:
    files.web.write_text(f"{WEB}assume keys <= 10\nassume rate <= 5/s\n")
    done = command("analyze", "--format", "json", *files.both, files.log)
    bounds = {(one["name"], tuple(one["key"])): one for one in json.loads(done.output)["bounds"]}
    assert bounds["web:brute", ("user",)]["bytes"] is not None
    # what the first file assumes of its keys says nothing of those of the second one
    assert bounds["each", ("path",)]["bytes"] is None
    assert bounds["server:fails", ()]["bytes"] is not None


def test_assumptions_are_about_the_keys_of_their_file(command: Command, files: Files) -> None:
    files.web.write_text(f"{WEB}assume keys <= 2\n")
    assert "breaks" not in command(*files.both, files.log).errors
    files.log.write_text(f"{LOG}100,u,/y,200\n")
    assert "breaks" not in command(*files.both, files.log).errors
    files.log.write_text(f"{LOG}100,w,/y,200\n")
    noted = f"the log breaks 'assume keys <= 2' of {files.web}: more than 2 keys"
    assert noted in command(*files.both, files.log).errors
