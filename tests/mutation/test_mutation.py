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
from tests.mutation.modules import CORPUS, Module, chosen, find_modules
from tests.mutation.mutants import make_mutant
from tests.mutation.results import Equivalents, Journal, folder_table, result_of, score_table
from tests.mutation.switched import VARIABLE, blamed, switched
from tests.mutation.testing import Limits, run_tests
from tests.sampling import thinned

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


def test_many_mutants_are_in_one_text(tmp_path: Path) -> None:
    """The number from the environment chooses one of them; without it, nothing is changed."""
    module = Module("bounded", tmp_path, (Path("bounded.pyx"),), ())
    (tmp_path / "bounded.pyx").write_text(SWITCHED)
    mutants = module.mutants
    source = Path("bounded.pyx")
    texts, taken = switched({source: SWITCHED}, source, mutants)
    assert {one.before for one in mutants if one not in taken} == {
        "cdef int64_t MOST = 9",
        "cdef int64_t least = 2, found = 0",
        "for number in range(3):",
        "while least < 0: least += 2",
    }
    (tmp_path / "bounded.pyx").write_text(texts[source])
    subprocess.run(
        [sys.executable, "-m", "Cython.Build.Cythonize", "-3", "-q", "-i", "bounded.pyx"],
        cwd=tmp_path,
        check=True,
    )
    numbers = {(one.before, one.after): number for number, one in enumerate(taken, 1)}

    def found(number: int) -> str:
        return subprocess.run(
            [sys.executable, "-c", "import bounded; print(*bounded.bounded(3, [5]))"],
            cwd=tmp_path,
            env=os.environ | {VARIABLE: str(number), "PYTHONPATH": str(tmp_path)},
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
    """Their numbers go on from part to part, and a message names the one that is in its place."""
    part, unit = Path("mtlmon/parts/part.pxi"), Path("mtlmon/parts/native.pyx")
    originals = {part: "cdef int f(int a):\n    a += 1\n    return a\n",
                 unit: '"""A unit."""\n\ninclude "part.pxi"\n'}  # fmt: skip
    other = Path("mtlmon/parts/other.pxi")
    originals[other] = "cdef int g(int a):\n    a -= 1\n    return a\n"
    mutants = [
        make_mutant(source, originals[source], "drop", originals[source].replace(old, "pass"))
        for source, old in ((part, "a += 1"), (other, "a -= 1"))
    ]
    texts, taken = switched(originals, unit, mutants)
    assert taken == mutants
    assert texts[unit].index("cdef int") < texts[unit].index("include")
    assert "cdef int chosen" not in texts[part] + texts[other]
    line = texts[other].splitlines().index("        pass") + 1
    assert blamed(f"{other}:{line}:8: Undeclared name\n", texts) == {2}
    assert not blamed(f"{other}:{line + 3}:8: Undeclared name\n", texts)


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
        module = Module("x", tmp_path, (Path(name),), ())
        return [one.identity for one in islice(module.shuffled("1"), 30)]

    before, after = sample(*functions), sample("# a line\n\n\n", *functions[1:])
    assert len(set(before)) == 30
    # those of the first function are gone, and with it the place of some in the sample
    assert 25 <= len(set(before) & set(after)) < 30


def test_every_module_has_tests_that_are_near() -> None:
    modules = find_modules(ROOT)
    assert [name for name, one in modules.items() if one.tests == (CORPUS,)] == []
    missing = {
        test
        for one in modules.values()
        for test in one.tests
        if not (ROOT / test.partition("::")[0]).exists()
    }
    assert not missing
    assert modules["relational/slicing/hashing"].tests == ("tests/relational/slicing",)
    assert modules["streams/rows"].tests != modules["relational/engine/rows"].tests
    first = modules["cli"].tests_of(Path("cli/scanning.py"))
    assert first == ("tests/cli/test_scanning.py", "tests/cli")


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


def test_limits(tmp_path: Path) -> None:
    cases = [
        ("passed", "pass", 2),
        ("failed", "assert False", 2),
        ("crashed", "import os; os.abort()", 2),
        ("timeout", "while True: pass", 2),
        ("failed", "bytes(1 << 40)", 5),
    ]
    for number, (outcome, statement, seconds) in enumerate(thinned(cases)):
        test = tmp_path / f"test_{number}.py"
        test.write_text(f"def test():\n    {statement}\n")
        run = run_tests(tmp_path, tmp_path, (str(test),), Limits(seconds, 60))
        assert run.outcome == outcome, run.output
        assert (run.by == f"{test.name}::test") == (outcome == "failed")


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
    module = Module("sign", tmp_path, (Path("_sign.pyx"),), ())
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
