"""The command on tables: formats, keys, times, rows that cannot be read, outputs."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import ipc, parquet  # noqa: E402

from tests.cli.process import Ended, shell  # noqa: E402
from tests.doors import support_option_names as option_names  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., Ended]

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
RESPONSE = "p IMPLIES EVENTUALLY[0,5] q"
POLICIES = """\
unit s
let answered = EVENTUALLY[0,5s] q
atom large = size >= 10 and kind != "test"
policy response: p IMPLIES answered
policy "no large, please": NOT large
"""
SHOP = """\
ts,user,kind,size,p,q
1,ann,,1,true,false
1,ann,test,90,true,false
2,bob,toy,10,false,false
4,ann,,,false,true
5,bob,,3,true,false
30,cy,,,false,false
"""
SHOP_VERDICTS = [
    ("response", "ann", "1:1 = 1:0"),
    ("no large, please", "ann", "1:0 true"),
    ("no large, please", "ann", "1:1 true"),
    ("response", "bob", "2:0 true"),
    ("no large, please", "bob", "2:0 false"),
    ("response", "ann", "1:0 true"),
    ("response", "ann", "4:0 true"),
    ("no large, please", "ann", "4:0 true"),
    ("no large, please", "bob", "5:0 true"),
    ("response", "cy", "30:0 true"),
    ("no large, please", "cy", "30:0 true"),
    ("response", "bob", "5:0 false"),
]


@pytest.fixture
def shop(tmp_path: Path) -> tuple[Path, Path]:
    """A policy file and a table."""
    policies, log = tmp_path / "shop.mtl", tmp_path / "shop.csv"
    policies.write_text(POLICIES)
    log.write_text(SHOP)
    return policies, log


def write_table(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write a table in the format and the compression that its name tells."""
    names = path.name.split(".")[1:]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    table = pa.table(columns)
    if names[0] == "parquet":
        parquet.write_table(table, path)
        return
    if names[0] in ("arrow", "arrows"):
        new = ipc.new_file if names[0] == "arrow" else ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table)
        return
    if names[0] == "jsonl":
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
    else:
        mark = "\t" if names[0] == "tsv" else ","
        text = "".join(
            f"{mark.join(map(str, row))}\n"
            for row in [tuple(columns), *zip(*columns.values(), strict=True)]
        )
    data = text.encode()
    if names[-1] == "gz":
        data = gzip.compress(data)
    elif names[-1] == "bz2":
        data = bz2.compress(data)
    elif names[-1] == "zst":
        data = pa.Codec("zstd").compress(data, asbytes=True)
    path.write_bytes(data)


def test_all_formats_as_one_log(command: Command, tmp_path: Path) -> None:
    names = [
        "a.csv", "b.tsv", "c.jsonl", "d.parquet", "e.arrow", "f.arrows",
        "g.csv.gz", "h.jsonl.zst", "i.tsv.bz2",
    ]  # fmt: skip
    (tmp_path / "more").mkdir()
    expected = ""
    for number, name in enumerate(names):
        folder = tmp_path / "more" if number in (1, 2) else tmp_path
        first = 10 * number
        write_table(folder / name, {"ts": [first, first + 3], "p": [True, False], "n": [0, 5]})
        expected += f"{first}:0 true\n{first + 3}:0 false\n"
    # files, a pattern, a directory; a file that is no table
    (tmp_path / "more" / "notes.txt").write_text("no table")
    logs = [tmp_path / "a.csv", tmp_path / "more", f"{tmp_path}/[d-z].*"]
    assert command("-e", "p", *logs) == Ended(1, expected, "")
    # bytes that a program writes, whatever their format and compression
    for name in "a.csv", "f.arrows", "g.csv.gz", "h.jsonl.zst":
        path = tmp_path / name
        first = 10 * names.index(name)
        lines = f"{first}:0 true\n{first + 3}:0 false\n"
        format = name.split(".")[1].rstrip("s")
        script = f'cat "$1" | $M --format {format} -e p'
        assert shell(script, str(path)) == Ended(1, lines, "")
    done = shell('$M --format parquet -e p < "$1"', str(tmp_path / "d.parquet"))
    assert done == Ended(1, "30:0 true\n33:0 false\n", "")


def test_functions_of_times(command: Command, tmp_path: Path) -> None:
    policy, log = tmp_path / "night.mtl", tmp_path / "log.csv"
    policy.write_text(
        "unit s\natom night = hour(ts) < 6\natom late = sent - seen > 60\n"
        "policy calm: NOT night\npolicy prompt: NOT late\n"
    )
    rows = "1970-01-01T00:02:00,1970-01-01T00:01:00\n", "1970-01-01T00:02:01,1970-01-01T00:01:00\n"
    log.write_text(f"ts,sent,seen\n21599,{rows[0]}21600,{rows[1]}")
    expected = "calm\t21599:0 false\nprompt\t21599:0 true\n"
    expected += "calm\t21600:0 true\nprompt\t21600:0 false\n"
    assert command(policy, log) == Ended(1, expected, "")
    # the numbers are milliseconds, the time-stamps seconds
    log.write_text(f"ts,sent,seen\n21599000,{rows[0]}21600000,{rows[1]}")
    assert command("--time-unit", "ms", policy, log) == Ended(1, expected, "")
    assert command("check-policy", policy, log).status == 0


@pytest.mark.parametrize(
    ("event", "cells"),
    [
        ("what", ["p|x", "q", ""]),
        ("what;--event-separator;, ", ["p, x", "q", ""]),
        ("what", [["p", "x"], ["q"], []]),
    ],
)
def test_names_of_events(command: Command, tmp_path: Path, event: str, cells: list[Any]) -> None:
    log = tmp_path / "log.parquet"
    write_table(log, {"at": [3, 5, 7], "what": cells})
    done = command("--time", "at", "--event", *event.split(";"), "-e", RESPONSE, log)
    assert done == Ended(0, "3:0 true\n5:0 true\n7:0 true\n", "")


def test_the_example(command: Command) -> None:
    files = [EXAMPLES / "rental.mtl", EXAMPLES / "rental.csv"]
    done = command("--time", "at", "--key", "bike", "--event", "what", *files)
    expected = (EXAMPLES / "rental.verdicts").read_text(encoding="utf-8")
    assert done == Ended(1, expected, "")


def test_policies_and_keys(command: Command, shop: tuple[Path, Path]) -> None:
    expected = "".join(f"{policy}\t{key}\t{rest}\n" for policy, key, rest in SHOP_VERDICTS)
    done = command("--key", "user", *shop)
    assert sorted(done.output.splitlines()) == sorted(expected.splitlines())
    assert done == Ended(1, done.output, "")
    for selected, lines in {
        "boolean": [line for line in expected.splitlines() if "=" not in line],
        "false": [line for line in expected.splitlines() if line.endswith("false")],
        "none": [],
        # by time, not as they become known
        "first": ["no large, please\tbob\t2:0 false"],
    }.items():
        found = command("--key", "user", "--verdicts", selected, *shop)
        assert sorted(found.output.splitlines()) == sorted(lines)
        assert (found.status, found.errors) == (1, "")
    # a key is one or more columns, given at once or one by one
    for keys in ["user,kind"], ["user", "--key", "kind"]:
        log = shop[1]
        done = command("--verdicts", "false", "--resolve", "--key", *keys, "-e", "NOT p", log)
        assert done.status == 2
        assert done.errors == (
            f"mtlmon: {log}:2: the key column 'kind' is empty in this row; --on-error skip leaves "
            "such rows out\n"
        )
    done = command("--verdicts", "false", "--key", "user,size", "-e", "NOT p", "--on-error", "skip",
                   log)  # fmt: skip
    assert done.output == "ann\t1\t1:0 false\nann\t90\t1:0 false\nbob\t3\t5:0 false\n"


@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_resolving_at_once_and_later(command: Command, tmp_path: Path, mode: str) -> None:
    awkward = ["tab\there", "line\nfeed", "back\\slash", "\\t", "", "ü ", 'quo"te', "cr\rhere"]
    log = tmp_path / "log.jsonl"
    with log.open("w") as file:
        for time in range(60):
            row = {
                "ts": time // 3,
                "a": awkward[time % len(awkward)],
                "b": awkward[-1 - time % 3],
                "e": ["p"] if time % 5 else ["q", "p"],
            }
            file.write(json.dumps(row) + "\n")
    policies = tmp_path / "two.mtl"
    policies.write_text(f'policy "a b": {RESPONSE}\npolicy "x \\\\ y": p IMPLIES ONCE[1,4] q\n')
    asked = ["--mode", mode, "--end-time", "last", "--event", "e", "--key", "a,b", policies, log]
    verdicts = tmp_path / "verdicts"
    assert command("-o", verdicts, *asked) == Ended(1, "", "")
    later = command("resolve", verdicts)
    at_once = command("--resolve", *asked)
    assert later.status == at_once.status == 1
    lines = at_once.output.split("\n")[:-1]
    assert sorted(later.output.split("\n")[:-1]) == sorted(lines)
    assert all(line.count("\t") == 3 for line in lines)
    assert "x \\\\ y\ttab\\there\tcr\\rhere\t0:0 false" in lines
    assert any("\tline\\nfeed\t" in line for line in lines)
    assert any("\t\\\\t\t" in line for line in lines)
    assert any("\t\tü" in line or "\t\tquo" in line for line in lines)


def read_verdicts(path: Path) -> list[dict[str, Any]]:
    """Verdicts as rows, whatever their format."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return rows
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return [
        {
            **row,
            "policy": row["policy"] or None,
            "time": int(row["time"]),
            "offset": int(row["offset"]),
            "verdict": {"true": True, "false": False, "": None}[row["verdict"]],
            "reference": row["reference"] or None,
        }
        for row in csv.DictReader(text.splitlines())
    ]


def as_line(row: dict[str, Any]) -> str:
    """A row as a line of text."""
    fields = [row[name] for name in ("policy", "user", "key_time") if row.get(name) is not None]
    value = f"= {row['reference']}" if row["verdict"] is None else str(row["verdict"]).lower()
    return "\t".join([*fields, f"{row['time']}:{row['offset']} {value}"])


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_output_formats(
    command: Command, shop: tuple[Path, Path], tmp_path: Path, format: str
) -> None:
    out = tmp_path / f"verdicts.{format}"
    for mode in "local", "naive":
        text = command("--mode", mode, "--key", "user", *shop)
        asked = ["--mode", mode, "--key", "user", "--output-format", format]
        assert command(*asked, "-o", out, *shop) == Ended(1, "", "")
        rows = read_verdicts(out)
        assert list(rows[0]) == ["policy", "user", "time", "offset", "verdict", "reference"]
        assert [as_line(row) for row in rows] == text.output.splitlines()
    # to a pipe, with times that are not the time-stamps, a key of a name that is taken, no policy
    log = tmp_path / "log.csv"
    log.write_text(
        'at,time,p\n2024-05-01T10:00:00+02:00,ä,true\n2024-05-01T08:00:00.5Z,"""",false\n'
    )
    script = '$M --output-format "$1" --time at --key time --resolution ms -e p "$2" | cat > "$3"'
    shell(script, format, str(log), str(out))
    common = {"policy": None, "offset": 0, "reference": None}
    assert read_verdicts(out) == [
        common | {"key_time": "ä", "time": 1714550400000, "time_text": "2024-05-01T08:00:00Z",
                  "verdict": True},
        common | {"key_time": '"', "time": 1714550400500, "time_text": "2024-05-01T08:00:00.5Z",
                  "verdict": False},
    ]  # fmt: skip
    # of a text log, and without any verdict
    done = command("--output-format", format, "-o", out, "-e", "p", tmp_path / "no.log")
    assert done.status == 2
    (tmp_path / "x.log").write_text("@1 p\n@1\n")
    assert command("--output-format", format, "-o", out, "-e", "p", tmp_path / "x.log").status == 1
    assert [as_line(row) for row in read_verdicts(out)] == ["1:0 true", "1:1 false"]
    assert command("--output-format", format, "--verdicts", "false", "-o", out, "-e", "TRUE", log,
                   "--time", "at").status == 0  # fmt: skip
    assert read_verdicts(out) == []


@pytest.mark.parametrize(
    ("options", "rows", "expected"),
    [
        ("--time-unit ms", "1500 1501", "1500:0 1501:0"),
        ("--time-unit ms --resolution s", "1500 1501 2000", "1:0 1:1 2:0"),
        ("--time-unit s --resolution ms", "1.5 1.5015 17e-1", "1500:0 1501:0 1700:0"),
        ("--unit ms", "1970-01-01T00:00:01.5Z 1970-01-01T01:00:02+01:00", "1500:0 2000:0"),
        ("--time-format %d/%b/%Y:%H:%M:%S%z", "02/Jan/1970:00:00:01+0000", "86401:0"),
        ("", "1970-01-02", "86400:0"),
        ("", "5 5 9223372036854775807", "5:0 5:1 9223372036854775807:0"),
        ("--sort", "9 3 9 1", "1:0 3:0 9:0 9:1"),
        ("--on-error skip", "9 3 x 10", "9:0 10:0"),
    ],
)
def test_times(command: Command, tmp_path: Path, options: str, rows: str, expected: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,p\n" + "".join(f"{time},true\n" for time in rows.split()))
    done = command(*options.split(), "-e", "p", log)
    assert (done.status, done.output) == (0, "".join(f"{one} true\n" for one in expected.split()))
    if "skip" in options:
        assert done.errors == (
            "mtlmon: skipped 2 rows that could not be read\n"
            f"mtlmon:   {log}:3: column 'ts': time-stamp 3 comes after 9, so the rows are "
            f"out of order{option_names.order_advice(option_names.COMMAND)}\n"
            f"mtlmon:   {log}:4: column 'ts': 'x' is not a number\n"
        )
    else:
        assert done.errors == ""


def test_the_end_of_time(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,k,p,q\n1,a,true,\n3,b,true,\n7,c,,\n")
    expected = {
        # all keys know the time of the last row
        None: "c 7:0 true, a 1:0 false",
        "last": "c 7:0 true, a 1:0 false",
        "8": "c 7:0 true, a 1:0 false, b 3:0 false",
        "inf": "c 7:0 true, a 1:0 false, b 3:0 false",
    }
    for end_time, lines in expected.items():
        asked = [] if end_time is None else ["--end-time", end_time]
        done = command(*asked, "--key", "k", "-e", RESPONSE, log)
        assert done.output == "".join(
            f"{one.replace(' ', chr(9), 1)}\n" for one in lines.split(", ")
        )
        assert done.errors == ""
    done = command("--resolve", "--key", "k", "-e", RESPONSE, log)
    assert "mtlmon: 1 time-point undecided at the end of the log (see --end-time)" in done.errors
    done = command("--verdicts", "first", "--key", "k", "-e", f"({RESPONSE}) AND NOT q", log)
    assert done.output == "a\t1:0 false\n"
    done = command("--verdicts", "first", "--key", "k", "-e", "p IMPLIES EVENTUALLY[0,9] q", log)
    assert (done.status, done.output) == (0, "")


@pytest.fixture
def ahead(tmp_path: Path) -> Path:
    """A directory with logs in which row 5 is the first violation of many rows."""
    rows = [(number, number != 4) for number in range(20_000)]
    (tmp_path / "log.csv").write_text(
        "ts,k,p,q\n" + "".join(f"{ts},a,{str(p).lower()},true\n" for ts, p in rows)
    )
    (tmp_path / "log.txt").write_text("".join(f"@{ts} q {'p' * p}\n" for ts, p in rows))
    (tmp_path / "two.mtl").write_text("policy all: q\npolicy some: p\n")
    return tmp_path


@pytest.mark.parametrize("log", ["log.csv", "log.txt"])
@pytest.mark.parametrize("policy", [["-e", "p"], ["two.mtl"]])
def test_the_first_violation_is_explained_and_counted(
    command: Command, ahead: Path, log: str, policy: list[str]
) -> None:
    """Tables explained nothing, and counted the rows that had been read ahead."""
    policy = [str(ahead / one) if one.endswith(".mtl") else one for one in policy]
    why, report = ahead / "why.txt", ahead / "report.html"
    done = command("--verdicts", "first", "--explain", "--summary", *policy, ahead / log)
    assert done.status == 1
    assert "4:0 violates p\n" in done.errors
    assert re.search(r"^(rows|events) +5$", done.errors, re.MULTILINE)
    counts = re.search(
        r"^some +4 +1 +0$|^true +4\nfalse +1\nundecided +0$", done.errors, re.MULTILINE
    )
    assert counts
    done = command(
        "--verdicts", "first", "--explain-output", why, "--report", report, *policy, ahead / log
    )
    assert why.read_text().count("violates") == 1
    page = report.read_text()
    assert "1 violation." in page
    assert "violates" in page or "<svg" in page


def test_the_first_violation_with_keys(command: Command, ahead: Path) -> None:
    done = command(
        "--verdicts", "first", "--explain", "--summary", "--key", "k", "-e", "p", ahead / "log.csv"
    )
    assert done.errors.startswith(f"key a\nat {ahead / 'log.csv'}:6\n4:0 violates p\n")
    # By key, only the next time-stamp tells that no other one of the same time comes before.
    assert re.search(r"^rows +6$", done.errors, re.MULTILINE)
    assert re.search(r"^true +5\nfalse +1$", done.errors, re.MULTILINE)


def test_misspelt_names_of_events(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,what\n1,error|slow\n2,\n3,request\n")
    done = command("--verdicts", "none", "--event", "what", "-e", "NOT (eror AND slow)", log)
    assert done.errors == "mtlmon: no event has the atom eror; did you mean error?\n"


@pytest.mark.parametrize("options", [[], ["--event", "what"]])
def test_what_is_there_and_never_true_is_not_missing(
    command: Command, tmp_path: Path, options: list[str]
) -> None:
    """Columns that are never true, and declared atoms, are no misspelt names."""
    rules, log, lines = tmp_path / "rules.mtl", tmp_path / "log.csv", tmp_path / "log.jsonl"
    rules.write_text("atom large = x > 5\npolicy one: NOT (large AND never)\n")
    log.write_text("ts,what,x,never\n1,p,1,\n2,p,2,false\n")
    missing = "mtlmon: no event has the atom never\n" if options else ""
    done = command("--verdicts", "none", *options, rules, log)
    assert (done.status, done.errors) == (0, missing)
    # rows of JSON lines may name only what is true, so this is all that is known of the atom
    lines.write_text('{"ts": 1, "what": "p", "x": 1}\n')
    done = command("--verdicts", "none", *options, rules, lines)
    assert (done.status, done.errors) == (0, "mtlmon: no event has the atom never\n")


def test_a_table_without_rows_is_noted(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,p\n")
    assert command("-e", "p", log).errors == "mtlmon: the log has no events\n"


@pytest.mark.parametrize(
    ("condition", "spared"),
    [
        ('count[0,9](n > 1.5) < 5 and s != "x" and b', []),
        ('n < 2 and s != "x" and b', ["mtlmon.streams.atoms", "mtlmon.streams.native"]),
    ],
)
def test_csv_needs_no_modules_of_other_formats(
    condition: str, spared: list[str], tmp_path: Path
) -> None:
    """Rationale: they are a third of the memory and a tenth of the time of a small run."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(f"key user\npolicy p: {condition}\n")
    log.write_text("ts,user,n,b,s\n1,u,1.5,true,\n2,v,2.5,false,a\n")
    others = ["parquet", "fs", "json", "dataset"]
    names = [*(f"pyarrow.{one}" for one in others), "numpy.ma", "mtlmon.relations", "ssl", *spared]
    names += ["pandas", "numpy._typing._char_codes", "concurrent.futures", "tempfile", "hashlib"]
    names += ["fractions", "zoneinfo"]
    script = (
        "import sys; from mtlmon import _start; _start.leave_out_what_is_not_needed();"
        "from mtlmon.cli import main; status = main(sys.argv[1:]);"
        f"sys.exit(' '.join(sys.modules.keys() & {set(names)}) or status)"
    )
    given = [sys.executable, "-c", script, str(rules), str(log)]
    done = subprocess.run(given, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (1, "")
