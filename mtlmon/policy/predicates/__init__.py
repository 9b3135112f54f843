"""Predicates on columns, which define atoms: their language, types, and compilation to Arrow."""
