"""Files: resolve paths, and read rows of CSV, JSON lines, Parquet and Arrow.

`files` finds files and their formats. A reader for each format makes `blocks` of rows. Formats of
lines that match a pattern, of pairs and of XES are written as CSV or JSON lines first, so that
types and errors are those of one reader.
"""
