"""The keywords of predicates."""

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
"""They are not columns, and can also be written in capitals."""
