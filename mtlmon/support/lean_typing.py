"""What classes use of `typing` when they are made, without that module.

PERF: `typing` takes 5 ms to import, of 30 ms that the command takes longer with a file of several
policies than with one. It also compiles the annotation of each field of a named tuple, 0.3 ms for
ten fields.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, NamedTuple, Protocol, TypeVar, cast
else:
    from collections import namedtuple

    class _Made(type):
        """Makes a named tuple of a class that names its fields by annotations."""

        def __new__(kind, name, bases, content):
            if not bases:
                return super().__new__(kind, name, bases, content)
            fields = content.pop("__annotations__", {})
            defaults = [content.pop(field) for field in fields if field in content]
            made = namedtuple(name, fields, defaults=defaults)
            made.__annotations__ = fields
            for key, value in content.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Made):
        """The base of named tuples; theirs is `tuple`."""

    class Generic:
        """The base of classes that take types as parameters."""

        __slots__ = ()

        def __class_getitem__(cls, _types):
            return cls

    class Protocol(Generic):
        """The base of interfaces."""

        __slots__ = ()

    def TypeVar(name, **_):
        return name

    def cast(_type, value):
        return value


__all__ = ["Generic", "NamedTuple", "Protocol", "TypeVar", "cast"]
