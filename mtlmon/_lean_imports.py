"""Keeps the command from importing what it never uses.

That is pandas, documentation, types for type checkers, translations, and a function of Python for
each of Arrow's 300 functions. Other versions of numpy and Arrow, which have other modules, are
loaded whole.

PERF: of 0.24 s of processor time for a table of one row, the functions of Arrow with their
documentation took 20 ms, that of numpy 8 ms, and its types 8 ms. pandas would take 180 ms. Of 38 ms
for a text log, looking for translations of argparse took 1.3 ms.
"""

from __future__ import annotations

# always there, unlike `importlib.machinery`
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import PathFinder
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from types import ModuleType

__all__ = ["LeanFinder"]


class LeanFinder:
    """Finds less than there is, as an entry of `sys.meta_path`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, _target: object = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("the command mtlmon does without pandas", name=name)
        if name in _DOCUMENTATION:
            return ModuleSpec(name, _NoDocumentation())  # type: ignore[arg-type]
        lean = _LEAN.get(name)
        spec = lean and PathFinder.find_spec(name, path)
        if not lean or not spec or not spec.loader:
            return None
        spec.loader = lean(spec.loader)  # type: ignore[assignment]
        return spec


class _NoDocumentation:
    """Loads a module that has nothing but documentation as one that has none."""

    def create_module(self, _spec: ModuleSpec) -> None:
        """Leave the creation to Python."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_DOCUMENTATION[module.__name__])


class _Later(_NoDocumentation):
    """Loads a module once something of it is used besides the few names that are always used."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        lock = RLock()

        def of_all(name: str) -> object:
            if name.startswith("__") and name != "__all__":
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            with lock:
                if module.__dict__.get("__getattr__") is of_all:
                    del module.__dict__["__getattr__"]
                    try:
                        self._loader.exec_module(module)
                    except BaseException:
                        module.__dict__["__getattr__"] = of_all
                        raise
            return getattr(module, name)

        module.__dict__.update(_ALWAYS_USED[module.__name__], __getattr__=of_all)


class _LaterFunctions(_Later):
    """Loads `pyarrow.compute`, which makes each of its functions when that is first used."""

    def exec_module(self, module: ModuleType) -> None:
        import pyarrow._compute as native

        registry = native.function_registry()
        before = dict(module.__dict__)

        class Few:
            get_function = registry.get_function

            @staticmethod
            def list_functions() -> list[str]:
                # the one that the module gives another name to
                return ["utf8_zero_fill"]

        registry_of = native.function_registry
        native.function_registry = Few
        try:
            self._loader.exec_module(module)
            wrapped = module._wrap_function
        except (AttributeError, LookupError, TypeError):
            wrapped = None
        finally:
            native.function_registry = registry_of
        if wrapped is None:
            module.__dict__.clear()
            module.__dict__.update(before)
            self._loader.exec_module(module)
            return

        def function(name: str) -> object:
            if name == "__all__":
                for each in registry.list_functions():
                    hasattr(module, each)  # makes it
                return [each for each in module.__dict__ if not each.startswith("_")]
            try:
                found = registry.get_function(name.removesuffix("_"))
            except KeyError:
                found = None
            # as Arrow does, without those that are for groups
            if found is None or (
                found.kind == "hash_aggregate"
                or (found.kind == "scalar_aggregate" and found.arity == 0)
            ):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            made = module.__dict__[name] = wrapped(name, found)
            return made

        module.__dict__.update(function_registry=registry_of, __getattr__=function)


_DOCUMENTATION: dict[str, dict[str, object]] = {
    "numpy._core._add_newdocs": {},
    "numpy._core._add_newdocs_scalars": {},
    "pyarrow._compute_docstrings": {"function_doc_additions": {}},
    "pyarrow.vendored.docscrape": {"NumpyDocString": lambda _text: {"Parameters": ()}},
}
_ALWAYS_USED: dict[str, dict[str, object]] = {
    # in annotations
    "numpy._typing": {"NDArray": list},
    # in argparse, of which nobody has translations
    "gettext": {
        "gettext": lambda text: text,
        "ngettext": lambda one, many, count: one if count == 1 else many,
    },
}
_LEAN = {**dict.fromkeys(_ALWAYS_USED, _Later), "pyarrow.compute": _LaterFunctions}
