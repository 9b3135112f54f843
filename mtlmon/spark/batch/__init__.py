"""Data that is at rest: data frames, partitions, files, functions of SQL, one long trace."""
