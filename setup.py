"""The extension modules and their build switches; everything else stands in pyproject.toml.

Environment variables read at build time:

MTLMON_SANITIZE   comma-separated sanitizers for the C compiler, e.g. `address,undefined`
MTLMON_CHECKS     `1` compiles the engine's invariant checks in (slow; for the tests)
MTLMON_LINETRACE  `1` compiles line tracing in (for coverage of the native modules)
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
    # Python's own flags ask for all that debuggers want: most of the modules' size and a quarter of
    # the compiler's time. The checks cost more than what is optimised, and -O1 takes half as long.
    compile_arguments += ["-O1" if checks else "-O3", "-g0", "-fno-strict-aliasing"]
if sanitizers:
    compile_arguments += ["-O1", "-g1", "-fno-omit-frame-pointer"]
    for arguments in compile_arguments, link_arguments:
        arguments += [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]

# One build directory per combination of switches: object files are reused by time-stamp alone, so
# a common directory would carry one build's objects into the next. The generated C depends on line
# tracing only; at the same place, it is the same for compiler caches.
variant = "-".join(
    name
    for name, wanted in [
        ("release", not (checks or line_trace or sanitizers)),
        ("checks", checks),
        ("linetrace", line_trace),
        (f"sanitize-{sanitizers.replace(',', '-')}", bool(sanitizers)),
    ]
    if wanted
)
build_directory = f"build/{variant}"

extensions = [
    Extension(
        f"mtlmon.{source.stem}",
        [f"mtlmon/{source.name}"],
        define_macros=[
            ("MTLMON_CHECKS", "1" if checks else "0"),
            *([("CYTHON_TRACE_NOGIL", "1")] if line_trace else []),
        ],
        include_dirs=["mtlmon"],
        extra_compile_args=compile_arguments,
        extra_link_args=link_arguments,
    )
    for source in sorted(Path(__file__).parent.joinpath("mtlmon").glob("*.pyx"))
]

setup(
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython-linetrace" if line_trace else "build/cython",
        nthreads=os.cpu_count() or 1,
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
    options={
        "build": {"build_base": build_directory},
        # One C compiler per processor: the modules are many and of similar size.
        "build_ext": {"parallel": True},
    },
)
