"""What is installed, and what start-up imports."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import mtlmon
from tests.cli.process import Live

# Each costs more of the start-up than the engine itself, and none is needed to begin.
_EXPENSIVE = {
    "numpy", "dd", "networkx", "typing", "dataclasses", "inspect", "json", "asyncio", "shutil",
}  # fmt: skip


def _imported_by(code: str, *arguments: str) -> set[str]:
    """The modules that the code imports in a fresh interpreter."""
    program = (
        f"import sys; before = set(sys.modules)\n{code}\n"
        "print(*set(sys.modules) - before, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def test_version_is_that_of_the_metadata() -> None:
    assert mtlmon.__version__ == importlib.metadata.version("mtlmon")


def test_recipe_of_conda_says_what_the_metadata_say() -> None:
    recipe = (Path(__file__).parents[1] / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{mtlmon.__version__}"' in recipe
    required = importlib.metadata.requires("mtlmon") or ()
    for requirement in (one for one in required if "extra" not in one):
        name, minimum = re.fullmatch(r"([a-z]+)(>=[0-9.]+)", requirement).groups()  # type: ignore[union-attr]
        assert f"    - {name} {minimum}\n" in recipe


def test_metadata() -> None:
    metadata = importlib.metadata.metadata("mtlmon")
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {"test", "bench", "lint", "tables"} <= set(metadata.get_all("Provides-Extra") or [])


def test_console_script_is_the_command() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="mtlmon")
    assert callable(script.load())


def test_python_m_is_the_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mtlmon", "--version"], capture_output=True, text=True, check=True
    )
    assert mtlmon.__version__ in done.stdout


@pytest.mark.parametrize(
    ("is_checkout", "advice"),
    [(True, "Run `pip install -e .` there"), (False, "pip install --force-reinstall mtlmon")],
)
def test_an_import_without_native_modules_says_what_to_do(
    is_checkout: bool, advice: str, tmp_path: Path
) -> None:
    """The current directory comes first in the path: in a checkout where nothing is compiled, it
    hides the mtlmon that is installed.
    """
    package = Path(mtlmon.__file__).parent
    copied = shutil.ignore_patterns(*(f"*{suffix}" for suffix in EXTENSION_SUFFIXES))
    shutil.copytree(package, tmp_path / "mtlmon", ignore=copied)
    if is_checkout:
        (tmp_path / "setup.py").touch()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    for arguments in (["-c", "import mtlmon"], ["-m", "mtlmon", "--version"]):
        done = subprocess.run(
            # -S: without the site directories, so that nothing else is found
            [sys.executable, "-S", *arguments],
            capture_output=True,
            check=False,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        last = done.stderr.splitlines()[-1]
        assert last.startswith("ImportError: ")
        assert "mtlmon._core" in last
        assert advice in last


def test_what_another_package_lacks_is_told_as_it_is() -> None:
    code = (
        "import sys; sys.modules['mtlmon._core'] = None\n"
        "import importlib.abc\n"
        "class Missing(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'mtlmon._core': raise ModuleNotFoundError('no more', name=MISSING)\n"
        "del sys.modules['mtlmon._core']; sys.meta_path.insert(0, Missing())\n"
        "import mtlmon\n"
    )
    for missing in ("dd.autoref", None):
        done = subprocess.run(
            [sys.executable, "-c", f"MISSING = {missing!r}\n{code}"],
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: no more"


def test_types_are_installed() -> None:
    files = {entry.name for entry in importlib.resources.files("mtlmon").iterdir()}
    assert "py.typed" in files
    natives = {name.partition(".")[0] for name in files if name.endswith(tuple(EXTENSION_SUFFIXES))}
    stubs = {name.removesuffix(".pyi") for name in files if name.endswith(".pyi")}
    assert "_core" in stubs
    assert stubs <= natives


def test_no_sources_of_native_modules_are_installed() -> None:
    installed = importlib.metadata.files("mtlmon") or []
    assert not [path for path in installed if path.suffix in {".c", ".pyx"}]


def test_the_import_is_light() -> None:
    assert not _imported_by("import mtlmon") & _EXPENSIVE


@pytest.mark.parametrize("formula", ["p", "p UNTIL[0,5] q", "ALWAYS[0,9] (p IMPLIES ONCE[0,2] q)"])
def test_the_command_starts_light(formula: str, tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    log.write_text("@1 p\n@2 q\n@3\n@30 p q\n")
    code = (
        "from mtlmon.cli import main\n"
        "try: sys.exit(main())\n"
        "except SystemExit as end: assert end.code in (0, 1), end.code"
    )
    for options in [], ["--output-format", "jsonl"]:
        assert not _imported_by(code, *options, "-e", formula, str(log)) & _EXPENSIVE
    named = tmp_path / "named.mtl"
    named.write_text(f"policy x: {formula}\n")
    for options in [], ["--output-format", "jsonl"]:
        imported = _imported_by(code, *options, str(named), str(log))
        assert "mtlmon.policy.reading" in imported
        assert not imported & _EXPENSIVE
    # and several policies need neither numpy nor pyarrow for lines
    named.write_text(f"policy x: {formula}\npolicy y: p\n")
    for format in "text", "jsonl":
        imported = _imported_by(code, "--output-format", format, str(named), str(log))
        assert "mtlmon.checking.outputs" in imported
        assert not imported & {"numpy", "pyarrow"}
    # nor do policies with variables
    named.write_text("unit s\natom p(x: int)\npolicy x: not p(3)\nfind y: p(x)\n")
    log.write_text("@1 p(3)\n@2 p(4)\n")
    imported = _imported_by(code, str(named), str(log))
    assert "mtlmon.relational.native" in imported
    assert not imported & {"numpy", "pyarrow", "hashlib", "statistics", "fractions", "random"}
    assert not imported & {"mtlmon.checking.log_check", "mtlmon.run.checkpoint"}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_the_command_starts_no_threads_for_linear_algebra(tmp_path: Path) -> None:
    policy = tmp_path / "found.mtl"
    policy.write_text("unit s\natom p(x: int)\nfind found: p(x)\n")
    with Live(str(policy)) as live:
        live.send("@1 p(3)\n@2 p(4)\n")
        assert live.read_line() == "found\t1:0 match (x=3)"
        process = Path("/proc", str(live.process.pid))
        assert "multiarray" in (process / "maps").read_text()
        assert len(list((process / "task").iterdir())) == 1


def test_the_command_does_without_pandas(tmp_path: Path) -> None:
    """Arrow imports it at its first conversion, which takes a third of a second."""
    pytest.importorskip("pandas", reason="pandas is not installed")
    table, policy = tmp_path / "log.csv", tmp_path / "fast.mtl"
    table.write_text("ts,speed\n1,20\n2,70\n")
    policy.write_text("policy fast: speed < 50\n")
    code = (
        "import sys; sys.argv[0] = 'mtlmon'; import mtlmon._start as start\n"
        "start.leave = lambda status: sys.exit(10 * status + ('pandas' in sys.modules))\n"
        "from mtlmon.cli import main; main()"
    )
    arguments = [str(policy), str(table), "--output-format", "csv"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert '"fast",2,0,false' in done.stdout
    assert done.returncode == 10


def _of_lean_imports(code: str) -> None:
    """Run code in a process where numpy and Arrow are loaded as in the command."""
    start = "from mtlmon import _start; _start.leave_out_what_is_not_needed()\n"
    subprocess.run([sys.executable, "-c", start + code], check=True)


def test_what_the_command_leaves_out_comes_on_use() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    _of_lean_imports(
        "import sys, numpy.linalg, pyarrow as pa, pyarrow.compute as pc\n"
        "assert 'equal' not in vars(pc) and 'numpy._typing._char_codes' not in sys.modules\n"
        "assert pc.equal(pa.array([1, 2]), 2).to_pylist() == [False, True]\n"
        "assert pc.and_(True, False).as_py() is False and 'equal' in vars(pc)\n"
        "assert pc.round(pa.array([1.25]), ndigits=1).to_pylist() == [1.2]\n"
        "assert pa.array([1, 2]).cast(pa.string()).to_pylist() == ['1', '2']\n"
        "assert pc.function_registry().get_function('equal').name == 'equal'\n"
        "assert not hasattr(pc, 'no_such_function')\n"
        "from numpy.typing import ArrayLike, NDArray\n"
        "assert NDArray is not list and NDArray[numpy.int64]\n"
        "import gettext\n"
        "assert not hasattr(gettext, '__no__') and not hasattr(gettext, 'no')\n"
        "assert gettext.gettext('x') == 'x' and gettext.ngettext('one', 'many', 2) == 'many'\n"
        "assert gettext.NullTranslations\n"
        # what Arrow leaves out is not there, and a star brings all the rest
        "assert not hasattr(pc, 'hash_sum') and not hasattr(pc, 'count_all')\n"
        "from pyarrow.compute import *\n"
        "assert equal is pc.equal and utf8_zero_fill and len(pc.__all__) > 300\n"
    )


def test_another_version_of_arrow_is_loaded_as_it_is() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    _of_lean_imports(
        "import pyarrow as pa, pyarrow._compute as native\n"
        "from mtlmon import _lean_imports as lean\n"
        "from types import ModuleType\n"
        "module = ModuleType('compute')\n"
        "class Loader:\n"
        "    def exec_module(self, module):\n"
        "        assert 'half' not in vars(module)\n"
        "        module.half = 1\n"
        "        assert native.function_registry().get_function('equal').name == 'equal'\n"
        "        module.equal = native.function_registry().list_functions()[:1] and 2\n"
        "lean._LaterFunctions(Loader()).exec_module(module)\n"
        "assert module.equal == 2 and not hasattr(module, 'no_such_function')\n"
        "assert len(native.function_registry().list_functions()) > 100\n"
    )
