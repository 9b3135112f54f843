"""Reads MonPoly's signatures, which declare the relations of a log."""

from __future__ import annotations

import re

from mtlmon.monpoly.lexer import error_at
from mtlmon.support.other_words import type_hint

TYPES = ("int", "float", "string", "regexp")
"""The types of the arguments of relations."""

BUILT_IN = {"tp": ("int",), "ts": ("int",), "tpts": ("int", "int")}
"""The types of the arguments of the relations that every time-point has."""

_NAMES = {"tp": "point", "ts": "time"}

Signature = dict[str, tuple[str, ...]]
"""The types of the arguments of each relation by its name."""

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*|\(\*.*?\*\))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def read_signature(text: str, source: str = "<signature>") -> Signature:
    """Read a signature.

    Args:
        text: the content of the file, as in `publish(user: string, file: string) approve(string)`.
        source: its name in errors.

    Returns:
        The types of the arguments of each relation: int, float, string or regexp.

    Raises:
        PolicyError: the text is not a signature, or has records.

    >>> read_signature("publish(user: string, size: int) closed()")
    {'publish': ('string', 'int'), 'closed': ()}
    """
    return _Reader(text, source).read()


def name_in_formulas(relation: str) -> str:
    """How a relation is called in formulas, where `tp` is `point` and `ts` is `time`."""
    if relation in _NAMES.values():
        return f"{relation}'"
    return _NAMES.get(relation, relation)


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.place = 0

    def read(self) -> Signature:
        signature: Signature = {}
        while True:
            self.skip()
            if self.place == len(self.text):
                return signature
            start = self.place
            found = _WORD.match(self.text, start)
            if found is None:
                raise self.error("expected the name of a relation", "as in publish(user: string)")
            self.place = found.end()
            name = found.group()
            if name == "event" or self.peek() == "{":
                raise error_at(
                    self.text,
                    start,
                    "records are not supported",
                    self.source,
                    "declare a relation with an argument for each field that the formula uses",
                )
            self.expect("(")
            types = self.types()
            if name in BUILT_IN or name in signature:
                what = "built in" if name in BUILT_IN else "declared twice"
                hint = "give it another name"
                raise error_at(self.text, start, f"{name} is {what}", self.source, hint)
            signature[name] = types

    def types(self) -> tuple[str, ...]:
        """Read the arguments behind a parenthesis, and the parenthesis that closes them."""
        types: list[str] = []
        if self.peek() == ")":
            self.expect(")")
            return ()
        while True:
            self.skip()
            start = self.place
            found = _WORD.match(self.text, start)
            if found is None:
                raise self.error("expected an argument", f"its type is one of {', '.join(TYPES)}")
            self.place = found.end()
            if self.peek() == ":":
                self.expect(":")
                self.skip()
                start = self.place
                found = _WORD.match(self.text, start)
                if found is None:
                    raise self.error("expected a type", f"the types are {', '.join(TYPES)}")
                self.place = found.end()
            if found.group() not in TYPES:
                message = f"there is no type {found.group()}"
                hint = type_hint(found.group(), TYPES)
                raise error_at(self.text, start, message, self.source, hint)
            types.append(found.group())
            if self.peek() != ",":
                self.expect(")")
                return tuple(types)
            self.expect(",")

    def skip(self) -> None:
        found = _SKIPPED.match(self.text, self.place)
        assert found is not None
        self.place = found.end()

    def peek(self) -> str:
        self.skip()
        return self.text[self.place : self.place + 1]

    def expect(self, symbol: str) -> None:
        if self.peek() != symbol:
            shown = "the end" if self.place == len(self.text) else f"'{self.peek()}'"
            raise self.error(f"expected '{symbol}', not {shown}", "as in publish(user: string)")
        self.place += 1

    def error(self, message: str, hint: str) -> Exception:
        return error_at(self.text, self.place, message, self.source, hint)
