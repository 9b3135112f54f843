"""The words for how serious a violation is."""

__all__ = ["SEVERITIES"]

SEVERITIES = ("info", "low", "medium", "high", "critical")
"""The words, from the least serious one to the most serious one."""
