"""The short way to read arguments, which must not differ from the parser of all options."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors import PLACES, Arguments, RunError, make_parser, plain_arguments, spec_of

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = ["--explain", "--resolve", "--rows", "--sort"]
VALUES = {
    "-e": ["p", "NOT p", "", "-p"],
    "-o": ["out", "-", ""],
    "--end-time": ["last", "inf", "0", "9223372036854775807", "9223372036854775808", "x", "-1", ""],
    "--event": ["what", "a,b", ""],
    "--format": ["csv", "text", "xes", "CSV", ""],
    "--key": ["user", "a,b", "a,,b", ""],
    "--lateness": ["5", "5s", "5 s", "1.5m", "x", ""],
    "--output": ["out", "-"],
    "--output-format": ["jsonl", "text", "monpoly", "json"],
    "--pattern": ["(?P<a>x)", "sshd"],
    "--policy": ["a.mtl", "-", "--"],
    "--time": ["when", "a,b", ""],
    "--unit": ["s", "min", "sec", "ms", "fortnight", ""],
    "--verdicts": ["all", "boolean", "false", "first", "none", "some"],
    "--wait": ["5", "5s", "x", "-5"],
}
OTHERS = ["--", "--help", "-V", "--verdict", "--mode", "global", "-ep", "--unit=s", "-o=x", "-5"]
WORDS = ["", "-", "log.csv", "a b", "-e", *FLAGS, *VALUES, *OTHERS]


def pieces() -> st.SearchStrategy[list[str]]:
    pairs = [[name, value] for name, values in VALUES.items() for value in values]
    return st.one_of(
        st.sampled_from(pairs),
        st.sampled_from([[name] for name in FLAGS]),
        st.sampled_from(["", "-", "log.csv", "p.mtl", "a b", "5"]).map(lambda word: [word]),
        st.sampled_from(WORDS).map(lambda word: [word]),
    )


def meant(arguments: Arguments) -> list[object]:
    """What arguments ask for, and what is no option of a run."""
    spec = spec_of(arguments)
    fields = [getattr(getattr(spec, group), field) for group, field in PLACES.values()]
    options = [list(one) if isinstance(one, tuple) else one for one in fields]
    return [
        options,
        arguments.files,
        arguments.formulas or [],
        arguments.policies,
        arguments.settings,
        arguments.explain_formula,
    ]


def require_same(arguments: list[str]) -> bool:
    """Whether arguments are plain; they must then be read as the parser reads them."""
    plain = plain_arguments(arguments)
    if plain is None:
        return False
    short = Arguments()
    vars(short).update(plain)
    assert meant(short) == meant(make_parser().read(arguments, Arguments()))
    return True


@given(st.lists(pieces(), max_size=5))
def test_plain_arguments_are_those_of_the_parser(words: list[list[str]]) -> None:
    require_same([word for piece in words for word in piece])


@pytest.mark.parametrize("name", [*FLAGS, *VALUES])
def test_what_is_wrong_is_left_to_the_parser(name: str) -> None:
    """Rationale: the parser says what is wrong, and how to mend it."""
    for value in VALUES.get(name, ["x"]):
        if not require_same([name, value]):
            with pytest.raises(RunError):
                make_parser().read([name, value], Arguments())
    assert require_same([name, VALUES.get(name, ["x"])[0]])
    assert plain_arguments([f"{name}=x"]) is None
    if name in VALUES:
        assert plain_arguments([name]) is None


PATH_OF_TEXT = ["argparse", "re", "enum", "collections", "functools", "contextlib", "gettext"]
PATH_OF_TEXT += ["operator", "types", "typing", "bisect", "dataclasses", "shutil", "numpy"]
PATH_OF_SEVERAL = ["argparse", "json", "decimal", "copy", "numpy", "typing"]
PATH_OF_SEVERAL += ["mtlmon.policy.needs"]
SEVERAL = "policy a: p IMPLIES ONCE[0,5] q\npolicy b: NOT (p AND q)\n"


@pytest.mark.parametrize(
    ("policies", "spared"),
    [
        ("p IMPLIES EVENTUALLY[0,5] q", PATH_OF_TEXT),
        ('"a b" UNTIL[0,5] q', PATH_OF_TEXT),
        ("p SINCE q # unit of\n", PATH_OF_TEXT),
        (SEVERAL, PATH_OF_SEVERAL),
    ],
)
def test_text_logs_need_few_modules(policies: str, spared: list[str], tmp_path: Path) -> None:
    """Rationale: regular expressions and argparse were half of the time of a small run."""
    log = tmp_path / "one.log"
    log.write_text('@1 p "a b"\n@2 q\n')
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({spared}));"
        "from mtlmon import _start; _start.leave_out_what_is_not_needed();"
        "from mtlmon.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    given = [sys.executable, "-c", script, "--verdicts", "none", "-e", policies, str(log)]
    done = subprocess.run(given, capture_output=True, check=False, text=True)
    assert done.stderr == ""
    assert done.returncode in (0, 1)
