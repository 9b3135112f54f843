"""Monitors data at rest: data frames, partitions, files, SQL functions, and one long trace."""
