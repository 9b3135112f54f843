"""Arrays: buffers of numpy and Arrow as columns, cells and keys."""
