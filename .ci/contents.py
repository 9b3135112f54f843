"""Check what is in an sdist and in a wheel: `python contents.py SDIST WHEEL`."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import PurePath


def missing_and_surplus(names: set[str], wanted: set[str], unwanted: set[str]) -> list[str]:
    """Complaints: files that must be there and are not, suffixes that must not be there."""
    missing = [f"missing: {name}" for name in sorted(wanted - names)]
    surplus = [f"surplus: {name}" for name in sorted(names) if PurePath(name).suffix in unwanted]
    return missing + surplus


def main() -> int:
    sdist, wheel = sys.argv[1:]
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        built = {name.split(".cpython-")[0] for name in archive.namelist()}
        built |= {name.partition(".data/data/share/")[2] for name in built}

    natives = {name for name in source if name.startswith("mtlmon/") and name.endswith(".pyx")}
    package = {
        name.replace("cli/", "mtlmon/cli/", 1)
        for name in source
        if name.startswith(("mtlmon/", "cli/"))
        and name.endswith((".py", ".pyi", ".typed", ".html", ".css", ".js"))
    }
    plugin = {"_mtlmon_pytest.py"}
    documents = {
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.md",
        "pyproject.toml",
    }
    # the manual page, and what shells complete with
    shared = {
        "man/man1/mtlmon.1",
        "bash-completion/completions/mtlmon",
        "zsh/site-functions/_mtlmon",
        "fish/vendor_completions.d/mtlmon.fish",
    }
    tools = {
        "tests/conftest.py",
        "bench/__main__.py",
        "bench/native_ceiling.pyx",
        "bench/pytest.ini",
    }
    complaints = missing_and_surplus(
        source,
        wanted=documents | plugin | tools | {"mtlmon/py.typed"},
        unwanted={".c", ".so", ".pyc"},
    ) + missing_and_surplus(
        built,
        # _shared is Cython's support code, which has no source of its own.
        wanted=package
        | plugin
        | {"mtlmon/_shared"}
        | shared
        | {name.removesuffix(".pyx") for name in natives},
        unwanted={".c", ".pxd", ".pxi", ".pyx", ".pyc"},
    )
    installed = {PurePath(name).parts[0] for name in built if name not in shared and name}
    complaints += [
        f"surplus: {name}/"
        for name in sorted(installed - plugin - {"mtlmon"})
        if not name.endswith((".dist-info", ".data"))
    ]
    if not natives:
        complaints.append("no native module")
    print("\n".join(complaints) or f"{sdist}, {wheel}: as they should be")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
