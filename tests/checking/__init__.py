"""Several policies on logs with keys, in one pass."""
