"""A copy of the installed package whose texts have mutants, of which one at a time is chosen.

What has no mutants is a link. The copy comes first on PYTHONPATH, for the processes that tests
start too. Native modules are compiled as `setup.py` says, but with -O0.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import Cython.Build
from Cython.Compiler.Errors import CompileError
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

from tests.mutation.modules import UNIT
from tests.mutation.mutants import Mutant
from tests.mutation.switched import STATE, blamed, state_of, switched


class Shadow:
    """The copy, in a directory of its own; `path` is what goes on PYTHONPATH."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.path = directory / "package"
        self._root = root
        self._sources = directory / "sources"
        _link(_installed("mtlmon"), self.path / "mtlmon")
        commands = self.path / "mtlmon" / "cli"
        # In an editable install it lies elsewhere.
        if not commands.exists():
            _link(_installed("mtlmon.cli"), commands)

    def put(self, mutants: Mapping[int, Mutant], processes: int) -> set[int]:
        """Have mutants by their numbers in the texts; tell the numbers of those that are none."""
        (self.path / f"{STATE}.py").write_text(state_of(max(mutants, default=0)))
        units: dict[Path, dict[int, Mutant]] = {}
        for number, mutant in mutants.items():
            units.setdefault(unit_of(self._root, mutant.source), {})[number] = mutant
        # the largest first
        shares = sorted(units.items(), key=lambda one: -len(one[1]))
        with ProcessPoolExecutor(processes, get_context("fork")) as pool:
            put = [pool.submit(self._put, unit, some) for unit, some in shares]
            return set().union(*(one.result() for one in put))

    def _put(self, unit: Path, mutants: dict[int, Mutant]) -> set[int]:
        sources = {unit, *(mutant.source for mutant in mutants.values())}
        originals = {source: (self._root / source).read_text() for source in sources}
        wrong: set[int] = set()
        if unit.suffix == ".py":
            wrong |= {number for number, one in mutants.items() if not _is_program(one.text)}
        while remaining := {n: one for n, one in mutants.items() if n not in wrong}:
            texts = switched(originals, unit, remaining)
            found = self._have(unit, texts)
            if found is None:
                break
            wrong |= found
        return wrong

    def _have(self, unit: Path, texts: Mapping[Path, str]) -> set[int] | None:
        """Put the texts of a unit into the copy; which mutants do not let it compile."""
        if unit.suffix == ".py":
            target = self.path / (unit if unit.parts[0] == "mtlmon" else Path("mtlmon", unit))
            compile(texts[unit], str(unit), "exec")
            target.unlink()
            target.write_text(texts[unit])
            return None
        # A unit has its own copy of all: another may have the same part.
        name = unit.with_suffix("").as_posix().replace("/", ".")
        sources = self._sources / name
        if not sources.exists():
            sources.mkdir(parents=True)
            for item in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(self._root / item, sources)
            compiled = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
            for package in ("mtlmon", "cli"):
                shutil.copytree(self._root / package, sources / package, ignore=compiled)
        for source, text in texts.items():
            (sources / source).write_text(text)
        built, log = sources / "built.so", sources / "log"
        process = get_context("fork").Process(target=_compile, args=(sources, unit, built, log))
        process.start()
        process.join()
        if process.exitcode:
            messages = log.read_text(errors="replace")
            found = blamed(messages, texts)
            if not found:
                raise SystemExit(f"{unit} does not compile:\n{messages}")
            return found
        (target,) = (self.path / unit.parent).glob(f"{unit.stem}.*.so")
        target.unlink()
        built.rename(target)
        return None


def _is_program(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def unit_of(root: Path, source: Path) -> Path:
    """The file that is compiled for a native source: itself, or the unit that it is a part of."""
    if source.suffix in (".py", ".pyx"):
        return source
    for folder in source.parents:
        if (root / folder / UNIT).exists():
            return folder / UNIT
    # a part of units of other folders: the first of them
    including = (one for one in sorted(root.rglob(UNIT)) if f'{source.name}"' in one.read_text())
    return next(including).relative_to(root)


def _installed(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; .ci/mutate does it")
    return Path(spec.origin).parent


def _link(directory: Path, copy: Path) -> None:
    copy.mkdir(parents=True)
    for item in directory.iterdir():
        if item.is_dir() and item.name != "__pycache__":
            _link(item, copy / item.name)
        elif item.is_file():
            (copy / item.name).symlink_to(item)


def _compile(sources: Path, source: Path, compiled: Path, log: Path) -> None:
    """In a process of its own: Cython keeps much, and may be killed."""
    with open(log, "wb", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(sources)
    os.environ["CCACHE_DISABLE"] = "1"
    extension, options = settings_of(source)
    flags = [flag for flag in extension.extra_compile_args if not flag.startswith("-O")]
    extension.extra_compile_args = [*flags, "-O0", "-w"]
    options |= {"nthreads": 0, "force": True, "quiet": True, "build_dir": "build"}
    try:
        modules = Cython.Build.cythonize([extension], **options)  # type: ignore[no-untyped-call]
    except CompileError:
        os._exit(1)
    command = build_ext(Distribution({"ext_modules": modules}))
    command.build_lib, command.build_temp, command.force = "library", "temporary", True
    command.ensure_finalized()
    command.run()
    os.replace(command.get_ext_fullpath(modules[0].name), compiled)
    os._exit(0)


def settings_of(source: Path) -> tuple[Extension, dict[str, Any]]:
    """What `setup.py` would compile a file with: its extension, and what it tells Cython."""
    from distutils.core import run_setup

    made = run_setup("setup.py", stop_after="init")
    handed: dict[str, Any] = {}

    def note(extensions: list[Extension], **options: Any) -> list[Extension]:
        handed.update(options)
        return extensions

    builder: Any = made.cmdclass["build_ext"]
    generate = builder.build_extensions.__globals__["generate_c"]
    with mock.patch.dict(generate.__globals__, cythonize=note):
        generate([*made.ext_modules])
    for extension in made.ext_modules:
        if source.as_posix() in extension.sources:
            return extension, handed
    raise SystemExit(f"setup.py does not build {source}")
