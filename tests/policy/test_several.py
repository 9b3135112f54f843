"""Several policy files in one run: each says what it says by itself."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from mtlmon.errors import MtlmonError, PolicyError
from mtlmon.policy import PolicyFile, check_files, load_policies, parse_policies
from tests.doors import JoinedText, Waiting, line_text, source_at

# What x and y may be in a file; where nothing declares them, they are Boolean columns of the log.
DECLARATIONS = [
    "",
    "",
    "atom NAME = v > 1",
    'atom NAME = w = "a" and not u',
    "atom NAME = hour(ts) >= 12",
    "stream NAME = any[0,3](v > limit)",
    "stream NAME = NAME.last(or: false) or v = 3",
    "let NAME = ONCE[0,3] (v > limit)",
    "let NAME = NOT u SINCE v > 2",
]
BODIES = [
    "policy NAME: x IMPLIES EVENTUALLY[0,3] y",
    "policy NAME: count[0,4](x) > 1 IMPLIES ONCE[0,9] y",
    "policy NAME per w: x OR PREVIOUS (y AND v > limit)",
    'policy NAME per none: NOT (x AND weekday(ts) = "thu")',
    "policy NAME on rows where y: v > limit OR x",
    "policy NAME on every 2: count[0,4](x) < limit",
    "policy NAME: u OR x",
    'trigger NAME: count[0,4](y) > 1 and v > limit message "{v} and {count[0,4](x)}"',
    "policy NAME: hour(ts) < 12 OR v > limit",
]
SETTINGS = ["", "key w", "key v", 'zone "Asia/Tokyo"', 'zone "America/Lima"', 'zone "UTC"']


@st.composite
def files(draw: st.DrawFn) -> list[str]:
    """Policy files that use the same names for different things."""
    found = []
    for _ in range(draw(st.integers(2, 3))):
        lines = [draw(st.sampled_from(SETTINGS)), f"const limit = {draw(st.integers(0, 3))}"]
        for name in "xy":
            lines.append(draw(st.sampled_from(DECLARATIONS)).replace("NAME", name))
        names = draw(st.lists(st.sampled_from(["p", "q", "r"]), min_size=1, unique=True))
        for name in names:
            lines.append(draw(st.sampled_from(BODIES)).replace("NAME", name))
        found.append("\n".join(["unit s", *lines, ""]))
    return found


def rows(seed: int) -> pa.Table:
    source = random.Random(seed)
    times = sorted(source.choice([0, 1, 2, 40_000, 40_001, 90_000]) + i // 2 for i in range(12))
    return pa.table(
        {
            "ts": times,
            "v": [source.randrange(4) for _ in times],
            "w": [source.choice("ab") for _ in times],
            **{name: [source.random() < 0.5 for _ in times] for name in "xyu"},
        }
    )


def verdicts(file: PolicyFile, table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        mtlmon.check(file, table, resolve=True, end_time="inf").to_arrow().to_pylist()
    )
    return found


@settings(max_examples=60)
@given(files(), st.integers(0, 99))
def test_each_file_says_what_it_says_by_itself(texts: list[str], seed: int) -> None:
    table = rows(seed)
    named = [(text, f"{letter}.mtl") for letter, text in zip("abc", texts, strict=False)]
    file, errors = check_files(named)
    assert not errors
    found = verdicts(file, table)
    place = 0
    for text, _ in named:
        alone = parse_policies(text)
        for policy, joined in zip(
            alone.policies, file.policies[place : place + len(alone.policies)], strict=True
        ):
            alone.policies = (policy,)
            wanted = verdicts(alone, table)
            own = [row for row in found if row["policy"] == joined.name]
            assert len(own) == len(wanted)
            for row, other in zip(own, wanted, strict=True):
                # keys of other policies have columns of their own
                assert {name: row[name] for name in other} == {**other, "policy": joined.name}
            alone = parse_policies(text)
        place += len(alone.policies)
    assert place == len(file.policies)


def test_only_names_that_clash_are_changed() -> None:
    one = "atom fast = speed > 9\nconst limit = 3\nlet late = ONCE fast\npolicy p: late\n"
    other = "atom fast = speed > 5\npolicy p: fast\npolicy q: late AND speed > 1\n"
    third = "speed > 1 IMPLIES other\n"
    file, errors = check_files([(one, "rules/web.mtl"), (other, "login.mtl"), (third, "alone.mtl")])
    assert not errors
    assert [policy.name for policy in file.policies] == ["web:p", "login:p", "q", "alone"]
    assert list(file.atoms) == ["web:fast", "login:fast", "speed > 1"]
    # `late` is an atom of the log in the second file
    assert list(file.lets) == ["web:late"]
    assert file.constants == {"limit": 3}
    assert file.log_atoms == ("late", "other")
    assert [part.source for part in file.files] == ["rules/web.mtl", "login.mtl", "alone.mtl"]


def test_a_name_that_is_taken_gets_another_prefix() -> None:
    one = 'atom x = v > 1\npolicy p: x OR "a:x"\n'
    file, errors = check_files([(one, "a.mtl"), ("policy p: x", "b.mtl")])
    assert not errors
    assert file.atoms_needed == ("a:a:x", "a:x", "x")
    one = "policy p: x\npolicy a: x\n"
    file, _ = check_files([(one, "a.mtl"), ("policy p: x", "b.mtl"), ("y", "c/a.mtl")])
    assert [one.name for one in file.policies] == ["a:p", "a", "b:p", "c/a"]


@pytest.mark.parametrize(
    ("sources", "prefixes"),
    [
        (["web.mtl", "login.mtl"], ["web", "login"]),
        (["/a/web.mtl", "/b/web.mtl", "login"], ["a/web", "b/web", "login"]),
        (["a/web.mtl", "web.mtl"], ["a/web", "web"]),
        (["web.mtl", "web.policy"], ["web.mtl", "web.policy"]),
        (["<stdin>", "web.v2.mtl"], ["stdin", "web.v2"]),
    ],
)
def test_prefixes_tell_files_apart(sources: list[str], prefixes: list[str]) -> None:
    file, errors = check_files([("policy p: x", source) for source in sources])
    assert not errors
    assert [policy.name for policy in file.policies] == [f"{one}:p" for one in prefixes]


def test_the_unit_is_that_of_the_file_that_says_one() -> None:
    texts = [("policy p: ONCE[0,2m] x", "a.mtl"), ("unit s\npolicy q: ONCE[0,3] x", "b.mtl")]
    file, errors = check_files(texts)
    assert not errors
    assert file.unit == "s"
    assert [str(one.formula) for one in file.policies] == ["ONCE[0,120] x", "ONCE[0,3] x"]
    _, errors = check_files([*texts[:1], ("policy q: x", "b.mtl")])
    assert [error.source for error in errors] == ["a.mtl"]


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("unit s", "unit ms", "the unit is ms here, but s in line 1 of a.mtl"),
        ('time "at"', 'time "ts"', 'the time is "ts" here, but "at" in line 1 of a.mtl'),
        ('event "e"', 'event "f"', 'the event is "f" here, but "e" in line 1 of a.mtl'),
        ('pattern "(?P<a>.)"', 'pattern "sshd"', 'the pattern is "sshd" here, but'),
    ],
)
def test_files_that_contradict_each_other(one: str, other: str, message: str) -> None:
    _, errors = check_files(
        [(f"{one}\npolicy p: x\n", "a.mtl"), (f"# second\n{other}\npolicy q: x\n", "b.mtl")]
    )
    (error,) = errors
    assert isinstance(error, PolicyError)
    assert (error.source, error.line) == ("b.mtl", 2)
    assert error.message.startswith(message)
    assert error.hint is not None and error.hint.startswith("files of one run are about one log")


def test_units_that_agree_may_be_spelt_in_two_ways() -> None:
    _, errors = check_files([("unit min\npolicy p: x", "a"), ("unit m\npolicy q: x", "b")])
    assert not errors


def test_errors_of_all_files_are_found() -> None:
    _, errors = check_files([("policy p: (x", "a.mtl"), ("policy q: x\npolicy q: y", "b.mtl")])
    assert [(error.source, error.line) for error in errors] == [("a.mtl", 1), ("b.mtl", 2)]
    _, errors = check_files([("policy p: x", "a.mtl"), ("unit s\n", "b.mtl")])
    assert [(error.source, error.message) for error in errors] == [("b.mtl", "there is no policy")]


def test_constants_are_set_by_file_where_they_clash() -> None:
    texts = [
        ("const limit = 1\nconst own = 2\npolicy p: v > limit + own", "a.mtl"),
        ("const limit = 3\npolicy q: v > limit", "b.mtl"),
    ]
    file, errors = check_files(texts, constants={"a:limit": "7", "own": "8", "b:limit": "9"})
    assert not errors
    assert file.constants == {"a:limit": 7, "own": 8, "b:limit": 9}
    assert [str(one) for one in file.atoms.values()] == ["v > 7 + 8", "v > 9"]
    _, errors = check_files(texts, constants={"limit": "7"})
    assert [(one.source, one.line, one.message, one.hint) for one in errors] == [
        ("a.mtl", 1, "2 files have a constant limit", "write a:limit or b:limit")
    ]
    _, errors = check_files(texts, constants={"b:own": "7"})
    assert [(one.message, one.hint) for one in errors] == [
        ("there is no constant b:own to set", "did you mean a:own?")
    ]


def test_keys_and_assumptions_stay_with_their_file() -> None:
    one = "unit s\nkey w\nassume keys <= 1\npolicy p: x\npolicy q per none: x\n"
    file, errors = check_files([(one, "a.mtl"), ("policy r: x\npolicy s per v: x\n", "b.mtl")])
    assert not errors
    assert file.key is None and not file.has_one_key
    assert [policy.key for policy in file.policies] == [("w",), (), (), ("v",)]
    (assumed,) = file.assumptions
    assert [assumed.is_about(key) for key in [("w",), ("v",)]] == [True, False]
    file, _ = check_files([(one, "a.mtl"), ("policy r: x", "b.mtl")], key=("v",))
    assert file.key == ("v",)
    assert [policy.key for policy in file.policies] == [None, (), None]


def test_the_key_of_a_run_replaces_those_of_files() -> None:
    one, other = "unit s\nkey w\npolicy p: x\npolicy q per v: x\n", "policy r: x\n"
    file, _ = check_files([(one, "a.mtl"), (other, "b.mtl")])

    def keys(**options: Any) -> dict[str, set[tuple[str, ...]]]:
        found = mtlmon.check(file, rows(3), **options).to_arrow().to_pylist()
        return {
            policy.name or "": {
                tuple(name for name in "vwu" if row.get(name) is not None)
                for row in found
                if row["policy"] == policy.name
            }
            for policy in file.policies
        }

    assert keys() == {"p": {("w",)}, "q": {("v",)}, "r": {()}}
    assert keys(key="u") == {"p": {("u",)}, "q": {("v",)}, "r": {("u",)}}
    assert keys(key=()) == {"p": {()}, "q": {("v",)}, "r": {()}}
    assert keys() == {"p": {("w",)}, "q": {("v",)}, "r": {()}}


def test_atoms_with_arguments_of_the_log_are_shared() -> None:
    one = "atom ask(u: int)\npolicy p: FORALL u. ask(u) IMPLIES ONCE[0,5] ok(u)\n"
    other = "policy p: FORALL v. ask(v) IMPLIES v > 3\n"
    file, errors = check_files([(one, "a.mtl"), (other, "b.mtl")])
    assert not errors
    assert list(file.relations) == ["ask", "ok"]
    _, errors = check_files([(one, "a.mtl"), ("policy q: FORALL u, v. NOT ask(u, v)\n", "b.mtl")])
    assert [(error.source, error.message) for error in errors] == [
        ("b.mtl", "ask has 2 arguments here, but 1 in line 1 of a.mtl")
    ]
    text = "atom ask(u: text)\npolicy q: FORALL u. NOT ask(u)\n"
    _, errors = check_files([(one, "a.mtl"), (text, "b.mtl")])
    assert [(error.source, error.message) for error in errors] == [
        ("b.mtl", "ask: u is text here, but int in line 1 of a.mtl")
    ]


def test_atoms_with_arguments_of_a_table_are_scoped() -> None:
    one = 'atom ask(u) = kind = "a"\nlet had(u) = ONCE ask(u)\npolicy p: FORALL u. NOT had(u)\n'
    other = one.replace('"a"', '"b"')
    file, errors = check_files([(one, "a.mtl"), (other, "b.mtl")])
    assert not errors
    assert list(file.relations) == ["a:ask", "b:ask"]
    assert list(file.parameters) == ["a:had", "b:had"]
    table = pa.table({"ts": [1, 2], "kind": ["a", "b"], "u": ["x", "y"]})
    found = verdicts_of(file, table)
    assert [(row["policy"], row["time"], row["u"]) for row in found] == [
        ("a:p", 1, "x"),
        ("a:p", 2, "x"),
        ("b:p", 2, "y"),
    ]


def verdicts_of(file: PolicyFile, table: pa.Table) -> list[dict[str, Any]]:
    found = mtlmon.check(file, table, end_time="inf").to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["policy"], row["time"]))


def test_files_are_loaded_from_paths(tmp_path: Path) -> None:
    one, other = tmp_path / "a.mtl", tmp_path / "b.mtl"
    one.write_bytes(b"\xef\xbb\xbfpolicy p: x")
    other.write_text("const c = 1\npolicy p: v > c AND (")
    with pytest.raises(MtlmonError, match=r"b\.mtl:2:22"):
        load_policies([one, other])
    other.write_text("const c = 1\npolicy p: v > c")
    file = load_policies([one, str(other)], constants={"c": "4"}, unit="s")
    assert [policy.name for policy in file.policies] == ["a:p", "b:p"]
    assert [str(one) for one in file.atoms.values()] == ["v > 4"]
    assert load_policies([one]).policies[0].name == "p"
    assert pickle.loads(pickle.dumps(file)).policies[1].name == "b:p"
    for again in (one, tmp_path / "." / "a.mtl"):
        with pytest.raises(MtlmonError, match="given twice"):
            load_policies([one, again])
    link = tmp_path / "c.mtl"
    link.symlink_to(one)
    with pytest.raises(MtlmonError, match="are the same policy file"):
        load_policies([one, link])
    with pytest.raises(FileNotFoundError):
        load_policies([one, tmp_path / "missing.mtl"])
    link.unlink()
    link.write_bytes(b"policy p: \xff")
    with pytest.raises(MtlmonError, match="not UTF-8 at byte 10"):
        load_policies([one, link])
    with pytest.raises(ValueError, match="at least one"):
        load_policies([])


def test_places_in_joined_texts() -> None:
    text = JoinedText([("ab\nc", "one"), ("", "two"), ("d\ne", "three")])
    assert text == "ab\nc\n\nd\ne"
    assert [text.part_at(place)[1:] for place in (0, 3, 4, 5, 6, 9)] == [
        ("one", 0),
        ("one", 3),
        ("one", 4),
        ("two", 0),
        ("three", 0),
        ("three", 3),
    ]
    assert line_text(text, 8) == "line 2 of three"
    assert line_text("a\nb", 2) == "line 2"
    assert source_at(text, 5, "other") == "two"
    assert source_at("a", 0, "other") == "other"
    assert pickle.loads(pickle.dumps(text)).parts == text.parts


def test_errors_that_columns_bring_name_the_file() -> None:
    one = "policy p: v > 1\n"
    other = "# here\natom x = w > 1\npolicy q: x\n"
    file, _ = check_files([(one, "a.mtl"), (other, "b.mtl")])
    with pytest.raises(PolicyError) as caught:
        verdicts(file, rows(1))
    assert (caught.value.source, caught.value.line, caught.value.column) == ("b.mtl", 2, 10)


ATOMS_WITH_ARGUMENTS = [
    'atom ask(u) = kind = "a"',
    'atom ask(u) = kind = "b" and n > 1',
    "atom ask(u = lower(u)) = hour(ts) >= 12",
]
LETS_WITH_PARAMETERS = [
    "let had(u) = ONCE ask(u)",
    "let had(u) = ONCE[0,3] (ask(u) AND NOT ONCE[0,1] other(u, n))",
    "let had(x) = ask(x) OR PREVIOUS ask(x)",
]
POLICIES_WITH_VARIABLES = [
    "policy NAME: FORALL u. ask(u) IMPLIES PREVIOUS had(u)",
    "policy NAME: FORALL u, m. other(u, m) IMPLIES m > limit OR EVENTUALLY[0,2] had(u)",
    "find NAME: had(who) AND NOT ask(who)",
    "policy NAME: NOT COUNT(had(u)) > limit",
    "policy NAME: (EXISTS u. had(u)) IMPLIES row.v > limit",
]


@pytest.mark.parametrize("seed", range(12))
def test_files_with_variables_say_what_they_say_by_themselves(seed: int) -> None:
    source = random.Random(seed)
    named = []
    for letter in "abc":
        lines = [
            "unit s",
            f"const limit = {source.randrange(3)}",
            source.choice(["", 'zone "Asia/Tokyo"', 'zone "America/Lima"']),
            source.choice(ATOMS_WITH_ARGUMENTS),
            f"atom other(u, n) = v > {source.randrange(3)}",
            source.choice(LETS_WITH_PARAMETERS).replace("ONCE[0,1] other(u, n)", "b"),
        ]
        for name in source.sample("pqr", 2):
            lines.append(source.choice(POLICIES_WITH_VARIABLES).replace("NAME", name))
        named.append(("\n".join([*lines, ""]), f"{letter}.mtl"))
    times = sorted(source.choice([0, 40_000]) + place // 2 for place in range(14))
    table = pa.table(
        {
            "ts": times,
            "kind": [source.choice("abc") for _ in times],
            "u": [source.choice("xyXY") for _ in times],
            "n": [source.randrange(4) for _ in times],
            "v": [source.randrange(4) for _ in times],
            "b": [source.random() < 0.4 for _ in times],
        }
    )
    file, errors = check_files(named)
    assert not errors

    def answers(given: PolicyFile) -> dict[str, list[dict[str, Any]]]:
        found = mtlmon.check(given, table, verdicts="false", end_time="inf").to_arrow().to_pylist()
        by_policy: dict[str, list[dict[str, Any]]] = {}
        for row in found:
            shown = {name: value for name, value in row.items() if value is not None}
            by_policy.setdefault(shown.pop("policy"), []).append(shown)
        return {name: sorted(rows, key=repr) for name, rows in by_policy.items()}

    expected = {}
    joined = iter(file.policies)
    for text, _ in named:
        alone = parse_policies(text)
        found = answers(alone)
        for policy in alone.policies:
            name = next(joined).name or ""
            if policy.name in found:
                expected[name] = found[policy.name]
    assert answers(file) == expected
    assert expected


def test_policies_that_wait_for_later_values() -> None:
    """Their clocks name the values as they are called in the joined file."""
    one = "stream s = x + 1\npolicy p: s.next(or: 0) > 1\n"
    other = "stream s = x + 2\npolicy q: s > 1\n"
    file, errors = check_files([(one, "a.mtl"), (other, "b.mtl")])
    assert not errors
    assert file is not None
    p, q = file.policies
    assert q.clock is None
    assert p.clock is not None
    assert p.clock.period == Waiting(("`a:s`.next(or: 0)",))


def test_paths_and_texts_that_look_like_paths(tmp_path: Path) -> None:
    """One path stands for itself, and not for a file for each of its characters."""
    path = tmp_path / "rules.mtl"
    path.write_text("policy big: v > 1\n")
    log = pa.table({"ts": [1, 2], "v": [1, 2]})
    names = [policy.name for policy in load_policies([path]).policies]
    assert [policy.name for policy in load_policies(str(path)).policies] == names == ["big"]
    wanted = mtlmon.check(path.read_text(), log).to_arrow()
    for policies in path, [path], [str(path)]:
        assert mtlmon.check(policies, log).to_arrow() == wanted
    other = tmp_path / "rules"
    other.write_text("v > 1\n")
    for text in str(path), "rules.mtl", str(other):
        with pytest.raises(MtlmonError, match=r"looks like a path: pass pathlib.Path\("):
            mtlmon.check(text, log)
