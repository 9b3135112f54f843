"""The extension modules and their build switches; everything else stands in pyproject.toml.

Environment variables read at build time:

MTLMON_SANITIZE   comma-separated sanitizers for the C compiler, e.g. ``address,undefined``
MTLMON_CHECKS     ``1`` compiles the engine's invariant checks in (slow; for the tests)
MTLMON_LINETRACE  ``1`` compiles line tracing in (for coverage of the native modules)
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup


def switched_on(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


checks = switched_on("MTLMON_CHECKS")
line_trace = switched_on("MTLMON_LINETRACE")
sanitizers = os.environ.get("MTLMON_SANITIZE", "")

compile_arguments: list[str] = []
link_arguments: list[str] = []
if sys.platform != "win32":
    compile_arguments += ["-O3", "-fno-strict-aliasing"]
if sanitizers:
    compile_arguments += [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-g", "-O1"]
    link_arguments += [f"-fsanitize={sanitizers}"]

extensions = [
    Extension(
        f"mtlmon.{source.stem}",
        [f"mtlmon/{source.name}"],
        define_macros=[
            ("MTLMON_CHECKS", "1" if checks else "0"),
            *([("CYTHON_TRACE_NOGIL", "1")] if line_trace else []),
        ],
        extra_compile_args=compile_arguments,
        extra_link_args=link_arguments,
    )
    for source in sorted(Path(__file__).parent.joinpath("mtlmon").glob("*.pyx"))
]

setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": "python",
            "linetrace": line_trace,
        },
    ),
)
