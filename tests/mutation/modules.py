"""What can be mutated.

A *module* is a Cython file, a part of a compiled unit, a Python file of the package's own folder,
or a folder of Python files. Its name is its path below the package, without a suffix.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.mutation.mutants import Mutant, digest, make_mutant

_PACKAGES = ("mtlmon", "cli")
UNIT = "native.pyx"


@dataclass(frozen=True)
class Module:
    """name: as on the command line; sources: relative to the root of the tree."""

    name: str
    root: Path
    sources: tuple[Path, ...]

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

    def mutants_of(self, lines: Collection[str]) -> list[Mutant]:
        """Those of lines that are among some, which may be several lines each."""
        if self.is_native:
            return self.mutants
        from tests.mutation.python import mutant, places

        return [
            make_mutant(source, text, *made)
            for source, text in self.originals.items()
            for place in places(text)
            if any(place.line in one for one in lines)
            and (made := mutant(text, place)) is not None
            and made[1] != text
        ]

    def shuffled(self, seed: str) -> Iterator[Mutant]:
        """All mutants in an order that a seed decides, each made as it is asked for.

        What changes elsewhere in a file does not change the order of others, so most of a sample
        is the same as before it.
        """
        if self.is_native:
            yield from sorted(self.mutants, key=lambda one: digest(seed, one.identity))
            return
        from tests.mutation.python import mutant, places

        found = [(source, one) for source, text in self.originals.items() for one in places(text)]
        found.sort(key=lambda one: digest(seed, one[0].as_posix(), one[1].told))
        seen: set[str] = set()
        for source, place in found:
            text = self.originals[source]
            made = mutant(text, place)
            if made is None or made[1] == text:
                continue
            one = make_mutant(source, text, *made)
            if one.identity not in seen:
                seen.add(one.identity)
                yield one


def find_modules(root: Path) -> dict[str, Module]:
    """All modules by name."""
    sources: dict[str, list[Path]] = {}
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.p*")):
            name = _name_of(path, root / package)
            if name is not None:
                sources.setdefault(name, []).append(path.relative_to(root))
    return {name: Module(name, root, tuple(paths)) for name, paths in sources.items()}


def chosen(modules: dict[str, Module], names: list[str]) -> list[Module]:
    """The modules named, all of them if none is.

    The end of a path names all that have it, and a folder all that are in it.
    """
    found: dict[str, Module] = {}
    for name in (given.rstrip("/") for given in names):
        some = {
            one: modules[one]
            for one in modules
            if one == name or one.endswith(f"/{name}") or one.startswith(f"{name}/")
        }
        if not some:
            near = difflib.get_close_matches(name, modules, 3)
            hint = f"; near to it: {', '.join(near)}" if near else ""
            raise SystemExit(f"no module '{name}'{hint}; --list shows all")
        found |= some
    return [*(found if names else modules).values()]


def _name_of(path: Path, package: Path) -> str | None:
    inside = path.relative_to(package)
    if path.suffix in (".pyx", ".pxi"):
        # A unit has no code but its parts.
        return None if path.name == UNIT else inside.with_suffix("").as_posix()
    if path.suffix != ".py" or path.name == "_version.py":
        return None
    if inside.parent != Path():
        return inside.parent.as_posix()
    return package.name if package.name != "mtlmon" else path.stem
