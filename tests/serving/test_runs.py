"""What a run of the playground finds, against the reference evaluator and the command."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from tests import strategies
from tests.cli.process import mtlmon
from tests.doors import EXAMPLES
from tests.doors import cli_serving_run as serving_run
from tests.doors import cli_serving_work as serving_work
from tests.doors import parse_serve_arguments as parse_arguments
from tests.reference.evaluator import evaluate
from tests.traces import Step, prefix_of, time_points

if TYPE_CHECKING:
    from typing import Any

    from mtlmon import Formula
    from tests.doors import Example, Findings, Verdict


EXAMPLE_POLICY, EXAMPLE_LOG = EXAMPLES[0].policy, EXAMPLES[0].log

CHARGES = """\
at,bike,charge
2024-05-01T08:00:00+02:00,7,90
2024-05-01T08:10:00+02:00,12,64

2024-05-01T09:30:00+02:00,7,71
2024-05-01T09:31:00+02:00,7,
2024-05-01T10:31:00+02:00,12,30
"""

CHARGED = """\
time "at"
key bike
unit s
stream mean = avg[0,1h](charge)
policy fine: charge >= 50
policy soon: charge < 65 IMPLIES EVENTUALLY[0,1h] charge > 70
"""


def found(policy: str, log: str, *arguments: str) -> Findings:
    options = parse_arguments(arguments)
    with serving_work.held_log(log, options.log_name) as held:
        return serving_work.findings_of(policy, held, options)


def asked(action: str, policy: str, log: str, *arguments: str, **more: object) -> dict[str, Any]:
    request = {"action": action, "policy": policy, "log": log, **more}
    return serving_work.answer(request, parse_arguments(arguments))


def test_machines_of_a_file_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "owned.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    policy = 'stream s: bool = machine("owned:Machine", ts)\npolicy p: s\n'
    (problem,) = found(policy, "ts\n1\n", "--format", "csv").problems
    assert "there is no machine owned:Machine" in problem.message
    assert not (tmp_path / "imported").exists()


def row(verdict: Verdict) -> tuple[object, ...]:
    return verdict.key, verdict.time_stamp, verdict.offset, verdict.value, verdict.line


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(formula=strategies.formulas(depth=2), steps=strategies.traces())
def test_verdicts_are_those_of_the_reference(formula: Formula, steps: tuple[Step, ...]) -> None:
    prefix = prefix_of(steps)
    lines = [f"@{one.time_stamp} {' '.join(sorted(one.atoms))}" for one in prefix.events]
    result = found(f"policy p: {formula}", "\n".join(lines))
    assert result.problems == []
    known = prefix._replace(clock=prefix.events[-1].time_stamp if prefix.events else 0)
    values = evaluate(formula, known)
    (policy,) = result.policies
    points = zip(time_points(prefix.events), values, strict=True)
    expected = {point: value for point, value in points}
    shown = {(one.time_stamp, one.offset): one.value for one in policy.verdicts}
    # Boolean simplification may know more than the reference. Of undecided time-points that are
    # known to be equal, only the earliest is shown.
    assert shown.keys() <= expected.keys()
    for point, value in expected.items():
        assert value is None or shown[point] == value
    assert (policy.true, policy.false) == tuple(
        list(shown.values()).count(value) for value in (True, False)
    )
    assert policy.true + policy.false + policy.undecided == len(expected)
    for verdict in policy.verdicts:
        if verdict.line is not None:
            event = prefix.events[verdict.line - 1]
            assert event.time_stamp == verdict.time_stamp
        assert (verdict.line is None) == (verdict.value is None)


def test_verdicts_with_keys_are_those_of_the_command(tmp_path: Path) -> None:
    policy, log = tmp_path / "charged.mtl", tmp_path / "charges.csv"
    policy.write_text(CHARGED)
    log.write_text(CHARGES)
    command = mtlmon("--resolve", "--rows", "--output-format", "jsonl", str(policy), str(log))
    expected = [json.loads(line) for line in command.output.splitlines()]
    result = found(CHARGED, CHARGES, str(policy), str(log))
    lines = CHARGES.splitlines()
    for one in result.policies:
        decided = [verdict for verdict in one.verdicts if verdict.value is not None]
        assert [
            (verdict.key, verdict.time_stamp, verdict.offset, verdict.value)
            for verdict in sorted(decided, key=lambda verdict: (verdict.time_stamp, verdict.key))
        ] == sorted(
            (
                (own["bike"], own["time"], own["offset"], own["verdict"])
                for own in expected
                if own["policy"] == one.name
            ),
            key=lambda own: (own[1], own[0]),
        )
        for verdict in decided:
            assert verdict.line is not None
            assert lines[verdict.line - 1].split(",")[1] == verdict.key
    assert result.violated_lines == [3, 6, 7]
    assert result.has_dates


@pytest.mark.parametrize("before", ["", "\n", "\n\r\n"])
@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
@pytest.mark.parametrize("name", ["l.csv", "l.jsonl"])
def test_lines_of_rows(name: str, before: str, between: str) -> None:
    head, rows = "ts,x,y\n", ['1,2,"a\nb"', "2,9,c", '3,1,"\n"', "4,8,d"]
    if name == "l.jsonl":
        head, rows = "", [json.dumps({"ts": k, "x": x}) for k, x in enumerate([2, 9, 1, 8])]
    log = before + head + "".join(f"{between}{row}\n" for row in rows)
    result = found("x > 5", log, "p.mtl", name)
    assert result.problems == []
    found_lines = [one.line for one in result.policies[0].verdicts]
    assert found_lines == [log[: log.index(row)].count("\n") + 1 for row in rows]


def test_values_of_streams_are_those_of_the_command(tmp_path: Path) -> None:
    policy, log = tmp_path / "charged.mtl", tmp_path / "charges.csv"
    policy.write_text(CHARGED)
    log.write_text(CHARGES)
    command = mtlmon("streams", str(policy), str(log))
    expected = [json.loads(line) for line in command.output.splitlines()]
    streams = found(CHARGED, CHARGES, str(policy), str(log)).streams
    assert streams is not None
    (mean,) = streams.streams
    values = [None if math.isnan(value) else value for value in mean.values.tolist()]
    assert values == [own["mean"] for own in expected]
    assert list(streams.keys) == [own["bike"] for own in expected]


def test_the_example_has_violations_and_no_problem() -> None:
    result = found(EXAMPLE_POLICY, EXAMPLE_LOG)
    assert result.problems == []
    assert [policy.false for policy in result.policies] == [1, 1]
    assert result.violated_lines == [4, 8]


@pytest.mark.parametrize(
    ("policy", "log", "arguments", "places"),
    [
        ("policy a: p AND\npolicy b: q", "@1 p", (), [("policy", 1, 16)]),
        ("unit s\npolicy a: p IMPLY q", "@1 p", (), [("policy", 2, 13)]),
        ("p", "@1 p\n@0 p", (), [("log", 2, 2)]),
        ("p", "@1 p\nnonsense", (), [("log", 2, 1)]),
        ("x > 1", "ts,x\n1,2\n2,many", (), [("log", 3, None)]),
        ("x > 1", "ts,x\n2,2\n1,3", ("f.mtl", "l.csv"), [("log", 3, None)]),
        ("x > 1", "@1 p", (), [(None, None, None)]),
        ("key who\npolicy a: p", "@1 p", (), [(None, None, None)]),
    ],
)
def test_problems_have_places(
    policy: str,
    log: str,
    arguments: tuple[str, ...],
    places: list[tuple[str | None, int | None, int | None]],
) -> None:
    result = found(policy, log, *arguments)
    assert [(one.pane, one.line, one.column) for one in result.problems] == places, result.problems
    assert all(one.message for one in result.problems)
    answer = asked("run", policy, log, *arguments, width=600)
    assert answer["kind"] == "problem"


def test_verdicts_before_an_error_are_shown() -> None:
    result = found("p", "@1 p\n@2\nnonsense")
    assert [one.value for one in result.policies[0].verdicts] == [True, False]


@pytest.mark.parametrize("verdict", ["0,0,170,0", "0,0,100,0", "0,0,480,0"])
def test_why(verdict: str) -> None:
    html = asked("why", EXAMPLE_POLICY, EXAMPLE_LOG, verdict=verdict)["html"]
    time_stamp = verdict.split(",")[2]
    words = {"170": "violates", "100": "satisfies", "480": "undecided"}[time_stamp]
    assert f"{time_stamp}:0" in html
    assert words in html
    assert ("<svg" in html) == (time_stamp != "480")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("0,0,171,0", "no time-point"),
        ("7,0,170,0", "no such policy"),
        ("nonsense", "there is no verdict"),
        (f"0,0,{10**18},0", "no time-point"),
        ("0,0,9999999999999999999,0", "no time-point"),
    ],
)
def test_why_of_what_is_not_there(verdict: str, words: str) -> None:
    html = asked("why", EXAMPLE_POLICY, EXAMPLE_LOG, verdict=verdict)["html"]
    assert words in html
    assert "internal fault" not in html


def test_explanations_with_keys() -> None:
    arguments = "charged.mtl", "charges.csv"
    policies = found(CHARGED, CHARGES, *arguments).policies
    assert policies
    for policy in policies:
        assert policy.verdicts
        for verdict in policy.verdicts:
            more = {"verdict": verdict.name}
            html = asked("why", CHARGED, CHARGES, *arguments, **more)["html"]
            words = {True: "satisfies", False: "violates", None: "undecided"}[verdict.value]
            assert f"policy {policy.name}, key {verdict.key}" in html
            assert words in html


def test_variables() -> None:
    policy = (
        "atom publish(user, file)\natom approve(file)\n"
        "policy approved: publish(u, f) IMPLIES ONCE[0,10] approve(f)"
    )
    log = "@1 approve(a)\n@5 publish(ann, a)\n@20 publish(ann, a) publish(bob, b)"
    result = found(policy, log)
    (own,) = result.policies
    assert [(one.time_stamp, one.value, one.text) for one in own.verdicts] == [
        (1, True, ""),
        (5, True, ""),
        (20, False, "u = ann, f = a"),
        (20, False, "u = bob, f = b"),
    ]
    assert own.is_violated
    assert not own.has_explanations
    assert [words for words, _ in result.reasons] == [
        f"policy approved · 20:0 violates {own.formula} · u = {u}, f = {f}"
        for u, f in (("ann", "a"), ("bob", "b"))
    ]
    assert "no approve(b)" in result.reasons[1][1]
    assert result.violated_lines == [3]
    assert 'data-why="' not in asked("run", policy, log, width=500)["result"]


def test_policies_of_both_kinds_on_a_table() -> None:
    policy = """\
atom publish(user, file) = what = "publish"
atom approve(file) = what = "approve"
policy approved: publish(u, f) IMPLIES ONCE[0,10] approve(f)
policy plain: what = "x" IMPLIES ONCE[0,1] what = "publish"
"""
    log = "ts,what,user,file\n1,approve,,a\n5,publish,ann,a\n20,publish,bob,b\n29,x,bob,<b>\n"
    result = found(policy, log, "p.mtl", "l.csv")
    assert result.problems == []
    assert [one.false for one in result.policies] == [1, 1]
    assert [one.value for one in result.policies[1].verdicts] == [True, True, True, False]
    assert [words.partition(" violates")[0] for words, _ in result.reasons] == [
        "policy approved · 20:0",
        "policy plain: 29:0",
    ]
    assert "<svg" in result.reasons[1][1]


def test_a_trigger_has_its_message() -> None:
    policy = 'stream low = x < 3\ntrigger empty: low message "x was {x}"'
    result = found(policy, "ts,x\n1,5\n2,2", "t.mtl", "l.csv")
    assert result.problems == []
    (own,) = result.policies
    assert [one.text for one in own.verdicts] == ["", "x was 2"]


ZONED = "ts,x\n2024-05-01T10:00:00,5\n2024-05-01T10:00:07,2\n"


@pytest.mark.parametrize(
    ("before", "arguments", "time"),
    [
        ("", (), "2024-05-01 10:00:07"),
        ('time zone "Europe/Rome"\n', (), "2024-05-01 10:00:07"),
        ("", ("--time-zone", "Europe/Rome"), "2024-05-01 10:00:07"),
        # the hours of a policy are in a zone, the log is in UTC
        ('zone "Europe/Rome"\n', (), "2024-05-01 12:00:07"),
    ],
)
@pytest.mark.parametrize(
    "policy", ["policy p: x > 3", "atom a(x) = x > 0\npolicy p: a(v) IMPLIES v > 3"]
)
def test_times_are_in_the_zone_of_the_log(
    before: str, arguments: tuple[str, ...], time: str, policy: str
) -> None:
    text = f"unit s\n{before}{policy}\n"
    answer = asked("run", text, ZONED, "p.mtl", "log.csv", *arguments, width=600)
    assert answer["problems"] == ""
    assert f"<time>{time}</time>" in answer["result"]
    assert f"<title>{time}" in answer["plot"]


def test_remarks_say_which_atom_is_nowhere() -> None:
    result = found("request IMPLIES ONCE answer", "@1 request\n@2 answr")
    assert any("answer" in remark for remark in result.remarks)


def test_remarks_say_which_assumption_is_broken() -> None:
    result = found("unit s\nassume rate <= 2/s\npolicy a: p", "@1 p\n@1 p\n@1 p\n@9 p")
    assert any("rate" in remark for remark in result.remarks)
    assert len(result.policies[0].verdicts) == 4


def test_an_unexpected_error_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("here")

    monkeypatch.setattr(serving_run, "found_by", fail)
    (problem,) = found("p", "@1 p").problems
    assert problem.message == "internal fault, please report it: ZeroDivisionError: here"


def test_export_needs_no_server_and_runs_nothing() -> None:
    log = EXAMPLE_LOG + "".join(f"@{1000 + k} noise\n" for k in range(3000)) + "@9000 release\n"
    page = asked("export", EXAMPLE_POLICY + "# <script>alert(1)</script>", log)["page"]
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<details><summary>") > 3
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)=|url\(|http://(?!www\.w3\.org)""", page)
    # the lines around the violations, and the first ones
    assert "@9000 release" in page
    assert "@1500 noise" not in page


def test_export_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "p.mtl").write_text(EXAMPLE_POLICY)
    (tmp_path / "e.log").write_text(EXAMPLE_LOG)
    page = tmp_path / "page.html"
    arguments = str(tmp_path / "p.mtl"), str(tmp_path / "e.log")
    done = mtlmon("serve", "--export", str(page), *arguments)
    assert (done.status, done.output, done.errors) == (0, "", "")
    assert page.read_text() == serving_work.exported(
        EXAMPLE_POLICY, EXAMPLE_LOG, parse_arguments(arguments)
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.policy_name)
def test_an_example_shows_a_violation(example: Example) -> None:
    # options of the command line are for other texts
    answer = asked(
        "run",
        example.policy,
        example.log,
        *("--key", "nothing", "--event", "other", "--format", "tsv", "--end-time", "last"),
        policy_name=example.policy_name,
        log_name=example.log_name,
        is_example=True,
    )
    assert (answer["problems"], answer["kind"]) == ("", "false")
    assert answer["lines"]
    assert answer["plot"].startswith("<div")
    assert 'class="remark"' not in answer["result"]


def test_a_log_that_was_opened_has_the_format_of_its_name() -> None:
    policy, log = "unit s\npolicy p: x < 2", "ts,x\n1,1\n2,3\n"
    answer = asked("run", policy, log, log_name="other.csv", policy_name="rules.mtl")
    assert answer["outcome"] == "1 violation, 2 events"
    assert answer["lines"] == [3]
    assert asked("run", policy, log, log_name="other.jsonl")["kind"] == "problem"


def test_violations_of_keys_are_counted_beyond_those_that_are_listed() -> None:
    rows = "".join(f"{time},k{time % 7},{int(time % 7 > 4)}\n" for time in range(30_000))
    (policy,) = found("key k\npolicy p: x = 0", f"ts,k,x\n{rows}", "--format", "csv").policies
    assert policy.violating_keys == {"k5": 4285, "k6": 4285}
    assert policy.key_count == 7
    assert policy.false == sum(policy.violating_keys.values())


def test_messages_and_keys_of_policies_beside_some_with_variables() -> None:
    policy = (
        'unit s\nkey user\natom bad(user) = not ok\ntrigger failed: not ok message "{user} fails"\n'
        "policy again: bad(u) IMPLIES ONCE[1s,10s] bad(u)"
    )
    log = "ts,user,ok\n1,ann,false\n2,bob,false\n3,cy,true\n4,ann,false\n"
    failed, again = found(policy, log, "--format", "csv").policies
    wrong = [one for one in failed.verdicts if one.value is False]
    assert [(one.key, one.text) for one in wrong] == [
        ("ann", "ann fails"),
        ("bob", "bob fails"),
        ("ann", "ann fails"),
    ]
    assert (failed.violating_keys, failed.key_count) == ({"ann": 2, "bob": 1}, 3)
    wrong = [one for one in again.verdicts if one.value is False]
    assert [(one.key, one.text) for one in wrong] == [("ann", "u = ann"), ("bob", "u = bob")]
    assert (again.violating_keys, again.key_count) == ({"ann": 1, "bob": 1}, 3)


def test_keys_of_the_command_line_are_those_of_policies_with_variables() -> None:
    policy = "unit s\natom bad(n) = not ok\npolicy again: bad(n) IMPLIES ONCE[1s,10s] bad(n)"
    log = "ts,user,ok,n\n1,ann,false,1\n2,bob,false,1\n"
    (again,) = found(policy, log, "--format", "csv", "--key", "user").policies
    wrong = [one for one in again.verdicts if one.value is False]
    assert [(one.key, one.text) for one in wrong] == [("ann", "n = 1"), ("bob", "n = 1")]


def test_late_violations_of_policies_with_variables_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving_run, "KEPT", 10)
    log = "".join(f"@{time} open(ann)\n" for time in range(50)) + "@60 pay(bob)\n@61 pay(ann)\n"
    (policy,) = found("policy known: pay(u) IMPLIES ONCE open(u)", log).policies
    assert [(one.time_stamp, one.value) for one in policy.verdicts[9:]] == [(9, True), (60, False)]
    assert (policy.true, policy.false) == (51, 1)


@pytest.mark.parametrize(
    ("policy", "log"),
    [
        ("policy few at most {}%: bad IMPLIES ok", "@1 bad ok\n@2 bad\n@3 bad ok\n@4\n"),
        ("policy few at most {}%: bad(u) IMPLIES u < 2", "@1 bad(1)\n@2 bad(2)\n@3 bad(1)\n@4\n"),
    ],
)
def test_limits_are_kept(policy: str, log: str) -> None:
    for limit, is_violated in [(50, False), (20, True)]:
        (few,) = found(policy.format(limit), log).policies
        assert (few.true, few.false, few.is_violated) == (3, 1, is_violated)
    answer = asked("run", policy.format(50), log, width=500)
    assert answer["outcome"] == "all hold, 4 events"
    # the line is one that violates the policy
    assert answer["lines"] == [2]


@pytest.mark.parametrize(
    ("policy", "log"),
    [("asked IMPLIES ONCE told", "@1 told"), ("asked(u) IMPLIES ONCE told(u)", "@1 told(ann)")],
)
def test_what_was_never_triggered_is_told(policy: str, log: str) -> None:
    (never,) = found(policy, log).policies
    assert never.never_triggered
    remark = "The left side of the implication held nowhere."
    assert remark in asked("run", policy, log, width=500)["result"]
    word = "asked(bob)" if "(" in policy else "asked"
    (other,) = found(policy, f"{log}\n@2 {word}").policies
    assert not other.never_triggered


@pytest.mark.parametrize(
    ("policy", "log"),
    [
        ("ask IMPLIES EVENTUALLY[0,5] reply", "@1 ask\n@2 reply\n@8 ask\n@9 ask"),
        ("ask(u) IMPLIES EVENTUALLY[0,5] reply(u)", "@1 ask(1)\n@2 reply(1)\n@8 ask(2)\n@9 ask(1)"),
    ],
)
def test_undecided_time_points_are_shown(policy: str, log: str) -> None:
    result = found(policy, log)
    (own,) = result.policies
    assert (own.true, own.false, own.undecided) == (2, 0, 2)
    assert [(one.time_stamp, one.value, one.line) for one in own.verdicts] == [
        (1, True, 1),
        (2, True, 2),
        (8, None, None),
        (9, None, None),
    ]
    assert result.remarks == []
    assert asked("run", policy, log, width=500)["outcome"] == "no violation so far, 4 events"


def test_policies_of_both_kinds_have_keys_and_undecided_time_points() -> None:
    policy = """\
unit s
key user
atom bad(user) = not ok
policy soon: not ok IMPLIES EVENTUALLY[1s,9s] ok
policy again: bad(u) IMPLIES ONCE[1s,10s] bad(u)
"""
    log = "ts,user,ok\n1,ann,false\n2,bob,false\n3,cy,true\n4,ann,true\n5,ann,false\n"
    soon, again = found(policy, log, "--format", "csv").policies
    assert (soon.true, soon.undecided, soon.key_count) == (3, 2, 3)
    open_points = [(one.key, one.time_stamp) for one in soon.verdicts if one.value is None]
    assert open_points == [("bob", 2), ("ann", 5)]
    assert [(one.key, one.value, one.text) for one in again.verdicts] == [
        ("ann", False, "u = ann"),
        ("bob", False, "u = bob"),
        ("cy", True, ""),
        ("ann", True, ""),
        ("ann", True, ""),
    ]


def test_times_of_variables_are_dates() -> None:
    policy = "unit s\natom late(who, ts) = not ok\npolicy never: NOT late(w, t)"
    log = "ts,who,ok\n2024-05-01T10:00:00,ann,false\n2024-05-01T10:00:07,bob,true\n"
    result = found(policy, log, "p.mtl", "log.csv")
    (never,) = result.policies
    wrong = [one.text for one in never.verdicts if one.value is False]
    assert wrong == ["w = ann, t = 2024-05-01T10:00:00Z"]
    assert result.has_dates


def test_matches_are_no_violations() -> None:
    policy = "find known: pay(u) AND ONCE open(u)"
    log = "@1 open(ann) open(bob)\n@2 pay(ann) pay(bob)\n@3 pay(cy)"
    (known,) = found(policy, log).policies
    assert (known.true, known.false, known.is_violated) == (2, 0, False)
    assert [one.text for one in known.verdicts] == ["u = ann", "u = bob"]
    assert asked("run", policy, log, width=500)["outcome"] == "all hold, 3 events"
