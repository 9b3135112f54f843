"""The words of the language of predicates."""

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
"""They are no columns, and may be written in capitals too."""
