"""Verdicts: resolving equivalences, sorting verdicts, and storing them in arrays."""
