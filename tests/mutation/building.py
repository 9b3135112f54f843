"""A copy of the installed package in which one module at a time is a mutant.

The copy is made of links, so it costs nothing; it comes first on PYTHONPATH, for the processes that
tests start too. A native module is compiled as `setup.py` says, but with -O0.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import Cython.Build
from Cython.Compiler.Errors import CompileError
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

from tests.mutation.modules import UNIT

_COMPILE_SECONDS = 300


class Shadow:
    """The copy, in a directory of its own; `path` is what goes on PYTHONPATH."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.path = directory / "package"
        self._sources = directory / "sources"
        self._log = directory / "compiler.log"
        self._links: dict[Path, Path] = {}
        _link(_installed("mtlmon"), self.path / "mtlmon")
        commands = self.path / "mtlmon" / "cli"
        # In an editable install it lies elsewhere.
        if not commands.exists():
            _link(_installed("mtlmon.cli"), commands)
        self._sources.mkdir()
        for item in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(root / item, self._sources)
        compiled = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
        for package in ("mtlmon", "cli"):
            shutil.copytree(root / package, self._sources / package, ignore=compiled)

    def put(self, texts: Mapping[Path, str]) -> bool:
        """Have other texts of source files; whether they compile.

        They are one file of Python, or parts of one compiled unit.
        """
        (source, text), *_ = texts.items()
        new = self._checked(source, text) if source.suffix == ".py" else self._built(texts)
        if new is None:
            return False
        target = self._target(source)
        _forget_bytecode(target)
        self._links[target] = target.readlink()
        # A renaming: a library that is still mapped somewhere must not change under it.
        new.replace(target)
        return True

    def remove(self, source: Path) -> None:
        """Have the installed module again, if there is another."""
        target = self._target(source)
        if link := self._links.pop(target, None):
            _forget_bytecode(target)
            target.unlink()
            target.symlink_to(link)

    def compiler_output(self) -> str:
        return self._log.read_text(errors="replace")

    def _checked(self, source: Path, text: str) -> Path | None:
        try:
            compile(text, str(source), "exec")
        except (SyntaxError, ValueError):
            return None
        written = self.path.parent / "written.py"
        written.write_text(text)
        return written

    def _built(self, texts: Mapping[Path, str]) -> Path | None:
        originals = {source: (self._sources / source).read_text() for source in texts}
        unit = unit_of(self._sources, next(iter(texts)))
        built = self.path.parent / "built.so"
        try:
            for source, text in texts.items():
                (self._sources / source).write_text(text)
            process = multiprocessing.get_context("fork").Process(
                target=_compile, args=(self._sources, unit, built, self._log)
            )
            process.start()
            process.join(_COMPILE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
        finally:
            for source, text in originals.items():
                (self._sources / source).write_text(text)
        return None if process.exitcode else built

    def _target(self, source: Path) -> Path:
        relative = source if source.parts[0] == "mtlmon" else Path("mtlmon", source)
        if source.suffix == ".py":
            return self.path / relative
        unit = unit_of(self._sources, relative)
        (target,) = (self.path / unit.parent).glob(f"{unit.stem}.*.so")
        return target


def unit_of(root: Path, source: Path) -> Path:
    """The file that is compiled for a native source: itself, or the unit that it is a part of."""
    if source.suffix == ".pyx":
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


def _forget_bytecode(target: Path) -> None:
    """It is told from what belongs to another text by second and size alone."""
    for cached in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
        cached.unlink()


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
