"""Columns: which are wanted, and what they say of times, keys and atoms."""
