"""The message shown when the import fails because the native modules are missing."""

import os
import sys


def advice(directory: str, module: str) -> str:
    """The message for a package in `directory` that lacks a native module."""
    root = os.path.dirname(os.path.abspath(directory))
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if os.path.exists(os.path.join(root, "setup.py")):
        return (
            f"mtlmon is imported from its source tree {root}, where {module} is not compiled for "
            f"{version}. Run `pip install -e .` there, or start Python in another directory to use "
            "an installed mtlmon"
        )
    return (
        f"the installation of mtlmon in {directory} has no {module} for {version}. Install it "
        "again: pip install --force-reinstall mtlmon"
    )
