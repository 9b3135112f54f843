"""Imports optional packages when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mtlmon.errors import MtlmonError


def load_extra(module: str, extra: str) -> Any:
    """Import a module that an extra of this package installs.

    Args:
        module: the name of the module.
        extra: the name of the extra, for the message of the error.

    Raises:
        MtlmonError: the module cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MtlmonError(
            f"{module} cannot be imported ({error}); "
            f"`pip install 'mtlmon[{extra}]'` installs what is needed"
        ) from error
