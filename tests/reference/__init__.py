"""Independent references that the engine is compared with."""
