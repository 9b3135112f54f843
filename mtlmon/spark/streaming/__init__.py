"""Streaming data frames: keys whose monitors rest in Spark's state store."""
