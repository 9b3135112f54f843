"""Traces: many traces of one formula, each at rest between its events."""
