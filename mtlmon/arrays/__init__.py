"""Arrays: read numpy and Arrow buffers as columns, cells and keys."""
