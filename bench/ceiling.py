"""The least a monitor has to do: scan a log, write a constant verdict for each line.

    python -m bench.ceiling LOG ATOM...

It looks for the atoms given, as a monitor would. It is the native scanner and the native writer of
mtlmon, with no engine between them. It is compiled when it is first needed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_SOURCE = ROOT / "bench" / "native_ceiling.pyx"
_BUILT = ROOT / "build" / "bench"


def load_native() -> Any:
    """The module `native_ceiling`, compiled if it is not up to date.

    Raises:
        ImportError: there is no Cython.
    """
    target = _BUILT / f"native_ceiling{EXTENSION_SUFFIXES[0]}"
    declarations = (ROOT / "mtlmon").rglob("*.pxd")
    newest = max(path.stat().st_mtime for path in [_SOURCE, *declarations])
    if not target.exists() or target.stat().st_mtime < newest:
        _compile(target)
    spec = importlib.util.spec_from_file_location("native_ceiling", target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(target: Path) -> None:
    """Compile in a directory of its own, as others may do the same at this moment."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    flags = ["-O3", "-g0", "-w", "-fno-strict-aliasing"]
    directives = {"boundscheck": False, "wraparound": False, "cdivision": True}
    target.parent.mkdir(parents=True, exist_ok=True)
    directory = os.getcwd()
    os.chdir(ROOT)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            modules = cythonize(  # type: ignore[no-untyped-call]
                [Extension("native_ceiling", [str(_SOURCE)], extra_compile_args=flags)],
                build_dir=scratch,
                include_path=[str(ROOT)],
                compiler_directives=directives,
                force=True,
                quiet=True,
            )
            command = build_ext(Distribution({"ext_modules": modules}))
            command.build_lib, command.build_temp = scratch, scratch
            command.ensure_finalized()
            command.run()
            os.replace(Path(scratch, target.name), target)
    finally:
        os.chdir(directory)


def main() -> None:
    log, *atoms = sys.argv[1:]
    load_native().Ceiling(atoms).copy(os.open(log, os.O_RDONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
