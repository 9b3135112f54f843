"""Monitors streaming data frames; the monitors of keys are in Spark's state store."""
