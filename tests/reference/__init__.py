"""Two independent references that the engine is compared with."""
