"""Runs over logs: the command and the library."""
