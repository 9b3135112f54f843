"""Messages of triggers: how they are read and filled, and where they appear."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mtlmon.errors import PolicyError
from mtlmon.policy import parse_policies
from tests.cli.process import mtlmon
from tests.doors import value_text

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")


def filled(text: str, *values: object) -> str:
    file = parse_policies(f'trigger t: x > 1 message "{text}"')
    (policy,) = file.policies
    assert policy.message is not None
    message, names, violations, _ = policy.message
    assert violations is None, "the atom says where it is violated"
    assert len(names) == len(values)
    assert all(name in file.shown for name in names)
    return message.filled(values)


def test_values_are_inserted_where_the_braces_are() -> None:
    assert filled("plain") == "plain"
    assert filled("{x}", 5) == "5"
    assert filled("a {x:.1f} b {lower(y) } c", 2.25, "z") == "a 2.2 b z c"
    assert filled("{{x}} {x.last(or: 0):>4}!", 7) == "{x}    7!"
    assert filled("{if x > 1 then y else z}", None) == "null"
    assert filled('\\"{x}\\" \\\\', True) == '"true" \\'


def test_what_a_format_does_not_fit_is_written_as_usual() -> None:
    assert value_text("a", ".1f") == "a"
    assert value_text(0.1) == "0.1"
    assert value_text(False, "d") == "false"


def test_equal_expressions_are_computed_once() -> None:
    file = parse_policies(
        'trigger t: x > 1 message "{x} {y} {x:.2f}"\ntrigger u: x > 2 message "{y}"'
    )
    assert len(file.shown) == 2


@pytest.mark.parametrize(
    ("message", "column", "error"),
    [
        ("a {x", 32, "this brace is not closed"),
        ("a x} b", 33, "this brace closes nothing"),
        ("{x:.1q}", 33, "'.1q' is not a format"),
        ("{x +}", 34, "expected"),
        ("{}", 31, "expected"),
    ],
)
def test_errors_have_their_place(message: str, column: int, error: str) -> None:
    with pytest.raises(PolicyError, match=error) as refused:
        parse_policies(f'trigger t: x > 1    message "{message}"')
    assert refused.value.column == column


FILE = """\
unit s
key ip
stream fails = count[0,1m](status = 401)
trigger many: fails >= 2 message "{ip}: {fails} failures, {latency:.1f} s"
trigger slow per none: latency > 5.0
policy fine: status < 500
"""
ROWS = (
    "ts,ip,status,latency\n1,a,401,0.25\n1,b,401,1\n1,a,401,2\n1,a,401,3\n2,b,500,9\n2,b,401,1.55\n"
)
MESSAGES = [
    ("many", "a", 1, 1, "a: 2 failures, 2.0 s"),
    ("many", "a", 1, 2, "a: 3 failures, 3.0 s"),
    ("slow", None, 2, 0, None),
    ("fine", "b", 2, 0, None),
    ("many", "b", 2, 1, "b: 2 failures, 1.6 s"),
]


@pytest.fixture
def log(tmp_path: Path) -> tuple[str, str]:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(FILE)
    log.write_text(ROWS)
    return str(rules), str(log)


def test_messages_are_a_member_of_json_lines(log: tuple[str, str]) -> None:
    ended = mtlmon("--output-format", "jsonl", "--verdicts", "false", *log)
    assert (ended.status, ended.errors) == (1, "")
    found = [json.loads(line) for line in ended.output.splitlines()]
    assert [
        (one["policy"], one["ip"], one["time"], one["message"])
        for one in found
        if one["message"] is not None
    ] == [
        ("many", "a", 1, "a: 2 failures, 2.0 s"),
        ("many", "a", 1, "a: 3 failures, 3.0 s"),
        ("many", "b", 2, "b: 2 failures, 1.6 s"),
    ]


def test_messages_are_a_column_of_tables(log: tuple[str, str], tmp_path: Path) -> None:
    from pyarrow import csv, parquet

    for name in ("csv", "parquet"):
        path = tmp_path / f"out.{name}"
        mtlmon("--output-format", name, "-o", str(path), *log)
        table = csv.read_csv(path) if name == "csv" else parquet.read_table(path)
        assert table.column_names[-1] == "message"
        shown = [text for text in table["message"].to_pylist() if text]
        assert shown == ["a: 2 failures, 2.0 s", "a: 3 failures, 3.0 s", "b: 2 failures, 1.6 s"]


def test_plain_lines_and_files_without_messages_stay_as_they_are(
    log: tuple[str, str], tmp_path: Path
) -> None:
    assert mtlmon("--verdicts", "false", *log).output.splitlines()[0] == "many\ta\t1:1 false"
    (tmp_path / "rules.mtl").write_text(FILE.partition(" message")[0])
    ended = mtlmon("--output-format", "jsonl", *log)
    assert "message" not in ended.output


@pytest.mark.parametrize("size", ["first", "false", "boolean", "all"])
def test_messages_do_not_depend_on_which_verdicts_are_written(
    log: tuple[str, str], size: str
) -> None:
    ended = mtlmon("--output-format", "jsonl", "--verdicts", size, "--end-time", "inf", *log)
    shown = [json.loads(line)["message"] for line in ended.output.splitlines()]
    expected = [one[-1] for one in MESSAGES if one[-1] is not None]
    assert [text for text in shown if text] == expected[: 1 if size == "first" else None]


def test_a_key_column_of_that_name_gets_a_prefix(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text('trigger t per message: x > 1 message "{x}"')
    log.write_text("ts,message,x\n1,a,2\n")
    ended = mtlmon("--output-format", "jsonl", str(rules), str(log))
    assert json.loads(ended.output)["key_message"] == "a"
    assert json.loads(ended.output)["message"] == "2"


def test_triggers_of_text_logs_have_messages(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text('unit s\ntrigger t: count[0,5s](b) > 1 message "{count[0,5s](b)} at {ts}"')
    ended = mtlmon("--output-format", "jsonl", str(rules), log="@1 b\n@2 b\n@9\n")
    shown = [json.loads(line)["message"] for line in ended.output.splitlines()]
    assert shown == [None, "2 at 2", None]


def test_explanations_have_messages_and_values(log: tuple[str, str], tmp_path: Path) -> None:
    ended = mtlmon("--explain", "--verdicts", "none", *log)
    lines = ended.errors.splitlines()
    at = lines.index("a: 3 failures, 3.0 s")
    path = log[1]
    assert lines[at - 2 : at] == ["policy many, key a", f"at {path}:5"]
    assert lines[at + 1] == f"fails was 3: {path}:2, {path}:4, {path}:5"
    page = tmp_path / "why.html"
    mtlmon("--explain", "--explain-output", str(page), "--verdicts", "none", *log)
    assert f"<p>fails was 3: {path}:2, {path}:4, {path}:5</p>" in page.read_text()


def test_reports_have_messages_and_values(log: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="jinja2 (mtlmon[report]) is not installed")
    page = tmp_path / "report.html"
    mtlmon("--report", str(page), "--verdicts", "none", *log)
    text = page.read_text()
    assert '<p class="message">a: 3 failures, 3.0 s</p>' in text
    path = log[1]
    places = ", ".join(f"<bdi>{path}:{line}</bdi>" for line in (2, 4, 5))
    assert f'<dt>fails</dt><dd>3 <span class="faint">({places})</span></dd>' in text


def test_only_the_rows_of_the_window_are_listed(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text("unit s\npolicy p: count[2,10s](x > 0) < 3 or x.last() = 7\n")
    log.write_text("ts,x\n" + "".join(f"{time},{time % 3}\n" for time in range(1, 13)))
    ended = mtlmon("--explain", "--explain-limit", "2", "--verdicts", "none", str(rules), str(log))
    lines = ended.errors.splitlines()
    places = [f"{log}:{line}" for line in (2, 3, 5, 6)]
    assert f"count[2s,10s](x > 0) was 3: {', '.join(places[:3])}" in lines
    assert f"count[2s,10s](x > 0) was 4: {', '.join(places)}" in lines
    assert "x.last() was 2" in lines
    assert "x.last() was 0" in lines


def test_explanations_of_text_logs_take_each_atom_for_itself(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.log"
    rules.write_text("unit s\natom z = count[0,5s](b) > 0\npolicy p: z IMPLIES a\n")
    log.write_text("@1 b\n@2 c\n")
    ended = mtlmon("--explain", "--verdicts", "none", str(rules), str(log))
    assert "2:0 violates z IMPLIES a" in ended.errors
    assert "satisfies" not in ended.errors


CLOCKS = """\
unit s
key ip
stream busy = count[0,10s]() every 10s
trigger quiet on every 10s: busy < 2 message "{ip}{busy} rows"
trigger failed on rows where status = 401: latency > 1.0 message "{latency:.2f}"
"""


def test_triggers_have_messages_at_their_own_time_points(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(CLOCKS.replace("{ip}", ""))
    log.write_text(
        "ts,ip,status,latency\n1,a,401,0.5\n2,a,401,2\n3,b,200,9\n3,b,401,3\n31,a,200,1\n"
    )
    options = ("--output-format", "jsonl", "--verdicts", "false", "--end-time", "40")
    ended = mtlmon(*options, str(rules), str(log))
    found = [json.loads(line) for line in ended.output.splitlines()]
    shown = [(one["policy"], one["ip"], one["time"], one["message"]) for one in found]
    assert sorted(shown) == [
        ("failed", "a", 2, "2.00"),
        ("failed", "b", 3, "3.00"),
        *(("quiet", "a", time, "0 rows") for time in (20, 30)),
        ("quiet", "a", 40, "1 rows"),
        *(("quiet", "b", time, "0 rows") for time in (20, 30, 40)),
    ]
    ended = mtlmon("--explain", "--verdicts", "none", "--end-time", "40", str(rules), str(log))
    assert "busy was 0" in ended.errors.splitlines()


def test_tables_that_are_checked_in_python_have_messages(tmp_path: Path) -> None:
    from mtlmon import check as check_log

    log = tmp_path / "log.csv"
    log.write_text(ROWS)
    table = check_log(FILE, log, verdicts="false").to_arrow()
    found = [text for text in table["message"].to_pylist() if text is not None]
    assert found == [one[-1] for one in MESSAGES if one[-1] is not None]
    first = check_log(FILE, log, verdicts="first").to_arrow().to_pylist()
    assert [row["message"] for row in first] == [MESSAGES[0][-1]]


def test_messages_have_the_values_of_sorted_rows(log: tuple[str, str]) -> None:
    ordered = mtlmon("--output-format", "jsonl", *log)
    head, *rows = Path(log[1]).read_text().splitlines()
    rows.sort(key=lambda row: -int(row.partition(",")[0]))
    Path(log[1]).write_text("\n".join([head, *rows]) + "\n")
    ended = mtlmon("--sort", "--output-format", "jsonl", *log)
    assert (ended.status, ended.output) == (ordered.status, ordered.output)


def test_columns_are_held_at_ticks(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(
        "unit s\nkey id\nstream n = count[0,10s]() every 10s\n"
        'trigger many on every 10s: n > 1 message "{id} {x + 1} {max[0,10s](x)} {x.last()} {ts}"\n'
    )
    log.write_text("ts,id,x\n1,a,5\n2,b,1\n8,a,2\n31,b,9\n")
    options = ("--verdicts", "false", "--output-format", "jsonl")
    done = mtlmon(*options, str(rules), str(log))
    found = [json.loads(line) for line in done.output.splitlines()]
    assert [(one["id"], one["time"], one["message"]) for one in found] == [("a", 10, "a 3 5 2 10")]


def test_formulas_with_messages_are_explained_and_counted_as_those_without(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,up,x\n1,true,2\n2,false,3\n3,false,1\n4,false,1\n")
    found = []
    for message in ("", ' message "{x}"', ' message "up"'):
        rules = tmp_path / "rules.mtl"
        rules.write_text(f"policy p at most 20%: x > 1 IMPLIES PREVIOUS up{message}\n")
        found.append(mtlmon("--explain", "--summary", str(rules), str(log)))
    assert "p: 2 triggered, 1 violated (50.0%, at most 20%: too many), 0 open" in found[0].errors
    plain = _without_speed(found[0].errors)
    assert "1:0 violates x > 1 IMPLIES PREVIOUS up\n" in plain
    place = f"at {log}:2\n"
    for ended, text in zip(found[1:], ("2", "up"), strict=True):
        assert (ended.status, ended.output) == (found[0].status, found[0].output)
        assert _without_speed(ended.errors) == plain.replace(place, f"{place}{text}\n")


def _without_speed(text: str) -> str:
    return re.sub(r"^(events|seconds|peak memory) .*\n", "", text, flags=re.MULTILINE)
