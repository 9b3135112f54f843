"""What may import what: a folder knows those below it, and none above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PACKAGE = ROOT / "mtlmon"

# From the bottom up. What is in one line is one layer, whose members may know each other.
LAYERS = [
    {"_version", "_unbuilt", "_start", "_lean_imports", "errors"},
    {"support"},
    {"syntax"},
    {"analysis"},
    {"engine"},
    {"arrays"},
    {"text"},
    {"verdicts", "changelog"},
    {"traces"},
    {"drive"},
    {"_core", "_monitors"},
    {"history"},
    {"policy"},
    {"relational"},
    {"monpoly"},
    {"streams"},
    {"relations"},
    {"explanation"},
    {"checking"},
    {"tables"},
    {"_relational", "_relational_history"},
    {"reporting"},
    {"cutting"},
    {"run"},
    {"testing"},
    {"spark"},
    {"serving"},
    # names that users import, and the command
    {"", "verdict_arrays", "__main__", "cli"},
]
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}

# Methods of `Formula` that ask the analysis, so that users need not know of it.
ALLOWED = {("syntax/formula.py", "analysis")}

_CYTHON = re.compile(r"^[ \t]*(?:from|import|cimport) (mtlmon[\w.]*)", re.MULTILINE)


def sources() -> list[Path]:
    suffixes = {".py", ".pyx", ".pxd", ".pxi"}
    return sorted(
        path
        for folder in (PACKAGE, ROOT / "cli")
        for path in folder.rglob("*")
        if path.suffix in suffixes
    )


def room_of(path: Path) -> str:
    """The folder or module of the package's own folder that a file belongs to."""
    if path.is_relative_to(ROOT / "cli"):
        return "cli"
    first = path.relative_to(PACKAGE).parts[0]
    return first.partition(".")[0] if first != "__init__.py" else ""


def imported_rooms(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    names = imports_of(ast.parse(text)) if path.suffix == ".py" else _CYTHON.findall(text)
    for name in names:
        parts = name.split(".")
        if parts[0] == "mtlmon":
            yield parts[1] if len(parts) > 1 else ""


def imports_of(node: ast.AST) -> Iterator[str]:
    """What is imported when the code runs, also within functions; types are not."""
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        # from mtlmon import a module of it, or a name that `mtlmon` re-exports
        is_package = node.module == "mtlmon"
        for alias in node.names:
            module = is_package and (alias.name in HEIGHT and alias.name)
            yield f"mtlmon.{module}" if module else node.module
    for child in ast.iter_child_nodes(node):
        yield from imports_of(child)


def test_every_folder_has_a_layer() -> None:
    assert {room_of(path) for path in sources()} == set(HEIGHT)


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_is_imported_from_above(path: Path) -> None:
    height = HEIGHT[room_of(path)]
    above = {room for room in imported_rooms(path) if HEIGHT[room] > height}
    name = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""
    assert not {room for room in above if (name, room) not in ALLOWED}


# The modules that users import, as the reference has them, with all names in `__all__`.
PUBLIC = {
    "mtlmon",
    "mtlmon.errors",
    "mtlmon.explanation",
    "mtlmon.monpoly",
    "mtlmon.policy",
    "mtlmon.policy.values",
    "mtlmon.relational",
    "mtlmon.relational.slicing",
    "mtlmon.relations",
    "mtlmon.reporting",
    "mtlmon.spark",
    "mtlmon.streams",
    "mtlmon.tables",
    "mtlmon.testing",
    "mtlmon.testing.strategies",
    "mtlmon.verdict_arrays",
}
# The doors, and what a process imports so that its forks need not.
_BEHIND_DOORS = {TESTS / "doors.py", TESTS / "fork_server.py"}


def test_tests_reach_the_inside_through_one_file() -> None:
    private = set()
    for path in sorted(set(TESTS.rglob("*.py")) - _BEHIND_DOORS):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found = []
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
                known = PUBLIC
            elif isinstance(node, ast.ImportFrom) and node.module in PUBLIC:
                found = [f"{node.module}.{alias.name}" for alias in node.names]
                own = import_module(node.module).__all__
                known = PUBLIC | {f"{node.module}.{name}" for name in own}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found, known = [node.module or ""], PUBLIC
            inside = [name for name in found if name.startswith("mtlmon.") and name not in known]
            private |= {(path.relative_to(TESTS).as_posix(), name) for name in inside}
    assert private == set()


def test_what_starts_the_command_knows_nothing_of_it() -> None:
    for path in (TESTS / "cli" / "process.py", TESTS / "forking.py"):
        names = set(imports_of(ast.parse(path.read_text(encoding="utf-8"))))
        assert not {name for name in names if re.match(r"mtlmon\b|tests\.doors", name)}


@pytest.mark.parametrize(
    "layer",
    ["checking", "cli", "engine", "explanation", "history", "monpoly", "policy", "relational",
     "relations", "reporting", "serving", "spark", "streams", "syntax", "tables", "testing",
     "text"],
)  # fmt: skip
def test_a_layer_is_judged_by_public_names(layer: str) -> None:
    """What is inside can become another; some tests of each layer must not notice."""
    texts = [path.read_text(encoding="utf-8") for path in (TESTS / layer).glob("test_*.py")]
    assert any("tests.doors" not in text for text in texts)


# ---- the page -----------------------------------------------------------------------------------

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
_MOST_LINES = 300


def test_the_page_is_short() -> None:
    """What explains one file stands at the top of that file."""
    assert PAGE.count("\n") <= _MOST_LINES


def test_the_page_has_each_folder_in_the_order_of_the_layers() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \|$", PAGE, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    folders = [name.rstrip("/") for name in listed if name.endswith("/")]
    parents = {path.parent for path in sources() if path.is_relative_to(PACKAGE)} - {PACKAGE}
    assert sorted(folders) == sorted(path.relative_to(PACKAGE).as_posix() for path in parents)
    heights = [HEIGHT[re.split(r"[/.]", name)[0]] for name in listed]
    assert heights == sorted(heights)


_PATH = re.compile(r"[\w./]+/(?:[\w.]*\w)?|\w+\.(?:py|pyx|px[di]|pyi|toml)\b")


def test_the_page_names_what_is_there() -> None:
    here = [ROOT / name for name in ("mtlmon", "cli", "tests", "docs", ".ci")]
    there = {path.as_posix() for folder in here for path in folder.rglob("*")}
    named = {path.rstrip("/") for path in _PATH.findall(PAGE)}
    assert len(named) > 100
    missing = {
        name
        for name in named
        if not (ROOT / name).exists() and not any(path.endswith(f"/{name}") for path in there)
    }
    assert missing == set()


# Names that a part of a compiled unit defines: of functions, classes, variables and, with their
# indentation, the values of enumerations.
_DEFINED = re.compile(
    r"""
      ^ (?: async\ )? (?: def | class ) \ (\w+)
    | ^ (\w+) (?: :\ [^=\n]+ )? \ = \s
    | ^ cdef \ (?: (?: class | struct | union ) \ (\w+) | enum \ (\w+) )
    | ^ cdef \ (?: inline \ )? (?: [\w\[\]]+ [ *]+ )+ (\w+) (?= [(=[,\n] | \ = )
    """,
    re.MULTILINE | re.VERBOSE,
)
_ENUM = re.compile(r"^cdef enum[^\n]*:\n((?: .*\n|\n(?= ))*)", re.MULTILINE)
_VALUE = re.compile(r"^ +(\w+)(?= *(?:=|,|#|$))", re.MULTILINE)


def units() -> list[Path]:
    return sorted(PACKAGE.rglob("native.pyx"))


def parts_of(unit: Path, suffixes: str) -> set[Path]:
    """The parts in the folder of a unit and below, but for those of units below it."""
    others = [other.parent for other in units() if other.parent.is_relative_to(unit.parent)]
    return {
        path
        for path in unit.parent.rglob(f"*.{suffixes}")
        if path.stem != "native"
        and not any(path.is_relative_to(one) for one in others if one != unit.parent)
    }


def names_of(part: Path) -> set[str]:
    """What a part defines, in its declarations and in its code."""
    names: set[str] = set()
    for path in (part.with_suffix(".pxd"), part.with_suffix(".pxi")):
        if path.exists():
            text = path.read_text(encoding="utf-8")
            names |= {name for found in _DEFINED.findall(text) for name in found if name}
            names |= {name for block in _ENUM.findall(text) for name in _VALUE.findall(block)}
    return names


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.parent.name)
def test_no_two_parts_of_a_unit_define_one_name(unit: Path) -> None:
    owners: dict[str, list[str]] = {}
    parts = {path.with_suffix("") for path in parts_of(unit, "px[di]")}
    for part in sorted(parts):
        for name in names_of(part):
            owners.setdefault(name, []).append(part.name)
    assert len(owners) > 5
    assert {name: found for name, found in owners.items() if len(found) > 1} == {}


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.parent.name)
def test_a_unit_includes_all_its_parts(unit: Path) -> None:
    for path, suffix in ((unit, ".pxi"), (unit.with_suffix(".pxd"), ".pxd")):
        included = re.findall(r'^include "([^"]+)"$', path.read_text(), re.MULTILINE)
        parts = {part.relative_to(unit.parent).as_posix() for part in parts_of(unit, suffix[1:])}
        assert len(included) == len(set(included))
        # what units share stands in a folder without a unit
        assert {name for name in included if not name.startswith("../")} == parts


_IMPORTED = re.compile(r"^from [\w.]+ c?import (\([^)]*\)|[^\n]+)\n", re.MULTILINE)


def parts() -> list[Path]:
    return sorted(PACKAGE.rglob("*.px[di]"))


@pytest.mark.parametrize("part", parts(), ids=lambda part: part.relative_to(PACKAGE).as_posix())
def test_a_part_uses_what_it_imports(part: Path) -> None:
    """The lint finds no unused imports in parts; code may use those of its declarations."""
    text = part.read_text(encoding="utf-8")
    names = {
        name.split(" as ")[-1].strip()
        for found in _IMPORTED.findall(text)
        for name in found.strip("()").split(",")
    } - {""}
    beside = part.with_suffix(".pxi")
    if part.suffix == ".pxd" and beside.exists():
        text += beside.read_text(encoding="utf-8")
    code = _IMPORTED.sub("", text)
    assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set()
