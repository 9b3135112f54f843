"""Examples of options of public functions, and where to find all options."""

from __future__ import annotations

import ast
import importlib
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from mtlmon.errors import MtlmonError
from tests.doors import AnswerChanges, EventColumns


class Example(NamedTuple):
    """Calls with and without an option.

    Attributes:
        call: is called with options.
        option: the name of the option.
        value: its value.
        others: the options that both calls have.
    """

    call: Callable[..., object]
    option: str
    value: object
    others: Mapping[str, object]

    def outcome(self, *, with_option: bool) -> str:
        """What comes of a call, as text."""
        options = dict(self.others)
        if with_option:
            options[self.option] = self.value
        try:
            with warnings.catch_warnings(record=True) as emitted:
                warnings.simplefilter("always")
                found = self.call(**options)
            return f"{shown(found)} {[str(one.message) for one in emitted]}"
        except (MtlmonError, ValueError, TypeError, AssertionError, IndexError) as error:
            return f"{type(error).__name__}: {error}"


def shown(found: object) -> str:
    """What is found, as text that is always the same."""
    if isinstance(found, EventColumns):
        return f"{found.count} events"
    if isinstance(found, AnswerChanges):
        return f"{found.lines} {found.refused} {found.final_below}"
    if isinstance(found, Iterable) and not isinstance(found, str):
        return str([shown(one) for one in found])
    return str(found)


class Examples:
    """Examples by function and option.

    Attributes:
        of: the examples by the name of the function, then by that of the option.
    """

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Example]] = {}

    def example(
        self,
        function: str,
        call: Callable[..., object],
        others: Mapping[str, object] | None = None,
    ) -> Callable[..., None]:
        """Return what enters options of a function with values that matter."""

        def enter(**values: object) -> None:
            known = self.of.setdefault(function, {})
            for name, value in values.items():
                assert name not in known, f"{function} {name} is there twice"
                known[name] = Example(call, name, value, others or {})

        return enter

    def find(self, function: str, option: str) -> Example:
        """Return the example of an option."""
        found = self.of.get(function, {}).get(option)
        assert found is not None, f"{function} has an option {option} without an example here"
        return found


def is_record(one: type) -> bool:
    """Whether a class only has fields: these are no options."""
    return is_dataclass(one) or hasattr(one, "_fields")


def options_of(function: Any) -> list[str] | None:
    """The options of a function; None if it is native, so that only its stub tells."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    return [
        one.name
        for one in parameters
        if one.kind is one.KEYWORD_ONLY
        or (one.default is not one.empty and one.kind is one.POSITIONAL_OR_KEYWORD)
    ]


def options_of_stub(owner: type) -> list[str]:
    """The options of a native class, or of one that a native class makes, by its stub."""
    found = find_spec(owner.__module__)
    assert found is not None
    assert found.origin is not None
    stub = Path(found.origin).parent / f"{owner.__module__.rpartition('.')[2]}.pyi"
    if not stub.exists():
        return options_of_stub(owner.__mro__[1])
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    given = part.args.args[len(part.args.args) - len(part.args.defaults) :]
                    return [one.arg for one in (*given, *part.args.kwonlyargs)]
    return []


def public_options(
    modules: Sequence[str],
    passed_on: Mapping[str, Sequence[str]],
    no_options: Collection[str],
) -> list[tuple[str, str]]:
    """The options of all public functions and methods, each with the name of its function.

    Args:
        modules: the modules to look through.
        passed_on: the options of functions that take any.
        no_options: the functions that are left out.
    """
    found: dict[str, list[str]] = {}
    seen: set[int] = set()
    for module_name in modules:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            one = getattr(module, name)
            if id(one) in seen or not callable(one):
                continue
            seen.add(id(one))
            full = f"{module_name}.{name}"
            if not inspect.isclass(one):
                found[full] = options_of(one) or []
                continue
            if issubclass(one, BaseException) or is_record(one):
                continue
            own = options_of(one)
            found[full] = options_of_stub(one) if own is None else own
            for method_name, method in vars(one).items():
                plain = getattr(method, "__func__", method)
                if not method_name.startswith("_") and callable(plain):
                    found[f"{full}.{method_name}"] = options_of(plain) or []
    for full, names in passed_on.items():
        found[full] += [name for name in names if name not in found[full]]
    return [
        (full, name)
        for full, names in found.items()
        if full not in no_options
        for name in names
        if not name.startswith("_")
    ]
