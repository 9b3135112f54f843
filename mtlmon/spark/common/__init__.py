"""Shared by all interfaces to Spark: rows as events, their order, and verdicts as columns."""
