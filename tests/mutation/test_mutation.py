"""Mutants are what they should be, and what becomes of them is told and remembered rightly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from tests.mutation import building, native
from tests.mutation.modules import Module, chosen, find_modules
from tests.mutation.mutants import Mutant, make_mutant
from tests.mutation.results import Equivalents, Journal, folder_table, result_of, score_table
from tests.mutation.switched import (
    CHOSEN,
    STATE,
    blamed,
    has_choice,
    is_in_function,
    state_of,
    switched,
)
from tests.mutation.testing import Recording, outcomes, record

ROOT = Path(__file__).resolve().parents[2]

NATIVE = '''\
"""A text with 1 < 2."""
from mtlmon.engine.native cimport reserve

cdef enum:
    MOST = 3

cdef struct Pair:
    int first

cdef class Table:
    cdef int grow(
        self, size_t count, bint is_final=False
    ) except -1 nogil:
        """Another text: 1 + 1."""
        cdef uint64_t *place = <uint64_t *> self.start
        if count <= self.count and not is_final:  # no more than 2
            return 0
        reserve(<void **> &self.items, &count)
        self.count += count - 1
        return 0
'''


def changes(text: str, *, where: str | None = None) -> set[tuple[str, str]]:
    mutants = [make_mutant(Path("x"), text, *found) for found in native.mutants(text)]
    return {(one.before, one.after) for one in mutants if where is None or one.where == where}


def test_native_mutants() -> None:
    condition = "if count <= self.count and not is_final:  # no more than 2"
    assert changes(NATIVE) == {
        ("MOST = 3", "MOST = 4"),
        ("MOST = 3", "MOST = 2"),
        (
            "self, size_t count, bint is_final=False",
            "self, size_t count, bint is_final=True",
        ),
        (condition, condition.replace("<=", "<")),
        (condition, condition.replace("and", "or")),
        (condition, condition.replace("not ", " ")),
        (condition, "if not (count <= self.count and not is_final):  # no more than 2"),
        ("return 0", "pass"),
        ("reserve(<void **> &self.items, &count)", "pass"),
        ("self.count += count - 1", "self.count -= count - 1"),
        ("self.count += count - 1", "self.count += count + 1"),
        ("self.count += count - 1", "self.count += count - 2"),
        ("self.count += count - 1", "self.count += count - 0"),
        ("self.count += count - 1", "pass"),
    }
    assert len(changes(NATIVE, where="Table.grow")) == 12


SWITCHED = '''\
"""A module."""
from libc.stdint cimport int64_t

cdef int64_t MOST = 9

def bounded(int64_t value, items):
    cdef int64_t more = value + 1
    cdef int64_t least = 2, found = 0
    for number in range(3):
        if number == 1 and (
            items
        ):
            found += number
        elif value > MOST:
            found -= 1
    while least < 0: least += 2
    return (found, more,
            len(items))
'''


def numbered(mutants: list[Mutant]) -> tuple[dict[int, Mutant], dict[tuple[str, str], int]]:
    """Mutants by numbers from 1, and the numbers by the lines before and after."""
    by_number = dict(enumerate(mutants, 1))
    return by_number, {(one.before, one.after): number for number, one in by_number.items()}


def test_many_mutants_are_in_one_native_text(tmp_path: Path) -> None:
    """The number from the environment chooses one of them; without it, nothing is changed."""
    source = Path("bounded.pyx")
    module = Module("bounded", tmp_path, (source,))
    (tmp_path / source).write_text(SWITCHED)
    chosen = [one for one in module.mutants if has_choice(SWITCHED, one)]
    assert {one.before for one in module.mutants if one not in chosen} == {
        "cdef int64_t MOST = 9",
        "cdef int64_t least = 2, found = 0",
        "for number in range(3):",
        "while least < 0: least += 2",
    }
    assert all(is_in_function(SWITCHED, one) for one in chosen)
    mutants, numbers = numbered(chosen)
    (tmp_path / source).write_text(switched({source: SWITCHED}, source, mutants)[source])
    (tmp_path / f"{STATE}.py").write_text(state_of(len(mutants)))
    subprocess.run(
        [sys.executable, "-m", "Cython.Build.Cythonize", "-3", "-q", "-i", "bounded.pyx"],
        cwd=tmp_path,
        check=True,
    )

    def found(number: int) -> str:
        return subprocess.run(
            [sys.executable, "-c", "import bounded; print(*bounded.bounded(3, [5]))"],
            cwd=tmp_path,
            env=os.environ | {CHOSEN: str(number), "PYTHONPATH": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    assert found(0) == "1 4 1"
    for (before, after), expected in {
        ("cdef int64_t more = value + 1", "cdef int64_t more = value - 1"): "1 2 1",
        ("found += number", "pass"): "0 4 1",
        ("if number == 1 and (", "if number == 1 or ("): "3 4 1",
        ("elif value > MOST:", "elif not (value > MOST):"): "-1 4 1",
    }.items():
        assert found(numbers[before, after]) == expected


def test_mutants_of_the_parts_of_a_unit_are_compiled_together() -> None:
    """A message names the one that is in its place."""
    part, unit = Path("mtlmon/parts/part.pxi"), Path("mtlmon/parts/native.pyx")
    originals = {part: "cdef int f(int a):\n    a += 1\n    return a\n",
                 unit: '"""A unit."""\n\ninclude "part.pxi"\n'}  # fmt: skip
    other = Path("mtlmon/parts/other.pxi")
    originals[other] = "cdef int g(int a):\n    a -= 1\n    return a\n"
    mutants = {
        number: make_mutant(source, originals[source], "drop", text)
        for number, source, text in (
            (3, part, originals[part].replace("a += 1", "pass")),
            (7, other, originals[other].replace("a -= 1", "pass")),
        )
    }
    texts = switched(originals, unit, mutants)
    assert texts[unit].index("cdef inline") < texts[unit].index("include")
    assert "cdef inline" not in texts[part] + texts[other]
    line = texts[other].splitlines().index("        pass") + 1
    assert blamed(f"{other}:{line}:8: Undeclared name\n", texts) == {7}
    assert not blamed(f"{other}:{line + 3}:8: Undeclared name\n", texts)


SAMPLE = '''\
"""A module."""
from collections.abc import Iterator

MOST = 3


def numbers(most: int = 0) -> Iterator[int]:
    for number in range(most):
        if number == 1:
            yield (
                number
            )
        elif number > MOST:
            yield -number


def unused(left: int) -> None:
    while left:
        left -= 1
'''

TESTS = """\
import os, subprocess, sys
from sample import numbers, unused

def test_first():
    assert [*numbers(3)] == [1]

def test_last():
    command = "from sample import numbers; print(*numbers(6))"
    done = subprocess.run([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == ["1", "-4", "-5"]

def test_loop():
    unused(2)

def test_nothing():
    assert sys.stdin.read() == ""

def test_that_fails_anyway():
    assert [*numbers(0)] == [1]
"""


def changed(before: str, after: str) -> Mutant:
    assert before in SAMPLE
    return make_mutant(Path("sample.py"), SAMPLE, "x", SAMPLE.replace(before, after))


def test_what_becomes_of_mutants(tmp_path: Path) -> None:
    """Tests that reach them say so, in their own process and in others, and are run for each."""
    source = Path("sample.py")
    assert not has_choice(SAMPLE, changed("most: int = 0", "most: int = 1"))
    expected = [
        (changed("number == 1", "number == 2"), "failed", "test_first"),
        (changed("range(most)", "[]"), "failed", "test_first"),
        (changed("yield -number", "pass"), "failed", "test_last"),
        (changed("left -= 1", "pass"), "timeout", ""),
        (changed("left -= 1", "__import__('os').abort()"), "crashed", ""),
        (changed("left -= 1", "bytes(1 << 40)"), "failed", "test_loop"),
        (changed("left -= 1", "left -= 2 - 1"), "passed", ""),
        (changed("MOST = 3", "MOST = 4"), "failed", "test_last"),
        (changed("MOST = 3", "MOST = None.x"), "failed", "test_sample.py"),
    ]
    mutants = dict(enumerate((one for one, *_ in expected), 1))
    assert all(has_choice(SAMPLE, one) for one in mutants.values())
    (tmp_path / "package").mkdir()
    text = switched({source: SAMPLE}, source, mutants)[source]
    (tmp_path / "package" / source).write_text(text)
    (tmp_path / "package" / f"{STATE}.py").write_text(state_of(len(mutants)))
    tests = tmp_path / "test_sample.py"
    tests.write_text(TESTS)
    arguments = [f"--rootdir={tmp_path}", str(tests)]
    recording = record(tmp_path, arguments, len(mutants), 2)
    log = (tmp_path / "log").read_text()
    name = "test_sample.py::test_"
    assert recording.failing == [f"{name}that_fails_anyway"], log
    assert set(recording.reached[1]) == {f"{name}first", f"{name}last"}
    assert recording.reached[3] == [f"{name}last"]
    assert recording.at_import == {8, 9}
    asked = {
        number: {
            "tests": recording.tests_of([1] if number in recording.at_import else [number], 9),
            "is_alone": number in recording.at_import,
            "seconds": 1,
            "patience": 60,
        }
        for number in mutants
    }
    found = {one["number"]: one for one in outcomes(tmp_path, arguments, asked, 2)}
    for number, (_, outcome, by) in enumerate(expected, 1):
        assert found[number]["outcome"] == outcome, (tmp_path / "log").read_text()
        assert found[number]["by"].endswith(by)
        assert bool(found[number]["by"]) == bool(by)


def test_tests_are_chosen_that_are_short_and_have_a_purpose() -> None:
    recording = Recording()
    for name, seconds, reached in (
        ("a.py::test_long", 5.0, [1, 2]),
        ("a.py::test_own[1]", 0.1, [1]),
        ("a.py::test_own[2]", 0.1, [1]),
        ("b.py::test_all", 0.1, [1, 2, 3]),
        ("b.py::test_other", 0.1, [3]),
        ("", 0.0, [4]),
    ):
        recording.add({"name": name, "seconds": seconds, "reached": reached})
    recording.add({"name": "b.py::test_wrong", "failed": True})
    assert recording.at_import == {4}
    own, cases, every = "a.py::test_own[1]", "a.py::test_own[2]", "b.py::test_all"
    assert recording.tests_of([1], 0.05) == [own]
    assert recording.tests_of([1], 0.25) == [own, every]
    assert recording.tests_of([1], 1) == [own, cases, every]
    assert recording.tests_of([1], 9) == [own, "a.py::test_long", cases, every]
    assert recording.tests_of([4], 9) == []


def test_what_only_checking_builds_run_has_no_mutants() -> None:
    text = """
cdef class Engine:
    cdef int step(self) except -1:
        self.count += 1
        if MTLMON_CHECKS:
            with gil:
                self.check(2)
        self.count -= 1

    cdef int check(self, int most) except -1:
        cdef int i
        for i in range(7):
            assert self.count < most
        self.checked += 1

    cdef int end(self) except -1:
        self.count = 5
"""
    assert {before for before, _after in changes(text)} == {
        "self.count += 1",
        "self.count -= 1",
        "self.count = 5",
    }


def test_python_mutants() -> None:
    pytest.importorskip("cosmic_ray")
    from tests.mutation import python

    text = (
        "from __future__ import annotations\n"
        "def f(x: int | None) -> int | None:\n"
        '    """A text."""\n'
        "    y: int | None = x\n"
        "    return y\n"
    )
    found = {make_mutant(Path("x"), text, *one).after for one in python.mutants(text)}
    assert found == {"pass"}
    text = "def f(x):\n    if x < 1:\n        x += 1\n"
    found = {make_mutant(Path("x"), text, *one).after for one in python.mutants(text)}
    assert {"if x <= 1:", "if not x < 1:", "if x < 2:", "pass"} <= found
    # what only type checkers read, below a blank line
    text = "\nif TYPE_CHECKING:\n    from x import y\n"
    assert not [*python.mutants(text)]


def test_every_mutant_is_another_text_of_a_module_that_is_found() -> None:
    modules = find_modules(ROOT)
    assert modules["text/scanner"].is_native
    assert not modules["cutting"].is_native
    mutants = modules["engine/structures/memo"].mutants
    assert len({mutant.identity for mutant in mutants}) == len(mutants) > 20
    assert all(mutant.where for mutant in mutants if mutant.operator == "drop")


@pytest.mark.parametrize("name", ["engine/structures/memo", "cutting"])
def test_a_sample_is_the_beginning_of_a_larger_one(name: str) -> None:
    module = find_modules(ROOT)[name]
    if not module.is_native:
        pytest.importorskip("cosmic_ray")
    few, more = ([*islice(module.shuffled("1"), count)] for count in (3, 9))
    assert more[:3] == few
    assert [*islice(module.shuffled("2"), 3)] != few
    if module.is_native:
        every = {one.identity for one in module.shuffled("1")}
        assert every == {one.identity for one in module.mutants}
    else:
        assert len({one.identity for one in more}) == 9


@pytest.mark.parametrize("name", ["mtlmon/x.pxi", "mtlmon/x.py"])
def test_mutants_are_known_again_when_other_lines_change(tmp_path: Path, name: str) -> None:
    """And a sample is nearly the same."""
    if name.endswith(".py"):
        pytest.importorskip("cosmic_ray")
    (tmp_path / "mtlmon").mkdir()
    functions = [f"def f{k}(x):\n    y = x\n    if x < {k}:\n        y += {k}\n    return y\n\n\n"
                 for k in range(20)]  # fmt: skip

    def sample(*texts: str) -> list[str]:
        (tmp_path / name).write_text("".join(texts))
        module = Module("x", tmp_path, (Path(name),))
        return [one.identity for one in islice(module.shuffled("1"), 30)]

    before, after = sample(*functions), sample("# a line\n\n\n", *functions[1:])
    assert len(set(before)) == 30
    # those of the first function are gone, and with it the place of some in the sample
    assert 25 <= len(set(before) & set(after)) < 30


def test_modules_are_named_by_path_or_its_end() -> None:
    modules = find_modules(ROOT)

    def names(*given: str) -> list[str]:
        return [one.name for one in chosen(modules, list(given))]

    assert names("text/scanner") == names("scanner") == ["text/scanner"]
    assert names("streams/rows") == ["streams/rows"]
    assert {"streams/rows", "relational/engine/rows"} == set(names("rows"))
    assert {"relational/slicing", "relational/slicing/hashing"} < set(names("relational/slicing"))
    assert names() == [*modules]
    with pytest.raises(SystemExit, match="near to it: text/scanner"):
        chosen(modules, ["text/scaner"])


def test_native_modules_are_compiled_as_setup_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    compiled = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(ROOT / "mtlmon", tmp_path / "mtlmon", ignore=compiled)
    monkeypatch.chdir(tmp_path)
    unit = building.unit_of(tmp_path, Path("mtlmon/text/scanner.pxi"))
    extension, options = building.settings_of(unit)
    assert extension.name == "mtlmon.text.native"
    assert "-fno-strict-aliasing" in extension.extra_compile_args
    assert options["compiler_directives"]["cdivision"] is True


def test_results_are_remembered(tmp_path: Path) -> None:
    module = find_modules(ROOT)["engine/structures/memo"]
    path = tmp_path / "results.jsonl"
    journal = Journal(path)
    first, second, third = module.mutants[:3]
    journal.add(result_of(module, first, "passed"))
    journal.add(result_of(module, first, "failed", "test_x"))
    journal.add(result_of(module, second, "passed"))
    with path.open("a") as file:
        file.write('{"module": "memo", "mut')
    journal = Journal(path)
    assert journal.known(module, third) is None
    known = [one for mutant in (first, second) if (one := journal.known(module, mutant))]
    assert known == [
        result_of(module, first, "failed", "test_x"),
        result_of(module, second, "passed"),
    ]
    journal.tidy()
    assert len(path.read_text().splitlines()) == 2
    assert Journal(path).known(module, first) == known[0]
    results = [*known, result_of(module, third, "equivalent")]
    assert score_table({"memo": results}).splitlines()[-1] == "| memo | 3 | 1 | 0 | 1 | 1 | 50 % |"
    assert folder_table({"memo": results}).splitlines()[2:] == [
        "| engine/structures | 3 | 1 | 0 | 1 | 1 | 50 % |",
        "| all | 3 | 1 | 0 | 1 | 1 | 50 % |",
    ]


def test_a_reason_that_fits_no_mutant_is_an_error(tmp_path: Path) -> None:
    module = find_modules(ROOT)["engine/structures/memo"]
    mutant = module.mutants[0]
    path = tmp_path / "equivalent.toml"
    entry = (
        f"[[mutant]]\nmodule = '{module.name}'\n"
        "before = '''{}'''\nafter = '''{}'''\nreason = 'none'\n"
    )
    path.write_text(entry.format(mutant.before, mutant.after))
    assert mutant.identity in Equivalents(path).of(module)
    assert Equivalents(path).has(module, mutant)
    assert not Equivalents(path).has(module, module.mutants[-1])
    path.write_text(entry.format("gone", "away"))
    with pytest.raises(SystemExit, match="any more"):
        Equivalents(path).of(module)


def test_a_reason_may_name_the_line_above(tmp_path: Path) -> None:
    """The same change may be a fault in one place of a function and none in another."""
    (tmp_path / "_sign.pyx").write_text(
        "cdef int sign(int x):\n"
        "    if x < 0:\n"
        "        return x\n"
        "    if x == 0:\n"
        "        return x\n"
        "    return 1\n"
    )
    module = Module("sign", tmp_path, (Path("_sign.pyx"),))
    dropped = {
        mutant.line: mutant.identity
        for mutant in module.mutants
        if (mutant.before, mutant.after) == ("return x", "pass")
    }
    assert sorted(dropped) == [3, 5]
    path = tmp_path / "equivalent.toml"
    entry = "[[mutant]]\nmodule = 'sign'\nbefore = 'return x'\nafter = 'pass'\nreason = 'none'\n"
    path.write_text(entry)
    assert Equivalents(path).of(module) == set(dropped.values())
    path.write_text(entry + "below = 'if x == 0:'\n")
    assert Equivalents(path).of(module) == {dropped[5]}


@pytest.mark.parametrize("name", sorted(Equivalents().modules))
def test_every_reason_fits_a_mutant(name: str) -> None:
    module = find_modules(ROOT)[name]
    if not module.is_native:
        pytest.importorskip("cosmic_ray")
    assert Equivalents().of(module)
