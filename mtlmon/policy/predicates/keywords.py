"""The words of expressions."""

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
"""They are not columns, and can also be written in capitals."""

CLAUSES = frozenset(
    {"per", "on", "for", "every", "from", "until", "as", "at", "severity", "message"}
)
"""They begin what follows an expression in a declaration; elsewhere they are columns."""
