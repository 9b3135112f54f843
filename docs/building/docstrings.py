"""Makes the package's docstrings ready for the reference: an extension of griffe.

Signatures of native modules are in their stubs, and not all are known to the modules. What Cython
writes of them into docstrings is left out. Sessions become fenced blocks, or Markdown would take
their prompts for quotations.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe

if TYPE_CHECKING:
    from collections.abc import Iterator

# A session goes on to a blank line, or to the end of the docstring.
_SESSION = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class Docstrings(griffe.Extension):
    """Signatures from stubs, sessions fenced."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rework a package that is loaded."""
        for package, module in _modules(pkg):
            path = module.filepath
            if isinstance(path, Path) and path.suffix == ".so":
                stub = path.parent / f"{module.name}.pyi"
                if stub.exists():
                    text = stub.read_text(encoding="utf-8")
                    described = griffe.visit(module.name, stub, text, parent=package)
                    _take_signatures(module, described)
        for item in _objects(pkg):
            if item.docstring is not None:
                text = _SESSION.sub(r"```pycon\n\g<0>\n```", item.docstring.value)
                item.docstring.value = text.replace("\n<BLANKLINE>\n", "\n\n")


def _modules(package: griffe.Module) -> Iterator[tuple[griffe.Module, griffe.Module]]:
    """Packages with their modules."""
    for module in package.modules.values():
        if isinstance(module, griffe.Module):
            yield package, module
            yield from _modules(module)


def _objects(item: griffe.Object) -> Iterator[griffe.Object]:
    yield item
    for member in item.members.values():
        if isinstance(member, griffe.Object):
            yield from _objects(member)


def _take_signatures(native: griffe.Object, stub: griffe.Object) -> None:
    """Take those of the stub, and what Cython says of them out of the docstrings."""
    for name, member in native.members.items():
        described = stub.members.get(name)
        if isinstance(member, griffe.Function) and isinstance(described, griffe.Function):
            member.parameters = described.parameters
            member.labels = described.labels
        if isinstance(member, griffe.Object) and member.docstring is not None:
            first, _, rest = member.docstring.value.partition("\n")
            if re.fullmatch(rf"(\w+\.)?{name}\(.*\)", first):
                member.docstring.value = rest.lstrip("\n")
        if isinstance(member, griffe.Class) and isinstance(described, griffe.Class):
            _take_signatures(member, described)
