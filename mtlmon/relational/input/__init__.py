"""Logs and tables to time-points with rows."""
