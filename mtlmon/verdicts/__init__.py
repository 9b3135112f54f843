"""Verdicts: equivalences to Booleans, in order, in arrays."""
