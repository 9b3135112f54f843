"""Traces: the states of many traces of one formula, saved compactly between their events."""
