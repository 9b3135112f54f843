"""The extension modules and their build switches; everything else is in pyproject.toml.

Environment variables read at build time:

MTLMON_SANITIZE   comma-separated sanitizers for the C compiler, e.g. `address,undefined`
MTLMON_CHECKS     `1` compiles the engine's invariant checks in (slow; for the tests)
MTLMON_LINETRACE  `1` compiles line tracing in (for coverage of the native modules)
"""

import gc
import hashlib
import os
import shutil
import sys
from pathlib import Path

from Cython import __version__ as cython_version
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def switched_on(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


checks = switched_on("MTLMON_CHECKS")
line_trace = switched_on("MTLMON_LINETRACE")
sanitizers = os.environ.get("MTLMON_SANITIZE", "")

# Python's own flags ask for full debugging information: most of the modules' size and a quarter of
# the compile time. -O1 takes half as long to compile, and with checks the run time goes into those.
compile_arguments = ["-O1" if checks else "-O3", "-g0", "-fno-strict-aliasing"]
link_arguments: list[str] = []
# PERF: with these, the units run as fast, and compilers take 9 of 79 s less. Others run slower, or
# their time does not matter.
levels = {
    "mtlmon.relational.native": "-O2",
    "mtlmon.streams.native": "-O2",
    "mtlmon.syntax.native": "-O1",
}
if sanitizers:
    compile_arguments += ["-O1", "-g1", "-fno-omit-frame-pointer"]
    for arguments in compile_arguments, link_arguments:
        arguments += [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]

# One build directory per combination of switches: setuptools compares time stamps only, so a common
# one would carry one build's modules into the next. The generated C depends only on line tracing;
# its path is constant, which compiler caches need.
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

SOURCES = Path("mtlmon")
# Cython's support code, which is the same for all modules, is compiled once: a quarter less C.
SHARED = "mtlmon._shared"
generated = Path("build/cython-linetrace" if line_trace else "build/cython")


class BuildExtensions(build_ext):
    """Compiles only what has changed, in whatever environment and for whatever kind of install.

    pip builds in a fresh environment each time, and for an editable install into a temporary
    directory, so setuptools would compile everything again. Compiled modules are therefore kept in
    the build directory, each with a digest of all that went into it.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        # One C compiler per processor. An editable install does not keep an option of setup().
        self.parallel = self.parallel or True

    def build_extensions(self) -> None:
        generate_c(self.extensions)
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        kept = Path(
            build_directory, "extensions", f"{ext.name}{target.name[target.name.index('.') :]}"
        )
        digest = Path(f"{kept}.digest")
        wanted = self.digest_of(ext)
        if self.force or not (
            kept.exists() and digest.exists() and digest.read_text(encoding="ascii") == wanted
        ):
            digest.unlink(missing_ok=True)
            target.unlink(missing_ok=True)
            super().build_extension(ext)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, kept)
            digest.write_text(wanted, encoding="ascii")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, target)

    def digest_of(self, ext: Extension) -> str:
        """The digest of an extension's C code and of how it is compiled."""
        parts: list[object] = [
            sys.version,
            self.compiler.compiler_so,
            self.compiler.linker_so,
            ext.define_macros,
            ext.extra_compile_args,
            ext.extra_link_args,
        ]
        digest = hashlib.sha256(repr(parts).encode())
        for path in [*sorted(SOURCES.rglob("*.h")), *map(Path, ext.sources)]:
            digest.update(path.read_bytes())
        return digest.hexdigest()


def date_unchanged(directory: Path) -> Path:
    """If no source has changed, date the generated C after all of them.

    Cython compares dates only, with its own declarations too, and those are always new in an
    environment that was made for one build. Returns a note that names the state of the sources, to
    be written once the C is there.
    """
    digest = hashlib.sha256(cython_version.encode())
    for path in [Path(__file__), *sorted([*SOURCES.rglob("*.px[di]"), *SOURCES.rglob("*.pyx")])]:
        digest.update(path.read_bytes())
    note = directory / f"{digest.hexdigest()}.sources"
    if note.exists():
        for path in directory.rglob("*.c"):
            os.utime(path)
    for other in directory.glob("*.sources"):
        other.unlink()
    return note


def generate_c(modules: list[Extension]) -> None:
    """Let Cython write C for modules, which is then their source."""
    note = date_unchanged(generated)
    # Cython keeps all that it makes until a module is done, so looking for garbage is a quarter of
    # its time and saves no memory. Its processes are forked and inherit this.
    gc.disable()
    made = cythonize(
        modules,
        build_dir=str(generated),
        nthreads=os.cpu_count() or 1,
        # the options are in this file, which Cython does not compare
        force=any(
            path.stat().st_mtime < Path(__file__).stat().st_mtime for path in generated.rglob("*.c")
        ),
        shared_utility_qualified_name=SHARED,
        # No module has a typed memoryview, whose support code is larger than all the rest.
        shared_utility_features_disabled=["MemoryView"],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": "python",
            "linetrace": line_trace,
            # Classes are pickled where they say how. Cython's own way takes pointers for strings.
            "auto_pickle": False,
        },
    )
    gc.enable()
    sources = {module.name: module.sources for module in made}
    for module in modules:
        module.sources = sources[module.name]
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()


def extension(name: str, source: Path) -> Extension:
    return Extension(
        name,
        [str(source)],
        define_macros=[
            ("MTLMON_CHECKS", "1" if checks else "0"),
            *([("CYTHON_TRACE_NOGIL", "1")] if line_trace else []),
        ],
        include_dirs=[str(SOURCES)],
        extra_compile_args=[
            *compile_arguments,
            *([] if checks or sanitizers or name not in levels else [levels[name]]),
        ],
        extra_link_args=link_arguments,
    )


def size(source: Path) -> int:
    """How much there is to compile: the parts of a folder's unit are in files of their own."""
    parts = source.parent.rglob("*.pxi") if source.stem == "native" else [source]
    return sum(part.stat().st_size for part in parts)


# The largest first, so that no long one is left to a single processor at the end.
sources = sorted(SOURCES.rglob("*.pyx"), key=lambda source: (-size(source), source))
extensions = [extension(".".join(source.with_suffix("").parts), source) for source in sources]
extensions.append(extension(SHARED, SOURCES / "_shared.c"))

packages = {".".join(path.parent.parts) for path in SOURCES.rglob("__init__.py")}

setup(
    packages=[*sorted(packages), "mtlmon.cli"],
    cmdclass={"build_ext": BuildExtensions},
    ext_modules=extensions,
    options={"build": {"build_base": build_directory}},
)
