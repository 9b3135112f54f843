"""What can be mutated, and which tests are nearest to it.

Files are found by name, wherever they lie below the package: a *module* is a Cython file without
its underscore, a part of a compiled unit, a Python file of the package's own folder, or a folder of
Python files.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.mutation.mutants import Mutant, make_mutant

_HERE = Path(__file__).parent
_PACKAGES = ("mtlmon", "cli")
CORPUS = "tests/test_corpus.py"
UNIT = "native.pyx"


@dataclass(frozen=True)
class Module:
    """name: as on the command line; sources and tests relative to the root of the tree."""

    name: str
    root: Path
    sources: tuple[Path, ...]
    tests: tuple[str, ...]

    @property
    def is_native(self) -> bool:
        return self.sources[0].suffix in (".pyx", ".pxi")

    @cached_property
    def originals(self) -> dict[Path, str]:
        return {source: (self.root / source).read_text() for source in self.sources}

    @cached_property
    def mutants(self) -> list[Mutant]:
        """All of them, in the order of the text."""
        if self.is_native:
            from tests.mutation.native import mutants
        else:
            from tests.mutation.python import mutants
        return [
            make_mutant(source, text, operator, mutated)
            for source, text in self.originals.items()
            for operator, mutated in mutants(text)
        ]


def find_modules(root: Path) -> dict[str, Module]:
    """All modules by name. A line of the table that fits nothing is an error."""
    sources: dict[str, list[Path]] = {}
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.p*")):
            name = _name_of(path, root / package)
            if name is not None:
                sources.setdefault(name, []).append(path.relative_to(root))
    nearest: dict[str, list[str]] = tomllib.loads((_HERE / "nearest.toml").read_text())
    _check_table(root, nearest, set(sources))
    return {
        name: Module(name, root, tuple(paths), tuple(nearest.get(name) or _by_name(root, name)))
        for name, paths in sources.items()
    }


def chosen(modules: dict[str, Module], names: list[str]) -> list[Module]:
    """The modules named, all of them if none is."""
    for name in names:
        if name not in modules:
            near = difflib.get_close_matches(name, modules, 3)
            hint = f"; near to it: {', '.join(near)}" if near else ""
            raise SystemExit(f"no module '{name}'{hint}; --list shows all")
    return [modules[name] for name in names or modules]


def _name_of(path: Path, package: Path) -> str | None:
    if path.suffix in (".pyx", ".pxi"):
        # A unit has no code but its parts.
        return None if path.name == UNIT else path.stem.lstrip("_")
    if path.suffix != ".py" or path.name == "_version.py":
        return None
    folder = path.parent.relative_to(package).as_posix()
    if folder == ".":
        return package.name if package.name != "mtlmon" else path.stem.strip("_")
    return folder


def _by_name(root: Path, name: str) -> list[str]:
    """The tests that have a module's name, or its folder's, else the corpus."""
    last = name.rpartition("/")[2]
    folder = root / "tests" / last
    if folder.is_dir():
        return [folder.relative_to(root).as_posix()]
    found = sorted((root / "tests").rglob(f"test_{last}.py"))
    return [path.relative_to(root).as_posix() for path in found] or [CORPUS]


def _check_table(root: Path, nearest: dict[str, list[str]], names: set[str]) -> None:
    unknown = sorted(set(nearest) - names)
    missing = sorted(
        {
            test
            for tests in nearest.values()
            for test in tests
            if not (root / test.partition("::")[0]).exists()
        }
    )
    if unknown or missing:
        raise SystemExit(f"nearest.toml names what is not there: {', '.join(unknown + missing)}")
