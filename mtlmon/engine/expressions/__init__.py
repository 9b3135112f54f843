"""Expressions: Boolean functions of undecided windows."""
