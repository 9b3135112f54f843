"""Files: resolve paths, and read rows of CSV, JSON lines, Parquet and Arrow."""
