"""Files: what paths stand for, and rows of CSV, JSON lines, Parquet and Arrow."""
