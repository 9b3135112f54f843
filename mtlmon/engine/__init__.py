"""The engine: one formula, one state, one event at a time."""
