"""Formulas: syntax tree, parser, printer."""

from __future__ import annotations

from mtlmon.syntax.formula import Formula
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.parser import parse

__all__ = ["Formula", "Interval", "parse"]
