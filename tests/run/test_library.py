"""`mtlmon.check` says what the command says, with the same words."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import mtlmon
from tests.doors import (
    PLACES,
    CheckOptions,
    QueryOptions,
    RunSpec,
    make_parser,
    make_query_parser,
    run_keywords,
)
from tests.run.both import check_both
from tests.sampling import thinned

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

PLAIN = """\
unit s
stream few = count[0,5](p)
stream often = count[0,6](q) every 3s
policy answer "an answer" severity high: p IMPLIES EVENTUALLY[0,5] q
policy window: few < 3
policy later: x.next() > 0
policy ticks on every 3s: often < 2
trigger alarm: few > 2 message "{few} at {x}"
"""
VARIABLES = """\
unit s
atom P(k, x) = p
atom Q(k) = q
policy seen: P(k, x) IMPLIES ONCE[0,9] Q(k)
policy soon: P(k, x) IMPLIES EVENTUALLY[0,4] Q(k)
find both: P(k, x) AND ONCE[0,3] Q(k)
"""


def rows(seed: int, *, late: bool) -> str:
    """A table of rows, some of them late."""
    chance = random.Random(seed)
    lines, clock = ["ts,k,p,q,x"], 0
    for _ in range(60):
        clock += chance.choice((0, 0, 1, 2, 7))
        time = max(0, clock - chance.choice((0, 0, 0, 2, 5))) if late else clock
        p, q = (str(chance.random() < 0.4).lower() for _ in "pq")
        lines.append(f"{time},{chance.choice('abc')},{p},{q},{chance.choice((-1, 0, 3, 8))}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Writes a policy file and a log, and returns their paths."""

    def write(policies: str, log: str, name: str = "log.csv") -> tuple[Path, Path]:
        (tmp_path / "rules.mtl").write_text(policies)
        (tmp_path / name).write_text(log)
        return tmp_path / "rules.mtl", tmp_path / name

    return write


ASKED = [
    "",
    "--key k",
    "--key k --rows",
    "--verdicts false --resolve",
    "--verdicts first",
    "--mode naive --end-time last",
    "--mode global",
    "--end-time inf --fail-on high",
    "--fail-on-vacuous --time-unit s",
    "--threads 2 --key k --end-time 900",
]
LATE = ["", "--key k", "--key k --clock key", "--wait 3", "--verdicts first", "--rows"]


@pytest.mark.parametrize("asked", ASKED)
def test_policies_without_variables(asked: str, files: Any) -> None:
    found = check_both(*files(PLAIN, rows(1, late=False)), *asked.split())
    assert found or "first" in asked


@pytest.mark.parametrize(
    "asked", ["", "--rows", "--verdicts all", "--time-points stamp", "--slices 3", "--key k"]
)
def test_policies_with_variables(asked: str, files: Any) -> None:
    assert check_both(*files(VARIABLES, rows(2, late=False)), *asked.split())


@pytest.mark.parametrize("asked", ["", "--rows", "--verdicts first", "--end-time inf"])
def test_both_kinds_of_policies(asked: str, files: Any) -> None:
    both = VARIABLES + "policy answer: p IMPLIES EVENTUALLY[0,5] q\n"
    assert check_both(*files(both, rows(3, late=False)), *asked.split())


@pytest.mark.parametrize("asked", LATE)
@pytest.mark.parametrize("kind", ["plain", "variables", "both"])
def test_rows_that_come_late(kind: str, asked: str, files: Any) -> None:
    plain = "unit s\nstream few = count[0,5](p)\npolicy w: few < 2\npolicy a: p IMPLIES NEXT q\n"
    policies = {"plain": plain, "variables": VARIABLES, "both": VARIABLES + plain[7:]}[kind]
    for seed in thinned(range(3)):
        check_both(*files(policies, rows(seed, late=True)), "--lateness", "4", *asked.split())


@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"end_time": "inf"}])
@pytest.mark.parametrize("kind", ["plain", "variables", "both"])
def test_counts_of_rows_that_come_late(kind: str, options: Any, files: Any) -> None:
    """At the end, they are those of the rows in order."""
    plain = "unit s\nstream few = count[0,5](p)\npolicy w: few < 2\npolicy a: p IMPLIES NEXT q\n"
    policies = {"plain": plain, "variables": VARIABLES, "both": VARIABLES + plain[7:]}[kind]
    for seed in thinned(range(3)):
        rules, log = files(policies, rows(seed, late=True))
        late = mtlmon.check(rules, log, lateness=9, resolve=True, **options)
        next(iter(late.batches()))
        assert sum(one.events for one in late.counts.values())
        wanted = mtlmon.check(rules, log, sort=True, resolve=True, **options).finish()
        assert late.finish().counts == wanted.counts
        assert sum(one.false for one in wanted.counts.values())
        assert f"{wanted.counts.popitem()[1].events:,}" in (late._repr_html_() or "")


def test_counts_of_verdicts_that_may_be_equivalent(files: Any) -> None:
    _, log = files("", rows(1, late=True))
    run = mtlmon.check("policy answer: p IMPLIES NEXT q", log, lateness=9).finish()
    with pytest.raises(mtlmon.RunError, match=r"verdicts of answer may be .*: add resolve=True"):
        _ = run.counts
    assert run._repr_html_() is None
    # past formulas have no such verdicts
    run = mtlmon.check("policy once: p IMPLIES ONCE q", log, lateness=9).finish()
    wanted = mtlmon.check("policy once: p IMPLIES ONCE q", log, sort=True).finish()
    assert run.counts == wanted.counts


@pytest.mark.parametrize("asked", ["--wait 5", "--sort", "--consistency strong --lateness 5"])
def test_rows_that_are_put_in_order(asked: str, files: Any) -> None:
    assert check_both(*files(PLAIN, rows(4, late=True)), *asked.split())


TEXT = "@1 p\n@2 q\n@2\n@7 p\n@9 p\n"
ATOMS_WITH_ARGUMENTS = "@1 P(1)\n@2 P(2) Q(2)\n@2\n@7 Q(1)\n@9 P(3)\n"


@pytest.mark.parametrize(
    "formula", ["p IMPLIES EVENTUALLY[0,4] q", "policy a: P(x) IMPLIES EVENTUALLY[0,5] Q(x)"]
)
@pytest.mark.parametrize("asked", ["", "--mode naive", "--verdicts first", "--lateness 3"])
def test_text_logs(formula: str, asked: str, files: Any) -> None:
    if "P(x)" in formula and "naive" in asked:
        asked = "--verdicts all"
    text = ATOMS_WITH_ARGUMENTS if "P(x)" in formula else TEXT
    found = check_both(*files(formula, text, "log.txt"), *asked.split())
    assert found or "first" in asked


@pytest.mark.parametrize(
    ("policies", "log", "asked"),
    [
        pytest.param("p AND", TEXT, "", id="a formula that is wrong"),
        pytest.param("p", "@2 p\n@1 p\n", "", id="out of order"),
        pytest.param("p", "@1 p\n@x\n@3 p\n", "", id="a line that cannot be read"),
        pytest.param("p", "@1 p\n@x\n@3 p\n", "--on-error skip", id="which is skipped"),
        pytest.param("p", TEXT, "--key k", id="a key of a text log"),
        pytest.param("p", TEXT, "--sort --lateness 3", id="options that contradict"),
        pytest.param("p", TEXT, "--lateness 3s", id="a length without a unit"),
        pytest.param("p", TEXT, "--slices 3", id="slices without variables"),
        pytest.param("P(x) IMPLIES Q(x)", TEXT, "--mode naive", id="a mode with variables"),
        pytest.param("missing", TEXT, "", id="an atom that no event has"),
        pytest.param("p", "", "", id="an empty log"),
    ],
)
def test_errors_and_remarks(policies: str, log: str, asked: str, files: Any) -> None:
    check_both(*files(policies, log, "log.txt"), *asked.split())


def test_every_option_of_the_command_is_known() -> None:
    named = set(get_type_hints(CheckOptions))
    for action in make_parser()._actions:
        word = max(action.option_strings, key=len, default="--help").lstrip("-").replace("-", "_")
        if word in ("help", "h", "version", "generate", "e", "no_summary"):
            continue
        word = "output" if word == "o" else word
        if word not in named:
            with pytest.raises(TypeError, match=rf"no option {word}, which "):
                _check("p", "log", **{word: 1})


def test_what_is_not_said_is_the_same() -> None:
    """The defaults of the command and of the library."""
    for action in make_parser()._actions:
        if action.dest in PLACES:
            group, field = PLACES[action.dest]
            default = getattr(getattr(RunSpec, group), field)
            wanted = action.default
            assert default == (tuple(wanted) if isinstance(wanted, list) else wanted), field


@pytest.mark.parametrize(
    ("parser", "options"),
    [(make_parser, CheckOptions), (make_query_parser, QueryOptions)],
    ids=["check", "query"],
)
def test_values_are_the_same(parser: Any, options: type) -> None:
    """The texts that an option can be, and what reads its value."""
    kinds = get_type_hints(options)
    for action in parser()._actions:
        word = max(action.option_strings, key=len, default="").lstrip("-").replace("-", "_")
        if word not in kinds:
            continue
        is_read = word in run_keywords.VALUES
        if action.choices is not None and word not in ("unit", "resolution"):
            assert set(action.choices) == set(run_keywords.choices_of(kinds[word])), word
        elif is_read:
            assert action.type is run_keywords.VALUES[word], word
        if action.nargs == 0:
            assert kinds[word] is bool, word
        elif action.type is not None and not is_read:
            assert word in ("set", "key", "null_values"), word


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"latenes": 3}, r"check\(\) has no option 'latenes'; did you mean 'lateness'\?"),
        ({"progress": True}, r"check\(\) has no option progress, which is for terminals"),
        ({"resolve": 1}, r"check\(resolve=...\) takes True or False, not 1"),
        ({"lateness": True}, r"check\(lateness=...\) takes a number or a text, not True"),
        ({"time": 3}, r"check\(time=...\) takes a text or a list of texts, not 3"),
    ],
)
def test_keywords_that_are_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        mtlmon.check("p", "log.txt", **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "lokal"}, "mode='lokal': it is one of .*; did you mean 'local'"),
        ({"lateness": "5x"}, "lateness='5x': '5x' is not a length of time"),
        ({"output_format": "csv"}, "output_format is for answers in a file: add output=PATH"),
        ({"checkpoint": "state"}, "checkpoint needs a file for the verdicts: add output=PATH"),
    ],
)
def test_values_that_are_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(mtlmon.RunError, match=message):
        mtlmon.check("p", "log.txt", **given)


_check: Any = mtlmon.check


def frames() -> list[Any]:
    table = pa.table({"ts": [1, 2, 9], "p": [True, False, True], "k": ["a", "b", "a"]})
    found: list[Any] = [table, table.to_batches()[0], [table.slice(0, 2), table.slice(2)]]
    for name in ("pandas", "polars"):
        try:
            __import__(name)
        except ImportError:
            continue
        found.append(table.to_pandas() if name == "pandas" else _polars(table))
    return found


def _polars(table: Any) -> Any:
    import polars

    return polars.from_arrow(table)


@pytest.mark.parametrize("number", range(3))
def test_tables_and_frames(number: int) -> None:
    given = frames()
    for one in given[number::3]:
        run = mtlmon.check("policy a: p", one, key="k", verdicts="false", lateness=3)
        assert [(one["k"], one.time, one.verdict) for one in run] == [("b", 2, False)]
        assert run.status == 1
        assert run.has_violation


def test_answers_as_tables(files: Any) -> None:
    policies, log = files(PLAIN, rows(5, late=False))
    one_by_one = [dict(answer) for answer in mtlmon.check(policies, log)]
    assert mtlmon.check(policies, log).to_arrow().to_pylist() == one_by_one
    batches = mtlmon.check(policies, log).batches()
    assert [row for batch in batches for row in batch.to_pylist()] == one_by_one
    assert mtlmon.check(policies, log).to_polars().to_dicts() == one_by_one
    none = mtlmon.check("policy a: p", pa.table({"ts": [1], "p": [True]}), verdicts="false")
    assert none.to_arrow().schema.names == mtlmon.check("policy a: p", log).to_arrow().schema.names


def test_a_run_that_is_left_closes_its_log(files: Any) -> None:
    policies, log = files("p", "@1 p\n" * 100_000, "log.txt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with mtlmon.check(policies, log) as run:
            assert next(run).time == 1
    assert run.status is None
    assert list(run) == []


def test_answers_come_before_an_error(files: Any) -> None:
    policies, log = files("p", "@1 p\n@2\n@x\n", "log.txt")
    run = mtlmon.check(policies, log)
    found = []
    with pytest.raises(mtlmon.LogError, match=r"log\.txt:3:2"):
        for answer in run:
            found.append((answer.time, answer.verdict))
    assert found == [(1, True), (2, False)]
    assert run.status is None


def test_explanations_and_a_report(files: Any, tmp_path: Path) -> None:
    policies, log = files(PLAIN, rows(6, late=False))
    page = tmp_path / "report.html"
    run = mtlmon.check(policies, log, explain=True, explain_limit=3, report=page).finish()
    assert run.status == 1
    assert [one["policy"] for one in run.explanations]
    assert "<html" in page.read_text()
    assert "rows" in run.summary


def test_a_file_for_the_answers_and_a_checkpoint(files: Any, tmp_path: Path) -> None:
    policies, log = files(PLAIN, rows(7, late=False))
    whole, output, state = (tmp_path / name for name in ("whole.csv", "out.csv", "state"))
    mtlmon.check(policies, log, output=whole, output_format="csv").finish()
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:30]))
    asked: dict[str, Any] = {"output": output, "output_format": "csv", "checkpoint": state}
    mtlmon.check(policies, log, **asked).finish()
    log.write_text("".join(lines))
    mtlmon.check(policies, log, **asked, resume=True).finish()
    assert output.read_text() == whole.read_text()


def test_policies_may_be_formulas_texts_and_files(files: Any) -> None:
    policies, log = files("unit s\npolicy a: p\n", rows(8, late=False))
    wanted = [answer.verdict for answer in mtlmon.check(policies, log)]
    formula = mtlmon.parse("p")
    for given in ("policy a: p", "p", formula, [policies], mtlmon.parse("p AND TRUE")):
        assert [answer.verdict for answer in mtlmon.check(given, log)] == wanted
    with pytest.raises(mtlmon.MtlmonError, match="looks like a path"):
        mtlmon.check("rules.mtl", log)
