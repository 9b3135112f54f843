"""Packages that mtlmon can do without, and loads when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mtlmon.errors import MtlmonError


def load_extra(module: str, extra: str) -> Any:
    """The module, which comes with an extra of this package.

    Raises:
        MtlmonError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MtlmonError(
            f"{module} cannot be imported ({error}); "
            f"`pip install 'mtlmon[{extra}]'` installs what is needed"
        ) from error
