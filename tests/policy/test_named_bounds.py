"""Constants as bounds of intervals: files with names mean what files with the values mean."""

from __future__ import annotations

import re

import pytest

from mtlmon.errors import FormulaError
from mtlmon.policy import PolicyFile, check_files, parse_policies

FILES = [
    "policy p: ONCE[0,{w}] ((x AND (x UNTIL[{lo},{w}) y)) SINCE[{w},{w}] EVENTUALLY[{lo},*] y)",
    "let late = once[{lo}, {w}] x\npolicy p: (always[0 , /* up to */ {w} ] late) implies z > 5",
    "stream n = count[{lo},{w}](x)\npolicy p: n > 1 and avg[0,{w})(y, or: 0) < n.at(-{w}, or: 0)",
    "stream n = sum[0,{w}](y) every {w}\npolicy p on every {w}: n < 9",
    "trigger t: quantile[0,{w}](y, 0.5) > x.at(-{lo}).last(2)",
    "atom p(a)\natom q(a)\n"
    "find f: p(a) AND (COUNT(ONCE[{lo},{w}] q(a) BY a) > 1 OR ONCE[0,{w}] q(a))",
]
VALUES = {"w": "90s", "lo": "5"}


def meaning(file: PolicyFile) -> list[str]:
    """What is left of a file once names of constants are resolved."""
    found = [
        f"{policy.formula} {policy.clock and policy.clock.in_words(file.unit)}"
        for policy in file.policies
    ]
    found += [f"{name} = {one.expression}" for name, one in file.streams.items()]
    return found + [str(predicate) for predicate in file.atoms.values()]


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_names_stand_for_their_values(text: str, unit: str) -> None:
    plain = parse_policies(f"unit {unit}\n{text.format(**VALUES)}")
    head = "".join(f"const {name} = {value}\n" for name, value in VALUES.items())
    named = parse_policies(f"unit {unit}\n{text.format(w='w', lo='lo')}\n{head}")
    assert meaning(named) == meaning(plain)
    # the unit is that of an option
    again = parse_policies(f"{head}{text.format(w='w', lo='lo')}", unit=unit)
    assert meaning(again) == meaning(plain)


@pytest.mark.parametrize("text", FILES)
def test_other_values_are_set(text: str) -> None:
    plain = parse_policies(f"unit s\n{text.format(w='2m', lo='1')}")
    head = "const w = 1\nconst lo = 3h\n"
    named = f"unit s\n{head}{text.format(w='w', lo='lo')}"
    found = parse_policies(named, constants={"w": "2m", "lo": "1"})
    assert meaning(found) == meaning(plain)


@pytest.mark.parametrize("text", FILES)
def test_a_unit_that_is_not_known_yet(text: str) -> None:
    """Lengths of time have no value then, so nothing is said about intervals."""
    head = "const w = 2m\nconst lo = 3s\n"
    parse_policies(f"{head}{text.format(w='w', lo='lo')}", unit="later")


def test_names_that_are_operators_or_have_quotes() -> None:
    file = parse_policies('const "T" = 3\nconst "in all" = 7\npolicy p: ONCE[T,"in all"] x')
    assert str(file.policies[0].formula) == "ONCE[3,7] x"
    # infinity stays what it is
    assert str(parse_policies("const inf = 3\npolicy p: ONCE[1,inf] T2").policies[0].formula) == (
        "ONCE[1,*) T2"
    )


def test_each_file_has_constants_of_its_own() -> None:
    texts = [
        (f"unit s\nconst w = {bound}\npolicy p{bound}: ONCE[0,w] x", f"{bound}.mtl")
        for bound in (3, 4)
    ]
    file, errors = check_files(texts)
    assert not errors
    assert file is not None
    assert [str(policy.formula) for policy in file.policies] == ["ONCE[0,3] x", "ONCE[0,4] x"]
    file, _ = check_files(texts, constants={"3:w": "2m"})
    assert file is not None
    assert str(file.policies[0].formula) == "ONCE[0,120] x"


@pytest.mark.parametrize(
    ("constant", "policy", "message", "hint"),
    [
        ("w = -5", "ONCE[0,w] x", "3:18: the constant w is -5, which is no bound", "from 0"),
        ("w = -5s", "ONCE[0,w] x", "3:18: the constant w is -5, which is no bound", "from 0"),
        ("w = 1.0", "ONCE[0,w] x", "3:18: the constant w is 1.0, which is no bound", "10m"),
        ("w = true", "ONCE[w,*] x", "3:16: the constant w is true, which is no bound", "10m"),
        ("w = null", "ONCE[0,w] x", "3:18: the constant w is null, which is no bound", "10m"),
        ('w = "10m"', "sum[0,w](x) > 1", "3:17: the constant w is a text, which is no", "10m"),
        ("w = 3", "ONCE[5,w] x", "3:15: the interval [5,w] is empty", "w is 3"),
        ("w = 3", "sum[5,w](x) > 1", "3:14: the interval [5,w] is empty", "w is 3"),
        ("w = 3", "ONCE[w,w) x", "3:15: the interval [w,w) is empty", "w is 3"),
        ("w = 3", "ONCE[0,v] x", "3:18: expected the upper bound", "const v = 10m"),
        ("w = 3", "ONCE[0,w s] x", "3:20: ']' is missing", "write [0,w]"),
        ("w = 3", "x.at(-v) > 1", "3:17: expected a whole number", "const v = 10m"),
        ("w = 0", "true\nstream s = 1 every w", "4:20: this length of time is 0", ""),
        ("w = 3", "true\nstream s = 1 every v", "4:20: expected a length of time", ""),
    ],
)
def test_errors(constant: str, policy: str, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_policies(f"unit s\nconst {constant}\npolicy p: {policy}", "f.mtl")
    assert str(caught.value).startswith(f"f.mtl:{message}")
    assert hint in (caught.value.hint or "")


def test_a_value_that_is_set_and_does_not_fit() -> None:
    text = "unit h\nconst w = 3\npolicy p: ONCE[0,w] x"
    with pytest.raises(FormulaError, match=re.escape("<w=90m>:1:1: 90m is not a whole number")):
        parse_policies(text, constants={"w": "90m"})
    with pytest.raises(FormulaError, match="the constant w is a text, which is no bound"):
        parse_policies(text, constants={"w": '"x"'})
