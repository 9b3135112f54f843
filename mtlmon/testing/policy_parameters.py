"""The policies of files as parameters of tests."""

from __future__ import annotations

from copy import copy
from pathlib import PurePath
from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.policy.several import load_policies

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from mtlmon.policy import Policy, PolicyFile

__all__ = ["PolicyParameter", "policies"]


class PolicyParameter:
    """A policy of a file, for `assert_holds`, `check`, `LiveMonitor` and `mtl_monitor`.

    In `pytest.mark.parametrize`, its name is the identifier of the test.

    Attributes:
        name: the name of the policy, or of its file if it has none.
        text: what the policy means, in words; empty if the file does not say.
        severity: how serious a violation is, or None.
        file: the file, with this policy only.
    """

    def __init__(self, file: PolicyFile, policy: Policy, name: str) -> None:
        self.name = self.__name__ = name
        self.text = policy.text
        self.severity = policy.severity
        self.file = copy(file)
        self.file.policies = (policy,)

    def __repr__(self) -> str:
        return f"<policy {self.name}>"

    def __str__(self) -> str:
        return self.name


def policies(
    *paths: str | os.PathLike[str],
    constants: Mapping[str, str] | None = None,
    unit: str | None = None,
) -> list[PolicyParameter]:
    """Return the policies of files, for `pytest.mark.parametrize`.

    Args:
        paths: the policy files. Those that only look for something (`find`) have no policy.
        constants: other values for constants of the files, as `--set` gives them:
            `{"limit": "30s"}`.
        unit: the unit of the time-stamps, if the files do not declare it.

    Raises:
        FormulaError, PolicyError: a file is not valid.
        MtlmonError: the files have no policy, or no path is given.
        OSError: a file cannot be read.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     with open(f"{directory}/shop.mtl", "w") as file:
    ...         _ = file.write("policy paid: ship IMPLIES ONCE pay\\npolicy once: NOT PREV ship")
    ...     policies(f"{directory}/shop.mtl")
    [<policy paid>, <policy once>]
    """
    __tracebackhide__ = True
    if not paths:
        raise MtlmonError("policies() takes the path of at least one policy file")
    try:
        file = load_policies(paths, constants=constants, unit=unit)
    except MtlmonError as error:
        raise error.with_traceback(None) from None
    found = [
        PolicyParameter(file, policy, policy.name or PurePath(paths[0]).stem)
        for policy in file.policies
        if not policy.is_find
    ]
    if not found:
        raise MtlmonError("the policy file has no policy, so there is nothing to test")
    return found
