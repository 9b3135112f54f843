# cython: language_level=3
"""Declarations of the compiled unit for syntax: no other unit uses it."""
